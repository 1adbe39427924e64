/* SPDX-License-Identifier: MIT
 *
 * Between reading and answering: the requests of one read, as tasks. Reading a request makes a task
 * of it; the questions of all tasks are then decided at once; and each task is answered, in order.
 * What the files of this folder share; nobody else includes it. */
#ifndef WEIR_PROTOCOL_HTTP1_BATCH_H
#define WEIR_PROTOCOL_HTTP1_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limiter/names/asked.h"
#include "protocol/counting.h"
#include "protocol/engine.h"
#include "protocol/http1/http1_parse.h"
#include "protocol/json/json_request.h"
#include "protocol/pace.h"

/* How a task is answered. */
enum http1_answer {
    HTTP1_ANSWER_PROBLEM,  // `status` and `detail`
    HTTP1_ANSWER_ALLOW,    // 204 and `allow`: OPTIONS
    HTTP1_ANSWER_INDEX,    // a page that says what there is
    HTTP1_ANSWER_HEALTH,   // 200 or 503
    HTTP1_ANSWER_METRICS,  // the metrics
    HTTP1_ANSWER_CHECK,    // a decision in a status: GET /v1/check
    HTTP1_ANSWER_DECISION, // a decision in JSON: POST /v1/...
};

enum {
    HTTP1_BATCH_COUNT_MAX = 64, // requests, and from so many decisions on a batch is full
    /* The last question may bring as many decisions as there may be limits in one; and while it is
     * read, nearly twice as many limits. */
    HTTP1_QUESTION_ROOM = HTTP1_BATCH_COUNT_MAX - 1 + LIMIT_LIST_COUNT_MAX,
    HTTP1_RULE_ROOM = HTTP1_QUESTION_ROOM + LIMIT_LIST_COUNT_MAX,
    HTTP1_DETAIL_BYTES_MAX = JSON_ERROR_TEXT_MAX,

    /* What one request may need while it is read: its texts, decoded, which take more where they
     * come from, and a body put together. */
    HTTP1_TEXT_BYTES_MAX = HTTP1_BODY_BYTES_MAX,
    HTTP1_REQUEST_ROOM_BYTES = HTTP1_TEXT_BYTES_MAX + HTTP1_BODY_BYTES_MAX,
    HTTP1_ROOM_BYTES = 2 * HTTP1_REQUEST_ROOM_BYTES,
};
_Static_assert((int)HTTP1_TEXT_BYTES_MAX >= (int)HTTP1_LINE_BYTES_MAX,
               "what a query says has room, too");

struct http1_task {
    enum http1_answer answer;
    bool is_head;    // no body
    bool close;      // the connection ends
    bool keep_alive; // HTTP/1.0 wants to hear that it does not

    /* Of a decision: */
    uint64_t cost_micro;
    uint64_t wait_ns;  // a take that may wait so long
    uint64_t block_ns; // a block that lasts so long
    enum weir_operation operation;
    uint32_t question;   // index among the batch's questions: the first, under several limits
    uint8_t limit_count; // how many of them are this task's
    bool is_together;    // the answer names the binding limit, and lists all
    bool has_chain;      // among what was asked for
    int binding;         // the index among the task's limits of the one that decided; -1: none
    struct weir_decision decision; // what all of them decided
    struct shadow_refusal shadow;  // and what those in shadow mode would have

    /* Of a problem: */
    unsigned status;
    const char *reason; // for the log; NULL: the status says it
    const char *why;    // likewise; NULL: `detail`, without what it quotes
    const char *allow;  // what to say in Allow, or NULL
    char detail[HTTP1_DETAIL_BYTES_MAX];
};

/* What RateLimit-Policy says of a limit is the same every time: kept by the limit's text. */
enum {
    HTTP1_POLICY_COUNT = 64, // power of two
    HTTP1_POLICY_TEXT_MAX = 48,
    HTTP1_POLICY_ITEM_MAX = 144
};
struct http1_policy {
    size_t text_len, item_len;
    char text[HTTP1_POLICY_TEXT_MAX];
    char item[HTTP1_POLICY_ITEM_MAX];
};

enum { HTTP1_DATE_BYTES = 29 }; // "Sun, 06 Nov 1994 08:49:37 GMT"

/* The scratch memory of a worker: all zeroes is an empty one. */
struct http1_batch {
    size_t task_count, question_count, room_used;
    const char *failure; // why there is no decision; NULL: the table is full
    bool last_waits;     // the last task is a take that may wait: nothing is read behind it
    struct http1_task tasks[HTTP1_BATCH_COUNT_MAX];
    struct json_pair pairs[HTTP1_RULE_ROOM];  // a key and one limit: in the input, or in `room`
    struct asked_part parts[HTTP1_RULE_ROOM]; // beside each rule: `named` and `words` at least
    struct weir_request requests[HTTP1_QUESTION_ROOM];
    struct weir_decision decisions[HTTP1_QUESTION_ROOM];
    struct weir_detail details[HTTP1_QUESTION_ROOM];
    struct weir_rule rules[HTTP1_RULE_ROOM];
    struct http1_policy policies[HTTP1_POLICY_COUNT];
    int64_t date_s;
    char date[HTTP1_DATE_BYTES + 1]; // empty: none yet
    char room[HTTP1_ROOM_BYTES];
};

struct http1_wait;

/* What a connection remembers. */
struct http1_session {
    struct http1_request request; // the one that is coming in
    struct pace pace;
    bool has_continued; // it has been told "100 Continue"
    bool has_entered;   // its head was let in before its body was there
    bool is_known;      // a request of this connection has brought the password
    bool has_address;
    uint8_t address[16];     // the peer's
    struct http1_wait *wait; // the take that stands in line; NULL: none
};

/* A request whose head is complete, for those who make a task of it. */
struct http1_incoming {
    const struct http1_request *request;
    const char *base; // its first byte
    struct http1_session *session;
};

/* Turns the task into an answer of `status` whose detail reads so. Returns false. */
__attribute__((format(printf, 3, 4))) bool http1_task_fail(struct http1_task *task, unsigned status,
                                                           const char *format, ...);

/* http1_route.c: reads what the request asks for. Whatever it is, the task can then be answered. */
void http1_route(struct http1_batch *batch, struct service *service, struct http1_task *task,
                 const struct http1_incoming *incoming);

/* http1_route.c: asks of a head, whose body is not there yet, whether it brings the password that is wanted. False:
 * the task has its answer, and the connection ends behind it. */
bool http1_route_head(const struct service *service, struct http1_task *task,
                      const struct http1_incoming *incoming);

/* http1_check.c: reads the key, the limit and the cost of GET /v1/check. False after a failure. */
bool http1_check_read(struct http1_batch *batch, const struct service *service,
                      struct http1_task *task, const struct http1_incoming *incoming,
                      struct bytes query, struct json_pair *pair, struct variables *variables);

/* http1_ask.c: compiles the limits of the pairs, and adds the task's question about them; or makes
 * the task an answer that says what is wrong. */
void http1_ask(struct http1_batch *batch, struct service *service, struct http1_task *task,
               const struct json_pair *pairs, size_t pair_count, const struct variables *variables);

/* The task's question is decided: counts it, lets limits in shadow mode let pass what they would have
 * refused, and concludes what all of its limits together say. */
void http1_conclude(struct service *service, struct http1_batch *batch, struct http1_task *task);

/* The key and the limit that decided; the first where none did. */
static inline const struct json_pair *http1_binding_pair(const struct http1_batch *batch,
                                                         const struct http1_task *task)
{
    return &batch->pairs[task->question + (task->binding > 0 ? (uint32_t)task->binding : 0)];
}

/* http1_address.c: writes the client's address as a key: "203.0.113.7", "2001:db8:1:2::/64".
 * Returns its length, at most HTTP1_ADDRESS_BYTES_MAX; 0 after a failure. */
enum { HTTP1_ADDRESS_BYTES_MAX = 48 };
size_t http1_client_address(const struct service_config *config, struct http1_task *task,
                            const struct http1_incoming *incoming, char *text);

/* The address that "127.0.0.1:80", "[::1]:80" or either without a port names, IPv4 mapped into IPv6.
 * False if it names none. */
bool http1_read_address(struct bytes text, uint8_t address[16]);

/* http1_browser.c: whether a server without a password may answer this request, or a web page of
 * another site makes a browser send it.
 *   authority  of this server, as the request names it: Host, or that of an absolute target
 *   is_check   the request asks /v1/check
 * False after a failure. */
bool http1_browser_admit(const struct service_config *config, struct http1_task *task,
                         const struct http1_incoming *incoming, struct bytes authority,
                         bool is_check);

/* http1_wait.c: the last task of the batch is a take that may wait. True: it stands in line, and is
 * answered by http1_wait_answer(). False: its decision is in the batch.
 * held_bytes() and release() are of what is kept meanwhile, if anything. */
bool http1_wait_begin(struct http1_session *session, struct http1_batch *batch,
                      struct service *service);
struct http1_task *http1_wait_answer(struct http1_session *session, struct http1_batch *batch,
                                     struct service *service,
                                     const struct weir_decision *decisions);
size_t http1_wait_held_bytes(const struct http1_session *session);
void http1_wait_release(struct http1_session *session);

/* http1_reply.c: appends the answer of a task that is decided. */
void http1_reply(struct http1_batch *batch, struct service *service, const struct http1_task *task,
                 struct buffer *output);

/* http1_headers.c: the header fields of a decision, by the preset that was chosen. There must be
 * HTTP1_HEADERS_BYTES_MAX of room at `at`, and HTTP1_LIMIT_HEADERS_BYTES_MAX for each limit; returns
 * the end. */
enum {
    HTTP1_HEADERS_BYTES_MAX = 256,
    HTTP1_LIMIT_HEADERS_BYTES_MAX = 2 * WEIR_LIMIT_TEXT_MAX + 256
};
char *http1_put_date(struct http1_batch *batch, const struct service *service, char *at);
char *http1_put_decision_headers(struct http1_batch *batch, const struct service *service,
                                 const struct http1_task *task, char *at);

/* http1_problem.c: bodies of application/problem+json (RFC 9457). */
enum {
    HTTP1_BODY_TEXT_MAX = 4096,
    HTTP1_LIMIT_BODY_BYTES_MAX = 2 * WEIR_LIMIT_TEXT_MAX + 192, // each limit's share
};
char *http1_put_decision_json(const struct http1_batch *batch, const struct http1_task *task,
                              char *at);
char *http1_put_refusal(const struct http1_batch *batch, const struct service_config *config,
                        const struct http1_task *task, unsigned status, char *at);
char *http1_put_problem(const struct http1_task *task, char *at);

/* The status phrase: RFC 9110, section 15. */
const char *http1_phrase(unsigned status);

#endif
