/* SPDX-License-Identifier: MIT
 *
 * The answers to questions: resp_flush() decides a batch of them at one instant and writes what was
 * decided, in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/resp/resp_session.h"

/* Each put_..() writes into memory that was reserved, and returns where it ends. */

/* Whole seconds, rounded up; -1 stays. */
static int64_t ceil_seconds(int64_t ns)
{
    return ns < 0 ? -1 : (int64_t)(((uint64_t)ns + 999999999) / 1000000000);
}

/* An error: `beginning`, and why nothing was decided, or else that the table is full. */
static char *put_failure(char *to, const struct resp_batch *batch, const char *beginning)
{
    const char *why =
        batch->undecided != NULL ? batch->undecided : "the table is full of live buckets";
    to = resp_put_text(to, beginning, strlen(beginning));
    to = resp_put_text(to, why, strlen(why));
    return resp_put_text(to, "\r\n", 2);
}

static char *put_throttle(char *to, const struct resp_batch *batch,
                          const struct resp_question *question,
                          const struct weir_decision *decision)
{
    if (decision->verdict == WEIR_FAILED) {
        return put_failure(to, batch,
                           question->answer == RESP_ANSWER_GCRA ? "-ERR "
                                                                : "-Cell error: Store error: ");
    }
    to = resp_put_text(to, "*5\r\n", 4);
    to = resp_put_integer(to, decision->verdict != WEIR_ALLOWED || question->is_beyond);
    to = resp_put_integer(to, (int64_t)decision->capacity);
    to = resp_put_integer(to, (int64_t)decision->remaining);
    to = resp_put_integer(to, ceil_seconds(decision->retry_after_ns));
    return resp_put_integer(to, ceil_seconds(decision->reset_after_ns));
}

/* A field's name, which RESP2 does without. */
#define PUT_NAME(to, version, name)                                                                \
    ((version) == 3 ? resp_put_text(to, "+" name "\r\n", sizeof "+" name "\r\n" - 1) : (to))

static char *put_decision(char *to, int version, const struct weir_decision *decision)
{
    to = PUT_NAME(to, version, "verdict");
    to = resp_put_integer(to, (int64_t)decision->verdict);
    to = PUT_NAME(to, version, "capacity");
    to = resp_put_integer(to, (int64_t)decision->capacity);
    to = PUT_NAME(to, version, "remaining");
    to = resp_put_integer(to, (int64_t)decision->remaining);
    to = PUT_NAME(to, version, "retry_after_ns");
    to = resp_put_integer(to, decision->retry_after_ns);
    to = PUT_NAME(to, version, "reset_after_ns");
    to = resp_put_integer(to, decision->reset_after_ns);
    to = PUT_NAME(to, version, "delay_ns");
    return resp_put_integer(to, decision->delay_ns);
}

static char *put_header(char *to, int version, unsigned field_count)
{
    *to++ = version == 3 ? '%' : '*';
    to = resp_put_digits(to, field_count);
    return resp_put_text(to, "\r\n", 2);
}

/* What limits in shadow mode would have said. Who asks for it hears it always. Who does not finds it in a map, where
 * it is something to say; an array keeps its length, because clients take it apart by that. */
static bool says_shadow(int version, bool asks, const struct shadow_refusal *shadow)
{
    return asks || (version == 3 && shadow->verdict != WEIR_ALLOWED);
}

enum { SHADOW_FIELD_COUNT = 2 }; // and under several limits one more

static char *put_shadow(char *to, int version, const struct shadow_refusal *shadow)
{
    to = PUT_NAME(to, version, "shadow");
    to = resp_put_integer(to, (int64_t)shadow->verdict);
    to = PUT_NAME(to, version, "shadow_retry_after_ns");
    return resp_put_integer(to, shadow->retry_after_ns);
}

/* The answer of a single limit. */
static char *put_alone(char *to, int version, const struct weir_decision *decision, bool asks,
                       const struct shadow_refusal *shadow)
{
    bool says = says_shadow(version, asks, shadow);
    to = put_header(to, version, 6 + (says ? SHADOW_FIELD_COUNT : 0));
    to = put_decision(to, version, decision);
    return says ? put_shadow(to, version, shadow) : to;
}

static char *put_amount(char *to, const struct weir_amount *amount)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    int length = weir_amount_print(amount, text);
    return to + sprintf(to, "$%d\r\n%s\r\n", length, text);
}

static char *put_fill(char *to, int version, const struct weir_decision *decision,
                      const struct weir_detail *detail)
{
    to = put_header(to, version, 8);
    to = put_decision(to, version, decision);
    to = PUT_NAME(to, version, "spill");
    to = put_amount(to, &detail->amount);
    to = PUT_NAME(to, version, "full");
    return resp_put_integer(to, detail->full);
}

static char *put_show(char *to, int version, const struct weir_decision *decision,
                      const struct weir_detail *detail)
{
    to = put_header(to, version, 8);
    to = put_decision(to, version, decision);
    to = PUT_NAME(to, version, "level");
    to = put_amount(to, &detail->amount);
    to = PUT_NAME(to, version, "waiting");
    return resp_put_integer(to, (int64_t)detail->waiting);
}

/* What all limits together decided. */
static char *put_limit(char *to, int version, const struct weir_decision *decision)
{
    to = put_header(to, version, 3);
    to = PUT_NAME(to, version, "capacity");
    to = resp_put_integer(to, (int64_t)decision->capacity);
    to = PUT_NAME(to, version, "remaining");
    to = resp_put_integer(to, (int64_t)decision->remaining);
    to = PUT_NAME(to, version, "reset_after_ns");
    return resp_put_integer(to, decision->reset_after_ns);
}

static char *put_array_header(char *to, unsigned count)
{
    *to++ = '*';
    to = resp_put_digits(to, count);
    return resp_put_text(to, "\r\n", 2);
}

/* In RESP2 the limits follow one by one; in RESP3 they are one array. */
static char *put_together(char *to, int version, const struct resp_whole *whole,
                          const struct weir_decision *decisions, unsigned count, bool asks,
                          const struct shadow_refusal *shadow)
{
    bool says = says_shadow(version, asks, shadow);
    unsigned shadow_count = says ? SHADOW_FIELD_COUNT + 1 : 0;
    to = put_header(to, version, (version == 3 ? 8 : 7 + count) + shadow_count);
    to = put_decision(to, version, &whole->decision);
    to = PUT_NAME(to, version, "binding");
    to = resp_put_integer(to, whole->binding);
    to = PUT_NAME(to, version, "limits");
    to = version == 3 ? put_array_header(to, count) : to;
    for (unsigned limit = 0; limit < count; limit++) {
        to = put_limit(to, version, &decisions[limit]);
    }
    if (says) {
        to = put_shadow(to, version, shadow);
        to = PUT_NAME(to, version, "shadow_binding");
        to = resp_put_integer(to, shadow->binding);
    }
    return to;
}

static char *put_existed(char *to, const struct resp_batch *batch,
                         const struct weir_decision *decision, const struct weir_detail *detail)
{
    return decision->verdict == WEIR_FAILED ? put_failure(to, batch, "-ERR no decision: ")
                                            : resp_put_integer(to, detail->existed);
}

static char *put_block(char *to, const struct resp_batch *batch,
                       const struct weir_decision *decision)
{
    return decision->verdict == WEIR_FAILED
               ? put_failure(to, batch, "-ERR the key is not blocked: ")
               : resp_put_integer(to, 1);
}

static char *put_answer(char *to, const struct resp_batch *batch, size_t i)
{
    static const struct shadow_refusal NONE = {WEIR_ALLOWED, -1, -1};
    const struct resp_question *question = &batch->questions[i];
    const struct weir_decision *decision = &batch->decisions[i];
    const struct weir_detail *detail = &batch->details[i];
    switch (question->answer) {
    case RESP_ANSWER_THROTTLE:
    case RESP_ANSWER_GCRA: return put_throttle(to, batch, question, decision);
    case RESP_ANSWER_DECISION:
        return put_alone(to, question->version, decision, question->asks_shadow,
                         batch->named[i] != NULL ? &batch->shadows[i] : &NONE);
    case RESP_ANSWER_FILL: return put_fill(to, question->version, decision, detail);
    case RESP_ANSWER_SHOW: return put_show(to, question->version, decision, detail);
    case RESP_ANSWER_EXISTED: return put_existed(to, batch, decision, detail);
    case RESP_ANSWER_BLOCK: return put_block(to, batch, decision);
    case RESP_ANSWER_TOGETHER:
        return put_together(to, question->version, &batch->wholes[i], decision, question->count,
                            question->asks_shadow, &batch->shadows[i]);
    }
    return to;
}

void resp_forget_wait(struct resp_session *session)
{
    free(session->waits_for);
    session->waits_for = NULL;
}

void resp_answer_wait(struct resp_session *session, struct service *service,
                      const struct weir_decision *decisions, struct buffer *output)
{
    static const struct named_limit *const NAMELESS[LIMIT_LIST_COUNT_MAX];
    const struct named_limit *const *named =
        session->waits_for != NULL ? session->waits_for : NAMELESS;
    unsigned count = session->wait_count;
    int version = session->version;
    struct resp_whole whole;
    struct shadow_refusal shadow;
    bool asks = session->wait_asks_shadow;
    struct weir_decision own[LIMIT_LIST_COUNT_MAX]; // shadows pass
    memcpy(own, decisions, count * sizeof own[0]);
    whole.decision = count_together(service, PROTOCOL_RESP, WEIR_TAKE, named, own, count,
                                    &whole.binding, &shadow);
    char *to = buffer_reserve(output, count * RESP_ANSWER_BYTES_MAX);
    if (to != NULL) {
        char *end = session->wait_is_together
                        ? put_together(to, version, &whole, own, count, asks, &shadow)
                        : put_alone(to, version, own, asks, &shadow);
        output->length += (size_t)(end - to);
    }
    resp_forget_wait(session);
}

/* Whether a request that is answered so asks if something may pass. */
static bool is_decision(enum resp_answer answer)
{
    return answer != RESP_ANSWER_EXISTED && answer != RESP_ANSWER_BLOCK;
}

/* Limits in shadow mode let pass here what they would have refused. */
static void count_decisions(struct service *service, struct resp_batch *batch)
{
    uint64_t counts[VERDICT_COUNT] = {0}; // of single limits that were written out
    for (size_t i = 0; i < batch->count; i += batch->questions[i].count) {
        const struct resp_question *question = &batch->questions[i];
        struct weir_decision *decision = &batch->decisions[i];
        enum weir_operation operation = batch->requests[i].operation;
        if (!is_decision(question->answer)) {
            continue;
        }
        if (question->answer == RESP_ANSWER_TOGETHER) {
            struct resp_whole *whole = &batch->wholes[i];
            whole->decision =
                count_together(service, PROTOCOL_RESP, operation, &batch->named[i], decision,
                               question->count, &whole->binding, &batch->shadows[i]);
        } else if (batch->named[i] != NULL) {
            batch->shadows[i] =
                count_alone(service, PROTOCOL_RESP, operation, batch->named[i], decision);
        } else {
            counts[question->is_beyond ? WEIR_NEVER : decision->verdict]++;
        }
    }
    for (size_t verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        if (counts[verdict] != 0) {
            counter_add(&service->counters->decisions[PROTOCOL_RESP][verdict], counts[verdict]);
        }
    }
}

static void write_answers(struct resp_batch *batch, struct buffer *output)
{
    char *start = buffer_reserve(output, batch->count * RESP_ANSWER_BYTES_MAX);
    if (start == NULL) {
        return;
    }
    char *to = start;
    for (size_t i = 0; i < batch->count; i += batch->questions[i].count) {
        to = put_answer(to, batch, i);
    }
    output->length += (size_t)(to - start);
}

bool resp_flush(struct resp_call *call)
{
    struct resp_batch *batch = call->batch;
    struct service *service = call->service;
    bool is_decided = batch->count == 0 || resp_decide(call, batch->count);
    if (is_decided && batch->count > 0) {
        count_decisions(service, batch);
        write_answers(batch, call->output);
    }
    if (is_decided) {
        counter_add(&service->counters->requests[PROTOCOL_RESP], call->gathered);
    }
    call->gathered = 0;
    batch->count = 0;
    batch->rule_count = 0; // the text of the last limit may go away now
    batch->keys_used = 0;
    return is_decided;
}
