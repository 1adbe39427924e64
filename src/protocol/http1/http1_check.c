/* SPDX-License-Identifier: MIT
 *
 * GET /v1/check: the question that proxies ask before they let a request pass.
 *
 *     /v1/check?key=login:alice&limit=10/s&cost=1
 *     /v1/check?by=address&limit=10/s&cost=1
 *     /v1/check?by=address&limit=10/s, 100/min
 *     /v1/check?key=login:alice&limit=queue 10/s&wait_ms=500
 *
 * The key and the cost may come in X-Weir-Key and X-Weir-Cost instead; the query wins, since what
 * the operator wrote there no client can change. The limit and how long to wait come from the query
 * only. Whatever follows `rest=` is not read: room for proxies that append the client's own target
 * (Envoy). */
#include <string.h>

#include "protocol/http1/http1_batch.h"
#include "protocol/http1/http1_query.h"

enum parameter {
    PARAMETER_KEY,
    PARAMETER_LIMIT,
    PARAMETER_COST,
    PARAMETER_BY,
    PARAMETER_WAIT,
    PARAMETER_COUNT
};
static const char *const PARAMETER_NAMES[PARAMETER_COUNT] = {"key", "limit", "cost", "by",
                                                             "wait_ms"};

/* What the query says; `at` is NULL where it says nothing. */
struct check {
    struct bytes value[PARAMETER_COUNT];
};

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes.length == strlen(text) && memcmp(bytes.at, text, bytes.length) == 0;
}

static int shown(struct bytes text)
{
    return text.length < 64 ? (int)text.length : 64;
}

/* Notes one NAME=VALUE. */
static bool read_parameter(struct http1_batch *batch, struct http1_task *task, struct check *check,
                           struct bytes name, struct bytes value, struct bytes query)
{
    for (int i = 0; i < PARAMETER_COUNT; i++) {
        if (!is_text(name, PARAMETER_NAMES[i])) {
            continue;
        }
        if (check->value[i].at != NULL) {
            return http1_task_fail(task, 400, "the query says %s= twice", PARAMETER_NAMES[i]);
        }
        size_t used;
        if (!query_decode(&value, batch->room + batch->room_used, &used)) {
            return http1_task_fail(task, 400, "the query, byte %zu: %% must begin %%XX, in hex",
                                   (size_t)(value.at - query.at));
        }
        batch->room_used += used;
        check->value[i] = value;
        return true;
    }
    return http1_task_fail(task, 400,
                           "the query says \"%.*s\": there are key, by, limit, cost, wait_ms and "
                           "rest",
                           shown(name), name.at);
}

static bool read_query(struct http1_batch *batch, struct http1_task *task, struct check *check,
                       struct bytes query)
{
    struct bytes rest = query;
    struct bytes name;
    struct bytes value;
    while (query_next(&rest, &name, &value)) {
        if (is_text(name, "rest")) {
            break;
        }
        if (!read_parameter(batch, task, check, name, value, query)) {
            return false;
        }
    }
    return true;
}

/* Fills *value from a header field, if the query said nothing and the field is there once. */
static bool read_header(struct http1_task *task, const struct http1_incoming *incoming,
                        enum http1_field field, const char *name, struct bytes *value)
{
    if (value->at != NULL || !http1_has(incoming->request, field)) {
        return true;
    }
    if ((incoming->request->repeated >> field & 1) != 0) {
        return http1_task_fail(task, 400, "%s is there twice", name);
    }
    *value = http1_slice_bytes(incoming->base, incoming->request->field[field]);
    return true;
}

/* The client's address, as the operator asked for with by=address. */
static bool read_address(struct http1_batch *batch, const struct service *service,
                         struct http1_task *task, const struct http1_incoming *incoming,
                         const struct check *check, struct bytes *key)
{
    if (!is_text(check->value[PARAMETER_BY], "address")) {
        return http1_task_fail(task, 400, "by= can only be by=address");
    }
    if (check->value[PARAMETER_KEY].at != NULL) {
        return http1_task_fail(task, 400, "key= and by=address exclude each other");
    }
    char *text = batch->room + batch->room_used;
    size_t length = http1_client_address(service->config, task, incoming, text);
    batch->room_used += length;
    *key = (struct bytes){text, length};
    return length > 0;
}

static bool read_key(struct http1_batch *batch, const struct service *service,
                     struct http1_task *task, const struct http1_incoming *incoming,
                     const struct check *check, struct bytes *key)
{
    if (check->value[PARAMETER_BY].at != NULL) {
        return read_address(batch, service, task, incoming, check, key);
    }
    *key = check->value[PARAMETER_KEY];
    if (!read_header(task, incoming, HTTP1_X_WEIR_KEY, "X-Weir-Key", key)) {
        return false;
    }
    if (key->length == 0) {
        return http1_task_fail(task, 400, "the key is missing: say key=, by=address or X-Weir-Key");
    }
    return true;
}

static bool read_cost(struct http1_task *task, const struct http1_incoming *incoming,
                      struct check *check)
{
    struct weir_error error;
    struct bytes *cost = &check->value[PARAMETER_COST];
    if (!read_header(task, incoming, HTTP1_X_WEIR_COST, "X-Weir-Cost", cost)) {
        return false;
    }
    if (cost->at == NULL) {
        task->cost_micro = WEIR_UNIT;
        return true;
    }
    if (weir_cost_parse(&task->cost_micro, cost->at, cost->length, &error) != WEIR_OK) {
        return http1_task_fail(task, 400, "the cost, byte %zu: %s", error.offset, error.message);
    }
    return true;
}

/* Digits, at most ENGINE_WAIT_MS_MAX. */
static bool read_wait(struct http1_task *task, struct bytes text)
{
    uint64_t wait_ms = 0;
    bool is_number = text.at == NULL || text.length > 0;
    for (size_t i = 0; i < text.length && is_number; i++) {
        is_number = text.at[i] >= '0' && text.at[i] <= '9' && wait_ms <= ENGINE_WAIT_MS_MAX;
        wait_ms = wait_ms * 10 + (uint64_t)(text.at[i] - '0');
    }
    if (!is_number || wait_ms > ENGINE_WAIT_MS_MAX) {
        return http1_task_fail(task, 400, "wait_ms must be a whole number from 0 to %d (24 hours)",
                               ENGINE_WAIT_MS_MAX);
    }
    task->wait_ns = wait_ms * 1000000;
    return true;
}

bool http1_check_read(struct http1_batch *batch, const struct service *service,
                      struct http1_task *task, const struct http1_incoming *incoming,
                      struct bytes query, struct json_pair *pair)
{
    struct check check = {0};
    if (!read_query(batch, task, &check, query)
        || !read_key(batch, service, task, incoming, &check, &pair->key)
        || !read_cost(task, incoming, &check) || !read_wait(task, check.value[PARAMETER_WAIT])) {
        return false;
    }
    pair->limit = check.value[PARAMETER_LIMIT];
    if (pair->limit.length == 0) {
        return http1_task_fail(task, 400, "the limit is missing: say limit=10/s");
    }
    return true;
}
