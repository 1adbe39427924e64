/* SPDX-License-Identifier: MIT
 *
 * One thread of the load generator: its connections, what is due on them, and what came back. */
#ifndef WEIR_CLI_BENCH_WORKER_H
#define WEIR_CLI_BENCH_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/bench/load.h"
#include "cli/bench/schedule.h"
#include "cli/bench/zipf.h"
#include "cli/client.h"
#include "sync/histogram.h"

enum {
    CONNECTION_COUNT_MAX = 20000,
    PIPELINE_MAX = 1024,
    WORKER_COUNT_MAX = 64,
    ERROR_TEXT_MAX = 120
};

/* What all workers share. Read-only while they run, but for `stop`. */
struct plan {
    const struct load *load;
    struct zipf keys;
    const struct weir_limit_config *rate; // NULL: saturate, as much as the connections carry
    uint64_t request_count_max;           // UINT64_MAX: as many as the time allows
    uint64_t start_ns;                    // CLOCK_MONOTONIC
    uint64_t end_ns;                      // nothing is sent from then on
    uint64_t drain_ns;                    // how long the last answers may take
    uint64_t pipeline;
    uint64_t worker_count;
    uint64_t seed;
    int done_fd; // an eventfd: each worker adds 1 when it has ended
    bool stop;   // relaxed: set once, by the signal handler; a worker sees it within 100 ms
};

/* Written by the worker alone, relaxed; the progress line reads them meanwhile. */
struct tally {
    uint64_t sent;
    uint64_t verdicts[LOAD_VERDICT_COUNT];
    uint64_t lost;    // sent, and the connection broke
    uint64_t pending; // sent, and not answered when the time was over
    uint64_t unsent;  // due, and not sent before the end
    uint64_t broken;  // connections
};

struct connection;

struct worker {
    pthread_t thread;
    struct plan *plan;
    uint64_t index;
    struct connection *connections; // its own, connected
    uint64_t connection_count;
    struct tally tally;
    struct histogram latency; // from the instant a request was due, or sent when saturating
    struct histogram late;    // from when it was due to when it was sent
    char
        error[ERROR_TEXT_MAX]; // the first error that a server answered, or that broke a connection
    bool failed;               // it could not run at all
};

/* Takes over connected sockets. False if there is no memory. */
bool worker_init(struct worker *worker, struct plan *plan, uint64_t index, const int *fds,
                 uint64_t fd_count);
void worker_fini(struct worker *worker);

/* The thread. */
void *worker_run(void *worker);

#endif
