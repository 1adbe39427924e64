/* SPDX-License-Identifier: MIT
 *
 * Keys that are locked out, in one thread: what starts a block, what it answers, how it ends, and what
 * happens to its slots. What threads do beside it is in tests/concurrency/. */
#include "../support/small_table.h"

#include "weir/limiter.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* A limiter of its own clock, and the rule that is asked about. */
struct world {
    struct weir_limiter *limiter;
    struct weir_rule rule;
    struct weir_detail detail; // of what was asked last
};

static void bind(struct world *world, const char *text)
{
    struct weir_error error;
    if (weir_rule_from_text(&world->rule, world->limiter, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
}

static struct world open_world(const char *text, const char *store)
{
    const struct weir_limiter_config config = {
        .memory_bytes = WEIR_MEMORY_BYTES_MIN, .seed = {1, 2}, .store = store};
    struct world world;
    struct weir_error error;
    if (weir_limiter_open(&world.limiter, &config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    bind(&world, text);
    return world;
}

static struct weir_decision ask(struct world *world, enum weir_operation operation, uint64_t cost,
                                uint64_t now_ns)
{
    const struct weir_request request = {.rule = &world->rule,
                                         .key = "alice",
                                         .key_len = 5,
                                         .cost_micro = cost * WEIR_UNIT,
                                         .operation = operation,
                                         .detail = &world->detail};
    struct weir_decision decision;
    weir_limiter_decide_at(world->limiter, &request, &decision, 1, now_ns);
    return decision;
}

static struct weir_decision block(struct world *world, uint64_t block_ns, uint64_t now_ns)
{
    const struct weir_request request = {.rule = &world->rule,
                                         .key = "alice",
                                         .key_len = 5,
                                         .operation = WEIR_BLOCK,
                                         .detail = &world->detail,
                                         .block_ns = block_ns};
    struct weir_decision decision;
    weir_limiter_decide_at(world->limiter, &request, &decision, 1, now_ns);
    return decision;
}

static void assert_decision(struct weir_decision got, enum weir_verdict verdict, uint64_t remaining,
                            int64_t retry_after_ns, int64_t reset_after_ns)
{
    assert_int_equal(got.verdict, verdict);
    assert_int_equal(got.remaining, remaining);
    assert_int_equal(got.retry_after_ns, retry_after_ns);
    assert_int_equal(got.reset_after_ns, reset_after_ns);
    assert_int_equal(got.delay_ns, 0);
}

/* That a take of 1 is told that the block ends then. */
static void assert_blocked(struct world *world, uint64_t now_ns, uint64_t ends_ns)
{
    struct weir_decision decision = ask(world, WEIR_TAKE, 1, now_ns);
    assert_int_equal(decision.verdict, WEIR_BLOCKED);
    assert_int_equal(decision.retry_after_ns, ends_ns - now_ns);
}

static void assert_verdict(struct world *world, uint64_t now_ns, enum weir_verdict verdict)
{
    assert_int_equal(ask(world, WEIR_TAKE, 1, now_ns).verdict, verdict);
}

static void test_a_refused_take_blocks_its_key(void **state)
{
    static const char *const LIMITS[] = {"2/s block=30s", "stepped 2/s block=30s",
                                         "3/s capacity=2 block=30s", "queue 2/s block=30s"};
    (void)state;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct world world = open_world(LIMITS[i], "memory:");
        assert_int_equal(ask(&world, WEIR_TAKE, 2, S).verdict, WEIR_ALLOWED);
        struct weir_decision refused = ask(&world, WEIR_TAKE, 1, S);
        assert_int_equal(refused.verdict, WEIR_LIMITED);
        assert_int_equal(refused.retry_after_ns, 30 * S); // before, it would come back in vain
        assert_blocked(&world, S, 31 * S);
        assert_blocked(&world, 31 * S - 1, 31 * S); // nor does this prolong it
        assert_verdict(&world, 31 * S, WEIR_ALLOWED);
        assert_verdict(&world, 31 * S, WEIR_ALLOWED);
        weir_limiter_close(world.limiter);
    }
}

static void test_what_blocks_and_what_does_not(void **state)
{
    (void)state;
    struct world world = open_world("2/s block=1min", "memory:");
    assert_int_equal(ask(&world, WEIR_TAKE, 3, S).verdict, WEIR_NEVER); // no wait would have helped
    assert_int_equal(ask(&world, WEIR_TAKE, 2, S).verdict, WEIR_ALLOWED);
    assert_int_equal(ask(&world, WEIR_CAN_TAKE, 1, S).verdict, WEIR_LIMITED); // only a question
    assert_int_equal(ask(&world, WEIR_TAKE, 0, S).verdict, WEIR_ALLOWED);
    assert_int_equal(ask(&world, WEIR_FILL, 0, S).verdict, WEIR_ALLOWED); // nothing was filled in
    assert_true(world.detail.full);
    assert_verdict(&world, S, WEIR_LIMITED);
    assert_verdict(&world, S, WEIR_BLOCKED);
    bind(&world, "2/s"); // the same bucket, and another policy
    assert_blocked(&world, 2 * S, 61 * S);
    weir_limiter_close(world.limiter);
}

static void test_without_block_nobody_is_blocked(void **state)
{
    (void)state;
    struct world world = open_world("2/s", "memory:");
    for (uint64_t i = 0; i < 10; i++) {
        assert_verdict(&world, S, i < 2 ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(ask(&world, WEIR_FILL, i / 2, S).verdict, WEIR_ALLOWED);
    }
    weir_limiter_close(world.limiter);
}

static void test_a_fill_that_fills_up_blocks(void **state)
{
    (void)state;
    struct world world = open_world("2/s block=10s", "memory:");
    assert_int_equal(ask(&world, WEIR_FILL, 1, S).verdict, WEIR_ALLOWED);
    assert_false(world.detail.full);
    assert_verdict(&world, S, WEIR_ALLOWED);
    assert_int_equal(ask(&world, WEIR_FILL, 1, 2 * S).verdict,
                     WEIR_ALLOWED); // to the brim? not yet
    assert_false(world.detail.full);
    struct weir_decision full = ask(&world, WEIR_FILL, 3, 2 * S); // the event itself is no block
    assert_decision(full, WEIR_ALLOWED, 0, -1, (int64_t)S);
    assert_true(world.detail.full);
    assert_int_equal(world.detail.amount.numerator_low, 2 * world.detail.amount.denominator_low);
    assert_blocked(&world, 2 * S, 12 * S);
    weir_limiter_close(world.limiter);
}

static void test_until_empty_is_until_the_bucket_was_empty_then(void **state)
{
    static const char *const LIMITS[] = {"3/s capacity=2 block=empty", "stepped 2/s block=empty"};
    static const uint64_t EMPTY_NS[] = {666666667, S};
    (void)state;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct world world = open_world(LIMITS[i], "memory:");
        assert_int_equal(ask(&world, WEIR_TAKE, 2, S).verdict, WEIR_ALLOWED);
        struct weir_decision refused = ask(&world, WEIR_TAKE, 1, S);
        assert_int_equal(refused.reset_after_ns, EMPTY_NS[i]);
        assert_blocked(&world, S + 5, S + EMPTY_NS[i]);
        assert_int_equal(ask(&world, WEIR_REFUND, 1, S + 6).verdict, WEIR_ALLOWED);
        assert_blocked(&world, S + 7, S + EMPTY_NS[i]); // it is no part of the bucket
        assert_int_equal(ask(&world, WEIR_TAKE, 2, S + EMPTY_NS[i]).verdict, WEIR_ALLOWED);
        weir_limiter_close(world.limiter);
    }
}

static void test_a_blocked_key_answers_as_the_table_of_verdicts_has_it(void **state)
{
    (void)state;
    struct world world = open_world("10/s", "memory:");
    assert_int_equal(ask(&world, WEIR_TAKE, 4, S).verdict, WEIR_ALLOWED);
    assert_decision(block(&world, 50 * S, S), WEIR_BLOCKED, 6, 50 * (int64_t)S, 400 * (int64_t)MS);
    assert_false(world.detail.existed);
    const int64_t left_ns = 50 * (int64_t)S - 100 * (int64_t)MS;
    const uint64_t now_ns = S + 100 * MS;
    assert_decision(ask(&world, WEIR_TAKE, 1, now_ns), WEIR_BLOCKED, 7, left_ns, 300 * (int64_t)MS);
    assert_decision(ask(&world, WEIR_CAN_TAKE, 1, now_ns), WEIR_BLOCKED, 7, left_ns,
                    300 * (int64_t)MS);
    assert_decision(ask(&world, WEIR_FILL, 2, now_ns), WEIR_BLOCKED, 7, left_ns, 300 * (int64_t)MS);
    assert_false(world.detail.full);
    assert_int_equal(world.detail.amount.numerator_low, // all of it spilled
                     2 * world.detail.amount.denominator_low);
    assert_decision(ask(&world, WEIR_SHOW, 0, now_ns), WEIR_BLOCKED, 7, left_ns, 300 * (int64_t)MS);
    assert_true(world.detail.existed);
    assert_int_equal(world.detail.amount.numerator_low, 3 * world.detail.amount.denominator_low);
    /* Nothing and too much are answered as ever. */
    assert_decision(ask(&world, WEIR_TAKE, 0, now_ns), WEIR_ALLOWED, 7, -1, 300 * (int64_t)MS);
    assert_decision(ask(&world, WEIR_CAN_TAKE, 0, now_ns), WEIR_ALLOWED, 7, -1, 300 * (int64_t)MS);
    assert_decision(ask(&world, WEIR_FILL, 0, now_ns), WEIR_ALLOWED, 7, -1, 300 * (int64_t)MS);
    assert_decision(ask(&world, WEIR_TAKE, 11, now_ns), WEIR_NEVER, 7, -1, 300 * (int64_t)MS);
    /* What gives back goes on, and the block stays. */
    assert_decision(ask(&world, WEIR_REFUND, 1, now_ns), WEIR_ALLOWED, 8, -1, 200 * (int64_t)MS);
    assert_decision(ask(&world, WEIR_RESET, 0, now_ns), WEIR_ALLOWED, 10, -1, 0);
    assert_true(world.detail.existed);
    assert_blocked(&world, now_ns, 51 * S);
    weir_limiter_close(world.limiter);
}

static void test_a_key_without_a_bucket_can_be_blocked(void **state)
{
    (void)state;
    struct world world = open_world("10/s", "memory:");
    assert_decision(block(&world, S, S), WEIR_BLOCKED, 10, (int64_t)S, 0);
    assert_blocked(&world, 2 * S - 1, 2 * S);
    assert_verdict(&world, 2 * S, WEIR_ALLOWED);
    weir_limiter_close(world.limiter);
}

static void test_a_block_is_prolonged_and_never_shortened(void **state)
{
    (void)state;
    struct world world = open_world("10/s", "memory:");
    (void)block(&world, 10 * S, S);
    assert_decision(block(&world, 2 * S, 2 * S), WEIR_BLOCKED, 10, 9 * (int64_t)S, 0);
    assert_true(world.detail.existed);
    assert_blocked(&world, 5 * S, 11 * S);
    assert_decision(block(&world, 10 * S, 2 * S), WEIR_BLOCKED, 10, 10 * (int64_t)S, 0);
    assert_blocked(&world, 5 * S, 12 * S);
    assert_verdict(&world, 12 * S, WEIR_ALLOWED);
    (void)block(&world, S, 13 * S); // one that is over leaves nothing behind
    assert_false(world.detail.existed);
    assert_blocked(&world, 13 * S, 14 * S);
    weir_limiter_close(world.limiter);
}

static void test_a_block_takes_at_least_a_nanosecond_and_at_most_a_century(void **state)
{
    (void)state;
    struct world world = open_world("10/s", "memory:");
    (void)block(&world, 0, S);
    assert_blocked(&world, S, S + 1);
    (void)block(&world, UINT64_MAX, WEIR_NOW_NS_MAX);
    assert_blocked(&world, WEIR_NOW_NS_MAX, WEIR_NOW_NS_MAX + WEIR_BLOCK_NS_MAX);
    weir_limiter_close(world.limiter);
}

static void test_who_is_unblocked_may_take_at_once(void **state)
{
    (void)state;
    struct world world = open_world("10/s", "memory:");
    (void)ask(&world, WEIR_UNBLOCK, 0, S);
    assert_false(world.detail.existed);
    (void)block(&world, 100 * S, S);
    assert_decision(ask(&world, WEIR_UNBLOCK, 0, 2 * S), WEIR_ALLOWED, 10, -1, 0);
    assert_true(world.detail.existed);
    assert_verdict(&world, 2 * S, WEIR_ALLOWED);
    (void)ask(&world, WEIR_UNBLOCK, 0, 2 * S);
    assert_false(world.detail.existed);
    (void)block(&world, S, 2 * S); // the former one would have been longer
    assert_blocked(&world, 2 * S, 3 * S);
    (void)ask(&world, WEIR_UNBLOCK, 0, 3 * S); // over by itself
    assert_false(world.detail.existed);
    weir_limiter_close(world.limiter);
}

static void test_the_single_calls_block_and_unblock(void **state)
{
    (void)state;
    struct world world = open_world("10/s", "memory:");
    struct weir_decision decision =
        weir_limiter_block(world.limiter, &world.rule, "alice", 5, 1000 * S);
    assert_int_equal(decision.verdict, WEIR_BLOCKED);
    assert_int_equal(decision.retry_after_ns, 1000 * S);
    decision = weir_limiter_take(world.limiter, &world.rule, "alice", 5, WEIR_UNIT);
    assert_int_equal(decision.verdict, WEIR_BLOCKED);
    assert_in_range(decision.retry_after_ns, 1, 1000 * S);
    decision = weir_limiter_take(world.limiter, &world.rule, "bob", 3, WEIR_UNIT);
    assert_int_equal(decision.verdict, WEIR_ALLOWED);
    assert_true(weir_limiter_unblock(world.limiter, &world.rule, "alice", 5));
    assert_false(weir_limiter_unblock(world.limiter, &world.rule, "alice", 5));
    weir_limiter_close(world.limiter);
}

static void test_an_old_reading_sees_a_longer_block(void **state)
{
    (void)state;
    struct world world = open_world("10/s", "memory:");
    (void)block(&world, 2 * S, 10 * S);
    assert_blocked(&world, 9 * S, 12 * S);
    (void)block(&world, S, 9 * S); // and does not shorten it
    assert_blocked(&world, 11 * S, 12 * S);
    weir_limiter_close(world.limiter);
}

static struct weir_decision decide(struct small *small, enum weir_operation operation,
                                   uint64_t hash, uint64_t now_ns)
{
    struct weir_request request = {
        .rule = &small->rule, .cost_micro = WEIR_UNIT, .operation = operation, .block_ns = 100 * S};
    return table_decide_hash(&small->table, &request, hash, now_ns);
}

static bool has_slot(struct small *small, uint64_t hash)
{
    struct found found;
    return table_find(&small->table, hash, table_home_of(&small->table, hash), &found);
}

static void test_a_blocked_keys_slots_are_not_given_away(void **state)
{
    (void)state;
    struct small *small = open_small(2, "1/s"); // four slots
    uint64_t alice = hash_at(0, 1, 1);
    assert_int_equal(decide(small, WEIR_BLOCK, alice, S).verdict, WEIR_BLOCKED);
    assert_true(has_slot(small, alice) && has_slot(small, table_block_of(alice)));
    for (uint64_t i = 2; i < 40; i++) { // drained buckets give way to each other
        (void)decide(small, WEIR_TAKE, hash_at(i & 1, i, i), 2 * i * S);
        assert_int_equal(decide(small, WEIR_TAKE, alice, 2 * i * S).verdict, WEIR_BLOCKED);
    }
    for (uint64_t i = 60; i < 80; i++) { // over: now these do too
        assert_int_equal(decide(small, WEIR_TAKE, hash_at(i & 1, i, i), 2 * i * S).verdict,
                         WEIR_ALLOWED);
    }
    assert_false(has_slot(small, alice) || has_slot(small, table_block_of(alice)));
    assert_int_equal(decide(small, WEIR_TAKE, alice, 200 * S).verdict, WEIR_ALLOWED);
    free(small);
}

static void test_a_key_that_was_let_in_gives_its_slots_away(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s"); // two slots
    uint64_t alice = hash_at(0, 1, 1);
    (void)decide(small, WEIR_BLOCK, alice, S);
    assert_int_equal(decide(small, WEIR_TAKE, hash_at(0, 2, 2), S).verdict, WEIR_FAILED);
    (void)decide(small, WEIR_UNBLOCK, alice, 2 * S);
    assert_int_equal(decide(small, WEIR_TAKE, hash_at(0, 2, 2), 2 * S + 1).verdict, WEIR_ALLOWED);
    free(small);
}

static void test_a_reset_of_all_lets_everybody_in(void **state)
{
    (void)state;
    struct small *small = open_small(16, "1/s");
    for (uint64_t i = 1; i < 10; i++) {
        (void)decide(small, WEIR_TAKE, hash_at(i, i, i), S);
        (void)decide(small, WEIR_BLOCK, hash_at(i, i, i), S);
    }
    (void)decide(small, WEIR_BLOCK, hash_at(10, 10, 10), S); // which holds nothing
    assert_int_equal(table_live_count(&small->table, S), 9);
    assert_int_equal(table_reset_all(&small->table.store, S), 9);
    for (uint64_t i = 1; i < 11; i++) {
        assert_int_equal(decide(small, WEIR_TAKE, hash_at(i, i, i), S).verdict, WEIR_ALLOWED);
    }
    free(small);
}

static void test_in_a_full_table_nobody_can_be_blocked(void **state)
{
    (void)state;
    struct small *small = open_small(1, "1/s capacity=2 block=10s");
    uint64_t alice = hash_at(0, 1, 1);
    uint64_t bob = hash_at(0, 2, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(decide(small, WEIR_TAKE, alice, S).verdict, WEIR_ALLOWED);
        assert_int_equal(decide(small, WEIR_TAKE, bob, S).verdict, WEIR_ALLOWED);
    }
    uint64_t full_count = small->stripes[0].full_count;
    assert_int_equal(decide(small, WEIR_TAKE, alice, S).verdict,
                     WEIR_LIMITED); // the refusal stands
    assert_int_equal(small->stripes[0].full_count, ++full_count);
    assert_int_equal(decide(small, WEIR_TAKE, alice, S).verdict, WEIR_LIMITED);
    assert_int_equal(small->stripes[0].full_count, ++full_count);
    struct weir_decision decision = decide(small, WEIR_BLOCK, alice, S);
    assert_int_equal(decision.verdict, WEIR_FAILED);
    assert_int_equal(decision.retry_after_ns, -1);
    assert_int_equal(decide(small, WEIR_BLOCK, hash_at(0, 3, 3), S).verdict, WEIR_FAILED);
    assert_int_equal(decide(small, WEIR_TAKE, alice, 2 * S).verdict, WEIR_ALLOWED);
    free(small);
}

static void test_a_block_lies_in_the_stripe_of_its_bucket(void **state)
{
    (void)state;
    struct table table = {.stripe_lines = 1024};
    for (table.stripe_count = 1; table.stripe_count < 300; table.stripe_count += 7) {
        for (uint64_t i = 0; i < table.stripe_count; i++) { // around where one ends
            uint64_t edge = UINT64_MAX / table.stripe_count * i;
            for (uint64_t step = 0; step < 50; step++) {
                uint64_t hash = edge + step * (TABLE_BLOCK_BITS / 20) - 2 * TABLE_BLOCK_BITS;
                uint64_t home = table_home_of(&table, hash);
                uint64_t other = table_home_of(&table, table_block_of(hash));
                assert_int_equal(home / table.stripe_lines, other / table.stripe_lines);
                assert_int_not_equal(home, other);
                assert_int_equal(table_block_of(table_block_of(hash)), hash);
            }
        }
    }
}

static void test_a_batch_knows_what_its_first_requests_have_blocked(void **state)
{
    (void)state;
    struct world world = open_world("2/s block=30s", "memory:");
    struct weir_request requests[5];
    struct weir_decision decisions[5];
    static const enum weir_verdict EXPECTED[] = {WEIR_ALLOWED, WEIR_ALLOWED, WEIR_LIMITED,
                                                 WEIR_BLOCKED, WEIR_BLOCKED};
    for (size_t i = 0; i < 5; i++) {
        requests[i] = (struct weir_request){
            .rule = &world.rule, .key = "alice", .key_len = 5, .cost_micro = WEIR_UNIT};
    }
    weir_limiter_decide_at(world.limiter, requests, decisions, 5, S);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(decisions[i].verdict, EXPECTED[i]);
    }
    weir_limiter_close(world.limiter);
}

/* Asks for alice under all of these rules together. */
static struct weir_decision ask_together(struct world *world, const struct weir_rule *rules,
                                         size_t count, enum weir_operation operation,
                                         uint64_t now_ns, struct weir_decision *each)
{
    struct weir_request requests[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < count; i++) {
        requests[i] = (struct weir_request){.rule = &rules[i],
                                            .key = "alice",
                                            .key_len = 5,
                                            .cost_micro = WEIR_UNIT,
                                            .operation = operation,
                                            .and_next = i + 1 < count};
    }
    weir_limiter_decide_at(world->limiter, requests, each, count, now_ns);
    return weir_decision_of_all(each, count, NULL);
}

static void test_of_several_limits_the_one_that_refuses_blocks(void **state)
{
    static const char *const TEXTS[][2] = {{"5/s", "2/s block=30s"}, {"2/s block=30s", "5/s"}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world world = open_world(TEXTS[i][0], "memory:");
        struct weir_rule rules[2] = {world.rule};
        struct weir_decision each[2];
        bind(&world, TEXTS[i][1]);
        rules[1] = world.rule;
        for (int turn = 0; turn < 2; turn++) {
            assert_int_equal(ask_together(&world, rules, 2, WEIR_TAKE, S, each).verdict,
                             WEIR_ALLOWED);
        }
        assert_int_equal(ask_together(&world, rules, 2, WEIR_CAN_TAKE, S, each).verdict,
                         WEIR_LIMITED);
        assert_int_equal(ask_together(&world, rules, 2, WEIR_TAKE, S, each).verdict, WEIR_LIMITED);
        struct weir_decision all = ask_together(&world, rules, 2, WEIR_TAKE, 11 * S, each);
        assert_decision(all, WEIR_BLOCKED, 2, 20 * (int64_t)S, 0); // all of it, until 31 s
        assert_int_equal(each[1 - i].verdict, WEIR_BLOCKED);
        assert_int_equal(each[i].verdict, WEIR_ALLOWED);
        assert_int_equal(each[i].remaining, 5); // nothing was charged
        assert_int_equal(ask_together(&world, rules, 2, WEIR_TAKE, 31 * S, each).verdict,
                         WEIR_ALLOWED);
        assert_int_equal(each[i].remaining, 4);
        assert_int_equal(each[1 - i].remaining, 1);
        weir_limiter_close(world.limiter);
    }
}

static void test_several_limits_that_refuse_block_each(void **state)
{
    (void)state;
    struct world world = open_world("1/s block=10s", "memory:");
    struct weir_rule rules[3] = {world.rule};
    struct weir_decision each[3];
    bind(&world, "1/min block=20s");
    rules[1] = world.rule;
    bind(&world, "1/h");
    rules[2] = world.rule;
    (void)ask_together(&world, rules, 3, WEIR_TAKE, S, each);
    assert_int_equal(ask_together(&world, rules, 3, WEIR_TAKE, S, each).verdict, WEIR_LIMITED);
    struct weir_decision all = ask_together(&world, rules, 3, WEIR_TAKE, S, each);
    assert_int_equal(all.verdict, WEIR_BLOCKED);
    assert_int_equal(each[0].retry_after_ns, 10 * S);
    assert_int_equal(each[1].retry_after_ns, 20 * S);
    assert_int_equal(each[2].verdict, WEIR_LIMITED);
    weir_limiter_close(world.limiter);
}

static void test_who_is_refused_for_another_reason_is_not_blocked(void **state)
{
    (void)state;
    struct world world = open_world("1/s block=10s", "memory:");
    struct weir_rule rules[2] = {world.rule};
    struct weir_decision each[2];
    bind(&world, "0.5/s capacity=0.5"); // under which a cost of 1 is never
    rules[1] = world.rule;
    world.rule = rules[0];
    assert_verdict(&world, S, WEIR_ALLOWED);
    assert_int_equal(ask_together(&world, rules, 2, WEIR_TAKE, S, each).verdict, WEIR_NEVER);
    assert_int_equal(each[0].verdict, WEIR_LIMITED);
    assert_verdict(&world, 2 * S, WEIR_ALLOWED);
    weir_limiter_close(world.limiter);
}

static void test_memory_that_processes_share_keeps_blocks_too(void **state)
{
    (void)state;
    struct world world = open_world("2/s block=30s", "memory:?shared=yes");
    for (int i = 0; i < 2; i++) {
        assert_verdict(&world, S, WEIR_ALLOWED);
    }
    assert_verdict(&world, S, WEIR_LIMITED);
    assert_blocked(&world, 2 * S, 31 * S);
    weir_limiter_close(world.limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_take_blocks_its_key),
        cmocka_unit_test(test_what_blocks_and_what_does_not),
        cmocka_unit_test(test_without_block_nobody_is_blocked),
        cmocka_unit_test(test_a_fill_that_fills_up_blocks),
        cmocka_unit_test(test_until_empty_is_until_the_bucket_was_empty_then),
        cmocka_unit_test(test_a_blocked_key_answers_as_the_table_of_verdicts_has_it),
        cmocka_unit_test(test_a_key_without_a_bucket_can_be_blocked),
        cmocka_unit_test(test_a_block_is_prolonged_and_never_shortened),
        cmocka_unit_test(test_a_block_takes_at_least_a_nanosecond_and_at_most_a_century),
        cmocka_unit_test(test_who_is_unblocked_may_take_at_once),
        cmocka_unit_test(test_the_single_calls_block_and_unblock),
        cmocka_unit_test(test_an_old_reading_sees_a_longer_block),
        cmocka_unit_test(test_a_blocked_keys_slots_are_not_given_away),
        cmocka_unit_test(test_a_key_that_was_let_in_gives_its_slots_away),
        cmocka_unit_test(test_a_reset_of_all_lets_everybody_in),
        cmocka_unit_test(test_in_a_full_table_nobody_can_be_blocked),
        cmocka_unit_test(test_a_block_lies_in_the_stripe_of_its_bucket),
        cmocka_unit_test(test_a_batch_knows_what_its_first_requests_have_blocked),
        cmocka_unit_test(test_of_several_limits_the_one_that_refuses_blocks),
        cmocka_unit_test(test_several_limits_that_refuse_block_each),
        cmocka_unit_test(test_who_is_refused_for_another_reason_is_not_blocked),
        cmocka_unit_test(test_memory_that_processes_share_keeps_blocks_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
