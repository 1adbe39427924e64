/* SPDX-License-Identifier: MIT
 *
 * A session: a connection to PostgreSQL that is ready for statements. Opening one waits, for names, TLS, passwords and
 * answers; so a thread of its own does it (attempt.h), or the one that starts the program. */
#ifndef WEIR_STORE_POSTGRES_SESSION_H
#define WEIR_STORE_POSTGRES_SESSION_H

#include "store/postgres/libpq.h"
#include "store/postgres/url.h"

/*   SESSION_READY    non-blocking, in pipeline mode
 *   SESSION_REFUSED  the server is there, and there is something to be put right: the password, the database, the schema
 *   SESSION_AWAY     there is no server now, or it does not decide: it starts, or has as many clients as it may have */
enum session_result { SESSION_READY, SESSION_REFUSED, SESSION_AWAY };

/* Connects, looks whether the schema is there and may be used, makes the settings and prepares the statements.
 * If it fails, *connection is NULL and `error` says why, in one sentence without the password, and with the command
 * that helps where there is one.
 *   tells_apart  SESSION_AWAY is wanted: the server is asked once more. Otherwise it is SESSION_REFUSED too
 * Thread-safe. */
enum session_result session_open(PGconn **connection, const struct libpq *pq,
                                 const struct postgres_url *url, bool tells_apart,
                                 struct weir_error *error);

#endif
