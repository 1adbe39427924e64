/* SPDX-License-Identifier: MIT */
#include "server/log.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/time_units.h"

/* A line under construction. Always leaves room for the newline and the NUL. */
struct log_line {
    char *at;
    size_t length;
};

static void append(struct log_line *line, const char *bytes, size_t count)
{
    size_t room = LOG_LINE_BYTES_MAX - 2 - line->length;
    if (count > room) {
        count = room;
    }
    memcpy(line->at + line->length, bytes, count);
    line->length += count;
}

static void append_text(struct log_line *line, const char *text)
{
    append(line, text, strlen(text));
}

/* A JSON string; text logs use it too where a bare word would be ambiguous. Every byte that is not
 * printable ASCII is escaped, so neither a terminal nor a parser can be led astray. */
static void append_quoted(struct log_line *line, const char *text)
{
    append(line, "\"", 1);
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            append(line, (const char[]){'\\', *at}, 2);
        } else if (byte < 0x20 || byte >= 0x7f) {
            char escape[8];
            int length = snprintf(escape, sizeof escape, "\\u%04x", byte);
            append(line, escape, (size_t)length);
        } else {
            append(line, at, 1);
        }
    }
    append(line, "\"", 1);
}

static bool is_bare_word(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at >= 0x7f || *at == '"' || *at == '\\' || *at == '=') {
            return false;
        }
    }
    return text[0] != '\0';
}

static void append_value(struct log_line *line, const struct log_field *field, bool json)
{
    if (field->text == NULL) {
        char number[24];
        int length = snprintf(number, sizeof number, "%" PRId64, field->number);
        append(line, number, (size_t)length);
    } else if (json || !is_bare_word(field->text)) {
        append_quoted(line, field->text);
    } else {
        append_text(line, field->text);
    }
}

static void append_time(struct log_line *line, uint64_t wall_ns)
{
    struct tm parts;
    time_t wall_s = (time_t)(wall_ns / NS_PER_S);
    char text[32];
    (void)gmtime_r(&wall_s, &parts);
    size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    append(line, text, length);
    int more = snprintf(text, sizeof text, ".%03uZ", (unsigned)(wall_ns / 1000000 % 1000));
    append(line, text, (size_t)more);
}

size_t log_format(const struct log *log, char text[LOG_LINE_BYTES_MAX], uint64_t wall_ns,
                  enum log_level level, const char *event, const struct log_field *fields)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    struct log_line line = {.at = text};
    append_text(&line, log->json ? "{\"time\":\"" : "");
    append_time(&line, wall_ns);
    append_text(&line, log->json ? "\",\"level\":\"" : " ");
    append_text(&line, names[level]);
    append_text(&line, log->json ? "\",\"event\":\"" : " ");
    append_text(&line, event);
    append_text(&line, log->json ? "\"" : "");
    for (; fields->key != NULL; fields++) {
        size_t before = line.length;
        append_text(&line, log->json ? ",\"" : " ");
        append_text(&line, fields->key);
        append_text(&line, log->json ? "\":" : "=");
        append_value(&line, fields, log->json);
        if (line.length >= LOG_LINE_BYTES_MAX - 3) { // cut: whole fields only, so it still parses
            line.length = before;
            break;
        }
    }
    append_text(&line, log->json ? "}" : "");
    text[line.length++] = '\n';
    text[line.length] = '\0';
    return line.length;
}

static bool would_block(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    return poll(&ready, 1, 0) == 0;
}

void log_event(struct log *log, enum log_level level, const char *event,
               const struct log_field *fields)
{
    if (level < log->level) {
        return;
    }
    struct timespec wall;
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t wall_ns = (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec;
    char line[LOG_LINE_BYTES_MAX];
    size_t length = log_format(log, line, wall_ns, level, event, fields);
    if (would_block(log->fd) || write(log->fd, line, length) < 0) {
        /* Relaxed: a statistic. */
        (void)__atomic_fetch_add(&log->dropped_count, 1, __ATOMIC_RELAXED);
    }
}

bool log_gate_pass(struct log_gate *gate, uint64_t now_ns, uint64_t *skipped)
{
    const struct weir_limit_config config = {.count_micro = LOG_GATE_PER_S * WEIR_UNIT,
                                             .period_ns = NS_PER_S,
                                             .capacity_micro = LOG_GATE_PER_S * WEIR_UNIT};
    struct weir_limit limit;
    enum weir_status status = weir_limit_init(&limit, &config, NULL);
    assert(status == WEIR_OK);
    struct weir_decision decision =
        status == WEIR_OK ? weir_shared_bucket_take(&gate->bucket, &limit, WEIR_UNIT, now_ns)
                          : (struct weir_decision){.verdict = WEIR_LIMITED};
    /* Relaxed, both: a statistic. */
    if (decision.verdict != WEIR_ALLOWED) {
        (void)__atomic_fetch_add(&gate->skipped_count, 1, __ATOMIC_RELAXED);
        return false;
    }
    *skipped = __atomic_exchange_n(&gate->skipped_count, 0, __ATOMIC_RELAXED);
    return true;
}
