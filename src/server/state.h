/* SPDX-License-Identifier: MIT
 *
 * What all threads of the server share. Set up before the workers start, and from then on read-only
 * but for the words named here:
 *
 * Shared word         Written by                 Order     Pairs with
 * edition_number      the main thread            release   acquire in worker_follow(), see editions.h
 * is_draining         the main thread            release   acquire in server_is_draining()
 * connection_count    workers, fetch-add         relaxed   nothing: a bound, see door_admit()
 * buffers_bytes       workers, fetch-add         relaxed   nothing: a bound; so is strangers_bytes, a part of it
 * is_swollen          workers, swapped           relaxed   nothing: who swaps it back tells
 * next_id             workers, fetch-add         relaxed   nothing: only unique
 * next_worker         workers, fetch-add         relaxed   nothing: whose turn it is
 * outage.down_count   workers, under its mutex   relaxed   nothing: a count, see asking.h
 * the rest of outage  workers, under its mutex
 * a worker's pool     classes: that worker; is_asked: exchanged by all; relaxed, hints: see pool.h
 * a worker's handovers: under its handover_mutex
 * test_clock, log, watch: see test_clock.h, log.h, watch.h
 * counters, stats and histograms of a worker: that worker, relaxed; read by whoever is scraped
 * Price of the races: with N workers at most N - 1 connections (or buffers) pass the bound. */
#ifndef WEIR_SERVER_STATE_H
#define WEIR_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/address_table.h"
#include "server/listener.h"
#include "server/log.h"
#include "server/options.h"
#include "server/password.h"
#include "server/test_clock.h"
#include "server/watch.h"
#include "weir/limiter.h"

enum {
    // every address may resolve to several, and the service manager may bring some
    LISTENER_COUNT_MAX = 64
};

struct editions;
struct worker;

/* What the log says while workers have lost a store that answers later: asking.c.
 *   down_count    how many have; read without the mutex, too
 *   is_explained  it has said another reason since
 *   why           as it said when the first one lost the store */
struct outage {
    pthread_mutex_t mutex;
    _Atomic uint64_t down_count;
    bool is_explained;
    char why[WEIR_ERROR_TEXT_MAX];
};

struct server {
    struct options options;
    struct password password;
    struct log log;
    struct weir_limiter *limiter;
    bool is_stored;               // in a file, which has a clock of its own
    struct test_clock test_clock; // used if options.test_clock
    struct listener listeners[LISTENER_COUNT_MAX];
    size_t listener_count;
    struct worker **workers;
    size_t worker_count;
    struct editions *editions; // of the configuration
    struct watch watch;        // of the main thread
    uint64_t connections_max;
    uint64_t started_ns;     // weir_clock_now_ns()
    int64_t started_wall_s;  // since 1970
    uint64_t drain_until_ns; // set before is_draining

    _Atomic uint64_t edition_number;
    _Atomic bool is_draining;
    _Atomic uint64_t connection_count;
    _Atomic uint64_t buffers_bytes;   // see pool.h
    _Atomic uint64_t strangers_bytes; // of those that have not said the password
    _Atomic bool is_swollen;          // buffers_bytes was great, and is not small again
    _Atomic uint64_t next_id;
    _Atomic uint64_t next_worker;
    struct outage outage;
    struct address_table *addresses; // NULL without a password and --max-connections-per-address
    int ended_fd;                    // an eventfd: each worker adds 1 when it has ended
    int ebb_fd;                      // likewise: a flood of buffers is over

    /* One gate per thing that clients can make us log. */
    struct log_gate full_gate, cut_gate, accept_gate, auth_gate, bad_request_gate;
};

static inline bool server_is_draining(const struct server *server)
{
    /* Pairs with the release in server.c: drain_until_ns was written before. */
    return atomic_load_explicit(&server->is_draining, memory_order_acquire);
}

#endif
