/* SPDX-License-Identifier: MIT
 *
 * Stores that processes share: files, made and opened and refused, and their time; memory after fork(). What is found
 * by the first to come is in test_store_home.c; who is killed in the middle, in tests/processes/. */
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "../support/store_place.h"
#include "platform/siphash.h"

/* ---- Made, and opened again ---- */

static void test_a_file_outlives_who_made_it(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter = open_url(place->url);
    assert_int_equal(take(limiter, "k", 4).remaining, 6);
    weir_limiter_close(limiter);
    limiter = open_url(place->url);
    assert_int_equal(take(limiter, "k", 4).remaining, 2);
    assert_int_equal(take(limiter, "k", 4).verdict, WEIR_LIMITED);
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    assert_int_equal(stats.memory_bytes, WEIR_FILE_BYTES);
    assert_int_equal(stats.used_count, 1);
    weir_limiter_close(limiter);
}

static void test_two_who_have_it_open_share_their_buckets(void **state)
{
    struct place *place = *state;
    struct weir_limiter *one = open_url(place->url);
    struct weir_limiter *two = open_url(place->url);
    assert_int_equal(take(one, "k", 6).verdict, WEIR_ALLOWED);
    assert_int_equal(take(two, "k", 6).verdict, WEIR_LIMITED);
    assert_int_equal(take(two, "k", 4).verdict, WEIR_ALLOWED);
    assert_int_equal(take(one, "k", 1).verdict, WEIR_LIMITED);
    weir_limiter_close(one);
    weir_limiter_close(two);
}

static void test_space_is_allocated_and_the_mode_is_as_said(void **state)
{
    struct place *place = *state;
    struct stat status;
    mode_t before = umask(0077);
    make(place->url);
    assert_int_equal(stat(place->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_true((uint64_t)status.st_blocks * 512 >= WEIR_FILE_BYTES * 5 / 4);
    assert_int_equal(unlink(place->path), 0);
    char url[200];
    (void)snprintf(url, sizeof url, "%s?mode=0660&size=64K", place->url);
    make(url);
    assert_int_equal(stat(place->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0660);
    assert_int_equal(status.st_size, 65536 + 65536 / 4);
    (void)umask(before);
    assert_int_equal(file_count(place), 1);
}

#if !defined(WEIR_TSAN)
enum { MAKERS = 8 };

static void test_of_many_who_make_it_at_once_one_is_first(void **state)
{
    struct place *place = *state;
    pid_t children[MAKERS];
    unsigned allowed = 0;
    for (int i = 0; i < MAKERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) { // exits with how many it was allowed
            struct weir_limiter *limiter;
            struct weir_limiter_config config = {.store = place->url};
            int count = 0;
            if (weir_limiter_open(&limiter, &config, NULL) != WEIR_OK) {
                _exit(100);
            }
            while (take(limiter, "k", 1).verdict == WEIR_ALLOWED) {
                count++;
            }
            _exit(count);
        }
    }
    for (int i = 0; i < MAKERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 10);
        allowed += (unsigned)WEXITSTATUS(status);
    }
    assert_int_equal(allowed, 10);
    assert_int_equal(file_count(place), 1);
}

#endif

/* ---- Refused ---- */

static void test_what_is_no_file_of_weir_is_refused_and_stays(void **state)
{
    struct place *place = *state;
    struct weir_limiter_config config = {.store = place->url};
    int fd = open(place->path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_refused(&config, WEIR_E_FILE, "is not a file of weir: choose another path");
    assert_int_equal(ftruncate(fd, 100000), 0);
    assert_refused(&config, WEIR_E_FILE, "is not a file of weir");
    assert_int_equal(close(fd), 0);
    assert_int_equal(file_count(place), 1);
    config.store = "file:/dev/zero";
    assert_refused(&config, WEIR_E_FILE, "is not a file: choose another path");
    config.store = "file:/dev";
    assert_refused(&config, WEIR_E_SYSTEM, "Is a directory; choose another path");
    config.store = "file:/dev/null/x";
    assert_refused(&config, WEIR_E_SYSTEM, "Not a directory; choose another path");
}

static void test_a_folder_that_is_not_there_is_named(void **state)
{
    struct place *place = *state;
    char url[200];
    char said[200];
    (void)snprintf(url, sizeof url, "%s/none/store", place->url);
    assert_int_equal(mkdir(place->path, 0700), 0);
    (void)snprintf(said, sizeof said, "make the folder first: mkdir -p %s/none", place->path);
    assert_refused(&(struct weir_limiter_config){.store = url}, WEIR_E_SYSTEM, said);
    assert_int_equal(rmdir(place->path), 0);
}

static void test_another_format_machine_or_size_is_refused(void **state)
{
    struct place *place = *state;
    struct weir_limiter_config config = {.store = place->url};
    make(place->url);
    const struct file_header good = read_header(place->path);
    struct file_header bad = good;
    bad.stamp.format = 7;
    write_header(place->path, &bad);
    assert_refused(&config, WEIR_E_FILE, "has format 7, and this version of weir has format 6");
    char said[300];
    (void)snprintf(said, sizeof said, "; this sets it aside: mv '%s' '%s.old'", place->path,
                   place->path);
    assert_refused(&config, WEIR_E_FILE, said);
    bad = good;
    bad.stamp.byte_order = 0x04030201;
    write_header(place->path, &bad);
    assert_refused(&config, WEIR_E_FILE, "of another byte order");
    bad = good;
    bad.stamp.line_bytes = 128;
    write_header(place->path, &bad);
    assert_refused(&config, WEIR_E_FILE, "for another processor");
    bad = good;
    bad.stamp.chunk_bytes = 512;
    write_header(place->path, &bad);
    assert_refused(&config, WEIR_E_FILE, "for another processor");
    write_header(place->path, &good);
    config.memory_bytes = 1 << 20;
    assert_refused(&config, WEIR_E_FILE,
                   "has 16777216 bytes and not 1048576: leave out the size, or: weir store resize "
                   "1048576 --store 'file:/");
    config.memory_bytes = WEIR_FILE_BYTES;
    config.events_bytes = 1 << 20;
    assert_refused(&config, WEIR_E_FILE,
                   "has 4194304 bytes for events and not 1048576: leave out events, or: weir store "
                   "resize 16777216 --events 1048576 --store 'file:/");
    config.events_bytes = WEIR_FILE_BYTES / 4;
    struct weir_limiter *limiter;
    assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
    weir_limiter_close(limiter);
}

static void test_every_damaged_byte_of_the_stamp_is_noticed(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter;
    struct weir_limiter_config config = {.store = place->url};
    make(place->url);
    const struct file_header good = read_header(place->path);
    for (size_t i = 0; i < sizeof good.stamp; i++) {
        struct file_header bad = good;
        ((unsigned char *)&bad)[i] ^= 0x10;
        write_header(place->path, &bad);
        assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_E_FILE);
    }
    write_header(place->path, &good);
    make(place->url);
}

/* A stamp that adds up, but was not made by weir: this number in it is another one. */
struct forged {
    size_t offset;
    uint64_t number;
};

static void write_forged(const char *path, const struct file_header *good, struct forged forged)
{
    static const uint64_t KEY[2] = {0};
    struct file_header bad = *good;
    memcpy((char *)&bad.stamp + forged.offset, &forged.number, sizeof forged.number);
    bad.stamp.sum = siphash24(KEY, &bad.stamp, offsetof(struct file_stamp, sum));
    write_header(path, &bad);
}

#define OF(field) offsetof(struct file_stamp, field)

static void test_a_header_that_leads_elsewhere_is_refused(void **state)
{
    enum { WAITING = FILE_REGION_WAITING, EVENTS = FILE_REGION_EVENTS };
    struct place *place = *state;
    struct weir_limiter_config config = {.store = place->url};
    make(place->url);
    const struct file_header header = read_header(place->path);
    const struct file_stamp *good = &header.stamp;
    const struct forged cases[] = {
        {OF(stripe_count), 0},
        {OF(stripe_count), good->stripe_count + 1},
        {OF(stripe_count), UINT64_MAX},
        {OF(stripe_lines), 0},
        {OF(stripe_lines), 2 * good->stripe_lines},
        {OF(file_bytes), good->file_bytes - 4096},
        {OF(file_bytes), UINT64_MAX},
        {OF(regions[WAITING].at), 0},
        {OF(regions[WAITING].at), good->regions[WAITING].at + 64},
        {OF(regions[WAITING].at), good->file_bytes},
        {OF(regions[WAITING].bytes), good->regions[WAITING].bytes + 4096},
        {OF(regions[WAITING].bytes), UINT64_MAX},
        {OF(regions[EVENTS].at), 0},
        {OF(regions[EVENTS].at), good->regions[EVENTS].at + 64},
        {OF(regions[EVENTS].at), good->file_bytes},
        {OF(regions[EVENTS].bytes), 0},
        {OF(regions[EVENTS].bytes), good->regions[EVENTS].bytes + 1},
        {OF(regions[EVENTS].bytes), WEIR_EVENTS_BYTES_MIN - 1},
        {OF(regions[EVENTS].bytes), WEIR_EVENTS_BYTES_MAX + 1},
        {OF(table_bytes), 0},
        {OF(table_bytes), good->table_bytes + 4096},
        {OF(table_bytes), WEIR_MEMORY_BYTES_MIN - 1},
        {OF(table_bytes), UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_forged(place->path, &header, cases[i]);
        assert_refused(&config, WEIR_E_FILE, "is damaged: its header leads outside the file");
    }
    write_forged(place->path, &header, (struct forged){OF(made_wall_s), 1}); // leads nowhere
    make(place->url);
}

static void test_a_truncated_file_is_refused(void **state)
{
    struct place *place = *state;
    make(place->url);
    assert_int_equal(truncate(place->path, 1 << 20), 0);
    assert_refused(&(struct weir_limiter_config){.store = place->url}, WEIR_E_FILE,
                   "is truncated: it has 1048576 bytes of 20971520; this sets it aside: mv");
    assert_int_equal(truncate(place->path, 100), 0);
    assert_refused(&(struct weir_limiter_config){.store = place->url}, WEIR_E_FILE,
                   "is not a file of weir");
}

static void test_what_everybody_may_write_is_refused(void **state)
{
    struct place *place = *state;
    make(place->url);
    assert_int_equal(chmod(place->path, 0666), 0);
    assert_refused(&(struct weir_limiter_config){.store = place->url}, WEIR_E_FILE,
                   "can be written by everybody: chmod o-w");
}

/* In a child that is nobody: root may open everything. */
static void test_what_we_may_not_open_is_said(void **state)
{
    struct place *place = *state;
    make(place->url);
    assert_int_equal(chmod(place->folder, 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        struct weir_limiter *limiter;
        struct weir_error error = {.message = ""};
        struct weir_limiter_config config = {.store = place->url};
        if (geteuid() == 0 ? seteuid(65534) != 0 : chmod(place->path, 0) != 0) {
            _exit(2);
        }
        bool right =
            weir_limiter_open(&limiter, &config, &error) == WEIR_E_SYSTEM
            && strstr(error.message, "Permission denied; weir reads and writes it") != NULL;
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- Whose it is ---- */

enum { NOBODY = 65534, SOMEBODY = 60001, GROUP = 60002, NO_GROUP = 60003 };

/*   folder_mode, mode  of the folder, which is root's, and of the file
 *   owner, group       of the file
 *   user, user_group   who opens it */
struct ownership {
    mode_t folder_mode, mode;
    uid_t owner;
    gid_t group;
    uid_t user;
    gid_t user_group;
    bool is_opened;
};

/* What a child says that has become that user: 0 it was opened, 1 it was refused for its owner, 2 otherwise. */
static int open_as(const struct place *place, const struct ownership *as)
{
    struct weir_limiter *limiter;
    struct weir_error error = {.message = ""};
    struct weir_limiter_config config = {.store = place->url};
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(1, &as->user_group) != 0 || setgid(as->user_group) != 0
            || setuid(as->user) != 0) {
            _exit(2);
        }
        if (weir_limiter_open(&limiter, &config, &error) == WEIR_OK) {
            _exit(0);
        }
        char said[64];
        (void)snprintf(said, sizeof said, "belongs to user %u and not to you", (unsigned)as->owner);
        _exit(strstr(error.message, said) != NULL ? 1 : 2);
    }
    return exit_code_of(child);
}

static void test_a_file_of_somebody_else_is_opened_or_refused(void **state)
{
    static const struct ownership CASES[] = {
        {01777, 0644, NOBODY, NO_GROUP, 0, 0, false},  // as root, in a folder like /tmp
        {01777, 0664, NOBODY, NO_GROUP, 0, 0, false},  // nor is it for a group of ours
        {01777, 0664, NOBODY, GROUP, 0, GROUP, true},  // this one is
        {01777, 0644, NOBODY, GROUP, 0, GROUP, false}, // which may not write it
        {0755, 0644, NOBODY, NO_GROUP, 0, 0, true},    // nobody but root puts a file there
        {0775, 0644, NOBODY, NO_GROUP, 0, 0, true},    // or those that share the folder
        {01777, 0644, 0, 0, 0, 0, true},               // our own
        {01777, 0600, NOBODY, NO_GROUP, NOBODY, NO_GROUP, true}, // likewise
        {01777, 0660, 0, GROUP, NOBODY, GROUP, true},            // root's
        {01777, 0660, SOMEBODY, GROUP, NOBODY, GROUP, true},     // shared with our group
    };
    struct place *place = *state;
    if (geteuid() != 0) {
        print_message("skipped: only root can give a file to somebody else\n");
        return;
    }
    make(place->url);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_int_equal(chmod(place->folder, CASES[i].folder_mode), 0);
        assert_int_equal(chown(place->path, CASES[i].owner, CASES[i].group), 0);
        assert_int_equal(chmod(place->path, CASES[i].mode), 0);
        int told = open_as(place, &CASES[i]);
        if (told != (CASES[i].is_opened ? 0 : 1)) {
            fail_msg("case %zu: it was %s", i,
                     told == 0   ? "opened"
                     : told == 1 ? "refused"
                                 : "refused for another reason");
        }
    }
}

/* As above, where the name leads from root's folder into one of everybody. */
static void test_a_link_does_not_lead_past_the_folder_of_the_file(void **state)
{
    static const struct ownership ROOT = {.owner = NOBODY};
    struct place *place = *state;
    struct place link = *place;
    if (geteuid() != 0) {
        print_message("skipped: only root can give a file to somebody else\n");
        return;
    }
    make(place->url);
    assert_int_equal(chmod(place->folder, 01777), 0);
    assert_int_equal(chown(place->path, NOBODY, NO_GROUP), 0);
    (void)snprintf(link.folder, sizeof link.folder, "/tmp/weir-link-XXXXXX");
    assert_non_null(mkdtemp(link.folder));
    (void)snprintf(link.path, sizeof link.path, "%s/store", link.folder);
    (void)snprintf(link.url, sizeof link.url, "file:%s", link.path);
    assert_int_equal(symlink(place->path, link.path), 0);
    assert_int_equal(open_as(&link, &ROOT), 1);
    assert_int_equal(unlink(link.path), 0);
    assert_int_equal(rmdir(link.folder), 0);
}

static void test_a_file_that_does_not_fit_is_not_made(void **state)
{
    struct place *place = *state;
    pid_t child = fork();
    if (child == 0) { // a limit on file sizes is as good as a full disk
        struct weir_limiter *limiter;
        struct weir_error error = {.message = ""};
        struct weir_limiter_config config = {.store = place->url};
        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20}) != 0) {
            _exit(2);
        }
        bool right = weir_limiter_open(&limiter, &config, &error) == WEIR_E_SYSTEM
                     && strstr(error.message, "cannot allocate") != NULL;
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(file_count(place), 0);
}

/* By the kernel, while it allocates. */
static void test_a_maker_that_is_killed_leaves_nothing(void **state)
{
    struct place *place = *state;
    int nameless = open(place->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (nameless < 0) {
        print_message("every file in /tmp has a name\n");
        skip();
    }
    assert_int_equal(close(nameless), 0);
    pid_t child = fork();
    if (child == 0) {
        struct weir_limiter *limiter;
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        (void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20});
        _exit((int)weir_limiter_open(&limiter, &(struct weir_limiter_config){.store = place->url},
                                     NULL));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGXFSZ);
    assert_int_equal(file_count(place), 0);
}

static void test_a_file_has_one_kind_of_clock(void **state)
{
    struct place *place = *state;
    struct weir_limiter_config config = {.store = place->url};
    make(place->url);
    config.caller_clock = true;
    assert_refused(&config, WEIR_E_FILE, "holds buckets of real time");
    assert_int_equal(unlink(place->path), 0);
    struct weir_limiter *limiter;
    assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
    weir_limiter_close(limiter);
    config.caller_clock = false;
    assert_refused(&config, WEIR_E_FILE, "holds buckets of a test");
}

static void test_file_systems_that_hosts_share_are_known(void **state)
{
    (void)state;
    static const uint64_t REMOTE[] = {0x6969,     0xff534d42, 0x517b,     0xfe534d42,
                                      0x01021997, 0x65735546, 0x00c36400, 0x5346414f};
    static const uint64_t LOCAL[] = {0xef53, 0x01021994, 0x58465342, 0x9123683e, 0x794c7630};
    for (size_t i = 0; i < sizeof REMOTE / sizeof REMOTE[0]; i++) {
        assert_true(file_system_is_remote(REMOTE[i]));
    }
    for (size_t i = 0; i < sizeof LOCAL / sizeof LOCAL[0]; i++) {
        assert_false(file_system_is_remote(LOCAL[i]));
    }
}

static void test_the_number_counts_before_the_url(void **state)
{
    (void)state;
    struct weir_limiter_config config = {.store = "memory:?size=1M", .memory_bytes = 2 << 20};
    const uint64_t bytes[] = {2 << 20, 0};
    const uint64_t expected[] = {2 << 20, 1 << 20};
    for (int i = 0; i < 2; i++) {
        struct weir_limiter *limiter;
        struct weir_limiter_stats stats;
        config.memory_bytes = bytes[i];
        assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
        weir_limiter_stats(limiter, &stats);
        assert_in_range(stats.memory_bytes, expected[i] / 2 + 1, expected[i]);
        weir_limiter_close(limiter);
    }
}

static void test_events_have_memory_of_their_own(void **state)
{
    struct place *place = *state;
    static const struct {
        const char *options;
        uint64_t asked_bytes, events_bytes;
    } CASES[] = {
        {"?size=1M", 0, 256 << 10},          {"?size=100000", 0, 100000 / 4 / 256 * 256},
        {"?size=1M&events=5000", 0, 4864},   {"?events=8K&size=64K", 0, 8 << 10},
        {"?size=1M&events=8K", 10000, 9984},
    };
    for (size_t i = 0; i < 2 * sizeof CASES / sizeof CASES[0]; i++) {
        bool is_file = i % 2 == 1;
        char url[STORE_PATH_MAX];
        struct weir_limiter *limiter;
        struct weir_limiter_stats stats;
        struct stat status;
        (void)snprintf(url, sizeof url, "%s%s",
                       is_file ? place->url : "memory:", CASES[i / 2].options);
        struct weir_limiter_config config = {.store = url,
                                             .events_bytes = CASES[i / 2].asked_bytes};
        for (int again = 0; again < 2; again++) {
            assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
            weir_limiter_stats(limiter, &stats);
            weir_limiter_close(limiter);
            assert_int_equal(stats.events_bytes, CASES[i / 2].events_bytes);
            assert_int_equal(stats.events_used_bytes, 0);
        }
        if (is_file) {
            assert_int_equal(stat(place->path, &status), 0);
            assert_int_equal(status.st_size,
                             (stats.memory_bytes + 4095) / 4096 * 4096 + CASES[i / 2].events_bytes);
            assert_in_range((uint64_t)status.st_blocks * 512, status.st_size, UINT64_MAX);
            assert_int_equal(unlink(place->path), 0);
        }
    }
}

/* ---- Time ---- */

static uint64_t wall_now_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * S + (uint64_t)time.tv_nsec;
}

/* As if the machine had started anew, its clock at 0, `away_ns` of wall time after the last use. */
static void reboot(const char *path, uint64_t store_ns, int64_t away_ns)
{
    struct file_header header = read_header(path);
    header.home.empty_at_ns ^= 1;
    header.time.last = (struct weir_bucket){store_ns, wall_now_ns() - (uint64_t)away_ns};
    header.time.offset_ns = 0;
    write_header(path, &header);
}

static void test_time_goes_on_after_a_reboot(void **state)
{
    struct place *place = *state;
    const uint64_t last_ns = UINT64_C(1) << 60; // far beyond what the machine's clock shows
    make(place->url);
    reboot(place->path, last_ns, (int64_t)(3600 * S));
    struct weir_limiter *limiter = open_url(place->url);
    uint64_t now_ns = weir_limiter_now_ns(limiter);
    assert_in_range(now_ns, last_ns + 3600 * S, last_ns + 3660 * S);
    weir_limiter_close(limiter);
    reboot(place->path, last_ns, -(int64_t)(3600 * S)); // the wall clock was set back meanwhile
    limiter = open_url(place->url);
    assert_in_range(weir_limiter_now_ns(limiter), last_ns, last_ns + 60 * S);
    struct weir_limiter *other = open_url(place->url);
    uint64_t first_ns = weir_limiter_now_ns(limiter);
    uint64_t second_ns = weir_limiter_now_ns(other);
    assert_true(second_ns >= first_ns && second_ns < first_ns + 60 * S);
    weir_limiter_close(other);
    weir_limiter_close(limiter);
}

static void test_buckets_drain_while_the_machine_is_off(void **state)
{
    struct place *place = *state;
    struct weir_limiter *limiter = open_url(place->url);
    assert_int_equal(take(limiter, "k", 10).verdict, WEIR_ALLOWED);
    uint64_t last_ns = weir_limiter_now_ns(limiter);
    weir_limiter_close(limiter);
    reboot(place->path, last_ns, (int64_t)(3600 * 12 * S)); // of 10/d: 5
    limiter = open_url(place->url);
    assert_int_equal(take(limiter, "k", 5).verdict, WEIR_ALLOWED);
    assert_int_equal(take(limiter, "k", 1).verdict, WEIR_LIMITED);
    weir_limiter_close(limiter);
}

static void test_a_clock_that_went_back_goes_on(void **state)
{
    struct place *place = *state;
    make(place->url);
    struct file_header header = read_header(place->path);
    header.time.last.empty_at_ns += 7200 * S; // at the same home, so the machine's clock went back
    header.time.last.word = wall_now_ns();
    write_header(place->path, &header);
    struct weir_limiter *limiter = open_url(place->url);
    assert_in_range(weir_limiter_now_ns(limiter), header.time.last.empty_at_ns,
                    header.time.last.empty_at_ns + 60 * S);
    assert_int_equal(take(limiter, "k", 1).verdict, WEIR_ALLOWED);
    weir_limiter_close(limiter);
}

static void test_the_pair_of_times_is_renewed(void **state)
{
    struct place *place = *state;
    make(place->url);
    struct file_header header = read_header(place->path);
    header.time.last.empty_at_ns -= 2 * S;
    header.time.last.word -= 2 * S;
    uint64_t before_ns = header.time.last.word;
    write_header(place->path, &header);
    struct weir_limiter *limiter = open_url(place->url);
    assert_int_equal(take(limiter, "k", 1).verdict, WEIR_ALLOWED);
    struct weir_bucket renewed = read_header(place->path).time.last;
    assert_true(renewed.word >= before_ns + 2 * S);
    assert_int_equal(take(limiter, "k", 1).verdict, WEIR_ALLOWED); // less than a second later
    struct weir_bucket last = read_header(place->path).time.last;
    assert_memory_equal(&last, &renewed, sizeof last);
    weir_limiter_close(limiter);
}

static void test_a_flush_is_made_when_it_is_due(void **state)
{
    struct place *place = *state;
    char url[200];
    (void)snprintf(url, sizeof url, "%s?flush=1ms", place->url);
    make(url);
    struct file_header header = read_header(place->path);
    header.time.last.empty_at_ns -= 2 * S;
    write_header(place->path, &header);
    struct weir_limiter *limiter = open_url(url);
    assert_int_equal(take(limiter, "k", 1).verdict, WEIR_ALLOWED);
    weir_limiter_close(limiter);
    assert_true(read_header(place->path).time.flushed_ns > header.time.last.empty_at_ns);
}

/* Opening and closing a file, and writing it to its disk, are full of points of cancellation: a thread that is
 * cancelled goes on to the end of each call. */
struct use {
    const char *url;
    int done_count;
};

static void *use_cancelled(void *argument)
{
    struct use *use = argument;
    (void)pthread_cancel(pthread_self());
    struct weir_limiter *limiter = open_url(use->url);
    use->done_count++;
    use->done_count += take(limiter, "k", 1).verdict == WEIR_ALLOWED;
    weir_limiter_close(limiter);
    use->done_count++;
    return NULL;
}

static void test_a_cancelled_thread_finishes_each_call(void **state)
{
    struct place *place = *state;
    char url[200];
    struct use use = {url, 0};
    pthread_t thread;
    (void)snprintf(url, sizeof url, "%s?flush=1ms", place->url);
    make(url);
    struct file_header header = read_header(place->path);
    header.time.last.empty_at_ns -= 2 * S; // a flush is due
    write_header(place->path, &header);
    assert_int_equal(pthread_create(&thread, NULL, use_cancelled, &use), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(use.done_count, 3);
    assert_true(read_header(place->path).time.flushed_ns > header.time.last.empty_at_ns);
}

/* Locks that were held when the machine stopped, or when the file was copied. */
static void hold_all_locks(const char *path)
{
    struct file_header header = read_header(path);
    uint64_t dead = MEMBERSHIP_ID_MIN;
    for (uint64_t i = 0; i < header.stamp.stripe_count; i++) {
        size_t offset =
            FILE_HEADER_BYTES
            + header.stamp.stripe_count * header.stamp.stripe_lines * sizeof(struct table_line)
            + i * sizeof(struct stripe) + offsetof(struct stripe, lock.word);
        write_at(path, offset, &dead, sizeof dead);
    }
}

static void test_locks_of_another_boot_have_heirs(void **state)
{
    struct place *place = *state;
    make(place->url);
    hold_all_locks(place->path);
    reboot(place->path, S, 0);
    struct weir_limiter *limiter = open_url(place->url);
    (void)alarm(60); // else it would wait for ever
    assert_int_equal(take(limiter, "k", 1).verdict, WEIR_ALLOWED);
    (void)alarm(0);
    weir_limiter_close(limiter);
}

static void test_locks_of_a_copy_have_heirs(void **state)
{
    struct place *place = *state;
    char copy[128];
    char command[256];
    char url[160];
    struct weir_limiter *limiter = open_url(place->url);
    assert_int_equal(take(limiter, "k", 7).verdict, WEIR_ALLOWED);
    hold_all_locks(place->path);
    (void)snprintf(copy, sizeof copy, "%s.copy", place->path);
    (void)snprintf(command, sizeof command, "cp %s %s", place->path, copy);
    assert_int_equal(system(command), 0);
    weir_limiter_close(limiter);
    (void)snprintf(url, sizeof url, "file:%s", copy);
    limiter = open_url(url);
    (void)alarm(60);
    assert_int_equal(take(limiter, "new", 1).verdict, WEIR_ALLOWED);
    (void)alarm(0);
    assert_int_equal(take(limiter, "k", 4).verdict, WEIR_LIMITED); // and the buckets came along
    weir_limiter_close(limiter);
}

/* ---- After fork() ---- */

/* Whether a fork's child is told to open something else, and its parent is not. */
static bool only_the_child_is_refused(void)
{
    struct weir_limiter *limiter = open_url("memory:");
    struct weir_error error = {.message = ""};
    assert_int_equal(weir_limiter_status(limiter, &error), WEIR_OK);
    pid_t child = fork();
    if (child == 0) {
        bool right =
            take(limiter, "k", 1).verdict == WEIR_FAILED
            && weir_limiter_status(limiter, &error) == WEIR_E_FORKED
            && strstr(error.message, "open memory:?shared=yes before fork(), or file:/path");
        weir_limiter_close(limiter);
        _exit(right ? 0 : 1);
    }
    bool right = exit_code_of(child) == 0
                 && take(limiter, "k", 10).verdict == WEIR_ALLOWED; // nobody else's business
    weir_limiter_close(limiter);
    return right;
}

/* In the child nobody can decide: on_error of each limit answers, by whichever way it is asked. */
static bool answers_by_on_error(struct weir_limiter *limiter)
{
    struct weir_rule refuses;
    struct weir_rule allows;
    struct weir_rule queue;
    if (weir_rule_from_text(&refuses, limiter, "8/s on_full=allow", NULL) != WEIR_OK
        || weir_rule_from_text(&allows, limiter, "10/s on_error=allow", NULL) != WEIR_OK
        || weir_rule_from_text(&queue, limiter, "queue 9/s on_error=allow", NULL) != WEIR_OK) {
        return false;
    }
    struct weir_request requests[2] = {
        {.rule = &allows, .key = "k", .key_len = 1, .cost_micro = WEIR_UNIT, .and_next = true},
        {.rule = &refuses, .key = "k", .key_len = 1, .cost_micro = WEIR_UNIT}};
    struct weir_decision each[2];
    bool right = weir_limiter_take(limiter, &refuses, "k", 1, WEIR_UNIT).verdict == WEIR_FAILED;
    for (int i = 0; i < 3; i++) { // nothing is counted
        each[0] = weir_limiter_take(limiter, &allows, "k", 1, 4 * WEIR_UNIT);
        right = right && each[0].verdict == WEIR_ALLOWED && each[0].remaining == 6
                && each[0].reset_after_ns == 400000000 && each[0].retry_after_ns == -1;
    }
    weir_limiter_decide(limiter, requests, each, 2);
    right = right && each[0].verdict == WEIR_ALLOWED && each[0].remaining == 10
            && each[1].verdict == WEIR_FAILED;
    weir_limiter_acquire_all(limiter, requests, each, 2, 5 * S);
    right = right && each[0].verdict == WEIR_ALLOWED && each[1].verdict == WEIR_FAILED;
    each[0] = weir_limiter_acquire(limiter, &queue, "k", 1, WEIR_UNIT, 5 * S); // goes now
    right = right && each[0].verdict == WEIR_ALLOWED && each[0].delay_ns == 0;
    return right && !weir_limiter_unblock(limiter, &allows, "k", 1)
           && weir_limiter_block(limiter, &allows, "k", 1, S).verdict == WEIR_FAILED;
}

static void test_on_error_answers_in_a_child(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_url("memory:");
    assert_int_equal(take(limiter, "k", 10).verdict, WEIR_ALLOWED);
    pid_t child = fork();
    if (child == 0) {
        bool right = answers_by_on_error(limiter);
        weir_limiter_close(limiter);
        _exit(right ? 0 : 1);
    }
    assert_int_equal(exit_code_of(child), 0);
    weir_limiter_close(limiter);
}

static void test_private_memory_says_in_a_child_what_to_open(void **state)
{
    (void)state;
    assert_true(only_the_child_is_refused());
}

/* From here on madvise() fails in this process with this errno; with 0 it succeeds, and does nothing. False
 * where a process may not have that. */
static bool answer_advice(unsigned error)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* As Linux before 4.14 refuses it, and as qemu-user takes no notice of it. */
static void test_a_child_is_told_where_the_kernel_wipes_nothing(void **state)
{
    (void)state;
    const unsigned errors[] = {EINVAL, 0};
    for (size_t i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            bool can = answer_advice(errors[i]);
            _exit(!can ? 77 : only_the_child_is_refused() ? 0 : 1);
        }
        int code = exit_code_of(child);
        if (code == 77) {
            print_message("no seccomp here: madvise() answers as it does\n");
            skip();
        }
        assert_int_equal(code, 0);
    }
}

static bool is_refused_for_its_users(const char *url)
{
    struct weir_limiter *limiter;
    struct weir_error error = {.message = ""};
    return weir_limiter_open(&limiter, &(struct weir_limiter_config){.store = url}, &error)
               == WEIR_E_SYSTEM
           && strstr(error.message, "this kernel, or emulator, does not tell which of its users "
                                    "are alive")
                  != NULL;
}

/* As under qemu-user. */
static void test_what_cannot_be_shared_says_why(void **state)
{
    struct place *place = *state;
    pid_t child = fork();
    if (child == 0) {
        bool can = answer_advice(0);
        bool right =
            is_refused_for_its_users("memory:?shared=yes") && is_refused_for_its_users(place->url);
        _exit(!can ? 77 : right ? 0 : 1);
    }
    int code = exit_code_of(child);
    if (code == 77) {
        print_message("no seccomp here: madvise() answers as it does\n");
        skip();
    }
    assert_int_equal(code, 0);
}

#if !defined(WEIR_TSAN)
static void test_shared_memory_is_one_limit_for_all_children(void **state)
{
    struct place *place = *state;
    const char *const urls[] = {"memory:?shared=yes", place->url};
    for (size_t i = 0; i < 2; i++) { // a file that was opened before fork() is as good
        struct weir_limiter *limiter = open_url(urls[i]);
        int allowed = 0;
        pid_t children[4];
        for (int j = 0; j < 4; j++) {
            children[j] = fork();
            if (children[j] == 0) {
                int count = 0;
                while (take(limiter, "k", 1).verdict == WEIR_ALLOWED) {
                    count++;
                }
                _exit(weir_limiter_status(limiter, NULL) == WEIR_OK ? count : 100);
            }
        }
        for (int j = 0; j < 4; j++) {
            allowed += exit_code_of(children[j]);
        }
        assert_int_equal(allowed, 10);
        assert_int_equal(take(limiter, "k", 1).verdict, WEIR_LIMITED);
        weir_limiter_close(limiter);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_file_outlives_who_made_it),
        TEST(test_two_who_have_it_open_share_their_buckets),
        TEST(test_space_is_allocated_and_the_mode_is_as_said),
#if !defined(WEIR_TSAN) // whose 16-byte swaps are atomic within one process only
        TEST(test_of_many_who_make_it_at_once_one_is_first),
        TEST(test_shared_memory_is_one_limit_for_all_children),
#endif
        TEST(test_what_is_no_file_of_weir_is_refused_and_stays),
        TEST(test_a_folder_that_is_not_there_is_named),
        TEST(test_another_format_machine_or_size_is_refused),
        TEST(test_every_damaged_byte_of_the_stamp_is_noticed),
        TEST(test_a_header_that_leads_elsewhere_is_refused),
        TEST(test_a_truncated_file_is_refused),
        TEST(test_what_everybody_may_write_is_refused),
        TEST(test_what_we_may_not_open_is_said),
        TEST(test_a_file_of_somebody_else_is_opened_or_refused),
        TEST(test_a_link_does_not_lead_past_the_folder_of_the_file),
        TEST(test_a_file_that_does_not_fit_is_not_made),
        TEST(test_a_maker_that_is_killed_leaves_nothing),
        TEST(test_a_file_has_one_kind_of_clock),
        TEST(test_file_systems_that_hosts_share_are_known),
        TEST(test_the_number_counts_before_the_url),
        TEST(test_events_have_memory_of_their_own),
        TEST(test_time_goes_on_after_a_reboot),
        TEST(test_buckets_drain_while_the_machine_is_off),
        TEST(test_a_clock_that_went_back_goes_on),
        TEST(test_the_pair_of_times_is_renewed),
        TEST(test_a_flush_is_made_when_it_is_due),
        TEST(test_a_cancelled_thread_finishes_each_call),
        TEST(test_locks_of_another_boot_have_heirs),
        TEST(test_locks_of_a_copy_have_heirs),
        TEST(test_on_error_answers_in_a_child),
        TEST(test_private_memory_says_in_a_child_what_to_open),
        TEST(test_a_child_is_told_where_the_kernel_wipes_nothing),
        TEST(test_what_cannot_be_shared_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
