/* SPDX-License-Identifier: MIT
 *
 * The reader of commands. https://redis.io/docs/latest/develop/reference/protocol-spec/ defines the
 * form; the texts of errors are those that redis-server 7.0 sends. */
#include "protocol/resp/resp_parse.h"

#include <stdio.h>
#include <string.h>

static const char ERROR_ARG_COUNT[] = "Protocol error: invalid multibulk length";
static const char ERROR_ARG_COUNT_LINE[] = "Protocol error: too big mbulk count string";
static const char ERROR_STRANGER_ARG_COUNT[] = "Protocol error: unauthenticated multibulk length";
static const char ERROR_BULK[] = "Protocol error: invalid bulk length";
static const char ERROR_BULK_LINE[] = "Protocol error: too big bulk count string";
static const char ERROR_STRANGER_BULK[] = "Protocol error: unauthenticated bulk length";
static const char ERROR_BULK_END[] = "Protocol error: expected CRLF after the bulk string";
static const char ERROR_COMMAND[] = "Protocol error: the command is longer than 196608 bytes";
static const char ERROR_STRANGER[] = "Protocol error: more than 4096 bytes before the password";
static const char ERROR_INLINE[] = "Protocol error: too big inline request";
static const char ERROR_QUOTES[] = "Protocol error: unbalanced quotes in request";

_Static_assert(RESP_COMMAND_BYTES_MAX == 196608 && RESP_STRANGER_BYTES_MAX == 4096,
               "as the errors say");

/* What is left of the input. */
struct cursor {
    const char *at;
    const char *end;
};

static size_t left(const struct cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

static enum resp_result bad(struct resp_progress *progress, const char *error)
{
    progress->error = error;
    return RESP_BAD;
}

/* Reads "12\r\n" where it is there as a whole and has one or two digits, as nearly always. */
static inline bool read_short_number(struct cursor *cursor, long *number)
{
    const char *at = cursor->at;
    if (left(cursor) < 4) {
        return false;
    }
    unsigned first = (unsigned)(at[0] - '0');
    unsigned second = (unsigned)(at[1] - '0');
    if (first <= 9 && at[1] == '\r' && at[2] == '\n') {
        *number = first;
        cursor->at = at + 3;
        return true;
    }
    if (first - 1 <= 8 && second <= 9 && at[2] == '\r' && at[3] == '\n') {
        *number = first * 10 + second;
        cursor->at = at + 4;
        return true;
    }
    return false;
}

/* Reads "123\r\n", after its first byte. The number is whole and below 10^9, without leading zeroes;
 * Redis takes a minus here, and so do we, to treat it as Redis does. */
static enum resp_result read_number(struct cursor *cursor, long *number, const char *error,
                                    const char *error_line, struct resp_progress *progress)
{
    const char *at = cursor->at;
    long value = 0;
    bool is_negative = at < cursor->end && *at == '-';
    at += is_negative;
    const char *digits = at;
    for (; at < cursor->end && *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (*at - '0');
        if (at - digits >= 9 || (at > digits && *digits == '0')) {
            return bad(progress, error);
        }
    }
    if (at == cursor->end || (*at == '\r' && at + 1 == cursor->end)) {
        return left(cursor) > RESP_NUMBER_BYTES_MAX ? bad(progress, error_line) : RESP_MORE;
    }
    if (at == digits || at[0] != '\r' || at[1] != '\n') {
        return bad(progress, error);
    }
    cursor->at = at + 2;
    *number = is_negative ? -value : value;
    return RESP_DONE;
}

static enum resp_result read_bulk(struct cursor *cursor, bool is_stranger, struct bytes *arg,
                                  struct resp_progress *progress)
{
    long length;
    if (cursor->at == cursor->end) {
        return RESP_MORE;
    }
    if (*cursor->at != '$') {
        unsigned char got = (unsigned char)*cursor->at;
        (void)snprintf(progress->error_text, sizeof progress->error_text,
                       "Protocol error: expected '$', got '%c'",
                       got >= 0x20 && got < 0x7f ? got : '?');
        return bad(progress, progress->error_text);
    }
    cursor->at++;
    enum resp_result result = read_number(cursor, &length, ERROR_BULK, ERROR_BULK_LINE, progress);
    if (result != RESP_DONE) {
        return result;
    }
    if (length < 0 || length > RESP_BULK_BYTES_MAX) {
        return bad(progress, ERROR_BULK);
    }
    if (is_stranger && length > RESP_STRANGER_BULK_BYTES_MAX) {
        return bad(progress, ERROR_STRANGER_BULK);
    }
    if (left(cursor) < (size_t)length + 2) {
        progress->need = (size_t)length + 2 - left(cursor);
        return RESP_MORE;
    }
    *arg = (struct bytes){cursor->at, (size_t)length};
    if (cursor->at[length] != '\r' || cursor->at[length + 1] != '\n') {
        return bad(progress, ERROR_BULK_END);
    }
    cursor->at += length + 2;
    return RESP_DONE;
}

/* Reads a bulk string that is there as a whole and shorter than 100 bytes; any other is left to
 * read_bulk(), which says what is wrong with it. */
static inline bool read_short_bulk(struct cursor *cursor, struct bytes *arg)
{
    struct cursor ahead = {cursor->at + 1, cursor->end};
    long length;
    if (cursor->at == cursor->end || *cursor->at != '$' || !read_short_number(&ahead, &length)
        || left(&ahead) < (size_t)length + 2 || ahead.at[length] != '\r'
        || ahead.at[length + 1] != '\n') {
        return false;
    }
    *arg = (struct bytes){ahead.at, (size_t)length};
    cursor->at = ahead.at + length + 2;
    return true;
}

static enum resp_result parse_array(struct bytes input, bool is_stranger,
                                    struct resp_command *command, struct resp_progress *progress)
{
    enum { BULK_BYTES_MIN = 6 }; // "$0\r\n\r\n"
    struct cursor cursor = {input.at + 1, input.at + input.length};
    long arg_count;
    enum resp_result result = RESP_DONE;
    if (!read_short_number(&cursor, &arg_count)) {
        result = read_number(&cursor, &arg_count, ERROR_ARG_COUNT, ERROR_ARG_COUNT_LINE, progress);
    }
    if (result == RESP_DONE && arg_count > RESP_ARG_COUNT_MAX) {
        return bad(progress, ERROR_ARG_COUNT);
    }
    if (result == RESP_DONE && is_stranger && arg_count > RESP_STRANGER_ARG_COUNT_MAX) {
        return bad(progress, ERROR_STRANGER_ARG_COUNT);
    }
    command->arg_count = arg_count > 0 && result == RESP_DONE ? (size_t)arg_count : 0;
    for (size_t i = 0; i < command->arg_count; i++) {
        if (read_short_bulk(&cursor, &command->args[i])) {
            continue;
        }
        result = read_bulk(&cursor, is_stranger, &command->args[i], progress);
        if (result != RESP_DONE) {
            progress->need += (command->arg_count - i - 1) * BULK_BYTES_MIN;
            break;
        }
    }
    progress->used = (size_t)(cursor.at - input.at);
    progress->need += input.length;
    size_t bytes_max = is_stranger ? RESP_STRANGER_BYTES_MAX : RESP_COMMAND_BYTES_MAX;
    bool is_long = (result == RESP_MORE ? progress->need : progress->used) > bytes_max;
    if (!is_long || result == RESP_BAD) {
        return result;
    }
    return bad(progress, is_stranger ? ERROR_STRANGER : ERROR_COMMAND);
}

/* What a backslash and this byte mean between double quotes. */
static char unescape(char c)
{
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
    }
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Reads what stands between quotes, from behind the first, into `to`; returns the end of what was
 * written, or NULL where the quotes do not balance. */
static char *unquote(struct cursor *cursor, char quote, char *to)
{
    while (cursor->at < cursor->end && *cursor->at != quote) {
        char c = *cursor->at++;
        bool has_next = c == '\\' && cursor->at < cursor->end;
        if (has_next && quote == '"') {
            bool is_hex = *cursor->at == 'x' && left(cursor) >= 3 && hex_value(cursor->at[1]) >= 0
                          && hex_value(cursor->at[2]) >= 0;
            if (is_hex) {
                c = (char)(hex_value(cursor->at[1]) * 16 + hex_value(cursor->at[2]));
                cursor->at += 3;
            } else {
                c = unescape(*cursor->at++);
            }
        } else if (has_next && *cursor->at == '\'') {
            c = *cursor->at++;
        }
        *to++ = c;
    }
    if (cursor->at == cursor->end) {
        return NULL;
    }
    cursor->at++;
    bool ends_word = cursor->at == cursor->end || *cursor->at == ' ' || *cursor->at == '\t';
    return ends_word ? to : NULL;
}

static enum resp_result parse_line(struct cursor line, bool is_stranger,
                                   struct resp_command *command, struct resp_progress *progress)
{
    char *to = command->unquoted; // never more than the line has
    size_t arg_count_max = is_stranger ? RESP_STRANGER_ARG_COUNT_MAX : RESP_ARG_COUNT_MAX;
    command->arg_count = 0;
    for (;;) {
        while (line.at < line.end && (*line.at == ' ' || *line.at == '\t')) {
            line.at++;
        }
        if (line.at == line.end) {
            return RESP_DONE;
        }
        if (command->arg_count == arg_count_max) {
            return bad(progress, is_stranger ? ERROR_STRANGER_ARG_COUNT : ERROR_ARG_COUNT);
        }
        /* A word may begin plainly and go on in quotes: both are copied. */
        char *start = to;
        while (line.at < line.end && *line.at != ' ' && *line.at != '\t') {
            char c = *line.at++;
            if (c != '"' && c != '\'') {
                *to++ = c;
                continue;
            }
            to = unquote(&line, c, to);
            if (to == NULL) {
                return bad(progress, ERROR_QUOTES);
            }
        }
        command->args[command->arg_count++] = (struct bytes){start, (size_t)(to - start)};
    }
}

static enum resp_result parse_inline(struct bytes input, bool is_stranger,
                                     struct resp_command *command, struct resp_progress *progress)
{
    size_t line_max = is_stranger ? RESP_STRANGER_BYTES_MAX : RESP_INLINE_BYTES_MAX;
    size_t max = input.length < line_max ? input.length : line_max;
    size_t searched = progress->searched < max ? progress->searched : max;
    const char *end = memchr(input.at + searched, '\n', max - searched);
    progress->searched = max;
    if (end == NULL) {
        progress->need = input.length + 1;
        return max == line_max ? bad(progress, is_stranger ? ERROR_STRANGER : ERROR_INLINE)
                               : RESP_MORE;
    }
    struct cursor line = {input.at, end};
    if (line.end > line.at && line.end[-1] == '\r') {
        line.end--;
    }
    progress->used = (size_t)(end - input.at) + 1;
    progress->searched = 0;
    return parse_line(line, is_stranger, command, progress);
}

enum resp_result resp_parse(struct bytes input, bool is_stranger, struct resp_command *command,
                            struct resp_progress *progress)
{
    progress->need = 1;
    if (input.length == 0) {
        return RESP_MORE;
    }
    command->is_inline = *input.at != '*';
    return command->is_inline ? parse_inline(input, is_stranger, command, progress)
                              : parse_array(input, is_stranger, command, progress);
}
