/* SPDX-License-Identifier: MIT
 *
 * Those who stand in a queue have a place in it, and go at the instant of that: what becomes of it when
 * others leave, come late, or fill the queue meanwhile. */
#include "../support/one_line.h"

static void test_each_goes_at_its_own_egress(void **state)
{
    (void)state;
    static const char *const LIMITS[] = {"queue 3/10ns capacity=4",
                                         "queue 3/10ns capacity=4 first=now"};
    static const uint64_t COSTS[] = {UNIT, UNIT / 2, 2 * UNIT, UNIT / 2};
    /* Ends at 10/3, 5, 35/3, 40/3; begins at 0, 10/3, 5, 35/3. */
    static const uint64_t EGRESS[][4] = {{4, 5, 12, 14}, {0, 4, 5, 12}};
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_world(LIMITS[i]);
        uint64_t now_ns = world->people.now_ns;
        struct person *persons[4];
        for (int j = 0; j < 4; j++) {
            persons[j] = join(world, COSTS[j], LONG);
        }
        people_advance(&world->people, now_ns + 100);
        for (int j = 0; j < 4; j++) {
            assert_served(persons[j], EGRESS[i][j]);
        }
        close_world(world);
    }
}

/* The same instants as those that takes are told which count for themselves. */
static void test_a_place_in_line_is_the_delay_of_a_take(void **state)
{
    (void)state;
    static const char *const LIMITS[] = {"queue 7/30ms capacity=9",
                                         "queue 7/30ms capacity=9 first=now"};
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_world(LIMITS[i]);
        uint64_t now_ns = world->people.now_ns;
        struct person *persons[10];
        int64_t delays_ns[10];
        for (int j = 0; j < 10; j++) {
            struct weir_decision decision =
                people_ask_at(&world->people, &world->rule, "counted", WEIR_TAKE, UNIT, now_ns);
            delays_ns[j] = decision.verdict == WEIR_ALLOWED ? decision.delay_ns : -1;
            persons[j] = join(world, UNIT, LONG);
        }
        advance(world, 100);
        for (int j = 0; j < 10; j++) {
            if (delays_ns[j] >= 0) {
                assert_served(persons[j], (uint64_t)delays_ns[j]);
            } else {
                assert_limited(persons[j]->decision, 4285715); // 30/7 ms: a place
            }
        }
        assert_int_equal(delays_ns[9] >= 0, i == 1);
        close_world(world);
    }
}

static void test_a_full_queue_refuses_at_once(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=3");
    for (int i = 0; i < 3; i++) {
        (void)stand(world, UNIT, LONG);
    }
    assert_limited(join(world, UNIT, LONG)->decision, 10 * MS);
    assert_limited(join(world, UNIT / 2, LONG)->decision, 5 * MS);
    people_advance(&world->people, 1010 * MS - 1);
    assert_limited(join(world, UNIT, LONG)->decision, 1);
    advance(world, 10);
    (void)stand(world, UNIT, LONG);
    assert_limited(take(world, UNIT), 30 * MS); // it would have to let three go
    advance(world, 100);
    close_world(world);
}

static void test_who_would_go_too_late_is_not_charged(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=3");
    (void)stand(world, UNIT, LONG);
    assert_limited(join(world, UNIT, 20 * MS - 1)->decision, 1);
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 10 * MS);
    advance(world, 10);
    close_world(world);
}

/* With first=interval even an empty queue takes an interval, so trying again is in vain. */
static void test_a_wait_shorter_than_the_interval_is_never_enough(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=3");
    assert_int_equal(join(world, UNIT, 10 * MS - 1)->decision.verdict, WEIR_NEVER);
    struct person *first = stand(world, UNIT, 10 * MS);
    assert_int_equal(join(world, UNIT, 10 * MS - 1)->decision.verdict, WEIR_NEVER);
    assert_int_equal(join(world, UNIT, 10 * MS - 1)->decision.retry_after_ns, -1);
    struct weir_rule none = rule_of(&world->people, "queue 1/10ms capacity=3 waiting=0");
    assert_int_equal(
        people_join_at(&world->people, &none, "key", UNIT, LONG, 1000 * MS)->decision.verdict,
        WEIR_NEVER);
    advance(world, 10);
    assert_served(first, 10 * MS);
    assert_int_equal(join(world, UNIT, 10 * MS - 1)->decision.verdict, WEIR_NEVER);
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 0); // uncharged
    close_world(world);
}

/* Who leaves in front is taken over by the next one, but nobody goes in the past. */
static void test_the_next_one_goes_now_at_the_earliest(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=9");
    struct person *first = stand(world, 3 * UNIT, LONG); // at 30
    struct person *second = stand(world, UNIT, LONG);    // at 40
    struct person *third = stand(world, UNIT, LONG);     // at 50
    advance(world, 25);
    assert_true(leave(world, first)); // the second was to go at 10
    assert_served(second, 25 * MS);
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 10 * MS);
    struct person *fourth = stand(world, UNIT, LONG);
    advance(world, 100);
    assert_served(third, 35 * MS);
    assert_served(fourth, 45 * MS);
    close_world(world);
}

static void test_a_little_late_keeps_the_schedule(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=9");
    struct person *first = stand(world, UNIT, LONG);
    struct person *second = stand(world, UNIT, LONG);
    people_stall(&world->people, 1010 * MS + WEIR_JITTER_NS);
    assert_served(first, 10 * MS + WEIR_JITTER_NS);
    advance(world, 100);
    assert_served(second, 20 * MS);
    close_world(world);
}

/* A nanosecond more: the line goes on from now, and the bucket with it. */
static void test_later_than_that_nothing_is_caught_up(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=3");
    struct person *persons[3];
    for (int i = 0; i < 3; i++) {
        persons[i] = stand(world, UNIT, LONG);
    }
    uint64_t late_ns = 10 * MS + WEIR_JITTER_NS + 1;
    people_stall(&world->people, 1000 * MS + late_ns);
    assert_served(persons[0], late_ns);
    assert_true(persons[1]->stands);
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 20 * MS);
    struct person *fourth = stand(world, UNIT, LONG); // the third place
    assert_limited(join(world, UNIT, LONG)->decision, 10 * MS);
    advance(world, 100);
    assert_served(persons[1], late_ns + 10 * MS);
    assert_served(persons[2], late_ns + 20 * MS);
    assert_served(fourth, late_ns + 30 * MS);
    close_world(world);
}

static void test_a_stall_of_seconds_is_not_followed_by_a_burst(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        struct world *world =
            open_world(mode == 0 ? "queue 1/10ms capacity=8" : "queue 1/10ms capacity=8 first=now");
        for (int i = 0; i < 8; i++) {
            (void)join(world, UNIT, LONG);
        }
        advance(world, 15);
        stall(world, 3000);
        while (join(world, UNIT, LONG)->stands) {
        }
        assert_int_equal(people_stats(&world->people).waiting_count, 8);
        advance(world, 4000);
        uint64_t last_ns = 0;
        for (int i = 1; i < world->people.count - 1; i++) {
            uint64_t egress_ns = answered_after(&world->people.list[i]);
            assert_true(egress_ns - last_ns >= 10 * MS - WEIR_JITTER_NS);
            last_ns = egress_ns;
        }
        close_world(world);
    }
}

/* The first one is overdue, and one behind it leaves before anybody has looked. */
static void test_leaving_a_line_that_is_late(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=3");
    struct person *first = stand(world, UNIT, LONG);
    struct person *second = stand(world, UNIT, LONG);
    struct person *third = stand(world, UNIT, LONG);
    world->people.now_ns = 4000 * MS; // nobody was called
    assert_true(leave(world, second));
    assert_int_equal(first->decision.verdict, WEIR_ALLOWED);
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 10 * MS);
    advance(world, 4000);
    assert_served(third, 3010 * MS);
    close_world(world);
}

static void test_who_expires_in_a_late_queue(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=3");
    struct person *first = stand(world, UNIT, 10 * MS);
    struct person *second = stand(world, UNIT, 25 * MS);
    struct person *third = stand(world, UNIT, LONG);
    stall(world, 20); // ten late
    assert_served(first, 20 * MS);
    advance(world, 100);
    assert_int_equal(answered_after(second), 25 * MS);
    assert_limited(second->decision, 5 * MS); // when the third has gone
    assert_served(third, 30 * MS);
    close_world(world);
}

/* Somebody who does not wait fills it: whoever stands there keeps his instant, whoever comes later is
 * behind that. */
static void test_a_fill_is_a_gap_in_the_line(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=9");
    struct person *first = stand(world, UNIT, LONG);
    assert_int_equal(ask(world, WEIR_FILL, 2 * UNIT).verdict, WEIR_ALLOWED);
    struct person *second = stand(world, UNIT, LONG);
    struct person *third = stand(world, UNIT, LONG);
    assert_int_equal(second->decision.verdict, 0);
    advance(world, 100);
    assert_served(first, 10 * MS);
    assert_served(second, 40 * MS);
    assert_served(third, 50 * MS);
    close_world(world);
}

/* The gap stays where it was when the one behind it leaves: in the middle, and at the end. */
static void test_a_gap_outlives_who_stood_behind_it(void **state)
{
    (void)state;
    for (int is_last = 0; is_last < 2; is_last++) {
        struct world *world = open_world("queue 1/10ms capacity=9");
        struct person *first = stand(world, UNIT, LONG);
        (void)ask(world, WEIR_FILL, 2 * UNIT);
        struct person *second = stand(world, UNIT, LONG);
        struct person *third = is_last ? NULL : stand(world, UNIT, LONG);
        assert_true(leave(world, second));
        third = is_last ? stand(world, UNIT, LONG) : third;
        struct person *fourth = stand(world, UNIT, LONG);
        assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 50 * MS);
        advance(world, 100);
        assert_served(first, 10 * MS);
        assert_served(third, 40 * MS);
        assert_served(fourth, 50 * MS);
        close_world(world);
    }
}

/* The places in a queue belong to those who stand there. */
static void test_nobody_gives_back_what_others_stand_for(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=9");
    struct person *first = stand(world, UNIT, LONG);
    struct person *second = stand(world, UNIT, LONG);
    struct weir_detail detail;
    assert_int_equal(ask_in_detail(world, WEIR_REFUND, UNIT, &detail).reset_after_ns, 20 * MS);
    assert_int_equal(ask_in_detail(world, WEIR_RESET, 0, &detail).reset_after_ns, 20 * MS);
    assert_false(detail.existed); // there was nothing to give back
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 20 * MS);
    advance(world, 100);
    assert_served(first, 10 * MS);
    assert_served(second, 20 * MS);
    close_world(world);
}

/* Three are filled in before the first place, two before the second one, and one behind it. */
static struct world *open_with_fills(const char *limit, struct person *persons[2])
{
    static const uint64_t FILLS[] = {3, 2, 1};
    struct world *world = open_world(limit);
    for (int i = 0; i < 3; i++) {
        (void)ask(world, WEIR_FILL, FILLS[i] * UNIT);
        if (i < 2) {
            persons[i] = stand(world, UNIT, LONG);
        }
    }
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 80 * MS);
    return world;
}

/* The end comes back first, as without a line; then those behind move up. */
static void test_a_refund_gives_back_what_nobody_stands_for(void **state)
{
    (void)state;
    struct person *persons[2];
    struct world *world = open_with_fills("queue 1/10ms capacity=9", persons);
    assert_int_equal(ask(world, WEIR_REFUND, UNIT).reset_after_ns, 70 * MS);
    assert_limited(join(world, UNIT, 80 * MS - 1)->decision, 1); // behind the second one
    assert_int_equal(ask(world, WEIR_REFUND, UNIT).reset_after_ns, 60 * MS);
    assert_int_equal(ask(world, WEIR_REFUND, 2 * UNIT).reset_after_ns, 40 * MS);
    advance(world, 100);
    assert_served(persons[0], 30 * MS);
    assert_served(persons[1], 40 * MS);
    close_world(world);
}

static void test_a_reset_gives_back_all_that_nobody_stands_for(void **state)
{
    (void)state;
    static const char *const LIMITS[] = {"queue 1/10ms capacity=9",
                                         "queue 1/10ms capacity=9 first=now"};
    for (uint64_t i = 0; i < 2; i++) {
        struct person *persons[2];
        struct weir_detail detail;
        struct world *world = open_with_fills(LIMITS[i], persons);
        advance(world, 5); // so long of what was filled in has gone
        struct weir_decision decision = ask_in_detail(world, WEIR_RESET, 0, &detail);
        assert_true(detail.existed);
        assert_int_equal(decision.reset_after_ns, 20 * MS);
        if (i == 0) { // with first=now the first one has gone, and its cost is nobody's any longer
            (void)ask_in_detail(world, WEIR_RESET, 0, &detail);
            assert_false(detail.existed);
        }
        advance(world, 100);
        assert_served(persons[0], i == 0 ? 15 * MS : 5 * MS);
        assert_served(persons[1], i == 0 ? 25 * MS : 15 * MS);
        close_world(world);
    }
}

/* A reading of another thread lags. Nobody goes sooner after the one before for that. */
static void test_a_reset_at_an_old_reading_leaves_the_interval(void **state)
{
    (void)state;
    struct world *world = open_world("queue 1/10ms capacity=9");
    struct person *first = stand(world, UNIT, LONG);
    (void)ask(world, WEIR_FILL, 3 * UNIT);
    struct person *second = stand(world, UNIT, LONG); // behind them
    struct person *third = stand(world, UNIT, LONG);
    advance(world, 11);
    assert_served(first, 10 * MS);
    (void)people_ask_at(&world->people, &world->rule, "key", WEIR_RESET, 0, 1005 * MS);
    advance(world, 100);
    assert_served(second, 20 * MS);
    assert_served(third, 30 * MS);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_goes_at_its_own_egress),
        cmocka_unit_test(test_a_place_in_line_is_the_delay_of_a_take),
        cmocka_unit_test(test_a_full_queue_refuses_at_once),
        cmocka_unit_test(test_who_would_go_too_late_is_not_charged),
        cmocka_unit_test(test_a_wait_shorter_than_the_interval_is_never_enough),
        cmocka_unit_test(test_the_next_one_goes_now_at_the_earliest),
        cmocka_unit_test(test_a_little_late_keeps_the_schedule),
        cmocka_unit_test(test_later_than_that_nothing_is_caught_up),
        cmocka_unit_test(test_a_stall_of_seconds_is_not_followed_by_a_burst),
        cmocka_unit_test(test_leaving_a_line_that_is_late),
        cmocka_unit_test(test_who_expires_in_a_late_queue),
        cmocka_unit_test(test_a_fill_is_a_gap_in_the_line),
        cmocka_unit_test(test_a_gap_outlives_who_stood_behind_it),
        cmocka_unit_test(test_nobody_gives_back_what_others_stand_for),
        cmocka_unit_test(test_a_refund_gives_back_what_nobody_stands_for),
        cmocka_unit_test(test_a_reset_gives_back_all_that_nobody_stands_for),
        cmocka_unit_test(test_a_reset_at_an_old_reading_leaves_the_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
