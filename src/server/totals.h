/* SPDX-License-Identifier: MIT
 *
 * The counters of all workers, added up: what /metrics and INFO print. */
#ifndef WEIR_SERVER_TOTALS_H
#define WEIR_SERVER_TOTALS_H

#include "server/state.h"
#include "server/worker.h"

struct totals {
    struct counters counters;
    struct worker_stats stats;
    struct asking_stats asking;
};

/* Thread-safe; the counters are read one by one, while the workers change them. */
void totals_read(const struct server *server, struct totals *totals);

/* Connections of this protocol that are open. */
uint64_t totals_connections(const struct totals *totals, int protocol);

/* Over all protocols and verdicts, and limits: those with names, too. Thread-safe. */
uint64_t totals_decisions(const struct server *server, struct totals *totals);

#endif
