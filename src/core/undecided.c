/* SPDX-License-Identifier: MIT
 *
 * Answers without a store: those of an empty bucket, or an error. */
#include "core/undecided.h"

#include <assert.h>
#include <string.h>

#include "core/operation.h"

static const struct weir_bucket EMPTY = {0, 0};

static struct outcome take_window(const struct weir_limit *limit, const struct charge *charge,
                                  uint64_t now_ns)
{
    enum weir_verdict verdict = window_verdict(limit, charge, 0);
    uint64_t added = verdict == WEIR_ALLOWED ? charge->cost_micro / WEIR_UNIT : 0;
    return window_outcome(verdict, added > 0 ? now_ns + limit->full_ns : 0, added);
}

static struct outcome fill_window(const struct weir_limit *limit, const struct charge *charge,
                                  uint64_t now_ns, struct weir_detail *detail)
{
    if (charge->uncounted) {
        detail->amount = amount_of(charge->cost_micro, WEIR_UNIT);
        return window_outcome(WEIR_NEVER, 0, 0);
    }
    uint64_t cost = charge->cost_micro / WEIR_UNIT;
    uint64_t added = cost < limit->capacity ? cost : limit->capacity;
    detail->amount = amount_of(cost - added, 1);
    detail->full = added == limit->capacity;
    return window_outcome(WEIR_ALLOWED, added > 0 ? now_ns + limit->full_ns : 0, added);
}

struct outcome undecided_outcome(const struct weir_request *request, const struct charge *charge,
                                 struct weir_detail *detail, uint64_t now_ns)
{
    const struct weir_limit *limit = &request->rule->limit;
    *detail = (struct weir_detail){.amount = amount_of(0, 1)};
    bool allows = limit->on_error == WEIR_ON_ERROR_ALLOW;
    switch (request->operation) {
    case WEIR_TAKE:
    case WEIR_CAN_TAKE:
        if (allows) {
            return kind_has_log(limit) ? take_window(limit, charge, now_ns)
                                       : kind_take(EMPTY, limit, charge, now_ns);
        }
        break;
    case WEIR_FILL:
        if (allows) {
            return kind_has_log(limit)
                       ? fill_window(limit, charge, now_ns, detail)
                       : kind_fill(EMPTY, limit, charge, now_ns, &detail->amount, &detail->full);
        }
        break;
    case WEIR_REFUND:
    case WEIR_SHOW:
    case WEIR_RESET:
    case WEIR_BLOCK:
    case WEIR_UNBLOCK: break;
    }
    return (struct outcome){WEIR_FAILED, {now_ns, 0}};
}

/* A run of requests on its way to its answers. */
struct run {
    const struct weir_request *requests;
    size_t count; // 1 .. WEIR_TOGETHER_MAX
    struct charge charges[WEIR_TOGETHER_MAX];
    struct outcome outcomes[WEIR_TOGETHER_MAX];
};

static bool is_same_bucket(const struct weir_request *a, const struct weir_request *b)
{
    return memcmp(a->rule->hash_key, b->rule->hash_key, sizeof a->rule->hash_key) == 0
           && a->key_len == b->key_len
           && (a->key_len == 0 || memcmp(a->key, b->key, a->key_len) == 0);
}

/* A run asks one thing, each bucket once, and under limits that are some. */
static bool is_sound(const struct weir_request *requests, size_t count)
{
    if (count > WEIR_TOGETHER_MAX || (count > 1 && !request_is_take(&requests[0]))) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (requests[i].operation != requests[0].operation
            || !limit_is_compiled(&requests[i].rule->limit)) {
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (is_same_bucket(&requests[i], &requests[j])) {
                return false;
            }
        }
    }
    return true;
}

/* Fills in what each limit says by itself, and the details. True if nobody refuses. */
static bool judge(struct run *run, uint64_t utc_ns)
{
    bool agree = true;
    for (size_t i = 0; i < run->count; i++) {
        const struct weir_request *request = &run->requests[i];
        struct weir_detail unused;
        run->charges[i] = charge_of(&request->rule->limit, request->cost_micro); // the offset is 0
        run->outcomes[i] = undecided_outcome(
            request, &run->charges[i], request->detail != NULL ? request->detail : &unused, utc_ns);
        agree = agree && (request->shadow || run->outcomes[i].verdict == WEIR_ALLOWED);
    }
    return agree;
}

static void answer_run(struct run *run, struct weir_decision *decisions, uint64_t utc_ns)
{
    bool agree = judge(run, utc_ns);
    for (size_t i = 0; i < run->count; i++) {
        const struct weir_limit *limit = &run->requests[i].rule->limit;
        struct outcome outcome = run->outcomes[i];
        if (run->count > 1) { // of takes
            run_answer_take(&decisions[i], limit, &run->charges[i], outcome, (struct span){0, 0},
                            agree, utc_ns);
        } else {
            operation_answer(&decisions[i], &run->requests[i], &run->charges[i], outcome, utc_ns);
        }
    }
}

void answer_nonsense(const struct weir_request *requests, struct weir_decision *decisions,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bucket_answer_failed(&decisions[i], &requests[i].rule->limit);
        if (requests[i].detail != NULL) {
            *requests[i].detail = (struct weir_detail){.amount = amount_of(0, 1)};
        }
    }
}

void answer_undecided(const struct weir_request *requests, struct weir_decision *decisions,
                      size_t count, uint64_t utc_ns)
{
    utc_ns = clamp_now(utc_ns);
    for (size_t at = 0; at < count;) {
        struct run run; // judging it fills in the rest
        run.requests = requests + at;
        run.count = run_length(run.requests, count - at);
        if (is_sound(run.requests, run.count)) {
            answer_run(&run, decisions + at, utc_ns);
        } else {
            answer_nonsense(run.requests, decisions + at, run.count);
        }
        at += run.count;
    }
}
