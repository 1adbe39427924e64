/* SPDX-License-Identifier: MIT */
#include "store/postgres/upkeep.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "store/postgres/people.h"
#include "store/postgres/pruning.h"
#include "store/postgres/schema.h"
#include "store/postgres/sql.h"
#include "store/postgres/talk.h"

/* ---- the connection ---- */

/* A command's, from begin() to end(). */
struct visit {
    const struct libpq *pq;
    struct postgres_url url;
    PGconn *connection;
};

static enum weir_status begin(struct visit *visit, const char *text, struct weir_error *error)
{
    enum weir_status status = postgres_url_parse(&visit->url, text, error);
    visit->pq = status == WEIR_OK ? libpq_load(error) : NULL;
    if (visit->pq == NULL) {
        return status == WEIR_OK ? WEIR_E_SYSTEM : status;
    }
    status = talk_check_url(visit->pq, &visit->url, error);
    if (status != WEIR_OK) {
        return status;
    }
    visit->connection = talk_open(visit->pq, &visit->url, error);
    if (visit->connection == NULL) {
        (void)talk_is_refused(visit->pq, &visit->url, error); // adds what helps
        return WEIR_E_SYSTEM;
    }
    return WEIR_OK;
}

static enum weir_status end(struct visit *visit, enum weir_status status)
{
    visit->pq->finish(visit->connection);
    memset(&visit->url, 0, sizeof visit->url); // the password
    return status;
}

/* ---- init, migrate ---- */

static enum weir_status init(const char *url, const struct database_plan *plan,
                             struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    return status != WEIR_OK
               ? status
               : end(&visit, schema_init(visit.pq, visit.connection, &visit.url, plan, error));
}

static enum weir_status migrate(const char *url, struct database_migration *migration,
                                struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    return status != WEIR_OK ? status
                             : end(&visit, schema_migrate(visit.pq, visit.connection, &visit.url,
                                                          migration, error));
}

/* ---- status ---- */

/* What stands in the way may be a lock: longer than a take waits, and shorter than a person. Nothing is set here, because
 * the settings are looked at, too. */
#define LOOKING_PATIENCE_NS (10 * NS_PER_S)

/* A row that is read column by column. */
struct row {
    const struct libpq *pq;
    const PGresult *result;
    int column;
};

static void read_text(struct row *row, char *text, size_t size)
{
    (void)snprintf(text, size, "%s", row->pq->getvalue(row->result, 0, row->column++));
}

static uint64_t read_count(struct row *row)
{
    return strtoull(row->pq->getvalue(row->result, 0, row->column++), NULL, 10);
}

/* In the order of status.sql. */
static void read_status(struct database_description *found, struct row *row)
{
    char is_unlogged[2];
    read_text(row, found->server, sizeof found->server);
    read_text(row, found->role, sizeof found->role);
    read_text(row, found->lacking, sizeof found->lacking);
    read_text(row, found->settings, sizeof found->settings);
    read_text(row, found->unset, sizeof found->unset);
    read_text(row, found->commits, sizeof found->commits);
    read_text(row, found->vacuumed, sizeof found->vacuumed);
    read_text(row, is_unlogged, sizeof is_unlogged);
    found->is_unlogged = is_unlogged[0] == 't';
    found->bucket_count = read_count(row);
    found->table_bytes = read_count(row);
    found->index_bytes = read_count(row);
    found->page_count = read_count(row);
    found->update_count = read_count(row);
    found->hot_count = read_count(row);
    found->dead_count = read_count(row);
}

static enum weir_status look(struct visit *visit, struct database_description *found,
                             struct weir_error *error)
{
    PGresult *result =
        talk_ask(visit->pq, visit->connection, SQL_STATUS, talk_now_ns() + LOOKING_PATIENCE_NS);
    bool is_row = talk_is_done(visit->pq, result) && visit->pq->ntuples(result) == 1;
    if (is_row) {
        read_status(found, &(struct row){visit->pq, result, 0});
    } else if (talk_is_done(visit->pq, result)) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "this database has no schema of weir; this makes it: weir store init '%s'",
                   visit->url.shown);
    } else {
        talk_say_result(error, visit->pq, visit->connection, result);
    }
    visit->pq->clear(result);
    return is_row ? WEIR_OK : WEIR_E_SYSTEM;
}

/* What the role may not read stays unknown. */
static void look_at_upkeep(struct visit *visit, struct database_description *found)
{
    PGresult *result =
        talk_ask(visit->pq, visit->connection, "SELECT version, next_page FROM weir.upkeep",
                 talk_now_ns() + LOOKING_PATIENCE_NS);
    found->version = -1;
    if (talk_is_done(visit->pq, result) && visit->pq->ntuples(result) == 1) {
        found->version = atoi(visit->pq->getvalue(result, 0, 0));
        found->next_page = strtoull(visit->pq->getvalue(result, 0, 1), NULL, 10);
    }
    visit->pq->clear(result);
}

static enum weir_status describe(const char *url, struct database_description *description,
                                 struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    if (status != WEIR_OK) {
        return status;
    }
    *description = (struct database_description){.known_version = POSTGRES_SCHEMA_VERSION};
    status = look(&visit, description, error);
    if (status == WEIR_OK) {
        look_at_upkeep(&visit, description);
        if (visit.url.prepares) {
            description->unset[0] = '\0'; // a session sets them
        }
    }
    return end(&visit, status);
}

/* ---- prune ---- */

enum { PRUNE_PAUSE_MS = 10 }; // where another prune() is at work just now

/* Where a round of the table is.
 *   page     the next one; done: of total
 *   result   of the last statement */
struct round {
    uint64_t page, done, total;
    PGresult *result;
};

static bool ask_row(struct visit *visit, struct round *round, const char *text,
                    struct weir_error *error)
{
    visit->pq->clear(round->result);
    round->result =
        talk_ask(visit->pq, visit->connection, text, talk_now_ns() + LOOKING_PATIENCE_NS);
    bool is_row = talk_is_done(visit->pq, round->result) && visit->pq->ntuples(round->result) == 1;
    if (!is_row) {
        (void)schema_refuse(visit->pq, visit->connection, round->result, &visit->url, error);
    }
    return is_row;
}

static bool begin_round(struct visit *visit, struct round *round, struct weir_error *error)
{
    if (!ask_row(visit, round,
                 "SELECT next_page, pg_relation_size('weir.bucket')"
                 " / current_setting('block_size')::bigint FROM weir.upkeep",
                 error)) {
        return false;
    }
    struct row row = {visit->pq, round->result, 0};
    round->page = read_count(&row);
    round->total = read_count(&row);
    return true;
}

/* What servers prune meanwhile is done, too. Behind the last page comes the first: so a page that is not behind ours is
 * one of the next round. */
static void move(struct round *round, uint64_t page)
{
    bool is_small = page == round->page && round->total <= PRUNING_PAGES;
    uint64_t left = round->total > round->page ? round->total - round->page : 0;
    round->done += page > round->page               ? page - round->page
                   : page < round->page || is_small ? left + page
                                                    : 0;
    round->page = page;
}

static bool prune_pages(struct visit *visit, struct round *round, struct database_pruning *pruning,
                        struct weir_error *error)
{
    char text[96];
    uint64_t before = round->done;
    (void)snprintf(text, sizeof text,
                   "SELECT coalesce(pruned, 0), page FROM weir.prune_from(%llu, %d)",
                   (unsigned long long)round->page, PRUNING_PAGES);
    if (!ask_row(visit, round, text, error)) {
        return false;
    }
    struct row row = {visit->pq, round->result, 0};
    pruning->pruned_count += read_count(&row);
    move(round, read_count(&row));
    if (round->done == before) {
        (void)poll(NULL, 0, PRUNE_PAUSE_MS);
    }
    return true;
}

static enum weir_status prune_all(struct visit *visit,
                                  bool (*watch)(void *context, uint64_t done, uint64_t total),
                                  void *context, struct database_pruning *pruning,
                                  struct weir_error *error)
{
    struct round round = {.result = NULL};
    *pruning = (struct database_pruning){.is_whole = true};
    bool goes_on = begin_round(visit, &round, error);
    while (goes_on && pruning->is_whole && round.done < round.total) {
        goes_on = prune_pages(visit, &round, pruning, error);
        pruning->is_whole =
            watch(context, round.done < round.total ? round.done : round.total, round.total);
    }
    visit->pq->clear(round.result);
    return goes_on ? WEIR_OK : WEIR_E_SYSTEM;
}

static enum weir_status prune(const char *url,
                              bool (*watch)(void *context, uint64_t done, uint64_t total),
                              void *context, struct database_pruning *pruning,
                              struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    return status != WEIR_OK ? status
                             : end(&visit, prune_all(&visit, watch, context, pruning, error));
}

/* ---- reset ---- */

enum { RESET_TRIES_MAX = 30, RESET_PAUSE_MS = 50 };

/* Nobody could take while it waited for the lock: so it waits for a moment, and lets others go first. */
static void say_held(struct visit *visit, struct weir_error *error)
{
    PGresult *result =
        talk_ask(visit->pq, visit->connection, SQL_HOLDER, talk_now_ns() + TALK_PATIENCE_NS);
    bool is_known = talk_is_done(visit->pq, result) && visit->pq->ntuples(result) == 1;
    (void)fail(error, WEIR_E_SYSTEM, 0,
               "nothing was forgotten: %.200s uses the table of buckets; try again when that "
               "transaction has ended",
               is_known ? visit->pq->getvalue(result, 0, 0) : "somebody");
    visit->pq->clear(result);
}

static bool is_locked(const struct libpq *pq, const PGresult *result)
{
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    return state != NULL && (strcmp(state, "55P03") == 0 || strcmp(state, "40P01") == 0);
}

static void say_failed_reset(struct visit *visit, const PGresult *result, struct weir_error *error)
{
    const char *state = visit->pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    if (schema_is_missing(visit->pq, result)) {
        (void)schema_refuse(visit->pq, visit->connection, result, &visit->url, error);
    } else if (state != NULL && strcmp(state, "42501") == 0) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "nothing was forgotten: only the owner of weir.bucket may do that, and the role "
                   "of a server is not; give this command the URL of the owner");
    } else {
        talk_say_result(error, visit->pq, visit->connection, result);
    }
}

static enum weir_status forget_all(struct visit *visit, struct weir_error *error)
{
    for (int i = 0; i < RESET_TRIES_MAX; i++) {
        PGresult *result =
            talk_ask(visit->pq, visit->connection, SQL_RESET, talk_now_ns() + LOOKING_PATIENCE_NS);
        bool is_done = talk_is_done(visit->pq, result);
        bool tries_again = !is_done && is_locked(visit->pq, result);
        if (!is_done && !tries_again) {
            say_failed_reset(visit, result, error);
        }
        visit->pq->clear(result);
        if (!tries_again) {
            return is_done ? WEIR_OK : WEIR_E_SYSTEM;
        }
        if (!talk_run(visit->pq, visit->connection, "ROLLBACK", talk_now_ns() + TALK_PATIENCE_NS,
                      error)) {
            return WEIR_E_SYSTEM;
        }
        (void)poll(NULL, 0, RESET_PAUSE_MS);
    }
    say_held(visit, error);
    return WEIR_E_SYSTEM;
}

static enum weir_status reset(const char *url, struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    return status != WEIR_OK ? status : end(&visit, forget_all(&visit, error));
}

/* ---- limits of SQL ---- */

static enum weir_status add_limit(const char *url, const struct database_limit *limit,
                                  struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    return status != WEIR_OK
               ? status
               : end(&visit, people_add_limit(visit.pq, visit.connection, limit, error));
}

static enum weir_status list_limits(const char *url,
                                    void (*tell)(void *context, const char *name, const char *text),
                                    void *context, struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    return status != WEIR_OK
               ? status
               : end(&visit, people_list_limits(visit.pq, visit.connection, tell, context, error));
}

static enum weir_status remove_limit(const char *url, const char *name, bool *existed,
                                     struct weir_error *error)
{
    struct visit visit;
    enum weir_status status = begin(&visit, url, error);
    return status != WEIR_OK
               ? status
               : end(&visit, people_remove_limit(visit.pq, visit.connection, name, existed, error));
}

const struct database_upkeep postgres_upkeep = {
    .describe = describe,
    .script = schema_script,
    .init = init,
    .migrate = migrate,
    .prune = prune,
    .reset = reset,
    .add_limit = add_limit,
    .list_limits = list_limits,
    .remove_limit = remove_limit,
};
