/* SPDX-License-Identifier: MIT */
#include "steps.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sharing.h"

#if defined(__x86_64__)
#define INT3     0xccL
#define PC_FIELD offsetof(struct user, regs.rip)
#else // the tests are skipped there: single steps break load-exclusive pairs
#define INT3     0L
#define PC_FIELD 0
#endif

enum { DEAR_HITS = 8 }; // what coming by a breakpoint costs, in steps

static volatile bool *is_done; // the child has come through

/* ---- the child, as the kernel shows it ---- */

/* Lets it go on in some way, until it stops. */
static void go(pid_t child, bool is_step)
{
    int status;
    if (ptrace(is_step ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL) != 0) {
        give_up("no step");
    }
    (void)waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
        give_up("the child ended by itself");
    }
}

static uint64_t pc_of(pid_t child)
{
    return (uint64_t)ptrace(PTRACE_PEEKUSER, child, (void *)PC_FIELD, NULL);
}

static void set_pc(pid_t child, uint64_t pc)
{
    if (ptrace(PTRACE_POKEUSER, child, (void *)PC_FIELD, (void *)pc) != 0) {
        give_up("no place to go to");
    }
}

static void write_code(pid_t child, uint64_t pc, long code)
{
    if (ptrace(PTRACE_POKETEXT, child, (void *)pc, (void *)code) != 0) {
        give_up("no breakpoint");
    }
}

/* ---- the path ---- */

void steps_come_through(void)
{
    *is_done = true;
    (void)raise(SIGSTOP);
}

pid_t steps_start(struct path *path, void (*begins)(void), void (*does)(const void *context),
                  const void *context)
{
    if (is_done == NULL) {
        is_done = world_share(sizeof *is_done);
    }
    *is_done = false;
    pid_t child = fork();
    if (child < 0) {
        give_up("no process");
    }
    if (child == 0) {
        begins();
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(77);
        }
        (void)raise(SIGSTOP);
        does(context);
        steps_come_through();
        _exit(0);
    }
    int status;
    (void)waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("skipped: ptrace is forbidden here\n");
        exit(77);
    }
    if (path != NULL) {
        path->count = 0;
        path->pcs[0] = pc_of(child);
    }
    return child;
}

void steps_begin_at_stop(struct path *path, pid_t child)
{
    go(child, false);
    if (path != NULL) {
        path->count = 0;
        path->pcs[0] = pc_of(child);
    }
}

bool steps_next(struct path *path, pid_t child)
{
    if (*is_done || path->count == STEPS_MAX) {
        return false;
    }
    go(child, true);
    path->pcs[++path->count] = pc_of(child);
    return true;
}

/* How often the path comes by the place where it ends, before it ends there. */
static int hits_before(const struct path *path, int end)
{
    int hits = 0;
    for (int i = 0; i < end; i++) {
        hits += path->pcs[i] == path->pcs[end];
    }
    return hits;
}

void steps_run_to(const struct path *path, pid_t child, int at)
{
    uint64_t pc = path->pcs[at + 1];
    int hits = hits_before(path, at + 1);
    if (hits * DEAR_HITS > at || pc == path->pcs[0]) {
        for (int i = 0; i <= at && !*is_done; i++) {
            go(child, true);
        }
        return;
    }
    errno = 0;
    long code = ptrace(PTRACE_PEEKTEXT, child, (void *)pc, NULL);
    if (errno != 0) {
        give_up("no code");
    }
    for (int i = 0; i <= hits; i++) {
        write_code(child, pc, (code & ~0xffL) | INT3);
        go(child, false);
        if (*is_done) {
            return;
        }
        if (pc_of(child) != pc + 1) {
            give_up("the child went another way");
        }
        write_code(child, pc, code);
        set_pc(child, pc);
        if (i < hits) {
            go(child, true);
        }
    }
}

void steps_run_out(pid_t child)
{
    while (!*is_done) {
        go(child, false);
    }
}

void steps_freeze(pid_t child)
{
    int status;
    if (ptrace(PTRACE_DETACH, child, NULL, (void *)SIGSTOP) != 0) {
        give_up("the child cannot be left");
    }
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) {
        give_up("the child does not stop");
    }
}

void steps_end(pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

bool steps_are_possible(void)
{
#if defined(__x86_64__)
    int status;
    pid_t child = fork();
    if (child == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
#else
    return false;
#endif
}
