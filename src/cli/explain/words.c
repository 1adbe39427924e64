/* SPDX-License-Identifier: MIT
 *
 * What a limit promises, in words and as a picture. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/explain/explain.h"
#include "cli/promise.h"
#include "core/arith.h"

enum {
    PICTURE_ROWS = 8,
    PICTURE_COLUMNS = 40,
    OVERRIDES_SHOWN_MAX = 8,
    RATE_LENGTH_SHOWN = 20 // a longer fraction helps nobody
};

/* One window's bound: "120", "70/3 (about 23.333333; 23 of cost 1)". */
static void say_bound(const struct explanation *e, const struct weir_amount *amount)
{
    char bound[WEIR_AMOUNT_TEXT_MAX];
    (void)weir_amount_print(amount, bound);
    (void)printf("at most %s", bound);
    if (strchr(bound, '/') != NULL) {
        char about[ABOUT_TEXT_MAX];
        (void)amount_print_about(amount, about);
        (void)printf(" (%s; %" PRIu64 " of cost 1)", about, requests_at_most(e, amount));
    } else if (strchr(bound, '.') != NULL) {
        (void)printf(" (%" PRIu64 " of cost 1)", requests_at_most(e, amount));
    }
}

/* Of N above 2: 2N - 2 in up to one period, and N - 1 for each further one. So many are reached where T is whole
 * periods; promise.h says why. */
static void say_bound_of_sliding(const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char more[MICRO_TEXT_MAX];
    char period[DURATION_TEXT_MAX];
    char twice[DURATION_TEXT_MAX];
    uint64_t more_micro = e->config.count_micro - WEIR_UNIT;
    (void)window_text(e->config.period_ns, period);
    (void)window_text(2 * e->config.period_ns, twice);
    if (more_micro == 0) {
        (void)printf("at most 1, and 1 more for each whole %s:\n", twice);
        return;
    }
    (void)printf("at most %s where T is up to %s, ", print_micro(2 * more_micro, count), period);
    if (more_micro == WEIR_UNIT) {
        (void)printf("4 up to %s, ", twice);
    }
    (void)printf("and %s more for each further %s begun:\n", print_micro(more_micro, more), period);
}

/* The formula of the bound, where it goes by whole periods. */
static void say_bound_by_periods(const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    char period[DURATION_TEXT_MAX];
    (void)print_micro(e->config.count_micro, count);
    (void)printf("  guarantees  in any window of T, %s, ",
                 promise_includes_end(&e->config) ? "both its ends included"
                                                  : "its beginning included and its end not");
    switch (e->config.kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED:
        (void)printf("at most %s + %s for each %s begun:\n",
                     print_micro(e->config.capacity_micro, capacity),
                     print_micro(promise_step_micro(&e->config), count),
                     window_text(e->config.period_ns, period));
        break;
    case WEIR_KIND_FIXED:
        (void)printf("at most %s for each %s it meets:\n", count, e->period);
        break;
    case WEIR_KIND_SLIDING: say_bound_of_sliding(e); break;
    case WEIR_KIND_WINDOW:
        (void)printf("at most %s for each %s begun:\n", count,
                     window_text(e->config.period_ns, period));
        break;
    }
}

static void say_bound_formula(const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char held[MICRO_TEXT_MAX];
    if (!e->is_queue && e->config.kind != WEIR_KIND_BUCKET) {
        say_bound_by_periods(e);
        return;
    }
    (void)printf("  guarantees  in any window of T, both its ends included, %sat most"
                 " %s + T * %s/%s%s\n",
                 e->is_queue ? "lets in " : "", print_micro(promise_held_micro(&e->config), held),
                 print_micro(e->config.count_micro, count), e->period, e->is_queue ? "" : ":");
    if (e->is_queue) {
        (void)printf("              and lets out, of cost 1, at most 1 + T * %s/%s:\n", count,
                     e->period);
    }
}

static void say_windows(const struct explanation *e)
{
    say_bound_formula(e);
    for (size_t i = 0; i < e->window_count; i++) {
        char window[DURATION_TEXT_MAX];
        struct weir_amount in = promise_bound(&e->config, e->windows_ns[i]);
        (void)printf("                any %-8s ", window_text(e->windows_ns[i], window));
        say_bound(e, &in);
        if (e->is_queue) {
            struct weir_amount out = promise_leaving(&e->config, e->windows_ns[i]);
            (void)printf(" in, at most %" PRIu64 " out", requests_at_most(e, &out));
        }
        (void)putchar('\n');
    }
    if (e->is_queue) {
        (void)printf(
            "                as scheduled; where weir does the waiting, one may go %d ms late\n",
            (int)(WEIR_JITTER_NS / NS_PER_MS));
    }
}

/* How long after the start the row of the picture is. */
static uint64_t picture_ns(const struct explanation *e, unsigned row)
{
    uint64_t drain_ns = amount_ceil(&e->drain_ns);
    return drain_ns / PICTURE_ROWS * row + drain_ns % PICTURE_ROWS * row / PICTURE_ROWS;
}

/* When the row of the picture is reached. Steps of less than a nanosecond are written in
 * millionths of one. */
static const char *picture_time(const struct explanation *e, unsigned row,
                                char text[DURATION_TEXT_MAX])
{
    uint64_t drain_ns = amount_ceil(&e->drain_ns);
    if (drain_ns > PICTURE_ROWS || row == 0) {
        return duration_print_up(picture_ns(e, row), text);
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

/* The level in a row of the picture, in millionths of an eighth. */
static uint64_t picture_level(const struct explanation *e, unsigned row)
{
    uint64_t held_micro = promise_held_micro(&e->config);
    switch (e->config.kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED:
    case WEIR_KIND_FIXED:
    case WEIR_KIND_WINDOW: return promise_left_micro(&e->config, picture_ns(e, row)) * PICTURE_ROWS;
    case WEIR_KIND_SLIDING: // all of it for the first half, then evenly
        return row < PICTURE_ROWS / 2 ? held_micro * PICTURE_ROWS
                                      : held_micro * 2 * (PICTURE_ROWS - row);
    }
    return held_micro * (PICTURE_ROWS - row);
}

/* A full bucket that nobody adds to, in eighths of the time that it takes. */
static void say_picture(const struct explanation *e)
{
    static const char BAR[] = "########################################";
    _Static_assert(sizeof BAR == PICTURE_COLUMNS + 1, "a full bar");
    _Static_assert(PICTURE_COLUMNS % PICTURE_ROWS == 0, "each row is exact");
    (void)puts("\n  Filled at once and then left alone:\n");
    for (unsigned row = 0; row <= PICTURE_ROWS; row++) {
        char time[DURATION_TEXT_MAX];
        char level[WEIR_AMOUNT_TEXT_MAX];
        uint64_t level_parts = picture_level(e, row);
        uint64_t full_parts = promise_held_micro(&e->config) * PICTURE_ROWS;
        uint128 columns = (uint128)level_parts * PICTURE_COLUMNS / full_parts;
        struct weir_amount amount = {.numerator_low = level_parts,
                                     .denominator_low = WEIR_UNIT * PICTURE_ROWS};
        (void)weir_amount_print(&amount, level);
        (void)printf("  %12s  |%-*.*s| %s\n", picture_time(e, row, time), PICTURE_COLUMNS,
                     (int)columns, BAR, level);
    }
}

/* Why there is nothing to suggest. */
static void say_no_strict(const struct explanation *e)
{
    char window[DURATION_TEXT_MAX];
    char count[MICRO_TEXT_MAX];
    (void)printf("\n  Never more than %s in any %s, whenever that begins: no limit is suggested,\n",
                 print_micro(e->config.count_micro, count), window_text(e->windows_ns[0], window));
    (void)puts(e->count == 0
                   ? "  since that is no whole number; try the same rate over a longer period."
                   : "  since none can be kept exactly.");
}

static void say_strict(const struct explanation *e)
{
    char window[DURATION_TEXT_MAX];
    if (e->strict_count == 0) {
        say_no_strict(e);
        return;
    }
    (void)printf("\n  Never more than %" PRIu64 " in any %s, whenever that begins:\n\n", e->count,
                 window_text(e->windows_ns[0], window));
    for (size_t i = 0; i < e->strict_count; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        const struct weir_limit_config *config = &e->strict[i].config;
        (void)printf("      %-*s %s", explain_text_width(e->strict, e->strict_count),
                     plan_text(config, text), e->strict[i].why);
        if (config->kind == WEIR_KIND_WINDOW) {
            (void)printf("; its end not included, %" PRIu64 " to %" PRIu64 " bytes a key",
                         explain_key_bytes_min(config), explain_key_bytes(config));
        }
        (void)putchar('\n');
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
    if (e->is_queue) {
        char delay[SPAN_TEXT_MAX];
        print_span(&e->delay_max_ns, delay);
        (void)printf("  delay       at most %s for whoever is let in\n", delay);
    }
    char drain[DURATION_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    (void)printf(e->is_queue ? "  retry       after at most " : "  waits       at most ");
    if (e->config.capacity_micro > WEIR_UNIT) {
        (void)printf("%s for a take of 1, ", duration_print_exact(&e->wait_of_one_ns, interval));
    }
    (void)printf("%s for a take of %s%s; more than that never passes\n",
                 duration_print_exact(&e->wait_max_ns, drain),
                 print_micro(e->config.capacity_micro, capacity),
                 e->config.block_ns != 0 ? ", the block included" : "");
}

/* Who is locked out, and for how long. */
static void say_block(const struct explanation *e)
{
    char block[DURATION_TEXT_MAX];
    if (e->config.block_ns == WEIR_BLOCK_UNTIL_EMPTY) {
        (void)puts(
            "  blocks      whoever is refused or fills it up, until it would have been empty");
    } else if (e->config.block_ns != 0) {
        struct weir_amount ns = amount_of(e->config.block_ns, 1);
        (void)printf("  blocks      whoever is refused or fills it up, for %s\n",
                     duration_print_exact(&ns, block));
    }
}

/* What the capacity was made for. */
static void say_sizing(const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    char latency[DURATION_TEXT_MAX];
    (void)print_micro(e->config.count_micro, count);
    (void)print_micro(e->config.capacity_micro, capacity);
    (void)window_text(e->max_latency_ns, latency);
    if (e->config.kind == WEIR_KIND_STEPPED) {
        char period[DURATION_TEXT_MAX];
        (void)printf("  sized for   %s: %s for each whole %s = %s\n", latency, count,
                     window_text(e->config.period_ns, period), capacity);
    } else {
        (void)printf("  sized for   %s: %s/%s * %s = %s\n", latency, count, e->period, latency,
                     capacity);
    }
}

/* By the period: the rate per second may be a long fraction. */
static void say_rate_of_sliding(const struct explanation *e)
{
    char text[DURATION_TEXT_MAX];
    if (e->config.count_micro == WEIR_UNIT) {
        (void)printf("  lets pass   at most 1 per %s in the long run",
                     window_text(2 * e->config.period_ns, text));
    } else {
        (void)printf("  lets pass   at most %s per %s in the long run",
                     print_micro(e->config.count_micro - WEIR_UNIT, text), e->period);
    }
}

/* How it drains, and how fast. */
static void say_draining(const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char interval[SPAN_TEXT_MAX];
    char period[DURATION_TEXT_MAX];
    (void)print_micro(e->config.count_micro, count);
    switch (e->config.kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE:
        print_span(&e->interval_ns, interval);
        (void)printf("  %-11s %s per %s: one every %s", e->is_queue ? "lets out" : "drains", count,
                     e->period, interval);
        break;
    case WEIR_KIND_STEPPED:
        (void)printf("  drains      %s at the end of every %s since its first charge",
                     print_micro(promise_step_micro(&e->config), count),
                     window_text(e->config.period_ns, period));
        break;
    case WEIR_KIND_FIXED:
        (void)printf("  lets pass   %s in each %s of the calendar, in UTC", count, e->period);
        break;
    case WEIR_KIND_SLIDING:
        (void)printf("  counts      %s per %s in two windows of which the former fades\n", count,
                     e->period);
        say_rate_of_sliding(e);
        break;
    case WEIR_KIND_WINDOW:
        (void)printf("  lets pass   %s in any %s, wherever that begins, its end not included",
                     count, window_text(e->config.period_ns, period));
        break;
    }
}

static void say_rate(const struct explanation *e)
{
    char rate[WEIR_AMOUNT_TEXT_MAX];
    (void)weir_amount_print(&e->rate_per_s, rate);
    say_draining(e);
    bool says_rate = e->config.kind != WEIR_KIND_SLIDING && e->config.period_ns != NS_PER_S
                     && strlen(rate) <= RATE_LENGTH_SHOWN;
    (void)printf(says_rate ? ", %s per second in the long run\n" : "\n", rate);
}

/* Bytes of a configuration end no line, nor steer a terminal. */
static void say_text(const struct bytes *text)
{
    for (size_t i = 0; i < text->length; i++) {
        char c = text->at[i];
        (void)putchar((unsigned char)c < ' ' || c == 0x7f ? '?' : c);
    }
}

/* Whose numbers these are, and who has other ones. */
static void say_named(const struct named_limit *named)
{
    (void)printf("  named       %s%s\n", named->name,
                 named->is_shadow ? "; in shadow mode it refuses nothing" : "");
    for (size_t i = 0; i < named->override_count && i < OVERRIDES_SHOWN_MAX; i++) {
        (void)fputs(i == 0 ? "  but         " : "              ", stdout);
        say_text(&named->overrides[i].key);
        (void)fputs(": ", stdout);
        say_text(&named->overrides[i].numbers.words);
        (void)putchar('\n');
    }
    if (named->override_count > OVERRIDES_SHOWN_MAX) {
        (void)printf("              and %zu more\n", named->override_count - OVERRIDES_SHOWN_MAX);
    }
}

/* What a full table does to its keys. */
static void say_on_full(const struct explanation *e, const char *capacity)
{
    switch (e->config.on_full) {
    case WEIR_ON_FULL_REFUSE: break;
    case WEIR_ON_FULL_ALLOW:
        (void)puts("  on_full     a key that finds no room in the table passes, uncounted");
        break;
    case WEIR_ON_FULL_EVICT:
        (void)puts(
            "  on_full     a key that finds no room drops the bucket of another key, the one that "
            "is");
        (void)puts(
            e->config.kind == WEIR_KIND_WINDOW
                ? "              nearest to empty; a window that holds events is never dropped"
                : "              nearest to empty, under whatever limit");
        if (e->config.kind != WEIR_KIND_WINDOW) {
            (void)printf(
                "  forgives    a key that is dropped begins anew: up to %s more, each time\n",
                capacity);
        }
        break;
    }
}

int explain_in_words(const struct explanation *e)
{
    struct colours colours = colours_of_output();
    bool is_window = e->config.kind == WEIR_KIND_WINDOW;
    char capacity[MICRO_TEXT_MAX];
    char drain[SPAN_TEXT_MAX];
    (void)print_micro(e->config.capacity_micro, capacity);
    print_span(&e->drain_ns, drain);

    (void)printf("%s%s%s\n\n", colours.bold, e->canonical, colours.plain);
    if (strcmp(e->written, e->canonical) != 0) {
        (void)printf("  %s   %s\n", e->named == NULL ? "you wrote" : "written  ", e->written);
    }
    if (e->named != NULL) {
        say_named(e->named);
    }
    if (e->max_latency_ns > 0) {
        say_sizing(e);
    }
    say_rate(e);
    if (e->is_queue) {
        (void)printf("  holds       %s in line; %s\n", capacity,
                     e->config.first == WEIR_FIRST_NOW
                         ? "if nobody is there, the first goes at once"
                         : "the first goes after one interval, also if nobody is there");
    } else {
        (void)printf("  holds       %s: so many pass at one instant, when the %s is empty\n",
                     capacity, is_window ? "window" : "bucket");
    }
    (void)printf(e->config.kind == WEIR_KIND_FIXED
                     ? "  empties     when its window ends, after at most %s\n"
                 : is_window ? "  empties     %s after the last that passed\n"
                             : "  empties     in %s, from full\n",
                 drain);
    say_waits(e);
    say_block(e);
    say_windows(e);
    (void)printf("  costs       %d bytes of memory per %s is empty\n", BUCKET_BYTES,
                 is_window ? "key, until its window" : "bucket, until it");
    if (e->config.block_ns != 0) {
        (void)puts("              and as many again for a block, until that ends");
    }
    if (is_window) {
        (void)printf("              and %d to %" PRIu64
                     " for its events: at most %d for 1, in chunks of %d\n",
                     EVENT_CHUNK_BYTES, promise_events_bytes(&e->config), EVENT_BYTES,
                     EVENT_CHUNK_BYTES);
    }
    say_on_full(e, capacity);
    if (e->config.on_error == WEIR_ON_ERROR_ALLOW) {
        (void)puts("  on_error    while the store is out of reach every key passes, uncounted");
    }
    say_picture(e);
    if (!e->is_queue && !is_window) { // one is even already, one as strict
        say_strict(e);
    }
    return CLI_DONE;
}
