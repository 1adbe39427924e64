/* SPDX-License-Identifier: MIT
 *
 * One answer from several. */
#include "core/decision.h"

#include <assert.h>

/* Whose word counts most. */
static int weight_of(enum weir_verdict verdict)
{
    static const int WEIGHTS[] = {[WEIR_ALLOWED] = 0,
                                  [WEIR_LIMITED] = 1,
                                  [WEIR_FAILED] = 2,
                                  [WEIR_BLOCKED] = 3,
                                  [WEIR_NEVER] = 4};
    return WEIGHTS[verdict];
}

/* Whether `a` decides rather than `b`, which comes before it. */
static bool outweighs(const struct weir_decision *a, const struct weir_decision *b)
{
    int more = weight_of(a->verdict) - weight_of(b->verdict);
    if (more != 0) {
        return more > 0;
    }
    return a->verdict == WEIR_ALLOWED ? a->remaining < b->remaining
                                      : a->retry_after_ns > b->retry_after_ns;
}

/* `is_heard` may be NULL: then all are. */
static struct weir_decision decide(const struct weir_decision *decisions, const bool *is_heard,
                                   size_t count, int *binding)
{
    const struct weir_decision *chosen = NULL;
    int64_t retry_after_ns = -1;
    int64_t delay_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct weir_decision *each = &decisions[i];
        if (is_heard != NULL && !is_heard[i]) {
            continue;
        }
        chosen = chosen == NULL || outweighs(each, chosen) ? each : chosen;
        retry_after_ns =
            each->retry_after_ns > retry_after_ns ? each->retry_after_ns : retry_after_ns;
        delay_ns = each->delay_ns > delay_ns ? each->delay_ns : delay_ns;
    }
    assert(chosen != NULL);
    struct weir_decision all = *chosen;
    bool is_allowed = all.verdict == WEIR_ALLOWED;
    if (binding != NULL) {
        *binding = is_allowed ? -1 : (int)(chosen - decisions);
    }
    all.retry_after_ns = all.retry_after_ns >= 0 ? retry_after_ns : -1;
    all.delay_ns = is_allowed ? delay_ns : 0;
    return all;
}

struct weir_decision weir_decision_of_all(const struct weir_decision *decisions, size_t count,
                                          int *binding)
{
    return decide(decisions, NULL, count, binding);
}

struct weir_decision decision_of_heard(const struct weir_decision *decisions, const bool *is_heard,
                                       size_t count, int *binding)
{
    return decide(decisions, is_heard, count, binding);
}
