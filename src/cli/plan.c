/* SPDX-License-Identifier: MIT */
#include "cli/plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/arith.h"
#include "core/fail.h"
#include "core/limit_words.h"

static const char AT_MOST[] = "at most ";
static const char IN_ANY[] = " in any ";

bool plan_is_meant(const char *text)
{
    return strncmp(text, "at ", 3) == 0;
}

/* "60s" or "min": the period of a limit, and so read as one. */
static enum weir_status read_window(uint64_t *window_ns, const char *text, size_t offset,
                                    struct weir_error *error)
{
    char limit_text[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_limit_config config;
    if (text[strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz")] != '\0') {
        return fail(error, WEIR_E_SYNTAX, offset,
                    "expected a time such as 60s, and nothing after it");
    }
    (void)snprintf(limit_text, sizeof limit_text, "1/%.200s", text);
    enum weir_status status = weir_limit_parse(&config, limit_text, strlen(limit_text), error);
    if (status != WEIR_OK && error != NULL) {
        error->offset = error->offset < 2 ? offset : error->offset - 2 + offset;
    }
    *window_ns = config.period_ns;
    return status;
}

enum weir_status plan_parse(struct plan *plan, const char *text, struct weir_error *error)
{
    const char *number = text + strlen(AT_MOST);
    if (strncmp(text, AT_MOST, strlen(AT_MOST)) != 0) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "expected 'at most N in any T', such as at most 300 in"
                    " any 60s");
    }
    const char *middle = strstr(number, IN_ANY);
    if (middle == NULL) {
        return fail(error, WEIR_E_SYNTAX, strlen(text),
                    "expected 'in any' and a time: at most 300"
                    " in any 60s");
    }
    enum weir_status status =
        weir_cost_parse(&plan->at_most_micro, number, (size_t)(middle - number), error);
    if (status != WEIR_OK) {
        if (error != NULL) {
            error->offset += strlen(AT_MOST);
        }
        return status;
    }
    if (plan->at_most_micro == 0) {
        return fail(error, WEIR_E_RANGE, strlen(AT_MOST), "at most 0 is no limit: it is a ban");
    }
    const char *window = middle + strlen(IN_ANY);
    return read_window(&plan->window_ns, window, (size_t)(window - text), error);
}

bool plan_bucket(struct weir_limit_config *config, const struct plan *plan, uint64_t capacity_micro)
{
    if (capacity_micro == 0 || capacity_micro >= plan->at_most_micro) {
        return false;
    }
    *config = (struct weir_limit_config){
        .kind = WEIR_KIND_BUCKET,
        .count_micro = plan->at_most_micro - capacity_micro,
        .period_ns = plan->window_ns,
        .capacity_micro = capacity_micro,
        .waiting = WEIR_WAITING,
    };
    struct weir_limit unused;
    return weir_limit_init(&unused, config, NULL) == WEIR_OK;
}

bool plan_window(struct weir_limit_config *config, const struct plan *plan)
{
    uint64_t count_micro = plan->at_most_micro / WEIR_UNIT * WEIR_UNIT;
    *config = (struct weir_limit_config){
        .kind = WEIR_KIND_WINDOW,
        .count_micro = count_micro,
        .period_ns = plan->window_ns,
        .capacity_micro = count_micro,
        .waiting = WEIR_WAITING,
    };
    struct weir_limit unused;
    return weir_limit_init(&unused, config, NULL) == WEIR_OK;
}

uint64_t plan_capacity_within(const struct plan *plan, uint64_t max_latency_ns)
{
    assert(max_latency_ns <= WEIR_SPAN_NS_MAX && plan->window_ns <= WEIR_SPAN_NS_MAX);
    uint128 capacity_micro =
        (uint128)plan->at_most_micro * max_latency_ns / (plan->window_ns + max_latency_ns);
    return (uint64_t)(capacity_micro / WEIR_UNIT) * WEIR_UNIT;
}

/* A tenth at once is recommended: rate that is given up is lost for ever, while a burst that does not
 * fit can wait. It keeps nine tenths of the rate, and is still ten times what one at a time allows. A latency
 * bounds that: it makes the bucket smaller where a tenth would take longer to drain, and never larger. */
size_t plan_choose(const struct plan *plan, uint64_t max_latency_ns,
                   struct plan_choice choices[PLAN_CHOICE_MAX])
{
    uint64_t units = plan->at_most_micro / WEIR_UNIT;
    uint64_t tenth = units / 10 > 0 ? units / 10 : 1;
    uint64_t most =
        max_latency_ns > 0 ? plan_capacity_within(plan, max_latency_ns) / WEIR_UNIT : units;
    const char *usual = tenth > 1 ? "a tenth at once" : "one at a time, evenly";
    const struct {
        uint64_t capacity;
        const char *why;
    } splits[PLAN_CHOICE_MAX - 1] = {
        {tenth < most ? tenth : most, tenth > most ? "as --max-latency wants" : usual},
        {1, "one at a time, evenly"},
        {units / 2, "half at once"},
    };
    size_t count = 0;
    for (size_t i = 0; i < PLAN_CHOICE_MAX - 1; i++) {
        uint64_t capacity_micro = splits[i].capacity * WEIR_UNIT;
        bool is_known = false;
        for (size_t j = 0; j < count; j++) {
            is_known |= choices[j].config.capacity_micro == capacity_micro;
        }
        if (splits[i].capacity <= most && !is_known
            && plan_bucket(&choices[count].config, plan, capacity_micro)) {
            choices[count++].why = splits[i].why;
        }
    }
    if (plan_window(&choices[count].config, plan)) {
        choices[count++].why = "all at once";
    }
    return count;
}

const char *plan_text(const struct weir_limit_config *config, char text[WEIR_LIMIT_TEXT_MAX])
{
    /* The buffer suffices for any limit, so this cannot fail. */
    (void)!limit_print_as_written(config, text, WEIR_LIMIT_TEXT_MAX);
    return text;
}

uint64_t plan_capacity(const struct weir_limit_config *config, uint64_t max_latency_ns)
{
    assert(max_latency_ns <= WEIR_SPAN_NS_MAX);
    bool is_stepped = config->kind == WEIR_KIND_STEPPED; // nothing drains before a period has ended
    uint128 capacity = is_stepped
                           ? (uint128)config->count_micro * (max_latency_ns / config->period_ns)
                           : (uint128)config->count_micro * max_latency_ns / config->period_ns;
    return capacity < WEIR_MICRO_MAX ? (uint64_t)capacity : WEIR_MICRO_MAX;
}
