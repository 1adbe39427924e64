/* SPDX-License-Identifier: MIT
 *
 * What happens while one process makes a deleted or replaced file go on under its name: others do the same, the mover
 * dies on the way, strangers take the name, and the move is taken back.
 *
 *     regaining_hampered [soak]
 *
 * A soak has several go at once more often. */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hampered.h"
#include "lost_name.h"
#include "store/table/file_opening.h"

enum { MOVERS = 4, ROUNDS = 20, ROUNDS_SOAK = 1000 };

/* What several movers tell. */
struct books {
    uint64_t ready_count;
    bool may_go;
    uint64_t outcomes[STORE_EXCHANGED + 1];
    bool is_forbidden; // a file without a name
};
static struct books *books;

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
    if (lost_regain(&regained, &error) != WEIR_OK) {
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
    lost_begin(is_replaced ? "several, replaced" : "several, deleted", "100/d");
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
    lost_copy(lost.other);
    lost_must(is_replaced ? rename(lost.other, lost.path) == 0
                          : unlink(lost.path) == 0 && unlink(lost.other) == 0,
              "delete");
    __atomic_store_n(&books->may_go, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < MOVERS; i++) {
        int status;
        (void)waitpid(pids[i], &status, 0);
        lost_must(status == 0, "go on");
    }
    if (books->outcomes[is_replaced ? STORE_EXCHANGED : STORE_CARRIED] != 1
        || books->outcomes[STORE_AS_IT_WAS] != MOVERS - 1) {
        give_up("%s: %" PRIu64 " carried, %" PRIu64 " exchanged", people.key,
                books->outcomes[STORE_CARRIED], books->outcomes[STORE_EXCHANGED]);
    }
    lost_must_remain(100 - 4 - MOVERS);
    lost_must_regain(STORE_AS_IT_WAS);
    people_fill_up(1);
    lost_must_remain(100 - 5 - MOVERS);
    lost_finish();
}

/* ---- on the way ---- */

static void regain_on_the_way(struct line_mover *lines)
{
    struct store_regained regained;
    struct weir_error error;
    (void)weir_limiter_status(people.limiter, NULL); // joins
    (void)lost_regain_with(lines, &regained, &error);
}

static char successor[FILE_NAME_MAX]; // the name of the other file, until it gets its own

static void delete_named(void)
{
    struct stat status;
    lost_must(stat(lost.path, &status) == 0 && unlink(lost.path) == 0, "delete");
    file_successor_path(successor, lost.path, status.st_ino);
}

/* Deletes the file, and has a mover die that makes it again. Then, even if nobody comes after it, nothing must be left
 * but a file that has had to get a name. People who wait may have removed that already. */
static void delete_and_move(enum point point, void (*move)(struct line_mover *lines))
{
    delete_named();
    books->is_forbidden = false;
    hampered_kill(point, move);
    bool has_nameless = has_nameless_files(lost.folder) && !books->is_forbidden;
    bool has_name = has_nameless ? point == AFTER_CARRY : point < BEFORE_LEAVE;
    if (has_name && people.count == 0 && access(successor, F_OK) != 0) {
        give_up("%s: the other file has no name", people.key);
    }
    if ((access(lost.path, F_OK) == 0) != (point >= BEFORE_LEAVE)) {
        give_up("%s: it is there too early, or too late", people.key);
    }
    if (!has_name) {
        must_hold_store_only(lost.folder, people.key);
    }
}

/* Before the step that counts all is as it was, and the next one does it; afterwards all is done. */
static void mover_dies_at(enum point point)
{
    char name[32];
    (void)snprintf(name, sizeof name, "a mover dies at %d", (int)point);
    lost_begin(name, "4/s capacity=1");
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    delete_and_move(point, regain_on_the_way);
    (void)people_join(1, 30 * S); // in whichever of the two
    lost_must_regain(point < BEFORE_LEAVE ? STORE_CARRIED : STORE_AS_IT_WAS);
    (void)people_join_at(lost.url, 1, 30 * S);
    people_must_be_served_in_order();
    lost_finish();
}

static void regain_with_named_files(struct line_mover *lines)
{
    books->is_forbidden = forbid_nameless_files();
    if (!books->is_forbidden) {
        printf("no seccomp here: files are without a name\n");
        (void)fflush(stdout);
    }
    regain_on_the_way(lines);
}

/* Where every file has a name. The next one removes what it has left. */
static void mover_with_named_files_dies_at(enum point point)
{
    char name[32];
    (void)snprintf(name, sizeof name, "with named files, dies at %d", (int)point);
    lost_begin(name, "10/d");
    people_fill_up(2);
    delete_and_move(point, regain_with_named_files);
    people_fill_up(1); // in whichever of the two
    lost_must_regain(point < BEFORE_LEAVE ? STORE_CARRIED : STORE_AS_IT_WAS);
    must_hold_store_only(lost.folder, people.key);
    lost_must_remain(7);
    lost_finish();
}

static void mover_to_another_dies_at(enum point point)
{
    char name[32];
    (void)snprintf(name, sizeof name, "to another, dies at %d", (int)point);
    lost_begin(name, "10/d");
    people_fill_up(2);
    lost_copy(lost.other);
    people_fill_up(3);
    lost_must(rename(lost.other, lost.path) == 0, "replace");
    hampered_kill(point, regain_on_the_way);
    people_fill_up(1); // in whichever of the two
    lost_must_regain(point < BEFORE_LEAVE ? STORE_EXCHANGED : STORE_AS_IT_WAS);
    lost_must_remain(point < BEFORE_LEAVE ? 8 : 7);
    lost_finish();
}

/* ---- strangers ---- */

static enum weir_status regain_hampered(enum point point, void (*happens)(void),
                                        struct store_regained *regained, struct weir_error *error)
{
    struct hampered hampered;
    hampered_init(&hampered, point, happens);
    return lost_regain_with(&hampered.lines, regained, error);
}

static void make_a_stranger(void)
{
    struct weir_limiter_config config = {.store = lost.url, .memory_bytes = LOST_FILE_BYTES};
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
    lost_begin("overtaken", "4/s capacity=1");
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    lost_must(unlink(lost.path) == 0, "delete");
    if (regain_hampered(AFTER_CARRY, make_a_stranger, &regained, &error) != WEIR_E_FILE
        || strstr(error.message, "its seed is another one") == NULL) {
        give_up("%s: %s", people.key, error.message);
    }
    must_hold_store_only(lost.folder, people.key);
    (void)people_join(1, 30 * S);
    people_must_be_served_in_order();
    lost_must_remain(1);
    lost_finish();
}

static void take_name_of_successor(void)
{
    int fd = open(successor, O_RDWR | O_CREAT | O_CLOEXEC, 0600); // it may have that already
    lost_must(fd >= 0 && close(fd) == 0, "make");
}

/* The other file cannot get a name: everything is as it was. */
static void without_a_name(void)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    lost_begin("without a name", "10/d");
    people_fill_up(2);
    delete_named();
    bool is_named = !has_nameless_files(lost.folder);
    enum weir_status status =
        regain_hampered(AFTER_ENTER, take_name_of_successor, &regained, &error);
    if (!is_named
        && (status != WEIR_E_SYSTEM
            || strstr(error.message, "File exists; nothing has changed") == NULL)) {
        give_up("%s: status %d: %s", people.key, (int)status, error.message);
    }
    people_fill_up(3);
    must_hold_store_only(lost.folder, people.key);
    lost_must_regain(is_named ? STORE_AS_IT_WAS : STORE_CARRIED);
    lost_must_remain(5);
    lost_finish();
}

/* And here the other file goes again. */
static void delete_it(void)
{
    lost_must(unlink(lost.path) == 0, "delete");
}

static void replaced_and_deleted(void)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    lost_begin("replaced and deleted", "10/d");
    people_fill_up(2);
    lost_copy(lost.other);
    people_fill_up(3);
    lost_must(rename(lost.other, lost.path) == 0, "replace");
    if (regain_hampered(AFTER_ENTER, delete_it, &regained, &error) != WEIR_OK
        || regained.outcome != STORE_CARRIED) {
        give_up("%s: %s", people.key, error.message);
    }
    lost_must_remain(5);
    lost_finish();
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
    const struct weir_limiter_config config = {.store = lost.url};
    struct weir_limiter *limiter;
    return (int)weir_limiter_open(&limiter, &config, NULL);
}

static void taken_back(void)
{
    lost_begin("taken back", "10/d");
    people_fill_up(1);
    if (ask_of_taken_back(open_it) != WEIR_OK) {
        give_up("%s: it cannot be opened", people.key);
    }
    lost_copy(lost.other);
    lost_must(rename(lost.other, lost.path) == 0, "replace");
    if (ask_of_taken_back(look_at_name) != STORE_REPLACED) {
        give_up("%s: a process went to the other file by itself", people.key);
    }
    lost_must_regain(STORE_EXCHANGED);
    lost_finish();
}

static void run_all(bool is_soak)
{
    taken_back();
    replaced_and_deleted();
    for (int round = 0; round < (is_soak ? ROUNDS_SOAK : ROUNDS); round++) {
        several_at_once(round % 2 == 0);
    }
    for (int point = 0; point < POINT_COUNT; point++) {
        mover_dies_at((enum point)point);
        mover_with_named_files_dies_at((enum point)point);
        mover_to_another_dies_at((enum point)point);
    }
    overtaken_by_a_stranger();
    without_a_name();
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    books = world_share(sizeof *books);
    lost_init("hampered");
    run_all(is_soak);
    lost_fini();
    return 0;
}
