/* SPDX-License-Identifier: MIT */
#include "server/watch.h"

#include "core/time_units.h"
#include "limiter/limiter_state.h"
#include "limiter/shared_lines/shared_move.h"
#include "server/state.h"
#include "weir/clock.h"

enum {
    WATCH_EVERY_MS = 1000,
    FILLING_PERCENT = 80, // of the slots are taken: said once,
    EASED_PERCENT = 75    // and again only after it was less than this
};

static uint64_t store_now_ns(struct server *server)
{
    return server->options.test_clock ? test_clock_now_ns(&server->test_clock)
                                      : weir_limiter_now_ns(server->limiter);
}

/* What helps against a full table. */
static const char *remedy(const struct server *server)
{
    return server->is_stored ? "weir store resize SIZE --store URL" : "a larger --memory";
}

static void take_census(struct server *server, struct store_census *census)
{
    const struct store *store = server->limiter->store;
    *census = (struct store_census){.slot_count = 0};
    if (store->ops->upkeep != NULL) {
        store->ops->upkeep->census(store, census, store_now_ns(server));
    }
    /* Relaxed: statistics. */
    atomic_store_explicit(&server->watch.live_count, census->live_count, memory_order_relaxed);
    atomic_store_explicit(&server->watch.free_count, census->free_count, memory_order_relaxed);
}

/* How much a counter has grown since the last look. It begins anew in a file of another size. */
static uint64_t growth(uint64_t *seen, uint64_t count)
{
    uint64_t grown = count > *seen ? count - *seen : 0;
    *seen = count;
    return grown;
}

/*   evicted  buckets that were dropped since the last line, on_full=evict
 *   skipped  how many requests found the table full since then, beside the one that this line is about */
static void tell_full(struct server *server, const struct store_census *census,
                      const struct weir_limiter_stats *stats)
{
    uint64_t evicted = growth(&server->watch.evicted_count, stats->evicted_count);
    uint64_t count = growth(&server->watch.full_count, stats->full_count) + evicted;
    if (count > 0) {
        LOG(&server->log, LOG_ERROR, "table_full", log_number("slots", census->slot_count),
            log_number("live", census->live_count), log_number("free", census->free_count),
            log_number("evicted", evicted), log_text("remedy", remedy(server)),
            log_number("skipped", count - 1));
    }
}

static void tell_events_full(struct server *server, const struct weir_limiter_stats *stats)
{
    uint64_t count = growth(&server->watch.events_full_count, stats->events_full_count);
    if (count > 0) {
        LOG(&server->log, LOG_ERROR, "events_full", log_number("bytes", stats->events_bytes),
            log_number("used_bytes", stats->events_used_bytes),
            log_text("remedy", "a larger &events= of the store"), log_number("skipped", count - 1));
    }
}

static void tell_filling(struct server *server, const struct store_census *census)
{
    struct watch *watch = &server->watch;
    uint64_t taken_count = census->slot_count - census->free_count;
    uint64_t percent = census->slot_count > 0 ? taken_count * 100 / census->slot_count : 0;
    if (!watch->is_filling && percent >= FILLING_PERCENT) {
        LOG(&server->log, LOG_WARN, "table_filling", log_number("percent", percent),
            log_number("slots", census->slot_count), log_number("live", census->live_count),
            log_number("free", census->free_count), log_text("remedy", remedy(server)));
        watch->is_filling = true;
    }
    watch->is_filling = watch->is_filling && percent >= EASED_PERCENT;
}

bool watch_is_gone(const struct server *server)
{
    return atomic_load_explicit(&server->watch.is_gone, memory_order_relaxed) != 0;
}

static const struct loss {
    const char *why, *remedy;
} LOSSES[] = {
    [STORE_DELETED] =
        {"the file was deleted or moved away; its buckets are lost when this server ends",
         "put the file back, or send SIGHUP: this server then makes it again, with all its "
         "buckets"},
    [STORE_UNSEEN] = {"this server cannot look into the folder of its file any more, and does not "
                      "know whether the "
                      "file is there",
                      "let this server enter the folder again"},
    [STORE_REPLACED] =
        {"another file has its name; a program that opens it does not share this server's buckets",
         "put the file back, or send SIGHUP: this server then goes on in the other file, and its "
         "own buckets are lost"},
    [STORE_OVERWRITTEN] =
        {"another store was copied into the file; a program that opens it does not share this "
         "server's buckets",
         "restart this server"},
    [STORE_LOST] =
        {"the buckets moved to a file of another size, which this server cannot open: every "
         "request is "
         "answered with an error",
         "put that file there, or restart this server, which then begins with empty buckets"},
};

/* Says once that the file has lost its name, and once that it has it again. By then /healthz says so, too. */
static void tell_name(struct server *server)
{
    struct store *store = server->limiter->store;
    const struct upkeep_ops *upkeep = store->ops->upkeep;
    enum store_name name = upkeep != NULL ? upkeep->look_at_name(store) : STORE_NAMED;
    bool is_gone = name != STORE_NAMED;
    /* Relaxed: nothing follows from it. */
    bool was_gone =
        atomic_exchange_explicit(&server->watch.is_gone, is_gone, memory_order_relaxed) != 0;
    if (is_gone && !was_gone) {
        LOG(&server->log, LOG_ERROR, "store_gone", log_text("url", server->options.store),
            log_text("why", LOSSES[name].why), log_text("remedy", LOSSES[name].remedy));
    } else if (!is_gone && was_gone) {
        LOG(&server->log, LOG_INFO, "store_back", log_text("url", server->options.store));
    }
}

static void tell_regained(struct server *server, const struct store_regained *regained)
{
    const char *url = server->options.store;
    switch (regained->outcome) {
    case STORE_AS_IT_WAS: break;
    case STORE_LINKED:
        LOG(&server->log, LOG_INFO, "store_followed", log_text("url", url),
            log_text("how", "the file had another name, and has this one again, too"));
        break;
    case STORE_CARRIED:
        LOG(&server->log, LOG_INFO, "store_followed", log_text("url", url),
            log_text("how", "the buckets are in a new file of this name"),
            log_number("carried", regained->bucket_count),
            log_number("waiting", regained->waiting_count),
            log_number("held_us", regained->held_ns / NS_PER_US));
        break;
    case STORE_EXCHANGED:
        LOG(&server->log, LOG_WARN, "store_followed", log_text("url", url),
            log_text("how", "the other file of this name is in use now"),
            log_number("lost", regained->bucket_count),
            log_number("waiting", regained->waiting_count),
            log_number("held_us", regained->held_ns / NS_PER_US));
        break;
    }
}

void watch_follow(struct server *server)
{
    struct store *store = server->limiter->store;
    struct store_regained regained;
    struct weir_error error;
    struct room_mover mover;
    if (store->ops->upkeep == NULL) {
        return;
    }
    room_mover_init(&mover);
    enum weir_status status = store->ops->upkeep->regain_name(
        store, &mover.lines, store_now_ns(server), &regained, &error);
    if (status == WEIR_OK && regained.outcome != STORE_AS_IT_WAS) {
        atomic_store_explicit(&server->watch.is_gone, 0, memory_order_relaxed); // as above
    }
    tell_regained(server, &regained);
    if (status != WEIR_OK) {
        LOG(&server->log, LOG_ERROR, "store_not_followed", log_text("url", server->options.store),
            log_text("why", error.message),
            log_text("remedy", "mend that, and send SIGHUP again; or restart this server"));
    }
    server->watch.next_ns = 0;
}

void watch_open(struct server *server)
{
    struct weir_limiter_stats stats;
    struct store_census census;
    weir_limiter_stats(server->limiter, &stats);
    server->watch.full_count = stats.full_count;
    server->watch.evicted_count = stats.evicted_count;
    server->watch.events_full_count = stats.events_full_count;
    take_census(server, &census);
    tell_filling(server, &census);
    tell_name(server);
    server->watch.next_ns = weir_clock_now_ns() + WATCH_EVERY_MS * NS_PER_MS;
}

void watch_look(struct server *server)
{
    struct weir_limiter_stats stats;
    struct store_census census;
    uint64_t now_ns = weir_clock_now_ns();
    if (now_ns < server->watch.next_ns) {
        return;
    }
    server->watch.next_ns = now_ns + WATCH_EVERY_MS * NS_PER_MS;
    weir_limiter_stats(server->limiter, &stats);
    take_census(server, &census);
    tell_filling(server, &census);
    tell_full(server, &census, &stats);
    tell_events_full(server, &stats);
    tell_name(server);
}

int watch_wait_ms(const struct server *server)
{
    uint64_t now_ns = weir_clock_now_ns();
    uint64_t next_ns = server->watch.next_ns;
    return next_ns > now_ns ? (int)((next_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
}
