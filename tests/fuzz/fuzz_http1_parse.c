/* SPDX-License-Identifier: MIT
 *
 * The reader of HTTP requests: any bytes, whole and in two parts, say the same, and what it says is
 * about bytes that are there. The first byte chooses where the input is split. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/http1/http1_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Parses a copy of exactly this length. */
static enum http1_result parse(struct http1_request *request, const uint8_t *data, size_t size,
                               size_t *used)
{
    char *copy = malloc(size > 0 ? size : 1);
    require(copy != NULL);
    memcpy(copy, data, size);
    enum http1_result result = http1_parse(request, (struct bytes){copy, size}, used);
    free(copy);
    return result;
}

static void check_slice(struct http1_slice slice, size_t used)
{
    require(slice.at <= used && slice.length <= used - slice.at);
}

static void check_done(const struct http1_request *request, const uint8_t *data, size_t used)
{
    check_slice(request->target, used);
    check_slice(request->fields, used);
    check_slice(request->body, used);
    for (int i = 0; i < HTTP1_FIELD_COUNT; i++) {
        check_slice(request->field[i], used);
    }
    require(request->target.length > 0 && request->body_bytes <= HTTP1_BODY_BYTES_MAX);
    char *body = malloc(request->body_bytes + 1);
    require(body != NULL);
    http1_body_copy(request, (const char *)data, body);
    free(body);
    struct bytes fields = http1_slice_bytes((const char *)data, request->fields);
    struct bytes name;
    struct bytes value;
    for (size_t at = 0; http1_field_next(fields, &at, &name, &value);) {
        require(name.length > 0 && at <= fields.length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    size_t split = (size_t)data[0] * 4 % size;
    data++;
    size--;
    struct http1_request whole = {0};
    struct http1_request parts = {0};
    size_t used = 0;
    size_t parts_used = 0;
    enum http1_result result = parse(&whole, data, size, &used);
    enum http1_result parts_result = parse(&parts, data, split, &parts_used);
    if (parts_result == HTTP1_MORE) {
        parts_result = parse(&parts, data, size, &parts_used);
    }
    require(result == parts_result && used == parts_used);
    require(whole.status == parts.status && whole.bad_at == parts.bad_at);
    if (result == HTTP1_DONE) {
        require(used <= size);
        check_done(&whole, data, used);
    } else if (result == HTTP1_BAD) {
        require(whole.status >= 400 && whole.reason != NULL && whole.bad_at <= size);
    }
    return 0;
}
