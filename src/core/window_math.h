/* SPDX-License-Identifier: MIT
 *
 * A window lets at most N through in any P: it remembers what it let through, and each of these events
 * counts until exactly P has passed.
 *
 *     stamp    = max(now, last event)         events stand in the order of time, whatever clocks do
 *     an event of t has left at a reading >= t + P
 *     level    = sum of the costs of those that have not
 *     allowed  = level + cost <= N            and then (stamp, cost) is the last event
 *
 * So no window of P, wherever it begins, holds more than N: the events of [t, t + P) are all there when the
 * last of them is let in. A reading before the last event counts as the last event's instant: it can only
 * see a fuller window than it should, and what it adds stays at least P in it.
 *
 * How a store keeps events is its business; here is what they mean, and the code in which they are written
 * down one after another. In it an event is the time since the one before, and its cost where that is not 1:
 *
 *     first byte   bits 0 .. 2   how many bytes follow with more of the time, 0 .. 7
 *                  bit  3        the cost is not 1
 *                  bits 4 .. 7   the time's least bits
 *     if so, then  bits 0 .. 2   how many bytes follow with more of the cost
 *                  bits 3 .. 7   the least bits of the cost less two
 *
 *     bytes of an event of cost 1    1      2      3      4       5      6       7        8
 *     if the one before is nearer    16 ns  4 us   1 ms   268 ms  68 s   4.9 h   52 days  36 years
 *
 * Nothing of this allocates, and nothing knows a clock. */
#ifndef WEIR_CORE_WINDOW_MATH_H
#define WEIR_CORE_WINDOW_MATH_H

#include <string.h>

#include "core/bucket_math.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the code of events is read eight bytes at a time, the least first"
#endif

/* An event whose predecessor is this far away, or further, is written at the beginning of a new run. */
#define WINDOW_GAP_NS_MAX (UINT64_C(1) << 60)

enum {
    WINDOW_EVENT_BYTES_MAX = 11, // 8 of time, 3 of cost
    WINDOW_READ_BYTES = 16       // what is looked at to read one, from its first byte
};

struct window_event {
    uint64_t at_ns;
    uint64_t cost; // whole units
};

_Static_assert(WEIR_WINDOW_COUNT_MAX - 2 < 1 << 21, "a cost needs three bytes at most");

/* ---- the code ---- */

/* How many bytes `value` needs behind `tag_bits`. */
static inline unsigned window_code_bytes(uint64_t value, unsigned tag_bits)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1) + tag_bits;
    return (bits + 7) / 8;
}

static inline uint64_t window_code_mask(unsigned bytes)
{
    return UINT64_MAX >> (64 - 8 * bytes);
}

/* Writes an event of cost >= 1, `gap_ns` < WINDOW_GAP_NS_MAX after the one before; returns its length. */
static inline unsigned window_write(uint8_t code[WINDOW_EVENT_BYTES_MAX], uint64_t gap_ns,
                                    uint64_t cost)
{
    unsigned gap_bytes = window_code_bytes(gap_ns, 4);
    uint64_t gap_code = gap_ns << 4 | (uint64_t)(cost != 1) << 3 | (gap_bytes - 1);
    memcpy(code, &gap_code, gap_bytes);
    if (cost == 1) {
        return gap_bytes;
    }
    unsigned cost_bytes = window_code_bytes(cost - 2, 3);
    uint64_t cost_code = (cost - 2) << 3 | (cost_bytes - 1);
    memcpy(code + gap_bytes, &cost_code, cost_bytes);
    return gap_bytes + cost_bytes;
}

/* Reads one that window_write() wrote. Any WINDOW_READ_BYTES are an event of some kind: who reads
 * what may be damaged gets a wrong one. */
static inline unsigned window_read(const uint8_t code[WINDOW_READ_BYTES], uint64_t *gap_ns,
                                   uint64_t *cost)
{
    uint64_t word;
    memcpy(&word, code, sizeof word);
    unsigned gap_bytes = (unsigned)(word & 7) + 1;
    *gap_ns = (word & window_code_mask(gap_bytes)) >> 4;
    *cost = 1;
    if ((word & 8) == 0) {
        return gap_bytes;
    }
    memcpy(&word, code + gap_bytes, sizeof word);
    unsigned cost_bytes = (unsigned)(word & 7) + 1;
    *cost = ((word & window_code_mask(cost_bytes)) >> 3) + 2;
    return gap_bytes + cost_bytes;
}

/* ---- what events mean ---- */

/* The earliest reading at which an event counts no longer. `empty_at_ns` is the moment that its store has
 * for the whole log: where the numbers of a limit have changed since, nothing stays longer than that, for
 * then the log may be forgotten. */
static inline uint64_t window_leaves_at(const struct weir_limit *limit, uint64_t event_ns,
                                        uint64_t empty_at_ns)
{
    uint64_t leaves_at_ns = event_ns + limit->full_ns;
    return leaves_at_ns < empty_at_ns ? leaves_at_ns : empty_at_ns;
}

/* How many whole units fit beside a level. */
static inline uint64_t window_room(const struct weir_limit *limit, uint64_t level)
{
    return level < limit->capacity ? limit->capacity - level : 0;
}

/* Where a window stands: its moment is the one at which it is empty, with the level in whole units for a
 * remainder. */
static inline struct outcome window_outcome(enum weir_verdict verdict, uint64_t empty_at_ns,
                                            uint64_t level)
{
    return (struct outcome){.verdict = verdict, .moment = {empty_at_ns, level}};
}

/* The verdict on a take. When a refused one fits only the log knows. */
static inline enum weir_verdict window_verdict(const struct weir_limit *limit,
                                               const struct charge *charge, uint64_t level)
{
    if (charge->never || charge->cost_micro == 0) {
        return charge->never ? WEIR_NEVER : WEIR_ALLOWED;
    }
    return charge->cost_micro / WEIR_UNIT <= window_room(limit, level) ? WEIR_ALLOWED
                                                                       : WEIR_LIMITED;
}

#endif
