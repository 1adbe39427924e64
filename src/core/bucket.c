/* SPDX-License-Identifier: MIT
 *
 * One bucket in the caller's memory. The arithmetic is in bucket_math.h. */
#include "weir/bucket.h"

#include <stddef.h>

#include "core/bucket_math.h"

struct weir_decision weir_bucket_take(struct weir_bucket *bucket, const struct weir_limit *limit,
                                      uint64_t cost_micro, uint64_t now_ns)
{
    struct charge charge = charge_of(limit, cost_micro);
    return bucket_take(*bucket, limit, &charge, now_ns, bucket);
}

struct weir_decision weir_bucket_can_take(const struct weir_bucket *bucket,
                                          const struct weir_limit *limit, uint64_t cost_micro,
                                          uint64_t now_ns)
{
    struct charge charge = charge_of(limit, cost_micro);
    struct weir_bucket unused;
    return bucket_take(*bucket, limit, &charge, now_ns, &unused);
}

struct weir_decision weir_bucket_fill(struct weir_bucket *bucket, const struct weir_limit *limit,
                                      uint64_t cost_micro, uint64_t now_ns,
                                      struct weir_amount *spill, bool *full)
{
    struct charge charge = charge_of(limit, cost_micro);
    struct weir_amount unused_spill;
    bool unused_full;
    return bucket_fill(*bucket, limit, &charge, now_ns, bucket,
                       spill != NULL ? spill : &unused_spill, full != NULL ? full : &unused_full);
}

struct weir_decision weir_bucket_refund(struct weir_bucket *bucket, const struct weir_limit *limit,
                                        uint64_t cost_micro, uint64_t now_ns)
{
    struct charge charge = charge_of(limit, cost_micro);
    return bucket_refund(*bucket, limit, &charge, now_ns, bucket);
}

struct weir_decision weir_bucket_show(const struct weir_bucket *bucket,
                                      const struct weir_limit *limit, uint64_t now_ns,
                                      struct weir_amount *level)
{
    if (level != NULL) {
        *level = bucket_level(*bucket, limit, now_ns);
    }
    return decision_at(limit, bucket_moment(*bucket, limit), bucket_now(now_ns), WEIR_ALLOWED);
}

bool weir_bucket_valid(const struct weir_bucket *bucket)
{
    return bucket->empty_at_ns <= WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX + 1;
}
