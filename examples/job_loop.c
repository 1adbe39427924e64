/* SPDX-License-Identifier: MIT
 *
 * Jobs that call somebody else's API, which allows 100 calls per second and 5 at once: before each
 * call the loop takes, and where it may not go on yet, it sleeps exactly as long as the answer says.
 * No polling, and no guessing.
 *
 *     job_loop [JOBS]      so many jobs, 12 unless said */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "weir/weir.h"

#define NS_PER_S 1000000000

static void sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

/* Returns true when this job may go. Another job may have been faster, so a sleeper asks again.
 * False where no waiting helps: a cost above the capacity, or a table full of live buckets. */
static bool wait_for_turn(struct weir_limiter *limiter, const struct weir_rule *rule)
{
    static const char KEY[] = "api.example.com";
    for (;;) {
        struct weir_decision decision =
            weir_limiter_take(limiter, rule, KEY, sizeof KEY - 1, WEIR_UNIT);
        if (decision.verdict == WEIR_ALLOWED) {
            return true;
        }
        if (decision.verdict != WEIR_LIMITED) {
            fprintf(stderr, "the limiter says %s: waiting would not help\n",
                    weir_verdict_word(decision.verdict));
            return false;
        }
        sleep_ns(decision.retry_after_ns);
    }
}

int main(int argc, char **argv)
{
    int job_count = argc > 1 ? atoi(argv[1]) : 12;
    struct weir_limiter *limiter;
    struct weir_rule rule;
    struct weir_error error;
    if (weir_limiter_open(&limiter, NULL, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, "100/s capacity=5", &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    uint64_t start_ns = weir_clock_now_ns();
    for (int job = 1; job <= job_count; job++) {
        if (!wait_for_turn(limiter, &rule)) {
            weir_limiter_close(limiter);
            return 1;
        }
        printf("job %d calls the API\n", job);
    }
    /* Five went at once; each of the others had to wait for a drip of its own, 10 ms apart. */
    int64_t least_ns = (job_count - 5) * INT64_C(10000000);
    int64_t took_ns = (int64_t)(weir_clock_now_ns() - start_ns);
    printf("never faster than 100 per second: %s\n", took_ns >= least_ns ? "yes" : "no");
    weir_limiter_close(limiter);
    return took_ns >= least_ns ? 0 : 1;
}
