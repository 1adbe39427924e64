/* SPDX-License-Identifier: MIT
 *
 * A worker's poller and clock, as the loop (platform/loop.h) that it lends to a store. */
#ifndef WEIR_SERVER_WORKER_LOOP_H
#define WEIR_SERVER_WORKER_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "platform/loop.h"
#include "server/poller.h"

/* An fd that a store watches. Its memory is used again only in a later pass: until then an event of this one may lead
 * here. */
struct store_source {
    struct source source;     // SOURCE_STORE
    struct loop_watch *watch; // NULL: it is watched no longer
    struct store_source *next;
};

/*   now_ns  the worker's, read once a turn
 *   left    sources that were given up in this pass; spare: in earlier ones */
struct worker_loop {
    struct loop loop; // first
    struct poller *poller;
    const uint64_t *now_ns;
    struct loop_timers timers;
    struct store_source *left, *spare;
};

/* Releases nothing but memory: the store has unwatched all. */
void worker_loop_open(struct worker_loop *loop, struct poller *poller, const uint64_t *now_ns);
void worker_loop_close(struct worker_loop *loop);

/* An event of a store's fd: calls those who watch it. */
void worker_loop_call(struct source *source, unsigned events);

/* Behind all events of a pass: calls the timers that are due. */
void worker_loop_finish(struct worker_loop *loop);

#endif
