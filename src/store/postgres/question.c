/* SPDX-License-Identifier: MIT */
#include "store/postgres/question.h"

#include <assert.h>
#include <string.h>

#include "core/operation.h"
#include "store/swap.h"

/* ---- what is kept ---- */

size_t question_ask_bytes(const struct store *store, const struct weir_request *requests,
                          size_t count)
{
    (void)store, (void)requests;
    return sizeof(struct ask) + count * sizeof(struct question);
}

static void keep(struct question *question, const struct weir_request *request,
                 struct weir_detail *detail)
{
    const struct weir_rule *rule = request->rule;
    *question = (struct question){.planned.and_next = request->and_next,
                                  .detail = detail,
                                  .limit = rule->limit,
                                  .cost_micro = request->cost_micro,
                                  .block_ns = request->block_ns,
                                  .operation = request->operation,
                                  .shadow = request->shadow};
    bucket_name(question->planned.name, rule->hash_key, request->key, request->key_len);
}

/* What the planner is told of a run, or of a single question. */
static void plan_run(struct question *questions, size_t count)
{
    bool charges = false;
    bool is_never = false;
    for (size_t i = 0; i < count; i++) {
        struct charge charge = charge_of(&questions[i].limit, questions[i].cost_micro);
        struct plan_question *planned = &questions[i].planned;
        bool is_nothing = charge.cost_micro == 0 || charge.never;
        planned->denominator = questions[i].limit.denominator;
        planned->span = is_nothing ? (struct span){0, 0} : charge.span;
        planned->full =
            is_nothing ? (struct span){WEIR_SPAN_NS_MAX, 0} : limit_full(&questions[i].limit);
        charges = charges || !is_nothing;
        is_never = is_never || charge.never;
    }
    for (size_t i = 0; i < count; i++) {
        bool has_span = (questions[i].planned.span.ns | questions[i].planned.span.rest) != 0;
        questions[i].is_read = questions[i].operation == WEIR_CAN_TAKE || is_never || !charges;
        questions[i].planned.is_read = questions[i].is_read || !has_span;
    }
}

void question_request(struct question_request *request, const struct question *questions,
                      size_t count)
{
    assert(count <= WEIR_TOGETHER_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct question *question = &questions[i];
        request->rules[i].limit = question->limit;
        request->requests[i] = (struct weir_request){.rule = &request->rules[i],
                                                     .cost_micro = question->cost_micro,
                                                     .operation = question->operation,
                                                     .and_next = question->planned.and_next,
                                                     .shadow = question->shadow,
                                                     .detail = question->detail,
                                                     .block_ns = question->block_ns};
        memcpy(request->names[i], question->planned.name, BUCKET_NAME_BYTES);
    }
}

static bool can_decide(const struct question *questions, const struct weir_request *requests,
                       size_t count)
{
    uint8_t names[WEIR_TOGETHER_MAX][BUCKET_NAME_BYTES];
    for (size_t i = 0; i < count && i < WEIR_TOGETHER_MAX; i++) {
        memcpy(names[i], questions[i].planned.name, BUCKET_NAME_BYTES);
    }
    return swap_can_decide(requests, (const uint8_t(*)[BUCKET_NAME_BYTES])names, count);
}

/* Keeps all questions, each with an error for its answer. Returns whether swap has to decide. */
static bool keep_all(struct batch *batch, const struct weir_request *requests)
{
    struct ask *ask = ask_of(batch);
    struct weir_detail *details = batch_details(batch);
    bool is_swap = false;
    for (size_t at = 0, count; at < batch->count; at += count) {
        struct question *questions = ask->questions + at;
        count = run_length(requests + at, batch->count - at);
        for (size_t i = 0; i < count; i++) {
            bool has_detail = requests[at + i].detail != NULL;
            keep(&questions[i], &requests[at + i], has_detail ? details++ : NULL);
            questions[i].batch = batch;
            questions[i].decision = &batch->decisions[at + i];
            if (has_detail) {
                *questions[i].detail = (struct weir_detail){.amount = amount_of(0, 1)};
            }
            bucket_answer_failed(questions[i].decision, &questions[i].limit);
        }
        questions[count - 1].planned.and_next = false; // the last one of a batch may say so
        bool is_asked = can_decide(questions, requests + at, count);
        for (size_t i = 0; i < count; i++) {
            questions[i].is_asked = is_asked;
        }
        is_swap = is_swap || (is_asked && swap_is_needed(requests + at, count));
    }
    return is_swap;
}

void question_copy(const struct store *store, struct batch *batch,
                   const struct weir_request *requests)
{
    struct ask *ask = ask_of(batch);
    (void)store;
    *ask = (struct ask){.asked_count = 0};
    bool is_swap = ask->is_swap = keep_all(batch, requests);
    for (size_t at = 0, count; at < batch->count; at += count) {
        struct question *questions = ask->questions + at;
        count = question_run_length(questions);
        if (!questions->is_asked) {
            continue;
        }
        if (!is_swap) {
            plan_run(questions, count);
        }
        for (size_t i = 0; i < count; i++) {
            questions[i].is_swap = is_swap;
        }
        ask->asked_count += (uint32_t)count;
        ask->weight += is_swap ? (uint32_t)count * SWAP_WEIGHT
                               : (uint32_t)count + (count > 1 ? RUN_WEIGHT : 0);
    }
}

/* ---- answers ---- */

static struct charge charge_of_question(const struct question *question)
{
    return charge_of(&question->limit, question->cost_micro);
}

/* The reading is not the one that decided, but taken a moment later: where the take would fit by now, it is told to come
 * again after a nanosecond. */
static void let_time_pass(struct weir_decision *decision)
{
    if (decision->verdict == WEIR_LIMITED && decision->retry_after_ns < 1) {
        decision->retry_after_ns = 1;
    }
}

/* What a bucket of this moment answers. */
static struct outcome look(struct question *question, struct span moment, uint64_t at_ns)
{
    struct charge charge = charge_of_question(question);
    struct weir_bucket bucket = {moment.ns, moment.rest};
    if (question->operation == WEIR_CAN_TAKE && question->detail != NULL) {
        question->detail->existed = kind_is_live(bucket, &question->limit, at_ns);
    }
    return kind_take(bucket, &question->limit, &charge, at_ns);
}

void question_answer(struct question *question, uint32_t place, const struct statement_row *row)
{
    struct span moment = plan_moment_after(&question->planned, place, row->took, row->moment);
    uint64_t at_ns = clamp_now(row->at_ns);
    enum weir_verdict verdict = place < row->took ? WEIR_ALLOWED : WEIR_LIMITED;
    struct charge charge = charge_of_question(question);
    struct outcome outcome =
        question->is_read ? look(question, moment, at_ns) : (struct outcome){verdict, moment};
    kind_answer_take(question->decision, &question->limit, &charge, outcome, at_ns);
    let_time_pass(question->decision);
}

void question_answer_run(struct question *const *questions, const struct statement_row *rows,
                         size_t count)
{
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    struct span moments[WEIR_TOGETHER_MAX];
    bool agree = true;
    assert(count > 0 && count <= WEIR_TOGETHER_MAX);
    for (size_t i = 0; i < count; i++) {
        struct question *question = questions[i];
        moments[i] = plan_moment_after(&question->planned, 0, 0, rows[i].moment);
        enum weir_verdict verdict = rows[i].took != 0 ? WEIR_ALLOWED : WEIR_LIMITED;
        outcomes[i] = question->is_read ? look(question, moments[i], clamp_now(rows[i].at_ns))
                                        : (struct outcome){verdict, moments[i]};
        agree = agree && outcomes[i].verdict == WEIR_ALLOWED;
    }
    for (size_t i = 0; i < count; i++) {
        struct charge charge = charge_of_question(questions[i]);
        run_answer_take(questions[i]->decision, &questions[i]->limit, &charge, outcomes[i],
                        moments[i], agree, clamp_now(rows[i].at_ns));
        let_time_pass(questions[i]->decision);
    }
}
