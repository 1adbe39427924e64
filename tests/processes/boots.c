/* SPDX-License-Identifier: MIT
 *
 * Containers with boot ids of their own, as some programs that start containers mount them, and one file. A
 * process may believe its boot id only while it is alone: then nothing of anybody else's can be lost by it.
 *
 *     boots [soak] */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drill.h"
#include "platform/boot.h"
#include "steps.h"
#include "weir/clock.h"

enum {
    TURNS = 12,
    OPENINGS = 60, // of the storm
    OPENINGS_SOAK = 480,
    STEADY = 2,    // who stay meanwhile, one of each world
    NEW_KEYS = 500 // that each one makes, who comes and goes
};

static char id_path[32];

static void write_id(void)
{
    static const char ID[] = "11111111-2222-4333-8444-555555555555\n";
    (void)snprintf(id_path, sizeof id_path, "/tmp/weir-boot-XXXXXX");
    int fd = mkstemp(id_path);
    if (fd < 0 || write(fd, ID, strlen(ID)) != (ssize_t)strlen(ID) || close(fd) != 0) {
        give_up("no file in /tmp");
    }
}

/* Where the kernel's boot id is another one. */
static void enter_other_boot(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
        || mount(id_path, BOOT_ID_PATH, NULL, MS_BIND, NULL) != 0) {
        _exit(1);
    }
}

/* The first and every second turn are in the test's own world. */
static drill_entrance *world_of(int turn)
{
    return turn % 2 == 0 ? NULL : enter_other_boot;
}

/* What a new epoch, or a new beginning of time, would change. */
struct ages {
    uint64_t epoch, home_epoch, offset_ns;
};

static struct ages ages_now(void)
{
    const struct file_header *header = drill_header();
    return (struct ages){header->epoch, header->home_epoch, header->time.offset_ns};
}

static void must_be_unchanged(struct ages before)
{
    struct ages after = ages_now();
    if (memcmp(&before, &after, sizeof before) != 0) {
        give_up("the epoch went from %" PRIu64 " to %" PRIu64 ", the time by %" PRIu64 " ns",
                before.epoch, after.epoch, after.offset_ns - before.offset_ns);
    }
}

/* ---- somebody stays ---- */

static void must_be_in_order(uint64_t before_ns, uint64_t then_ns, uint64_t after_ns)
{
    if (then_ns + WEIR_CLOCK_ERROR_NS_MAX < before_ns
        || then_ns > after_ns + WEIR_CLOCK_ERROR_NS_MAX) {
        give_up("it was %" PRIu64 " between %" PRIu64 " and %" PRIu64, then_ns, before_ns,
                after_ns);
    }
}

static void in_turns_beside_a_holder(void)
{
    char same[DRILL_KEY_MAX];
    char other[DRILL_KEY_MAX];
    drill_begin("two boot ids come in turns while a lock is held");
    drill_hold("held", NULL);
    drill_key(DRILL_SAME_LINE, same);
    drill_key(DRILL_OTHER_STRIPE, other);
    struct ages before = ages_now();
    struct taker *waits[] = {drill_start_taker(same, enter_other_boot),
                             drill_start_taker(same, NULL)};
    int allowed = 0;
    for (int i = 0; i < TURNS; i++) {
        uint64_t before_ns = weir_limiter_now_ns(drill.limiter);
        struct taker *guest = drill_start_taker(other, world_of(i));
        allowed += drill_answer(guest);
        must_be_in_order(before_ns, guest->opened_ns, weir_limiter_now_ns(drill.limiter));
    }
    drill_must_be(allowed, DRILL_CAPACITY, "all that came in turns");
    drill_must_wait(waits[0]);
    drill_must_wait(waits[1]);
    drill_let_go();
    drill_must_be(drill_answer(waits[0]) + drill_answer(waits[1]), DRILL_CAPACITY,
                  "both that waited");
    drill_must_be(drill_count("held"), DRILL_CAPACITY - 1, "beside the holder");
    must_be_unchanged(before);
    drill_end();
}

/* ---- nobody stays ---- */

/* Opens the file, takes one unit of the key, and leaves. */
struct visit {
    volatile int verdict;
    volatile uint64_t store_ns, machine_ns;
};

static void visit(struct visit *visit, drill_entrance *enters)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (enters != NULL) {
            enters();
        }
        drill_open();
        visit->verdict = (int)drill_take("visited");
        visit->store_ns = weir_limiter_now_ns(drill.limiter);
        visit->machine_ns = weir_clock_now_ns();
        drill_close();
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        give_up("a visitor ended with status %d", status);
    }
}

/* Each one is alone, finds the file of another boot, and lets its time go on: by the wall clock, so not to the
 * nanosecond. */
static void in_turns_alone(void)
{
    const uint64_t ABOUT_NS = UINT64_C(10000000000);
    struct visit *told = world_share(2 * sizeof *told);
    int allowed = 0;
    drill_begin("two boot ids come in turns, each alone");
    drill_close();
    for (int i = 0; i < DRILL_CAPACITY + TURNS; i++) {
        struct visit *now = &told[i % 2];
        const struct visit *before = &told[(i + 1) % 2];
        visit(now, world_of(i));
        allowed += now->verdict == WEIR_ALLOWED;
        uint64_t went_ns = now->store_ns - before->store_ns;
        uint64_t passed_ns = now->machine_ns - before->machine_ns;
        if (i > 0 && (now->store_ns < before->store_ns || went_ns > passed_ns + ABOUT_NS)) {
            give_up("the time went %" PRIu64 " ns in %" PRIu64, went_ns, passed_ns);
        }
    }
    drill_must_be(allowed, DRILL_CAPACITY, "all that came in turns");
    drill_end();
}

/* ---- a storm ---- */

struct storm {
    volatile bool is_over;
    volatile int allowed[OPENINGS_SOAK + STEADY];
};

/* Makes new buckets all the time, and takes of the common one. */
static pid_t start_worker(struct storm *storm, int number, drill_entrance *enters, bool stays)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid > 0) {
        return pid;
    }
    struct weir_rule passes;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (enters != NULL) {
        enters();
    }
    drill_open();
    if (weir_rule_from_text(&passes, drill.limiter, "1000000/s", NULL) != WEIR_OK) {
        _exit(1);
    }
    for (int i = 0; stays ? !storm->is_over : i < NEW_KEYS; i++) {
        char key[DRILL_KEY_MAX];
        (void)snprintf(key, sizeof key, "%d:%d", number, i);
        (void)weir_limiter_take(drill.limiter, &passes, key, strlen(key), WEIR_UNIT);
        (void)snprintf(key, sizeof key, "common %d", i % NEW_KEYS / 2);
        storm->allowed[number] += drill_take(key) == WEIR_ALLOWED;
    }
    drill_close();
    _exit(0);
}

static void must_have_ended_well(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        give_up("one of the storm ended with status %d", status);
    }
}

static void storm_of_openings(int openings)
{
    struct storm *storm = world_share(sizeof *storm);
    pid_t steady[STEADY];
    int allowed = 0;
    drill_begin("a storm of openings with two boot ids");
    struct ages before = ages_now();
    for (int i = 0; i < STEADY; i++) {
        steady[i] = start_worker(storm, openings + i, world_of(i), true);
    }
    for (int i = 0; i < openings; i++) {
        (void)alarm(DRILL_BLOCKED_S);
        must_have_ended_well(start_worker(storm, i, world_of(i), false));
    }
    storm->is_over = true;
    for (int i = 0; i < STEADY; i++) {
        must_have_ended_well(steady[i]);
    }
    for (int i = 0; i < openings + STEADY; i++) {
        allowed += storm->allowed[i];
    }
    drill_must_be(allowed, DRILL_CAPACITY * NEW_KEYS / 2, "all of the storm");
    must_be_unchanged(before);
    drill_end();
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    write_id();
    if (!drill_may(enter_other_boot)) {
        drill_skip("two boot ids", "mounting in a namespace of our own needs root");
    } else {
        if (steps_are_possible()) {
            in_turns_beside_a_holder();
        } else {
            drill_skip("two boot ids and a held lock", "no single steps here");
        }
        in_turns_alone();
        storm_of_openings(is_soak ? OPENINGS_SOAK : OPENINGS);
    }
    (void)unlink(id_path);
    return drill_exit_code();
}
