/* SPDX-License-Identifier: MIT */
#include "store/postgres/session.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/fail.h"
#include "core/time_units.h"
#include "store/port.h"
#include "store/postgres/sql.h"
#include "store/postgres/statement.h"

/* ---- what went wrong ---- */

void session_copy_message(char *to, size_t size, const char *message)
{
    size_t length = 0;
    bool is_gap = false;
    for (; *message != '\0' && length + 2 < size; message++) {
        bool is_space = (unsigned char)*message <= ' ';
        if (!is_space && is_gap && length > 0) {
            to[length++] = ' ';
        }
        if (!is_space) {
            to[length++] = *message;
        }
        is_gap = is_space;
    }
    while (length > 0 && to[length - 1] == '.') {
        length--;
    }
    to[length] = '\0';
}

static void say_connection(struct weir_error *error, const struct libpq *pq,
                           const PGconn *connection)
{
    char message[WEIR_ERROR_TEXT_MAX];
    session_copy_message(message, sizeof message, pq->errorMessage(connection));
    (void)fail(error, WEIR_E_SYSTEM, 0, "%s", message);
}

/* Of SQL that failed: what the server says, or the connection. */
static void say_result(struct weir_error *error, const struct libpq *pq, const PGconn *connection,
                       const PGresult *result)
{
    const char *text =
        result != NULL ? pq->resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char message[WEIR_ERROR_TEXT_MAX];
    session_copy_message(message, sizeof message,
                         text != NULL ? text : pq->errorMessage(connection));
    (void)fail(error, WEIR_E_SYSTEM, 0, "%s",
               message[0] != '\0' ? message : "it has taken the connection, and does not answer");
}

/* No such schema, table or function. */
bool session_is_schema_missing(const struct libpq *pq, const PGresult *result)
{
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    return state != NULL
           && (strcmp(state, "3F000") == 0 || strcmp(state, "42P01") == 0
               || strcmp(state, "42883") == 0);
}

/* libpq's messages have parts of the URL in them, and of the password maybe; but this one names an option only. */
enum weir_status session_check_url(const struct libpq *pq, const struct postgres_url *url,
                                   struct weir_error *error)
{
    static const char OPTION[] = "invalid URI query parameter";
    char *message = NULL;
    PQconninfoOption *options = pq->conninfoParse(url->libpq, &message);
    bool is_read = options != NULL;
    bool is_option = message != NULL && strncmp(message, OPTION, strlen(OPTION)) == 0;
    char shown[WEIR_ERROR_TEXT_MAX / 2];
    session_copy_message(shown, sizeof shown, is_option ? message : "libpq cannot read it");
    pq->conninfoFree(options);
    pq->freemem(message);
    return is_read ? WEIR_OK : fail(error, WEIR_E_SYNTAX, 0, "%s", shown);
}

/* ---- connecting ---- */

enum { KEYWORD_COUNT = 4 };

/* What the URL says counts before what stands before it here, and after what stands behind. */
static void fill_keywords(const char *keywords[KEYWORD_COUNT + 1],
                          const char *values[KEYWORD_COUNT + 1], const struct postgres_url *url)
{
    const char *const pairs[KEYWORD_COUNT][2] = {
        {"connect_timeout", "2"},
        {"target_session_attrs", "read-write"}, // a standby refuses every take
        {"dbname", url->libpq},
        {"fallback_application_name", "weir"},
    };
    size_t count = 0;
    for (size_t i = 0; i < KEYWORD_COUNT; i++) {
        bool is_said = i == 0 && getenv("PGCONNECT_TIMEOUT") != NULL;
        if (!is_said) {
            keywords[count] = pairs[i][0];
            values[count++] = pairs[i][1];
        }
    }
    keywords[count] = values[count] = NULL;
}

static void ignore_notice(void *context, const PGresult *notice)
{
    (void)context, (void)notice; // libpq would print it
}

/* NULL, and the error says why. */
static PGconn *connect_to(const struct libpq *pq, const struct postgres_url *url,
                          struct weir_error *error)
{
    const char *keywords[KEYWORD_COUNT + 1], *values[KEYWORD_COUNT + 1];
    fill_keywords(keywords, values, url);
    PGconn *connection = pq->connectdbParams(keywords, values, 1);
    if (connection == NULL) {
        (void)fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a connection");
        return NULL;
    }
    if (pq->status(connection) != CONNECTION_OK) {
        say_connection(error, pq, connection);
        pq->finish(connection);
        return NULL;
    }
    (void)pq->setNoticeReceiver(connection, ignore_notice, NULL);
    return connection;
}

/* ---- asking while the session is made ---- */

/* How long a server may take for all of that. connect_timeout ends when it has let us in; and what has fallen silent
 * since, a host or a network, would keep PQexec() waiting for ever. */
#define PATIENCE_NS (2 * NS_PER_S)

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool wait_for(const struct libpq *pq, const PGconn *connection, short events,
                     uint64_t until_ns)
{
    struct pollfd socket = {.fd = pq->socket(connection), .events = events};
    uint64_t at_ns = now_ns();
    int wait_ms = at_ns < until_ns ? (int)((until_ns - at_ns) / 1000000) + 1 : 0;
    return poll(&socket, 1, wait_ms) > 0;
}

/* The last result of what was sent: of several statements, that of the last one or of the one that failed. NULL: none
 * in time. */
static PGresult *hear(const struct libpq *pq, PGconn *connection, int is_sent, uint64_t until_ns)
{
    PGresult *last = NULL;
    while (is_sent == 1) {
        while (pq->isBusy(connection)) {
            if (!wait_for(pq, connection, POLLIN, until_ns) || pq->consumeInput(connection) != 1) {
                pq->clear(last);
                return NULL;
            }
        }
        PGresult *next = pq->getResult(connection);
        if (next == NULL) {
            break;
        }
        pq->clear(last);
        last = next;
    }
    return last;
}

static PGresult *ask(const struct libpq *pq, PGconn *connection, const char *text,
                     uint64_t until_ns)
{
    return hear(pq, connection, pq->sendQuery(connection, text), until_ns);
}

/* ---- why no connection was made ---- */

/* Tries again, and writes the SQLSTATE of the refusal into `state`; "" if the server is silent, or lets us in by now.
 * libpq keeps none of a connection that fails, but says it in the message if it is asked to. */
static void find_state(const struct libpq *pq, const struct postgres_url *url, char state[6])
{
    const char *keywords[KEYWORD_COUNT + 1], *values[KEYWORD_COUNT + 1];
    fill_keywords(keywords, values, url);
    uint64_t until_ns = now_ns() + PATIENCE_NS;
    PGconn *connection = pq->connectStartParams(keywords, values, 1);
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    (void)pq->setErrorVerbosity(connection, PQERRORS_SQLSTATE);
    while (
        (wants == PGRES_POLLING_READING || wants == PGRES_POLLING_WRITING)
        && wait_for(pq, connection, wants == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ns)) {
        wants = pq->connectPoll(connection);
    }
    char message[WEIR_ERROR_TEXT_MAX];
    session_copy_message(message, sizeof message, pq->errorMessage(connection));
    size_t length = strlen(message);
    bool is_refused = wants == PGRES_POLLING_FAILED && length > 5;
    (void)snprintf(state, 6, "%s", is_refused ? message + length - 5 : "");
    pq->finish(connection);
}

/* Whether a server is there, and will refuse us until somebody puts something right. One that has as many clients as it
 * may have (class 53), or is starting or ending (57), will not. */
static bool is_refused(const struct libpq *pq, const struct postgres_url *url)
{
    const char *keywords[KEYWORD_COUNT + 1], *values[KEYWORD_COUNT + 1];
    fill_keywords(keywords, values, url);
    char state[6];
    if (pq->pingParams(keywords, values, 1) != PQPING_OK) {
        return false;
    }
    find_state(pq, url, state);
    return state[0] != '\0' && strncmp(state, "53", 2) != 0 && strncmp(state, "57", 2) != 0;
}

/* ---- the schema ---- */

static bool is_done(const struct libpq *pq, const PGresult *result)
{
    ExecStatusType status = pq->resultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static const char LOOK[] = "SELECT version, has_table_privilege('weir.bucket', 'SELECT')"
                           " AND has_table_privilege('weir.bucket', 'INSERT')"
                           " AND has_table_privilege('weir.bucket', 'UPDATE') FROM weir.upkeep";

/* What is said of a look that failed, or of rights that are missing. */
static enum session_result refuse_schema(const struct libpq *pq, PGconn *connection,
                                         const PGresult *result, const struct postgres_url *url,
                                         struct weir_error *error)
{
    bool is_error = !is_done(pq, result);
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    bool is_forbidden = !is_error || (state != NULL && strcmp(state, "42501") == 0);
    if (is_error && session_is_schema_missing(pq, result)) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "this database has no schema of weir; this makes it: weir store init '%s'",
                   url->shown);
    } else if (is_forbidden) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "this role may not use the schema of weir; its owner lets it in by GRANT USAGE "
                   "ON SCHEMA weir, and GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA weir");
    } else {
        say_result(error, pq, connection, result);
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

static enum session_result check_schema(const struct libpq *pq, PGconn *connection,
                                        const struct postgres_url *url, uint64_t until_ns,
                                        struct weir_error *error)
{
    PGresult *result = ask(pq, connection, LOOK, until_ns);
    enum session_result checked;
    if (!is_done(pq, result) || pq->ntuples(result) != 1) {
        checked = refuse_schema(pq, connection, result, url, error);
    } else if (strcmp(pq->getvalue(result, 0, 1), "t") != 0) {
        checked = refuse_schema(pq, connection, result, url, error);
    } else {
        checked = check_version(pq->getvalue(result, 0, 0), url, error);
    }
    pq->clear(result);
    return checked;
}

/* ---- the session ---- */

/* Whether it is done; takes the result. */
static bool settle(const struct libpq *pq, const PGconn *connection, PGresult *result,
                   struct weir_error *error)
{
    bool is_settled = is_done(pq, result);
    if (!is_settled) {
        say_result(error, pq, connection, result);
    }
    pq->clear(result);
    return is_settled;
}

static bool run(const struct libpq *pq, PGconn *connection, const char *text, uint64_t until_ns,
                struct weir_error *error)
{
    return settle(pq, connection, ask(pq, connection, text, until_ns), error);
}

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
    return run(pq, connection, text, until_ns, error);
}

static bool prepare(const struct libpq *pq, PGconn *connection, const struct postgres_url *url,
                    uint64_t until_ns, struct weir_error *error)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        const struct statement *statement = &STATEMENTS[i];
        int is_sent = pq->sendPrepare(connection, statement->name, statement->text,
                                      statement->parameter_count, statement->types);
        PGresult *result = hear(pq, connection, is_sent, until_ns);
        bool is_prepared = is_done(pq, result);
        if (!is_prepared) { // the schema has gone since we looked
            (void)refuse_schema(pq, connection, result, url, error);
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
        "SELECT FROM weir.take_run('{}', '{}', '{}', '{}', '{}', '{}', NULL);"
        "SELECT FROM weir.swap('{}', '{}', '{}', '{}', '{}', '{}', '{}', NULL)";
    pq->clear(ask(pq, connection, CALLS, until_ns));
}

/* The timeouts come first: whatever somebody has locked, the server does not keep a session that waits for it while
 * others are begun. */
static enum session_result make_ready(const struct libpq *pq, PGconn *connection,
                                      const struct postgres_url *url, struct weir_error *error)
{
    uint64_t until_ns = now_ns() + PATIENCE_NS;
    if (url->prepares && !set_timeouts(pq, connection, url, until_ns, error)) {
        return SESSION_AWAY;
    }
    enum session_result checked = check_schema(pq, connection, url, until_ns, error);
    if (checked != SESSION_READY) {
        return checked;
    }
    if (url->prepares
        && (!run(pq, connection, SQL_SESSION, until_ns, error)
            || !prepare(pq, connection, url, until_ns, error))) {
        bool is_silent = pq->status(connection) != CONNECTION_OK || now_ns() >= until_ns;
        return is_silent ? SESSION_AWAY : SESSION_REFUSED;
    }
    if (url->prepares) {
        call_functions(pq, connection, until_ns);
    }
    if (pq->setnonblocking(connection, 1) != 0 || pq->enterPipelineMode(connection) != 1) {
        say_connection(error, pq, connection);
        return SESSION_AWAY;
    }
    return SESSION_READY;
}

enum session_result session_open(PGconn **connection, const struct libpq *pq,
                                 const struct postgres_url *url, bool tells_apart,
                                 struct weir_error *error)
{
    *connection = NULL;
    PGconn *made = connect_to(pq, url, error);
    if (made == NULL) {
        return tells_apart && !is_refused(pq, url) ? SESSION_AWAY : SESSION_REFUSED;
    }
    enum session_result result = make_ready(pq, made, url, error);
    if (result == SESSION_READY) {
        *connection = made;
    } else {
        pq->finish(made);
    }
    return result;
}

enum weir_status session_init_schema(const struct libpq *pq, const struct postgres_url *url,
                                     struct weir_error *error)
{
    PGconn *connection = connect_to(pq, url, error);
    if (connection == NULL) {
        return WEIR_E_SYSTEM;
    }
    bool is_made = settle(pq, connection, pq->exec(connection, SQL_SCHEMA), error);
    pq->finish(connection);
    return is_made ? WEIR_OK : WEIR_E_SYSTEM;
}
