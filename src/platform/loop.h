/* SPDX-License-Identifier: MIT
 *
 * A loop is lent to a part that has to wait for sockets, by the thread that owns the loop: a worker of the server, or
 * the attendant of the library. So the part needs no thread, and never calls epoll or poll.
 *
 *     struct reader {
 *         struct loop *loop;
 *         struct loop_watch watch;
 *     };
 *     static void read_more(void *owner, unsigned events) { ... read() until EAGAIN, or less ... }
 *
 *     reader->watch = (struct loop_watch){.ready = read_more, .owner = reader};
 *     if (!loop_watch(reader->loop, &reader->watch, fd, LOOP_READ)) { ... no memory ... }
 *     ...
 *     loop_unwatch(reader->loop, &reader->watch); // and then close(fd)
 *
 * A loop goes in passes. In each it asks the system which fds are ready, calls those who watch them, and then calls
 * the timers that are due.
 *
 * What a borrower may assume:
 *   - callbacks run one at a time, in the owner's thread, and never from within a function of the loop
 *   - a callback may call any function of the loop, for itself and for others. Who was unwatched, or whose timer was
 *     cleared, is not called any more, not even in the same pass
 *   - watches are level-triggered: a watch is called in each pass while its fd is ready. So one that reads only a part,
 *     or is not called in a pass that was busy with others, loses nothing
 *   - a timer that is set in a callback is not called in the same pass, even if it is due: others have their turn first
 *   - the owner says when a pass is over, where that matters to the borrower (port_flush() of store/port.h)
 *
 * It may not assume that all ready fds are looked at before a timer is called: a thread may stop for any time between
 * the two, and a busy pass may be cut short. Who has to know what an fd holds before it acts on a timer reads the fd.
 *
 * Threads: single owner, all of these. */
#ifndef WEIR_PLATFORM_LOOP_H
#define WEIR_PLATFORM_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a watch waits for, and is told. A closed connection and a broken one are ready for both: a read or a write says
 * what it is. */
enum { LOOP_READ = 1, LOOP_WRITE = 2 };

/* One fd that is watched. The borrower's memory, which stays where it is while the fd is watched. The borrower sets the
 * first two, the loop the others: all zeroes beside these is not watched.
 *   ready    called with LOOP_READ, LOOP_WRITE or both
 *   slot     what the loop finds its own things by */
struct loop_watch {
    void (*ready)(void *owner, unsigned events);
    void *owner;
    int fd;
    unsigned events;
    size_t slot;
};

/* One timer, likewise; not set while `place` is NULL. */
struct loop_timer {
    void (*due)(void *owner);
    void *owner;
    uint64_t at_ns;
    struct loop_timer *next, **place;
};

struct loop;

struct loop_ops {
    bool (*watch)(struct loop *loop, struct loop_watch *watch, int fd, unsigned events);
    void (*unwatch)(struct loop *loop, struct loop_watch *watch);
    void (*set_timer)(struct loop *loop, struct loop_timer *timer, uint64_t at_ns);
    void (*clear_timer)(struct loop *loop, struct loop_timer *timer);
    uint64_t (*now_ns)(const struct loop *loop);
};

/* First member of every loop. */
struct loop {
    const struct loop_ops *ops;
};

/* Watches `fd` for `events`, which are not none. If this watch has the fd already, it waits for these events from now
 * on. False, and then it is as it was: the loop has no room for another one. */
static inline bool loop_watch(struct loop *loop, struct loop_watch *watch, int fd, unsigned events)
{
    return loop->ops->watch(loop, watch, fd, events);
}

/* Before the fd is closed. Nothing happens if nothing is watched. */
static inline void loop_unwatch(struct loop *loop, struct loop_watch *watch)
{
    loop->ops->unwatch(loop, watch);
}

/* Calls the timer once, in the first pass that finds the loop's clock at `at_ns` or later. A timer that is set
 * already is moved. */
static inline void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t at_ns)
{
    loop->ops->set_timer(loop, timer, at_ns);
}

/* Nothing happens if it is not set. */
static inline void loop_clear_timer(struct loop *loop, struct loop_timer *timer)
{
    loop->ops->clear_timer(loop, timer);
}

/* What time it is, in nanoseconds; never runs backwards. A loop may read its clock once a pass. */
static inline uint64_t loop_now_ns(const struct loop *loop)
{
    return loop->ops->now_ns(loop);
}

/* ---- for those who make a loop ---- */

/* The timers of a loop: a sorted list, because a loop has a few of them. All zeroes is an empty one. */
struct loop_timers {
    struct loop_timer *first;
};

/* Of equal instants the timer that was set first is called first. */
void loop_timers_set(struct loop_timers *timers, struct loop_timer *timer, uint64_t at_ns);
void loop_timers_clear(struct loop_timer *timer);

/* When the next one is due; UINT64_MAX if none is set. */
static inline uint64_t loop_timers_next_ns(const struct loop_timers *timers)
{
    return timers->first != NULL ? timers->first->at_ns : UINT64_MAX;
}

/* Calls those that are due at `now_ns`, and no timer that is set meanwhile. */
void loop_timers_run(struct loop_timers *timers, uint64_t now_ns);

#endif
