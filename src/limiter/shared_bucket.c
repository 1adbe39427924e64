/* SPDX-License-Identifier: MIT
 *
 * A bucket that many threads take from. All of it is one 16-byte word: read, decide, and swap if it
 * is still what was decided on. A swap fails only because another take succeeded (lock-free). */
#include "core/bucket_math.h"
#include "sync/atomic.h"

ALWAYS_INLINE struct weir_decision take(struct weir_bucket *bucket, const struct weir_limit *limit,
                                        bool is_usual, uint64_t cost_micro, uint64_t now_ns)
{
    struct charge charge = charge_of(limit, is_usual, cost_micro);
    struct weir_decision decision;
    struct weir_bucket seen;
    struct outcome outcome;
    do {
        seen = load_bucket(bucket);
        outcome = bucket_take(seen, limit, is_usual, &charge, now_ns);
    } while (outcome.verdict == WEIR_ALLOWED && (is_usual || cost_micro != 0)
             && !cas_bucket(bucket, seen, bucket_with_moment(seen, outcome.moment)));
    bucket_answer_take(&decision, limit, is_usual, &charge, outcome, now_ns);
    return decision;
}

/* By itself, so that the registers it saves cost the usual take nothing: what a thread has stored must
 * reach the cache before its next compare-and-swap. */
__attribute__((noinline)) static struct weir_decision take_any(struct weir_bucket *bucket,
                                                               const struct weir_limit *limit,
                                                               uint64_t cost_micro, uint64_t now_ns)
{
    return take(bucket, limit, false, cost_micro, now_ns);
}

struct weir_decision weir_shared_bucket_take(struct weir_shared_bucket *bucket,
                                             const struct weir_limit *limit, uint64_t cost_micro,
                                             uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    if (__builtin_expect(!take_is_usual(limit, cost_micro), 0)) {
        return take_any(&bucket->bucket, limit, cost_micro, now_ns);
    }
    return take(&bucket->bucket, limit, true, cost_micro, now_ns);
}
