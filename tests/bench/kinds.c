/* SPDX-License-Identifier: MIT
 *
 * The kinds of limit side by side (rows 36 and 38): takes under the same numbers, over the same keys, of which
 * there are few, so that all is in the cache and nothing hides what a kind costs, or many.
 *
 *     kinds KEYS COUNT/PERIOD KIND...     one call at a time, and batches of 32
 *
 * And what the events of a window take of memory, so far apart. */
#include "bench.h"
#include "weir/weir.h"

enum { BATCH = 32, ROUND_COUNT = 1 << 20, KEY_BYTES = 16, KIND_COUNT_MAX = 6, EVENT_COUNT = 30000 };

static const double DESIGN_LOAD = 0.8;
static const uint64_t EVENTS_BYTES = UINT64_C(1) << 28; // more than is used, which costs nothing

struct key {
    uint64_t words[KEY_BYTES / sizeof(uint64_t)];
};

/* A kind, and the table of its own that holds its buckets. */
struct candidate {
    struct weir_limiter *limiter;
    struct weir_rule rule;
};

static uint64_t key_count;

static struct key key_of(uint64_t index)
{
    return (struct key){{index * UINT64_C(0x9e3779b97f4a7c15), index}};
}

static double run_single(struct candidate *candidate)
{
    uint64_t random = 79;
    uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < ROUND_COUNT; i++) {
        struct key key = key_of(random_below(&random, key_count));
        struct weir_decision decision =
            weir_limiter_take(candidate->limiter, &candidate->rule, &key, sizeof key, WEIR_UNIT);
        keep(decision.remaining);
    }
    return (double)(cpu_ns() - start) / ROUND_COUNT;
}

static double run_batch(struct candidate *candidate)
{
    uint64_t random = 81;
    struct key keys[BATCH];
    struct weir_request requests[BATCH];
    struct weir_decision decisions[BATCH];
    for (int j = 0; j < BATCH; j++) {
        requests[j] = (struct weir_request){.rule = &candidate->rule,
                                            .key = &keys[j],
                                            .key_len = sizeof keys[j],
                                            .cost_micro = WEIR_UNIT,
                                            .operation = WEIR_TAKE};
    }
    uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < ROUND_COUNT; i += BATCH) {
        for (int j = 0; j < BATCH; j++) {
            keys[j] = key_of(random_below(&random, key_count));
        }
        weir_limiter_decide(candidate->limiter, requests, decisions, BATCH);
        keep(decisions[0].remaining);
    }
    return (double)(cpu_ns() - start) / ROUND_COUNT;
}

static void open_candidate(struct candidate *candidate, const char *kind, const char *rate)
{
    char text[64];
    uint64_t bytes = (uint64_t)((double)key_count / DESIGN_LOAD) * 32;
    bytes = bytes > 1 << 20 ? bytes : 1 << 20;
    (void)snprintf(text, sizeof text, "%s %s", kind, rate);
    const struct weir_limiter_config config = {.memory_bytes = bytes, .events_bytes = EVENTS_BYTES};
    if (weir_limiter_open(&candidate->limiter, &config, NULL) != WEIR_OK
        || weir_rule_from_text(&candidate->rule, candidate->limiter, text, NULL) != WEIR_OK) {
        exit(1);
    }
    for (uint64_t index = 0; index < key_count; index++) {
        struct key key = key_of(index);
        keep(weir_limiter_take(candidate->limiter, &candidate->rule, &key, sizeof key, WEIR_UNIT)
                 .remaining);
    }
}

/* What an event takes of memory. The newest chunk, which is being filled, is the constant. */
static double bytes_per_event(uint64_t gap_ns)
{
    const struct weir_limiter_config config = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                               .events_bytes = 16 * EVENT_COUNT,
                                               .caller_clock = true};
    struct candidate candidate;
    struct weir_limiter_stats before, after;
    if (weir_limiter_open(&candidate.limiter, &config, NULL) != WEIR_OK
        || weir_rule_from_text(&candidate.rule, candidate.limiter, "window 30001/36525d", NULL)
               != WEIR_OK) {
        exit(1);
    }
    (void)weir_limiter_take_at(candidate.limiter, &candidate.rule, "k", 1, WEIR_UNIT, 0);
    weir_limiter_stats(candidate.limiter, &before);
    for (uint64_t i = 1; i <= EVENT_COUNT; i++) {
        (void)weir_limiter_take_at(candidate.limiter, &candidate.rule, "k", 1, WEIR_UNIT,
                                   i * gap_ns);
    }
    weir_limiter_stats(candidate.limiter, &after);
    weir_limiter_close(candidate.limiter);
    return (double)(after.events_used_bytes - before.events_used_bytes) / EVENT_COUNT;
}

int main(int argc, char **argv)
{
    struct candidate candidates[KIND_COUNT_MAX];
    char name[32];
    if (argc < 4 || argc > 3 + KIND_COUNT_MAX) {
        return 2;
    }
    key_count = strtoull(argv[1], NULL, 10);
    int kind_count = argc - 3;
    const char *const *kinds = (const char *const *)argv + 3;
    for (int i = 0; i < kind_count; i++) {
        open_candidate(&candidates[i], kinds[i], argv[2]);
    }
    double day_bytes = bytes_per_event(UINT64_C(86400000000000));
    double second_bytes = bytes_per_event(UINT64_C(1000000000));
    while (next_round()) {
        for (int i = 0; i < kind_count; i++) {
            (void)snprintf(name, sizeof name, "%s_single", kinds[i]);
            print_figure(name, run_single(&candidates[i]));
            (void)snprintf(name, sizeof name, "%s_batch", kinds[i]);
            print_figure(name, run_batch(&candidates[i]));
        }
        print_figure("event_day", day_bytes);
        print_figure("event_second", second_bytes);
        print_figure("event_most", 8);
        print_figure("end", 0);
    }
    for (int i = 0; i < kind_count; i++) {
        weir_limiter_close(candidates[i].limiter);
    }
    return 0;
}
