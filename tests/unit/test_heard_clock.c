/* SPDX-License-Identifier: MIT
 *
 * The store's clock, as far as a server has heard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/time_units.h"
#include "store/heard_clock.h"

#define MS NS_PER_MS

static void nothing_was_heard(void **state)
{
    (void)state;
    struct heard_clock clock = {0, 0};
    assert_int_equal(heard_clock_now_ns(&clock, 5000 * MS), 0);
    assert_false(heard_clock_hear(&clock, 5000 * MS, 800 * MS, 5010 * MS));
    assert_int_equal(heard_clock_now_ns(&clock, 5010 * MS), 800 * MS);
}

/* The example of heard_clock.h: but for the 512th, 5110 and 5102. */
static void an_answer_that_took_less_time_says_more(void **state)
{
    (void)state;
    struct heard_clock clock = {0, 0};
    assert_false(heard_clock_hear(&clock, 5000 * MS, 800 * MS, 5010 * MS));
    uint64_t when_ns = heard_clock_when_ns(&clock, 900 * MS);
    assert_true(when_ns >= 5110 * MS && when_ns < 5111 * MS);
    assert_false(heard_clock_hear(&clock, 5060 * MS, 859 * MS, 5061 * MS));
    when_ns = heard_clock_when_ns(&clock, 900 * MS);
    assert_true(when_ns >= 5102 * MS && when_ns < 5103 * MS);
    assert_false(heard_clock_hear(&clock, 5060 * MS, 860 * MS, 5080 * MS)); // slower again
    assert_int_equal(heard_clock_when_ns(&clock, 900 * MS), when_ns);
}

static void the_timer_is_the_first_instant_that_will_do(void **state)
{
    (void)state;
    struct heard_clock clock = {7777, 1234567};
    for (uint64_t store_ns = 7000; store_ns < 20000; store_ns++) {
        uint64_t when_ns = heard_clock_when_ns(&clock, store_ns);
        assert_true(heard_clock_now_ns(&clock, when_ns) >= store_ns);
        assert_true(when_ns == clock.heard_ns
                    || heard_clock_now_ns(&clock, when_ns - 1) < store_ns);
    }
    assert_true(heard_clock_when_ns(&clock, UINT64_MAX) == UINT64_MAX);
}

/* Ours is 1953 millionths faster than the store's; and slower. */
static void clocks_of_other_rates(void **state)
{
    (void)state;
    struct heard_clock clock = {1000 * NS_PER_S, 50 * NS_PER_S};
    for (uint64_t passed_ns = 1; passed_ns < 100 * NS_PER_S; passed_ns = passed_ns * 3 + 1) {
        uint64_t of_store_ns = clock.reading_ns + passed_ns;
        uint64_t fast_ns = clock.heard_ns + passed_ns + passed_ns * 1953 / 1000000;
        uint64_t slow_ns = clock.heard_ns + passed_ns - passed_ns * 1953 / 1000000;
        assert_true(heard_clock_now_ns(&clock, fast_ns) <= of_store_ns);
        assert_true(heard_clock_now_ns(&clock, slow_ns) <= of_store_ns);
        assert_true(heard_clock_now_ns(&clock, slow_ns) >= of_store_ns - passed_ns / 200 - 2);
    }
}

static void a_clock_that_was_set_back(void **state)
{
    (void)state;
    struct heard_clock clock = {0, 0};
    assert_false(heard_clock_hear(&clock, 0, 900 * MS, 10 * MS));
    assert_false(heard_clock_hear(&clock, 11 * MS, 905 * MS, 21 * MS)); // on its way for 10 ms
    assert_true(heard_clock_hear(&clock, 30 * MS, 500 * MS, 31 * MS));
    assert_int_equal(heard_clock_now_ns(&clock, 31 * MS), 500 * MS);
    assert_false(heard_clock_hear(&clock, 40 * MS, 2000 * MS, 41 * MS)); // and on
    assert_int_equal(heard_clock_now_ns(&clock, 41 * MS), 2000 * MS);
}

/* Answers may be heard in another order than questions were asked. */
static void an_answer_that_was_asked_long_ago(void **state)
{
    (void)state;
    struct heard_clock clock = {0, 0};
    assert_false(heard_clock_hear(&clock, 50 * MS, 900 * MS, 51 * MS));
    assert_false(heard_clock_hear(&clock, 10 * MS, 880 * MS, 52 * MS));
    assert_true(heard_clock_now_ns(&clock, 52 * MS) > 900 * MS);
    assert_true(heard_clock_now_ns(&clock, 0) <= 849 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_was_heard),
        cmocka_unit_test(an_answer_that_took_less_time_says_more),
        cmocka_unit_test(the_timer_is_the_first_instant_that_will_do),
        cmocka_unit_test(clocks_of_other_rates),
        cmocka_unit_test(a_clock_that_was_set_back),
        cmocka_unit_test(an_answer_that_was_asked_long_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
