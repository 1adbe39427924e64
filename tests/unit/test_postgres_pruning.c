/* SPDX-License-Identifier: MIT
 *
 * The pace of pruning: how long a server waits for its next statement. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "store/postgres/pruning.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

/* After a statement that took so long. */
static uint64_t pause_ns(enum pruning_outcome outcome, int64_t page, uint64_t took_ns,
                         uint64_t random)
{
    struct pruning pruning = {.outcome = outcome, .page = page, .sent_ns = 5 * S};
    return pruning_pause_ns(&pruning, 5 * S + took_ns, random);
}

static void test_within_a_round_others_have_nine_tenths_of_the_time(void **state)
{
    (void)state;
    assert_int_equal(pause_ns(PRUNING_WENT_ON, 16, 3 * MS, 77), 27 * MS);
    assert_int_equal(pause_ns(PRUNING_WENT_ON, 16, 100 * MS, 77), 900 * MS);
    assert_int_equal(pause_ns(PRUNING_WENT_ON, 16, 0, 77), 20 * MS);
    assert_int_equal(pause_ns(PRUNING_WENT_ON, 16, 112 * MS, 77), 1 * S);
    assert_int_equal(pause_ns(PRUNING_WENT_ON, 16, 3600 * S, 77), 1 * S);
}

static void test_it_rests_behind_a_round_beside_others_and_after_an_error(void **state)
{
    (void)state;
    assert_int_equal(pause_ns(PRUNING_WENT_ON, 0, 3 * MS, 0), 30 * S);
    assert_int_equal(pause_ns(PRUNING_OF_OTHERS, 16, 3 * MS, 0), 30 * S);
    assert_int_equal(pause_ns(PRUNING_FAILED, 16, 3 * MS, 0), 30 * S);
    assert_int_equal(pause_ns(PRUNING_FAILED, 16, 3 * MS, 15 * S - 1), 45 * S - 1);
    assert_int_equal(pause_ns(PRUNING_FAILED, 16, 3 * MS, UINT64_MAX) / (45 * S), 0);
}

static void test_the_second_look_comes_soon(void **state)
{
    (void)state;
    assert_int_equal(pause_ns(PRUNING_LOOKED, 16, 3 * MS, 0), 1 * S);
    assert_int_equal(pause_ns(PRUNING_LOOKED, 0, 3 * MS, S / 2 - 1), 3 * S / 2 - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within_a_round_others_have_nine_tenths_of_the_time),
        cmocka_unit_test(test_it_rests_behind_a_round_beside_others_and_after_an_error),
        cmocka_unit_test(test_the_second_look_comes_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
