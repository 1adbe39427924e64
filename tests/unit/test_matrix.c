/* SPDX-License-Identifier: MIT
 *
 * Every kind of limit, alone and beside a second one, without a block, with block= and blocked by hand, for
 * who takes and for who waits, in each kind of memory: one behaviour, which no combination changes.
 *
 * A cell is one such combination. Its limit holds 2 and is filled at T0; what follows is told by two numbers
 * of its kind: after which time one more fits, and after which all has drained (tests/conformance/blocks.vec
 * has them from the model). */
#include "../support/lines_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define S    UINT64_C(1000000000)
#define T0   (1000 * S) // at which a window of every length here begins
#define UNIT WEIR_UNIT

#define BLOCK_NS     (7 * S) // longer than any of them takes to drain
#define PATIENCE     (20 * S)
#define MEMORY_BYTES (512 << 10) // enough for those who wait, in memory that processes share
#define INTERVAL     S           // of the queue

enum place { PRIVATE, FORKED, IN_FILE, PLACE_COUNT };
enum block { NO_BLOCK, BY_LIMIT, BY_HAND, BLOCK_COUNT };
enum how { TAKES, WAITS, HOW_COUNT };

static const char *const PLACES[] = {"memory:", "memory:?shared=yes", "file:"};
static const char *const BLOCKS[] = {"no block", "block=", "blocked by hand"};
static const char *const HOWS[] = {"take", "wait"};

/* What holds 2, and drains 2 in 2 s each in its own way.
 *   retry_ns  until one more fits, after it was filled at T0
 *   empty_ns  until it is empty */
static const struct kind {
    enum weir_kind kind;
    const char *limit;
    uint64_t retry_ns, empty_ns;
} KINDS[] = {
    {WEIR_KIND_BUCKET, "2/2s", S, 2 * S},
    {WEIR_KIND_QUEUE, "queue 2/2s", S, 2 * S},
    {WEIR_KIND_STEPPED, "stepped 2/2s", 2 * S, 2 * S},
    {WEIR_KIND_FIXED, "fixed 2/2s", 2 * S, 2 * S},
    {WEIR_KIND_SLIDING, "sliding 2/2s", 3 * S, 4 * S},
    {WEIR_KIND_WINDOW, "window 2/2s", 2 * S, 2 * S},
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

/* The second limit: it has room always, and tells whether it was charged. */
static const char SECOND[] = "100/s";

struct cell {
    const struct kind *kind;
    bool has_second;
    enum block block;
    enum how how;
    enum place place;
};

/* ---- a cell's world ---- */

struct world {
    const struct cell *cell;
    struct people people;
    struct weir_rule rule, second;
    struct weir_decision each[2]; // of the last question
    struct weir_decision all;
    int binding;
};

static void bind(struct weir_rule *rule, const struct people *people, const char *text)
{
    struct weir_error error;
    if (weir_rule_from_text(rule, people->limiter, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
}

/* A file is gone when it is closed. */
static void open_people(struct people *people, enum place place)
{
    char folder[] = "/tmp/weir-matrix-XXXXXX";
    char url[64];
    if (place != IN_FILE) {
        people_open_in(people, PLACES[place], MEMORY_BYTES, 0);
        return;
    }
    assert_non_null(mkdtemp(folder));
    (void)snprintf(url, sizeof url, "file:%s/store", folder);
    people_open_in(people, url, MEMORY_BYTES, 0);
    assert_int_equal(unlink(url + strlen("file:")), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void open_world(struct world *world, const struct cell *cell)
{
    char text[64];
    const char *block = cell->block == BY_LIMIT ? " block=7s" : "";
    *world = (struct world){.cell = cell};
    open_people(&world->people, cell->place);
    (void)snprintf(text, sizeof text, "%s%s", cell->kind->limit, block);
    bind(&world->rule, &world->people, text);
    bind(&world->second, &world->people, SECOND);
    world->people.now_ns = T0;
}

/* What is asked, for one limit or for both. */
static size_t requests_of(const struct world *world, struct weir_request requests[2], uint64_t cost)
{
    requests[0] = request_of(&world->rule, "alice", WEIR_TAKE, cost * UNIT);
    requests[1] = request_of(&world->second, "everyone", WEIR_TAKE, cost * UNIT);
    requests[0].and_next = world->cell->has_second;
    return world->cell->has_second ? 2 : 1;
}

static void conclude(struct world *world, const struct weir_decision *decisions)
{
    size_t count = world->cell->has_second ? 2 : 1;
    memcpy(world->each, decisions, count * sizeof *decisions);
    world->all = weir_decision_of_all(world->each, count, &world->binding);
}

static void take_at(struct world *world, uint64_t cost, uint64_t now_ns)
{
    struct weir_request requests[2];
    struct weir_decision decisions[2];
    size_t count = requests_of(world, requests, cost);
    people_advance(&world->people, now_ns);
    weir_limiter_decide_at(world->people.limiter, requests, decisions, count, now_ns);
    conclude(world, decisions);
}

/* Who is answered at once has its answer in the world. */
static struct person *join(struct world *world, uint64_t cost, uint64_t wait_ns)
{
    struct weir_request requests[2];
    size_t count = requests_of(world, requests, cost);
    struct person *person =
        people_join_together_at(&world->people, requests, count, wait_ns, world->people.now_ns);
    if (!person->stands) {
        conclude(world, person->decisions);
    }
    return person;
}

static struct weir_decision ask(struct world *world, const struct weir_rule *rule, const char *key,
                                enum weir_operation operation)
{
    struct weir_request request = request_of(rule, key, operation, 0);
    struct weir_decision decision;
    request.block_ns = BLOCK_NS;
    weir_limiter_decide_at(world->people.limiter, &request, &decision, 1, world->people.now_ns);
    return decision;
}

/* ---- what is expected ---- */

static void assert_all(const struct world *world, enum weir_verdict verdict, uint64_t retry_ns)
{
    assert_int_equal(world->all.verdict, verdict);
    assert_int_equal(world->each[0].verdict, verdict);
    assert_int_equal(world->binding, verdict == WEIR_ALLOWED ? -1 : 0);
    assert_int_equal(world->all.retry_after_ns, verdict == WEIR_ALLOWED ? -1 : (int64_t)retry_ns);
    if (world->cell->has_second) {
        assert_int_equal(world->each[1].verdict, WEIR_ALLOWED);
    }
}

/* The second limit was charged as often as the first. */
static void assert_second(struct world *world, uint64_t charged)
{
    if (world->cell->has_second) {
        struct weir_decision decision = ask(world, &world->second, "everyone", WEIR_SHOW);
        assert_int_equal(decision.remaining, 100 - charged);
    }
}

static void assert_answered(const struct person *person, enum weir_verdict verdict, uint64_t at_ns)
{
    assert_false(person->stands);
    assert_int_equal(person->decisions[0].verdict, verdict);
    assert_int_equal(person->answered_ns, at_ns);
}

/* ---- who takes ---- */

static void fill_up(struct world *world)
{
    bool is_queue = world->cell->kind->kind == WEIR_KIND_QUEUE;
    take_at(world, 2, T0);
    assert_all(world, WEIR_ALLOWED, 0);
    assert_int_equal(world->all.delay_ns, is_queue ? 2 * INTERVAL : 0);
    assert_int_equal(world->each[0].remaining, 0);
    assert_int_equal(world->each[0].reset_after_ns, world->cell->kind->empty_ns);
    assert_second(world, 2);
}

/* From T0 on until its end. */
static void expect_block(struct world *world)
{
    take_at(world, 1, T0);
    assert_all(world, WEIR_BLOCKED, BLOCK_NS);
    take_at(world, 0, T0);
    assert_all(world, WEIR_ALLOWED, 0);
    take_at(world, 3, T0);
    assert_all(world, WEIR_NEVER, UINT64_MAX);
    assert_second(world, 2);
    take_at(world, 1, T0 + BLOCK_NS - 1);
    assert_all(world, WEIR_BLOCKED, 1);
    take_at(world, 1, T0 + BLOCK_NS);
    assert_all(world, WEIR_ALLOWED, 0);
    assert_second(world, 1);
}

static void run_takes(struct world *world)
{
    const struct kind *kind = world->cell->kind;
    fill_up(world);
    switch (world->cell->block) {
    case NO_BLOCK:
        take_at(world, 1, T0);
        assert_all(world, WEIR_LIMITED, kind->retry_ns);
        assert_int_equal(world->each[0].reset_after_ns, kind->empty_ns);
        assert_second(world, 2);
        take_at(world, 1, T0 + kind->retry_ns - 1);
        assert_all(world, WEIR_LIMITED, 1);
        take_at(world, 1, T0 + kind->retry_ns);
        assert_all(world, WEIR_ALLOWED, 0);
        assert_second(world, 1);
        break;
    case BY_LIMIT:
        take_at(world, 1, T0);
        assert_all(world, WEIR_LIMITED, BLOCK_NS);
        expect_block(world);
        break;
    case BY_HAND:
        assert_int_equal(ask(world, &world->rule, "alice", WEIR_BLOCK).verdict, WEIR_BLOCKED);
        expect_block(world);
        take_at(world, 1, T0 + BLOCK_NS);
        assert_int_equal(ask(world, &world->rule, "alice", WEIR_BLOCK).verdict, WEIR_BLOCKED);
        take_at(world, 1, T0 + 2 * BLOCK_NS - 1);
        assert_all(world, WEIR_BLOCKED, 1);
        assert_int_equal(ask(world, &world->rule, "alice", WEIR_UNBLOCK).verdict, WEIR_ALLOWED);
        take_at(world, 1, T0 + 2 * BLOCK_NS - 1);
        assert_all(world, WEIR_ALLOWED, 0);
        break;
    case BLOCK_COUNT: break;
    }
}

/* ---- who waits ---- */

/* A block that began at T0, for who would wait. */
static void expect_block_in_line(struct world *world)
{
    assert_false(join(world, 1, PATIENCE)->stands);
    assert_all(world, WEIR_BLOCKED, BLOCK_NS);
    people_advance(&world->people, T0 + BLOCK_NS);
    struct person *later = join(world, 1, PATIENCE);
    people_advance(&world->people, T0 + BLOCK_NS + INTERVAL); // where it is a queue
    bool is_queue = world->cell->kind->kind == WEIR_KIND_QUEUE;
    assert_answered(later, WEIR_ALLOWED, T0 + BLOCK_NS + (is_queue ? INTERVAL : 0));
}

/* The bucket is the line: both go at their egress, whoever is blocked meanwhile. */
static void run_waits_in_queue(struct world *world)
{
    struct person *first = join(world, 1, PATIENCE);
    struct person *last = join(world, 1, PATIENCE);
    assert_true(first->stands && last->stands);
    if (world->cell->block == BY_HAND) {
        assert_int_equal(ask(world, &world->rule, "alice", WEIR_BLOCK).verdict, WEIR_BLOCKED);
    } else {
        assert_false(join(world, 1, PATIENCE)->stands); // it is full
        assert_all(world, WEIR_LIMITED, world->cell->block == BY_LIMIT ? BLOCK_NS : INTERVAL);
    }
    assert_second(world, 2);
    if (world->cell->block != NO_BLOCK) {
        expect_block_in_line(world);
    }
    people_advance(&world->people, T0 + BLOCK_NS + 2 * INTERVAL);
    assert_answered(first, WEIR_ALLOWED, T0 + INTERVAL);
    assert_answered(last, WEIR_ALLOWED, T0 + 2 * INTERVAL);
}

static void run_waits(struct world *world)
{
    const struct kind *kind = world->cell->kind;
    if (kind->kind == WEIR_KIND_QUEUE) {
        run_waits_in_queue(world);
        return;
    }
    fill_up(world);
    if (world->cell->block == BY_LIMIT) {
        assert_false(join(world, 1, kind->retry_ns - 1)->stands); // it would be in vain
        assert_all(world, WEIR_LIMITED, BLOCK_NS);
        expect_block_in_line(world);
        return;
    }
    struct person *person = join(world, 1, kind->retry_ns);
    assert_true(person->stands);
    take_at(world, 1, T0); // nobody overtakes
    assert_int_equal(world->all.verdict, WEIR_LIMITED);
    assert_true(world->all.retry_after_ns >= (int64_t)kind->retry_ns);
    assert_second(world, 2);
    if (world->cell->block == BY_HAND) {
        assert_int_equal(ask(world, &world->rule, "alice", WEIR_BLOCK).verdict, WEIR_BLOCKED);
        assert_answered(person, WEIR_BLOCKED, T0);
        expect_block_in_line(world);
        return;
    }
    people_advance(&world->people, T0 + kind->retry_ns);
    assert_answered(person, WEIR_ALLOWED, T0 + kind->retry_ns);
    assert_second(world, 1);
}

/* ---- all cells ---- */

static void run_cell(const struct cell *cell)
{
    struct world world;
    open_world(&world, cell);
    if (cell->how == TAKES) {
        run_takes(&world);
    } else {
        run_waits(&world);
    }
    people_close(&world.people);
}

static void test_cells(void **state)
{
    const struct kind *kind = *state;
    for (int i = 0; i < 2 * BLOCK_COUNT * HOW_COUNT * PLACE_COUNT; i++) {
        const struct cell cell = {.kind = kind,
                                  .has_second = i % 2 != 0,
                                  .block = (enum block)(i / 2 % BLOCK_COUNT),
                                  .how = (enum how)(i / 2 / BLOCK_COUNT % HOW_COUNT),
                                  .place = (enum place)(i / 2 / BLOCK_COUNT / HOW_COUNT)};
        print_message("%s%s, %s, %s, %s\n", kind->limit, cell.has_second ? " and a second" : "",
                      BLOCKS[cell.block], HOWS[cell.how], PLACES[cell.place]);
        run_cell(&cell);
    }
}

int main(void)
{
    struct CMUnitTest tests[KIND_COUNT];
    for (size_t i = 0; i < KIND_COUNT; i++) {
        tests[i] = (struct CMUnitTest){.name = KINDS[i].limit,
                                       .test_func = test_cells,
                                       .initial_state = (void *)(uintptr_t)&KINDS[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
