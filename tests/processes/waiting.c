/* SPDX-License-Identifier: MIT
 *
 * Processes that wait in the lines of one store: in order, and whatever happens to those before them. They
 * are killed, and stopped, at the head of the line, in its middle and at its end. */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/limiter_state.h"
#include "limiter/shared_room.h"
#include "sharing.h"

enum {
    PEOPLE_MAX = 64,
    BLOCKED_S = 60,
    IN_TIME_MS = 600 // of which 100 are meant, and 500 are for a busy machine
};

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* What each of them tells. */
struct person {
    volatile pid_t pid;
    volatile bool has_answer;
    volatile uint64_t place; // in the order of answers
    volatile uint64_t answered_ns;
    struct weir_decision decision;
    volatile long switches; // how often it slept
};

struct board {
    uint64_t answer_count;
    struct person people[PEOPLE_MAX];
};

static struct board *board;
static struct weir_limiter *limiter;
static struct weir_rule rule;
static char key[32];
static int person_count;

static struct room *room(void)
{
    return limiter->lines->shared->room;
}

static uint64_t now(void)
{
    return weir_limiter_now_ns(limiter);
}

/* A line of its own for each scenario. */
static void begin(const char *name, const char *limit)
{
    struct weir_error error;
    if (weir_rule_from_text(&rule, limiter, limit, &error) != WEIR_OK) {
        give_up("%s: %s", limit, error.message);
    }
    memset(board, 0, sizeof *board);
    person_count = 0;
    (void)snprintf(key, sizeof key, "%s", name);
    printf("%s, %s\n", name, limit);
    (void)fflush(stdout);
    (void)alarm(BLOCKED_S);
}

static struct weir_decision take(uint64_t cost)
{
    return weir_limiter_take(limiter, &rule, key, strlen(key), cost * WEIR_UNIT);
}

static void fill_up(uint64_t cost)
{
    if (take(cost).verdict != WEIR_ALLOWED) {
        give_up("%s: the bucket is not empty", key);
    }
}

static void wait_in_line(struct person *person, uint64_t cost, uint64_t timeout_ns)
{
    struct weir_decision decision =
        weir_limiter_acquire(limiter, &rule, key, strlen(key), cost * WEIR_UNIT, timeout_ns);
    struct rusage usage;
    person->place = __atomic_fetch_add(&board->answer_count, 1, __ATOMIC_SEQ_CST);
    person->answered_ns = now();
    person->decision = decision;
    (void)getrusage(RUSAGE_SELF, &usage);
    person->switches = usage.ru_nvcsw;
    __atomic_store_n(&person->has_answer, true, __ATOMIC_SEQ_CST);
}

/* One more process, which stands in line, or has its answer, when this returns. */
static struct person *join(uint64_t cost, uint64_t timeout_ns)
{
    struct person *person = &board->people[person_count++];
    uint64_t turns = __atomic_load_n(&room()->turns, __ATOMIC_SEQ_CST);
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        wait_in_line(person, cost, timeout_ns);
        _exit(0);
    }
    person->pid = pid;
    while (__atomic_load_n(&room()->turns, __ATOMIC_SEQ_CST) == turns && !person->has_answer) {
        (void)sched_yield();
    }
    return person;
}

static void end(struct person *person)
{
    (void)kill(person->pid, SIGKILL);
    (void)waitpid(person->pid, NULL, 0);
    person->pid = 0;
}

/* Waits until it ends by itself, and says what it was answered. */
static enum weir_verdict answer_of(struct person *person)
{
    int status = 0;
    (void)waitpid(person->pid, &status, 0);
    if (!person->has_answer) {
        give_up("%s: %d of %d ended without an answer, status %d", key,
                (int)(person - board->people), person_count, status);
    }
    return (enum weir_verdict)person->decision.verdict;
}

static void must_be_let(struct person *person)
{
    enum weir_verdict verdict = answer_of(person);
    if (verdict != WEIR_ALLOWED) {
        give_up("%s: %s", key, weir_verdict_word(verdict));
    }
}

static void must_be_about(const struct person *person, uint64_t since_ns, uint64_t least_ms,
                          uint64_t most_ms)
{
    uint64_t after_ns = person->answered_ns - since_ns;
    if (after_ns < least_ms * MS || after_ns > most_ms * MS) {
        give_up("%s: answered after %" PRIu64 " us, and not after %" PRIu64 " to %" PRIu64 " ms",
                key, after_ns / 1000, least_ms, most_ms);
    }
}

static void must_be_empty(void)
{
    if (room()->waiting_count != 0 || room()->line_count != 0) {
        give_up("%s: %u still wait in %u lines", key, room()->waiting_count, room()->line_count);
    }
    if (!lines_valid(limiter->lines)) {
        give_up("%s: a place is lost", key);
    }
}

/* ---- scenarios ---- */

static void in_order(const char *limit)
{
    enum { COUNT = 12 };
    begin("in order", limit);
    fill_up(1);
    uint64_t since_ns = now();
    for (int i = 0; i < COUNT; i++) {
        (void)join(1, 30 * S);
    }
    for (int i = 0; i < COUNT; i++) {
        must_be_let(&board->people[i]);
        if (board->people[i].place != (uint64_t)i) {
            give_up("%s: the one at %d was answered at %" PRIu64, key, i, board->people[i].place);
        }
        must_be_about(&board->people[i], since_ns, (uint64_t)(i + 1) * 40 - 10, 60000);
    }
    must_be_empty();
}

/* The head wants everything; once it is dead, a little is there for the next one. */
static void dead_head(void)
{
    begin("dead head", "10/s capacity=10");
    fill_up(10);
    struct person *head = join(10, 30 * S);
    struct person *next = join(1, 30 * S);
    uint64_t since_ns = now();
    end(head);
    must_be_let(next);
    must_be_about(next, since_ns, 20, 100 + IN_TIME_MS);
    must_be_empty();
}

static void dead_middle(void)
{
    begin("dead middle", "10/s capacity=10");
    fill_up(10);
    uint64_t since_ns = now();
    struct person *head = join(2, 30 * S);
    struct person *middle = join(10, 30 * S);
    struct person *last = join(2, 30 * S);
    end(middle);
    must_be_let(head);
    must_be_let(last);
    must_be_about(head, since_ns, 150, 250 + IN_TIME_MS);
    must_be_about(last, since_ns, 350, 450 + IN_TIME_MS);
    must_be_empty();
}

/* Two neighbours at once: the one behind them hears of the second only. */
static void dead_neighbours(void)
{
    begin("dead neighbours", "10/s capacity=10");
    fill_up(10);
    uint64_t since_ns = now();
    struct person *first = join(10, 30 * S);
    struct person *second = join(10, 30 * S);
    struct person *last = join(2, 30 * S);
    (void)kill(first->pid, SIGKILL);
    end(second);
    end(first);
    must_be_let(last);
    must_be_about(last, since_ns, 150, 250 + IN_TIME_MS);
    must_be_empty();
}

/* Somebody who does not wait gives back what the head waits for. */
static void given_back(void)
{
    begin("given back", "1/s capacity=10");
    fill_up(10);
    uint64_t since_ns = now();
    struct person *head = join(10, 30 * S);
    struct weir_request refund = {.rule = &rule,
                                  .key = key,
                                  .key_len = strlen(key),
                                  .cost_micro = 10 * WEIR_UNIT,
                                  .operation = WEIR_REFUND};
    struct weir_decision decision;
    weir_limiter_decide(limiter, &refund, &decision, 1);
    must_be_let(head);
    must_be_about(head, since_ns, 0, IN_TIME_MS);
    must_be_empty();
}

static void dead_tail(void)
{
    begin("dead tail", "10/s capacity=1");
    fill_up(1);
    struct person *head = join(1, 30 * S);
    end(join(1, 30 * S));
    struct person *last = join(1, 30 * S);
    must_be_let(head);
    must_be_let(last);
    must_be_empty();
}

/* Nobody is left who could notice; so whoever comes has to. */
static void all_dead(void)
{
    begin("all dead", "1/s capacity=10");
    fill_up(9);
    struct person *people[3];
    for (int i = 0; i < 3; i++) {
        people[i] = join(10, 30 * S);
    }
    if (take(1).verdict != WEIR_LIMITED) {
        give_up("%s: overtaken", key);
    }
    for (int i = 0; i < 3; i++) {
        (void)kill(people[i]->pid, SIGKILL);
    }
    for (int i = 0; i < 3; i++) {
        end(people[i]);
    }
    if (take(1).verdict != WEIR_ALLOWED) {
        give_up("%s: the dead hold others up", key);
    }
    must_be_empty();
}

static void stopped_head(const char *limit)
{
    begin("stopped head", limit);
    fill_up(1);
    uint64_t since_ns = now();
    struct person *head = join(1, 30 * S);
    (void)kill(head->pid, SIGSTOP);
    struct person *next = join(1, 30 * S);
    struct person *last = join(1, 30 * S);
    must_be_let(next); // after a second it was the head's turn, until two seconds
    must_be_about(next, since_ns, 1990, 2000 + IN_TIME_MS);
    must_be_let(last);
    must_be_about(last, since_ns, 2990, 3000 + IN_TIME_MS);
    (void)kill(head->pid, SIGCONT);
    must_be_let(head);
    if (head->place != 2) {
        give_up("%s: it did not go to the back", key);
    }
    must_be_empty();
}

static void two_stopped(void)
{
    begin("two stopped", "5/s capacity=1");
    fill_up(1);
    struct person *first = join(1, 30 * S);
    struct person *second = join(1, 30 * S);
    struct person *last = join(1, 30 * S);
    (void)kill(first->pid, SIGSTOP);
    (void)kill(second->pid, SIGSTOP);
    must_be_let(last);
    (void)kill(first->pid, SIGCONT);
    (void)kill(second->pid, SIGCONT);
    must_be_let(first);
    must_be_let(second);
    must_be_empty();
}

/* All that the dead were charged is given back, and those behind move up. */
static void dead_in_queue(void)
{
    begin("dead in queue", "queue 10/s capacity=20");
    uint64_t since_ns = now();
    struct person *people[6];
    for (int i = 0; i < 6; i++) {
        people[i] = join(1, 30 * S);
    }
    end(people[1]);
    end(people[3]);
    end(people[4]);
    must_be_let(people[0]);
    must_be_let(people[2]);
    must_be_let(people[5]);
    must_be_about(people[0], since_ns, 90, 150 + IN_TIME_MS);
    must_be_about(people[2], since_ns, 190, 250 + IN_TIME_MS);
    must_be_about(people[5], since_ns, 290, 350 + IN_TIME_MS);
    must_be_empty();
}

/* Who waits for a second sleeps through it. */
static void no_polling(void)
{
    begin("no polling", "1/s capacity=1");
    fill_up(1);
    struct person *head = join(1, 30 * S);
    struct person *next = join(1, 30 * S);
    must_be_let(head);
    must_be_let(next);
    printf("    slept %ld and %ld times\n", head->switches, next->switches);
    if (head->switches > 12 || next->switches > 16) {
        give_up("%s: it looks again and again", key);
    }
    must_be_empty();
}

/* The file as the next boot would find it: somebody stood in line, and no kernel mourns him. A copy is
 * treated the same. */
static void another_boot(const char *folder)
{
    char path[64];
    char copy[64];
    char command[160];
    (void)snprintf(path, sizeof path, "file:%s/first", folder);
    (void)snprintf(copy, sizeof copy, "file:%s/second", folder);
    struct weir_limiter *usual = limiter;
    struct weir_limiter_config config = {.store = path, .memory_bytes = 1 << 20};
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    begin("another boot", "1/s capacity=10");
    fill_up(9);
    struct person *person = join(10, 30 * S);
    (void)snprintf(command, sizeof command, "cp %s %s", path + strlen("file:"),
                   copy + strlen("file:"));
    if (system(command) != 0) {
        give_up("no copy");
    }
    end(person);
    weir_limiter_close(limiter);
    config.store = copy;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    if (take(1).verdict != WEIR_ALLOWED) {
        give_up("%s: somebody of before holds others up", key);
    }
    must_be_empty();
    struct person *next = join(3, 30 * S);
    must_be_let(next);
    must_be_empty();
    weir_limiter_close(limiter);
    (void)unlink(path + strlen("file:"));
    (void)unlink(copy + strlen("file:"));
    limiter = usual;
}

static void run_all(void)
{
    in_order("25/s capacity=1");
    in_order("queue 25/s capacity=50 first=interval");
    dead_head();
    dead_middle();
    dead_neighbours();
    dead_tail();
    given_back();
    all_dead();
    stopped_head("1/s capacity=1");
    stopped_head("queue 1/s capacity=10 first=now");
    two_stopped();
    dead_in_queue();
    no_polling();
}

int main(void)
{
    char path[] = "/tmp/weir-waiting-XXXXXX";
    char store[sizeof path + 16];
    if (mkdtemp(path) == NULL) {
        give_up("no folder in /tmp");
    }
    (void)snprintf(store, sizeof store, "file:%s/store", path);
    board = world_share(sizeof *board);
    struct weir_limiter_config config = {.store = store};
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    (void)unlink(store + strlen("file:"));
    run_all();
    another_boot(path);
    (void)rmdir(path);
    weir_limiter_close(limiter);
    config.store = "memory:?shared=yes";
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    printf("---- memory ----\n");
    in_order("25/s capacity=1");
    dead_head();
    weir_limiter_close(limiter);
    return 0;
}
