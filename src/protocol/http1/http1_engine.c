/* SPDX-License-Identifier: MIT
 *
 * HTTP/1.1 as an engine: reads every request of a read, decides all of them at once, and answers
 * them in order. */
#include <assert.h>
#include <string.h>

#include "protocol/http1/http1_batch.h"
#include "protocol/quotes.h"

/* A request is refused before it could need more input than the server keeps. */
_Static_assert(2 + HTTP1_LINE_BYTES_MAX + HTTP1_HEADER_BYTES_MAX + HTTP1_CHUNKED_BYTES_MAX
                       + HTTP1_BODY_BYTES_MAX + 2 * HTTP1_CHUNK_LINE_BYTES_MAX
                   < ENGINE_INPUT_BYTES_MAX,
               "the largest request fits into the server's buffer");

static void session_open(void *memory, const struct peer *peer)
{
    struct http1_session *session = memory;
    *session = (struct http1_session){.has_address = peer->has_address};
    memcpy(session->address, peer->address, sizeof session->address);
}

static void session_close(void *memory)
{
    http1_wait_release(memory);
}

/* Who has the wrong password is counted, and told of elsewhere. */
static void note_problem(struct service *service, const struct http1_task *task)
{
    const char *reason = task->reason != NULL      ? task->reason
                         : task->status == 404     ? "not_found"
                         : task->status == 405     ? "method"
                         : task->status == 413     ? "too_large"
                         : task->status / 100 == 4 ? "invalid"
                                                   : "unsupported";
    char emptied[HTTP1_DETAIL_BYTES_MAX];
    if (service->ops->note_bad_request != NULL && task->status != 401) {
        service->ops->note_bad_request(
            service, PROTOCOL_HTTP, reason,
            task->why != NULL ? task->why : quotes_empty(task->detail, emptied, sizeof emptied));
    }
}

/* The task is as good as answered: concludes what was decided, and counts it. */
static void finish(struct service *service, struct http1_batch *batch, struct http1_task *task)
{
    struct counters *counters = service->counters;
    counter_add(&counters->requests[PROTOCOL_HTTP], 1);
    if (task->answer == HTTP1_ANSWER_PROBLEM) {
        counter_add(&counters->bad_requests[PROTOCOL_HTTP], 1);
        counter_add(&counters->auth_failures[PROTOCOL_HTTP], task->status == 401);
        note_problem(service, task);
    } else if (task->answer == HTTP1_ANSWER_CHECK || task->answer == HTTP1_ANSWER_DECISION) {
        http1_conclude(service, batch, task);
    }
}

static void empty(struct http1_batch *batch)
{
    batch->task_count = 0;
    batch->question_count = 0;
    batch->room_used = 0;
    batch->last_waits = false;
    batch->failure = NULL;
}

/* Decides what has gathered, answers it and empties the batch. ENGINE_WAITING: the last one stands in line instead of
 * being answered. ENGINE_ASKING: nothing has happened, and the batch is forgotten. */
static enum engine_state flush(struct http1_session *session, struct http1_batch *batch,
                               struct service *service, struct buffer *output)
{
    bool may_wait = batch->last_waits;
    size_t waiting_count = may_wait ? batch->tasks[batch->task_count - 1].limit_count : 0;
    if (service_decide(service, batch->requests, batch->decisions,
                       batch->question_count - waiting_count)
        == PENDING) {
        empty(batch);
        return ENGINE_ASKING;
    }
    batch->failure = service->undecided;
    bool waits = may_wait && http1_wait_begin(session, batch, service);
    for (size_t i = 0; i < batch->task_count - waits; i++) {
        finish(service, batch, &batch->tasks[i]);
        http1_reply(batch, service, &batch->tasks[i], output);
    }
    empty(batch);
    return waits ? ENGINE_WAITING : ENGINE_OPEN;
}

static bool is_full(const struct http1_batch *batch, const struct pace *pace,
                    const struct service *service)
{
    return batch->task_count == HTTP1_BATCH_COUNT_MAX
           || batch->question_count >= HTTP1_BATCH_COUNT_MAX
           || HTTP1_ROOM_BYTES - batch->room_used < HTTP1_REQUEST_ROOM_BYTES
           || pace_ends_batch(pace, service, batch->question_count);
}

/* The next task; only the fields that every answer looks at are cleared. */
static struct http1_task *add_task(struct http1_batch *batch)
{
    struct http1_task *task = &batch->tasks[batch->task_count++];
    task->is_head = false;
    task->close = false;
    task->keep_alive = false;
    task->allow = NULL;
    task->wait_ns = 0;
    task->is_together = false;
    task->has_chain = false;
    return task;
}

/* A task for the request whose head has been read. */
static struct http1_task *begin_request(struct http1_batch *batch,
                                        const struct http1_request *request)
{
    struct http1_task *task = add_task(batch);
    task->is_head = request->method == HTTP1_HEAD;
    task->close = request->close;
    task->keep_alive = request->keep_alive;
    return task;
}

static struct http1_task *add_request(struct http1_batch *batch, struct service *service,
                                      struct http1_session *session, const char *base)
{
    struct http1_task *task = begin_request(batch, &session->request);
    http1_route(
        batch, service, task,
        &(struct http1_incoming){.request = &session->request, .base = base, .session = session});
    return task;
}

/* The request is incomplete. Once its head is there it has to be let in, before the server keeps a byte of
 * its body: true if it was not, and its answer is in the batch. */
static bool is_turned_away(struct http1_batch *batch, struct service *service,
                           struct http1_session *session, const char *base)
{
    if (session->request.phase <= HTTP1_IN_FIELDS || session->has_entered) {
        return false;
    }
    struct http1_task *task = begin_request(batch, &session->request);
    session->has_entered = http1_route_head(
        service, task,
        &(struct http1_incoming){.request = &session->request, .base = base, .session = session});
    batch->task_count -= session->has_entered; // it becomes a task when it is complete
    return !session->has_entered;
}

static void add_bad_request(struct http1_batch *batch, const struct http1_request *request)
{
    struct http1_task *task = add_task(batch);
    task->close = true;
    http1_task_fail(task, request->status, "byte %u of the request: %s", request->bad_at,
                    request->reason);
}

/* The head is there, the body is not, and the client waits to be asked for it. */
static void continue_once(struct http1_session *session, struct buffer *output)
{
    const struct http1_request *request = &session->request;
    if (request->expects_continue && request->phase > HTTP1_IN_FIELDS && !session->has_continued) {
        buffer_append_text(output, "HTTP/1.1 100 Continue\r\n\r\n");
        session->has_continued = true;
    }
}

/* What the answer to this task takes. */
static void add_work(struct pace *pace, const struct http1_batch *batch,
                     const struct http1_task *task)
{
    if (task->answer != HTTP1_ANSWER_CHECK && task->answer != HTTP1_ANSWER_DECISION) {
        pace->work += task->answer == HTTP1_ANSWER_METRICS ? PACE_LONG : PACE_OTHER;
        return;
    }
    for (size_t i = 0; i < task->limit_count; i++) {
        pace_add(pace, &batch->rules[task->question + i].limit);
    }
    pace->work += task->wait_ns > 0 ? PACE_WAIT : 0;
}

/* Reads requests into the batch until it is full or the input is at its end.
 * Returns false when no more can be read for now. */
static bool gather(struct http1_session *session, struct service *service, struct bytes input,
                   size_t *used, bool *close)
{
    struct http1_batch *batch = service->scratch[PROTOCOL_HTTP];
    while (*used < input.length && !*close) {
        if (is_full(batch, &session->pace, service) || batch->last_waits) {
            return true;
        }
        size_t length;
        const struct http1_task *task;
        struct bytes rest = {input.at + *used, input.length - *used};
        switch (http1_parse(&session->request, rest, &length)) {
        case HTTP1_MORE:
            if (!is_turned_away(batch, service, session, rest.at)) {
                return false;
            }
            *used = input.length; // the beginning of a body
            *close = true;
            break;
        case HTTP1_BAD:
            add_bad_request(batch, &session->request);
            *used = input.length; // whatever follows has no beginning
            *close = true;
            break;
        case HTTP1_DONE:
            task = add_request(batch, service, session, rest.at);
            add_work(&session->pace, batch, task);
            *close = task->close;
            session->request = (struct http1_request){0};
            session->has_continued = false;
            session->has_entered = false;
            *used += length;
            break;
        }
    }
    return false;
}

/* Where a batch begins in the input, and what reading it changes of the session. */
struct beginning {
    size_t at;
    bool has_continued, has_entered, is_known;
};

static struct beginning begin_batch(const struct http1_session *session, size_t at)
{
    return (struct beginning){at, session->has_continued, session->has_entered, session->is_known};
}

/* The batch is PENDING: its requests will be read again, from the first byte. */
static void put_back(struct http1_session *session, const struct beginning *beginning)
{
    session->request = (struct http1_request){0};
    session->has_continued = beginning->has_continued;
    session->has_entered = beginning->has_entered;
    session->is_known = beginning->is_known;
}

/* Whether what follows is for another turn. */
static bool has_to_pause(struct http1_session *session, struct service *service,
                         const struct buffer *output)
{
    return output->length >= ENGINE_OUTPUT_BYTES_PLENTY || pace_look(&session->pace, service);
}

static enum engine_state session_feed(void *memory, struct service *service, struct bytes input,
                                      struct buffer *output, size_t *used)
{
    struct http1_session *session = memory;
    struct http1_batch *batch = service->scratch[PROTOCOL_HTTP];
    const bool has_answers = service->answers_left > 0;
    bool close = false;
    bool more;
    assert(batch->task_count == 0);
    assert(batch->question_count == 0);
    assert(batch->room_used == 0);
    *used = 0;
    pace_begin(&session->pace);
    do {
        const struct beginning beginning = begin_batch(session, *used);
        more = gather(session, service, input, used, &close);
        enum engine_state state = flush(session, batch, service, output);
        if (state == ENGINE_ASKING) {
            put_back(session, &beginning);
            *used = beginning.at;
        }
        if (state != ENGINE_OPEN) {
            return state;
        }
    } while (more && !(has_answers && service->answers_left == 0)
             && !has_to_pause(session, service, output));
    if (more && !output->failed) {
        return ENGINE_PAUSED;
    }
    if (close || output->failed) {
        return ENGINE_CLOSE;
    }
    continue_once(session, output);
    return ENGINE_OPEN;
}

static enum engine_state session_resume(void *memory, struct service *service,
                                        const struct weir_decision *decisions,
                                        struct buffer *output)
{
    struct http1_session *session = memory;
    struct http1_batch *batch = service->scratch[PROTOCOL_HTTP];
    struct http1_task *task = http1_wait_answer(session, batch, service, decisions);
    finish(service, batch, task);
    http1_reply(batch, service, task, output);
    batch->failure = NULL;
    http1_wait_release(session);
    return task->close || output->failed ? ENGINE_CLOSE : ENGINE_OPEN;
}

static bool session_is_stranger(const void *memory, const struct service *service)
{
    const struct http1_session *session = memory;
    return service->config->password != NULL && !session->is_known;
}

static size_t session_held_bytes(const void *memory)
{
    return http1_wait_held_bytes(memory);
}

const struct engine_ops HTTP1_ENGINE = {
    .name = "http",
    .protocol = PROTOCOL_HTTP,
    .too_late = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    .session_bytes = sizeof(struct http1_session),
    .scratch_bytes = sizeof(struct http1_batch),
    .open = session_open,
    .feed = session_feed,
    .resume = session_resume,
    .is_stranger = session_is_stranger,
    .held_bytes = session_held_bytes,
    .close = session_close,
};
