/* SPDX-License-Identifier: MIT
 *
 * Questions in JSON: what is accepted is within its limits, what is not is explained, and either
 * can be written as JSON again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json/json_request.h"
#include "protocol/json/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_escape(struct bytes text)
{
    char *out = malloc(text.length * JSON_ESCAPED_BYTES_MAX + 1);
    require(out != NULL);
    char *end = json_put_escaped(out, text);
    require((size_t)(end - out) <= text.length * JSON_ESCAPED_BYTES_MAX);
    for (const char *at = out; at < end; at++) {
        require((unsigned char)*at >= 0x20);
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char room[WEIR_KEY_BYTES_MAX + WEIR_LIMIT_TEXT_MAX];
    char error[JSON_ERROR_TEXT_MAX];
    struct json_question question;
    size_t used = 0;
    if (size > 64 * 1024) {
        return 0;
    }
    struct bytes body = {(const char *)data, size};
    check_escape(body);
    switch (json_question_read(&question, body, room, &used, error)) {
    case JSON_OK:
        require(used == question.key.length + question.limit.length && used <= sizeof room);
        require(question.key.length >= 1 && question.key.length <= WEIR_KEY_BYTES_MAX);
        require(question.limit.length >= 1 && question.limit.length <= WEIR_LIMIT_TEXT_MAX);
        require(question.cost_micro <= WEIR_COST_MAX);
        check_escape(question.key);
        break;
    case JSON_BAD:
        require(strlen(error) > 0);
        check_escape((struct bytes){error, strlen(error)});
        break;
    case JSON_NO_MEMORY: break;
    }
    return 0;
}
