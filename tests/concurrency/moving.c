/* SPDX-License-Identifier: MIT
 *
 * Threads take from a table, give back, and make new buckets, alone and under two limits at once, while
 * another thread moves all buckets to a table of another size, and again; now and then it gives up in the
 * middle. At the end each bucket must hold what was charged to it.
 *
 *     moving [soak]
 *
 * Here the table's way to its successor, table_follow(), is the test's own: resize.c goes by way of a
 * file, whose mappings ThreadSanitizer would take for different memory. tests/processes/ has that one. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/table/inside.h"
#include "store/table/moving.h"
#include "sync/atomic.h"
#include "sync/mutex.h"

enum { THREADS = 3, KEYS = 24, MOVES = 60, MOVES_SOAK = 3000, TABLES_MAX = MOVES_SOAK + 1 };

#define T0     UINT64_C(1000000000000)
#define MINUTE UINT64_C(60000000000)

static struct mutex moving_mutex;
static struct table *tables[TABLES_MAX];
static struct store *store;
static struct weir_rule stays, passes;
static uint64_t now_ns = T0;
static uint64_t is_over;

struct worker {
    pthread_t thread;
    uint64_t random;
    uint64_t count; // operations
    int64_t held[KEYS];
};

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

struct table *table_follow(struct table *table, uint64_t hash)
{
    (void)mutex_lock(&moving_mutex);
    struct table *next = load_pointer(&table->next);
    if (next == NULL) {
        moving_take_back(table, table_stripe_of(table, hash));
        next = table;
    }
    mutex_unlock(&moving_mutex);
    if (next != table) {
        (void)cas_pointer(&table->root->current, table, next);
    }
    return next;
}

/* Nobody here has lines that would have to go along. */
enum store_name table_look_at_name(struct store *of)
{
    (void)of;
    return STORE_NAMED;
}

enum weir_status table_regain_name(struct store *of, struct line_mover *lines, uint64_t at_ns,
                                   struct store_regained *regained, struct weir_error *error)
{
    (void)of, (void)lines, (void)at_ns, (void)regained, (void)error;
    abort();
}

bool table_waits_elsewhere(const struct store *of)
{
    (void)of;
    abort();
}

bool table_follow_waiting(struct store *of)
{
    (void)of;
    abort();
}

static uint64_t random_of(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t time_goes_on(void)
{
    return __atomic_fetch_add(&now_ns, 100, __ATOMIC_RELAXED);
}

/* Two keys at once: both are charged. */
static void take_two(struct worker *worker, uint64_t first, uint64_t second)
{
    struct weir_request requests[2] = {{.rule = &stays, .and_next = true}, {.rule = &stays}};
    struct weir_decision decisions[2];
    uint64_t keys[2] = {first, second};
    for (int i = 0; i < 2; i++) {
        requests[i].key = &keys[i];
        requests[i].key_len = sizeof keys[i];
        requests[i].cost_micro = WEIR_UNIT;
    }
    store->ops->decide(store, requests, decisions, 2, time_goes_on());
    if (decisions[0].verdict != WEIR_ALLOWED || decisions[1].verdict != WEIR_ALLOWED) {
        fail("two roomy buckets refused");
    }
    worker->held[first]++;
    worker->held[second]++;
}

static void do_operation(struct worker *worker)
{
    uint64_t random = random_of(&worker->random);
    uint64_t key = random / 8 % KEYS;
    uint64_t other = (key + 1 + random / 512 % (KEYS - 1)) % KEYS;
    bool is_new = random % 8 == 0;
    bool is_refund = random % 8 <= 2 && worker->held[key] > 2;
    if (random % 8 == 7) {
        take_two(worker, key, other);
        return;
    }
    key = is_new ? random | 1 : key;
    struct weir_request request = {
        .rule = is_new ? &passes : &stays,
        .key = &key,
        .key_len = sizeof key,
        .cost_micro = WEIR_UNIT,
        .operation = !is_new && is_refund ? WEIR_REFUND : WEIR_TAKE,
    };
    struct weir_decision decision;
    store->ops->decide(store, &request, &decision, 1, time_goes_on());
    if (!is_new) {
        if (decision.verdict != WEIR_ALLOWED) {
            fail("a roomy bucket refused");
        }
        worker->held[key] += is_refund ? -1 : 1;
    }
}

static void *work(void *context)
{
    struct worker *worker = context;
    while (load_relaxed(&is_over) == 0) {
        do_operation(worker);
        store_relaxed(&worker->count, worker->count + 1);
    }
    return NULL;
}

/* Carries all, or gives up after some stripes. */
static bool move(struct table *from, struct table *into, uint64_t stripe_count)
{
    (void)mutex_lock(&moving_mutex);
    struct moving moving = {.from = from, .into = into, .now_ns = load_relaxed(&now_ns)};
    moving.since_ns = moving.now_ns;
    bool done = true;
    for (uint64_t i = 0; i < stripe_count && done; i++) {
        done = moving_carry(&moving, &from->stripes[i]);
    }
    done = done && stripe_count == from->stripe_count;
    if (done) {
        moving_end(&moving);
        if (!cas_pointer(&from->next, NULL, into)) {
            fail("somebody else has moved it");
        }
    }
    mutex_unlock(&moving_mutex);
    return done;
}

static void wait_for_all(const struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        uint64_t from = load_relaxed(&workers[i].count);
        while (load_relaxed(&workers[i].count) < from + 20) {
            (void)sched_yield();
        }
    }
}

static struct table *open_table(uint64_t random)
{
    struct store *opened = table_open(UINT64_C(65536) << random % 4, WEIR_EVENTS_BYTES_MIN);
    if (opened == NULL) {
        fail("no memory");
    }
    return (struct table *)opened;
}

static struct weir_rule rule_of(const char *text, uint64_t salt)
{
    struct weir_rule rule = {.hash_key = {salt, 7}};
    struct weir_error error;
    if (weir_limit_from_text(&rule.limit, text, &error) != WEIR_OK) {
        fail(error.message);
    }
    return rule;
}

static void close_books(const struct worker workers[THREADS])
{
    for (uint64_t key = 0; key < KEYS; key++) {
        int64_t charged = 0;
        for (int i = 0; i < THREADS; i++) {
            charged += workers[i].held[key];
        }
        struct weir_detail detail;
        struct weir_request request = {.rule = &stays,
                                       .key = &key,
                                       .key_len = sizeof key,
                                       .operation = WEIR_SHOW,
                                       .detail = &detail};
        struct weir_decision decision;
        store->ops->decide(store, &request, &decision, 1, now_ns);
        int64_t held = detail.existed ? (int64_t)((detail.empty_at_ns - T0) / MINUTE) : 0;
        if (held != charged) {
            printf("key %" PRIu64 " holds %" PRId64 ", charged were %" PRId64 "\n", key, held,
                   charged);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    int move_count = argc > 1 && argv[1][0] == 's' ? MOVES_SOAK : MOVES;
    static struct worker workers[THREADS];
    uint64_t random = 88172645463325252;
    int table_count = 1;
    int given_up_count = 0;
    tables[0] = open_table(0);
    store = &tables[0]->store;
    stays = rule_of("1/min capacity=10000000", 1);
    passes = rule_of("100000/s capacity=1", 2);
    for (int i = 0; i < THREADS; i++) {
        workers[i].random = random_of(&random);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fail("no thread");
        }
    }
    while (table_count <= move_count) {
        struct table *from = tables[table_count - 1];
        struct table *into = open_table(random_of(&random));
        uint64_t stripe_count = from->stripe_count;
        bool gives_up = random_of(&random) % 3 == 0;
        into->root = tables[0];
        wait_for_all(workers);
        if (move(from, into, gives_up ? stripe_count / 2 : stripe_count)) {
            tables[table_count++] = into;
        } else {
            into->root = into;
            into->store.ops->close(&into->store);
            given_up_count++;
        }
    }
    wait_for_all(workers);
    store_relaxed(&is_over, 1);
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    close_books(workers);
    printf("moved %d times, given up %d times; %" PRIu64 " operations\n", table_count - 1,
           given_up_count, (now_ns - T0) / 100);
    store->ops->close(store);
    return 0;
}
