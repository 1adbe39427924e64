/* SPDX-License-Identifier: MIT
 *
 * When each item of a stream may leave: the arithmetic of kind `queue` for a line of which only the
 * first ever stands here. Whoever is behind has not been read yet, so nothing is refused.
 *
 *     start = max(moment, arrival)      the line is empty, or its last one leaves then
 *     after = start + cost / rate       the moment at which it is empty again
 *     due   = after, or start           first=interval, or first=now; rounded up to a nanosecond
 *
 * Moments are exact rationals: after any number of items the schedule has not drifted.
 *
 * Late is not a burst. An item that leaves at most WEIR_JITTER_NS after it was due leaves the
 * schedule as it is; if it is later than that (a stalled process, a reader that did not read) the
 * whole schedule moves by as much, and nothing is caught up. So two items of cost c are never closer
 * than c / rate - WEIR_JITTER_NS. */
#ifndef WEIR_CLI_PIPE_PACER_H
#define WEIR_CLI_PIPE_PACER_H

#include <stdint.h>

#include "core/arith.h"
#include "weir/limit.h"
#include "weir/limiter.h"

struct pacer {
    struct weir_limit limit;
    struct span moment;   // at which the line is empty
    uint64_t last_due_ns; // of what left last, moved with the schedule
};

/* The line is empty. */
void pacer_init(struct pacer *pacer, const struct weir_limit *queue, uint64_t now_ns);

/* When the next item may leave.
 *   cost_micro  0 .. the limit's capacity
 *   arrived_ns  when it came; 0 if it stood there before the last one left */
uint64_t pacer_due_ns(const struct pacer *pacer, uint64_t cost_micro, uint64_t arrived_ns);

/* The next item leaves, at `now_ns`, which is not before it is due. */
void pacer_leave(struct pacer *pacer, uint64_t cost_micro, uint64_t arrived_ns, uint64_t now_ns);

/* What left last was held up, and is only gone now. */
void pacer_held(struct pacer *pacer, uint64_t now_ns);

#endif
