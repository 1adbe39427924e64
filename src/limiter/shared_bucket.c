/* SPDX-License-Identifier: MIT
 *
 * A bucket that many threads take from. All of it is one 16-byte word: read, decide, and swap if it
 * is still what was decided on. A swap fails only because another take succeeded (lock-free). */
#include "core/bucket_math.h"
#include "sync/atomic.h"

struct weir_decision weir_shared_bucket_take(struct weir_shared_bucket *bucket,
                                             const struct weir_limit *limit, uint64_t cost_micro,
                                             uint64_t now_ns)
{
    struct charge charge = charge_of(limit, cost_micro);
    for (;;) {
        struct weir_bucket seen = load_bucket(&bucket->bucket);
        struct weir_bucket next;
        struct weir_decision decision = bucket_take(seen, limit, &charge, now_ns, &next);
        bool is_unchanged = next.empty_at_ns == seen.empty_at_ns && next.word == seen.word;
        if (is_unchanged || cas_bucket(&bucket->bucket, seen, next)) {
            return decision;
        }
    }
}
