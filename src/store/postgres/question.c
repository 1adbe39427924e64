/* SPDX-License-Identifier: MIT */
#include "store/postgres/question.h"

#include <assert.h>
#include <string.h>

#include "core/kinds.h"

/* ---- what is kept ---- */

size_t question_ask_bytes(const struct store *store, const struct weir_request *requests,
                          size_t count)
{
    (void)store, (void)requests;
    return sizeof(struct ask) + count * sizeof(struct question);
}

static size_t run_length(const struct weir_request *requests, size_t count)
{
    size_t length = 1;
    while (length < count && requests[length - 1].and_next) {
        length++;
    }
    return length;
}

static bool is_decided_here(const struct weir_request *request, bool is_run)
{
    const struct weir_limit *limit = &request->rule->limit;
    bool is_take = request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE;
    bool drains = limit->kind == WEIR_KIND_BUCKET || limit->kind == WEIR_KIND_QUEUE;
    return is_take && drains && limit_is_compiled(limit) && limit->block_ns == 0
           && !(is_run && request->shadow);
}

/* A run asks one thing, each bucket once. */
static bool is_sound(const struct question *questions, const struct weir_request *requests,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (requests[i].operation != requests[0].operation
            || !is_decided_here(&requests[i], count > 1)) {
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (memcmp(questions[i].planned.name, questions[j].planned.name, BUCKET_NAME_BYTES)
                == 0) {
                return false;
            }
        }
    }
    return count <= WEIR_TOGETHER_MAX;
}

static void keep(struct question *question, const struct weir_request *request,
                 struct weir_detail *detail)
{
    const struct weir_rule *rule = request->rule;
    *question = (struct question){.detail = detail,
                                  .limit = rule->limit,
                                  .cost_micro = request->cost_micro,
                                  .is_can_take = request->operation == WEIR_CAN_TAKE};
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
        planned->and_next = i + 1 < count;
        charges = charges || !is_nothing;
        is_never = is_never || charge.never;
        questions[i].is_asked = true;
    }
    for (size_t i = 0; i < count; i++) {
        bool has_span = (questions[i].planned.span.ns | questions[i].planned.span.rest) != 0;
        questions[i].is_read = questions[i].is_can_take || is_never || !charges;
        questions[i].planned.is_read = questions[i].is_read || !has_span;
    }
}

void question_copy(const struct store *store, struct batch *batch,
                   const struct weir_request *requests)
{
    struct ask *ask = ask_of(batch);
    struct weir_detail *details = batch_details(batch);
    (void)store;
    *ask = (struct ask){.asked_count = 0};
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
        if (is_sound(questions, requests + at, count)) {
            plan_run(questions, count);
            ask->asked_count += (uint32_t)count;
            ask->weight += (uint32_t)count + (count > 1 ? RUN_WEIGHT : 0);
        }
    }
}

/* ---- answers ---- */

static struct charge charge_of_question(const struct question *question)
{
    return charge_of(&question->limit, question->cost_micro);
}

/* The reading is not the one that decided, but taken a moment later: where the take would fit by now, it is told to come
 * again after a nanosecond. */
static void answer(struct question *question, struct outcome outcome, uint64_t at_ns)
{
    struct charge charge = charge_of_question(question);
    kind_answer_take(question->decision, &question->limit, &charge, outcome, at_ns);
    if (outcome.verdict == WEIR_LIMITED && question->decision->retry_after_ns < 1) {
        question->decision->retry_after_ns = 1;
    }
}

/* What a bucket of this moment answers. */
static struct outcome look(struct question *question, struct span moment, uint64_t at_ns)
{
    struct charge charge = charge_of_question(question);
    struct weir_bucket bucket = {moment.ns, moment.rest};
    if (question->is_can_take && question->detail != NULL) {
        question->detail->existed = kind_is_live(bucket, &question->limit, at_ns);
    }
    return kind_take(bucket, &question->limit, &charge, at_ns);
}

void question_answer(struct question *question, uint32_t place, const struct statement_row *row)
{
    struct span moment = plan_moment_after(&question->planned, place, row->took, row->moment);
    uint64_t at_ns = clamp_now(row->at_ns);
    enum weir_verdict verdict = place < row->took ? WEIR_ALLOWED : WEIR_LIMITED;
    struct outcome outcome =
        question->is_read ? look(question, moment, at_ns) : (struct outcome){verdict, moment};
    answer(question, outcome, at_ns);
}

/* What is charged by none is not what a limit allows by itself. */
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
        uint64_t at_ns = clamp_now(rows[i].at_ns);
        if (outcomes[i].verdict == WEIR_ALLOWED && !agree) {
            outcomes[i].moment = moments[i];
            kind_answer(questions[i]->decision, &questions[i]->limit, outcomes[i], at_ns);
        } else {
            answer(questions[i], outcomes[i], at_ns);
        }
    }
}
