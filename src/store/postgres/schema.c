/* SPDX-License-Identifier: MIT */
#include "store/postgres/schema.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "store/postgres/sql.h"
#include "store/postgres/talk.h"

/* No such schema, table or function. */
bool schema_is_missing(const struct libpq *pq, const PGresult *result)
{
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    return state != NULL
           && (strcmp(state, "3F000") == 0 || strcmp(state, "42P01") == 0
               || strcmp(state, "42883") == 0);
}

static const char LOOK[] = "SELECT version, has_table_privilege('weir.bucket', 'SELECT')"
                           " AND has_table_privilege('weir.bucket', 'INSERT')"
                           " AND has_table_privilege('weir.bucket', 'UPDATE') FROM weir.upkeep";

enum session_result schema_refuse(const struct libpq *pq, PGconn *connection,
                                  const PGresult *result, const struct postgres_url *url,
                                  struct weir_error *error)
{
    bool is_error = !talk_is_done(pq, result);
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    bool is_forbidden = !is_error || (state != NULL && strcmp(state, "42501") == 0);
    if (is_error && schema_is_missing(pq, result)) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "this database has no schema of weir; this makes it: weir store init '%s'",
                   url->shown);
    } else if (is_forbidden) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "this role may not use the schema of weir; its owner lets it in by GRANT USAGE "
                   "ON SCHEMA weir, and GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA weir");
    } else {
        talk_say_result(error, pq, connection, result);
        return SESSION_AWAY;
    }
    return SESSION_REFUSED;
}

static enum session_result check_version(const char *text, const struct postgres_url *url,
                                         struct weir_error *error)
{
    int version = atoi(text);
    if (version < POSTGRES_SCHEMA_VERSION) {
        (void)fail(
            error, WEIR_E_SYSTEM, 0,
            "the schema of weir there has version %d, and this weir needs %d; this brings it "
            "up to date: weir store init '%s'",
            version, POSTGRES_SCHEMA_VERSION, url->shown);
    } else if (version > POSTGRES_SCHEMA_VERSION) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "the schema of weir there has version %d, and this weir knows %d: it needs a "
                   "newer weir",
                   version, POSTGRES_SCHEMA_VERSION);
    }
    return version == POSTGRES_SCHEMA_VERSION ? SESSION_READY : SESSION_REFUSED;
}

enum session_result schema_check(const struct libpq *pq, PGconn *connection,
                                 const struct postgres_url *url, uint64_t until_ns,
                                 struct weir_error *error)
{
    PGresult *result = talk_ask(pq, connection, LOOK, until_ns);
    enum session_result checked;
    if (!talk_is_done(pq, result) || pq->ntuples(result) != 1) {
        checked = schema_refuse(pq, connection, result, url, error);
    } else if (strcmp(pq->getvalue(result, 0, 1), "t") != 0) {
        checked = schema_refuse(pq, connection, result, url, error);
    } else {
        checked = check_version(pq->getvalue(result, 0, 0), url, error);
    }
    pq->clear(result);
    return checked;
}

enum weir_status schema_init(const struct libpq *pq, const struct postgres_url *url,
                             struct weir_error *error)
{
    PGconn *connection = talk_open(pq, url, error);
    if (connection == NULL) {
        return WEIR_E_SYSTEM;
    }
    bool is_made = talk_settle(pq, connection, pq->exec(connection, SQL_SCHEMA), error);
    pq->finish(connection);
    return is_made ? WEIR_OK : WEIR_E_SYSTEM;
}
