/* SPDX-License-Identifier: MIT
 *
 * The commands that ask for a decision: CL.THROTTLE and the WEIR family. A command becomes a question
 * in the batch, which resp_answer.c decides and answers. */
#include <assert.h>
#include <string.h>

#include "core/bucket_math.h"
#include "protocol/resp/resp_session.h"

/* Where the rule of the next limit goes. It counts once rule_count is raised. */
static struct weir_rule *next_rule(struct resp_batch *batch)
{
    assert(batch->count < RESP_BATCH_COUNT_MAX && batch->rule_count <= batch->count);
    return &batch->rules[batch->rule_count];
}

/* Adds a question about a key, under the last rule. */
static void ask(struct resp_call *call, enum weir_operation operation, struct bytes key,
                uint64_t cost_micro, enum resp_answer answer)
{
    struct resp_batch *batch = call->batch;
    size_t i = batch->count++;
    batch->questions[i] = (struct resp_question){answer, call->session->version, false};
    batch->requests[i] = (struct weir_request){
        .rule = &batch->rules[batch->rule_count - 1],
        .key = key.at,
        .key_len = key.length,
        .cost_micro = cost_micro,
        .operation = operation,
        .detail = operation == WEIR_TAKE ? NULL : &batch->details[i],
    };
}

static bool check_key(struct resp_call *call, struct bytes key)
{
    if (key.length >= 1 && key.length <= WEIR_KEY_BYTES_MAX) {
        return true;
    }
    resp_fail(call, "ERR the key must be 1 to %d bytes, not %zu", WEIR_KEY_BYTES_MAX, key.length);
    return false;
}

/* CL.THROTTLE key max_burst count period [quantity], as redis-cell has it; docs/resp.md says where
 * the arithmetic differs. */

static void fail_throttle(struct resp_call *call, const char *what)
{
    resp_fail(call, "Cell error: Store error: %s", what);
}

/* Reads an argument of CL.THROTTLE. Errors come in the order of the arguments. */
static bool read_throttle_integer(struct resp_call *call, size_t i, int64_t *value)
{
    struct bytes arg = resp_arg(call, i);
    if (resp_read_integer(arg, value)) {
        return true;
    }
    resp_fail(call, "Cell error: Store error: Couldn't parse as integer: %.*s",
              arg.length < 64 ? (int)arg.length : 64, arg.at);
    return false;
}

/* Sees to it that the last rule is the one of these numbers. */
static bool find_throttle_rule(struct resp_call *call, const struct resp_throttle_numbers *numbers)
{
    struct resp_batch *batch = call->batch;
    struct weir_error error;
    if (batch->rule_count > 0 && batch->limit_text.length == 0
        && memcmp(numbers, &batch->throttle, sizeof *numbers) == 0) {
        return true;
    }
    if (numbers->count == 0 || numbers->period_s == 0) {
        fail_throttle(call, "Zero rates are not supported");
    } else if (numbers->max_burst < 0 || (uint64_t)numbers->max_burst >= WEIR_UNITS_MAX) {
        fail_throttle(call, "max_burst must be 0 to 999999999999");
    } else if (numbers->count < 0 || (uint64_t)numbers->count > WEIR_UNITS_MAX) {
        fail_throttle(call, "count must be 1 to 1000000000000");
    } else if (numbers->period_s < 0) {
        fail_throttle(call, "period must be 1 or more seconds");
    } else if (rule_cache_throttle(call->service->rules, next_rule(batch),
                                   (uint64_t)numbers->max_burst + 1, (uint64_t)numbers->count,
                                   (uint64_t)numbers->period_s, &error)
               != WEIR_OK) {
        fail_throttle(call, error.message);
    } else {
        batch->rule_count++;
        batch->limit_text.length = 0;
        batch->throttle = *numbers;
        return true;
    }
    return false;
}

/* A quantity below zero gives back; more than any cost can say never fits. */
static void ask_throttle(struct resp_call *call, int64_t quantity)
{
    struct bytes key = resp_arg(call, 1);
    uint64_t units = quantity < 0 ? 0 - (uint64_t)quantity : (uint64_t)quantity;
    bool is_beyond = units > WEIR_UNITS_MAX;
    uint64_t cost_micro = is_beyond ? WEIR_COST_MAX : units * WEIR_UNIT;
    if (quantity < 0) {
        ask(call, WEIR_REFUND, key, cost_micro, RESP_ANSWER_THROTTLE);
    } else if (is_beyond) {
        ask(call, WEIR_SHOW, key, 0, RESP_ANSWER_THROTTLE);
        call->batch->questions[call->batch->count - 1].is_beyond = true;
    } else {
        ask(call, WEIR_TAKE, key, cost_micro, RESP_ANSWER_THROTTLE);
    }
}

void resp_throttle(struct resp_call *call)
{
    size_t arg_count = call->command->arg_count;
    struct resp_throttle_numbers numbers;
    int64_t quantity = 1;
    if (arg_count != 5 && arg_count != 6) {
        fail_throttle(call, "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                            "[<quantity>]");
    } else if (read_throttle_integer(call, 2, &numbers.max_burst)
               && read_throttle_integer(call, 3, &numbers.count)
               && read_throttle_integer(call, 4, &numbers.period_s)
               && (arg_count == 5 || read_throttle_integer(call, 5, &quantity))
               && check_key(call, resp_arg(call, 1)) && find_throttle_rule(call, &numbers)) {
        ask_throttle(call, quantity);
    }
}

/* WEIR.X key limit [COST c]. */

/* Sees to it that the last rule is the one of this text. */
static bool read_limit(struct resp_call *call, struct bytes text)
{
    struct resp_batch *batch = call->batch;
    struct weir_error error;
    if (batch->rule_count > 0 && text.length > 0 && batch->limit_text.length == text.length
        && memcmp(batch->limit_text.at, text.at, text.length) == 0) {
        return true;
    }
    if (rule_cache_text(call->service->rules, next_rule(batch), text.at, text.length, &error)
        != WEIR_OK) {
        resp_fail(call, "ERR invalid limit at byte %zu: %s", error.offset, error.message);
        return false;
    }
    batch->rule_count++;
    batch->limit_text = text;
    return true;
}

/* What may follow the limit. */
struct terms {
    uint64_t cost_micro;
    uint64_t wait_ns;
};

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

/* Reads what follows the limit: COST and a number, and where `may_wait` WAIT and a number, in any order. */
static bool read_terms(struct resp_call *call, bool may_wait, struct terms *terms)
{
    bool has_cost = false;
    bool has_wait = false;
    *terms = (struct terms){.cost_micro = WEIR_UNIT};
    for (size_t i = 3; i < call->command->arg_count; i += 2) {
        bool is_cost = resp_word_is(resp_arg(call, i), "cost") && !has_cost;
        bool is_wait = may_wait && resp_word_is(resp_arg(call, i), "wait") && !has_wait;
        if ((!is_cost && !is_wait) || i + 1 == call->command->arg_count) {
            resp_fail(call,
                      "ERR syntax error: after the limit comes nothing or COST and a number%s",
                      may_wait ? ", or WAIT and milliseconds, each once" : "");
            return false;
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

bool resp_is_wait(const struct resp_command *command)
{
    for (size_t i = 3; i < command->arg_count; i += 2) {
        if (resp_word_is(command->args[i], "wait")) {
            return resp_word_is(command->args[0], "weir.take");
        }
    }
    return false;
}

/* Under the last rule. */
static bool check_cost(struct resp_call *call, uint64_t cost_micro)
{
    const struct resp_batch *batch = call->batch;
    if (limit_counts(&batch->rules[batch->rule_count - 1].limit, cost_micro)) {
        return true;
    }
    resp_fail(call, "ERR invalid cost: " LIMIT_COUNTS_WHOLE);
    return false;
}

static void ask_with_cost(struct resp_call *call, enum weir_operation operation,
                          enum resp_answer answer)
{
    struct bytes key = resp_arg(call, 1);
    struct terms terms;
    if (check_key(call, key) && read_limit(call, resp_arg(call, 2))
        && read_terms(call, false, &terms) && check_cost(call, terms.cost_micro)) {
        ask(call, operation, key, terms.cost_micro, answer);
    }
}

/* Decides what came before, and this take: now, or when its turn has come. */
static void wait_for_turn(struct resp_call *call, struct bytes key, const struct terms *terms)
{
    struct weir_rule rule = call->batch->rules[call->batch->rule_count - 1];
    resp_flush(call->batch, call->service, call->output);
    struct weir_request request = {.rule = &rule,
                                   .key = key.at,
                                   .key_len = key.length,
                                   .cost_micro = terms->cost_micro,
                                   .operation = WEIR_TAKE};
    struct weir_decision decision;
    call->waits = call->service->ops->wait(call->service, &request, 1, terms->wait_ns, &decision);
    if (!call->waits) {
        resp_answer_wait(call->session, call->service, &decision, call->output);
    }
}

void resp_take(struct resp_call *call)
{
    struct bytes key = resp_arg(call, 1);
    struct terms terms;
    if (!check_key(call, key) || !read_limit(call, resp_arg(call, 2))
        || !read_terms(call, true, &terms) || !check_cost(call, terms.cost_micro)) {
        return;
    }
    const char *why_not = terms.wait_ns > 0 ? call->service->ops->why_no_wait(call->service) : NULL;
    if (why_not != NULL) {
        resp_fail(call, "ERR WAIT: %s", why_not);
    } else if (terms.wait_ns == 0) {
        ask(call, WEIR_TAKE, key, terms.cost_micro, RESP_ANSWER_DECISION);
    } else {
        wait_for_turn(call, key, &terms);
    }
}

void resp_can_take(struct resp_call *call)
{
    ask_with_cost(call, WEIR_CAN_TAKE, RESP_ANSWER_DECISION);
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
    if (check_key(call, key) && read_limit(call, resp_arg(call, 2))) {
        ask(call, operation, key, 0, answer);
    }
}

void resp_show(struct resp_call *call)
{
    ask_without_cost(call, WEIR_SHOW, RESP_ANSWER_SHOW);
}

void resp_reset_bucket(struct resp_call *call)
{
    ask_without_cost(call, WEIR_RESET, RESP_ANSWER_RESET);
}
