/* SPDX-License-Identifier: MIT */
#include "server/watch.h"

#include "core/time_units.h"
#include "limiter/limiter_state.h"
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
    store->ops->census(store, census, store_now_ns(server));
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
    uint64_t percent = taken_count * 100 / census->slot_count;
    if (!watch->is_filling && percent >= FILLING_PERCENT) {
        LOG(&server->log, LOG_WARN, "table_filling", log_number("percent", percent),
            log_number("slots", census->slot_count), log_number("live", census->live_count),
            log_number("free", census->free_count), log_text("remedy", remedy(server)));
        watch->is_filling = true;
    }
    watch->is_filling = watch->is_filling && percent >= EASED_PERCENT;
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
}

int watch_wait_ms(const struct server *server)
{
    uint64_t now_ns = weir_clock_now_ns();
    uint64_t next_ns = server->watch.next_ns;
    return next_ns > now_ns ? (int)((next_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
}
