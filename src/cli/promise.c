/* SPDX-License-Identifier: MIT */
#include "cli/promise.h"

#include <assert.h>
#include <stdio.h>

#include "core/arith.h"
#include "core/calendar.h"
#include "core/time_units.h"

/* The largest products below: a count or capacity of 10^18 millionths, times a hundred years of
 * 3.2 * 10^18 ns, twice. */
_Static_assert(WEIR_MICRO_MAX <= UINT64_C(1000000000000000000)
                   && WEIR_SPAN_NS_MAX < UINT64_C(1) << 62,
               "two products of a count and a span fit 128 bits");

uint64_t promise_held_micro(const struct weir_limit_config *config)
{
    bool goes_at_once = false;
    switch (config->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_STEPPED:
    case WEIR_KIND_FIXED:
    case WEIR_KIND_SLIDING:
    case WEIR_KIND_WINDOW: break;
    case WEIR_KIND_QUEUE: goes_at_once = config->first == WEIR_FIRST_NOW; break;
    }
    return config->capacity_micro + (goes_at_once ? WEIR_UNIT : 0);
}

uint64_t promise_step_micro(const struct weir_limit_config *config)
{
    return config->count_micro < config->capacity_micro ? config->count_micro
                                                        : config->capacity_micro;
}

struct weir_amount promise_rate_per_s(const struct weir_limit_config *config)
{
    uint128 count_micro = config->count_micro;
    uint128 period_ns = config->period_ns;
    if (config->kind == WEIR_KIND_SLIDING) {
        bool is_one = count_micro == WEIR_UNIT;
        count_micro -= is_one ? 0 : WEIR_UNIT;
        period_ns *= is_one ? 2 : 1;
    } else if (config->kind == WEIR_KIND_STEPPED) {
        count_micro = promise_step_micro(config);
    }
    return amount_of(count_micro * NS_PER_S, period_ns * WEIR_UNIT);
}

static uint64_t div_ceil(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* How long so many windows of months one after another can be. They begin at multiples of their length from the
 * year 0 on, and the calendar at its own beginning again every CALENDAR_MONTHS: so after as many windows both do. */
static uint64_t months_ns(uint64_t window_months, uint64_t count, bool longest)
{
    int64_t days = 0;
    for (uint64_t i = 0; i < CALENDAR_MONTHS; i++) {
        int64_t some = calendar_day_of_month((int64_t)((i + count) * window_months))
                       - calendar_day_of_month((int64_t)(i * window_months));
        bool is_better = longest ? some > days : some < days;
        days = days == 0 || is_better ? some : days;
    }
    return (uint64_t)days * 86400 * NS_PER_S;
}

uint64_t promise_period_ns(const struct weir_limit_config *config)
{
    return config->period_months != 0 ? months_ns(config->period_months, 1, true)
                                      : config->period_ns;
}

/* How many of a limit's own windows one of `window_ns` meets at most, both its ends included: it begins at
 * the end of one, and reaches into another behind those that it covers. */
static uint64_t windows_met(const struct weir_limit_config *config, uint64_t window_ns)
{
    if (config->period_months == 0 || window_ns == 0) {
        return div_ceil(window_ns, config->period_ns) + 1;
    }
    uint64_t covered = window_ns / config->period_ns; // by their mean length
    while (months_ns(config->period_months, covered + 1, false) < window_ns) {
        covered++;
    }
    while (covered > 0 && months_ns(config->period_months, covered, false) >= window_ns) {
        covered--;
    }
    return covered + 2;
}

/* Of a sliding limit, in units. */
static uint128 most_under_sliding(const struct weir_limit_config *config, uint64_t window_ns)
{
    uint64_t count = config->count_micro / WEIR_UNIT;
    uint64_t period_ns = config->period_ns;
    if (count == 1) {
        return window_ns / period_ns / 2 + 1;
    }
    if (window_ns == 0) {
        return count;
    }
    bool begins_with_all = count == 2 && window_ns > period_ns;
    return (uint128)windows_met(config, window_ns) * (count - 1) + begins_with_all;
}

struct weir_amount promise_drain_ns(const struct weir_limit_config *config, uint64_t cost_micro)
{
    assert(cost_micro <= WEIR_MICRO_MAX + WEIR_UNIT);
    uint64_t period_ns = config->period_ns;
    switch (config->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED:
        return amount_of((uint128)div_ceil(cost_micro, config->count_micro) * period_ns, 1);
    case WEIR_KIND_FIXED: return amount_of(promise_period_ns(config), 1);
    case WEIR_KIND_WINDOW: return amount_of(period_ns, 1); // all at once, if it came so
    case WEIR_KIND_SLIDING: // a period in which all of it counts, and then evenly
        return amount_of(((uint128)config->count_micro + cost_micro) * period_ns,
                         config->count_micro);
    }
    return amount_of((uint128)cost_micro * period_ns, config->count_micro);
}

struct weir_amount promise_wait_ns(const struct weir_limit_config *config, uint64_t cost_micro)
{
    if (config->block_ns == WEIR_BLOCK_UNTIL_EMPTY) {
        return promise_drain_ns(config, promise_held_micro(config));
    }
    struct weir_amount drain_ns = promise_drain_ns(config, cost_micro);
    return amount_ceil(&drain_ns) > config->block_ns ? drain_ns : amount_of(config->block_ns, 1);
}

/* held + T * N/P, in units. */
static struct weir_amount held_and_leaked(const struct weir_limit_config *config,
                                          uint64_t held_micro, uint64_t window_ns)
{
    assert(window_ns <= WEIR_SPAN_NS_MAX);
    uint128 held = (uint128)held_micro * config->period_ns;
    uint128 leaked = (uint128)window_ns * config->count_micro;
    return amount_of(held + leaked, (uint128)config->period_ns * WEIR_UNIT);
}

bool promise_includes_end(const struct weir_limit_config *config)
{
    return config->kind != WEIR_KIND_WINDOW;
}

struct weir_amount promise_bound(const struct weir_limit_config *config, uint64_t window_ns)
{
    assert(window_ns <= WEIR_SPAN_NS_MAX);
    uint128 count = config->count_micro;
    switch (config->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED:
        count = promise_step_micro(config);
        return amount_of(config->capacity_micro + div_ceil(window_ns, config->period_ns) * count,
                         WEIR_UNIT);
    case WEIR_KIND_FIXED: return amount_of(windows_met(config, window_ns) * count, WEIR_UNIT);
    case WEIR_KIND_WINDOW:
        return amount_of(div_ceil(window_ns, config->period_ns) * count, WEIR_UNIT);
    case WEIR_KIND_SLIDING: return amount_of(most_under_sliding(config, window_ns), 1);
    }
    return held_and_leaked(config, promise_held_micro(config), window_ns);
}

struct weir_amount promise_leaving(const struct weir_limit_config *config, uint64_t window_ns)
{
    return held_and_leaked(config, WEIR_UNIT, window_ns);
}

uint64_t promise_left_micro(const struct weir_limit_config *config, uint64_t after_ns)
{
    if (config->kind == WEIR_KIND_FIXED || config->kind == WEIR_KIND_WINDOW) {
        return after_ns < promise_period_ns(config) ? config->count_micro : 0;
    }
    assert(config->kind == WEIR_KIND_STEPPED);
    uint128 drained = (uint128)(after_ns / config->period_ns) * config->count_micro;
    return drained < config->capacity_micro ? config->capacity_micro - (uint64_t)drained : 0;
}

uint64_t promise_events_bytes(const struct weir_limit_config *config)
{
    uint64_t count = config->count_micro / WEIR_UNIT;
    uint64_t gaps = config->period_ns >> EVENT_GAP_NS_LOG2;
    return count * EVENT_BYTES + (gaps < count ? gaps : count) * EVENT_GAP_BYTES
           + 2 * EVENT_CHUNK_BYTES;
}

uint64_t amount_floor(const struct weir_amount *amount)
{
    uint128 numerator = (uint128)amount->numerator_high << 64 | amount->numerator_low;
    uint128 denominator = (uint128)amount->denominator_high << 64 | amount->denominator_low;
    return (uint64_t)(numerator / denominator);
}

uint64_t amount_ceil(const struct weir_amount *amount)
{
    uint128 numerator = (uint128)amount->numerator_high << 64 | amount->numerator_low;
    uint128 denominator = (uint128)amount->denominator_high << 64 | amount->denominator_low;
    return (uint64_t)((numerator + denominator - 1) / denominator);
}

#define UINT128_MAX (~(uint128)0)

/* Rounds to the nearest millionth, half up. False if there is nothing to round, or it does not fit 128
 * bits. The fraction need not be in lowest terms. */
static bool round_to_micro(uint128 *micro, uint128 numerator, uint128 denominator)
{
    uint128 rest = numerator % denominator;
    *micro = numerator / denominator;
    if (*micro > UINT128_MAX / WEIR_UNIT - 1 || denominator > UINT128_MAX / 10) {
        return false;
    }
    for (uint64_t places = 1; places < WEIR_UNIT; places *= 10) {
        *micro = *micro * 10 + rest * 10 / denominator;
        rest = rest * 10 % denominator;
    }
    *micro += rest >= denominator - rest;
    return rest != 0;
}

int amount_print_about(const struct weir_amount *amount, char text[ABOUT_TEXT_MAX])
{
    uint128 numerator = (uint128)amount->numerator_high << 64 | amount->numerator_low;
    uint128 denominator = (uint128)amount->denominator_high << 64 | amount->denominator_low;
    uint128 micro;
    char number[WEIR_AMOUNT_TEXT_MAX];
    if (!round_to_micro(&micro, numerator, denominator)) {
        return weir_amount_print(amount, text);
    }
    struct weir_amount rounded = amount_of(micro, WEIR_UNIT);
    (void)weir_amount_print(&rounded, number);
    return snprintf(text, ABOUT_TEXT_MAX, "about %s", number);
}

/* Appends a digit to a number. False if it does not fit. */
static bool append_digit(uint128 *number, char c)
{
    if (*number > (UINT128_MAX - 9) / 10) {
        return false;
    }
    *number = *number * 10 + (unsigned)(c - '0');
    return true;
}

bool amount_parse(struct weir_amount *amount, const char *text, size_t length)
{
    uint128 numerator = 0;
    uint128 denominator = 1;
    char mark = '\0';  // the point or the slash, once it is behind us
    size_t digits = 0; // since then
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9') {
            bool fits = append_digit(mark == '/' ? &denominator : &numerator, c)
                        && (mark != '.' || append_digit(&denominator, '0'));
            if (!fits) {
                return false;
            }
            digits++;
        } else if ((c == '.' || c == '/') && mark == '\0' && digits > 0) {
            mark = c;
            digits = 0;
            denominator = c == '/' ? 0 : 1;
        } else {
            return false;
        }
    }
    if (digits == 0 || denominator == 0) {
        return false;
    }
    *amount = amount_of(numerator, denominator);
    return true;
}
