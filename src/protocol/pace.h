/* SPDX-License-Identifier: MIT
 *
 * How much an engine does before it lets the other connections of its worker go on.
 *
 * Most requests cost a tenth of a microsecond. But a take of a window with a million events, or one that meets a line
 * of ten thousand, costs a thousand times as much, and nobody knows before it is decided. So feed() stops when it
 * has been at work for PACE_FEED_NS, and the server feeds the rest after the others. To read the clock
 * for each request would cost a tenth of it; it is read after every PACE_STEP_WORK units of work, where a
 * request is one unit, and the batch at hand ends there:
 *
 *     64 takes under 10/s                    64 units: a batch, and a look at the clock if more is to come
 *     1 take under window 1000000/h         245 units: a batch by itself
 *     a pipeline that meets a long line     the first 64 takes 8 ms: the feed ends, and the connection's
 *                                           next batches are of one take, then two, four ..
 *
 * So others wait for a connection for about a millisecond, and for the longest batch that it has had lately. One
 * request is never divided: a take under 16 windows of a million events is 5 ms. */
#ifndef WEIR_PROTOCOL_PACE_H
#define WEIR_PROTOCOL_PACE_H

#include "core/kinds.h"
#include "protocol/engine.h"

enum {
    PACE_FEED_NS = 1000000,
    PACE_STEP_NS =
        250000, // what is longer than that between two looks makes the next steps shorter
    PACE_STEP_WORK = 64,
    PACE_STEP_SHIFT_MAX = 6,
    PACE_WINDOW_SHIFT = 12, // a unit for so many events that a window may hold, as a power of two
    PACE_OTHER = 4,         // what is no question: PING, an error
    PACE_LONG = 16,         // a page of figures
    PACE_WAIT = PACE_STEP_WORK, // joins a line, or hears that it cannot
};
_Static_assert(PACE_STEP_WORK >> PACE_STEP_SHIFT_MAX == 1, "the shortest step is one request");

/* Of one connection: all zeroes is a new one's.
 *   looked_ns  how long this feed had lasted at the last look
 *   work       units since then
 *   shift      a step is PACE_STEP_WORK >> shift units now
 *   is_late    this feed has lasted long enough */
struct pace {
    uint64_t looked_ns;
    uint32_t work;
    uint8_t shift;
    bool is_late;
};

/* feed() begins. A connection that was slow may do twice as much between two looks as the time before. */
static inline void pace_begin(struct pace *pace)
{
    pace->looked_ns = 0;
    pace->work = 0;
    if (pace->shift > 0) {
        pace->shift--;
    }
    pace->is_late = false;
}

/* A request under this limit, or one of several. */
static inline void pace_add(struct pace *pace, const struct weir_limit *limit)
{
    pace->work += 1 + (kind_has_log(limit) ? (uint32_t)(limit->capacity >> PACE_WINDOW_SHIFT) : 0);
}

/* Whether the batch has to end here, and the clock to be looked at. */
static inline bool pace_is_due(const struct pace *pace)
{
    return pace->work >= (uint32_t)PACE_STEP_WORK >> pace->shift;
}

/* Whether a batch of so many requests ends here. With answers in hand that is where they end, whatever it may cost: all
 * of them were asked for at once. */
static inline bool pace_ends_batch(const struct pace *pace, const struct service *service,
                                   size_t count)
{
    return service->answers_left > 0 ? count >= service->answers_left : pace_is_due(pace);
}

/* Looks at the clock, when all before is decided. True if the rest is for another turn. */
static inline bool pace_look(struct pace *pace, struct service *service)
{
    uint64_t now_ns = service->ops->worked_ns(service);
    for (uint64_t took_ns = now_ns - pace->looked_ns;
         took_ns > PACE_STEP_NS && pace->shift < PACE_STEP_SHIFT_MAX; took_ns /= 2) {
        pace->shift++;
    }
    pace->looked_ns = now_ns;
    pace->work = 0;
    pace->is_late = now_ns >= PACE_FEED_NS;
    return pace->is_late;
}

#endif
