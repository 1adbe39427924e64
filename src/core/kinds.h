/* SPDX-License-Identifier: MIT
 *
 * What all kinds of limit have to be able to do, and which of them does it. The one place that knows all
 * kinds: whoever owns states calls these, and neither knows nor asks what a state means.
 *
 * The usual takes of a bucket and of a queue (bucket_math.h) go past all of this: a limit of any other kind
 * has none.
 *
 * Each question is a switch with a row per kind. Buckets and queues, which are charged alike, are what is
 * left behind it: so the compiler sees at once that all others are named. */
#ifndef WEIR_CORE_KINDS_H
#define WEIR_CORE_KINDS_H

#include "core/bucket_math.h"
#include "core/fixed_math.h"
#include "core/sliding_math.h"
#include "core/stepped_math.h"
#include "core/window_math.h"

static inline enum weir_kind kind_of(const struct weir_limit *limit)
{
    return (enum weir_kind)limit->kind;
}

/* Whether it keeps a log, so that no state says all about it: a store that keeps one asks it, and whoever has
 * a state alone is answered that nothing can be decided. Its outcomes are window_outcome()s. */
static inline bool kind_has_log(const struct weir_limit *limit)
{
    return limit->kind == WEIR_KIND_WINDOW;
}

/* The longest period for which its capacity is all that passes; 0 of a limit that drains instead. */
static inline uint64_t kind_period_ns(const struct weir_limit *limit)
{
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE:
    case WEIR_KIND_STEPPED: break;
    case WEIR_KIND_FIXED: return fixed_period_ns(limit);
    case WEIR_KIND_SLIDING:
    case WEIR_KIND_WINDOW: return limit->scale;
    }
    return 0;
}

/* From full to empty, whole nanoseconds, rounded up; 0 of a limit that has a period. */
static inline uint64_t kind_drain_ns(const struct weir_limit *limit)
{
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return limit->full_ns; // its rest is slack
    case WEIR_KIND_FIXED:
    case WEIR_KIND_SLIDING:
    case WEIR_KIND_WINDOW: return 0;
    }
    return span_ceil_ns(limit_full(limit));
}

static inline struct outcome window_alone(struct weir_bucket bucket)
{
    return (struct outcome){WEIR_FAILED, {bucket.empty_at_ns, bucket.word & BUCKET_REST_MASK}};
}

static inline struct outcome kind_take(struct weir_bucket bucket, const struct weir_limit *limit,
                                       const struct charge *charge, uint64_t now_ns)
{
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return stepped_take(bucket, limit, charge, now_ns);
    case WEIR_KIND_FIXED: return fixed_take(bucket, limit, charge, now_ns);
    case WEIR_KIND_SLIDING: return sliding_take(bucket, limit, charge, now_ns);
    case WEIR_KIND_WINDOW: return window_alone(bucket);
    }
    return bucket_take(bucket, limit, charge, now_ns);
}

/* A cost that is no multiple of what the limit counts in is never, here too. */
static inline struct outcome kind_fill(struct weir_bucket bucket, const struct weir_limit *limit,
                                       const struct charge *charge, uint64_t now_ns,
                                       struct weir_amount *spill, bool *full)
{
    if (charge->uncounted) {
        *spill = amount_of(charge->cost_micro, WEIR_UNIT);
        *full = false;
        return (struct outcome){WEIR_NEVER, bucket_moment(bucket, limit)};
    }
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return stepped_fill(bucket, limit, charge, now_ns, spill, full);
    case WEIR_KIND_FIXED: return fixed_fill(bucket, limit, charge, now_ns, spill, full);
    case WEIR_KIND_SLIDING: return sliding_fill(bucket, limit, charge, now_ns, spill, full);
    case WEIR_KIND_WINDOW:
        *spill = amount_of(charge->cost_micro, WEIR_UNIT);
        *full = false;
        return window_alone(bucket);
    }
    return bucket_fill(bucket, limit, charge, now_ns, spill, full);
}

/* Likewise. */
static inline struct outcome kind_refund(struct weir_bucket bucket, const struct weir_limit *limit,
                                         const struct charge *charge, uint64_t now_ns)
{
    if (charge->uncounted) {
        return (struct outcome){WEIR_NEVER, bucket_moment(bucket, limit)};
    }
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return stepped_refund(bucket, limit, charge, now_ns);
    case WEIR_KIND_FIXED: return fixed_refund(bucket, limit, charge, now_ns);
    case WEIR_KIND_SLIDING: return sliding_refund(bucket, limit, charge, now_ns);
    case WEIR_KIND_WINDOW: return window_alone(bucket);
    }
    return bucket_refund(bucket, limit, charge, now_ns);
}

static inline struct weir_amount kind_level(struct weir_bucket bucket,
                                            const struct weir_limit *limit, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return amount_of(stepped_level(limit, moment, now_ns), WEIR_UNIT);
    case WEIR_KIND_FIXED: return amount_of(fixed_level(limit, moment, now_ns), WEIR_UNIT);
    case WEIR_KIND_SLIDING: return sliding_level(limit, moment, now_ns);
    case WEIR_KIND_WINDOW: return amount_of(0, 1);
    }
    return bucket_level(bucket, limit, now_ns);
}

/* How many whole units still fit. */
static inline uint64_t kind_remaining(const struct weir_limit *limit, struct span moment,
                                      uint64_t now_ns)
{
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return stepped_room(limit, moment, now_ns) / WEIR_UNIT;
    case WEIR_KIND_FIXED: return fixed_room(limit, moment, now_ns) / WEIR_UNIT;
    case WEIR_KIND_SLIDING: return sliding_remaining(limit, moment, now_ns);
    case WEIR_KIND_WINDOW: return window_room(limit, moment.rest);
    }
    return span_remaining(span_since(moment, now_ns), limit);
}

/* The first whole nanosecond at which a bucket of this moment is empty; any that has passed where it is. */
static inline uint64_t kind_empty_at_ns(const struct weir_limit *limit, struct span moment)
{
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return moment.ns;
    case WEIR_KIND_FIXED:
    case WEIR_KIND_SLIDING:
    case WEIR_KIND_WINDOW: return moment.rest > 0 ? moment.ns : 0;
    }
    return span_ceil_ns(moment);
}

/* Whether it holds anything. */
static inline bool kind_is_live(struct weir_bucket bucket, const struct weir_limit *limit,
                                uint64_t now_ns)
{
    return kind_empty_at_ns(limit, bucket_moment(bucket, limit)) > now_ns;
}

/* When a block ends that a refusal, or a full bucket, leads to: `moment` is where that left it. */
static inline uint64_t kind_block_ends_ns(const struct weir_limit *limit, struct span moment,
                                          uint64_t now_ns)
{
    return limit->block_ns == WEIR_BLOCK_UNTIL_EMPTY ? kind_empty_at_ns(limit, moment)
                                                     : now_ns + limit->block_ns;
}

/* The earliest reading, now or later, at which a charge fits that is not for never. */
static inline uint64_t kind_fits_at(const struct weir_limit *limit, struct span moment,
                                    const struct charge *charge, uint64_t now_ns)
{
    switch (kind_of(limit)) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return stepped_fits_at(limit, moment, charge->cost_micro, now_ns);
    case WEIR_KIND_FIXED: return fixed_fits_at(limit, moment, charge->cost_micro, now_ns);
    case WEIR_KIND_SLIDING: return sliding_fits_at(limit, moment, charge->cost_micro, now_ns);
    case WEIR_KIND_WINDOW: return now_ns; // only its log knows
    }
    return bucket_fits_at(limit, moment, charge, now_ns);
}

/* Writes the answer, field by field: copies of a whole decision would cost more than deciding. */
static inline void kind_answer(struct weir_decision *decision, const struct weir_limit *limit,
                               struct outcome outcome, uint64_t now_ns)
{
    if (__builtin_expect(outcome.verdict == WEIR_FAILED, 0)) {
        bucket_answer_failed(decision, limit);
        return;
    }
    uint64_t empty_at_ns = kind_empty_at_ns(limit, outcome.moment);
    decision->verdict = outcome.verdict;
    decision->capacity = limit->capacity;
    decision->remaining = kind_remaining(limit, outcome.moment, now_ns);
    decision->retry_after_ns = -1;
    decision->reset_after_ns = empty_at_ns > now_ns ? (int64_t)(empty_at_ns - now_ns) : 0;
    decision->delay_ns = 0;
}

/* The answer to a take: it also says when a refused one fits, and when an allowed one may go. */
static inline void kind_answer_take(struct weir_decision *decision, const struct weir_limit *limit,
                                    const struct charge *charge, struct outcome outcome,
                                    uint64_t now_ns)
{
    kind_answer(decision, limit, outcome, now_ns);
    if (outcome.verdict == WEIR_LIMITED) {
        uint64_t fits_at_ns = kind_fits_at(limit, outcome.moment, charge, now_ns);
        decision->retry_after_ns = (int64_t)(fits_at_ns - now_ns);
    }
    if (outcome.verdict == WEIR_ALLOWED) {
        decision->delay_ns = (int64_t)bucket_delay_ns(limit, charge, outcome, now_ns);
    }
}

#endif
