/* SPDX-License-Identifier: MIT
 *
 * What a process finds that opens a file: whether the last one left it whole, whether it is of this boot and at this
 * inode; and that nothing of this is believed while others use it. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "../support/store_place.h"

static struct file_header leave_and_look(struct place *place, struct weir_limiter *limiter)
{
    weir_limiter_close(limiter);
    return read_header(place->path);
}

/* What one finds that opens the file now. */
static struct file_header open_and_look(const char *path, struct weir_limiter **limiter)
{
    char url[160];
    (void)snprintf(url, sizeof url, "file:%s", path);
    *limiter = open_url(url);
    assert_int_equal(take(*limiter, "k", 0).verdict, WEIR_ALLOWED);
    return read_header(path);
}

static void assert_epochs(const struct file_header *header, uint64_t epoch, uint64_t home_epoch)
{
    assert_int_equal(header->epoch, epoch);
    assert_int_equal(header->home_epoch, home_epoch);
}

/* As if it were of another boot. */
static void change_home(const char *path)
{
    struct weir_bucket home = read_header(path).home;
    home.empty_at_ns ^= 1;
    write_at(path, offsetof(struct file_header, home), &home, sizeof home);
}

/* A process that has the file open: killed before this returns, or when it is. */
static pid_t start_user(const struct place *place)
{
    int fds[2];
    char is_there;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(60);
        struct weir_limiter *limiter = open_url(place->url);
        bool right = take(limiter, "k", 1).verdict == WEIR_ALLOWED && write(fds[1], "", 1) == 1;
        while (right) {
            (void)pause();
        }
        _exit(1);
    }
    assert_int_equal(read(fds[0], &is_there, 1), 1);
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
    return child;
}

static void kill_user(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_the_last_to_leave_says_so(void **state)
{
    struct place *place = *state;
    struct weir_limiter *one, *other;
    one = open_url(place->url);
    struct file_header header = read_header(place->path);
    assert_int_equal(header.in_use, 1);
    assert_epochs(&header, 0, 0);
    other = open_url(place->url);
    header = leave_and_look(place, one);
    assert_int_equal(header.in_use, 1); // one is still there
    header = leave_and_look(place, other);
    assert_int_equal(header.in_use, 0);
    header = open_and_look(place->path, &one);
    assert_int_equal(header.in_use, 1);
    assert_epochs(&header, 0, 0); // it is whole
    header = leave_and_look(place, one);
    assert_int_equal(header.in_use, 0);
}

static void test_what_the_killed_left_begins_an_epoch(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter;
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        kill_user(start_user(place));
        assert_int_equal(read_header(place->path).in_use, 1);
        struct file_header header = open_and_look(place->path, &limiter);
        assert_epochs(&header, epoch, 0); // the same boot, and the same file
        header = leave_and_look(place, limiter);
        assert_int_equal(header.in_use, 0);
    }
    struct file_header header = open_and_look(place->path, &limiter);
    assert_epochs(&header, 3, 0);
    weir_limiter_close(limiter);
}

static void test_one_that_is_killed_beside_others_begins_none(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter = open_url(place->url);
    struct weir_limiter *other;
    kill_user(start_user(place));
    struct file_header header = open_and_look(place->path, &other);
    assert_epochs(&header, 0, 0);
    weir_limiter_close(other);
    header = leave_and_look(place, limiter); // its locks have had heirs
    assert_int_equal(header.in_use, 0);
    header = open_and_look(place->path, &limiter);
    assert_epochs(&header, 0, 0);
    weir_limiter_close(limiter);
}

static void test_another_boot_begins_an_epoch_and_a_home(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter;
    make(place->url);
    const struct weir_bucket home = read_header(place->path).home;
    change_home(place->path);
    struct file_header header = open_and_look(place->path, &limiter);
    assert_epochs(&header, 1, 1);
    assert_memory_equal(&header.home, &home, sizeof home);
    weir_limiter_close(limiter);
    kill_user(start_user(place));
    header = open_and_look(place->path, &limiter);
    assert_epochs(&header, 2, 1); // at this home for the second time
    weir_limiter_close(limiter);
}

static void test_a_copy_begins_an_epoch_and_a_home(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter;
    char copy[128];
    char command[256];
    make(place->url);
    (void)snprintf(copy, sizeof copy, "%s.copy", place->path);
    (void)snprintf(command, sizeof command, "cp %s %s", place->path, copy);
    assert_int_equal(system(command), 0);
    struct file_header header = open_and_look(copy, &limiter);
    assert_epochs(&header, 1, 1);
    weir_limiter_close(limiter);
    header = open_and_look(place->path, &limiter);
    assert_epochs(&header, 0, 0);
    weir_limiter_close(limiter);
}

/* One that the kernel gives the same inode, or that is copied over the file: in use, as the copy says. */
static void test_a_copy_of_a_used_file_begins_an_epoch(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter = open_url(place->url);
    char command[256];
    (void)snprintf(command, sizeof command, "cp %s %s.copy", place->path, place->path);
    assert_int_equal(system(command), 0);
    weir_limiter_close(limiter);
    (void)snprintf(command, sizeof command, "cp %s.copy %s", place->path, place->path);
    assert_int_equal(system(command), 0);
    struct file_header header = open_and_look(place->path, &limiter);
    assert_epochs(&header, 1, 0);
    weir_limiter_close(limiter);
}

static void test_no_boot_id_is_believed_beside_others(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter = open_url(place->url);
    struct weir_limiter *other;
    change_home(place->path);
    const struct file_header before = read_header(place->path);
    struct file_header header = open_and_look(place->path, &other);
    assert_epochs(&header, 0, 0);
    assert_memory_equal(&header.home, &before.home, sizeof header.home);
    assert_int_equal(header.time.offset_ns, before.time.offset_ns);
    weir_limiter_close(other);
    weir_limiter_close(limiter);
    header = open_and_look(place->path, &limiter); // alone
    assert_epochs(&header, 1, 1);
    weir_limiter_close(limiter);
}

static void test_a_child_that_never_takes_says_nothing(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter = open_url(place->url);
    struct weir_limiter *other;
    pid_t child = fork();
    if (child == 0) {
        weir_limiter_close(limiter);
        _exit(0);
    }
    assert_int_equal(exit_code_of(child), 0);
    assert_int_equal(read_header(place->path).in_use, 1);
    change_home(place->path);
    struct file_header header = open_and_look(place->path, &other); // the parent is still there
    assert_epochs(&header, 0, 0);
    weir_limiter_close(other);
    weir_limiter_close(limiter);
    assert_int_equal(read_header(place->path).in_use, 0);
}

/* ---- the gate ---- */

static void set_gate(int fd, short type)
{
    struct flock gate = {.l_type = type, .l_start = (off_t)MEMBERSHIP_GATE, .l_len = 1};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &gate), 0);
}

/* As a process that is stopped while it joins. */
static int hold_gate(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    set_gate(fd, F_WRLCK);
    return fd;
}

/* Children may have the descriptor, too. */
static void open_gate(int fd)
{
    set_gate(fd, F_UNLCK);
    assert_int_equal(close(fd), 0);
}

/* Whether a thread of a process waits for something. */
static bool is_asleep(pid_t pid, pid_t tid)
{
    char path[64];
    char state = '?';
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    (void)fclose(file);
    return state == 'S';
}

struct opener {
    const char *url;
    atomic_int tid;
    struct weir_limiter *limiter;
    enum weir_status status;
};

static void *open_it(void *context)
{
    struct opener *opener = context;
    atomic_store(&opener->tid, gettid());
    opener->status = weir_limiter_open(&opener->limiter,
                                       &(struct weir_limiter_config){.store = opener->url}, NULL);
    return NULL;
}

enum { FORKS = 5 };

static void test_one_that_waits_to_open_holds_up_no_fork(void **state)
{
    struct place *place = *state;
    struct opener opener = {.url = place->url};
    pthread_t thread;
    pid_t children[FORKS];
    make(place->url);
    int gate = hold_gate(place->path);
    assert_int_equal(pthread_create(&thread, NULL, open_it, &opener), 0);
    for (int i = 0; i < FORKS; i++) { // of which some come while it sleeps
        while (opener.tid == 0 || !is_asleep(getpid(), opener.tid)) {
            (void)sched_yield();
        }
        children[i] = fork();
        if (children[i] == 0) {
            (void)alarm(60);
            (void)pause();
            _exit(1);
        }
    }
    open_gate(gate);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(opener.status, WEIR_OK);
    weir_limiter_close(opener.limiter);
    assert_int_equal(read_header(place->path).in_use, 0); // no child holds what the thread held
    for (int i = 0; i < FORKS; i++) {
        kill_user(children[i]);
    }
}

static void test_a_child_waits_for_the_gate_to_join(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter = open_url(place->url);
    int gate = hold_gate(place->path);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(60);
        bool right = take(limiter, "k", 1).verdict == WEIR_ALLOWED;
        weir_limiter_close(limiter);
        _exit(right ? 0 : 1);
    }
    while (!is_asleep(child, child)) {
        (void)sched_yield();
    }
    open_gate(gate);
    assert_int_equal(exit_code_of(child), 0);
    assert_int_equal(take(limiter, "k", 10).verdict, WEIR_LIMITED); // it was this file
    weir_limiter_close(limiter);
    assert_int_equal(read_header(place->path).in_use, 0);
}

static void test_one_that_may_not_pass_the_gate_says_so_and_repairs_nothing(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter;
    make(place->url);
    kill_user(start_user(place));
    const struct weir_limiter_config config = {.store = place->url};
    int gate = hold_gate(place->path);
    assert_refused(&config, WEIR_E_SYSTEM, "another process begins or ends to use it");
    open_gate(gate);
    assert_int_equal(read_header(place->path).in_use, 1); // what the killed left
    struct file_header header = open_and_look(place->path, &limiter);
    assert_epochs(&header, 1, 0);
    weir_limiter_close(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_last_to_leave_says_so),
        TEST(test_what_the_killed_left_begins_an_epoch),
        TEST(test_one_that_is_killed_beside_others_begins_none),
        TEST(test_another_boot_begins_an_epoch_and_a_home),
        TEST(test_a_copy_begins_an_epoch_and_a_home),
        TEST(test_a_copy_of_a_used_file_begins_an_epoch),
        TEST(test_no_boot_id_is_believed_beside_others),
        TEST(test_a_child_that_never_takes_says_nothing),
        TEST(test_one_that_waits_to_open_holds_up_no_fork),
        TEST(test_a_child_waits_for_the_gate_to_join),
        TEST(test_one_that_may_not_pass_the_gate_says_so_and_repairs_nothing),
    };
    (void)alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
