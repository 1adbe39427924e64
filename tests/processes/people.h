/* SPDX-License-Identifier: MIT
 *
 * People who wait in the lines of one store, each a process of its own, and what they tell. */
#ifndef WEIR_TESTS_PROCESSES_PEOPLE_H
#define WEIR_TESTS_PROCESSES_PEOPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "limiter/limiter_state.h"
#include "limiter/shared_lines/shared_room.h"
#include "sharing.h"

enum {
    PEOPLE_MAX = 64,
    IN_TIME_MS = 600 // of which 100 are meant, and 500 are for a busy machine
};

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* What each of them tells. */
struct person {
    volatile pid_t pid;
    volatile bool has_answer;
    volatile uint64_t place; // in the order of answers
    volatile uint64_t answered_ns;
    struct weir_decision decision;
    volatile long switches; // how often it slept
};

/* Which of two limits somebody asks for. */
enum people_limits { ONE, OTHER, BOTH };

#define PEOPLE_OTHER_KEY "other"

/*   limiter  the test's own; whoever joins has it open as well, from the test's process
 *   key      what they wait for, under `rule`, which is `limit`; and PEOPLE_OTHER_KEY under the other one */
struct people {
    struct weir_limiter *limiter;
    struct weir_rule rule, other_rule;
    const char *limit, *other;
    char key[32];
    int count;
    struct person *people;
};
extern struct people people;

/* Before everything else. */
void people_init(void);

/* Opens the test's limiter, or ends the test. */
void people_open(const char *store, uint64_t memory_bytes);

/* A line of its own for each scenario. */
void people_begin(const char *name, const char *limit);

/* The same with two limits, of which the second begins empty. */
void people_begin_two(const char *name, const char *limit, const char *other);
void people_reset_other(void);
void people_fill_both(uint64_t cost, uint64_t other_cost);

/* The room in which all of them stand, wherever it is now. */
struct room *people_room(void);

uint64_t people_now(void);

struct weir_decision people_take(uint64_t cost);
void people_fill_up(uint64_t cost);

/* One more process, which stands in line, or has its answer, when this returns. `store`: NULL, or it opens that
 * by itself. */
struct person *people_join(uint64_t cost, uint64_t timeout_ns);
struct person *people_join_at(const char *store, uint64_t cost, uint64_t timeout_ns);
struct person *people_join_under(enum people_limits limits, const char *store, uint64_t cost,
                                 uint64_t timeout_ns);

/* Stops it, but not where it would hold up everybody: in the room. */
void people_stop(struct person *person);

/* Kills it. */
void people_end(struct person *person);

/* How often one that waited this long may have slept behind another process: its attendant looks every 50 ms. */
long people_looks(const struct person *person, uint64_t since_ns);

/* Waits until it ends by itself, and says what it was answered. */
enum weir_verdict people_answer(struct person *person);

/* What must be true, or the test ends: somebody was let in; everybody was, in order; somebody was at such a time;
 * nobody waits, and no place is lost. */
void people_must_be_let(struct person *person);
void people_must_be_served_in_order(void);
void people_must_be_about(const struct person *person, uint64_t since_ns, uint64_t least_ms,
                          uint64_t most_ms);
void people_must_be_gone(void);

#endif
