/* SPDX-License-Identifier: MIT */
#include "server/log.h"

#include <assert.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/calendar.h"
#include "core/time_units.h"

enum { S_PER_DAY = 86400 };

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

/* At least `width` digits. By hand, as all of a line: snprintf() and gmtime_r() may wait for a lock of the C library. */
static void append_number(struct log_line *line, uint64_t number, size_t width)
{
    char digits[20];
    size_t count = 0;
    do {
        count++;
        digits[sizeof digits - count] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0 || count < width);
    append(line, digits + sizeof digits - count, count);
}

/* A JSON string; text logs use it too where a bare word would be ambiguous. Every byte that is not
 * printable ASCII is escaped, so neither a terminal nor a parser can be led astray. */
static void append_quoted(struct log_line *line, const char *text)
{
    static const char HEX[] = "0123456789abcdef";
    append(line, "\"", 1);
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            append(line, (const char[]){'\\', *at}, 2);
        } else if (byte < 0x20 || byte >= 0x7f) {
            append(line, (const char[]){'\\', 'u', '0', '0', HEX[byte >> 4], HEX[byte & 15]}, 6);
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
        append_text(line, field->number < 0 ? "-" : "");
        append_number(line, field->number < 0 ? -(uint64_t)field->number : (uint64_t)field->number,
                      1);
    } else if (json || !is_bare_word(field->text)) {
        append_quoted(line, field->text);
    } else {
        append_text(line, field->text);
    }
}

/* A number of the date or the time, and what separates it from the next one. */
static void append_part(struct log_line *line, uint64_t number, size_t width, const char *behind)
{
    append_number(line, number, width);
    append_text(line, behind);
}

static void append_time(struct log_line *line, uint64_t wall_ns)
{
    uint64_t wall_s = wall_ns / NS_PER_S;
    int64_t day = (int64_t)(wall_s / S_PER_DAY);
    int64_t month = calendar_month_of_day(day);
    append_part(line, (uint64_t)(month / 12), 4, "-");
    append_part(line, (uint64_t)(month % 12 + 1), 2, "-");
    append_part(line, (uint64_t)(day - calendar_day_of_month(month) + 1), 2, "T");
    append_part(line, wall_s / 3600 % 24, 2, ":");
    append_part(line, wall_s / 60 % 60, 2, ":");
    append_part(line, wall_s % 60, 2, ".");
    append_part(line, wall_ns / NS_PER_MS % 1000, 3, "Z");
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
