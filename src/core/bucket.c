/* SPDX-License-Identifier: MIT
 *
 * One bucket in the caller's memory. The arithmetic is behind kinds.h. */
#include "weir/bucket.h"

#include <stddef.h>

#include "core/kinds.h"

/* A state is rewritten only by what changed it: a read leaves another limit's remainder alone. */
static void move_to(struct weir_bucket *bucket, const struct weir_limit *limit, struct span moment)
{
    struct span before = bucket_moment(*bucket, limit);
    if (before.ns != moment.ns || before.rest != moment.rest) {
        *bucket = bucket_with_moment(*bucket, moment);
    }
}

static struct weir_decision failed(const struct weir_limit *limit)
{
    struct weir_decision decision;
    bucket_answer_failed(&decision, limit);
    return decision;
}

struct weir_decision weir_bucket_take(struct weir_bucket *bucket, const struct weir_limit *limit,
                                      uint64_t cost_micro, uint64_t now_ns)
{
    struct weir_decision decision;
    if (!limit_is_compiled(limit)) {
        return failed(limit);
    }
    now_ns = clamp_now(now_ns);
    struct charge charge = charge_of(limit, cost_micro);
    struct outcome outcome = kind_take(*bucket, limit, &charge, now_ns);
    move_to(bucket, limit, outcome.moment);
    kind_answer_take(&decision, limit, &charge, outcome, now_ns);
    return decision;
}

struct weir_decision weir_bucket_can_take(const struct weir_bucket *bucket,
                                          const struct weir_limit *limit, uint64_t cost_micro,
                                          uint64_t now_ns)
{
    struct weir_bucket copy = *bucket;
    return weir_bucket_take(&copy, limit, cost_micro, now_ns);
}

struct weir_decision weir_bucket_fill(struct weir_bucket *bucket, const struct weir_limit *limit,
                                      uint64_t cost_micro, uint64_t now_ns,
                                      struct weir_amount *spill, bool *full)
{
    struct weir_decision decision;
    now_ns = clamp_now(now_ns);
    struct weir_amount unused_spill;
    bool unused_full;
    spill = spill != NULL ? spill : &unused_spill;
    full = full != NULL ? full : &unused_full;
    if (!limit_is_compiled(limit)) {
        *spill = amount_of(cost_micro, WEIR_UNIT);
        *full = false;
        return failed(limit);
    }
    struct charge charge = charge_of(limit, cost_micro);
    struct outcome outcome = kind_fill(*bucket, limit, &charge, now_ns, spill, full);
    move_to(bucket, limit, outcome.moment);
    kind_answer(&decision, limit, outcome, now_ns);
    return decision;
}

struct weir_decision weir_bucket_refund(struct weir_bucket *bucket, const struct weir_limit *limit,
                                        uint64_t cost_micro, uint64_t now_ns)
{
    struct weir_decision decision;
    if (!limit_is_compiled(limit)) {
        return failed(limit);
    }
    now_ns = clamp_now(now_ns);
    struct charge charge = charge_of(limit, cost_micro);
    struct outcome outcome = kind_refund(*bucket, limit, &charge, now_ns);
    move_to(bucket, limit, outcome.moment);
    kind_answer(&decision, limit, outcome, now_ns);
    return decision;
}

struct weir_decision weir_bucket_show(const struct weir_bucket *bucket,
                                      const struct weir_limit *limit, uint64_t now_ns,
                                      struct weir_amount *level)
{
    struct weir_decision decision;
    if (!limit_is_compiled(limit)) {
        if (level != NULL) {
            *level = amount_of(0, 1);
        }
        return failed(limit);
    }
    now_ns = clamp_now(now_ns);
    if (level != NULL) {
        *level = kind_level(*bucket, limit, now_ns);
    }
    kind_answer(&decision, limit, bucket_show(*bucket, limit), now_ns);
    return decision;
}

bool weir_bucket_valid(const struct weir_bucket *bucket)
{
    return bucket->empty_at_ns <= WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX + 1;
}
