/* SPDX-License-Identifier: MIT
 *
 * When those who stand in line are let in, to the nanosecond, under limits that refuse: each as its kind
 * drains. Queues: test_lines_queue.c. */
#include "../support/one_line.h"

#include <stdio.h>

/* ---- a bucket ---- */

/* Not even where it would fit: the small one behind a large one. */
static void test_a_large_cost_is_not_overtaken(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=3");
    assert_int_equal(take(world, 2 * UNIT).verdict, WEIR_ALLOWED);
    struct person *large = stand(world, 3 * UNIT, LONG);
    struct person *small = stand(world, UNIT, LONG);
    assert_limited(take(world, UNIT), 40 * MS);
    advance(world, 100);
    assert_served(large, 20 * MS);
    assert_served(small, 30 * MS);
    close_world(world);
}

static void test_several_go_at_once_where_several_fit(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=3");
    assert_int_equal(take(world, 3 * UNIT).verdict, WEIR_ALLOWED);
    struct person *persons[5];
    for (int i = 0; i < 5; i++) {
        persons[i] = stand(world, i == 0 ? 3 * UNIT : UNIT, LONG);
    }
    stall(world, 55); // for the first and 2.5 more
    for (int i = 1; i < 5; i++) {
        assert_true(persons[i]->stands);
    }
    assert_served(persons[0], 55 * MS);
    advance(world, 200);
    assert_served(persons[4], 95 * MS);
    world->people.count = 0;
    assert_int_equal(take(world, 3 * UNIT).verdict, WEIR_ALLOWED); // at 200
    for (int i = 0; i < 3; i++) {
        persons[i] = stand(world, UNIT, LONG);
    }
    stall(world, 225);
    assert_served(persons[0], 225 * MS);
    assert_served(persons[1], 225 * MS);
    assert_true(persons[2]->stands);
    advance(world, 230);
    assert_served(persons[2], 230 * MS);
    close_world(world);
}

static void test_a_refund_or_a_reset_lets_the_head_go(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=2");
    assert_int_equal(take(world, 2 * UNIT).verdict, WEIR_ALLOWED);
    struct person *first = stand(world, UNIT, LONG);
    struct person *second = stand(world, UNIT, LONG);
    struct person *third = stand(world, 2 * UNIT, LONG);
    assert_int_equal(ask(world, WEIR_REFUND, UNIT / 2).verdict, WEIR_ALLOWED);
    assert_int_equal(first->due_ns, 1005 * MS);
    assert_int_equal(ask(world, WEIR_REFUND, UNIT / 2).verdict, WEIR_ALLOWED);
    assert_served(first, 0);
    assert_true(second->stands);
    assert_int_equal(ask(world, WEIR_RESET, 0).verdict, WEIR_ALLOWED);
    assert_served(second, 0);
    assert_true(third->stands);
    advance(world, 10);
    assert_served(third, 10 * MS);
    close_world(world);
}

static void test_a_fill_makes_the_head_wait_for_longer(void **state)
{
    (void)state;
    struct world *world = open_full("1/10ms capacity=1");
    struct person *first = stand(world, UNIT, LONG);
    advance(world, 6);
    assert_int_equal(ask(world, WEIR_FILL, UNIT).verdict, WEIR_ALLOWED); // to the brim
    assert_limited(take(world, UNIT), 20 * MS);
    advance(world, 20);
    assert_served(first, 16 * MS);
    close_world(world);
}

/* Told when it would pass behind the others; and not a nanosecond before the deadline. */
static void test_limited_at_the_deadline(void **state)
{
    (void)state;
    struct world *world = open_full("1/10ms capacity=1");
    struct person *first = stand(world, UNIT, 12 * MS);
    struct person *second = stand(world, UNIT, 21 * MS);
    struct person *third = stand(world, UNIT, LONG);
    advance(world, 6);
    (void)ask(world, WEIR_FILL, UNIT); // first at 16, second at 26, third at 36
    people_advance(&world->people, 1012 * MS - 1);
    assert_true(first->stands);
    advance(world, 12);
    assert_int_equal(answered_after(first), 12 * MS);
    assert_limited(first->decision, 24 * MS); // behind the two who stay
    people_advance(&world->people, 1036 * MS);
    assert_served(second, 16 * MS);
    assert_served(third, 26 * MS);
    assert_int_equal(people_stats(&world->people).expired_count, 1);
    close_world(world);
}

/* One in the middle, whose turn is far away. */
static void test_a_deadline_behind_the_head(void **state)
{
    (void)state;
    struct world *world = open_full("1/10ms capacity=1");
    struct person *first = stand(world, UNIT, LONG);
    struct person *second = stand(world, UNIT, 20 * MS);
    struct person *third = stand(world, UNIT, LONG);
    for (int i = 0; i < 3; i++) { // every 5 ms back to the brim
        advance(world, (uint64_t)i * 5);
        (void)ask(world, WEIR_FILL, UNIT);
    }
    advance(world, 40);
    assert_served(first, 20 * MS);
    assert_int_equal(answered_after(second), 20 * MS);
    assert_limited(second->decision, 20 * MS); // at 30 the third goes, at 40 it would
    assert_served(third, 30 * MS);
    close_world(world);
}

/* A third of a nanosecond is lost wherever a cost is all of the bucket: 10/3 ns last until the reading of
 * 4, and the bucket is empty by then. */
static void test_a_line_is_counted_with_its_fractions(void **state)
{
    (void)state;
    struct world *world = open_full("3/10ns capacity=1");
    uint64_t now_ns = world->people.now_ns;
    struct person *persons[3];
    for (int i = 0; i < 3; i++) {
        assert_limited(join(world, UNIT, (uint64_t)(i + 1) * 4 - 1)->decision, 1);
        persons[i] = stand(world, UNIT, (uint64_t)(i + 1) * 4);
    }
    assert_limited(take(world, UNIT), 16);
    assert_limited(take(world, UNIT / 2), 14); // 12 + 10/3 - 5/3, rounded up
    people_advance(&world->people, now_ns + 20);
    for (int i = 0; i < 3; i++) {
        assert_served(persons[i], (uint64_t)(i + 1) * 4);
    }
    close_world(world);
}

/* The line is walked through: whole ones, and others between them. */
static void test_a_mixed_line_is_counted_likewise(void **state)
{
    (void)state;
    struct world *world = open_full("3/10ns capacity=1");
    uint64_t now_ns = world->people.now_ns;
    struct person *persons[4];
    for (int i = 0; i < 4; i++) {
        persons[i] = stand(world, i % 2 == 0 ? UNIT : UNIT / 2, LONG);
    }
    /* 4; 4 + 5/3 -> 6, full at 4 + 5 = 9; 9 + ... */
    uint64_t retry_ns = (uint64_t)take(world, UNIT).retry_after_ns;
    people_advance(&world->people, now_ns + retry_ns - 1);
    assert_limited(take(world, UNIT), 1);
    people_advance(&world->people, now_ns + retry_ns);
    assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    assert_served(persons[0], 4);
    assert_served(persons[1], 6);
    close_world(world);
}

/* ---- stepped, windows, the calendar ---- */

/* What drains at the end of a period, and is not there to be drained, is lost: so those who wait are gone
 * through one by one to say when another take fits. */
static void test_a_stepped_line_goes_by_periods(void **state)
{
    (void)state;
    struct world *world = open_world("stepped 4/10ms capacity=5");
    assert_int_equal(take(world, 3 * UNIT).verdict, WEIR_ALLOWED);
    struct person *whole = stand(world, 5 * UNIT, LONG);   // at 10 ms, when it is empty
    struct person *one = stand(world, UNIT, LONG);         // at 20 ms: 5 - 4 + 1
    struct person *two = stand(world, 2 * UNIT, LONG);     // at 20 ms as well: 4
    struct person *many = stand(world, 4 * UNIT, 30 * MS); // at 30 ms: 4 - 4 + 4
    assert_limited(join(world, UNIT, 30 * MS - 1)->decision, 1);
    assert_limited(take(world, 2 * UNIT), 40 * MS); // there is room for one at 30 ms
    assert_limited(take(world, UNIT), 30 * MS);
    advance(world, 29);
    assert_limited(take(world, 2 * UNIT), 11 * MS);
    advance(world, 40);
    assert_served(whole, 10 * MS);
    assert_served(one, 20 * MS);
    assert_served(two, 20 * MS);
    assert_served(many, 30 * MS);
    assert_int_equal(take(world, 2 * UNIT).verdict, WEIR_ALLOWED);
    close_world(world);
}

static void test_who_leaves_a_stepped_line_lets_the_others_up(void **state)
{
    (void)state;
    struct world *world = open_world("stepped 2/10ms capacity=2");
    assert_int_equal(take(world, 2 * UNIT).verdict, WEIR_ALLOWED);
    struct person *first = stand(world, 2 * UNIT, LONG);
    struct person *second = stand(world, UNIT, 12 * MS + 20 * MS);
    assert_limited(join(world, 2 * UNIT, 15 * MS)->decision, 15 * MS);
    assert_true(leave(world, first));
    assert_limited(take(world, 2 * UNIT), 20 * MS);
    advance(world, 50);
    assert_served(second, 10 * MS);
    close_world(world);
}

/* Each event leaves 10 ms after it came, and so do those of the ones who go meanwhile. */
static void test_a_line_of_a_window_goes_as_events_leave(void **state)
{
    (void)state;
    struct world *world = open_world("window 4/10ms");
    assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    advance(world, 2);
    assert_int_equal(take(world, 3 * UNIT).verdict, WEIR_ALLOWED);
    struct person *first = stand(world, 2 * UNIT, LONG);    // at 12 ms: one has left at 10 ms
    struct person *second = stand(world, UNIT, LONG);       // at 12 ms too, though it fits at 10
    struct person *third = stand(world, 3 * UNIT, 20 * MS); // at 22 ms
    struct person *fourth = stand(world, UNIT, 20 * MS);    // at 22 ms
    assert_limited(join(world, UNIT, 30 * MS - 1)->decision, 1); // at 32 ms
    assert_limited(take(world, UNIT), 30 * MS);
    advance(world, 11);
    assert_limited(take(world, UNIT), 21 * MS);
    advance(world, 40);
    assert_served(first, 12 * MS);
    assert_served(second, 12 * MS);
    assert_served(third, 22 * MS);
    assert_served(fourth, 22 * MS);
    assert_int_equal(take(world, 4 * UNIT).verdict, WEIR_ALLOWED);
    close_world(world);
}

static void test_who_leaves_the_line_of_a_window_lets_the_others_up(void **state)
{
    (void)state;
    struct world *world = open_world("window 2/10ms waiting=2");
    assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    advance(world, 5);
    assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    struct person *first = stand(world, 2 * UNIT, LONG);        // at 15 ms
    struct person *second = stand(world, UNIT, 20 * MS);        // at 25 ms, and then at 10 ms
    assert_limited(join(world, UNIT, LONG)->decision, 10 * MS); // when there is a place
    assert_limited(take(world, UNIT), 20 * MS);
    assert_true(leave(world, first));
    assert_limited(take(world, UNIT), 10 * MS);
    advance(world, 50);
    assert_served(second, 10 * MS);
    close_world(world);
}

/* As without a line: what a fill spills, and whether there was anything that a reset has emptied. */
static void test_a_change_beside_a_line_says_what_it_did(void **state)
{
    (void)state;
    static const char *const LIMITS[] = {"10/1s", "stepped 10/1s", "window 10/1s", "sliding 10/1s",
                                         "fixed 10/1min"};
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct world *world = open_world(LIMITS[i]);
        struct weir_detail detail;
        assert_int_equal(take(world, 7 * UNIT).verdict, WEIR_ALLOWED);
        struct person *waits = stand(world, 10 * UNIT, LONG);
        assert_int_equal(ask_in_detail(world, WEIR_FILL, 5 * UNIT, &detail).remaining, 0);
        assert_int_equal(detail.amount.numerator_low, 2 * detail.amount.denominator_low);
        assert_int_equal(detail.amount.numerator_high | detail.amount.denominator_high, 0);
        assert_true(detail.full);
        assert_true(waits->stands);
        (void)ask_in_detail(world, WEIR_RESET, 0, &detail);
        assert_true(detail.existed);
        assert_int_equal(detail.amount.numerator_low, 0);
        assert_served(waits, 0);
        close_world(world);
    }
}

/* All memory for events is in use when its own log needs more: it is told so, or let go uncounted, as its own
 * on_full says, and not called for ever. */
static void test_the_head_of_a_window_finds_no_room_for_its_event(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct world *world = open_world("window 200/10ms");
    const struct weir_rule other = rule_of(&world->people, "window 1/1h");
    struct person *persons[COUNT];
    char key[16];
    for (uint64_t i = 0; i < 200; i++) {
        people_advance(&world->people, 1000 * MS + i * 50000);
        assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    }
    enum weir_verdict verdict = WEIR_ALLOWED;
    for (int i = 0; verdict == WEIR_ALLOWED; i++) {
        (void)snprintf(key, sizeof key, "other%d", i);
        uint64_t now_ns = world->people.now_ns;
        verdict =
            (enum weir_verdict)people_ask_at(&world->people, &other, key, WEIR_TAKE, UNIT, now_ns)
                .verdict;
    }
    assert_int_equal(verdict, WEIR_FAILED);
    for (int i = 0; i < COUNT; i++) {
        const char *limit = i % 2 == 0 ? "window 200/10ms" : "window 200/10ms on_full=allow";
        persons[i] = stand_under(world, limit, UNIT, LONG);
    }
    advance(world, 20);
    int failed_count = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(answered_after(persons[i]) <= 10 * MS + (uint64_t)i * 50000);
        failed_count += persons[i]->decision.verdict == WEIR_FAILED;
        assert_true(i % 2 == 0 || persons[i]->decision.verdict == WEIR_ALLOWED);
    }
    assert_true(failed_count > 0 && failed_count < COUNT / 2);
    close_world(world);
}

/* Windows of 10 ms that end at whole tens: the world begins at 1000 ms. */
static void test_a_line_of_a_fixed_limit_goes_by_the_calendar(void **state)
{
    (void)state;
    struct world *world = open_world("fixed 4/10ms");
    assert_int_equal(take(world, 3 * UNIT).verdict, WEIR_ALLOWED);
    struct person *first = stand(world, 2 * UNIT, LONG);    // at 10 ms
    struct person *second = stand(world, UNIT, LONG);       // at 10 ms too, though it would fit now
    struct person *third = stand(world, 4 * UNIT, 20 * MS); // at 20 ms
    assert_limited(join(world, UNIT, 30 * MS - 1)->decision, 1);
    assert_limited(take(world, UNIT), 30 * MS);
    advance(world, 25);
    assert_served(first, 10 * MS);
    assert_served(second, 10 * MS);
    assert_served(third, 20 * MS);
    assert_limited(take(world, UNIT), 5 * MS);
    close_world(world);
}

static void test_a_line_of_a_sliding_limit_waits_until_enough_has_faded(void **state)
{
    (void)state;
    struct world *world = open_world("sliding 4/10ms");
    assert_int_equal(take(world, 4 * UNIT).verdict, WEIR_ALLOWED);
    struct person *first = stand(world, UNIT, LONG);      // at 12.5 ms, a quarter of 4 later
    struct person *second = stand(world, 2 * UNIT, LONG); // at 17.5 ms: 4 * 0.25 + 1 + 2
    assert_limited(join(world, 4 * UNIT, 30 * MS - 1)->decision, 1); // when all has faded
    advance(world, 30);
    assert_served(first, 12 * MS + 500000);
    assert_served(second, 17 * MS + 500000);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_cost_is_not_overtaken),
        cmocka_unit_test(test_several_go_at_once_where_several_fit),
        cmocka_unit_test(test_a_refund_or_a_reset_lets_the_head_go),
        cmocka_unit_test(test_a_fill_makes_the_head_wait_for_longer),
        cmocka_unit_test(test_limited_at_the_deadline),
        cmocka_unit_test(test_a_deadline_behind_the_head),
        cmocka_unit_test(test_a_line_is_counted_with_its_fractions),
        cmocka_unit_test(test_a_mixed_line_is_counted_likewise),
        cmocka_unit_test(test_a_stepped_line_goes_by_periods),
        cmocka_unit_test(test_who_leaves_a_stepped_line_lets_the_others_up),
        cmocka_unit_test(test_a_line_of_a_window_goes_as_events_leave),
        cmocka_unit_test(test_who_leaves_the_line_of_a_window_lets_the_others_up),
        cmocka_unit_test(test_a_change_beside_a_line_says_what_it_did),
        cmocka_unit_test(test_the_head_of_a_window_finds_no_room_for_its_event),
        cmocka_unit_test(test_a_line_of_a_fixed_limit_goes_by_the_calendar),
        cmocka_unit_test(test_a_line_of_a_sliding_limit_waits_until_enough_has_faded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
