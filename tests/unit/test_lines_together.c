/* SPDX-License-Identifier: MIT
 *
 * What waiting under several limits promises, one promise at a time, in the real table on a clock of the
 * test's own. */
#include "../support/lines_world.h"

#include <ctype.h>
#include <stdio.h>

#include "store/table/event_pool.h"

#define MS   UINT64_C(1000000)
#define UNIT WEIR_UNIT
#define LONG (100000 * MS)
#define NONE UINT64_MAX

/* A test's world: limits a, b, c, each with its own bucket. Begins at 1000 ms. */
struct world {
    struct people people;
    struct weir_rule rules[3];
};

enum { A, B, C };
static const char *const KEYS[] = {"a", "b", "c"};

static struct world *open_world(const char *a, const char *b, const char *c)
{
    static struct world world;
    const char *texts[] = {a, b, c};
    struct weir_error error;
    people_open(&world.people, WEIR_MEMORY_BYTES_MIN, 0);
    world.people.now_ns = 1000 * MS;
    for (int i = 0; i < 3; i++) {
        const char *text = texts[i] != NULL ? texts[i] : "1/10ms capacity=1";
        if (weir_rule_from_text(&world.rules[i], world.people.limiter, text, &error) != WEIR_OK) {
            fail_msg("%s", error.message);
        }
    }
    return &world;
}

static void close_world(struct world *world)
{
    people_close(&world->people);
}

static struct weir_decision ask(struct world *world, int which, enum weir_operation operation,
                                uint64_t cost_micro)
{
    return people_ask_at(&world->people, &world->rules[which], KEYS[which], operation, cost_micro,
                         world->people.now_ns);
}

static void take(struct world *world, int which, uint64_t cost_micro)
{
    assert_int_equal(ask(world, which, WEIR_TAKE, cost_micro).verdict, WEIR_ALLOWED);
}

static struct person *stand(struct world *world, int which, uint64_t cost_micro)
{
    struct person *person = people_join_at(&world->people, &world->rules[which], KEYS[which],
                                           cost_micro, LONG, world->people.now_ns);
    assert_true(person->stands);
    return person;
}

/* One who asks for several, as "ab" or "bcA", where A is only tried. */
static struct person *join(struct world *world, const char *which, uint64_t cost_micro,
                           uint64_t wait_ns)
{
    struct weir_request requests[3];
    size_t count = strlen(which);
    for (size_t i = 0; i < count; i++) {
        int one = tolower((unsigned char)which[i]) - 'a';
        requests[i] = request_of(&world->rules[one], KEYS[one], WEIR_TAKE, cost_micro);
        requests[i].shadow = isupper((unsigned char)which[i]) != 0;
        requests[i].and_next = i + 1 < count;
    }
    return people_join_together_at(&world->people, requests, count, wait_ns, world->people.now_ns);
}

static struct person *stand_together(struct world *world, const char *which, uint64_t cost_micro)
{
    struct person *person = join(world, which, cost_micro, LONG);
    assert_true(person->stands);
    return person;
}

/* To so many milliseconds after the beginning. */
static void advance(struct world *world, uint64_t ms)
{
    people_advance(&world->people, (1000 + ms) * MS);
}

static void leave(struct world *world, struct person *person)
{
    assert_true(person_leave_at(person, world->people.now_ns));
}

static void assert_served(const struct person *person, uint64_t after_ms)
{
    assert_false(person->stands);
    for (size_t i = 0; i < person->count; i++) {
        assert_int_equal(person->decisions[i].verdict, WEIR_ALLOWED);
        assert_int_equal(person->decisions[i].delay_ns, 0);
    }
    assert_int_equal(person->count == 0 ? person->decision.verdict : WEIR_ALLOWED, WEIR_ALLOWED);
    assert_int_equal(person->answered_ns, (1000 + after_ms) * MS);
}

static void assert_limited(struct weir_decision decision, uint64_t retry_after_ms)
{
    assert_int_equal(decision.verdict, WEIR_LIMITED);
    assert_int_equal(decision.retry_after_ns, retry_after_ms * MS);
}

/* How much is in the bucket, in milliseconds until it is empty. */
static uint64_t filled_ms(struct world *world, int which)
{
    return (uint64_t)ask(world, which, WEIR_SHOW, 0).reset_after_ns / MS;
}

/* ---- buckets ---- */

static void test_who_fits_everywhere_does_not_wait(void **state)
{
    (void)state;
    struct world *world = open_world(NULL, NULL, NULL);
    assert_served(join(world, "abc", UNIT, LONG), 0);
    assert_int_equal(count_marks(&world->people), 0);
    assert_int_equal(filled_ms(world, C), 10);
    close_world(world);
}

static void test_it_goes_when_the_last_limit_lets_it(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/30ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    advance(world, 29);
    assert_true(both->stands);
    assert_int_equal(filled_ms(world, A), 0); // not charged before its turn
    advance(world, 30);
    assert_served(both, 30);
    assert_int_equal(filled_ms(world, A), 10);
    assert_int_equal(filled_ms(world, B), 30);
    close_world(world);
}

static void test_a_limit_with_room_is_not_held_up(void **state)
{
    (void)state;
    struct world *world = open_world("1/50ms capacity=1", "1/10ms capacity=1", NULL);
    take(world, A, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    take(world, B, UNIT); // it does not stand there
    advance(world, 20);
    take(world, B, UNIT);
    advance(world, 50);
    assert_served(both, 50);
    close_world(world);
}

static void test_nobody_overtakes_it_where_it_stands(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/50ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    struct person *behind = stand(world, A, UNIT);
    advance(world, 20); // A has room, but its first one has not
    assert_true(behind->stands);
    assert_int_equal(ask(world, A, WEIR_TAKE, UNIT).verdict, WEIR_LIMITED);
    advance(world, 50);
    assert_served(both, 50);
    assert_true(behind->stands);
    advance(world, 60);
    assert_served(behind, 60);
    close_world(world);
}

/* Not even where it would fit beside a large cost. */
static void test_it_overtakes_nobody_where_others_stand(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=3", "1/10ms capacity=3", NULL);
    take(world, A, 2 * UNIT);
    struct person *large = stand(world, A, 3 * UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    assert_int_equal(filled_ms(world, B), 0);
    advance(world, 60);
    assert_served(large, 20);
    assert_served(both, 30);
    close_world(world);
}

/* In a queue the order is that of the charges: who is charged later goes later, although he came first. */
static void test_a_queue_is_in_the_order_of_its_charges(void **state)
{
    (void)state;
    struct world *world = open_world("1/15ms capacity=1", "queue 1/10ms capacity=4", NULL);
    take(world, A, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    struct person *first = stand(world, B, UNIT);
    struct person *second = stand(world, B, UNIT);
    struct person *third = stand(world, B, UNIT);
    advance(world, 60);
    assert_served(first, 10);
    assert_served(second, 20);
    assert_served(third, 30);
    assert_served(both, 40);
    close_world(world);
}

/* B had room, and was filled meanwhile: it stands there before those who came after it. */
static void test_a_limit_that_refuses_later_gives_it_its_place(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/40ms capacity=1", NULL);
    take(world, A, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    advance(world, 5);
    take(world, B, UNIT);
    struct person *later = stand(world, B, UNIT);
    advance(world, 10);
    assert_true(both->stands);
    advance(world, 44);
    assert_true(both->stands && later->stands);
    advance(world, 100);
    assert_served(both, 45);
    assert_served(later, 85);
    close_world(world);
}

/* The person who was the first there has asked to be called when its cost fits. By then it is the second. */
static void test_who_is_let_in_before_the_first_costs_nobody_its_deadline(void **state)
{
    (void)state;
    struct world *world = open_world("1/30ms capacity=1", "1/100ms capacity=1", NULL);
    take(world, A, UNIT);
    struct person *both = stand_together(world, "ab", UNIT); // A refuses it until 30 ms
    advance(world, 1);
    take(world, B, UNIT);
    struct person *half = people_join_at(&world->people, &world->rules[B], KEYS[B], UNIT / 2,
                                         80 * MS, world->people.now_ns);
    assert_true(half->stands);
    assert_int_equal(half->due_ns, 1051 * MS);
    advance(world, 60); // at 30 ms B refuses the one under both limits
    assert_int_equal(half->due_ns, 1081 * MS);
    advance(world, 120);
    assert_int_equal(half->answered_ns, 1081 * MS);
    assert_limited(half->decision,
                   70); // when the one before it has gone, and half of it has leaked
    assert_served(both, 101);
    close_world(world);
}

static void test_opposite_orders_go_in_the_order_of_arrival(void **state)
{
    (void)state;
    struct world *world = open_world(NULL, NULL, NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *persons[4];
    for (int i = 0; i < 4; i++) {
        persons[i] = stand_together(world, i % 2 == 0 ? "ab" : "ba", UNIT);
    }
    advance(world, 100);
    for (int i = 0; i < 4; i++) {
        assert_served(persons[i], 10 * (uint64_t)(i + 1));
        assert_int_equal(persons[i]->answer_number, i + 1);
    }
    assert_int_equal(people_stats(&world->people).served_count, 4);
    close_world(world);
}

static void test_a_chain_of_lines(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/20ms capacity=1", "1/40ms capacity=1");
    take(world, A, UNIT);
    take(world, B, UNIT);
    take(world, C, UNIT);
    struct person *bc = stand_together(world, "bc", UNIT); // at 40: C
    struct person *ab = stand_together(world, "ab", UNIT); // behind it in B: at 60
    struct person *a = stand(world, A, UNIT);              // behind that in A: at 70
    advance(world, 200);
    assert_served(bc, 40);
    assert_served(ab, 60);
    assert_served(a, 70);
    close_world(world);
}

static void test_several_may_fit_at_once(void **state)
{
    (void)state;
    struct world *world = open_world("3/30ms capacity=3", "10/10ms capacity=10", NULL);
    take(world, A, 3 * UNIT);
    take(world, B, 10 * UNIT);
    struct person *first = stand_together(world, "ab", 2 * UNIT);
    struct person *second = stand_together(world, "ab", UNIT);
    assert_int_equal(people_stats(&world->people).waiting_count, 2);
    advance(world, 40);
    assert_served(first, 20);
    assert_served(second, 30);
    close_world(world);
}

/* ---- leaving, and being late ---- */

static void test_who_leaves_lets_others_up_everywhere(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/20ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    struct person *a = stand(world, A, UNIT);
    struct person *b = stand(world, B, UNIT);
    advance(world, 15);
    leave(world, both);
    assert_int_equal(people_stats(&world->people).left_count, 1);
    advance(world, 15); // whoever was behind it looks at once
    assert_served(a, 15);
    advance(world, 20);
    assert_served(b, 20);
    close_world(world);
}

static void test_its_deadline_ends_it(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/20ms capacity=1", NULL);
    take(world, A, UNIT);
    struct person *both = join(world, "ab", UNIT, 15 * MS);
    assert_true(both->stands);
    advance(world, 8);
    take(world, B, UNIT); // until 28
    advance(world, 14);
    assert_true(both->stands);
    advance(world, 15);
    assert_false(both->stands);
    assert_int_equal(both->decisions[0].verdict, WEIR_LIMITED); // it stood in both
    assert_limited(both->decisions[1], 13);
    assert_int_equal(filled_ms(world, A), 0);
    assert_int_equal(people_stats(&world->people).expired_count, 1);
    close_world(world);
}

/* Another waiter has opened the line of A under `block=`, which is no word of this one's. */
static void test_it_locks_out_as_its_own_limits_say(void **state)
{
    (void)state;
    for (int is_own = 0; is_own < 2; is_own++) {
        struct world *world = open_world("1/100ms capacity=1", NULL, NULL);
        struct weir_rule plain = world->rules[A];
        struct weir_rule blocks = plain;
        blocks.limit.block_ns = 1000 * MS;
        take(world, A, UNIT);
        world->rules[A] = is_own ? plain : blocks;
        struct person *first = stand(world, A, UNIT);
        world->rules[A] = is_own ? blocks : plain;
        struct person *both = join(world, "ab", UNIT, 250 * MS);
        assert_true(both->stands);
        advance(world, 160);
        assert_served(first, 100);
        world->rules[A] = plain;
        (void)ask(world, A, WEIR_FILL, UNIT); // to the brim: it fits at 260 ms
        advance(world, 255);
        assert_limited(both->decision, is_own ? 1000 : 10);
        assert_int_equal(ask(world, A, WEIR_TAKE, UNIT).verdict,
                         is_own ? WEIR_BLOCKED : WEIR_LIMITED);
        close_world(world);
    }
}

static void test_who_would_be_late_is_refused_at_once(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/50ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *both = join(world, "ab", UNIT, 30 * MS);
    assert_false(both->stands);
    assert_limited(both->decisions[1], 20); // after which the same call waits 30 ms more
    assert_int_equal(people_stats(&world->people).late_count, 1);
    assert_int_equal(count_marks(&world->people), 0);
    advance(world, 20);
    assert_true((both = join(world, "ab", UNIT, 30 * MS))->stands);
    advance(world, 50);
    assert_served(both, 50);
    close_world(world);
}

static void test_a_full_line_takes_nobody(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1 waiting=1", "1/10ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *first = stand(world, A, UNIT);
    struct person *both = join(world, "ba", UNIT, LONG);
    assert_false(both->stands);
    assert_limited(both->decisions[1], 10); // then the first has gone
    assert_int_equal(people_stats(&world->people).full_count, 1);
    assert_int_equal(count_marks(&world->people), 1);
    advance(world, 10);
    assert_served(first, 10);
    close_world(world);
}

static void test_never_is_said_at_once(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "5/10ms capacity=5", NULL);
    take(world, A, UNIT);
    struct person *both = join(world, "ab", 2 * UNIT, LONG);
    assert_false(both->stands);
    assert_int_equal(both->decisions[0].verdict, WEIR_NEVER);
    assert_int_equal(both->decisions[1].verdict, WEIR_ALLOWED);
    assert_int_equal(filled_ms(world, B), 0);
    close_world(world);
}

static void test_a_cost_of_nothing_waits_for_nobody(void **state)
{
    (void)state;
    struct world *world = open_world(NULL, NULL, NULL);
    take(world, A, UNIT);
    (void)stand(world, A, UNIT);
    assert_served(join(world, "ab", 0, LONG), 0);
    advance(world, 10);
    close_world(world);
}

/* A reset opens B long before its time. */
static void test_who_is_reset_lets_it_in_early(void **state)
{
    (void)state;
    struct world *world = open_world("1/10ms capacity=1", "1/50ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    advance(world, 20);
    (void)ask(world, B, WEIR_RESET, 0);
    assert_served(both, 20);
    close_world(world);
}

/* ---- shadows ---- */

static void test_a_shadow_that_refuses_holds_nobody_up_and_says_so(void **state)
{
    (void)state;
    struct world *world = open_world("1/100ms capacity=1", "1/10ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *person = stand_together(world, "Ab", UNIT);
    advance(world, 10);
    assert_false(person->stands);
    assert_limited(person->decisions[0], 90);
    assert_int_equal(person->decisions[1].verdict, WEIR_ALLOWED);
    assert_int_equal(filled_ms(world, A), 90); // not charged
    close_world(world);
}

static void test_a_shadow_that_refuses_says_so_beside_others_that_do(void **state)
{
    (void)state;
    struct world *world = open_world("1/100ms capacity=1", "1/10ms capacity=1", NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *late = join(world, "Ab", UNIT, 5 * MS); // it would have to wait for longer
    assert_false(late->stands);
    assert_limited(late->decisions[0], 100);
    assert_limited(late->decisions[1], 5);
    struct person *expired = join(world, "Ab", UNIT, 10 * MS);
    assert_true(expired->stands);
    advance(world, 2);
    assert_int_equal(ask(world, B, WEIR_FILL, UNIT).verdict, WEIR_ALLOWED);
    advance(world, 10);
    assert_false(expired->stands);
    assert_limited(expired->decisions[0], 90);
    assert_int_equal(expired->decisions[1].verdict, WEIR_LIMITED);
    close_world(world);
}

static void test_a_shadow_overtakes_nobody(void **state)
{
    (void)state;
    struct world *world = open_world("5/500ms capacity=5", "1/10ms capacity=1", NULL);
    take(world, A, 3 * UNIT);
    take(world, B, UNIT);
    struct person *large = stand(world, A, 4 * UNIT); // fits at 200 ms
    struct person *small = stand_together(world, "Ab", UNIT);
    advance(world, 10);
    assert_false(small->stands);
    assert_limited(small->decisions[0], 290); // behind the large one
    assert_int_equal(small->decisions[1].verdict, WEIR_ALLOWED);
    advance(world, 200);
    assert_served(large, 200);
    close_world(world);
}

static void test_a_shadow_that_is_refused_beside_a_line_locks_nobody_out(void **state)
{
    (void)state;
    struct world *world = open_world("1/100ms capacity=1 block=1s", NULL, NULL);
    take(world, A, UNIT);
    struct person *person = stand(world, A, UNIT);
    struct weir_request request = request_of(&world->rules[A], KEYS[A], WEIR_TAKE, UNIT);
    struct weir_decision decision;
    request.shadow = true;
    weir_limiter_decide_at(world->people.limiter, &request, &decision, 1, world->people.now_ns);
    assert_int_equal(decision.verdict, WEIR_LIMITED);
    advance(world, 100);
    assert_served(person, 100);
    close_world(world);
}

/* ---- queues ---- */

#define QUEUE "queue 1/10ms capacity=4"

static void test_it_goes_when_the_queue_lets_it(void **state)
{
    (void)state;
    struct world *world = open_world("5/1s capacity=5", QUEUE, NULL);
    struct person *first = stand_together(world, "ab", UNIT);
    struct person *second = stand_together(world, "ab", UNIT);
    assert_int_equal(filled_ms(world, A), 400); // charged at once, both of them
    assert_int_equal(filled_ms(world, B), 20);
    take(world, A, UNIT); // nobody stands there
    advance(world, 30);
    assert_served(first, 10);
    assert_served(second, 20);
    close_world(world);
}

static void test_who_leaves_a_queue_gets_everything_back(void **state)
{
    (void)state;
    struct world *world = open_world("5/1s capacity=5", QUEUE, NULL);
    struct person *first = stand_together(world, "ab", UNIT);
    struct person *second = stand_together(world, "ab", UNIT);
    leave(world, first);
    assert_int_equal(filled_ms(world, A), 200);
    assert_int_equal(filled_ms(world, B), 10);
    advance(world, 30);
    assert_served(second, 10);
    close_world(world);
}

static void test_who_leaves_a_queue_gets_nothing_back_from_a_shadow_that_refused(void **state)
{
    (void)state;
    struct world *world = open_world("1/100ms capacity=1", QUEUE, NULL);
    take(world, A, UNIT);
    take(world, B, UNIT);
    struct person *person = stand_together(world, "Ab", UNIT);
    leave(world, person);
    assert_int_equal(filled_ms(world, A), 100);
    assert_int_equal(filled_ms(world, B), 10);
    close_world(world);
}

static void test_two_queues_in_series(void **state)
{
    (void)state;
    struct world *world = open_world(QUEUE, "queue 1/25ms capacity=4", NULL);
    struct person *first = stand_together(world, "ab", UNIT);
    struct person *second = stand_together(world, "ba", UNIT);
    struct person *third = stand(world, A, UNIT);
    advance(world, 60);
    assert_served(first, 25);
    assert_served(second, 50);
    assert_served(third, 30);
    close_world(world);
}

static void test_a_full_queue_refuses_at_once(void **state)
{
    (void)state;
    struct world *world = open_world(NULL, "queue 1/10ms capacity=1", NULL);
    struct person *first = stand(world, B, UNIT);
    struct person *both = join(world, "ab", UNIT, LONG);
    assert_false(both->stands);
    assert_int_equal(both->decisions[0].verdict, WEIR_ALLOWED);
    assert_limited(both->decisions[1], 10);
    assert_int_equal(filled_ms(world, A), 0);
    advance(world, 10);
    assert_served(first, 10);
    close_world(world);
}

/* It had room when it came, and is full when the bucket lets it in. */
static void test_a_queue_that_is_full_by_then_refuses(void **state)
{
    (void)state;
    struct world *world = open_world("1/20ms capacity=1", "queue 1/30ms capacity=1", NULL);
    take(world, A, UNIT);
    struct person *both = stand_together(world, "ab", UNIT);
    advance(world, 10);
    struct person *other = stand(world, B, UNIT); // until 40
    advance(world, 20);
    assert_false(both->stands);
    assert_limited(both->decisions[1], 20);
    assert_int_equal(filled_ms(world, A), 0);
    advance(world, 40);
    assert_served(other, 40);
    close_world(world);
}

static void test_a_wait_shorter_than_an_empty_queue_is_in_vain(void **state)
{
    (void)state;
    struct world *world = open_world(NULL, QUEUE, NULL);
    struct person *both = join(world, "ab", UNIT, 9 * MS);
    assert_false(both->stands);
    assert_int_equal(both->decisions[1].verdict, WEIR_NEVER);
    assert_int_equal(filled_ms(world, A), 0);
    close_world(world);
}

/* ---- windows ---- */

static uint64_t room(struct world *world, int which)
{
    return ask(world, which, WEIR_SHOW, 0).remaining;
}

/* What leaves one window makes room in it alone. */
static void test_it_goes_when_enough_has_left_both_windows(void **state)
{
    (void)state;
    struct world *world = open_world("window 2/10ms", "window 3/25ms", NULL);
    take(world, A, 2 * UNIT);
    take(world, B, UNIT);
    struct person *one = stand_together(world, "ab", UNIT);
    struct person *beside = stand(world, A, UNIT);
    struct person *two = stand_together(world, "ba", 2 * UNIT); // A lets it at 20, B at 25
    struct person *behind = stand(world, A, UNIT);
    assert_limited(ask(world, A, WEIR_TAKE, UNIT), 30); // as far as A alone knows
    struct person *late = join(world, "ab", UNIT, 29 * MS);
    assert_limited(late->decisions[0], 1);
    advance(world, 9);
    assert_true(one->stands);
    advance(world, 24);
    assert_served(one, 10);
    assert_served(beside, 10);
    assert_true(two->stands);
    assert_int_equal(room(world, A), 2); // not charged before its turn
    assert_int_equal(room(world, B), 1);
    advance(world, 60);
    assert_served(two, 25);
    assert_served(behind, 35);
    assert_int_equal(count_marks(&world->people), 0);
    close_world(world);
}

/* When its turn comes its log needs a chunk more, and there is none. */
static void test_a_window_without_room_for_its_event(void **state)
{
    (void)state;
    for (int lets = 0; lets < 2; lets++) {
        struct world *world = open_world(lets ? "window 224/10ms on_full=allow" : "window 224/10ms",
                                         "5/10ms capacity=5", "window 1/1h");
        enum weir_verdict verdict = WEIR_ALLOWED;
        for (int i = 0; i < CHUNK_EVENT_BYTES; i++) { // a byte each
            take(world, A, UNIT);
        }
        for (int i = 0; verdict == WEIR_ALLOWED; i++) { // all of the pool
            char key[16];
            (void)snprintf(key, sizeof key, "other%d", i);
            verdict = people_ask_at(&world->people, &world->rules[C], key, WEIR_TAKE, UNIT,
                                    world->people.now_ns)
                          .verdict;
        }
        assert_int_equal(verdict, WEIR_FAILED);
        struct person *both = stand_together(world, "ab", UNIT);
        advance(world, 10);
        assert_false(both->stands);
        assert_int_equal(both->decisions[0].verdict, lets ? WEIR_ALLOWED : WEIR_FAILED);
        assert_int_equal(both->decisions[1].verdict, WEIR_ALLOWED);
        assert_int_equal(room(world, A), 224);
        assert_int_equal(filled_ms(world, B), lets ? 2 : 0);
        assert_int_equal(count_marks(&world->people), 0);
        close_world(world);
    }
}

/* What a window let through has passed, also where the queue behind it is left. */
static void test_who_leaves_a_queue_gets_nothing_back_from_a_window(void **state)
{
    (void)state;
    struct world *world = open_world("window 3/s", QUEUE, "5/s");
    struct person *all = stand_together(world, "abc", UNIT);
    leave(world, all);
    assert_int_equal(room(world, A), 2);
    assert_int_equal(filled_ms(world, B), 0);
    assert_int_equal(filled_ms(world, C), 0);
    assert_int_equal(count_marks(&world->people), 0);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_fits_everywhere_does_not_wait),
        cmocka_unit_test(test_it_goes_when_the_last_limit_lets_it),
        cmocka_unit_test(test_a_limit_with_room_is_not_held_up),
        cmocka_unit_test(test_nobody_overtakes_it_where_it_stands),
        cmocka_unit_test(test_it_overtakes_nobody_where_others_stand),
        cmocka_unit_test(test_a_queue_is_in_the_order_of_its_charges),
        cmocka_unit_test(test_a_limit_that_refuses_later_gives_it_its_place),
        cmocka_unit_test(test_who_is_let_in_before_the_first_costs_nobody_its_deadline),
        cmocka_unit_test(test_opposite_orders_go_in_the_order_of_arrival),
        cmocka_unit_test(test_a_chain_of_lines),
        cmocka_unit_test(test_several_may_fit_at_once),
        cmocka_unit_test(test_who_leaves_lets_others_up_everywhere),
        cmocka_unit_test(test_its_deadline_ends_it),
        cmocka_unit_test(test_it_locks_out_as_its_own_limits_say),
        cmocka_unit_test(test_who_would_be_late_is_refused_at_once),
        cmocka_unit_test(test_a_full_line_takes_nobody),
        cmocka_unit_test(test_never_is_said_at_once),
        cmocka_unit_test(test_a_cost_of_nothing_waits_for_nobody),
        cmocka_unit_test(test_who_is_reset_lets_it_in_early),
        cmocka_unit_test(test_a_shadow_that_refuses_holds_nobody_up_and_says_so),
        cmocka_unit_test(test_a_shadow_that_refuses_says_so_beside_others_that_do),
        cmocka_unit_test(test_a_shadow_overtakes_nobody),
        cmocka_unit_test(test_a_shadow_that_is_refused_beside_a_line_locks_nobody_out),
        cmocka_unit_test(test_it_goes_when_the_queue_lets_it),
        cmocka_unit_test(test_who_leaves_a_queue_gets_everything_back),
        cmocka_unit_test(test_who_leaves_a_queue_gets_nothing_back_from_a_shadow_that_refused),
        cmocka_unit_test(test_two_queues_in_series),
        cmocka_unit_test(test_a_full_queue_refuses_at_once),
        cmocka_unit_test(test_a_queue_that_is_full_by_then_refuses),
        cmocka_unit_test(test_a_wait_shorter_than_an_empty_queue_is_in_vain),
        cmocka_unit_test(test_it_goes_when_enough_has_left_both_windows),
        cmocka_unit_test(test_a_window_without_room_for_its_event),
        cmocka_unit_test(test_who_leaves_a_queue_gets_nothing_back_from_a_window),
    };
    return cmocka_run_group_tests_name("lines_together", tests, NULL, NULL);
}
