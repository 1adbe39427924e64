/* SPDX-License-Identifier: MIT
 *
 * Reading questions in JSON, by jansson. It refuses what is not UTF-8, keys given twice, more than
 * 2048 levels and numbers beyond 64 bits or a double; the caller bounds the length. */
#include "protocol/json/json_request.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "protocol/engine.h"

/* What json_question_read() is working on. */
struct reading {
    struct json_question *question;
    enum json_form form;
    char where[32]; // "limits[2]: ", before what is said of a member
    char *room;
    size_t used;
    char *error;
};

__attribute__((format(printf, 2, 3))) static enum json_result bad(struct reading *reading,
                                                                  const char *format, ...)
{
    va_list args;
    size_t length = strlen(reading->where);
    va_start(args, format);
    memcpy(reading->error, reading->where, length);
    (void)vsnprintf(reading->error + length, JSON_ERROR_TEXT_MAX - length, format, args);
    va_end(args);
    return JSON_BAD;
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: break;
    }
    return "null";
}

/* Copies a string of 1 .. bytes_max bytes to the room. */
static enum json_result read_text(struct reading *reading, const char *name, const json_t *value,
                                  size_t bytes_max, struct bytes *text)
{
    if (!json_is_string(value)) {
        return bad(reading, "\"%s\" must be a string, not %s", name, type_name(value));
    }
    size_t length = json_string_length(value);
    if (length == 0 || length > bytes_max) {
        return bad(reading, "\"%s\" has %zu bytes: it must have 1 to %zu", name, length, bytes_max);
    }
    *text = (struct bytes){reading->room + reading->used, length};
    memcpy(reading->room + reading->used, json_string_value(value), length);
    reading->used += length;
    return JSON_OK;
}

/* The strings of an array, joined: each takes more room where it comes from. */
static enum json_result read_list(struct reading *reading, const json_t *array, struct bytes *text)
{
    struct bytes list = {reading->room + reading->used, 0};
    size_t count = json_array_size(array);
    if (count == 0 || count > LIMIT_LIST_COUNT_MAX) {
        return bad(reading, "\"limit\" has %zu limits: it must have 1 to %d", count,
                   (int)LIMIT_LIST_COUNT_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        char name[32];
        struct bytes unused;
        (void)snprintf(name, sizeof name, "limit[%zu]", i);
        if (i > 0) {
            memcpy(reading->room + reading->used, ", ", 2);
            reading->used += 2;
        }
        enum json_result result =
            read_text(reading, name, json_array_get(array, i), WEIR_LIMIT_TEXT_MAX, &unused);
        if (result != JSON_OK) {
            return result;
        }
    }
    list.length = (size_t)(reading->room + reading->used - list.at);
    *text = list;
    return JSON_OK;
}

static enum json_result read_limit(struct reading *reading, const json_t *value, struct bytes *text)
{
    return json_is_array(value) ? read_list(reading, value, text)
                                : read_text(reading, "limit", value, LIMIT_LIST_TEXT_MAX, text);
}

/* Whether a number that is not 0 became 0 at six decimal places. */
static bool is_lost(double value, const char *digits)
{
    return value > 0 && strcmp(digits, "0.000000") == 0;
}

/* Every kind of number goes through its decimal text, so nothing is computed in floating point. */
static enum json_result read_cost(struct reading *reading, const json_t *value)
{
    char digits[400]; // the largest double has 309 digits, and 6 places more
    const char *text = digits;
    size_t length;
    struct weir_error error;
    if (json_is_string(value)) {
        text = json_string_value(value);
        length = json_string_length(value);
    } else if (json_is_integer(value)) {
        length = (size_t)snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT,
                                  json_integer_value(value));
    } else if (json_is_real(value)) {
        length = (size_t)snprintf(digits, sizeof digits, "%.6f", json_real_value(value));
        if (is_lost(json_real_value(value), digits)) {
            return bad(reading, "\"cost\" is above 0 and nearer to it than to a millionth");
        }
    } else {
        return bad(reading, "\"cost\" must be a number or a decimal string, not %s",
                   type_name(value));
    }
    if (weir_cost_parse(&reading->question->cost_micro, text, length, &error) != WEIR_OK) {
        return bad(reading, "\"cost\", byte %zu: %s", error.offset, error.message);
    }
    return JSON_OK;
}

static enum json_result read_wait(struct reading *reading, const json_t *value)
{
    json_int_t wait_ms = json_integer_value(value); // 0 if it is none
    if (!json_is_integer(value) || wait_ms < 0 || wait_ms > ENGINE_WAIT_MS_MAX) {
        return bad(reading, "\"wait_ms\" must be a whole number from 0 to %d (24 hours)",
                   ENGINE_WAIT_MS_MAX);
    }
    reading->question->wait_ns = (uint64_t)wait_ms * 1000000;
    return JSON_OK;
}

static enum json_result read_block(struct reading *reading, const json_t *value)
{
    json_int_t block_ms = json_integer_value(value); // 0 if it is none
    if (block_ms < 1 || block_ms > (json_int_t)ENGINE_BLOCK_MS_MAX) {
        return bad(reading,
                   "\"block_ms\" must be a whole number from 1 to %" JSON_INTEGER_FORMAT
                   " (100 years)",
                   (json_int_t)ENGINE_BLOCK_MS_MAX);
    }
    reading->question->block_ns = (uint64_t)block_ms * 1000000;
    return JSON_OK;
}

/* {"user": "alice"}: what the keys of chains are made of. */
static enum json_result read_variables(struct reading *reading, json_t *object)
{
    if (!json_is_object(object)) {
        return bad(reading, "\"vars\" must be an object, not %s", type_name(object));
    }
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        struct bytes text;
        size_t length = strlen(name);
        char *copy = reading->room + reading->used;
        memcpy(copy, name, length);
        reading->used += length;
        char where[80];
        (void)snprintf(where, sizeof where, "vars.%.64s", name);
        enum json_result result = read_text(reading, where, value, WEIR_KEY_BYTES_MAX, &text);
        if (result != JSON_OK) {
            return result;
        }
        if (!variables_add(&reading->question->variables, (struct bytes){copy, length}, text)) {
            return bad(reading, "\"vars\" has more than %d members", VARIABLE_COUNT_MAX);
        }
    }
    return JSON_OK;
}

/* What a question about one key has beside cost and wait_ms, and each member of "limits" alone. */
static enum json_result read_pair_field(struct reading *reading, struct json_pair *pair,
                                        const char *name, const json_t *value, const char *rest)
{
    if (strcmp(name, "key") == 0) {
        return read_text(reading, "key", value, WEIR_KEY_BYTES_MAX, &pair->key);
    }
    if (strcmp(name, "limit") == 0) {
        return read_limit(reading, value, &pair->limit);
    }
    return bad(reading, "unknown field \"%.64s\": there are key%s", name, rest);
}

/* A chain may do without a key, so whoever knows what the limit is asks for that. */
static enum json_result check_pair(struct reading *reading, const struct json_pair *pair)
{
    return pair->limit.length > 0 ? JSON_OK : bad(reading, "\"limit\" is missing");
}

/* {"key": .., "limit": ..}, and nothing else. */
static enum json_result read_pair(struct reading *reading, struct json_pair *pair, json_t *object)
{
    if (!json_is_object(object)) {
        return bad(reading, "it must be an object, not %s", type_name(object));
    }
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        enum json_result result = read_pair_field(reading, pair, name, value, " and limit");
        if (result != JSON_OK) {
            return result;
        }
    }
    return check_pair(reading, pair);
}

static enum json_result read_pairs(struct reading *reading, const json_t *array)
{
    struct json_question *question = reading->question;
    size_t count = json_array_size(array); // 0 if it is none
    if (!json_is_array(array)) {
        return bad(reading, "\"limits\" must be an array, not %s", type_name(array));
    }
    if (count == 0 || count > LIMIT_LIST_COUNT_MAX) {
        return bad(reading, "\"limits\" has %zu members: it must have 1 to %d", count,
                   (int)LIMIT_LIST_COUNT_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(reading->where, sizeof reading->where, "limits[%zu]: ", i);
        enum json_result result = read_pair(reading, &question->pairs[i], json_array_get(array, i));
        if (result != JSON_OK) {
            return result;
        }
    }
    reading->where[0] = '\0';
    question->pair_count = count;
    return JSON_OK;
}

static enum json_result read_field(struct reading *reading, const char *name, json_t *value)
{
    struct json_question *question = reading->question;
    if (strcmp(name, "cost") == 0) {
        question->has_cost = true;
        return read_cost(reading, value);
    }
    if (strcmp(name, "wait_ms") == 0) {
        question->has_wait = true;
        return read_wait(reading, value);
    }
    if (reading->form == JSON_ONE_KEY && strcmp(name, "block_ms") == 0) {
        question->has_block = true;
        return read_block(reading, value);
    }
    if (strcmp(name, "vars") == 0) {
        return read_variables(reading, value);
    }
    if (reading->form == JSON_ONE_KEY) {
        question->pair_count = 1;
        return read_pair_field(reading, &question->pairs[0], name, value,
                               ", limit, cost, wait_ms and vars");
    }
    if (strcmp(name, "limits") == 0) {
        return read_pairs(reading, value);
    }
    return bad(reading, "unknown field \"%.64s\": there are limits, cost, wait_ms and vars", name);
}

static enum json_result read_object(struct reading *reading, json_t *object)
{
    if (!json_is_object(object)) {
        return bad(reading, "the body must be an object, not %s", type_name(object));
    }
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        enum json_result result = read_field(reading, name, value);
        if (result != JSON_OK) {
            return result;
        }
    }
    if (reading->form == JSON_ONE_KEY) {
        return check_pair(reading, &reading->question->pairs[0]);
    }
    return reading->question->pair_count > 0 ? JSON_OK : bad(reading, "\"limits\" is missing");
}

enum json_result json_question_read(struct json_question *question, enum json_form form,
                                    struct bytes body, char *room, size_t *used, char *error)
{
    struct reading reading = {.question = question, .form = form, .room = room, .error = error};
    json_error_t where;
    *question = (struct json_question){.cost_micro = WEIR_UNIT};
    if (body.length == 0) {
        return bad(&reading, "the body is empty: send %s",
                   form == JSON_ONE_KEY ? "{\"key\": ..., \"limit\": ...}"
                                        : "{\"limits\": [{\"key\": ..., \"limit\": ...}]}");
    }
    json_t *root = json_loadb(body.at, body.length,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (root == NULL) {
        return json_error_code(&where) == json_error_out_of_memory
                   ? JSON_NO_MEMORY
                   : bad(&reading, "line %d, column %d: %s", where.line, where.column, where.text);
    }
    enum json_result result = read_object(&reading, root);
    json_decref(root);
    *used = reading.used;
    return result;
}
