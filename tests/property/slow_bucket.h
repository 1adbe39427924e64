/* SPDX-License-Identifier: MIT
 *
 * A slow, obvious bucket to compare the fast one with: a level and the instant at which it was true,
 * in 128-bit integers. It knows nothing of the moment at which the fast one is empty.
 *
 * Levels and costs are in parts: millionths of a unit times `scale`, so that a nanosecond drains
 * exactly `drain` parts, where drain / scale is the rate in lowest terms. */
#ifndef WEIR_TEST_SLOW_BUCKET_H
#define WEIR_TEST_SLOW_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/bucket.h"

/* GNU extension, as in src/core. */
__extension__ typedef __int128 int128;

struct slow_limit {
    int128 drain, scale, capacity;
};

struct slow_bucket {
    int128 level;
    int64_t at_ns;
    int128 drain; // of the limit that wrote it; 0: never written
};

struct slow_answer {
    enum weir_verdict verdict;
    int128 remaining, retry_after_ns, reset_after_ns;
    int128 level;   // after it, at its instant
    int128 charged; // parts; negative: given back
    bool full;
};

static inline struct slow_limit slow_limit_of(const struct weir_limit_config *config)
{
    uint64_t a = config->count_micro;
    uint64_t b = config->period_ns;
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    int128 scale = config->period_ns / a;
    return (struct slow_limit){config->count_micro / a, scale, config->capacity_micro * scale};
}

static inline int128 slow_ceil(int128 a, int128 b)
{
    return (a + b - 1) / b;
}

/* leak, then clamp at zero. An old reading makes the elapsed time negative. */
static inline int128 slow_level(const struct slow_bucket *bucket, const struct slow_limit *limit,
                                int64_t now_ns)
{
    int128 level = bucket->level;
    if (bucket->drain != 0 && bucket->drain != limit->drain) { // other numbers: the time stays
        int128 whole = level / bucket->drain;
        int128 rest = level % bucket->drain;
        level = rest < limit->drain ? whole * limit->drain + rest : (whole + 1) * limit->drain;
    }
    level -= ((int128)now_ns - bucket->at_ns) * limit->drain;
    return level > 0 ? level : 0;
}

static inline void slow_write(struct slow_bucket *bucket, const struct slow_limit *limit,
                              int64_t now_ns, int128 level)
{
    *bucket = (struct slow_bucket){level, now_ns, limit->drain};
}

static inline struct slow_answer slow_answer_of(const struct slow_limit *limit, int128 level)
{
    int128 room = limit->capacity - level;
    return (struct slow_answer){
        .verdict = WEIR_ALLOWED,
        .remaining = room > 0 ? room / (limit->scale * (int128)WEIR_UNIT) : 0,
        .retry_after_ns = -1,
        .reset_after_ns = slow_ceil(level, limit->drain),
        .level = level,
        .full = room <= 0,
    };
}

static inline struct slow_answer slow_take(struct slow_bucket *bucket,
                                           const struct slow_limit *limit, uint64_t cost_micro,
                                           int64_t now_ns)
{
    int128 cost = (int128)cost_micro * limit->scale;
    int128 level = slow_level(bucket, limit, now_ns);
    if (cost == 0) {
        return slow_answer_of(limit, level);
    }
    if (level + cost <= limit->capacity) {
        slow_write(bucket, limit, now_ns, level + cost);
        struct slow_answer answer = slow_answer_of(limit, level + cost);
        answer.charged = cost;
        return answer;
    }
    struct slow_answer answer = slow_answer_of(limit, level);
    answer.verdict = cost > limit->capacity ? WEIR_NEVER : WEIR_LIMITED;
    if (answer.verdict == WEIR_LIMITED) {
        answer.retry_after_ns = slow_ceil(level + cost - limit->capacity, limit->drain);
    }
    return answer;
}

static inline struct slow_answer slow_fill(struct slow_bucket *bucket,
                                           const struct slow_limit *limit, uint64_t cost_micro,
                                           int64_t now_ns)
{
    int128 cost = (int128)cost_micro * limit->scale;
    int128 level = slow_level(bucket, limit, now_ns);
    int128 room = level < limit->capacity ? limit->capacity - level : 0;
    int128 charged = cost < room ? cost : room;
    if (charged > 0) {
        slow_write(bucket, limit, now_ns, level + charged);
    }
    struct slow_answer answer = slow_answer_of(limit, level + charged);
    answer.charged = charged;
    return answer;
}

static inline struct slow_answer slow_refund(struct slow_bucket *bucket,
                                             const struct slow_limit *limit, uint64_t cost_micro,
                                             int64_t now_ns)
{
    int128 cost = (int128)cost_micro * limit->scale;
    int128 level = slow_level(bucket, limit, now_ns);
    int128 back = cost < level ? cost : level;
    if (back > 0) {
        slow_write(bucket, limit, now_ns, level - back);
    }
    struct slow_answer answer = slow_answer_of(limit, level - back);
    answer.charged = -back;
    return answer;
}

#endif
