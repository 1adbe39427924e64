/* SPDX-License-Identifier: MIT
 *
 * A talk with PostgreSQL whose caller waits: connecting, asking something, and what a failure is called. What is connected
 * here becomes a session (session.h), or serves a command that looks after the store.
 *
 *     PGconn *connection = talk_open(pq, &url, &error);
 *     uint64_t until_ns = talk_now_ns() + TALK_PATIENCE_NS;
 *     if (talk_run(pq, connection, "SET jit = off", until_ns, &error)) { ... }
 *
 * Messages are one sentence, without the password. All thread-safe, distinct connections only. */
#ifndef WEIR_STORE_POSTGRES_TALK_H
#define WEIR_STORE_POSTGRES_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/time_units.h"
#include "store/postgres/libpq.h"
#include "store/postgres/url.h"

/* How long a server may take for all that a session needs. connect_timeout ends when it has let us in; and what has
 * fallen silent since, a host or a network, would keep PQexec() waiting for ever. */
#define TALK_PATIENCE_NS (2 * NS_PER_S)

/* The clock of until_ns: it only runs on. */
uint64_t talk_now_ns(void);

/* Whether libpq can read the URL: WEIR_OK, or WEIR_E_SYNTAX and why. */
enum weir_status talk_check_url(const struct libpq *pq, const struct postgres_url *url,
                                struct weir_error *error);

/* NULL, and the error says why. */
PGconn *talk_open(const struct libpq *pq, const struct postgres_url *url, struct weir_error *error);

/* Asks once more after talk_open() has failed. Whether a server is there, and will refuse us until somebody puts
 * something right. One that has as many clients as it may have (class 53), or is starting or ending (57), will not. Adds to
 * `error`, which talk_open() has filled, what helps. */
bool talk_is_refused(const struct libpq *pq, const struct postgres_url *url,
                     struct weir_error *error);

/* Sends SQL, which may be several statements. Returns as talk_hear(). */
PGresult *talk_ask(const struct libpq *pq, PGconn *connection, const char *text, uint64_t until_ns);

/* The last result of what was sent: of several statements, that of the last one or of the one that failed. NULL: none
 * in time. */
PGresult *talk_hear(const struct libpq *pq, PGconn *connection, int is_sent, uint64_t until_ns);

/* False of NULL, too. */
bool talk_is_done(const struct libpq *pq, const PGresult *result);

/* Whether it is done; takes the result. */
bool talk_settle(const struct libpq *pq, const PGconn *connection, PGresult *result,
                 struct weir_error *error);

/* Asks, and settles. */
bool talk_run(const struct libpq *pq, PGconn *connection, const char *text, uint64_t until_ns,
              struct weir_error *error);

/* What libpq says of the connection. */
void talk_say(struct weir_error *error, const struct libpq *pq, const PGconn *connection);

/* Of SQL that failed: what the server says, or the connection. */
void talk_say_result(struct weir_error *error, const struct libpq *pq, const PGconn *connection,
                     const PGresult *result);

/* Whether a statement failed because a prepared one was not where it had been prepared, or was there before: the session is
 * not ours alone. */
bool talk_is_pooled(const struct libpq *pq, const PGresult *result);

/* What helps then, behind a message. */
#define TALK_POOLED                                                                                \
    "; a pooler gives each transaction another session, and then the URL needs prepare=off"

/* A message of libpq's as one sentence: without a dot, in one line. */
void talk_copy_message(char *to, size_t size, const char *message);

#endif
