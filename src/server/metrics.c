/* SPDX-License-Identifier: MIT
 *
 * The body of /metrics: Prometheus's text format 0.0.4. Label values are a fixed, small set: never
 * a key, never an address. docs/operate.md lists what each metric is good for. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/time_units.h"
#include "limiter/limiter_state.h"
#include "server/process.h"
#include "server/service.h"
#include "server/totals.h"
#include "weir/clock.h"
#include "weir/version.h"

static const char *const PROTOCOLS[PROTOCOL_COUNT] = {
    [PROTOCOL_RESP] = "resp", [PROTOCOL_HTTP] = "http"};

static const char *const CLOSE_LABELS[CLOSE_REASON_COUNT] = {
#define CLOSE_REASON_ENTRY(name, label) [name] = label,
    CLOSE_REASON_MAP(CLOSE_REASON_ENTRY)
#undef CLOSE_REASON_ENTRY
};

static const char *const REJECT_LABELS[REJECT_REASON_COUNT] = {
#define REJECT_REASON_ENTRY(name, label) [name] = label,
    REJECT_REASON_MAP(REJECT_REASON_ENTRY)
#undef REJECT_REASON_ENTRY
};

static void write_head(struct buffer *output, const char *name, const char *type, const char *help)
{
    buffer_printf(output, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_one(struct buffer *output, const char *name, const char *type, const char *help,
                      uint64_t value)
{
    write_head(output, name, type, help);
    buffer_printf(output, "%s %" PRIu64 "\n", name, value);
}

static void write_by(struct buffer *output, const char *name, const char *label, int count,
                     const char *const *labels, const uint64_t *values)
{
    for (int i = 0; i < count; i++) {
        buffer_printf(output, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, labels[i], values[i]);
    }
}

static void write_by_protocol(struct buffer *output, const char *name, const char *type,
                              const char *help, const uint64_t *values)
{
    write_head(output, name, type, help);
    write_by(output, name, "protocol", PROTOCOL_COUNT, PROTOCOLS, values);
}

static const enum weir_verdict VERDICTS[] = {
#define WEIR_VERDICT_ENTRY(name, value, word) name,
    WEIR_VERDICT_MAP(WEIR_VERDICT_ENTRY)
#undef WEIR_VERDICT_ENTRY
};
enum { VERDICTS_COUNT = sizeof VERDICTS / sizeof VERDICTS[0] };

static void write_decisions_of(struct buffer *output, const char *limit,
                               uint64_t decisions[PROTOCOL_COUNT][VERDICT_COUNT])
{
    for (int protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        for (size_t i = 0; i < VERDICTS_COUNT; i++) {
            buffer_printf(output,
                          "weir_decisions_total{limit=\"%s\",protocol=\"%s\",verdict=\"%s\"} "
                          "%" PRIu64 "\n",
                          limit, PROTOCOLS[protocol], weir_verdict_word(VERDICTS[i]),
                          decisions[protocol][VERDICTS[i]]);
        }
    }
}

static void write_shadow_refusals(struct buffer *output, const struct name_total *total)
{
    for (size_t i = 0; i < VERDICTS_COUNT; i++) {
        if (VERDICTS[i] != WEIR_ALLOWED) {
            buffer_printf(output,
                          "weir_shadow_refusals_total{limit=\"%s\",verdict=\"%s\"} %" PRIu64 "\n",
                          total->name, weir_verdict_word(VERDICTS[i]),
                          total->counts.shadow_refusals[VERDICTS[i]]);
        }
    }
}

static void write_decisions(struct buffer *output, const struct server *server,
                            struct counters *counters)
{
    struct name_total *names = calloc(NAMES_LIMIT_COUNT_MAX, sizeof *names);
    size_t name_count = names != NULL ? editions_totals(server, names) : 0; // or one scrape without
    write_head(output, "weir_decisions_total", "counter",
               "Decisions by limit: takes, can-takes, fills, refunds and shows.");
    write_decisions_of(output, "inline", counters->decisions);
    for (size_t i = 0; i < name_count; i++) {
        write_decisions_of(output, names[i].name, names[i].counts.decisions);
    }
    write_head(output, "weir_shadow_refusals_total", "counter",
               "What limits in shadow mode would have refused.");
    for (size_t i = 0; i < name_count; i++) {
        write_shadow_refusals(output, &names[i]);
    }
    free(names);
}

static void write_configuration(struct buffer *output, const struct server *server)
{
    write_one(output, "weir_configuration_edition", "gauge",
              "The configuration in use: 1 since the start, one more with each reload.",
              /* Relaxed: a statistic. */
              atomic_load_explicit(&server->edition_number, memory_order_relaxed));
    write_one(output, "weir_reload_failures_total", "counter",
              "Reloads that changed nothing, because the configuration was wrong.",
              editions_failed_count(server));
}

static void write_requests(struct buffer *output, const struct counters *counters)
{
    write_by_protocol(output, "weir_requests_total", "counter",
                      "Commands and HTTP requests of all kinds.", counters->requests);
    write_by_protocol(output, "weir_bad_requests_total", "counter",
                      "Requests that were answered with an error.", counters->bad_requests);
    write_by_protocol(output, "weir_auth_failures_total", "counter",
                      "Requests with a wrong password, or without one.", counters->auth_failures);
}

static void write_connections(struct buffer *output, const struct server *server,
                              const struct totals *totals)
{
    uint64_t open[PROTOCOL_COUNT];
    for (int protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        open[protocol] = totals_connections(totals, protocol);
    }
    write_by_protocol(output, "weir_connections", "gauge", "Connections that are open.", open);
    write_one(output, "weir_connections_max", "gauge", "Connections that may be open.",
              server->connections_max);
    write_by_protocol(output, "weir_connections_accepted_total", "counter",
                      "Connections that were accepted.", totals->stats.accepted);
    write_head(output, "weir_connections_closed_total", "counter",
               "Connections that ended, and why.");
    write_by(output, "weir_connections_closed_total", "reason", CLOSE_REASON_COUNT, CLOSE_LABELS,
             totals->stats.closed);
    write_head(output, "weir_connections_rejected_total", "counter",
               "Connections that were turned away, and which bound was reached.");
    write_by(output, "weir_connections_rejected_total", "reason", REJECT_REASON_COUNT,
             REJECT_LABELS, totals->stats.rejected);
    write_one(output, "weir_accept_errors_total", "counter", "Failed calls of accept.",
              totals->stats.accept_errors);
    write_one(output, "weir_received_bytes_total", "counter", "Bytes read from clients.",
              totals->stats.received_bytes);
    write_one(output, "weir_sent_bytes_total", "counter", "Bytes sent to clients.",
              totals->stats.sent_bytes);
    write_one(output, "weir_strangers_bytes", "gauge",
              "Of weir_buffers_bytes, what clients keep that have not said the password.",
              /* Relaxed: a statistic. */
              atomic_load_explicit(&server->strangers_bytes, memory_order_relaxed));
    write_one(
        output, "weir_buffers_bytes", "gauge",
        "Bytes of incomplete requests, queued commands and answers that clients have not taken.",
        atomic_load_explicit(&server->buffers_bytes, memory_order_relaxed)); // a statistic
}

/* Where the bounds of a histogram begin: at 1.024 us, ending at 17.2 s; at 1.05 ms, ending at 4.9 hours. */
enum { MICROSECONDS = 10, MILLISECONDS = 20 };

/* Bounds are powers of two nanoseconds, where the histogram is exact: thirteen from 2^first_bit on. */
static void write_histogram(struct buffer *output, const char *name, const char *help,
                            unsigned first_bit, const struct histogram *histogram)
{
    write_head(output, name, "histogram", help);
    for (unsigned bit = first_bit; bit <= first_bit + 24; bit += 2) {
        uint64_t bound_ns = UINT64_C(1) << bit;
        buffer_printf(output, "%s_bucket{le=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64 "\n", name,
                      bound_ns / NS_PER_S, bound_ns % NS_PER_S,
                      histogram_count_below(histogram, bound_ns));
    }
    buffer_printf(output, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, histogram->count);
    buffer_printf(output, "%s_sum %" PRIu64 ".%09" PRIu64 "\n", name, histogram->sum / NS_PER_S,
                  histogram->sum % NS_PER_S);
    buffer_printf(output, "%s_count %" PRIu64 "\n", name, histogram->count);
}

static void write_turns(struct buffer *output, const struct server *server,
                        const struct totals *totals)
{
    write_one(output, "weir_turns_total", "counter", "Wake-ups of all workers.",
              totals->stats.turns);
    struct histogram *sum = calloc(2, sizeof *sum);
    if (sum == NULL) {
        return; // one scrape without them
    }
    for (size_t i = 0; i < server->worker_count; i++) {
        histogram_merge(&sum[0], server->workers[i]->turns);
        histogram_merge(&sum[1], server->workers[i]->clock_ages);
    }
    write_histogram(output, "weir_turn_duration_seconds",
                    "From wake-up until all that had arrived was answered; of 1 turn in 16.",
                    MICROSECONDS, &sum[0]);
    write_histogram(output, "weir_clock_reading_age_seconds",
                    "How old a reading of the clock was when a long turn renewed it.", MICROSECONDS,
                    &sum[1]);
    free(sum);
}

static void write_waiting(struct buffer *output, const struct server *server)
{
    static const char *const ends[] = {"served", "expired", "left", "blocked"};
    static const char *const reasons[] = {"late", "full"};
    struct lines_stats stats;
    lines_read_stats(server->limiter->lines, &stats);
    write_one(output, "weir_waiting", "gauge", "Takes that stand in line now.",
              stats.waiting_count);
    write_one(output, "weir_waiting_max", "gauge", "Takes that may stand in line, in all.",
              stats.waiting_max);
    write_one(output, "weir_lines", "gauge", "Buckets for which somebody stands in line.",
              stats.line_count);
    write_head(output, "weir_waits_total", "counter",
               "Waits that ended: allowed, limited at the deadline, given up, or blocked.");
    write_by(output, "weir_waits_total", "end", 4, ends,
             (uint64_t[]){stats.served_count, stats.expired_count, stats.left_count,
                          stats.blocked_count});
    write_head(output, "weir_waits_refused_total", "counter",
               "Takes that were not let into a line: it would have been too late, or it is full.");
    write_by(output, "weir_waits_refused_total", "reason", 2, reasons,
             (uint64_t[]){stats.late_count, stats.full_count});
    struct histogram *waits = calloc(1, sizeof *waits);
    if (waits != NULL) { // otherwise one scrape without it
        for (size_t i = 0; i < server->worker_count; i++) {
            histogram_merge(waits, server->workers[i]->agenda.waits);
        }
        write_histogram(output, "weir_wait_duration_seconds",
                        "How long those stood in line who were served.", MILLISECONDS, waits);
        free(waits);
    }
}

static void write_table(struct buffer *output, const struct server *server)
{
    struct weir_limiter_stats stats;
    write_one(output, "weir_store_gone", "gauge",
              "1 while the file of the store is deleted, or another file has its name.",
              watch_is_gone(server));
    weir_limiter_stats(server->limiter, &stats);
    write_one(output, "weir_table_memory_bytes", "gauge", "Memory that is set aside for buckets.",
              stats.memory_bytes);
    write_one(output, "weir_table_slots", "gauge", "Buckets that fit at most.", stats.slot_count);
    write_one(output, "weir_table_used_slots", "gauge", "Slots that have ever held a bucket.",
              stats.used_count);
    /* Relaxed, both: statistics. */
    write_one(output, "weir_table_live_buckets", "gauge",
              "Buckets that are not empty, counted or estimated once a second.",
              atomic_load_explicit(&server->watch.live_count, memory_order_relaxed));
    write_one(output, "weir_table_free_slots", "gauge",
              "Slots that a new key could get, counted or estimated once a second.",
              atomic_load_explicit(&server->watch.free_count, memory_order_relaxed));
    write_one(output, "weir_table_reused_total", "counter",
              "Slots whose empty bucket was forgotten for another one.", stats.reused_count);
    write_one(output, "weir_table_full_total", "counter",
              "Requests that found no slot and were answered by on_full.", stats.full_count);
    write_one(output, "weir_table_evicted_total", "counter",
              "Buckets that were dropped, not empty, under on_full=evict.", stats.evicted_count);
    write_one(output, "weir_events_memory_bytes", "gauge",
              "Memory that is set aside for the events of windows.", stats.events_bytes);
    write_one(output, "weir_events_used_bytes", "gauge", "Of it, what holds events.",
              stats.events_used_bytes);
    write_one(output, "weir_events_full_total", "counter",
              "Requests that found no room for an event and were answered by on_full.",
              stats.events_full_count);
}

/* Of a store that answers later. */
static void write_asking(struct buffer *output, const struct server *server,
                         const struct asking_stats *stats)
{
    static const char *const whys[] = {
        [ASKING_NOT_ASKED] = "not_asked", [ASKING_UNKNOWN] = "unknown", [ASKING_DOWN] = "down"};
    if (server->limiter->store->ops->remote == NULL) {
        return;
    }
    write_one(output, "weir_store_down", "gauge",
              "1 while a worker has lost the store: on_error of each limit answers.",
              asking_is_down(server));
    write_one(output, "weir_store_outages_total", "counter",
              "How often a worker has lost the store.", stats->opened);
    write_one(output, "weir_store_batches_total", "counter", "Batches of questions to the store.",
              stats->asked);
    write_one(output, "weir_store_decided_total", "counter",
              "Of them, those that it decided in time.", stats->decided);
    write_one(output, "weir_store_late_total", "counter",
              "Answers of the store that nobody waited for any longer.", stats->late);
    write_one(output, "weir_store_retried_total", "counter",
              "Batches that were surely not asked, and were asked again.", stats->retried);
    write_one(output, "weir_store_pending_batches", "gauge", "Batches without an answer now.",
              stats->pending);
    write_one(output, "weir_store_pending_bytes", "gauge", "The memory that they take.",
              stats->pending_bytes);
    write_head(output, "weir_undecided_total", "counter",
               "Questions that on_error answered: surely not asked; unknown whether they were "
               "decided; not "
               "asked because the store is down.");
    write_by(output, "weir_undecided_total", "why", ASKING_FAILURE_COUNT, whys, stats->failures);
}

static void write_process(struct buffer *output, const struct server *server)
{
    struct process_usage usage;
    process_usage_read(&usage);
    uint64_t cpu_us = usage.user_cpu_us + usage.system_cpu_us;
    write_head(output, "process_cpu_seconds_total", "counter", "User and system time.");
    buffer_printf(output, "process_cpu_seconds_total %" PRIu64 ".%06" PRIu64 "\n", cpu_us / 1000000,
                  cpu_us % 1000000);
    write_one(output, "process_resident_memory_bytes", "gauge", "Resident memory.",
              usage.resident_bytes);
    write_one(output, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
              usage.virtual_bytes);
    write_one(output, "process_open_fds", "gauge", "Open files.", usage.open_fds);
    write_one(output, "process_max_fds", "gauge", "Files that may be open.", usage.max_fds);
    write_one(output, "process_start_time_seconds", "gauge", "When it started, since 1970.",
              (uint64_t)server->started_wall_s);
}

void metrics_write(const struct server *server, struct buffer *output)
{
    struct totals totals;
    totals_read(server, &totals);
    write_head(output, "weir_build_info", "gauge", "Which weir this is.");
    buffer_printf(output, "weir_build_info{version=\"%s\"} 1\n", WEIR_VERSION);
    write_decisions(output, server, &totals.counters);
    write_configuration(output, server);
    write_requests(output, &totals.counters);
    write_connections(output, server, &totals);
    write_turns(output, server, &totals);
    write_waiting(output, server);
    write_table(output, server);
    write_asking(output, server, &totals.asking);
    write_one(output, "weir_log_dropped_total", "counter",
              "Log lines that standard error did not take.",
              __atomic_load_n(&server->log.dropped_count, __ATOMIC_RELAXED)); // a statistic
    write_process(output, server);
}
