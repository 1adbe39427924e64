/* SPDX-License-Identifier: MIT
 *
 * Reading queries. Strict: a '%' must be the beginning of %XX (RFC 3986, section 2.1). */
#include "protocol/http1/http1_query.h"

#include <string.h>

#include "protocol/http1/http1_scan.h"

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

/* The first '%' or '+' in [at, end), or `end`. */
static const char *find_escape(const char *at, const char *end)
{
    for (; end - at >= SCAN_BYTES; at += SCAN_BYTES) {
        uint64_t word = scan_load(at);
        uint64_t marks = scan_equal(word, '%') | scan_equal(word, '+');
        if (marks != 0) {
            return at + scan_first(marks);
        }
    }
    while (at < end && *at != '%' && *at != '+') {
        at++;
    }
    return at;
}

/* What the escape at `at` stands for, or -1. */
static int read_escape(const char *at, const char *end)
{
    if (*at == '+') {
        return ' ';
    }
    int high = end - at > 2 ? hex_digit(at[1]) : -1;
    int low = end - at > 2 ? hex_digit(at[2]) : -1;
    return high >= 0 && low >= 0 ? high << 4 | low : -1;
}

bool query_decode(struct bytes *value, char *room, size_t *used)
{
    const char *at = value->at;
    const char *end = at + value->length;
    const char *escape = find_escape(at, end);
    char *to = room;
    *used = 0;
    if (escape == end) {
        return true;
    }
    for (; escape < end; escape = find_escape(at, end)) {
        int c = read_escape(escape, end);
        if (c < 0) {
            value->at = escape;
            return false;
        }
        memcpy(to, at, (size_t)(escape - at));
        to += escape - at;
        *to++ = (char)c;
        at = escape + (*escape == '%' ? 3 : 1);
    }
    memcpy(to, at, (size_t)(end - at));
    to += end - at;
    *value = (struct bytes){room, (size_t)(to - room)};
    *used = value->length;
    return true;
}
