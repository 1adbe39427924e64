/* SPDX-License-Identifier: MIT
 *
 * What a line promises, one promise at a time, in the real table on a clock of the test's own. All of them
 * at once and at random: tests/property/property_lines.c. */
#include "../support/lines_world.h"

#include <stdio.h>

#define MS   UINT64_C(1000000)
#define UNIT WEIR_UNIT
#define LONG (100000 * MS)

/* A test's world: everybody asks for the same bucket. */
struct world {
    struct people people;
    struct weir_rule rule;
};

static struct weir_rule rule_of(const struct people *people, const char *text)
{
    struct weir_rule rule;
    struct weir_error error;
    if (weir_rule_from_text(&rule, people->limiter, text, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return rule;
}

/* At 1000 ms, so that readings may be older. */
static struct world *open_world(const char *limit)
{
    static struct world world;
    people_open(&world.people, WEIR_MEMORY_BYTES_MIN, 0);
    world.people.now_ns = 1000 * MS;
    world.rule = rule_of(&world.people, limit);
    return &world;
}

static void close_world(struct world *world)
{
    people_close(&world->people);
}

static struct weir_decision ask(struct world *world, enum weir_operation operation,
                                uint64_t cost_micro)
{
    return people_ask_at(&world->people, &world->rule, "key", operation, cost_micro,
                         world->people.now_ns);
}

static struct weir_decision take(struct world *world, uint64_t cost_micro)
{
    return ask(world, WEIR_TAKE, cost_micro);
}

static struct person *join(struct world *world, uint64_t cost_micro, uint64_t wait_ns)
{
    return people_join_at(&world->people, &world->rule, "key", cost_micro, wait_ns,
                          world->people.now_ns);
}

/* One who does wait. */
static struct person *stand(struct world *world, uint64_t cost_micro, uint64_t wait_ns)
{
    struct person *person = join(world, cost_micro, wait_ns);
    assert_true(person->stands);
    return person;
}

static bool leave(struct world *world, struct person *person)
{
    return person_leave_at(person, world->people.now_ns);
}

/* To so many milliseconds after the beginning. */
static void advance(struct world *world, uint64_t ms)
{
    people_advance(&world->people, (1000 + ms) * MS);
}

static void stall(struct world *world, uint64_t ms)
{
    people_stall(&world->people, (1000 + ms) * MS);
}

/* Since the beginning. */
static uint64_t answered_after(const struct person *person)
{
    assert_false(person->stands);
    return person->answered_ns - 1000 * MS;
}

static void assert_served(const struct person *person, uint64_t after_ns)
{
    assert_int_equal(person->decision.verdict, WEIR_ALLOWED);
    assert_int_equal(person->decision.delay_ns, 0);
    assert_int_equal(person->decision.retry_after_ns, -1);
    assert_int_equal(answered_after(person), after_ns);
}

static void assert_limited(struct weir_decision decision, uint64_t retry_after_ns)
{
    assert_int_equal(decision.verdict, WEIR_LIMITED);
    assert_int_equal(decision.retry_after_ns, retry_after_ns);
}

static bool is_marked(const struct world *world)
{
    return count_marks(&world->people) != 0;
}

/* ---- either kind ---- */

static const char *const KINDS[] = {"1/10ms capacity=1", "queue 1/10ms capacity=4 first=now"};

/* A full bucket, or a queue whose next one goes after 10 ms. */
static struct world *open_full(const char *limit)
{
    struct world *world = open_world(limit);
    assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    return world;
}

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

/* ---- a bucket ---- */

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

/* ---- a queue ---- */

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
    (void)ask(world, WEIR_REFUND, UNIT);
    (void)ask(world, WEIR_RESET, 0);
    assert_int_equal(ask(world, WEIR_SHOW, 0).reset_after_ns, 20 * MS);
    advance(world, 100);
    assert_served(first, 10 * MS);
    assert_served(second, 20 * MS);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_to_come_goes_first),
        cmocka_unit_test(test_who_fits_does_not_wait),
        cmocka_unit_test(test_nobody_overtakes_without_waiting),
        cmocka_unit_test(test_a_large_cost_is_not_overtaken),
        cmocka_unit_test(test_a_stepped_line_goes_by_periods),
        cmocka_unit_test(test_who_leaves_a_stepped_line_lets_the_others_up),
        cmocka_unit_test(test_a_line_of_a_fixed_limit_goes_by_the_calendar),
        cmocka_unit_test(test_a_line_of_a_sliding_limit_waits_until_enough_has_faded),
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
        cmocka_unit_test(test_several_go_at_once_where_several_fit),
        cmocka_unit_test(test_a_refund_or_a_reset_lets_the_head_go),
        cmocka_unit_test(test_a_fill_makes_the_head_wait_for_longer),
        cmocka_unit_test(test_limited_at_the_deadline),
        cmocka_unit_test(test_a_deadline_behind_the_head),
        cmocka_unit_test(test_a_line_is_counted_with_its_fractions),
        cmocka_unit_test(test_a_mixed_line_is_counted_likewise),
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
        cmocka_unit_test(test_where_there_is_no_room_for_the_bucket),
        cmocka_unit_test(test_the_numbers_change_while_somebody_waits),
        cmocka_unit_test(test_an_older_reading),
        cmocka_unit_test(test_many_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
