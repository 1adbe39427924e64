/* SPDX-License-Identifier: MIT
 *
 * A port's link to PostgreSQL: two connections, and what waits for them.
 *
 *                   +- seat 0   a flight, or idle
 *     batches  ->  -+
 *     that wait     +- seat 1   a flight, or idle, or not connected yet
 *
 * What is asked while both seats have a flight waits here, and goes out as one flight when a seat is free: the busier
 * a store is, the more takes there are in a statement. A flight goes over one connection, in order. The second
 * connection is made the first time that something has to wait: a program that asks once does without.
 *
 * A connection that is lost is made anew while the other goes on; its flight is unknown.
 *
 * One link of the process prunes (pruning.h): now and then it sends a statement of its own over a seat that is idle, while
 * the other seat is there for takes. */
#ifndef WEIR_STORE_POSTGRES_LINK_H
#define WEIR_STORE_POSTGRES_LINK_H

#include <sys/types.h>

#include "store/postgres/session.h"
#include "store/remote.h"

/*   url    as it was parsed
 *   spare  a session that open() has made, for the first link; taken by an exchange
 *   prunes   false where decisions have another clock than the database's
 *   pruner   the link that prunes; NULL: the next one that is opened will. By an exchange */
struct postgres_store {
    struct store store; // first
    const struct libpq *pq;
    struct postgres_url url;
    PGconn *spare;
    bool prunes;
    struct link *pruner;
    pid_t owner;
};

extern const struct remote_ops postgres_link_ops;

#endif
