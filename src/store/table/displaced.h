/* SPDX-License-Identifier: MIT
 *
 * What a line remembers of the keys that live elsewhere although their home is here: one 64-bit word,
 *
 *     bits  0 .. 15, 16 .. 31, 32 .. 47   three hints: 8 bits of a key's hash, and above them the
 *                     distance at which it was put, 1 .. 255; a distance of 0 is no hint
 *     bits 48 .. 55   reach: how many lines beyond home the farthest of them was ever put
 *     bits 56 .. 63   zero
 *
 * The reach is a promise (nothing lives beyond it); a hint saves the search, and may be stale or
 * missing. At the design load one bucket in four is displaced, so hints decide whether it costs one
 * more fetch of memory, that can run beside others, or a walk. */
#ifndef WEIR_STORE_TABLE_DISPLACED_H
#define WEIR_STORE_TABLE_DISPLACED_H

#include <stdint.h>

enum { HINT_COUNT = 3, HINT_BITS = 16, REACH_SHIFT = 48, DISTANCE_MAX = 255 };

static inline uint64_t displaced_reach(uint64_t displaced)
{
    return displaced >> REACH_SHIFT & DISTANCE_MAX;
}

static inline unsigned hint_shift(unsigned i)
{
    return HINT_BITS * i;
}

static inline uint64_t hint_distance(uint64_t displaced, unsigned i)
{
    return displaced >> (hint_shift(i) + 8) & DISTANCE_MAX;
}

/* The 8 bits of a hash that a hint carries: none that chooses the line within a stripe. */
static inline uint64_t hint_mark(uint64_t hash)
{
    return hash >> 32 & 0xff;
}

/* The distance that a hint gives for this hash; 0 if there is none. Whether there is one is chance, so
 * it is computed without a branch: all hints are compared at once, an equal mark leaves a bit at the
 * foot of its distance, and behind the hints comes one that is always there, at the foot of a zero. */
static inline uint64_t displaced_distance(uint64_t displaced, uint64_t hash)
{
    const uint64_t each = UINT64_C(0x0000000100010001); // the least bit of each hint
    const uint64_t none = UINT64_C(1) << 56;
    uint64_t marks = (displaced & each * 0xff) ^ hint_mark(hash) * each; // zero where it is equal
    uint64_t differ = (marks + each * 0xff) & each * 0x100;              // carries unless zero
    uint64_t equal = differ ^ (each * 0x100 | none);
    return displaced >> __builtin_ctzll(equal) & DISTANCE_MAX;
}

static inline uint64_t displaced_with_reach(uint64_t displaced, uint64_t reach)
{
    const uint64_t mask = (uint64_t)DISTANCE_MAX << REACH_SHIFT;
    return displaced_reach(displaced) < reach ? (displaced & ~mask) | reach << REACH_SHIFT
                                              : displaced;
}

static inline uint64_t displaced_with_hint(uint64_t displaced, unsigned i, uint64_t hash,
                                           uint64_t distance)
{
    uint64_t hint = distance << 8 | hint_mark(hash);
    return (displaced & ~(UINT64_C(0xffff) << hint_shift(i))) | hint << hint_shift(i);
}

#endif
