/* SPDX-License-Identifier: MIT
 *
 * A stepped limit drains N units at the end of each whole period P, counted from the first charge of an
 * empty bucket, and nothing in between.
 *
 * Its state too is the moment at which the bucket is empty: the end of the period in which the last of it
 * drains. The 40 bits hold the slack: how much more that last drain could have drained. So
 *
 *     steps = ceil((moment - now) / P)            drains that are still to come
 *     level = steps * N - slack
 *
 * and a charge eats up the slack, then moves the moment on by whole periods. Everything is whole: N and the
 * slack in millionths, P in nanoseconds. In a compiled limit N is the denominator and P the scale, neither
 * of them reduced: 10 per 10 s drains otherwise than 1 per s. */
#ifndef WEIR_CORE_STEPPED_MATH_H
#define WEIR_CORE_STEPPED_MATH_H

#include "core/bucket_math.h"

static inline uint64_t stepped_steps(const struct weir_limit *limit, struct span moment,
                                     uint64_t now_ns)
{
    return moment.ns > now_ns ? (moment.ns - now_ns - 1) / limit->scale + 1 : 0;
}

/* Millionths of a unit. At an old reading they may exceed 64 bits. */
static inline uint128 stepped_level(const struct weir_limit *limit, struct span moment,
                                    uint64_t now_ns)
{
    uint64_t steps = stepped_steps(limit, moment, now_ns);
    return steps > 0 ? (uint128)steps * limit->denominator - moment.rest : 0;
}

/* What still fits. */
static inline uint64_t stepped_room(const struct weir_limit *limit, struct span moment,
                                    uint64_t now_ns)
{
    uint128 level = stepped_level(limit, moment, now_ns);
    return level < limit->capacity_micro ? limit->capacity_micro - (uint64_t)level : 0;
}

/* Adds what fits. An empty bucket begins its first period now. */
static inline struct span stepped_add(const struct weir_limit *limit, struct span moment,
                                      uint64_t cost_micro, uint64_t now_ns)
{
    moment = moment.ns > now_ns ? moment : (struct span){now_ns, 0};
    if (cost_micro <= moment.rest) {
        return (struct span){moment.ns, moment.rest - cost_micro};
    }
    uint64_t beyond = cost_micro - moment.rest;
    uint64_t periods = (beyond - 1) / limit->denominator + 1;
    return (struct span){moment.ns + periods * limit->scale, periods * limit->denominator - beyond};
}

/* Whether a bucket of this moment holds no more than its capacity. As the level tells, but without a division:
 * with as many drains to come as a full one has, its slack decides. */
static inline bool stepped_holds(const struct weir_limit *limit, struct span moment,
                                 uint64_t now_ns)
{
    uint64_t rest_ns = moment.ns - now_ns;
    return rest_ns <= limit->full_ns - limit->scale
           || (rest_ns <= limit->full_ns && moment.rest >= limit->full_rest);
}

static inline struct outcome stepped_take(struct weir_bucket bucket, const struct weir_limit *limit,
                                          const struct charge *charge, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    if (charge->never || charge->cost_micro == 0) {
        return (struct outcome){charge->never ? WEIR_NEVER : WEIR_ALLOWED, moment};
    }
    struct span after = stepped_add(limit, moment, charge->cost_micro, now_ns);
    return stepped_holds(limit, after, now_ns) ? (struct outcome){WEIR_ALLOWED, after}
                                               : (struct outcome){WEIR_LIMITED, moment};
}

static inline struct outcome stepped_fill(struct weir_bucket bucket, const struct weir_limit *limit,
                                          const struct charge *charge, uint64_t now_ns,
                                          struct weir_amount *spill, bool *full)
{
    struct span moment = bucket_moment(bucket, limit);
    uint64_t room = stepped_room(limit, moment, now_ns);
    uint64_t fits = charge->cost_micro < room ? charge->cost_micro : room;
    *spill = amount_of(charge->cost_micro - fits, WEIR_UNIT);
    *full = fits == room;
    return (struct outcome){WEIR_ALLOWED,
                            fits > 0 ? stepped_add(limit, moment, fits, now_ns) : moment};
}

/* Gives back, never below zero; the periods go on as they were. */
static inline struct outcome stepped_refund(struct weir_bucket bucket,
                                            const struct weir_limit *limit,
                                            const struct charge *charge, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    uint128 level = stepped_level(limit, moment, now_ns);
    if (charge->cost_micro == 0 || level == 0) {
        return (struct outcome){WEIR_ALLOWED, moment};
    }
    if (charge->cost_micro >= level) {
        return (struct outcome){WEIR_ALLOWED, {now_ns, 0}};
    }
    uint128 slack = (uint128)moment.rest + charge->cost_micro;
    uint64_t periods = (uint64_t)(slack / limit->denominator); // fewer than are still to come
    return (struct outcome){
        WEIR_ALLOWED, {moment.ns - periods * limit->scale, (uint64_t)(slack % limit->denominator)}};
}

/* The earliest reading, now or later, at which a cost that may ever fit does: at the end of a period. */
static inline uint64_t stepped_fits_at(const struct weir_limit *limit, struct span moment,
                                       uint64_t cost_micro, uint64_t now_ns)
{
    if (cost_micro <= stepped_room(limit, moment, now_ns)) {
        return now_ns;
    }
    uint64_t steps = (limit->capacity_micro - cost_micro + moment.rest) / limit->denominator;
    return moment.ns - steps * limit->scale;
}

#endif
