/* SPDX-License-Identifier: MIT
 *
 * Workers that call somebody else's API, which allows 100 calls per second and 5 at once. Before each call
 * a worker stands in line: first come, first served, whichever thread it is. It sleeps until its turn;
 * nobody polls, and nobody guesses.
 *
 *     job_loop [JOBS]      so many jobs, 12 unless said */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "weir/weir.h"

#define WORKERS     3
#define TIMEOUT_NS  UINT64_C(60000000000) /* a minute */
#define INTERVAL_NS UINT64_C(10000000)    /* 100 per second */
#define BURST       5

static struct weir_limiter *limiter;
static struct weir_rule rule;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static int jobs_left, done_count;

static int next_job(void)
{
    pthread_mutex_lock(&mutex);
    int job = jobs_left > 0 ? jobs_left-- : 0;
    pthread_mutex_unlock(&mutex);
    return job;
}

static void call_api(int job)
{
    (void)job; /* here the real work would be done */
    pthread_mutex_lock(&mutex);
    done_count++;
    pthread_mutex_unlock(&mutex);
}

/* Refused is who would not be let in within the timeout, at once and not when it has passed. Never and
 * error are for those whom no wait helps: a cost above the capacity, a table full of live buckets. */
static void *work(void *unused)
{
    static const char KEY[] = "api.example.com";
    int job;
    while ((job = next_job()) != 0) {
        struct weir_decision decision =
            weir_limiter_acquire(limiter, &rule, KEY, sizeof KEY - 1, WEIR_UNIT, TIMEOUT_NS);
        if (decision.verdict == WEIR_ALLOWED) {
            call_api(job);
            continue;
        }
        fprintf(stderr, "job %d: the limiter says %s\n", job, weir_verdict_word(decision.verdict));
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct weir_error error;
    pthread_t threads[WORKERS];
    int job_count = argc > 1 ? atoi(argv[1]) : 12;
    jobs_left = job_count;
    if (weir_limiter_open(&limiter, NULL, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, "100/s capacity=5", &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    uint64_t start_ns = weir_clock_now_ns();
    for (int i = 0; i < WORKERS; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) {
            fprintf(stderr, "no thread\n");
            return 1;
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    /* Five went at once; each of the others had to wait for a drip of its own, 10 ms apart. */
    uint64_t took_ns = weir_clock_now_ns() - start_ns;
    uint64_t waited = job_count > BURST ? (uint64_t)(job_count - BURST) : 0;
    int is_even = took_ns >= waited * INTERVAL_NS;
    printf("%d of %d jobs have called the API\n", done_count, job_count);
    printf("never faster than 100 per second: %s\n", is_even ? "yes" : "no");
    weir_limiter_close(limiter);
    return is_even && done_count == job_count ? 0 : 1;
}
