/* SPDX-License-Identifier: MIT */
#include "store/postgres/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/fail.h"

/* ---- what went wrong ---- */

void talk_copy_message(char *to, size_t size, const char *message)
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

void talk_say(struct weir_error *error, const struct libpq *pq, const PGconn *connection)
{
    char message[WEIR_ERROR_TEXT_MAX];
    talk_copy_message(message, sizeof message, pq->errorMessage(connection));
    (void)fail(error, WEIR_E_SYSTEM, 0, "%s", message);
}

void talk_say_result(struct weir_error *error, const struct libpq *pq, const PGconn *connection,
                     const PGresult *result)
{
    const char *text =
        result != NULL ? pq->resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char message[WEIR_ERROR_TEXT_MAX];
    talk_copy_message(message, sizeof message, text != NULL ? text : pq->errorMessage(connection));
    (void)fail(error, WEIR_E_SYSTEM, 0, "%s",
               message[0] != '\0' ? message : "it has taken the connection, and does not answer");
}

/* libpq's messages have parts of the URL in them, and of the password maybe; but this one names an option only. */
enum weir_status talk_check_url(const struct libpq *pq, const struct postgres_url *url,
                                struct weir_error *error)
{
    static const char OPTION[] = "invalid URI query parameter";
    char *message = NULL;
    PQconninfoOption *options = pq->conninfoParse(url->libpq, &message);
    bool is_read = options != NULL;
    bool is_option = message != NULL && strncmp(message, OPTION, strlen(OPTION)) == 0;
    char shown[WEIR_ERROR_TEXT_MAX / 2];
    talk_copy_message(shown, sizeof shown, is_option ? message : "libpq cannot read it");
    pq->conninfoFree(options);
    pq->freemem(message);
    return is_read ? WEIR_OK : fail(error, WEIR_E_SYNTAX, 0, "%s", shown);
}

bool talk_is_pooled(const struct libpq *pq, const PGresult *result)
{
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    return state != NULL && (strcmp(state, "26000") == 0 || strcmp(state, "42P05") == 0);
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

PGconn *talk_open(const struct libpq *pq, const struct postgres_url *url, struct weir_error *error)
{
    const char *keywords[KEYWORD_COUNT + 1], *values[KEYWORD_COUNT + 1];
    fill_keywords(keywords, values, url);
    PGconn *connection = pq->connectdbParams(keywords, values, 1);
    if (connection == NULL) {
        (void)fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a connection");
        return NULL;
    }
    if (pq->status(connection) != CONNECTION_OK) {
        talk_say(error, pq, connection);
        pq->finish(connection);
        return NULL;
    }
    (void)pq->setNoticeReceiver(connection, ignore_notice, NULL);
    return connection;
}

/* ---- asking ---- */

uint64_t talk_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool wait_for(const struct libpq *pq, const PGconn *connection, short events,
                     uint64_t until_ns)
{
    struct pollfd socket = {.fd = pq->socket(connection), .events = events};
    int ready;
    do { // a signal whose handler notes it, ^C for example, is for the caller to look at
        uint64_t at_ns = talk_now_ns();
        int wait_ms = at_ns < until_ns ? (int)((until_ns - at_ns) / 1000000) + 1 : 0;
        ready = poll(&socket, 1, wait_ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

PGresult *talk_hear(const struct libpq *pq, PGconn *connection, int is_sent, uint64_t until_ns)
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

PGresult *talk_ask(const struct libpq *pq, PGconn *connection, const char *text, uint64_t until_ns)
{
    return talk_hear(pq, connection, pq->sendQuery(connection, text), until_ns);
}

bool talk_is_done(const struct libpq *pq, const PGresult *result)
{
    ExecStatusType status = pq->resultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

bool talk_settle(const struct libpq *pq, const PGconn *connection, PGresult *result,
                 struct weir_error *error)
{
    bool is_settled = talk_is_done(pq, result);
    if (!is_settled) {
        talk_say_result(error, pq, connection, result);
    }
    pq->clear(result);
    return is_settled;
}

bool talk_run(const struct libpq *pq, PGconn *connection, const char *text, uint64_t until_ns,
              struct weir_error *error)
{
    return talk_settle(pq, connection, talk_ask(pq, connection, text, until_ns), error);
}

/* ---- why no connection was made ---- */

/* Tries again, and writes the SQLSTATE of the refusal into `state`; "" if the server is silent, or lets us in by now.
 * libpq keeps none of a connection that fails, but says it in the message if it is asked to. */
static void find_state(const struct libpq *pq, const struct postgres_url *url, char state[6])
{
    const char *keywords[KEYWORD_COUNT + 1], *values[KEYWORD_COUNT + 1];
    fill_keywords(keywords, values, url);
    uint64_t until_ns = talk_now_ns() + TALK_PATIENCE_NS;
    PGconn *connection = pq->connectStartParams(keywords, values, 1);
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    (void)pq->setErrorVerbosity(connection, PQERRORS_SQLSTATE);
    while (
        (wants == PGRES_POLLING_READING || wants == PGRES_POLLING_WRITING)
        && wait_for(pq, connection, wants == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ns)) {
        wants = pq->connectPoll(connection);
    }
    char message[WEIR_ERROR_TEXT_MAX];
    talk_copy_message(message, sizeof message, pq->errorMessage(connection));
    size_t length = strlen(message);
    bool is_refused = wants == PGRES_POLLING_FAILED && length > 5;
    (void)snprintf(state, 6, "%s", is_refused ? message + length - 5 : "");
    pq->finish(connection);
}

/* What helps against a refusal. */
static const char *advice(const char *state, const char *message)
{
    static const struct {
        const char *state, *text;
    } ADVICE[] = {
        {"28P01", "; weir takes it from the URL, PGPASSWORD or ~/.pgpass"},
        {"28000", "; CREATE ROLE makes one, and pg_hba.conf lets it in"},
        {"3D000", "; CREATE DATABASE makes it"},
    };
    for (size_t i = 0; i < sizeof ADVICE / sizeof ADVICE[0]; i++) {
        if (strcmp(state, ADVICE[i].state) == 0) {
            return ADVICE[i].text;
        }
    }
    return strstr(message, "no password supplied") != NULL ? ADVICE[0].text : "";
}

bool talk_is_refused(const struct libpq *pq, const struct postgres_url *url,
                     struct weir_error *error)
{
    const char *keywords[KEYWORD_COUNT + 1], *values[KEYWORD_COUNT + 1];
    fill_keywords(keywords, values, url);
    char state[6];
    if (pq->pingParams(keywords, values, 1) != PQPING_OK) {
        return false;
    }
    find_state(pq, url, state);
    size_t length = strlen(error->message);
    (void)snprintf(error->message + length, sizeof error->message - length, "%s",
                   advice(state, error->message));
    return state[0] != '\0' && strncmp(state, "53", 2) != 0 && strncmp(state, "57", 2) != 0;
}
