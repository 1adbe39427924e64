/* SPDX-License-Identifier: MIT */
#include "cli/outlook.h"

#include <inttypes.h>
#include <stdio.h>

/* What follows a number in "1st", "2nd", "3rd", "11th". */
static const char *ordinal_ending(uint64_t number)
{
    static const char *const ENDINGS[] = {"th", "st", "nd", "rd"};
    uint64_t last = number % 10;
    bool is_regular = last > 3 || number / 10 % 10 == 1;
    return ENDINGS[is_regular ? 0 : last];
}

const char *outlook_print(struct outlook *outlook, uint64_t now_ns, char text[OUTLOOK_TEXT_MAX])
{
    char place[64] = "";
    char time[DURATION_TEXT_MAX];
    uint64_t left_ns = outlook->turn_ns > now_ns ? outlook->turn_ns - now_ns : 0;
    uint64_t left_s = (left_ns + NS_PER_S - 1) / NS_PER_S;
    if (outlook->place > 0) {
        (void)snprintf(place, sizeof place,
                       outlook->is_told ? "joined as %" PRIu64 "%s, " : "%" PRIu64 "%s in line, ",
                       outlook->place, ordinal_ending(outlook->place));
    }
    if (left_s == 0) {
        (void)snprintf(text, OUTLOOK_TEXT_MAX, "%sany moment", place);
    } else {
        (void)snprintf(text, OUTLOOK_TEXT_MAX, "%sabout %s%s", place,
                       duration_print_near(left_s * NS_PER_S, time),
                       outlook->is_told ? " left" : "");
    }
    outlook->is_told = true;
    return text;
}
