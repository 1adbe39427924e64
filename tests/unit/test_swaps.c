/* SPDX-License-Identifier: MIT
 *
 * The rounds of a swap, without a database: what is read, what is written together, and what is asked again. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/swaps.h"

#define S      UINT64_C(1000000000)
#define NOW_NS (UINT64_C(1790000000) * S) // the store's clock, in September 2026
#define CLOCK  (UINT64_C(5000) * S)       // this machine's
#define LEFT   (UINT64_C(20000000))       // until the deadline

enum { ROWS_MAX = 64, RUNS_MAX = 16 };

/* A store of a few rows, and one batch for each question or run. */
struct world {
    uint8_t names[ROWS_MAX][BUCKET_NAME_BYTES];
    struct swap_row rows[ROWS_MAX];
    size_t row_count;
    struct batch *batches[RUNS_MAX];
    struct swap_run runs[RUNS_MAX];
    struct swaps swaps;
};

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    world->swaps.runs = world->runs;
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    swaps_free(&world->swaps);
    for (size_t i = 0; i < RUNS_MAX; i++) {
        if (world->batches[i] != NULL) {
            free(world->batches[i]->ask);
        }
        free(world->batches[i]);
    }
    free(world);
    return 0;
}

/* The row of this name, which is made if it is missing. */
static struct swap_row *row_of(struct world *world, const uint8_t *name)
{
    size_t i = 0;
    while (i < world->row_count && memcmp(world->names[i], name, BUCKET_NAME_BYTES) != 0) {
        i++;
    }
    assert_true(i < ROWS_MAX);
    if (i == world->row_count) {
        memcpy(world->names[world->row_count++], name, BUCKET_NAME_BYTES);
    }
    return &world->rows[i];
}

static struct weir_rule rule_of(const char *text)
{
    struct weir_rule rule = {.hash_key = {1, 2}};
    struct weir_error error;
    if (weir_limit_from_text(&rule.limit, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return rule;
}

/* Adds a batch that asks the same of one key, or of several as a run. Returns its questions. */
static struct question *ask(struct world *world, enum weir_operation operation, uint64_t cost,
                            const char *limit, const char *const *keys, size_t count)
{
    struct weir_rule rule = rule_of(limit);
    struct weir_request requests[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < count; i++) {
        requests[i] = (struct weir_request){.rule = &rule,
                                            .key = keys[i],
                                            .key_len = strlen(keys[i]),
                                            .cost_micro = cost * WEIR_UNIT,
                                            .operation = operation,
                                            .and_next = i + 1 < count};
    }
    struct batch *batch = calloc(1, sizeof *batch + count * sizeof(struct weir_decision));
    batch->count = (uint32_t)count;
    batch->deadline_ns = CLOCK + LEFT;
    batch->ask = calloc(1, question_ask_bytes(NULL, requests, count));
    question_copy(NULL, batch, requests);
    world->batches[world->swaps.run_count] = batch;
    swaps_add(&world->swaps, ask_of(batch)->questions);
    return ask_of(batch)->questions;
}

static struct question *ask_one(struct world *world, enum weir_operation operation, uint64_t cost,
                                const char *key)
{
    return ask(world, operation, cost, "10/s", &key, 1);
}

/* Reads what a round wants, and decides. */
static uint32_t decide(struct world *world, uint64_t clock_ns)
{
    struct swap_rows rows;
    assert_true(swaps_begin(&world->swaps, &rows));
    for (size_t i = 0; i < rows.count; i++) {
        swaps_see(&world->swaps, i, *row_of(world, rows.names[i]));
    }
    return swaps_decide(&world->swaps, NOW_NS, clock_ns);
}

/* Writes a group, as a store does. */
static void write_group(struct world *world, uint32_t group)
{
    struct swap_rows rows = swaps_write(&world->swaps, group, 1);
    bool is_same = true;
    for (size_t i = 0; i < rows.count; i++) {
        assert_int_equal(rows.groups[i], group);
        is_same = is_same && swap_is_same_row(*row_of(world, rows.names[i]), rows.seen[i]);
    }
    for (size_t i = 0; is_same && i < rows.count; i++) {
        *row_of(world, rows.names[i]) = rows.next[i];
    }
    assert_true(swaps_note(&world->swaps, group, is_same ? SWAP_WRITTEN : SWAP_CHANGED));
}

static void write_all(struct world *world, uint32_t group_count)
{
    for (uint32_t group = 0; group < group_count; group++) {
        write_group(world, group);
    }
    swaps_end(&world->swaps);
}

static void test_questions_about_one_bucket_are_one_group_in_their_order(void **state)
{
    struct world *world = *state;
    struct swap_rows rows;
    struct question *first = ask_one(world, WEIR_FILL, 3, "alice");
    struct question *other = ask_one(world, WEIR_FILL, 2, "bob");
    struct question *second = ask_one(world, WEIR_FILL, 4, "alice");
    assert_true(swaps_begin(&world->swaps, &rows));
    assert_int_equal(rows.count, 4); // two buckets, and their blocks
    world->swaps.tries--;
    uint32_t group_count = decide(world, CLOCK);
    assert_int_equal(group_count, 2);
    assert_int_equal(swaps_write(&world->swaps, 0, 2).count, 2); // nobody is blocked
    write_all(world, group_count);
    assert_int_equal(first->decision->remaining, 7);
    assert_int_equal(second->decision->remaining, 3);
    assert_int_equal(other->decision->remaining, 8);
    assert_int_equal(row_of(world, first->planned.name)->ns, NOW_NS + 7 * S / 10);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(world->runs[i].state, SWAP_DONE);
    }
    assert_false(swaps_begin(&world->swaps, &rows));
}

static void test_runs_that_share_a_bucket_are_one_group(void **state)
{
    struct world *world = *state;
    static const char *const PAIRS[][2] = {{"a", "b"}, {"c", "d"}, {"d", "b"}, {"x", "y"}};
    for (size_t i = 0; i < 4; i++) {
        (void)ask(world, WEIR_TAKE, 1, "sliding 10/s", PAIRS[i], 2);
    }
    uint32_t group_count = decide(world, CLOCK);
    assert_int_equal(group_count, 2);
    size_t counts[] = {swaps_write(&world->swaps, 0, 1).count,
                       swaps_write(&world->swaps, 1, 1).count};
    assert_int_equal(counts[0] + counts[1], 6);
    assert_true(counts[0] == 4 || counts[1] == 4);
    write_all(world, group_count);
    assert_int_equal(world->runs[3].state, SWAP_DONE);
}

static void test_what_changes_nothing_is_answered_by_what_was_read(void **state)
{
    struct world *world = *state;
    struct question *shown = ask_one(world, WEIR_SHOW, 0, "alice");
    row_of(world, shown->planned.name)->ns = NOW_NS + S / 2;
    assert_int_equal(decide(world, CLOCK), 0);
    assert_int_equal(world->runs[0].state, SWAP_DONE);
    assert_int_equal(shown->decision->remaining, 5);
}

static void test_a_group_that_others_have_changed_is_decided_again(void **state)
{
    struct world *world = *state;
    struct question *alice = ask_one(world, WEIR_FILL, 1, "alice");
    struct question *bob = ask_one(world, WEIR_FILL, 1, "bob");
    uint32_t group_count = decide(world, CLOCK);
    row_of(world, alice->planned.name)->ns = NOW_NS + S / 2; // somebody took 5
    write_all(world, group_count);
    assert_int_equal(world->runs[0].state, SWAP_OPEN);
    assert_int_equal(world->runs[1].state, SWAP_DONE);
    assert_int_equal(decide(world, CLOCK), 1);
    write_all(world, 1);
    assert_int_equal(world->runs[0].state, SWAP_DONE);
    assert_int_equal(alice->decision->remaining, 4);
    assert_int_equal(bob->decision->remaining, 9);
    assert_int_equal(row_of(world, alice->planned.name)->ns, NOW_NS + 6 * S / 10);
}

static void test_tries_are_bounded(void **state)
{
    struct world *world = *state;
    struct swap_rows rows;
    struct question *alice = ask_one(world, WEIR_FILL, 1, "alice");
    for (unsigned i = 0; i < SWAP_TRIES_MAX; i++) {
        assert_int_equal(decide(world, CLOCK), 1);
        row_of(world, alice->planned.name)->ns = NOW_NS + i + 1;
        write_all(world, 1);
    }
    assert_false(swaps_begin(&world->swaps, &rows));
    assert_int_equal(world->runs[0].state, SWAP_FAILED);
    assert_int_equal(row_of(world, alice->planned.name)->ns, NOW_NS + SWAP_TRIES_MAX);
}

static void test_a_write_ends_before_its_asker_has_gone(void **state)
{
    struct world *world = *state;
    (void)ask_one(world, WEIR_FILL, 1, "alice");
    (void)ask_one(world, WEIR_FILL, 1, "alice");
    (void)ask_one(world, WEIR_FILL, 1, "bob");
    (void)ask_one(world, WEIR_FILL, 1, "bob");
    world->batches[1]->deadline_ns = CLOCK + LEFT / 2; // the earlier one counts for both
    world->batches[3]->deadline_ns = CLOCK;            // is not decided any more
    assert_int_equal(decide(world, CLOCK), 2);
    struct swap_rows rows = swaps_write(&world->swaps, 0, 2);
    uint64_t ends[] = {rows.not_after[0], rows.not_after[1]};
    bool is_alice_first = ends[0] < ends[1];
    assert_in_range(ends[!is_alice_first], NOW_NS + LEFT / 2 - 10000, NOW_NS + LEFT / 2);
    assert_in_range(ends[is_alice_first], NOW_NS + LEFT - 10000, NOW_NS + LEFT);
    assert_int_equal(world->runs[3].state, SWAP_FAILED);
    write_all(world, 2);
    assert_int_equal(row_of(world, world->runs[3].questions->planned.name)->ns, NOW_NS + S / 10);
}

static void test_a_block_brings_its_row_into_the_write(void **state)
{
    struct world *world = *state;
    struct question *blocked = ask_one(world, WEIR_BLOCK, 0, "alice");
    assert_int_equal(decide(world, CLOCK), 1);
    assert_int_equal(swaps_write(&world->swaps, 0, 1).count, 2);
    write_all(world, 1);
    assert_true(swap_is_displaced(row_of(world, blocked->planned.name)->ns));
    (void)ask_one(world, WEIR_UNBLOCK, 0, "alice");
    assert_int_equal(decide(world, CLOCK), 1);
    assert_int_equal(swaps_write(&world->swaps, 0, 1).count, 2);
    write_all(world, 1);
    assert_false(swap_is_displaced(row_of(world, blocked->planned.name)->ns));
}

static void test_what_no_row_can_hold_is_not_written(void **state)
{
    struct world *world = *state;
    struct question *alice = ask_one(world, WEIR_UNBLOCK, 0, "alice");
    uint8_t block[BUCKET_NAME_BYTES];
    swap_block_name(block, alice->planned.name);
    *row_of(world, alice->planned.name) = (struct swap_row){SWAP_DISPLACED_NS, 0};
    *row_of(world, block) = (struct swap_row){NOW_NS + S, UINT64_MAX}; // somebody else wrote that
    assert_int_equal(decide(world, CLOCK), 0);
    assert_int_equal(world->runs[0].state, SWAP_FAILED);
}

static void test_what_is_not_heard_of_stays_unknown(void **state)
{
    struct world *world = *state;
    (void)ask_one(world, WEIR_FILL, 1, "alice");
    (void)ask_one(world, WEIR_FILL, 1, "bob");
    assert_int_equal(decide(world, CLOCK), 2);
    assert_false(swaps_note(&world->swaps, 2, SWAP_WRITTEN)); // there is none
    uint32_t group = world->runs[0].group;
    assert_true(swaps_note(&world->swaps, group, SWAP_BROKEN));
    swaps_end(&world->swaps);
    swaps_give_up(&world->swaps);
    assert_int_equal(world->runs[0].state, SWAP_FAILED);
    assert_int_equal(world->runs[1].state, SWAP_WRITING);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_questions_about_one_bucket_are_one_group_in_their_order),
        TEST(test_runs_that_share_a_bucket_are_one_group),
        TEST(test_what_changes_nothing_is_answered_by_what_was_read),
        TEST(test_a_group_that_others_have_changed_is_decided_again),
        TEST(test_tries_are_bounded),
        TEST(test_a_write_ends_before_its_asker_has_gone),
        TEST(test_a_block_brings_its_row_into_the_write),
        TEST(test_what_no_row_can_hold_is_not_written),
        TEST(test_what_is_not_heard_of_stays_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
