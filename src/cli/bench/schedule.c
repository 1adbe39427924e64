/* SPDX-License-Identifier: MIT */
#include "cli/bench/schedule.h"

void schedule_init(struct schedule *schedule, const struct weir_limit_config *rate,
                   uint64_t worker_index, uint64_t worker_count)
{
    /* One request every P * 10^6 / N nanoseconds, in lowest terms. */
    uint64_t common = gcd64(rate->count_micro, rate->period_ns);
    uint64_t denominator = rate->count_micro / common;
    uint128 interval = (uint128)(rate->period_ns / common) * WEIR_UNIT; // in denominator-ths
    uint128 step = interval * worker_count;
    uint128 first = interval * worker_index;
    *schedule = (struct schedule){
        .denominator = denominator,
        .step = {(uint64_t)(step / denominator), (uint64_t)(step % denominator)},
        .due = {(uint64_t)(first / denominator), (uint64_t)(first % denominator)},
    };
}

void schedule_advance(struct schedule *schedule)
{
    schedule->due = span_add(schedule->due, schedule->step, schedule->denominator);
}
