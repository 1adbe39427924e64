/* SPDX-License-Identifier: MIT
 *
 * A loop for tests: its time stands still, and moves when the test says so. It has timers, and no fds.
 *
 *     struct still_loop loop;
 *     still_loop_init(&loop, end_turn, &world);        // end_turn() is called after each pass; may be NULL
 *     still_loop_go(&loop, loop.now_ns + 5 * MS);      // visits each instant at which a timer is due
 *     still_loop_stall(&loop, loop.now_ns + 50 * MS, true);  // jumps: the thread was stopped, and all is due in one
 *                                                      // pass, the latest first, or in order */
#ifndef WEIR_TESTS_STILL_LOOP_H
#define WEIR_TESTS_STILL_LOOP_H

#include <stdlib.h>

#include "platform/loop.h"

/* How many passes there are at one instant, at most: more of them never end. */
enum { STILL_PASSES_MAX = 10000 };

struct still_loop {
    struct loop loop;
    struct loop_timers timers;
    uint64_t now_ns;
    void (*end_turn)(void *context);
    void *context;
};

static inline bool still_watch(struct loop *loop, struct loop_watch *watch, int fd, unsigned events)
{
    (void)loop, (void)watch, (void)fd, (void)events;
    abort();
}

static inline void still_unwatch(struct loop *loop, struct loop_watch *watch)
{
    (void)loop, (void)watch;
}

static inline void still_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t at_ns)
{
    loop_timers_set(&((struct still_loop *)loop)->timers, timer, at_ns);
}

static inline void still_clear_timer(struct loop *loop, struct loop_timer *timer)
{
    (void)loop;
    loop_timers_clear(timer);
}

static inline uint64_t still_now_ns(const struct loop *loop)
{
    return ((const struct still_loop *)loop)->now_ns;
}

static inline void still_loop_init(struct still_loop *loop, void (*end_turn)(void *context),
                                   void *context)
{
    static const struct loop_ops ops = {still_watch, still_unwatch, still_set_timer,
                                        still_clear_timer, still_now_ns};
    *loop = (struct still_loop){.loop = {&ops}, .end_turn = end_turn, .context = context};
}

static inline void still_loop_pass(struct still_loop *loop)
{
    loop_timers_run(&loop->timers, loop->now_ns);
    if (loop->end_turn != NULL) {
        loop->end_turn(loop->context);
    }
}

/* Until nothing is due any more at `then_ns`. */
static inline void still_loop_go(struct still_loop *loop, uint64_t then_ns)
{
    for (int passes = 0; loop_timers_next_ns(&loop->timers) <= then_ns; passes++) {
        uint64_t next_ns = loop_timers_next_ns(&loop->timers);
        if (next_ns > loop->now_ns) {
            loop->now_ns = next_ns;
            passes = 0;
        }
        if (passes > STILL_PASSES_MAX) {
            abort();
        }
        still_loop_pass(loop);
    }
    loop->now_ns = then_ns;
}

static inline void still_loop_stall(struct still_loop *loop, uint64_t then_ns, bool is_backwards)
{
    loop->now_ns = then_ns;
    struct loop_timers due = {NULL};
    uint64_t at_ns = UINT64_MAX;
    while (is_backwards && loop_timers_next_ns(&loop->timers) <= then_ns) {
        loop_timers_set(&due, loop->timers.first, --at_ns); // each before the last one
    }
    while (due.first != NULL) {
        loop_timers_set(&loop->timers, due.first, 0);
    }
    still_loop_go(loop, then_ns);
}

#endif
