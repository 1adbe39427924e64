/* SPDX-License-Identifier: MIT
 *
 * One bucket that many threads take from at once: what they are given, all together, is what one
 * thread would have been given. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "weir/bucket.h"

enum { THREAD_COUNT = 4, ROUNDS = 10 / EVERY, TAKES = 200000 };

#define CAPACITY UINT64_C(300000)

/* What one thread does, and what it was given. */
struct taker {
    pthread_t thread;
    pthread_barrier_t *start;
    struct weir_shared_bucket *bucket;
    const struct weir_limit *limit;
    uint64_t step_ns; // between readings of its clock; 0: it stands still
    uint64_t cost_micro;
    uint64_t given_micro;
};

static void *take_many(void *context)
{
    struct taker *taker = context;
    (void)pthread_barrier_wait(taker->start);
    for (uint64_t i = 0; i < TAKES; i++) {
        struct weir_decision decision = weir_shared_bucket_take(
            taker->bucket, taker->limit, taker->cost_micro, 1000 + i * taker->step_ns);
        if (decision.verdict == WEIR_ALLOWED) {
            taker->given_micro += taker->cost_micro;
        }
    }
    return NULL;
}

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "does not hold: %s\n", what);
        exit(1);
    }
}

/* All threads at once; returns how much they were given. */
static uint64_t run(const struct weir_limit *limit, uint64_t step_ns, uint64_t cost_micro)
{
    struct weir_shared_bucket bucket = {{0, 0}};
    struct taker takers[THREAD_COUNT];
    pthread_barrier_t start;
    uint64_t given_micro = 0;
    require(pthread_barrier_init(&start, NULL, THREAD_COUNT) == 0, "a barrier");
    for (int i = 0; i < THREAD_COUNT; i++) {
        takers[i] = (struct taker){.start = &start,
                                   .bucket = &bucket,
                                   .limit = limit,
                                   .step_ns = step_ns,
                                   .cost_micro = cost_micro};
        require(pthread_create(&takers[i].thread, NULL, take_many, &takers[i]) == 0, "a thread");
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        require(pthread_join(takers[i].thread, NULL) == 0, "its end");
        given_micro += takers[i].given_micro;
    }
    (void)pthread_barrier_destroy(&start);
    require(weir_bucket_valid(&bucket.bucket), "the state is valid");
    return given_micro;
}

int main(void)
{
    struct weir_limit limit;
    struct weir_error error;
    if (weir_limit_from_text(&limit, "1/3ns capacity=300000", &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        /* At one instant: exactly the capacity, though more than twice of it is asked for. */
        require(run(&limit, 0, WEIR_UNIT) == CAPACITY * WEIR_UNIT, "exactly the capacity is given");
        require(run(&limit, 0, 700000) / 700000 == CAPACITY * WEIR_UNIT / 700000,
                "and not a fraction more");
        /* While time goes on: at most the capacity and what has drained meanwhile. */
        uint64_t drained_micro = (TAKES - 1) * WEIR_UNIT / 3;
        uint64_t given_micro = run(&limit, 1, WEIR_UNIT);
        require(given_micro <= CAPACITY * WEIR_UNIT + drained_micro, "given <= C + T * N / P");
        require(given_micro >= CAPACITY * WEIR_UNIT, "nothing is lost");
    }
    printf("%d rounds of %d threads\n", ROUNDS, THREAD_COUNT);
    return 0;
}
