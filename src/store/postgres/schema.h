/* SPDX-License-Identifier: MIT
 *
 * The schema of weir in a database: whether it is there, of the right version, and to be used by this role; making it
 * (schema.sql); and bringing an older one to the newest version.
 *
 *     version there   a server            init                migrate
 *     none            refuses: init       makes the newest    refuses: init
 *     older           refuses: migrate    refuses: migrate    goes step by step to the newest
 *     newest          starts              renews functions    leaves it alone
 *     newer           refuses: a newer weir is needed, for each of the three
 *
 * A comment on the schema says which weir made this version first, for those that are too old to know it. */
#ifndef WEIR_STORE_POSTGRES_SCHEMA_H
#define WEIR_STORE_POSTGRES_SCHEMA_H

#include <stdint.h>

#include "store/database.h"
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

/* As in struct database_upkeep. */
enum weir_status schema_script(const struct database_plan *plan, char **text,
                               struct weir_error *error);
enum weir_status schema_init(const struct libpq *pq, PGconn *connection,
                             const struct postgres_url *url, const struct database_plan *plan,
                             struct weir_error *error);
enum weir_status schema_migrate(const struct libpq *pq, PGconn *connection,
                                const struct postgres_url *url,
                                struct database_migration *migration, struct weir_error *error);

#endif
