/* SPDX-License-Identifier: MIT */
#include "server/editions.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "server/state.h"
#include "server/worker.h"

/* The counts of one worker, on lines of its own. */
struct own_counts {
    alignas(128) struct name_counts counts;
};

/* The counts of one name, in however many editions it is. */
struct tally {
    size_t users; // editions; under the mutex
    struct own_counts by_worker[];
};

struct edition {
    struct names *names;
    uint64_t number;
    size_t users; // workers, and being current; under the mutex
    size_t limit_count, worker_count;
    struct tally *tallies[NAMES_LIMIT_COUNT_MAX]; // by the limit's index
    struct name_counts *counts[]; // of each worker one behind the other, by the limit's index
};

struct editions {
    pthread_mutex_t mutex; // of `current`, and of how many use each edition and tally
    struct edition *current;
    uint64_t failed_count;            // relaxed, a statistic with one writer
    char path[CONFIG_PATH_BYTES_MAX]; // of the current edition's file; empty: there is none
};

/* ---- making and closing; under the mutex ---- */

static struct tally *tally_open(size_t worker_count)
{
    size_t size = sizeof(struct tally) + worker_count * sizeof(struct own_counts);
    struct tally *tally =
        aligned_alloc(alignof(struct tally), size); // a multiple, as both parts are
    if (tally != NULL) {
        memset(tally, 0, size);
    }
    return tally;
}

static void tally_drop(struct tally *tally)
{
    if (tally != NULL && --tally->users == 0) {
        free(tally);
    }
}

static void edition_drop(struct edition *edition)
{
    if (edition == NULL || --edition->users > 0) {
        return;
    }
    for (size_t i = 0; i < edition->limit_count; i++) {
        tally_drop(edition->tallies[i]);
    }
    names_close(edition->names);
    free(edition);
}

/* The tally that a name had, or a new one. */
static struct tally *find_tally(const struct edition *before, const char *name, size_t worker_count)
{
    if (before != NULL) {
        struct name_found found = names_find(before->names, name, strlen(name));
        if (found.limit != NULL) {
            return before->tallies[found.limit->index];
        }
    }
    return tally_open(worker_count);
}

static bool fill_tallies(struct edition *edition, const struct edition *before)
{
    for (size_t i = 0; i < edition->limit_count; i++) {
        const char *name = names_limit(edition->names, i)->name;
        struct tally *tally = find_tally(before, name, edition->worker_count);
        if (tally == NULL) {
            return false;
        }
        tally->users++;
        edition->tallies[i] = tally;
        for (size_t worker = 0; worker < edition->worker_count; worker++) {
            edition->counts[worker * edition->limit_count + i] = &tally->by_worker[worker].counts;
        }
    }
    return true;
}

/* Takes the names over; NULL, and they are closed, if there is no memory. */
static struct edition *edition_open(struct names *names, const struct edition *before,
                                    size_t worker_count)
{
    size_t limit_count = names_limit_count(names);
    struct edition *edition =
        calloc(1, sizeof *edition + worker_count * limit_count * sizeof edition->counts[0]);
    if (edition == NULL) {
        names_close(names);
        return NULL;
    }
    edition->names = names;
    edition->number = before != NULL ? before->number + 1 : 1;
    edition->users = 1;
    edition->limit_count = limit_count;
    edition->worker_count = worker_count;
    if (!fill_tallies(edition, before)) {
        edition_drop(edition);
        return NULL;
    }
    return edition;
}

/* ---- reading ---- */

/* Which file is the configuration now. False: none. */
static bool choose_file(const struct server *server, char path[CONFIG_PATH_BYTES_MAX])
{
    const char *chosen = server->options.config;
    path[0] = '\0';
    if (chosen != NULL && strcmp(chosen, "off") == 0) {
        return false;
    }
    if (chosen == NULL) {
        return config_find(path);
    }
    (void)snprintf(path, CONFIG_PATH_BYTES_MAX, "%s", chosen);
    return true;
}

/* What the file says, ready for use. NULL, and *error says why. */
static struct names *read_names(const struct server *server, const char *path,
                                struct config_error *error)
{
    struct names *names = config_read(path, error);
    if (names != NULL) {
        names_bind(names, server->limiter);
    }
    return names;
}

/* Makes an edition of these names the current one. False if there is no memory. */
static bool publish(struct server *server, struct names *names, const char *path,
                    struct names_changes *changes)
{
    struct editions *editions = server->editions;
    (void)pthread_mutex_lock(&editions->mutex);
    struct edition *before = editions->current;
    struct edition *edition = edition_open(names, before, server->worker_count);
    if (edition != NULL) {
        if (before != NULL) {
            *changes = names_compare(before->names, names);
        }
        editions->current = edition;
        edition_drop(before);
        memmove(editions->path, path, strlen(path) + 1);
        /* Releases nothing by itself, for the edition is read under the mutex; but whoever sees it, and
         * whoever hears of it by an answer, sees it from now on. Pairs with worker_follow(). */
        atomic_store_explicit(&server->edition_number, edition->number, memory_order_release);
    }
    (void)pthread_mutex_unlock(&editions->mutex);
    return edition != NULL;
}

bool editions_open(struct server *server)
{
    char path[CONFIG_PATH_BYTES_MAX];
    char line[CONFIG_PATH_BYTES_MAX + CONFIG_MESSAGE_BYTES_MAX];
    struct config_error error;
    struct names_changes unused;
    server->editions = calloc(1, sizeof *server->editions);
    if (server->editions == NULL) {
        (void)fprintf(stderr, "weir serve: no memory\n");
        return false;
    }
    (void)pthread_mutex_init(&server->editions->mutex, NULL);
    bool has_file = choose_file(server, path);
    struct names *names = has_file ? read_names(server, path, &error) : names_open();
    if (names == NULL && has_file) {
        config_error_print(&error, path, line, sizeof line);
        (void)fprintf(stderr, "weir serve: %s\n", line);
        return false;
    }
    if (names == NULL || !publish(server, names, has_file ? path : "", &unused)) {
        (void)fprintf(stderr, "weir serve: no memory\n");
        return false;
    }
    return true;
}

void editions_close(struct server *server)
{
    if (server->editions != NULL) {
        edition_drop(server->editions->current);
        (void)pthread_mutex_destroy(&server->editions->mutex);
        free(server->editions);
    }
}

/* ---- reloading ---- */

static void log_failure(struct server *server, const char *path, const struct config_error *error)
{
    /* Relaxed: a statistic with one writer. */
    __atomic_store_n(&server->editions->failed_count, server->editions->failed_count + 1,
                     __ATOMIC_RELAXED);
    if (error->line == 0) { // it is about the file, and no place in it
        LOG(&server->log, LOG_ERROR, "reload_failed", log_text("file", path),
            log_text("why", error->message), log_text("note", "all stays as it was"));
        return;
    }
    LOG(&server->log, LOG_ERROR, "reload_failed", log_text("file", path),
        log_number("line", error->line), log_number("column", error->column),
        log_text("why", error->message), log_text("note", "all stays as it was"));
}

static void log_reload(struct server *server, const char *path, const struct names_changes *changes)
{
    (void)pthread_mutex_lock(&server->editions->mutex);
    const struct names *names = server->editions->current->names;
    size_t limit_count = names_limit_count(names);
    size_t chain_count = names_chain_count(names);
    size_t route_count = names_route_count(names);
    (void)pthread_mutex_unlock(&server->editions->mutex);
    LOG(&server->log, LOG_INFO, "reload", log_text("file", path), log_number("limits", limit_count),
        log_number("chains", chain_count), log_number("routes", route_count),
        log_number("added", changes->added_count), log_number("changed", changes->changed_count),
        log_number("removed", changes->removed_count),
        log_text("routes_changed", changes->routes_changed ? "yes" : "no"));
}

/* There is none any more. That is no wish to forget all limits. */
static void reload_nothing(struct server *server)
{
    if (server->editions->path[0] == '\0') {
        LOG(&server->log, LOG_INFO, "reload",
            log_text("note", "there is no configuration to reload"));
    } else {
        struct config_error error = {.message = "the file is gone"};
        log_failure(server, server->editions->path, &error);
    }
}

void editions_reload(struct server *server)
{
    char path[CONFIG_PATH_BYTES_MAX];
    struct config_error error;
    struct names_changes changes = {0};
    if (!choose_file(server, path)) {
        reload_nothing(server);
        return;
    }
    struct names *names = read_names(server, path, &error);
    if (names == NULL) {
        log_failure(server, path, &error);
        return;
    }
    if (!publish(server, names, path, &changes)) {
        error = (struct config_error){.message = "no memory"};
        log_failure(server, path, &error);
        return;
    }
    for (size_t i = 0; i < server->worker_count; i++) {
        worker_wake(server->workers[i]); // so that an idle one does not keep what is out of use
    }
    log_reload(server, path, &changes);
}

const char *editions_path(const struct server *server)
{
    return server->editions->path;
}

/* ---- workers ---- */

/* What engines see of it. */
void editions_lend(struct worker *worker, struct edition *edition)
{
    worker->service.names = edition->names;
    worker->service.name_counts = edition->counts + worker->index * edition->limit_count;
}

struct edition *editions_hold(struct worker *worker)
{
    struct editions *editions = worker->server->editions;
    (void)pthread_mutex_lock(&editions->mutex);
    worker->edition->users++;
    (void)pthread_mutex_unlock(&editions->mutex);
    return worker->edition;
}

void editions_drop(struct worker *worker, struct edition *edition)
{
    struct editions *editions = worker->server->editions;
    (void)pthread_mutex_lock(&editions->mutex);
    edition_drop(edition);
    (void)pthread_mutex_unlock(&editions->mutex);
}

void editions_follow(struct worker *worker)
{
    struct editions *editions = worker->server->editions;
    (void)pthread_mutex_lock(&editions->mutex);
    struct edition *edition = editions->current;
    edition->users++;
    edition_drop(worker->edition);
    (void)pthread_mutex_unlock(&editions->mutex);
    worker->edition = edition;
    worker->edition_number = edition->number;
    editions_lend(worker, edition);
}

void editions_leave(struct worker *worker)
{
    editions_drop(worker, worker->edition);
    worker->edition = NULL;
}

/* ---- counters ---- */

uint64_t editions_failed_count(const struct server *server)
{
    return __atomic_load_n(&server->editions->failed_count, __ATOMIC_RELAXED); // a statistic
}

static void add_counts(struct name_counts *sum, const struct name_counts *counts)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)counts;
    _Static_assert(sizeof *sum % sizeof *to == 0, "counters only");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) {
        to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED); // statistics: engine.h
    }
}

size_t editions_totals(const struct server *server, struct name_total *totals)
{
    struct editions *editions = server->editions;
    (void)pthread_mutex_lock(&editions->mutex);
    const struct edition *edition = editions->current;
    size_t count = edition != NULL ? edition->limit_count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct named_limit *limit = names_limit(edition->names, i);
        totals[i] = (struct name_total){.is_shadow = limit->is_shadow};
        memcpy(totals[i].name, limit->name, sizeof totals[i].name);
        for (size_t worker = 0; worker < edition->worker_count; worker++) {
            add_counts(&totals[i].counts, &edition->tallies[i]->by_worker[worker].counts);
        }
    }
    (void)pthread_mutex_unlock(&editions->mutex);
    return count;
}
