/* SPDX-License-Identifier: MIT
 *
 * A lock that is open while a process sleeps on it, and that nobody will ever wake: what is left when the process
 * that was woken is killed before it runs, and another one has had the lock in between. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sharing.h"
#include "sync/lock.h"

enum { BLOCKED_S = 30 };

struct scene {
    struct lock lock;
    volatile bool is_held, is_about_to_wait, is_let_go, has_it;
};

static int memory_fd;

static struct membership join(void)
{
    struct membership members;
    bool is_alone;
    struct membership_wait wait = {.for_ns = MEMBERSHIP_JOIN_NS};
    bool is_open = membership_open(&members, memory_fd, NULL);
    bool done;
    do {
        membership_fork_lock();
        done = is_open && membership_begin(&members, &is_alone) && membership_join(&members);
        membership_fork_unlock();
    } while (!done && membership_wait(&wait));
    if (!done) {
        give_up("cannot join");
    }
    return members;
}

static pid_t start(void (*does)(struct scene *scene, const struct membership *members),
                   struct scene *scene)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct membership members = join();
        does(scene, &members);
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

/* Its word says afterwards what it says of an open lock, and nobody was woken. */
static void hold_and_let_go(struct scene *scene, const struct membership *members)
{
    (void)lock_acquire(&scene->lock, members);
    scene->is_held = true;
    while (!scene->is_let_go) {
        (void)sched_yield();
    }
    __atomic_store_n(&scene->lock.word, LOCK_OPEN, __ATOMIC_RELEASE);
}

static void wait_for_it(struct scene *scene, const struct membership *members)
{
    scene->is_about_to_wait = true;
    (void)lock_acquire(&scene->lock, members);
    scene->has_it = true;
}

/* Whether it does nothing; then it waits for the lock, for it does nothing else. */
static bool sleeps(pid_t pid)
{
    char path[64];
    char line[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        give_up("no %s", path);
    }
    (void)fclose(file);
    const char *end = strrchr(line, ')');
    return end != NULL && end[2] == 'S';
}

int main(void)
{
    struct scene *scene = world_share(sizeof *scene);
    memory_fd = memfd_create("locks", MFD_CLOEXEC);
    (void)alarm(BLOCKED_S);
    pid_t holder = start(hold_and_let_go, scene);
    while (!scene->is_held) {
        (void)sched_yield();
    }
    pid_t waiter = start(wait_for_it, scene);
    while (!scene->is_about_to_wait || !sleeps(waiter)) {
        (void)sched_yield();
    }
    scene->is_let_go = true;
    while (!scene->has_it) { // that it never has is what alarm() is for
        (void)sched_yield();
    }
    (void)kill(holder, SIGKILL);
    (void)kill(waiter, SIGKILL);
    (void)waitpid(holder, NULL, 0);
    (void)waitpid(waiter, NULL, 0);
    return 0;
}
