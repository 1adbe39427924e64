/* SPDX-License-Identifier: MIT
 *
 * Answers: a status line, header fields, a body whose length is known. */
#include <assert.h>
#include <stdio.h>

#include "limiter/limiter_state.h"
#include "protocol/http1/http1_batch.h"
#include "protocol/http1/http1_text.h"

/* Room for an answer without the body of /metrics; under several limits each has its share. */
enum {
    HEAD_BYTES_MAX = 256 + HTTP1_HEADERS_BYTES_MAX + HTTP1_LIMIT_HEADERS_BYTES_MAX,
    REPLY_BYTES_MAX = 6 * 1024,
    LIMIT_BYTES_MAX = HTTP1_LIMIT_HEADERS_BYTES_MAX + HTTP1_LIMIT_BODY_BYTES_MAX,
    BODY_BYTES_MAX = HTTP1_BODY_TEXT_MAX + LIMIT_LIST_COUNT_MAX * HTTP1_LIMIT_BODY_BYTES_MAX,
};
_Static_assert(HEAD_BYTES_MAX + HTTP1_BODY_TEXT_MAX + HTTP1_LIMIT_BODY_BYTES_MAX <= REPLY_BYTES_MAX,
               "an answer fits");

static const char JSON_TYPE[] = "application/json";
static const char PROBLEM_TYPE[] = "application/problem+json";
static const char TEXT_TYPE[] = "text/plain; charset=utf-8";
/* Prometheus' text format; with commas instead of semicolons Prometheus 3 refuses it. */
static const char METRICS_TYPE[] = "text/plain; version=0.0.4; charset=utf-8";

static const char INDEX_PAGE[] =
    "weir, a rate limiter\n"
    "\n"
    "POST /v1/take      {\"key\": \"login:alice\", \"limit\": \"10/s\", \"cost\": 1}\n"
    "                   \"wait_ms\": 500 waits so long in line for its turn\n"
    "                   \"limit\": [\"10/s\", \"100/min\"] is under several limits at once\n"
    "                   \"limit\": \"request\", \"vars\": {\"user\": \"alice\"} goes by a name\n"
    "POST /v1/take_all  {\"limits\": [{\"key\": ..., \"limit\": ...}, ...]}: several keys at once\n"
    "POST /v1/can_take  the same question as take, charging nothing\n"
    "POST /v1/fill      charge whatever comes; says what did not fit\n"
    "POST /v1/refund    give cost back\n"
    "POST /v1/show      {\"key\": ..., \"limit\": ...}: how full it is\n"
    "POST /v1/reset     empty it\n"
    "POST /v1/block     {\"key\": ..., \"limit\": ..., \"block_ms\": 900000}: lock the key out\n"
    "POST /v1/unblock   let it in again\n"
    "GET  /v1/check?key=login:alice&limit=10/s&cost=1   200, or a refusal: for proxies\n"
    "GET  /v1/check?by=address&limit=10/s&cost=1        by the client's address\n"
    "GET  /v1/check?limit=request&var.user=alice        by a name, with variables\n"
    "GET  /v1/check?by=address&route=forwarded          by the configuration's routes\n"
    "GET  /healthz\n"
    "GET  /metrics\n";

const char *http1_phrase(unsigned status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests"; // RFC 6585
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Refused"; // by a status that the operator chose
    }
}

/* ---- The pieces of a head ---- */

static char *put_status_line(char *at, unsigned status)
{
    if (status == 200) { // nearly always
        return put_literal(at, "HTTP/1.1 200 OK\r\n");
    }
    at = put_literal(at, "HTTP/1.1 ");
    at = put_u64(at, status);
    *at++ = ' ';
    at = put_text(at, http1_phrase(status));
    return put_literal(at, "\r\n");
}

/* RFC 9112, section 9.3. */
static char *put_connection(char *at, const struct http1_task *task)
{
    if (task->close) {
        return put_literal(at, "Connection: close\r\n");
    }
    return task->keep_alive ? put_literal(at, "Connection: keep-alive\r\n") : at;
}

/* `type` is NULL where there is no body. */
static char *put_content(char *at, const char *type, size_t length)
{
    if (type != NULL) {
        at = put_literal(at, "Content-Type: ");
        at = put_text(at, type);
        at = put_literal(at, "\r\n");
    }
    at = put_literal(at, "Content-Length: ");
    at = put_u64(at, length);
    return put_literal(at, "\r\n");
}

/* What goes out: the server finds `output` failed if there was no room. */
static char *begin(struct buffer *output, size_t bytes_max)
{
    return buffer_reserve(output, bytes_max);
}

static void commit(struct buffer *output, const char *end, size_t bytes_max)
{
    size_t length = (size_t)(end - (output->at + output->length));
    assert(length <= bytes_max);
    output->length += length;
}

/* Everything but a decision: head and body in one. */
static void reply_body(struct http1_batch *batch, const struct service *service,
                       const struct http1_task *task, unsigned status, const char *type,
                       struct bytes body, struct buffer *output)
{
    char *at = begin(output, REPLY_BYTES_MAX);
    if (at == NULL) {
        return;
    }
    at = put_status_line(at, status);
    at = http1_put_date(batch, service, at);
    if (task->allow != NULL) {
        at = put_literal(at, "Allow: ");
        at = put_text(at, task->allow);
        at = put_literal(at, "\r\n");
    }
    if (status == 401) {
        at = put_literal(at, "WWW-Authenticate: Bearer realm=\"weir\"\r\n");
    }
    at = put_literal(at, HTTP1_FIELDS_OF_ALL);
    at = put_connection(at, task);
    at = status == 204 ? at : put_content(at, type, body.length);
    at = put_literal(at, "\r\n");
    commit(output, at, REPLY_BYTES_MAX);
    if (!task->is_head) {
        buffer_append(output, body.at, body.length);
    }
}

/* ---- Decisions ---- */

static void reply_decision_body(struct http1_batch *batch, const struct service *service,
                                const struct http1_task *task, unsigned status, const char *type,
                                struct bytes body, struct buffer *output)
{
    size_t bytes_max = REPLY_BYTES_MAX + (task->limit_count - 1u) * LIMIT_BYTES_MAX;
    char *at = begin(output, bytes_max);
    if (at == NULL) {
        return;
    }
    at = put_status_line(at, status);
    at = http1_put_date(batch, service, at);
    at = http1_put_decision_headers(batch, service, task, at);
    at = put_connection(at, task);
    at = put_content(at, type, body.length);
    at = put_literal(at, "\r\n");
    at = task->is_head ? at : put_bytes(at, body.at, body.length);
    commit(output, at, bytes_max);
}

/* 200 (Envoy takes no other 2xx for a yes), or a refusal that the proxy hands on to its client. */
static void reply_check(struct http1_batch *batch, const struct service *service,
                        const struct http1_task *task, struct buffer *output)
{
    static const char rate_limited[] = "Rate limited";
    char body[BODY_BYTES_MAX];
    const struct service_config *config = service->config;
    enum weir_verdict verdict = task->decision.verdict;
    if (verdict == WEIR_ALLOWED) {
        reply_decision_body(batch, service, task, 200, NULL, (struct bytes){"", 0}, output);
        return;
    }
    unsigned refused = config->refused_status > 0 ? config->refused_status : 429;
    unsigned status = verdict == WEIR_FAILED ? 503 : refused;
    if (config->headers == HEADERS_RATE_LIMITED && verdict != WEIR_FAILED) {
        reply_decision_body(batch, service, task, status, TEXT_TYPE,
                            (struct bytes){rate_limited, sizeof rate_limited - 1}, output);
        return;
    }
    char *end = http1_put_refusal(batch, config, task, status, body);
    reply_decision_body(batch, service, task, status, PROBLEM_TYPE,
                        (struct bytes){body, (size_t)(end - body)}, output);
}

static unsigned status_of(enum weir_verdict verdict)
{
    switch (verdict) {
    case WEIR_ALLOWED: return 200;
    case WEIR_LIMITED:
    case WEIR_BLOCKED: return 429;
    case WEIR_NEVER: return 422;
    case WEIR_FAILED: break;
    }
    return 503;
}

static void reply_json(struct http1_batch *batch, const struct service *service,
                       const struct http1_task *task, struct buffer *output)
{
    char body[BODY_BYTES_MAX];
    enum weir_verdict verdict = task->decision.verdict;
    unsigned status = status_of(verdict);
    bool asks_for_it = task->operation == WEIR_SHOW || task->operation == WEIR_BLOCK;
    bool is_undone = task->operation == WEIR_RESET || task->operation == WEIR_UNBLOCK;
    bool is_answer = status == 200 || (is_undone && verdict != WEIR_FAILED)
                     || (verdict == WEIR_BLOCKED && asks_for_it);
    char *end = is_answer ? http1_put_decision_json(batch, task, body)
                          : http1_put_refusal(batch, service->config, task, status, body);
    reply_decision_body(batch, service, task, is_answer ? 200 : status,
                        is_answer ? JSON_TYPE : PROBLEM_TYPE,
                        (struct bytes){body, (size_t)(end - body)}, output);
}

/* ---- The rest ---- */

static void reply_problem(struct http1_batch *batch, const struct service *service,
                          const struct http1_task *task, struct buffer *output)
{
    char body[HTTP1_BODY_TEXT_MAX];
    char *end = http1_put_problem(task, body);
    reply_body(batch, service, task, task->status, PROBLEM_TYPE,
               (struct bytes){body, (size_t)(end - body)}, output);
}

static void reply_health(struct http1_batch *batch, struct service *service,
                         const struct http1_task *task, struct buffer *output)
{
    const char *sickness = service->ops->sickness(service);
    if (sickness == NULL) {
        char text[256];
        const char *worry = service->ops->worry != NULL ? service->ops->worry(service) : NULL;
        int length = snprintf(text, sizeof text, "ok\n%slines: %s\n", worry != NULL ? worry : "",
                              lines_are_shared(service->limiter->lines)
                                  ? "of all who share this store"
                                  : "of this server; another one has its own");
        reply_body(batch, service, task, 200, TEXT_TYPE, (struct bytes){text, (size_t)length},
                   output);
    } else {
        reply_body(batch, service, task, 503, TEXT_TYPE, (struct bytes){sickness, strlen(sickness)},
                   output);
    }
}

/* What /metrics says, and of each limit with a name fifteen lines of up to 150 bytes. */
enum { METRICS_BYTES_MAX = 128 * 1024 + NAMES_LIMIT_COUNT_MAX * 15 * 160 };

/* Put together aside, because its length stands before it. */
static void reply_metrics(struct http1_batch *batch, struct service *service,
                          const struct http1_task *task, struct buffer *output)
{
    struct buffer body;
    buffer_init(&body, METRICS_BYTES_MAX);
    service->ops->write_metrics(service, &body);
    if (body.failed) {
        reply_body(batch, service, task, 503, TEXT_TYPE, (struct bytes){"out of memory\n", 14},
                   output);
    } else {
        reply_body(batch, service, task, 200, METRICS_TYPE, (struct bytes){body.at, body.length},
                   output);
    }
    buffer_fini(&body);
}

void http1_reply(struct http1_batch *batch, struct service *service, const struct http1_task *task,
                 struct buffer *output)
{
    switch (task->answer) {
    case HTTP1_ANSWER_CHECK: reply_check(batch, service, task, output); break;
    case HTTP1_ANSWER_DECISION: reply_json(batch, service, task, output); break;
    case HTTP1_ANSWER_PROBLEM: reply_problem(batch, service, task, output); break;
    case HTTP1_ANSWER_ALLOW:
        reply_body(batch, service, task, 204, NULL, (struct bytes){"", 0}, output);
        break;
    case HTTP1_ANSWER_INDEX:
        reply_body(batch, service, task, 200, TEXT_TYPE,
                   (struct bytes){INDEX_PAGE, sizeof INDEX_PAGE - 1}, output);
        break;
    case HTTP1_ANSWER_HEALTH: reply_health(batch, service, task, output); break;
    case HTTP1_ANSWER_METRICS: reply_metrics(batch, service, task, output); break;
    }
}
