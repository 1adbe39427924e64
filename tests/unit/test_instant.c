/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/simulate/instant.h"
#include "weir/limit.h"

static const char *parse(uint64_t *ns, const char *text, unsigned power)
{
    *ns = 7;
    return instant_parse(ns, (struct bytes){text, strlen(text)}, power);
}

static void is_at(const char *text, unsigned power, uint64_t expected)
{
    uint64_t ns;
    assert_null(parse(&ns, text, power));
    assert_true(ns == expected);
}

static void is_none(const char *text, const char *why)
{
    uint64_t ns;
    const char *said = parse(&ns, text, 9);
    assert_non_null(said);
    assert_non_null(strstr(said, why));
}

static void numbers_count_seconds_or_their_unit(void **state)
{
    (void)state;
    is_at("0", 9, 0);
    is_at("12", 9, 12000000000);
    is_at("12.5", 9, 12500000000);
    is_at("1.000000001", 9, 1000000001);
    is_at("1.0000000010000", 9, 1000000001);
    is_at("1700000000.123456", 9, 1700000000123456000);
    is_at("1.5", 6, 1500000);
    is_at("3", 3, 3000);
    is_at("1700000000123456789", 0, 1700000000123456789);
    is_at("25ms", 9, 25000000);
    is_at("0.25us", 9, 250);
    is_at("7ns", 6, 7);
    is_at("2s", 0, 2000000000);
}

static void dates_of_rfc_3339_count_from_1970(void **state)
{
    (void)state;
    is_at("1970-01-01T00:00:00Z", 9, 0);
    is_at("2000-02-29T12:34:56.789Z", 9, 951827696789000000);
    is_at("2026-11-21T10:24:48+01:00", 9, 1795253088000000000);
    is_at("2026-11-21 10:24:48-05:30", 9, 1795276488000000000);
    is_at("2026-11-21t10:24:48.000000001z", 9, 1795256688000000001);
    is_at("2016-12-31T23:59:60Z", 9, 1483228800000000000); // the leap second is the next one
    is_at("2100-03-01T00:00:00Z", 9, 4107542400000000000); // 2100 is no leap year
}

static void what_is_no_time_says_why(void **state)
{
    (void)state;
    is_none("", "expected a time");
    is_none("x", "expected a time");
    is_none("-1", "expected a time");
    is_none("1.", "expected a time");
    is_none("1e3", "expected a time");
    is_none("1 s", "expected a time");
    is_none("1min", "expected a time");
    is_none("1.0000000001", "finer than a nanosecond");
    is_none("1.5ns", "finer than a nanosecond");
    is_none("4611686018.427387905", "after the year 2116");
    is_none("99999999999999999999", "after the year 2116");
    is_none("2026-11-21", "expected a time");
    is_none("2026-11-21T10:24:48", "no offset from UTC");
    is_none("2026-11-21T10:24:48.Z", "expected a time");
    is_none("2026-02-29T10:24:48Z", "no such date");
    is_none("2100-02-29T10:24:48Z", "no such date");
    is_none("2026-13-01T10:24:48Z", "no such date");
    is_none("2026-00-01T10:24:48Z", "no such date");
    is_none("2026-01-00T10:24:48Z", "no such date");
    is_none("2026-01-01T24:00:00Z", "no such date");
    is_none("1969-12-31T23:59:59Z", "no such date");
    is_none("1970-01-01T00:00:00+00:01", "no such date");
    is_none("2500-01-01T00:00:00Z", "after the year 2116");
    is_at("4611686018.427387904", 9, WEIR_NOW_NS_MAX);
}

static void dates_of_access_logs_have_an_offset(void **state)
{
    (void)state;
    static const char TEXT[] = "10/Oct/2000:13:55:36 -0700";
    uint64_t ns;
    assert_null(instant_parse_log(&ns, (struct bytes){TEXT, strlen(TEXT)}));
    assert_true(ns == UINT64_C(971211336000000000));
    static const char *const BAD[] = {
        "10/Okt/2000:13:55:36 -0700", "32/Oct/2000:13:55:36 -0700", "10/Oct/2000:13:55:36",
        "10/Oct/2000 13:55:36 -0700", "10/Oct/2000:13:55:36 00700", "10/Oct/2000:13:55:36 -07000",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_non_null(instant_parse_log(&ns, (struct bytes){BAD[i], strlen(BAD[i])}));
    }
}

/* Every day of 150 years is one day after the day before it. */
static void the_calendar_leaves_no_day_out(void **state)
{
    (void)state;
    static const unsigned DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    uint64_t expected = 0;
    for (unsigned year = 1970; year <= 2115; year++) {
        for (unsigned month = 1; month <= 12; month++) {
            bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for (unsigned day = 1; day <= DAYS[month - 1] + (month == 2 && leap); day++) {
                char text[64];
                (void)snprintf(text, sizeof text, "%04u-%02u-%02uT00:00:00Z", year, month, day);
                is_at(text, 9, expected * 86400 * 1000000000);
                expected++;
            }
        }
    }
}

static void instants_are_printed_in_utc(void **state)
{
    (void)state;
    char text[INSTANT_TEXT_MAX];
    assert_string_equal(instant_print(1795256688999999999, text), "2026-11-21T10:24:48Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_count_seconds_or_their_unit),
        cmocka_unit_test(dates_of_rfc_3339_count_from_1970),
        cmocka_unit_test(what_is_no_time_says_why),
        cmocka_unit_test(dates_of_access_logs_have_an_offset),
        cmocka_unit_test(the_calendar_leaves_no_day_out),
        cmocka_unit_test(instants_are_printed_in_utc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
