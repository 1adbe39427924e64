/* SPDX-License-Identifier: MIT
 *
 * A bucket of any kind as one would draw it on paper: slow, plain, and in none of the forms in which weir keeps
 * one. A meter (bucket, queue) is the moment at which it is empty, in D-ths of a nanosecond; the other kinds count
 * what was charged, in millionths of a unit. */
#ifndef WEIR_TESTS_BUCKET_ON_PAPER_H
#define WEIR_TESTS_BUCKET_ON_PAPER_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/limit.h"

__extension__ typedef __int128 int128;

enum { PAPER_EVENTS_MAX = 256 };

/* What a window has let through. */
struct paper_event {
    int128 at_ns, cost;
};

/*   denominator, scale, full, moment   of a meter
 *   grain      costs and room are multiples of it
 *   charged    stepped: since `began`; fixed: in the window that ends at `ends`; sliding: in the one that began
 *              at `began`, with `former` in the one before it
 *   since      fixed, sliding, window: an earlier reading counts as this one, where nothing was charged since
 *   events     of a window, with `since` the last one's instant */
struct bucket_on_paper {
    enum weir_kind kind;
    int128 denominator, scale, full, moment;
    int128 step, period_ns, capacity, grain;
    int128 charged, former, began_ns, ends_ns, since_ns;
    struct paper_event events[PAPER_EVENTS_MAX];
    int event_count;
};

static inline int128 later_of(int128 a, int128 b)
{
    return a > b ? a : b;
}

/* Rounded up also below zero: at a reading before a bucket began, it is fuller by whole steps. */
static inline int128 div_ceil(int128 a, int128 b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

static inline bool is_meter(const struct bucket_on_paper *bucket)
{
    return bucket->kind == WEIR_KIND_BUCKET || bucket->kind == WEIR_KIND_QUEUE;
}

static inline int128 ceil_ns(const struct bucket_on_paper *bucket, int128 parts)
{
    return (parts + bucket->denominator - 1) / bucket->denominator;
}

static inline int128 parts_of(const struct bucket_on_paper *bucket, uint64_t now_ns)
{
    return (int128)now_ns * bucket->denominator;
}

static inline struct bucket_on_paper bucket_on_paper(const struct weir_limit_config *config,
                                                     const struct weir_limit *limit)
{
    struct bucket_on_paper bucket = {
        .kind = config->kind,
        .denominator = 1,
        .scale = 1,
        .step = (int128)config->count_micro,
        .period_ns = (int128)config->period_ns,
        .capacity = (int128)config->capacity_micro,
        .grain = (int128)limit->grain_micro,
    };
    if (is_meter(&bucket)) {
        bucket.denominator = (int128)limit->denominator;
        bucket.scale = (int128)limit->scale;
        bucket.full =
            (int128)limit->full_ns * (int128)limit->denominator + (int128)limit->full_rest;
    }
    return bucket;
}

/* ---- what was charged and still counts, in P-ths of a millionth where a limit is sliding ---- */

static inline int128 stepped_level(const struct bucket_on_paper *bucket, uint64_t now_ns)
{
    int128 age_ns = (int128)now_ns - bucket->began_ns;
    int128 ended = age_ns >= 0 ? age_ns / bucket->period_ns
                               : -((-age_ns + bucket->period_ns - 1) / bucket->period_ns);
    return later_of(0, bucket->charged - ended * bucket->step);
}

static inline int128 sliding_level(const struct bucket_on_paper *bucket, int128 now_ns)
{
    int128 period_ns = bucket->period_ns;
    int128 age_ns = later_of(0, now_ns - bucket->began_ns);
    if (bucket->charged == 0 || age_ns >= 2 * period_ns) {
        return 0;
    }
    return age_ns < period_ns ? bucket->charged * period_ns + bucket->former * (period_ns - age_ns)
                              : bucket->charged * (2 * period_ns - age_ns);
}

static inline int128 window_level(const struct bucket_on_paper *bucket, int128 now_ns)
{
    int128 level = 0;
    now_ns = later_of(now_ns, bucket->since_ns);
    for (int i = 0; i < bucket->event_count; i++) {
        const struct paper_event *event = &bucket->events[i];
        level += event->at_ns + bucket->period_ns > now_ns ? event->cost : 0;
    }
    return level;
}

/* How many P-ths a unit of the level has. */
static inline int128 level_scale(const struct bucket_on_paper *bucket)
{
    return bucket->kind == WEIR_KIND_SLIDING ? bucket->period_ns : 1;
}

static inline int128 paper_level(const struct bucket_on_paper *bucket, uint64_t now_ns)
{
    switch (bucket->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: return later_of(0, bucket->moment - parts_of(bucket, now_ns));
    case WEIR_KIND_STEPPED: return stepped_level(bucket, now_ns);
    case WEIR_KIND_FIXED: return (int128)now_ns < bucket->ends_ns ? bucket->charged : 0;
    case WEIR_KIND_SLIDING: return sliding_level(bucket, now_ns);
    case WEIR_KIND_WINDOW: return window_level(bucket, now_ns);
    }
    return 0;
}

/* A take of a meter asks for a span, of another kind for millionths. */
static inline bool paper_fits(const struct bucket_on_paper *bucket, int128 span, uint64_t now_ns)
{
    if (is_meter(bucket)) {
        return paper_level(bucket, now_ns) + span <= bucket->full;
    }
    return paper_level(bucket, now_ns) + span * level_scale(bucket)
           <= bucket->capacity * level_scale(bucket);
}

/* ---- charging ---- */

static inline void charge_sliding(struct bucket_on_paper *bucket, int128 span, uint64_t now_ns)
{
    if (sliding_level(bucket, now_ns) == 0) {
        bucket->began_ns = later_of(now_ns, bucket->charged == 0 ? bucket->since_ns : 0);
        bucket->charged = bucket->former = 0;
    } else if ((int128)now_ns - bucket->began_ns >= bucket->period_ns) {
        bucket->began_ns += bucket->period_ns;
        bucket->former = bucket->charged;
        bucket->charged = 0;
    }
    bucket->charged += span;
}

static inline void charge_fixed(struct bucket_on_paper *bucket, int128 span, uint64_t now_ns)
{
    if (paper_level(bucket, now_ns) == 0) {
        int128 from_ns = later_of(now_ns, later_of(bucket->ends_ns, bucket->since_ns));
        bucket->ends_ns = (from_ns / bucket->period_ns + 1) * bucket->period_ns;
        bucket->charged = 0;
    }
    bucket->charged += span;
}

static inline void paper_charge(struct bucket_on_paper *bucket, int128 span, uint64_t now_ns)
{
    switch (bucket->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE:
        bucket->moment = later_of(bucket->moment, parts_of(bucket, now_ns)) + span;
        break;
    case WEIR_KIND_STEPPED:
        if (stepped_level(bucket, now_ns) == 0) {
            bucket->charged = 0;
            bucket->began_ns = now_ns;
        }
        bucket->charged += span;
        break;
    case WEIR_KIND_FIXED: charge_fixed(bucket, span, now_ns); break;
    case WEIR_KIND_SLIDING: charge_sliding(bucket, span, now_ns); break;
    case WEIR_KIND_WINDOW:
        bucket->since_ns = later_of(now_ns, bucket->since_ns);
        bucket->events[bucket->event_count++] = (struct paper_event){bucket->since_ns, span};
        break;
    }
}

/* As much as fits. */
static inline void paper_fill(struct bucket_on_paper *bucket, int128 span, uint64_t now_ns)
{
    int128 most = is_meter(bucket) ? bucket->full : bucket->capacity * level_scale(bucket);
    int128 room = (most - paper_level(bucket, now_ns)) / level_scale(bucket);
    if (!is_meter(bucket)) {
        room -= room % bucket->grain;
    }
    if (span > 0 && room > 0) {
        paper_charge(bucket, span < room ? span : room, now_ns);
    }
}

static inline void paper_clear(struct bucket_on_paper *bucket, uint64_t now_ns)
{
    bucket->charged = bucket->former = 0;
    bucket->began_ns = bucket->ends_ns = bucket->since_ns = now_ns;
    bucket->event_count = 0;
}

/* From the window that is now, and then from the one before it. */
static inline void refund_sliding(struct bucket_on_paper *bucket, int128 span, uint64_t now_ns)
{
    bool is_next = (int128)now_ns - bucket->began_ns >= bucket->period_ns;
    int128 some = span < bucket->charged ? span : bucket->charged;
    bucket->charged -= some;
    int128 more = is_next ? bucket->former : span - some;
    bucket->former -= more < bucket->former ? more : bucket->former;
    if (bucket->charged == 0 && bucket->former > 0) {
        bucket->charged = bucket->former;
        bucket->former = 0;
        bucket->began_ns -= bucket->period_ns;
    }
    if (bucket->charged == 0) {
        paper_clear(bucket, now_ns);
    }
}

/* Not of a window, which takes nothing back. */
static inline void paper_refund(struct bucket_on_paper *bucket, int128 span, uint64_t now_ns)
{
    int128 level = paper_level(bucket, now_ns);
    if (span == 0 || level == 0) {
        return;
    }
    if (is_meter(bucket)) {
        bucket->moment = later_of(bucket->moment - span, parts_of(bucket, now_ns));
    } else if (bucket->kind == WEIR_KIND_SLIDING) {
        refund_sliding(bucket, span, now_ns);
    } else if (span >= level) {
        paper_clear(bucket, now_ns);
    } else {
        bucket->charged -= span;
    }
}

static inline void paper_reset(struct bucket_on_paper *bucket, uint64_t now_ns)
{
    if (is_meter(bucket)) {
        paper_refund(bucket, paper_level(bucket, now_ns), now_ns);
    } else if (paper_level(bucket, now_ns) > 0 || bucket->event_count > 0) {
        paper_clear(bucket, now_ns);
    }
}

/* ---- what will be ---- */

static inline int128 due_of_window(const struct bucket_on_paper *bucket, int128 span)
{
    int128 due_ns = bucket->since_ns;
    for (int i = 0; window_level(bucket, due_ns) + span > bucket->capacity; i++) {
        due_ns = later_of(bucket->since_ns, bucket->events[i].at_ns + bucket->period_ns);
    }
    return due_ns;
}

/* Within a window the level falls evenly: so look at each. */
static inline int128 due_of_sliding(const struct bucket_on_paper *bucket, int128 span)
{
    int128 period_ns = bucket->period_ns;
    int128 former = bucket->former;
    int128 charged = bucket->charged;
    for (int128 begins_ns = bucket->began_ns;; begins_ns += period_ns) {
        int128 room = bucket->capacity - charged - span;
        int128 needed_ns = former > 0 && room < former ? period_ns - room * period_ns / former : 0;
        if (room >= 0 && needed_ns < period_ns) {
            return begins_ns + needed_ns;
        }
        former = charged;
        charged = 0;
    }
}

/* The earliest reading at which a take fits; it may have been long ago. */
static inline int128 paper_due(const struct bucket_on_paper *bucket, int128 span)
{
    switch (bucket->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: return ceil_ns(bucket, bucket->moment + span - bucket->full);
    case WEIR_KIND_STEPPED:
        return bucket->began_ns
               + div_ceil(bucket->charged + span - bucket->capacity, bucket->step)
                     * bucket->period_ns;
    case WEIR_KIND_FIXED: return bucket->charged + span <= bucket->capacity ? 0 : bucket->ends_ns;
    case WEIR_KIND_SLIDING: return due_of_sliding(bucket, span);
    case WEIR_KIND_WINDOW: return due_of_window(bucket, span);
    }
    return 0;
}

/* How long until it is empty. */
static inline int128 paper_empty_after(const struct bucket_on_paper *bucket, uint64_t now_ns)
{
    if (paper_level(bucket, now_ns) == 0) {
        return 0;
    }
    switch (bucket->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: return ceil_ns(bucket, bucket->moment - parts_of(bucket, now_ns));
    case WEIR_KIND_STEPPED:
        return bucket->began_ns + div_ceil(bucket->charged, bucket->step) * bucket->period_ns
               - now_ns;
    case WEIR_KIND_FIXED: return bucket->ends_ns - now_ns;
    case WEIR_KIND_SLIDING: return bucket->began_ns + 2 * bucket->period_ns - now_ns;
    case WEIR_KIND_WINDOW: return bucket->since_ns + bucket->period_ns - now_ns;
    }
    return 0;
}

#endif
