/* SPDX-License-Identifier: MIT
 *
 * A child that is led through something, one instruction after another (ptrace), and killed behind one of them.
 *
 *     struct path path = {0};
 *     pid_t child = steps_start(&path, before, something, context);
 *     while (steps_next(&path, child)) { ... }        // the whole path, once
 *     steps_end(child);
 *     child = steps_start(NULL, before, something, context);  // and then, as often as is wanted,
 *     steps_run_to(&path, child, at);                 // to where it stood after that step
 *     steps_end(child);
 *
 * All children of one path must do the same: then they come by the same instructions in the same order. So a
 * child runs to a breakpoint at the instruction that it shall not reach, as often as the path does, instead
 * of being led through all before it. One that comes by it less often is at its end then. */
#ifndef WEIR_TESTS_PROCESSES_STEPS_H
#define WEIR_TESTS_PROCESSES_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { STEPS_MAX = 3000000 };

/* Where a child stands: pcs[0] before its first step, pcs[i + 1] after step i. */
struct path {
    int count; // of steps so far
    uint64_t pcs[STEPS_MAX + 1];
};

/* A child that stands before it does that. `path` may be NULL. Ends the test as skipped where ptrace is
 * forbidden. */
pid_t steps_start(struct path *path, void (*begins)(void), void (*does)(const void *context),
                  const void *context);

/* Lets it go on to where it stops itself (SIGSTOP), and begins the path there. `path` may be NULL. */
void steps_begin_at_stop(struct path *path, pid_t child);

/* In a child: it has come through, and goes no farther. */
void steps_come_through(void);

/* One instruction. False when the child has come through. */
bool steps_next(struct path *path, pid_t child);

/* From the start of a new child on to behind step `at`; or to the end, if this one came by the place less often. */
void steps_run_to(const struct path *path, pid_t child, int at);

/* Lets it come through without further steps. */
void steps_run_out(pid_t child);

/* Leaves it to itself, and stopped, as SIGSTOP stops a process; SIGCONT lets it go on. */
void steps_freeze(pid_t child);

void steps_end(pid_t child);

/* Whether steps_start() would not end the test. */
bool steps_are_possible(void);

#endif
