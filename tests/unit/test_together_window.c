/* SPDX-License-Identifier: MIT
 *
 * Windows among several limits in one take: all or nothing, exactly, beside plain lists of events; and what
 * happens where the memory for events ends in the middle of it. */
#include "../support/small_table.h"

#include "core/window_math.h"
#include "store/table/window_log.h"

#define MS  UINT64_C(1000000)
#define S   UINT64_C(1000000000)
#define DAY (86400 * S)

static struct weir_decision ask(struct small *small, const struct weir_rule *rule,
                                enum weir_operation operation, uint64_t key, uint64_t cost,
                                uint64_t now_ns)
{
    struct weir_request request = {.rule = rule,
                                   .cost_micro = cost * WEIR_UNIT,
                                   .operation = operation,
                                   .block_ns = cost * S}; // of a block
    return table_decide_hash(&small->table, &request, hash_of(key), now_ns);
}

static uint64_t left(struct small *small, const struct weir_rule *rule, uint64_t key,
                     uint64_t now_ns)
{
    return ask(small, rule, WEIR_SHOW, key, 0, now_ns).remaining;
}

/* A run: the first rule's bucket is that of `key`, and so on. */
struct run_of {
    struct small *small;
    const struct weir_rule *rules;
    size_t count;
    uint64_t key;
    unsigned shadows; // a bit for each
    enum weir_operation operation;
    struct weir_detail details[WEIR_TOGETHER_MAX];
    struct weir_decision each[WEIR_TOGETHER_MAX];
    int binding;
};

static struct weir_decision ask_run(struct run_of *run, uint64_t cost, uint64_t now_ns)
{
    struct weir_request requests[WEIR_TOGETHER_MAX];
    uint64_t hashes[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < run->count; i++) {
        hashes[i] = hash_of(run->key + i);
        requests[i] = (struct weir_request){.rule = &run->rules[i],
                                            .cost_micro = cost * WEIR_UNIT,
                                            .operation = run->operation,
                                            .shadow = (run->shadows >> i & 1) != 0,
                                            .detail = &run->details[i],
                                            .and_next = i + 1 < run->count};
    }
    table_decide_together(&run->small->table, requests, hashes, run->each, run->count, now_ns);
    for (size_t i = 0; i < 2 * RING; i++) { // nothing stays marked
        for (size_t slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            assert_int_equal(run->small->lines[i].states[slot].word & BUCKET_MARKED, 0);
        }
    }
    return weir_decision_of_all(run->each, run->count, &run->binding);
}

/* ---- what it is for ---- */

/* Never more than 25 in any 5 s nor 100 in any 60 s, and one call every 100 ms: four bursts of 25 pass. */
static void test_two_windows_of_one_key(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[2] = {small_rule("window 25/5s"), small_rule("window 100/60s")};
    struct run_of run = {.small = small, .rules = rules, .count = 2};
    uint64_t allowed = 0;
    for (uint64_t call = 0; call < 600; call++) {
        uint64_t now_ns = DAY + call * 100 * MS;
        bool is_open = allowed < 100 && call % 50 < 25;
        uint64_t fits_ns = allowed < 100 ? DAY + (call / 50 + 1) * 5 * S : DAY + 60 * S;
        struct weir_decision decision = ask_run(&run, 1, now_ns);
        allowed += is_open;
        assert_int_equal(decision.verdict, is_open ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(decision.retry_after_ns, is_open ? -1 : (int64_t)(fits_ns - now_ns));
        assert_int_equal(run.binding, is_open ? -1 : allowed == 100);
        assert_int_equal(run.each[1].remaining, 100 - allowed);
    }
    assert_int_equal(allowed, 100);
    assert_int_equal(ask_run(&run, 1, DAY + 60 * S - 1).verdict, WEIR_LIMITED);
    assert_int_equal(run.each[0].verdict, WEIR_ALLOWED);
    assert_int_equal(run.each[0].remaining, 25);
    assert_int_equal(ask_run(&run, 1, DAY + 60 * S).verdict, WEIR_ALLOWED);
    free(small);
}

static void test_who_refuses_charges_nobody(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[3] = {small_rule("2/s"), small_rule("window 9/min"),
                                 small_rule("fixed 3/h")};
    struct run_of run = {.small = small, .rules = rules, .count = 3};
    assert_int_equal(ask_run(&run, 2, DAY).verdict, WEIR_ALLOWED);
    assert_int_equal(ask_run(&run, 1, DAY + 1).verdict, WEIR_LIMITED); // by the bucket
    assert_int_equal(run.binding, 0);
    assert_int_equal(run.each[1].remaining, 7);
    assert_int_equal(ask_run(&run, 2, DAY + 2 * S).verdict, WEIR_LIMITED); // by the calendar
    assert_int_equal(run.binding, 2);
    assert_int_equal(left(small, &rules[0], 0, DAY + 2 * S), 2);
    assert_int_equal(left(small, &rules[1], 1, DAY + 2 * S), 7);
    assert_int_equal(ask(small, &rules[1], WEIR_TAKE, 1, 7, DAY + 2 * S).verdict, WEIR_ALLOWED);
    assert_int_equal(ask_run(&run, 1, DAY + 3 * S).verdict, WEIR_LIMITED); // by the window
    assert_int_equal(run.binding, 1);
    assert_int_equal(run.each[1].retry_after_ns, 57 * S);
    assert_int_equal(left(small, &rules[0], 0, DAY + 3 * S), 2);
    assert_int_equal(left(small, &rules[2], 2, DAY + 3 * S), 1);
    assert_int_equal(ask_run(&run, 3, DAY + 3 * S).verdict, WEIR_NEVER);
    assert_int_equal(run.each[1].verdict, WEIR_LIMITED);
    free(small);
}

static void test_a_question_writes_nothing(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[2] = {small_rule("window 5/s"), small_rule("window 8/min")};
    struct run_of run = {.small = small, .rules = rules, .count = 2, .operation = WEIR_CAN_TAKE};
    assert_int_equal(ask_run(&run, 2, DAY).verdict, WEIR_ALLOWED);
    assert_int_equal(run.each[0].remaining, 3); // as a take would say
    assert_int_equal(run.each[1].remaining, 6);
    assert_false(run.details[0].existed);
    assert_int_equal(used_chunks(small), 0);
    assert_int_equal(small->stripes[0].used_count + small->stripes[1].used_count, 0);
    run.operation = WEIR_TAKE;
    assert_int_equal(ask_run(&run, 0, DAY).verdict, WEIR_ALLOWED); // a pure read
    assert_int_equal(used_chunks(small), 0);
    assert_int_equal(ask_run(&run, 2, DAY).verdict, WEIR_ALLOWED);
    run.operation = WEIR_CAN_TAKE;
    assert_int_equal(ask_run(&run, 4, DAY + 1).verdict, WEIR_LIMITED);
    assert_true(run.details[0].existed);
    assert_int_equal(left(small, &rules[0], 0, DAY + 1), 3);
    assert_int_equal(left(small, &rules[1], 1, DAY + 1), 6);
    free(small);
}

static void test_a_window_in_shadow_refuses_nothing(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[2] = {small_rule("window 1/s"), small_rule("window 8/min")};
    struct run_of run = {.small = small, .rules = rules, .count = 2, .shadows = 1};
    for (uint64_t i = 0; i < 3; i++) {
        (void)ask_run(&run, 1, DAY);
        assert_int_equal(run.each[0].verdict, i == 0 ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(run.each[0].retry_after_ns, i == 0 ? -1 : (int64_t)S);
        assert_int_equal(run.each[1].verdict, WEIR_ALLOWED);
        assert_int_equal(run.each[1].remaining, 7 - i);
    }
    assert_int_equal(left(small, &rules[0], 0, DAY), 0);
    free(small);
}

static void test_sixteen_windows(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < WEIR_TOGETHER_MAX; i++) {
        rules[i] = small_rule("window 300/s");
    }
    rules[9] = small_rule("window 299/s");
    struct run_of run = {.small = small, .rules = rules, .count = WEIR_TOGETHER_MAX};
    for (uint64_t i = 0; i < 300; i++) {
        struct weir_decision decision = ask_run(&run, 1, DAY + i * 17);
        assert_int_equal(decision.verdict, i < 299 ? WEIR_ALLOWED : WEIR_LIMITED);
    }
    assert_int_equal(run.binding, 9);
    for (uint64_t i = 0; i < WEIR_TOGETHER_MAX; i++) {
        assert_int_equal(left(small, &rules[i], i, DAY + 6000), i == 9 ? 0 : 1);
    }
    free(small);
}

/* ---- beside lists ---- */

enum { KEYS = 5, EVENTS_MAX = 8192, QUESTIONS = 3000 };

/* What a window has let through; or the bucket of the core. */
struct plain {
    struct weir_rule rule;
    struct weir_bucket bucket;
    size_t count;
    struct window_event events[EVENTS_MAX];
};

static bool is_list(const struct plain *plain)
{
    return plain->rule.limit.kind == WEIR_KIND_WINDOW;
}

/* What counts; and when so much of it has left, or all. */
static uint64_t count_level(const struct plain *plain, uint64_t now_ns, uint64_t leave,
                            uint64_t *left_at_ns)
{
    uint64_t level = 0;
    *left_at_ns = 0;
    for (size_t i = 0; i < plain->count; i++) {
        uint64_t leaves_ns = plain->events[i].at_ns + plain->rule.limit.full_ns;
        if (leaves_ns > now_ns) {
            *left_at_ns = level < leave ? leaves_ns : *left_at_ns;
            level += plain->events[i].cost;
        }
    }
    return level;
}

static struct weir_decision plain_take(struct plain *plain, uint64_t cost, uint64_t reading_ns,
                                       bool charges)
{
    if (!is_list(plain)) {
        struct weir_bucket copy = plain->bucket;
        struct weir_bucket *bucket = charges ? &plain->bucket : &copy;
        return weir_bucket_take(bucket, &plain->rule.limit, cost * WEIR_UNIT, reading_ns);
    }
    uint64_t last_ns = plain->count > 0 ? plain->events[plain->count - 1].at_ns : 0;
    uint64_t now_ns = reading_ns > last_ns ? reading_ns : last_ns;
    uint64_t capacity = plain->rule.limit.capacity;
    uint64_t fits_ns, empty_ns;
    uint64_t level = count_level(plain, now_ns, UINT64_MAX, &empty_ns);
    (void)count_level(plain, now_ns, level + cost > capacity ? level + cost - capacity : 0,
                      &fits_ns);
    bool fits = level + cost <= capacity;
    if (fits && cost > 0) {
        empty_ns = now_ns + plain->rule.limit.full_ns;
        level += cost;
        if (charges) {
            assert_int_not_equal(plain->count, EVENTS_MAX);
            plain->events[plain->count++] = (struct window_event){now_ns, cost};
        }
    }
    return (struct weir_decision){
        .verdict = cost > capacity ? WEIR_NEVER
                   : fits          ? WEIR_ALLOWED
                                   : WEIR_LIMITED,
        .capacity = capacity,
        .remaining = capacity - level,
        .retry_after_ns = fits || cost > capacity ? -1 : (int64_t)(fits_ns - reading_ns),
        .reset_after_ns = level > 0 ? (int64_t)(empty_ns - reading_ns) : 0};
}

static void compare_run(struct run_of *run, struct plain *plains, uint64_t cost, uint64_t now_ns)
{
    struct plain *asked[KEYS];
    struct weir_decision expected[KEYS];
    bool agree = true;
    for (size_t i = 0; i < run->count; i++) {
        asked[i] = &plains[run->key + i];
        expected[i] = plain_take(asked[i], cost, now_ns, false);
        agree = agree && (expected[i].verdict == WEIR_ALLOWED || (run->shadows >> i & 1) != 0);
    }
    (void)ask_run(run, cost, now_ns);
    for (size_t i = 0; i < run->count; i++) {
        if (!agree && expected[i].verdict == WEIR_ALLOWED) { // as it is
            expected[i] = plain_take(asked[i], 0, now_ns, false);
        }
        assert_same(&run->each[i], &expected[i]);
        if (agree && run->operation == WEIR_TAKE) {
            (void)plain_take(asked[i], cost, now_ns, true);
        }
    }
}

/* Windows and other kinds, one to five at once, singly in between; readings lag. */
static void test_runs_answer_as_lists_of_events(void **state)
{
    (void)state;
    static const char *const LIMITS[][KEYS] = {
        {"window 3/10ms", "window 5/40ms", "4/10ms", "window 20/200ms", "sliding 40/300ms"},
        {"window 300/s", "500/2s capacity=290", "window 250/700ms", "window 900/3s", "7/3ms"},
        {"window 1000000/d", "window 70/50ms", "window 70/60ms", "window 70/70ms", "70/50ms"},
    };
    for (uint64_t round = 0; round < 12; round++) {
        struct small *small = open_small_pool(RING, CHUNKS, NULL);
        struct plain *plains = calloc(KEYS, sizeof *plains);
        struct weir_rule rules[KEYS];
        uint64_t random = round * 77 + 1;
        uint64_t now_ns = DAY;
        assert_non_null(plains);
        for (size_t i = 0; i < KEYS; i++) {
            rules[i] = plains[i].rule = small_rule(LIMITS[round % 3][i]);
        }
        for (int i = 0; i < QUESTIONS; i++) {
            size_t key = next_random(&random) % (KEYS - 1);
            size_t count = 2 + next_random(&random) % (KEYS - 1 - key);
            uint64_t cost = next_random(&random) % 5 == 0 ? next_random(&random) % 30 : 1;
            now_ns += next_random(&random) % 2 == 0 ? next_random(&random) % (8 * MS) : 0;
            uint64_t lag_ns = next_random(&random) % 20 == 0 ? next_random(&random) % S : 0;
            struct run_of run = {.small = small, .rules = &rules[key], .count = count, .key = key};
            run.operation = next_random(&random) % 5 == 0 ? WEIR_CAN_TAKE : WEIR_TAKE;
            run.shadows = next_random(&random) % 9 == 0 ? (unsigned)next_random(&random) : 0;
            compare_run(&run, plains, cost, now_ns - lag_ns);
            if (next_random(&random) % 3 == 0) { // a plain one
                struct weir_decision expected = plain_take(&plains[key], cost, now_ns, true);
                struct weir_decision seen = ask(small, &rules[key], WEIR_TAKE, key, cost, now_ns);
                assert_same(&seen, &expected);
            }
        }
        for (int i = 0; i < 2 * CHUNKS / SWEEP_CHUNKS_MIN; i++) {
            (void)table_sweep_events(&small->table, now_ns + 2 * DAY);
        }
        assert_int_equal(used_chunks(small), 0); // none is lost
        free(plains);
        free(small);
    }
}

/* ---- where there is no more ---- */

/* Two chunks are free, and three windows want one each. */
static void test_a_pool_that_ends_in_the_middle_charges_nobody(void **state)
{
    (void)state;
    for (unsigned policy = 0; policy < 3; policy++) {
        struct small *small = open_small_pool(RING, 4, NULL);
        struct weir_rule other = small_rule("window 5/d");
        struct weir_rule rules[4] = {small_rule("window 5/s"), small_rule("window 6/s"),
                                     small_rule("7/s"), small_rule("window 8/s")};
        struct run_of run = {.small = small, .rules = rules, .count = 4};
        bool is_let = policy > 0;
        rules[3].limit.on_full = policy == 1 ? WEIR_ON_FULL_ALLOW : WEIR_ON_FULL_REFUSE;
        run.shadows = policy == 2 ? 8 : 0;
        (void)ask(small, &other, WEIR_TAKE, 10, 1, DAY);
        (void)ask(small, &other, WEIR_TAKE, 11, 1, DAY);
        (void)ask_run(&run, 1, DAY);
        assert_int_equal(run.each[0].verdict, WEIR_ALLOWED);
        assert_int_equal(run.each[3].verdict, policy == 1 ? WEIR_ALLOWED : WEIR_FAILED);
        assert_int_equal(left(small, &rules[0], 0, DAY), is_let ? 4 : 5);
        assert_int_equal(left(small, &rules[1], 1, DAY), is_let ? 5 : 6);
        assert_int_equal(left(small, &rules[2], 2, DAY), is_let ? 6 : 7);
        assert_int_equal(left(small, &rules[3], 3, DAY), 8);
        assert_int_equal(used_chunks(small), is_let ? 4 : 2);
        assert_int_equal(event_pool_full_count(&small->table.events), 1);
        run.operation = WEIR_CAN_TAKE; // a question needs no room
        assert_int_equal(ask_run(&run, 1, DAY).verdict, WEIR_ALLOWED);
        free(small);
    }
}

/* What has drained is found by the sweep, also while some of the free ones are too few. */
static void test_a_run_sweeps_for_all_its_windows(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    struct small *small = open_small_pool(RING, COUNT, NULL);
    struct weir_rule old = small_rule("window 5/s");
    struct weir_rule rules[3] = {small_rule("window 5/s"), small_rule("window 6/s"),
                                 small_rule("window 8/s")};
    for (uint64_t key = 0; key < COUNT; key++) {
        (void)ask(small, &old, WEIR_TAKE, 100 + key, 1, DAY + key * MS);
    }
    for (uint64_t freed = 1; freed <= 2; freed++) { // one, then two have drained
        struct run_of run = {.small = small, .rules = rules, .count = 3};
        assert_int_equal(ask_run(&run, 1, DAY + S + (freed - 1) * MS).verdict, WEIR_FAILED);
        assert_int_equal(used_chunks(small), COUNT - freed);
    }
    for (uint64_t i = 0; i < 12; i++) {
        struct run_of run = {.small = small, .rules = rules, .count = 3, .key = 3 * i};
        assert_int_equal(ask_run(&run, 1, DAY + 2 * S).verdict, WEIR_ALLOWED);
    }
    assert_int_equal(event_pool_full_count(&small->table.events), 2);
    free(small);
}

static void test_long_logs_that_have_the_whole_pool_go_on(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, 12, NULL);
    struct weir_rule rules[2] = {small_rule("window 250/s"), small_rule("window 251/s")};
    struct run_of run = {.small = small, .rules = rules, .count = 2};
    for (uint64_t i = 0; i < 4000; i++) { // four bytes each: a little less than five chunks
        assert_int_equal(ask_run(&run, 1, DAY + i * 4 * MS).verdict, WEIR_ALLOWED);
    }
    assert_int_equal(event_pool_full_count(&small->table.events), 0);
    free(small);
}

/* Three slots for four buckets. */
static void test_a_window_without_a_slot_is_answered_by_on_full(void **state)
{
    (void)state;
    struct small *small = open_small_pool(1, CHUNKS, NULL);
    struct weir_rule rules[6];
    for (size_t i = 0; i < 6; i++) { // keys 0, 2 and 4 are in the first stripe
        rules[i] = small_rule("window 5/s");
    }
    struct run_of run = {.small = small, .rules = rules, .count = 6};
    assert_int_equal(ask_run(&run, 1, DAY).verdict, WEIR_FAILED);
    assert_int_equal(left(small, &rules[0], 0, DAY), 5);
    assert_int_equal(used_chunks(small), 0);
    rules[4].limit.on_full = rules[5].limit.on_full = WEIR_ON_FULL_ALLOW;
    assert_int_equal(ask_run(&run, 1, DAY).verdict, WEIR_ALLOWED);
    assert_int_equal(left(small, &rules[0], 0, DAY), 4);
    assert_int_equal(left(small, &rules[4], 4, DAY), 5);
    assert_int_equal(used_chunks(small), 4);
    free(small);
}

/* One line, two slots: a window that has drained keeps its own while another one of the run looks for one. */
static void test_a_new_window_takes_no_slot_of_its_run(void **state)
{
    (void)state;
    struct small *small = open_small_pool(1, CHUNKS, NULL);
    struct weir_rule other = small_rule("window 5/d");
    struct weir_rule rules[3] = {small_rule("window 5/s"), small_rule("window 6/s"),
                                 small_rule("window 7/s")};
    struct run_of run = {.small = small, .rules = rules, .count = 3}; // keys 0 and 2 in one stripe
    (void)ask(small, &rules[0], WEIR_TAKE, 0, 1, DAY);
    (void)ask(small, &other, WEIR_TAKE, 20, 1, DAY);
    assert_int_equal(ask_run(&run, 2, DAY + 9 * S).verdict, WEIR_FAILED);
    assert_int_equal(run.each[0].verdict, WEIR_ALLOWED);
    rules[2].limit.on_full = WEIR_ON_FULL_ALLOW;
    assert_int_equal(ask_run(&run, 2, DAY + 9 * S).verdict, WEIR_ALLOWED);
    assert_int_equal(left(small, &rules[0], 0, DAY + 9 * S), 3);
    assert_int_equal(left(small, &other, 20, DAY + 9 * S), 4);
    free(small);
}

/* ---- blocks ---- */

static void test_a_blocked_window_blocks_the_run(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[2] = {small_rule("window 5/s"), small_rule("window 8/min")};
    struct run_of run = {.small = small, .rules = rules, .count = 2};
    (void)ask_run(&run, 2, DAY);
    (void)ask(small, &rules[1], WEIR_BLOCK, 1, 30, DAY);
    struct weir_decision decision = ask_run(&run, 1, DAY + S);
    assert_int_equal(decision.verdict, WEIR_BLOCKED);
    assert_int_equal(run.binding, 1);
    assert_int_equal(decision.retry_after_ns, 29 * S);
    assert_int_equal(run.each[1].remaining, 6);
    assert_int_equal(left(small, &rules[0], 0, DAY + S), 5);
    assert_int_equal(ask_run(&run, 9, DAY + S).verdict, WEIR_NEVER);
    assert_int_equal(ask_run(&run, 1, DAY + 30 * S).verdict, WEIR_ALLOWED);
    assert_int_equal(left(small, &rules[1], 1, DAY + 30 * S), 5);
    free(small);
}

static void test_a_refusal_blocks_the_window_that_says_so(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[3] = {small_rule("window 2/s block=9s"),
                                 small_rule("window 2/min block=empty"),
                                 small_rule("window 8/min block=7s")};
    struct run_of run = {.small = small, .rules = rules, .count = 3};
    (void)ask_run(&run, 2, DAY);
    assert_int_equal(ask_run(&run, 1, DAY + 100 * MS).verdict, WEIR_LIMITED);
    assert_int_equal(run.each[0].retry_after_ns, 9 * S);
    assert_int_equal(ask(small, &rules[0], WEIR_SHOW, 0, 0, DAY + S).retry_after_ns, 8100 * MS);
    assert_int_equal(ask(small, &rules[1], WEIR_SHOW, 1, 0, DAY + S).retry_after_ns, 59 * S);
    assert_int_equal(ask(small, &rules[2], WEIR_SHOW, 2, 0, DAY + S).verdict, WEIR_ALLOWED);
    assert_int_equal(ask_run(&run, 1, DAY + 5 * S).verdict, WEIR_BLOCKED);
    assert_int_equal(ask_run(&run, 1, DAY + 60 * S).verdict, WEIR_ALLOWED);
    free(small);
}

/* ---- logs that are not as they were ---- */

/* A limit that was given a longer period: what had left does not count again. */
static void test_a_worn_out_log_begins_anew(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, NULL);
    struct weir_rule rules[2] = {small_rule("window 5/s"), small_rule("window 8/min")};
    struct run_of run = {.small = small, .rules = rules, .count = 2};
    (void)ask_run(&run, 5, DAY);
    rules[0] = small_rule("window 5/h");
    assert_int_equal(ask_run(&run, 3, DAY + 2 * S).verdict, WEIR_ALLOWED);
    assert_int_equal(left(small, &rules[0], 0, DAY + 2 * S), 2);
    assert_int_equal(left(small, &rules[1], 1, DAY + 2 * S), 0);
    assert_int_equal(used_chunks(small), 2);
    rules[0] = small_rule("window 5/s"); // and a shorter one: its moment goes back
    assert_int_equal(ask_run(&run, 4, DAY + 70 * S).verdict, WEIR_ALLOWED);
    assert_int_equal(run.each[0].reset_after_ns, S);
    free(small);
}

static void test_a_damaged_log_is_forgotten(void **state)
{
    (void)state;
    for (uint64_t round = 1; round < 500; round++) {
        struct small *small = open_small_pool(RING, 12, NULL);
        struct weir_rule rules[2] = {small_rule("window 300/s"), small_rule("window 250/s")};
        struct run_of run = {.small = small, .rules = rules, .count = 2};
        uint64_t random = round;
        for (uint64_t i = 0; i < 200; i++) {
            (void)ask_run(&run, 1, DAY + i * MS);
        }
        for (uint64_t count = 1 + next_random(&random) % 6; count > 0; count--) {
            uint64_t at = CHUNK_BYTES + next_random(&random) % (6 * CHUNK_BYTES);
            small->events[at] ^= (char)(1 << next_random(&random) % 8);
        }
        uint64_t now_ns = DAY + 210 * MS;
        for (int i = 0; i < 100; i++) {
            now_ns += next_random(&random) % (20 * MS);
            (void)ask_run(&run, 1 + next_random(&random) % 20, now_ns);
        }
        free(small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_windows_of_one_key),
        cmocka_unit_test(test_who_refuses_charges_nobody),
        cmocka_unit_test(test_a_question_writes_nothing),
        cmocka_unit_test(test_a_window_in_shadow_refuses_nothing),
        cmocka_unit_test(test_sixteen_windows),
        cmocka_unit_test(test_runs_answer_as_lists_of_events),
        cmocka_unit_test(test_a_pool_that_ends_in_the_middle_charges_nobody),
        cmocka_unit_test(test_a_run_sweeps_for_all_its_windows),
        cmocka_unit_test(test_long_logs_that_have_the_whole_pool_go_on),
        cmocka_unit_test(test_a_window_without_a_slot_is_answered_by_on_full),
        cmocka_unit_test(test_a_new_window_takes_no_slot_of_its_run),
        cmocka_unit_test(test_a_blocked_window_blocks_the_run),
        cmocka_unit_test(test_a_refusal_blocks_the_window_that_says_so),
        cmocka_unit_test(test_a_worn_out_log_begins_anew),
        cmocka_unit_test(test_a_damaged_log_is_forgotten),
    };
    return cmocka_run_group_tests_name("together_window", tests, NULL, NULL);
}
