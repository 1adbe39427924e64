/* SPDX-License-Identifier: MIT
 *
 * Limits as text: reading what people write, and printing the one canonical form.
 *
 *     limit  = [kind SP] count "/" [whole] unit *(SP option)       month, year: of kind fixed
 *     option = ("capacity" | "burst") "=" count | "first" "=" ("interval" | "now")
 *            | "waiting" "=" whole | "block" "=" (whole unit | "empty")
 *            | "on_full" "=" ("refuse" | "allow" | "evict")
 *            | "on_error" "=" ("refuse" | "allow")
 *     count  = digits ["." 1*6 digits]
 *
 * A reader goes over the text once, from left to right, and stops at the first thing that cannot be
 * right; `offset` is where that begins. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/arith.h"
#include "core/fail.h"
#include "core/limit_words.h"
#include "weir/limit.h"

struct unit {
    const char *name;
    uint64_t ns;
    uint32_t months; // of the calendar; 0 where its length is fixed
};

/* Longer than a second first to last: canonical text prefers the earlier. */
static const struct unit UNITS[] = {
    {"s", UINT64_C(1000000000), 0},      {"min", UINT64_C(60000000000), 0},
    {"h", UINT64_C(3600000000000), 0},   {"d", UINT64_C(86400000000000), 0},
    {"w", UINT64_C(604800000000000), 0}, {"ms", UINT64_C(1000000), 0},
    {"us", UINT64_C(1000), 0},           {"ns", UINT64_C(1), 0},
};
enum { UNIT_COUNT = sizeof UNITS / sizeof UNITS[0], UNIT_COUNT_FROM_SECOND = 5 };

/* Of fixed limits only. The longer first, as canonical text prefers it. */
static const struct unit CALENDAR_UNITS[] = {{"year", 12 * WEIR_MONTH_NS, 12},
                                             {"month", WEIR_MONTH_NS, 1}};
enum { CALENDAR_UNIT_COUNT = sizeof CALENDAR_UNITS / sizeof CALENDAR_UNITS[0] };

/* What is left of a text, and where to say what is wrong with it. */
struct reader {
    const char *text;
    size_t length;
    size_t at;
    struct weir_error *error;
    size_t rate_at, capacity_at; // where they began; the rate's place where no capacity is said
};

/* A run of bytes of the text. */
struct word {
    const char *text;
    size_t length;
};

static bool at_end(const struct reader *reader)
{
    return reader->at == reader->length;
}

static bool next_is(const struct reader *reader, char c)
{
    return !at_end(reader) && reader->text[reader->at] == c;
}

static bool next_is_digit(const struct reader *reader)
{
    return !at_end(reader) && reader->text[reader->at] >= '0' && reader->text[reader->at] <= '9';
}

static bool next_is_letter(const struct reader *reader)
{
    if (at_end(reader)) {
        return false;
    }
    char c = reader->text[reader->at];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void skip_spaces(struct reader *reader)
{
    while (next_is(reader, ' ')) {
        reader->at++;
    }
}

/* A letter, then letters, `_` and `-`; empty where no letter stands. */
static struct word read_word(struct reader *reader)
{
    size_t start = reader->at;
    while (next_is_letter(reader)
           || (reader->at > start && (next_is(reader, '_') || next_is(reader, '-')))) {
        reader->at++;
    }
    return (struct word){reader->text + start, reader->at - start};
}

static bool word_is(struct word word, const char *name)
{
    return word.length == strlen(name) && memcmp(word.text, name, word.length) == 0;
}

/* At most so many bytes of a stranger's word are repeated to him. */
static int shown(struct word word)
{
    return word.length < 32 ? (int)word.length : 32;
}

/* Says that something else was expected here, and shows what stands here instead. */
static enum weir_status expected(const struct reader *reader, const char *what)
{
    if (at_end(reader)) {
        return fail(reader->error, WEIR_E_SYNTAX, reader->at, "expected %s, but the text ends",
                    what);
    }
    unsigned char c = (unsigned char)reader->text[reader->at];
    if (c >= 0x20 && c < 0x7f) {
        return fail(reader->error, WEIR_E_SYNTAX, reader->at, "expected %s, not '%c'", what, c);
    }
    return fail(reader->error, WEIR_E_SYNTAX, reader->at, "expected %s, not byte 0x%02x", what, c);
}

/* Reads a decimal number into millionths. `min_micro` is 0 or 1. */
static enum weir_status read_micro(struct reader *reader, const char *what, uint64_t min_micro,
                                   uint64_t *micro)
{
    size_t start = reader->at;
    uint64_t value = 0;
    if (!next_is_digit(reader)) {
        return expected(reader, what);
    }
    for (; next_is_digit(reader); reader->at++) {
        value = value * 10 + (uint64_t)(reader->text[reader->at] - '0');
        if (value > WEIR_UNITS_MAX) {
            return fail(reader->error, WEIR_E_RANGE, start, "%s is above 1000000000000", what);
        }
    }
    value *= WEIR_UNIT;
    if (next_is(reader, '.')) {
        reader->at++;
        if (!next_is_digit(reader)) {
            return expected(reader, "a digit after the point");
        }
        for (uint64_t place = WEIR_UNIT / 10; next_is_digit(reader); place /= 10, reader->at++) {
            if (place == 0) {
                return fail(reader->error, WEIR_E_INEXACT, reader->at,
                            "%s has more than six places after the point", what);
            }
            value += place * (uint64_t)(reader->text[reader->at] - '0');
        }
    }
    if (value > WEIR_MICRO_MAX) {
        return fail(reader->error, WEIR_E_RANGE, start, "%s is above 1000000000000", what);
    }
    if (value < min_micro) {
        return fail(reader->error, WEIR_E_RANGE, start, "%s is zero", what);
    }
    *micro = value;
    return WEIR_OK;
}

/* A unit of time, as a number of nanoseconds or of months. */
static bool find_unit(struct word word, enum weir_kind kind, struct unit *unit)
{
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (word_is(word, UNITS[i].name)) {
            *unit = UNITS[i];
            return true;
        }
    }
    for (size_t i = 0; i < CALENDAR_UNIT_COUNT; i++) {
        if (word_is(word, CALENDAR_UNITS[i].name)) {
            *unit = CALENDAR_UNITS[i];
            return kind == WEIR_KIND_FIXED;
        }
    }
    return false;
}

static bool is_calendar_unit(struct word word)
{
    struct unit unused;
    return find_unit(word, WEIR_KIND_FIXED, &unused);
}

/* Reads how many units of time there are; one unless said. */
static enum weir_status read_unit_count(struct reader *reader, const char *what, uint64_t *count)
{
    size_t start = reader->at;
    *count = next_is_digit(reader) ? 0 : 1;
    for (; next_is_digit(reader); reader->at++) {
        uint64_t digit = (uint64_t)(reader->text[reader->at] - '0');
        if (*count > (WEIR_SPAN_NS_MAX - digit) / 10) { // before it could wrap
            return fail(reader->error, WEIR_E_RANGE, start, "%s is above 100 years", what);
        }
        *count = *count * 10 + digit;
    }
    if (*count == 0) {
        return fail(reader->error, WEIR_E_RANGE, start, "%s is zero", what);
    }
    return WEIR_OK;
}

/* Reads "[N]UNIT": at least 1 ns, at most 100 years. A fixed limit knows more units. */
static enum weir_status read_units(struct reader *reader, enum weir_kind kind, const char *what,
                                   uint64_t *count, struct unit *unit)
{
    const char *units =
        kind == WEIR_KIND_FIXED ? "ns us ms s min h d w month year" : "ns us ms s min h d w";
    size_t start = reader->at;
    enum weir_status status = read_unit_count(reader, what, count);
    if (status != WEIR_OK) {
        return status;
    }
    size_t unit_at = reader->at;
    struct word word = read_word(reader);
    if (word.length == 0) {
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "a unit: %s", units);
        return expected(reader, wanted);
    }
    if (!find_unit(word, kind, unit)) {
        return fail(reader->error, WEIR_E_SYNTAX, unit_at,
                    is_calendar_unit(word) ? "only a fixed limit counts by the %.*s; one of %s"
                                           : "unknown unit '%.*s'; one of %s",
                    shown(word), word.text, units);
    }
    if (*count > WEIR_SPAN_NS_MAX / unit->ns) {
        return fail(reader->error, WEIR_E_RANGE, start, "%s is above 100 years", what);
    }
    return WEIR_OK;
}

static enum weir_status read_period(struct reader *reader, struct weir_limit_config *config)
{
    uint64_t count = 0;
    struct unit unit = UNITS[0];
    enum weir_status status = read_units(reader, config->kind, "the period", &count, &unit);
    config->period_ns = count * unit.ns;
    config->period_months = (uint32_t)count * unit.months; // 0 unless it counts by them
    return status;
}

/* Reads one of two words; *second says which. */
static enum weir_status read_choice(struct reader *reader, const char *name, const char *first_word,
                                    const char *second_word, bool *second)
{
    size_t start = reader->at;
    struct word word = read_word(reader);
    *second = word_is(word, second_word);
    if (*second || word_is(word, first_word)) {
        return WEIR_OK;
    }
    return fail(reader->error, WEIR_E_SYNTAX, start, "%s is either %s or %s", name, first_word,
                second_word);
}

static enum weir_status read_capacity(struct reader *reader, struct weir_limit_config *config)
{
    reader->capacity_at = reader->at;
    return read_micro(reader, "the capacity", 1, &config->capacity_micro);
}

static enum weir_status read_first(struct reader *reader, struct weir_limit_config *config)
{
    bool is_now;
    enum weir_status status = read_choice(reader, "first", "interval", "now", &is_now);
    config->first = is_now ? WEIR_FIRST_NOW : WEIR_FIRST_INTERVAL;
    return status;
}

static enum weir_status read_waiting(struct reader *reader, struct weir_limit_config *config)
{
    size_t start = reader->at;
    config->waiting = 0;
    if (!next_is_digit(reader)) {
        return expected(reader, "how many may wait");
    }
    for (; next_is_digit(reader); reader->at++) {
        config->waiting = config->waiting * 10 + (uint32_t)(reader->text[reader->at] - '0');
        if (config->waiting > WEIR_WAITING_MAX) {
            return fail(reader->error, WEIR_E_RANGE, start, "waiting is above 1000000");
        }
    }
    return WEIR_OK;
}

static enum weir_status read_block(struct reader *reader, struct weir_limit_config *config)
{
    static const char EMPTY[] = "empty";
    size_t length = sizeof EMPTY - 1;
    if (reader->length - reader->at >= length
        && memcmp(reader->text + reader->at, EMPTY, length) == 0) {
        reader->at += length;
        config->block_ns = WEIR_BLOCK_UNTIL_EMPTY;
        return WEIR_OK;
    }
    if (!next_is_digit(reader)) {
        return expected(reader, "how long a block lasts, such as 30s, or empty");
    }
    uint64_t count = 0;
    struct unit unit = UNITS[0];
    enum weir_status status = read_units(reader, WEIR_KIND_BUCKET, "the block", &count, &unit);
    config->block_ns = count * unit.ns;
    return status;
}

const char *limit_on_full_word(enum weir_on_full on_full)
{
    static const char *const words[] = {[WEIR_ON_FULL_REFUSE] = "refuse",
                                        [WEIR_ON_FULL_ALLOW] = "allow",
                                        [WEIR_ON_FULL_EVICT] = "evict"};
    return words[on_full];
}

static enum weir_status read_on_full(struct reader *reader, struct weir_limit_config *config)
{
    size_t start = reader->at;
    struct word word = read_word(reader);
    for (int i = WEIR_ON_FULL_REFUSE; i <= WEIR_ON_FULL_EVICT; i++) {
        if (word_is(word, limit_on_full_word((enum weir_on_full)i))) {
            config->on_full = (enum weir_on_full)i;
            return WEIR_OK;
        }
    }
    return fail(reader->error, WEIR_E_SYNTAX, start, "on_full is refuse, allow or evict");
}

const char *limit_on_error_word(enum weir_on_error on_error)
{
    return on_error == WEIR_ON_ERROR_ALLOW ? "allow" : "refuse";
}

static enum weir_status read_on_error(struct reader *reader, struct weir_limit_config *config)
{
    size_t start = reader->at;
    struct word word = read_word(reader);
    for (int i = WEIR_ON_ERROR_REFUSE; i <= WEIR_ON_ERROR_ALLOW; i++) {
        if (word_is(word, limit_on_error_word((enum weir_on_error)i))) {
            config->on_error = (enum weir_on_error)i;
            return WEIR_OK;
        }
    }
    return fail(reader->error, WEIR_E_SYNTAX, start,
                word_is(word, "local")
                    ? "on_error=local is not available; on_error is refuse or allow"
                    : "on_error is refuse or allow");
}

/* What may stand behind a rate. `only` is the kind that has it, or ANY_KIND. */
struct option {
    const char *name;
    const char *what; // in "what is said twice"
    int only;
    enum weir_status (*read)(struct reader *reader, struct weir_limit_config *config);
};

enum { ANY_KIND = -1 };

static const struct option OPTIONS[] = {
    {"capacity", "the capacity", ANY_KIND, read_capacity},
    {"first", "first", WEIR_KIND_QUEUE, read_first},
    {"waiting", "waiting", ANY_KIND, read_waiting},
    {"block", "block", ANY_KIND, read_block},
    {"on_full", "on_full", ANY_KIND, read_on_full},
    {"on_error", "on_error", ANY_KIND, read_on_error},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

static size_t find_option(struct word name)
{
    size_t i = 0;
    while (i < OPTION_COUNT && !word_is(name, OPTIONS[i].name)) {
        i++;
    }
    return word_is(name, "burst") ? 0 : i; // an alias of the capacity
}

/* Reads one "name=value". `*seen` remembers which options stood before. */
static enum weir_status read_option(struct reader *reader, struct weir_limit_config *config,
                                    unsigned *seen)
{
    size_t start = reader->at;
    struct word name = read_word(reader);
    size_t i = find_option(name);
    if (i == OPTION_COUNT && name.length == 0) {
        return expected(reader,
                        "an option: capacity=, first=, waiting=, block=, on_full= or on_error=");
    }
    if (i == OPTION_COUNT) {
        return fail(reader->error, WEIR_E_SYNTAX, start,
                    "a limit has no option '%.*s'; one of capacity burst first waiting block"
                    " on_full on_error",
                    shown(name), name.text);
    }
    const struct option *option = &OPTIONS[i];
    if (option->only != ANY_KIND && (int)config->kind != option->only) {
        return fail(reader->error, WEIR_E_SYNTAX, start, "only a queue has %s=", option->name);
    }
    if (!next_is(reader, '=')) {
        return expected(reader, "'='");
    }
    reader->at++;
    if (*seen & 1u << i) {
        return fail(reader->error, WEIR_E_SYNTAX, start, "%s is said twice", option->what);
    }
    *seen |= 1u << i;
    return option->read(reader, config);
}

/* By enum weir_kind. */
static const char *const KINDS[] = {"bucket", "queue", "stepped", "fixed", "sliding", "window"};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

bool limit_word_is_kind(const char *text, size_t length)
{
    size_t i = 0;
    while (i < KIND_COUNT && !word_is((struct word){text, length}, KINDS[i])) {
        i++;
    }
    return i < KIND_COUNT;
}

/* Reads "kind SP", if the text starts with a letter. */
static enum weir_status read_kind(struct reader *reader, enum weir_kind *kind)
{
    size_t start = reader->at;
    *kind = WEIR_KIND_BUCKET;
    if (!next_is_letter(reader)) {
        return WEIR_OK;
    }
    struct word word = read_word(reader);
    size_t i = 0;
    while (i < KIND_COUNT && !word_is(word, KINDS[i])) {
        i++;
    }
    if (i == KIND_COUNT) {
        return fail(reader->error, WEIR_E_SYNTAX, start,
                    "unknown kind '%.*s'; a limit starts with a count or with a kind: bucket queue"
                    " stepped fixed sliding window",
                    shown(word), word.text);
    }
    *kind = (enum weir_kind)i;
    if (!next_is(reader, ' ')) {
        return expected(reader, "a space and a count");
    }
    skip_spaces(reader);
    return WEIR_OK;
}

static enum weir_status read_options(struct reader *reader, struct weir_limit_config *config)
{
    unsigned seen = 0;
    while (!at_end(reader)) {
        if (!next_is(reader, ' ')) {
            return expected(reader, "a space or the end");
        }
        skip_spaces(reader);
        if (at_end(reader)) {
            break;
        }
        enum weir_status status = read_option(reader, config, &seen);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

/* A queue is a line itself, as long as its capacity. */
static uint32_t usual_waiting(enum weir_kind kind)
{
    return kind == WEIR_KIND_QUEUE ? WEIR_WAITING_MAX : WEIR_WAITING;
}

/* A window of the calendar, one that slides or any: it holds what is counted in it. */
static bool holds_its_count(enum weir_kind kind)
{
    return kind == WEIR_KIND_FIXED || kind == WEIR_KIND_SLIDING || kind == WEIR_KIND_WINDOW;
}

static uint64_t usual_capacity(enum weir_kind kind, uint64_t count_micro)
{
    return count_micro > WEIR_UNIT || holds_its_count(kind) ? count_micro : WEIR_UNIT;
}

/* Reads everything; leaves to weir_limit_init() what only the numbers together can show. */
static enum weir_status read_limit(struct reader *reader, struct weir_limit_config *config)
{
    skip_spaces(reader);
    enum weir_status status = read_kind(reader, &config->kind);
    reader->rate_at = reader->capacity_at = reader->at;
    if (status == WEIR_OK) {
        status = read_micro(reader, "the count", 1, &config->count_micro);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (!next_is(reader, '/')) {
        return expected(reader, "'/' and a period");
    }
    reader->at++;
    status = read_period(reader, config);
    if (status != WEIR_OK) {
        return status;
    }
    config->capacity_micro = usual_capacity(config->kind, config->count_micro);
    config->waiting = usual_waiting(config->kind);
    return read_options(reader, config);
}

enum weir_status weir_limit_parse(struct weir_limit_config *config, const char *text, size_t length,
                                  struct weir_error *error)
{
    struct reader reader = {.text = text, .length = length, .error = error};
    if (length > WEIR_LIMIT_TEXT_MAX) {
        return fail(error, WEIR_E_RANGE, WEIR_LIMIT_TEXT_MAX, "the limit is longer than %d bytes",
                    WEIR_LIMIT_TEXT_MAX);
    }
    *config = (struct weir_limit_config){.on_full = WEIR_ON_FULL_REFUSE};
    enum weir_status status = read_limit(&reader, config);
    if (status != WEIR_OK) {
        return status;
    }
    struct weir_limit unused;
    status = weir_limit_init(&unused, config, error);
    if (status != WEIR_OK && error != NULL) { // only the numbers together could show it
        error->offset = status == WEIR_E_INEXACT ? reader.rate_at : reader.capacity_at;
    }
    return status;
}

enum weir_status weir_cost_parse(uint64_t *cost_micro, const char *text, size_t length,
                                 struct weir_error *error)
{
    struct reader reader = {.text = text, .length = length, .error = error};
    enum weir_status status = read_micro(&reader, "the cost", 0, cost_micro);
    if (status == WEIR_OK && !at_end(&reader)) {
        status = expected(&reader, "the end of the cost");
    }
    return status;
}

/* Printing. */

/* How a limit is best said: COUNT per `units` UNITs. */
struct phrase {
    uint64_t count_micro;
    uint64_t units;
    const struct unit *unit;
};

/* The largest unit that divides a span of time. */
static const struct unit *unit_of(uint64_t ns)
{
    const struct unit *best = &UNITS[UNIT_COUNT - 1];
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (ns % UNITS[i].ns == 0 && UNITS[i].ns > best->ns) {
            best = &UNITS[i];
        }
    }
    return best;
}

static struct phrase phrase_of(uint64_t count_micro, uint64_t period_ns)
{
    const struct unit *unit = unit_of(period_ns);
    return (struct phrase){count_micro, period_ns / unit->ns, unit};
}

/* By the year where it can be. */
static struct phrase phrase_of_months(uint64_t count_micro, uint32_t months)
{
    const struct unit *unit = &CALENDAR_UNITS[months % CALENDAR_UNITS[0].months != 0];
    return (struct phrase){count_micro, months / unit->months, unit};
}

/* Count and period as they are: 10/10s is not 1/s where periods count. */
static struct phrase phrase_as_written(const struct weir_limit_config *config)
{
    return config->period_months != 0 ? phrase_of_months(config->count_micro, config->period_months)
                                      : phrase_of(config->count_micro, config->period_ns);
}

/* Beyond a thousand million, a count says less than a shorter period does. */
#define PHRASE_MICRO_MAX (UINT64_C(1000000000) * WEIR_UNIT)

/* Among all ways to write the same rate, the one people would choose:
 *   1. whole units in one second, else minute, hour, day, week          10/s
 *   2. the capacity in a whole number of seconds                        1000/30d
 *   3. whole units in the shortest period that has them                 1/7us
 *   4. millionths, where whole units would leave the ranges */
static struct phrase choose_phrase(const struct weir_limit_config *config)
{
    if (config->kind != WEIR_KIND_BUCKET && config->kind != WEIR_KIND_QUEUE) {
        return phrase_as_written(config);
    }
    uint64_t common = gcd64(config->count_micro, config->period_ns);
    uint64_t count = config->count_micro / common;
    uint64_t period = config->period_ns / common;
    for (size_t i = 0; i < UNIT_COUNT_FROM_SECOND; i++) {
        uint128 micro = (uint128)count * (UNITS[i].ns / period);
        if (UNITS[i].ns % period == 0 && micro % WEIR_UNIT == 0 && micro <= PHRASE_MICRO_MAX) {
            return (struct phrase){(uint64_t)micro, 1, &UNITS[i]};
        }
    }
    uint128 drain = (uint128)config->capacity_micro * period; // at most 100 years times count
    if (config->capacity_micro % WEIR_UNIT == 0 && drain % count == 0
        && (drain / count) % UNITS[0].ns == 0) {
        return phrase_of(config->capacity_micro, (uint64_t)(drain / count));
    }
    uint64_t times = WEIR_UNIT / gcd64(count, WEIR_UNIT);
    if (count <= WEIR_MICRO_MAX / times && period <= WEIR_SPAN_NS_MAX / times) {
        return phrase_of(count * times, period * times);
    }
    return phrase_of(count, period);
}

/* "10", "0.5": millionths without trailing zeroes. Returns the length. */
static int print_micro(uint64_t micro, char text[32])
{
    int length = snprintf(text, 32, "%llu.%06llu", (unsigned long long)(micro / WEIR_UNIT),
                          (unsigned long long)(micro % WEIR_UNIT));
    while (text[length - 1] == '0') {
        length--;
    }
    length -= text[length - 1] == '.';
    text[length] = '\0';
    return length;
}

/* " block=30s", or nothing. */
static void print_block(uint64_t block_ns, char text[48])
{
    text[0] = '\0';
    if (block_ns == WEIR_BLOCK_UNTIL_EMPTY) {
        (void)snprintf(text, 48, " block=empty");
    } else if (block_ns != 0) {
        const struct unit *unit = unit_of(block_ns);
        (void)snprintf(text, 48, " block=%llu%s", (unsigned long long)(block_ns / unit->ns),
                       unit->name);
    }
}

static enum weir_status print_limit(const struct weir_limit_config *config, struct phrase phrase,
                                    char *text, size_t size)
{
    char count[32];
    char units[32] = "";
    char capacity[32];
    char waiting[32] = "";
    char block[48];
    bool says_capacity = config->capacity_micro != usual_capacity(config->kind, phrase.count_micro);
    bool says_on_full = config->on_full != WEIR_ON_FULL_REFUSE;
    (void)print_micro(phrase.count_micro, count);
    (void)print_micro(config->capacity_micro, capacity);
    if (phrase.units != 1) {
        (void)snprintf(units, sizeof units, "%llu", (unsigned long long)phrase.units);
    }
    if (config->waiting != usual_waiting(config->kind)) {
        (void)snprintf(waiting, sizeof waiting, " waiting=%u", (unsigned)config->waiting);
    }
    print_block(config->block_ns, block);
    int length = snprintf(
        text, size, "%s%s%s/%s%s%s%s%s%s%s%s%s%s",
        config->kind != WEIR_KIND_BUCKET ? KINDS[config->kind] : "",
        config->kind != WEIR_KIND_BUCKET ? " " : "", count, units, phrase.unit->name,
        says_capacity ? " capacity=" : "", says_capacity ? capacity : "",
        config->first == WEIR_FIRST_NOW ? " first=now" : "", waiting, block,
        says_on_full ? " on_full=" : "", says_on_full ? limit_on_full_word(config->on_full) : "",
        config->on_error == WEIR_ON_ERROR_ALLOW ? " on_error=allow" : "");
    return length >= 0 && (size_t)length < size ? WEIR_OK : WEIR_E_NO_SPACE;
}

enum weir_status weir_limit_print(const struct weir_limit_config *config, char *text, size_t size)
{
    return print_limit(config, choose_phrase(config), text, size);
}

enum weir_status limit_print_as_written(const struct weir_limit_config *config, char *text,
                                        size_t size)
{
    return print_limit(config, phrase_as_written(config), text, size);
}
