/* SPDX-License-Identifier: MIT */
#include "cli/duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/arith.h"

enum { UNIT_DAY = 1, UNIT_SECOND = 4 };

/* "14 h 24 min": two units, for a minute and more. */
static const char *print_two_units(uint64_t ns, bool up, char text[DURATION_TEXT_MAX])
{
    size_t first = UNIT_DAY;
    while (ns < TIME_UNITS[first].ns) {
        first++;
    }
    const struct time_unit *large = &TIME_UNITS[first];
    const struct time_unit *small = &TIME_UNITS[first + 1];
    uint64_t smalls = (ns + (up ? small->ns - 1 : small->ns / 2)) / small->ns;
    uint64_t per_large = large->ns / small->ns;
    if (first > UNIT_DAY && smalls >= TIME_UNITS[first - 1].ns / small->ns) {
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
    while (ns < TIME_UNITS[i].ns) {
        i++;
    }
    /* Three digits: keep whole steps of a hundredth, a tenth or one of the unit. */
    uint64_t unit = TIME_UNITS[i].ns;
    uint64_t step = ns < 10 * unit ? unit / 100 : ns < 100 * unit ? unit / 10 : unit;
    step = step > 0 ? step : 1;
    ns = (ns + (up ? step - 1 : step / 2)) / step * step;
    if (ns >= 60 * NS_PER_S || (i > UNIT_SECOND && ns >= TIME_UNITS[i - 1].ns)) {
        return print_rounded(ns, up, text); // 999.6 us has become 1 ms
    }
    int length = snprintf(text, DURATION_TEXT_MAX, "%" PRIu64, ns / unit);
    uint64_t hundredths = ns % unit * 100 / unit;
    if (hundredths != 0) {
        length +=
            snprintf(text + length, DURATION_TEXT_MAX - (size_t)length, ".%02" PRIu64, hundredths);
        length -= text[length - 1] == '0';
    }
    (void)snprintf(text + length, DURATION_TEXT_MAX - (size_t)length, " %s", TIME_UNITS[i].name);
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
    while (i < TIME_UNIT_COUNT - 1 && numerator / TIME_UNITS[i].ns < denominator) {
        i++;
    }
    struct weir_amount amount = amount_of(numerator, denominator * TIME_UNITS[i].ns);
    int length = weir_amount_print(&amount, text);
    (void)snprintf(text + length, DURATION_TEXT_MAX - (size_t)length, " %s", TIME_UNITS[i].name);
    return text;
}
