/* SPDX-License-Identifier: MIT
 *
 * Processes that wait in the lines of one store: in order, and whatever happens to those before them. They
 * are killed, and stopped, at the head of the line, in its middle and at its end. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "people.h"

/* ---- scenarios ---- */

/* The first one is let in after so long at least, and everybody else so long after the one before. */
static void in_order(const char *limit, uint64_t first_ms, uint64_t interval_ms)
{
    enum { COUNT = 12 };
    people_begin("in order", limit);
    uint64_t since_ns = people_now(); // before it is full: so nobody is answered too early by this
    people_fill_up(1);
    for (int i = 0; i < COUNT; i++) {
        (void)people_join(1, 30 * S);
    }
    for (int i = 0; i < COUNT; i++) {
        people_must_be_let(&people.people[i]);
        if (people.people[i].place != (uint64_t)i) {
            give_up("%s: the one at %d was answered at %" PRIu64, people.key, i,
                    people.people[i].place);
        }
        uint64_t least_ms = first_ms + (uint64_t)i * interval_ms;
        people_must_be_about(&people.people[i], since_ns, least_ms > 10 ? least_ms - 10 : 0, 60000);
    }
    people_must_be_gone();
}

/* The head wants everything; once it is dead, a little is there for the next one. */
static void dead_head(void)
{
    people_begin("dead head", "10/s capacity=10");
    people_fill_up(10);
    struct person *head = people_join(10, 30 * S);
    struct person *next = people_join(1, 30 * S);
    uint64_t since_ns = people_now();
    people_end(head);
    people_must_be_let(next);
    people_must_be_about(next, since_ns, 20, 100 + IN_TIME_MS);
    people_must_be_gone();
}

static void dead_middle(void)
{
    people_begin("dead middle", "10/s capacity=10");
    people_fill_up(10);
    uint64_t since_ns = people_now();
    struct person *head = people_join(2, 30 * S);
    struct person *middle = people_join(10, 30 * S);
    struct person *last = people_join(2, 30 * S);
    people_end(middle);
    people_must_be_let(head);
    people_must_be_let(last);
    people_must_be_about(head, since_ns, 150, 250 + IN_TIME_MS);
    people_must_be_about(last, since_ns, 350, 450 + IN_TIME_MS);
    people_must_be_gone();
}

/* Two neighbours at once: the one behind them hears of the second only. */
static void dead_neighbours(void)
{
    people_begin("dead neighbours", "10/s capacity=10");
    people_fill_up(10);
    uint64_t since_ns = people_now();
    struct person *first = people_join(10, 30 * S);
    struct person *second = people_join(10, 30 * S);
    struct person *last = people_join(2, 30 * S);
    (void)kill(first->pid, SIGKILL);
    people_end(second);
    people_end(first);
    people_must_be_let(last);
    people_must_be_about(last, since_ns, 150, 250 + IN_TIME_MS);
    people_must_be_gone();
}

/* Somebody who does not wait gives back what the head waits for. */
static void given_back(void)
{
    people_begin("given back", "1/s capacity=10");
    people_fill_up(10);
    uint64_t since_ns = people_now();
    struct person *head = people_join(10, 30 * S);
    struct weir_request refund = {.rule = &people.rule,
                                  .key = people.key,
                                  .key_len = strlen(people.key),
                                  .cost_micro = 10 * WEIR_UNIT,
                                  .operation = WEIR_REFUND};
    struct weir_decision decision;
    weir_limiter_decide(people.limiter, &refund, &decision, 1);
    people_must_be_let(head);
    people_must_be_about(head, since_ns, 0, IN_TIME_MS);
    people_must_be_gone();
}

static void dead_tail(void)
{
    people_begin("dead tail", "10/s capacity=1");
    people_fill_up(1);
    struct person *head = people_join(1, 30 * S);
    people_end(people_join(1, 30 * S));
    struct person *last = people_join(1, 30 * S);
    people_must_be_let(head);
    people_must_be_let(last);
    people_must_be_gone();
}

/* Nobody is left who could notice; so whoever comes has to. */
static void all_dead(void)
{
    people_begin("all dead", "1/s capacity=10");
    people_fill_up(9);
    struct person *three[3];
    for (int i = 0; i < 3; i++) {
        three[i] = people_join(10, 30 * S);
    }
    if (people_take(1).verdict != WEIR_LIMITED) {
        give_up("%s: overtaken", people.key);
    }
    for (int i = 0; i < 3; i++) {
        (void)kill(three[i]->pid, SIGKILL);
    }
    for (int i = 0; i < 3; i++) {
        people_end(three[i]);
    }
    if (people_take(1).verdict != WEIR_ALLOWED) {
        give_up("%s: the dead hold others up", people.key);
    }
    people_must_be_gone();
}

static void stopped_head(const char *limit)
{
    people_begin("stopped head", limit);
    people_fill_up(1);
    uint64_t since_ns = people_now();
    struct person *head = people_join(1, 30 * S);
    people_stop(head);
    struct person *next = people_join(1, 30 * S);
    struct person *last = people_join(1, 30 * S);
    people_must_be_let(next); // after a second it was the head's turn, until two seconds
    people_must_be_about(next, since_ns, 1990, 2000 + IN_TIME_MS);
    people_must_be_let(last);
    people_must_be_about(last, since_ns, 2990, 3000 + IN_TIME_MS);
    (void)kill(head->pid, SIGCONT);
    people_must_be_let(head);
    if (head->place != 2) {
        give_up("%s: it did not go to the back", people.key);
    }
    people_must_be_gone();
}

static void two_stopped(void)
{
    people_begin("two stopped", "5/s capacity=1");
    people_fill_up(1);
    struct person *first = people_join(1, 30 * S);
    struct person *second = people_join(1, 30 * S);
    struct person *last = people_join(1, 30 * S);
    people_stop(first);
    people_stop(second);
    people_must_be_let(last);
    (void)kill(first->pid, SIGCONT);
    (void)kill(second->pid, SIGCONT);
    people_must_be_let(first);
    people_must_be_let(second);
    people_must_be_gone();
}

/* All that the dead were charged is given back, and those behind move up. */
static void dead_in_queue(void)
{
    people_begin("dead in queue", "queue 10/s capacity=20");
    uint64_t since_ns = people_now();
    struct person *six[6];
    for (int i = 0; i < 6; i++) {
        six[i] = people_join(1, 30 * S);
    }
    people_end(six[1]);
    people_end(six[3]);
    people_end(six[4]);
    people_must_be_let(six[0]);
    people_must_be_let(six[2]);
    people_must_be_let(six[5]);
    people_must_be_about(six[0], since_ns, 90, 150 + IN_TIME_MS);
    people_must_be_about(six[2], since_ns, 190, 250 + IN_TIME_MS);
    people_must_be_about(six[5], since_ns, 290, 350 + IN_TIME_MS);
    people_must_be_gone();
}

/* The first in line sleeps until its time has come, and the next one but for its looks whether the first is alive. */
static void no_polling(void)
{
    people_begin("no polling", "1/s capacity=1");
    people_fill_up(1);
    uint64_t since_ns = people_now();
    struct person *head = people_join(1, 30 * S);
    struct person *next = people_join(1, 30 * S);
    people_must_be_let(head);
    people_must_be_let(next);
    printf("    slept %ld and %ld times\n", head->switches, next->switches);
    if (head->switches > 12 || next->switches > 16 + people_looks(next, since_ns)) {
        give_up("%s: it looks again and again", people.key);
    }
    people_must_be_gone();
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
    struct weir_limiter *usual = people.limiter;
    people_open(path, 1 << 20);
    people_begin("another boot", "1/s capacity=10");
    people_fill_up(9);
    struct person *person = people_join(10, 30 * S);
    (void)snprintf(command, sizeof command, "cp %s %s", path + strlen("file:"),
                   copy + strlen("file:"));
    if (system(command) != 0) {
        give_up("no copy");
    }
    people_end(person);
    weir_limiter_close(people.limiter);
    people_open(copy, 0);
    if (people_take(1).verdict != WEIR_ALLOWED) {
        give_up("%s: somebody of before holds others up", people.key);
    }
    people_must_be_gone();
    struct person *next = people_join(3, 30 * S);
    people_must_be_let(next);
    people_must_be_gone();
    weir_limiter_close(people.limiter);
    (void)unlink(path + strlen("file:"));
    (void)unlink(copy + strlen("file:"));
    people.limiter = usual;
}

/* All are dead that had the file open, on this boot: it is repaired, and not begun anew. So those that the queue had
 * charged are given back, and nobody waits behind the dead. */
static void all_dead_and_gone(const char *folder)
{
    char path[64];
    (void)snprintf(path, sizeof path, "file:%s/third", folder);
    struct weir_limiter *usual = people.limiter;
    struct person *six[6];
    people_open(path, 1 << 20);
    people_begin("all dead and gone", "queue 1/s capacity=20");
    for (int i = 0; i < 6; i++) {
        six[i] = people_join(1, 30 * S);
    }
    uint64_t turns = people_room()->turns;
    weir_limiter_close(people.limiter); // those who wait have it open
    for (int i = 0; i < 6; i++) {
        people_end(six[i]);
    }
    people_open(path, 0);
    uint64_t since_ns = people_now();
    struct person *next = people_join(1, 30 * S);
    if (people_room()->turns <= turns) {
        give_up("%s: the room was begun anew", people.key);
    }
    people_must_be_let(next);
    people_must_be_about(next, since_ns, 0, 3000 + IN_TIME_MS);
    people_must_be_gone();
    weir_limiter_close(people.limiter);
    (void)unlink(path + strlen("file:"));
    people.limiter = usual;
}

static void run_all(void)
{
    in_order("25/s capacity=1", 40, 40);
    in_order("queue 25/s capacity=50 first=interval", 40, 40);
    in_order("stepped 1/30ms", 30, 30);
    in_order("fixed 1/30ms", 0, 30);
    in_order("sliding 1/15ms", 15, 15);
    in_order("window 1/30ms", 30, 30);
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
    people_init();
    people_open(store, 0);
    (void)unlink(store + strlen("file:"));
    run_all();
    another_boot(path);
    all_dead_and_gone(path);
    (void)rmdir(path);
    weir_limiter_close(people.limiter);
    people_open("memory:?shared=yes", 0);
    printf("---- memory ----\n");
    in_order("25/s capacity=1", 40, 40);
    in_order("window 1/30ms", 30, 30);
    dead_head();
    weir_limiter_close(people.limiter);
    return 0;
}
