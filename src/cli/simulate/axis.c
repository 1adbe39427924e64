/* SPDX-License-Identifier: MIT */
#include "cli/simulate/axis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* From a minute on, times are not decimal. */
static const uint64_t LONG_STEPS_S[] = {60,   120,   300,   600,   900,   1800,   3600,
                                        7200, 10800, 21600, 43200, 86400, 172800, 432000};
enum { LONG_STEP_COUNT = sizeof LONG_STEPS_S / sizeof LONG_STEPS_S[0] };

/* 1, 2 or 5 times a power of ten. */
static uint64_t decimal_step(uint64_t least_ns)
{
    uint64_t power = 1;
    while (power * 10 <= least_ns) {
        power *= 10;
    }
    return least_ns <= power       ? power
           : least_ns <= 2 * power ? 2 * power
           : least_ns <= 5 * power ? 5 * power
                                   : 10 * power;
}

uint64_t axis_step(uint64_t range_ns, unsigned count_max)
{
    uint64_t least_ns = range_ns / count_max + (range_ns % count_max != 0);
    if (least_ns <= 20 * NS_PER_S) {
        return decimal_step(least_ns);
    }
    for (size_t i = 0; i < LONG_STEP_COUNT; i++) {
        if (least_ns <= LONG_STEPS_S[i] * NS_PER_S) {
            return LONG_STEPS_S[i] * NS_PER_S;
        }
    }
    return decimal_step(least_ns / (86400 * NS_PER_S) + 1) * 86400 * NS_PER_S;
}

const char *axis_text(uint64_t ns, char text[DURATION_TEXT_MAX])
{
    struct weir_amount amount = {.numerator_low = ns, .denominator_low = 1};
    return ns == 0 ? "0" : duration_print_exact(&amount, text);
}

const char *axis_rate(double per_s, char text[AXIS_RATE_MAX])
{
    bool is_million = per_s >= 1e6;
    double number = is_million ? per_s / 1e6 : per_s;
    (void)snprintf(text, AXIS_RATE_MAX, number >= 100 ? "%.0f%s" : "%.3g%s", number,
                   is_million ? "M/s" : "/s");
    return text;
}
