/* SPDX-License-Identifier: MIT
 *
 * Buckets in PostgreSQL, shared by all hosts that reach it. In a library of its own, libweir-postgres, so that libweir
 * needs no database's client:
 *
 *     static const struct weir_store_driver *const DRIVERS[] = {&weir_postgres_driver, NULL};
 *     struct weir_limiter_config config = {.store = "postgres://weir@db.example/limits", .drivers = DRIVERS};
 *     weir_limiter_open(&limiter, &config, &error);
 *
 * Link with -lweir-postgres -lweir. libpq is loaded when the first such store is opened: libpq.so.5 has to be there
 * then, and not before.
 *
 * The URL is one that libpq reads: hosts, TLS, services, and the password from where libpq looks for it (the URL,
 * PGPASSWORD, ~/.pgpass). One option is weir's own:
 *     prepare=off  no prepared statements and no settings of the session: for poolers like pgbouncer, which hand a
 *                  session from one client to another
 * `weir store init URL` makes the schema.
 *
 * weir_limiter_open() sleeps until the store has answered, or for twice as long as connect_timeout of the URL says (2 s).
 * A store that refuses (password, schema) is an error, WEIR_E_SYSTEM. One that cannot be reached is not: then `error` says
 * why, though the status is WEIR_OK, and on_error answers until it can be reached. */
#ifndef WEIR_POSTGRES_H
#define WEIR_POSTGRES_H

#ifdef __cplusplus
extern "C" {
#endif

struct weir_store_driver;

extern const struct weir_store_driver weir_postgres_driver;

#ifdef __cplusplus
}
#endif

#endif
