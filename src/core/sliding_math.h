/* SPDX-License-Identifier: MIT
 *
 * A sliding limit counts in windows of a period P, one after another since the first charge of an empty
 * bucket, and remembers two of them. What was charged in the one before is taken to have come evenly, so of
 * it as much still counts as there is of it in the last P:
 *
 *     level = previous * (P - elapsed) / P + current          elapsed: in the current window
 *
 * In a second window without a charge the current count is what was previous, and after two it is nothing:
 * so the state is empty 2 P after its current window began. That moment and the two counts, 20 bits each, are
 * all of it. A state that holds anything has a current count above zero: where only the previous one is left,
 * it is written as the current one of the window before, which means the same.
 *
 * Costs are whole units, and all of it is exact: a product of a count and a time has 128 bits. A reading
 * older than the current window counts as its beginning. */
#ifndef WEIR_CORE_SLIDING_MATH_H
#define WEIR_CORE_SLIDING_MATH_H

#include "core/bucket_math.h"

#define SLIDING_BITS 20

_Static_assert(WEIR_SLIDING_COUNT_MAX == (UINT64_C(1) << SLIDING_BITS) - 1
                   && 2 * SLIDING_BITS <= BUCKET_REST_BITS,
               "two counts fit where a remainder does");

/* The two windows as they are at a reading; what is in neither of them is forgotten.
 *   elapsed_ns   of the current window, below the period
 *   empty_at_ns  two periods after it began */
struct sliding {
    uint64_t previous, current; // whole units
    uint64_t elapsed_ns;
    uint64_t empty_at_ns;
};

static inline struct sliding sliding_at(const struct weir_limit *limit, struct span moment,
                                        uint64_t now_ns)
{
    uint64_t period_ns = limit->scale;
    uint64_t current = moment.rest & WEIR_SLIDING_COUNT_MAX;
    uint64_t begun_ns = now_ns + 2 * period_ns; // beside the moment, so that nothing is negative
    uint64_t elapsed_ns = begun_ns > moment.ns ? begun_ns - moment.ns : 0;
    if (moment.rest == 0 || elapsed_ns >= 2 * period_ns) { // empty: the next charge begins a window
        uint64_t since_ns = moment.ns > now_ns ? moment.ns : now_ns;
        return (struct sliding){0, 0, 0, since_ns + 2 * period_ns};
    }
    if (elapsed_ns < period_ns) {
        return (struct sliding){moment.rest >> SLIDING_BITS, current, elapsed_ns, moment.ns};
    }
    return (struct sliding){current, 0, elapsed_ns - period_ns, moment.ns + period_ns};
}

/* What still counts of the previous window, in P-ths of a unit. */
static inline uint128 sliding_parts(const struct weir_limit *limit, const struct sliding *windows)
{
    return (uint128)windows->previous * (limit->scale - windows->elapsed_ns);
}

/* The level, rounded up to whole units: what fits beside it is what fits beside the level. */
static inline uint64_t sliding_units(const struct weir_limit *limit, const struct sliding *windows)
{
    uint128 parts = sliding_parts(limit, windows);
    uint64_t period_ns = limit->scale;
    if (parts == 0) {
        return windows->current;
    }
    uint64_t whole = (uint64_t)(parts >> 64) == 0 ? ((uint64_t)parts - 1) / period_ns
                                                  : (uint64_t)((parts - 1) / period_ns);
    return windows->current + whole + 1;
}

/* Whole units that still fit. */
static inline uint64_t sliding_room(const struct weir_limit *limit, const struct sliding *windows)
{
    uint64_t units = sliding_units(limit, windows);
    return units < limit->capacity ? limit->capacity - units : 0;
}

static inline uint64_t sliding_remaining(const struct weir_limit *limit, struct span moment,
                                         uint64_t now_ns)
{
    struct sliding windows = sliding_at(limit, moment, now_ns);
    return sliding_room(limit, &windows);
}

static inline struct weir_amount sliding_level(const struct weir_limit *limit, struct span moment,
                                               uint64_t now_ns)
{
    struct sliding windows = sliding_at(limit, moment, now_ns);
    return amount_of(sliding_parts(limit, &windows) + (uint128)windows.current * limit->scale,
                     limit->scale);
}

static inline struct span sliding_moment(const struct weir_limit *limit,
                                         const struct sliding *windows)
{
    if (windows->current == 0) {
        return (struct span){windows->empty_at_ns - limit->scale, windows->previous};
    }
    return (struct span){windows->empty_at_ns,
                         windows->previous << SLIDING_BITS | windows->current};
}

static inline struct outcome sliding_take(struct weir_bucket bucket, const struct weir_limit *limit,
                                          const struct charge *charge, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    if (charge->never || charge->cost_micro == 0) {
        return (struct outcome){charge->never ? WEIR_NEVER : WEIR_ALLOWED, moment};
    }
    struct sliding windows = sliding_at(limit, moment, now_ns);
    uint64_t units = charge->cost_micro / WEIR_UNIT;
    if (units > sliding_room(limit, &windows)) {
        return (struct outcome){WEIR_LIMITED, moment};
    }
    windows.current += units;
    return (struct outcome){WEIR_ALLOWED, sliding_moment(limit, &windows)};
}

/* Full is where not one unit more fits. */
static inline struct outcome sliding_fill(struct weir_bucket bucket, const struct weir_limit *limit,
                                          const struct charge *charge, uint64_t now_ns,
                                          struct weir_amount *spill, bool *full)
{
    struct span moment = bucket_moment(bucket, limit);
    struct sliding windows = sliding_at(limit, moment, now_ns);
    uint64_t room = sliding_room(limit, &windows);
    uint64_t units = charge->cost_micro / WEIR_UNIT;
    uint64_t fits = units < room ? units : room;
    *spill = amount_of(units - fits, 1);
    *full = fits == room;
    windows.current += fits;
    return (struct outcome){WEIR_ALLOWED, fits > 0 ? sliding_moment(limit, &windows) : moment};
}

/* Gives back what was charged in the current window, and then in the one before. */
static inline struct outcome sliding_refund(struct weir_bucket bucket,
                                            const struct weir_limit *limit,
                                            const struct charge *charge, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    struct sliding windows = sliding_at(limit, moment, now_ns);
    uint64_t units = charge->cost_micro / WEIR_UNIT;
    uint64_t held = windows.current + windows.previous;
    if (units == 0 || held == 0) {
        return (struct outcome){WEIR_ALLOWED, moment};
    }
    if (units >= held) {
        return (struct outcome){WEIR_ALLOWED, {now_ns, 0}};
    }
    uint64_t of_current = units < windows.current ? units : windows.current;
    windows.current -= of_current;
    windows.previous -= units - of_current;
    return (struct outcome){WEIR_ALLOWED, sliding_moment(limit, &windows)};
}

/* The earliest reading, now or later, at which a cost that may ever fit does: in this window, once enough
 * of the previous one is behind; otherwise in the next, in which this one's count is the previous. It fits
 * where
 *
 *     previous * (P - elapsed) / P <= room        P - elapsed <= floor(room * P / previous) */
static inline uint64_t sliding_fits_at(const struct weir_limit *limit, struct span moment,
                                       uint64_t cost_micro, uint64_t now_ns)
{
    struct sliding windows = sliding_at(limit, moment, now_ns);
    uint64_t units = cost_micro / WEIR_UNIT;
    if (units <= sliding_room(limit, &windows)) {
        return now_ns;
    }
    uint64_t room = limit->capacity - units;
    uint64_t next_ns = windows.empty_at_ns - limit->scale; // when the next window begins
    if (windows.current <= room) {
        room -= windows.current;
        return next_ns - (uint64_t)((uint128)room * limit->scale / windows.previous);
    }
    return windows.empty_at_ns - (uint64_t)((uint128)room * limit->scale / windows.current);
}

#endif
