/* SPDX-License-Identifier: MIT
 *
 * A gateway's limits in one decision: what a user may do, what his company has paid for, and what
 * the service behind can take, which its owner counts in any window of time. All are charged, or
 * none. A fourth limit is only being tried. Then a job that would rather wait than be refused, and
 * one user who is locked out. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "weir/weir.h"

enum { USER, COMPANY, TRIED, EVERYONE, LIMIT_COUNT };

static const char *const TEXTS[LIMIT_COUNT] = {"2/min", "5/min", "1/h", "window 6/h"};
static const char *const NAMES[LIMIT_COUNT] = {"the user", "the company", "the limit on trial",
                                               "the service"};

struct gateway {
    struct weir_limiter *limiter;
    struct weir_rule rules[LIMIT_COUNT]; /* read-only: threads may share it */
    unsigned would_refuse;               /* what the limit on trial would have done */
};

static int gateway_open(struct gateway *gateway, struct weir_error *error)
{
    *gateway = (struct gateway){0};
    if (weir_limiter_open(&gateway->limiter, NULL, error) != WEIR_OK) {
        return -1;
    }
    for (int i = 0; i < LIMIT_COUNT; i++) {
        if (weir_rule_from_text(&gateway->rules[i], gateway->limiter, TEXTS[i], error) != WEIR_OK) {
            return -1;
        }
    }
    return 0;
}

/* One request under all limits. The busiest key comes last. */
static struct weir_decision gateway_take(struct gateway *gateway, const char *user,
                                         const char *company, int *binding)
{
    const char *const keys[LIMIT_COUNT] = {user, company, user, "everyone"};
    struct weir_request requests[LIMIT_COUNT];
    struct weir_decision each[LIMIT_COUNT];
    for (int i = 0; i < LIMIT_COUNT; i++) {
        requests[i] = (struct weir_request){.rule = &gateway->rules[i],
                                            .key = keys[i],
                                            .key_len = strlen(keys[i]),
                                            .cost_micro = WEIR_UNIT,
                                            .and_next = i + 1 < LIMIT_COUNT,
                                            .shadow = i == TRIED};
    }
    weir_limiter_decide(gateway->limiter, requests, each, LIMIT_COUNT);
    gateway->would_refuse += each[TRIED].verdict != WEIR_ALLOWED;
    return weir_decision_of_run(requests, each, LIMIT_COUNT, binding);
}

static void ask(struct gateway *gateway, const char *user, const char *company)
{
    int binding;
    struct weir_decision decision = gateway_take(gateway, user, company, &binding);
    printf("%-10s %s", user, weir_verdict_word(decision.verdict));
    if (binding >= 0) {
        printf(" by %s: %" PRIu64 " of %" PRIu64 " remain", NAMES[binding], decision.remaining,
               decision.capacity);
    }
    putchar('\n');
}

/* Waits until both limits let it in at the same instant, at most a minute. */
static struct weir_decision wait_under_two(struct weir_limiter *limiter,
                                           const struct weir_rule *per_job,
                                           const struct weir_rule *for_all)
{
    struct weir_request requests[2] = {
        {.rule = per_job, .key = "report", .key_len = 6, .cost_micro = WEIR_UNIT, .and_next = true},
        {.rule = for_all, .key = "jobs", .key_len = 4, .cost_micro = WEIR_UNIT}};
    struct weir_decision each[2];
    weir_limiter_acquire_all(limiter, requests, each, 2, UINT64_C(60000000000));
    return weir_decision_of_all(each, 2, NULL);
}

static int wait_for_turns(struct weir_limiter *limiter, struct weir_error *error)
{
    struct weir_rule per_job, for_all;
    if (weir_rule_from_text(&per_job, limiter, "10/s capacity=1", error) != WEIR_OK
        || weir_rule_from_text(&for_all, limiter, "window 2/200ms", error) != WEIR_OK) {
        return -1;
    }
    uint64_t began_ns = weir_limiter_now_ns(limiter);
    int passed = 0;
    for (int i = 0; i < 4; i++) { /* at 0, 100, 200 and 300 ms, or later */
        passed += wait_under_two(limiter, &per_job, &for_all).verdict == WEIR_ALLOWED;
    }
    int took_its_time = weir_limiter_now_ns(limiter) - began_ns >= 300000000;
    printf("%d waited, %s\n", passed, took_its_time ? "and not too short" : "too short");
    return 0;
}

static void lock_out(struct gateway *gateway, const char *user, const char *company)
{
    const struct weir_rule *rule = &gateway->rules[USER];
    weir_limiter_block(gateway->limiter, rule, user, strlen(user), UINT64_C(3600000000000));
    ask(gateway, user, company);
    weir_limiter_unblock(gateway->limiter, rule, user, strlen(user));
    ask(gateway, user, company);
}

int main(void)
{
    struct gateway gateway;
    struct weir_error error;
    if (gateway_open(&gateway, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        ask(&gateway, "alice", "acme");
    }
    for (int i = 0; i < 2; i++) {
        ask(&gateway, "bob", "acme");
    }
    ask(&gateway, "carol", "acme");
    ask(&gateway, "dave", "acme");
    lock_out(&gateway, "erin", "umbrella");
    ask(&gateway, "frank", "umbrella");
    printf("the limit on trial would have refused %u\n", gateway.would_refuse);
    if (wait_for_turns(gateway.limiter, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    weir_limiter_close(gateway.limiter);
    return 0;
}
