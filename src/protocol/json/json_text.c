/* SPDX-License-Identifier: MIT
 *
 * Escaping strings for JSON: RFC 8259, section 7. */
#include "protocol/json/json_text.h"

#include <stddef.h>
#include <string.h>

#include "core/utf8.h"

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
