/* SPDX-License-Identifier: MIT
 *
 * Many buckets by key, shared by threads: what a server in your own process does.
 *
 * Four threads hammer three users, each of whom may do 100 things a day. However the threads
 * interleave, exactly 100 of each user's 4000 attempts pass: every decision is one atomic step.
 * (The next drip comes after 14.4 minutes, long after this program has ended.) */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "weir/weir.h"

enum { THREAD_COUNT = 4, USER_COUNT = 3, ATTEMPT_COUNT = 1000 };

static const char *const USERS[USER_COUNT] = {"user:alice", "user:bob", "user:carol"};

struct worker {
    pthread_t thread;
    struct weir_limiter *limiter;
    const struct weir_rule *rule; /* read-only: all threads share it */
    unsigned passed[USER_COUNT];  /* this thread's own count */
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int attempt = 0; attempt < ATTEMPT_COUNT; attempt++) {
        for (int user = 0; user < USER_COUNT; user++) {
            struct weir_decision decision = weir_limiter_take(
                worker->limiter, worker->rule, USERS[user], strlen(USERS[user]), WEIR_UNIT);
            worker->passed[user] += decision.verdict == WEIR_ALLOWED;
        }
    }
    return NULL;
}

int main(void)
{
    struct weir_limiter *limiter;
    struct weir_rule rule;
    struct weir_error error;
    if (weir_limiter_open(&limiter, NULL, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, "100/d", &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    struct worker workers[THREAD_COUNT];
    for (int i = 0; i < THREAD_COUNT; i++) {
        workers[i] = (struct worker){.limiter = limiter, .rule = &rule};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "no more threads\n");
            return 1;
        }
    }
    unsigned passed[USER_COUNT] = {0};
    for (int i = 0; i < THREAD_COUNT; i++) {
        pthread_join(workers[i].thread, NULL);
        for (int user = 0; user < USER_COUNT; user++) {
            passed[user] += workers[i].passed[user];
        }
    }
    for (int user = 0; user < USER_COUNT; user++) {
        printf("%-10s  %u of %d passed\n", USERS[user], passed[user], THREAD_COUNT * ATTEMPT_COUNT);
    }
    weir_limiter_close(limiter);
    return 0;
}
