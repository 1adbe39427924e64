/* SPDX-License-Identifier: MIT
 *
 * Threads that take while others block the key and let it in, in real memory, while slots are reused.
 *
 *   by hand   one thread blocks and unblocks, and says when it has; whoever began and ended in between has to
 *             see it. Nothing is charged while the key is blocked, and nothing that was allowed is lost
 *   by limit  a key that is as full as can be, and many takes at one instant: as many pass as fit, exactly
 *             one is refused, for it blocks, and all others are blocked */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/limiter.h"

enum {
    TAKERS = 3,
    ROUNDS = 20000 / EVERY,
    KEYS_BESIDE = 512,
    RACES = 4000 / EVERY,
    TAKES_IN_RACE = 4,
    FIT = 5
};

#define S UINT64_C(1000000000)

static struct weir_limiter *limiter;
static struct weir_rule rule, beside, blocking;

/* What the blocker has done for certain: even while it is doing it, then 1 + 4 n blocked, 3 + 4 n not. */
static atomic_ulong phase;
static atomic_ulong now_ns;
static atomic_ulong allowed_count;
static atomic_bool is_over;

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "blocks: %s\n", what);
        abort();
    }
}

static struct weir_decision ask(const struct weir_rule *of, enum weir_operation operation,
                                uint64_t key, uint64_t at_ns, struct weir_detail *detail)
{
    struct weir_request request = {.rule = of,
                                   .key = &key,
                                   .key_len = sizeof key,
                                   .cost_micro = operation == WEIR_SHOW ? 0 : WEIR_UNIT,
                                   .operation = operation,
                                   .detail = detail,
                                   .block_ns = 3600 * S};
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, at_ns);
    return decision;
}

/* ---- by hand ---- */

static void *block_by_hand(void *unused)
{
    (void)unused;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct weir_detail detail;
        uint64_t at_ns = atomic_load(&now_ns);
        require(ask(&rule, WEIR_BLOCK, 0, at_ns, &detail).verdict == WEIR_BLOCKED, "no block");
        require(!detail.existed, "blocked already");
        atomic_fetch_add(&phase, 1); // blocked
        for (uint64_t i = 0; i < 4; i++) {
            (void)ask(&beside, WEIR_TAKE, 1 + (round * 4 + i) % KEYS_BESIDE, at_ns, NULL);
        }
        atomic_fetch_add(&phase, 1);
        (void)ask(&rule, WEIR_UNBLOCK, 0, at_ns, &detail);
        require(detail.existed, "the block was lost");
        atomic_fetch_add(&phase, 1); // not blocked
        atomic_fetch_add(&now_ns, 7);
        (void)ask(&beside, WEIR_TAKE, 1 + round % KEYS_BESIDE, at_ns, NULL);
        atomic_fetch_add(&phase, 1);
    }
    atomic_store(&is_over, true);
    return NULL;
}

static void *take_beside(void *unused)
{
    unsigned long seen_count[2] = {0};
    (void)unused;
    while (!atomic_load(&is_over)) {
        unsigned long before = atomic_load(&phase);
        enum weir_verdict verdict = ask(&rule, WEIR_TAKE, 0, atomic_load(&now_ns), NULL).verdict;
        require(verdict == WEIR_ALLOWED || verdict == WEIR_BLOCKED, "neither allowed nor blocked");
        atomic_fetch_add(&allowed_count, verdict == WEIR_ALLOWED);
        if (atomic_load(&phase) == before && before % 2 == 1) {
            bool is_blocked = before % 4 == 1;
            require((verdict == WEIR_BLOCKED) == is_blocked,
                    is_blocked ? "a take passed a block" : "a block that was lifted");
            seen_count[is_blocked]++;
        }
    }
    return NULL;
}

static void run_by_hand(void)
{
    pthread_t threads[TAKERS + 1];
    struct weir_detail detail;
    for (int i = 0; i <= TAKERS; i++) {
        void *(*work)(void *) = i == 0 ? block_by_hand : take_beside;
        require(pthread_create(&threads[i], NULL, work, NULL) == 0, "no thread");
    }
    for (int i = 0; i <= TAKERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    struct weir_decision decision = ask(&rule, WEIR_SHOW, 0, atomic_load(&now_ns), &detail);
    unsigned long allowed = atomic_load(&allowed_count);
    require(decision.verdict == WEIR_ALLOWED, "still blocked");
    require(decision.capacity - decision.remaining == allowed, "charged for what was blocked");
    printf("by hand: %d blocks, %lu takes passed\n", ROUNDS, allowed);
}

/* ---- by limit ---- */

static pthread_barrier_t barrier;
static atomic_int verdict_counts[5];

static void *race(void *unused)
{
    (void)unused;
    for (uint64_t key = 0; key < RACES; key++) {
        (void)pthread_barrier_wait(&barrier);
        for (int i = 0; i < TAKES_IN_RACE; i++) {
            enum weir_verdict verdict =
                ask(&blocking, WEIR_TAKE, key, (key + 1) * 100 * S, NULL).verdict;
            atomic_fetch_add(&verdict_counts[verdict], 1);
        }
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            int all = TAKERS * TAKES_IN_RACE;
            require(atomic_exchange(&verdict_counts[WEIR_ALLOWED], 0) == FIT, "not as many passed");
            require(atomic_exchange(&verdict_counts[WEIR_LIMITED], 0) == 1, "not one was refused");
            require(atomic_exchange(&verdict_counts[WEIR_BLOCKED], 0) == all - FIT - 1,
                    "not all others were blocked");
        }
    }
    return NULL;
}

static void run_by_limit(void)
{
    pthread_t threads[TAKERS];
    require(pthread_barrier_init(&barrier, NULL, TAKERS) == 0, "no barrier");
    for (int i = 0; i < TAKERS; i++) {
        require(pthread_create(&threads[i], NULL, race, NULL) == 0, "no thread");
    }
    for (int i = 0; i < TAKERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)pthread_barrier_destroy(&barrier);
    printf("by limit: %d races of %d takes\n", RACES, TAKERS * TAKES_IN_RACE);
}

static void make_rule(struct weir_rule *made, const char *text)
{
    require(weir_rule_from_text(made, limiter, text, NULL) == WEIR_OK, text);
}

int main(void)
{
    const struct weir_limiter_config config = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                               .caller_clock = true};
    require(weir_limiter_open(&limiter, &config, NULL) == WEIR_OK, "no limiter");
    make_rule(&rule, "10000000/36525d");
    make_rule(&beside, "1000000000/s capacity=1");
    make_rule(&blocking, "1/s capacity=5 block=20s");
    atomic_store(&now_ns, S);
    run_by_hand();
    run_by_limit();
    weir_limiter_close(limiter);
    return 0;
}
