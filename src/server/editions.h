/* SPDX-License-Identifier: MIT
 *
 * Which configuration is in use, and how it is exchanged for another while the workers run.
 *
 * An edition is what was read at one time: names, bound to the limiter, and the counters of each. It is
 * never changed. A reload makes another one and raises server.edition_number; a worker sees that before it feeds an
 * engine, and then turns to the new one, between two requests. So every request is decided under one
 * edition, and whoever has had an answer under the new one gets no answer under the old any more, from
 * whichever worker: its next request is fed after the number was raised. An edition is closed by whoever
 * is the last to turn away from it.
 *
 * What a name has counted goes on from edition to edition, as long as there is a limit of this name. */
#ifndef WEIR_SERVER_EDITIONS_H
#define WEIR_SERVER_EDITIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "limiter/names/names.h"
#include "protocol/engine.h"

struct edition;
struct server;
struct worker;

/* Reads the configuration that was chosen, or the one that is found; none is as good. False, and says why
 * on standard error, if it cannot be used. Before the workers are opened. */
bool editions_open(struct server *server);
void editions_close(struct server *server); // no worker runs

/* The file that is in use; "" if there is none. The main thread. */
const char *editions_path(const struct server *server);

/* SIGHUP: the same again. Logs what has changed, or why nothing has. The main thread. */
void editions_reload(struct server *server);

/* Lends the worker's engines the current edition, and gives back the one they had. */
void editions_follow(struct worker *worker);

/* The worker ends. */
void editions_leave(struct worker *worker);

/* A take that stands in line ends under the edition under which it came: keeps that of the worker,
 * lends its engines this one while the answer is written, and gives it back. */
struct edition *editions_hold(struct worker *worker);
void editions_lend(struct worker *worker, struct edition *edition);
void editions_drop(struct worker *worker, struct edition *edition);

/* Reloads that changed nothing. Thread-safe. */
uint64_t editions_failed_count(const struct server *server);

/* What the limits of the current edition have counted, of all workers. Thread-safe. */
struct name_total {
    char name[NAME_BYTES_MAX + 1];
    bool is_shadow;
    struct name_counts counts;
};
/* Fills totals[NAMES_LIMIT_COUNT_MAX]; returns how many there are. */
size_t editions_totals(const struct server *server, struct name_total *totals);

#endif
