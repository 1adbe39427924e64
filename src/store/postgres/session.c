/* SPDX-License-Identifier: MIT */
#include "store/postgres/session.h"

#include <stdio.h>

#include "core/fail.h"
#include "store/port.h"
#include "store/postgres/schema.h"
#include "store/postgres/sql.h"
#include "store/postgres/statement.h"
#include "store/postgres/talk.h"

/* A lock is waited for a quarter of the deadline: what meets a row that somebody else holds is asked twice in that time.
 * What lasts for half a second longer than that is wanted by nobody. Takes are exact at every level of isolation,
 * but only this one does not abort takes that meet. */
static bool set_timeouts(const struct libpq *pq, PGconn *connection, const struct postgres_url *url,
                         uint64_t until_ns, struct weir_error *error)
{
    unsigned deadline_ms =
        url->deadline_ms != 0 ? url->deadline_ms : (unsigned)(PORT_DEADLINE_NS / NS_PER_MS);
    char text[160];
    (void)snprintf(text, sizeof text,
                   "SET lock_timeout = %u; SET statement_timeout = %u;"
                   "SET default_transaction_isolation = 'read committed'",
                   deadline_ms < 4 ? 1 : deadline_ms / 4, deadline_ms + 500);
    return talk_run(pq, connection, text, until_ns, error);
}

static bool prepare(const struct libpq *pq, PGconn *connection, const struct postgres_url *url,
                    uint64_t until_ns, struct weir_error *error)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        const struct statement *statement = &STATEMENTS[i];
        int is_sent = pq->sendPrepare(connection, statement->name, statement->text,
                                      statement->parameter_count, statement->types);
        PGresult *result = talk_hear(pq, connection, is_sent, until_ns);
        bool is_prepared = talk_is_done(pq, result);
        if (talk_is_pooled(pq, result)) {
            (void)fail(error, WEIR_E_SYSTEM, 0, "%s is prepared there already" TALK_POOLED,
                       statement->name);
        } else if (!is_prepared) { // the schema has gone since we looked
            (void)schema_refuse(pq, connection, result, url, error);
        }
        pq->clear(result);
        if (!is_prepared) {
            return false;
        }
    }
    return true;
}

/* A function is compiled, and its statements planned, the first time that a session calls it: more than a decision has
 * time for. So it is called here, for nothing. If that fails a decision will say why. */
static void call_functions(const struct libpq *pq, PGconn *connection, uint64_t until_ns)
{
    static const char CALLS[] =
        "SELECT weir.charge(NULL, 1, 0, 0, 0, 0, NULL, 0, 0, 0);"
        "SELECT FROM weir.take_run('{}', '{}', '{}', '{}', '{}', '{}', NULL);"
        "SELECT FROM weir.swap('{}', '{}', '{}', '{}', '{}', '{}', '{}', NULL)";
    pq->clear(talk_ask(pq, connection, CALLS, until_ns));
}

/* The timeouts come first: whatever somebody has locked, the server does not keep a session that waits for it while
 * others are begun. */
static enum session_result make_ready(const struct libpq *pq, PGconn *connection,
                                      const struct postgres_url *url, struct weir_error *error)
{
    uint64_t until_ns = talk_now_ns() + TALK_PATIENCE_NS;
    if (url->prepares && !set_timeouts(pq, connection, url, until_ns, error)) {
        return SESSION_AWAY;
    }
    enum session_result checked = schema_check(pq, connection, url, until_ns, error);
    if (checked != SESSION_READY) {
        return checked;
    }
    if (url->prepares
        && (!talk_run(pq, connection, SQL_SESSION, until_ns, error)
            || !prepare(pq, connection, url, until_ns, error))) {
        bool is_silent = pq->status(connection) != CONNECTION_OK || talk_now_ns() >= until_ns;
        return is_silent ? SESSION_AWAY : SESSION_REFUSED;
    }
    if (url->prepares) {
        call_functions(pq, connection, until_ns);
    }
    if (pq->setnonblocking(connection, 1) != 0 || pq->enterPipelineMode(connection) != 1) {
        talk_say(error, pq, connection);
        return SESSION_AWAY;
    }
    return SESSION_READY;
}

enum session_result session_open(PGconn **connection, const struct libpq *pq,
                                 const struct postgres_url *url, bool tells_apart,
                                 struct weir_error *error)
{
    *connection = NULL;
    PGconn *made = talk_open(pq, url, error);
    if (made == NULL) {
        return tells_apart && !talk_is_refused(pq, url, error) ? SESSION_AWAY : SESSION_REFUSED;
    }
    enum session_result result = make_ready(pq, made, url, error);
    if (result == SESSION_READY) {
        *connection = made;
    } else {
        pq->finish(made);
    }
    return result;
}
