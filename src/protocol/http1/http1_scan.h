/* SPDX-License-Identifier: MIT
 *
 * Looking for a byte in eight at a time. Each function marks, by the highest bit, the bytes of a word that it looks
 * for. A subtraction may borrow from the byte above, so the marks are right up to the lowest one: which is the first
 * byte in memory, and all that scan_first() is asked for. */
#ifndef WEIR_PROTOCOL_HTTP1_SCAN_H
#define WEIR_PROTOCOL_HTTP1_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SCAN_BYTES = 8 };
#define SCAN_ONES UINT64_C(0x0101010101010101)
#define SCAN_HIGH (SCAN_ONES * 0x80) // marks the bytes from 0x80 on, by `word & SCAN_HIGH`

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte is the lowest");

static inline uint64_t scan_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* The bytes below `limit`, which is 0x80 at most. */
static inline uint64_t scan_below(uint64_t word, unsigned char limit)
{
    return (word - SCAN_ONES * limit) & ~word & SCAN_HIGH;
}

static inline uint64_t scan_equal(uint64_t word, unsigned char byte)
{
    return scan_below(word ^ SCAN_ONES * byte, 1);
}

/* How many bytes lie before the first marked one. There has to be one. */
static inline size_t scan_first(uint64_t marks)
{
    return (size_t)__builtin_ctzll(marks) / 8;
}

#endif
