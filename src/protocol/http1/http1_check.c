/* SPDX-License-Identifier: MIT
 *
 * GET /v1/check: the question that proxies ask before they let a request pass.
 *
 *     /v1/check?key=login:alice&limit=10/s&cost=1
 *     /v1/check?by=address&limit=10/s&cost=1
 *     /v1/check?by=address&limit=10/s, 100/min
 *     /v1/check?key=login:alice&limit=queue 10/s&wait_ms=500
 *     /v1/check?limit=request&var.user=alice&var.tenant=acme
 *     /v1/check?by=address&route=forwarded
 *
 * The key and the cost may come in X-Weir-Key and X-Weir-Cost instead; the query wins, since what
 * the operator wrote there no client can change; X-Weir-Var-USER is the same for var.user. The limit
 * and how long to wait come from the query only; with `route=` the limit and the cost are those that
 * the configuration has for the method and the path of the proxy's client, and the word says where
 * these are: in X-Forwarded-Method and X-Forwarded-Uri, in X-Original-Method and X-Original-URI, or,
 * with route=rest, in this request's own method and behind `rest=`. Whatever follows `rest=` is not
 * read otherwise: room for proxies that append the client's own target (Envoy). */
#include <string.h>

#include "protocol/http1/http1_batch.h"
#include "protocol/http1/http1_query.h"

enum parameter {
    PARAMETER_KEY,
    PARAMETER_LIMIT,
    PARAMETER_COST,
    PARAMETER_BY,
    PARAMETER_WAIT,
    PARAMETER_ROUTE,
    PARAMETER_COUNT
};
static const char *const PARAMETER_NAMES[PARAMETER_COUNT] = {"key", "limit",   "cost",
                                                             "by",  "wait_ms", "route"};

/* What the query says; `at` is NULL where it says nothing. */
struct check {
    struct bytes value[PARAMETER_COUNT];
    struct bytes rest; // what follows rest=
    struct variables *variables;
};

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes.length == strlen(text) && memcmp(bytes.at, text, bytes.length) == 0;
}

static int shown(struct bytes text)
{
    return text.length < 64 ? (int)text.length : 64;
}

static bool decode(struct http1_batch *batch, struct http1_task *task, struct bytes *value,
                   struct bytes query)
{
    size_t used;
    if (!query_decode(value, batch->room + batch->room_used, &used)) {
        return http1_task_fail(task, 400, "the query, byte %zu: %% must begin %%XX, in hex",
                               (size_t)(value->at - query.at));
    }
    batch->room_used += used;
    return true;
}

static bool add_variable(struct http1_task *task, struct check *check, struct bytes name,
                         struct bytes value)
{
    return variables_add(check->variables, name, value)
           || http1_task_fail(task, 400, "the variable '%.*s' is there twice, or more than %d are",
                              shown(name), name.at, VARIABLE_COUNT_MAX);
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
        if (!decode(batch, task, &value, query)) {
            return false;
        }
        check->value[i] = value;
        return true;
    }
    if (name.length > 4 && memcmp(name.at, "var.", 4) == 0) {
        return decode(batch, task, &value, query)
               && add_variable(task, check, (struct bytes){name.at + 4, name.length - 4}, value);
    }
    return http1_task_fail(task, 400,
                           "the query says '%.*s': there are key, by, limit, cost, wait_ms, route, "
                           "var.NAME and rest",
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
            size_t length = (size_t)(query.at + query.length - value.at);
            check->rest = (struct bytes){value.at, length};
            break;
        }
        if (!read_parameter(batch, task, check, name, value, query)) {
            return false;
        }
    }
    return true;
}

/* Finds a header field that is there at most once; `lower` in small letters. `at` is NULL without. */
static bool find_field(struct http1_task *task, const struct http1_incoming *incoming,
                       const char *lower, struct bytes *found)
{
    struct bytes fields = http1_slice_bytes(incoming->base, incoming->request->fields);
    struct bytes name;
    struct bytes value;
    size_t at = 0;
    *found = (struct bytes){NULL, 0};
    while (http1_field_next(fields, &at, &name, &value)) {
        if (!http1_is_word(name, lower)) {
            continue;
        }
        if (found->at != NULL) {
            return http1_task_fail(task, 400, "%s is there twice", lower);
        }
        *found = value;
    }
    return true;
}

static bool has_variable(const struct variables *variables, struct bytes name)
{
    for (size_t i = 0; i < variables->count; i++) {
        const struct bytes *there = &variables->entries[i].name;
        if (there->length == name.length && memcmp(there->at, name.at, name.length) == 0) {
            return true;
        }
    }
    return false;
}

/* X-Weir-Var-USER: alice. The query has said its own before, and wins. */
static bool read_variable_fields(struct http1_batch *batch, struct http1_task *task,
                                 const struct http1_incoming *incoming, struct check *check)
{
    static const char prefix[] = "x-weir-var-";
    const size_t prefix_len = sizeof prefix - 1;
    const struct variables of_query = *check->variables;
    struct bytes fields = http1_slice_bytes(incoming->base, incoming->request->fields);
    struct bytes name;
    struct bytes value;
    size_t at = 0;
    while (http1_field_next(fields, &at, &name, &value)) {
        if (name.length <= prefix_len
            || !http1_is_word((struct bytes){name.at, prefix_len}, prefix)) {
            continue;
        }
        struct bytes lower = {batch->room + batch->room_used, name.length - prefix_len};
        char *to = batch->room + batch->room_used;
        for (size_t i = 0; i < lower.length; i++) {
            char c = name.at[prefix_len + i];
            to[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
        batch->room_used += lower.length;
        if (!has_variable(&of_query, lower) && !add_variable(task, check, lower, value)) {
            return false;
        }
    }
    return true;
}

/* ---- Routes ---- */

/* Where the method and the target of the proxy's client are. */
static bool find_target(struct http1_task *task, const struct http1_incoming *incoming,
                        const struct check *check, struct bytes *method, struct bytes *target)
{
    static const struct {
        const char *word, *method, *target;
    } SOURCES[] = {{"forwarded", "x-forwarded-method", "x-forwarded-uri"},
                   {"original", "x-original-method", "x-original-uri"}};
    struct bytes word = check->value[PARAMETER_ROUTE];
    if (is_text(word, "rest")) {
        const char *own = http1_method_name(incoming->request->method);
        *method = (struct bytes){own, strlen(own)};
        *target = check->rest;
        return true;
    }
    for (size_t i = 0; i < sizeof SOURCES / sizeof SOURCES[0]; i++) {
        if (!is_text(word, SOURCES[i].word)) {
            continue;
        }
        if (!find_field(task, incoming, SOURCES[i].method, method)
            || !find_field(task, incoming, SOURCES[i].target, target)) {
            return false;
        }
        if (method->at == NULL || target->at == NULL) {
            return http1_task_fail(task, 400, "route=%s needs the header fields %s and %s",
                                   SOURCES[i].word, SOURCES[i].method, SOURCES[i].target);
        }
        return true;
    }
    return http1_task_fail(task, 400, "route= is forwarded, original or rest");
}

/* The limit and the cost of the first route that matches. */
static bool take_route(struct http1_batch *batch, const struct service *service,
                       struct http1_task *task, const struct http1_incoming *incoming,
                       const struct check *check, struct bytes *limit)
{
    struct bytes method;
    struct bytes target;
    struct bytes path;
    if (check->value[PARAMETER_LIMIT].at != NULL || check->value[PARAMETER_COST].at != NULL) {
        return http1_task_fail(task, 400, "route= excludes limit= and cost=: a route has both");
    }
    if (!find_target(task, incoming, check, &method, &target)) {
        return false;
    }
    if (!route_path(target, batch->room + batch->room_used, &path)) {
        return http1_task_fail(task, 400, "the path of the client's request begins with no /");
    }
    const struct route *route =
        service->names != NULL ? names_route(service->names, method, path) : NULL;
    if (route == NULL) {
        (void)http1_task_fail(task, 400, "the configuration has no route for %.*s %.*s",
                              shown(method), method.at, shown(path), path.at);
        task->reason = "no_route";
        return false;
    }
    const char *name =
        route->target.chain != NULL ? route->target.chain->name : route->target.limit->name;
    *limit = (struct bytes){name, strlen(name)};
    task->cost_micro = route->cost_micro;
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
    return true; // a chain may do without
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

/* Which limit, and what it costs: by a route, or as the query says. */
static bool read_limit(struct http1_batch *batch, const struct service *service,
                       struct http1_task *task, const struct http1_incoming *incoming,
                       struct check *check, struct bytes *limit)
{
    if (check->value[PARAMETER_ROUTE].at != NULL) {
        return take_route(batch, service, task, incoming, check, limit);
    }
    *limit = check->value[PARAMETER_LIMIT];
    return read_cost(task, incoming, check);
}

/* A chain may do without a key, anything else may not. */
static bool check_key(struct http1_task *task, const struct json_pair *pair, bool is_named)
{
    return pair->key.length > 0 || is_named
           || http1_task_fail(task, 400, "the key is missing: say key=, by=address or X-Weir-Key");
}

bool http1_check_read(struct http1_batch *batch, const struct service *service,
                      struct http1_task *task, const struct http1_incoming *incoming,
                      struct bytes query, struct json_pair *pair, struct variables *variables)
{
    struct check check = {.variables = variables};
    if (!read_query(batch, task, &check, query)
        || !read_key(batch, service, task, incoming, &check, &pair->key)
        || !read_limit(batch, service, task, incoming, &check, &pair->limit)
        || !read_wait(task, check.value[PARAMETER_WAIT])) {
        return false;
    }
    bool is_named = asked_by_name(service->names, pair->limit.at, pair->limit.length);
    if (!check_key(task, pair, is_named)) {
        return false;
    }
    if (pair->limit.length == 0) {
        return http1_task_fail(task, 400, "the limit is missing: say limit=10/s");
    }
    return !is_named || read_variable_fields(batch, task, incoming, &check);
}
