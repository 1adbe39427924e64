/* SPDX-License-Identifier: MIT
 *
 * A limit: how fast a bucket drains and how much it holds. Written as text, compiled once, shared
 * by as many buckets as you like.
 *
 *     struct weir_limit limit;
 *     struct weir_error error;
 *     if (weir_limit_from_text(&limit, "100/s capacity=20", &error) != WEIR_OK) {
 *         fprintf(stderr, "%s\n", error.message);
 *     }
 *
 * The text, words separated by single or multiple spaces:
 *
 *     [bucket] COUNT/[N]UNIT [capacity=C] [POLICY...]
 *     queue    COUNT/[N]UNIT [capacity=C] [first=interval|now] [POLICY...]
 *     stepped  COUNT/[N]UNIT [capacity=C] [POLICY...]
 *     fixed    COUNT/[N]UNIT [POLICY...]
 *     sliding  COUNT/[N]UNIT [POLICY...]
 *     window   COUNT/[N]UNIT [POLICY...]
 *
 *     COUNT   0.000001 .. 10^12, at most six places after the point
 *     N       1 or more, whole; UNIT one of ns us ms s min h d w, and for fixed also month year;
 *             N UNIT at most 100 years, of fixed and sliding 50
 *     C       the same range as COUNT; max(COUNT, 1) unless said; `burst=` is an alias. Fixed,
 *             sliding and window hold COUNT, and take no other capacity
 *     first   whether the first in an empty queue goes after one interval, or now: then C wait
 *             beside it
 *     POLICY  what is no part of a bucket's identity:
 *             waiting=W             how many may wait in line for one bucket: 0 .. WEIR_WAITING_MAX;
 *                                   WEIR_WAITING unless said, and for a queue as many as it has places
 *             block=NUNIT|empty     a take that is refused, and a fill that fills the bucket up, lock
 *                                   the key out for so long, at most 100 years, or until the bucket
 *                                   as it is then will be empty
 *             on_full=refuse|allow|evict
 *                                   what to do when the table is full of live buckets and this key
 *                                   has none, or the memory for events has no room for a window
 *             on_error=refuse|allow what to answer when the store cannot decide: it is out of reach
 *
 * A bucket is a meter: what fits passes now. A queue is a shaper: what fits gets a delay, the time
 * to its own egress, and one egress follows another by exactly what its cost takes to drain.
 * Stepped is a bucket that drains COUNT at the end of each whole period since the first charge of
 * an empty one, and nothing in between; its COUNT is at most WEIR_DENOMINATOR_MAX millionths.
 * Fixed lets COUNT pass in each window of the calendar, in UTC: periods since 1970-01-01, of whole
 * weeks since a Monday, of months since the January of the year 0. Above WEIR_DENOMINATOR_MAX
 * millionths it counts whole units. Sliding counts whole units in two windows since the first charge
 * of an empty one, and weighs the former by what is left of it: an approximation of "COUNT in any
 * period". Its COUNT is whole and at most WEIR_SLIDING_COUNT_MAX.
 * Window lets at most COUNT pass in any period, wherever it begins: a log of what has passed, whole
 * units, in a store's memory for events. Its COUNT is whole and at most WEIR_WINDOW_COUNT_MAX.
 * Where whole units are counted, a cost that is none is answered `never`, and charges nothing.
 *
 * A bucket must empty within 100 years, and the rate in lowest terms (millionths of a unit per
 * nanosecond) must have a numerator below 2^40. Whatever is outside is refused, never rounded. */
#ifndef WEIR_LIMIT_H
#define WEIR_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_UNIT            UINT64_C(1000000)             /* one unit of cost, in millionths */
#define WEIR_UNITS_MAX       UINT64_C(1000000000000)       /* COUNT, capacity and cost, units */
#define WEIR_MICRO_MAX       (WEIR_UNITS_MAX * WEIR_UNIT)  /* the same, in millionths */
#define WEIR_COST_MAX        WEIR_MICRO_MAX                /* millionths */
#define WEIR_SPAN_NS_MAX     UINT64_C(3155760000000000000) /* 100 years of 365.25 days */
#define WEIR_DENOMINATOR_MAX ((UINT64_C(1) << 40) - 1)     /* the rate's reduced numerator */
#define WEIR_NOW_NS_MAX      (UINT64_C(1) << 62)           /* any reading of a store's clock */
#define WEIR_MONTH_NS        UINT64_C(2629746000000000)    /* a month of mean length */
#define WEIR_WINDOW_NS_MAX   (WEIR_SPAN_NS_MAX / 2)        /* period of fixed and sliding limits */
#define WEIR_LIMIT_TEXT_MAX  256                           /* bytes of a limit's text */

#define WEIR_SLIDING_COUNT_MAX UINT64_C(1048575) /* COUNT of a sliding limit, units */
#define WEIR_WINDOW_COUNT_MAX  UINT64_C(1000000) /* and of a window */

#define WEIR_WAITING     UINT32_C(1000)    /* who may wait for one bucket, unless said */
#define WEIR_WAITING_MAX UINT32_C(1000000) /* and at most */
#define WEIR_JITTER_NS   UINT64_C(5000000) /* how late an egress may be and nothing move */

#define WEIR_BLOCK_NS_MAX      WEIR_SPAN_NS_MAX /* the longest block */
#define WEIR_BLOCK_UNTIL_EMPTY UINT64_MAX       /* block=empty */

enum weir_kind {
    WEIR_KIND_BUCKET = 0,  /* the leaky bucket as a meter: drains continuously; GCRA */
    WEIR_KIND_QUEUE = 1,   /* the leaky bucket as a shaper: what fits goes at its own instant */
    WEIR_KIND_STEPPED = 2, /* drains COUNT at the end of each whole period */
    WEIR_KIND_FIXED = 3,   /* COUNT in each window of the calendar, UTC */
    WEIR_KIND_SLIDING = 4, /* two windows, the former one weighted */
    WEIR_KIND_WINDOW = 5   /* COUNT in any period: a log */
};

/* When the first in an empty queue goes. */
enum weir_first {
    WEIR_FIRST_INTERVAL = 0, /* after its own interval: C fit at one instant */
    WEIR_FIRST_NOW = 1       /* at once, and C wait: C + 1 fit */
};

enum weir_on_full {
    WEIR_ON_FULL_REFUSE = 0, /* verdict error: what cannot be counted does not pass */
    WEIR_ON_FULL_ALLOW = 1,  /* verdict allowed, uncharged */
    /* The new key gets the slot of another key, under whatever limit: of those slots that it could have, the
     * one whose bucket is nearest to empty. That key begins anew: at worst it may spend one capacity more.
     * A key is left alone that is locked out, for which somebody waits, or that has a window's events.
     * If no other is left, or where memory for events is short, as WEIR_ON_FULL_REFUSE. */
    WEIR_ON_FULL_EVICT = 2
};

/* The answer to takes, can_takes and fills where the store cannot decide: weir_limiter_status() says why. Every
 * other operation fails there, whatever the limit says. */
enum weir_on_error {
    WEIR_ON_ERROR_REFUSE = 0, /* verdict error: what cannot be counted does not pass */
    /* Verdict allowed, uncharged, with the figures of a bucket that was empty before the take. A cost above the
     * capacity is never. */
    WEIR_ON_ERROR_ALLOW = 1
};

/* What a person configured. All integers, no defaults left open. */
struct weir_limit_config {
    enum weir_kind kind;
    uint64_t count_micro;    /* millionths of a unit that drain .. */
    uint64_t period_ns;      /* .. in so many nanoseconds: 1 .. WEIR_SPAN_NS_MAX */
    uint64_t capacity_micro; /* what the bucket holds, millionths of a unit */
    enum weir_on_full on_full;
    enum weir_on_error on_error;
    enum weir_first first;  /* of a queue */
    uint32_t waiting;       /* who may wait in line for one bucket */
    uint32_t period_months; /* of a fixed limit: not 0 where it goes by months; period_ns is then
                               so many times WEIR_MONTH_NS */
    uint64_t block_ns;      /* how long a refusal blocks: 0 not at all; or WEIR_BLOCK_UNTIL_EMPTY */
};

/* What was compiled from it. Plain and read-only after weir_limit_init(): copy it, share it
 * between threads, forget it. The fields are for the core; they may change between versions.
 *
 * With g = gcd(count_micro, period_ns), a cost of m millionths moves the moment at which a bucket
 * is empty by m * scale / denominator nanoseconds: a whole part and a remainder in
 * denominator-ths. Of a stepped limit g is 1, and full_rest is in millionths. Of fixed and sliding
 * ones and of windows scale is the period, and the denominator is above all that they count. */
struct weir_limit {
    uint64_t denominator;        /* count_micro / g */
    uint64_t scale;              /* period_ns / g */
    uint64_t full_ns, full_rest; /* from full to empty; first=now has room for one more */
    uint64_t unit_ns, unit_rest; /* what one unit of cost adds */
    uint64_t unit_divisor;       /* scale * 10^6, or 0 where that needs more than 64 bits */
    uint64_t unit_reciprocal;    /* floor(2^64 / unit_divisor) */
    uint64_t whole_unit_ns;      /* of a bucket: unit_ns, if that and full are whole ns; else 0 */
    uint64_t whole_unit_reciprocal; /* floor((2^64 - 1) / unit_ns) if so, of a queue too; else 0 */
    uint64_t capacity_micro;
    uint64_t capacity; /* whole units, rounded down */
    uint64_t block_ns;
    uint8_t kind;
    uint8_t on_full;
    uint8_t first;
    uint8_t calendar; /* from when a fixed limit counts its windows */
    uint32_t waiting;
    uint32_t grain_micro; /* what it counts in: costs are multiples of it */
    uint8_t on_error;
    uint8_t unused[3]; /* 0 */
};

/* Reads a limit's text. `length` bytes, no NUL needed, at most WEIR_LIMIT_TEXT_MAX.
 *   WEIR_OK        *config is filled, and weir_limit_init() will accept it
 *   WEIR_E_SYNTAX  not a limit; *error says where and why
 *   WEIR_E_RANGE   a number is outside its range; likewise
 *   WEIR_E_INEXACT needs a denominator above WEIR_DENOMINATOR_MAX; likewise
 * On failure *config is unspecified. `error` may be NULL. Thread-safe; never allocates. */
WEIR_MUST_USE enum weir_status weir_limit_parse(struct weir_limit_config *config, const char *text,
                                                size_t length, struct weir_error *error);

/* Writes the one canonical text of a limit: two limits whose buckets are the same print the same.
 * `size` bytes at `text`, NUL included; WEIR_LIMIT_TEXT_MAX always suffices.
 *   WEIR_OK  or  WEIR_E_NO_SPACE (text is then cut, and still NUL-terminated if size > 0)
 * The config must be one that weir_limit_init() accepts. Thread-safe; never allocates. */
WEIR_MUST_USE enum weir_status weir_limit_print(const struct weir_limit_config *config, char *text,
                                                size_t size);

/* Compiles a config.
 *   WEIR_OK, WEIR_E_RANGE or WEIR_E_INEXACT as above (error->offset is then 0)
 * On failure *limit is all zeroes, and every decision under it is WEIR_FAILED. `error` may be NULL. Thread-safe;
 * never allocates. */
WEIR_MUST_USE enum weir_status weir_limit_init(struct weir_limit *limit,
                                               const struct weir_limit_config *config,
                                               struct weir_error *error);

/* weir_limit_parse() and weir_limit_init() in one, from a NUL-terminated text. On failure *limit is all
 * zeroes. */
WEIR_MUST_USE enum weir_status weir_limit_from_text(struct weir_limit *limit, const char *text,
                                                    struct weir_error *error);

/* Reads a cost: decimal digits with at most six places after the point, 0 .. WEIR_UNITS_MAX.
 * No sign, no space, no exponent. Same statuses and rules as weir_limit_parse(). */
WEIR_MUST_USE enum weir_status weir_cost_parse(uint64_t *cost_micro, const char *text,
                                               size_t length, struct weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
