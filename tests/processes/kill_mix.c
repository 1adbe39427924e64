/* SPDX-License-Identifier: MIT
 *
 * As kill_random.c, with all that a file is for: workers take under every kind of limit, singly and under two
 * at once, lock keys out and let them in, and wait in line for each other, in two lines at once too; and one
 * after the other is killed wherever it happens to be. Each opens the file anew, as a stranger would, by the
 * machine's own clock.
 *
 *     kill_mix [soak]
 *
 * At the end the books must agree: each key holds what was charged to it and answered, and at most one more for
 * each worker that was killed while it charged that one; each block ends when its worker was told, or as it
 * meant to when it was killed; and nobody has waited in vain, or passed a block. */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/arith.h"
#include "weir/limiter.h"
#include "world.h"

enum {
    WORKERS = 5,
    PATIENT = 2, // of them, who mostly wait: which takes so long that kills would land nowhere else
    KEYS = 4,    // of each kind
    LANDED = 300,
    LANDED_SOAK = 3000,
    OPERATIONS_MAX = 200, // that a worker lives for,
    WAITS_MAX = 10,       // and one who waits
    TAKES_MAX = 2000,     // of a life: where its end comes late the limits stay roomy
    ENDS_MAX = 64,        // of one block, that are possible
    BLOCKED_S = 120
};

#define HOUR UINT64_C(3600000000000)

/* Roomy, and they drain less than one unit while this runs. */
static const char *const KINDS[] = {
    "100/d capacity=1000000", "queue 100/d capacity=1000000", "stepped 100/d capacity=1000000",
    "fixed 1000000/year",     "sliding 1000000/300d",         "window 1000000/300d",
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

/* What those wait for who stand in line, for one of them or for two at once. */
static const char *const TURNSTILES[] = {"2000/s capacity=1", "window 1/500us", "stepped 1/500us"};
enum { TURNSTILE_COUNT = sizeof TURNSTILES / sizeof TURNSTILES[0] };

/* A key that is being charged, or none. */
struct place {
    int kind, key;
};

/* What a worker tells, before and after each operation.
 *   charging  what the present operation charges; kind -1: nothing
 *   ends      of the block of its own key: the ones that are possible, 0 for no block. More than one if it
 *             was killed while it changed that */
struct worker {
    pid_t pid;
    uint64_t random;
    volatile bool is_inside;
    volatile struct place charging[2];
    volatile uint64_t charged[KIND_COUNT][KEYS];
    volatile uint64_t ends[ENDS_MAX];
    volatile int end_count;
    volatile uint64_t operation_count, wait_count;
};

struct books {
    struct worker workers[WORKERS];
};

static struct books *books;
static char url[128];
static struct weir_limiter *limiter;
static struct weir_rule rules[KIND_COUNT], turnstiles[TURNSTILE_COUNT];
static uint64_t doubtful[KIND_COUNT][KEYS]; // charges of the killed
static uint64_t landed_count, in_doubt_count, kill_count;

static struct weir_rule rule_of(const char *text)
{
    struct weir_rule rule;
    struct weir_error error;
    if (weir_rule_from_text(&rule, limiter, text, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    return rule;
}

static void open_limiter(void)
{
    const struct weir_limiter_config config = {.store = url};
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        rules[kind] = rule_of(KINDS[kind]);
    }
    for (int i = 0; i < TURNSTILE_COUNT; i++) {
        turnstiles[i] = rule_of(TURNSTILES[i]);
    }
}

static struct weir_request request_of(int kind, const int *key, enum weir_operation operation)
{
    return (struct weir_request){.rule = &rules[kind],
                                 .key = key,
                                 .key_len = sizeof *key,
                                 .cost_micro = WEIR_UNIT,
                                 .operation = operation};
}

/* ---- what a worker does ---- */

/* Takes from one key, or from two of different kinds together. */
static void take(struct worker *worker, uint64_t random)
{
    int count = random % 2 == 0 ? 1 : 2;
    int kind = (int)(random / 2 % KIND_COUNT);
    int keys[2];
    struct weir_request requests[2];
    struct weir_decision decisions[2];
    for (int i = 0; i < count; i++) {
        int other = (kind + i * (1 + (int)(random / 16 % (KIND_COUNT - 1)))) % KIND_COUNT;
        keys[i] = (int)(random / 256 / (uint64_t)(1 + i * KEYS) % KEYS);
        requests[i] = request_of(other, &keys[i], WEIR_TAKE);
        requests[i].and_next = i + 1 < count;
        worker->charging[i].key = keys[i];
        worker->charging[i].kind = other;
    }
    worker->is_inside = true;
    weir_limiter_decide(limiter, requests, decisions, (size_t)count);
    worker->is_inside = false;
    for (int i = 0; i < count; i++) {
        if (decisions[i].verdict != WEIR_ALLOWED) {
            give_up("a roomy limit refused: %s", weir_verdict_word(decisions[i].verdict));
        }
        worker->charged[worker->charging[i].kind][keys[i]]++;
        worker->charging[i].kind = -1;
    }
}

/* Its own key, that nobody charges: under the kind of its number. */
static struct weir_request own_request(const struct worker *worker, const int *key,
                                       enum weir_operation operation)
{
    int number = (int)(worker - books->workers) - PATIENT;
    return request_of(number * 2 + 1, key, operation);
}

static int own_key(const struct worker *worker)
{
    return KEYS + (int)(worker - books->workers);
}

/* Locks its key out for longer, or lets it in; or looks whether a take is refused. */
static void block(struct worker *worker, uint64_t random)
{
    int key = own_key(worker);
    uint64_t now_ns = weir_limiter_now_ns(limiter);
    enum weir_operation operation = random % 4 == 0   ? WEIR_UNBLOCK
                                    : random % 4 == 1 ? WEIR_TAKE
                                                      : WEIR_BLOCK;
    struct weir_request request = own_request(worker, &key, operation);
    struct weir_decision decision;
    request.block_ns = HOUR;
    if (operation == WEIR_TAKE && (worker->end_count != 1 || worker->ends[0] == 0)) {
        return; // who knows
    }
    uint64_t end_ns = operation == WEIR_BLOCK ? now_ns + HOUR : 0;
    if (operation != WEIR_TAKE && worker->end_count < ENDS_MAX) {
        worker->ends[worker->end_count] = end_ns;
        worker->end_count++;
    }
    worker->is_inside = true;
    weir_limiter_decide_at(limiter, &request, &decision, 1, now_ns);
    worker->is_inside = false;
    if (operation == WEIR_TAKE && decision.verdict != WEIR_BLOCKED) {
        give_up("a blocked key was answered: %s", weir_verdict_word(decision.verdict));
    }
    if (operation != WEIR_TAKE) {
        worker->ends[0] = end_ns;
        worker->end_count = 1;
    }
}

static void stand_in_line(struct worker *worker, uint64_t random)
{
    struct weir_request requests[2];
    struct weir_decision decisions[2];
    size_t count = random % 2 == 0 ? 1 : 2;
    for (size_t i = 0; i < count; i++) {
        const struct weir_rule *rule = &turnstiles[(random / 2 + i) % TURNSTILE_COUNT];
        requests[i] = (struct weir_request){
            .rule = rule, .key = "", .cost_micro = WEIR_UNIT, .and_next = i + 1 < count};
    }
    worker->is_inside = true;
    weir_limiter_acquire_all(limiter, requests, decisions, count, HOUR);
    worker->is_inside = false;
    worker->wait_count++;
    for (size_t i = 0; i < count; i++) {
        if (decisions[i].verdict != WEIR_ALLOWED) {
            give_up("who waited was answered: %s", weir_verdict_word(decisions[i].verdict));
        }
    }
}

static bool is_patient(const struct worker *worker)
{
    return worker - books->workers < PATIENT;
}

static void do_operation(struct worker *worker, uint64_t age)
{
    uint64_t random = world_random(&worker->random);
    uint64_t what = random >> 32;
    if (what % (is_patient(worker) ? 2 : 1024) == 0) {
        stand_in_line(worker, random);
    } else if ((what % 4 == 1 || age > TAKES_MAX) && !is_patient(worker)) {
        block(worker, random);
    } else {
        take(worker, random);
    }
    worker->operation_count++;
}

/* ---- who kills them ---- */

static void start(struct worker *worker)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        let_others_go_first(); // who kills has its turn in time
        open_limiter();
        for (uint64_t age = 0;; age++) {
            do_operation(worker, age);
        }
    }
    worker->pid = pid;
}

/* Lets a worker live for some operations, then kills it. */
static void kill_one(struct worker *worker, uint64_t lifetime)
{
    uint64_t from = worker->operation_count;
    int status;
    while (worker->operation_count - from < lifetime) {
        if (waitpid(worker->pid, &status, WNOHANG) != 0) {
            give_up("a worker ended by itself");
        }
        (void)sched_yield(); // that it never gets there is what alarm() is for
    }
    (void)kill(worker->pid, SIGKILL);
    (void)waitpid(worker->pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        give_up("a worker ended by itself");
    }
    kill_count++;
    landed_count += worker->is_inside;
    worker->is_inside = false;
    for (int i = 0; i < 2; i++) {
        if (worker->charging[i].kind >= 0) { // charged or not, nobody heard of it
            doubtful[worker->charging[i].kind][worker->charging[i].key]++;
            in_doubt_count++;
            worker->charging[i].kind = -1;
        }
    }
}

/* ---- the books ---- */

/* How much a key holds, rounded up. */
static uint64_t level_of(int kind, int key)
{
    struct weir_detail detail;
    struct weir_decision decision;
    struct weir_request request = request_of(kind, &key, WEIR_SHOW);
    request.detail = &detail;
    weir_limiter_decide(limiter, &request, &decision, 1);
    uint128 numerator = (uint128)detail.amount.numerator_high << 64 | detail.amount.numerator_low;
    uint128 denominator =
        (uint128)detail.amount.denominator_high << 64 | detail.amount.denominator_low;
    return (uint64_t)((numerator + denominator - 1) / denominator);
}

static void check_charges(void)
{
    uint64_t sum = 0;
    uint64_t doubt = 0;
    uint64_t extra = 0;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (int key = 0; key < KEYS; key++) {
            uint64_t charged = 0;
            for (int i = 0; i < WORKERS; i++) {
                charged += books->workers[i].charged[kind][key];
            }
            uint64_t held = level_of(kind, key);
            if (held < charged || held > charged + doubtful[kind][key]) {
                give_up("%s: key %d holds %" PRIu64 ", charged were %" PRIu64
                        " and perhaps %" PRIu64 " more",
                        KINDS[kind], key, held, charged, doubtful[kind][key]);
            }
            sum += charged;
            doubt += doubtful[kind][key];
            extra += held - charged;
        }
    }
    printf("%" PRIu64 " charges answered; of %" PRIu64 " that were not, %" PRIu64 " were made\n",
           sum, doubt, extra);
}

static void check_block(const struct worker *worker)
{
    int key = own_key(worker);
    uint64_t now_ns = weir_limiter_now_ns(limiter);
    struct weir_request request = own_request(worker, &key, WEIR_SHOW);
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, now_ns);
    uint64_t end_ns =
        decision.verdict == WEIR_BLOCKED ? now_ns + (uint64_t)decision.retry_after_ns : 0;
    if (decision.reset_after_ns != 0) {
        give_up("a key that was blocked has been charged");
    }
    for (int i = 0; i < worker->end_count; i++) {
        if (worker->ends[i] == end_ns) {
            return;
        }
    }
    give_up("a block ends at %" PRIu64 ", which none of %d should", end_ns, worker->end_count);
}

static void make_file(char *folder)
{
    if (mkdtemp(folder) == NULL) {
        give_up("no folder in /tmp");
    }
    (void)snprintf(url, sizeof url, "file:%s/store?size=1M&events=16M", folder);
    open_limiter();
    weir_limiter_close(limiter); // those who come later find it
}

int main(int argc, char **argv)
{
    uint64_t goal = argc > 1 && strcmp(argv[1], "soak") == 0 ? LANDED_SOAK : LANDED;
    uint64_t random = 88172645463325252;
    char folder[] = "/tmp/weir-kill-mix-XXXXXX";
    char path[64];
    make_file(folder);
    books = world_share(sizeof *books);
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &books->workers[i];
        worker->random = world_random(&random);
        worker->charging[0].kind = worker->charging[1].kind = -1;
        worker->end_count = 1; // no block
        start(worker);
    }
    while ((landed_count < goal || in_doubt_count < goal / 10) && kill_count < 100 * goal) {
        struct worker *worker = &books->workers[world_random(&random) % WORKERS];
        (void)alarm(BLOCKED_S);
        kill_one(worker, world_random(&random) % (is_patient(worker) ? WAITS_MAX : OPERATIONS_MAX));
        start(worker);
    }
    uint64_t wait_count = 0;
    for (int i = 0; i < WORKERS; i++) {
        kill_one(&books->workers[i], 1);
        wait_count += books->workers[i].wait_count;
    }
    open_limiter();
    check_charges();
    for (int i = PATIENT; i < WORKERS; i++) {
        check_block(&books->workers[i]);
    }
    printf("%" PRIu64 " workers killed, %" PRIu64 " of them inside an operation; %" PRIu64
           " have waited\n",
           kill_count, landed_count, wait_count);
    weir_limiter_close(limiter);
    (void)snprintf(path, sizeof path, "%s/store", folder);
    (void)unlink(path);
    (void)rmdir(folder);
    return landed_count >= goal && in_doubt_count >= goal / 10 ? 0 : 1;
}
