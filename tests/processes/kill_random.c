/* SPDX-License-Identifier: MIT
 *
 * Workers charge the same buckets, and one after the other is killed wherever it happens to be; another
 * takes its place. At the end the books must agree: each bucket holds what was charged to it and answered,
 * and at most one more for each worker that was killed while it charged that one.
 *
 *     kill_random [soak]
 *
 * Half of the operations go to buckets that stay; the other half make buckets that drain at once, in
 * slots that others have just left. Each operation takes place a little later than the one before.
 *
 * A worker is killed by a timer that it sets itself, some microseconds before: so it runs when it is killed, and
 * nobody has to watch it, which would take the processor from it where there are few. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

enum {
    WORKERS = 3,
    KEYS = 40,     // that stay
    LANDED = 1000, // kills inside an operation
    LANDED_SOAK = 5000,
    OPERATIONS_MAX = 4000, // after which the timer is set
    TIMER_NS_MAX = 50000,
    STEP_NS = 100,
    BLOCKED_S = 120
};

#define T0     UINT64_C(1000000000000)
#define MINUTE UINT64_C(60000000000)
#define NO_KEY UINT64_MAX

/* What a worker tells, before and after each operation. A kill between its lines is told apart. */
struct worker {
    pid_t pid;
    uint64_t random;
    volatile bool is_inside;
    volatile uint64_t key; // that is being charged
    volatile uint64_t charged[KEYS];
};

struct books {
    uint64_t now_ns;
    struct worker workers[WORKERS];
};

static struct books *books;
static struct table *table;
static struct weir_rule stays, passes;
static uint64_t doubtful[KEYS]; // charges of the killed
static uint64_t landed_count, kill_count;

static void do_operation(struct worker *worker)
{
    uint64_t random = world_random(&worker->random);
    uint64_t now_ns = __atomic_fetch_add(&books->now_ns, STEP_NS, __ATOMIC_RELAXED);
    bool is_staying = random % 2 == 0;
    uint64_t key = is_staying ? random / 2 % KEYS : random | 1;
    struct weir_request request = {.rule = is_staying ? &stays : &passes,
                                   .key = &key,
                                   .key_len = sizeof key,
                                   .cost_micro = WEIR_UNIT};
    struct weir_decision decision;
    worker->key = is_staying ? key : NO_KEY;
    worker->is_inside = true;
    table->store.ops->decide(&table->store, &request, &decision, 1, now_ns);
    worker->is_inside = false;
    if (is_staying) {
        if (decision.verdict != WEIR_ALLOWED) {
            give_up("a roomy bucket refused: %s", weir_verdict_word(decision.verdict));
        }
        worker->charged[key]++;
    }
    worker->key = NO_KEY;
}

/* By SIGKILL, soon. */
static timer_t make_timer(void)
{
    struct sigevent kill_me = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &kill_me, &timer) != 0) {
        give_up("no timer");
    }
    return timer;
}

static void start(struct worker *worker, uint64_t lifetime, uint64_t timer_ns)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        struct itimerspec soon = {.it_value.tv_nsec = 1 + (long)timer_ns};
        timer_t timer = make_timer();
        for (uint64_t i = 0;; i++) {
            if (i == lifetime) {
                (void)timer_settime(timer, 0, &soon, NULL);
            }
            do_operation(worker);
        }
    }
    worker->pid = pid;
}

static struct worker *find_worker(pid_t pid)
{
    for (int i = 0; i < WORKERS; i++) {
        if (books->workers[i].pid == pid) {
            return &books->workers[i];
        }
    }
    give_up("nobody's child");
    return NULL;
}

/* Waits for the next one who is killed. */
static struct worker *bury_one(void)
{
    int status;
    (void)alarm(BLOCKED_S);
    struct worker *worker = find_worker(wait(&status));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        give_up("a worker ended by itself");
    }
    kill_count++;
    landed_count += worker->is_inside;
    if (worker->key != NO_KEY) { // charged or not, nobody heard of it
        doubtful[worker->key]++;
    }
    worker->is_inside = false;
    worker->key = NO_KEY;
    return worker;
}

static void close_books(void)
{
    uint64_t sum = 0;
    uint64_t doubt = 0;
    uint64_t extra = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t charged = 0;
        for (int i = 0; i < WORKERS; i++) {
            charged += books->workers[i].charged[key];
        }
        struct weir_detail detail;
        struct weir_request request = {.rule = &stays,
                                       .key = &key,
                                       .key_len = sizeof key,
                                       .operation = WEIR_SHOW,
                                       .detail = &detail};
        struct weir_decision decision;
        table->store.ops->decide(&table->store, &request, &decision, 1, books->now_ns);
        uint64_t held = detail.empty_at_ns < T0 ? 0 : (detail.empty_at_ns - T0) / MINUTE;
        if (held < charged || held > charged + doubtful[key]) {
            give_up("key %" PRIu64 " holds %" PRIu64 ", charged were %" PRIu64
                    " and perhaps %" PRIu64 " more",
                    key, held, charged, doubtful[key]);
        }
        sum += charged;
        doubt += doubtful[key];
        extra += held - charged;
    }
    printf("%" PRIu64 " charges answered; of %" PRIu64 " that were not, %" PRIu64 " were made\n",
           sum, doubt, extra);
}

int main(int argc, char **argv)
{
    uint64_t goal = argc > 1 && strcmp(argv[1], "soak") == 0 ? LANDED_SOAK : LANDED;
    uint64_t random = 88172645463325252;
    table = world_open(WEIR_MEMORY_BYTES_MIN);
    stays = world_rule("1/min capacity=50000000");
    passes = world_rule("100000/s capacity=1");
    passes.hash_key[0]++;
    books = world_share(sizeof *books);
    books->now_ns = T0;
    for (int i = 0; i < WORKERS; i++) {
        books->workers[i].random = world_random(&random);
        books->workers[i].key = NO_KEY;
        start(&books->workers[i], 0, 0);
    }
    while (landed_count < goal && kill_count < 100 * goal) {
        uint64_t lifetime = world_random(&random) % OPERATIONS_MAX;
        start(bury_one(), lifetime, world_random(&random) % TIMER_NS_MAX);
    }
    for (int i = 0; i < WORKERS; i++) {
        (void)bury_one();
    }
    world_lock_all(table);
    (void)alarm(0);
    world_check(table);
    struct weir_limiter_stats stats;
    table->store.ops->stats(&table->store, &stats);
    printf("%" PRIu64 " workers killed, %" PRIu64 " of them inside an operation; %" PRIu64
           " slots used, %" PRIu64 " times again, %" PRIu64 " times none was free\n",
           kill_count, landed_count, stats.used_count, stats.reused_count, stats.full_count);
    close_books();
    table->store.ops->close(&table->store);
    return landed_count >= goal ? 0 : 1;
}
