/* SPDX-License-Identifier: MIT */
#include "store/postgres/people.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "store/postgres/schema.h"
#include "store/postgres/talk.h"

#define PEOPLE_PATIENCE_NS (10 * NS_PER_S) // what holds the row of a limit is a person

/* Takes the result. */
static enum weir_status settle(const struct libpq *pq, PGconn *connection, PGresult *result,
                               struct weir_error *error)
{
    const char *state = result != NULL ? pq->resultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    if (state != NULL && strcmp(state, "42501") == 0) {
        pq->clear(result);
        return fail(error, WEIR_E_SYSTEM, 0,
                    "this role may not do that to weir.limits; give this command the URL of the "
                    "owner of the schema of weir");
    }
    if (state != NULL && schema_is_missing(pq, result)) {
        pq->clear(result);
        return fail(error, WEIR_E_SYSTEM, 0,
                    "this database has no table weir.limits; this makes it: weir store init URL");
    }
    return talk_settle(pq, connection, result, error) ? WEIR_OK : WEIR_E_SYSTEM;
}

static PGresult *ask(const struct libpq *pq, PGconn *connection, const char *text, int count,
                     const char *const *values)
{
    int is_sent = pq->sendQueryParams(connection, text, count, NULL, values, NULL, NULL, 0);
    return talk_hear(pq, connection, is_sent, talk_now_ns() + PEOPLE_PATIENCE_NS);
}

enum { ADD_COUNT = 10, NUMBER_TEXT_MAX = 40 };

static const char ADD[] =
    "INSERT INTO weir.limits (name, text, kind, goes_first, identity, d, scale, full_ns, full_rest,"
    " capacity_micro) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
    " ON CONFLICT (name) DO UPDATE SET text = excluded.text, kind = excluded.kind,"
    " goes_first = excluded.goes_first, identity = excluded.identity, d = excluded.d,"
    " scale = excluded.scale, full_ns = excluded.full_ns, full_rest = excluded.full_rest,"
    " capacity_micro = excluded.capacity_micro";

enum weir_status people_add_limit(const struct libpq *pq, PGconn *connection,
                                  const struct database_limit *added, struct weir_error *error)
{
    const struct weir_limit *limit = added->limit;
    const uint64_t numbers[] = {limit->denominator, limit->scale, limit->full_ns, limit->full_rest,
                                limit->capacity_micro};
    char texts[5][NUMBER_TEXT_MAX];
    char identity[2 + 2 * DATABASE_IDENTITY_BYTES + 1] = "\\x";
    for (size_t i = 0; i < DATABASE_IDENTITY_BYTES; i++) {
        (void)snprintf(identity + 2 + 2 * i, 3, "%02x", added->identity[i]);
    }
    for (size_t i = 0; i < 5; i++) {
        (void)snprintf(texts[i], NUMBER_TEXT_MAX, "%" PRIu64, numbers[i]);
    }
    const char *const values[ADD_COUNT] = {
        added->name,
        added->text,
        limit->kind == WEIR_KIND_QUEUE ? "queue" : "bucket",
        limit->first == WEIR_FIRST_NOW ? "t" : "f",
        identity,
        texts[0],
        texts[1],
        texts[2],
        texts[3],
        texts[4],
    };
    return settle(pq, connection, ask(pq, connection, ADD, ADD_COUNT, values), error);
}

enum weir_status people_list_limits(const struct libpq *pq, PGconn *connection,
                                    void (*tell)(void *context, const char *name, const char *text),
                                    void *context, struct weir_error *error)
{
    PGresult *result = ask(
        pq, connection, "SELECT name, text FROM weir.limits ORDER BY name COLLATE \"C\"", 0, NULL);
    if (talk_is_done(pq, result)) {
        for (int i = 0; i < pq->ntuples(result); i++) {
            tell(context, pq->getvalue(result, i, 0), pq->getvalue(result, i, 1));
        }
    }
    return settle(pq, connection, result, error);
}

enum weir_status people_remove_limit(const struct libpq *pq, PGconn *connection, const char *name,
                                     bool *existed, struct weir_error *error)
{
    PGresult *result =
        ask(pq, connection, "DELETE FROM weir.limits WHERE name = $1 RETURNING name", 1, &name);
    *existed = talk_is_done(pq, result) && pq->ntuples(result) > 0;
    return settle(pq, connection, result, error);
}
