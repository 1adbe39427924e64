/* SPDX-License-Identifier: MIT
 *
 * Threads take from the same few buckets, singly and several at once, give back and look; and every answer
 * must be explained by some serial order.
 *
 *     histories [soak]
 *
 * They meet before each window of a few operations. Each operation is stamped when it begins and when it
 * has answered, so one that ended before another began comes before it. Then one thread looks for an order
 * of the window's operations in which the core gives the very same answers (J. Wing, C. Gong, "Testing and
 * verifying concurrent objects", 1993), and which leads to where the buckets stand. Windows have keys of
 * their own, all drained by the next one, so buckets are made and slots reused all the time. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/weir.h"

enum {
    THREADS = 3,
    EACH = 3, // operations of a thread in a window
    COUNT = THREADS * EACH,
    KEYS = 3,
    WINDOWS = 30000 / EVERY,
    WINDOWS_SOAK = 1000000,
};

#define HOUR UINT64_C(3600000000000)

/* Of each key, in one window and the next: usual takes, fractions, logs of events, and all of them. */
enum { MIXES = 4 };
static const char *const LIMITS[MIXES][KEYS] = {
    {"1/s capacity=4", "1/s capacity=4", "1/s capacity=4"},
    {"7/3s capacity=5", "7/3s capacity=5", "7/3s capacity=5"},
    {"window 4/min", "window 5/s", "window 4/min"},
    {"window 4/min", "1/s capacity=4", "7/3s capacity=5"},
};

struct call {
    enum weir_operation operation;
    int key_count;
    int keys[KEYS];
    uint64_t cost_micro;
    uint64_t begun, ended; // stamps
    struct weir_decision answers[KEYS];
};

static struct weir_limiter *limiter;
static struct weir_rule rules[MIXES][KEYS];
static const struct weir_rule *rule_of; // of each key, in this window
static struct call calls[COUNT];
static pthread_barrier_t meeting;
static uint64_t stamp, window_count, window;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t now_ns(void)
{
    return (window + 1) * HOUR;
}

static void ask(struct call *call)
{
    uint64_t names[KEYS];
    struct weir_request requests[KEYS];
    for (int i = 0; i < call->key_count; i++) {
        names[i] = window * KEYS + (uint64_t)call->keys[i];
        requests[i] = (struct weir_request){.rule = &rule_of[call->keys[i]],
                                            .key = &names[i],
                                            .key_len = sizeof names[i],
                                            .cost_micro = call->cost_micro,
                                            .operation = call->operation,
                                            .and_next = i + 1 < call->key_count};
    }
    call->begun = __atomic_fetch_add(&stamp, 1, __ATOMIC_SEQ_CST);
    weir_limiter_decide_at(limiter, requests, call->answers, (size_t)call->key_count, now_ns());
    call->ended = __atomic_fetch_add(&stamp, 1, __ATOMIC_SEQ_CST);
}

/* One key or more, in any order. */
static void invent(struct call *call, uint64_t *random)
{
    static const enum weir_operation SINGLE[] = {WEIR_TAKE, WEIR_TAKE, WEIR_REFUND, WEIR_SHOW,
                                                 WEIR_RESET};
    int first = (int)(next_random(random) % KEYS);
    int step = 1 + (int)(next_random(random) % (KEYS - 1));
    bool is_single = next_random(random) % 3 == 0;
    call->key_count = is_single ? 1 : 2 + (int)(next_random(random) % (KEYS - 1));
    for (int i = 0; i < KEYS; i++) {
        call->keys[i] = (first + i * step) % KEYS;
    }
    call->cost_micro = (1 + next_random(random) % 2) * WEIR_UNIT;
    call->operation = is_single                      ? SINGLE[next_random(random) % 5]
                      : next_random(random) % 4 == 0 ? WEIR_CAN_TAKE
                                                     : WEIR_TAKE;
}

/* ---- the search ---- */

/*   levels  of windows. All happens at one reading: what they let through stays for a whole period */
struct state {
    struct weir_bucket buckets[KEYS];
    uint64_t levels[KEYS];
};

static bool is_same(const struct weir_decision *a, const struct weir_decision *b)
{
    return a->verdict == b->verdict && a->remaining == b->remaining
           && a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns;
}

static struct weir_decision act_on_window(uint64_t *level, const struct weir_limit *limit,
                                          const struct call *call)
{
    uint64_t cost = call->cost_micro / WEIR_UNIT;
    enum weir_operation operation = call->operation;
    bool asks = operation == WEIR_TAKE || operation == WEIR_CAN_TAKE;
    bool is_limited = asks && *level + cost > limit->capacity;
    if (operation == WEIR_REFUND) { // what has passed has passed
        return (struct weir_decision){
            .verdict = WEIR_FAILED, .retry_after_ns = -1, .reset_after_ns = -1};
    }
    *level = operation == WEIR_RESET ? 0 : asks && !is_limited ? *level + cost : *level;
    return (struct weir_decision){.verdict = is_limited ? WEIR_LIMITED : WEIR_ALLOWED,
                                  .remaining = limit->capacity - *level,
                                  .retry_after_ns = is_limited ? (int64_t)limit->full_ns : -1,
                                  .reset_after_ns = *level > 0 ? (int64_t)limit->full_ns : 0};
}

/* Of a question it says where the bucket would stand, and leaves it there. */
static struct weir_decision act(struct state *state, int key, const struct call *call)
{
    const struct weir_limit *limit = &rule_of[key].limit;
    struct weir_bucket *bucket = &state->buckets[key];
    if (limit->kind == WEIR_KIND_WINDOW) {
        return act_on_window(&state->levels[key], limit, call);
    }
    switch (call->operation) {
    case WEIR_TAKE: return weir_bucket_take(bucket, limit, call->cost_micro, now_ns());
    case WEIR_CAN_TAKE: return weir_bucket_can_take(bucket, limit, call->cost_micro, now_ns());
    case WEIR_REFUND: return weir_bucket_refund(bucket, limit, call->cost_micro, now_ns());
    case WEIR_RESET: return weir_bucket_refund(bucket, limit, WEIR_COST_MAX, now_ns());
    case WEIR_FILL:
    case WEIR_SHOW:
    case WEIR_BLOCK:
    case WEIR_UNBLOCK: break;
    }
    return weir_bucket_show(bucket, limit, now_ns(), NULL);
}

static const struct call LOOK = {.operation = WEIR_SHOW};

/* Whether the core answers so, all or nothing; then *state is where that leads. */
static bool explains(struct state *state, const struct call *call)
{
    struct state after = *state;
    struct weir_decision decisions[KEYS];
    bool agree = true;
    for (int i = 0; i < call->key_count; i++) {
        decisions[i] = act(&after, call->keys[i], call);
        agree = agree && decisions[i].verdict == WEIR_ALLOWED;
    }
    for (int i = 0; i < call->key_count; i++) {
        if (!agree && decisions[i].verdict == WEIR_ALLOWED) {
            decisions[i] = act(state, call->keys[i], &LOOK);
        }
        if (!is_same(&decisions[i], &call->answers[i])) {
            return false;
        }
    }
    *state = agree && call->operation != WEIR_CAN_TAKE ? after : *state;
    return true;
}

/* Where the buckets stand. */
static bool is_end(const struct state *state)
{
    bool same = true;
    for (int key = 0; key < KEYS; key++) {
        struct call look = {.operation = WEIR_SHOW, .key_count = 1, .keys = {key}};
        struct state copy = *state;
        struct weir_decision expected = act(&copy, key, &LOOK);
        ask(&look);
        same = same && is_same(&expected, &look.answers[0]);
    }
    return same;
}

/* Whether the calls that are left can come after what was `done`, a bit for each. */
static bool search(const struct state *state, uint64_t done)
{
    if (done == (UINT64_C(1) << COUNT) - 1) {
        return is_end(state);
    }
    for (int i = 0; i < COUNT; i++) {
        bool may_be_next = (done >> i & 1) == 0;
        for (int j = 0; j < COUNT; j++) {
            may_be_next =
                may_be_next && ((done >> j & 1) != 0 || calls[j].ended > calls[i].begun || i == j);
        }
        struct state after = *state;
        if (may_be_next && explains(&after, &calls[i]) && search(&after, done | UINT64_C(1) << i)) {
            return true;
        }
    }
    return false;
}

static void print_calls(void)
{
    static const char *const NAMES[] = {"take", "can_take", "fill", "refund", "show", "reset"};
    for (int i = 0; i < COUNT; i++) {
        const struct call *call = &calls[i];
        printf("thread %d, %" PRIu64 " .. %" PRIu64 ": %s", i / EACH, call->begun, call->ended,
               NAMES[call->operation]);
        for (int j = 0; j < call->key_count; j++) {
            printf(" %c: %s, %" PRIu64 " left", 'A' + call->keys[j],
                   weir_verdict_word(call->answers[j].verdict), call->answers[j].remaining);
        }
        printf("\n");
    }
}

static void check(void)
{
    struct state state;
    memset(&state, 0, sizeof state);
    if (!search(&state, 0)) {
        printf("window %" PRIu64 ": no serial order explains these answers\n", window);
        print_calls();
        exit(1);
    }
}

static void *run(void *argument)
{
    int thread = *(int *)argument;
    uint64_t random = (uint64_t)thread * 7919 + 17;
    while (window < window_count) {
        for (int i = 0; i < EACH; i++) {
            invent(&calls[thread * EACH + i], &random);
        }
        (void)pthread_barrier_wait(&meeting);
        for (int i = 0; i < EACH; i++) {
            ask(&calls[thread * EACH + i]);
        }
        (void)pthread_barrier_wait(&meeting);
        if (thread == 0) {
            check();
            window++;
            rule_of = rules[window % MIXES];
        }
        (void)pthread_barrier_wait(&meeting);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct weir_limiter_config config = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                         .caller_clock = true};
    int numbers[THREADS];
    pthread_t threads[THREADS];
    window_count = argc > 1 && strcmp(argv[1], "soak") == 0 ? WINDOWS_SOAK : WINDOWS;
    if (weir_limiter_open(&limiter, &config, NULL) != WEIR_OK) {
        return 1;
    }
    for (int i = 0; i < MIXES * KEYS; i++) {
        const char *limit = LIMITS[i / KEYS][i % KEYS];
        if (weir_rule_from_text(&rules[i / KEYS][i % KEYS], limiter, limit, NULL) != WEIR_OK) {
            return 1;
        }
    }
    rule_of = rules[0];
    (void)pthread_barrier_init(&meeting, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        (void)pthread_create(&threads[i], NULL, run, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    printf("%" PRIu64 " windows of %d operations; %" PRIu64 " slots used, %" PRIu64
           " times again\n",
           window_count, COUNT, stats.used_count, stats.reused_count);
    (void)pthread_barrier_destroy(&meeting);
    weir_limiter_close(limiter);
    return 0;
}
