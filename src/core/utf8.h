/* SPDX-License-Identifier: MIT
 *
 * UTF-8 (RFC 3629), where it has to be told from other bytes. */
#ifndef WEIR_CORE_UTF8_H
#define WEIR_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"

/* How many bytes the character has that `text`, which is not empty, begins with; 0 if there is none: section 4. */
static inline size_t utf8_length(struct bytes text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    unsigned lead = at[0];
    size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length == 0 || lead > 0xf4 || length > text.length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if (at[i] >> 6 != 2) {
            return 0;
        }
    }
    bool too_long = (lead == 0xe0 && at[1] < 0xa0) || (lead == 0xf0 && at[1] < 0x90);
    bool surrogate = lead == 0xed && at[1] > 0x9f;
    bool too_large = lead == 0xf4 && at[1] > 0x8f;
    return too_long || surrogate || too_large ? 0 : length;
}

/* The code point of a character of `length` bytes. */
static inline uint32_t utf8_code(const char *at, size_t length)
{
    uint32_t code = (unsigned char)at[0];
    code &= length == 1 ? 0x7f : UINT32_C(0xff) >> (length + 1);
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | ((unsigned char)at[i] & 0x3f);
    }
    return code;
}

#endif
