/* SPDX-License-Identifier: MIT
 *
 * The integers that decisions are made of: 128-bit products, and moments of time that carry a
 * fraction of a nanosecond. Everything here is exact; what rounds says so in its name. */
#ifndef WEIR_CORE_ARITH_H
#define WEIR_CORE_ARITH_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/decision.h"

/* GNU extension: C17 has no 128-bit integer, and a product of two 64-bit ones needs it. */
__extension__ typedef unsigned __int128 uint128;

static inline struct weir_amount amount_of(uint128 numerator, uint128 denominator)
{
    return (struct weir_amount){
        .numerator_high = (uint64_t)(numerator >> 64),
        .numerator_low = (uint64_t)numerator,
        .denominator_high = (uint64_t)(denominator >> 64),
        .denominator_low = (uint64_t)denominator,
    };
}

static inline uint64_t gcd64(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline uint128 gcd128(uint128 a, uint128 b)
{
    while (b != 0) {
        uint128 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A length of time, or a moment: `ns` nanoseconds and `rest` D-ths of one, 0 <= rest < D. D is the
 * limit's denominator and travels beside it. */
struct span {
    uint64_t ns;
    uint64_t rest;
};

static inline struct span span_add(struct span a, struct span b, uint64_t denominator)
{
    uint64_t rest = a.rest + b.rest; // below 2^41
    uint64_t carry = rest >= denominator;
    return (struct span){a.ns + b.ns + carry, rest - (carry ? denominator : 0)};
}

/* a - b, where a >= b. */
static inline struct span span_sub(struct span a, struct span b, uint64_t denominator)
{
    uint64_t borrow = a.rest < b.rest;
    return (struct span){a.ns - b.ns - borrow, a.rest + (borrow ? denominator : 0) - b.rest};
}

/* Both words at once: no branch on the first. */
static inline bool span_less(struct span a, struct span b)
{
    return ((uint128)a.ns << 64 | a.rest) < ((uint128)b.ns << 64 | b.rest);
}

/* a - b, or zero where b is the larger. */
static inline struct span span_sub_or_zero(struct span a, struct span b, uint64_t denominator)
{
    return span_less(a, b) ? (struct span){0, 0} : span_sub(a, b, denominator);
}

/* The same for whole nanoseconds, which borrow nothing: from a reading of the clock to a moment. */
static inline struct span span_since(struct span moment, uint64_t now_ns)
{
    return moment.ns < now_ns ? (struct span){0, 0}
                              : (struct span){moment.ns - now_ns, moment.rest};
}

static inline uint64_t span_ceil_ns(struct span a)
{
    return a.ns + (a.rest != 0);
}

#endif
