/* SPDX-License-Identifier: MIT
 *
 * People in lines, on a clock of the test's own: nobody sleeps, and no thread runs. A person notes when it
 * wants to be looked at, and what it was told; time goes on from one such instant to the next, or past all
 * of them at once, as for a process that was stopped. */
#ifndef WEIR_TESTS_LINES_WORLD_H
#define WEIR_TESTS_LINES_WORLD_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "core/bucket_math.h"
#include "limiter/limiter_state.h"
#include "store/table/table.h"
#include "weir/limiter.h"

enum { PEOPLE_MAX = 64 };

struct people;

struct person {
    struct waiter waiter; // first: it leads back here
    struct people *people;
    uint64_t due_ns;
    bool stands;
    uint64_t answered_ns;
    int answer_number; // the how manieth answer of all
    size_t count;      // of the limits that it asked for together; 0: for one
    struct weir_decision decision, decisions[WEIR_TOGETHER_MAX];
};

struct people {
    struct weir_limiter *limiter;
    uint64_t now_ns;
    uint64_t reading_ns; // of whoever asked last: may be older
    int answer_count;
    int count; // who ever joined, in order
    struct person list[PEOPLE_MAX];
};

static struct person *person_of(struct waiter *waiter)
{
    return (struct person *)(void *)waiter;
}

static void note_due(struct waiter *waiter, uint64_t due_ns)
{
    person_of(waiter)->due_ns = due_ns;
}

static void note_answer(struct waiter *waiter, const struct weir_decision *decisions)
{
    struct person *person = person_of(waiter);
    assert_true(person->stands);
    person->stands = false;
    person->answered_ns = person->people->reading_ns;
    person->answer_number = ++person->people->answer_count;
    person->decision = decisions[0];
    memcpy(person->decisions, decisions, person->count * sizeof *decisions);
}

/* The same people can stand in the lines of a store that processes share, where there are only as many places
 * as the memory has: LINES_SHARED. */
#ifdef LINES_SHARED
#define PEOPLE_STORE             "memory:?shared=yes"
#define PEOPLE_MEMORY_BYTES(all) ((all) < (512 << 10) ? (512 << 10) : (all))
#else
#define PEOPLE_STORE             "memory:"
#define PEOPLE_MEMORY_BYTES(all) (all)
#endif

/* `store` as weir_limiter_open() has it. */
static inline void people_open_in(struct people *people, const char *store, uint64_t memory_bytes,
                                  uint64_t waiting_max)
{
    const struct weir_limiter_config config = {.memory_bytes = memory_bytes,
                                               .waiting_max = waiting_max,
                                               .store = store,
                                               .seed = {1, 2},
                                               .caller_clock = true};
    struct weir_error error;
    memset(people, 0, sizeof *people);
    if (weir_limiter_open(&people->limiter, &config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
}

static inline void people_open(struct people *people, uint64_t memory_bytes, uint64_t waiting_max)
{
    people_open_in(people, PEOPLE_STORE, PEOPLE_MEMORY_BYTES(memory_bytes), waiting_max);
}

static struct weir_request request_of(const struct weir_rule *rule, const char *key,
                                      enum weir_operation operation, uint64_t cost_micro)
{
    return (struct weir_request){.rule = rule,
                                 .key = key,
                                 .key_len = strlen(key),
                                 .cost_micro = cost_micro,
                                 .operation = operation};
}

/* One more person. See its `stands`: whether it waits. */
static inline struct person *people_join_at(struct people *people, const struct weir_rule *rule,
                                            const char *key, uint64_t cost_micro, uint64_t wait_ns,
                                            uint64_t now_ns)
{
    static const struct waiter_ops OPS = {.schedule = note_due, .answer = note_answer};
    assert_true(people->count < PEOPLE_MAX);
    struct person *person = &people->list[people->count++];
    struct weir_request request = request_of(rule, key, WEIR_TAKE, cost_micro);
    *person = (struct person){.waiter.ops = &OPS, .people = people, .due_ns = UINT64_MAX};
    people->reading_ns = now_ns;
    person->stands = lines_join(people->limiter->lines, &person->waiter, &request, 1, wait_ns,
                                now_ns, &person->decision);
    person->answered_ns = person->stands ? 0 : now_ns;
    return person;
}

/* One more, who asks for several limits together. Its operation is a take, and all are on one key. */
static inline struct person *people_join_together_at(struct people *people,
                                                     const struct weir_request *requests,
                                                     size_t count, uint64_t wait_ns,
                                                     uint64_t now_ns)
{
    static const struct waiter_ops OPS = {.schedule = note_due, .answer = note_answer};
    assert_true(people->count < PEOPLE_MAX);
    struct person *person = &people->list[people->count++];
    *person =
        (struct person){.waiter.ops = &OPS, .people = people, .due_ns = UINT64_MAX, .count = count};
    people->reading_ns = now_ns;
    person->stands = lines_join(people->limiter->lines, &person->waiter, requests, count, wait_ns,
                                now_ns, person->decisions);
    person->decision = person->decisions[0];
    person->answered_ns = person->stands ? 0 : now_ns;
    return person;
}

/* False if it was answered before, or is now: it was due. */
static inline bool person_leave_at(struct person *person, uint64_t now_ns)
{
    person->people->reading_ns = now_ns;
    bool stood = lines_leave(person->people->limiter->lines, &person->waiter, now_ns);
    person->stands = person->stands && !stood;
    return stood;
}

static inline struct weir_decision people_ask_at(struct people *people,
                                                 const struct weir_rule *rule, const char *key,
                                                 enum weir_operation operation, uint64_t cost_micro,
                                                 uint64_t now_ns)
{
    struct weir_request request = request_of(rule, key, operation, cost_micro);
    struct weir_decision decision;
    people->reading_ns = now_ns;
    weir_limiter_decide_at(people->limiter, &request, &decision, 1, now_ns);
    return decision;
}

/* Who wants to be looked at next, by `then_ns`; the first to come among equals. */
static struct person *next_due(struct people *people, uint64_t then_ns)
{
    struct person *next = NULL;
    for (int i = 0; i < people->count; i++) {
        struct person *person = &people->list[i];
        bool is_due = person->stands && person->due_ns <= then_ns;
        if (is_due && (next == NULL || person->due_ns < next->due_ns)) {
            next = person;
        }
    }
    return next;
}

static void call_person(struct people *people, struct person *person)
{
    person->due_ns = UINT64_MAX; // its timer has fired
    people->reading_ns = people->now_ns;
    lines_lock(people->limiter->lines);
    lines_call(people->limiter->lines, &person->waiter, people->now_ns);
    lines_unlock(people->limiter->lines);
    assert_true(!person->stands || person->due_ns > people->now_ns);
}

/* Time passes, by way of every instant at which somebody is due. */
static void people_advance(struct people *people, uint64_t then_ns)
{
    struct person *person;
    while ((person = next_due(people, then_ns)) != NULL) {
        people->now_ns = person->due_ns > people->now_ns ? person->due_ns : people->now_ns;
        call_person(people, person);
    }
    people->now_ns = then_ns;
}

/* Nothing runs until then: whoever was due meanwhile is late. */
static inline void people_stall(struct people *people, uint64_t then_ns)
{
    struct person *person;
    people->now_ns = then_ns;
    while ((person = next_due(people, then_ns)) != NULL) {
        call_person(people, person);
    }
}

/* How many buckets of the table say that somebody waits for them. */
static int count_marks(const struct people *people)
{
    const struct table *table = (const struct table *)people->limiter->store;
    int count = 0;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            count += (table->lines[i].states[slot].word & BUCKET_LINE) != 0;
        }
    }
    return count;
}

static struct lines_stats people_stats(const struct people *people)
{
    struct lines_stats stats;
    lines_read_stats(people->limiter->lines, &stats);
    return stats;
}

/* Nobody may stand there any longer. */
static void people_close(struct people *people)
{
    assert_int_equal(people_stats(people).waiting_count, 0);
    assert_int_equal(people_stats(people).line_count, 0);
    assert_int_equal(count_marks(people), 0);
    assert_true(lines_valid(people->limiter->lines));
    weir_limiter_close(people->limiter);
}

#endif
