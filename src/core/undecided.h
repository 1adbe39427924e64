/* SPDX-License-Identifier: MIT
 *
 * What is answered where the store cannot decide: it is out of reach, or this process may not use it. The limit says
 * it, on_error=refuse or allow. A table without room for a key is another matter: it is there, and on_full answers. */
#ifndef WEIR_CORE_UNDECIDED_H
#define WEIR_CORE_UNDECIDED_H

#include <stddef.h>

#include "core/bucket_math.h"
#include "weir/limiter.h"

/* One request by itself. Under on_error=refuse the verdict is WEIR_FAILED. Under on_error=allow a take, a can_take and
 * a fill get the outcome that an empty bucket would give them: allowed, or never if the cost exceeds the capacity.
 * Every other operation fails: a reset that did not happen must not be reported as done.
 *   request  of a limit that is compiled
 *   charge  charge_of() the request's limit and cost, with the offset to UTC that fits `now_ns`
 *   detail  filled */
struct outcome undecided_outcome(const struct weir_request *request, const struct charge *charge,
                                 struct weir_detail *detail, uint64_t now_ns);

/* Answers requests that a store was asked and could not decide, as weir_limiter_decide() takes them: `and_next` makes
 * runs, a run is allowed as a whole or not at all, a shadow refuses nothing, and `detail` is filled if not NULL.
 * Example: the run (alice, "10/s on_error=allow"), (all, "9/s") is answered (allowed, error), so the run is refused.
 * If both limits allow, the answer is (allowed, allowed) with remaining 9 and 8 for a cost of 1.
 * A run that makes no sense (too long, mixed operations, a bucket twice, a limit of zeroes) is an error, as in any store.
 *   utc_ns  nanoseconds since 1970; only the reset_after_ns of a fixed limit depends on it
 * Charges nothing, counts nothing, and reads nothing but its arguments. Thread-safe; never allocates. */
void answer_undecided(const struct weir_request *requests, struct weir_decision *decisions,
                      size_t count, uint64_t utc_ns);

/* Answers questions that make no sense: with an error and details of nothing, whatever their limits say. Thread-safe. */
void answer_nonsense(const struct weir_request *requests, struct weir_decision *decisions,
                     size_t count);

#endif
