/* SPDX-License-Identifier: MIT
 *
 * Swap: the rows that a question reads and writes, and how a blocked bucket lies in them. That the answers are those of
 * the table property_swap.c shows. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "core/bucket_math.h"
#include "store/swap.h"

#define MS     UINT64_C(1000000)
#define S      UINT64_C(1000000000)
#define NOW_NS (UINT64_C(1790000000) * S) // in September 2026

static const uint8_t NAMES[][BUCKET_NAME_BYTES] = {{1}, {2}, {3}, {4}};

static struct weir_rule rule_of(const char *text)
{
    struct weir_rule rule = {.hash_key = {1, 2}};
    struct weir_error error;
    if (weir_limit_from_text(&rule.limit, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return rule;
}

/* One bucket, and what was asked about it last. */
struct world {
    struct weir_rule rule;
    struct swap_state state;
    struct weir_decision decision;
    struct weir_detail detail;
};

static struct world world_of(const char *text)
{
    return (struct world){.rule = rule_of(text)};
}

/* Asks, and writes. Returns whether there was anything to write. */
static bool ask_for(struct world *world, enum weir_operation operation, uint64_t cost_micro,
                    uint64_t block_ns, uint64_t now_ns)
{
    const struct weir_request request = {.rule = &world->rule,
                                         .cost_micro = cost_micro,
                                         .operation = operation,
                                         .detail = &world->detail,
                                         .block_ns = block_ns};
    struct swap_state next;
    bool is_change =
        swap_decide(&request, NAMES, 1, &world->state, now_ns, &next, &world->decision);
    bool is_same = swap_is_same_row(next.bucket, world->state.bucket)
                   && swap_is_same_row(next.block, world->state.block);
    assert_int_equal(is_change, !is_same);
    world->state = next;
    return is_change;
}

static bool ask(struct world *world, enum weir_operation operation, uint64_t cost, uint64_t now_ns)
{
    return ask_for(world, operation, cost * WEIR_UNIT, 0, now_ns);
}

static void assert_row(struct swap_row row, uint64_t ns, uint64_t rest)
{
    assert_int_equal(row.ns, ns);
    assert_int_equal(row.rest, rest);
}

static void test_a_refund_writes_the_row_of_the_bucket(void **state)
{
    (void)state;
    struct world world = world_of("10/s");
    world.state.bucket = (struct swap_row){NOW_NS + 500 * MS, 0};
    assert_true(ask(&world, WEIR_REFUND, 1, NOW_NS));
    assert_row(world.state.bucket, NOW_NS + 400 * MS, 0);
    assert_row(world.state.block, 0, 0);
    assert_int_equal(world.decision.verdict, WEIR_ALLOWED);
    assert_int_equal(world.decision.remaining, 6);
    assert_int_equal(world.decision.reset_after_ns, 400 * MS);
}

static void test_a_rest_lies_in_the_row(void **state)
{
    (void)state;
    struct world world = world_of("stepped 3/7s capacity=5"); // 3,000,000 millionths a step
    assert_true(ask(&world, WEIR_TAKE, 1, NOW_NS));
    assert_row(world.state.bucket, NOW_NS + 7 * S, 2000000);
    assert_false(swap_is_displaced(world.state.bucket.ns));
}

static void test_what_only_looks_and_a_refusal_write_nothing(void **state)
{
    (void)state;
    struct world world = world_of("fixed 1/s");
    assert_true(ask(&world, WEIR_TAKE, 1, NOW_NS));
    assert_false(ask(&world, WEIR_TAKE, 1, NOW_NS));
    assert_int_equal(world.decision.verdict, WEIR_LIMITED);
    assert_int_equal(world.decision.retry_after_ns, S);
    assert_false(ask(&world, WEIR_CAN_TAKE, 1, NOW_NS + S));
    assert_int_equal(world.decision.verdict, WEIR_ALLOWED);
    assert_false(ask(&world, WEIR_SHOW, 0, NOW_NS));
    assert_true(world.detail.existed);
    assert_false(ask(&world, WEIR_TAKE, 0, NOW_NS));
    assert_false(ask(&world, WEIR_TAKE, 2, NOW_NS));
    assert_int_equal(world.decision.verdict, WEIR_NEVER);
}

static void test_a_missing_bucket_is_empty(void **state)
{
    (void)state;
    struct world world = world_of("10/s");
    assert_false(ask(&world, WEIR_RESET, 0, NOW_NS));
    assert_false(world.detail.existed);
    assert_false(ask(&world, WEIR_REFUND, 5, NOW_NS));
    assert_true(ask(&world, WEIR_FILL, 25, NOW_NS));
    assert_row(world.state.bucket, NOW_NS + S, 0);
    assert_int_equal(world.detail.amount.numerator_low / world.detail.amount.denominator_low, 15);
    assert_true(world.detail.full);
    assert_true(ask(&world, WEIR_RESET, 0, NOW_NS));
    assert_true(world.detail.existed);
    assert_row(world.state.bucket, NOW_NS, 0);
}

static void test_a_blocked_bucket_is_displaced(void **state)
{
    (void)state;
    struct world world = world_of("3/7s capacity=5"); // D = 3, and the rest is 1
    assert_true(ask(&world, WEIR_TAKE, 1, NOW_NS));
    struct swap_row before = world.state.bucket;
    assert_int_equal(before.rest, 1);
    assert_true(ask_for(&world, WEIR_BLOCK, 0, 20 * S, NOW_NS));
    assert_row(world.state.bucket, SWAP_DISPLACED_NS + 1, 0);
    assert_row(world.state.block, NOW_NS + 20 * S, before.ns);
    assert_true(swap_is_displaced(world.state.bucket.ns));
    assert_int_equal(swap_forgets_at_ns(&world.state), NOW_NS + 20 * S);
    assert_int_equal(world.decision.verdict, WEIR_BLOCKED);
    assert_int_equal(world.decision.retry_after_ns, 20 * S);
    assert_false(world.detail.existed);

    assert_false(ask(&world, WEIR_TAKE, 1, NOW_NS + S));
    assert_int_equal(world.decision.verdict, WEIR_BLOCKED);
    assert_int_equal(world.decision.retry_after_ns, 19 * S);
    assert_int_equal(world.decision.remaining, 4);

    assert_true(ask(&world, WEIR_REFUND, 1, NOW_NS + S)); // the block goes on
    assert_row(world.state.bucket, SWAP_DISPLACED_NS, 0);
    assert_row(world.state.block, NOW_NS + 20 * S, NOW_NS + S);

    assert_true(ask(&world, WEIR_UNBLOCK, 0, NOW_NS + 2 * S));
    assert_true(world.detail.existed);
    assert_row(world.state.bucket, NOW_NS + S, 0);
    assert_row(world.state.block, NOW_NS + 2 * S, 0);
}

/* The arithmetic of take_one.sql: moment + span <= reading + full, by differences. A rest of 0 and the span's make at most
 * one nanosecond. */
static void test_no_plain_take_fits_a_displaced_row(void **state)
{
    (void)state;
    const int64_t nine_years_ns = (int64_t)(9 * 365 * UINT64_C(86400) * S);
    const int64_t readings_ns[] = {0, 1, (int64_t)NOW_NS, (int64_t)WEIR_NOW_NS_MAX};
    const int64_t fulls_ns[] = {0, 1, (int64_t)S, (int64_t)WEIR_SPAN_NS_MAX,
                                (int64_t)WEIR_SPAN_NS_MAX + nine_years_ns};
    for (int i = 0; i < 4 * 5 * 2 * 2; i++) {
        int64_t reading_ns = readings_ns[i % 4];
        int64_t full_ns = fulls_ns[i / 4 % 5];
        int64_t span_ns = i / 20 % 2 == 0 ? full_ns : 0;
        int64_t ns = (int64_t)(SWAP_DISPLACED_NS + (i / 40 % 2 == 0 ? 0 : BUCKET_REST_MASK));
        int64_t beyond_ns;
        assert_false(__builtin_sub_overflow(ns, reading_ns, &beyond_ns));
        assert_false(__builtin_sub_overflow(beyond_ns, full_ns - span_ns, &beyond_ns));
        assert_false(__builtin_add_overflow(beyond_ns, 1, &beyond_ns));
        assert_true(beyond_ns > 1); // also without that nanosecond
    }
}

static void test_a_block_that_is_over_ends_for_all_with_the_first_that_it_refused(void **state)
{
    (void)state;
    struct world world = world_of("10/s");
    assert_true(ask_for(&world, WEIR_BLOCK, 0, S, NOW_NS));
    assert_false(ask(&world, WEIR_TAKE, 0, NOW_NS + S)); // no block refuses these
    assert_false(ask(&world, WEIR_TAKE, 11, NOW_NS + S));
    assert_true(swap_is_displaced(world.state.bucket.ns));
    assert_true(ask(&world, WEIR_CAN_TAKE, 1, NOW_NS + S));
    assert_int_equal(world.decision.verdict, WEIR_ALLOWED);
    assert_row(world.state.bucket, 0, 0);
    assert_row(world.state.block, NOW_NS + S, 0);
    assert_true(ask(&world, WEIR_TAKE, 1, NOW_NS + S - 1)); // an older reading finds no block
    assert_int_equal(world.decision.verdict, WEIR_ALLOWED);
}

static void test_a_refusal_blocks_and_a_later_one_does_not_prolong_it(void **state)
{
    (void)state;
    struct world world = world_of("1/s block=10s");
    assert_true(ask(&world, WEIR_TAKE, 1, NOW_NS));
    assert_true(ask(&world, WEIR_TAKE, 1, NOW_NS));
    assert_int_equal(world.decision.verdict, WEIR_LIMITED);
    assert_int_equal(world.decision.retry_after_ns, 10 * S);
    assert_row(world.state.bucket, SWAP_DISPLACED_NS, 0);
    assert_row(world.state.block, NOW_NS + 10 * S, NOW_NS + S);
    assert_false(ask(&world, WEIR_TAKE, 1, NOW_NS + 5 * S));
    assert_int_equal(world.decision.verdict, WEIR_BLOCKED);
    assert_int_equal(world.decision.retry_after_ns, 5 * S);
    assert_true(ask(&world, WEIR_TAKE, 1, NOW_NS + 10 * S));
    assert_int_equal(world.decision.verdict, WEIR_ALLOWED);
    assert_row(world.state.bucket, NOW_NS + 11 * S, 0);
}

static void test_the_rows_are_kept_as_long_as_they_say_anything(void **state)
{
    (void)state;
    struct swap_state usual = {{.ns = NOW_NS, .rest = 5}, {.ns = 7}};
    assert_int_equal(swap_forgets_at_ns(&usual), NOW_NS + 1);
    struct swap_state blocked = {{.ns = SWAP_DISPLACED_NS + 5}, {.ns = NOW_NS, .rest = 9}};
    assert_int_equal(swap_forgets_at_ns(&blocked), NOW_NS);
    blocked.block.rest = NOW_NS + S;
    assert_int_equal(swap_forgets_at_ns(&blocked), NOW_NS + S + 1);
}

/* A prune takes the row of the block first. */
static void test_a_displaced_row_alone_is_an_empty_bucket(void **state)
{
    (void)state;
    struct world world = world_of("10/s");
    world.state.bucket = (struct swap_row){SWAP_DISPLACED_NS + 3, 0};
    assert_true(ask(&world, WEIR_TAKE, 10, NOW_NS));
    assert_int_equal(world.decision.verdict, WEIR_ALLOWED);
    assert_row(world.state.bucket, NOW_NS + S, 0);
}

static void test_a_strange_rest_is_a_nanosecond(void **state)
{
    (void)state;
    struct world world = world_of("10/s");
    world.state.bucket = (struct swap_row){NOW_NS + 100 * MS - 1, UINT64_C(1) << 62};
    assert_false(ask(&world, WEIR_SHOW, 0, NOW_NS));
    assert_int_equal(world.decision.reset_after_ns, 100 * MS);
    assert_true(ask(&world, WEIR_FILL, 1, NOW_NS));
    assert_row(world.state.bucket, NOW_NS + 200 * MS, 0);
}

/* ---- runs ---- */

struct run {
    struct weir_rule rules[3];
    struct weir_request requests[3];
    struct swap_state states[3];
    struct weir_decision decisions[3];
};

static void start(struct run *run, const char *a, const char *b, const char *c)
{
    *run = (struct run){.rules = {rule_of(a), rule_of(b), rule_of(c)}};
    for (size_t i = 0; i < 3; i++) {
        run->requests[i] = (struct weir_request){
            .rule = &run->rules[i], .cost_micro = WEIR_UNIT, .and_next = i < 2};
    }
}

static bool ask_run(struct run *run, uint64_t now_ns)
{
    struct swap_state next[3];
    bool is_change =
        swap_decide(run->requests, NAMES, 3, run->states, now_ns, next, run->decisions);
    assert_int_equal(is_change, memcmp(next, run->states, sizeof next) != 0);
    memcpy(run->states, next, sizeof next);
    return is_change;
}

static void test_a_run_is_charged_as_a_whole_or_not_at_all(void **state)
{
    (void)state;
    struct run run;
    start(&run, "10/s", "fixed 2/s", "sliding 5/s");
    assert_true(ask_run(&run, NOW_NS));
    assert_true(ask_run(&run, NOW_NS));
    assert_row(run.states[0].bucket, NOW_NS + 200 * MS, 0);
    assert_row(run.states[1].bucket, NOW_NS + S, 2 * WEIR_UNIT);
    assert_false(ask_run(&run, NOW_NS));
    assert_int_equal(run.decisions[0].verdict, WEIR_ALLOWED);
    assert_int_equal(run.decisions[0].remaining, 8); // as it is
    assert_int_equal(run.decisions[1].verdict, WEIR_LIMITED);
    run.requests[1].shadow = true;
    assert_true(ask_run(&run, NOW_NS));
    assert_int_equal(run.decisions[1].verdict, WEIR_LIMITED);
    assert_int_equal(run.decisions[0].remaining, 7);
    assert_row(run.states[1].bucket, NOW_NS + S, 2 * WEIR_UNIT);
}

static void test_a_run_blocks_the_keys_that_refuse(void **state)
{
    (void)state;
    struct run run;
    start(&run, "10/s block=5s", "1/s block=7s", "1/s block=empty");
    assert_true(ask_run(&run, NOW_NS));
    run.requests[2].shadow = true;
    run.requests[0].cost_micro = 11 * WEIR_UNIT; // never: nobody is blocked
    assert_false(ask_run(&run, NOW_NS));
    run.requests[0].cost_micro = WEIR_UNIT;
    assert_true(ask_run(&run, NOW_NS));
    assert_false(swap_is_displaced(run.states[0].bucket.ns)); // allows
    assert_true(swap_is_displaced(run.states[1].bucket.ns));
    assert_false(swap_is_displaced(run.states[2].bucket.ns)); // in shadow
    assert_int_equal(run.decisions[1].retry_after_ns, 7 * S);
    assert_false(ask_run(&run, NOW_NS + S));
    assert_int_equal(run.decisions[1].verdict, WEIR_BLOCKED);
    assert_int_equal(run.decisions[1].retry_after_ns, 6 * S);
    assert_int_equal(run.decisions[0].verdict, WEIR_ALLOWED);
    assert_true(ask_run(&run, NOW_NS + 7 * S));
    assert_row(run.states[1].bucket, NOW_NS + 8 * S, 0);
}

static void test_a_can_take_of_a_run_charges_and_blocks_nobody(void **state)
{
    (void)state;
    struct run run;
    start(&run, "10/s", "1/s block=7s", "1/s");
    assert_true(ask_run(&run, NOW_NS));
    for (size_t i = 0; i < 3; i++) {
        run.requests[i].operation = WEIR_CAN_TAKE;
    }
    assert_false(ask_run(&run, NOW_NS));
    assert_int_equal(run.decisions[1].verdict, WEIR_LIMITED);
    assert_false(ask_run(&run, NOW_NS + S));
    assert_int_equal(run.decisions[1].verdict, WEIR_ALLOWED);
}

/* ---- what is refused ---- */

static void assert_nonsense(struct run *run)
{
    struct weir_detail detail = {.existed = true};
    run->requests[0].detail = &detail;
    assert_false(ask_run(run, NOW_NS));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(run->decisions[i].verdict, WEIR_FAILED);
        assert_int_equal(run->decisions[i].retry_after_ns, -1);
    }
    assert_false(detail.existed);
    assert_int_equal(detail.amount.denominator_low, 1);
}

static void test_nonsense_is_an_error(void **state)
{
    (void)state;
    struct run run;
    start(&run, "10/s", "10/s", "10/s");
    run.requests[1].operation = WEIR_CAN_TAKE;
    assert_nonsense(&run);
    start(&run, "10/s", "10/s", "10/s");
    run.rules[2] = (struct weir_rule){.limit = {.kind = 0}};
    assert_nonsense(&run);
    start(&run, "10/s", "10/s", "10/s");
    for (size_t i = 0; i < 3; i++) {
        run.requests[i].operation = WEIR_FILL;
    }
    assert_nonsense(&run);
    start(&run, "10/s", "window 3/s", "10/s"); // as yet
    assert_nonsense(&run);

    const uint8_t twice[][BUCKET_NAME_BYTES] = {{1}, {2}, {1}};
    struct swap_state next[3];
    start(&run, "10/s", "10/s", "10/s");
    assert_false(swap_decide(run.requests, twice, 3, run.states, NOW_NS, next, run.decisions));
    assert_int_equal(run.decisions[0].verdict, WEIR_FAILED);

    struct world world = world_of("10/s");
    assert_false(ask(&world, (enum weir_operation)(WEIR_UNBLOCK + 1), 1, NOW_NS));
    assert_int_equal(world.decision.verdict, WEIR_FAILED);
}

static void test_takes_of_buckets_and_queues_are_plain(void **state)
{
    (void)state;
    struct run run;
    start(&run, "10/s", "queue 3/s", "3/7s");
    assert_false(swap_is_needed(run.requests, 3));
    run.requests[2].operation = WEIR_CAN_TAKE;
    assert_false(swap_is_needed(&run.requests[2], 1));
    run.requests[2].operation = WEIR_REFUND;
    assert_true(swap_is_needed(&run.requests[2], 1));
    run.requests[1].shadow = true;
    assert_true(swap_is_needed(run.requests, 2));
    assert_false(swap_is_needed(&run.requests[1], 1)); // alone it is a take like any other
    run.requests[1].shadow = false;
    assert_false(swap_is_needed(run.requests, 2));
    run.requests[1].operation = WEIR_CAN_TAKE;
    assert_true(swap_is_needed(run.requests, 2)); // which answers by an error
    static const char *const OTHERS[] = {"stepped 1/s", "fixed 1/s",    "sliding 1/s",
                                         "window 1/s",  "1/s block=1s", "queue 1/s block=empty"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        run.rules[0] = rule_of(OTHERS[i]);
        assert_true(swap_is_needed(run.requests, 1));
    }
}

static void test_a_bucket_and_its_block_are_neighbours(void **state)
{
    (void)state;
    const uint8_t name[BUCKET_NAME_BYTES] = {9, 8, [BUCKET_NAME_BYTES - 1] = 6};
    uint8_t block[BUCKET_NAME_BYTES], again[BUCKET_NAME_BYTES];
    swap_block_name(block, name);
    assert_memory_equal(block, name, BUCKET_NAME_BYTES - 1);
    assert_int_equal(block[BUCKET_NAME_BYTES - 1], 7);
    swap_block_name(again, block);
    assert_memory_equal(again, name, BUCKET_NAME_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refund_writes_the_row_of_the_bucket),
        cmocka_unit_test(test_a_rest_lies_in_the_row),
        cmocka_unit_test(test_what_only_looks_and_a_refusal_write_nothing),
        cmocka_unit_test(test_a_missing_bucket_is_empty),
        cmocka_unit_test(test_a_blocked_bucket_is_displaced),
        cmocka_unit_test(test_no_plain_take_fits_a_displaced_row),
        cmocka_unit_test(test_a_block_that_is_over_ends_for_all_with_the_first_that_it_refused),
        cmocka_unit_test(test_a_refusal_blocks_and_a_later_one_does_not_prolong_it),
        cmocka_unit_test(test_the_rows_are_kept_as_long_as_they_say_anything),
        cmocka_unit_test(test_a_displaced_row_alone_is_an_empty_bucket),
        cmocka_unit_test(test_a_strange_rest_is_a_nanosecond),
        cmocka_unit_test(test_a_run_is_charged_as_a_whole_or_not_at_all),
        cmocka_unit_test(test_a_run_blocks_the_keys_that_refuse),
        cmocka_unit_test(test_a_can_take_of_a_run_charges_and_blocks_nobody),
        cmocka_unit_test(test_nonsense_is_an_error),
        cmocka_unit_test(test_takes_of_buckets_and_queues_are_plain),
        cmocka_unit_test(test_a_bucket_and_its_block_are_neighbours),
    };
    return cmocka_run_group_tests_name("swap", tests, NULL, NULL);
}
