/* SPDX-License-Identifier: MIT */
#include "cli/duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/arith.h"
#include "core/fail.h"
#include "weir/limit.h"

struct unit {
    const char *name;
    uint64_t ns;
};

/* From the longest to the shortest. */
static const struct unit UNITS[] = {
    {"w", 604800 * NS_PER_S}, {"d", 86400 * NS_PER_S},
    {"h", 3600 * NS_PER_S},   {"min", 60 * NS_PER_S},
    {"s", NS_PER_S},          {"ms", NS_PER_MS},
    {"us", NS_PER_US},        {"ns", 1},
};
enum { UNIT_COUNT = sizeof UNITS / sizeof UNITS[0], UNIT_DAY = 1, UNIT_SECOND = 4 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const struct unit *find_unit(const char *name)
{
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (strcmp(UNITS[i].name, name) == 0) {
            return &UNITS[i];
        }
    }
    return NULL;
}

enum weir_status duration_parse(uint64_t *ns, const char *text, struct weir_error *error)
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
                        "the duration is above 100 years or has too many"
                        " digits");
        }
    }
    if (digits == 0 && text[at] == '\0') {
        *ns = 0; // nothing of whatever unit
        return WEIR_OK;
    }
    const struct unit *unit = find_unit(text + at);
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

/* "14 h 24 min": two units, for a minute and more. */
static const char *print_two_units(uint64_t ns, bool up, char text[DURATION_TEXT_MAX])
{
    size_t first = UNIT_DAY;
    while (ns < UNITS[first].ns) {
        first++;
    }
    const struct unit *large = &UNITS[first];
    const struct unit *small = &UNITS[first + 1];
    uint64_t smalls = (ns + (up ? small->ns - 1 : small->ns / 2)) / small->ns;
    uint64_t per_large = large->ns / small->ns;
    if (first > UNIT_DAY && smalls >= UNITS[first - 1].ns / small->ns) {
        return print_two_units(smalls * small->ns, up, text); // rounding filled the next unit
    }
    int length =
        snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 " %s", smalls / per_large, large->name);
    if (smalls % per_large != 0) {
        (void)snprintf(text + length, DURATION_TEXT_MAX - (size_t)length, " %" PRIu64 " %s",
                       smalls % per_large, small->name);
    }
    return text;
}

static const char *print_rounded(uint64_t ns, bool up, char text[DURATION_TEXT_MAX])
{
    if (ns == 0) {
        return strcpy(text, "0 s");
    }
    if (ns >= 60 * NS_PER_S) {
        return print_two_units(ns, up, text);
    }
    size_t i = UNIT_SECOND;
    while (ns < UNITS[i].ns) {
        i++;
    }
    /* Three digits: keep whole steps of a hundredth, a tenth or one of the unit. */
    uint64_t unit = UNITS[i].ns;
    uint64_t step = ns < 10 * unit ? unit / 100 : ns < 100 * unit ? unit / 10 : unit;
    step = step > 0 ? step : 1;
    ns = (ns + (up ? step - 1 : step / 2)) / step * step;
    if (ns >= 60 * NS_PER_S || (i > UNIT_SECOND && ns >= UNITS[i - 1].ns)) {
        return print_rounded(ns, up, text); // 999.6 us has become 1 ms
    }
    int length = snprintf(text, DURATION_TEXT_MAX, "%" PRIu64, ns / unit);
    uint64_t hundredths = ns % unit * 100 / unit;
    if (hundredths != 0) {
        length +=
            snprintf(text + length, DURATION_TEXT_MAX - (size_t)length, ".%02" PRIu64, hundredths);
        length -= text[length - 1] == '0';
    }
    (void)snprintf(text + length, DURATION_TEXT_MAX - (size_t)length, " %s", UNITS[i].name);
    return text;
}

const char *duration_print_up(uint64_t ns, char text[DURATION_TEXT_MAX])
{
    return print_rounded(ns, true, text);
}

const char *duration_print_near(uint64_t ns, char text[DURATION_TEXT_MAX])
{
    return print_rounded(ns, false, text);
}

const char *duration_print_exact(const struct weir_amount *ns, char text[DURATION_TEXT_MAX])
{
    uint128 numerator = (uint128)ns->numerator_high << 64 | ns->numerator_low;
    uint128 denominator = (uint128)ns->denominator_high << 64 | ns->denominator_low;
    size_t i = UNIT_DAY; // weeks help nobody
    while (i < UNIT_COUNT - 1 && numerator / UNITS[i].ns < denominator) {
        i++;
    }
    struct weir_amount amount = amount_of(numerator, denominator * UNITS[i].ns);
    int length = weir_amount_print(&amount, text);
    (void)snprintf(text + length, DURATION_TEXT_MAX - (size_t)length, " %s", UNITS[i].name);
    return text;
}
