/* SPDX-License-Identifier: MIT
 *
 * Threads that wait under several limits at once, in all orders, beside others that wait under one or do
 * not wait: every limit admits what it may and no more, everybody comes back, and no mark is left.
 *
 *     lines_together [soak]     a soak takes SOAK_MINUTES */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "limiter/limiter_state.h"
#include "store/table/table.h"

enum { THREADS = 8, LIMITS = 4, TOGETHER_MIN = 20 };

#define RUN_NS UINT64_C(400000000)

/* So many per millisecond drain, and so many fit. */
static const struct {
    const char *text;
    uint64_t count, capacity;
} LIMIT[LIMITS] = {{"3/ms capacity=2", 3, 2},
                   {"5/ms capacity=1", 5, 1},
                   {"2/ms capacity=4", 2, 4},
                   {"queue 4/ms capacity=8", 4, 8}};

/* The same lines in memory that processes share, where all have a place. */
#ifdef LINES_SHARED
#define ROUND_CONFIG .memory_bytes = 1 << 18, .store = "memory:?shared=yes"
#else
#define ROUND_CONFIG .memory_bytes = 1 << 16
#endif

static struct weir_limiter *limiter;
static struct weir_rule rules[LIMITS];
static uint64_t admitted[LIMITS], together_count, end_ns; // atomic, but for the last

struct thread {
    pthread_t thread;
    uint64_t random;
};

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static uint64_t below(struct thread *thread, uint64_t limit)
{
    thread->random ^= thread->random << 13; // xorshift64, G. Marsaglia, 2003
    thread->random ^= thread->random >> 7;
    thread->random ^= thread->random << 17;
    return (thread->random >> 16) % limit;
}

/* Some of the limits, each once, from one of them on. */
static size_t choose(struct thread *thread, struct weir_request *requests, size_t *which)
{
    uint64_t wanted = 1 + below(thread, (1 << LIMITS) - 1);
    size_t first = below(thread, LIMITS);
    size_t count = 0;
    for (size_t i = 0; i < LIMITS; i++) {
        size_t limit = (first + i) % LIMITS;
        if ((wanted >> limit & 1) != 0) {
            which[count] = limit;
            requests[count++] = (struct weir_request){
                .rule = &rules[limit], .key = "key", .key_len = 3, .cost_micro = WEIR_UNIT};
        }
    }
    for (size_t i = 0; i + 1 < count; i++) {
        requests[i].and_next = true;
    }
    return count;
}

/* For a while; longer on a machine that is so slow, or so busy, that nothing has happened yet. */
static bool goes_on(void)
{
    uint64_t now_ns = weir_limiter_now_ns(limiter);
    bool has_happened = __atomic_load_n(&together_count, __ATOMIC_RELAXED) > TOGETHER_MIN;
    return now_ns < end_ns || (!has_happened && now_ns < end_ns + 50 * RUN_NS);
}

static void *work(void *argument)
{
    struct thread *thread = argument;
    while (goes_on()) {
        struct weir_request requests[LIMITS];
        struct weir_decision decisions[LIMITS];
        size_t which[LIMITS];
        size_t count = choose(thread, requests, which);
        uint64_t wait_ns = below(thread, 3) == 0 ? 0 : 1 + below(thread, 20000000);
        weir_limiter_acquire_all(limiter, requests, decisions, count, wait_ns);
        struct weir_decision all = weir_decision_of_all(decisions, count, NULL);
        require(all.verdict != WEIR_FAILED, "it is decided");
        for (size_t i = 0; i < count && all.verdict == WEIR_ALLOWED; i++) {
            (void)__atomic_add_fetch(&admitted[which[i]], 1, __ATOMIC_RELAXED);
        }
        if (all.verdict == WEIR_ALLOWED && count > 1 && wait_ns > 0) {
            (void)__atomic_add_fetch(&together_count, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void check_marks(void)
{
    const struct table *table = (const struct table *)limiter->store;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            require((table->lines[i].states[slot].word & (BUCKET_LINE | BUCKET_MARKED)) == 0,
                    "no mark is left");
        }
    }
}

static void run(uint64_t seed)
{
    struct weir_limiter_config config = {ROUND_CONFIG, .seed = {1, seed}};
    struct thread threads[THREADS];
    struct lines_stats stats;
    require(weir_limiter_open(&limiter, &config, NULL) == WEIR_OK, "a limiter");
    for (int i = 0; i < LIMITS; i++) {
        require(weir_rule_from_text(&rules[i], limiter, LIMIT[i].text, NULL) == WEIR_OK, "a limit");
        admitted[i] = 0;
    }
    together_count = 0;
    uint64_t begin_ns = weir_limiter_now_ns(limiter);
    end_ns = begin_ns + RUN_NS;
    for (uint64_t i = 0; i < THREADS; i++) {
        threads[i].random = UINT64_C(0x9e3779b97f4a7c15) * (seed * 16 + i + 1);
        require(pthread_create(&threads[i].thread, NULL, work, &threads[i]) == 0, "a thread");
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i].thread, NULL);
    }
    uint64_t span_ns = weir_limiter_now_ns(limiter) - begin_ns;
    for (int i = 0; i < LIMITS; i++) {
        require(admitted[i] <= LIMIT[i].capacity + LIMIT[i].count * (span_ns / 1000000 + 1),
                "admitted <= C + T * N / P");
        printf("%s: %" PRIu64 " in %" PRIu64 " ms\n", LIMIT[i].text, admitted[i],
               span_ns / 1000000);
    }
    lines_read_stats(limiter->lines, &stats);
    require(stats.waiting_count == 0 && stats.line_count == 0, "nobody waits");
    require(together_count > TOGETHER_MIN, "something happened");
    check_marks();
    weir_limiter_close(limiter);
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    const char *minutes = getenv("SOAK_MINUTES");
    time_t end = time(NULL) + (is_soak ? (minutes != NULL ? atol(minutes) : 1) * 60 : 0);
    uint64_t seed = is_soak ? (uint64_t)end : 1;
    do {
        run(seed++);
    } while (time(NULL) < end);
    return 0;
}
