/* SPDX-License-Identifier: MIT
 *
 * Walks through every interleaving of a few operations in the real table (src/store/table/).
 *
 *     explore [FAMILY] [EVERY]     EVERY 0: all scripts of it; 1: its ordinary share; n: an n-th of that
 *
 * Grain: one access to shared memory (the functions of sync/atomic.h and sync/mutex.h) is one step;
 * between steps any thread may run. Sequential consistency: reorderings that the orders of those
 * accesses allow are not explored.
 *
 * Reduction, all of it:
 *   - Equal states are visited once. A state is the shared memory, and for each thread its place: which
 *     operation, and all that it saw since that began (what it does next is a function of these),
 *     and the set of guesses about the past (explore_model.c). States are compared by a digest of
 *     128 bits.
 *   - Steps that commute with all steps of other threads are taken with the step before
 *     (explore_memory.c names them, and checks that they are what they are taken for).
 * Threads are run by replaying what they saw (explore_memory.c), so a state is copied and put back as
 * plain memory. */
#include "explore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/siphash.h"
#include "weir/clock.h"

const struct script *script;
struct world world;
struct table table;
int running;

/* The path to the present state. */
static struct world saved[DEPTH_MAX];
static int path[DEPTH_MAX];
static int depth;
static jmp_buf given_up;

static struct weir_decision answered[TOGETHER_MAX]; // by the latest operation that has
static int answered_count;

static uint64_t script_count, state_count, step_count;
static bool moves; // the script moves buckets to another table
static double schedule_count;

/* What the table needs beside its memory: keys are their own hashes, the clock is not read, and nobody
 * dies. */
uint64_t siphash13(const uint64_t key[2], const void *bytes, size_t length)
{
    uint64_t hash = 0;
    (void)key;
    memcpy(&hash, bytes, length);
    return hash;
}

void siphash13_many(const struct siphash_input *inputs, uint64_t *hashes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hashes[i] = siphash13(inputs[i].key, inputs[i].bytes, inputs[i].length);
    }
}

uint64_t weir_clock_now_ns(void)
{
    abort();
}

void store_clock_renew(const struct store_clock *clock, uint64_t now_ns)
{
    (void)clock, (void)now_ns;
    abort();
}

int64_t table_utc_offset_ns(struct table *dated, uint64_t now_ns)
{
    (void)dated, (void)now_ns;
    abort();
}

uint64_t table_seen_utc_offset_ns(const struct store *store)
{
    (void)store;
    abort();
}

void table_repair(struct table *torn, struct stripe *stripe)
{
    (void)torn, (void)stripe;
    abort();
}

void mapping_close(struct mapping *mapping)
{
    (void)mapping;
}

static void print_operation(const struct operation *operation)
{
    static const char *const NAMES[] = {"take",  "can_take", "fill",        "refund", "show",
                                        "reset", "block",    "unblock",     "join",   "serve",
                                        "leave", "move",     "move in vain"};
    printf(" %s(", NAMES[operation->kind]);
    for (int i = 0; i <= operation->more_count; i++) {
        printf("%s%c,%" PRIu64, i > 0 ? " + " : "", 'A' + key_of(operation, i),
               cost_of(operation, i));
    }
    printf(")@%" PRIu64, operation->now_ns);
}

static void print_script(void)
{
    printf("  %" PRIu64 " line(s) of %d slot(s), %" PRIu64 " stripe(s)\n  setup:",
           script->line_count, TABLE_LINE_SLOTS, script->stripe_count);
    for (int i = 0; i < script->setup_count; i++) {
        print_operation(&script->setup[i]);
    }
    for (int thread = 0; thread < script->thread_count; thread++) {
        printf("\n  thread %d:", thread);
        for (int i = 0; i < script->operation_count; i++) {
            print_operation(&script->operations[thread][i]);
        }
    }
    printf("\n  schedule: ");
    for (int i = 0; i < depth; i++) {
        printf("%d", path[i]);
    }
    printf("%d\n  answered last:", running);
    for (int i = 0; i < answered_count; i++) {
        printf(" %s, remaining %" PRIu64 ", retry %" PRId64 ", reset %" PRId64 ";",
               weir_verdict_word(answered[i].verdict), answered[i].remaining,
               answered[i].retry_after_ns, answered[i].reset_after_ns);
    }
    printf("\n");
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct table_line *line = &world.shared.lines[i / TABLE_LINE_SLOTS];
        struct weir_bucket state = line->states[i % TABLE_LINE_SLOTS];
        printf("  slot %d: tag %" PRIx64 ", empty at %" PRIu64 ", word %" PRIx64 "\n", i,
               line->tags[i % TABLE_LINE_SLOTS], state.empty_at_ns, state.word);
    }
    for (uint64_t i = 0; i < script->stripe_count; i++) {
        printf("  reused at %" PRIu64 "\n", world.shared.stripes[i].reused_at_ns);
    }
    for (int i = 0; i < world.guess_count; i++) {
        printf("  guess:");
        for (int key = 0; key < KEYS; key++) {
            const struct known *known = &world.guesses[i].keys[key];
            bool is_flagged = (known->bucket.word & BUCKET_BLOCKED) != 0;
            printf(" %c %" PRIu64 " %s %" PRIu64 ",", 'A' + key, known->bucket.empty_at_ns,
                   is_flagged ? "blocked until" : "not blocked", known->block_ns);
        }
        printf(" early %" PRIx64 "\n", world.guesses[i].is_early);
    }
}

_Noreturn void explore_violation(const char *what)
{
    printf("VIOLATION: %s\n", what);
    print_script();
    longjmp(given_up, 1);
}

static void decide(const struct operation *operation, struct weir_decision *decision,
                   struct weir_detail *detail)
{
    uint64_t hash = hash_of_key(operation->key);
    if (operation->kind >= MOVE_ALL) {
        move_do(operation, decision);
        return;
    }
    if (operation->kind >= LINE_JOIN) {
        lines_do(operation, decision);
        return;
    }
    struct weir_request request = {
        .rule = &model_rule,
        .key = &hash,
        .key_len = sizeof hash,
        .cost_micro = operation->cost * WEIR_UNIT,
        .operation = (enum weir_operation)operation->kind,
        .detail = detail,
        .block_ns = operation->cost,
    };
    table.store.ops->decide(&table.store, &request, decision, 1, operation->now_ns);
}

/* Under several limits. Batches, and what they send for, are left out where no run is a usual one. */
static void decide_together(const struct operation *operation, struct weir_decision *decisions)
{
    struct weir_request requests[TOGETHER_MAX];
    uint64_t hashes[TOGETHER_MAX];
    size_t count = (size_t)operation->more_count + 1;
    for (int i = 0; i <= operation->more_count; i++) {
        requests[i] = (struct weir_request){.rule = &model_rule,
                                            .cost_micro = cost_of(operation, i) * WEIR_UNIT,
                                            .operation = (enum weir_operation)operation->kind};
        hashes[i] = hash_of_key(key_of(operation, i));
        requests[i].key = &hashes[i];
        requests[i].key_len = sizeof hashes[i];
        requests[i].and_next = i < operation->more_count;
    }
    if (script->is_whole) {
        table.store.ops->decide(&table.store, requests, decisions, count, operation->now_ns);
        return;
    }
    table_decide_together(&table, requests, hashes, decisions, count, operation->now_ns);
}

/* Decides, and says what was answered. */
static uint64_t run_operation(const struct operation *operation)
{
    struct weir_decision decisions[TOGETHER_MAX] = {0};
    struct weir_detail detail = {0};
    uint64_t answer;
    if (operation->more_count > 0) {
        decide_together(operation, decisions);
        answer = digest_together(operation, decisions);
    } else {
        decide(operation, decisions, &detail);
        answer = digest_answer(operation, decisions, &detail);
    }
    for (int i = 0; i <= operation->more_count; i++) {
        world.shared.failed_count += decisions[i].verdict == WEIR_FAILED;
    }
    memcpy(answered, decisions, sizeof answered);
    answered_count = operation->more_count + 1;
    return answer;
}

static void end_operation(int thread, uint64_t answer)
{
    struct fiber *fiber = &world.fibers[thread];
    model_respond(thread, answer);
    fiber->done_count++;
    fiber->seen_count = 0;
    fiber->seen_digest = 0;
    if (holds_stripe(thread) || world.shared.later.moving_mutex.holder == (uint64_t)thread + 1
        || world.shared.lines_mutex.holder == (uint64_t)thread + 1) {
        explore_violation("an operation that ended with the lock in its hand");
    }
}

/* Nobody holds the lock of a stripe. */
static bool is_quiet(void)
{
    bool quiet = true;
    for (int thread = 0; thread < THREADS_MAX; thread++) {
        quiet = quiet && !holds_stripe(thread);
    }
    return quiet;
}

/* Runs a thread until its next step is made. False if it cannot run: done, or waiting for the lock. */
static bool step(int thread)
{
    running = thread;
    if (world.fibers[thread].done_count == script->operation_count) {
        return false;
    }
    memory_start();
    if (setjmp(memory_stop) == 0) {
        end_operation(thread,
                      run_operation(&script->operations[thread][world.fibers[thread].done_count]));
    }
    if (is_quiet()) {
        memory_check_quiet();
    }
    if (world.shared.lines_mutex.holder == 0 && is_quiet()) {
        lines_check_quiet();
    }
    return memory_has_stepped();
}

/* How much of the shared memory counts. */
static size_t shared_size(void)
{
    return moves ? sizeof world.shared : offsetof(struct shared, later);
}

static void copy_world(struct world *to, const struct world *from)
{
    memcpy(&to->shared, &from->shared, shared_size());
    for (int i = 0; i < THREADS_MAX; i++) {
        const struct fiber *fiber = &from->fibers[i];
        memcpy(&to->fibers[i], fiber, offsetof(struct fiber, seen));
        memcpy(to->fibers[i].seen, fiber->seen, (size_t)fiber->seen_count * sizeof fiber->seen[0]);
    }
    to->guesses_digest = from->guesses_digest;
    to->guess_count = from->guess_count;
    memcpy(to->guesses, from->guesses, (size_t)from->guess_count * sizeof from->guesses[0]);
}

static void digest_word(struct digest *digest, const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    digest->low = digest_mix(digest->low, word);
    digest->high = (digest->high ^ word) * UINT64_C(0xd6e8feb86659fd93);
    digest->high ^= digest->high >> 32;
}

/* In lanes, since each multiplication waits for the one before it: the processor does those of all lanes at once. */
struct digest digest_words(struct digest digest, const void *at, size_t size)
{
    enum { LANES = 4, WORD = sizeof(uint64_t) };
    struct digest lanes[LANES] = {digest, {1, 2}, {3, 4}, {5, 6}};
    const char *from = at;
    const char *end = from + size;
    for (; from + LANES * WORD <= end; from += LANES * WORD) {
        for (int lane = 0; lane < LANES; lane++) {
            digest_word(&lanes[lane], from + lane * WORD);
        }
    }
    for (int lane = 1; lane < LANES && size >= LANES * WORD; lane++) {
        lanes[0].low = digest_mix(lanes[0].low, lanes[lane].low);
        lanes[0].high = digest_mix(lanes[0].high, lanes[lane].high);
    }
    for (; from < end; from += WORD) {
        digest_word(&lanes[0], from);
    }
    return lanes[0];
}

static struct digest digest_world(void)
{
    struct digest digest = {0, 1};
    digest = digest_words(digest, &world.shared, shared_size());
    for (int i = 0; i < script->thread_count; i++) {
        digest = digest_words(digest, &world.fibers[i], offsetof(struct fiber, seen));
    }
    return digest_words(digest, &world.guesses_digest, sizeof world.guesses_digest);
}

/* The states of this script that were visited, and how many schedules lead from each to the end. Open addressing;
 * begins small for each script, so that what most of them need stays in the processor's cache. */
struct visited {
    struct digest digest;
    double schedules;
};

enum { VISITED_ROOM = 1 << 12 }; // at first

static struct visited *visited;
static size_t visited_room, visited_count;

static struct visited *find_visited(struct digest digest)
{
    size_t i = digest.low & (visited_room - 1);
    while ((visited[i].digest.low | visited[i].digest.high) != 0
           && (visited[i].digest.low != digest.low || visited[i].digest.high != digest.high)) {
        i = (i + 1) & (visited_room - 1);
    }
    return &visited[i];
}

static void make_visited(size_t room)
{
    visited_room = room;
    visited_count = 0;
    visited = calloc(room, sizeof *visited);
    if (visited == NULL) {
        fprintf(stderr, "explore: no memory\n");
        exit(1);
    }
}

static void grow_visited(void)
{
    struct visited *old = visited;
    size_t old_room = visited_room;
    size_t count = visited_count;
    make_visited(2 * old_room);
    for (size_t i = 0; i < old_room; i++) {
        if ((old[i].digest.low | old[i].digest.high) != 0) {
            *find_visited(old[i].digest) = old[i];
        }
    }
    visited_count = count;
    free(old);
}

/* Before a script. */
static void forget_visited(void)
{
    free(visited);
    make_visited(VISITED_ROOM);
}

static void check_end(void)
{
    if (!is_quiet() || world.shared.lines_mutex.holder != 0 || !move_has_free_locks()) {
        explore_violation("the lock is held at the end");
    }
    uint64_t full_count = world.shared.stripes[0].full_count + world.shared.stripes[1].full_count
                          + world.shared.later.stripe.full_count;
    uint64_t without_room = full_count - world.shared.failed_count; // refusals that block nobody
    if (without_room != 0 && model_rule.limit.block_ns == 0) {
        explore_violation("answers by on_full, and their count, differ");
    }
    model_finish();
}

/* All schedules that lead on from the present state; their number. */
static double explore(void)
{
    struct digest digest = digest_world();
    struct visited *known = find_visited(digest);
    if ((known->digest.low | known->digest.high) != 0) {
        return known->schedules;
    }
    known->digest = digest;
    state_count++;
    if (++visited_count > visited_room / 2) {
        grow_visited();
    }
    if (depth == DEPTH_MAX) {
        explore_violation("a schedule that does not end");
    }
    copy_world(&saved[depth], &world);
    double schedules = 0;
    bool is_stuck = true;
    bool is_done = true;
    for (int thread = 0; thread < script->thread_count; thread++) {
        if (!is_stuck) {
            copy_world(&world, &saved[depth]);
        }
        is_done = is_done && world.fibers[thread].done_count == script->operation_count;
        if (step(thread)) {
            is_stuck = false;
            step_count++;
            path[depth++] = thread;
            schedules += explore();
            depth--;
        }
    }
    if (is_done) {
        check_end();
        schedules = 1;
    } else if (is_stuck) {
        explore_violation("nobody can go on");
    }
    find_visited(digest)->schedules = schedules;
    return schedules;
}

/* One script, all of it. False if something is wrong. */
static bool run(const struct script *next)
{
    static struct script setup;
    memset(&world, 0, sizeof world);
    table_init(&table, world.shared.lines, world.shared.stripes, next->stripe_count,
               next->line_count / next->stripe_count);
    script = next;
    table.store.keeper = &lines_keeper;
    table_init(&later_table, world.shared.later.lines, &world.shared.later.stripe, 1,
               next->line_count);
    later_table.root = &table;
    moves = move_is_in(next);
    model_start();
    depth = 0;
    script_count++;
    if (setjmp(given_up) != 0) {
        return false;
    }
    for (int i = 0; i < next->setup_count; i++) { // as a script of one operation
        setup = *next;
        setup.thread_count = setup.operation_count = 1;
        setup.setup_count = i;
        setup.operations[0][0] = next->setup[i];
        script = &setup;
        memo_forget();
        while (step(0)) {
        }
        memset(world.fibers, 0, sizeof world.fibers);
    }
    script = next;
    forget_visited();
    memo_forget();
    schedule_count += explore();
    return true;
}

void explore_report(const char *name)
{
    printf("lines of %d slot(s), %s: %" PRIu64 " scripts, %" PRIu64 " states, %" PRIu64
           " steps, %.3g schedules\n",
           TABLE_LINE_SLOTS, name, script_count, state_count, step_count, schedule_count);
    (void)fflush(stdout);
    script_count = state_count = step_count = 0;
    schedule_count = 0;
}

int main(int argc, char **argv)
{
    const char *family = argc > 1 ? argv[1] : "all";
    unsigned long every = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    return scripts_run(run, family, every) == 0 ? 0 : 1;
}
