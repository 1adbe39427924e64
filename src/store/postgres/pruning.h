/* SPDX-License-Identifier: MIT
 *
 * Pruning by servers: buckets that have been empty for a minute go, a few pages of the table at a time, and one server at a
 * time. Nobody elects that server. Each remembers the next page that it saw last. If the page is still the same when it
 * comes again, nobody else is at it, and it prunes. If the page has moved, somebody is, and it rests.
 *
 *     server A   looks: 0   0 -> 16   16 -> 32   32 -> 48   ...   992 -> 0   rests
 *     server B         looks: 16                      looks: 320            looks: 0    looks: 0, prunes
 *
 * The pace: of the time that A needs for its pages it leaves nine times as much to others. A round of the table is
 * followed by a rest of half a minute, and so is an error. So a small table costs a statement in half a minute.
 *
 * A statement locks the rows that it deletes, for as long as the transaction lasts. A take that comes just then waits for
 * that. Hence few pages at a time: some milliseconds.
 *
 * Threads: single owner. */
#ifndef WEIR_STORE_POSTGRES_PRUNING_H
#define WEIR_STORE_POSTGRES_PRUNING_H

#include <stdbool.h>
#include <stdint.h>

#include "store/postgres/flight.h"

enum { PRUNING_PAGES = 16 };

#define PRUNING_REST_NS                                                                            \
    UINT64_C(30000000000) // between two rounds, and while another server is at it
#define PRUNING_LOOK_NS UINT64_C(1000000000) // before the first statement, and behind it

/*   page     the next one, as it was seen last; -1: never yet
 *   sent_ns  when the statement was sent
 *   result   what has come of it
 *   outcome  of the statement that is through, until the next one is sent */
struct pruning {
    const struct libpq *pq;
    int64_t page;
    uint64_t sent_ns;
    PGresult *result;
    enum pruning_outcome {
        PRUNING_FAILED,
        PRUNING_LOOKED,
        PRUNING_OF_OTHERS,
        PRUNING_WENT_ON
    } outcome;
};

/* Hands the statement over to libpq, which has to be flushed. False: the connection is lost. */
bool pruning_send(struct pruning *pruning, const struct libpq *pq, PGconn *connection,
                  uint64_t now_ns);

/* Takes what libpq has by now. FLIGHT_OVER, too, if the statement has failed. */
enum flight_state pruning_hear(struct pruning *pruning, PGconn *connection,
                               struct weir_error *error);

/* The connection is lost: what has come of the statement is forgotten. */
void pruning_drop(struct pruning *pruning);

/* How long to wait for the next statement, when one is through. `random` spreads the servers. */
uint64_t pruning_pause_ns(const struct pruning *pruning, uint64_t now_ns, uint64_t random);

#endif
