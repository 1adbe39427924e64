/* SPDX-License-Identifier: MIT */
#include "cli/promise.h"

#include <assert.h>

#include "core/arith.h"

/* The largest products below: a count or capacity of 10^18 millionths, times a hundred years of
 * 3.2 * 10^18 ns, twice. */
_Static_assert(WEIR_MICRO_MAX <= UINT64_C(1000000000000000000)
                   && WEIR_SPAN_NS_MAX < UINT64_C(1) << 62,
               "two products of a count and a span fit 128 bits");

struct weir_amount promise_rate_per_s(const struct weir_limit_config *config)
{
    return amount_of((uint128)config->count_micro * 1000000000,
                     (uint128)config->period_ns * WEIR_UNIT);
}

struct weir_amount promise_drain_ns(const struct weir_limit_config *config, uint64_t cost_micro)
{
    assert(cost_micro <= WEIR_MICRO_MAX);
    return amount_of((uint128)cost_micro * config->period_ns, config->count_micro);
}

struct weir_amount promise_bound(const struct weir_limit_config *config, uint64_t window_ns)
{
    assert(window_ns <= WEIR_SPAN_NS_MAX);
    uint128 held = (uint128)config->capacity_micro * config->period_ns;
    uint128 leaked = (uint128)window_ns * config->count_micro;
    return amount_of(held + leaked, (uint128)config->period_ns * WEIR_UNIT);
}

bool promise_strict(struct weir_limit_config *strict, uint64_t count, uint64_t period_ns,
                    uint64_t burst)
{
    if (burst < 1 || burst >= count || count > WEIR_UNITS_MAX) {
        return false;
    }
    *strict = (struct weir_limit_config){
        .kind = WEIR_KIND_BUCKET,
        .count_micro = (count - burst) * WEIR_UNIT,
        .period_ns = period_ns,
        .capacity_micro = burst * WEIR_UNIT,
    };
    struct weir_limit unused;
    return weir_limit_init(&unused, strict, NULL) == WEIR_OK;
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
