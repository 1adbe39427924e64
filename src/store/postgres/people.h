/* SPDX-License-Identifier: MIT
 *
 * Limits that SQL takes under by their names (people.sql): kept in the table weir.limits. For upkeep.c, which connects. */
#ifndef WEIR_STORE_POSTGRES_PEOPLE_H
#define WEIR_STORE_POSTGRES_PEOPLE_H

#include "store/database.h"
#include "store/postgres/libpq.h"

/* As add_limit, list_limits and remove_limit of store/database.h, over a connection. */
enum weir_status people_add_limit(const struct libpq *pq, PGconn *connection,
                                  const struct database_limit *limit, struct weir_error *error);
enum weir_status people_list_limits(const struct libpq *pq, PGconn *connection,
                                    void (*tell)(void *context, const char *name, const char *text),
                                    void *context, struct weir_error *error);
enum weir_status people_remove_limit(const struct libpq *pq, PGconn *connection, const char *name,
                                     bool *existed, struct weir_error *error);

#endif
