/* SPDX-License-Identifier: MIT
 *
 * Threads on a few windows, by clocks that lag, in a pool for events that thousands of other keys keep full:
 * slots are reused, and chunks swept, all the time. Then the books:
 *
 *   - of no window more than N was let through in any P, by the instants that the answers gave, singly or
 *     several windows at once
 *   - whoever was told that there is no room was counted, and nobody else
 *   - when all has left every window lets N through again, and when all is forgotten no chunk is in use
 *
 *     windows [soak] */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/limiter.h"

enum { THREADS = 4, TAKES = 20000 / EVERY, HOT = 3, OTHERS = 6000, SOAK_TIMES = 60, COST_MAX = 4 };

#define MS          UINT64_C(1000000)
#define LATE_NS_MAX UINT64_C(60000)
#define STEP_NS_MAX 2000

/* One take of a hot key that was allowed. */
struct entry {
    uint64_t at_ns;
    uint32_t key, cost;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    struct entry entries[2 * TAKES];
    size_t entry_count;
    uint64_t limited_count, failed_count;
};

static struct weir_limiter *limiter;
static struct weir_rule hot, others;
static atomic_uint_fast64_t clock_ns;

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "windows: %s\n", what);
        abort();
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; // xorshift64, G. Marsaglia, 2003
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 8;
}

static struct weir_decision ask(const struct weir_rule *rule, enum weir_operation operation,
                                uint32_t key, uint32_t cost, uint64_t now_ns)
{
    struct weir_request request = {.rule = rule,
                                   .key = &key,
                                   .key_len = sizeof key,
                                   .cost_micro = cost * WEIR_UNIT,
                                   .operation = operation};
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, now_ns);
    return decision;
}

/* ---- the threads ---- */

static void take_hot(struct worker *worker, uint64_t now_ns)
{
    uint32_t key = (uint32_t)next_random(&worker->random) % HOT;
    uint32_t cost = 1 + (uint32_t)next_random(&worker->random) % COST_MAX;
    struct weir_decision decision = ask(&hot, WEIR_TAKE, key, cost, now_ns);
    if (decision.verdict == WEIR_ALLOWED) {
        uint64_t at_ns = now_ns + (uint64_t)decision.reset_after_ns - hot.limit.full_ns;
        require(at_ns >= now_ns, "an event from before its reading");
        worker->entries[worker->entry_count++] = (struct entry){at_ns, key, cost};
    }
    worker->limited_count += decision.verdict == WEIR_LIMITED;
    worker->failed_count += decision.verdict == WEIR_FAILED;
}

/* Two of the hot ones and one of the others, all or nothing. */
static void take_together(struct worker *worker, uint64_t now_ns)
{
    uint32_t first = (uint32_t)next_random(&worker->random) % HOT;
    uint32_t keys[3] = {first, HOT + (uint32_t)next_random(&worker->random) % OTHERS,
                        (first + 1) % HOT};
    struct weir_request requests[3];
    struct weir_decision each[3];
    for (int i = 0; i < 3; i++) {
        requests[i] = (struct weir_request){.rule = i == 1 ? &others : &hot,
                                            .key = &keys[i],
                                            .key_len = sizeof keys[i],
                                            .cost_micro = WEIR_UNIT,
                                            .and_next = i < 2};
    }
    weir_limiter_decide_at(limiter, requests, each, 3, now_ns);
    enum weir_verdict verdict = weir_decision_of_all(each, 3, NULL).verdict;
    for (int i = 0; i < 3 && verdict == WEIR_ALLOWED; i += 2) {
        uint64_t at_ns = now_ns + (uint64_t)each[i].reset_after_ns - hot.limit.full_ns;
        require(at_ns >= now_ns, "an event from before its reading");
        worker->entries[worker->entry_count++] = (struct entry){at_ns, keys[i], 1};
    }
    worker->limited_count += verdict == WEIR_LIMITED;
    worker->failed_count += verdict == WEIR_FAILED;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < TAKES; i++) {
        uint64_t step_ns = next_random(&worker->random) % STEP_NS_MAX;
        uint64_t now_ns = atomic_fetch_add_explicit(&clock_ns, step_ns, memory_order_relaxed);
        now_ns -= next_random(&worker->random) % LATE_NS_MAX;
        if (i % 4 == 0) {
            take_hot(worker, now_ns);
        } else if (i % 4 == 2) {
            take_together(worker, now_ns);
        } else {
            uint32_t key = HOT + (uint32_t)next_random(&worker->random) % OTHERS;
            enum weir_verdict verdict = ask(&others, WEIR_TAKE, key, 1, now_ns).verdict;
            worker->failed_count += verdict == WEIR_FAILED;
        }
    }
    return NULL;
}

/* ---- the books ---- */

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return (left->at_ns > right->at_ns) - (left->at_ns < right->at_ns);
}

/* Every window that ends with an event, of every key. Those that end elsewhere hold no more. */
static void check_entries(struct entry *entries, size_t count)
{
    qsort(entries, count, sizeof *entries, compare_entries);
    uint64_t sum = 0;
    for (size_t first = 0, last = 0; last < count; last++) {
        sum += entries[last].cost;
        while (entries[first].key != entries[last].key
               || entries[first].at_ns + hot.limit.full_ns <= entries[last].at_ns) {
            sum -= entries[first++].cost;
        }
        require(sum <= hot.limit.capacity, "more than N in some P");
    }
}

static void check_afterwards(void)
{
    uint64_t now_ns = atomic_load(&clock_ns) + 1000 * MS;
    uint32_t capacity = (uint32_t)hot.limit.capacity;
    for (uint32_t key = 0; key < HOT; key++) {
        require(ask(&hot, WEIR_TAKE, key, capacity, now_ns).verdict == WEIR_ALLOWED, "no room");
        require(ask(&hot, WEIR_TAKE, key, 1, now_ns).verdict == WEIR_LIMITED, "too much room");
        (void)ask(&hot, WEIR_RESET, key, 0, now_ns);
    }
    for (uint32_t key = HOT; key < HOT + OTHERS; key++) {
        (void)ask(&others, WEIR_RESET, key, 0, now_ns);
    }
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    require(stats.events_used_bytes == 0, "a chunk that nobody has is in use");
}

static void check_counts(const struct worker *workers)
{
    struct weir_limiter_stats stats;
    uint64_t limited_count = 0;
    uint64_t failed_count = 0;
    for (int i = 0; i < THREADS; i++) {
        limited_count += workers[i].limited_count;
        failed_count += workers[i].failed_count;
    }
    weir_limiter_stats(limiter, &stats);
    printf("  %" PRIu64 " refused, %" PRIu64 " found no room for an event; %" PRIu64
           " slots reused\n",
           limited_count, failed_count, stats.reused_count);
    require(failed_count == stats.full_count + stats.events_full_count, "not as many were counted");
    require(limited_count > 0 && stats.events_full_count > 0 && stats.reused_count > 0,
            "something never happened");
}

static void run(uint64_t seed)
{
    static struct worker workers[THREADS];
    static struct entry all[2 * THREADS * TAKES];
    const struct weir_limiter_config config = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                               .events_bytes = WEIR_EVENTS_BYTES_MIN,
                                               .seed = {1, seed},
                                               .caller_clock = true};
    size_t count = 0;
    require(weir_limiter_open(&limiter, &config, NULL) == WEIR_OK
                && weir_rule_from_text(&hot, limiter, "window 40/1ms", NULL) == WEIR_OK
                && weir_rule_from_text(&others, limiter, "window 2/50us", NULL) == WEIR_OK,
            "nothing to try");
    atomic_store(&clock_ns, 1000 * MS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].random = UINT64_C(0x9e3779b97f4a7c15) * (4 * seed + (uint64_t)i);
        workers[i].entry_count = workers[i].limited_count = workers[i].failed_count = 0;
        require(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        memcpy(all + count, workers[i].entries, workers[i].entry_count * sizeof *all);
        count += workers[i].entry_count;
    }
    printf("seed %" PRIu64 ": %zu events of %d windows admitted\n", seed, count, HOT);
    check_counts(workers);
    check_entries(all, count);
    check_afterwards();
    weir_limiter_close(limiter);
}

int main(int argc, char **argv)
{
    uint64_t times = argc > 1 && strcmp(argv[1], "soak") == 0 ? SOAK_TIMES : 2;
    for (uint64_t seed = 1; seed <= times; seed++) {
        run(seed);
    }
    return 0;
}
