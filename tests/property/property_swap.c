/* SPDX-License-Identifier: MIT
 *
 * Random questions of every kind and operation, single and in runs, by swap over rows in memory, beside the table at the
 * same readings: no field of a decision or a detail differs. Meanwhile
 *
 *   readings go back        by less than the margin of a prune
 *   rivals come             between read and write, and ask something themselves: then the write must not be done if it
 *                           would undo theirs
 *   plain takes are asked   as the statement of PostgreSQL decides them, from the row of the bucket alone
 *   rows are pruned         as swap.h says
 *
 * seeds.h says how to repeat one walk, and how to walk for longer. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "core/kinds.h"
#include "seeds.h"
#include "store/swap.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum { WALKS = 4000, STEPS = 80, LIMITS = 5, ROWS_MAX = 2 * LIMITS };

/* So large that no two buckets or blocks meet in a line: a slot that is reused shows older readings a fuller bucket. */
#define TABLE_BYTES (16 * WEIR_MEMORY_BYTES_MIN)

/* How far readings go back, and how old a prune lets rows become. */
#define BACK_NS   (2 * S)
#define MARGIN_NS (60 * S)

static const char *const TEXTS[] = {
    "10/s",
    "3/7s capacity=5",
    "7.5/11s capacity=2.25",
    "1/10ms capacity=3 block=50ms",
    "2/s capacity=4 block=empty",
    "0.7/3s capacity=2 block=2h",
    "queue 3/7s capacity=4",
    "queue 5/s capacity=3 first=now",
    "queue 4/3s capacity=2 block=1s",
    "stepped 3/2s capacity=7",
    "stepped 0.5/s capacity=2 block=empty",
    "fixed 5/s",
    "fixed 3/1min block=3s",
    "fixed 7/1month",
    "sliding 6/3s",
    "sliding 2/s block=empty",
    "1/18000d capacity=2",
    "window 3/s",
};

struct row {
    uint8_t name[BUCKET_NAME_BYTES];
    struct swap_row row; // of zeroes: none
};

/*   now_ns, latest_ns  the reading, and the latest one there was */
struct walk {
    struct weir_limiter *limiter;
    struct weir_rule rules[LIMITS];
    uint8_t names[LIMITS][BUCKET_NAME_BYTES];
    struct row rows[ROWS_MAX];
    uint64_t now_ns, latest_ns;
    uint64_t seed, random;
};

static struct walk *current; // for the message of a failure
static struct {
    uint64_t retries, plain_refusals, blocked, pruned;
} seen_in_all;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("WEIR_SEED=%llu: not so at %llu ns: %s", (unsigned long long)current->seed,   \
                     (unsigned long long)current->now_ns, #condition);                             \
        }                                                                                          \
    } while (0)

static uint64_t below(struct walk *walk, uint64_t limit)
{
    walk->random ^= walk->random << 13; // xorshift64, G. Marsaglia, 2003
    walk->random ^= walk->random >> 7;
    walk->random ^= walk->random << 17;
    return (walk->random >> 16) % limit;
}

/* ---- the store ---- */

static struct swap_row *find_row(struct walk *walk, const uint8_t *name)
{
    struct row *free_row = NULL;
    for (int i = 0; i < ROWS_MAX; i++) {
        struct row *row = &walk->rows[i];
        if (memcmp(row->name, name, BUCKET_NAME_BYTES) == 0) {
            return &row->row;
        }
        bool is_free = row->row.ns == 0 && row->row.rest == 0;
        free_row = free_row == NULL && is_free ? row : free_row;
    }
    CHECK(free_row != NULL);
    memcpy(free_row->name, name, BUCKET_NAME_BYTES);
    return &free_row->row;
}

static struct swap_row *block_row(struct walk *walk, const uint8_t *name)
{
    uint8_t block[BUCKET_NAME_BYTES];
    swap_block_name(block, name);
    return find_row(walk, block);
}

static struct swap_state read_state(struct walk *walk, const uint8_t *name)
{
    struct swap_state state = {.bucket = *find_row(walk, name)};
    state.block = *block_row(walk, name);
    return state;
}

static void read_states(struct walk *walk, const uint8_t (*names)[BUCKET_NAME_BYTES], size_t count,
                        struct swap_state *states)
{
    for (size_t i = 0; i < count; i++) {
        states[i] = read_state(walk, names[i]);
    }
}

static bool is_same_state(const struct swap_state *a, const struct swap_state *b)
{
    return swap_is_same_row(a->bucket, b->bucket) && swap_is_same_row(a->block, b->block);
}

/* If all rows are as they were read, all are written. Each number has to be a bigint that is not negative. */
static bool write_states(struct walk *walk, const uint8_t (*names)[BUCKET_NAME_BYTES], size_t count,
                         const struct swap_state *seen, const struct swap_state *next)
{
    for (size_t i = 0; i < count; i++) {
        struct swap_state state = read_state(walk, names[i]);
        if (!is_same_state(&state, &seen[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(((next[i].bucket.ns | next[i].bucket.rest) >> 63) == 0);
        CHECK(((next[i].block.ns | next[i].block.rest) >> 63) == 0);
        *find_row(walk, names[i]) = next[i].bucket;
        *block_row(walk, names[i]) = next[i].block;
    }
    return true;
}

static bool is_old(struct swap_row row, uint64_t before_ns)
{
    return row.ns < before_ns && row.rest < before_ns;
}

static void prune_row(struct swap_row *row)
{
    seen_in_all.pruned += row->ns != 0;
    *row = (struct swap_row){0, 0};
}

static void prune(struct walk *walk)
{
    uint64_t before_ns = walk->latest_ns - MARGIN_NS;
    for (int i = 0; i < LIMITS; i++) {
        struct swap_row *bucket = find_row(walk, walk->names[i]);
        struct swap_row *block = block_row(walk, walk->names[i]);
        bool is_displaced = swap_is_displaced(bucket->ns);
        struct swap_state state = {*bucket, *block};
        if (is_old(*block, before_ns)) {
            prune_row(block);
        }
        bool has_block = block->ns != 0 || block->rest != 0;
        if (is_displaced ? !has_block : is_old(*bucket, before_ns)) {
            CHECK(!is_displaced || swap_forgets_at_ns(&state) <= before_ns);
            prune_row(bucket);
        }
    }
}

/* ---- a plain take, as take_one.sql ---- */

/* Whether moment + span <= reading + full, by differences of bigints. */
static bool row_fits(struct swap_row row, struct span span, struct span full, int64_t denominator,
                     int64_t now_ns)
{
    int64_t rest = (int64_t)row.rest < denominator ? (int64_t)row.rest : denominator;
    int64_t rests = rest + (int64_t)span.rest;
    int64_t differences;
    CHECK(!__builtin_sub_overflow((int64_t)row.ns, now_ns, &differences));
    CHECK(!__builtin_sub_overflow(differences, (int64_t)(full.ns - span.ns), &differences));
    CHECK(!__builtin_add_overflow(differences, rests / denominator, &differences));
    return differences < 0 || (differences == 0 && rests % denominator <= (int64_t)full.rest);
}

/* False: the row says that swap has to be asked. */
static bool take_plainly(struct walk *walk, const struct weir_request *request, const uint8_t *name,
                         struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct charge charge = charge_of(limit, request->cost_micro);
    struct swap_row *row = find_row(walk, name);
    bool is_displaced = swap_is_displaced(row->ns);
    if (request->operation == WEIR_CAN_TAKE || charge.never || charge.cost_micro == 0) {
        return false; // a plain read is no different
    }
    bool fits = row_fits(*row, charge.span, limit_full(limit), (int64_t)limit->denominator,
                         (int64_t)walk->now_ns);
    if (!fits && below(walk, 2) == 0) { // behind the lock a refusal writes the row again
        bool is_beyond = row->rest >= limit->denominator;
        *row = (struct swap_row){row->ns + is_beyond, is_beyond ? 0 : row->rest};
    }
    if (is_displaced) {
        CHECK(!fits);
        seen_in_all.plain_refusals++;
        return false;
    }
    struct weir_bucket bucket = {row->ns, row->rest};
    struct outcome outcome = kind_take(bucket, limit, &charge, walk->now_ns);
    CHECK(fits == (outcome.verdict == WEIR_ALLOWED));
    kind_answer_take(decision, limit, &charge, outcome, walk->now_ns);
    *row = fits ? (struct swap_row){outcome.moment.ns, outcome.moment.rest} : *row;
    return true;
}

/* ---- a question ---- */

/* One request, or a run.
 *   details  of each; some requests want none */
struct question {
    struct weir_request requests[LIMITS];
    uint8_t names[LIMITS][BUCKET_NAME_BYTES];
    struct weir_detail details[LIMITS];
    struct weir_decision decisions[LIMITS];
    size_t count;
    bool has_window;
};

static uint64_t random_cost(struct walk *walk, const struct weir_limit *limit)
{
    const uint64_t costs[] = {0,
                              1,
                              WEIR_UNIT / 3,
                              WEIR_UNIT,
                              WEIR_UNIT,
                              WEIR_UNIT,
                              2 * WEIR_UNIT,
                              limit->capacity_micro,
                              limit->capacity_micro - 1,
                              limit->capacity_micro + 1,
                              WEIR_COST_MAX,
                              below(walk, 2 * limit->capacity_micro)};
    return costs[below(walk, sizeof costs / sizeof costs[0])];
}

static enum weir_operation random_operation(struct walk *walk)
{
    static const enum weir_operation OPERATIONS[] = {
        WEIR_TAKE, WEIR_TAKE,   WEIR_TAKE, WEIR_TAKE,  WEIR_TAKE,  WEIR_CAN_TAKE,
        WEIR_FILL, WEIR_REFUND, WEIR_SHOW, WEIR_RESET, WEIR_BLOCK, WEIR_UNBLOCK};
    return OPERATIONS[below(walk, sizeof OPERATIONS / sizeof OPERATIONS[0])];
}

static uint64_t random_block_ns(struct walk *walk)
{
    const uint64_t blocks_ns[] = {0, 1, MS, below(walk, 5 * S), 100 * S, UINT64_MAX};
    uint64_t at = below(walk, 40);
    return blocks_ns[at < 6 ? at : 3];
}

/* Runs are of different buckets; a few of them make no sense. */
static void ask_at_random(struct walk *walk, struct question *question)
{
    bool is_run = below(walk, 3) == 0;
    size_t first = below(walk, LIMITS);
    enum weir_operation operation = below(walk, 5) == 0 ? WEIR_CAN_TAKE : WEIR_TAKE;
    *question = (struct question){.count = is_run ? 2 + below(walk, LIMITS - 1) : 1};
    for (size_t i = 0; i < question->count; i++) {
        size_t at = (first + i) % LIMITS;
        const struct weir_limit *limit = &walk->rules[at].limit;
        if (is_run && below(walk, 100) == 0) {
            at = first; // perhaps twice
        }
        question->details[i] = (struct weir_detail){.waiting = 7, .amount = {.numerator_low = 5}};
        question->requests[i] =
            (struct weir_request){.rule = &walk->rules[at],
                                  .key = "alice",
                                  .key_len = 5,
                                  .cost_micro = random_cost(walk, limit),
                                  .operation = is_run ? operation : random_operation(walk),
                                  .and_next = i + 1 < question->count,
                                  .shadow = below(walk, 6) == 0,
                                  .detail = &question->details[i],
                                  .block_ns = random_block_ns(walk)};
        if (is_run && below(walk, 200) == 0) {
            question->requests[i].operation = random_operation(walk);
        }
        memcpy(question->names[i], walk->names[at], BUCKET_NAME_BYTES);
        question->has_window |= kind_has_log(&walk->rules[at].limit);
    }
}

static void check_same(const struct question *question, const struct weir_decision *decisions,
                       const struct weir_detail *details)
{
    for (size_t i = 0; i < question->count; i++) {
        const struct weir_decision *decision = &question->decisions[i];
        const struct weir_detail *detail = &question->details[i];
        CHECK(decision->verdict == decisions[i].verdict);
        CHECK(decision->capacity == decisions[i].capacity);
        CHECK(decision->remaining == decisions[i].remaining);
        CHECK(decision->retry_after_ns == decisions[i].retry_after_ns);
        CHECK(decision->reset_after_ns == decisions[i].reset_after_ns);
        CHECK(decision->delay_ns == decisions[i].delay_ns);
        CHECK(memcmp(&detail->amount, &details[i].amount, sizeof detail->amount) == 0);
        CHECK(detail->empty_at_ns == details[i].empty_at_ns);
        CHECK(detail->full == details[i].full);
        CHECK(detail->existed == details[i].existed);
        CHECK(detail->waiting == details[i].waiting);
        seen_in_all.blocked += decision->verdict == WEIR_BLOCKED;
    }
}

/* Asks the table, and compares. Of a window swap knows nothing yet. */
static void compare(struct walk *walk, struct question *question)
{
    struct weir_decision decisions[LIMITS];
    struct weir_detail details[LIMITS];
    for (size_t i = 0; i < question->count; i++) {
        details[i] = (struct weir_detail){.waiting = 7, .amount = {.numerator_low = 5}};
        question->requests[i].detail = &details[i];
        CHECK(!question->has_window || question->decisions[i].verdict == WEIR_FAILED);
    }
    if (!question->has_window) {
        weir_limiter_decide_at(walk->limiter, question->requests, decisions, question->count,
                               walk->now_ns);
        check_same(question, decisions, details);
    }
}

static void decide_by_swap(struct walk *walk, struct question *question, int rivals);

/* Somebody else, at the same reading. */
static void meet_rival(struct walk *walk)
{
    struct question rival;
    ask_at_random(walk, &rival);
    decide_by_swap(walk, &rival, 0);
    compare(walk, &rival);
}

static void decide_by_swap(struct walk *walk, struct question *question, int rivals)
{
    const uint8_t(*names)[BUCKET_NAME_BYTES] = (const uint8_t(*)[BUCKET_NAME_BYTES])question->names;
    struct swap_state seen[LIMITS], next[LIMITS];
    for (int tries = 0;; tries++) {
        CHECK(tries < SWAP_TRIES_MAX);
        read_states(walk, names, question->count, seen);
        if (!swap_decide(question->requests, names, question->count, seen, walk->now_ns, next,
                         question->decisions)) {
            return;
        }
        if (rivals > 0) {
            rivals--;
            meet_rival(walk);
        }
        if (write_states(walk, names, question->count, seen, next)) {
            return;
        }
        seen_in_all.retries++;
    }
}

static void ask(struct walk *walk)
{
    struct question question;
    ask_at_random(walk, &question);
    bool is_plain = question.count == 1 && !swap_is_needed(question.requests, 1);
    if (!is_plain
        || !take_plainly(walk, &question.requests[0], question.names[0], &question.decisions[0])) {
        int rivals = below(walk, 3) == 0 ? 1 + (int)below(walk, SWAP_TRIES_MAX - 1) : 0;
        decide_by_swap(walk, &question, rivals);
    }
    compare(walk, &question);
}

/* ---- a walk ---- */

/* A bucket that the table has never seen counts as empty since it was first asked for, and a row that is missing as
 * empty since ever. So that older readings find no difference, each is charged once. */
static void open_walk(struct walk *walk)
{
    const struct weir_limiter_config config = {
        .memory_bytes = TABLE_BYTES, .seed = {1, 2}, .caller_clock = true};
    struct weir_error error;
    CHECK(weir_limiter_open(&walk->limiter, &config, &error) == WEIR_OK);
    walk->now_ns = walk->latest_ns = 1700000000 * S + below(walk, 1000 * S);
    for (size_t i = 0; i < LIMITS; i++) {
        const char *text = TEXTS[below(walk, sizeof TEXTS / sizeof TEXTS[0])];
        const char name = (char)('a' + i);
        struct weir_limit limit;
        CHECK(weir_limit_from_text(&limit, text, &error) == WEIR_OK);
        weir_rule_init_named(&walk->rules[i], walk->limiter, &limit, &name, 1);
        bucket_name(walk->names[i], walk->rules[i].hash_key, "alice", 5);
        struct question first = {
            .requests = {{.rule = &walk->rules[i], .key = "alice", .key_len = 5, .cost_micro = 1}},
            .count = 1,
            .has_window = kind_has_log(&limit)};
        first.requests[0].cost_micro = limit.grain_micro;
        first.requests[0].detail = &first.details[0];
        first.details[0] = (struct weir_detail){.waiting = 7, .amount = {.numerator_low = 5}};
        memcpy(first.names[0], walk->names[i], BUCKET_NAME_BYTES);
        decide_by_swap(walk, &first, 0);
        compare(walk, &first);
    }
}

static void move_clock(struct walk *walk)
{
    const uint64_t steps_ns[] = {
        1, 7 * MS, below(walk, S), below(walk, 20 * S), 4000 * S, below(walk, 40 * 86400) * S};
    uint64_t at = below(walk, 32);
    uint64_t forward_ns = steps_ns[at < 6 ? at : 1 + at % 3];
    bool goes_back = below(walk, 4) == 0;
    walk->latest_ns += forward_ns;
    walk->now_ns = goes_back ? walk->latest_ns - below(walk, BACK_NS) : walk->latest_ns;
}

static void run_walk(uint64_t seed)
{
    static struct walk walk;
    walk = (struct walk){.seed = seed, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    current = &walk;
    open_walk(&walk);
    for (int step = 0; step < STEPS; step++) {
        if (below(&walk, 3) == 0) {
            move_clock(&walk);
        }
        if (below(&walk, 8) == 0) {
            prune(&walk);
        }
        ask(&walk);
    }
    struct weir_limiter_stats stats;
    weir_limiter_stats(walk.limiter, &stats);
    CHECK(stats.reused_count == 0);
    weir_limiter_close(walk.limiter);
}

static void test_walks(void **state)
{
    (void)state;
    if (walk_seeds(WALKS, run_walk)) {
        printf("retries %llu, refused by the row of a blocked bucket %llu, blocked %llu, pruned "
               "%llu\n",
               (unsigned long long)seen_in_all.retries,
               (unsigned long long)seen_in_all.plain_refusals,
               (unsigned long long)seen_in_all.blocked, (unsigned long long)seen_in_all.pruned);
        assert_true(seen_in_all.retries > 0);
        assert_true(seen_in_all.plain_refusals > 0);
        assert_true(seen_in_all.blocked > 0);
        assert_true(seen_in_all.pruned > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};
    return cmocka_run_group_tests_name("swap", tests, NULL, NULL);
}
