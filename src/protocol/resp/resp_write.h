/* SPDX-License-Identifier: MIT
 *
 * Writes replies. Those of decisions go straight into memory that was reserved for a whole batch;
 * the others go through a buffer, with the differences between RESP2 and RESP3 in one place. */
#ifndef WEIR_PROTOCOL_RESP_RESP_WRITE_H
#define WEIR_PROTOCOL_RESP_RESP_WRITE_H

#include <stdint.h>
#include <string.h>

#include "core/bytes.h"
#include "protocol/buffer.h"

enum { RESP_INTEGER_BYTES_MAX = 23 }; // ":-9223372036854775808\r\n"

/* Two digits at a time: "00" .. "99". */
extern const char RESP_DIGIT_PAIRS[201];

/* How many decimal digits a value has: from its bits, by 10^n ~ 2^(n * 4096/1233), put right by one
 * comparison. */
static inline unsigned resp_digit_count(uint64_t value)
{
    static const uint64_t POWERS[20] = {
        0, // so that zero has one digit
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned estimate = bits * 1233 >> 12;
    return estimate + (value >= POWERS[estimate]);
}

/* Writes the digits of `value`; returns where they end. */
static inline char *resp_put_digits(char *to, uint64_t value)
{
    char *end = to + resp_digit_count(value);
    char *at = end;
    while (value >= 100) {
        at -= 2;
        memcpy(at, RESP_DIGIT_PAIRS + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        memcpy(to, RESP_DIGIT_PAIRS + 2 * value, 2);
    } else {
        *to = (char)('0' + value);
    }
    return end;
}

/* ":12\r\n" */
static inline char *resp_put_integer(char *to, int64_t value)
{
    *to++ = ':';
    if (value < 0) {
        *to++ = '-';
    }
    to = resp_put_digits(to, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    memcpy(to, "\r\n", 2);
    return to + 2;
}

static inline char *resp_put_text(char *to, const char *text, size_t length)
{
    memcpy(to, text, length);
    return to + length;
}

/* Through a buffer. `version` is 2 or 3. */
void resp_write_integer(struct buffer *output, int64_t value);
void resp_write_bulk(struct buffer *output, struct bytes bytes);
void resp_write_bulk_text(struct buffer *output, const char *text);
void resp_write_simple(struct buffer *output, const char *text); // "+OK"
void resp_write_null(struct buffer *output, int version);
void resp_write_array(struct buffer *output, size_t count);
void resp_write_map(struct buffer *output, int version, size_t pair_count);
void resp_write_verbatim(struct buffer *output, int version, struct bytes text);

/* "-" and the text; bytes that would break the line become spaces. */
__attribute__((format(printf, 2, 3))) void resp_write_error(struct buffer *output,
                                                            const char *format, ...);

#endif
