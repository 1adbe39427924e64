/* SPDX-License-Identifier: MIT
 *
 * The calendar of Gregory, as days since 1970-01-01 and months since the January of the year 0. */
#ifndef WEIR_CORE_CALENDAR_H
#define WEIR_CORE_CALENDAR_H

#include <stdint.h>

/* Four hundred years have as many days as the four hundred before. */
enum { CALENDAR_DAYS = 146097, CALENDAR_MONTHS = 4800 };

/* The first day of a month. Years are counted from March here, so that the day that comes and goes is
 * the last of its year, and months have lengths that one formula gives. From March of the year 0. */
static inline int64_t calendar_day_of_month(int64_t month)
{
    int64_t since_january = month % 12;
    int64_t year = month / 12 - (since_january < 2);
    int64_t since_march = (since_january + 10) % 12;
    int64_t days_before_month = (153 * since_march + 2) / 5;
    int64_t days = 365 * year + year / 4 - year / 100 + year / 400 + days_before_month;
    return days - 719468; // the same for 1970-01-01
}

/* The month of a day that is no earlier: as far as months of mean length lead, and a step or two. */
static inline int64_t calendar_month_of_day(int64_t day)
{
    int64_t month = (day + 719528) * CALENDAR_MONTHS / CALENDAR_DAYS; // since 0000-01-01
    while (calendar_day_of_month(month) > day) {
        month--;
    }
    while (calendar_day_of_month(month + 1) <= day) {
        month++;
    }
    return month;
}

#endif
