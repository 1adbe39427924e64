/* SPDX-License-Identifier: MIT
 *
 * What there is: each path, its methods, and how a request for it becomes a task. */
#include <string.h>

#include "protocol/http1/http1_batch.h"
#include "protocol/http1/http1_query.h"
#include "protocol/secret.h"

/* ---- The paths ---- */

enum methods {
    METHODS_GET,   // GET and HEAD
    METHODS_POST,  // POST
    METHODS_CHECK, // all: some proxies ask with the method of the request that they ask about
};

static const char *const ALLOW[] = {
    [METHODS_GET] = "GET, HEAD, OPTIONS",
    [METHODS_POST] = "POST, OPTIONS",
    [METHODS_CHECK] = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH",
};

struct endpoint {
    const char *path;
    size_t path_len;
    enum methods methods;
    enum http1_answer answer;
    enum weir_operation operation;
    enum json_form form; // of a question in a body
};

#define PATH(text) text, sizeof(text) - 1
static const struct endpoint ENDPOINTS[] = {
    {PATH("/v1/check"), METHODS_CHECK, HTTP1_ANSWER_CHECK, WEIR_TAKE, JSON_ONE_KEY},
    {PATH("/v1/take"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_TAKE, JSON_ONE_KEY},
    {PATH("/v1/take_all"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_TAKE, JSON_SEVERAL_KEYS},
    {PATH("/v1/can_take"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_CAN_TAKE, JSON_ONE_KEY},
    {PATH("/v1/fill"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_FILL, JSON_ONE_KEY},
    {PATH("/v1/refund"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_REFUND, JSON_ONE_KEY},
    {PATH("/v1/show"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_SHOW, JSON_ONE_KEY},
    {PATH("/v1/reset"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_RESET, JSON_ONE_KEY},
    {PATH("/v1/block"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_BLOCK, JSON_ONE_KEY},
    {PATH("/v1/unblock"), METHODS_POST, HTTP1_ANSWER_DECISION, WEIR_UNBLOCK, JSON_ONE_KEY},
    {PATH("/healthz"), METHODS_GET, HTTP1_ANSWER_HEALTH, WEIR_SHOW, JSON_ONE_KEY},
    {PATH("/metrics"), METHODS_GET, HTTP1_ANSWER_METRICS, WEIR_SHOW, JSON_ONE_KEY},
    {PATH("/"), METHODS_GET, HTTP1_ANSWER_INDEX, WEIR_SHOW, JSON_ONE_KEY},
};

static const struct endpoint *find_endpoint(struct bytes path)
{
    for (size_t i = 0; i < sizeof ENDPOINTS / sizeof ENDPOINTS[0]; i++) {
        if (path.length == ENDPOINTS[i].path_len
            && memcmp(path.at, ENDPOINTS[i].path, path.length) == 0) {
            return &ENDPOINTS[i];
        }
    }
    return NULL;
}

/* absolute-form, which every server must accept: what follows the authority. The authority counts
 * then, and Host does not. RFC 9112, 3.2.2. */
static struct bytes strip_authority(struct bytes target, struct bytes *authority)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(schemes[i]);
        if (target.length < length
            || !http1_is_word((struct bytes){target.at, length}, schemes[i])) {
            continue;
        }
        target = (struct bytes){target.at + length, target.length - length};
        authority->at = target.at;
        while (target.length > 0 && *target.at != '/' && *target.at != '?') {
            target.at++;
            target.length--;
        }
        authority->length = (size_t)(target.at - authority->at);
        return target.length > 0 && *target.at == '/' ? target : (struct bytes){"/", 1};
    }
    return target;
}

/* Where a request goes. */
struct target {
    struct bytes authority, path, query;
    const struct endpoint *endpoint; // NULL: there is nothing
};

/* ---- Who may ask ---- */

/* Authorization: Bearer PASSWORD. RFC 6750, section 2.1. */
static bool has_password(const struct service_config *config, const struct http1_incoming *incoming)
{
    struct bytes given = {"", 0};
    if (http1_has(incoming->request, HTTP1_AUTHORIZATION)) {
        given = http1_slice_bytes(incoming->base, incoming->request->field[HTTP1_AUTHORIZATION]);
    }
    static const char scheme[] = "bearer ";
    size_t length = sizeof scheme - 1;
    bool is_bearer = given.length > length
                     && http1_is_word((struct bytes){given.at, length}, scheme)
                     && (incoming->request->repeated >> HTTP1_AUTHORIZATION & 1) == 0;
    size_t skipped = is_bearer ? length : given.length;
    return secret_equals((struct bytes){given.at + skipped, given.length - skipped},
                         (struct bytes){config->password, config->password_len});
}

/* ---- A question in a body ---- */

/* The body, whole: as it came, or put together from its chunks behind the room for the texts. */
static struct bytes read_body(struct http1_batch *batch, const struct http1_incoming *incoming)
{
    const struct http1_request *request = incoming->request;
    if (!request->is_chunked) {
        return http1_slice_bytes(incoming->base, request->body);
    }
    char *body = batch->room + batch->room_used + HTTP1_TEXT_BYTES_MAX;
    http1_body_copy(request, incoming->base, body);
    return (struct bytes){body, request->body_bytes};
}

static bool read_question(struct http1_batch *batch, struct http1_task *task,
                          const struct http1_incoming *incoming, struct json_question *question,
                          enum json_form form)
{
    size_t used = 0;
    switch (json_question_read(question, form, read_body(batch, incoming),
                               batch->room + batch->room_used, &used, task->detail)) {
    case JSON_OK: break;
    case JSON_BAD:
        task->answer = HTTP1_ANSWER_PROBLEM;
        task->status = 400;
        return false;
    case JSON_NO_MEMORY: return http1_task_fail(task, 503, "out of memory");
    }
    if (question->has_cost && task->operation >= WEIR_SHOW) {
        return http1_task_fail(task, 400, "\"cost\" has no meaning here: %s charges nothing",
                               task->operation == WEIR_SHOW    ? "show"
                               : task->operation == WEIR_RESET ? "reset"
                               : task->operation == WEIR_BLOCK ? "block"
                                                               : "unblock");
    }
    if (question->has_wait && task->operation != WEIR_TAKE) {
        return http1_task_fail(task, 400, "\"wait_ms\" has no meaning here: only a take waits");
    }
    if (question->has_block != (task->operation == WEIR_BLOCK)) {
        return http1_task_fail(task, 400,
                               question->has_block
                                   ? "\"block_ms\" has no meaning here: it is for /v1/block"
                                   : "\"block_ms\" is missing: for how long to block the key");
    }
    batch->room_used += used;
    task->cost_micro = question->cost_micro;
    task->block_ns = question->block_ns;
    task->wait_ns = question->wait_ns;
    task->is_together = form == JSON_SEVERAL_KEYS;
    return true;
}

/* ---- The route ---- */

static bool is_method_allowed(enum methods methods, enum http1_method method)
{
    switch (methods) {
    case METHODS_GET: return method == HTTP1_GET || method == HTTP1_HEAD;
    case METHODS_POST: return method == HTTP1_POST;
    case METHODS_CHECK: break;
    }
    return method != HTTP1_TRACE;
}

/* The password opens everything but /healthz, which says no more than "ok". A 401 ends the connection, because
 * the body of its request may follow and nobody reads that; and a connection that never brought the
 * password is answered once, so that it cannot stay. Without a password everything is open, but not to the pages
 * that a browser has from elsewhere. */
static bool enter(const struct service *service, struct http1_task *task,
                  const struct http1_incoming *incoming, const struct target *target)
{
    if (service->config->password == NULL) {
        bool is_check = target->endpoint != NULL && target->endpoint->answer == HTTP1_ANSWER_CHECK;
        return http1_browser_admit(service->config, task, incoming, target->authority, is_check);
    }
    if (has_password(service->config, incoming)) {
        incoming->session->is_known = true;
        return true;
    }
    bool is_open = target->endpoint != NULL && target->endpoint->answer == HTTP1_ANSWER_HEALTH;
    task->close = task->close || !is_open || !incoming->session->is_known;
    if (is_open) {
        return true;
    }
    return http1_task_fail(task, 401,
                           "this server wants its password: Authorization: Bearer PASSWORD");
}

/* Answers OPTIONS with what there is. Returns false, as a failure does. */
static bool allow(struct http1_task *task, const char *methods)
{
    task->answer = HTTP1_ANSWER_ALLOW;
    task->allow = methods;
    return false;
}

static bool choose_method(struct http1_task *task, enum http1_method method,
                          const struct endpoint *endpoint)
{
    if (is_method_allowed(endpoint->methods, method)) {
        return true;
    }
    task->allow = ALLOW[endpoint->methods];
    if (method == HTTP1_OPTIONS) {
        return allow(task, task->allow);
    }
    return http1_task_fail(task, 405, "%s is not a method of %s: it has %s",
                           http1_method_name(method), endpoint->path, task->allow);
}

/* False if the task has its answer already: because there is nothing here. */
static bool choose(struct http1_task *task, enum http1_method method, struct bytes path,
                   const struct endpoint *endpoint)
{
    if (method == HTTP1_UNKNOWN || method == HTTP1_CONNECT) {
        return http1_task_fail(task, 501, "this method is not known here");
    }
    if (method == HTTP1_OPTIONS && path.length == 1 && *path.at == '*') { // RFC 9110, 9.3.7
        return allow(task, "GET, HEAD, POST, OPTIONS");
    }
    if (endpoint == NULL) {
        return http1_task_fail(task, 404, "there is no %.*s; GET / lists what there is",
                               path.length < 100 ? (int)path.length : 100, path.at);
    }
    return choose_method(task, method, endpoint);
}

static struct target read_target(const struct http1_incoming *incoming)
{
    const struct http1_request *request = incoming->request;
    struct target target = {.authority =
                                http1_slice_bytes(incoming->base, request->field[HTTP1_HOST])};
    struct bytes whole = http1_slice_bytes(incoming->base, request->target);
    query_split(strip_authority(whole, &target.authority), &target.path, &target.query);
    target.endpoint = find_endpoint(target.path);
    return target;
}

bool http1_route_head(const struct service *service, struct http1_task *task,
                      const struct http1_incoming *incoming)
{
    if (service->config->password == NULL) {
        return true;
    }
    struct target target = read_target(incoming);
    return enter(service, task, incoming, &target);
}

void http1_route(struct http1_batch *batch, struct service *service, struct http1_task *task,
                 const struct http1_incoming *incoming)
{
    struct target target = read_target(incoming);
    const struct endpoint *endpoint = target.endpoint;
    if (!enter(service, task, incoming, &target)
        || !choose(task, incoming->request->method, target.path, endpoint)) {
        return;
    }
    task->answer = endpoint->answer;
    task->operation = endpoint->operation;
    if (endpoint->answer == HTTP1_ANSWER_CHECK) {
        struct json_pair pair;
        struct variables variables;
        variables.count = 0; // the entries need no more
        if (http1_check_read(batch, service, task, incoming, target.query, &pair, &variables)) {
            http1_ask(batch, service, task, &pair, 1, &variables);
        }
    } else if (endpoint->answer == HTTP1_ANSWER_DECISION) {
        struct json_question question;
        if (read_question(batch, task, incoming, &question, endpoint->form)) {
            http1_ask(batch, service, task, question.pairs, question.pair_count,
                      &question.variables);
        }
    }
}
