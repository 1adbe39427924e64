/* SPDX-License-Identifier: MIT
 *
 * A file that was deleted or replaced under the processes that have it open: one of them makes it go on under its
 * name, and all others follow, those who wait too. Movers that die on the way, several at once, and strangers who take
 * the name meanwhile.
 *
 *     regaining [soak]
 *
 * A soak has several go at once more often. resize.c leads a mover by single steps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hampered.h"
#include "people.h"
#include "store/table/file_header.h"
#include "store/table/resize.h"

enum { FILE_BYTES = 1 << 20, MOVERS = 4, ROUNDS = 20, ROUNDS_SOAK = 1000 };

static char folder[48];
static char path[128];
static char other[128];
static char url[160];

/* What several movers tell. */
struct books {
    uint64_t ready_count;
    bool may_go;
    uint64_t outcomes[STORE_EXCHANGED + 1];
};
static struct books *books;

/* ---- the file and its folder ---- */

static uint64_t inode_of(const char *name)
{
    struct stat status;
    return stat(name, &status) == 0 ? status.st_ino : 0;
}

static void must(bool done, const char *what)
{
    if (!done) {
        give_up("%s: cannot %s: %s", people.key, what, strerror(errno));
    }
}

static void copy_file(const char *to)
{
    char bytes[4096];
    ssize_t length;
    int from_fd = open(path, O_RDONLY);
    int to_fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while ((length = read(from_fd, bytes, sizeof bytes)) > 0) {
        must(write(to_fd, bytes, (size_t)length) == length, "copy");
    }
    (void)close(from_fd);
    (void)close(to_fd);
}

/* By a minute, as if the wall clock had been set meanwhile. */
static void set_clock_later(const char *name)
{
    struct file_header header;
    int fd = open(name, O_RDWR);
    must(pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header, "read");
    header.time.last.empty_at_ns += 60 * S;
    must(pwrite(fd, &header, sizeof header, 0) == (ssize_t)sizeof header, "write");
    (void)close(fd);
}

/* Nothing that a mover has made is left, beside the file. */
static void must_be_alone(void)
{
    DIR *opened = opendir(folder);
    struct dirent *entry;
    while ((entry = readdir(opened)) != NULL) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "store") != 0) {
            give_up("%s: %s is left", people.key, entry->d_name);
        }
    }
    (void)closedir(opened);
}

/* ---- who goes on ---- */

static enum weir_status regain_with(struct line_mover *lines, struct store_regained *regained,
                                    struct weir_error *error)
{
    struct store *store = people.limiter->store;
    return store->ops->upkeep->regain_name(store, lines, 0, regained, error);
}

static enum weir_status regain(struct store_regained *regained, struct weir_error *error)
{
    struct room_mover mover;
    room_mover_init(&mover);
    return regain_with(&mover.lines, regained, error);
}

static struct store_regained must_regain(enum store_outcome outcome)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    if (regain(&regained, &error) != WEIR_OK) {
        give_up("%s: %s", people.key, error.message);
    }
    if (regained.outcome != outcome) {
        give_up("%s: outcome %d and not %d", people.key, (int)regained.outcome, (int)outcome);
    }
    return regained;
}

static void must_fail(enum weir_status status, const char *why)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    enum weir_status found = regain(&regained, &error);
    if (found != status || strstr(error.message, why) == NULL
        || regained.outcome != STORE_AS_IT_WAS) {
        give_up("%s: status %d: %s", people.key, (int)found, error.message);
    }
}

/* ---- scenarios ---- */

static void begin(const char *name, const char *limit)
{
    people_open(url, FILE_BYTES);
    people_begin(name, limit);
}

static void finish(void)
{
    people_must_be_gone();
    weir_limiter_close(people.limiter);
    must_be_alone();
    (void)unlink(path);
}

static void must_be_served_in_order(void)
{
    for (int i = 0; i < people.count; i++) {
        people_must_be_let(&people.people[i]);
        if (people.people[i].place != (uint64_t)i) {
            give_up("%s: the one at %d was answered at %" PRIu64, people.key, i,
                    people.people[i].place);
        }
    }
}

/* How many units are left, as a process says that opens the file by its name. */
static uint64_t remaining_by_name(void)
{
    uint64_t *remaining = world_share(sizeof *remaining);
    pid_t pid = fork();
    if (pid == 0) {
        people_open(url, 0);
        struct weir_rule rule;
        struct weir_error error;
        if (weir_rule_from_text(&rule, people.limiter, people.limit, &error) != WEIR_OK) {
            give_up("%s", error.message);
        }
        struct weir_request show = {.rule = &rule,
                                    .key = people.key,
                                    .key_len = strlen(people.key),
                                    .operation = WEIR_SHOW};
        struct weir_decision decision;
        weir_limiter_decide(people.limiter, &show, &decision, 1);
        *remaining = decision.remaining;
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    return *remaining;
}

static void must_remain(uint64_t count)
{
    uint64_t found = remaining_by_name();
    if (found != count) {
        give_up("%s: %" PRIu64 " units remain, and not %" PRIu64, people.key, found, count);
    }
}

static void deleted(void)
{
    begin("deleted", "10/d");
    people_fill_up(4);
    must_regain(STORE_AS_IT_WAS);
    must(unlink(path) == 0, "delete");
    people_fill_up(1); // in a file without a name
    if (must_regain(STORE_CARRIED).bucket_count != 1) {
        give_up("%s: not one bucket", people.key);
    }
    must_remain(5);
    people_fill_up(2);
    must_remain(3);
    must_regain(STORE_AS_IT_WAS);
    must(unlink(path) == 0, "delete");
    must_regain(STORE_CARRIED); // once more
    must_remain(3);
    finish();
}

/* Those who wait go along, each in the mapping with which it began, and those who come later stand behind them. */
static void deleted_with_people(const char *limit)
{
    begin("deleted, with people", limit);
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    must(unlink(path) == 0, "delete");
    if (must_regain(STORE_CARRIED).waiting_count > 3) {
        give_up("%s: more than 3 waited", people.key);
    }
    (void)people_join_at(url, 1, 30 * S);
    (void)people_join(1, 30 * S);
    must_be_served_in_order();
    finish();
}

/* Keys that found no slot before find none afterwards, and all others have theirs. */
static void deleted_when_full(void)
{
    struct weir_limiter_stats before, after;
    struct weir_decision decision = {.verdict = WEIR_ALLOWED};
    people_open(url, 4 * FILE_BYTES); // in which a key has not all slots of its stripe
    people_begin("deleted when full", "10/d");
    uint64_t count = 0;
    for (; decision.verdict == WEIR_ALLOWED; count++) {
        decision = weir_limiter_take(people.limiter, &people.rule, &count, sizeof count, WEIR_UNIT);
    }
    for (uint64_t more = count; more < 2 * count; more++) {
        (void)weir_limiter_take(people.limiter, &people.rule, &more, sizeof more, WEIR_UNIT);
    }
    weir_limiter_stats(people.limiter, &before);
    must(unlink(path) == 0, "delete");
    uint64_t carried_count = must_regain(STORE_CARRIED).bucket_count;
    weir_limiter_stats(people.limiter, &after);
    if (carried_count != before.used_count || after.used_count != before.used_count) {
        give_up("%s: %" PRIu64 " of %" PRIu64 " came along", people.key, carried_count,
                (uint64_t)before.used_count);
    }
    for (uint64_t key = 0; key < count - 1; key++) {
        decision = weir_limiter_take(people.limiter, &people.rule, &key, sizeof key, WEIR_UNIT);
        if (decision.verdict != WEIR_ALLOWED || decision.remaining != 8) {
            give_up("%s: key %" PRIu64 " has %" PRIu64 " left", people.key, key,
                    (uint64_t)decision.remaining);
        }
    }
    finish();
}

static void moved_away(void)
{
    begin("moved away", "10/d");
    people_fill_up(4);
    uint64_t inode = inode_of(path);
    must(rename(path, other) == 0, "move");
    must_regain(STORE_LINKED);
    if (inode_of(path) != inode || inode_of(other) != inode) {
        give_up("%s: it is another file", people.key);
    }
    must(unlink(other) == 0, "delete");
    must_remain(6);
    finish();
}

/* Through a symbolic link it is made where the link leads. */
static void deleted_behind_a_link(void)
{
    char target[sizeof other];
    begin("deleted behind a link", "10/d");
    weir_limiter_close(people.limiter);
    must(rename(path, other) == 0 && symlink("other", path) == 0, "link");
    people_open(url, 0);
    people_begin("deleted behind a link", "10/d");
    people_fill_up(4);
    must(unlink(other) == 0, "delete");
    must_regain(STORE_CARRIED);
    must(readlink(path, target, sizeof target) > 0 && inode_of(other) != 0, "find the link");
    must_remain(6);
    must(rename(other, path) == 0, "move");
    finish();
}

/* Everything of the copy counts, and nothing of what came after it. Who waits goes on waiting there. */
static void replaced_by_a_copy(const char *limit)
{
    begin("replaced by a copy", limit);
    people_fill_up(1);
    copy_file(other);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    must(rename(other, path) == 0, "replace");
    uint64_t inode = inode_of(path);
    struct store_regained regained = must_regain(STORE_EXCHANGED);
    if (regained.waiting_count > 3 || inode_of(path) != inode) {
        give_up("%s: %" PRIu64 " waited", people.key, regained.waiting_count);
    }
    (void)people_join_at(url, 1, 30 * S);
    for (int i = 0; i < people.count; i++) {
        people_must_be_let(&people.people[i]);
    }
    finish();
}

static void replaced_with_fewer_charges(void)
{
    begin("replaced", "10/d");
    people_fill_up(2);
    copy_file(other);
    people_fill_up(3);
    must(rename(other, path) == 0, "replace");
    if (must_regain(STORE_EXCHANGED).bucket_count != 1) {
        give_up("%s: not one bucket is lost", people.key);
    }
    must_remain(8);
    people_fill_up(1);
    must_remain(7);
    finish();
}

static void resize(void)
{
    struct room_mover mover;
    room_mover_init(&mover);
    struct resize_config config = {.path = path, .bytes = 2 * FILE_BYTES, .lines = &mover.lines};
    struct resize_report report;
    struct weir_error error;
    if (resize_file(&config, &report, &error) != WEIR_OK) {
        give_up("%s: %s", people.key, error.message);
    }
}

static void bury_all(void)
{
    struct shared_lines *shared = people.limiter->lines->shared;
    while (people_room()->waiting_count != 0) { // that it never ends is what alarm() is for
        lines_lock(people.limiter->lines);
        uint64_t now_ns = room_enter(shared, people_now());
        room_bury_all(shared, now_ns);
        room_leave(shared, now_ns);
        lines_unlock(people.limiter->lines);
    }
}

/* In the copy somebody else stands under the same number, and is expected, because the copy has got another size. Nobody
 * is taken for that one. */
static void somebody_else_is_expected(void)
{
    people_open(url, FILE_BYTES);
    people_begin_two("somebody else is expected", "5/s capacity=1", "1/s capacity=10");
    people_fill_both(1, 10);
    copy_file(other);
    uint64_t since_ns = people_now();
    struct person *ours = people_join(1, 30 * S);
    must(rename(other, path) == 0, "replace");
    struct weir_limiter *limiter = people.limiter;
    people_open(url, 0); // the copy: rules are the same there
    struct person *theirs = people_join_under(OTHER, url, 10, 30 * S);
    people_stop(theirs);
    resize();
    weir_limiter_close(people.limiter);
    people.limiter = limiter;
    must_regain(STORE_EXCHANGED);
    people_must_be_let(ours);
    people_must_be_about(ours, since_ns, 0, 6000); // and not those ten seconds
    people_end(theirs);
    bury_all();
    finish();
}

/* What cannot be gone on with: everybody stays where the buckets are. */
static void refused(void)
{
    begin("refused", "10/d");
    people_fill_up(2);
    char aside[sizeof other + 8];
    char later[sizeof other + 8];
    copy_file(other);
    (void)snprintf(aside, sizeof aside, "%s.aside", other);
    (void)snprintf(later, sizeof later, "%s.later", other);
    copy_file(later);
    set_clock_later(later);
    must(rename(path, aside) == 0 && rename(other, path) == 0, "replace");
    must_fail(WEIR_E_FILE, "is still there, where others may use it");
    must(unlink(aside) == 0 && truncate(path, 8192) == 0, "cut");
    must_fail(WEIR_E_FILE, "is truncated");
    must(truncate(path, 0) == 0, "cut");
    must_fail(WEIR_E_FILE, "is not a file of weir");
    must(unlink(path) == 0 && rename(later, path) == 0, "replace");
    must_fail(WEIR_E_FILE, "a clock that is");
    must(unlink(path) == 0, "delete");
    must_remain(10); // who asks makes a file of its own
    uint64_t inode = inode_of(path);
    must_fail(WEIR_E_FILE, "its seed is another one");
    if (inode_of(path) != inode || people_take(1).remaining != 7) {
        give_up("%s: something has changed", people.key);
    }
    must(unlink(path) == 0, "delete");
    must_regain(STORE_CARRIED);
    must_remain(7);
    finish();
}

static void without_a_folder(void)
{
    char away[sizeof folder + 8];
    begin("without a folder", "10/d");
    people_fill_up(2);
    must(unlink(path) == 0, "delete");
    (void)snprintf(away, sizeof away, "%s.away", folder);
    must(rename(folder, away) == 0, "move");
    must_fail(WEIR_E_SYSTEM, "for want of its folder");
    must(rename(away, folder) == 0, "move");
    must_regain(STORE_CARRIED);
    must_remain(8);
    finish();
}

/* ---- at once ---- */

static void go_at_once(struct books *told)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    (void)weir_limiter_status(people.limiter, NULL); // joins
    (void)__atomic_fetch_add(&told->ready_count, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&told->may_go, __ATOMIC_SEQ_CST)) {
        (void)sched_yield();
    }
    if (regain(&regained, &error) != WEIR_OK) {
        give_up("%s: %s", people.key, error.message);
    }
    (void)__atomic_fetch_add(&told->outcomes[regained.outcome], 1, __ATOMIC_SEQ_CST);
    if (people_take(1).verdict != WEIR_ALLOWED) {
        give_up("%s: a take was not allowed", people.key);
    }
    _exit(0);
}

static void several_at_once(bool is_replaced)
{
    pid_t pids[MOVERS];
    begin(is_replaced ? "several, replaced" : "several, deleted", "100/d");
    people_fill_up(4);
    memset(books, 0, sizeof *books);
    for (int i = 0; i < MOVERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            go_at_once(books);
        }
    }
    while (__atomic_load_n(&books->ready_count, __ATOMIC_SEQ_CST) < MOVERS) {
        (void)sched_yield();
    }
    copy_file(other);
    must(is_replaced ? rename(other, path) == 0 : unlink(path) == 0 && unlink(other) == 0,
         "delete");
    __atomic_store_n(&books->may_go, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < MOVERS; i++) {
        int status;
        (void)waitpid(pids[i], &status, 0);
        must(status == 0, "go on");
    }
    if (books->outcomes[is_replaced ? STORE_EXCHANGED : STORE_CARRIED] != 1
        || books->outcomes[STORE_AS_IT_WAS] != MOVERS - 1) {
        give_up("%s: %" PRIu64 " carried, %" PRIu64 " exchanged", people.key,
                books->outcomes[STORE_CARRIED], books->outcomes[STORE_EXCHANGED]);
    }
    must_remain(100 - 4 - MOVERS);
    must_regain(STORE_AS_IT_WAS);
    people_fill_up(1);
    must_remain(100 - 5 - MOVERS);
    finish();
}

/* ---- on the way ---- */

static void regain_on_the_way(struct line_mover *lines)
{
    struct store_regained regained;
    struct weir_error error;
    (void)weir_limiter_status(people.limiter, NULL); // joins
    (void)regain_with(lines, &regained, &error);
}

/* Before the step that counts all is as it was, and the next one does it; afterwards all is done. */
static void mover_dies_at(enum point point)
{
    char name[32];
    (void)snprintf(name, sizeof name, "a mover dies at %d", (int)point);
    begin(name, "4/s capacity=1");
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    must(unlink(path) == 0, "delete");
    hampered_kill(point, regain_on_the_way);
    (void)people_join(1, 30 * S); // in whichever of the two
    must_regain(point < BEFORE_LEAVE ? STORE_CARRIED : STORE_AS_IT_WAS);
    (void)people_join_at(url, 1, 30 * S);
    must_be_served_in_order();
    finish();
}

static void mover_to_another_dies_at(enum point point)
{
    char name[32];
    (void)snprintf(name, sizeof name, "to another, dies at %d", (int)point);
    begin(name, "10/d");
    people_fill_up(2);
    copy_file(other);
    people_fill_up(3);
    must(rename(other, path) == 0, "replace");
    hampered_kill(point, regain_on_the_way);
    people_fill_up(1); // in whichever of the two
    must_regain(point < BEFORE_LEAVE ? STORE_EXCHANGED : STORE_AS_IT_WAS);
    must_remain(point < BEFORE_LEAVE ? 8 : 7);
    finish();
}

/* ---- strangers ---- */

static enum weir_status regain_hampered(enum point point, void (*happens)(void),
                                        struct store_regained *regained, struct weir_error *error)
{
    struct hampered hampered;
    hampered_init(&hampered, point, happens);
    return regain_with(&hampered.lines, regained, error);
}

static void make_a_stranger(void)
{
    struct weir_limiter_config config = {.store = url, .memory_bytes = FILE_BYTES};
    struct weir_limiter *limiter;
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    weir_limiter_close(limiter);
}

/* At the last instant somebody makes a file of this name. It is not touched; and the buckets stay. */
static void overtaken_by_a_stranger(void)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    begin("overtaken", "4/s capacity=1");
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    must(unlink(path) == 0, "delete");
    if (regain_hampered(AFTER_CARRY, make_a_stranger, &regained, &error) != WEIR_E_FILE
        || strstr(error.message, "its seed is another one") == NULL) {
        give_up("%s: %s", people.key, error.message);
    }
    must_be_alone();
    (void)people_join(1, 30 * S);
    must_be_served_in_order();
    must_remain(1);
    finish();
}

/* And here the other file goes again. */
static void delete_it(void)
{
    must(unlink(path) == 0, "delete");
}

static void replaced_and_deleted(void)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    begin("replaced and deleted", "10/d");
    people_fill_up(2);
    copy_file(other);
    people_fill_up(3);
    must(rename(other, path) == 0, "replace");
    if (regain_hampered(AFTER_ENTER, delete_it, &regained, &error) != WEIR_OK
        || regained.outcome != STORE_CARRIED) {
        give_up("%s: %s", people.key, error.message);
    }
    must_remain(5);
    finish();
}

/* ---- taken back ---- */

/* What a process finds that asks while a mover has just said FILE_MOVED, and then takes that back, for it could not
 * give the other file its name. The exit code of the child that `ask` is. */
static int ask_of_taken_back(int (*ask)(void))
{
    struct table *table = table_current(people.limiter->store);
    struct file_header *header = table->mapping.at;
    int status;
    (void)lock_acquire(&header->moving, &table->members);
    store_release(&header->phase, FILE_MOVED);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(ask());
    }
    while ((load_relaxed(&header->moving.word) & LOCK_AWAITED) == 0) {
        (void)sched_yield();
    }
    store_release(&header->phase, FILE_STAYS);
    lock_release(&header->moving);
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int look_at_name(void)
{
    (void)weir_limiter_status(people.limiter, NULL); // joins
    return (int)people.limiter->store->ops->upkeep->look_at_name(people.limiter->store);
}

static int open_it(void)
{
    const struct weir_limiter_config config = {.store = url};
    struct weir_limiter *limiter;
    return (int)weir_limiter_open(&limiter, &config, NULL);
}

static void taken_back(void)
{
    begin("taken back", "10/d");
    people_fill_up(1);
    if (ask_of_taken_back(open_it) != WEIR_OK) {
        give_up("%s: it cannot be opened", people.key);
    }
    copy_file(other);
    must(rename(other, path) == 0, "replace");
    if (ask_of_taken_back(look_at_name) != STORE_REPLACED) {
        give_up("%s: a process went to the other file by itself", people.key);
    }
    must_regain(STORE_EXCHANGED);
    finish();
}

static void run_all(bool is_soak)
{
    taken_back();
    deleted();
    deleted_when_full();
    moved_away();
    deleted_behind_a_link();
    replaced_with_fewer_charges();
    refused();
    without_a_folder();
    somebody_else_is_expected();
    replaced_and_deleted();
    for (int round = 0; round < (is_soak ? ROUNDS_SOAK : ROUNDS); round++) {
        several_at_once(round % 2 == 0);
    }
    for (int point = 0; point < POINT_COUNT; point++) {
        mover_dies_at((enum point)point);
        mover_to_another_dies_at((enum point)point);
    }
    overtaken_by_a_stranger();
    deleted_with_people("5/s capacity=1");
    deleted_with_people("queue 5/s capacity=50 first=interval");
    deleted_with_people("window 1/200ms");
    replaced_by_a_copy("5/s capacity=1");
    replaced_by_a_copy("queue 5/s capacity=50 first=interval");
    replaced_by_a_copy("window 1/200ms");
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    (void)snprintf(folder, sizeof folder, "%s/weir-regaining-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL) {
        give_up("no folder: %s", strerror(errno));
    }
    (void)snprintf(path, sizeof path, "%s/store", folder);
    (void)snprintf(other, sizeof other, "%s/other", folder);
    (void)snprintf(url, sizeof url, "file:%s", path);
    books = world_share(sizeof *books);
    people_init();
    run_all(is_soak);
    (void)rmdir(folder);
    return 0;
}
