/* SPDX-License-Identifier: MIT
 *
 * A world of one line: everybody in it asks for the same bucket, and time is told in milliseconds since the
 * beginning.
 *
 *     struct world *world = open_full("1/10ms capacity=1");
 *     struct person *person = stand(world, UNIT, LONG);
 *     advance(world, 100);
 *     assert_served(person, 10 * MS);
 *     close_world(world); */
#ifndef WEIR_TESTS_ONE_LINE_H
#define WEIR_TESTS_ONE_LINE_H

#include "lines_world.h"

#define MS   UINT64_C(1000000)
#define UNIT WEIR_UNIT
#define LONG (100000 * MS)

struct world {
    struct people people;
    struct weir_rule rule;
};

static inline struct weir_rule rule_of(const struct people *people, const char *text)
{
    struct weir_rule rule;
    struct weir_error error;
    if (weir_rule_from_text(&rule, people->limiter, text, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return rule;
}

/* At 1000 ms, so that readings may be older. */
static inline struct world *open_world(const char *limit)
{
    static struct world world;
    people_open(&world.people, WEIR_MEMORY_BYTES_MIN, 0);
    world.people.now_ns = 1000 * MS;
    world.rule = rule_of(&world.people, limit);
    return &world;
}

static inline void close_world(struct world *world)
{
    people_close(&world->people);
}

static inline struct weir_decision ask(struct world *world, enum weir_operation operation,
                                       uint64_t cost_micro)
{
    return people_ask_at(&world->people, &world->rule, "key", operation, cost_micro,
                         world->people.now_ns);
}

/* The same, and what the operation says beside its decision. Nothing may be left of what stood there before. */
static inline struct weir_decision ask_in_detail(struct world *world, enum weir_operation operation,
                                                 uint64_t cost_micro, struct weir_detail *detail)
{
    struct weir_request request = request_of(&world->rule, "key", operation, cost_micro);
    struct weir_decision decision;
    memset(detail, 0x77, sizeof *detail);
    request.detail = detail;
    world->people.reading_ns = world->people.now_ns;
    weir_limiter_decide_at(world->people.limiter, &request, &decision, 1, world->people.now_ns);
    return decision;
}

static inline struct weir_decision take(struct world *world, uint64_t cost_micro)
{
    return ask(world, WEIR_TAKE, cost_micro);
}

static inline struct person *join(struct world *world, uint64_t cost_micro, uint64_t wait_ns)
{
    return people_join_at(&world->people, &world->rule, "key", cost_micro, wait_ns,
                          world->people.now_ns);
}

/* One whose limit has the same numbers, and policy words of its own. */
static inline struct person *stand_under(struct world *world, const char *limit,
                                         uint64_t cost_micro, uint64_t wait_ns)
{
    const struct weir_rule rule = rule_of(&world->people, limit);
    struct person *person =
        people_join_at(&world->people, &rule, "key", cost_micro, wait_ns, world->people.now_ns);
    assert_true(person->stands);
    return person;
}

/* One who does wait. */
static inline struct person *stand(struct world *world, uint64_t cost_micro, uint64_t wait_ns)
{
    struct person *person = join(world, cost_micro, wait_ns);
    assert_true(person->stands);
    return person;
}

static inline bool leave(struct world *world, struct person *person)
{
    return person_leave_at(person, world->people.now_ns);
}

/* To so many milliseconds after the beginning. */
static inline void advance(struct world *world, uint64_t ms)
{
    people_advance(&world->people, (1000 + ms) * MS);
}

static inline void stall(struct world *world, uint64_t ms)
{
    people_stall(&world->people, (1000 + ms) * MS);
}

/* Since the beginning. */
static inline uint64_t answered_after(const struct person *person)
{
    assert_false(person->stands);
    return person->answered_ns - 1000 * MS;
}

static inline void assert_served(const struct person *person, uint64_t after_ns)
{
    assert_int_equal(person->decision.verdict, WEIR_ALLOWED);
    assert_int_equal(person->decision.delay_ns, 0);
    assert_int_equal(person->decision.retry_after_ns, -1);
    assert_int_equal(answered_after(person), after_ns);
}

static inline void assert_limited(struct weir_decision decision, uint64_t retry_after_ns)
{
    assert_int_equal(decision.verdict, WEIR_LIMITED);
    assert_int_equal(decision.retry_after_ns, retry_after_ns);
}

static inline bool is_marked(const struct world *world)
{
    return count_marks(&world->people) != 0;
}

/* A full bucket, or a queue whose next one goes after 10 ms. */
static inline struct world *open_full(const char *limit)
{
    struct world *world = open_world(limit);
    assert_int_equal(take(world, UNIT).verdict, WEIR_ALLOWED);
    return world;
}

#endif
