/* SPDX-License-Identifier: MIT
 *
 * "At most N in any T": the limits that guarantee it, and what each of them gives up. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/explain/explain.h"
#include "cli/promise.h"
#include "core/arith.h"
#include "core/time_units.h"

/* What is asked, and the answer.
 *
 * What passes here within T + D may arrive within T there, if the way takes D longer for the first than for the last.
 * So a limit keeps N in any T there, if it keeps N in any T + D here: that is `plan`. */
struct wanted {
    struct plan plan;
    uint64_t window_ns;      // T, as it was asked for
    uint64_t jitter_ns;      // D; 0: none
    uint64_t max_latency_ns; // 0: none
    struct plan_choice choices[PLAN_CHOICE_MAX];
    size_t count;
};

/* "61 s": in the largest unit of which it is a whole number, as in a limit's text, but for weeks. */
static const char *period_text(uint64_t ns, char text[DURATION_TEXT_MAX])
{
    size_t i = 1; // weeks are the first
    while (ns % TIME_UNITS[i].ns != 0) {
        i++; // nanoseconds are the last
    }
    (void)snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 " %s", ns / TIME_UNITS[i].ns,
                   TIME_UNITS[i].name);
    return text;
}

/* True if no bucket with room for a cost of 1 drains in time. */
static bool is_too_soon(const struct wanted *wanted)
{
    return wanted->max_latency_ns > 0
           && plan_capacity_within(&wanted->plan, wanted->max_latency_ns) == 0;
}

/* How much of N per T is left in the long run, in tenths of a percent. */
static uint64_t rate_permille(const struct wanted *wanted, const struct plan_choice *choice)
{
    const struct plan *plan = &wanted->plan;
    uint128 count_in_window =
        (uint128)choice->config.count_micro * wanted->window_ns / plan->window_ns;
    return (uint64_t)(count_in_window * 1000 / plan->at_most_micro);
}

/* A bucket that holds N already admits that and then what drains; so does one that holds 1, if N is 1. */
static void say_no_bucket_promises(const struct wanted *wanted)
{
    const struct plan *plan = &wanted->plan;
    char window[DURATION_TEXT_MAX];
    char most[MICRO_TEXT_MAX];
    (void)printf(
        "  No bucket guarantees that: one that holds %s admits %s, and then what has drained"
        " in\n  the window.",
        print_micro(plan->at_most_micro, most), most);
    struct weir_limit_config config;
    struct plan two = {2 * WEIR_UNIT, plan->window_ns};
    char text[WEIR_LIMIT_TEXT_MAX];
    bool is_late = wanted->max_latency_ns > 0 && wanted->max_latency_ns < plan->window_ns;
    if (plan->at_most_micro == WEIR_UNIT && !is_late && plan_bucket(&config, &two, WEIR_UNIT)) {
        (void)printf(" But under %s two are never closer than %s: only a window of just that\n"
                     "  length, both its ends included, has two.",
                     plan_text(&config, text), period_text(plan->window_ns, window));
    }
    (void)putchar('\n');
}

/* Those that keep it drain too late, even the smallest that has room for a cost of 1. */
static void say_no_bucket_drains(const struct wanted *wanted,
                                 const struct weir_limit_config *smallest)
{
    char latency[DURATION_TEXT_MAX];
    char drain[DURATION_TEXT_MAX];
    char text[WEIR_LIMIT_TEXT_MAX];
    struct weir_amount drain_ns = promise_drain_ns(smallest, WEIR_UNIT);
    (void)printf("  No bucket that guarantees that drains within %s: one that holds 1,\n"
                 "  %s, takes %s from full.\n",
                 window_text(wanted->max_latency_ns, latency), plan_text(smallest, text),
                 duration_print_up(amount_ceil(&drain_ns), drain));
}

static void say_no_bucket(const struct wanted *wanted)
{
    struct weir_limit_config smallest;
    if (wanted->plan.at_most_micro <= WEIR_UNIT) {
        say_no_bucket_promises(wanted);
    } else if (is_too_soon(wanted) && plan_bucket(&smallest, &wanted->plan, WEIR_UNIT)) {
        say_no_bucket_drains(wanted, &smallest);
    } else {
        (void)puts("  No bucket can keep that exactly; use rounder numbers.");
    }
}

static bool is_window(const struct plan_choice *choice)
{
    return choice->config.kind == WEIR_KIND_WINDOW;
}

static void say_choice(const struct wanted *wanted, size_t i)
{
    const struct plan_choice *choice = &wanted->choices[i];
    char text[WEIR_LIMIT_TEXT_MAX];
    uint64_t permille = rate_permille(wanted, choice);
    (void)printf("  %-*s %-24s %3" PRIu64 ".%" PRIu64 " %% of the rate %7" PRIu64 " bytes%s\n",
                 explain_text_width(wanted->choices, wanted->count),
                 plan_text(&choice->config, text), choice->why, permille / 10, permille % 10,
                 explain_key_bytes(&choice->config), i == 0 ? "  <- take this" : "");
}

/* The window, which is the last; or why there is none. */
static void say_window(const struct wanted *wanted)
{
    const struct plan *plan = &wanted->plan;
    size_t count = wanted->count;
    char window[DURATION_TEXT_MAX];
    (void)period_text(plan->window_ns, window);
    if (count > 0 && is_window(&wanted->choices[count - 1])) {
        (void)printf(
            "\n  A window remembers what it has let through, so all may come at once, and %s.\n",
            wanted->jitter_ns > 0 ? "only the\n  jitter costs rate" : "no rate is lost");
        (void)printf(
            "  Its end is not included: what comes exactly %s after the first may pass.\n\n",
            window);
        say_choice(wanted, count - 1);
        (void)printf(
            "\n  The bytes are what one key needs of memory at most, of the window at least"
            " %" PRIu64 ".\n",
            explain_key_bytes_min(&wanted->choices[count - 1].config));
    } else if (plan->at_most_micro < WEIR_UNIT) {
        (void)puts("\n  No window does: it counts whole units.");
    } else {
        (void)printf("\n  No window does: it counts up to %" PRIu64 ".\n", WEIR_WINDOW_COUNT_MAX);
    }
}

static void say_buckets(const struct wanted *wanted)
{
    char most[MICRO_TEXT_MAX];
    (void)printf(
        "  A bucket admits at most capacity + T * rate, the ends of T included: so every split"
        " of %s\n  will do.\n\n",
        print_micro(wanted->plan.at_most_micro, most));
    for (size_t i = 0; i < wanted->count && !is_window(&wanted->choices[i]); i++) {
        say_choice(wanted, i);
    }
    if (wanted->max_latency_ns > 0) {
        char latency[DURATION_TEXT_MAX];
        (void)printf("\n  Full, each of these has drained within %s.\n",
                     window_text(wanted->max_latency_ns, latency));
    }
    (void)puts(
        "\n  Rate that is given up is lost for ever; a burst that does not fit can wait. So hold"
        " little,\n  unless those who come in bursts cannot wait.");
}

static void say_jitter(const struct wanted *wanted)
{
    char window[DURATION_TEXT_MAX];
    char here[DURATION_TEXT_MAX];
    char jitter[DURATION_TEXT_MAX];
    (void)printf(
        "  What passes here within %s may arrive there within %s, for the way takes up to %s\n"
        "  longer at one time than at another. So these limits keep it in any %s.\n\n",
        period_text(wanted->plan.window_ns, here), window_text(wanted->window_ns, window),
        window_text(wanted->jitter_ns, jitter), here);
}

/* The advice above is about what passes here. */
static void say_whose_clock(const struct wanted *wanted)
{
    if (wanted->jitter_ns == 0) {
        (void)puts("\n  Where somebody else counts what arrives there, add --jitter 1s: by how "
                   "much the way"
                   " there\n  varies. Otherwise a few are refused there.");
    }
}

static void say_choices(const struct wanted *wanted)
{
    struct colours colours = colours_of_output();
    char window[DURATION_TEXT_MAX];
    char jitter[DURATION_TEXT_MAX];
    char most[MICRO_TEXT_MAX];
    (void)printf(
        "%sat most %s in any %s%s%s%s\n\n", colours.bold,
        print_micro(wanted->plan.at_most_micro, most), window_text(wanted->window_ns, window),
        wanted->jitter_ns > 0 ? ", with a jitter of " : "",
        wanted->jitter_ns > 0 ? window_text(wanted->jitter_ns, jitter) : "", colours.plain);
    if (wanted->jitter_ns > 0) {
        say_jitter(wanted);
    }
    if (wanted->count == 0 || is_window(&wanted->choices[0])) {
        say_no_bucket(wanted);
    } else {
        say_buckets(wanted);
    }
    say_window(wanted);
    say_whose_clock(wanted);
}

static int say_choices_json(const struct command *command, const struct wanted *wanted)
{
    char most[MICRO_TEXT_MAX];
    json_t *list = json_array();
    for (size_t i = 0; i < wanted->count; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        char capacity[MICRO_TEXT_MAX];
        char rate[WEIR_AMOUNT_TEXT_MAX];
        const struct weir_limit_config *config = &wanted->choices[i].config;
        struct weir_amount rate_per_s = promise_rate_per_s(config);
        (void)weir_amount_print(&rate_per_s, rate);
        json_array_append_new(
            list, json_pack("{ss ss ss sb sI sI sb}", "limit", plan_text(config, text), "capacity",
                            print_micro(config->capacity_micro, capacity), "rate_per_s", rate,
                            "end_included", !is_window(&wanted->choices[i]), "key_bytes_at_least",
                            (json_int_t)explain_key_bytes_min(config), "key_bytes_at_most",
                            (json_int_t)explain_key_bytes(config), "recommended", i == 0));
    }
    json_t *root = json_pack("{ss sI so}", "at_most", print_micro(wanted->plan.at_most_micro, most),
                             "window_ns", (json_int_t)wanted->window_ns, "choices", list);
    if (root != NULL && wanted->jitter_ns > 0) {
        json_object_set_new(root, "jitter_ns", json_integer((json_int_t)wanted->jitter_ns));
    }
    if (root != NULL && wanted->max_latency_ns > 0) {
        json_object_set_new(root, "max_latency_ns",
                            json_integer((json_int_t)wanted->max_latency_ns));
    }
    bool written = root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    json_decref(root);
    if (!written) {
        complain(command, "out of memory");
        return CLI_FAILED;
    }
    (void)putchar('\n');
    return CLI_DONE;
}

int explain_wanted(const struct command *command, const char *text, struct wanted_options options)
{
    struct wanted wanted = {.max_latency_ns = options.max_latency_ns,
                            .jitter_ns = options.jitter_ns};
    struct weir_error error;
    if (plan_parse(&wanted.plan, text, &error) != WEIR_OK) {
        complain_at(command, text, &error);
        return CLI_USAGE;
    }
    wanted.window_ns = wanted.plan.window_ns;
    if (wanted.jitter_ns > WEIR_SPAN_NS_MAX - wanted.window_ns) {
        return usage_error(command, "the time and --jitter are together at most 100 years");
    }
    wanted.plan.window_ns += wanted.jitter_ns;
    wanted.count = plan_choose(&wanted.plan, options.max_latency_ns, wanted.choices);
    if (wanted.count == 0 && is_too_soon(&wanted)) {
        return usage_error(command, "no bucket that keeps that has room for a cost of 1 that drains"
                                    " so soon, and no window keeps it");
    }
    if (options.json) {
        return say_choices_json(command, &wanted);
    }
    say_choices(&wanted);
    return CLI_DONE;
}
