/* SPDX-License-Identifier: MIT
 *
 * What all kinds of limit have to be able to do, and which of them does it. The one place that knows all
 * kinds: whoever owns states calls these, and neither knows nor asks what a state means.
 *
 * The usual take of a bucket (bucket_math.h) goes past all of this: a limit of any other kind has no
 * usual takes. */
#ifndef WEIR_CORE_KINDS_H
#define WEIR_CORE_KINDS_H

#include "core/bucket_math.h"
#include "core/stepped_math.h"

static inline bool kind_is_stepped(const struct weir_limit *limit)
{
    return limit->kind == WEIR_KIND_STEPPED;
}

static inline struct outcome kind_take(struct weir_bucket bucket, const struct weir_limit *limit,
                                       const struct charge *charge, uint64_t now_ns)
{
    return kind_is_stepped(limit) ? stepped_take(bucket, limit, charge, now_ns)
                                  : bucket_take(bucket, limit, charge, now_ns);
}

static inline struct outcome kind_fill(struct weir_bucket bucket, const struct weir_limit *limit,
                                       const struct charge *charge, uint64_t now_ns,
                                       struct weir_amount *spill, bool *full)
{
    return kind_is_stepped(limit) ? stepped_fill(bucket, limit, charge, now_ns, spill, full)
                                  : bucket_fill(bucket, limit, charge, now_ns, spill, full);
}

static inline struct outcome kind_refund(struct weir_bucket bucket, const struct weir_limit *limit,
                                         const struct charge *charge, uint64_t now_ns)
{
    return kind_is_stepped(limit) ? stepped_refund(bucket, limit, charge, now_ns)
                                  : bucket_refund(bucket, limit, charge, now_ns);
}

static inline struct weir_amount kind_level(struct weir_bucket bucket,
                                            const struct weir_limit *limit, uint64_t now_ns)
{
    return kind_is_stepped(limit)
               ? amount_of(stepped_level(limit, bucket_moment(bucket, limit), now_ns), WEIR_UNIT)
               : bucket_level(bucket, limit, now_ns);
}

/* The first whole nanosecond at which a bucket of this moment is empty. */
static inline uint64_t kind_empty_at_ns(const struct weir_limit *limit, struct span moment)
{
    return kind_is_stepped(limit) ? moment.ns : span_ceil_ns(moment);
}

/* Whether it holds anything. */
static inline bool kind_is_live(struct weir_bucket bucket, const struct weir_limit *limit,
                                uint64_t now_ns)
{
    return kind_empty_at_ns(limit, bucket_moment(bucket, limit)) > now_ns;
}

/* The earliest reading, now or later, at which a charge fits that is not for never. */
static inline uint64_t kind_fits_at(const struct weir_limit *limit, struct span moment,
                                    const struct charge *charge, uint64_t now_ns)
{
    return kind_is_stepped(limit) ? stepped_fits_at(limit, moment, charge->cost_micro, now_ns)
                                  : bucket_fits_at(limit, moment, charge, now_ns);
}

/* Writes the answer, field by field: copies of a whole decision would cost more than deciding. */
static inline void kind_answer(struct weir_decision *decision, const struct weir_limit *limit,
                               struct outcome outcome, uint64_t now_ns)
{
    if (!kind_is_stepped(limit)) {
        bucket_answer(decision, limit, outcome, now_ns);
        return;
    }
    uint64_t empty_at_ns = kind_empty_at_ns(limit, outcome.moment);
    decision->verdict = outcome.verdict;
    decision->capacity = limit->capacity;
    decision->remaining = stepped_room(limit, outcome.moment, now_ns) / WEIR_UNIT;
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
