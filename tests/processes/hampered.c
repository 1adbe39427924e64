/* SPDX-License-Identifier: MIT */
#include "hampered.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "people.h"

static struct hampered *hampered_of(struct line_mover *lines)
{
    return (struct hampered *)(void *)lines;
}

static void come_to(struct hampered *hampered, enum point point)
{
    if (hampered->point == point && hampered->happens != NULL) {
        void (*happens)(void) = hampered->happens;
        hampered->happens = NULL; // once
        happens();
    }
}

static enum line_mover_result enter(struct line_mover *lines, struct store *from,
                                    struct store *into, uint64_t now_ns)
{
    struct hampered *hampered = hampered_of(lines);
    come_to(hampered, BEFORE_ENTER);
    enum line_mover_result result =
        hampered->mover.lines.enter(&hampered->mover.lines, from, into, now_ns);
    come_to(hampered, AFTER_ENTER);
    return result;
}

static uint64_t carry(struct line_mover *lines, uint64_t now_ns)
{
    struct hampered *hampered = hampered_of(lines);
    uint64_t count = hampered->mover.lines.carry(&hampered->mover.lines, now_ns);
    come_to(hampered, AFTER_CARRY);
    return count;
}

static void leave(struct line_mover *lines, uint64_t now_ns)
{
    struct hampered *hampered = hampered_of(lines);
    come_to(hampered, BEFORE_LEAVE);
    hampered->mover.lines.leave(&hampered->mover.lines, now_ns);
    come_to(hampered, AFTER_LEAVE);
}

void hampered_init(struct hampered *hampered, enum point point, void (*happens)(void))
{
    *hampered =
        (struct hampered){.lines = {enter, carry, leave}, .point = point, .happens = happens};
    room_mover_init(&hampered->mover);
}

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
}

void hampered_kill(enum point point, void (*move)(struct line_mover *lines))
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        struct hampered hampered;
        hampered_init(&hampered, point, die);
        move(&hampered.lines);
        give_up("%s: the mover survived", people.key);
    }
    int status;
    (void)waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        give_up("%s: the mover ended by itself", people.key);
    }
}
