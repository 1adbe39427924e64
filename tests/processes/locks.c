/* SPDX-License-Identifier: MIT
 *
 * A lock that is open while somebody sleeps on it, and nobody will ever wake him: what is left when the one that
 * was woken is killed before it runs, and somebody else has had the lock in between. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sharing.h"
#include "sync/mutex.h"

enum { BLOCKED_S = 30 };

struct scene {
    struct mutex mutex, open;
    volatile bool is_held, is_about_to_wait, is_let_go, has_it;
};

static pid_t start(void (*does)(struct scene *scene), struct scene *scene)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        does(scene);
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

/* Its word says afterwards what it says of an open lock, and nobody was woken. */
static void hold_and_let_go(struct scene *scene)
{
    (void)mutex_lock(&scene->mutex);
    scene->is_held = true;
    while (!scene->is_let_go) {
        (void)sched_yield();
    }
    memcpy(&scene->mutex, &scene->open, sizeof scene->mutex);
}

static void wait_for_it(struct scene *scene)
{
    scene->is_about_to_wait = true;
    (void)mutex_lock(&scene->mutex);
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
    mutex_init_shared(&scene->mutex);
    mutex_init_shared(&scene->open);
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
