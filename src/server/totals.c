/* SPDX-License-Identifier: MIT */
#include "server/totals.h"

#include <stddef.h>
#include <stdlib.h>

/* Both structs are nothing but counters, so they are added up as arrays of them. */
_Static_assert(sizeof(struct counters) % sizeof(uint64_t) == 0, "counters only");
_Static_assert(sizeof(struct worker_stats) % sizeof(uint64_t) == 0, "counters only");

static void add_all(uint64_t *sums, const uint64_t *counters, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes / sizeof(uint64_t); i++) {
        sums[i] += __atomic_load_n(&counters[i], __ATOMIC_RELAXED); // statistics: engine.h
    }
}

void totals_read(const struct server *server, struct totals *totals)
{
    *totals = (struct totals){0};
    for (size_t i = 0; i < server->worker_count; i++) {
        const struct worker *worker = server->workers[i];
        add_all((uint64_t *)&totals->counters, (const uint64_t *)&worker->counters,
                sizeof totals->counters);
        add_all((uint64_t *)&totals->stats, (const uint64_t *)&worker->stats, sizeof totals->stats);
        add_all((uint64_t *)&totals->asking, (const uint64_t *)&worker->desk.shown,
                sizeof totals->asking);
    }
}

uint64_t totals_connections(const struct totals *totals, int protocol)
{
    uint64_t accepted = totals->stats.accepted[protocol];
    uint64_t ended = totals->stats.ended[protocol];
    return accepted > ended ? accepted - ended : 0; // read while they change
}

static uint64_t sum_decisions(uint64_t decisions[PROTOCOL_COUNT][VERDICT_COUNT])
{
    uint64_t sum = 0;
    for (int protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        for (int verdict = 0; verdict < VERDICT_COUNT; verdict++) {
            sum += decisions[protocol][verdict];
        }
    }
    return sum;
}

uint64_t totals_decisions(const struct server *server, struct totals *totals)
{
    uint64_t sum = sum_decisions(totals->counters.decisions);
    struct name_total *names = calloc(NAMES_LIMIT_COUNT_MAX, sizeof *names);
    size_t name_count = names != NULL ? editions_totals(server, names) : 0;
    for (size_t i = 0; i < name_count; i++) {
        sum += sum_decisions(names[i].counts.decisions);
    }
    free(names);
    return sum;
}
