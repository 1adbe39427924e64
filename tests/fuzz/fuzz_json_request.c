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

static void check_question(const struct json_question *question, size_t used)
{
    size_t length = 0;
    require(question->pair_count >= 1 && question->pair_count <= LIMIT_LIST_COUNT_MAX);
    for (size_t i = 0; i < question->pair_count; i++) {
        const struct json_pair *pair = &question->pairs[i];
        require(pair->key.length >= 1 && pair->key.length <= WEIR_KEY_BYTES_MAX);
        require(pair->limit.length >= 1 && pair->limit.length <= LIMIT_LIST_TEXT_MAX);
        check_escape(pair->key);
        length += pair->key.length + pair->limit.length;
    }
    require(length == used);
    require(question->cost_micro <= WEIR_COST_MAX);
}

static void check_form(enum json_form form, struct bytes body)
{
    char error[JSON_ERROR_TEXT_MAX];
    struct json_question question;
    size_t used = 0;
    char *room = malloc(body.length + 1); // a sanitizer sees the second byte beyond
    require(room != NULL);
    switch (json_question_read(&question, form, body, room, &used, error)) {
    case JSON_OK:
        require(used <= body.length);
        check_question(&question, used);
        break;
    case JSON_BAD:
        require(strlen(error) > 0);
        check_escape((struct bytes){error, strlen(error)});
        break;
    case JSON_NO_MEMORY: break;
    }
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 64 * 1024) {
        return 0;
    }
    struct bytes body = {(const char *)data, size};
    check_escape(body);
    check_form(JSON_ONE_KEY, body);
    check_form(JSON_SEVERAL_KEYS, body);
    return 0;
}
