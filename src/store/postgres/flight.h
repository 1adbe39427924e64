/* SPDX-License-Identifier: MIT
 *
 * A flight: batches that go out together over one connection, as the few statements that the planner makes of them.
 *
 *     batches        plan          statements            answers
 *     A  take alice   wave 0  ->   take many (alice, bob)   -> A, B
 *     B  take bob             ->   take run (carol, dave)   -> C
 *     C  take carol and dave
 *
 * What swap decides (swaps.h) follows over the same connection when these are through: a read, a write, and again where
 * somebody came between.
 *
 * A batch is reported when the last of its statements is through:
 *
 *     all have succeeded                        FATE_DECIDED
 *     all have failed                           FATE_NOT_ASKED: each was a transaction, and is rolled back
 *     some have succeeded                       FATE_UNKNOWN
 *     the connection was lost before that       FATE_UNKNOWN
 *
 * Threads: single owner. */
#ifndef WEIR_STORE_POSTGRES_FLIGHT_H
#define WEIR_STORE_POSTGRES_FLIGHT_H

#include "store/postgres/question.h"

struct port;
struct flight;

/*   FLIGHT_OUT     statements are still to be answered
 *   FLIGHT_READY   there are more to be sent
 *   FLIGHT_OVER    all are answered
 *   FLIGHT_BROKEN  the connection is of no use any more */
enum flight_state { FLIGHT_OUT, FLIGHT_READY, FLIGHT_OVER, FLIGHT_BROKEN };

/* Plans a flight. The batches are its own until they are reported: they have questions that are asked, all one now_ns,
 * and all are asked for the first time, or again. Of those that are asked again each name has a statement of its own:
 * what has made them fail, somebody's lock on a row for example, takes no others with it this time.
 * NULL: no memory, and the list is as it was. */
struct flight *flight_make(struct batch_list *batches);

/* A flight of no batch: a take, because a store that can read and not write decides nothing. port_probe_answered() is
 * called if it was decided. NULL: no memory. */
struct flight *flight_make_probe(struct port *port);

/* Hands the next statements over to libpq, which has to be flushed: at first, and when the flight is FLIGHT_READY. False:
 * the connection is lost, and nobody knows how much was sent. */
bool flight_send(struct flight *flight, const struct libpq *pq, PGconn *connection,
                 bool is_prepared);

/* Takes the answers that libpq has by now, and reports. Why it is broken goes to `error`. */
enum flight_state flight_hear(struct flight *flight, const struct libpq *pq, PGconn *connection,
                              struct weir_error *error);

/* Whether it has questions that swap decides. */
bool flight_swaps(const struct flight *flight);

/* Reports the batches that are left, with this fate, and frees the flight. */
void flight_end(struct flight *flight, enum fate fate);

/* Frees it, and reports nothing. NULL is fine. */
void flight_forget(struct flight *flight);

#endif
