/* SPDX-License-Identifier: MIT
 *
 * One answer from several decisions, of which some may only be tried; and of a refusal that blocks. */
#ifndef WEIR_CORE_DECISION_H
#define WEIR_CORE_DECISION_H

#include <stdbool.h>

#include "weir/decision.h"

/* As weir_decision_of_all(), of those that are heard, one at least; `binding` is an index among all. */
struct weir_decision decision_of_heard(const struct weir_decision *decisions, const bool *is_heard,
                                       size_t count, int *binding);

/* Who is limited, and locked out for it until `ends_ns`, would come back in vain before both are over. */
static inline void decision_lock_out(struct weir_decision *decision, uint64_t ends_ns,
                                     uint64_t now_ns)
{
    int64_t blocked_ns = ends_ns > now_ns ? (int64_t)(ends_ns - now_ns) : 0;
    if (decision->verdict == WEIR_LIMITED && decision->retry_after_ns < blocked_ns) {
        decision->retry_after_ns = blocked_ns;
    }
}

#endif
