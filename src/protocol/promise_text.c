/* SPDX-License-Identifier: MIT */
#include "protocol/promise_text.h"

#include <stdbool.h>

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

/* "3month behind" as "3 months". Units that are words have a plural. */
static char *put_period(char *at, const char *text, const char *end)
{
    const char *digits = text;
    while (text < end && *text >= '0' && *text <= '9') {
        text++;
    }
    struct bytes number = {digits, (size_t)(text - digits)};
    if (number.length == 0) {
        number = (struct bytes){"1", 1};
    }
    at = put_bytes(at, number.at, number.length);
    *at++ = ' ';
    struct bytes unit = {text, 0};
    while (text < end && *text != ' ') {
        text++;
        unit.length++;
    }
    at = put_bytes(at, unit.at, unit.length);
    bool is_one = number.length == 1 && *number.at == '1';
    bool is_word = unit.length >= sizeof "year" - 1; // no abbreviation
    return !is_one && is_word ? put_literal(at, "s") : at;
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
    at = put_period(at, text + 1, end);
    return put_capacity(at, limit, count);
}
