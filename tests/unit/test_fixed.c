/* SPDX-License-Identifier: MIT
 *
 * Limits of kind fixed beside a wall clock: what they do when it is set, and when it is only read with
 * noise; and the calendar, day by day. Their arithmetic is in tests/conformance/fixed.vec. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

#include "core/kinds.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)
#define H  (3600 * S)

#define NOON (1795262400 * S) // of 2026-11-21, in UTC

/* A bucket, and the clocks it lives by: `now_ns` of the store, that is at 0 when UTC is `offset_ns`. */
struct scene {
    struct weir_limit limit;
    struct weir_bucket bucket;
    int64_t now_ns;
    int64_t offset_ns;
};

static struct scene scene_of(const char *text)
{
    struct scene scene = {.now_ns = H, .offset_ns = NOON - H};
    struct weir_error error;
    if (weir_limit_from_text(&scene.limit, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return scene;
}

static struct weir_decision take(struct scene *scene)
{
    struct weir_decision decision;
    uint64_t now_ns = (uint64_t)scene->now_ns;
    struct charge charge = charge_of(&scene->limit, WEIR_UNIT);
    charge.utc_offset_ns = scene->offset_ns;
    struct outcome outcome = kind_take(scene->bucket, &scene->limit, &charge, now_ns);
    scene->bucket = bucket_with_moment(scene->bucket, outcome.moment);
    kind_answer_take(&decision, &scene->limit, &charge, outcome, now_ns);
    return decision;
}

static void expect_allowed(struct scene *scene, int64_t reset_after_ns)
{
    struct weir_decision decision = take(scene);
    assert_int_equal(decision.verdict, WEIR_ALLOWED);
    assert_int_equal(decision.reset_after_ns, reset_after_ns);
}

static void expect_limited(struct scene *scene, int64_t retry_after_ns)
{
    struct weir_decision decision = take(scene);
    assert_int_equal(decision.verdict, WEIR_LIMITED);
    assert_int_equal(decision.retry_after_ns, retry_after_ns);
}

static void test_windows_are_those_of_utc(void **state)
{
    (void)state;
    struct scene scene = scene_of("fixed 1/h");
    expect_allowed(&scene, H);
    scene.now_ns += 20 * 60 * S;
    expect_limited(&scene, 40 * 60 * S);
    scene = scene_of("fixed 1/d");
    expect_allowed(&scene, 12 * H);
    scene = scene_of("fixed 1/w");
    expect_allowed(&scene, 36 * H); // a Saturday
    scene = scene_of("fixed 1/month");
    expect_allowed(&scene, (9 * 24 + 12) * H);
    scene = scene_of("fixed 1/year");
    expect_allowed(&scene, (31 + 9) * 24 * H + 12 * H);
}

static void test_a_window_keeps_the_end_that_it_was_opened_with(void **state)
{
    (void)state;
    struct scene scene = scene_of("fixed 2/h");
    expect_allowed(&scene, H);
    scene.now_ns += 10 * 60 * S;
    scene.offset_ns += 5 * H; // the clock was set
    expect_allowed(&scene, 50 * 60 * S);
    scene.offset_ns -= 9 * H;
    expect_limited(&scene, 50 * 60 * S);
}

static void test_a_window_that_has_ended_never_reopens(void **state)
{
    (void)state;
    struct scene scene = scene_of("fixed 1/h");
    scene.now_ns -= 60 * S; // 11:59
    expect_allowed(&scene, 60 * S);
    scene.now_ns += 120 * S;             // 12:01,
    scene.offset_ns -= 5 * 60 * S;       // or 11:56 again
    expect_allowed(&scene, 64 * 60 * S); // counts until 13:00
    scene.now_ns += 10 * 60 * S;
    expect_limited(&scene, 54 * 60 * S); // 12:06
    scene.now_ns += 54 * 60 * S;
    expect_allowed(&scene, H);
}

static void test_nor_does_it_after_a_step_over_many_windows(void **state)
{
    (void)state;
    struct scene scene = scene_of("fixed 1/min");
    int64_t last_end_ns = 0;
    for (int i = 0; i < 2000; i++) {
        scene.offset_ns += (i % 7 - 3) * 41 * S + i % 3 * 2 * H - (i % 11) * 35 * 60 * S;
        scene.now_ns += (i % 13) * 7 * S;
        if (take(&scene).verdict == WEIR_ALLOWED) {
            int64_t end_ns = (int64_t)scene.bucket.empty_at_ns;
            assert_true(end_ns - last_end_ns >= 60 * S - FIXED_TOLERANCE_NS);
            assert_in_range(end_ns - scene.now_ns, 1, 120 * S);
            last_end_ns = end_ns;
        }
    }
}

static void test_noise_costs_nobody_a_window(void **state)
{
    (void)state;
    struct scene scene = scene_of("fixed 1/s");
    int64_t utc_offset_ns = scene.offset_ns;
    expect_allowed(&scene, S); // from noon
    scene.now_ns += S;
    for (int i = 0; i < 1000; i++) {
        scene.offset_ns = utc_offset_ns + (i % 2 == 0 ? 2 * MS : -2 * MS);
        struct weir_decision decision = take(&scene);
        assert_int_equal(decision.verdict, WEIR_ALLOWED);
        assert_in_range(decision.reset_after_ns, S - 5 * MS, S + 5 * MS);
        scene.now_ns += decision.reset_after_ns;
    }
}

static void test_a_clock_before_the_epoch_is_at_it(void **state)
{
    (void)state;
    struct scene scene = scene_of("fixed 1/month");
    scene.offset_ns = -(int64_t)WEIR_SPAN_NS_MAX;
    expect_allowed(&scene, 31 * 24 * H);
    scene = scene_of("fixed 1/50year");
    scene.now_ns = WEIR_NOW_NS_MAX;
    assert_int_equal(take(&scene).verdict, WEIR_ALLOWED);
    assert_true(weir_bucket_valid(&scene.bucket));
}

static void test_every_day_is_in_its_month(void **state)
{
    (void)state;
    static const int LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t day = calendar_day_of_month(1600 * 12);
    int64_t month = 1600 * 12;
    assert_int_equal(calendar_day_of_month(1970 * 12), 0);
    for (int year = 1600; year < 2400; year++) {
        bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        for (int i = 0; i < 12; i++, month++) {
            assert_int_equal(calendar_day_of_month(month), day);
            int length = LENGTHS[i] + (i == 1 && is_leap);
            for (; length > 0; length--, day++) {
                assert_int_equal(calendar_month_of_day(day), month);
            }
        }
    }
}

static void test_its_period_is_its_longest_window(void **state)
{
    (void)state;
    for (int months = 1; months <= 600; months++) {
        char text[32];
        (void)snprintf(text, sizeof text, "fixed 1/%dmonth", months);
        struct weir_limit limit = scene_of(text).limit;
        struct fixed_window window = fixed_window_of(&limit, 0);
        int64_t longest_ns = 0;
        for (; window.begins_ns <= (int64_t)WEIR_NOW_NS_MAX;
             window = fixed_window_of(&limit, window.ends_ns)) {
            int64_t length_ns = window.ends_ns - window.begins_ns;
            longest_ns = length_ns > longest_ns ? length_ns : longest_ns;
        }
        assert_int_equal(kind_period_ns(&limit), longest_ns);
    }
    struct weir_limit weeks = scene_of("fixed 1/2w").limit;
    assert_int_equal(kind_period_ns(&weeks), 14 * 24 * H);
}

static void test_a_cost_in_parts_of_what_is_counted_is_never(void **state)
{
    (void)state;
    struct weir_limit limit;
    struct weir_bucket bucket = {0};
    struct weir_amount spill;
    bool full;
    assert_int_equal(weir_limit_from_text(&limit, "sliding 5/s", NULL), WEIR_OK);
    assert_int_equal(limit.grain_micro, WEIR_UNIT);
    assert_int_equal(weir_bucket_take(&bucket, &limit, 1, 0).verdict, WEIR_NEVER);
    assert_int_equal(weir_bucket_fill(&bucket, &limit, 1, 0, &spill, &full).verdict, WEIR_NEVER);
    assert_int_equal(weir_bucket_refund(&bucket, &limit, 1, 0).verdict, WEIR_NEVER);
    assert_int_equal(bucket.empty_at_ns | bucket.word, 0);
    assert_int_equal(spill.numerator_low, 1);
    assert_false(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_are_those_of_utc),
        cmocka_unit_test(test_a_window_keeps_the_end_that_it_was_opened_with),
        cmocka_unit_test(test_a_window_that_has_ended_never_reopens),
        cmocka_unit_test(test_nor_does_it_after_a_step_over_many_windows),
        cmocka_unit_test(test_noise_costs_nobody_a_window),
        cmocka_unit_test(test_a_clock_before_the_epoch_is_at_it),
        cmocka_unit_test(test_every_day_is_in_its_month),
        cmocka_unit_test(test_its_period_is_its_longest_window),
        cmocka_unit_test(test_a_cost_in_parts_of_what_is_counted_is_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
