/* SPDX-License-Identifier: MIT
 *
 * `weir explain LIMIT`: what a limit promises, in words, in numbers and as a picture. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/promise.h"
#include "core/arith.h"

enum {
    BUCKET_BYTES = 40, // two slots of 24 bytes to a line of 64, four fifths of them in use
    PICTURE_ROWS = 8,
    PICTURE_COLUMNS = 40,
    WINDOW_COUNT_MAX = 5,
    STRICT_COUNT_MAX = 2,
    RATE_LENGTH_SHOWN = 20 // a longer fraction helps nobody
};

/* Windows worth a line: the limit's own period, and those that people think in. */
static const uint64_t WINDOWS_NS[] = {NS_PER_S, 60 * NS_PER_S, 3600 * NS_PER_S, 86400 * NS_PER_S,
                                      30 * 86400 * NS_PER_S};

struct strict {
    char text[WEIR_LIMIT_TEXT_MAX];
    uint64_t burst;
};

/* Everything that is said, before it is said in one form or another. */
struct explanation {
    struct weir_limit_config config;
    const char *written; // as the command line has it
    char canonical[WEIR_LIMIT_TEXT_MAX];
    char period[DURATION_TEXT_MAX]; // "30 d"; "s" for 1 s, as in "10 per s"
    struct weir_amount rate_per_s, interval_ns, drain_ns;
    uint64_t windows_ns[WINDOW_COUNT_MAX];
    size_t window_count;
    uint64_t count; // whole units per period, 0 if they are not whole
    struct strict strict[STRICT_COUNT_MAX];
    size_t strict_count;
};

static void choose_windows(struct explanation *e)
{
    e->windows_ns[e->window_count++] = e->config.period_ns;
    uint64_t interval_ns = amount_ceil(&e->interval_ns);
    for (size_t i = 0; i < sizeof WINDOWS_NS / sizeof WINDOWS_NS[0]; i++) {
        if (WINDOWS_NS[i] > e->config.period_ns && WINDOWS_NS[i] >= interval_ns
            && e->window_count < WINDOW_COUNT_MAX - 1) {
            e->windows_ns[e->window_count++] = WINDOWS_NS[i];
        }
    }
}

/* "Never more than COUNT in any PERIOD", which a limit of COUNT/PERIOD does not promise: spread out
 * evenly, or half of it at once. */
static void choose_strict(struct explanation *e)
{
    if (e->config.count_micro % WEIR_UNIT != 0) {
        return;
    }
    e->count = e->config.count_micro / WEIR_UNIT;
    const uint64_t bursts[STRICT_COUNT_MAX] = {1, e->count / 2};
    for (size_t i = 0; i < STRICT_COUNT_MAX; i++) {
        struct weir_limit_config strict;
        struct strict *choice = &e->strict[e->strict_count];
        if ((i > 0 && bursts[i] == bursts[0])
            || !promise_strict(&strict, e->count, e->config.period_ns, bursts[i])
            || weir_limit_print(&strict, choice->text, sizeof choice->text) != WEIR_OK) {
            continue;
        }
        choice->burst = bursts[i];
        e->strict_count++;
    }
}

static void say_period(struct explanation *e)
{
    char text[DURATION_TEXT_MAX];
    struct weir_amount period_ns = {.numerator_low = e->config.period_ns, .denominator_low = 1};
    (void)duration_print_exact(&period_ns, text);
    (void)strcpy(e->period, strncmp(text, "1 ", 2) == 0 ? text + 2 : text);
}

static void explanation_init(struct explanation *e, const struct weir_limit_config *config,
                             const char *written)
{
    *e = (struct explanation){.config = *config, .written = written};
    e->rate_per_s = promise_rate_per_s(config);
    e->interval_ns = promise_drain_ns(config, WEIR_UNIT);
    e->drain_ns = promise_drain_ns(config, config->capacity_micro);
    /* The text buffer suffices for any limit, so this cannot fail. */
    (void)!weir_limit_print(config, e->canonical, sizeof e->canonical);
    say_period(e);
    choose_windows(e);
    choose_strict(e);
}

/* "1 s": a window, exactly. */
static const char *window_text(uint64_t window_ns, char text[DURATION_TEXT_MAX])
{
    struct weir_amount amount = {.numerator_low = window_ns, .denominator_low = 1};
    return duration_print_exact(&amount, text);
}

/* Of cost 1 each: none where not even one fits. */
static uint64_t requests_at_most(const struct explanation *e, const struct weir_amount *bound)
{
    return e->config.capacity_micro >= WEIR_UNIT ? amount_floor(bound) : 0;
}

static void say_windows(const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    (void)printf("  guarantees  in any window of T, both its ends included, at most"
                 " %s + T * %s/%s:\n",
                 print_micro(e->config.capacity_micro, capacity),
                 print_micro(e->config.count_micro, count), e->period);
    for (size_t i = 0; i < e->window_count; i++) {
        char window[DURATION_TEXT_MAX];
        char bound[WEIR_AMOUNT_TEXT_MAX];
        struct weir_amount amount = promise_bound(&e->config, e->windows_ns[i]);
        (void)weir_amount_print(&amount, bound);
        (void)printf("                any %-8s at most %s", window_text(e->windows_ns[i], window),
                     bound);
        if (strchr(bound, '/') != NULL) {
            char about[ABOUT_TEXT_MAX];
            (void)amount_print_about(&amount, about);
            (void)printf(" (%s; %" PRIu64 " of cost 1)", about, requests_at_most(e, &amount));
        } else if (strchr(bound, '.') != NULL) {
            (void)printf(" (%" PRIu64 " of cost 1)", requests_at_most(e, &amount));
        }
        (void)putchar('\n');
    }
}

/* When the row of the picture is reached. Steps of less than a nanosecond are written in
 * millionths of one. */
static const char *picture_time(const struct explanation *e, unsigned row,
                                char text[DURATION_TEXT_MAX])
{
    uint64_t drain_ns = amount_ceil(&e->drain_ns);
    if (drain_ns > PICTURE_ROWS || row == 0) {
        return duration_print_up(
            drain_ns / PICTURE_ROWS * row + drain_ns % PICTURE_ROWS * row / PICTURE_ROWS, text);
    }
    /* The denominator divides a count of at most 10^18, so both fit 64 bits, and here 128. */
    struct weir_amount after_ns = amount_of((uint128)e->drain_ns.numerator_low * row,
                                            (uint128)e->drain_ns.denominator_low * PICTURE_ROWS);
    char about[ABOUT_TEXT_MAX];
    (void)amount_print_about(&after_ns, about);
    const char *number = about + (about[0] == 'a' ? strlen("about ") : 0);
    (void)snprintf(text, DURATION_TEXT_MAX, "%.90s ns", number);
    return text;
}

/* A full bucket that nobody adds to, in eighths. */
static void say_picture(const struct explanation *e)
{
    static const char BAR[] = "########################################";
    _Static_assert(sizeof BAR == PICTURE_COLUMNS + 1, "a full bar");
    _Static_assert(PICTURE_COLUMNS % PICTURE_ROWS == 0, "each row is exact");
    (void)puts("\n  Filled at once and then left alone:\n");
    for (unsigned row = 0; row <= PICTURE_ROWS; row++) {
        char time[DURATION_TEXT_MAX];
        char level[WEIR_AMOUNT_TEXT_MAX];
        uint64_t left = PICTURE_ROWS - row;
        struct weir_amount amount = {.numerator_low = e->config.capacity_micro * left,
                                     .denominator_low = WEIR_UNIT * PICTURE_ROWS};
        (void)weir_amount_print(&amount, level);
        (void)printf("  %12s  |%-*.*s| %s\n", picture_time(e, row, time), PICTURE_COLUMNS,
                     (int)(left * PICTURE_COLUMNS / PICTURE_ROWS), BAR, level);
    }
}

/* Why there is nothing to suggest. */
static void say_no_strict(const struct explanation *e)
{
    char window[DURATION_TEXT_MAX];
    char count[MICRO_TEXT_MAX];
    (void)printf("\n  Never more than %s in any %s, whenever that begins: no limit is suggested,\n",
                 print_micro(e->config.count_micro, count),
                 window_text(e->config.period_ns, window));
    if (e->count == 0) {
        (void)puts("  since that is no whole number; try the same rate over a longer period.");
    } else if (e->count == 1) {
        (void)puts(
            "  since a bucket that holds 1 admits that, and then what has drained meanwhile.");
    } else {
        (void)puts("  since none can be kept exactly.");
    }
}

static void say_strict(const struct explanation *e)
{
    char window[DURATION_TEXT_MAX];
    if (e->strict_count == 0) {
        say_no_strict(e);
        return;
    }
    (void)printf("\n  Never more than %" PRIu64 " in any %s, whenever that begins:\n\n", e->count,
                 window_text(e->config.period_ns, window));
    for (size_t i = 0; i < e->strict_count; i++) {
        (void)printf("      %-24s ", e->strict[i].text);
        if (e->strict[i].burst == 1) {
            (void)puts("evenly spread");
        } else {
            (void)printf("up to %" PRIu64 " of them at one instant\n", e->strict[i].burst);
        }
    }
}

enum {
    SPAN_ABOUT_MAX = ABOUT_TEXT_MAX + 8,
    SPAN_TEXT_MAX = DURATION_TEXT_MAX + SPAN_ABOUT_MAX + 8,
    SMALL_SPAN_NS = 100 // where whole nanoseconds are too coarse
};

/* "10 ms", "1000/7 ms (about 143 ms)". */
static void print_span(const struct weir_amount *ns, char text[SPAN_TEXT_MAX])
{
    char exact[DURATION_TEXT_MAX];
    char rounded[DURATION_TEXT_MAX];
    char about[SPAN_ABOUT_MAX];
    bool is_fraction = strchr(duration_print_exact(ns, exact), '/') != NULL;
    if (amount_ceil(ns) > SMALL_SPAN_NS) {
        (void)duration_print_up(amount_ceil(ns), rounded);
        (void)snprintf(about, sizeof about, "about %s", rounded);
    } else {
        int length = amount_print_about(ns, about);
        (void)snprintf(about + length, sizeof about - (size_t)length, " ns");
    }
    (void)snprintf(text, SPAN_TEXT_MAX, is_fraction ? "%s (%s)" : "%s", exact, about);
}

static void say_waits(const struct explanation *e)
{
    char interval[DURATION_TEXT_MAX];
    char drain[DURATION_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    (void)printf("  waits       at most ");
    if (e->config.capacity_micro > WEIR_UNIT) {
        (void)printf("%s for a take of 1, ", duration_print_exact(&e->interval_ns, interval));
    }
    (void)printf("%s for a take of %s; more than that never passes\n",
                 duration_print_exact(&e->drain_ns, drain),
                 print_micro(e->config.capacity_micro, capacity));
}

static void explain_in_words(const struct explanation *e)
{
    struct colours colours = colours_of_output();
    char count[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    char interval[SPAN_TEXT_MAX];
    char drain[SPAN_TEXT_MAX];
    char rate[WEIR_AMOUNT_TEXT_MAX];
    (void)print_micro(e->config.count_micro, count);
    (void)print_micro(e->config.capacity_micro, capacity);
    print_span(&e->interval_ns, interval);
    print_span(&e->drain_ns, drain);
    (void)weir_amount_print(&e->rate_per_s, rate);

    (void)printf("%s%s%s\n\n", colours.bold, e->canonical, colours.plain);
    if (strcmp(e->written, e->canonical) != 0) {
        (void)printf("  you wrote   %s\n", e->written);
    }
    (void)printf("  drains      %s per %s: one every %s", count, e->period, interval);
    bool says_rate = e->config.period_ns != NS_PER_S && strlen(rate) <= RATE_LENGTH_SHOWN;
    (void)printf(says_rate ? ", %s per second in the long run\n" : "\n", rate);
    (void)printf("  holds       %s: so many pass at one instant, when the bucket is empty\n",
                 capacity);
    (void)printf("  empties     in %s, from full\n", drain);
    say_waits(e);
    say_windows(e);
    (void)printf("  costs       %d bytes of memory per bucket, until it is empty\n", BUCKET_BYTES);
    if (e->config.on_full == WEIR_ON_FULL_ALLOW) {
        (void)puts("  on_full     a key that finds no room in the table passes, uncounted");
    }
    say_picture(e);
    say_strict(e);
}

static json_t *json_amount(const struct weir_amount *amount)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    (void)weir_amount_print(amount, text);
    return json_string(text);
}

static json_t *json_windows(const struct explanation *e)
{
    json_t *windows = json_array();
    for (size_t i = 0; i < e->window_count; i++) {
        struct weir_amount bound = promise_bound(&e->config, e->windows_ns[i]);
        json_array_append_new(windows,
                              json_pack("{sI so sI}", "window_ns", (json_int_t)e->windows_ns[i],
                                        "at_most", json_amount(&bound), "requests_at_most",
                                        (json_int_t)requests_at_most(e, &bound)));
    }
    return windows;
}

static json_t *json_strict(const struct explanation *e)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < e->strict_count; i++) {
        json_array_append_new(choices, json_pack("{ss sI sI sI}", "limit", e->strict[i].text,
                                                 "at_most", (json_int_t)e->count, "window_ns",
                                                 (json_int_t)e->config.period_ns, "burst",
                                                 (json_int_t)e->strict[i].burst));
    }
    return choices;
}

/* Amounts are strings, since a number of JSON would be rounded: "2.5", "10/3". */
static int explain_in_json(const struct command *command, const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    json_t *root = json_pack(
        "{ss ss ss sI ss ss so so so sI so so}", "limit", e->canonical, "kind", "bucket", "count",
        print_micro(e->config.count_micro, count), "period_ns", (json_int_t)e->config.period_ns,
        "capacity", print_micro(e->config.capacity_micro, capacity), "on_full",
        e->config.on_full == WEIR_ON_FULL_ALLOW ? "allow" : "refuse", "rate_per_s",
        json_amount(&e->rate_per_s), "interval_ns", json_amount(&e->interval_ns), "drain_ns",
        json_amount(&e->drain_ns), "bucket_bytes", (json_int_t)BUCKET_BYTES, "windows",
        json_windows(e), "strict", json_strict(e));
    if (root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0) {
        json_decref(root);
        complain(command, "out of memory");
        return CLI_FAILED;
    }
    json_decref(root);
    (void)putchar('\n');
    return CLI_DONE;
}

enum { OPTION_JSON };

static const struct option OPTIONS[] = {
    [OPTION_JSON] = {"json", NULL, "the same as JSON, every number exact"},
    {NULL, NULL, NULL},
};

enum { WORD_COUNT_MAX = 16 };

static int run_explain(const struct command *command, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    char *limit_words[WORD_COUNT_MAX];
    int limit_count = 0;
    bool json = false;
    const char *value;
    for (int option; (option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_JSON: json = true; break;
        case ARGUMENT_HELP: command_help(command); return CLI_DONE;
        case ARGUMENT_WORD:
            if (limit_count == WORD_COUNT_MAX) {
                return usage_error(command, "too many words");
            }
            limit_words[limit_count++] = words[arguments.at - 1];
            break;
        default: return usage_error(command, "%s", arguments.problem);
        }
    }
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    if (limit_count == 0) {
        return usage_error(command, "say which limit, for example 100/s capacity=20");
    }
    if (!join_limit(text, limit_count, limit_words)) {
        return usage_error(command, "a limit has at most %d bytes", WEIR_LIMIT_TEXT_MAX);
    }
    struct weir_limit_config config;
    struct weir_error error;
    if (weir_limit_parse(&config, text, strlen(text), &error) != WEIR_OK) {
        complain_at(command, text, &error);
        return CLI_USAGE;
    }
    struct explanation explanation;
    explanation_init(&explanation, &config, text);
    if (json) {
        return explain_in_json(command, &explanation);
    }
    explain_in_words(&explanation);
    return CLI_DONE;
}

const struct command EXPLAIN_COMMAND = {
    .name = "explain",
    .words = "LIMIT...",
    .summary = "what a limit promises",
    .about =
        "Says what a limit promises: how much passes at most in any window, how long anyone\n"
        "waits, how it drains, what it costs in memory, and which limit guarantees that it is\n"
        "never more than so many in any period. Every number is exact.",
    .examples = "    weir explain 10/s\n"
                "    weir explain 100/s capacity=20\n"
                "    weir explain --json 1000/30d\n",
    .options = OPTIONS,
    .run = run_explain,
};
