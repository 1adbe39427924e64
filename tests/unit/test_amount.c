/* SPDX-License-Identifier: MIT
 *
 * Exact amounts as text: a decimal where one is exact, otherwise a fraction in lowest terms. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "weir/decision.h"

static void assert_prints(struct weir_amount amount, const char *expected)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    int length = weir_amount_print(&amount, text);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
}

static struct weir_amount fraction(uint64_t numerator, uint64_t denominator)
{
    return (struct weir_amount){.numerator_low = numerator, .denominator_low = denominator};
}

static void test_whole_numbers_have_no_point(void **state)
{
    (void)state;
    assert_prints(fraction(0, 1), "0");
    assert_prints(fraction(0, 7), "0");
    assert_prints(fraction(3, 1), "3");
    assert_prints(fraction(300, 100), "3");
    assert_prints(fraction(1000000000000, 1), "1000000000000");
}

static void test_decimals_are_exact_and_short(void **state)
{
    (void)state;
    assert_prints(fraction(1, 2), "0.5");
    assert_prints(fraction(255, 100), "2.55");
    assert_prints(fraction(1, 8), "0.125");
    assert_prints(fraction(100001, 1000000), "0.100001");
    assert_prints(fraction(1, 1000000), "0.000001");
    assert_prints(fraction(1000000001, 1000000000), "1.000000001");
}

static void test_what_has_no_decimal_is_a_fraction_in_lowest_terms(void **state)
{
    (void)state;
    assert_prints(fraction(1, 3), "1/3");
    assert_prints(fraction(10, 3), "10/3");
    assert_prints(fraction(2000000, 6000000), "1/3");
    assert_prints(fraction(22, 14), "11/7");
}

static void test_decimals_end_at_eighteen_places(void **state)
{
    (void)state;
    assert_prints(fraction(1, UINT64_C(1000000000000000000)), "0.000000000000000001");
    assert_prints(fraction(1, UINT64_C(1) << 18), "0.000003814697265625");
    assert_prints(fraction(1, UINT64_C(1) << 19), "1/524288");
    assert_prints(fraction(1, UINT64_C(10000000000000000000)), "1/10000000000000000000");
}

static void test_the_largest_amounts_have_room(void **state)
{
    (void)state;
    const uint64_t most = UINT64_MAX;
    assert_prints((struct weir_amount){most, most, 0, 1},
                  "340282366920938463463374607431768211455");
    assert_prints((struct weir_amount){most, most, most, most}, "1");
    assert_prints(
        (struct weir_amount){most, most - 1, most, most},
        "340282366920938463463374607431768211454/340282366920938463463374607431768211455");
    assert_prints((struct weir_amount){most, most, 0, UINT64_C(1000000000000000000)},
                  "340282366920938463463.374607431768211455");
}

static void test_a_zeroed_amount_is_harmless(void **state)
{
    (void)state;
    assert_prints((struct weir_amount){0}, "0");
}

static void test_verdicts_have_words(void **state)
{
    (void)state;
    assert_string_equal(weir_verdict_word(WEIR_ALLOWED), "allowed");
    assert_string_equal(weir_verdict_word(WEIR_LIMITED), "limited");
    assert_string_equal(weir_verdict_word(WEIR_NEVER), "never");
    assert_string_equal(weir_verdict_word(WEIR_BLOCKED), "blocked");
    assert_string_equal(weir_verdict_word(WEIR_FAILED), "error");
    assert_string_equal(weir_verdict_word((enum weir_verdict)5), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers_have_no_point),
        cmocka_unit_test(test_decimals_are_exact_and_short),
        cmocka_unit_test(test_what_has_no_decimal_is_a_fraction_in_lowest_terms),
        cmocka_unit_test(test_decimals_end_at_eighteen_places),
        cmocka_unit_test(test_the_largest_amounts_have_room),
        cmocka_unit_test(test_a_zeroed_amount_is_harmless),
        cmocka_unit_test(test_verdicts_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
