/* SPDX-License-Identifier: MIT
 *
 * Reading queries. Strict: a '%' must be the beginning of %XX (RFC 3986, section 2.1). */
#include "protocol/http1/http1_query.h"

#include <string.h>

/* The bytes of `text` before the first `c`, which is dropped; *rest is what follows. */
static struct bytes split_at(struct bytes text, char c, struct bytes *rest)
{
    const char *at = text.length > 0 ? memchr(text.at, c, text.length) : NULL;
    if (at == NULL) {
        *rest = (struct bytes){text.at + text.length, 0};
        return text;
    }
    size_t length = (size_t)(at - text.at);
    *rest = (struct bytes){at + 1, text.length - length - 1};
    return (struct bytes){text.at, length};
}

void query_split(struct bytes target, struct bytes *path, struct bytes *query)
{
    *path = split_at(target, '?', query);
}

bool query_next(struct bytes *rest, struct bytes *name, struct bytes *value)
{
    while (rest->length > 0) {
        struct bytes pair = split_at(*rest, '&', rest);
        if (pair.length > 0) {
            *name = split_at(pair, '=', value);
            return true;
        }
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The first '%' or '+' of the text, or its length. */
static size_t plain_length(struct bytes text)
{
    size_t length = 0;
    while (length < text.length && text.at[length] != '%' && text.at[length] != '+') {
        length++;
    }
    return length;
}

bool query_decode(struct bytes *value, char *room, size_t *used)
{
    size_t at = plain_length(*value);
    *used = 0;
    if (at == value->length) {
        return true;
    }
    memcpy(room, value->at, at);
    size_t length = at;
    while (at < value->length) {
        char c = value->at[at];
        if (c == '%') {
            int high = value->length - at > 2 ? hex_digit(value->at[at + 1]) : -1;
            int low = value->length - at > 2 ? hex_digit(value->at[at + 2]) : -1;
            if (high < 0 || low < 0) {
                value->at += at;
                return false;
            }
            c = (char)(high << 4 | low);
            at += 2;
        } else if (c == '+') {
            c = ' ';
        }
        room[length++] = c;
        at++;
    }
    *value = (struct bytes){room, length};
    *used = length;
    return true;
}
