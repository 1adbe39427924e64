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

/* How much of N per T is left in the long run, in tenths of a percent. */
static uint64_t rate_permille(const struct plan *plan, const struct plan_choice *choice)
{
    return (uint64_t)((uint128)choice->config.count_micro * 1000 / plan->at_most_micro);
}

/* A bucket that holds N already admits that and then what drains; so does one that holds 1, if N is 1. */
static void say_none(const struct plan *plan)
{
    char window[DURATION_TEXT_MAX];
    char most[MICRO_TEXT_MAX];
    (void)window_text(plan->window_ns, window);
    if (plan->at_most_micro > WEIR_UNIT) {
        (void)puts("  No bucket can keep that exactly; use rounder numbers.");
        return;
    }
    (void)printf(
        "  No bucket guarantees that: one that holds %s admits %s, and then what has drained"
        " in\n  the window.",
        print_micro(plan->at_most_micro, most), most);
    struct weir_limit_config config;
    struct plan two = {2 * WEIR_UNIT, plan->window_ns};
    char text[WEIR_LIMIT_TEXT_MAX];
    if (plan->at_most_micro == WEIR_UNIT && plan_bucket(&config, &two, WEIR_UNIT)) {
        (void)printf(" But under %s two are never closer than %s: only a window of just that\n"
                     "  length, both its ends included, has two.",
                     limit_text(&config, text), window);
    }
    (void)putchar('\n');
}

static void say_choices(const struct plan *plan, const struct plan_choice *choices, size_t count)
{
    struct colours colours = colours_of_output();
    char window[DURATION_TEXT_MAX];
    char most[MICRO_TEXT_MAX];
    (void)print_micro(plan->at_most_micro, most);
    (void)window_text(plan->window_ns, window);
    (void)printf("%sat most %s in any %s%s, both its ends included\n\n", colours.bold, most, window,
                 colours.plain);
    if (count == 0) {
        say_none(plan);
        return;
    }
    (void)printf("  A bucket admits at most capacity + T * rate: so every split of %s will do.\n\n",
                 most);
    for (size_t i = 0; i < count; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        uint64_t permille = rate_permille(plan, &choices[i]);
        (void)printf("  %-28s %-24s %3" PRIu64 ".%" PRIu64 " %% of the rate%s\n",
                     limit_text(&choices[i].config, text), choices[i].why, permille / 10,
                     permille % 10, i == 0 ? "  <- take this" : "");
    }
    (void)puts(
        "\n  Rate that is given up is lost for ever; a burst that does not fit can wait. So hold"
        " little,\n  unless those who come in bursts cannot wait.");
}

static int say_choices_json(const struct command *command, const struct plan *plan,
                            const struct plan_choice *choices, size_t count)
{
    char most[MICRO_TEXT_MAX];
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        char capacity[MICRO_TEXT_MAX];
        char rate[WEIR_AMOUNT_TEXT_MAX];
        const struct weir_limit_config *config = &choices[i].config;
        struct weir_amount rate_per_s = promise_rate_per_s(config);
        (void)weir_amount_print(&rate_per_s, rate);
        json_array_append_new(list,
                              json_pack("{ss ss ss sb}", "limit", limit_text(config, text),
                                        "capacity", print_micro(config->capacity_micro, capacity),
                                        "rate_per_s", rate, "recommended", i == 0));
    }
    json_t *root = json_pack("{ss sI so}", "at_most", print_micro(plan->at_most_micro, most),
                             "window_ns", (json_int_t)plan->window_ns, "choices", list);
    bool written = root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    json_decref(root);
    if (!written) {
        complain(command, "out of memory");
        return CLI_FAILED;
    }
    (void)putchar('\n');
    return CLI_DONE;
}

int explain_wanted(const struct command *command, const char *text, bool json)
{
    struct plan plan;
    struct weir_error error;
    struct plan_choice choices[PLAN_CHOICE_MAX];
    if (plan_parse(&plan, text, &error) != WEIR_OK) {
        complain_at(command, text, &error);
        return CLI_USAGE;
    }
    size_t count = plan_choose(&plan, choices);
    if (json) {
        return say_choices_json(command, &plan, choices, count);
    }
    say_choices(&plan, choices, count);
    return CLI_DONE;
}
