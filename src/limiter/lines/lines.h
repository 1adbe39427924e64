/* SPDX-License-Identifier: MIT
 *
 * Lines: who waits for which bucket, in the order of arrival.
 *
 *     waiter.ops = &OPS;
 *     if (!lines_join(lines, &waiter, &request, wait_ns, now_ns, &decision)) {
 *         ...                                  // decided at once
 *     }                                        // otherwise ops->answer() brings the decision
 *
 * A line belongs to one bucket. Its first waiter is the head: nobody is served before it, so a
 * large cost is not overtaken by small ones, nor by those who do not wait (the store sees to that:
 * line_keeper). Only the head is looked at when time passes, so serving it costs no scan of the
 * line.
 *
 * Two ways to wait. For a bucket the head takes as soon as its cost fits, and several may fit at
 * once. In a queue the bucket itself is the line: everybody is charged when he joins, and served at
 * his egress. There, one who is served late by no more than WEIR_JITTER_NS changes nothing for the
 * others; later than that, the line goes on from now at its rate, and nothing is caught up.
 *
 * A block answers everybody in the line of its bucket at once, but in a queue only who comes from now
 * on: who stands there has been let in. Whoever is refused blocks his key where his limit says so,
 * whether he waited, was not let in or did not mean to wait; who leaves does not.
 *
 * One mutex for all lines of a limiter. To wait is to be slow already, and what is done under it is
 * short: no system call but a timer's, no allocation but a line's. Waiters belong to the caller,
 * who also keeps their time: schedule() says when to call, and lines_call() is that call. */
#ifndef WEIR_LIMITER_LINES_LINES_H
#define WEIR_LIMITER_LINES_LINES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/arith.h"
#include "store/store.h"
#include "weir/limiter.h"

/* Nobody waits longer: readings and spans stay far from the end of their range. */
#define LINES_WAIT_NS_MAX WEIR_SPAN_NS_MAX

struct lines;
struct line;
struct shared_run;
struct together;
struct waiter;

/* What its owner does for a waiter. Both are called under the lock of the lines, by any thread. */
struct waiter_ops {
    /* See to it that lines_call() comes at `due_ns`, and no longer when it was wanted before. */
    void (*schedule)(struct waiter *waiter, uint64_t due_ns);
    /* It stands in line no more, and this is why: allowed, limited at its deadline, blocked. One
     * decision, or as many as it asked for together. The waiter may be used again as soon as the
     * lock is released. */
    void (*answer)(struct waiter *waiter, const struct weir_decision *decisions);
};

/* One who waits. `ops` is the owner's to set; the rest belongs to the line.
 *   together  if it waits under several limits: what stands in their lines for it; `run` in a store that
 *             processes share
 *   turn      its place in the order of arrival
 *   block_ns, on_full  the policy words of its own limit; the numbers are those of the line
 *   span      what its cost adds to the moment at which the bucket is empty
 *   gap       in a queue: from where the one before ends to where this one begins; 0 unless
 *             somebody who does not wait has filled the bucket in between. At a window, when its turn
 *             was last foreseen */
struct waiter {
    const struct waiter_ops *ops;
    struct line *line; // NULL: it stands in none
    struct waiter *next, *previous;
    union {
        struct together *together;
        struct shared_run *run;
    };
    union {
        uint64_t turn;
        uint32_t ticket; // instead, in a store that processes share; 0: it stands in no line
    };
    uint64_t cost_micro;
    uint64_t deadline_ns;
    struct span span;
    struct span gap;
    uint64_t block_ns;
    uint8_t on_full;
};

/* What has happened so far: to those of this process, where processes share the lines. */
struct lines_stats {
    uint64_t waiting_count; /* who stand in line now */
    uint64_t waiting_max;   /* who may, in all */
    uint64_t line_count;    /* for how many buckets; everybody's */
    uint64_t joined_count;
    uint64_t served_count;  /* allowed after they had waited */
    uint64_t expired_count; /* limited at their deadline: somebody filled the bucket meanwhile */
    uint64_t left_count;    /* gave their place back */
    uint64_t late_count;    /* not let in: the deadline would have passed */
    uint64_t blocked_count; /* blocked while they waited */
    uint64_t full_count;    /* not let in: too many stand there */
};

/* Keeps the lines of this store from now on. At most `waiting_max` wait at once. NULL if there is
 * no memory. */
struct lines *lines_open(struct store *store, uint64_t waiting_max);

/* The same for a store that processes share: their waiters stand in the same lines, each looked after by
 * its own process (shared_room.h). `is_caller_clock`: readings are not of the store's clock. */
struct lines *lines_open_shared(struct store *store, uint64_t waiting_max, bool is_caller_clock);

/* Whether others than this process stand in them. */
bool lines_are_shared(const struct lines *lines);

/* Nobody waits any longer, and no other call is running. NULL is fine. */
void lines_close(struct lines *lines);

/* A take that waits up to `wait_ns` (1 .. LINES_WAIT_NS_MAX) for its turn: one request, or a run of
 * them (weir/limiter.h); the decisions are as many. False: they are the answer. True: the waiter
 * stands in line until it is answered or leaves; the requests are no longer needed.
 * Refused at once is who could not be served by then, or would be one too many; retry_after_ns then
 * says after which time this same call, alone, would not be. Where even an empty queue lets it go
 * only after its wait, no time would do: the verdict is never.
 * A run stands in the lines of those limits that refuse it, and holds up no other. When it is the
 * first in all of them, all limits are asked at once; one that refuses only then gets it into its
 * line too, at the place of its arrival, but for a queue, which is full or not. How long two lines
 * take together is not foreseen, only each by itself: so a run may be let stand that is limited at
 * its deadline, and retry_after_ns may be too short for it. */
bool lines_join(struct lines *lines, struct waiter *waiter, const struct weir_request *requests,
                size_t count, uint64_t wait_ns, uint64_t now_ns, struct weir_decision *decisions);

/* Answers that nobody can stand there. */
void lines_answer_failed(const struct weir_request *requests, size_t count,
                         struct weir_decision *decisions);

/* The same for takes that the store may have failed: if it is out of reach their on_error answers, and what is allowed
 * goes at once, a queue's take as well. `count` is that of one run. */
void lines_answer_undecided(const struct lines *lines, const struct weir_request *requests,
                            size_t count, uint64_t now_ns, struct weir_decision *decisions);

/* Gives the place back: those behind move up. False if the waiter stood in no line any longer, for
 * it was answered; the owner then has the decision. */
bool lines_leave(struct lines *lines, struct waiter *waiter, uint64_t now_ns);

/* The time that schedule() named has come. Under the lock. */
void lines_call(struct lines *lines, struct waiter *waiter, uint64_t now_ns);

void lines_lock(struct lines *lines);
void lines_unlock(struct lines *lines);

/* For an owner that sleeps until it is answered: releases the lock while it does. */
pthread_mutex_t *lines_mutex(struct lines *lines);

/* The store's clock. */
uint64_t lines_now_ns(const struct lines *lines);

/* Whether no place is lost in lines that processes share. For tests, when nothing is under way. */
bool lines_valid(struct lines *lines);

void lines_read_stats(struct lines *lines, struct lines_stats *stats);

#endif
