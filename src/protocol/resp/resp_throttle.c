/* SPDX-License-Identifier: MIT
 *
 * CL.THROTTLE, the command of redis-cell. Its limit is three numbers, not a text, and its bucket is known by the key
 * alone. */
#include <string.h>

#include "core/bucket_math.h"
#include "limiter/rule_cache.h"
#include "protocol/resp/resp_ask.h"

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
    } else if (rule_cache_throttle(call->service->rules, resp_next_rule(batch),
                                   (uint64_t)numbers->max_burst + 1, (uint64_t)numbers->count,
                                   (uint64_t)numbers->period_s, &error)
               != WEIR_OK) {
        fail_throttle(call, error.message);
    } else {
        batch->parts[batch->rule_count++].named = NULL;
        batch->limit_count = 1;
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
    enum weir_operation operation = quantity < 0 ? WEIR_REFUND : is_beyond ? WEIR_SHOW : WEIR_TAKE;
    resp_ask(call, operation, key, cost_micro, RESP_ANSWER_THROTTLE);
    call->batch->questions[call->batch->count - 1].is_beyond = operation == WEIR_SHOW;
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
               && resp_check_key(call, resp_arg(call, 1)) && find_throttle_rule(call, &numbers)) {
        ask_throttle(call, quantity);
    }
}
