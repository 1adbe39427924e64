/* SPDX-License-Identifier: MIT
 *
 * What a line remembers of the keys that live elsewhere although their home is here: one 64-bit word,
 *
 *     bits  0 ..  7   reach: how many lines beyond home the farthest of them was ever put
 *     bits 16 .. 31, 32 .. 47, 48 .. 63   three hints: 8 bits of a key's hash, and below them the
 *                     distance at which it was put, 1 .. 255; a distance of 0 is no hint
 *
 * The reach is a promise (nothing lives beyond it); a hint saves the search, and may be stale or
 * missing. At the design load one bucket in four is displaced, so hints decide whether it costs one
 * more fetch of memory, that can run beside others, or a walk. */
#ifndef WEIR_STORE_TABLE_DISPLACED_H
#define WEIR_STORE_TABLE_DISPLACED_H

#include <stdint.h>

enum { HINT_COUNT = 3, HINT_BITS = 16, DISTANCE_MAX = 255 };

static inline uint64_t displaced_reach(uint64_t displaced)
{
    return displaced & DISTANCE_MAX;
}

static inline unsigned hint_shift(unsigned i)
{
    return HINT_BITS * (i + 1);
}

static inline uint64_t hint_distance(uint64_t displaced, unsigned i)
{
    return displaced >> hint_shift(i) & DISTANCE_MAX;
}

/* The 8 bits of a hash that a hint carries: none that chooses the line within a stripe. */
static inline uint64_t hint_mark(uint64_t hash)
{
    return hash >> 32 & 0xff;
}

/* The distance that a hint gives for this hash; 0 if there is none. All hints are compared at once: a
 * hint whose mark is the hash's has a zero byte there, and so the highest of them is found by what a
 * subtraction borrows (H. S. Warren, Hacker's Delight, 6-1). */
static inline uint64_t displaced_distance(uint64_t displaced, uint64_t hash)
{
    const uint64_t each = UINT64_C(0x0001000100010000); // the least bit of each hint
    uint64_t marks = (displaced >> 8 & each * 0xff) ^ hint_mark(hash) * each;
    uint64_t equal = (marks - each) & ~marks & each * 0x8000; // 0xffff, negative, where it was zero
    return equal != 0 ? displaced >> (__builtin_ctzll(equal) - 15) & DISTANCE_MAX : 0;
}

static inline uint64_t displaced_with_reach(uint64_t displaced, uint64_t reach)
{
    return displaced_reach(displaced) < reach ? (displaced & ~UINT64_C(0xff)) | reach : displaced;
}

static inline uint64_t displaced_with_hint(uint64_t displaced, unsigned i, uint64_t hash,
                                           uint64_t distance)
{
    uint64_t hint = hint_mark(hash) << 8 | distance;
    return (displaced & ~(UINT64_C(0xffff) << hint_shift(i))) | hint << hint_shift(i);
}

#endif
