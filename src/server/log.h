/* SPDX-License-Identifier: MIT
 *
 * What the server says on standard error: one line per event, for people or as JSON.
 *
 *     LOG(log, LOG_INFO, "listening", log_text("protocol", "resp"), log_number("port", 6390));
 *
 *     2026-11-21T07:12:31.123Z info listening protocol=resp port=6390
 *     {"time":"2026-11-21T07:12:31.123Z","level":"info","event":"listening","protocol":"resp",...}
 *
 * Never a password, never a key of a client. A line is one write(2); on a pipe that is full it is
 * dropped and counted rather than waited for: the server does not stop because its log does. */
#ifndef WEIR_SERVER_LOG_H
#define WEIR_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/bucket.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log {
    int fd;
    enum log_level level; // what is below is left out
    bool json;
    uint64_t dropped_count; // atomic, relaxed: a statistic
};

/* A key and either a text or, if that is NULL, a number. */
struct log_field {
    const char *key;
    const char *text;
    int64_t number;
};

static inline struct log_field log_text(const char *key, const char *text)
{
    return (struct log_field){.key = key, .text = text};
}

static inline struct log_field log_number(const char *key, uint64_t number)
{
    return (struct log_field){.key = key, .number = (int64_t)number};
}

enum { LOG_LINE_BYTES_MAX = 2048 }; // longer ones are cut, below PIPE_BUF

/* Writes one line. `fields` ends with a key of NULL. Thread-safe and async-signal-safe; never blocks on a pipe. */
void log_event(struct log *log, enum log_level level, const char *event,
               const struct log_field *fields);

/* With at least one field. */
#define LOG(log, level, event, ...)                                                                \
    log_event((log), (level), (event), (const struct log_field[]){__VA_ARGS__, {NULL, NULL, 0}})

/* Formats what log_event() writes, newline included, NUL-terminated; returns its length.
 * `wall_ns` since 1970. For log_event() and tests. */
size_t log_format(const struct log *log, char line[LOG_LINE_BYTES_MAX], uint64_t wall_ns,
                  enum log_level level, const char *event, const struct log_field *fields);

/* Keeps an event that clients can cause from filling the disk: LOG_GATE_PER_S lines per second,
 * decided by a bucket of our own. All zeroes is open. */
struct log_gate {
    struct weir_shared_bucket bucket;
    uint64_t skipped_count; // atomic, relaxed
};

enum { LOG_GATE_PER_S = 5 };

/* True if this event may be logged now; then *skipped says how many were not since the last one.
 * Thread-safe. */
bool log_gate_pass(struct log_gate *gate, uint64_t now_ns, uint64_t *skipped);

#endif
