/* SPDX-License-Identifier: MIT
 *
 * The table in one thread: what it keeps, what it forgets and when, and how much fits. What threads
 * do to each other is in tests/concurrency/. */
#include "../support/small_table.h"

#include "store/table/displaced.h"
#include "store/table/places.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct weir_decision decide(struct small *small, enum weir_operation operation,
                                   uint64_t hash, uint64_t cost, uint64_t now_ns)
{
    struct weir_request request = {
        .rule = &small->rule, .cost_micro = cost * WEIR_UNIT, .operation = operation};
    return table_decide_hash(&small->table, &request, hash, now_ns);
}

static void assert_take(struct small *small, uint64_t hash, uint64_t cost, uint64_t now_ns,
                        enum weir_verdict expected)
{
    assert_int_equal(decide(small, WEIR_TAKE, hash, cost, now_ns).verdict, expected);
}

static struct weir_limiter_stats stats_of(const struct store *store)
{
    struct weir_limiter_stats stats;
    store->ops->stats(store, &stats);
    return stats;
}

enum { BATCH_MAX = 3 * TABLE_BATCH + 5 };

static void make_batch(struct weir_request *requests, struct weir_detail *details, uint32_t *keys,
                       const struct weir_rule *rule, size_t count, uint64_t *random)
{
    for (size_t i = 0; i < count; i++) {
        keys[i] = (uint32_t)(next_random(random) % 300); // so a batch asks for some keys twice
        requests[i] = (struct weir_request){
            .rule = rule,
            .key = &keys[i],
            .key_len = 1 + next_random(random) % sizeof keys[i],
            .cost_micro = next_random(random) % (4 * WEIR_UNIT),
            .operation = (enum weir_operation)(next_random(random) % (WEIR_RESET + 1)),
            .detail = &details[i],
        };
    }
}

static void test_a_batch_is_the_same_as_one_by_one(void **state)
{
    (void)state;
    struct weir_rule rule = small_rule("7/3s capacity=6");
    struct store *together = table_open(WEIR_MEMORY_BYTES_MIN, WEIR_EVENTS_BYTES_MIN);
    struct store *single = table_open(WEIR_MEMORY_BYTES_MIN, WEIR_EVENTS_BYTES_MIN);
    uint64_t random = 1;
    for (uint64_t turn = 0; turn < 2000; turn++) {
        struct weir_request requests[BATCH_MAX];
        struct weir_detail details[BATCH_MAX];
        struct weir_decision many[BATCH_MAX];
        uint32_t keys[BATCH_MAX];
        size_t count = 1 + next_random(&random) % BATCH_MAX;
        uint64_t now_ns = S + turn * 100 * MS - next_random(&random) % S; // also backwards
        make_batch(requests, details, keys, &rule, count, &random);
        together->ops->decide(together, requests, many, count, now_ns);
        for (size_t i = 0; i < count; i++) {
            struct weir_detail detail;
            struct weir_decision decision;
            struct weir_request request = requests[i];
            request.detail = &detail;
            single->ops->decide(single, &request, &decision, 1, now_ns);
            assert_same(&many[i], &decision);
            if (request.operation != WEIR_TAKE) {
                assert_int_equal(details[i].existed, detail.existed);
                assert_int_equal(details[i].full, detail.full);
                assert_int_equal(details[i].empty_at_ns, detail.empty_at_ns);
                assert_int_equal(details[i].amount.numerator_low, detail.amount.numerator_low);
            }
        }
    }
    assert_int_equal(stats_of(together).used_count, stats_of(single).used_count);
    together->ops->close(together);
    single->ops->close(single);
}

static void test_a_slot_is_reused_as_soon_as_it_is_drained_and_no_earlier(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s capacity=5");
    uint64_t a = hash_at(0, 1, 1);
    uint64_t b = hash_at(0, 2, 2);
    uint64_t c = hash_at(0, 3, 3);
    assert_take(small, a, 1, S, WEIR_ALLOWED); // empty at 2 s
    assert_take(small, b, 5, S, WEIR_ALLOWED); // empty at 6 s
    assert_take(small, c, 1, S, WEIR_FAILED);
    assert_take(small, c, 1, 2 * S, WEIR_FAILED); // strictly drained: a moment is never shared
    assert_take(small, c, 1, 2 * S + 1, WEIR_ALLOWED);
    assert_take(small, a, 1, 3 * S, WEIR_FAILED); // b is live, and c too
    assert_take(small, b, 1, 3 * S, WEIR_ALLOWED);
    assert_take(small, a, 5, 3 * S + 2, WEIR_ALLOWED); // c drained at 3 s and 1 ns
    struct weir_limiter_stats stats = stats_of(&small->table.store);
    assert_int_equal(stats.slot_count, 2);
    assert_int_equal(stats.used_count, 2);
    assert_int_equal(stats.reused_count, 2);
    assert_int_equal(stats.full_count, 3);
    free(small);
}

static struct store_census census_of(const struct small *small, uint64_t now_ns)
{
    struct store_census census;
    small->table.store.ops->upkeep->census(&small->table.store, &census, now_ns);
    return census;
}

static void test_a_census_counts_what_is_live_and_what_is_free(void **state)
{
    (void)state;
    struct small *small = open_small(4, "1/s capacity=5"); // 8 slots
    assert_int_equal(census_of(small, S).free_count, 8);
    for (uint64_t i = 0; i < 4; i++) {
        assert_take(small, hash_at(i, i + 1, i + 1), i + 1, S, WEIR_ALLOWED); // empty at 2 .. 5 s
    }
    (void)decide(small, WEIR_BLOCK, hash_at(0, 9, 9), 0, S); // a nanosecond long
    struct store_census census = census_of(small, S);
    assert_int_equal(census.slot_count, 8);
    assert_int_equal(census.live_count, 4);
    assert_int_equal(census.free_count, 2); // a block has a slot, and its empty bucket another
    census = census_of(small, 3 * S);
    assert_int_equal(census.live_count, 2);
    assert_int_equal(census.free_count, 6);
    free(small);
}

/* It looks at one slot in 21. */
static void test_a_census_of_a_large_table_is_an_estimate(void **state)
{
    (void)state;
    enum { KEYS = 200000 };
    struct weir_rule rule = small_rule("1/d");
    struct store *store = table_open(64 << 20, WEIR_EVENTS_BYTES_MIN); // 2 million slots
    struct store_census census;
    for (uint32_t key = 0; key < KEYS; key++) {
        struct weir_decision decision;
        struct weir_request request = {
            .rule = &rule, .key = &key, .key_len = sizeof key, .cost_micro = WEIR_UNIT};
        store->ops->decide(store, &request, &decision, 1, S);
    }
    store->ops->upkeep->census(store, &census, S);
    assert_int_equal(census.slot_count, stats_of(store).slot_count);
    assert_in_range(census.live_count, KEYS / 100 * 95, KEYS / 100 * 105);
    assert_in_range(census.free_count + census.live_count, census.slot_count - 1,
                    census.slot_count);
    store->ops->close(store);
}

static void test_a_full_table_can_let_pass(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s capacity=5 on_full=allow");
    assert_take(small, hash_at(0, 1, 1), 5, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 2, 2), 5, S, WEIR_ALLOWED);
    struct weir_decision decision = decide(small, WEIR_TAKE, hash_at(0, 3, 3), 2, S);
    assert_int_equal(decision.verdict, WEIR_ALLOWED);
    assert_int_equal(decision.remaining, 3);
    assert_take(small, hash_at(0, 3, 3), 6, S, WEIR_NEVER);
    assert_take(small, hash_at(0, 1, 1), 1, S, WEIR_LIMITED); // those that are known are counted
    assert_int_equal(stats_of(&small->table.store).full_count, 1);
    free(small);
}

static void test_an_old_reading_finds_nothing_forgotten_too_early(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s capacity=5");
    uint64_t a = hash_at(0, 1, 1);
    assert_take(small, a, 5, S, WEIR_ALLOWED);                    // empty at 6 s
    assert_take(small, hash_at(0, 2, 2), 5, 6 * S, WEIR_ALLOWED); // in the other slot
    assert_take(small, hash_at(0, 3, 3), 1, 7 * S, WEIR_ALLOWED); // in a's: forgotten at 7 s
    /* As if a were empty since 7 s: at 2 s it holds at least as much as the 4 that it did. */
    struct weir_decision decision = decide(small, WEIR_TAKE, a, 1, 2 * S);
    assert_int_equal(decision.verdict, WEIR_LIMITED);
    assert_int_equal(decision.retry_after_ns, S);
    assert_int_equal(decide(small, WEIR_CAN_TAKE, a, 5, 7 * S).verdict, WEIR_ALLOWED);
    free(small);
}

static void test_a_new_bucket_knows_the_latest_reading_of_a_reuse(void **state)
{
    (void)state;
    struct small *small = open_small(2, "1/s capacity=5");
    uint64_t a = hash_at(0, 1, 1);
    assert_take(small, a, 4, S, WEIR_ALLOWED);                    // empty at 5 s
    assert_take(small, hash_at(0, 2, 2), 1, 6 * S, WEIR_ALLOWED); // in a's slot
    /* There is room left, but at 4 s it still is as if a were empty at 6 s. */
    assert_int_equal(decide(small, WEIR_TAKE, a, 3, 4 * S).remaining, 0);
    assert_take(small, a, 1, 4 * S, WEIR_LIMITED);
    free(small);
}

static void test_a_slot_does_not_pass_between_equal_owner_bits(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s capacity=5");
    assert_take(small, hash_at(0, 1, 9), 1, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 2, 2), 5, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 3, 9), 1, 4 * S, WEIR_FAILED);
    assert_take(small, hash_at(0, 4, 8), 1, 4 * S, WEIR_ALLOWED);
    free(small);
}

static void test_what_was_given_back_keeps_its_line_until_it_would_have_drained(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s capacity=5");
    uint64_t c = hash_at(0, 3, 3);
    assert_take(small, hash_at(0, 1, 1), 5, S, WEIR_ALLOWED); // to 6 s
    assert_take(small, hash_at(0, 2, 2), 5, S, WEIR_ALLOWED);
    assert_int_equal(decide(small, WEIR_REFUND, hash_at(0, 1, 1), 5, S).remaining, 5);
    assert_take(small, c, 1, 6 * S, WEIR_FAILED);
    assert_take(small, c, 1, 6 * S + 1, WEIR_ALLOWED);
    free(small);
}

static void test_what_charges_nothing_makes_no_bucket(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s capacity=5");
    uint64_t a = hash_at(0, 1, 1);
    assert_take(small, a, 0, S, WEIR_ALLOWED);
    assert_take(small, a, 6, S, WEIR_NEVER);
    for (int operation = WEIR_CAN_TAKE; operation <= WEIR_RESET; operation++) {
        if (operation != WEIR_FILL) {
            assert_int_equal(decide(small, (enum weir_operation)operation, a, 3, S).remaining,
                             operation == WEIR_CAN_TAKE ? 2 : 5);
        }
    }
    (void)decide(small, WEIR_FILL, a, 0, S);
    assert_int_equal(stats_of(&small->table.store).used_count, 0);
    (void)decide(small, WEIR_FILL, a, 9, S);
    assert_int_equal(stats_of(&small->table.store).used_count, 1);
    free(small);
}

/* As many keys as a whole ring holds, all at home in one line: hints for some, a walk for the rest. */
static void test_displaced_keys_are_found_wherever_they_are(void **state)
{
    (void)state;
    struct small *small = open_small(RING, "1/s capacity=1000");
    uint64_t home = RING - 3; // so that the probes go around the end
    uint64_t count = (uint64_t)RING * TABLE_LINE_SLOTS;
    for (uint64_t i = 0; i < count; i++) {
        assert_take(small, hash_at(home, i + 1, i), 1 + i, S, WEIR_ALLOWED);
    }
    assert_take(small, hash_at(home, count + 1, 0), 1, S, WEIR_FAILED);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t hash = hash_at(home, i + 1, i);
        assert_int_equal(decide(small, WEIR_SHOW, hash, 0, S).remaining, 999 - i);
        assert_take(small, hash, 1, S, WEIR_ALLOWED);
        assert_int_equal(decide(small, WEIR_SHOW, hash, 0, S).remaining, 998 - i);
    }
    assert_int_equal(displaced_reach(small->lines[home].displaced), RING - 1);
    assert_int_equal(stats_of(&small->table.store).used_count, count);
    free(small);
}

/* A hint is for three of the keys that found no room at home, and stays while it leads somewhere. */
static void test_a_good_hint_is_not_given_to_another_key(void **state)
{
    (void)state;
    struct small *small = open_small(RING, "1/s capacity=1000");
    for (uint64_t number = 1; number <= TABLE_LINE_SLOTS + 5; number++) {
        assert_take(small, hash_at(0, number, number), 1, S, WEIR_ALLOWED);
    }
    uint64_t displaced = small->lines[0].displaced;
    for (uint64_t i = 0; i < HINT_COUNT; i++) {
        uint64_t number = TABLE_LINE_SLOTS + 1 + i; // the first that were displaced
        assert_int_equal(displaced_distance(displaced, hash_at(0, number, number)),
                         (number - 1) / TABLE_LINE_SLOTS);
    }
    free(small);
}

/* The table's own hashing, from keys that only count up. */
static struct weir_decision decide_number(struct store *store, const struct weir_rule *rule,
                                          enum weir_operation operation, uint64_t number)
{
    struct weir_request request = {.rule = rule,
                                   .key = &number,
                                   .key_len = sizeof number,
                                   .cost_micro = WEIR_UNIT,
                                   .operation = operation};
    struct weir_decision decision;
    store->ops->decide(store, &request, &decision, 1, S);
    return decision;
}

static void test_holds_its_design_load_of_live_buckets(void **state)
{
    (void)state;
    static const uint64_t SIZES[] = {UINT64_C(64) << 10, UINT64_C(1) << 20, UINT64_C(2) << 20,
                                     UINT64_C(16) << 20};
    struct weir_rule rule = small_rule("1/h capacity=3");
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        struct store *store = table_open(SIZES[i], WEIR_EVENTS_BYTES_MIN);
        uint64_t slot_count = stats_of(store).slot_count;
        uint64_t count = slot_count * 8 / 10;
        for (uint64_t number = 0; number < count; number++) {
            assert_int_equal(decide_number(store, &rule, WEIR_TAKE, number).verdict, WEIR_ALLOWED);
        }
        for (uint64_t number = 0; number < count; number++) { // each still has what it was charged
            assert_int_equal(decide_number(store, &rule, WEIR_SHOW, number).remaining, 2);
        }
        struct weir_limiter_stats stats = stats_of(store);
        assert_int_equal(stats.full_count, 0);
        assert_int_equal(stats.used_count, count);
        uint64_t first_failed = count; // how much farther it goes, for those who are curious
        while (decide_number(store, &rule, WEIR_TAKE, first_failed).verdict == WEIR_ALLOWED) {
            first_failed++;
        }
        print_message("%llu KiB: %.1f bytes per bucket at load 0.8; first without a slot at %.3f\n",
                      (unsigned long long)(SIZES[i] >> 10),
                      (double)stats.memory_bytes / (double)count,
                      (double)first_failed / (double)slot_count);
        assert_true((double)stats.memory_bytes / (double)count <= 43.0);
        store->ops->close(store);
    }
}

static void test_uses_no_more_memory_than_it_may(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (int i = 0; i < 2000; i++) {
        uint64_t bytes =
            WEIR_MEMORY_BYTES_MIN + next_random(&random) % (UINT64_C(1) << (17 + i % 20));
        struct table_shape shape = table_shape_of(bytes);
        assert_true(shape.stripe_count > 0);
        assert_true(shape.bytes <= bytes);
        assert_int_equal(shape.bytes, shape.stripe_count
                                          * (sizeof(struct stripe)
                                             + shape.stripe_lines * sizeof(struct table_line)));
        assert_true(bytes - shape.bytes < sizeof(struct stripe) + shape.stripe_lines * 64);
    }
    struct table_shape largest = table_shape_of(WEIR_MEMORY_BYTES_MAX);
    assert_true(largest.bytes <= WEIR_MEMORY_BYTES_MAX);
}

/* Every line of the smallest and of an odd table is some key's home, and none is beyond the end. */
static void test_homes_are_spread_over_all_lines(void **state)
{
    (void)state;
    static const uint64_t STRIPES[] = {1, 3, 15};
    for (size_t i = 0; i < sizeof STRIPES / sizeof STRIPES[0]; i++) {
        struct table table;
        table_init(&table, NULL, NULL, STRIPES[i], TABLE_STRIPE_LINES_SMALL);
        uint64_t line_count = STRIPES[i] * TABLE_STRIPE_LINES_SMALL;
        uint64_t *counts = calloc(line_count, sizeof *counts);
        assert_non_null(counts);
        uint64_t random = 5;
        for (uint64_t j = 0; j < 200 * line_count; j++) {
            uint64_t home = table_home_of(&table, next_random(&random));
            assert_true(home < line_count);
            counts[home]++;
        }
        for (uint64_t line = 0; line < line_count; line++) {
            assert_true(counts[line] > 100 && counts[line] < 300); // seven deviations from 200
        }
        assert_int_equal(table_home_of(&table, UINT64_MAX), line_count - 1);
        free(counts);
    }
}

/* ---- on_full=evict ---- */

static const char EVICTING[] = "1/s capacity=5 on_full=evict";

static void test_a_full_table_can_drop_the_bucket_that_is_nearest_to_empty(void **state)
{
    (void)state;
    struct small *small = open_small(2, EVICTING); // 4 slots
    for (uint64_t i = 0; i < 4; i++) {
        assert_take(small, hash_at(i % 2, i + 1, i + 1), 5 - i, S, WEIR_ALLOWED);
    }
    uint64_t dropped = hash_at(1, 4, 4); // empty at 3 s, the others later
    assert_int_equal(decide(small, WEIR_TAKE, hash_at(0, 5, 5), 4, S).remaining, 1);
    assert_int_equal(decide(small, WEIR_SHOW, dropped, 0, S).remaining, 5); // forgiven
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(decide(small, WEIR_SHOW, hash_at(i % 2, i + 1, i + 1), 0, S).remaining, i);
    }
    assert_int_equal(stats_of(&small->table.store).evicted_count, 1);
    assert_int_equal(stats_of(&small->table.store).full_count, 0);
    free(small);
}

static void test_a_drained_slot_goes_before_a_live_bucket(void **state)
{
    (void)state;
    struct small *small = open_small(1, EVICTING);
    assert_take(small, hash_at(0, 1, 1), 1, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 2, 2), 5, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 3, 3), 5, 2 * S + 1, WEIR_ALLOWED);
    assert_int_equal(stats_of(&small->table.store).evicted_count, 0);
    assert_int_equal(stats_of(&small->table.store).reused_count, 1);
    free(small);
}

static void test_a_lagging_clock_finds_what_was_dropped_no_emptier_than_it_became_then(void **state)
{
    (void)state;
    struct small *small = open_small(1, EVICTING);
    uint64_t a = hash_at(0, 1, 1);
    assert_take(small, a, 5, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 2, 2), 5, 4 * S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 3, 3), 1, 5 * S, WEIR_ALLOWED); // drops a, which empties at 6 s
    assert_int_equal(decide(small, WEIR_SHOW, a, 0, 5 * S).remaining, 5);
    assert_int_equal(decide(small, WEIR_SHOW, a, 0, 2 * S).remaining, 2); // empty at 5 s
    free(small);
}

/* A window with events, a key that is locked out, a block, one for whom somebody waits, equal owner bits. */
static void test_what_must_stay_is_not_dropped(void **state)
{
    (void)state;
    struct small *small = open_small_pool(1, 4, EVICTING); // 2 slots in each stripe
    struct weir_rule usual = small->rule;
    small->rule = small_rule("window 5/h");
    assert_take(small, hash_at(0, 1, 1), 1, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 2, 2), 1, S, WEIR_ALLOWED);
    small->rule = usual;
    assert_take(small, hash_at(0, 3, 3), 1, S, WEIR_FAILED);

    struct small *blocked = open_small(1, EVICTING);
    struct weir_request request = {.rule = &blocked->rule, .operation = WEIR_BLOCK, .block_ns = S};
    assert_int_equal(table_decide_hash(&blocked->table, &request, hash_at(0, 1, 1), S).verdict,
                     WEIR_BLOCKED);
    assert_take(blocked, hash_at(0, 2, 2), 1, S, WEIR_FAILED);

    struct small *waited_for = open_small(1, EVICTING);
    assert_take(waited_for, hash_at(0, 1, 7), 1, S, WEIR_ALLOWED);
    assert_take(waited_for, hash_at(0, 2, 2), 5, S, WEIR_ALLOWED);
    assert_take(waited_for, hash_at(0, 3, 7), 5, S, WEIR_ALLOWED); // drops 2, not its equal
    waited_for->lines[0].states[0].word |= BUCKET_LINE;
    waited_for->lines[0].states[1].word |= BUCKET_LINE;
    assert_take(waited_for, hash_at(0, 4, 4), 1, S, WEIR_FAILED);
    assert_int_equal(stats_of(&waited_for->table.store).evicted_count, 1);
    assert_int_equal(stats_of(&waited_for->table.store).full_count, 1);
    free(small);
    free(blocked);
    free(waited_for);
}

static void test_keys_of_one_run_do_not_drop_each_other(void **state)
{
    (void)state;
    struct small *small = open_small(1, EVICTING);
    uint64_t a = hash_at(0, 1, 1);
    const uint64_t hashes[2] = {a, hash_at(0, 2, 2)};
    const struct weir_request requests[2] = {
        {.rule = &small->rule, .cost_micro = WEIR_UNIT, .and_next = true},
        {.rule = &small->rule, .cost_micro = WEIR_UNIT}};
    struct weir_decision decisions[2];
    assert_take(small, a, 1, S, WEIR_ALLOWED); // nearest to empty, and one of the two
    assert_take(small, hash_at(0, 3, 3), 5, S, WEIR_ALLOWED);
    table_decide_together(&small->table, requests, hashes, decisions, 2, S);
    assert_int_equal(decisions[0].verdict, WEIR_ALLOWED);
    assert_int_equal(decisions[0].remaining, 3);
    assert_int_equal(decisions[1].remaining, 4);
    const uint64_t others[2] = {hash_at(0, 4, 4), hash_at(0, 5, 5)};
    table_decide_together(&small->table, requests, others, decisions, 2, S); // neither is there
    assert_int_equal(decisions[0].remaining, 4);
    assert_int_equal(decisions[1].remaining, 4);
    assert_int_equal(stats_of(&small->table.store).evicted_count, 3);
    free(small);
}

/* The slot has passed to another key, and on to one with the same owner bits, whose bucket stands as the first did. */
static void test_what_was_dropped_is_not_given_back_to_another_key(void **state)
{
    (void)state;
    struct small *small = open_small(1, EVICTING);
    uint64_t a = hash_at(0, 1, 1), c = hash_at(0, 3, 1);
    struct found found;
    assert_take(small, a, 3, S, WEIR_ALLOWED);
    assert_take(small, hash_at(0, 9, 9), 5, S, WEIR_ALLOWED);
    assert_true(table_find(&small->table, a, 0, &found)); // and sleeps
    assert_take(small, hash_at(0, 2, 2), 4, S, WEIR_ALLOWED);
    struct weir_bucket lower = {S, found.seen.word};
    assert_false(table_commit_own(&small->table, a, &found, lower)); // other owner bits
    assert_take(small, c, 3, S, WEIR_ALLOWED);
    assert_false(table_commit_own(&small->table, a, &found, lower));
    assert_int_equal(decide(small, WEIR_SHOW, c, 0, S).remaining, 2);
    free(small);
}

static void test_a_key_can_be_blocked_in_a_full_table_if_that_drops_others(void **state)
{
    (void)state;
    struct small *small = open_small(2, EVICTING);
    struct weir_request request = {.rule = &small->rule, .operation = WEIR_BLOCK, .block_ns = S};
    for (uint64_t i = 0; i < 4; i++) {
        assert_take(small, hash_at(i % 2, i + 1, i + 1), 5, S, WEIR_ALLOWED);
    }
    uint64_t b = hash_at(0, 8, 8);
    assert_int_equal(table_decide_hash(&small->table, &request, b, S).verdict, WEIR_BLOCKED);
    assert_take(small, b, 1, S, WEIR_BLOCKED);
    assert_int_equal(stats_of(&small->table.store).evicted_count, 2);
    free(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_is_the_same_as_one_by_one),
        cmocka_unit_test(test_a_slot_is_reused_as_soon_as_it_is_drained_and_no_earlier),
        cmocka_unit_test(test_a_census_counts_what_is_live_and_what_is_free),
        cmocka_unit_test(test_a_census_of_a_large_table_is_an_estimate),
        cmocka_unit_test(test_a_full_table_can_let_pass),
        cmocka_unit_test(test_a_full_table_can_drop_the_bucket_that_is_nearest_to_empty),
        cmocka_unit_test(test_a_drained_slot_goes_before_a_live_bucket),
        cmocka_unit_test(
            test_a_lagging_clock_finds_what_was_dropped_no_emptier_than_it_became_then),
        cmocka_unit_test(test_what_must_stay_is_not_dropped),
        cmocka_unit_test(test_keys_of_one_run_do_not_drop_each_other),
        cmocka_unit_test(test_what_was_dropped_is_not_given_back_to_another_key),
        cmocka_unit_test(test_a_key_can_be_blocked_in_a_full_table_if_that_drops_others),
        cmocka_unit_test(test_an_old_reading_finds_nothing_forgotten_too_early),
        cmocka_unit_test(test_a_new_bucket_knows_the_latest_reading_of_a_reuse),
        cmocka_unit_test(test_a_slot_does_not_pass_between_equal_owner_bits),
        cmocka_unit_test(test_what_was_given_back_keeps_its_line_until_it_would_have_drained),
        cmocka_unit_test(test_what_charges_nothing_makes_no_bucket),
        cmocka_unit_test(test_displaced_keys_are_found_wherever_they_are),
        cmocka_unit_test(test_a_good_hint_is_not_given_to_another_key),
        cmocka_unit_test(test_holds_its_design_load_of_live_buckets),
        cmocka_unit_test(test_uses_no_more_memory_than_it_may),
        cmocka_unit_test(test_homes_are_spread_over_all_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
