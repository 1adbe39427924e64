/* SPDX-License-Identifier: MIT
 *
 * INFO, in Redis's form: sections of name:value lines, as dashboards and clients read them. What
 * weir does not have (persistence, replicas) says so in the words that make them go on. */
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/time_units.h"
#include "limiter/limiter_state.h"
#include "server/process.h"
#include "server/service.h"
#include "server/totals.h"
#include "weir/clock.h"
#include "weir/version.h"

static void write_number(struct buffer *output, const char *name, uint64_t value)
{
    buffer_printf(output, "%s:%" PRIu64 "\r\n", name, value);
}

static uint16_t resp_port(const struct server *server)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct listener *listener = &server->listeners[i];
        if (listener->engine->protocol != PROTOCOL_RESP) {
            continue;
        }
        if (listener->address.any.sa_family == AF_INET) {
            return ntohs(listener->address.v4.sin_port);
        }
        if (listener->address.any.sa_family == AF_INET6) {
            return ntohs(listener->address.v6.sin6_port);
        }
    }
    return 0;
}

static void write_server(const struct server *server, struct buffer *output)
{
    struct utsname system = {0};
    (void)uname(&system);
    uint64_t uptime_s = (weir_clock_now_ns() - server->started_ns) / NS_PER_S;
    buffer_printf(output, "redis_version:%s\r\n", server->options.redis_version);
    buffer_append_text(output, "redis_mode:standalone\r\n");
    buffer_printf(output, "weir_version:%s\r\n", WEIR_VERSION);
    buffer_printf(output, "os:%s %s %s\r\n", system.sysname, system.release, system.machine);
    write_number(output, "arch_bits", sizeof(void *) * 8);
    buffer_append_text(output, "multiplexing_api:epoll\r\n");
    write_number(output, "process_id", (uint64_t)getpid());
    write_number(output, "tcp_port", resp_port(server));
    write_number(output, "io_threads_active", server->worker_count);
    write_number(output, "uptime_in_seconds", uptime_s);
    write_number(output, "uptime_in_days", uptime_s / 86400);
}

static void write_clients(const struct server *server, struct buffer *output)
{
    struct totals totals;
    totals_read(server, &totals);
    write_number(output, "connected_clients", totals_connections(&totals, PROTOCOL_RESP));
    write_number(output, "http_clients", totals_connections(&totals, PROTOCOL_HTTP));
    write_number(output, "maxclients", server->connections_max);
    struct lines_stats lines;
    lines_read_stats(server->limiter->lines, &lines);
    write_number(output, "blocked_clients", lines.waiting_count); // who stand in line
}

static void write_memory(const struct server *server, struct buffer *output)
{
    struct process_usage usage;
    struct weir_limiter_stats stats;
    process_usage_read(&usage);
    weir_limiter_stats(server->limiter, &stats);
    write_number(output, "used_memory", usage.resident_bytes);
    write_number(output, "used_memory_rss", usage.resident_bytes);
    write_number(output, "used_memory_peak", usage.resident_bytes_max);
    write_number(output, "maxmemory", stats.memory_bytes);
    buffer_append_text(output, "maxmemory_policy:noeviction\r\n");
    write_number(output, "table_slots", stats.slot_count);
    write_number(output, "table_used_slots", stats.used_count);
    /* Relaxed, both: statistics. */
    write_number(output, "table_live_buckets",
                 atomic_load_explicit(&server->watch.live_count, memory_order_relaxed));
    write_number(output, "table_free_slots",
                 atomic_load_explicit(&server->watch.free_count, memory_order_relaxed));
    write_number(output, "table_reused", stats.reused_count);
    write_number(output, "table_full", stats.full_count);
    write_number(output, "table_evicted", stats.evicted_count);
    write_number(output, "events_bytes", stats.events_bytes);
    write_number(output, "events_used_bytes", stats.events_used_bytes);
    write_number(output, "events_full", stats.events_full_count);
    /* Relaxed: a statistic. */
    write_number(output, "buffers_bytes",
                 atomic_load_explicit(&server->buffers_bytes, memory_order_relaxed));
}

static void write_persistence(const struct server *server, struct buffer *output)
{
    (void)server;
    buffer_append_text(output, "loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n");
}

static void write_stats(const struct server *server, struct buffer *output)
{
    struct totals totals;
    totals_read(server, &totals);
    uint64_t accepted = 0, rejected = 0;
    for (int i = 0; i < PROTOCOL_COUNT; i++) {
        accepted += totals.stats.accepted[i];
    }
    for (int i = 0; i < REJECT_REASON_COUNT; i++) {
        rejected += totals.stats.rejected[i];
    }
    write_number(output, "total_connections_received", accepted);
    write_number(output, "total_commands_processed", totals.counters.requests[PROTOCOL_RESP]);
    write_number(output, "total_http_requests", totals.counters.requests[PROTOCOL_HTTP]);
    write_number(output, "total_decisions", totals_decisions(server, &totals));
    write_number(output, "total_net_input_bytes", totals.stats.received_bytes);
    write_number(output, "total_net_output_bytes", totals.stats.sent_bytes);
    write_number(output, "rejected_connections", rejected);
    write_number(output, "total_error_replies",
                 totals.counters.bad_requests[PROTOCOL_RESP]
                     + totals.counters.bad_requests[PROTOCOL_HTTP]);
}

static void write_replication(const struct server *server, struct buffer *output)
{
    (void)server;
    buffer_append_text(output, "role:master\r\nconnected_slaves:0\r\n");
}

static void write_seconds(struct buffer *output, const char *name, uint64_t micros)
{
    buffer_printf(output, "%s:%" PRIu64 ".%06" PRIu64 "\r\n", name, micros / 1000000,
                  micros % 1000000);
}

static void write_cpu(const struct server *server, struct buffer *output)
{
    (void)server;
    struct process_usage usage;
    process_usage_read(&usage);
    write_seconds(output, "used_cpu_sys", usage.system_cpu_us);
    write_seconds(output, "used_cpu_user", usage.user_cpu_us);
}

static void write_cluster(const struct server *server, struct buffer *output)
{
    (void)server;
    buffer_append_text(output, "cluster_enabled:0\r\n");
}

static void write_keyspace(const struct server *server, struct buffer *output)
{
    (void)server; // the keys are not kept, only their hashes
    (void)output;
}

static const struct {
    const char *name, *title;
    void (*write)(const struct server *server, struct buffer *output);
} SECTIONS[] = {{"server", "Server", write_server},
                {"clients", "Clients", write_clients},
                {"memory", "Memory", write_memory},
                {"persistence", "Persistence", write_persistence},
                {"stats", "Stats", write_stats},
                {"replication", "Replication", write_replication},
                {"cpu", "CPU", write_cpu},
                {"cluster", "Cluster", write_cluster},
                {"keyspace", "Keyspace", write_keyspace}};

static bool is_all(const char *section)
{
    return section == NULL || strcmp(section, "all") == 0 || strcmp(section, "everything") == 0
           || strcmp(section, "default") == 0;
}

void info_write(const struct server *server, struct buffer *output, const char *section)
{
    bool is_first = true;
    for (size_t i = 0; i < sizeof SECTIONS / sizeof SECTIONS[0]; i++) {
        if (is_all(section) || strcmp(section, SECTIONS[i].name) == 0) {
            buffer_printf(output, "%s# %s\r\n", is_first ? "" : "\r\n", SECTIONS[i].title);
            SECTIONS[i].write(server, output);
            is_first = false;
        }
    }
}
