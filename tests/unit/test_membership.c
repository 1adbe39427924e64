/* SPDX-License-Identifier: MIT
 *
 * Who is alive of those that share a file: as the kernel knows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/membership.h"

enum { HANGS_S = 30, MANY_FDS = 64 };

static int set_up(void **state)
{
    static int fd;
    fd = memfd_create("test", MFD_CLOEXEC);
    *state = &fd;
    return fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    return close(*(int *)*state);
}

static bool try_join(struct membership *members, int fd, bool *is_alone)
{
    struct membership_wait wait = {.for_ns = MEMBERSHIP_JOIN_NS};
    bool is_open = membership_open(members, fd, NULL);
    bool done;
    do {
        membership_fork_lock();
        done = is_open && membership_begin(members, is_alone) && membership_join(members);
        membership_fork_unlock();
    } while (!done && membership_wait(&wait));
    return done;
}

static bool join(struct membership *members, int fd)
{
    bool is_alone;
    assert_true(try_join(members, fd, &is_alone));
    return is_alone;
}

static bool leave(struct membership *members)
{
    bool is_alone;
    membership_fork_lock();
    assert_true(membership_end(members, &is_alone));
    membership_close(members);
    membership_fork_unlock();
    return is_alone;
}

static void test_a_member_is_alive_until_it_leaves(void **state)
{
    int fd = *(int *)*state;
    struct membership one, other;
    assert_true(join(&one, fd));
    assert_false(join(&other, fd));
    uint64_t id = one.id;
    assert_int_not_equal(id, other.id);
    assert_true(membership_is_alive(&other, id));
    assert_true(membership_is_alive(&other, other.id));
    assert_false(leave(&one));
    assert_false(membership_is_alive(&other, id));
    assert_true(leave(&other));
}

/* ---- processes ---- */

/* What a child tells: its id, once it has joined. */
struct told {
    volatile uint64_t id;
    volatile pid_t orphan;
};

static struct told *share_told(void)
{
    void *at =
        mmap(NULL, sizeof(struct told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static uint64_t wait_for_id(const struct told *told)
{
    while (told->id == 0) {
        (void)sched_yield(); // that it never comes is what alarm() is for
    }
    return told->id;
}

/* Waits for its end; alarm() is for one that nobody ends. */
static void die(void)
{
    (void)alarm(HANGS_S);
    for (;;) {
        (void)pause();
    }
}

static void become_member(struct told *told, int fd)
{
    struct membership members;
    bool is_alone;
    if (!try_join(&members, fd, &is_alone)) {
        _exit(1);
    }
    told->id = members.id;
}

static void end(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void test_a_stopped_member_is_alive_and_a_killed_one_is_not(void **state)
{
    int fd = *(int *)*state;
    struct told *told = share_told();
    struct membership own;
    (void)join(&own, fd);
    pid_t child = fork();
    if (child == 0) {
        become_member(told, fd);
        die();
    }
    uint64_t id = wait_for_id(told);
    int status;
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(membership_is_alive(&own, id));
    end(child);
    assert_false(membership_is_alive(&own, id));
    (void)leave(&own);
}

/* The child of a member's fork lives on, and never calls us; by fork() and by the bare system call. */
static void check_orphan(void **state, pid_t (*fork_somehow)(void))
{
    int fd = *(int *)*state;
    struct told *told = share_told();
    struct membership own;
    (void)join(&own, fd);
    pid_t child = fork();
    if (child == 0) {
        become_member(told, fd);
        pid_t orphan = fork_somehow();
        if (orphan != 0) {
            told->orphan = orphan;
        }
        die();
    }
    uint64_t id = wait_for_id(told);
    while (told->orphan == 0) {
        (void)sched_yield();
    }
    assert_true(membership_is_alive(&own, id));
    end(child);
    assert_false(membership_is_alive(&own, id));
    assert_int_equal(kill(told->orphan, SIGKILL), 0); // it was alive
    (void)leave(&own);
}

static pid_t fork_bare(void)
{
    return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
}

static void test_a_fork_keeps_no_dead_parent_alive(void **state)
{
    check_orphan(state, fork);
}

static void test_a_bare_clone_keeps_no_dead_parent_alive(void **state)
{
    check_orphan(state, fork_bare);
}

/* As a program does that becomes a daemon. */
static void test_a_member_that_closes_all_files_stays_one(void **state)
{
    int fd = *(int *)*state;
    struct told *told = share_told();
    struct membership own;
    (void)join(&own, fd);
    pid_t child = fork();
    if (child == 0) {
        struct membership members;
        bool is_alone;
        bool done = try_join(&members, fd, &is_alone);
        for (int i = 0; i < MANY_FDS; i++) {
            (void)close(i);
        }
        int other = open("/dev/null", O_RDWR); // and their numbers are used again
        while (other >= 0 && other < members.fd) {
            other = open("/dev/null", O_RDWR);
        }
        bool is_true = done && membership_is_alive(&members, own.id); // it cannot tell, and waits
        membership_close(&members);
        told->id = is_true && fcntl(members.fd, F_GETFD) < 0 && errno == EBADF ? members.id : 1;
        die();
    }
    uint64_t id = wait_for_id(told);
    assert_int_not_equal(id, 1);
    assert_true(membership_is_alive(&own, id));
    end(child);
    assert_false(membership_is_alive(&own, id));
    (void)leave(&own);
}

/* As a child of a fork does that becomes a daemon, and uses the file only then. */
static void test_one_that_has_closed_all_files_joins_by_the_name(void **state)
{
    int fd = *(int *)*state;
    struct told *told = share_told();
    struct membership own;
    char path[64];
    (void)join(&own, fd);
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    pid_t child = fork();
    if (child == 0) {
        struct membership members;
        bool is_alone;
        bool done = membership_open(&members, fd, path);
        for (int i = 0; i < MANY_FDS; i++) {
            (void)close(i);
        }
        membership_fork_lock();
        done = done && membership_begin(&members, &is_alone) && membership_join(&members);
        membership_fork_unlock();
        told->id = done && !is_alone && membership_is_alive(&members, own.id) ? members.id : 1;
        die();
    }
    uint64_t id = wait_for_id(told);
    assert_int_not_equal(id, 1);
    assert_true(membership_is_alive(&own, id));
    end(child);
    assert_false(membership_is_alive(&own, id));
    (void)leave(&own);
}

static void test_numbers_of_processes_mean_nothing(void **state)
{
    int fd = *(int *)*state;
    struct told *told = share_told();
    struct membership own;
    (void)join(&own, fd);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWPID) != 0) {
            told->id = 1;
            _exit(0);
        }
        pid_t first = fork(); // number 1 there
        if (first == 0) {
            become_member(told, fd);
            die();
        }
        told->orphan = first;
        die();
    }
    uint64_t id = wait_for_id(told);
    while (id != 1 && told->orphan == 0) { // else we would kill number 0: ourselves
        (void)sched_yield();
    }
    if (id == 1) {
        print_message("skipped: no container without root\n");
    } else {
        assert_true(membership_is_alive(&own, id));
    }
    if (id != 1) {
        assert_int_equal(kill(told->orphan, SIGKILL), 0);
        while (membership_is_alive(&own, id)) { // its end is its parent's to wait for
            (void)sched_yield();
        }
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    (void)leave(&own);
}

/* ---- the gate ---- */

static void test_one_that_dies_at_the_gate_opens_it(void **state)
{
    int fd = *(int *)*state;
    struct told *told = share_told();
    pid_t child = fork();
    if (child == 0) {
        struct membership members;
        bool is_alone;
        bool done = membership_open(&members, fd, NULL);
        membership_fork_lock();
        told->id = done && membership_begin(&members, &is_alone) ? 2 : 1;
        die();
    }
    assert_int_equal(wait_for_id(told), 2);
    end(child);
    struct membership own;
    assert_true(join(&own, fd));
    assert_true(leave(&own));
}

static bool is_gate_held(int fd)
{
    struct flock gate = {.l_type = F_WRLCK, .l_start = (off_t)MEMBERSHIP_GATE, .l_len = 1};
    assert_int_equal(fcntl(fd, F_OFD_GETLK, &gate), 0);
    return gate.l_type != F_UNLCK;
}

static void test_the_gate_is_held_while_one_joins_or_leaves(void **state)
{
    int fd = *(int *)*state;
    struct membership members;
    bool is_alone;
    assert_true(membership_open(&members, fd, NULL));
    membership_fork_lock();
    assert_true(membership_begin(&members, &is_alone));
    assert_true(is_gate_held(fd));
    assert_true(membership_join(&members));
    assert_false(is_gate_held(fd));
    assert_true(membership_end(&members, &is_alone));
    assert_true(is_gate_held(fd));
    membership_close(&members);
    assert_false(is_gate_held(fd));
    membership_fork_unlock();
}

static void test_a_gate_that_is_held_is_tried_for_a_bounded_time(void **state)
{
    int fd = *(int *)*state;
    struct membership holder, other;
    struct membership_wait wait = {.for_ns = 1000000};
    bool is_alone;
    assert_true(membership_open(&holder, fd, NULL));
    assert_true(membership_open(&other, fd, NULL));
    membership_fork_lock();
    assert_true(membership_begin(&holder, &is_alone));
    do {
        assert_false(membership_begin(&other, &is_alone));
        assert_int_equal(errno, EAGAIN);
    } while (membership_wait(&wait));
    assert_int_equal(errno, ETIMEDOUT);
    assert_false(membership_wait(&wait)); // nothing to wait for
    assert_true(membership_join(&holder));
    assert_true(membership_begin(&other, &is_alone));
    assert_false(is_alone);
    membership_close(&other);
    membership_fork_unlock();
    (void)leave(&holder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_member_is_alive_until_it_leaves),
        TEST(test_a_stopped_member_is_alive_and_a_killed_one_is_not),
        TEST(test_a_fork_keeps_no_dead_parent_alive),
        TEST(test_a_bare_clone_keeps_no_dead_parent_alive),
        TEST(test_a_member_that_closes_all_files_stays_one),
        TEST(test_one_that_has_closed_all_files_joins_by_the_name),
        TEST(test_numbers_of_processes_mean_nothing),
        TEST(test_one_that_dies_at_the_gate_opens_it),
        TEST(test_the_gate_is_held_while_one_joins_or_leaves),
        TEST(test_a_gate_that_is_held_is_tried_for_a_bounded_time),
    };
    (void)alarm(HANGS_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
