/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/plan.h"
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
    about_is("9000000000/1500000000", "6");
    about_is("7/2800000", "about 0.000003"); // 0.0000025
    about_is("21/14", "1.5");
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

static void planned_buckets_keep_their_word(void **state)
{
    (void)state;
    struct weir_limit_config config;
    for (uint64_t count = 2; count <= 40; count++) {
        const struct plan plan = {count * WEIR_UNIT, 1000000000};
        for (uint64_t burst = 1; burst < count; burst++) {
            assert_true(plan_bucket(&config, &plan, burst * WEIR_UNIT));
            struct weir_amount bound = promise_bound(&config, plan.window_ns);
            assert_true(amount_floor(&bound) == count && amount_ceil(&bound) == count);
            assert_true(greedy(&config, plan.window_ns) <= count);
        }
        assert_false(plan_bucket(&config, &plan, 0));
        assert_false(plan_bucket(&config, &plan, count * WEIR_UNIT));
    }
}

static void plans_are_read_from_words(void **state)
{
    (void)state;
    struct plan plan;
    struct weir_error error;
    assert_int_equal(plan_parse(&plan, "at most 300 in any 60s", NULL), WEIR_OK);
    assert_int_equal(plan.at_most_micro, 300 * WEIR_UNIT);
    assert_int_equal(plan.window_ns, 60000000000);
    assert_int_equal(plan_parse(&plan, "at most 2.5 in any min", NULL), WEIR_OK);
    assert_int_equal(plan.at_most_micro, 2500000);
    assert_int_equal(plan.window_ns, 60000000000);
    static const struct {
        const char *text;
        enum weir_status status;
        size_t offset;
    } BAD[] = {
        {"at least 3 in any 1s", WEIR_E_SYNTAX, 0},
        {"at most 3", WEIR_E_SYNTAX, 9},
        {"at most  3 in any 1s", WEIR_E_SYNTAX, 8},
        {"at most 3 in every 1s", WEIR_E_SYNTAX, 21},
        {"at most 0 in any 1s", WEIR_E_RANGE, 8},
        {"at most x in any 1s", WEIR_E_SYNTAX, 8},
        {"at most 3x in any 1s", WEIR_E_SYNTAX, 9},
        {"at most 3 in any 0s", WEIR_E_RANGE, 17},
        {"at most 3 in any 12q", WEIR_E_SYNTAX, 19},
        {"at most 3 in any ", WEIR_E_SYNTAX, 17},
        {"at most 3 in any 1s 2", WEIR_E_SYNTAX, 17},
        {"at most 3 in any 101000d", WEIR_E_RANGE, 17},
        {"at most 3 in any 1s capacity=2", WEIR_E_SYNTAX, 17},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_int_equal(plan_parse(&plan, BAD[i].text, &error), BAD[i].status);
        assert_int_equal(error.offset, BAD[i].offset);
        assert_int_equal(plan_parse(&plan, BAD[i].text, NULL), BAD[i].status);
    }
}

/* Whatever is chosen guarantees what was wanted, none twice, and the first holds a tenth; the last is the
 * window. */
static void choices_differ_and_the_first_holds_a_tenth(void **state)
{
    (void)state;
    for (uint64_t count = 1; count <= 300; count++) {
        const struct plan plan = {count * WEIR_UNIT, 7000000000};
        struct plan_choice choices[PLAN_CHOICE_MAX];
        size_t choice_count = plan_choose(&plan, 0, choices);
        assert_int_equal(choice_count, count < 2 ? 1 : count < 4 ? 2 : count < 20 ? 3 : 4);
        const struct weir_limit_config *window = &choices[--choice_count].config;
        assert_int_equal(window->kind, WEIR_KIND_WINDOW);
        assert_int_equal(window->count_micro, count * WEIR_UNIT);
        assert_int_equal(window->period_ns, plan.window_ns);
        for (size_t i = 0; i < choice_count; i++) {
            struct weir_amount bound = promise_bound(&choices[i].config, plan.window_ns);
            assert_true(amount_floor(&bound) == count && amount_ceil(&bound) == count);
            for (size_t j = 0; j < i; j++) {
                assert_true(choices[i].config.capacity_micro != choices[j].config.capacity_micro);
            }
        }
        uint64_t tenth = count / 10 > 0 ? count / 10 : 1;
        assert_true(choice_count == 0 || choices[0].config.capacity_micro == tenth * WEIR_UNIT);
    }
}

/* So count and capacity make up N, and whoever writes it down gets just what was planned. */
static void choices_are_written_over_the_period_that_was_asked_about(void **state)
{
    (void)state;
    static const struct {
        const char *asked;
        const char *texts[PLAN_CHOICE_MAX];
    } CASES[] = {
        {"at most 1000 in any 31d",
         {"900/31d capacity=100", "999/31d capacity=1", "500/31d", "window 1000/31d"}},
        {"at most 25 in any 5s",
         {"23/5s capacity=2", "24/5s capacity=1", "13/5s capacity=12", "window 25/5s"}},
        {"at most 300 in any 60s",
         {"270/min capacity=30", "299/min capacity=1", "150/min", "window 300/min"}},
        {"at most 1.5 in any 90min", {"0.5/90min", "window 1/90min"}},
        {"at most 2.25 in any 7001ms", {"1.25/7001ms capacity=1", "window 2/7001ms"}},
        {"at most 20 in any 2w", {"18/2w capacity=2", "19/2w capacity=1", "10/2w", "window 20/2w"}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct plan plan;
        struct plan_choice choices[PLAN_CHOICE_MAX];
        char text[WEIR_LIMIT_TEXT_MAX];
        assert_int_equal(plan_parse(&plan, CASES[i].asked, NULL), WEIR_OK);
        size_t count = plan_choose(&plan, 0, choices);
        for (size_t j = 0; j < count; j++) {
            assert_string_equal(plan_text(&choices[j].config, text), CASES[i].texts[j]);
            struct weir_limit_config again = parse(text);
            struct weir_limit limits[2];
            assert_int_equal(again.count_micro, choices[j].config.count_micro);
            assert_int_equal(again.period_ns, choices[j].config.period_ns);
            assert_int_equal(weir_limit_init(&limits[0], &again, NULL), WEIR_OK);
            assert_int_equal(weir_limit_init(&limits[1], &choices[j].config, NULL), WEIR_OK);
            assert_memory_equal(&limits[0], &limits[1], sizeof limits[0]); // all integers
        }
        assert_true(count == PLAN_CHOICE_MAX || CASES[i].texts[count] == NULL);
    }
}

static void a_window_counts_whole_units_up_to_its_maximum(void **state)
{
    (void)state;
    struct weir_limit_config config;
    struct plan plan = {2 * WEIR_UNIT + WEIR_UNIT / 2, 1000000000};
    assert_true(plan_window(&config, &plan));
    assert_int_equal(config.count_micro, 2 * WEIR_UNIT);
    plan.at_most_micro = WEIR_UNIT - 1;
    assert_false(plan_window(&config, &plan));
    plan.at_most_micro = WEIR_WINDOW_COUNT_MAX * WEIR_UNIT;
    assert_true(plan_window(&config, &plan));
    plan.at_most_micro += WEIR_UNIT;
    assert_false(plan_window(&config, &plan));
}

/* The largest whole one that keeps both: what it admits in any window, and when it has drained. */
static void a_capacity_within_a_latency_is_the_largest(void **state)
{
    (void)state;
    struct weir_limit_config config;
    for (uint64_t count = 2; count <= 60; count++) {
        const struct plan plan = {count * WEIR_UNIT, 7000000000};
        for (uint64_t latency_ns = 50000000; latency_ns < 20000000000; latency_ns += 350000000) {
            uint64_t chosen_micro = plan_capacity_within(&plan, latency_ns);
            assert_int_equal(chosen_micro % WEIR_UNIT, 0);
            for (uint64_t capacity = 1; capacity < count; capacity++) {
                assert_true(plan_bucket(&config, &plan, capacity * WEIR_UNIT));
                struct weir_amount drain_ns = promise_drain_ns(&config, config.capacity_micro);
                bool is_soon = amount_ceil(&drain_ns) <= latency_ns;
                assert_true(is_soon == (capacity * WEIR_UNIT <= chosen_micro));
            }
        }
    }
    const struct plan large = {WEIR_MICRO_MAX, WEIR_SPAN_NS_MAX};
    assert_int_equal(plan_capacity_within(&large, WEIR_SPAN_NS_MAX), WEIR_MICRO_MAX / 2);
}

/* More patience never gives up more of the rate than the usual tenth, and all that is named drains in time. */
static void a_latency_makes_a_bucket_smaller_and_never_larger(void **state)
{
    (void)state;
    struct plan_choice choices[PLAN_CHOICE_MAX];
    for (uint64_t count = 2; count <= 60; count++) {
        const struct plan plan = {count * WEIR_UNIT, 7000000000};
        uint64_t usual_micro = (count / 10 > 0 ? count / 10 : 1) * WEIR_UNIT;
        for (uint64_t latency_ns = 50000000; latency_ns < 20000000000; latency_ns += 350000000) {
            uint64_t most_micro = plan_capacity_within(&plan, latency_ns);
            size_t choice_count = plan_choose(&plan, latency_ns, choices);
            assert_true(choice_count <= PLAN_CHOICE_MAX);
            assert_int_equal(choice_count > 1, most_micro > 0); // the window is always there
            for (size_t i = 0; i + 1 < choice_count; i++) {
                assert_true(choices[i].config.capacity_micro <= most_micro);
            }
            if (most_micro > 0) {
                assert_int_equal(choices[0].config.capacity_micro,
                                 most_micro < usual_micro ? most_micro : usual_micro);
            }
        }
    }
}

static void a_capacity_for_a_latency_is_the_largest(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("100/s");
    assert_int_equal(plan_capacity(&config, 200000000), 20 * WEIR_UNIT);
    assert_int_equal(plan_capacity(&config, 500000000), 50 * WEIR_UNIT);
    assert_int_equal(plan_capacity(&config, 1), 0);
    config = parse("10/3s");
    assert_int_equal(plan_capacity(&config, 1000000000), 3333333); // and 1/3 millionth
    config = parse("1000000/ns");
    assert_int_equal(plan_capacity(&config, WEIR_SPAN_NS_MAX), WEIR_MICRO_MAX);
    config = parse("stepped 10/10s");
    assert_int_equal(plan_capacity(&config, UINT64_C(9999999999)), 0);
    assert_int_equal(plan_capacity(&config, UINT64_C(10000000000)), 10 * WEIR_UNIT);
    assert_int_equal(plan_capacity(&config, UINT64_C(29999999999)), 20 * WEIR_UNIT);
}

static void a_queue_promises_what_leaves_it_too(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("queue 5/s capacity=10");
    amount_is(promise_bound(&config, 1000000000), "15");
    amount_is(promise_leaving(&config, 1000000000), "6");
    config = parse("queue 5/s capacity=10 first=now");
    amount_is(promise_bound(&config, 1000000000), "16");
    amount_is(promise_leaving(&config, 1000000000), "6");
    assert_int_equal(promise_held_micro(&config), 11 * WEIR_UNIT);
}

static void windows_of_the_calendar_promise_by_how_many_are_met(void **state)
{
    (void)state;
    const uint64_t day_ns = UINT64_C(86400000000000);
    struct weir_limit_config config = parse("fixed 10/min");
    amount_is(promise_bound(&config, 0), "10");
    amount_is(promise_bound(&config, 1), "20"); // across the end of a window
    amount_is(promise_bound(&config, UINT64_C(60000000000)), "20");
    amount_is(promise_bound(&config, UINT64_C(60000000001)), "30");
    amount_is(promise_drain_ns(&config, WEIR_UNIT), "60000000000");
    config = parse("fixed 10/month");
    assert_int_equal(promise_period_ns(&config), 31 * day_ns);
    amount_is(promise_bound(&config, 28 * day_ns), "20");
    amount_is(promise_bound(&config, 28 * day_ns + 1), "30"); // all of a February, and more
    amount_is(promise_bound(&config, 59 * day_ns), "30");     // which is followed by a March
    amount_is(promise_bound(&config, 59 * day_ns + 1), "40");
    assert_int_equal(promise_left_micro(&config, 31 * day_ns - 1), 10 * WEIR_UNIT);
    assert_int_equal(promise_left_micro(&config, 31 * day_ns), 0);
    config = parse("fixed 10/2year");
    assert_int_equal(promise_period_ns(&config), 731 * day_ns);
    config = parse("fixed 10/9month"); // no such window is from May to January
    assert_int_equal(promise_period_ns(&config), 275 * day_ns);
}

static void a_window_promises_its_count_without_the_end(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("window 25/5s");
    assert_false(promise_includes_end(&config));
    amount_is(promise_bound(&config, 1), "25");
    amount_is(promise_bound(&config, UINT64_C(5000000000)), "25");
    amount_is(promise_bound(&config, UINT64_C(5000000001)), "50"); // all at 0, and again at 5 s
    amount_is(promise_bound(&config, UINT64_C(60000000000)), "300");
    config = parse("window 1/36525d");
    amount_is(promise_bound(&config, WEIR_SPAN_NS_MAX), "1");
}

static void a_stepped_limit_drains_no_more_than_it_holds(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("stepped 100/s capacity=1");
    amount_is(promise_bound(&config, 0), "1");
    amount_is(promise_bound(&config, 1000000000), "2");
    amount_is(promise_bound(&config, 1000000001), "3");
    amount_is(promise_rate_per_s(&config), "1");
    config = parse("stepped 10/10s capacity=25");
    amount_is(promise_bound(&config, UINT64_C(10000000000)), "35");
    amount_is(promise_rate_per_s(&config), "1");
}

static void a_sliding_limit_promises_less_than_its_windows_hold(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("sliding 10/s");
    amount_is(promise_bound(&config, 0), "10");
    amount_is(promise_bound(&config, 1), "18");
    amount_is(promise_bound(&config, 1000000000), "18");
    amount_is(promise_bound(&config, 1000000001), "27");
    amount_is(promise_drain_ns(&config, WEIR_UNIT), "1100000000");
    amount_is(promise_drain_ns(&config, 10 * WEIR_UNIT), "2000000000");
    amount_is(promise_bound(&config, UINT64_C(60000000000)), "549");
    config = parse("sliding 2/s");
    amount_is(promise_bound(&config, 0), "2");
    amount_is(promise_bound(&config, 1000000000), "2");
    amount_is(promise_bound(&config, 1000000001), "4");
    config = parse("sliding 1/s");
    amount_is(promise_bound(&config, 1999999999), "1");
    amount_is(promise_bound(&config, 2000000000), "2");
    amount_is(promise_rate_per_s(&config), "0.5");
}

/* Somebody who comes at any time, and now and then not for a while. */
static uint64_t erratic(const struct weir_limit_config *config, uint64_t window_ns, uint64_t seed)
{
    struct weir_limit limit;
    struct weir_bucket bucket = {0};
    uint64_t admitted = 0;
    assert_int_equal(weir_limit_init(&limit, config, NULL), WEIR_OK);
    for (uint64_t now_ns = 0; now_ns <= window_ns;) {
        struct weir_decision decision = weir_bucket_take(&bucket, &limit, WEIR_UNIT, now_ns);
        admitted += decision.verdict == WEIR_ALLOWED;
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t idle_ns = (seed >> 33) % config->period_ns * (seed >> 62);
        bool comes_in_time = seed >> 59 != 0;
        now_ns += !comes_in_time                     ? idle_ns
                  : decision.verdict == WEIR_LIMITED ? (uint64_t)decision.retry_after_ns
                                                     : 0;
    }
    return admitted;
}

/* What passes under a sliding limit in the long run: COUNT - 1 per period, and of COUNT 1 one in two. */
static void a_sliding_limit_lets_pass_less_than_its_count_in_the_long_run(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t admitted; // in a thousand periods, by who always takes as soon as he may
        const char *rate_per_s;
    } CASES[] = {{"sliding 1/s", 501, "0.5"},
                 {"sliding 2/s", 1002, "1"},
                 {"sliding 5/s", 4002, "4"},
                 {"sliding 10/s", 9002, "9"},
                 {"sliding 100/s", 99002, "99"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct weir_limit_config config = parse(CASES[i].text);
        const uint64_t window_ns = 1000 * config.period_ns;
        struct weir_amount bound = promise_bound(&config, window_ns);
        assert_int_equal(greedy(&config, window_ns), CASES[i].admitted);
        assert_true(CASES[i].admitted <= amount_floor(&bound));
        amount_is(promise_rate_per_s(&config), CASES[i].rate_per_s);
        for (uint64_t seed = 0; seed < 50; seed++) {
            assert_true(erratic(&config, window_ns, seed) <= amount_floor(&bound));
        }
    }
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
        cmocka_unit_test(planned_buckets_keep_their_word),
        cmocka_unit_test(plans_are_read_from_words),
        cmocka_unit_test(choices_differ_and_the_first_holds_a_tenth),
        cmocka_unit_test(choices_are_written_over_the_period_that_was_asked_about),
        cmocka_unit_test(a_window_counts_whole_units_up_to_its_maximum),
        cmocka_unit_test(a_capacity_within_a_latency_is_the_largest),
        cmocka_unit_test(a_latency_makes_a_bucket_smaller_and_never_larger),
        cmocka_unit_test(a_capacity_for_a_latency_is_the_largest),
        cmocka_unit_test(a_queue_promises_what_leaves_it_too),
        cmocka_unit_test(windows_of_the_calendar_promise_by_how_many_are_met),
        cmocka_unit_test(a_window_promises_its_count_without_the_end),
        cmocka_unit_test(a_stepped_limit_drains_no_more_than_it_holds),
        cmocka_unit_test(a_sliding_limit_promises_less_than_its_windows_hold),
        cmocka_unit_test(a_sliding_limit_lets_pass_less_than_its_count_in_the_long_run),
        cmocka_unit_test(amounts_round_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
