/* SPDX-License-Identifier: MIT */
#include "cli/answer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/promise.h"
#include "core/arith.h"
#include "protocol/promise_text.h"

enum {
    DECISION_ITEM_COUNT = 6,
    LIMIT_ITEM_COUNT = 3,  // of each of several: capacity, remaining, reset_after_ns
    SHADOW_ITEM_COUNT = 2, // verdict, retry_after_ns; of several which one, too
};
_Static_assert(DECISION_ITEM_COUNT + 1 + LIMIT_LIST_COUNT_MAX * (1 + LIMIT_ITEM_COUNT)
                       + SHADOW_ITEM_COUNT + 1
                   <= REPLY_ITEM_COUNT_MAX,
               "the longest answer can be read");

static bool is_verdict(int64_t number)
{
    switch (number) {
    case WEIR_ALLOWED:
    case WEIR_LIMITED:
    case WEIR_NEVER:
    case WEIR_BLOCKED:
    case WEIR_FAILED: return true;
    default: return false;
    }
}

/* The six numbers that every decision has. */
static bool read_decision(struct weir_decision *decision, const struct reply *reply)
{
    for (size_t i = 0; i < DECISION_ITEM_COUNT; i++) {
        if (reply->items[i].type != ':') {
            return false;
        }
    }
    if (!is_verdict(reply->items[0].number) || reply->items[1].number < 0
        || reply->items[2].number < 0) {
        return false;
    }
    *decision = (struct weir_decision){
        .verdict = (enum weir_verdict)reply->items[0].number,
        .capacity = (uint64_t)reply->items[1].number,
        .remaining = (uint64_t)reply->items[2].number,
        .retry_after_ns = reply->items[3].number,
        .reset_after_ns = reply->items[4].number,
        .delay_ns = reply->items[5].number,
    };
    return true;
}

/* What limits in shadow mode would have said, where that was asked; at the end. `count` numbers. */
static bool read_shadow(struct answer *answer, const struct reply_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].type != ':') {
            return false;
        }
    }
    if (count == 0) {
        return true;
    }
    if (!is_verdict(items[0].number)) {
        return false;
    }
    answer->shadow = (enum weir_verdict)items[0].number;
    answer->shadow_retry_after_ns = items[1].number;
    answer->shadow_binding = count > SHADOW_ITEM_COUNT ? (int)items[2].number : 0;
    return answer->shadow == WEIR_ALLOWED
           || (answer->shadow_binding >= 0 && answer->shadow_binding < (int)answer->list.count);
}

/* "3", "2.55", "10/3": safe to print anywhere. */
static bool read_amount(struct answer *answer, const struct reply_item *item)
{
    answer->amount = item->text;
    return (item->type == '$' || item->type == '+')
           && amount_parse(&answer->parsed, item->text.at, item->text.length);
}

/* An array: what one of several limits says. */
static bool read_limit(struct weir_decision *decision, const struct reply_item *items)
{
    if (items[0].type != '*' || items[0].number != LIMIT_ITEM_COUNT) {
        return false;
    }
    for (size_t i = 1; i <= LIMIT_ITEM_COUNT; i++) {
        if (items[i].type != ':') {
            return false;
        }
    }
    if (items[1].number < 0 || items[2].number < 0) {
        return false;
    }
    *decision = (struct weir_decision){
        .capacity = (uint64_t)items[1].number,
        .remaining = (uint64_t)items[2].number,
        .reset_after_ns = items[3].number,
    };
    return true;
}

/* A name may be a chain: then there are as many limits as the reply has. Where the server has not said how
 * they are called, or has turned to another configuration in between, they have numbers. */
static void name_limits(struct answer *answer, size_t count)
{
    static const char NUMBERS[] = " 1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16";
    if (answer->known != NULL && answer->known->count == count) {
        answer->limits = answer->known->names;
        answer->list = answer->known->list;
        answer->config = answer->known->limits[0].config;
        return;
    }
    answer->known = NULL;
    if (answer->list.count == count) {
        return;
    }
    answer->limits = NUMBERS;
    answer->list.count = count;
    for (size_t i = 0; i < count; i++) {
        answer->list.spans[i] = (struct limit_span){3 * i, 2};
    }
}

/* How many limits the reply to a take lists; 0: it is the answer of one. */
static size_t count_limits(const struct answer *answer, const struct reply *reply)
{
    bool may_list = answer->operation == WEIR_TAKE || answer->operation == WEIR_CAN_TAKE;
    size_t own_count = DECISION_ITEM_COUNT + 1;
    size_t count =
        reply->count > own_count ? (reply->count - own_count) / (LIMIT_ITEM_COUNT + 1) : 0;
    return may_list && reply->is_array && count <= LIMIT_LIST_COUNT_MAX ? count : 0;
}

/* Behind the decision the binding limit, and what each says. */
static bool read_together(struct answer *answer, const struct reply *reply)
{
    const struct reply_item *binding = &reply->items[DECISION_ITEM_COUNT];
    const size_t item_count = LIMIT_ITEM_COUNT + 1;
    int64_t count = (int64_t)answer->list.count;
    size_t own_count = DECISION_ITEM_COUNT + 1 + item_count * (size_t)count;
    size_t shadow_count =
        answer_hears_shadow(answer->is_named, answer->operation) ? SHADOW_ITEM_COUNT + 1 : 0;
    if (!reply->is_array || reply->count != own_count + shadow_count
        || !read_decision(&answer->decision, reply)) {
        return false;
    }
    for (size_t i = 0; i < answer->list.count; i++) {
        if (!read_limit(&answer->each[i], binding + 1 + item_count * i)) {
            return false;
        }
    }
    answer->binding = (int)binding->number;
    return binding->type == ':' && binding->number >= -1 && binding->number < count
           && read_shadow(answer, &reply->items[own_count], shadow_count);
}

/* Some operations say no more than whether there was anything to do. */
static bool answer_is_decision(enum weir_operation operation)
{
    return operation != WEIR_RESET && operation != WEIR_BLOCK && operation != WEIR_UNBLOCK;
}

bool answer_read(struct answer *answer, const struct reply *reply)
{
    const struct reply_item *extra = &reply->items[DECISION_ITEM_COUNT];
    if (!answer_is_decision(answer->operation)) {
        answer->existed = reply->items[0].number == 1;
        return !reply->is_array && reply->items[0].type == ':';
    }
    size_t count = count_limits(answer, reply);
    bool fits = answer->is_named || (count > 0 ? count : 1) == answer->list.count;
    if (!fits) {
        return false;
    }
    name_limits(answer, count > 0 ? count : 1);
    answer->is_together = count > 0;
    if (answer->is_together) {
        return read_together(answer, reply);
    }
    if (answer_hears_shadow(answer->is_named, answer->operation)) {
        return reply->is_array && reply->count == DECISION_ITEM_COUNT + SHADOW_ITEM_COUNT
               && read_decision(&answer->decision, reply)
               && read_shadow(answer, extra, SHADOW_ITEM_COUNT);
    }
    bool has_extra = answer->operation == WEIR_FILL || answer->operation == WEIR_SHOW;
    if (!reply->is_array || reply->count != DECISION_ITEM_COUNT + (has_extra ? 2 : 0)
        || !read_decision(&answer->decision, reply)) {
        return false;
    }
    if (!has_extra) {
        return true;
    }
    if (answer->operation == WEIR_FILL) {
        answer->full = extra[1].number == 1;
    } else {
        answer->waiting = (uint64_t)extra[1].number;
    }
    return read_amount(answer, &extra[0]) && extra[1].type == ':' && extra[1].number >= 0;
}

static const struct known_limit *binding_limit(const struct answer *answer)
{
    return &answer->known->limits[answer->binding > 0 ? answer->binding : 0];
}

/* The limit that decided. */
static struct weir_limit_config binding_config(const struct answer *answer)
{
    struct weir_limit_config config = answer->config;
    if (answer->known != NULL) {
        config = binding_limit(answer)->config;
    } else if (answer->is_named) { // that is all that is known
        uint64_t capacity = answer->binding >= 0 && answer->list.count > 1
                                ? answer->each[answer->binding].capacity
                                : answer->decision.capacity;
        config.capacity_micro = capacity * WEIR_UNIT;
        config.waiting = WEIR_WAITING;
    } else if (answer->binding > 0) {
        const struct limit_span *span = &answer->list.spans[answer->binding];
        enum weir_status status =
            weir_limit_parse(&config, answer->limits + span->at, span->length, NULL);
        assert(status == WEIR_OK); // as it was before it was asked
        (void)status;
    }
    return config;
}

int answer_exit_code(const struct answer *answer)
{
    bool is_asked = !answer_is_decision(answer->operation) || answer->operation == WEIR_SHOW;
    if (is_asked && answer->decision.verdict != WEIR_FAILED) {
        return CLI_DONE;
    }
    switch (answer->decision.verdict) {
    case WEIR_ALLOWED: return CLI_DONE;
    case WEIR_LIMITED:
    case WEIR_BLOCKED: return CLI_LIMITED;
    case WEIR_NEVER: return CLI_NEVER;
    case WEIR_FAILED: break;
    }
    return CLI_FAILED;
}

/* What a queue takes for the cost itself, behind everything that it holds. */
static uint64_t own_interval_ns(const struct weir_limit_config *queue, uint64_t cost_micro)
{
    bool waits = queue->first == WEIR_FIRST_INTERVAL;
    return waits ? (uint64_t)((uint128)cost_micro * queue->period_ns / queue->count_micro) : 0;
}

uint64_t answer_wait_ns(const struct answer *answer)
{
    const struct weir_decision *decision = &answer->decision;
    struct weir_limit_config config = binding_config(answer);
    bool is_known = !answer->is_named || answer->known != NULL;
    int64_t ns = -1;
    if (decision->verdict == WEIR_ALLOWED) {
        ns = decision->delay_ns;
    } else if (decision->verdict == WEIR_LIMITED && config.kind == WEIR_KIND_QUEUE && is_known) {
        bool is_one_of_several = answer->is_together && answer->binding >= 0;
        ns = is_one_of_several ? answer->each[answer->binding].reset_after_ns
                               : decision->reset_after_ns;
        return (ns > 0 ? (uint64_t)ns : 0) + own_interval_ns(&config, answer->cost_micro);
    } else if (decision->verdict == WEIR_LIMITED) {
        ns = decision->retry_after_ns;
    }
    return ns > 0 ? (uint64_t)ns : 0;
}

bool answer_waited_too_short(const struct answer *answer)
{
    struct weir_limit_config config = binding_config(answer);
    return answer->decision.verdict == WEIR_NEVER && answer->cost_micro <= config.capacity_micro
           && config.waiting > 0;
}

const char *answer_never_text(const struct answer *answer, char text[NEVER_TEXT_MAX])
{
    char cost[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    char wait[DURATION_TEXT_MAX];
    char own[DURATION_TEXT_MAX];
    struct weir_limit_config config = binding_config(answer);
    if (answer->cost_micro > config.capacity_micro) {
        (void)snprintf(text, NEVER_TEXT_MAX, "a cost of %s exceeds the capacity of %s",
                       print_micro(answer->cost_micro, cost),
                       print_micro(config.capacity_micro, capacity));
        return text;
    }
    if (!answer_waited_too_short(answer)) {
        return "its limit lets nobody wait, and none goes at once"; // a queue with waiting=0
    }
    struct weir_amount wait_ns = amount_of(answer->wait_ns, 1);
    if (answer->is_named && answer->known == NULL) {
        (void)snprintf(text, NEVER_TEXT_MAX,
                       "a wait of %s is shorter than what an empty queue takes",
                       duration_print_exact(&wait_ns, wait));
        return text;
    }
    struct weir_amount own_ns = promise_drain_ns(&config, answer->cost_micro);
    (void)snprintf(text, NEVER_TEXT_MAX,
                   "a wait of %s is shorter than what an empty queue takes, %s",
                   duration_print_exact(&wait_ns, wait), duration_print_exact(&own_ns, own));
    return text;
}

/* NULL: it has none. */
static const char *binding_name(const struct answer *answer)
{
    bool is_named = answer->known != NULL && known_limit_is_named(binding_limit(answer));
    return is_named ? binding_limit(answer)->name : NULL;
}

const char *answer_named_text(const struct answer *answer, char text[NAMED_TEXT_MAX])
{
    char promise[PROMISE_TEXT_MAX];
    struct weir_limit limit;
    const char *name = binding_name(answer);
    if (name == NULL || weir_limit_init(&limit, &binding_limit(answer)->config, NULL) != WEIR_OK) {
        return "";
    }
    const char *words = binding_limit(answer)->words;
    char *end = promise_put_text(promise, (struct bytes){words, strlen(words)}, &limit);
    (void)snprintf(text, NAMED_TEXT_MAX, "%s is limited to %.*s; ", name, (int)(end - promise),
                   promise);
    return text;
}

const char *answer_failure_text(const struct answer *answer, bool waited)
{
    bool has_events =
        binding_config(answer).kind == WEIR_KIND_WINDOW && answer->operation != WEIR_BLOCK;
    if (answer->cannot != NULL) {
        return waited ? "lets nobody wait" : answer->cannot;
    }
    if (waited) {
        return "lets nobody wait: it is ending, or has no room";
    }
    if (has_events) {
        return "cannot decide: its memory for events is full (more: events=), or its table is";
    }
    return answer->is_local ? "cannot decide: its table is full of live buckets"
                            : "cannot decide: its table is full of live buckets, or its store "
                              "does not answer";
}

/* "9 of 10 remain, empty in 100 ms" */
static void say_rest(const struct weir_decision *decision, const char *verb)
{
    char time[DURATION_TEXT_MAX];
    (void)printf("%" PRIu64 " of %" PRIu64 " %s", decision->remaining, decision->capacity, verb);
    if (decision->reset_after_ns == 0) {
        (void)printf(", empty");
    } else if (decision->reset_after_ns > 0) {
        (void)printf(", empty in %s", duration_print_up((uint64_t)decision->reset_after_ns, time));
    }
}

/* " (shadow: login would be limited, retry in 3 s)": the name where there are several limits. */
static void say_shadow(const struct answer *answer)
{
    char time[DURATION_TEXT_MAX];
    if (answer->shadow == WEIR_ALLOWED) {
        return;
    }
    (void)fputs(" (shadow: ", stdout);
    if (answer->is_together) {
        const struct limit_span *span = &answer->list.spans[answer->shadow_binding];
        (void)printf("%.*s ", (int)span->length, answer->limits + span->at);
    }
    (void)duration_print_up(
        answer->shadow_retry_after_ns > 0 ? (uint64_t)answer->shadow_retry_after_ns : 0, time);
    switch (answer->shadow) {
    case WEIR_LIMITED: (void)printf("would be limited, retry in %s)", time); break;
    case WEIR_BLOCKED: (void)printf("would be blocked, for %s more)", time); break;
    case WEIR_NEVER: (void)fputs("would never let it pass)", stdout); break;
    case WEIR_ALLOWED:
    case WEIR_FAILED: (void)fputs("would be an error)", stdout); break;
    }
}

static void say_verdict(const struct answer *answer)
{
    const struct weir_decision *decision = &answer->decision;
    struct colours colours = colours_of_output();
    char time[DURATION_TEXT_MAX];
    char never[NEVER_TEXT_MAX];
    char named[NAMED_TEXT_MAX];
    const char *name = binding_name(answer);
    bool charged = answer->operation == WEIR_TAKE;
    (void)printf("%s%s%s", decision->verdict == WEIR_ALLOWED ? colours.good : colours.bad,
                 weir_verdict_word(decision->verdict), colours.plain);
    say_shadow(answer);
    (void)fputs(": ", stdout);
    switch (decision->verdict) {
    case WEIR_ALLOWED:
        if (decision->delay_ns > 0) {
            (void)printf("it may go in %s (",
                         duration_print_up((uint64_t)decision->delay_ns, time));
        }
        say_rest(decision, charged ? "remain" : "would remain");
        (void)fputs(decision->delay_ns > 0 ? ")" : "", stdout);
        break;
    case WEIR_LIMITED:
        (void)printf("%sretry in %s (", answer_named_text(answer, named),
                     duration_print_up((uint64_t)decision->retry_after_ns, time));
        say_rest(decision, "remain");
        (void)putchar(')');
        break;
    case WEIR_BLOCKED:
        (void)printf("%s%sfor %s more (", name != NULL ? name : "", name != NULL ? ", " : "",
                     duration_print_up((uint64_t)decision->retry_after_ns, time));
        say_rest(decision, "remain");
        (void)putchar(')');
        break;
    case WEIR_NEVER:
        (void)printf("%s%s%s", name != NULL ? name : "", name != NULL ? ": " : "",
                     answer_never_text(answer, never));
        break;
    case WEIR_FAILED:
        (void)printf("the %s %s", answer->is_local ? "store" : "server",
                     answer_failure_text(answer, answer->wait_ns > 0));
        break;
    }
}

/* One line for each of several limits; the one that decided is marked. */
static void say_limits(const struct answer *answer)
{
    struct colours colours = colours_of_output();
    const struct limit_list *list = &answer->list;
    size_t width = 0;
    for (size_t i = 0; i < list->count; i++) {
        width = list->spans[i].length > width ? list->spans[i].length : width;
    }
    for (size_t i = 0; i < list->count; i++) {
        bool is_binding = (int)i == answer->binding;
        (void)printf("  %s%c %.*s%*s  ", is_binding ? colours.bold : "", is_binding ? '>' : ' ',
                     (int)list->spans[i].length, answer->limits + list->spans[i].at,
                     (int)(width - list->spans[i].length), "");
        if (answer->decision.verdict == WEIR_FAILED && is_binding) {
            (void)fputs("no decision", stdout);
        } else {
            say_rest(&answer->each[i], "remain");
        }
        (void)printf("%s\n", is_binding ? colours.plain : "");
    }
}

/* A fill that fills the bucket up is allowed, and says no more; what follows is said by the limit, if that is
 * written out. (Where the table has no room for a block there is none, and nobody says so.) */
static void say_lock_out(const struct answer *answer)
{
    char time[DURATION_TEXT_MAX];
    uint64_t block_ns = answer->config.block_ns;
    if (answer->is_named || !answer->full || answer->cost_micro == 0 || block_ns == 0) {
        return;
    }
    if (block_ns == WEIR_BLOCK_UNTIL_EMPTY) {
        block_ns = (uint64_t)answer->decision.reset_after_ns;
    }
    (void)printf("; blocked for %s", duration_print_up(block_ns, time));
}

void answer_say(const struct answer *answer)
{
    char amount[ABOUT_TEXT_MAX];
    switch (answer->operation) {
    case WEIR_RESET:
        if (answer->decision.verdict == WEIR_FAILED) {
            say_verdict(answer);
            break;
        }
        (void)printf(answer->existed ? "reset: emptied\n" : "reset: there was nothing to empty\n");
        return;
    case WEIR_BLOCK:
        if (answer->decision.verdict != WEIR_FAILED) {
            (void)printf("blocked\n");
            return;
        }
        say_verdict(answer);
        break;
    case WEIR_UNBLOCK:
        if (answer->decision.verdict == WEIR_FAILED) {
            say_verdict(answer);
            break;
        }
        (void)printf(answer->existed ? "unblocked\n" : "unblocked: it was not blocked\n");
        return;
    case WEIR_TAKE:
    case WEIR_CAN_TAKE: say_verdict(answer); break;
    case WEIR_FILL:
    case WEIR_REFUND:
    case WEIR_SHOW:
        if (answer->decision.verdict != WEIR_ALLOWED) {
            say_verdict(answer);
            break;
        }
        if (answer->operation == WEIR_SHOW) {
            char capacity[MICRO_TEXT_MAX];
            struct weir_limit_config config = binding_config(answer);
            (void)amount_print_about(&answer->parsed, amount);
            (void)printf("level %s of %s: ", amount, print_micro(config.capacity_micro, capacity));
        } else {
            (void)printf(answer->operation == WEIR_FILL ? "filled: " : "refunded: ");
        }
        say_rest(&answer->decision, "remain");
        if (answer->operation == WEIR_SHOW && answer->waiting > 0) {
            (void)printf("; %" PRIu64 " %s in line", answer->waiting,
                         answer->waiting == 1 ? "waits" : "wait");
        }
        if (answer->operation == WEIR_FILL) {
            (void)amount_print_about(&answer->parsed, amount);
            (void)printf("; %s spilled%s", amount, answer->full ? ", the bucket is full" : "");
            say_lock_out(answer);
        }
        break;
    }
    (void)putchar('\n');
    if (answer->is_together) {
        say_limits(answer);
    }
}

/* ,"binding":0,"limits":[{"limit":"10/s","capacity":10,...},...]. A limit needs no escapes. */
static void say_limits_json(const struct answer *answer)
{
    (void)printf(",\"binding\":%d,\"limits\":[", answer->binding);
    for (size_t i = 0; i < answer->list.count; i++) {
        const struct weir_decision *decision = &answer->each[i];
        const struct limit_span *span = &answer->list.spans[i];
        (void)printf("%s{\"limit\":\"%.*s\",\"capacity\":%" PRIu64 ",\"remaining\":%" PRIu64
                     ",\"reset_after_ns\":%" PRId64 "}",
                     i > 0 ? "," : "", (int)span->length, answer->limits + span->at,
                     decision->capacity, decision->remaining, decision->reset_after_ns);
    }
    (void)putchar(']');
}

void answer_say_json(const struct answer *answer)
{
    const struct weir_decision *decision = &answer->decision;
    if (answer->operation == WEIR_BLOCK) {
        (void)printf("{\"blocked\":%s}\n", decision->verdict != WEIR_FAILED ? "true" : "false");
        return;
    }
    if (answer->operation == WEIR_UNBLOCK) {
        (void)printf("{\"was_blocked\":%s}\n", answer->existed ? "true" : "false");
        return;
    }
    if (answer->operation == WEIR_RESET) {
        (void)printf("{\"existed\":%s}\n", answer->existed ? "true" : "false");
        return;
    }
    int64_t retry_ns = decision->retry_after_ns;
    const int64_t ms = (int64_t)NS_PER_MS;
    (void)printf("{\"verdict\":\"%s\",\"capacity\":%" PRIu64 ",\"remaining\":%" PRIu64
                 ",\"retry_after_ns\":%" PRId64 ",\"retry_after_ms\":%" PRId64
                 ",\"reset_after_ns\":%" PRId64 ",\"delay_ns\":%" PRId64,
                 weir_verdict_word(decision->verdict), decision->capacity, decision->remaining,
                 retry_ns, retry_ns < 0 ? -1 : retry_ns / ms + (retry_ns % ms != 0),
                 decision->reset_after_ns, decision->delay_ns);
    if (answer->is_together) {
        say_limits_json(answer);
    }
    if (answer->shadow != WEIR_ALLOWED) {
        (void)printf(",\"shadow\":\"%s\",\"shadow_retry_after_ns\":%" PRId64,
                     weir_verdict_word(answer->shadow), answer->shadow_retry_after_ns);
        if (answer->is_together) {
            (void)printf(",\"shadow_binding\":%d", answer->shadow_binding);
        }
    }
    /* An amount is digits with a point or a slash: read_amount() has seen to it. */
    if (answer->operation == WEIR_FILL) {
        (void)printf(",\"spill\":\"%.*s\",\"full\":%s", (int)answer->amount.length,
                     answer->amount.at, answer->full ? "true" : "false");
    } else if (answer->operation == WEIR_SHOW) {
        (void)printf(",\"level\":\"%.*s\",\"waiting\":%" PRIu64, (int)answer->amount.length,
                     answer->amount.at, answer->waiting);
    }
    (void)printf("}\n");
}
