/* SPDX-License-Identifier: MIT */
#include "cli/simulate/arrival.h"

#include <string.h>
#include <strings.h>

#include "cli/simulate/instant.h"
#include "weir/limit.h"
#include "weir/limiter.h"

/* However the letters of ASCII are written. */
static bool is_called(struct bytes name, const char *word)
{
    return name.length == strlen(word) && strncasecmp(name.at, word, name.length) == 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct bytes trim(struct bytes text)
{
    while (text.length > 0 && is_space(text.at[0])) {
        text.at++;
        text.length--;
    }
    while (text.length > 0 && is_space(text.at[text.length - 1])) {
        text.length--;
    }
    return text;
}

struct bytes arrival_first_line(struct bytes line)
{
    bool has_mark = line.length >= 3 && memcmp(line.at, "\xef\xbb\xbf", 3) == 0; // RFC 3629, 6
    return has_mark ? (struct bytes){line.at + 3, line.length - 3} : line;
}

bool arrival_is_blank(struct bytes line)
{
    struct bytes text = trim(line);
    return text.length == 0 || text.at[0] == '#';
}

/* ---- CSV: RFC 4180, on one line ---- */

/* What is left of a line: `over` once its last field has been read. */
struct csv {
    struct bytes rest;
    bool over;
    bool was_quoted, was_doubled; // the field that was read last; a quote in it
};

/* Behind an opening quote. A doubled quote stays as it is written. */
static const char *read_quoted(struct csv *csv, struct bytes *field)
{
    size_t at = 0;
    for (;;) {
        const char *quote = memchr(csv->rest.at + at, '"', csv->rest.length - at);
        if (quote == NULL) {
            return "a quote is not closed on its line";
        }
        at = (size_t)(quote - csv->rest.at);
        if (at + 1 < csv->rest.length && quote[1] == '"') {
            csv->was_doubled = true;
            at += 2;
            continue;
        }
        break;
    }
    *field = (struct bytes){csv->rest.at, at};
    struct bytes behind = trim((struct bytes){csv->rest.at + at + 1, csv->rest.length - at - 1});
    csv->over = behind.length == 0;
    if (!csv->over && behind.at[0] != ',') {
        return "expected a comma behind the quote";
    }
    csv->rest = csv->over ? behind : (struct bytes){behind.at + 1, behind.length - 1};
    return NULL;
}

static const char *next_field(struct csv *csv, struct bytes *field)
{
    struct bytes rest = csv->rest;
    while (rest.length > 0 && is_space(rest.at[0])) {
        rest.at++;
        rest.length--;
    }
    csv->was_quoted = rest.length > 0 && rest.at[0] == '"';
    csv->was_doubled = false;
    if (csv->was_quoted) {
        csv->rest = (struct bytes){rest.at + 1, rest.length - 1};
        return read_quoted(csv, field);
    }
    const char *comma = rest.length > 0 ? memchr(rest.at, ',', rest.length) : NULL;
    csv->over = comma == NULL;
    if (csv->over) {
        *field = trim(rest);
        return NULL;
    }
    size_t length = (size_t)(comma - rest.at);
    *field = trim((struct bytes){rest.at, length});
    csv->rest = (struct bytes){comma + 1, rest.length - length - 1};
    return NULL;
}

static const char *read_cost(uint64_t *cost_micro, struct bytes text)
{
    if (text.length == 1 && text.at[0] >= '0' && text.at[0] <= '9') {
        *cost_micro = (uint64_t)(text.at[0] - '0') * WEIR_UNIT;
        return NULL;
    }
    enum weir_status status = weir_cost_parse(cost_micro, text.at, text.length, NULL);
    return status == WEIR_OK          ? NULL
           : status == WEIR_E_RANGE   ? "the cost is above 1000000000000"
           : status == WEIR_E_INEXACT ? "the cost has more than six places after the point"
                                      : "the cost is no decimal number";
}

static const char *read_csv(const struct arrival_reader *reader, struct bytes line,
                            struct arrival *arrival)
{
    struct csv csv = {.rest = line};
    bool has_time = false;
    for (int column = 0; !csv.over && column < ARRIVAL_COLUMN_MAX; column++) {
        struct bytes field;
        const char *why = next_field(&csv, &field);
        if (why == NULL && column == reader->time_column) {
            has_time = true;
            why = instant_parse(&arrival->at_ns, field, reader->unit_power);
        } else if (why == NULL && column == reader->cost_column && field.length > 0) {
            why = read_cost(&arrival->cost_micro, field);
        }
        if (why != NULL) {
            return why;
        }
        if (column == reader->key_column) { // the time or the cost may be a key too
            arrival->key = field;
            arrival->key_is_doubled = csv.was_doubled;
        }
    }
    return has_time ? NULL : "the line ends before its time";
}

/* A column that is read has one place. False if it has one already. */
static bool set_column(int *place, int column)
{
    bool is_first = *place == ARRIVAL_NO_COLUMN;
    *place = column;
    return is_first;
}

/* The columns that a first line names. */
static const char *read_header(struct arrival_reader *reader, struct bytes line)
{
    struct csv csv = {.rest = line};
    const char *key = reader->key != NULL ? reader->key : "key";
    reader->time_column = reader->key_column = reader->cost_column = ARRIVAL_NO_COLUMN;
    reader->names_others = false;
    for (int column = 0; !csv.over; column++) {
        struct bytes name;
        const char *why = next_field(&csv, &name);
        if (why != NULL) {
            return why;
        }
        if (column == ARRIVAL_COLUMN_MAX) {
            return "the header has more than 64 columns";
        }
        reader->names_others |= !is_called(name, "time") && !is_called(name, "cost");
        if (is_called(name, "time") && !set_column(&reader->time_column, column)) {
            return "the header names the column 'time' twice";
        }
        if (is_called(name, "cost") && !set_column(&reader->cost_column, column)) {
            return "the header names the column 'cost' twice";
        }
        if (is_called(name, key) && !set_column(&reader->key_column, column)) {
            return "the header names the column of the keys twice";
        }
    }
    if (reader->time_column == ARRIVAL_NO_COLUMN) {
        return "the header names no column 'time'; it needs one, as in time,key,cost";
    }
    if (reader->key != NULL && reader->has_key && reader->key_column == ARRIVAL_NO_COLUMN) {
        return "the header does not name the column of --key";
    }
    return NULL;
}

static bool begins_with_letter(struct bytes line)
{
    struct bytes text = trim(line);
    size_t at = text.length > 1 && text.at[0] == '"';
    char c = text.length > 0 ? text.at[at] : '\0';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool begins_with_digit(struct bytes line)
{
    struct bytes text = trim(line);
    return text.length > 0 && text.at[0] >= '0' && text.at[0] <= '9';
}

static enum arrival_begin begin_csv(struct arrival_reader *reader, struct bytes line,
                                    const char **why)
{
    bool has_header = begins_with_letter(line);
    bool names_column = reader->has_key && reader->key != NULL && strcmp(reader->key, "key") != 0;
    reader->time_column = 0;
    reader->key_column = 1;
    reader->cost_column = 2;
    if (has_header) {
        *why = read_header(reader, line);
    } else if (names_column) {
        *why = "--key names a column, and the CSV has no first line that names its columns";
    }
    if (!reader->has_key) {
        reader->key_column = ARRIVAL_NO_COLUMN;
    }
    return *why != NULL ? BEGIN_NEVER : has_header ? BEGIN_HEADER : BEGIN_ARRIVAL;
}

static bool is_word(struct bytes text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'
              || c == '-' || c == '.')) {
            return false;
        }
    }
    return text.length > 0;
}

/* True if a line names columns, whether a time is among them or not: several, each a word or in quotes. Without a
 * time its file must not be read as if it had no header. */
static bool is_header(struct bytes line)
{
    struct csv csv = {.rest = line};
    struct bytes name;
    int count = 0;
    while (!csv.over) {
        if (next_field(&csv, &name) != NULL || !(csv.was_quoted || is_word(name))) {
            return false;
        }
        count++;
    }
    return count > 1 && begins_with_letter(line);
}

/* Why the line of a CSV without a header is none: NULL if it begins with a time. */
static const char *why_no_times(const struct arrival_reader *reader, struct bytes line)
{
    struct arrival_reader usual = {.unit_power = reader->unit_power, .time_column = 0};
    struct arrival arrival;
    usual.key_column = usual.cost_column = ARRIVAL_NO_COLUMN;
    return read_csv(&usual, line, &arrival);
}

/* True if a line has the columns of a CSV: a time first, or names. */
static bool is_csv(const struct arrival_reader *reader, struct bytes line)
{
    struct arrival_reader usual = {.unit_power = reader->unit_power};
    return begins_with_letter(line) ? is_header(line) || read_header(&usual, line) == NULL
                                    : why_no_times(reader, line) == NULL;
}

/* ---- Access logs: Apache's mod_log_config, "%h %l %u %t \"%r\" %>s %b" ---- */

static const struct {
    const char *name;
    enum log_field field;
} LOG_FIELDS[] = {
    {"address", LOG_ADDRESS}, {"user", LOG_USER},       {"method", LOG_METHOD}, {"path", LOG_PATH},
    {"status", LOG_STATUS},   {"referer", LOG_REFERER}, {"agent", LOG_AGENT},
};

static const char NO_LOG[] = "expected address ident user [time] \"request\" status bytes";

/* A word that ends at a space, and the space. */
static bool take_word(struct bytes *rest, struct bytes *word)
{
    const char *space = rest->length > 0 ? memchr(rest->at, ' ', rest->length) : NULL;
    if (space == NULL || space == rest->at) {
        return false;
    }
    *word = (struct bytes){rest->at, (size_t)(space - rest->at)};
    *rest = (struct bytes){space + 1, rest->length - word->length - 1};
    return true;
}

/* `open` text `close`. */
static bool take_between(struct bytes *rest, char open, char close, struct bytes *text)
{
    if (rest->length < 2 || rest->at[0] != open) {
        return false;
    }
    const char *end = memchr(rest->at + 1, close, rest->length - 1);
    while (end != NULL && close == '"' && end[-1] == '\\') {
        size_t backslashes = 1; // an even number of them escape each other
        while (end[-1 - (ptrdiff_t)backslashes] == '\\') { // at the latest the opening quote stops
            backslashes++;
        }
        if (backslashes % 2 == 0) {
            break;
        }
        end = memchr(end + 1, close, (size_t)(rest->at + rest->length - end - 1));
    }
    if (end == NULL) {
        return false;
    }
    *text = (struct bytes){rest->at + 1, (size_t)(end - rest->at) - 1};
    *rest = (struct bytes){end + 1, rest->length - text->length - 2};
    return true;
}

static bool take_space(struct bytes *rest)
{
    if (rest->length == 0 || rest->at[0] != ' ') {
        return false;
    }
    rest->at++;
    rest->length--;
    return true;
}

/* Digits, or a minus for none, up to a space or the end. */
static bool take_number(struct bytes *rest, struct bytes *number)
{
    size_t length = 0;
    while (length < rest->length && rest->at[length] >= '0' && rest->at[length] <= '9') {
        length++;
    }
    length += length == 0 && rest->length > 0 && rest->at[0] == '-';
    *number = (struct bytes){rest->at, length};
    rest->at += length;
    rest->length -= length;
    return length > 0 && (rest->length == 0 || rest->at[0] == ' ');
}

struct log_line {
    struct bytes address, user, time, request, status, referer, agent;
    struct bytes rest; // behind what has been split
};

/* What both formats have. */
static bool split_log(struct bytes line, struct log_line *log)
{
    struct bytes *rest = &log->rest;
    struct bytes unused;
    *rest = line;
    return take_word(rest, &log->address) && take_word(rest, &unused) && take_word(rest, &log->user)
           && take_between(rest, '[', ']', &log->time) && take_space(rest)
           && take_between(rest, '"', '"', &log->request) && take_space(rest)
           && take_number(rest, &log->status) && take_space(rest) && take_number(rest, &unused);
}

/* What combined adds. What follows it is left alone. */
static bool split_combined(struct log_line *log)
{
    struct bytes *rest = &log->rest;
    return take_space(rest) && take_between(rest, '"', '"', &log->referer) && take_space(rest)
           && take_between(rest, '"', '"', &log->agent);
}

/* "GET /search?q=1 HTTP/1.1": the path without its query. */
static bool request_part(struct bytes request, enum log_field field, struct bytes *part)
{
    if (!take_word(&request, part)) {
        return false;
    }
    if (field == LOG_METHOD) {
        return true;
    }
    size_t length = 0;
    while (length < request.length && request.at[length] != ' ' && request.at[length] != '?') {
        length++;
    }
    *part = (struct bytes){request.at, length};
    return length > 0;
}

static const char *read_log(const struct arrival_reader *reader, struct bytes line,
                            struct arrival *arrival)
{
    struct log_line log;
    if (!split_log(line, &log)) {
        return NO_LOG;
    }
    if (reader->format == FORMAT_COMBINED && !split_combined(&log)) {
        return "expected \"referer\" \"agent\" at the end: not the combined format";
    }
    if (reader->has_key) {
        switch (reader->field) {
        case LOG_ADDRESS: arrival->key = log.address; break;
        case LOG_USER: arrival->key = log.user; break;
        case LOG_STATUS: arrival->key = log.status; break;
        case LOG_REFERER: arrival->key = log.referer; break;
        case LOG_AGENT: arrival->key = log.agent; break;
        case LOG_METHOD:
        case LOG_PATH:
            if (!request_part(log.request, reader->field, &arrival->key)) {
                return "the request has no method and path";
            }
            break;
        }
    }
    return instant_parse_log(&arrival->at_ns, log.time);
}

static enum arrival_begin begin_log(struct arrival_reader *reader, const char **why)
{
    reader->field = LOG_ADDRESS;
    bool known = !reader->has_key || reader->key == NULL;
    for (size_t i = 0; !known && i < sizeof LOG_FIELDS / sizeof LOG_FIELDS[0]; i++) {
        if (strcmp(reader->key, LOG_FIELDS[i].name) == 0) {
            reader->field = LOG_FIELDS[i].field;
            known = true;
        }
    }
    bool wants_combined = reader->field == LOG_REFERER || reader->field == LOG_AGENT;
    if (!known) {
        *why = "the keys of an access log are address user method path status referer agent";
    } else if (wants_combined && reader->format != FORMAT_COMBINED) {
        *why = "only the combined format has a referer and an agent";
    }
    return *why != NULL ? BEGIN_NEVER : BEGIN_ARRIVAL;
}

/* ---- Both ---- */

static enum arrival_format format_of(const struct arrival_reader *reader, struct bytes line)
{
    struct log_line log;
    if (split_log(line, &log)) {
        return split_combined(&log) ? FORMAT_COMBINED : FORMAT_COMMON;
    }
    return is_csv(reader, line) ? FORMAT_CSV : FORMAT_DETECT;
}

enum arrival_begin arrival_begin(struct arrival_reader *reader, struct bytes line, const char **why)
{
    *why = NULL;
    reader->has_key = reader->key == NULL || strcmp(reader->key, "none") != 0;
    if (reader->format == FORMAT_DETECT) {
        reader->format = format_of(reader, line);
    }
    switch (reader->format) {
    case FORMAT_DETECT: break;
    case FORMAT_CSV: return begin_csv(reader, line, why);
    case FORMAT_COMMON:
    case FORMAT_COMBINED: return begin_log(reader, why);
    }
    bool is_gzip = line.length > 1 && memcmp(line.at, "\x1f\x8b", 2) == 0; // RFC 1952
    const char *no_time = why_no_times(reader, line);
    bool is_wrong_time = no_time != NULL && no_time != INSTANT_NONE && begins_with_digit(line);
    *why = is_gzip         ? "this is compressed: zcat FILE | weir simulate LIMIT"
           : is_wrong_time ? no_time
                           : "neither CSV that begins with a time, nor an access log";
    return is_gzip ? BEGIN_NEVER : BEGIN_UNKNOWN;
}

const char *arrival_read(const struct arrival_reader *reader, struct bytes line,
                         struct arrival *arrival)
{
    *arrival = (struct arrival){.cost_micro = WEIR_UNIT, .key = {line.at, 0}};
    const char *why = reader->format == FORMAT_CSV ? read_csv(reader, line, arrival)
                                                   : read_log(reader, line, arrival);
    if (why == NULL && arrival->key.length > WEIR_KEY_BYTES_MAX) {
        why = "the key is longer than 65535 bytes";
    }
    return why;
}

void arrival_undouble(struct arrival *arrival, char *room)
{
    const struct bytes key = arrival->key;
    size_t length = 0;
    for (size_t i = 0; i < key.length; i++) {
        room[length++] = key.at[i];
        i += key.at[i] == '"'; // it is followed by another one
    }
    arrival->key = (struct bytes){room, length};
    arrival->key_is_doubled = false;
}
