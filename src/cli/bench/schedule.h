/* SPDX-License-Identifier: MIT
 *
 * When requests are due: request i of a constant rate at exactly i intervals after the start,
 * whatever happened to those before it. A generator that instead waits for an interval after each
 * answer sends less while the server is slow, and so never sees how slow it is ("coordinated
 * omission", G. Tene). */
#ifndef WEIR_CLI_BENCH_SCHEDULE_H
#define WEIR_CLI_BENCH_SCHEDULE_H

#include <stdint.h>

#include "core/arith.h"
#include "weir/limit.h"

/* The share of one of `worker_count` workers: every worker_count-th request, from its own index. */
struct schedule {
    uint64_t denominator;
    struct span step; // between two requests of this worker
    struct span due;  // of its next request, after the start
};

/* `rate` is one that weir_limit_init() accepts: its count per its period. */
void schedule_init(struct schedule *schedule, const struct weir_limit_config *rate,
                   uint64_t worker_index, uint64_t worker_count);

/* Moves on to the next request. */
void schedule_advance(struct schedule *schedule);

#endif
