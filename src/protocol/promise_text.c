/* SPDX-License-Identifier: MIT */
#include "protocol/promise_text.h"

#include "protocol/http1/http1_text.h"

/* What the limit holds, unless that is its count. */
static char *put_capacity(char *at, const struct weir_limit *limit, struct bytes count)
{
    char capacity[TEXT_U64_MAX + sizeof ".000001"];
    size_t length = (size_t)(put_decimal(capacity, limit->capacity_micro, WEIR_UNIT) - capacity);
    if (length == count.length && memcmp(capacity, count.at, length) == 0) {
        return at;
    }
    at = put_literal(at, ", at most ");
    at = put_bytes(at, capacity, length);
    return put_text(at, limit->kind == WEIR_KIND_QUEUE ? " in line" : " at once");
}

char *promise_put_text(char *at, struct bytes words, const struct weir_limit *limit)
{
    const char *text = words.at;
    const char *end = words.at + words.length;
    while (text < end && (*text < '0' || *text > '9')) { // the kind
        text++;
    }
    struct bytes count = {text, 0};
    while (text < end && *text != '/') {
        *at++ = *text++;
        count.length++;
    }
    at = put_literal(at, " per ");
    text++;
    if (text < end && (*text < '0' || *text > '9')) {
        at = put_literal(at, "1");
    }
    while (text < end && *text >= '0' && *text <= '9') {
        *at++ = *text++;
    }
    *at++ = ' ';
    while (text < end && *text != ' ') {
        *at++ = *text++;
    }
    return put_capacity(at, limit, count);
}
