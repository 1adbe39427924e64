/* SPDX-License-Identifier: MIT
 *
 * What the drills share: a file for each scenario, which every process opens by itself; a process that stands in the
 * middle of an insertion; and others that want to insert into the same stripe.
 *
 *     drill_begin("a scenario");
 *     drill_hold("held", NULL);             // it holds the lock of a stripe
 *     drill_key(DRILL_SAME_STRIPE, key);    // another key there
 *     struct taker *taker = drill_start_taker(key, NULL);
 *     drill_must_wait(taker);
 *     drill_let_go();
 *     if (drill_answer(taker) != DRILL_CAPACITY) { ... }
 *     drill_end();
 *
 * What hangs is ended by alarm(). */
#ifndef WEIR_TESTS_PROCESSES_DRILL_H
#define WEIR_TESTS_PROCESSES_DRILL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "limiter/limiter_state.h"
#include "sharing.h"
#include "store/table/file_header.h"
#include "store/table/places.h"
#include "weir/weir.h"

#define DRILL_LIMIT "10/100h" // nothing drains while a test runs
enum { DRILL_CAPACITY = 10, DRILL_BLOCKED_S = 60, DRILL_KEY_MAX = 32 };

/*   limiter  this process's own, with `rule` for DRILL_LIMIT */
struct drill {
    char folder[32];
    char path[64];
    char url[96];
    struct weir_limiter *limiter;
    struct weir_rule rule;
};
extern struct drill drill;

/* Where a process enters a container before it opens the file; NULL: nowhere. */
typedef void drill_entrance(void);

/* Prints the name, makes a new file, and opens it for the test's own process. */
void drill_begin(const char *name);

/* The same with memory that the children of a fork share, and no file. */
void drill_begin_in_memory(const char *name);

/* Closes it, and removes it. */
void drill_end(void);

/* Prints why a scenario is left out. */
void drill_skip(const char *name, const char *why);

/* 0, or 77 if all that was begun or skipped was skipped. */
int drill_exit_code(void);

/* Opens drill.url into drill.limiter, or ends the test. */
void drill_open(void);
void drill_close(void);

const struct table *drill_table(void);
const struct file_header *drill_header(void);

/* ---- takes ---- */

enum weir_verdict drill_take(const char *key);

/* How many units a key still has for us, taking one after the other. */
int drill_count(const char *key);

/* Ends the test if these are not as many as they should be. */
void drill_must_be(int count, int expected, const char *of_whom);

/* A new key that is at home where the held one is, or in another stripe. */
enum drill_where { DRILL_SAME_LINE, DRILL_OTHER_STRIPE };
void drill_key(enum drill_where where, char key[DRILL_KEY_MAX]);

/* ---- one in the middle of an insertion ---- */

/* Starts the holder: it has given a slot's state to the key, and not yet the tag. */
void drill_hold(const char *key, drill_entrance *enters);

/* The same with a child of its own, which does nothing, and lives on. */
pid_t drill_hold_with_child(const char *key);

/* It goes on, and ends; it must have been allowed. Or it is stopped, and continued, or killed. */
void drill_let_go(void);
void drill_freeze(void);
void drill_thaw(void);
void drill_kill_holder(void);

/* ---- others ---- */

/* A process that opens the file and takes all that a key has. */
struct taker {
    volatile pid_t pid;
    volatile bool has_opened, has_answer;
    volatile int allowed;
    volatile uint64_t opened_ns; // of the store's time
};

struct taker *drill_start_taker(const char *key, drill_entrance *enters);

/* Until it has slept, and looked whether the holder is alive, again and again; without an answer. */
void drill_must_wait(const struct taker *taker);

void drill_kill(struct taker *taker);

/* Waits for its end, and says how much it got. */
int drill_answer(struct taker *taker);

/* Whether this process may do something that needs root: tried in a child. */
bool drill_may(drill_entrance *enters);

#endif
