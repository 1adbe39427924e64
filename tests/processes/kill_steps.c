/* SPDX-License-Identifier: MIT
 *
 * Kills a process after each single instruction of an operation, and looks from another one: every
 * bucket must be as it was before or after, a new bucket must find its place, and nobody may wait.
 *
 *     kill_steps [soak]
 *
 * The child stops itself, is led through the operation step by step (ptrace), and killed. Which steps
 * change the file is found out in a run that is not killed. An ordinary test kills after each of these
 * and the one that follows it, and after some of the others, evenly spread; a soak after all, but in
 * the long search of an heir after one in LONG_STRIDE. Each time the file is put back first. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/bucket_math.h"
#include "store/table/inside.h"
#include "world.h"

enum {
    STEPS_MAX = 100000,
    LONG_STEPS = 2000,
    LONG_STRIDE = 7, // the search has a period of its own
    EVEN_KILLS = 25, // in an ordinary test, beside those where the file changes
    KEYS = 6,
    NEW_KEY = KEYS, // of nobody, until it is inserted after a death
    FAR_KEY = 5,
    MORE_MAX = 2,
    BLOCKED_S = 60
};

#define T0                                                                                         \
    UINT64_C(1000000000000000) // the operations' time; buckets of 1/s are drained long before
#define S UINT64_C(1000000000)

static struct table *table;
static struct weir_rule rule;
static volatile bool *is_done; // the child has come through

/* The first four keys are at home in one line of stripe 0, the others in another one, but for FAR_KEY, which
 * is in another stripe; their owner bits differ. */
static uint64_t hash_of(int key)
{
    uint64_t stripe = (uint64_t)(key == FAR_KEY) << 63;
    return stripe | ((uint64_t)key + 1) << 32 | ((uint64_t)key + 9) << 16 | (key < 4 ? 7 : 30);
}

static struct weir_decision decide(enum weir_operation operation, int key, uint64_t cost,
                                   uint64_t now_ns, struct weir_detail *detail)
{
    struct weir_request request = {.rule = &rule,
                                   .cost_micro = cost * WEIR_UNIT,
                                   .operation = operation,
                                   .detail = detail,
                                   .block_ns = cost * S}; // of a block
    return table_decide_hash(table, &request, hash_of(key), now_ns);
}

static void must_take(int key, uint64_t cost, uint64_t now_ns)
{
    if (decide(WEIR_TAKE, key, cost, now_ns, NULL).verdict != WEIR_ALLOWED) {
        give_up("key %d: not allowed", key);
    }
}

/* ---- scenarios ---- */

static void prepare_nothing(void)
{
}

static void prepare_bucket(void)
{
    must_take(0, 3, T0);
}

/* Locked out for 5 s; or until an hour ago, and nobody has come since. */
static void prepare_block(void)
{
    must_take(0, 3, T0);
    (void)decide(WEIR_BLOCK, 0, 5, T0, NULL);
}

static void prepare_old_block(void)
{
    (void)decide(WEIR_BLOCK, 0, 5, T0 - 3600 * S, NULL);
}

static void prepare_several(void)
{
    must_take(0, 3, T0);
    must_take(4, 1, T0);
    must_take(FAR_KEY, 2, T0);
}

/* Home is full of live buckets: the next key goes elsewhere, and home has to remember it. */
static void prepare_full_home(void)
{
    must_take(1, 3, T0);
    must_take(2, 3, T0);
}

/* Home is full of drained buckets: the next key gets the slot of one. */
static void prepare_drained(void)
{
    must_take(1, 3, T0 - 3600 * S);
    must_take(2, 3, T0 - 3600 * S);
}

/* One of the home's buckets was drained by giving back, so that its slot is looked at and not given. */
static void prepare_given_back(void)
{
    must_take(1, 9, T0);
    must_take(2, 9, T0);
    (void)decide(WEIR_REFUND, 1, 9, T0, NULL);
    (void)decide(WEIR_REFUND, 2, 9, T0, NULL);
}

/* A slot that was being given away when its inserter died, and the lock with it. */
static void prepare_death(void)
{
    prepare_drained();
    struct line *line = &table->lines[table_home_of(table, hash_of(1))];
    for (int i = 0; i < TABLE_LINE_SLOTS;
         i++) { // both, one of them for a key that is not asked for
        line->states[i].word =
            (line->states[i].word & ~BUCKET_OWNER_MASK) | table_owner_of(hash_of(i == 0 ? 0 : 5));
    }
    table->stripes[0].used_count++;
    pid_t child = fork();
    if (child == 0) {
        (void)mutex_lock(&table->stripes[0].mutex);
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
}

/* Nobody has looked through the stripes since the machine stopped, and of what it still wrote, home had
 * not yet heard of key 3. */
static void prepare_crash(void)
{
    prepare_full_home();
    must_take(3, 3, T0);
    table->lines[table_home_of(table, hash_of(1))].displaced = 0;
    table->epoch++;
}

static const struct scenario {
    const char *name;
    void (*prepare)(void);
    enum weir_operation operation;
    int key;
    uint64_t cost;
    int found;        // a key that has a bucket afterwards
    uint64_t block_s; // block= of the limit
    int more_count;   // keys that are asked together with it
    int more[MORE_MAX];
    bool is_usual;
} SCENARIOS[] = {
    {"take of a bucket", prepare_bucket, WEIR_TAKE, 0, 1, 0, 0, 0, {0}, false},
    {"take that is refused", prepare_bucket, WEIR_TAKE, 0, 8, 0, 0, 0, {0}, false},
    {"fill of a bucket", prepare_bucket, WEIR_FILL, 0, 20, 0, 0, 0, {0}, false},
    {"refund of a bucket", prepare_bucket, WEIR_REFUND, 0, 2, 0, 0, 0, {0}, false},
    {"reset of a bucket", prepare_full_home, WEIR_RESET, 1, 0, 2, 0, 0, {0}, false},
    {"new bucket at home", prepare_nothing, WEIR_TAKE, 0, 1, 0, 0, 0, {0}, false},
    {"new bucket elsewhere", prepare_full_home, WEIR_TAKE, 0, 1, 1, 0, 0, {0}, false},
    {"new bucket in a used slot", prepare_drained, WEIR_TAKE, 0, 1, 0, 0, 0, {0}, false},
    {"new bucket past what went back", prepare_given_back, WEIR_TAKE, 0, 1, 0, 0, 0, {0}, false},
    {"new bucket by the heir of a death", prepare_death, WEIR_TAKE, 0, 1, 0, 0, 0, {0}, false},
    {"new bucket, the first after a crash", prepare_crash, WEIR_TAKE, 4, 1, 3, 0, 0, {0}, false},
    {"block of a bucket", prepare_bucket, WEIR_BLOCK, 0, 5, 0, 0, 0, {0}, false},
    {"block of a key without a bucket", prepare_full_home, WEIR_BLOCK, 0, 5, 1, 0, 0, {0}, false},
    {"block that is prolonged", prepare_block, WEIR_BLOCK, 0, 50, 0, 0, 0, {0}, false},
    {"block that is taken away", prepare_block, WEIR_UNBLOCK, 0, 0, 0, 0, 0, {0}, false},
    {"take that meets a block", prepare_block, WEIR_TAKE, 0, 1, 0, 0, 0, {0}, false},
    {"take that meets an old block", prepare_old_block, WEIR_TAKE, 0, 1, 0, 0, 0, {0}, false},
    {"take that is refused, and blocks", prepare_bucket, WEIR_TAKE, 0, 8, 0, 7, 0, {0}, false},
    {"fill that fills up, and blocks", prepare_bucket, WEIR_FILL, 0, 20, 0, 7, 0, {0}, false},
    {"take of three, two stripes", prepare_several, WEIR_TAKE, 0, 1, 0, 0, 2, {FAR_KEY, 4}, false},
    {"usual take of three", prepare_several, WEIR_TAKE, FAR_KEY, 1, 0, 0, 2, {0, 4}, true},
    {"take of two that is refused", prepare_several, WEIR_TAKE, 4, 8, 0, 0, 1, {0}, false},
    {"take of three new buckets", prepare_nothing, WEIR_TAKE, 0, 1, 0, 0, 2, {4, FAR_KEY}, false},
    {"take of two, new in used slots", prepare_drained, WEIR_TAKE, 0, 1, 0, 0, 1, {3}, false},
};

static void decide_together(const struct scenario *scenario)
{
    struct weir_request requests[MORE_MAX + 1];
    struct weir_decision decisions[MORE_MAX + 1];
    struct found found[MORE_MAX + 1];
    uint64_t hashes[MORE_MAX + 1];
    size_t count = (size_t)scenario->more_count + 1;
    for (size_t i = 0; i < count; i++) {
        hashes[i] = hash_of(i == 0 ? scenario->key : scenario->more[i - 1]);
        requests[i] = (struct weir_request){.rule = &rule,
                                            .cost_micro = scenario->cost * WEIR_UNIT,
                                            .operation = scenario->operation};
        (void)table_find(table, hashes[i], table_home_of(table, hashes[i]), &found[i]);
    }
    if (!scenario->is_usual) {
        table_decide_together(table, requests, hashes, decisions, count, T0);
    } else if (!table_take_together(table, requests, hashes, found, decisions, count, T0)) {
        give_up("%s: it is not usual", scenario->name);
    }
}

/* ---- led step by step ---- */

/* A child that stands before the operation. */
static pid_t start_child(const struct scenario *scenario)
{
    *is_done = false;
    pid_t child = fork();
    if (child < 0) {
        give_up("no process");
    }
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(77);
        }
        (void)raise(SIGSTOP);
        if (scenario->more_count > 0) {
            decide_together(scenario);
        } else {
            (void)decide(scenario->operation, scenario->key, scenario->cost, T0, NULL);
        }
        *is_done = true;
        (void)raise(SIGSTOP);
        _exit(0);
    }
    int status;
    (void)waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("skipped: ptrace is forbidden here\n");
        exit(77);
    }
    return child;
}

static void step(pid_t child)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) {
        give_up("no step");
    }
    (void)waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
        give_up("the child ended by itself");
    }
}

static void end_child(pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

/* ---- what must be true ---- */

/*   ends_ns  of its block; 0: none */
struct view {
    uint64_t empty_at_ns[KEYS];
    uint64_t ends_ns[KEYS];
};

static struct view look_at_all(void)
{
    struct view view;
    for (int key = 0; key < KEYS; key++) {
        struct weir_detail detail;
        struct weir_decision decision = decide(WEIR_SHOW, key, 0, T0, &detail);
        bool is_blocked = decision.verdict == WEIR_BLOCKED;
        view.empty_at_ns[key] = detail.empty_at_ns;
        view.ends_ns[key] = is_blocked ? T0 + (uint64_t)decision.retry_after_ns : 0;
    }
    return view;
}

static void check_views(const struct scenario *scenario, int at, const struct view *before,
                        const struct view *after, const struct view *seen)
{
    for (int key = 0; key < KEYS; key++) {
        uint64_t is = seen->empty_at_ns[key];
        if (is != before->empty_at_ns[key] && is != after->empty_at_ns[key]) {
            give_up("%s, killed after step %d: key %d is empty at %" PRIu64 ", and not at %" PRIu64
                    " or %" PRIu64,
                    scenario->name, at, key, is, before->empty_at_ns[key], after->empty_at_ns[key]);
        }
        uint64_t ends = seen->ends_ns[key];
        if (ends != before->ends_ns[key] && ends != after->ends_ns[key]) {
            give_up("%s, killed after step %d: key %d is blocked until %" PRIu64
                    ", and not %" PRIu64 " or %" PRIu64,
                    scenario->name, at, key, ends, before->ends_ns[key], after->ends_ns[key]);
        }
    }
}

/* Somebody else, after a death: sees it all, charges, and makes a bucket under the same lock. */
static void go_on(const struct scenario *scenario, int at, const struct view *before,
                  const struct view *after)
{
    (void)alarm(BLOCKED_S); // who waits for the dead would do so for ever
    struct view seen = look_at_all();
    check_views(scenario, at, before, after, &seen);
    must_take(NEW_KEY, 1, T0);
    struct view again = look_at_all();
    check_views(scenario, at, &seen, after, &again); // an heir may have found one again
    for (int key = 0; key < KEYS; key++) {
        (void)decide(WEIR_TAKE, key, 1, T0, NULL);
    }
    world_lock_all(table);
    (void)alarm(0);
    world_check(table);
    for (int key = 0; key < KEYS; key++) { // one each, on top of what there was
        uint64_t from = again.empty_at_ns[key] > T0 ? again.empty_at_ns[key] : T0;
        struct weir_detail detail;
        (void)decide(WEIR_SHOW, key, 0, T0, &detail);
        uint64_t to =
            detail.empty_at_ns > T0 ? detail.empty_at_ns : T0; // blocked, perhaps, and empty
        if (to != from + S && to != from) {
            give_up("%s, killed after step %d: a take of key %d led from %" PRIu64 " to %" PRIu64,
                    scenario->name, at, key, from, to);
        }
    }
}

/* ---- the runs ---- */

static char *image; // of the file, as each run begins
static uint64_t image_epoch;

static void keep_image(void)
{
    memcpy(image, table->mapping.at, table->mapping.bytes);
    image_epoch = table->epoch;
}

static void put_back_image(void)
{
    memcpy(table->mapping.at, image, table->mapping.bytes);
    table->epoch = image_epoch;
}

/* Runs to the end once: which steps change the file, how many there are, and what comes out. */
static int explore(const struct scenario *scenario, bool *changes, struct view *after)
{
    char *last = malloc(table->mapping.bytes);
    pid_t child = start_child(scenario);
    int count = 0;
    if (last == NULL) {
        give_up("no memory");
    }
    memcpy(last, table->mapping.at, table->mapping.bytes);
    while (!*is_done && count < STEPS_MAX) {
        step(child);
        changes[count] = memcmp(last, table->mapping.at, table->mapping.bytes) != 0;
        if (changes[count]) {
            memcpy(last, table->mapping.at, table->mapping.bytes);
        }
        count++;
    }
    end_child(child);
    free(last);
    *after = look_at_all();
    if (after->empty_at_ns[scenario->found] <= T0) {
        give_up("%s: key %d has no bucket", scenario->name, scenario->found);
    }
    return count;
}

static void run(const struct scenario *scenario, bool is_soak)
{
    static bool changes[STEPS_MAX];
    int change_count = 0;
    int kill_count = 0;
    struct view after;
    memset(table->lines, 0, table->stripe_count * table->stripe_lines * sizeof *table->lines);
    memset(table->stripes, 0, table->stripe_count * sizeof *table->stripes);
    table->epoch = 0;
    table_open_locks(table);
    rule.limit.block_ns = 0;
    scenario->prepare();
    rule.limit.block_ns = scenario->block_s * S;
    keep_image();
    struct view before = look_at_all();
    put_back_image(); // to look at a block that is over is to forget it
    int step_count = explore(scenario, changes, &after);
    int stride = step_count > LONG_STEPS ? LONG_STRIDE : 1;
    stride = is_soak ? stride : step_count / EVEN_KILLS + 1;
    for (int at = 0; at < step_count; at++) {
        change_count += changes[at];
        if (!changes[at] && !(at > 0 && changes[at - 1]) && at % stride != 0) {
            continue;
        }
        put_back_image();
        pid_t child = start_child(scenario);
        for (int i = 0; i <= at; i++) {
            step(child);
        }
        end_child(child);
        go_on(scenario, at, &before, &after);
        kill_count++;
    }
    printf("%-36s %4d steps, %2d change the file: killed after %d\n", scenario->name, step_count,
           change_count, kill_count);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
#if !defined(__x86_64__)
    printf("skipped: single steps break load-exclusive pairs\n");
    return 77;
#endif
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    table = world_open(WEIR_MEMORY_BYTES_MIN);
    rule = world_rule("1/s capacity=10");
    is_done = world_share(sizeof *is_done);
    image = malloc(table->mapping.bytes);
    if (image == NULL) {
        give_up("no memory");
    }
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof SCENARIOS[0]; i++) {
        run(&SCENARIOS[i], is_soak);
    }
    free(image);
    table->store.ops->close(&table->store);
    return 0;
}
