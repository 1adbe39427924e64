/* SPDX-License-Identifier: MIT
 *
 * The decision itself, as functions from a state to a state, for everyone who owns states: the
 * plain bucket, the shared one and the table. Inline, because a decision costs about as much as a
 * function call.
 *
 * A bucket is the moment at which it will be empty. With `now` the reading of the clock,
 *
 *     start   = max(moment, now)                  leak, clamp at zero
 *     next    = start + cost / rate               what the moment would become
 *     allowed = next <= now + capacity / rate     it fits, or it does not
 *
 * and the level is (moment - now) * rate. One maximum, one addition with carry, one comparison: no
 * division for the verdict, and nothing is rounded, because moments are exact rationals.
 *
 * A queue is charged in the same way: the moment at which its line is empty. Two things differ. What is
 * allowed may go only at its egress: at `next`, or with first=now at `start`. And with first=now one unit
 * more fits, the one that does not wait; `full` counts it, the capacity does not. */
#ifndef WEIR_CORE_BUCKET_MATH_H
#define WEIR_CORE_BUCKET_MATH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arith.h"
#include "weir/bucket.h"

/* For what is on the way of every decision. */
#define ALWAYS_INLINE __attribute__((always_inline)) static inline

/* For what is on that way, holds no array, and hands its locals to nobody who would index them: the stack protector
 * has nothing to guard there, and takes five instructions. */
#if defined(__has_attribute)
#if __has_attribute(no_stack_protector)
#define NO_CANARY __attribute__((no_stack_protector))
#endif
#endif
#ifndef NO_CANARY
#define NO_CANARY
#endif

/* Keeps a branch a branch: the processor guesses it and goes on, where a conditional move would make
 * the next compare-and-swap wait, for the clock or for the other half of the state. */
#define PREDICTED(word) __asm__("" : "+r"(word))

/* And the other way round: what was computed stays computed, where a branch on it would be a guess at
 * chance, and a wrong one throws away all that the processor did meanwhile. */
#define COMPUTED(word) __asm__("" : "+r"(word))

/* weir_bucket.word, from the least bit. */
#define BUCKET_REST_BITS   40
#define BUCKET_OWNER_BITS  16
#define BUCKET_REST_MASK   ((UINT64_C(1) << BUCKET_REST_BITS) - 1)
#define BUCKET_OWNER_SHIFT BUCKET_REST_BITS
#define BUCKET_OWNER_MASK  (((UINT64_C(1) << BUCKET_OWNER_BITS) - 1) << BUCKET_OWNER_SHIFT)

/* Of the flags above:
 *   LINE      somebody stands in line, so whoever does not has to go by the line's keeper
 *   MARKED    a take under several limits is deciding: the state stands still until the mark is gone
 *   MOVED     the bucket goes on in another table (store/table/moving.h)
 *   BLOCKED   the key may be locked out: an entry of its own in the store says whether it is
 * A state with any of them is nothing that the usual take could deal with.
 *   IS_BLOCK  this is such an entry and no bucket: its moment is the end of the block */
#define BUCKET_LINE     (UINT64_C(1) << 59)
#define BUCKET_MARKED   (UINT64_C(1) << 60)
#define BUCKET_MOVED    (UINT64_C(1) << 61)
#define BUCKET_BLOCKED  (UINT64_C(1) << 62)
#define BUCKET_IS_BLOCK (UINT64_C(1) << 63)
#define BUCKET_FLAGS    (BUCKET_LINE | BUCKET_MARKED | BUCKET_MOVED | BUCKET_BLOCKED)

/* Of the kind's own: the 40 bits lead to a log of events (window_math.h). */
#define BUCKET_LOG (UINT64_C(1) << 56)

_Static_assert(WEIR_DENOMINATOR_MAX <= BUCKET_REST_MASK + 1, "a remainder fits its bits");
_Static_assert(WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX + 1 < UINT64_C(1) << 63,
               "every moment fits a signed 64-bit integer, as databases have them");

/* What a cost means under one limit: computed once, outside of any retry. */
struct charge {
    struct span span; /* how far it moves the moment; unspecified if `never` */
    uint64_t cost_micro;
    bool never;            /* it exceeds the capacity, or is uncounted */
    bool uncounted;        /* it is no multiple of what the limit counts in */
    int64_t utc_offset_ns; /* UTC minus the store's clock; only fixed limits look at it */
};

/* A limit of zeroes is what a failed weir_limit_init() leaves. Nothing can be decided under it: every division
 * here is by the denominator, which in a compiled limit is at least 1. The usual take needs no check, because no
 * cost has a usual span under such a limit; every other way to a decision checks first. */
static inline bool limit_is_compiled(const struct weir_limit *limit)
{
    return limit->denominator != 0;
}

/* The moment a state means under a limit. A remainder of another limit's numbers that this one
 * cannot hold counts as one nanosecond: an error below one nanosecond per change of numbers. */
static inline struct span bucket_moment(struct weir_bucket bucket, const struct weir_limit *limit)
{
    uint64_t rest = bucket.word & BUCKET_REST_MASK;
    if (__builtin_expect(rest >= limit->denominator, 0)) {
        return (struct span){bucket.empty_at_ns + 1, 0};
    }
    return (struct span){bucket.empty_at_ns, rest};
}

/* The same state with another moment; owner and flags stay. */
static inline struct weir_bucket bucket_with_moment(struct weir_bucket bucket, struct span moment)
{
    return (struct weir_bucket){moment.ns, (bucket.word & ~BUCKET_REST_MASK) | moment.rest};
}

/* From full to empty. */
static inline struct span limit_full(const struct weir_limit *limit)
{
    return (struct span){limit->full_ns, limit->full_rest};
}

/* cost * scale / denominator as a span. The caller sees to it that it fits: cost <= capacity. */
static inline struct span span_of_cost(const struct weir_limit *limit, uint64_t cost_micro)
{
    uint128 product = (uint128)cost_micro * limit->scale;
    return (struct span){(uint64_t)(product / limit->denominator),
                         (uint64_t)(product % limit->denominator)};
}

/* What whoever refuses a cost says that limit_counts() does not know. */
#define LIMIT_COUNTS_WHOLE "this limit counts whole units, so the cost must be a whole number"

/* Whether anything can be given back under a limit of this kind; and what is said where it cannot. */
static inline bool kind_takes_refund(enum weir_kind kind)
{
    return kind != WEIR_KIND_WINDOW;
}
#define LIMIT_TAKES_NO_REFUND "a window takes no refund: what it let through has passed"

/* Why nothing could be decided under a limit of this kind, where on_full refuses. A window needs both. */
static inline const char *kind_full_text(enum weir_kind kind)
{
    return kind == WEIR_KIND_WINDOW
               ? "the memory for events is full (more: events=), or the table is"
               : "the table is full of live buckets";
}

/* Whether the limit can count such a cost: one that counts whole units knows no parts of them. */
static inline bool limit_counts(const struct weir_limit *limit, uint64_t cost_micro)
{
    return limit->grain_micro == 1 || cost_micro % limit->grain_micro == 0;
}

static inline struct charge charge_of(const struct weir_limit *limit, uint64_t cost_micro)
{
    if (cost_micro == WEIR_UNIT && limit->capacity_micro >= WEIR_UNIT) { // counted by all
        return (struct charge){.span = {limit->unit_ns, limit->unit_rest},
                               .cost_micro = cost_micro};
    }
    if (cost_micro > limit->capacity_micro || !limit_counts(limit, cost_micro)) {
        return (struct charge){
            .cost_micro = cost_micro, .never = true, .uncounted = !limit_counts(limit, cost_micro)};
    }
    return (struct charge){.span = span_of_cost(limit, cost_micro), .cost_micro = cost_micro};
}

/* How far a cost moves the moment where more than the capacity fits, or is there. */
static inline struct span charge_span(const struct weir_limit *limit, const struct charge *charge)
{
    return charge->never ? span_of_cost(limit, charge->cost_micro) : charge->span;
}

/* floor(span * rate) in whole units. */
static inline uint64_t span_floor_units(struct span span, const struct weir_limit *limit)
{
    uint128 parts = (uint128)span.ns * limit->denominator + span.rest;
    uint64_t divisor = limit->unit_divisor;
    bool is_wide = (uint64_t)(parts >> 64) != 0 || divisor == 0;
    if (__builtin_expect(is_wide, 0)) {
        return (uint64_t)(parts / ((uint128)limit->scale * WEIR_UNIT));
    }
    /* One multiplication in place of a division: the quotient by the reciprocal, itself rounded
     * down, is too small by at most one (T. Granlund, P. Montgomery, 1994). */
    uint64_t dividend = (uint64_t)parts;
    uint64_t quotient = (uint64_t)(((uint128)dividend * limit->unit_reciprocal) >> 64);
    return quotient + (dividend - quotient * divisor >= divisor);
}

/* floor(capacity - level): what is left of `full` when `level` is taken away. */
static inline uint64_t span_remaining(struct span level, const struct weir_limit *limit)
{
    struct span full = limit_full(limit);
    uint64_t units = span_floor_units(span_sub_or_zero(full, level, limit->denominator), limit);
    /* Where the first goes now, one more fits than there are places to wait in. */
    return units < limit->capacity ? units : limit->capacity;
}

/* Readings below are at most WEIR_NOW_NS_MAX: who takes one from a stranger clamps it first. */
static inline uint64_t clamp_now(uint64_t now_ns)
{
    return now_ns < WEIR_NOW_NS_MAX ? now_ns : WEIR_NOW_NS_MAX;
}

/* The bucket leaks and clamps at zero: an empty one counts from now. */
static inline struct span bucket_start(struct span moment, uint64_t now_ns)
{
    return moment.ns < now_ns ? (struct span){now_ns, 0} : moment;
}

/* The moment of a full bucket. */
static inline struct span bucket_latest(const struct weir_limit *limit, uint64_t now_ns)
{
    return (struct span){now_ns + limit->full_ns, limit->full_rest};
}

/* Where a bucket stands after a question: all that the next state and the answer depend on. Deciding
 * and answering are two steps, so that a store can swap its state in between, as early as possible. */
struct outcome {
    enum weir_verdict verdict;
    struct span moment;
};

/* The answer where nothing can be decided: no room for the bucket, and on_full refuses; none to stand in
 * line; or whoever waits is sent away. */
static inline void bucket_answer_failed(struct weir_decision *decision,
                                        const struct weir_limit *limit)
{
    *decision = (struct weir_decision){.verdict = WEIR_FAILED,
                                       .capacity = limit->capacity,
                                       .retry_after_ns = -1,
                                       .reset_after_ns = -1};
}

/* Takes: the verdict, and the moment after it. */
static inline struct outcome bucket_take(struct weir_bucket bucket, const struct weir_limit *limit,
                                         const struct charge *charge, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    if (charge->never || charge->cost_micro == 0) {
        return (struct outcome){charge->never ? WEIR_NEVER : WEIR_ALLOWED, moment};
    }
    struct span start = bucket_start(moment, now_ns);
    struct span after = span_add(start, charge->span, limit->denominator);
    bool fits = !span_less(bucket_latest(limit, now_ns), after);
    return fits ? (struct outcome){WEIR_ALLOWED, after} : (struct outcome){WEIR_LIMITED, moment};
}

/* When a take that was just charged to a queue may go, if `after` is the moment that it led to: at the end
 * of its own interval, or at its beginning. */
static inline struct span queue_egress(const struct weir_limit *limit, struct span cost,
                                       struct span after)
{
    return limit->first == WEIR_FIRST_NOW ? span_sub(after, cost, limit->denominator) : after;
}

/* How long an allowed take has to wait before it may go. */
static inline uint64_t bucket_delay_ns(const struct weir_limit *limit, const struct charge *charge,
                                       struct outcome outcome, uint64_t now_ns)
{
    if (limit->kind != WEIR_KIND_QUEUE || charge->cost_micro == 0) {
        return 0;
    }
    return span_ceil_ns(span_since(queue_egress(limit, charge->span, outcome.moment), now_ns));
}

/* The earliest reading, now or later, at which a charge that is not for never fits: as soon as
 * moment + cost <= then + full. */
static inline uint64_t bucket_fits_at(const struct weir_limit *limit, struct span moment,
                                      const struct charge *charge, uint64_t now_ns)
{
    struct span after = span_add(moment, charge->span, limit->denominator);
    struct span then = span_sub_or_zero(after, limit_full(limit), limit->denominator);
    uint64_t then_ns = span_ceil_ns(then);
    return then_ns > now_ns ? then_ns : now_ns;
}

/* The usual take, once more: where a unit of cost lasts whole nanoseconds, and the state has no
 * remainder either, there is nothing to carry, and the same arithmetic is a handful of instructions.
 * That matters, because all that stands between one compare-and-swap and the next is paid in full: a
 * processor does not work past one.
 *
 * How far a usual take moves the moment; 0 if it is none: of a fraction of a unit (unless a millionth
 * lasts whole nanoseconds too), or of nothing, or of more than fits. */
ALWAYS_INLINE uint64_t usual_span_ns(const struct weir_limit *limit, uint64_t cost_micro)
{
    if (__builtin_expect(cost_micro == WEIR_UNIT, 1)) {
        return limit->whole_unit_ns;
    }
    bool is_whole = limit->denominator == 1 && limit->whole_unit_ns != 0;
    return is_whole && cost_micro <= limit->capacity_micro ? cost_micro * limit->scale : 0;
}

ALWAYS_INLINE bool bucket_is_usual(struct weir_bucket bucket)
{
    return (bucket.word & (BUCKET_REST_MASK | BUCKET_FLAGS)) == 0;
}

/* bucket_take() of a usual take from a usual bucket. */
ALWAYS_INLINE struct outcome usual_take(struct weir_bucket bucket, const struct weir_limit *limit,
                                        uint64_t span_ns, uint64_t now_ns)
{
    uint64_t start_ns = bucket.empty_at_ns;
    if (start_ns < now_ns) {
        uint64_t same_ns = now_ns;
        PREDICTED(same_ns);
        start_ns = same_ns;
    }
    uint64_t after_ns = start_ns + span_ns;
    if (after_ns <= now_ns + limit->full_ns) {
        return (struct outcome){WEIR_ALLOWED, {after_ns, 0}};
    }
    return (struct outcome){WEIR_LIMITED, {bucket.empty_at_ns, 0}};
}

/* ns / unit_ns of a limit whose unit is whole, rounded down; ns is at most 100 years. As span_floor_units(). */
static inline uint64_t usual_floor_units(uint64_t ns, const struct weir_limit *limit)
{
    uint64_t quotient = (uint64_t)(((uint128)ns * limit->whole_unit_reciprocal) >> 64);
    return quotient + (ns - quotient * limit->unit_ns >= limit->unit_ns);
}

/* The answer to a usual take. Its bucket is not empty: it was charged, or it refused. */
ALWAYS_INLINE void usual_answer(struct weir_decision *decision, const struct weir_limit *limit,
                                uint64_t span_ns, struct outcome outcome, uint64_t now_ns)
{
    uint64_t level_ns = outcome.moment.ns - now_ns;
    decision->verdict = outcome.verdict;
    decision->capacity = limit->capacity;
    decision->reset_after_ns = (int64_t)level_ns;
    decision->delay_ns = 0;
    if (outcome.verdict == WEIR_ALLOWED) {
        decision->remaining = usual_floor_units(limit->full_ns - level_ns, limit);
        decision->retry_after_ns = -1;
    } else {
        decision->remaining = 0; // less is left than was asked for: of a unit or less, no whole one
        if (__builtin_expect(span_ns > limit->whole_unit_ns, 0)) {
            /* At an old reading the level may be above the capacity. */
            uint64_t left_ns = level_ns < limit->full_ns ? limit->full_ns - level_ns : 0;
            decision->remaining = usual_floor_units(left_ns, limit);
        }
        decision->retry_after_ns = (int64_t)(level_ns + span_ns - limit->full_ns);
    }
}

/* A queue has usual takes, too: of one unit, where numbers are as whole as a usual bucket's. It is charged as that is,
 * by usual_take(), and has an answer of its own, so that a bucket's stays as short as it is. */
static inline bool queue_is_usual(const struct weir_limit *limit, uint64_t cost_micro)
{
    return limit->kind == WEIR_KIND_QUEUE && cost_micro == WEIR_UNIT
           && limit->whole_unit_reciprocal != 0 && limit->block_ns == 0;
}

static inline void usual_queue_answer(struct weir_decision *decision,
                                      const struct weir_limit *limit, struct outcome outcome,
                                      uint64_t now_ns)
{
    uint64_t level_ns = outcome.moment.ns - now_ns;
    decision->verdict = outcome.verdict;
    decision->capacity = limit->capacity;
    decision->reset_after_ns = (int64_t)level_ns;
    if (outcome.verdict == WEIR_ALLOWED) {
        bool goes_first = limit->first == WEIR_FIRST_NOW;
        decision->remaining = usual_floor_units(limit->full_ns - level_ns, limit);
        decision->retry_after_ns = -1;
        decision->delay_ns = (int64_t)(goes_first ? level_ns - limit->unit_ns : level_ns);
    } else { // less than a unit is left
        decision->remaining = 0;
        decision->retry_after_ns = (int64_t)(level_ns + limit->unit_ns - limit->full_ns);
        decision->delay_ns = 0;
    }
}

/* Gives back, never below zero. */
static inline struct outcome bucket_refund(struct weir_bucket bucket,
                                           const struct weir_limit *limit,
                                           const struct charge *charge, uint64_t now_ns)
{
    uint64_t denominator = limit->denominator;
    struct span moment = bucket_moment(bucket, limit);
    struct span level = span_since(moment, now_ns);
    if (charge->cost_micro != 0 && (level.ns | level.rest) != 0) {
        uint128 held = (uint128)level.ns * denominator + level.rest; // in D-ths of a nanosecond
        uint128 back = (uint128)charge->cost_micro * limit->scale;
        if (back >= held) {
            moment = (struct span){now_ns, 0};
        } else { // the cost may exceed the capacity: so may the level, at an old reading
            moment = span_sub(moment, charge_span(limit, charge), denominator);
        }
    }
    return (struct outcome){WEIR_ALLOWED, moment};
}

/* Charges whatever comes, up to the capacity. */
static inline struct outcome bucket_fill(struct weir_bucket bucket, const struct weir_limit *limit,
                                         const struct charge *charge, uint64_t now_ns,
                                         struct weir_amount *spill, bool *full)
{
    uint64_t denominator = limit->denominator;
    struct span moment = bucket_moment(bucket, limit);
    struct span latest = bucket_latest(limit, now_ns);
    struct span start = bucket_start(moment, now_ns);
    struct span room = span_sub_or_zero(latest, start, denominator);
    uint128 wanted = (uint128)charge->cost_micro * limit->scale; // in D-ths of a nanosecond
    uint128 fits = (uint128)room.ns * denominator + room.rest;
    *spill = amount_of(wanted > fits ? wanted - fits : 0, (uint128)limit->scale * WEIR_UNIT);
    if (charge->cost_micro != 0 && span_less(start, latest)) {
        moment = wanted > fits ? latest : span_add(start, charge_span(limit, charge), denominator);
    }
    *full = !span_less(moment, latest);
    return (struct outcome){WEIR_ALLOWED, moment};
}

/* Reads. */
static inline struct outcome bucket_show(struct weir_bucket bucket, const struct weir_limit *limit)
{
    return (struct outcome){WEIR_ALLOWED, bucket_moment(bucket, limit)};
}

/* The level at `now`, exactly. */
static inline struct weir_amount bucket_level(struct weir_bucket bucket,
                                              const struct weir_limit *limit, uint64_t now_ns)
{
    struct span moment = bucket_moment(bucket, limit);
    struct span level = span_since(moment, now_ns);
    return amount_of((uint128)level.ns * limit->denominator + level.rest,
                     (uint128)limit->scale * WEIR_UNIT);
}

#endif
