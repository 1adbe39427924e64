/* SPDX-License-Identifier: MIT
 *
 * The main thread looks after the store once a second, and tells the operator what he has to know: that
 * the table fills up, or is full, or that its file has lost its name.
 *
 * Shared word              Written by        Order    Pairs with
 * live_count, free_count   the main thread   relaxed  nothing: statistics for /metrics and INFO
 * is_gone                  the main thread   relaxed  nothing: for /metrics and /healthz */
#ifndef WEIR_SERVER_WATCH_H
#define WEIR_SERVER_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

/*   next_ns            when to look again, by weir_clock_now_ns()
 *   full_count,        requests without room of which the log has told, and buckets that were dropped
 *   events_full_count,
 *   evicted_count
 *   is_filling         the log has said that the table fills up */
struct watch {
    uint64_t next_ns;
    uint64_t full_count, events_full_count, evicted_count;
    bool is_filling;
    _Atomic uint64_t live_count, free_count;
    _Atomic uint64_t is_gone; // 1: the file of the store has been deleted or replaced
};

/* Looks for the first time: what happened before this server began is not told. */
void watch_open(struct server *server);

/* Looks, if it is time. Each event is logged once a round at most. */
void watch_look(struct server *server);

/* The operator has sent SIGHUP: goes on under the name of the store's file, if that was deleted or replaced, and logs
 * what has become of it; or why nothing has. The main thread, which may write a whole file meanwhile. */
void watch_follow(struct server *server);

/* Whether the file of the store has been deleted or replaced. Thread-safe. */
bool watch_is_gone(const struct server *server);

/* How long the main thread may sleep until then, rounded up. */
int watch_wait_ms(const struct server *server);

#endif
