/* SPDX-License-Identifier: MIT */
#include "cli/pipe/pacer.h"

#include <assert.h>

#include "core/bucket_math.h"

void pacer_init(struct pacer *pacer, const struct weir_limit *queue, uint64_t now_ns)
{
    *pacer = (struct pacer){.limit = *queue, .moment = {now_ns, 0}, .last_due_ns = now_ns};
}

/* The item's place in the schedule: when it is due, and the moment after it. */
static uint64_t place(const struct pacer *pacer, uint64_t cost_micro, uint64_t arrived_ns,
                      struct span *after)
{
    const struct weir_limit *limit = &pacer->limit;
    assert(cost_micro <= limit->capacity_micro);
    struct span cost = span_of_cost(limit, cost_micro);
    *after = span_add(bucket_start(pacer->moment, arrived_ns), cost, limit->denominator);
    return span_ceil_ns(queue_egress(limit, cost, *after));
}

uint64_t pacer_due_ns(const struct pacer *pacer, uint64_t cost_micro, uint64_t arrived_ns)
{
    struct span after;
    return place(pacer, cost_micro, arrived_ns, &after);
}

void pacer_leave(struct pacer *pacer, uint64_t cost_micro, uint64_t arrived_ns, uint64_t now_ns)
{
    struct span after;
    pacer->last_due_ns = place(pacer, cost_micro, arrived_ns, &after);
    assert(now_ns >= pacer->last_due_ns);
    pacer->moment = after;
    pacer_held(pacer, now_ns);
}

void pacer_held(struct pacer *pacer, uint64_t now_ns)
{
    if (now_ns > pacer->last_due_ns + WEIR_JITTER_NS) {
        pacer->moment.ns += now_ns - pacer->last_due_ns;
        pacer->last_due_ns = now_ns;
    }
}
