/* SPDX-License-Identifier: MIT
 *
 * The commands whose limit is three numbers, not a text, and whose bucket is known by the key alone:
 *
 *     CL.THROTTLE key max_burst count period [quantity]      as redis-cell has it
 *     CL.PROBE    key max_burst count period [quantity]      the same answer, and no charge
 *     GCRA        key max-burst tokens-per-period period [TOKENS count]     as Redis drafted it
 *
 * All three share their buckets. docs/resp.md says where the arithmetic differs from redis-cell's. */
#include <string.h>

#include "core/bucket_math.h"
#include "limiter/rule_cache.h"
#include "protocol/resp/resp_ask.h"

/* Sees to it that the last rule is the one of these numbers, which are in their ranges. */
static bool use_numbers(struct resp_call *call, const struct resp_throttle_numbers *numbers,
                        struct weir_error *error)
{
    struct resp_batch *batch = call->batch;
    if (batch->rule_count > 0 && batch->limit_text.length == 0
        && memcmp(numbers, &batch->throttle, sizeof *numbers) == 0) {
        return true;
    }
    if (rule_cache_throttle(call->service->rules, resp_next_rule(batch),
                            (uint64_t)numbers->max_burst + 1, (uint64_t)numbers->count,
                            (uint64_t)numbers->period_ns, error)
        != WEIR_OK) {
        return false;
    }
    batch->parts[batch->rule_count++].named = NULL;
    batch->limit_count = 1;
    batch->limit_text.length = 0;
    batch->throttle = *numbers;
    return true;
}

/* Asks for so many units under the last rule. More than any cost can say never fits: then how the bucket stands is
 * the answer, and limited. */
static void ask_units(struct resp_call *call, enum weir_operation operation, uint64_t units,
                      enum resp_answer answer)
{
    bool is_beyond = units > WEIR_UNITS_MAX && operation != WEIR_REFUND;
    uint64_t cost_micro = units > WEIR_UNITS_MAX ? WEIR_COST_MAX : units * WEIR_UNIT;
    resp_ask(call, is_beyond ? WEIR_SHOW : operation, resp_arg(call, 1), cost_micro, answer);
    call->batch->questions[call->batch->count - 1].is_beyond = is_beyond;
}

/* ---- CL.THROTTLE and CL.PROBE ---- */

#define SECOND_NS     INT64_C(1000000000)
#define PERIOD_S_MAX  ((int64_t)WEIR_SPAN_NS_MAX / SECOND_NS)
#define MAX_BURST_MAX ((int64_t)WEIR_UNITS_MAX - 1)

static bool fail_cell(struct resp_call *call, const char *what)
{
    resp_fail(call, "Cell error: Store error: %s", what);
    return false;
}

static bool read_cell_integer(struct resp_call *call, size_t i, int64_t *value)
{
    struct bytes arg = resp_arg(call, i);
    if (resp_read_integer(arg, value)) {
        return true;
    }
    resp_fail(call, "Cell error: Store error: Couldn't parse as integer: %.*s",
              arg.length < 64 ? (int)arg.length : 64, arg.at);
    return false;
}

/* redis-cell refuses zeroes, and answers nonsense where one of the others is out of range. */
static bool check_cell_numbers(struct resp_call *call, const struct resp_throttle_numbers *numbers,
                               int64_t period_s)
{
    if (numbers->count == 0 || period_s == 0) {
        return fail_cell(call, "Zero rates are not supported");
    }
    if (numbers->max_burst < 0 || numbers->max_burst > MAX_BURST_MAX) {
        return fail_cell(call, "max_burst must be 0 to 999999999999");
    }
    if (numbers->count < 0 || numbers->count > (int64_t)WEIR_UNITS_MAX) {
        return fail_cell(call, "count must be 1 to 1000000000000");
    }
    if (period_s < 0 || period_s > PERIOD_S_MAX) {
        return fail_cell(call, "period must be 1 to 3155760000 seconds (100 years)");
    }
    return true;
}

/* Reads the arguments, in their order, and finds the rule. */
static bool read_cell(struct resp_call *call, int64_t *quantity)
{
    struct resp_throttle_numbers numbers;
    struct weir_error error;
    int64_t period_s;
    if (!read_cell_integer(call, 2, &numbers.max_burst)
        || !read_cell_integer(call, 3, &numbers.count) || !read_cell_integer(call, 4, &period_s)
        || (call->command->arg_count == 6 && !read_cell_integer(call, 5, quantity))
        || !resp_check_key(call, resp_arg(call, 1))
        || !check_cell_numbers(call, &numbers, period_s)) {
        return false;
    }
    numbers.period_ns = period_s * SECOND_NS;
    return use_numbers(call, &numbers, &error) || fail_cell(call, error.message);
}

static bool check_cell_count(struct resp_call *call, const char *usage)
{
    size_t arg_count = call->command->arg_count;
    return arg_count == 5 || arg_count == 6 || fail_cell(call, usage);
}

/* A quantity below zero gives back. */
void resp_throttle(struct resp_call *call)
{
    int64_t quantity = 1;
    if (check_cell_count(call, "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                               "[<quantity>]")
        && read_cell(call, &quantity)) {
        bool gives = quantity < 0;
        ask_units(call, gives ? WEIR_REFUND : WEIR_TAKE,
                  gives ? 0 - (uint64_t)quantity : (uint64_t)quantity, RESP_ANSWER_THROTTLE);
    }
}

void resp_probe(struct resp_call *call)
{
    int64_t quantity = 1;
    if (!check_cell_count(call, "Usage: cl.probe <key> <max_burst> <count per period> <period> "
                                "[<quantity>]")
        || !read_cell(call, &quantity)) {
        return;
    }
    if (quantity < 0) {
        (void)fail_cell(call, "quantity must be 0 or more: a probe gives nothing back");
        return;
    }
    ask_units(call, WEIR_CAN_TAKE, (uint64_t)quantity, RESP_ANSWER_THROTTLE);
}

/* ---- GCRA ---- */

/* digits * 10^exponent */
struct decimal {
    uint64_t digits;
    int exponent;
};

enum { DECIMAL_EXPONENT_MAX = 1000 }; // no double goes beyond 308

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads the digits at `at`, and with `places` those of a fraction. Returns where they end. What follows the digits
 * that fit is too small to matter, or the number too large. */
static size_t read_digits(struct bytes text, size_t at, bool places, struct decimal *decimal)
{
    static const uint64_t FULL = UINT64_C(1000000000000000000); // 19 digits: all that surely fit
    for (; at < text.length && is_digit(text.at[at]); at++) {
        bool fits = decimal->digits < FULL;
        if (fits) {
            decimal->digits = decimal->digits * 10 + (uint64_t)(text.at[at] - '0');
        }
        decimal->exponent += places ? -(int)fits : !fits;
    }
    return at;
}

/* As a client writes a double: "60", "0.5", "1.5e-3". */
static bool read_decimal(struct bytes text, struct decimal *decimal)
{
    *decimal = (struct decimal){0, 0};
    size_t whole = read_digits(text, 0, false, decimal);
    size_t at = whole;
    bool has_digits = whole > 0;
    if (at < text.length && text.at[at] == '.') {
        at = read_digits(text, at + 1, true, decimal);
        has_digits = has_digits || at > whole + 1;
    }
    if (at < text.length && (text.at[at] == 'e' || text.at[at] == 'E')) {
        int64_t exponent;
        struct bytes rest = {text.at + at + 1, text.length - at - 1};
        if (!resp_read_integer(rest, &exponent) || exponent < -DECIMAL_EXPONENT_MAX
            || exponent > DECIMAL_EXPONENT_MAX) {
            return false;
        }
        decimal->exponent += (int)exponent;
        at = text.length;
    }
    return has_digits && at == text.length;
}

/* In nanoseconds, rounded to the nearest one; 0 where it is less than half of one, and WEIR_SPAN_NS_MAX + 1 where it
 * is more than 100 years. */
static uint64_t decimal_seconds_ns(struct decimal decimal)
{
    uint64_t ns = decimal.digits;
    int exponent = decimal.exponent + 9;
    for (; exponent > 0 && ns != 0; exponent--) {
        if (ns > WEIR_SPAN_NS_MAX / 10) {
            return WEIR_SPAN_NS_MAX + 1;
        }
        ns *= 10;
    }
    for (; exponent < -1 && ns != 0; exponent++) {
        ns /= 10;
    }
    ns = exponent == -1 ? (ns + 5) / 10 : ns;
    return ns <= WEIR_SPAN_NS_MAX ? ns : WEIR_SPAN_NS_MAX + 1;
}

static bool read_period(struct resp_call *call, struct bytes text, int64_t *period_ns)
{
    struct decimal seconds;
    uint64_t ns = read_decimal(text, &seconds) ? decimal_seconds_ns(seconds) : 0;
    if (ns < 1 || ns > WEIR_SPAN_NS_MAX) {
        resp_fail(call, "ERR invalid period: it must be a decimal number of seconds, from "
                        "0.000000001 to 3155760000 (100 years)");
        return false;
    }
    *period_ns = (int64_t)ns;
    return true;
}

static bool read_in_range(struct resp_call *call, size_t i, const char *name, int64_t min,
                          int64_t max, int64_t *value)
{
    if (resp_read_integer(resp_arg(call, i), value) && *value >= min && *value <= max) {
        return true;
    }
    resp_fail(call, "ERR invalid %s: it must be a whole number, %lld to %lld", name, (long long)min,
              (long long)max);
    return false;
}

/* TOKENS and a number, or nothing. */
static bool read_tokens(struct resp_call *call, int64_t *tokens)
{
    size_t arg_count = call->command->arg_count;
    *tokens = 1;
    if (arg_count == 5) {
        return true;
    }
    if (arg_count != 7 || !resp_word_is(resp_arg(call, 5), "tokens")) {
        resp_fail(call, "ERR syntax error: after the period comes nothing, or TOKENS and a number");
        return false;
    }
    return read_in_range(call, 6, "TOKENS", 1, INT64_MAX, tokens);
}

void resp_gcra(struct resp_call *call)
{
    struct resp_throttle_numbers numbers;
    struct weir_error error;
    int64_t tokens;
    if (!resp_check_key(call, resp_arg(call, 1))
        || !read_in_range(call, 2, "max-burst", 0, MAX_BURST_MAX, &numbers.max_burst)
        || !read_in_range(call, 3, "tokens-per-period", 1, WEIR_UNITS_MAX, &numbers.count)
        || !read_period(call, resp_arg(call, 4), &numbers.period_ns)
        || !read_tokens(call, &tokens)) {
        return;
    }
    if (!use_numbers(call, &numbers, &error)) {
        resp_fail(call, "ERR invalid limit: %s", error.message);
        return;
    }
    ask_units(call, WEIR_TAKE, (uint64_t)tokens, RESP_ANSWER_GCRA);
}
