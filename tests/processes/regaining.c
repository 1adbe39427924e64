/* SPDX-License-Identifier: MIT
 *
 * A file that was deleted or replaced under the processes that have it open: one of them makes it go on under its
 * name, and all others follow, those who wait too. regaining_hampered.c has what may come in between; resize.c leads
 * a mover by single steps. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lost_name.h"
#include "store/table/file_header.h"
#include "store/table/resize.h"

static uint64_t inode_of(const char *name)
{
    struct stat status;
    return stat(name, &status) == 0 ? status.st_ino : 0;
}

/* By a minute, as if the wall clock had been set meanwhile. */
static void set_clock_later(const char *name)
{
    struct file_header header;
    int fd = open(name, O_RDWR);
    lost_must(pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header, "read");
    header.time.last.empty_at_ns += 60 * S;
    lost_must(pwrite(fd, &header, sizeof header, 0) == (ssize_t)sizeof header, "write");
    (void)close(fd);
}

static void must_fail(enum weir_status status, const char *why)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    enum weir_status found = lost_regain(&regained, &error);
    if (found != status || strstr(error.message, why) == NULL
        || regained.outcome != STORE_AS_IT_WAS) {
        give_up("%s: status %d: %s", people.key, (int)found, error.message);
    }
}

/* ---- scenarios ---- */

static void deleted(void)
{
    lost_begin("deleted", "10/d");
    people_fill_up(4);
    lost_must_regain(STORE_AS_IT_WAS);
    lost_must(unlink(lost.path) == 0, "delete");
    people_fill_up(1); // in a file without a name
    if (lost_must_regain(STORE_CARRIED).bucket_count != 1) {
        give_up("%s: not one bucket", people.key);
    }
    lost_must_remain(5);
    people_fill_up(2);
    lost_must_remain(3);
    lost_must_regain(STORE_AS_IT_WAS);
    lost_must(unlink(lost.path) == 0, "delete");
    lost_must_regain(STORE_CARRIED); // once more
    lost_must_remain(3);
    lost_finish();
}

/* Those who wait go along, each in the mapping with which it began, and those who come later stand behind them. */
static void deleted_with_people(const char *limit)
{
    lost_begin("deleted, with people", limit);
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    lost_must(unlink(lost.path) == 0, "delete");
    if (lost_must_regain(STORE_CARRIED).waiting_count > 3) {
        give_up("%s: more than 3 waited", people.key);
    }
    (void)people_join_at(lost.url, 1, 30 * S);
    (void)people_join(1, 30 * S);
    people_must_be_served_in_order();
    lost_finish();
}

/* Keys that found no slot before find none afterwards, and all others have theirs. */
static void deleted_when_full(void)
{
    struct weir_limiter_stats before, after;
    struct weir_decision decision = {.verdict = WEIR_ALLOWED};
    people_open(lost.url, 4 * LOST_FILE_BYTES); // in which a key has not all slots of its stripe
    people_begin("deleted when full", "10/d");
    uint64_t count = 0;
    for (; decision.verdict == WEIR_ALLOWED; count++) {
        decision = weir_limiter_take(people.limiter, &people.rule, &count, sizeof count, WEIR_UNIT);
    }
    for (uint64_t more = count; more < 2 * count; more++) {
        (void)weir_limiter_take(people.limiter, &people.rule, &more, sizeof more, WEIR_UNIT);
    }
    weir_limiter_stats(people.limiter, &before);
    lost_must(unlink(lost.path) == 0, "delete");
    uint64_t carried_count = lost_must_regain(STORE_CARRIED).bucket_count;
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
    lost_finish();
}

static void moved_away(void)
{
    lost_begin("moved away", "10/d");
    people_fill_up(4);
    uint64_t inode = inode_of(lost.path);
    lost_must(rename(lost.path, lost.other) == 0, "move");
    lost_must_regain(STORE_LINKED);
    if (inode_of(lost.path) != inode || inode_of(lost.other) != inode) {
        give_up("%s: it is another file", people.key);
    }
    lost_must(unlink(lost.other) == 0, "delete");
    lost_must_remain(6);
    lost_finish();
}

/* Through a symbolic link it is made where the link leads. */
static void deleted_behind_a_link(void)
{
    char target[sizeof lost.other];
    lost_begin("deleted behind a link", "10/d");
    weir_limiter_close(people.limiter);
    lost_must(rename(lost.path, lost.other) == 0 && symlink("other", lost.path) == 0, "link");
    people_open(lost.url, 0);
    people_begin("deleted behind a link", "10/d");
    people_fill_up(4);
    lost_must(unlink(lost.other) == 0, "delete");
    lost_must_regain(STORE_CARRIED);
    lost_must(readlink(lost.path, target, sizeof target) > 0 && inode_of(lost.other) != 0,
              "find the link");
    lost_must_remain(6);
    lost_must(rename(lost.other, lost.path) == 0, "move");
    lost_finish();
}

/* Everything of the copy counts, and nothing of what came after it. Who waits goes on waiting there. */
static void replaced_by_a_copy(const char *limit)
{
    lost_begin("replaced by a copy", limit);
    people_fill_up(1);
    lost_copy(lost.other);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    lost_must(rename(lost.other, lost.path) == 0, "replace");
    uint64_t inode = inode_of(lost.path);
    struct store_regained regained = lost_must_regain(STORE_EXCHANGED);
    if (regained.waiting_count > 3 || inode_of(lost.path) != inode) {
        give_up("%s: %" PRIu64 " waited", people.key, regained.waiting_count);
    }
    (void)people_join_at(lost.url, 1, 30 * S);
    for (int i = 0; i < people.count; i++) {
        people_must_be_let(&people.people[i]);
    }
    lost_finish();
}

static void replaced_with_fewer_charges(void)
{
    lost_begin("replaced", "10/d");
    people_fill_up(2);
    lost_copy(lost.other);
    people_fill_up(3);
    lost_must(rename(lost.other, lost.path) == 0, "replace");
    if (lost_must_regain(STORE_EXCHANGED).bucket_count != 1) {
        give_up("%s: not one bucket is lost", people.key);
    }
    lost_must_remain(8);
    people_fill_up(1);
    lost_must_remain(7);
    lost_finish();
}

static void resize(void)
{
    struct room_mover mover;
    room_mover_init(&mover);
    struct resize_config config = {
        .path = lost.path, .bytes = 2 * LOST_FILE_BYTES, .lines = &mover.lines};
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
    people_open(lost.url, LOST_FILE_BYTES);
    people_begin_two("somebody else is expected", "5/s capacity=1", "1/s capacity=10");
    people_fill_both(1, 10);
    lost_copy(lost.other);
    uint64_t since_ns = people_now();
    struct person *ours = people_join(1, 30 * S);
    lost_must(rename(lost.other, lost.path) == 0, "replace");
    struct weir_limiter *limiter = people.limiter;
    people_open(lost.url, 0); // the copy: rules are the same there
    struct person *theirs = people_join_under(OTHER, lost.url, 10, 30 * S);
    people_stop(theirs);
    resize();
    weir_limiter_close(people.limiter);
    people.limiter = limiter;
    lost_must_regain(STORE_EXCHANGED);
    people_must_be_let(ours);
    people_must_be_about(ours, since_ns, 0, 6000); // and not those ten seconds
    people_end(theirs);
    bury_all();
    lost_finish();
}

/* What cannot be gone on with: everybody stays where the buckets are. */
static void refused(void)
{
    lost_begin("refused", "10/d");
    people_fill_up(2);
    char aside[sizeof lost.other + 8];
    char later[sizeof lost.other + 8];
    lost_copy(lost.other);
    (void)snprintf(aside, sizeof aside, "%s.aside", lost.other);
    (void)snprintf(later, sizeof later, "%s.later", lost.other);
    lost_copy(later);
    set_clock_later(later);
    lost_must(rename(lost.path, aside) == 0 && rename(lost.other, lost.path) == 0, "replace");
    must_fail(WEIR_E_FILE, "is still there, where others may use it");
    lost_must(unlink(aside) == 0 && truncate(lost.path, 8192) == 0, "cut");
    must_fail(WEIR_E_FILE, "is truncated");
    lost_must(truncate(lost.path, 0) == 0, "cut");
    must_fail(WEIR_E_FILE, "is not a file of weir");
    lost_must(unlink(lost.path) == 0 && rename(later, lost.path) == 0, "replace");
    must_fail(WEIR_E_FILE, "a clock that is");
    lost_must(unlink(lost.path) == 0, "delete");
    lost_must_remain(10); // who asks makes a file of its own
    uint64_t inode = inode_of(lost.path);
    must_fail(WEIR_E_FILE, "its seed is another one");
    if (inode_of(lost.path) != inode || people_take(1).remaining != 7) {
        give_up("%s: something has changed", people.key);
    }
    lost_must(unlink(lost.path) == 0, "delete");
    lost_must_regain(STORE_CARRIED);
    lost_must_remain(7);
    lost_finish();
}

static void without_a_folder(void)
{
    char away[sizeof lost.folder + 8];
    lost_begin("without a folder", "10/d");
    people_fill_up(2);
    lost_must(unlink(lost.path) == 0, "delete");
    (void)snprintf(away, sizeof away, "%s.away", lost.folder);
    lost_must(rename(lost.folder, away) == 0, "move");
    must_fail(WEIR_E_SYSTEM, "for want of its folder");
    lost_must(rename(away, lost.folder) == 0, "move");
    lost_must_regain(STORE_CARRIED);
    lost_must_remain(8);
    lost_finish();
}

static void run_all(void)
{
    deleted();
    deleted_when_full();
    moved_away();
    deleted_behind_a_link();
    replaced_with_fewer_charges();
    refused();
    without_a_folder();
    somebody_else_is_expected();
    deleted_with_people("5/s capacity=1");
    deleted_with_people("queue 5/s capacity=50 first=interval");
    deleted_with_people("window 1/200ms");
    replaced_by_a_copy("5/s capacity=1");
    replaced_by_a_copy("queue 5/s capacity=50 first=interval");
    replaced_by_a_copy("window 1/200ms");
}

int main(void)
{
    lost_init("regaining");
    run_all();
    lost_fini();
    return 0;
}
