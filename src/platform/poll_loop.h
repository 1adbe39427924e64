/* SPDX-License-Identifier: MIT
 *
 * A loop over poll(), for a thread that watches a few fds: the attendant of the library, and tests.
 *
 *     struct poll_loop loop;
 *     if (!poll_loop_open(&loop)) { ... errno ... }
 *     ... lend &loop.loop ...
 *     while (...) {
 *         poll_loop_pass(&loop, UINT64_MAX);   // sleeps until an fd is ready, a timer is due, or somebody wakes it
 *     }
 *     poll_loop_close(&loop);
 *
 * Threads: single owner, but for poll_loop_wake(). Never allocates. */
#ifndef WEIR_PLATFORM_POLL_LOOP_H
#define WEIR_PLATFORM_POLL_LOOP_H

#include <poll.h>

#include "platform/loop.h"

enum { POLL_LOOP_FDS_MAX = 256 }; // watched at once, one of them the loop's own

/* The fields are for poll_loop.c. It stays where it is: `polled` and `watches` are parallel, and slot 0 is `wake`'s. */
struct poll_loop {
    struct loop loop;
    struct loop_timers timers;
    struct loop_watch wake;
    size_t slot_count;                             // slots above have never been used, or are free
    struct loop_watch *watches[POLL_LOOP_FDS_MAX]; // NULL: free
    struct pollfd polled[POLL_LOOP_FDS_MAX];       // a free one: fd -1, which poll() passes over
};

/* False, with errno, if the system has no eventfd to give. */
bool poll_loop_open(struct poll_loop *loop);

/* Nobody watches an fd, and no timer is set. */
void poll_loop_close(struct poll_loop *loop);

/* One pass: waits until an fd is ready, a timer is due or the loop is woken, for at most `timeout_ns` (UINT64_MAX: for
 * ever), or until a signal comes. Then it calls whom that concerns. While the program may not have as many fds as the
 * loop watches (RLIMIT_NOFILE), it waits for a millisecond at most, and calls timers only. */
void poll_loop_pass(struct poll_loop *loop, uint64_t timeout_ns);

/* Ends the sleep of the pass that is under way, or of the next one. Any number of times, from any thread, and from a
 * signal handler. Never blocks; not a point of cancellation. */
void poll_loop_wake(struct poll_loop *loop);

#endif
