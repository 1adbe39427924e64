/* SPDX-License-Identifier: MIT
 *
 * A fixed limit lets COUNT pass in each window of the calendar, in UTC, and forgets all of it when the
 * window ends.
 *
 * Its state is the moment at which the window ends that was charged last, by the store's clock, and in the
 * 40 bits how much was charged in it, in the limit's grains. Zero grains: empty since that moment. A window
 * keeps the end that it was opened with, whatever the wall clock does meanwhile.
 *
 * A window that has ended never reopens. If the wall clock was set, the calendar may say a window in which the
 * former one ended: then what is charged now counts in the window after it. So no two windows of a bucket
 * overlap, and their ends are a period apart, or more; less by at most FIXED_TOLERANCE_NS, because a clock
 * that was not set is read with some noise, and that must not cost anybody a window. */
#ifndef WEIR_CORE_FIXED_MATH_H
#define WEIR_CORE_FIXED_MATH_H

#include "core/bucket_math.h"
#include "core/calendar.h"

#define FIXED_TOLERANCE_NS INT64_C(5000000)

#define FIXED_NS_PER_DAY INT64_C(86400000000000)
#define FIXED_MONDAY_NS  (4 * FIXED_NS_PER_DAY) // 1970-01-05

/* From when windows are counted: weir_limit.calendar. */
enum fixed_calendar {
    FIXED_FROM_EPOCH = 0,  // 1970-01-01T00:00Z
    FIXED_FROM_MONDAY = 1, // the first since then
    FIXED_BY_MONTHS = 2,   // from the January of the year 0; scale counts months
};

/* Instants of UTC, nanoseconds since the epoch. What begins one window ends the one before. */
struct fixed_window {
    int64_t begins_ns;
    int64_t ends_ns;
};

static inline struct fixed_window fixed_months_of(int64_t months, int64_t utc_ns)
{
    int64_t month = calendar_month_of_day(utc_ns / FIXED_NS_PER_DAY);
    month -= month % months;
    return (struct fixed_window){calendar_day_of_month(month) * FIXED_NS_PER_DAY,
                                 calendar_day_of_month(month + months) * FIXED_NS_PER_DAY};
}

/* The window of an instant, which is 0 .. WEIR_NOW_NS_MAX, or the end of such a one's window. */
static inline struct fixed_window fixed_window_of(const struct weir_limit *limit, int64_t utc_ns)
{
    int64_t period_ns = (int64_t)limit->scale;
    int64_t since_ns = utc_ns;
    switch ((enum fixed_calendar)limit->calendar) {
    case FIXED_FROM_EPOCH: break;
    case FIXED_FROM_MONDAY:
        since_ns += period_ns - FIXED_MONDAY_NS; // a whole period earlier, so never negative
        break;
    case FIXED_BY_MONTHS: return fixed_months_of(period_ns, utc_ns);
    }
    int64_t begins_ns = utc_ns - since_ns % period_ns;
    return (struct fixed_window){begins_ns, begins_ns + period_ns};
}

/* How long the longest of its windows is, of those that a clock can read. Leap years come every 48 months, so
 * of windows of months the 49th begins as the first did. (The year 2100, which is none, makes none longer.) */
static inline uint64_t fixed_period_ns(const struct weir_limit *limit)
{
    if (limit->calendar != FIXED_BY_MONTHS) {
        return limit->scale;
    }
    int64_t last_day = (int64_t)WEIR_NOW_NS_MAX / FIXED_NS_PER_DAY;
    int64_t months = (int64_t)limit->scale;
    int64_t month = 1970 * 12 - 1970 * 12 % months;
    int64_t begins_day = calendar_day_of_month(month);
    int64_t longest_days = 0;
    for (int i = 0; i < 48 && begins_day <= last_day; i++) {
        month += months;
        int64_t ends_day = calendar_day_of_month(month);
        int64_t days = ends_day - begins_day;
        longest_days = days > longest_days ? days : longest_days;
        begins_day = ends_day;
    }
    return (uint64_t)(longest_days * FIXED_NS_PER_DAY);
}

/* UTC at a reading of the store's clock. */
static inline int64_t fixed_utc_ns(const struct charge *charge, uint64_t now_ns)
{
    int64_t utc_ns = (int64_t)now_ns + charge->utc_offset_ns;
    if (utc_ns < 0) {
        return 0; // there is no calendar before 1970
    }
    return utc_ns < (int64_t)WEIR_NOW_NS_MAX ? utc_ns : (int64_t)WEIR_NOW_NS_MAX;
}

/* When the window ends in which something counts that is charged now, to a bucket that is empty. */
static inline uint64_t fixed_opens_until(const struct weir_limit *limit, struct span moment,
                                         const struct charge *charge, uint64_t now_ns)
{
    uint64_t since_ns = moment.ns > now_ns ? moment.ns : now_ns;
    int64_t utc_ns = fixed_utc_ns(charge, since_ns);
    struct fixed_window window = fixed_window_of(limit, utc_ns);
    int64_t half_ns = (window.ends_ns - window.begins_ns) / 2;
    int64_t tolerance_ns = half_ns < FIXED_TOLERANCE_NS ? half_ns : FIXED_TOLERANCE_NS;
    int64_t ended_for_ns = (int64_t)(since_ns - moment.ns);
    if (moment.rest > 0 && utc_ns - window.begins_ns - ended_for_ns > tolerance_ns) {
        window = fixed_window_of(limit, window.ends_ns); // the former ended within this one
    }
    return since_ns + (uint64_t)(window.ends_ns - utc_ns);
}

/* What was charged in the running window, millionths. */
static inline uint64_t fixed_level(const struct weir_limit *limit, struct span moment,
                                   uint64_t now_ns)
{
    return moment.ns > now_ns ? moment.rest * limit->grain_micro : 0;
}

/* What still fits. */
static inline uint64_t fixed_room(const struct weir_limit *limit, struct span moment,
                                  uint64_t now_ns)
{
    uint64_t level = fixed_level(limit, moment, now_ns);
    return level < limit->capacity_micro ? limit->capacity_micro - level : 0;
}

static inline uint64_t fixed_grains(const struct weir_limit *limit, uint64_t cost_micro)
{
    return limit->grain_micro == 1 ? cost_micro : cost_micro / WEIR_UNIT;
}

/* Whether what is charged now opens a window: only then it matters what UTC is. */
static inline bool fixed_opens(struct span moment, uint64_t now_ns)
{
    return moment.ns <= now_ns || moment.rest == 0;
}

/* Adds what fits, more than nothing: to the running window, or to a new one. */
static inline struct span fixed_add(const struct weir_limit *limit, struct span moment,
                                    const struct charge *charge, uint64_t cost_micro,
                                    uint64_t now_ns)
{
    uint64_t grains = fixed_grains(limit, cost_micro);
    if (fixed_opens(moment, now_ns)) {
        return (struct span){fixed_opens_until(limit, moment, charge, now_ns), grains};
    }
    return (struct span){moment.ns, moment.rest + grains};
}

static inline struct outcome fixed_take(struct weir_bucket bucket, const struct weir_limit *limit,
                                        const struct charge *charge, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    if (charge->never || charge->cost_micro == 0) {
        return (struct outcome){charge->never ? WEIR_NEVER : WEIR_ALLOWED, moment};
    }
    if (charge->cost_micro > fixed_room(limit, moment, now_ns)) {
        return (struct outcome){WEIR_LIMITED, moment};
    }
    return (struct outcome){WEIR_ALLOWED,
                            fixed_add(limit, moment, charge, charge->cost_micro, now_ns)};
}

static inline struct outcome fixed_fill(struct weir_bucket bucket, const struct weir_limit *limit,
                                        const struct charge *charge, uint64_t now_ns,
                                        struct weir_amount *spill, bool *full)
{
    struct span moment = bucket_moment(bucket, limit);
    uint64_t room = fixed_room(limit, moment, now_ns);
    uint64_t fits = charge->cost_micro < room ? charge->cost_micro : room;
    *spill = amount_of(charge->cost_micro - fits, WEIR_UNIT);
    *full = fits == room;
    return (struct outcome){WEIR_ALLOWED,
                            fits > 0 ? fixed_add(limit, moment, charge, fits, now_ns) : moment};
}

/* Gives back what was charged in the running window: what an earlier one had is gone. */
static inline struct outcome fixed_refund(struct weir_bucket bucket, const struct weir_limit *limit,
                                          const struct charge *charge, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    uint64_t level = fixed_level(limit, moment, now_ns);
    if (charge->cost_micro == 0 || level == 0) {
        return (struct outcome){WEIR_ALLOWED, moment};
    }
    if (charge->cost_micro >= level) {
        return (struct outcome){WEIR_ALLOWED, {now_ns, 0}};
    }
    return (struct outcome){WEIR_ALLOWED,
                            {moment.ns, moment.rest - fixed_grains(limit, charge->cost_micro)}};
}

/* The earliest reading, now or later, at which a cost that may ever fit does: when the window ends. */
static inline uint64_t fixed_fits_at(const struct weir_limit *limit, struct span moment,
                                     uint64_t cost_micro, uint64_t now_ns)
{
    return cost_micro <= fixed_room(limit, moment, now_ns) ? now_ns : moment.ns;
}

#endif
