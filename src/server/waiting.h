/* SPDX-License-Identifier: MIT
 *
 * Connections that stand in line (limiter/lines/lines.h): how the server keeps their time, and brings them
 * their answers.
 *
 * Each worker keeps the time of its own connections: a wheel of all instants at which one of them has to
 * be looked at, and one timer, set to the earliest. So whoever's turn it is, its answer is written by the
 * thread that owns its socket, and that thread wakes for nobody else.
 *
 *     a connection asks     waiting_begin()   -> lines_join() -> schedule(): into the worker's wheel
 *     the timer fires       waiting_run()     -> lines_call() -> answer(): to the worker's answered list
 *     in the same turn      waiting_deliver() -> the engine writes, the socket sends
 *
 * Everything here but the decision itself happens under the lock of the lines, because a line leads from
 * one worker's connections to another's: answer() and schedule() reach for the wheel of whoever is next. */
#ifndef WEIR_SERVER_WAITING_H
#define WEIR_SERVER_WAITING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "limiter/lines/lines.h"
#include "server/poller.h"
#include "server/wheel.h"
#include "sync/histogram.h"

struct connection;
struct worker;

/* A connection's place in line, while it has one. */
struct waiting {
    struct waiter waiter; // first: it leads back here
    struct wheel_entry timer;
    struct worker *worker;
    struct connection *connection;
    struct edition *edition; // under which it came
    struct waiting *next_answered;
    uint64_t joined_ns;
    uint32_t count;                   // how many limits it asked for together
    uint32_t shadows;                 // which of them are only tried, a bit each
    struct weir_decision decisions[]; // until it is answered, those of a server that stops
};

/* A worker's share. All but `has_answered` is under the lock of the lines. */
struct agenda {
    struct source timer_source; // SOURCE_TIMER
    int timer_fd;
    uint64_t timer_ns; // what it is set to; UINT64_MAX: to nothing
    struct wheel wheel;
    struct waiting *answered_first, *answered_last;
    _Atomic bool has_answered; // relaxed: who is answered by another thread is woken, too
    struct histogram *waits;   // how long those have waited who were let in; this worker writes
};

/* False with errno. Startup only. */
bool agenda_open(struct agenda *agenda, uint64_t now_ns);
void agenda_close(struct agenda *agenda);

/* As service_ops.wait(), for the connection that the worker is running. */
bool waiting_begin(struct worker *worker, struct connection *connection,
                   const struct weir_request *requests, size_t count, uint64_t wait_ns,
                   struct weir_decision *decisions);

/* The connection ends: its place goes to whoever is behind it. */
void waiting_end(struct worker *worker, struct connection *connection);

/* Looks at all whose time has come. After the timer has fired. */
void waiting_run(struct worker *worker);

/* Brings their answers to this worker's connections: see connection_resume(). */
void waiting_deliver(struct worker *worker);

/* The server ends: answers this connection with an error, unless its answer is on the way. */
void waiting_fail(struct worker *worker, struct connection *connection);

/* The test clock moves on by `by_ns`, by way of every instant at which something is due; or to `then_ns`
 * at once: what was due in between is late then. False, and it stays, if that would be backwards or
 * beyond WEIR_NOW_NS_MAX. Any worker; others learn by a wake-up what it brings them. */
bool waiting_advance_clock(struct worker *worker, uint64_t by_ns);
bool waiting_set_clock(struct worker *worker, uint64_t then_ns);

#endif
