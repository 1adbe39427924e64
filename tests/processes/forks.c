/* SPDX-License-Identifier: MIT
 *
 * Generations: a process opens a store and takes, its child takes after its death, and a grandchild after the
 * child's. Each is a member of its own once it takes, and all of them have one limit together. Some close all
 * descriptors first, as a program does that becomes a daemon. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drill.h"

enum { GENERATIONS = 3, DESCRIPTORS = 64, EACH = 2 };

/*   allowed          how many units each generation got
 *   done             how many of them have taken
 *   verdict, status  of the child that may not take */
struct family {
    volatile pid_t pids[GENERATIONS];
    volatile int allowed[GENERATIONS];
    volatile enum weir_verdict verdict;
    volatile enum weir_status status;
    volatile int done;
};

static struct family *family;

static void close_all(void)
{
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        (void)close(fd);
    }
}

/* Until the parent has been killed, and is gone: then init is our parent, or a subreaper. */
static void outlive(pid_t parent)
{
    while (getppid() == parent) {
        (void)sched_yield();
    }
}

static void take_some(int generation)
{
    int allowed = 0;
    for (int i = 0; i < EACH; i++) {
        allowed += drill_take("family") == WEIR_ALLOWED;
    }
    family->allowed[generation] = allowed;
    family->done = generation + 1;
}

/* One generation after the other, in a process of its own each: it takes, has a child, and waits to be killed. */
static void live(bool closes)
{
    for (int generation = 0; generation < GENERATIONS; generation++) {
        pid_t self = getpid();
        (void)alarm(DRILL_BLOCKED_S);
        if (closes && generation > 0) {
            close_all();
        }
        take_some(generation);
        if (generation == GENERATIONS - 1 || fork() != 0) {
            break;
        }
        family->pids[generation + 1] = getpid();
        outlive(self);
    }
    for (;;) {
        (void)pause();
    }
}

/* Until one has taken what it wants, and its child is there. */
static void wait_for(int generation)
{
    bool has_child = generation < GENERATIONS - 1;
    while (family->done <= generation || (has_child && family->pids[generation + 1] == 0)) {
        (void)sched_yield(); // that it never comes is what alarm() is for
    }
}

/* The test's own process is not among them, so that the first one is a child of it, and the others are nobody's. */
static void run_generations(bool opens, bool closes)
{
    memset(family, 0, sizeof *family);
    pid_t first = fork();
    if (first == 0) {
        if (opens) {
            drill_open();
        }
        live(closes);
    }
    family->pids[0] = first;
    for (int i = 0; i < GENERATIONS; i++) {
        wait_for(i);
        drill_must_be(family->allowed[i], EACH, "one of the generations");
        (void)kill(family->pids[i], SIGKILL);
        if (i == 0) {
            (void)waitpid(first, NULL, 0);
        }
    }
    drill_must_be(drill_count("family"), DRILL_CAPACITY - GENERATIONS * EACH, "the test itself");
}

static void in_a_file(bool closes)
{
    drill_begin(closes ? "three generations, who close all descriptors first"
                       : "three generations with one file");
    run_generations(true, closes);
    drill_end();
}

static void inherited(bool closes)
{
    drill_begin(
        closes ? "three generations with a file that the test has opened, and closed descriptors"
               : "three generations with a file that the test has opened");
    run_generations(false, closes);
    drill_end();
}

static void in_memory(void)
{
    drill_begin_in_memory("three generations with memory");
    run_generations(false, false);
    drill_end();
}

/* There is no name by which the memory could be found again, so this one takes nothing rather than too much. */
static void in_memory_without_descriptors(void)
{
    drill_begin_in_memory("a child with memory that closes all descriptors first");
    memset(family, 0, sizeof *family);
    pid_t child = fork();
    if (child == 0) {
        close_all();
        family->verdict = drill_take("family");
        family->status = weir_limiter_status(drill.limiter, NULL);
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
    if (family->verdict != WEIR_FAILED || family->status != WEIR_E_SYSTEM) {
        give_up("it got %s, and %s", weir_verdict_word(family->verdict),
                weir_status_name(family->status));
    }
    drill_must_be(drill_count("family"), DRILL_CAPACITY, "the parent");
    drill_end();
}

int main(void)
{
    family = world_share(sizeof *family);
    in_a_file(false);
    in_a_file(true);
    inherited(false);
    inherited(true);
    in_memory();
    in_memory_without_descriptors();
    return drill_exit_code();
}
