/* SPDX-License-Identifier: MIT
 *
 * Writing text where there is room for it: the caller has made sure that there is. No printf on the
 * way of a decision. */
#ifndef WEIR_PROTOCOL_HTTP1_TEXT_H
#define WEIR_PROTOCOL_HTTP1_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/bytes.h"
#include "core/time_units.h"

enum { TEXT_U64_MAX = 20 }; // digits of the largest number

static inline char *put_bytes(char *at, const void *bytes, size_t count)
{
    memcpy(at, bytes, count);
    return at + count;
}

/* A string literal, whose length the compiler knows. */
#define put_literal(at, literal) put_bytes((at), "" literal, sizeof(literal) - 1)

/* What every answer has: no cache keeps it, and no browser takes it for a script or a page. */
#define HTTP1_FIELDS_OF_ALL "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"

static inline char *put_text(char *at, const char *text)
{
    return put_bytes(at, text, strlen(text));
}

static inline char *put_u64(char *at, uint64_t value)
{
    char digits[TEXT_U64_MAX];
    size_t count = 0;
    do {
        digits[sizeof digits - ++count] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return put_bytes(at, digits + sizeof digits - count, count);
}

/* value / scale, exactly: "0.78". `scale` is a power of ten. */
static inline char *put_decimal(char *at, uint64_t value, uint64_t scale)
{
    at = put_u64(at, value / scale);
    uint64_t rest = value % scale;
    if (rest > 0) {
        *at++ = '.';
        for (uint64_t place = scale / 10; rest > 0; place /= 10) {
            *at++ = (char)('0' + rest / place);
            rest %= place;
        }
    }
    return at;
}

static inline char *put_i64(char *at, int64_t value)
{
    if (value < 0) {
        *at++ = '-';
    }
    return put_u64(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static inline uint64_t div_ceil(uint64_t value, uint64_t divisor)
{
    return value / divisor + (value % divisor != 0);
}

/* What a client may be told to wait: whole seconds, rounded up, and never "now". */
static inline uint64_t wait_seconds(int64_t wait_ns)
{
    uint64_t seconds = div_ceil((uint64_t)wait_ns, NS_PER_S);
    return seconds > 0 ? seconds : 1;
}

#endif
