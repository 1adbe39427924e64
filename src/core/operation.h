/* SPDX-License-Identifier: MIT
 *
 * What a request does to the state of one bucket, and what it is answered: for all stores that decide in C. Values in,
 * values out. A store reads the state, calls these, writes the next one, and tries again if somebody came between.
 *
 * Blocks and runs are here too, as far as they are arithmetic. Where a block lies, and how a store holds several
 * buckets still, is the store's own affair. */
#ifndef WEIR_CORE_OPERATION_H
#define WEIR_CORE_OPERATION_H

#include "core/kinds.h"
#include "weir/limiter.h"

/* Both are the caller's: the operation may be any number, and the limit what a failure has left. */
static inline bool request_makes_sense(const struct weir_request *request)
{
    return (unsigned)request->operation <= WEIR_UNBLOCK && limit_is_compiled(&request->rule->limit);
}

static inline bool request_is_take(const struct weir_request *request)
{
    return request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE;
}

/* ---- one bucket, without a log ---- */

/* Where an operation leaves the bucket, and what it says beside the decision: a take nothing, and a block is the store's
 * affair. */
static inline struct outcome operation_apply(struct weir_bucket bucket,
                                             const struct weir_request *request,
                                             const struct charge *charge, uint64_t now_ns,
                                             struct weir_detail *detail)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct outcome outcome = bucket_show(bucket, limit);
    if (request->operation == WEIR_TAKE) {
        return kind_take(bucket, limit, charge, now_ns);
    }
    *detail = (struct weir_detail){.existed = kind_is_live(bucket, limit, now_ns)};
    switch (request->operation) {
    case WEIR_TAKE: break;
    case WEIR_CAN_TAKE: outcome = kind_take(bucket, limit, charge, now_ns); break;
    case WEIR_FILL:
        outcome = kind_fill(bucket, limit, charge, now_ns, &detail->amount, &detail->full);
        break;
    case WEIR_REFUND: outcome = kind_refund(bucket, limit, charge, now_ns); break;
    case WEIR_SHOW:
        detail->amount = kind_level(bucket, limit, now_ns);
        detail->empty_at_ns = detail->existed ? kind_empty_at_ns(limit, outcome.moment) : 0;
        break;
    case WEIR_RESET:
        if (detail->existed) {
            outcome.moment = (struct span){now_ns, 0};
        }
        break;
    case WEIR_BLOCK:
    case WEIR_UNBLOCK: break;
    }
    return outcome;
}

/* True if the bucket has to be written to come to this outcome. */
static inline bool operation_changes(struct weir_bucket bucket, const struct weir_request *request,
                                     struct outcome outcome)
{
    struct span moment = bucket_moment(bucket, &request->rule->limit);
    return request->operation != WEIR_CAN_TAKE
           && (outcome.moment.ns != moment.ns || outcome.moment.rest != moment.rest);
}

static inline void operation_answer(struct weir_decision *decision,
                                    const struct weir_request *request, const struct charge *charge,
                                    struct outcome outcome, uint64_t now_ns)
{
    const struct weir_limit *limit = &request->rule->limit;
    if (request_is_take(request)) {
        kind_answer_take(decision, limit, charge, outcome, now_ns);
    } else {
        kind_answer(decision, limit, outcome, now_ns);
    }
}

/* ---- blocks ---- */

/* Whether a block of the key is the answer. Not to a request that would charge nothing, unless it only looks. */
static inline bool operation_heeds_block(const struct weir_request *request,
                                         const struct charge *charge)
{
    switch (request->operation) {
    case WEIR_TAKE:
    case WEIR_CAN_TAKE: return charge->cost_micro != 0 && !charge->never;
    case WEIR_FILL: return charge->cost_micro != 0 && !charge->uncounted;
    case WEIR_SHOW: return true;
    case WEIR_REFUND:
    case WEIR_RESET:
    case WEIR_BLOCK:
    case WEIR_UNBLOCK: break;
    }
    return false;
}

/* Whether this outcome blocks the key. */
static inline bool operation_locks_out(const struct weir_request *request, struct outcome outcome,
                                       const struct weir_detail *detail)
{
    if (request->rule->limit.block_ns == 0) {
        return false;
    }
    return (request->operation == WEIR_TAKE && outcome.verdict == WEIR_LIMITED)
           || (request->operation == WEIR_FILL && outcome.verdict == WEIR_ALLOWED && detail->full
               && request->cost_micro != 0);
}

/* When a block ends that a WEIR_BLOCK begins now. */
static inline uint64_t operation_block_ends_ns(const struct weir_request *request, uint64_t now_ns)
{
    uint64_t block_ns = request->block_ns > 0 ? request->block_ns : 1;
    return now_ns + (block_ns < WEIR_BLOCK_NS_MAX ? block_ns : WEIR_BLOCK_NS_MAX);
}

/* The answer where a block runs until `ends_ns`, which is later than now. */
static inline void operation_answer_blocked(struct weir_decision *decision,
                                            const struct weir_limit *limit, struct span moment,
                                            uint64_t ends_ns, uint64_t now_ns)
{
    kind_answer(decision, limit, (struct outcome){WEIR_BLOCKED, moment}, now_ns);
    decision->retry_after_ns = (int64_t)(ends_ns - now_ns);
}

/* What is said beside that, if anybody wants it: a fill spills all that it brings. */
static inline void operation_detail_blocked(const struct weir_request *request,
                                            struct weir_bucket bucket, uint64_t now_ns)
{
    if (request->detail != NULL) {
        struct weir_request look = *request;
        look.cost_micro = 0;
        struct charge nothing = charge_of(&request->rule->limit, 0);
        (void)operation_apply(bucket, &look, &nothing, now_ns, request->detail);
        if (request->operation == WEIR_FILL) {
            request->detail->amount = amount_of(request->cost_micro, WEIR_UNIT);
        }
    }
}

/* ---- runs ---- */

/* How many of the next requests are one run. 1: the next one stands alone. */
static inline size_t run_length(const struct weir_request *requests, size_t count)
{
    size_t length = 1;
    while (length < count && requests[length - 1].and_next) {
        length++;
    }
    return length;
}

/* What the requests of a run say together. All zeroes: none has been heard. */
struct run_word {
    bool is_limited; // somebody is
    bool is_refused; // somebody is refused for another reason
};

static inline void run_word_hear(struct run_word *word, const struct weir_request *request,
                                 enum weir_verdict verdict)
{
    if (!request->shadow) {
        word->is_limited = word->is_limited || verdict == WEIR_LIMITED;
        word->is_refused = word->is_refused || (verdict != WEIR_LIMITED && verdict != WEIR_ALLOWED);
    }
}

/* True if nobody refuses. */
static inline bool run_word_agrees(struct run_word word)
{
    return !word.is_limited && !word.is_refused;
}

/* True if the run is refused, and for no other reason than that limits are reached. Then each limit that refuses, and
 * says block=, blocks its key. */
static inline bool run_word_locks_out(struct run_word word)
{
    return word.is_limited && !word.is_refused;
}

/* The answer to one take of a run. If the run is refused, a take that its own limit allows has charged nothing.
 *   before  where its bucket stood
 *   agree   whether the run is allowed */
static inline void run_answer_take(struct weir_decision *decision, const struct weir_limit *limit,
                                   const struct charge *charge, struct outcome outcome,
                                   struct span before, bool agree, uint64_t now_ns)
{
    if (outcome.verdict == WEIR_ALLOWED && !agree) {
        outcome.moment = before;
        kind_answer(decision, limit, outcome, now_ns);
    } else {
        kind_answer_take(decision, limit, charge, outcome, now_ns);
    }
}

#endif
