/* SPDX-License-Identifier: MIT
 *
 * What a line promises, one promise at a time, in the real table on a clock of the test's own: for a bucket
 * and for a queue. What is each kind's own: test_lines_kinds.c and test_lines_queue.c; all of it at once
 * and at random: tests/property/property_lines.c. */
#include "../support/one_line.h"

#include <stdio.h>
#include <unistd.h>

#include "limiter/limiter_state.h"
#include "limiter/lines/line.h"
#include "limiter/shared_lines/shared_room.h"

static const char *const KINDS[] = {"1/10ms capacity=1", "queue 1/10ms capacity=4 first=now"};

static void test_the_first_to_come_goes_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(KINDS[i]);
        struct person *persons[4];
        for (int j = 0; j < 4; j++) {
            persons[j] = stand(world, UNIT, LONG);
        }
        advance(world, 100);
        for (int j = 0; j < 4; j++) {
            assert_served(persons[j], (uint64_t)(j + 1) * 10 * MS);
            assert_int_equal(persons[j]->answer_number, j + 1);
        }
        assert_int_equal(people_stats(&world->people).served_count, 4);
        close_world(world);
    }
}

static void test_who_fits_does_not_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_world(KINDS[i]);
        assert_served(join(world, UNIT, LONG), 0);
        assert_false(is_marked(world));
        close_world(world);
    }
}

/* And not a nanosecond later, nor a nanosecond earlier. */
static void test_nobody_overtakes_without_waiting(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(KINDS[i]);
        (void)stand(world, UNIT, LONG);
        (void)stand(world, UNIT, LONG);
        uint64_t pass_ns =
            i == 0 ? 30 * MS : 20 * MS; // in the queue it has a place of its own then
        assert_limited(take(world, UNIT), pass_ns);
        assert_limited(ask(world, WEIR_CAN_TAKE, UNIT), pass_ns);
        people_advance(&world->people, 1000 * MS + pass_ns - 1);
        assert_limited(take(world, UNIT), 1);
        people_advance(&world->people, 1000 * MS + pass_ns);
        assert_int_equal(ask(world, WEIR_CAN_TAKE, UNIT).verdict, WEIR_ALLOWED);
        assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
        close_world(world);
    }
}

static void test_what_charges_nothing_is_answered_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(KINDS[i]);
        struct person *waits = stand(world, UNIT, LONG);
        assert_served(join(world, 0, LONG), 0);
        assert_int_equal(take(world, 0).verdict, WEIR_ALLOWED);
        assert_int_equal(join(world, 5 * UNIT, LONG)->decision.verdict, WEIR_NEVER);
        assert_int_equal(take(world, 5 * UNIT).verdict, WEIR_NEVER);
        assert_int_equal(ask(world, WEIR_SHOW, 0).verdict, WEIR_ALLOWED);
        assert_true(is_marked(world));
        assert_true(leave(world, waits));
        assert_served(join(world, 0, LONG), 0);
        assert_int_equal(join(world, 5 * UNIT, LONG)->decision.verdict, WEIR_NEVER);
        close_world(world);
    }
}

/* A wait that is a nanosecond too short is refused, and told which one lacks. */
static void test_who_would_come_too_late_does_not_stand(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(KINDS[i]);
        assert_limited(join(world, UNIT, 10 * MS - 1)->decision, 1);
        assert_false(is_marked(world));
        (void)stand(world, UNIT, 10 * MS);
        assert_limited(join(world, UNIT, 12 * MS)->decision, 8 * MS);
        assert_limited(join(world, UNIT, 20 * MS - 1)->decision, 1);
        struct person *just = stand(world, UNIT, 20 * MS);
        assert_int_equal(people_stats(&world->people).late_count, 3);
        assert_int_equal(people_stats(&world->people).waiting_count, 2);
        advance(world, 20);
        assert_served(just, 20 * MS);
        close_world(world);
    }
}

static void test_so_many_may_wait_for_one_bucket(void **state)
{
    (void)state;
    static const char *const BOUNDED[] = {"1/10ms capacity=1 waiting=2",
                                          "queue 1/10ms capacity=4 first=now waiting=2"};
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(BOUNDED[i]);
        (void)stand(world, UNIT, LONG);
        (void)stand(world, UNIT, LONG);
        assert_limited(join(world, UNIT, LONG)->decision, 10 * MS);
        assert_limited(join(world, UNIT, 15 * MS)->decision, 15 * MS); // late, even with a place
        assert_int_equal(people_stats(&world->people).full_count, 1);
        people_advance(&world->people, 1010 * MS - 1);
        assert_limited(join(world, UNIT, LONG)->decision, 1);
        advance(world, 10);
        (void)stand(world, UNIT, LONG);
        advance(world, 100);
        close_world(world);
    }
}

/* waiting= is policy, so those who stand there may have come with another. */
static void test_each_request_has_its_own_bound(void **state)
{
    (void)state;
    static const char *const BOUNDED[][3] = {{"1/10ms capacity=1 waiting=3",
                                              "1/10ms capacity=1 waiting=0",
                                              "1/10ms capacity=1 waiting=1"},
                                             {"queue 1/10ms capacity=4 first=now waiting=3",
                                              "queue 1/10ms capacity=4 first=now waiting=0",
                                              "queue 1/10ms capacity=4 first=now waiting=1"}};
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(BOUNDED[i][0]);
        for (int j = 0; j < 3; j++) {
            (void)stand(world, UNIT, LONG);
        }
        uint64_t now_ns = world->people.now_ns;
        struct weir_rule none = rule_of(&world->people, BOUNDED[i][1]);
        struct weir_rule one = rule_of(&world->people, BOUNDED[i][2]);
        assert_limited(people_join_at(&world->people, &none, "key", UNIT, LONG, now_ns)->decision,
                       40 * MS);
        assert_limited(people_join_at(&world->people, &one, "key", UNIT, LONG, now_ns)->decision,
                       40 * MS); // enough: it would find a place after 30
        advance(world, 40);
        assert_int_equal(
            people_join_at(&world->people, &none, "key", UNIT, LONG, 1040 * MS)->decision.verdict,
            WEIR_ALLOWED);
        close_world(world);
    }
}

static void test_so_many_may_wait_in_all(void **state)
{
    (void)state;
    static struct people people;
    people_open(&people, WEIR_MEMORY_BYTES_MIN, 2);
    struct weir_rule rule = rule_of(&people, KINDS[0]);
    static const char *const KEYS[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        (void)people_ask_at(&people, &rule, KEYS[i], WEIR_TAKE, UNIT, 0);
        assert_true(people_join_at(&people, &rule, KEYS[i], UNIT, LONG, 0)->stands == (i < 2));
    }
    assert_limited(people.list[2].decision, 10 * MS);
    assert_int_equal(people_stats(&people).line_count, 2);
    assert_int_equal(count_marks(&people), 2);
    people_advance(&people, 20 * MS);
    people_close(&people);
}

/* Five stand there. Whoever leaves, those behind move up, and those before do not. */
static void test_who_leaves_gives_the_place_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (int leaver = 0; leaver < 3; leaver++) {
            struct world *world = open_full(KINDS[i]);
            struct person *persons[3];
            for (int j = 0; j < 3; j++) {
                persons[j] = stand(world, UNIT, LONG);
            }
            advance(world, 5);
            assert_true(leave(world, persons[leaver]));
            assert_false(leave(world, persons[leaver]));
            advance(world, 100);
            uint64_t after_ns = 0;
            for (int j = 0; j < 3; j++) {
                after_ns += j != leaver ? 10 * MS : 0;
                if (j != leaver) {
                    assert_served(persons[j], after_ns);
                }
            }
            assert_int_equal(people_stats(&world->people).left_count, 1);
            close_world(world);
        }
    }
}

static void test_a_place_behind_is_free_when_somebody_left(void **state)
{
    (void)state;
    struct world *world = open_full(KINDS[0]);
    (void)stand(world, UNIT, LONG);
    struct person *second = stand(world, UNIT, LONG);
    assert_true(leave(world, second));
    struct person *third = stand(world, UNIT, 20 * MS);
    advance(world, 20);
    assert_served(third, 20 * MS);
    close_world(world);
}

static void test_who_was_answered_cannot_leave(void **state)
{
    (void)state;
    struct world *world = open_full(KINDS[0]);
    struct person *person = stand(world, UNIT, LONG);
    advance(world, 10);
    assert_false(leave(world, person));
    assert_served(person, 10 * MS);
    close_world(world);
}

/* The mark goes with the last one, in whatever way he goes. */
static void test_the_mark_goes_with_the_last_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(KINDS[i]);
        assert_false(is_marked(world));
        (void)stand(world, UNIT, LONG);
        assert_true(is_marked(world));
        advance(world, 10); // served
        assert_false(is_marked(world));
        assert_true(leave(world, stand(world, UNIT, LONG)));
        assert_false(is_marked(world));
        (void)join(world, UNIT, 1); // too late
        assert_false(is_marked(world));
        close_world(world);
    }
    struct world *world = open_full(KINDS[0]);
    (void)stand(world, UNIT, 15 * MS);
    advance(world, 5);
    (void)ask(world, WEIR_FILL, UNIT);
    advance(world, 15); // its deadline
    assert_false(is_marked(world));
    (void)stand(world, UNIT, 15 * MS);
    (void)ask(world, WEIR_RESET, 0);
    assert_false(is_marked(world));
    close_world(world);
}

/* The bucket drains, another key wants its slot, and somebody still waits for it. */
static void test_a_bucket_with_a_line_is_not_forgotten(void **state)
{
    (void)state;
    struct world *world = open_full(KINDS[0]);
    struct person *person = stand(world, UNIT, LONG);
    uint64_t late_ns = 2000 * MS; // nobody has looked meanwhile
    for (int i = 0; i < 4096; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        struct weir_decision other = people_ask_at(&world->people, &world->rule, key, WEIR_TAKE,
                                                   UNIT, late_ns + (uint64_t)i * 20 * MS);
        assert_true(other.verdict != WEIR_LIMITED);
    }
    assert_true(is_marked(world));
    stall(world, 1000);
    assert_served(person, 1000 * MS);
    close_world(world);
}

/* ---- what is rare ---- */

/* Every slot of the table holds a live bucket. */
static void fill_table(struct world *world, const struct weir_rule *rule)
{
    int full_count = 0;
    for (int i = 0; full_count < 2048; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        full_count +=
            people_ask_at(&world->people, rule, key, WEIR_TAKE, UNIT, world->people.now_ns).verdict
            == WEIR_FAILED;
    }
}

static void test_where_there_is_no_room_for_the_bucket(void **state)
{
    (void)state;
    static const struct {
        const char *limit;
        enum weir_verdict verdict;
    } CASES[] = {
        {"1/10ms capacity=1", WEIR_FAILED},
        {"1/10ms capacity=1 on_full=allow", WEIR_ALLOWED},
        {"queue 1/10ms capacity=9", WEIR_FAILED},
        {"queue 1/10ms capacity=9 on_full=allow", WEIR_ALLOWED},
        {"queue 1/10ms capacity=9 first=now on_full=allow", WEIR_ALLOWED},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct world *world = open_world(CASES[i].limit);
        struct weir_rule other = rule_of(&world->people, "1/h capacity=1");
        fill_table(world, &other);
        struct weir_limiter_stats before;
        struct weir_limiter_stats after;
        weir_limiter_stats(world->people.limiter, &before);
        for (int j = 0; j < 8; j++) { // of so many keys at least one has no room
            char key[16];
            (void)snprintf(key, sizeof key, "new %d", j);
            struct person *person =
                people_join_at(&world->people, &world->rule, key, UNIT, LONG, world->people.now_ns);
            if (!person->stands) {
                assert_int_equal(person->decision.verdict, CASES[i].verdict);
            }
        }
        weir_limiter_stats(world->people.limiter, &after);
        assert_true(after.full_count > before.full_count);
        advance(world, 1000);
        close_world(world);
    }
}

/* A named bucket keeps its line when its numbers change; the line keeps the numbers it began with. */
static void test_the_numbers_change_while_somebody_waits(void **state)
{
    (void)state;
    for (int is_queue = 0; is_queue < 2; is_queue++) {
        struct world *world = open_world("1/s");
        struct weir_limit before;
        struct weir_limit after;
        assert_int_equal(
            weir_limit_from_text(&before,
                                 is_queue ? "queue 1/10ms capacity=5" : "1/10ms capacity=1", NULL),
            WEIR_OK);
        assert_int_equal(
            weir_limit_from_text(&after, is_queue ? "queue 7/30ns capacity=5" : "7/30ns capacity=5",
                                 NULL),
            WEIR_OK);
        struct weir_rule rules[2];
        weir_rule_init_named(&rules[0], world->people.limiter, &before, "name", 4);
        weir_rule_init_named(&rules[1], world->people.limiter, &after, "name", 4);
        world->rule = rules[0];
        if (!is_queue) {
            (void)take(world, UNIT);
        }
        struct person *first = stand(world, UNIT, LONG);
        world->rule = rules[1];
        struct person *second = stand(world, UNIT, LONG);
        assert_int_equal(take(world, UNIT).verdict, WEIR_LIMITED);
        struct person *third = stand(world, UNIT, LONG);
        assert_true(leave(world, second));
        advance(world, 100);
        assert_served(first, 10 * MS);
        assert_served(third, 20 * MS);
        close_world(world);
    }
}

/* As a thread's clock may be. It sees a fuller bucket, and the others' instants stay. */
static void test_an_older_reading(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = open_full(KINDS[i]);
        struct person *first = stand(world, UNIT, LONG);
        uint64_t old_ns = world->people.now_ns - 3 * MS;
        struct person *second =
            people_join_at(&world->people, &world->rule, "key", UNIT, 23 * MS, old_ns);
        assert_true(second->stands);
        assert_limited(
            people_join_at(&world->people, &world->rule, "key", UNIT, 33 * MS - 1, old_ns)
                ->decision,
            1);
        advance(world, 100);
        assert_served(first, 10 * MS);
        assert_served(second, 20 * MS);
        close_world(world);
    }
}

static void test_many_lines(void **state)
{
    (void)state;
    static struct people people;
    people_open(&people, 4 << 20, 0);
    struct weir_rule rule = rule_of(&people, KINDS[0]);
    static struct person persons[500];
    static const struct waiter_ops OPS = {.schedule = note_due, .answer = note_answer};
    for (int i = 0; i < 500; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        (void)people_ask_at(&people, &rule, key, WEIR_TAKE, UNIT, 0);
        struct weir_request request = request_of(&rule, key, WEIR_TAKE, UNIT);
        persons[i] = (struct person){.waiter.ops = &OPS, .people = &people, .stands = true};
        assert_true(lines_join(people.limiter->lines, &persons[i].waiter, &request, 1, LONG, 0,
                               &persons[i].decision));
    }
    assert_int_equal(people_stats(&people).line_count, 500);
    assert_int_equal(count_marks(&people), 500);
    for (int i = 0; i < 500; i++) {
        if (i % 2 == 0) {
            assert_true(person_leave_at(&persons[i], 0));
        }
    }
    for (int i = 1; i < 500; i += 2) {
        people.now_ns = 10 * MS;
        call_person(&people, &persons[i]);
        assert_int_equal(persons[i].decision.verdict, WEIR_ALLOWED);
    }
    people_close(&people);
}

/* Also one who stands in a queue whose key was blocked meanwhile. */
static void test_show_says_how_many_wait(void **state)
{
    (void)state;
    static const char *const LIMITS[] = {"1/10ms capacity=1", "queue 1/10ms capacity=4 first=now",
                                         "window 1/10ms"};
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct world *world = open_full(LIMITS[i]);
        struct weir_detail detail;
        (void)ask_in_detail(world, WEIR_SHOW, 0, &detail);
        assert_int_equal(detail.waiting, 0);
        (void)stand(world, UNIT, LONG);
        (void)stand(world, UNIT, LONG);
        (void)ask_in_detail(world, WEIR_SHOW, 0, &detail);
        assert_int_equal(detail.waiting, 2);
        advance(world, 10);
        (void)ask_in_detail(world, WEIR_SHOW, 0, &detail);
        assert_int_equal(detail.waiting, 1);
        struct weir_request block = request_of(&world->rule, "key", WEIR_BLOCK, 0);
        struct weir_decision decision;
        block.block_ns = 1000 * MS;
        weir_limiter_decide_at(world->people.limiter, &block, &decision, 1, world->people.now_ns);
        advance(world, 11);
        assert_int_equal(ask_in_detail(world, WEIR_SHOW, 0, &detail).verdict, WEIR_BLOCKED);
        assert_int_equal(detail.waiting, i == 1);
        advance(world, 100);
        (void)ask_in_detail(world, WEIR_SHOW, 0, &detail);
        assert_int_equal(detail.waiting, 0);
        close_world(world);
    }
}

/* A line is opened under one limit, and another waiter behind is refused at its deadline under its own. */
static void open_and_be_refused(const char *opens, const char *is_refused, struct person **refused,
                                struct world **world)
{
    *world = open_full("1/10ms capacity=1");
    struct person *first = stand_under(*world, opens, UNIT, LONG);
    *refused = stand_under(*world, is_refused, UNIT, 25 * MS);
    advance(*world, 16);
    assert_served(first, 10 * MS);
    (void)ask(*world, WEIR_FILL, UNIT); // to the brim: the next one fits at 26 ms
    advance(*world, 25);
    assert_false((*refused)->stands);
    assert_int_equal((*refused)->decision.verdict, WEIR_LIMITED);
}

static void test_who_is_refused_locks_out_as_his_own_limit_says(void **state)
{
    (void)state;
    struct world *world;
    struct person *refused;
    open_and_be_refused("1/10ms capacity=1 block=1s", "1/10ms capacity=1", &refused, &world);
    assert_int_equal(refused->decision.retry_after_ns, MS);
    assert_int_equal(take(world, UNIT).verdict, WEIR_LIMITED);
    close_world(world);
    open_and_be_refused("1/10ms capacity=1", "1/10ms capacity=1 block=1s", &refused, &world);
    assert_int_equal(refused->decision.retry_after_ns, 1000 * MS);
    assert_int_equal(take(world, UNIT).verdict, WEIR_BLOCKED);
    advance(world, 25 + 1000);
    assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    close_world(world);
}

/* A child that is forked while a thread of its parent begins anew after a fork before. */
static void test_a_child_begins_anew_though_its_parent_was_about_to(void **state)
{
    (void)state;
    struct weir_limiter_config config = {.memory_bytes = 1 << 20, .store = "memory:?shared=yes"};
    struct weir_limiter *limiter;
    struct lines_stats stats;
    enum weir_status status = weir_limiter_open(&limiter, &config, NULL);
    if (status == WEIR_E_SYSTEM) { // qemu-user cannot
        skip();
    }
    assert_int_equal(status, WEIR_OK);
    limiter->lines->shared->pid = -getppid();
    (void)alarm(20);
    lines_read_stats(limiter->lines, &stats);
    (void)alarm(0);
    assert_int_equal(limiter->lines->shared->pid, getpid());
    weir_limiter_close(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_to_come_goes_first),
        cmocka_unit_test(test_who_fits_does_not_wait),
        cmocka_unit_test(test_nobody_overtakes_without_waiting),
        cmocka_unit_test(test_what_charges_nothing_is_answered_at_once),
        cmocka_unit_test(test_who_would_come_too_late_does_not_stand),
        cmocka_unit_test(test_so_many_may_wait_for_one_bucket),
        cmocka_unit_test(test_each_request_has_its_own_bound),
        cmocka_unit_test(test_so_many_may_wait_in_all),
        cmocka_unit_test(test_who_leaves_gives_the_place_back),
        cmocka_unit_test(test_a_place_behind_is_free_when_somebody_left),
        cmocka_unit_test(test_who_was_answered_cannot_leave),
        cmocka_unit_test(test_the_mark_goes_with_the_last_one),
        cmocka_unit_test(test_a_bucket_with_a_line_is_not_forgotten),
        cmocka_unit_test(test_where_there_is_no_room_for_the_bucket),
        cmocka_unit_test(test_the_numbers_change_while_somebody_waits),
        cmocka_unit_test(test_an_older_reading),
        cmocka_unit_test(test_many_lines),
        cmocka_unit_test(test_who_is_refused_locks_out_as_his_own_limit_says),
        cmocka_unit_test(test_show_says_how_many_wait),
        cmocka_unit_test(test_a_child_begins_anew_though_its_parent_was_about_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
