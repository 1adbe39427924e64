/* SPDX-License-Identifier: MIT
 *
 * A bucket that many threads take from. All of it is one 16-byte word: read, decide, and swap if it
 * is still what was decided on. A swap fails only because another take succeeded (lock-free). */
#include "core/kinds.h"
#include "sync/atomic.h"
#include "sync/backoff.h"

/* Any take, for as long as others are faster. By itself, so that what it needs costs the usual take
 * nothing.
 *   turns  of back_off(): 0 unless somebody has been faster already */
__attribute__((noinline)) static struct weir_decision take_any(struct weir_bucket *bucket,
                                                               const struct weir_limit *limit,
                                                               uint64_t cost_micro, uint64_t now_ns,
                                                               unsigned turns)
{
    struct weir_decision decision;
    if (!limit_is_compiled(limit)) {
        bucket_answer_failed(&decision, limit);
        return decision;
    }
    struct charge charge = charge_of(limit, cost_micro);
    struct weir_bucket seen;
    struct outcome outcome;
    do {
        back_off(&turns);
        seen = load_bucket(bucket);
        outcome = kind_take(seen, limit, &charge, now_ns);
    } while (outcome.verdict == WEIR_ALLOWED && cost_micro != 0
             && !cas_bucket(bucket, seen, bucket_with_moment(seen, outcome.moment)));
    kind_answer_take(&decision, limit, &charge, outcome, now_ns);
    return decision;
}

struct weir_decision weir_shared_bucket_take(struct weir_shared_bucket *bucket,
                                             const struct weir_limit *limit, uint64_t cost_micro,
                                             uint64_t now_ns)
{
    struct weir_decision decision;
    now_ns = clamp_now(now_ns);
    uint64_t span_ns = usual_span_ns(limit, cost_micro);
    struct weir_bucket seen = load_bucket(&bucket->bucket);
    if (__builtin_expect(span_ns != 0 && bucket_is_usual(seen), 1)) {
        struct outcome outcome = usual_take(seen, limit, span_ns, now_ns);
        struct weir_bucket next = bucket_with_moment(seen, outcome.moment);
        if (outcome.verdict == WEIR_LIMITED || cas_bucket(&bucket->bucket, seen, next)) {
            usual_answer(&decision, limit, span_ns, outcome, now_ns);
            return decision;
        }
        return take_any(&bucket->bucket, limit, cost_micro, now_ns, BACKOFF_TURNS_FIRST);
    }
    return take_any(&bucket->bucket, limit, cost_micro, now_ns, 0);
}
