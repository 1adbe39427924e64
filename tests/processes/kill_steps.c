/* SPDX-License-Identifier: MIT
 *
 * Kills a process after each single instruction of an operation, and looks from another one: every
 * bucket must be as it was before or after, a new bucket must find its place, every chunk of a log must be in
 * one or come back, and nobody may wait.
 *
 *     kill_steps [soak]
 *
 * The child stops itself, is led through the operation step by step (ptrace), and killed. Which steps
 * change the file, and where each one leads, is found out in a run that is not killed; later children run to a
 * breakpoint there, which is what makes this quick. An ordinary test kills after each of the steps that change
 * something and the one that follows it, and after some of the others, evenly spread; a soak after all, but in
 * the long search of an heir after one in LONG_STRIDE. Each time the file is put back first. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/bucket_math.h"
#include "steps.h"
#include "store/table/file_header.h"
#include "store/table/inside.h"
#include "store/table/window_log.h"
#include "world.h"

enum {
    LONG_STEPS = 2000,
    LONG_STRIDE = 7, // the search has a period of its own
    EVEN_KILLS = 25, // in an ordinary test, beside those where the file changes
    KEYS = 6,
    NEW_KEY = KEYS, // of nobody, until it is inserted after a death
    FAR_KEY = 5,
    MORE_MAX = 2,
    FEW_CHUNKS = 5, // of the pool, where it is to be full
    BLOCKED_S = 60
};

#define BUCKET "1/s capacity=10"
#define WINDOW "window 900/s" // as many fit as make several chunks

#define T0                                                                                         \
    UINT64_C(1000000000000000) // the operations' time; buckets of 1/s are drained long before
#define S UINT64_C(1000000000)

static struct table *table;
static struct weir_rule rule;
static struct path path;

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
    struct table_line *line = &table->lines[table_home_of(table, hash_of(1))];
    for (int i = 0; i < TABLE_LINE_SLOTS;
         i++) { // both, one of them for a key that is not asked for
        line->states[i].word =
            (line->states[i].word & ~BUCKET_OWNER_MASK) | table_owner_of(hash_of(i == 0 ? 0 : 5));
    }
    table->stripes[0].used_count++;
    pid_t child = fork();
    if (child == 0) {
        world_join(table);
        (void)lock_acquire(&table->stripes[0].lock, &table->members);
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
    ((struct file_header *)table->mapping.at)->epoch = ++table->epoch;
}

/* ---- of windows ---- */

static void must_take_singly(int key, int count, uint64_t now_ns)
{
    for (int i = 0; i < count; i++) {
        must_take(key, 1, now_ns);
    }
}

/* The newest chunk of the log is full. */
static void prepare_full_chunk(void)
{
    must_take_singly(0, CHUNK_EVENT_BYTES, T0);
}

static void prepare_two_full_chunks(void)
{
    must_take_singly(0, CHUNK_EVENT_BYTES, T0);
    must_take_singly(FAR_KEY, CHUNK_EVENT_BYTES, T0);
}

/* What is in the first chunk has left, and some of what is in the second. */
static void prepare_left_chunk(void)
{
    must_take_singly(0, CHUNK_EVENT_BYTES + 5, T0 - 3 * S / 2);
    must_take(0, 3, T0 - 3 * S / 4); // before that
}

static void prepare_two_left_chunks(void)
{
    prepare_left_chunk();
    must_take_singly(4, CHUNK_EVENT_BYTES + 5, T0 - 3 * S / 2);
    must_take(4, 3, T0 - S / 2);
}

/* The log has three chunks. */
static void prepare_long_log(void)
{
    must_take_singly(0, 2 * CHUNK_EVENT_BYTES + 9, T0);
}

/* Nothing counts that is in the log, but under a longer period it would: it has to begin anew. */
static void prepare_shorter_period(void)
{
    struct weir_rule its_rule = rule;
    rule = world_rule("window 900/s");
    must_take_singly(0, CHUNK_EVENT_BYTES + 5, T0 - 3 * S / 2);
    rule = its_rule;
}

/* The pool has no more chunks: orphans of somebody who has died have what is not in a log. */
static void use_up_pool(void)
{
    table->events.chunk_count = FEW_CHUNKS;
    while (event_pool_take(&table->events, hash_of(NEW_KEY + 1)) != 0) {
    }
}

static void prepare_full_pool(void)
{
    prepare_full_chunk();
    use_up_pool();
}

static void prepare_two_and_full_pool(void)
{
    prepare_two_full_chunks();
    use_up_pool();
}

/* Where two want a chunk, there is one. */
static void prepare_pool_of_one(void)
{
    prepare_two_full_chunks();
    table->events.chunk_count = 3;
}

/* The pool is in logs: of key 4, which has drained, and of key 5, which has not. */
static void prepare_drained_pool(void)
{
    table->events.chunk_count = 3;
    must_take_singly(4, CHUNK_EVENT_BYTES + 1, T0 - 3 * S / 2);
    must_take(5, 1, T0);
}

/* The log has all of the pool, and its own oldest chunk has left. */
static void prepare_own_pool(void)
{
    table->events.chunk_count = 2;
    must_take_singly(0, CHUNK_EVENT_BYTES, T0 - 3 * S / 2);
    must_take_singly(0, CHUNK_EVENT_BYTES, T0 - S / 2);
}

/* Somebody died with the pool's lock, and had written half of what he meant to. */
static void prepare_death_in_pool(void)
{
    prepare_full_chunk();
    uint32_t ids[3];
    for (int i = 0; i < 3; i++) {
        ids[i] = event_pool_take(&table->events, hash_of(NEW_KEY + 1));
    }
    for (int i = 0; i < 3; i++) {
        event_pool_give(&table->events, ids[i]);
    }
    pid_t child = fork();
    if (child == 0) {
        world_join(table);
        (void)lock_acquire(&table->events.header->lock, &table->members);
        table->events.header->free_first = ids[0]; // the last of the list
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
}

/*   limit  NULL: BUCKET
 *   found  a key that has a bucket afterwards */
static const struct scenario {
    const char *name;
    void (*prepare)(void);
    enum weir_operation operation;
    int key;
    uint64_t cost;
    int found;
    uint64_t block_s; // block= of the limit
    int more_count;   // keys that are asked together with it
    int more[MORE_MAX];
    bool is_usual;
    const char *limit;
} SCENARIOS[] = {
    {"take of a bucket", prepare_bucket, WEIR_TAKE, 0, 1, .found = 0},
    {"take that is refused", prepare_bucket, WEIR_TAKE, 0, 8, .found = 0},
    {"fill of a bucket", prepare_bucket, WEIR_FILL, 0, 20, .found = 0},
    {"refund of a bucket", prepare_bucket, WEIR_REFUND, 0, 2, .found = 0},
    {"reset of a bucket", prepare_full_home, WEIR_RESET, 1, 0, .found = 2},
    {"new bucket at home", prepare_nothing, WEIR_TAKE, 0, 1, .found = 0},
    {"new bucket elsewhere", prepare_full_home, WEIR_TAKE, 0, 1, .found = 1},
    {"new bucket in a used slot", prepare_drained, WEIR_TAKE, 0, 1, .found = 0},
    {"new bucket past what went back", prepare_given_back, WEIR_TAKE, 0, 1, .found = 0},
    {"new bucket by the heir of a death", prepare_death, WEIR_TAKE, 0, 1, .found = 0},
    {"new bucket, the first after a crash", prepare_crash, WEIR_TAKE, 4, 1, .found = 3},
    {"block of a bucket", prepare_bucket, WEIR_BLOCK, 0, 5, .found = 0},
    {"block of a key without a bucket", prepare_full_home, WEIR_BLOCK, 0, 5, .found = 1},
    {"block that is prolonged", prepare_block, WEIR_BLOCK, 0, 50, .found = 0},
    {"block that is taken away", prepare_block, WEIR_UNBLOCK, 0, 0, .found = 0},
    {"take that meets a block", prepare_block, WEIR_TAKE, 0, 1, .found = 0},
    {"take that meets an old block", prepare_old_block, WEIR_TAKE, 0, 1, .found = 0},
    {"take that is refused, and blocks", prepare_bucket, WEIR_TAKE, 0, 8, .block_s = 7},
    {"fill that fills up, and blocks", prepare_bucket, WEIR_FILL, 0, 20, .block_s = 7},
    {"take of three, two stripes", prepare_several, WEIR_TAKE, 0, 1, .more_count = 2,
     .more = {FAR_KEY, 4}},
    {"usual take of three", prepare_several, WEIR_TAKE, FAR_KEY, 1, .more_count = 2, .more = {0, 4},
     .is_usual = true},
    {"take of two that is refused", prepare_several, WEIR_TAKE, 4, 8, .more_count = 1, .more = {0}},
    {"take of three new buckets", prepare_nothing, WEIR_TAKE, 0, 1, .more_count = 2,
     .more = {4, FAR_KEY}},
    {"take of two, new in used slots", prepare_drained, WEIR_TAKE, 0, 1, .more_count = 1,
     .more = {3}},
    {"take of a window", prepare_bucket, WEIR_TAKE, 0, 1, .limit = WINDOW},
    {"take of a window that is refused", prepare_bucket, WEIR_TAKE, 0, 898, .limit = WINDOW},
    {"take of a window, in a new chunk", prepare_full_chunk, WEIR_TAKE, 0, 1, .limit = WINDOW},
    {"take of a window, of which one has left", prepare_left_chunk, WEIR_TAKE, 0, 1,
     .limit = WINDOW},
    {"take of a window that begins anew", prepare_shorter_period, WEIR_TAKE, 0, 1,
     .limit = "window 900/2s"},
    {"take of a window, its own chunk again", prepare_own_pool, WEIR_TAKE, 0, 1, .limit = WINDOW},
    {"take of a window that sweeps orphans", prepare_full_pool, WEIR_TAKE, 0, 1, .limit = WINDOW},
    {"new window that sweeps a drained one", prepare_drained_pool, WEIR_TAKE, 0, 1,
     .limit = WINDOW},
    {"take of a window by the pool's heir", prepare_death_in_pool, WEIR_TAKE, 0, 1,
     .limit = WINDOW},
    {"fill of a window", prepare_bucket, WEIR_FILL, 0, 2000, .limit = WINDOW},
    {"fill of a window that blocks", prepare_bucket, WEIR_FILL, 0, 2000, .block_s = 7,
     .limit = WINDOW},
    {"reset of a window", prepare_long_log, WEIR_RESET, 0, 0, .found = -1, .limit = WINDOW},
    {"new window", prepare_nothing, WEIR_TAKE, 0, 1, .limit = WINDOW},
    {"new window in the slot of another", prepare_drained, WEIR_TAKE, 0, 1, .limit = WINDOW},
    {"new window by the heir of a death", prepare_death, WEIR_TAKE, 0, 1, .limit = WINDOW},
    {"take of three windows, two stripes", prepare_several, WEIR_TAKE, 0, 1, .more_count = 2,
     .more = {FAR_KEY, 4}, .limit = WINDOW},
    {"take of two windows, one of them new", prepare_bucket, WEIR_TAKE, 4, 1, .more_count = 1,
     .more = {0}, .limit = WINDOW},
    {"take of two windows that is refused", prepare_several, WEIR_TAKE, 0, 898, .more_count = 1,
     .more = {4}, .limit = WINDOW},
    {"take of three windows, two new chunks", prepare_two_full_chunks, WEIR_TAKE, 0, 1,
     .more_count = 2, .more = {4, FAR_KEY}, .limit = WINDOW},
    {"take of two windows, two have left", prepare_two_left_chunks, WEIR_TAKE, 0, 1,
     .more_count = 1, .more = {4}, .limit = WINDOW},
    {"take of two windows that begin anew", prepare_shorter_period, WEIR_TAKE, 0, 1,
     .more_count = 1, .more = {4}, .limit = "window 900/2s"},
    {"take of two windows, orphans swept", prepare_two_and_full_pool, WEIR_TAKE, 0, 1,
     .more_count = 1, .more = {FAR_KEY}, .limit = WINDOW},
    {"take of two windows, and one chunk", prepare_pool_of_one, WEIR_TAKE, 0, 1, .more_count = 1,
     .more = {FAR_KEY}, .limit = WINDOW},
    {"take of two windows, refused, blocks", prepare_several, WEIR_TAKE, 0, 898, .block_s = 7,
     .more_count = 1, .more = {FAR_KEY}, .limit = WINDOW},
    {"take of two, windows in used slots", prepare_drained, WEIR_TAKE, 0, 1, .more_count = 1,
     .more = {3}, .limit = WINDOW},
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

static void do_scenario(const void *context)
{
    const struct scenario *scenario = context;
    if (scenario->more_count > 0) {
        decide_together(scenario);
    } else {
        (void)decide(scenario->operation, scenario->key, scenario->cost, T0, NULL);
    }
}

/* ---- what must be true ---- */

/*   room     of the bucket, in whole units
 *   ends_ns  of its block; 0: none */
struct view {
    uint64_t empty_at_ns[KEYS];
    uint64_t room[KEYS];
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
        view.room[key] = decision.remaining;
        view.ends_ns[key] = is_blocked ? T0 + (uint64_t)decision.retry_after_ns : 0;
    }
    return view;
}

static void check_views(const struct scenario *scenario, int at, const struct view *before,
                        const struct view *after, const struct view *seen)
{
    for (int key = 0; key < KEYS; key++) {
        uint64_t is = seen->empty_at_ns[key];
        uint64_t room = seen->room[key];
        if ((is != before->empty_at_ns[key] || room != before->room[key])
            && (is != after->empty_at_ns[key] || room != after->room[key])) {
            give_up("%s, killed after step %d: key %d has room for %" PRIu64
                    " and is empty at %" PRIu64 ", and not %" PRIu64 " at %" PRIu64 " or %" PRIu64
                    " at %" PRIu64,
                    scenario->name, at, key, room, is, before->room[key], before->empty_at_ns[key],
                    after->room[key], after->empty_at_ns[key]);
        }
        uint64_t ends = seen->ends_ns[key];
        if (ends != before->ends_ns[key] && ends != after->ends_ns[key]) {
            give_up("%s, killed after step %d: key %d is blocked until %" PRIu64
                    ", and not %" PRIu64 " or %" PRIu64,
                    scenario->name, at, key, ends, before->ends_ns[key], after->ends_ns[key]);
        }
    }
}

/* How many chunks the log of a key has. */
static uint64_t chunks_of(const struct scenario *scenario, int at, int key)
{
    struct found found;
    struct window_log log;
    struct window_view view;
    struct window_event event;
    uint64_t hash = hash_of(key);
    if (!table_find(table, hash, table_home_of(table, hash), &found)
        || (found.seen.word & BUCKET_LOG) == 0) {
        return 0;
    }
    if (!window_log_open(&log, &table->events, hash, found.seen)
        || !window_log_look(&log, &rule.limit, T0, &view)) {
        give_up("%s, killed after step %d: the log of key %d is damaged", scenario->name, at, key);
    }
    struct window_cursor cursor = window_log_start(&log);
    const struct chunk *last = cursor.chunk;
    uint64_t count = 1;
    while (window_log_next(&log, &cursor, &event)) {
        count += cursor.chunk != last;
        last = cursor.chunk;
    }
    return count;
}

/* Every chunk is in somebody's log or free, once the sweep has come around. */
static void check_chunks(const struct scenario *scenario, int at)
{
    uint64_t in_logs = 0;
    uint64_t turn = table->events.header->sweep_turn;
    while (table->events.header->sweep_turn
           < turn + 3) { // what was taken lately is looked at later
        (void)table_sweep_events(table, T0);
    }
    for (int key = 0; key <= NEW_KEY; key++) {
        in_logs += chunks_of(scenario, at, key);
    }
    if (event_pool_used_count(&table->events) != in_logs) {
        give_up("%s, killed after step %d: %" PRIu64 " chunks are in use, %" PRIu64
                " of them in logs",
                scenario->name, at, event_pool_used_count(&table->events), in_logs);
    }
}

/* One each was taken, on top of what there was; or blocked, perhaps, and empty. */
static void check_takes(const struct scenario *scenario, int at, const struct view *before)
{
    bool is_window = rule.limit.kind == WEIR_KIND_WINDOW;
    struct view seen = look_at_all();
    for (int key = 0; key < KEYS; key++) {
        uint64_t from = before->empty_at_ns[key] > T0 ? before->empty_at_ns[key] : T0;
        uint64_t to = seen.empty_at_ns[key] > T0 ? seen.empty_at_ns[key] : T0;
        uint64_t then = is_window ? T0 + rule.limit.full_ns : from + S;
        uint64_t taken = before->room[key] - seen.room[key];
        bool is_taken = to == then && (!is_window || taken == 1);
        if (!is_taken && (to != from || taken != 0)) {
            give_up("%s, killed after step %d: a take of key %d led from %" PRIu64 " to %" PRIu64,
                    scenario->name, at, key, from, to);
        }
    }
}

/* Not a window, which would need a chunk. */
static void make_new_bucket(void)
{
    struct weir_rule its_rule = rule;
    rule = world_rule(BUCKET);
    must_take(NEW_KEY, 1, T0);
    rule = its_rule;
}

/* Somebody else, after a death: sees it all, charges, and makes a bucket under the same lock. */
static void go_on(const struct scenario *scenario, int at, const struct view *before,
                  const struct view *after)
{
    (void)alarm(BLOCKED_S); // who waits for the dead would do so for ever
    struct view seen = look_at_all();
    check_views(scenario, at, before, after, &seen);
    make_new_bucket();
    struct view again = look_at_all();
    check_views(scenario, at, &seen, after, &again); // an heir may have found one again
    for (int key = 0; key < KEYS; key++) {
        (void)decide(WEIR_TAKE, key, 1, T0, NULL);
    }
    world_lock_all(table);
    (void)alarm(0);
    world_check(table);
    check_takes(scenario, at, &again);
    if (rule.limit.kind == WEIR_KIND_WINDOW) {
        check_chunks(scenario, at);
    }
}

/* ---- the runs ---- */

static char *image; // of the file, as each run begins
static uint64_t image_epoch;
static uint64_t chunk_count; // of all of the pool

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

static void join(void)
{
    world_join(table);
}

/* Runs to the end once: which steps change the file, how many there are, and what comes out. */
static void explore(const struct scenario *scenario, bool *changes, struct view *after)
{
    char *last = malloc(table->mapping.bytes);
    pid_t child = steps_start(&path, join, do_scenario, scenario);
    if (last == NULL) {
        give_up("no memory");
    }
    memcpy(last, table->mapping.at, table->mapping.bytes);
    while (steps_next(&path, child)) {
        bool has_changed = memcmp(last, table->mapping.at, table->mapping.bytes) != 0;
        if (has_changed) {
            memcpy(last, table->mapping.at, table->mapping.bytes);
        }
        changes[path.count - 1] = has_changed;
    }
    steps_end(child);
    free(last);
    *after = look_at_all();
    if (scenario->found >= 0 && after->empty_at_ns[scenario->found] <= T0) {
        give_up("%s: key %d has no bucket", scenario->name, scenario->found);
    }
}

/* A new file, but for its header. */
static void clear(void)
{
    memset(table->lines, 0, table->stripe_count * table->stripe_lines * sizeof *table->lines);
    memset(table->stripes, 0, table->stripe_count * sizeof *table->stripes);
    memset(table->events.header, 0, (chunk_count + 1) * CHUNK_BYTES);
    table->events.chunk_count = chunk_count;
    table->epoch = table->events.epoch = ((struct file_header *)table->mapping.at)->epoch = 0;
}

static void run(const struct scenario *scenario, bool is_soak)
{
    static bool changes[STEPS_MAX];
    int change_count = 0;
    int kill_count = 0;
    struct view after;
    clear();
    rule = world_rule(scenario->limit != NULL ? scenario->limit : BUCKET);
    scenario->prepare();
    rule.limit.block_ns = scenario->block_s * S;
    keep_image();
    struct view before = look_at_all();
    put_back_image(); // to look at a block that is over is to forget it
    explore(scenario, changes, &after);
    int stride = path.count > LONG_STEPS ? LONG_STRIDE : 1;
    stride = is_soak ? stride : path.count / EVEN_KILLS + 1;
    for (int at = 0; at < path.count; at++) {
        change_count += changes[at];
        if (!changes[at] && !(at > 0 && changes[at - 1]) && at % stride != 0) {
            continue;
        }
        put_back_image();
        pid_t child = steps_start(NULL, join, do_scenario, scenario);
        steps_run_to(&path, child, at);
        steps_end(child);
        go_on(scenario, at, &before, &after);
        kill_count++;
    }
    printf("%-40s %5d steps, %2d change the file: killed after %d\n", scenario->name, path.count,
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
    chunk_count = table->events.chunk_count;
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
