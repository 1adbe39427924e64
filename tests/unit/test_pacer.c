/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/pipe/pacer.h"
#include "weir/limit.h"

#define MS    UINT64_C(1000000)
#define START (1000 * MS) // any instant

static struct pacer pacer_of(const char *text)
{
    struct weir_limit limit;
    struct pacer pacer;
    assert_int_equal(weir_limit_from_text(&limit, text, NULL), WEIR_OK);
    pacer_init(&pacer, &limit, START);
    return pacer;
}

/* One item of cost 1 leaves, so much after it is due; returns when it was due. */
static uint64_t leave(struct pacer *pacer, uint64_t arrived_ns, uint64_t late_ns)
{
    uint64_t due_ns = pacer_due_ns(pacer, WEIR_UNIT, arrived_ns);
    pacer_leave(pacer, WEIR_UNIT, arrived_ns, due_ns + late_ns);
    return due_ns;
}

static void items_leave_one_interval_apart(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 5/s capacity=10");
    for (uint64_t i = 1; i <= 20; i++) { // they come every 25 ms: the line is never empty
        uint64_t arrived_ns = START + (i - 1) * 25 * MS;
        assert_true(leave(&pacer, arrived_ns, 0) == START + i * 200 * MS);
    }
}

static void the_first_may_go_at_once(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 5/s capacity=10 first=now");
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(leave(&pacer, 0, 0) == START + i * 200 * MS);
    }
}

static void who_finds_the_line_empty_starts_it_anew(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 5/s");
    assert_true(leave(&pacer, START + 1, 0) == START + 200 * MS + 1);
    uint64_t later_ns = START + 5000 * MS;
    assert_true(leave(&pacer, later_ns, 0) == later_ns + 200 * MS);
    assert_true(leave(&pacer, later_ns + MS, 0) == later_ns + 400 * MS);
}

static void fractions_of_a_nanosecond_add_up(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 3/s");
    for (uint64_t i = 1; i <= 3000; i++) { // the exact instant, rounded up
        uint64_t exact_thirds = i * UINT64_C(1000000000);
        assert_true(leave(&pacer, 0, 0) == START + (exact_thirds + 2) / 3);
    }
}

static void cost_is_time(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 10/s");
    uint64_t cost_micro = 2500000;
    uint64_t due_ns = pacer_due_ns(&pacer, cost_micro, 0);
    assert_true(due_ns == START + 250 * MS);
    pacer_leave(&pacer, cost_micro, 0, due_ns);
    assert_true(leave(&pacer, 0, 0) == START + 350 * MS);
    assert_true(pacer_due_ns(&pacer, 0, 0)
                == START + 350 * MS); // costs nothing, and keeps its place
}

static void a_little_late_keeps_the_schedule(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 100/s");
    for (uint64_t i = 1; i <= 100; i++) {
        assert_true(leave(&pacer, 0, WEIR_JITTER_NS) == START + i * 10 * MS);
    }
}

static void a_stall_moves_the_schedule_and_nothing_is_caught_up(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 100/s");
    uint64_t due_ns = leave(&pacer, 0, WEIR_JITTER_NS + 1);
    uint64_t left_ns = due_ns + WEIR_JITTER_NS + 1;
    assert_true(leave(&pacer, 0, 0) == left_ns + 10 * MS);
    due_ns = leave(&pacer, 0, 3000 * MS);
    assert_true(leave(&pacer, 0, 0) == due_ns + 3000 * MS + 10 * MS);
    /* The same with first=now, where the moment is one interval ahead. */
    pacer = pacer_of("queue 100/s first=now");
    due_ns = leave(&pacer, 0, 3000 * MS);
    assert_true(leave(&pacer, 0, 0) == due_ns + 3000 * MS + 10 * MS);
}

static void a_blocked_reader_moves_the_schedule_too(void **state)
{
    (void)state;
    struct pacer pacer = pacer_of("queue 100/s");
    uint64_t due_ns = leave(&pacer, 0, 0);
    pacer_held(&pacer, due_ns + WEIR_JITTER_NS); // a little is nothing
    assert_true(pacer_due_ns(&pacer, WEIR_UNIT, 0) == due_ns + 10 * MS);
    pacer_held(&pacer, due_ns + 700 * MS);
    assert_true(pacer_due_ns(&pacer, WEIR_UNIT, 0) == due_ns + 710 * MS);
    pacer_held(&pacer, due_ns + 702 * MS); // counted from when it was gone
    assert_true(pacer_due_ns(&pacer, WEIR_UNIT, 0) == due_ns + 710 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_leave_one_interval_apart),
        cmocka_unit_test(the_first_may_go_at_once),
        cmocka_unit_test(who_finds_the_line_empty_starts_it_anew),
        cmocka_unit_test(fractions_of_a_nanosecond_add_up),
        cmocka_unit_test(cost_is_time),
        cmocka_unit_test(a_little_late_keeps_the_schedule),
        cmocka_unit_test(a_stall_moves_the_schedule_and_nothing_is_caught_up),
        cmocka_unit_test(a_blocked_reader_moves_the_schedule_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
