/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/duration.h"
#include "weir/limit.h"

static void up(uint64_t ns, const char *expected)
{
    char text[DURATION_TEXT_MAX];
    assert_string_equal(duration_print_up(ns, text), expected);
}

static void a_wait_is_rounded_up_to_three_digits(void **state)
{
    (void)state;
    up(0, "0 s");
    up(1, "1 ns");
    up(999, "999 ns");
    up(1000, "1 us");
    up(1001, "1.01 us");
    up(77912331, "78 ms"); // 77.92 is 78.0 in tenths, rounded up
    up(77112331, "77.2 ms");
    up(999000001, "1 s");
    up(1250000001, "1.26 s");
    up(59 * NS_PER_S + 1, "59.1 s");
    up(59999999999, "1 min");
    up(60 * NS_PER_S, "1 min");
    up(90 * NS_PER_S, "1 min 30 s");
    up(51840 * NS_PER_S, "14 h 24 min");
    up(3599999999999, "1 h");
    up(86399 * NS_PER_S, "1 d");
    up(30 * 86400 * NS_PER_S, "30 d");
    up(WEIR_SPAN_NS_MAX, "36525 d");
}

static void what_was_measured_is_rounded_to_the_nearest(void **state)
{
    (void)state;
    char text[DURATION_TEXT_MAX];
    assert_string_equal(duration_print_near(1254, text), "1.25 us");
    assert_string_equal(duration_print_near(1255, text), "1.26 us");
    assert_string_equal(duration_print_near(999999, text), "1 ms");
}

static void exact(uint64_t numerator, uint64_t denominator, const char *expected)
{
    char text[DURATION_TEXT_MAX];
    struct weir_amount ns = {.numerator_low = numerator, .denominator_low = denominator};
    assert_string_equal(duration_print_exact(&ns, text), expected);
}

static void exact_durations_keep_every_digit(void **state)
{
    (void)state;
    exact(10 * NS_PER_MS, 1, "10 ms");
    exact(NS_PER_S, 30, "100/3 ms");
    exact(51840 * NS_PER_S, 1, "14.4 h");
    exact(1, 3, "1/3 ns");
    exact(30 * 86400 * NS_PER_S, 1, "30 d");
    exact(0, 1, "0 ns");
    exact(1000000001, 1, "1.000000001 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_rounded_up_to_three_digits),
        cmocka_unit_test(what_was_measured_is_rounded_to_the_nearest),
        cmocka_unit_test(exact_durations_keep_every_digit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
