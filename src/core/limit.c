/* SPDX-License-Identifier: MIT
 *
 * Compiling a limit: from what a person configured to the integers that decisions are made of. */
#include "weir/limit.h"

#include <string.h>

#include "core/bucket_math.h"
#include "core/fail.h"
#include "core/fixed_math.h"

static bool in_range(uint64_t value, uint64_t max)
{
    return value >= 1 && value <= max;
}

static bool knows_words(const struct weir_limit_config *config)
{
    bool has_first = config->first == WEIR_FIRST_INTERVAL
                     || (config->kind == WEIR_KIND_QUEUE && config->first == WEIR_FIRST_NOW);
    return config->kind >= WEIR_KIND_BUCKET && config->kind <= WEIR_KIND_WINDOW && has_first
           && config->on_full >= WEIR_ON_FULL_REFUSE && config->on_full <= WEIR_ON_FULL_EVICT
           && config->on_error >= WEIR_ON_ERROR_REFUSE && config->on_error <= WEIR_ON_ERROR_ALLOW;
}

/* Only a fixed limit goes by months, and then its period says how long so many are on average. */
static bool months_agree(const struct weir_limit_config *config)
{
    return config->period_months == 0
           || (config->kind == WEIR_KIND_FIXED
               && config->period_ns == config->period_months * WEIR_MONTH_NS);
}

/* What each number and each word must be by itself. */
static enum weir_status check(const struct weir_limit_config *config, struct weir_error *error)
{
    if (!in_range(config->count_micro, WEIR_MICRO_MAX)) {
        return fail(error, WEIR_E_RANGE, 0, "the count must be 0.000001 to 1000000000000");
    }
    if (!in_range(config->period_ns, WEIR_SPAN_NS_MAX)) {
        return fail(error, WEIR_E_RANGE, 0, "the period must be 1 ns to 100 years");
    }
    if (!in_range(config->capacity_micro, WEIR_MICRO_MAX)) {
        return fail(error, WEIR_E_RANGE, 0, "the capacity must be 0.000001 to 1000000000000");
    }
    if (!knows_words(config)) {
        return fail(error, WEIR_E_RANGE, 0,
                    "the kind, first, on_full or on_error is none of its values");
    }
    if (!months_agree(config)) {
        return fail(error, WEIR_E_RANGE, 0, "the months and the period do not agree");
    }
    if (config->waiting > WEIR_WAITING_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "waiting must be 0 to 1000000");
    }
    if (config->block_ns > WEIR_BLOCK_NS_MAX && config->block_ns != WEIR_BLOCK_UNTIL_EMPTY) {
        return fail(error, WEIR_E_RANGE, 0, "a block must be 1 ns to 100 years");
    }
    return WEIR_OK;
}

static enum weir_status fail_slow(struct weir_error *error)
{
    return fail(error, WEIR_E_RANGE, 0, "a full bucket would take more than 100 years to empty");
}

/* Buckets and queues: bucket_math.h. */
static enum weir_status compile_bucket(struct weir_limit *limit,
                                       const struct weir_limit_config *config,
                                       struct weir_error *error)
{
    uint64_t common = gcd64(config->count_micro, config->period_ns);
    limit->denominator = config->count_micro / common;
    limit->scale = config->period_ns / common;
    if (limit->denominator > WEIR_DENOMINATOR_MAX) {
        return fail(error, WEIR_E_INEXACT, 0,
                    "the rate cannot be represented exactly: in lowest terms it needs a numerator"
                    " below 2^40; use a rounder count");
    }
    uint64_t held_micro =
        config->capacity_micro + (config->first == WEIR_FIRST_NOW ? WEIR_UNIT : 0);
    uint128 full = (uint128)held_micro * limit->scale; // in denominator-ths of a nanosecond
    if (full > (uint128)WEIR_SPAN_NS_MAX * limit->denominator) {
        return fail_slow(error);
    }
    limit->full_ns = (uint64_t)(full / limit->denominator);
    limit->full_rest = (uint64_t)(full % limit->denominator);
    if (config->capacity_micro >= WEIR_UNIT) {
        struct span unit = span_of_cost(limit, WEIR_UNIT);
        limit->unit_ns = unit.ns;
        limit->unit_rest = unit.rest;
        bool is_bucket = config->kind == WEIR_KIND_BUCKET; // the usual one
        if (unit.rest == 0 && limit->full_rest == 0) {
            limit->whole_unit_ns = is_bucket ? unit.ns : 0;
            limit->whole_unit_reciprocal = UINT64_MAX / unit.ns; // at least 1: a cost takes time
        }
    }
    if (limit->scale <= UINT64_MAX / WEIR_UNIT) {
        limit->unit_divisor = limit->scale * WEIR_UNIT; // at least 10^6, so the reciprocal fits
        limit->unit_reciprocal = (uint64_t)(((uint128)1 << 64) / limit->unit_divisor);
    }
    return WEIR_OK;
}

/* As stepped_math.h wants it: count and period as they are. */
static enum weir_status compile_stepped(struct weir_limit *limit,
                                        const struct weir_limit_config *config,
                                        struct weir_error *error)
{
    if (config->count_micro > WEIR_DENOMINATOR_MAX) {
        return fail(error, WEIR_E_INEXACT, 0,
                    "the count of a stepped limit must be at most 1099511.627775");
    }
    limit->denominator = config->count_micro;
    limit->scale = config->period_ns;
    uint64_t periods = (config->capacity_micro - 1) / limit->denominator + 1;
    if (periods > WEIR_SPAN_NS_MAX / limit->scale) {
        return fail_slow(error);
    }
    limit->full_ns = periods * limit->scale;
    limit->full_rest = periods * limit->denominator - config->capacity_micro; // the slack
    return WEIR_OK;
}

/* What lets a count pass in a period holds that count. */
static enum weir_status check_capacity(const struct weir_limit_config *config, const char *kind,
                                       struct weir_error *error)
{
    if (config->capacity_micro != config->count_micro) {
        return fail(error, WEIR_E_RANGE, 0,
                    "a %s limit holds its count, and nothing else: leave the capacity out", kind);
    }
    return WEIR_OK;
}

/* So do fixed and sliding limits, and a state may last two of their periods. */
static enum weir_status check_counted(const struct weir_limit_config *config, const char *kind,
                                      struct weir_error *error)
{
    enum weir_status status = check_capacity(config, kind, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (config->period_ns > WEIR_WINDOW_NS_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "the period of a %s limit must be at most 50 years",
                    kind);
    }
    return WEIR_OK;
}

/* As fixed_math.h wants it. */
static enum weir_status compile_fixed(struct weir_limit *limit,
                                      const struct weir_limit_config *config,
                                      struct weir_error *error)
{
    if (config->count_micro > WEIR_DENOMINATOR_MAX) {
        limit->grain_micro = WEIR_UNIT;
        if (config->count_micro % WEIR_UNIT != 0) {
            return fail(error, WEIR_E_INEXACT, 0,
                        "a fixed limit above 1099511.627775 counts whole units: make its count"
                        " whole");
        }
    }
    bool is_weeks = config->period_ns % (7 * (uint64_t)FIXED_NS_PER_DAY) == 0;
    limit->denominator = BUCKET_REST_MASK + 1;
    limit->scale = config->period_months != 0 ? config->period_months : config->period_ns;
    limit->calendar = config->period_months != 0 ? FIXED_BY_MONTHS
                      : is_weeks                 ? FIXED_FROM_MONDAY
                                                 : FIXED_FROM_EPOCH;
    return check_counted(config, "fixed", error);
}

/* As sliding_math.h wants it. */
static enum weir_status compile_sliding(struct weir_limit *limit,
                                        const struct weir_limit_config *config,
                                        struct weir_error *error)
{
    if (config->count_micro % WEIR_UNIT != 0
        || config->count_micro > WEIR_SLIDING_COUNT_MAX * WEIR_UNIT) {
        return fail(error, WEIR_E_INEXACT, 0,
                    "the count of a sliding limit must be a whole number, 1 to 1048575");
    }
    limit->denominator = BUCKET_REST_MASK + 1;
    limit->scale = config->period_ns;
    limit->grain_micro = WEIR_UNIT;
    return check_counted(config, "sliding", error);
}

/* As window_math.h wants it. */
static enum weir_status compile_window(struct weir_limit *limit,
                                       const struct weir_limit_config *config,
                                       struct weir_error *error)
{
    if (config->count_micro % WEIR_UNIT != 0
        || config->count_micro > WEIR_WINDOW_COUNT_MAX * WEIR_UNIT) {
        return fail(error, WEIR_E_INEXACT, 0,
                    "the count of a window must be a whole number, 1 to 1000000");
    }
    limit->denominator = BUCKET_REST_MASK + 1;
    limit->scale = config->period_ns;
    limit->full_ns = config->period_ns;
    limit->grain_micro = WEIR_UNIT;
    return check_capacity(config, "window", error);
}

/* Of a config whose numbers are in range. On failure *limit is half made. */
static enum weir_status compile(struct weir_limit *limit, const struct weir_limit_config *config,
                                struct weir_error *error)
{
    *limit = (struct weir_limit){
        .capacity_micro = config->capacity_micro,
        .capacity = config->capacity_micro / WEIR_UNIT,
        .kind = (uint8_t)config->kind,
        .on_full = (uint8_t)config->on_full,
        .on_error = (uint8_t)config->on_error,
        .first = (uint8_t)config->first,
        .waiting = config->waiting,
        .block_ns = config->block_ns,
        .grain_micro = 1,
    };
    switch (config->kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE: break;
    case WEIR_KIND_STEPPED: return compile_stepped(limit, config, error);
    case WEIR_KIND_FIXED: return compile_fixed(limit, config, error);
    case WEIR_KIND_SLIDING: return compile_sliding(limit, config, error);
    case WEIR_KIND_WINDOW: return compile_window(limit, config, error);
    }
    return compile_bucket(limit, config, error);
}

enum weir_status weir_limit_init(struct weir_limit *limit, const struct weir_limit_config *config,
                                 struct weir_error *error)
{
    enum weir_status status = check(config, error);
    status = status == WEIR_OK ? compile(limit, config, error) : status;
    if (status != WEIR_OK) {
        *limit = (struct weir_limit){0};
    }
    return status;
}

enum weir_status weir_limit_from_text(struct weir_limit *limit, const char *text,
                                      struct weir_error *error)
{
    struct weir_limit_config config;
    enum weir_status status = weir_limit_parse(&config, text, strlen(text), error);
    if (status != WEIR_OK) {
        *limit = (struct weir_limit){0};
        return status;
    }
    return weir_limit_init(limit, &config, error);
}
