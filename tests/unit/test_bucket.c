/* SPDX-License-Identifier: MIT
 *
 * One bucket, by examples whose numbers anyone can check. Random and exhaustive ones are in
 * tests/property/, readable traces in tests/conformance/. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "weir/bucket.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct weir_limit limit_of(const char *text)
{
    struct weir_limit limit;
    struct weir_error error;
    if (weir_limit_from_text(&limit, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return limit;
}

static void assert_decision(struct weir_decision decision, enum weir_verdict verdict,
                            uint64_t remaining, int64_t retry_after_ns, int64_t reset_after_ns)
{
    assert_int_equal(decision.verdict, verdict);
    assert_int_equal(decision.remaining, remaining);
    assert_int_equal(decision.retry_after_ns, retry_after_ns);
    assert_int_equal(decision.reset_after_ns, reset_after_ns);
    assert_int_equal(decision.delay_ns, 0);
}

static void assert_same(struct weir_bucket a, struct weir_bucket b)
{
    assert_int_equal(a.empty_at_ns, b.empty_at_ns);
    assert_int_equal(a.word, b.word);
}

static void assert_amount(struct weir_amount amount, const char *expected)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    assert_int_equal(weir_amount_print(&amount, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void test_exactly_the_capacity_fits_an_empty_bucket(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    for (uint64_t i = 1; i <= 5; i++) {
        struct weir_decision decision = weir_bucket_take(&bucket, &limit, WEIR_UNIT, S);
        assert_decision(decision, WEIR_ALLOWED, 5 - i, -1, (int64_t)(100 * MS * i));
        assert_int_equal(decision.capacity, 5);
    }
    assert_decision(weir_bucket_take(&bucket, &limit, WEIR_UNIT, S), WEIR_LIMITED, 0,
                    (int64_t)(100 * MS), (int64_t)(500 * MS));
}

static void test_a_refusal_changes_nothing(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    (void)weir_bucket_take(&bucket, &limit, 5 * WEIR_UNIT, S);
    struct weir_bucket before = bucket;
    assert_int_equal(weir_bucket_take(&bucket, &limit, WEIR_UNIT, S + 7).verdict, WEIR_LIMITED);
    assert_int_equal(weir_bucket_take(&bucket, &limit, 6 * WEIR_UNIT, S + 7).verdict, WEIR_NEVER);
    assert_same(bucket, before);
}

static void test_a_wait_is_sufficient_and_minimal(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("3/s capacity=1"); // a drip is 333,333,333 1/3 ns
    struct weir_bucket bucket = {0};
    (void)weir_bucket_take(&bucket, &limit, WEIR_UNIT, S);
    struct weir_decision decision = weir_bucket_take(&bucket, &limit, WEIR_UNIT, S);
    assert_decision(decision, WEIR_LIMITED, 0, 333333334, 333333334);
    assert_int_equal(weir_bucket_take(&bucket, &limit, WEIR_UNIT, S + 333333333).verdict,
                     WEIR_LIMITED);
    assert_int_equal(weir_bucket_take(&bucket, &limit, WEIR_UNIT, S + 333333334).verdict,
                     WEIR_ALLOWED);
}

static void test_no_fraction_of_a_nanosecond_is_lost(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("3/s capacity=3000000");
    struct weir_bucket bucket = {0};
    for (int i = 0; i < 3000000; i++) {
        (void)weir_bucket_take(&bucket, &limit, WEIR_UNIT, S);
    }
    assert_int_equal(bucket.empty_at_ns, S + 1000000 * S);
    assert_int_equal(bucket.word, 0);
}

static void test_more_than_the_capacity_is_never(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    assert_decision(weir_bucket_take(&bucket, &limit, 5 * WEIR_UNIT + 1, 0), WEIR_NEVER, 5, -1, 0);
    assert_decision(weir_bucket_take(&bucket, &limit, UINT64_MAX, 0), WEIR_NEVER, 5, -1, 0);
    assert_decision(weir_bucket_take(&bucket, &limit, 5 * WEIR_UNIT, 0), WEIR_ALLOWED, 0, -1,
                    (int64_t)(500 * MS));
    assert_decision(weir_bucket_take(&bucket, &limit, 5 * WEIR_UNIT + 1, 100 * MS), WEIR_NEVER, 1,
                    -1, (int64_t)(400 * MS));
}

static void test_a_cost_of_zero_is_a_read(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    assert_decision(weir_bucket_take(&bucket, &limit, 0, S), WEIR_ALLOWED, 5, -1, 0);
    (void)weir_bucket_take(&bucket, &limit, 5 * WEIR_UNIT, S);
    struct weir_bucket before = bucket;
    assert_decision(weir_bucket_take(&bucket, &limit, 0, S), WEIR_ALLOWED, 0, -1,
                    (int64_t)(500 * MS));
    assert_same(bucket, before);
}

static void test_can_take_answers_as_take_would(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    assert_decision(weir_bucket_can_take(&bucket, &limit, 2 * WEIR_UNIT, S), WEIR_ALLOWED, 3, -1,
                    (int64_t)(200 * MS));
    assert_same(bucket, (struct weir_bucket){0});
    (void)weir_bucket_take(&bucket, &limit, 4 * WEIR_UNIT, S);
    assert_decision(weir_bucket_can_take(&bucket, &limit, 2 * WEIR_UNIT, S), WEIR_LIMITED, 1,
                    (int64_t)(100 * MS), (int64_t)(400 * MS));
}

static void test_an_old_reading_sees_a_fuller_bucket(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    (void)weir_bucket_take(&bucket, &limit, 5 * WEIR_UNIT, S);
    assert_decision(weir_bucket_take(&bucket, &limit, WEIR_UNIT, S - 50 * MS), WEIR_LIMITED, 0,
                    (int64_t)(150 * MS), (int64_t)(550 * MS));
    struct weir_bucket before = bucket;
    struct weir_amount spill;
    bool full = false;
    assert_decision(weir_bucket_fill(&bucket, &limit, WEIR_UNIT, S - 50 * MS, &spill, &full),
                    WEIR_ALLOWED, 0, -1, (int64_t)(550 * MS));
    assert_true(full);
    assert_amount(spill, "1");
    assert_same(bucket, before); // a fill never lowers the moment
}

static void test_a_fill_clamps_and_tells_the_spill(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("1.5/s capacity=3");
    struct weir_bucket bucket = {0};
    struct weir_amount spill;
    bool full = true;
    assert_decision(weir_bucket_fill(&bucket, &limit, 2 * WEIR_UNIT, S, &spill, &full),
                    WEIR_ALLOWED, 1, -1, 1333333334);
    assert_false(full);
    assert_amount(spill, "0");
    assert_decision(weir_bucket_fill(&bucket, &limit, 1500000, S, &spill, &full), WEIR_ALLOWED, 0,
                    -1, (int64_t)(2 * S));
    assert_true(full);
    assert_amount(spill, "0.5");
    (void)weir_bucket_fill(&bucket, &limit, 0, S + 1, &spill, &full);
    assert_false(full);
    assert_amount(spill, "0");
    (void)weir_bucket_fill(&bucket, &limit, WEIR_COST_MAX, S + 1, NULL, NULL);
    assert_int_equal(bucket.empty_at_ns, 3 * S + 1);
}

static void test_a_spill_may_have_no_decimal(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("1/3s capacity=1");
    struct weir_bucket bucket = {0};
    struct weir_amount spill;
    (void)weir_bucket_fill(&bucket, &limit, WEIR_UNIT, 0, NULL, NULL);
    (void)weir_bucket_fill(&bucket, &limit, WEIR_UNIT, S, &spill, NULL);
    assert_amount(spill, "2/3");
}

static void test_a_refund_stops_at_zero(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    (void)weir_bucket_take(&bucket, &limit, 3 * WEIR_UNIT, S);
    assert_decision(weir_bucket_refund(&bucket, &limit, 500000, S), WEIR_ALLOWED, 2, -1,
                    (int64_t)(250 * MS));
    assert_decision(weir_bucket_refund(&bucket, &limit, WEIR_COST_MAX, S), WEIR_ALLOWED, 5, -1, 0);
    struct weir_bucket before = bucket;
    assert_decision(weir_bucket_refund(&bucket, &limit, WEIR_UNIT, 2 * S), WEIR_ALLOWED, 5, -1, 0);
    assert_same(bucket, before);
}

static void test_a_refund_may_exceed_the_capacity_at_an_old_reading(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("10/s capacity=5");
    struct weir_bucket bucket = {0};
    (void)weir_bucket_take(&bucket, &limit, 5 * WEIR_UNIT, 2 * S);
    /* One second earlier the level is 15. */
    assert_decision(weir_bucket_refund(&bucket, &limit, 12 * WEIR_UNIT, S), WEIR_ALLOWED, 2, -1,
                    (int64_t)(300 * MS));
}

static void test_show_tells_the_level(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("3/s capacity=3");
    struct weir_bucket bucket = {0};
    struct weir_amount level;
    assert_decision(weir_bucket_show(&bucket, &limit, S, &level), WEIR_ALLOWED, 3, -1, 0);
    assert_amount(level, "0");
    (void)weir_bucket_take(&bucket, &limit, 2 * WEIR_UNIT, S);
    assert_decision(weir_bucket_show(&bucket, &limit, S + 1, &level), WEIR_ALLOWED, 1, -1,
                    666666666);
    assert_amount(level, "1.999999997");
    (void)weir_bucket_show(&bucket, &limit, S, NULL);
}

static void test_a_remainder_of_other_numbers_counts_as_one_nanosecond(void **state)
{
    (void)state;
    struct weir_limit sevenths = limit_of("7/s capacity=1");
    struct weir_limit thirds = limit_of("3/s capacity=1");
    struct weir_bucket bucket = {0};
    /* 10^9 / 7 = 142857142 6/7 ns; 6 does not fit in thirds. */
    (void)weir_bucket_take(&bucket, &sevenths, WEIR_UNIT, 0);
    assert_int_equal(bucket.empty_at_ns, 142857142);
    assert_int_equal(bucket.word, 6);
    struct weir_bucket before = bucket;
    assert_decision(weir_bucket_show(&bucket, &thirds, 0, NULL), WEIR_ALLOWED, 0, -1, 142857143);
    assert_same(bucket, before);
    assert_int_equal(weir_bucket_take(&bucket, &thirds, WEIR_UNIT, 142857142).verdict,
                     WEIR_LIMITED);
    assert_int_equal(weir_bucket_take(&bucket, &thirds, WEIR_UNIT, 142857143).verdict,
                     WEIR_ALLOWED);
}

static void test_owner_and_flags_are_left_alone(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("7/s capacity=3");
    const uint64_t others = UINT64_C(0xa5beef) << 40;
    struct weir_bucket bucket = {0, others};
    for (uint64_t i = 0; i < 10; i++) {
        (void)weir_bucket_take(&bucket, &limit, WEIR_UNIT, i * 100 * MS);
        (void)weir_bucket_fill(&bucket, &limit, 1, i * 100 * MS, NULL, NULL);
        (void)weir_bucket_refund(&bucket, &limit, 500, i * 100 * MS);
        assert_int_equal(bucket.word >> 40, others >> 40);
    }
    assert_decision(weir_bucket_show(&bucket, &limit, 10 * S, NULL), WEIR_ALLOWED, 3, -1, 0);
}

static void test_readings_beyond_the_last_count_as_the_last(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("1/36525d");
    struct weir_bucket bucket = {0};
    assert_decision(weir_bucket_take(&bucket, &limit, WEIR_UNIT, UINT64_MAX), WEIR_ALLOWED, 0, -1,
                    (int64_t)WEIR_SPAN_NS_MAX);
    assert_int_equal(bucket.empty_at_ns, WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX);
    assert_true(weir_bucket_valid(&bucket));
    assert_decision(weir_bucket_take(&bucket, &limit, WEIR_UNIT, WEIR_NOW_NS_MAX), WEIR_LIMITED, 0,
                    (int64_t)WEIR_SPAN_NS_MAX, (int64_t)WEIR_SPAN_NS_MAX);
    /* And at the first reading of all, the largest wait there is. */
    assert_decision(weir_bucket_take(&bucket, &limit, WEIR_UNIT, 0), WEIR_LIMITED, 0,
                    (int64_t)(WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX),
                    (int64_t)(WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX));
}

static void test_what_no_call_can_leave_is_not_valid(void **state)
{
    (void)state;
    struct weir_bucket bucket = {0};
    assert_true(weir_bucket_valid(&bucket));
    bucket.empty_at_ns = UINT64_MAX;
    assert_false(weir_bucket_valid(&bucket));
}

static void test_the_smallest_and_the_finest(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("1099511.627775/ns capacity=0.000001");
    struct weir_bucket bucket = {0};
    assert_decision(weir_bucket_take(&bucket, &limit, 1, 0), WEIR_ALLOWED, 0, -1, 1);
    assert_int_equal(bucket.empty_at_ns, 0);
    assert_int_equal(bucket.word, 1);
    assert_decision(weir_bucket_take(&bucket, &limit, 1, 0), WEIR_LIMITED, 0, 1, 1);
    assert_decision(weir_bucket_take(&bucket, &limit, 1, 1), WEIR_ALLOWED, 0, -1, 1);
}

static void test_remaining_is_rounded_down(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("1/s capacity=2.5");
    struct weir_bucket bucket = {0};
    assert_int_equal(weir_bucket_take(&bucket, &limit, 0, 0).capacity, 2);
    assert_int_equal(weir_bucket_take(&bucket, &limit, 500000, 0).remaining, 2);
    assert_int_equal(weir_bucket_take(&bucket, &limit, 1, 0).remaining, 1);
    assert_int_equal(weir_bucket_take(&bucket, &limit, 0, 999).remaining, 1);
    assert_int_equal(weir_bucket_take(&bucket, &limit, 0, 1000).remaining, 2);
}

static void test_a_shared_bucket_decides_likewise(void **state)
{
    (void)state;
    struct weir_limit limit = limit_of("7/s capacity=3");
    struct weir_shared_bucket shared = {0};
    struct weir_bucket plain = {0};
    for (uint64_t now_ns = 0; now_ns < 5 * S; now_ns += 41 * MS + 1) {
        uint64_t cost_micro = now_ns % 7 * 300000; // 0 .. 1.8
        struct weir_decision one = weir_bucket_take(&plain, &limit, cost_micro, now_ns);
        struct weir_decision two = weir_shared_bucket_take(&shared, &limit, cost_micro, now_ns);
        assert_decision(two, one.verdict, one.remaining, one.retry_after_ns, one.reset_after_ns);
        assert_same(shared.bucket, plain);
    }
}

static void test_a_limit_that_could_not_be_read_is_all_zeroes(void **state)
{
    (void)state;
    static const struct weir_limit ZEROES = {0};
    static const struct weir_limit_config TOO_FINE = {
        .count_micro = WEIR_DENOMINATOR_MAX + 2, .period_ns = 1, .capacity_micro = WEIR_UNIT};
    struct weir_limit limit;
    memset(&limit, 0xa5, sizeof limit);
    assert_int_equal(weir_limit_from_text(&limit, "10/parsec", NULL), WEIR_E_SYNTAX);
    assert_memory_equal(&limit, &ZEROES, sizeof limit);
    memset(&limit, 0xa5, sizeof limit);
    assert_int_equal(weir_limit_init(&limit, &TOO_FINE, NULL), WEIR_E_INEXACT);
    assert_memory_equal(&limit, &ZEROES, sizeof limit);
}

static void test_a_limit_of_zeroes_is_an_error(void **state)
{
    (void)state;
    static const struct weir_limit ZEROES = {0};
    static const struct weir_bucket STATES[] = {{0, 0}, {5 * S, 0}, {5 * S, 3}};
    static const uint64_t COSTS[] = {0, 1, WEIR_UNIT, WEIR_COST_MAX};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 4; j++) {
            struct weir_bucket bucket = STATES[i];
            struct weir_shared_bucket shared = {STATES[i]};
            uint64_t cost = COSTS[j];
            struct weir_amount amount;
            bool full = true;
            assert_decision(weir_bucket_take(&bucket, &ZEROES, cost, S), WEIR_FAILED, 0, -1, -1);
            assert_decision(weir_bucket_can_take(&bucket, &ZEROES, cost, S), WEIR_FAILED, 0, -1,
                            -1);
            assert_decision(weir_bucket_refund(&bucket, &ZEROES, cost, S), WEIR_FAILED, 0, -1, -1);
            assert_decision(weir_bucket_fill(&bucket, &ZEROES, cost, S, NULL, NULL), WEIR_FAILED, 0,
                            -1, -1);
            assert_decision(weir_bucket_show(&bucket, &ZEROES, S, NULL), WEIR_FAILED, 0, -1, -1);
            assert_decision(weir_bucket_fill(&bucket, &ZEROES, WEIR_UNIT, S, &amount, &full),
                            WEIR_FAILED, 0, -1, -1);
            assert_amount(amount, "1"); // all of it is spilled
            assert_false(full);
            assert_decision(weir_bucket_show(&bucket, &ZEROES, S, &amount), WEIR_FAILED, 0, -1, -1);
            assert_amount(amount, "0");
            assert_decision(weir_shared_bucket_take(&shared, &ZEROES, cost, S), WEIR_FAILED, 0, -1,
                            -1);
            assert_same(bucket, STATES[i]);
            assert_same(shared.bucket, STATES[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_the_capacity_fits_an_empty_bucket),
        cmocka_unit_test(test_a_refusal_changes_nothing),
        cmocka_unit_test(test_a_wait_is_sufficient_and_minimal),
        cmocka_unit_test(test_no_fraction_of_a_nanosecond_is_lost),
        cmocka_unit_test(test_more_than_the_capacity_is_never),
        cmocka_unit_test(test_a_cost_of_zero_is_a_read),
        cmocka_unit_test(test_can_take_answers_as_take_would),
        cmocka_unit_test(test_an_old_reading_sees_a_fuller_bucket),
        cmocka_unit_test(test_a_fill_clamps_and_tells_the_spill),
        cmocka_unit_test(test_a_spill_may_have_no_decimal),
        cmocka_unit_test(test_a_refund_stops_at_zero),
        cmocka_unit_test(test_a_refund_may_exceed_the_capacity_at_an_old_reading),
        cmocka_unit_test(test_show_tells_the_level),
        cmocka_unit_test(test_a_remainder_of_other_numbers_counts_as_one_nanosecond),
        cmocka_unit_test(test_owner_and_flags_are_left_alone),
        cmocka_unit_test(test_readings_beyond_the_last_count_as_the_last),
        cmocka_unit_test(test_what_no_call_can_leave_is_not_valid),
        cmocka_unit_test(test_the_smallest_and_the_finest),
        cmocka_unit_test(test_remaining_is_rounded_down),
        cmocka_unit_test(test_a_shared_bucket_decides_likewise),
        cmocka_unit_test(test_a_limit_that_could_not_be_read_is_all_zeroes),
        cmocka_unit_test(test_a_limit_of_zeroes_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
