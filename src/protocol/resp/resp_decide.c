/* SPDX-License-Identifier: MIT
 *
 * The commands of the WEIR family that ask for a decision. A command becomes a question in the batch, which
 * resp_answer.c decides and answers. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bucket_math.h"
#include "limiter/together.h"
#include "protocol/resp/resp_ask.h"

bool resp_check_key(struct resp_call *call, struct bytes key)
{
    if (key.length >= 1 && key.length <= WEIR_KEY_BYTES_MAX) {
        return true;
    }
    resp_fail(call, "ERR invalid key: it must be 1 to %d bytes, not %zu", WEIR_KEY_BYTES_MAX,
              key.length);
    return false;
}

/* WEIR.X key limit [COST c]. */

/* `pair` is where the limit stands in WEIR.TAKEALL, from 1; 0: elsewhere. Returns 0. */
static size_t fail_limit(struct resp_call *call, const struct weir_error *error, size_t pair)
{
    char which[32] = "";
    if (pair > 0) {
        (void)snprintf(which, sizeof which, " of pair %zu", pair);
    }
    resp_fail(call, "ERR invalid limit%s at byte %zu: %s", which, error->offset, error->message);
    return 0;
}

/* The same as read_limits() where names are meant. What follows the limits, variables among it,
 * begins at argument `first`. */
static size_t read_named(struct resp_call *call, struct bytes key, struct bytes text, size_t first,
                         size_t pair)
{
    struct resp_batch *batch = call->batch;
    struct variables variables;
    struct asked asked;
    struct weir_error error;
    if (!resp_read_variables(call, first, &variables)) {
        return 0;
    }
    const struct asking asking = {
        .names = call->service->names,
        .cache = call->service->rules,
        .key = {key.at, key.length},
        .variables = &variables,
        .room = batch->keys + batch->keys_used,
        .room_bytes = sizeof batch->keys - batch->keys_used,
    };
    batch->limit_text.length = SIZE_MAX; // other keys have other numbers
    if (asked_read(&asking, text.at, text.length, resp_next_rule(batch),
                   &batch->parts[batch->rule_count], &asked, &error)
        != WEIR_OK) {
        return fail_limit(call, &error, pair);
    }
    batch->keys_used += asked.used;
    batch->has_chain = asked.has_chain;
    batch->rule_count += asked.count;
    batch->limit_count = asked.count;
    return asked.count;
}

/* Sees to it that the last rules are those of this text for this key, and says how many there are:
 * several of a list. 0 after a failure. `first` and `pair` as above. */
static size_t read_limits(struct resp_call *call, struct bytes key, struct bytes text, size_t first,
                          size_t pair)
{
    struct resp_batch *batch = call->batch;
    struct weir_error error;
    size_t count;
    if (asked_by_name(call->service->names, text.at, text.length)) {
        return read_named(call, key, text, first, pair);
    }
    batch->has_chain = false;
    if (batch->rule_count > 0 && text.length > 0 && batch->limit_text.length == text.length
        && memcmp(batch->limit_text.at, text.at, text.length) == 0) {
        return batch->limit_count;
    }
    if (rule_cache_list(call->service->rules, resp_next_rule(batch), &count, text.at, text.length,
                        &error)
        != WEIR_OK) {
        return fail_limit(call, &error, pair);
    }
    for (size_t i = 0; i < count; i++) {
        batch->parts[batch->rule_count++].named = NULL;
    }
    batch->limit_count = count;
    batch->limit_text = text;
    return count;
}

/* The same where there may be only one. */
static bool read_limit(struct resp_call *call, struct bytes key, struct bytes text)
{
    if (asked_for_chain(call->service->names, text.at, text.length)) {
        resp_fail(call, "ERR invalid limit: a chain cannot be used here: only WEIR.TAKE, "
                        "WEIR.CANTAKE and WEIR.TAKEALL take one");
        return false;
    }
    size_t count = read_limits(call, key, text, 3, 0);
    if (count > 1) {
        resp_fail(call,
                  "ERR invalid limit: it is a list: only WEIR.TAKE and WEIR.CANTAKE take one, "
                  "and WEIR.TAKEALL does with several keys");
    }
    return count == 1;
}

/* What may follow the limit. */
struct terms {
    uint64_t cost_micro;
    uint64_t wait_ns;
    bool asks_shadow;
};

/* Which of it may follow beside COST and VAR. */
enum { MAY_WAIT = 1, MAY_ASK_SHADOW = 2 };

static bool read_cost(struct resp_call *call, struct bytes text, uint64_t *cost_micro)
{
    struct weir_error error;
    if (weir_cost_parse(cost_micro, text.at, text.length, &error) != WEIR_OK) {
        resp_fail(call, "ERR invalid cost at byte %zu: %s", error.offset, error.message);
        return false;
    }
    return true;
}

static bool read_wait(struct resp_call *call, struct bytes text, uint64_t *wait_ns)
{
    int64_t wait_ms;
    if (!resp_read_integer(text, &wait_ms) || wait_ms < 0 || wait_ms > ENGINE_WAIT_MS_MAX) {
        resp_fail(call, "ERR invalid wait: WAIT takes 0 to %d whole milliseconds (24 hours)",
                  ENGINE_WAIT_MS_MAX);
        return false;
    }
    *wait_ns = (uint64_t)wait_ms * 1000000;
    return true;
}

size_t resp_option_words(struct bytes word)
{
    return resp_word_is(word, "var") ? 3 : resp_word_is(word, "shadow") ? 1 : 2;
}

static bool fail_terms(struct resp_call *call, unsigned allowed)
{
    const char *more = (allowed & MAY_WAIT) != 0 ? ", or WAIT and milliseconds, or SHADOW"
                       : allowed != 0            ? ", or SHADOW"
                                                 : "";
    resp_fail(call, "ERR syntax error: after the limit comes nothing or COST and a number%s%s",
              more, allowed != 0 ? ", each once" : "");
    return false;
}

/* Reads what follows the limit, from argument `first` on: COST and a number, what `allowed` says, and any VAR, a name
 * and a value, in any order. */
static bool read_terms(struct resp_call *call, size_t first, unsigned allowed, struct terms *terms)
{
    bool has_cost = false;
    bool has_wait = false;
    size_t words;
    *terms = (struct terms){.cost_micro = WEIR_UNIT};
    for (size_t i = first; i < call->command->arg_count; i += words) {
        struct bytes word = resp_arg(call, i);
        bool is_cost = resp_word_is(word, "cost") && !has_cost;
        bool is_wait = (allowed & MAY_WAIT) != 0 && resp_word_is(word, "wait") && !has_wait;
        words = resp_option_words(word);
        if (words == 1 && (allowed & MAY_ASK_SHADOW) != 0 && !terms->asks_shadow) {
            terms->asks_shadow = true;
            continue;
        }
        bool is_whole = i + words <= call->command->arg_count;
        if (words == 3 && !is_whole) {
            resp_fail(call, "ERR syntax error: VAR is followed by a name and a value");
            return false;
        }
        if (words == 3) {
            continue; // resp_read_variables() knows them
        }
        if ((!is_cost && !is_wait) || !is_whole) {
            return fail_terms(call, allowed);
        }
        struct bytes text = resp_arg(call, i + 1);
        if (!(is_cost ? read_cost(call, text, &terms->cost_micro)
                      : read_wait(call, text, &terms->wait_ns))) {
            return false;
        }
        has_cost = has_cost || is_cost;
        has_wait = has_wait || is_wait;
    }
    return true;
}

/* How many pairs WEIR.TAKEALL says that follow; 0 if it says nothing sensible. */
static size_t read_pair_count(const struct resp_command *command)
{
    int64_t count;
    bool is_count =
        resp_read_integer(command->args[1], &count) && count >= 1 && count <= LIMIT_LIST_COUNT_MAX;
    return is_count ? (size_t)count : 0;
}

bool resp_is_wait(const struct resp_command *command)
{
    size_t first = 3;
    if (resp_word_is(command->args[0], "weir.takeall")) {
        first = 2 + 2 * read_pair_count(command);
    } else if (!resp_word_is(command->args[0], "weir.take")) {
        return false;
    }
    for (size_t i = first; i < command->arg_count; i += resp_option_words(command->args[i])) {
        if (resp_word_is(command->args[i], "wait")) {
            return true;
        }
    }
    return false;
}

/* `number` is that of the limit, where it is one of several; otherwise 0. */
static bool check_cost(struct resp_call *call, const struct weir_rule *rule, uint64_t cost_micro,
                       size_t number)
{
    if (limit_counts(&rule->limit, cost_micro)) {
        return true;
    }
    char which[32] = "";
    if (number > 0) {
        (void)snprintf(which, sizeof which, "limit %zu: ", number);
    }
    resp_fail(call, "ERR invalid cost: %s" LIMIT_COUNTS_WHOLE, which);
    return false;
}

static bool check_refund(struct resp_call *call, const struct weir_rule *rule)
{
    bool takes_refund = kind_takes_refund(rule->limit.kind);
    if (!takes_refund) {
        resp_fail(call, "ERR invalid limit: " LIMIT_TAKES_NO_REFUND);
    }
    return takes_refund;
}

/* Several limits at once, or one that may have to wait: their requests gather behind those that count,
 * and join them when everything about the command is right. */
struct run {
    size_t count;
    enum weir_operation operation;
    enum resp_answer answer;
};

/* Adds a key under each of the last `count` rules. There is room for as many as may be together. */
static void add_to_run(struct resp_call *call, struct run *run, struct bytes key, size_t count)
{
    struct resp_batch *batch = call->batch;
    assert(run->count + count <= LIMIT_LIST_COUNT_MAX && count <= batch->rule_count);
    for (size_t i = 0; i < count; i++) {
        size_t rule = batch->rule_count - count + i;
        const struct asked_part *part = &batch->parts[rule];
        batch->named[batch->count + run->count] = part->named;
        batch->requests[batch->count + run->count++] = (struct weir_request){
            .rule = &batch->rules[rule],
            .key = part->named != NULL ? part->key.at : key.at,
            .key_len = part->named != NULL ? part->key.length : key.length,
            .operation = run->operation,
            .shadow = part->named != NULL && part->named->is_shadow,
        };
    }
}

/* For the counters, when the answer comes. Without memory they count as if written out. */
static void remember_names(struct resp_session *session, const struct named_limit *const *named,
                           size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any = any || named[i] != NULL;
    }
    session->waits_for = any ? malloc(count * sizeof *named) : NULL;
    if (session->waits_for != NULL) {
        memcpy(session->waits_for, named, count * sizeof *named);
    }
}

/* Decides this take: now, or when its turn has come. Its requests and their rules stay where they are meanwhile. */
static void wait_for_turn(struct resp_call *call, const struct run *run, const struct terms *terms)
{
    struct weir_decision decisions[LIMIT_LIST_COUNT_MAX];
    const struct weir_request *requests = call->batch->requests;
    if (call->batch->count > 0) {
        call->outcome = RESP_BEHIND;
        return;
    }
    call->session->pace.work += PACE_WAIT;
    remember_names(call->session, call->batch->named, run->count);
    call->session->wait_count = (uint8_t)run->count;
    call->session->wait_is_together = run->answer == RESP_ANSWER_TOGETHER;
    call->session->wait_asks_shadow = terms->asks_shadow;
    if (call->service->ops->wait(call->service, requests, run->count, terms->wait_ns, decisions)) {
        call->outcome = RESP_WAITS;
    } else {
        resp_answer_wait(call->session, call->service, decisions, call->output);
    }
}

/* Adds the question, or waits: all of the run, or nothing. */
static void ask_run(struct resp_call *call, const struct run *run, const struct terms *terms)
{
    struct resp_batch *batch = call->batch;
    struct weir_request *requests = &batch->requests[batch->count];
    for (size_t i = 0; i < run->count; i++) {
        size_t number = run->count > 1 ? i + 1 : 0;
        if (!check_cost(call, requests[i].rule, terms->cost_micro, number)) {
            return;
        }
        requests[i].cost_micro = terms->cost_micro;
        requests[i].and_next = i + 1 < run->count;
    }
    if (terms->wait_ns > 0) {
        wait_for_turn(call, run, terms);
        return;
    }
    batch->questions[batch->count] = (struct resp_question){.answer = run->answer,
                                                            .version = call->session->version,
                                                            .count = (uint8_t)run->count,
                                                            .asks_shadow = terms->asks_shadow};
    batch->count += run->count;
    for (size_t i = 0; i < run->count; i++) {
        pace_add(&call->session->pace, &requests[i].rule->limit);
    }
}

/* The same for one key and the last `count` rules, which are a list's. */
static void ask_list(struct resp_call *call, enum weir_operation operation, struct bytes key,
                     size_t count, const struct terms *terms)
{
    struct run run = {.operation = operation,
                      .answer = count > 1 || call->batch->has_chain ? RESP_ANSWER_TOGETHER
                                                                    : RESP_ANSWER_DECISION};
    add_to_run(call, &run, key, count);
    ask_run(call, &run, terms);
}

static void ask_with_cost(struct resp_call *call, enum weir_operation operation,
                          enum resp_answer answer)
{
    struct bytes key = resp_arg(call, 1);
    struct terms terms;
    if (resp_check_key(call, key) && read_limit(call, key, resp_arg(call, 2))
        && read_terms(call, 3, 0, &terms)
        && check_cost(call, resp_last_rule(call->batch), terms.cost_micro, 0)
        && (operation != WEIR_REFUND || check_refund(call, resp_last_rule(call->batch)))) {
        resp_ask(call, operation, key, terms.cost_micro, answer);
    }
}

void resp_take(struct resp_call *call)
{
    struct bytes key = resp_arg(call, 1);
    struct terms terms;
    size_t count = resp_check_key(call, key) ? read_limits(call, key, resp_arg(call, 2), 3, 0) : 0;
    if (count == 0 || !read_terms(call, 3, MAY_WAIT | MAY_ASK_SHADOW, &terms)) {
        return;
    }
    const struct named_limit *named = resp_last_name(call->batch);
    bool is_shadow = count == 1 && named != NULL && named->is_shadow;
    terms.wait_ns = is_shadow ? 0 : terms.wait_ns; // a shadow holds nobody up
    if (count > 1 || call->batch->has_chain || terms.wait_ns > 0) {
        ask_list(call, WEIR_TAKE, key, count, &terms);
    } else if (check_cost(call, resp_last_rule(call->batch), terms.cost_micro, 0)) {
        resp_ask(call, WEIR_TAKE, key, terms.cost_micro, RESP_ANSWER_DECISION);
        call->batch->questions[call->batch->count - 1].asks_shadow = terms.asks_shadow;
    }
}

/* Reads the pairs of WEIR.TAKEALL, each a key and its limit, or a list of them. */
static bool read_pairs(struct resp_call *call, size_t pair_count, struct run *run)
{
    for (size_t pair = 1; pair <= pair_count; pair++) {
        struct bytes key = resp_arg(call, 2 * pair);
        size_t count =
            resp_check_key(call, key)
                ? read_limits(call, key, resp_arg(call, 2 * pair + 1), 2 + 2 * pair_count, pair)
                : 0;
        if (count == 0) {
            return false;
        }
        if (count > LIMIT_LIST_COUNT_MAX - run->count) {
            resp_fail(call, "ERR invalid limits: pair %zu brings more than %d together", pair,
                      (int)LIMIT_LIST_COUNT_MAX);
            return false;
        }
        add_to_run(call, run, key, count);
    }
    return true;
}

/* False, and the command has failed, where two of the run are one bucket. */
static bool check_distinct(struct resp_call *call, const struct run *run)
{
    size_t later;
    size_t earlier;
    const struct resp_batch *batch = call->batch;
    if (!together_find_twice(&batch->requests[batch->count], run->count, &later, &earlier)) {
        return true;
    }
    resp_fail(call, "ERR invalid limits: limit %zu is limit %zu again, the same bucket twice",
              later + 1, earlier + 1);
    return false;
}

void resp_take_all(struct resp_call *call)
{
    struct run run = {.operation = WEIR_TAKE, .answer = RESP_ANSWER_TOGETHER};
    struct terms terms;
    size_t pair_count = read_pair_count(call->command);
    int64_t said;
    if (resp_read_integer(resp_arg(call, 1), &said) && said > LIMIT_LIST_COUNT_MAX) {
        resp_fail(call, "ERR invalid limits: at most %d can be taken together",
                  (int)LIMIT_LIST_COUNT_MAX);
    } else if (pair_count == 0 || call->command->arg_count < 2 + 2 * pair_count) {
        resp_fail(call,
                  "ERR syntax error: WEIR.TAKEALL n is followed by n pairs of a key and its "
                  "limit, 1 to %d",
                  (int)LIMIT_LIST_COUNT_MAX);
    } else if (read_pairs(call, pair_count, &run)
               && read_terms(call, 2 + 2 * pair_count, MAY_WAIT | MAY_ASK_SHADOW, &terms)
               && check_distinct(call, &run)) {
        ask_run(call, &run, &terms);
    }
}

void resp_can_take(struct resp_call *call)
{
    struct bytes key = resp_arg(call, 1);
    struct terms terms;
    size_t count = resp_check_key(call, key) ? read_limits(call, key, resp_arg(call, 2), 3, 0) : 0;
    if (count == 0 || !read_terms(call, 3, MAY_ASK_SHADOW, &terms)) {
        return;
    }
    if (count > 1 || call->batch->has_chain) {
        ask_list(call, WEIR_CAN_TAKE, key, count, &terms);
    } else if (check_cost(call, resp_last_rule(call->batch), terms.cost_micro, 0)) {
        resp_ask(call, WEIR_CAN_TAKE, key, terms.cost_micro, RESP_ANSWER_DECISION);
        call->batch->questions[call->batch->count - 1].asks_shadow = terms.asks_shadow;
    }
}

void resp_fill(struct resp_call *call)
{
    ask_with_cost(call, WEIR_FILL, RESP_ANSWER_FILL);
}

void resp_refund(struct resp_call *call)
{
    ask_with_cost(call, WEIR_REFUND, RESP_ANSWER_DECISION);
}

static void ask_without_cost(struct resp_call *call, enum weir_operation operation,
                             enum resp_answer answer)
{
    struct bytes key = resp_arg(call, 1);
    if (resp_check_key(call, key) && read_limit(call, key, resp_arg(call, 2))) {
        resp_ask(call, operation, key, 0, answer);
    }
}

void resp_show(struct resp_call *call)
{
    ask_without_cost(call, WEIR_SHOW, RESP_ANSWER_SHOW);
}

void resp_reset_bucket(struct resp_call *call)
{
    ask_without_cost(call, WEIR_RESET, RESP_ANSWER_EXISTED);
}

/* WEIR.BLOCK key limit ms. */
void resp_block(struct resp_call *call)
{
    struct bytes key = resp_arg(call, 1);
    int64_t block_ms;
    if (!resp_check_key(call, key) || !read_limit(call, key, resp_arg(call, 2))) {
        return;
    }
    if (!resp_read_integer(resp_arg(call, 3), &block_ms) || block_ms < 1
        || block_ms > (int64_t)ENGINE_BLOCK_MS_MAX) {
        resp_fail(call, "ERR invalid block: it takes 1 to %llu whole milliseconds (100 years)",
                  (unsigned long long)ENGINE_BLOCK_MS_MAX);
        return;
    }
    resp_ask(call, WEIR_BLOCK, key, 0, RESP_ANSWER_BLOCK);
    call->batch->requests[call->batch->count - 1].block_ns = (uint64_t)block_ms * 1000000;
}

void resp_unblock(struct resp_call *call)
{
    ask_without_cost(call, WEIR_UNBLOCK, RESP_ANSWER_EXISTED);
}
