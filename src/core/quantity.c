/* SPDX-License-Identifier: MIT */
#include "core/quantity.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "core/arith.h"
#include "core/fail.h"
#include "core/time_units.h"
#include "weir/limit.h"

const struct time_unit TIME_UNITS[TIME_UNIT_COUNT] = {
    {"w", 604800 * NS_PER_S}, {"d", 86400 * NS_PER_S},
    {"h", 3600 * NS_PER_S},   {"min", 60 * NS_PER_S},
    {"s", NS_PER_S},          {"ms", NS_PER_MS},
    {"us", NS_PER_US},        {"ns", 1},
};

/* Reads digits from *text, which then points behind them. False without one, or beyond 64 bits. */
static bool read_digits(const char **text, uint64_t *value)
{
    const char *at = *text;
    uint64_t sum = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    bool any = at != *text;
    *text = at;
    *value = sum;
    return any;
}

bool quantity_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    uint64_t count;
    if (!read_digits(&text, &count) || *text != '\0' || count < min || count > max) {
        return false;
    }
    *value = count;
    return true;
}

bool quantity_parse_bytes(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {{"", 1},
                 {"K", 1ULL << 10},
                 {"KiB", 1ULL << 10},
                 {"M", 1ULL << 20},
                 {"MiB", 1ULL << 20},
                 {"G", 1ULL << 30},
                 {"GiB", 1ULL << 30},
                 {"T", 1ULL << 40},
                 {"TiB", 1ULL << 40}};
    uint64_t count;
    if (!read_digits(&text, &count)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(text, units[i].name) == 0) {
            if (count > UINT64_MAX / units[i].factor) {
                return false;
            }
            *bytes = count * units[i].factor;
            return true;
        }
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const struct time_unit *find_time_unit(const char *name)
{
    for (size_t i = 0; i < TIME_UNIT_COUNT; i++) {
        if (strcmp(TIME_UNITS[i].name, name) == 0) {
            return &TIME_UNITS[i];
        }
    }
    return NULL;
}

enum weir_status quantity_parse_duration(uint64_t *ns, const char *text, struct weir_error *error)
{
    size_t at = 0;
    uint64_t digits = 0; // all of them, before and after the point
    uint64_t scale = 1;  // 10 to the number of places after the point
    bool after_point = false;
    if (!is_digit(text[0])) {
        return fail(error, WEIR_E_SYNTAX, 0, "expected a duration, such as 500ms or 2s");
    }
    for (; is_digit(text[at]) || (text[at] == '.' && !after_point && is_digit(text[at + 1]));
         at++) {
        if (text[at] == '.') {
            after_point = true;
            continue;
        }
        digits = digits * 10 + (uint64_t)(text[at] - '0');
        scale *= after_point ? 10 : 1;
        if (digits > WEIR_SPAN_NS_MAX || scale > NS_PER_S * NS_PER_S / 10) {
            return fail(error, WEIR_E_RANGE, 0,
                        "the duration is above 100 years or has too many digits");
        }
    }
    if (digits == 0 && text[at] == '\0') {
        *ns = 0; // nothing of whatever unit
        return WEIR_OK;
    }
    const struct time_unit *unit = find_time_unit(text + at);
    if (unit == NULL) {
        return fail(error, WEIR_E_SYNTAX, at, "expected a unit: ns us ms s min h d w");
    }
    uint128 scaled = (uint128)digits * unit->ns;
    if (scaled % scale != 0) {
        return fail(error, WEIR_E_INEXACT, 0, "not a whole number of nanoseconds");
    }
    if (scaled / scale > WEIR_SPAN_NS_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "the duration is above 100 years");
    }
    *ns = (uint64_t)(scaled / scale);
    return WEIR_OK;
}

bool quantity_parse_mode(const char *text, unsigned *mode)
{
    unsigned bits = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '7' && bits <= 0777; at++) {
        bits = bits * 8 + (unsigned)(*at - '0');
    }
    if (at == text || *at != '\0' || bits > 0777) {
        return false;
    }
    *mode = bits;
    return true;
}
