/* SPDX-License-Identifier: MIT
 *
 * Escaping strings for JSON: RFC 8259, section 7. */
#include "protocol/json/json_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* How many bytes the UTF-8 character at the front of `text` has; 0 if there is none: RFC 3629,
 * section 4. */
static size_t utf8_length(struct bytes text)
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

static char *put_escape(char *at, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    *at++ = '\\';
    if (c == '"' || c == '\\') {
        *at++ = (char)c;
        return at;
    }
    memcpy(at, "u00", 3);
    at[3] = digits[c >> 4];
    at[4] = digits[c & 15];
    return at + 5;
}

char *json_put_escaped(char *at, struct bytes text)
{
    while (text.length > 0) {
        unsigned char c = (unsigned char)*text.at;
        size_t length = utf8_length(text);
        if (length == 0) {
            memcpy(at, "\xef\xbf\xbd", 3); // U+FFFD
            at += 3;
            length = 1;
        } else if (c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
            at = put_escape(at, c);
        } else {
            memcpy(at, text.at, length);
            at += length;
        }
        text.at += length;
        text.length -= length;
    }
    return at;
}
