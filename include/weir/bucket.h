/* SPDX-License-Identifier: MIT
 *
 * One leaky bucket in your own memory: 16 bytes, no clock, no lock, no allocation.
 *
 *     struct weir_limit limit;
 *     struct weir_bucket bucket = {0};                  // all zeroes: new and empty
 *     struct weir_error error;
 *     if (weir_limit_from_text(&limit, "10/s", &error) == WEIR_OK) {
 *         struct weir_decision decision =
 *             weir_bucket_take(&bucket, &limit, WEIR_UNIT, weir_clock_now_ns());
 *     }
 *
 * Not the level is kept but the moment at which the bucket will be empty, as an exact rational: so
 * nothing has to tick, and nothing is ever rounded (GCRA: ITU-T I.371; after J. Turner's leaky
 * bucket, 1986).
 *
 * A reading of the clock that is older than the last one sees a fuller bucket: it can delay, and
 * never mints. Readings are 0 .. WEIR_NOW_NS_MAX; larger ones count as WEIR_NOW_NS_MAX. Costs are
 * 0 .. WEIR_COST_MAX; larger ones exceed every capacity.
 *
 * A window (limit.h) keeps a log, which no 16 bytes hold: under one every call here is answered with
 * verdict error, and a limiter is what has them. The same answer comes under a limit of zeroes, which is what a
 * failed weir_limit_from_text() leaves.
 *
 * When a bucket is used under a limit with other numbers, it keeps its moment: the time until it
 * is empty. A remainder that the new limit cannot hold counts as one nanosecond. */
#ifndef WEIR_BUCKET_H
#define WEIR_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/decision.h"
#include "weir/limit.h"

#ifdef __cplusplus
extern "C" {
#endif

/*   empty_at_ns  the moment at which the bucket is empty, whole nanoseconds
 *   word         from the least bit: 40 bits of remainder in denominator-ths of a nanosecond, or
 *                what else the limit's kind counts, 16 owner bits and 8 flags that belong to the
 *                store */
struct weir_bucket {
    uint64_t empty_at_ns;
    uint64_t word;
};

/* Charges `cost_micro` to the bucket at `now_ns` if it fits, and says what happened.
 *
 *   cost_micro  millionths of a unit; 0 is a pure read and always allowed
 *   now_ns      nanoseconds of whatever clock this bucket lives by
 *
 * A refusal is an answer, not an error, and leaves the bucket as it was.
 * Threads: single owner; the caller serialises calls on one bucket (weir_shared_bucket_take() does
 * not need that). Never blocks, never allocates. */
struct weir_decision weir_bucket_take(struct weir_bucket *bucket, const struct weir_limit *limit,
                                      uint64_t cost_micro, uint64_t now_ns);

/* Answers exactly what weir_bucket_take() would at this instant, and charges nothing. */
struct weir_decision weir_bucket_can_take(const struct weir_bucket *bucket,
                                          const struct weir_limit *limit, uint64_t cost_micro,
                                          uint64_t now_ns);

/* Charges whatever comes and clamps at the capacity. The verdict is allowed; or never, and nothing has
 * changed, if the limit counts in whole units and the cost is none (all of it is then spilled).
 *   spill  how much did not fit; may be NULL
 *   full   whether the bucket is full at this instant; may be NULL
 * A bucket that is above its capacity already (an old reading, a smaller limit) stays as it is. */
struct weir_decision weir_bucket_fill(struct weir_bucket *bucket, const struct weir_limit *limit,
                                      uint64_t cost_micro, uint64_t now_ns,
                                      struct weir_amount *spill, bool *full);

/* Gives cost back; the level never goes below zero. The verdict is allowed; or never, as above. A late refund can admit
 * more than the limit promises, for what was taken has drained meanwhile: weir_limiter_refund() has an example. */
struct weir_decision weir_bucket_refund(struct weir_bucket *bucket, const struct weir_limit *limit,
                                        uint64_t cost_micro, uint64_t now_ns);

/* Reads the bucket without changing it. The verdict is always allowed.
 *   level  how full it is now, exactly; may be NULL */
struct weir_decision weir_bucket_show(const struct weir_bucket *bucket,
                                      const struct weir_limit *limit, uint64_t now_ns,
                                      struct weir_amount *level);

/* True if the state could have come from the calls above under this limit. */
bool weir_bucket_valid(const struct weir_bucket *bucket);

/* A bucket that many threads take from at once: one 16-byte compare-and-swap, no lock.
 * All zeroes is new and empty; must be 16-byte aligned (the type sees to it). */
#if defined(__GNUC__)
struct weir_shared_bucket {
    struct weir_bucket bucket;
} __attribute__((aligned(16)));

/* As weir_bucket_take(). Thread-safe: linearizable, lock-free; a refusal only reads. */
struct weir_decision weir_shared_bucket_take(struct weir_shared_bucket *bucket,
                                             const struct weir_limit *limit, uint64_t cost_micro,
                                             uint64_t now_ns);
#endif

#ifdef __cplusplus
}
#endif

#endif
