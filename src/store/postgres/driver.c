/* SPDX-License-Identifier: MIT
 *
 * postgres://..., as a store. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/time_units.h"
#include "store/attendant.h"
#include "store/driver.h"
#include "store/postgres/link.h"
#include "store/postgres/talk.h"
#include "store/postgres/upkeep.h"
#include "weir/postgres.h"

/* ---- the store ---- */

/* The database has the clock that decides. This one is as far from it as UTC of two hosts is, and close enough for what
 * is only shown. */
static uint64_t now_ns(const struct store *store)
{
    struct timespec now;
    (void)store;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static enum weir_status status(struct store *store)
{
    (void)store;
    return WEIR_OK;
}

static void stats(const struct store *store, struct weir_limiter_stats *stats)
{
    (void)store;
    *stats = (struct weir_limiter_stats){0}; // nothing here is full: a database has its own tools
}

/* In a child the session is the parent's: to end it properly would end the parent's. */
static void close_store(struct store *store)
{
    struct postgres_store *postgres = (struct postgres_store *)(void *)store;
    if (postgres->spare != NULL && postgres->owner == getpid()) {
        postgres->pq->finish(postgres->spare);
    }
    free(postgres);
}

static const struct store_ops OPS = {
    .decide = attendant_store_decide,
    .take = attendant_store_take,
    .now_ns = now_ns,
    .status = status,
    .stats = stats,
    .close = close_store,
    .remote = &postgres_link_ops,
};

/* ---- opening ---- */

static enum weir_status read_url(const char *text, char path[STORE_PATH_MAX],
                                 struct weir_error *error)
{
    struct postgres_url url;
    path[0] = '\0';
    return postgres_url_parse(&url, text, error);
}

/* One that cannot be reached is opened all the same: its port will say so, and find it when it is there. */
static enum weir_status connect_store(struct postgres_store *postgres, struct weir_error *error)
{
    postgres->pq = libpq_load(error);
    if (postgres->pq == NULL) {
        return WEIR_E_SYSTEM;
    }
    enum weir_status checked = talk_check_url(postgres->pq, &postgres->url, error);
    if (checked != WEIR_OK) {
        return checked;
    }
    bool is_refused = session_open(&postgres->spare, postgres->pq, &postgres->url, true, error)
                      == SESSION_REFUSED;
    return is_refused ? WEIR_E_SYSTEM : WEIR_OK;
}

static enum weir_status open_store(struct store **store, const char *text,
                                   struct store_settings *settings, struct weir_error *error)
{
    struct weir_error unused;
    error = error != NULL ? error : &unused;
    struct postgres_store *postgres = calloc(1, sizeof *postgres);
    if (postgres == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a store");
    }
    postgres->store.ops = &OPS;
    postgres->owner = getpid();
    postgres->prunes = !settings->is_caller_clock; // prune() has the database's
    enum weir_status opened = postgres_url_parse(&postgres->url, text, error);
    postgres->store.deadline_ns = postgres->url.deadline_ms * NS_PER_MS;
    opened = opened == WEIR_OK ? connect_store(postgres, error) : opened;
    if (opened != WEIR_OK) {
        free(postgres);
        return opened;
    }
    *store = &postgres->store;
    return WEIR_OK;
}

/* Of postgresql://, too. */
const struct weir_store_driver weir_postgres_driver = {
    .scheme = "postgres",
    .form = "postgres://HOST/DATABASE",
    .read = read_url,
    .open = open_store,
    .show = postgres_url_show,
    .database = &postgres_upkeep,
};
