/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/promise.h"
#include "weir/bucket.h"

static struct weir_limit_config parse(const char *text)
{
    struct weir_limit_config config;
    assert_int_equal(weir_limit_parse(&config, text, strlen(text), NULL), WEIR_OK);
    return config;
}

static void amount_is(struct weir_amount amount, const char *expected)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    (void)weir_amount_print(&amount, text);
    assert_string_equal(text, expected);
}

static void the_numbers_of_a_limit_are_exact(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("10/3s capacity=20");
    amount_is(promise_rate_per_s(&config), "10/3");
    amount_is(promise_drain_ns(&config, WEIR_UNIT), "300000000");
    amount_is(promise_drain_ns(&config, config.capacity_micro), "6000000000");
    amount_is(promise_bound(&config, 0), "20");
    amount_is(promise_bound(&config, 1000000000), "70/3");
    amount_is(promise_bound(&config, 3000000000), "30");
    struct weir_limit_config budget = parse("1000/30d");
    amount_is(promise_rate_per_s(&budget), "1/2592");
    amount_is(promise_drain_ns(&budget, 20 * WEIR_UNIT), "51840000000000");
}

static void the_largest_limits_do_not_overflow(void **state)
{
    (void)state;
    struct weir_limit_config fast = parse("1000000/ns");
    amount_is(promise_rate_per_s(&fast), "1000000000000000");
    amount_is(promise_bound(&fast, WEIR_SPAN_NS_MAX), "3155760000000000001000000");
    struct weir_limit_config large = parse("1000000000000/36525d");
    amount_is(promise_bound(&large, WEIR_SPAN_NS_MAX), "2000000000000");
    amount_is(promise_drain_ns(&large, WEIR_MICRO_MAX), "3155760000000000000");
    struct weir_limit_config slow = parse("1/36525d");
    amount_is(promise_drain_ns(&slow, WEIR_UNIT), "3155760000000000000");
    amount_is(promise_bound(&slow, WEIR_SPAN_NS_MAX), "2");
}

static void about_is(const char *text, const char *expected)
{
    struct weir_amount amount;
    char about[ABOUT_TEXT_MAX];
    assert_true(amount_parse(&amount, text, strlen(text)));
    assert_int_equal(amount_print_about(&amount, about), strlen(expected));
    assert_string_equal(about, expected);
}

static void amounts_are_rounded_to_six_places_for_people(void **state)
{
    (void)state;
    about_is("0", "0");
    about_is("30.5", "30.5");
    about_is("0.000001", "0.000001");
    about_is("10/3", "about 3.333333");
    about_is("20/3", "about 6.666667");
    about_is("0.9999995", "about 1");
    about_is("0.9999994", "about 0.999999");
    about_is("15811198565189/518400000000", "about 30.499997");
    about_is("3155760000000000001000001/3", "about 1051920000000000000333333.666667");
}

static void what_is_no_amount_is_not_parsed(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"",     ".",     "/",  "1.",  "1/", ".5",  "1/0",
                                        "1//2", "1.5/2", "-1", "1e3", " 1", "1\n", "1/00000"};
    struct weir_amount amount;
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        assert_false(amount_parse(&amount, TEXTS[i], strlen(TEXTS[i])));
    }
    assert_false(amount_parse(&amount, "340282366920938463463374607431768211456", 39));
}

/* Someone who takes whatever he gets, from an empty bucket on, for a whole window. */
static uint64_t greedy(const struct weir_limit_config *config, uint64_t window_ns)
{
    struct weir_limit limit;
    struct weir_bucket bucket = {0};
    uint64_t admitted = 0;
    assert_int_equal(weir_limit_init(&limit, config, NULL), WEIR_OK);
    for (uint64_t now_ns = 0; now_ns <= window_ns;) {
        struct weir_decision decision = weir_bucket_take(&bucket, &limit, WEIR_UNIT, now_ns);
        assert_int_not_equal(decision.verdict, WEIR_NEVER);
        admitted += decision.verdict == WEIR_ALLOWED;
        now_ns += decision.verdict == WEIR_LIMITED ? (uint64_t)decision.retry_after_ns : 0;
    }
    return admitted;
}

/* Waits are whole nanoseconds, rounded up, so the bound is reached where drips are whole too. */
static void the_bound_is_reached_and_never_passed(void **state)
{
    (void)state;
    static const char *const LIMITS[] = {"10/s",  "10/10s capacity=3", "100/s capacity=20",
                                         "1/7us", "5/s capacity=2.5",  "1/s"};
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct weir_limit_config config = parse(LIMITS[i]);
        for (uint64_t quarters = 0; quarters <= 12; quarters++) {
            uint64_t window_ns = config.period_ns / 4 * quarters;
            struct weir_amount bound = promise_bound(&config, window_ns);
            assert_true(greedy(&config, window_ns) == amount_floor(&bound));
        }
    }
}

static void strict_limits_keep_their_word(void **state)
{
    (void)state;
    struct weir_limit_config strict;
    const uint64_t period_ns = 1000000000;
    for (uint64_t count = 2; count <= 40; count++) {
        for (uint64_t burst = 1; burst < count; burst++) {
            assert_true(promise_strict(&strict, count, period_ns, burst));
            struct weir_amount bound = promise_bound(&strict, period_ns);
            assert_true(amount_floor(&bound) == count && amount_ceil(&bound) == count);
            assert_true(greedy(&strict, period_ns) <= count);
        }
    }
    assert_false(promise_strict(&strict, 1, period_ns, 1));
    assert_false(promise_strict(&strict, 5, period_ns, 5));
    assert_false(promise_strict(&strict, 5, period_ns, 0));
}

static void amounts_round_both_ways(void **state)
{
    (void)state;
    struct weir_amount amount = {.numerator_low = 7, .denominator_low = 2};
    assert_int_equal(amount_floor(&amount), 3);
    assert_int_equal(amount_ceil(&amount), 4);
    amount.numerator_low = 8;
    assert_int_equal(amount_floor(&amount), 4);
    assert_int_equal(amount_ceil(&amount), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_rounded_to_six_places_for_people),
        cmocka_unit_test(what_is_no_amount_is_not_parsed),
        cmocka_unit_test(the_numbers_of_a_limit_are_exact),
        cmocka_unit_test(the_largest_limits_do_not_overflow),
        cmocka_unit_test(the_bound_is_reached_and_never_passed),
        cmocka_unit_test(strict_limits_keep_their_word),
        cmocka_unit_test(amounts_round_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
