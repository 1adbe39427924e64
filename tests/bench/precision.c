/* SPDX-License-Identifier: MIT
 *
 * Row 19: how much of rate * time + capacity passes when far more is asked for, with the real
 * clock. Each line of input: one run at every rate; the figures are admitted / floor(r * t + b). */
#include "bench.h"
#include "weir/weir.h"

static double run_rate(uint64_t rate, double seconds)
{
    char text[64];
    struct weir_limiter_config config = {.memory_bytes = 1 << 20};
    struct weir_limiter *limiter;
    struct weir_rule rule;
    /* A tenth of a second of room: a pause of the measuring process then leaves no gap. */
    uint64_t capacity = rate < 100 ? 10 : rate / 10;
    snprintf(text, sizeof text, "%llu/s capacity=%llu", (unsigned long long)rate,
             (unsigned long long)capacity);
    if (weir_limiter_open(&limiter, &config, NULL) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, text, NULL) != WEIR_OK) {
        exit(1);
    }
    uint64_t interval_ns = 1000000000 / (rate * 40);
    uint64_t first = weir_clock_now_ns(), now = first, last = first, admitted = 0;
    uint64_t until = first + (uint64_t)(seconds * 1e9);
    bool refused = false;
    /* Not to end in a gap of the demand: after a pause of this process, what has drained meanwhile
     * must be asked for too. */
    for (uint64_t due = first; now < until || !refused; due += interval_ns) {
        while (now < due) { // 40 times the rate where the processor can; then as fast as it can
            now = weir_clock_now_ns();
        }
        refused =
            weir_limiter_take_at(limiter, &rule, "k", 1, WEIR_UNIT, now).verdict != WEIR_ALLOWED;
        admitted += !refused;
        last = now;
        now = weir_clock_now_ns();
    }
    weir_limiter_close(limiter);
    word16 ideal = (word16)(last - first) * rate / 1000000000 + capacity;
    return (double)admitted / (double)(uint64_t)ideal;
}

int main(void)
{
    while (next_round()) {
        print_figure("1/s", run_rate(1, 2.5));
        print_figure("10/s", run_rate(10, 1));
        print_figure("100/s", run_rate(100, 0.5));
        print_figure("1000/s", run_rate(1000, 0.5));
        print_figure("5000/s", run_rate(5000, 0.5));
        print_figure("10000/s", run_rate(10000, 0.5));
        print_figure("100000/s", run_rate(100000, 0.5));
        print_figure("1000000/s", run_rate(1000000, 0.5));
        print_figure("end", 0);
    }
    return 0;
}
