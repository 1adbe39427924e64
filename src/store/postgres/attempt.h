/* SPDX-License-Identifier: MIT
 *
 * An attempt to open a session, by a thread of its own: libpq looks up names, reads the password file and computes
 * SCRAM while its caller waits, and a loop must not.
 *
 *     attempt = attempt_start(pq, &url, &error);
 *     ... watch attempt_fd() ...
 *     connection = attempt_finish(attempt, &error);     // when it is readable
 *
 * Nobody has to wait for it: one that was abandoned cleans up when it ends, two seconds after connect_timeout at the
 * latest. Of those a process has ATTEMPTS_ABANDONED_MAX at most.
 *
 * Threads: an attempt has a single owner. */
#ifndef WEIR_STORE_POSTGRES_ATTEMPT_H
#define WEIR_STORE_POSTGRES_ATTEMPT_H

#include "store/postgres/session.h"

enum { ATTEMPTS_ABANDONED_MAX = 64 };

struct attempt;

/* The URL is copied. NULL, with the reason, if there is no memory, no thread, or too many are abandoned. */
struct attempt *attempt_start(const struct libpq *pq, const struct postgres_url *url,
                              struct weir_error *error);

/* Readable when the attempt is over. The attempt's. */
int attempt_fd(const struct attempt *attempt);

/* Its outcome, once it is over: the session, which is the caller's, or NULL with the reason. The attempt is gone. */
PGconn *attempt_finish(struct attempt *attempt, struct weir_error *error);

void attempt_abandon(struct attempt *attempt);

#endif
