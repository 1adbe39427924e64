/* SPDX-License-Identifier: MIT
 *
 * Real threads on a small table, and then the books: what the callers were allowed, by their own
 * logs, against the bound of the limit.
 *
 *     stress [soak]
 *
 * For every key and all readings t1 <= t2 of takes that were allowed:
 *
 *     admitted in [t1, t2] - given back <= capacity + (t2 - t1) * rate
 *
 * That is checked for all windows at once, in one pass over a key's takes by their readings: let S be
 * what was charged up to some take, then S(t2) - t2 * rate must never exceed the smallest
 * S(before t1) - t1 * rate so far by more than the capacity. A late reading delays and never mints,
 * so this holds for late clocks too, each take counted at its own reading. By the real clock a caller
 * only knows readings before and after; the widest such span of a key is added to the window. What was
 * given back counts for all windows of its key: a refund's place between takes is not known.
 *
 * Rounds: takes with lagging clocks of the threads' own; takes by the real clock; and keys so many
 * that slots are reused all the time and the table is full at times. */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arith.h"
#include "weir/clock.h"
#include "weir/limiter.h"

enum {
    THREADS = 4,
    BATCH_MAX = 40,
    TURNS_MIN = 150, // of each, however slow: so many fill the smallest table several times
    SOAK_TIMES = 60
};

#define ROUND_NS    (UINT64_C(600000000) / EVERY)
#define LATE_NS_MAX UINT64_C(4000000)

/* One take that was allowed, at most `span_ns` before `now_ns`; a refund, if the cost is 0. */
struct entry {
    uint64_t now_ns;
    uint64_t span_ns;
    uint32_t key;
    uint32_t cost; // units
};

struct round {
    const char *name;
    const char *limit;
    uint64_t memory_bytes;
    uint32_t hot_count;  // keys that one take in two goes to
    uint32_t cold_count; // keys beside them
    uint64_t
        late_ns; // up to LATE_NS_MAX: on a simulated clock, lagging by less than this; 0: the real one
    bool gives_back;       // one operation in eight is a refund of one unit
    bool is_full_at_times; // some requests are surely answered by on_full
};

struct worker {
    pthread_t thread;
    const struct round *round;
    struct weir_limiter *limiter;
    struct weir_rule rule;
    uint64_t random;
    uint64_t deadline_ns; // by the real clock
    struct entry *entries;
    size_t entry_count, entry_room;
    uint64_t failed_count;
    uint64_t refused_count;
};

static uint64_t shared_clock_ns; // of rounds with their own clock

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; // xorshift64, G. Marsaglia, 2003
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void log_entry(struct worker *worker, struct entry entry)
{
    if (worker->entry_count == worker->entry_room) {
        worker->entry_room = worker->entry_room * 2 + 1024;
        worker->entries = realloc(worker->entries, worker->entry_room * sizeof worker->entries[0]);
        assert(worker->entries != NULL);
    }
    worker->entries[worker->entry_count++] = entry;
}

/* The threads' own clock goes on with every batch, and each reads it late. */
static uint64_t own_reading(struct worker *worker)
{
    uint64_t now_ns = __atomic_add_fetch(&shared_clock_ns, next_random(&worker->random) % 20000,
                                         __ATOMIC_RELAXED);
    return now_ns - next_random(&worker->random) % worker->round->late_ns;
}

static void make_requests(struct worker *worker, struct weir_request *requests, uint32_t *keys,
                          size_t count)
{
    const struct round *round = worker->round;
    for (size_t i = 0; i < count; i++) {
        uint64_t random = next_random(&worker->random);
        bool is_hot = (random & 1) != 0 && round->hot_count != 0;
        keys[i] = is_hot ? (uint32_t)((random >> 8) % round->hot_count)
                         : round->hot_count + (uint32_t)((random >> 8) % round->cold_count);
        bool is_refund = round->gives_back && (random >> 1 & 7) == 0;
        requests[i] = (struct weir_request){
            .rule = &worker->rule,
            .key = &keys[i],
            .key_len = sizeof keys[i],
            .cost_micro = is_refund ? WEIR_UNIT : (1 + (random >> 4 & 1)) * WEIR_UNIT,
            .operation = is_refund ? WEIR_REFUND : WEIR_TAKE,
        };
    }
}

static void do_turn(struct worker *worker)
{
    struct weir_request requests[BATCH_MAX];
    struct weir_decision decisions[BATCH_MAX];
    uint32_t keys[BATCH_MAX];
    size_t count = 1 + next_random(&worker->random) % BATCH_MAX;
    make_requests(worker, requests, keys, count);
    uint64_t now_ns;
    uint64_t span_ns = 0;
    if (worker->round->late_ns != 0) {
        now_ns = own_reading(worker);
        weir_limiter_decide_at(worker->limiter, requests, decisions, count, now_ns);
    } else {
        uint64_t before_ns = weir_clock_now_ns();
        weir_limiter_decide(worker->limiter, requests, decisions, count);
        now_ns = weir_clock_now_ns();
        span_ns = now_ns - before_ns;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_take = requests[i].operation == WEIR_TAKE;
        uint32_t cost = is_take ? (uint32_t)(requests[i].cost_micro / WEIR_UNIT) : 0;
        worker->failed_count += decisions[i].verdict == WEIR_FAILED;
        worker->refused_count += decisions[i].verdict == WEIR_LIMITED;
        if (decisions[i].verdict == WEIR_ALLOWED) {
            log_entry(worker, (struct entry){now_ns, span_ns, keys[i], cost});
        }
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < TURNS_MIN || weir_clock_now_ns() < worker->deadline_ns;) {
        do_turn(worker);
        i += i < TURNS_MIN;
    }
    return NULL;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return left->now_ns < right->now_ns ? -1 : left->now_ns > right->now_ns;
}

__extension__ typedef __int128 wide;

/* One key's entries, by reading. Exactly: in denominator-ths of a nanosecond, of which a unit of cost is
 * worth `unit` and a nanosecond `rate`. */
static bool check_key(const struct entry *entries, size_t count, const struct weir_limit *limit)
{
    wide unit = (wide)limit->scale * (wide)WEIR_UNIT;
    wide rate = (wide)limit->denominator;
    wide room = (wide)limit->full_ns * rate + (wide)limit->full_rest;
    uint64_t span_ns = 0;
    for (size_t i = 0; i < count; i++) {
        span_ns = entries[i].span_ns > span_ns ? entries[i].span_ns : span_ns;
        room += entries[i].cost == 0 ? unit : 0;
    }
    room += (wide)span_ns * rate;
    wide charged = 0;
    wide lowest = 0;
    for (size_t i = 0; i < count; i++) {
        wide drained = (wide)entries[i].now_ns * rate;
        lowest = i == 0 || charged - drained < lowest ? charged - drained : lowest;
        charged += (wide)entries[i].cost * unit;
        if (charged - drained - lowest > room) {
            fprintf(stderr, "key %" PRIu32 ": too much admitted by %" PRIu64 "\n", entries[i].key,
                    entries[i].now_ns);
            return false;
        }
    }
    return true;
}

/* All logs together. */
static bool check_entries(struct entry *entries, size_t count, const struct weir_limit *limit)
{
    qsort(entries, count, sizeof entries[0], compare_entries);
    bool is_good = true;
    for (size_t start = 0, end; start < count; start = end) {
        end = start;
        while (end < count && entries[end].key == entries[start].key) {
            end++;
        }
        is_good = check_key(entries + start, end - start, limit) && is_good;
    }
    return is_good;
}

static struct entry *collect(const struct worker *workers, size_t *count)
{
    *count = 0;
    for (int i = 0; i < THREADS; i++) {
        *count += workers[i].entry_count;
    }
    struct entry *all = malloc((*count + 1) * sizeof *all);
    assert(all != NULL);
    size_t at = 0;
    for (int i = 0; i < THREADS; i++) {
        memcpy(all + at, workers[i].entries, workers[i].entry_count * sizeof *all);
        at += workers[i].entry_count;
        free(workers[i].entries);
    }
    return all;
}

/* What the round must have come to, beside the bound. */
static bool check_counts(const struct worker *workers, const struct weir_limiter_stats *stats,
                         const struct round *round)
{
    uint64_t failed = 0;
    uint64_t refused = 0;
    for (int i = 0; i < THREADS; i++) {
        failed += workers[i].failed_count;
        refused += workers[i].refused_count;
    }
    printf("  %" PRIu64 " refused, %" PRIu64 " without a slot; %" PRIu64 " of %" PRIu64
           " slots used, %" PRIu64 " reused\n",
           refused, failed, stats->used_count, stats->slot_count, stats->reused_count);
    if (failed != stats->full_count) {
        fprintf(stderr, "%s: counted %" PRIu64 " full answers\n", round->name, stats->full_count);
        return false;
    }
    if (round->is_full_at_times && failed == 0) {
        fprintf(stderr, "%s: the table was never full\n", round->name);
        return false;
    }
    return refused != 0 && stats->used_count <= stats->slot_count;
}

static bool start_workers(struct worker *workers, const struct round *round,
                          struct weir_limiter *limiter, uint64_t seed)
{
    uint64_t deadline_ns = weir_clock_now_ns() + ROUND_NS;
    shared_clock_ns = 1000 * LATE_NS_MAX;
    for (int i = 0; i < THREADS; i++) {
        struct weir_error error;
        workers[i] = (struct worker){.round = round,
                                     .limiter = limiter,
                                     .deadline_ns = deadline_ns,
                                     .random = UINT64_C(0x9e3779b97f4a7c15) * (seed + (uint64_t)i)};
        if (weir_rule_from_text(&workers[i].rule, limiter, round->limit, &error) != WEIR_OK) {
            fprintf(stderr, "%s\n", error.message);
            return false;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        int failed = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        assert(failed == 0);
        (void)failed;
    }
    return true;
}

static bool run_round(const struct round *round, uint64_t seed)
{
    static struct worker workers[THREADS];
    struct weir_limiter_config config = {.memory_bytes = round->memory_bytes, .seed = {1, seed}};
    struct weir_limiter *limiter;
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return false;
    }
    if (!start_workers(workers, round, limiter, seed)) {
        return false;
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    size_t count;
    struct entry *entries = collect(workers, &count);
    printf("%s, seed %" PRIu64 ": %zu takes and refunds admitted\n", round->name, seed, count);
    bool is_good = check_counts(workers, &stats, round);
    is_good = check_entries(entries, count, &workers[0].rule.limit) && is_good;
    free(entries);
    weir_limiter_close(limiter);
    return is_good;
}

int main(int argc, char **argv)
{
    static const struct round ROUNDS[] = {
        {"one hot key, late clocks", "1/us capacity=20", 1 << 16, 1, 40, 8000, false, false},
        {"hot keys, late clocks", "1/50us capacity=50", 1 << 20, 7, 400, 4000000, false, false},
        {"refunds, late clocks", "3/7us capacity=11", 1 << 20, 7, 400, 100000, true, false},
        {"reuse, late clocks", "1/2ms capacity=5", 1 << 16, 16, 60000, 4000000, false, true},
        {"reuse, the real clock", "1/ms capacity=5", 1 << 16, 16, 60000, 0, false, false},
        {"hot keys, the real clock", "1000/s capacity=20", 1 << 16, 3, 40, 0, false, false},
    };
    int times = argc > 1 && strcmp(argv[1], "soak") == 0 ? SOAK_TIMES : 1;
    uint64_t seed = 1;
    bool is_good = true;
    for (int time = 0; time < times; time++) {
        for (size_t i = 0; i < sizeof ROUNDS / sizeof ROUNDS[0]; i++) {
            is_good = run_round(&ROUNDS[i], seed++) && is_good;
        }
    }
    return is_good ? 0 : 1;
}
