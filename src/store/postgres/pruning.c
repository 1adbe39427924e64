/* SPDX-License-Identifier: MIT */
#include "store/postgres/pruning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/talk.h"

#define PAUSE_MIN_NS UINT64_C(20000000)
#define PAUSE_MAX_NS UINT64_C(1000000000)

enum { OTHERS_SHARE = 9 }; // of the time, for each one of pruning's own

bool pruning_send(struct pruning *pruning, const struct libpq *pq, PGconn *connection,
                  uint64_t now_ns)
{
    char page[24], pages[12];
    const char *const values[] = {page, pages};
    (void)snprintf(page, sizeof page, "%lld", (long long)pruning->page);
    (void)snprintf(pages, sizeof pages, "%d", PRUNING_PAGES);
    pruning->pq = pq;
    pruning->sent_ns = now_ns;
    pruning->outcome = PRUNING_FAILED;
    return pq->sendQueryParams(connection, "SELECT pruned, page FROM weir.prune_from($1, $2)", 2,
                               NULL, values, NULL, NULL, 0)
               == 1
           && pq->pipelineSync(connection) == 1;
}

/* The transaction is over. */
static void read_result(struct pruning *pruning)
{
    const struct libpq *pq = pruning->pq;
    if (pq->resultStatus(pruning->result) != PGRES_TUPLES_OK || pq->ntuples(pruning->result) != 1) {
        return;
    }
    bool is_first = pruning->page < 0;
    bool has_pruned = !pq->getisnull(pruning->result, 0, 0);
    pruning->outcome = has_pruned ? PRUNING_WENT_ON : is_first ? PRUNING_LOOKED : PRUNING_OF_OTHERS;
    pruning->page = strtoll(pq->getvalue(pruning->result, 0, 1), NULL, 10);
}

/* Of an ERROR the session goes on, whatever it is: takes find out for themselves whether it is of use. */
static bool is_lost(const struct libpq *pq, const PGresult *result)
{
    const char *severity = pq->resultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    return pq->resultStatus(result) == PGRES_FATAL_ERROR
           && (severity == NULL || strcmp(severity, "ERROR") != 0);
}

enum flight_state pruning_hear(struct pruning *pruning, PGconn *connection,
                               struct weir_error *error)
{
    const struct libpq *pq = pruning->pq;
    unsigned end_count = 0; // NULLs in a row: one stands between a statement and its sync
    while (!pq->isBusy(connection)) {
        PGresult *result = pq->getResult(connection);
        end_count = result == NULL ? end_count + 1 : 0;
        if (end_count > 1 || (result != NULL && is_lost(pq, result))) {
            pq->clear(result);
            talk_copy_message(error->message, sizeof error->message, pq->errorMessage(connection));
            return FLIGHT_BROKEN;
        }
        if (result != NULL && pq->resultStatus(result) == PGRES_PIPELINE_SYNC) {
            pq->clear(result);
            read_result(pruning);
            pruning_drop(pruning);
            return FLIGHT_OVER;
        }
        if (result != NULL) {
            pruning_drop(pruning);
            pruning->result = result;
        }
    }
    return FLIGHT_OUT;
}

void pruning_drop(struct pruning *pruning)
{
    if (pruning->result != NULL) {
        pruning->pq->clear(pruning->result);
    }
    pruning->result = NULL;
}

uint64_t pruning_pause_ns(const struct pruning *pruning, uint64_t now_ns, uint64_t random)
{
    uint64_t took_ns = now_ns - pruning->sent_ns;
    uint64_t pause_ns =
        took_ns < PAUSE_MAX_NS / OTHERS_SHARE ? took_ns * OTHERS_SHARE : PAUSE_MAX_NS;
    bool is_in_round = pruning->outcome == PRUNING_WENT_ON && pruning->page > 0;
    if (is_in_round) {
        return pause_ns > PAUSE_MIN_NS ? pause_ns : PAUSE_MIN_NS;
    }
    pause_ns = pruning->outcome == PRUNING_LOOKED ? PRUNING_LOOK_NS : PRUNING_REST_NS;
    return pause_ns + random % (pause_ns / 2);
}
