/* SPDX-License-Identifier: MIT
 *
 * Workers charge the same buckets while their file is given another size, again and again: each worker in
 * the mapping with which it began, for as long as it lives. Those who resize are killed wherever they
 * happen to be, and so are workers. At the end the books must agree, as in kill_random.c; and of windows, whose
 * events move along, never more than N may have been let through in any P.
 *
 *     resize [soak]
 *
 * Then a resize is led by single steps and killed after those that change something (an ordinary test: the
 * folder or the phase, or every CHANGE_STRIDE-th change of the file): each time all
 * buckets must be as they were, for who has the file open and for who opens it, nobody may wait, and the
 * next resize must succeed. The same with a file that was deleted while it is open, and that a process carries into a
 * new one of its name. How many steps it takes is not always the same, and many more on a busy machine:
 * the kernel's clock is read anew if it was set meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/bucket_math.h"
#include "limiter/shared_lines/shared_move.h"
#include "steps.h"
#include "store/table/file_opening.h"
#include "store/table/resize.h"
#include "world.h"

enum {
    WORKERS = 3,
    KEYS = 40, // that stay
    WINDOWS = 3,
    EVENTS_MAX = 1 << 20, // that a worker tells of
    LANDED = 30,          // kills while buckets move
    LANDED_SOAK = 3000,
    GENERATION_MAX = 5, // a worker lives through so many
    STEP_NS = 100,
    BLOCKED_S = 120,
    CHANGE_STRIDE = 12,
    EVEN_KILLS = 2 // of a resize led by steps, beside those where something changes
};

#define T0     UINT64_C(1000000000000)
#define MINUTE UINT64_C(60000000000)
#define NO_KEY UINT64_MAX

/* What a window let through: one unit. */
struct event {
    uint64_t at_ns, key;
};

/* What a worker tells, before and after each operation. */
struct worker {
    pid_t pid;
    uint64_t random;
    volatile uint64_t key; // that is being charged
    volatile int64_t held[KEYS];
    volatile uint64_t operation_count;
    volatile uint64_t event_count;
    struct event events[EVENTS_MAX]; // of windows; memory that nobody writes costs nothing
};

struct books {
    uint64_t now_ns;
    uint64_t resized_count;
    volatile int phase; // of who resizes now
    struct worker workers[WORKERS];
};

static char folder[64];
static char path[128];
static struct books *books;
static struct weir_rule stays, passes, windows, log_rule;
static uint64_t doubtful[KEYS]; // operations of the killed

static struct table *open_table(uint64_t bytes)
{
    struct file_config config = {
        .path = path, .new_bytes = bytes, .mode = 0600, .is_caller_clock = true, .seed = {1, 2}};
    struct store *store;
    uint64_t seed[2];
    struct weir_error error = {.message = ""};
    if (table_open_file(&store, &config, seed, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    return (struct table *)store;
}

static void close_table(struct table *table)
{
    table->store.ops->close(&table->store);
}

static struct weir_decision ask(struct table *table, enum weir_operation operation,
                                const struct weir_rule *rule, uint64_t key, uint64_t cost,
                                uint64_t now_ns, struct weir_detail *detail)
{
    struct weir_request request = {.rule = rule,
                                   .key = &key,
                                   .key_len = sizeof key,
                                   .cost_micro = cost * WEIR_UNIT,
                                   .operation = operation,
                                   .detail = detail};
    struct weir_decision decision;
    table->store.ops->decide(&table->store, &request, &decision, 1, now_ns);
    return decision;
}

/* ---- those who charge ---- */

/* Who is killed before it tells of an event has let one through of which the books do not know: they may
 * say less than was let through, and never more. */
static void take_of_a_window(struct table *table, struct worker *worker, uint64_t key,
                             uint64_t now_ns)
{
    struct weir_decision decision = ask(table, WEIR_TAKE, &windows, key, 1, now_ns, NULL);
    if (decision.verdict == WEIR_ALLOWED) {
        uint64_t at_ns = now_ns + (uint64_t)decision.reset_after_ns - windows.limit.full_ns;
        worker->events[worker->event_count] = (struct event){at_ns, key};
        worker->event_count++;
    } else if (decision.verdict != WEIR_LIMITED) {
        give_up("a window said: %s", weir_verdict_word(decision.verdict));
    }
}

static void do_operation(struct table *table, struct worker *worker)
{
    uint64_t random = world_random(&worker->random);
    uint64_t now_ns = __atomic_fetch_add(&books->now_ns, STEP_NS, __ATOMIC_RELAXED);
    uint64_t key = random / 4 % KEYS;
    if (key % 4 == 0 && worker->event_count < EVENTS_MAX) {
        take_of_a_window(table, worker, key / 4 % WINDOWS, now_ns);
        worker->operation_count++;
        return;
    }
    if (random % 4 == 0) { // a bucket that drains at once, mostly a new one
        (void)ask(table, WEIR_TAKE, &passes, random | 1, 1, now_ns, NULL);
        worker->operation_count++;
        return;
    }
    /* Less is given back than is there in any case. */
    bool is_refund = random % 4 == 1 && worker->held[key] > 2;
    worker->key = key;
    struct weir_decision decision =
        ask(table, is_refund ? WEIR_REFUND : WEIR_TAKE, &stays, key, 1, now_ns, NULL);
    if (decision.verdict != WEIR_ALLOWED) {
        give_up("a roomy bucket refused: %s", weir_verdict_word(decision.verdict));
    }
    worker->held[key] += is_refund ? -1 : 1;
    worker->key = NO_KEY;
    worker->operation_count++;
}

static void start_worker(struct worker *worker)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        struct table *table = open_table(0);
        let_others_go_first();
        for (;;) {
            do_operation(table, worker);
        }
    }
    worker->pid = pid; // here only: the books are shared
}

static void end_worker(struct worker *worker)
{
    int status;
    (void)kill(worker->pid, SIGKILL);
    (void)waitpid(worker->pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        give_up("a worker ended by itself");
    }
    if (worker->key != NO_KEY) {
        doubtful[worker->key]++;
    }
    worker->key = NO_KEY;
}

/* ---- those who resize ---- */

static bool note_phase(void *context, enum resize_phase phase, uint64_t done, uint64_t total)
{
    (void)context, (void)done, (void)total;
    books->phase = (int)phase + 1;
    return true;
}

static uint64_t size_of(uint64_t random)
{
    return UINT64_C(65536) << random % 7;
}

static enum weir_status resize(uint64_t bytes, struct weir_error *error)
{
    struct room_mover mover;
    room_mover_init(&mover);
    struct resize_config config = {.path = path,
                                   .bytes = bytes,
                                   .is_caller_clock = true,
                                   .lines = &mover.lines,
                                   .now_ns = __atomic_load_n(&books->now_ns, __ATOMIC_RELAXED),
                                   .watch = note_phase};
    struct resize_report report;
    return resize_file(&config, &report, error);
}

/* Resizes until it is killed. What does not fit is no mistake. */
static pid_t start_resizer(uint64_t random)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    while (pid == 0) {
        struct weir_error error = {.message = ""};
        enum weir_status status = resize(size_of(world_random(&random)), &error);
        if (status != WEIR_OK && status != WEIR_E_RANGE) {
            give_up("%s", error.message);
        }
        books->phase = 0;
        __atomic_fetch_add(&books->resized_count, status == WEIR_OK, __ATOMIC_RELAXED);
    }
    return pid;
}

static void end_resizer(pid_t pid)
{
    int status;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        give_up("who resized ended by itself");
    }
}

/* Every worker must do something again. */
static void see_that_all_go_on(void)
{
    for (int i = 0; i < WORKERS; i++) {
        uint64_t from = books->workers[i].operation_count;
        while (books->workers[i].operation_count == from) {
            (void)sched_yield(); // that it never does is what alarm() is for
        }
    }
}

static int by_key_and_time(const void *a, const void *b)
{
    const struct event *left = a;
    const struct event *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return (left->at_ns > right->at_ns) - (left->at_ns < right->at_ns);
}

/* Whoever is N events behind another one has come P later. */
static void check_windows(void)
{
    uint64_t count = 0;
    uint64_t most = windows.limit.capacity;
    struct event *all = malloc(WORKERS * sizeof books->workers[0].events);
    if (all == NULL) {
        give_up("no memory");
    }
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &books->workers[i];
        memcpy(all + count, worker->events, worker->event_count * sizeof *all);
        count += worker->event_count;
    }
    qsort(all, count, sizeof *all, by_key_and_time);
    for (uint64_t i = most; i < count; i++) {
        if (all[i].key == all[i - most].key
            && all[i].at_ns < all[i - most].at_ns + windows.limit.full_ns) {
            give_up("more than %" PRIu64 " in a window that begins at %" PRIu64, most,
                    all[i - most].at_ns);
        }
    }
    free(all);
    printf("%" PRIu64 " events of windows are as they should be\n", count);
}

static void close_books(void)
{
    check_windows();
    struct table *table = open_table(0);
    int64_t sum = 0;
    uint64_t doubt = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        int64_t charged = 0;
        for (int i = 0; i < WORKERS; i++) {
            charged += books->workers[i].held[key];
        }
        struct weir_detail detail;
        (void)ask(table, WEIR_SHOW, &stays, key, 0, books->now_ns, &detail);
        int64_t held = detail.empty_at_ns < T0 ? 0 : (int64_t)((detail.empty_at_ns - T0) / MINUTE);
        int64_t doubts = (int64_t)doubtful[key];
        if (held < charged - doubts || held > charged + doubts) {
            give_up("key %" PRIu64 " holds %" PRId64 ", charged were %" PRId64
                    ", and perhaps %" PRId64 " more or less",
                    key, held, charged, doubts);
        }
        sum += charged;
        doubt += doubtful[key];
    }
    world_lock_all(table);
    world_check(table);
    close_table(table);
    printf("%" PRId64 " charges are there, %" PRIu64 " in doubt\n", sum, doubt);
}

static void kill_at_random(uint64_t goal)
{
    uint64_t random = 88172645463325252;
    uint64_t landed_count = 0;
    uint64_t kill_count = 0;
    close_table(open_table(65536));
    books->now_ns = T0;
    for (int i = 0; i < WORKERS; i++) {
        books->workers[i].random = world_random(&random);
        books->workers[i].key = NO_KEY;
        start_worker(&books->workers[i]);
    }
    see_that_all_go_on();
    while (landed_count < goal && kill_count < 100 * goal) {
        (void)alarm(BLOCKED_S);
        books->phase = 0;
        pid_t pid = start_resizer(world_random(&random));
        uint64_t turns = world_random(&random) % 2000;
        while (books->phase == 0) {
            (void)sched_yield();
        }
        for (uint64_t i = 0; i < turns; i++) {
            (void)load_acquire(&books->now_ns);
        }
        if (world_random(&random) % 2 == 0) { // rather while buckets move
            for (int i = 0; i < 100000 && books->phase != RESIZE_MOVING + 1; i++) {
            }
        }
        end_resizer(pid);
        kill_count++;
        landed_count += books->phase == RESIZE_MOVING + 1;
        see_that_all_go_on();
        if (kill_count % GENERATION_MAX == 0) {
            struct worker *worker = &books->workers[world_random(&random) % WORKERS];
            end_worker(worker);
            start_worker(worker);
        }
    }
    see_that_all_go_on();
    (void)alarm(BLOCKED_S);
    for (int i = 0; i < WORKERS; i++) {
        end_worker(&books->workers[i]);
    }
    (void)alarm(0);
    printf("%" PRIu64 " resizes done, %" PRIu64 " killed, %" PRIu64
           " of them while buckets moved; %" PRIu64 " operations\n",
           books->resized_count, kill_count, landed_count, (books->now_ns - T0) / STEP_NS);
    close_books();
    (void)unlink(path);
    if (landed_count < goal) {
        give_up("too few");
    }
}

/* ---- led step by step ---- */

enum { STEP_KEYS = 12, FROM_BYTES = 65536, INTO_BYTES = 3 * 65536, LOG_KEY = 999, LOG_COUNT = 230 };

static struct path steps;

static bool stop_at_phases(void *context, enum resize_phase phase, uint64_t done, uint64_t total)
{
    (void)context, (void)total;
    if (phase == RESIZE_ALLOCATING && done == 0) {
        (void)raise(SIGSTOP); // from here on it is led
    }
    if (phase == RESIZE_WRITING) {
        steps_come_through();
    }
    return true;
}

/* Stops where it begins, and where it has ended. */
static void resize_led(const void *context)
{
    (void)context;
    struct room_mover mover;
    room_mover_init(&mover);
    struct resize_config config = {.path = path,
                                   .bytes = INTO_BYTES,
                                   .is_caller_clock = true,
                                   .lines = &mover.lines,
                                   .now_ns = T0,
                                   .watch = stop_at_phases};
    struct resize_report report;
    struct weir_error error;
    (void)resize_file(&config, &report, &error);
    give_up("a resize that was led: %s", error.message);
}

static enum store_outcome regain(struct table *table)
{
    struct room_mover mover;
    struct store_regained regained;
    struct weir_error error;
    room_mover_init(&mover);
    if (table_regain_name(&table->store, &mover.lines, T0, &regained, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    return regained.outcome;
}

/* The file is deleted where it stops for the first time. */
static void regain_led(const void *context)
{
    (void)context;
    struct table *table = open_table(0);
    (void)raise(SIGSTOP);
    if (regain(table) != STORE_CARRIED) {
        give_up("it was not carried");
    }
}

static bool is_regaining;

static void nothing(void)
{
}

static pid_t start_led(struct path *led)
{
    pid_t child = steps_start(NULL, nothing, is_regaining ? regain_led : resize_led, NULL);
    steps_begin_at_stop(led, child);
    if (is_regaining) {
        (void)unlink(path);
    }
    return child;
}

/* What a step may change: the file, whether its buckets have moved, and what is in its folder. */
struct scene {
    enum file_phase phase;
    uint64_t inode;
    uint64_t successor_bytes;
};

static struct scene look_at_scene(const struct table *table)
{
    char successor[FILE_NAME_MAX];
    struct stat status;
    struct scene scene = {.phase = file_phase(table->mapping.at)};
    scene.inode = stat(path, &status) == 0 ? status.st_ino : 0;
    file_successor_path(successor, path, table->members.inode);
    scene.successor_bytes = stat(successor, &status) == 0 ? (uint64_t)status.st_size + 1 : 0;
    return scene;
}

static struct table *prepare(void)
{
    (void)unlink(path);
    struct table *table = open_table(FROM_BYTES);
    for (uint64_t key = 0; key < STEP_KEYS; key++) {
        (void)ask(table, WEIR_TAKE, &stays, key, key + 1, T0, NULL);
    }
    (void)ask(table, WEIR_TAKE, &passes, 1, 1, T0 - MINUTE, NULL); // one that is forgotten
    for (int i = 0; i < LOG_COUNT; i++) {                          // two chunks
        (void)ask(table, WEIR_TAKE, &log_rule, LOG_KEY, 1, T0, NULL);
    }
    return table;
}

/* All buckets hold what they held, and `more`. */
static void check_all(struct table *table, uint64_t more, uint64_t at)
{
    for (uint64_t key = 0; key < STEP_KEYS; key++) {
        struct weir_detail detail;
        (void)ask(table, WEIR_SHOW, &stays, key, 0, T0, &detail);
        if (detail.empty_at_ns != T0 + (key + 1 + more) * MINUTE) {
            give_up("killed after step %" PRIu64 ": key %" PRIu64 " is empty at %" PRIu64, at, key,
                    detail.empty_at_ns);
        }
    }
    uint64_t left = log_rule.limit.capacity - LOG_COUNT - more;
    if (ask(table, WEIR_SHOW, &log_rule, LOG_KEY, 0, T0, NULL).remaining != left) {
        give_up("killed after step %" PRIu64 ": a window has lost events", at);
    }
}

static uint64_t size_of_table(const struct table *table)
{
    const struct file_header *header = table_current(&table->store)->mapping.at;
    return header->stamp.table_bytes;
}

/* Nothing but the file is in the folder. */
static void check_folder(uint64_t at)
{
    char of_whom[48];
    (void)snprintf(of_whom, sizeof of_whom, "killed after step %" PRIu64, at);
    must_hold_store_only(folder, of_whom);
}

static void check_death(struct table *old, uint64_t at, bool is_even)
{
    (void)alarm(BLOCKED_S);
    struct weir_error error = {.message = ""};
    if (file_phase(old->mapping.at) == FILE_STAYS && has_nameless_files(folder)) {
        check_folder(at); // nobody has come yet
    }
    if (is_regaining && !is_even) {
        check_all(old, 0, at);
    }
    if (is_regaining) {
        (void)regain(old);
    }
    struct table *fresh = is_even ? open_table(0) : NULL; // who comes first to clear up
    check_all(old, 0, at);
    fresh = fresh != NULL ? fresh : open_table(0);
    for (uint64_t key = 0; key < STEP_KEYS; key++) { // of both, in turns
        (void)ask(key % 2 == 0 ? old : fresh, WEIR_TAKE, &stays, key, 1, T0, NULL);
    }
    (void)ask(fresh, WEIR_TAKE, &log_rule, LOG_KEY, 1, T0, NULL);
    (void)ask(old, WEIR_TAKE, &stays, STEP_KEYS, 1, T0, NULL); // a new one
    check_all(fresh, 1, at);
    check_all(old, 1, at);
    if (has_nameless_files(folder)) {
        check_folder(at);
    }
    if (resize(2 * INTO_BYTES, &error) != WEIR_OK) {
        give_up("killed after step %" PRIu64 ": %s", at, error.message);
    }
    check_folder(at);
    struct weir_detail detail;
    (void)ask(fresh, WEIR_SHOW, &stays, STEP_KEYS, 0, T0, &detail);
    if (detail.empty_at_ns != T0 + MINUTE) {
        give_up("killed after step %" PRIu64 ": a new bucket is lost", at);
    }
    check_all(old, 1, at);
    world_lock_all(table_current(&old->store));
    world_check(table_current(&old->store));
    if (size_of_table(old) != 2 * INTO_BYTES || size_of_table(fresh) != 2 * INTO_BYTES) {
        give_up("killed after step %" PRIu64 ": not all went on in the new file", at);
    }
    (void)alarm(0);
    close_table(fresh);
}

enum change { NOTHING, OF_FILE, OF_ALL };

/* What has changed since the scene and the contents that are kept, which are then as they are now. */
static enum change compare(const struct table *table, struct scene *last, char *contents)
{
    struct scene now = look_at_scene(table);
    enum change change = NOTHING;
    if (memcmp(contents, table->mapping.at, table->mapping.bytes) != 0) {
        memcpy(contents, table->mapping.at, table->mapping.bytes);
        change = OF_FILE;
    }
    if (now.inode != last->inode || now.successor_bytes != last->successor_bytes
        || now.phase != last->phase) {
        change = OF_ALL;
    }
    *last = now;
    return change;
}

static void kill_after(uint64_t at, uint64_t kill_count)
{
    struct table *table = prepare();
    pid_t child = start_led(NULL);
    steps_run_to(&steps, child, (int)at);
    steps_end(child);
    check_death(table, at, kill_count % 2 == 0);
    close_table(table);
}

/* Runs to the end once: what each step changes. Returns how many there are. */
static uint64_t find_changes(unsigned char *changes)
{
    struct table *table = prepare();
    struct scene last = look_at_scene(table);
    char *contents = malloc(table->mapping.bytes);
    if (contents == NULL) {
        give_up("no memory");
    }
    memcpy(contents, table->mapping.at, table->mapping.bytes);
    pid_t child = start_led(&steps);
    while (steps_next(&steps, child)) {
        changes[steps.count - 1] = (unsigned char)compare(table, &last, contents);
    }
    steps_end(child);
    free(contents);
    close_table(table);
    return (uint64_t)steps.count;
}

static void kill_at_steps(bool is_soak)
{
    static unsigned char changes[STEPS_MAX];
    uint64_t step_count = find_changes(changes);
    uint64_t change_count = 0;
    uint64_t kill_count = 0;
    uint64_t change_stride = is_soak ? 1 : CHANGE_STRIDE;
    uint64_t stride = step_count / (is_soak ? 40 * EVEN_KILLS : EVEN_KILLS) + 1;
    for (uint64_t at = 0; at < step_count; at++) {
        bool is_change = changes[at] != NOTHING;
        change_count += is_change;
        if (changes[at] == OF_ALL || (is_change && change_count % change_stride == 0)
            || at % stride == 0) {
            kill_after(at, kill_count++);
        }
    }
    printf("%s of %" PRIu64 " steps, %" PRIu64 " change something: killed after %" PRIu64 "\n",
           is_regaining ? "a regain" : "a resize", step_count, change_count, kill_count);
}

/* With what the killed have left there. */
static void remove_folder(void)
{
    DIR *opened = opendir(folder);
    struct dirent *entry;
    while (opened != NULL && (entry = readdir(opened)) != NULL) {
        (void)unlinkat(dirfd(opened), entry->d_name, 0);
    }
    (void)closedir(opened);
    (void)rmdir(folder);
}

/* Once a large block was given back, glibc keeps such blocks, and calloc() has to clear them: hundreds of
 * thousands of steps, for a led string instruction stops after every byte. */
static void keep_large_blocks_apart(void)
{
#ifdef M_MMAP_THRESHOLD
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    (void)snprintf(folder, sizeof folder, "%s/weir-resize-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL) {
        give_up("no folder: %s", strerror(errno));
    }
    (void)snprintf(path, sizeof path, "%s/store", folder);
    books = world_share(sizeof *books);
    stays = world_rule("1/min capacity=50000000");
    passes = world_rule("100000/s capacity=1");
    passes.hash_key[0]++;
    windows = world_rule("window 10/20us");
    windows.hash_key[0] += 2;
    log_rule = world_rule("window 900/h");
    log_rule.hash_key[0] += 3;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    keep_large_blocks_apart();
    kill_at_random(is_soak ? LANDED_SOAK : LANDED);
    kill_at_steps(is_soak);
    is_regaining = true;
    kill_at_steps(is_soak);
    remove_folder();
    return 0;
}
