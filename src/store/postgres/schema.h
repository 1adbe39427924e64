/* SPDX-License-Identifier: MIT
 *
 * The schema of weir in a database: whether it is there, of the right version, and to be used by this role; and making
 * it (schema.sql). */
#ifndef WEIR_STORE_POSTGRES_SCHEMA_H
#define WEIR_STORE_POSTGRES_SCHEMA_H

#include <stdint.h>

#include "store/postgres/session.h"

/* What version of schema.sql this weir needs. */
enum { POSTGRES_SCHEMA_VERSION = 1 };

/* Looks at it. SESSION_READY, or `error` says why not, with the command that helps. */
enum session_result schema_check(const struct libpq *pq, PGconn *connection,
                                 const struct postgres_url *url, uint64_t until_ns,
                                 struct weir_error *error);

/* Says why a look at it failed, or that the rights do not suffice. */
enum session_result schema_refuse(const struct libpq *pq, PGconn *connection,
                                  const PGresult *result, const struct postgres_url *url,
                                  struct weir_error *error);

/* Whether a statement failed because there is no schema of weir. */
bool schema_is_missing(const struct libpq *pq, const PGresult *result);

/* Makes it, or brings its functions up to date. It may be there, and in use. */
enum weir_status schema_init(const struct libpq *pq, const struct postgres_url *url,
                             struct weir_error *error);

#endif
