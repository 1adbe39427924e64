/* SPDX-License-Identifier: MIT
 *
 * From what people want to the limit that guarantees it.
 *
 * "At most N in any T": a bucket admits in a window of T, both its ends included, at most
 *
 *     capacity + rate * T
 *
 * and that much is reached. So every split of N into a capacity and what drains in T will do, and no
 * faster rate beside the same capacity: what may come at once is taken from the rate for ever.
 *
 * A limit of kind window lets all of N come at once and keeps all of the rate, for it remembers what it let
 * through. At most N pass in any T of which the end is not a part: what comes exactly T later is the next. */
#ifndef WEIR_CLI_PLAN_H
#define WEIR_CLI_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limit.h"

/* What is wanted. */
struct plan {
    uint64_t at_most_micro;
    uint64_t window_ns;
};

/* True if a text begins as "at most N in any [N]UNIT" does: then it is meant so. */
bool plan_is_meant(const char *text);

/* Reads such a text. Statuses of weir_limit_parse(). */
WEIR_MUST_USE enum weir_status plan_parse(struct plan *plan, const char *text,
                                          struct weir_error *error);

/* The bucket with this capacity that admits at most so much in any such window, and reaches it. False
 * if there is none: it needs 0 < capacity < at most, and a rate that is exact. */
bool plan_bucket(struct weir_limit_config *config, const struct plan *plan,
                 uint64_t capacity_micro);

/* The window that lets through exactly that: all whole units of it, in any such window. False if there is none:
 * its count is bounded. */
bool plan_window(struct weir_limit_config *config, const struct plan *plan);

/* Of `plan`, the largest whole capacity of a bucket that has drained in so much time:
 *
 *     capacity <= rate * time  and  capacity + rate * T = N,  so  capacity <= N * time / (T + time)
 *
 * 0 if not even one unit has. */
uint64_t plan_capacity_within(const struct plan *plan, uint64_t max_latency_ns);

/* Limits worth a look, the recommended one first; the window is the last. */
enum { PLAN_CHOICE_MAX = 4 };
struct plan_choice {
    struct weir_limit_config config;
    const char *why;
};

/* Fills `choices`; returns how many there are, 0 if nothing can be kept exactly. With a latency, which is 0
 * without, all buckets among them have drained by then, from full. */
size_t plan_choose(const struct plan *plan, uint64_t max_latency_ns,
                   struct plan_choice choices[PLAN_CHOICE_MAX]);

/* A choice over the period that was asked about, so that its count and its capacity make up what was wanted:
 * 900/31d capacity=100, and not 100/4960min. Reads as just this config. Returns `text`. */
const char *plan_text(const struct weir_limit_config *config, char text[WEIR_LIMIT_TEXT_MAX]);

/* Sizing by latency: the largest capacity that has drained in so much time, capacity = rate * time,
 * rounded down to a millionth, and of a stepped limit to whole periods; 0 if that is none. */
uint64_t plan_capacity(const struct weir_limit_config *config, uint64_t max_latency_ns);

#endif
