/* SPDX-License-Identifier: MIT
 *
 * A process that stands in the middle of an insertion, and holds the lock of a stripe: stopped, or dead with a child of
 * a fork that lives on. While it is alive the others wait for it, and take nothing from it; once it is dead they have
 * its lock. */
#include <signal.h>
#include <stdio.h>

#include "drill.h"
#include "steps.h"

static void stopped(void)
{
    char same[DRILL_KEY_MAX];
    char other[DRILL_KEY_MAX];
    drill_begin("one is stopped in an insertion: others of its stripe wait, and nobody else");
    drill_hold("held", NULL);
    drill_freeze();
    drill_key(DRILL_SAME_LINE, same);
    drill_key(DRILL_OTHER_STRIPE, other);
    struct taker *waits = drill_start_taker(same, NULL);
    drill_must_wait(waits);
    drill_must_be(drill_answer(drill_start_taker(other, NULL)), DRILL_CAPACITY, "another stripe");
    drill_must_wait(waits);
    drill_thaw();
    drill_must_be(drill_answer(waits), DRILL_CAPACITY, "the one that waited");
    drill_must_be(drill_count("held"), DRILL_CAPACITY - 1, "beside the one that was stopped");
    drill_must_be(drill_count(same) + drill_count(other), 0, "afterwards");
    drill_end();
}

/* The one that was killed had not come so far that it was charged. */
static void check_dead(const char *key)
{
    drill_must_be(drill_count("held"), DRILL_CAPACITY, "after the dead one");
    drill_must_be(drill_count(key), 0, "afterwards");
}

static void killed(void)
{
    char same[DRILL_KEY_MAX];
    drill_begin("one is killed in an insertion: one that waited is its heir");
    drill_hold("held", NULL);
    drill_key(DRILL_SAME_LINE, same);
    struct taker *waits = drill_start_taker(same, NULL);
    drill_must_wait(waits);
    drill_kill_holder();
    drill_must_be(drill_answer(waits), DRILL_CAPACITY, "the heir");
    check_dead(same);
    drill_end();
}

static void killed_with_a_child(void)
{
    char same[DRILL_KEY_MAX];
    drill_begin("its child lives on, and never calls us: it keeps no lock");
    pid_t child = drill_hold_with_child("held");
    drill_key(DRILL_SAME_LINE, same);
    struct taker *waits = drill_start_taker(same, NULL);
    drill_must_wait(waits);
    drill_kill_holder();
    drill_must_be(drill_answer(waits), DRILL_CAPACITY, "the heir");
    if (kill(child, SIGKILL) != 0) {
        give_up("the child was dead, too");
    }
    check_dead(same);
    drill_end();
}

int main(void)
{
    if (!steps_are_possible()) {
        drill_skip("a process in the middle of an insertion", "no single steps here");
        return drill_exit_code();
    }
    stopped();
    killed();
    killed_with_a_child();
    return drill_exit_code();
}
