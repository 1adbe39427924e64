/* SPDX-License-Identifier: MIT
 *
 * The kinds of limit side by side (row 36): takes that pass, over the same keys, of which there are few, so that
 * all is in the cache and nothing hides what a kind costs, or many.
 *
 *     kinds [KEYS]     one call at a time, and batches of 32 */
#include "bench.h"
#include "weir/weir.h"

enum { BATCH = 32, ROUND_COUNT = 1 << 20, KEY_BYTES = 16 };

static const double DESIGN_LOAD = 0.8;
static const char *const KINDS[] = {"bucket", "queue", "stepped", "fixed", "sliding"};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

struct key {
    uint64_t words[KEY_BYTES / sizeof(uint64_t)];
};

/* A kind, and the table of its own that holds its buckets. */
struct candidate {
    struct weir_limiter *limiter;
    struct weir_rule rule;
};

static uint64_t key_count = 1000;

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

/* So slow and so roomy that every take passes, and that every bucket lives for the whole run. */
static void open_candidate(struct candidate *candidate, const char *kind)
{
    char text[64];
    uint64_t bytes = (uint64_t)((double)key_count / DESIGN_LOAD) * 32;
    bytes = bytes > 1 << 20 ? bytes : 1 << 20;
    (void)snprintf(text, sizeof text, "%s 1000000/3650d", kind);
    const struct weir_limiter_config config = {.memory_bytes = bytes};
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

int main(int argc, char **argv)
{
    struct candidate candidates[KIND_COUNT];
    char name[32];
    key_count = argc > 1 ? strtoull(argv[1], NULL, 10) : key_count;
    for (int i = 0; i < KIND_COUNT; i++) {
        open_candidate(&candidates[i], KINDS[i]);
    }
    while (next_round()) {
        for (int i = 0; i < KIND_COUNT; i++) {
            (void)snprintf(name, sizeof name, "%s_single", KINDS[i]);
            print_figure(name, run_single(&candidates[i]));
            (void)snprintf(name, sizeof name, "%s_batch", KINDS[i]);
            print_figure(name, run_batch(&candidates[i]));
        }
        print_figure("end", 0);
    }
    for (int i = 0; i < KIND_COUNT; i++) {
        weir_limiter_close(candidates[i].limiter);
    }
    return 0;
}
