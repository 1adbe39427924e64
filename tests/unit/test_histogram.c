/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>

#include "sync/histogram.h"

static struct histogram *new_histogram(void)
{
    struct histogram *histogram = calloc(1, sizeof *histogram);
    assert_non_null(histogram);
    return histogram;
}

static void test_small_values_are_exact(void **state)
{
    (void)state;
    struct histogram *histogram = new_histogram();
    for (uint64_t value = 0; value < HISTOGRAM_STEPS; value++) {
        histogram_record(histogram, value);
    }
    assert_int_equal(histogram->count, 32);
    assert_int_equal(histogram_percentile(histogram, 50.0), 15);
    assert_int_equal(histogram_percentile(histogram, 100.0), 31);
    assert_int_equal(histogram_percentile(histogram, 0.0), 0);
    free(histogram);
}

static void test_every_value_is_known_to_a_thirty_second_of_itself(void **state)
{
    (void)state;
    struct histogram *histogram = new_histogram();
    for (uint64_t value = 1; value < UINT64_C(1) << HISTOGRAM_VALUE_BITS; value += value / 7 + 1) {
        *histogram = (struct histogram){0};
        histogram_record(histogram, value);
        histogram->max = UINT64_MAX; // so that the range itself answers
        uint64_t last = histogram_percentile(histogram, 100.0);
        assert_true(last >= value);
        assert_true(last - value <= value / HISTOGRAM_STEPS);
    }
    free(histogram);
}

static void test_values_beyond_the_largest_count_as_the_largest(void **state)
{
    (void)state;
    struct histogram *histogram = new_histogram();
    histogram_record(histogram, UINT64_MAX);
    assert_int_equal(histogram_percentile(histogram, 50.0),
                     (UINT64_C(1) << HISTOGRAM_VALUE_BITS) - 1);
    free(histogram);
}

static void test_counts_below_powers_of_two_are_exact(void **state)
{
    (void)state;
    struct histogram *histogram = new_histogram();
    for (uint64_t value = 0; value < 5000; value++) {
        histogram_record(histogram, value);
    }
    for (uint64_t bound = 1; bound <= 4096; bound *= 2) {
        assert_int_equal(histogram_count_below(histogram, bound), bound);
    }
    free(histogram);
}

static void test_merging_adds_counts_and_keeps_the_largest(void **state)
{
    (void)state;
    struct histogram *one = new_histogram();
    struct histogram *two = new_histogram();
    histogram_record_many(one, 10, 3);
    histogram_record_many(two, 20, 1);
    histogram_merge(one, two);
    assert_int_equal(one->count, 4);
    assert_int_equal(one->sum, 50);
    assert_int_equal(one->max, 20);
    assert_int_equal(histogram_percentile(one, 75.0), 10);
    assert_int_equal(histogram_percentile(one, 76.0), 20);
    free(one);
    free(two);
}

static void test_an_empty_one_answers_zero(void **state)
{
    (void)state;
    struct histogram *histogram = new_histogram();
    assert_int_equal(histogram_percentile(histogram, 99.0), 0);
    free(histogram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_values_are_exact),
        cmocka_unit_test(test_every_value_is_known_to_a_thirty_second_of_itself),
        cmocka_unit_test(test_values_beyond_the_largest_count_as_the_largest),
        cmocka_unit_test(test_counts_below_powers_of_two_are_exact),
        cmocka_unit_test(test_merging_adds_counts_and_keeps_the_largest),
        cmocka_unit_test(test_an_empty_one_answers_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
