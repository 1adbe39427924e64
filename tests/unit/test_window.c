/* SPDX-License-Identifier: MIT
 *
 * Windows in a table: what their log answers, beside a list of events that is as plain as can be; how much
 * memory it takes; and what becomes of that. */
#include "../support/small_table.h"

#include "core/window_math.h"
#include "limiter/lines/line.h"
#include "store/table/window_log.h"

#define MS   UINT64_C(1000000)
#define S    UINT64_C(1000000000)
#define DAY  (86400 * S)
#define YEAR (365 * DAY)

static struct weir_decision ask(struct small *small, enum weir_operation operation, uint64_t key,
                                uint64_t cost, uint64_t now_ns, struct weir_detail *detail)
{
    struct weir_request request = {.rule = &small->rule,
                                   .cost_micro = cost * WEIR_UNIT,
                                   .operation = operation,
                                   .detail = detail};
    return table_decide_hash(&small->table, &request, hash_of(key), now_ns);
}

static void assert_take(struct small *small, uint64_t key, uint64_t cost, uint64_t now_ns,
                        enum weir_verdict expected)
{
    assert_int_equal(ask(small, WEIR_TAKE, key, cost, now_ns, NULL).verdict, expected);
}

/* ---- the code of events ---- */

static void test_events_are_read_as_they_were_written(void **state)
{
    (void)state;
    static const uint64_t COSTS[] = {1, 2, 33, 34, 8193, 8194, 999999, WEIR_WINDOW_COUNT_MAX};
    for (unsigned bits = 0; bits <= 60; bits++) {
        for (int edge = -1; edge <= 0; edge++) {
            uint64_t gap_ns = (UINT64_C(1) << bits) + (uint64_t)(int64_t)edge;
            for (size_t i = 0; i < sizeof COSTS / sizeof COSTS[0] && gap_ns < WINDOW_GAP_NS_MAX;
                 i++) {
                uint8_t code[WINDOW_EVENT_BYTES_MAX + WINDOW_READ_BYTES];
                uint64_t gap, cost;
                memset(code, 0xa5, sizeof code);
                unsigned bytes = window_write(code, gap_ns, COSTS[i]);
                assert_in_range(bytes, 1, WINDOW_EVENT_BYTES_MAX);
                assert_int_equal(code[bytes], 0xa5);
                assert_int_equal(window_read(code, &gap, &cost), bytes);
                assert_int_equal(gap, gap_ns);
                assert_int_equal(cost, COSTS[i]);
            }
        }
    }
}

static void test_an_event_is_as_short_as_the_table_says(void **state)
{
    (void)state;
    static const uint64_t NEARER_NS[] = {16,
                                         1 << 12,
                                         1 << 20,
                                         1 << 28,
                                         UINT64_C(1) << 36,
                                         UINT64_C(1) << 44,
                                         UINT64_C(1) << 52,
                                         UINT64_C(1) << 60};
    for (unsigned i = 0; i < 8; i++) {
        uint8_t code[WINDOW_EVENT_BYTES_MAX];
        assert_int_equal(window_write(code, NEARER_NS[i] - 1, 1), i + 1);
    }
}

/* ---- beside a list ---- */

enum { EVENTS_MAX = 4096 };

struct list {
    struct window_event events[EVENTS_MAX];
    size_t count;
    uint64_t since_ns;
};

static uint64_t list_level(const struct list *list, uint64_t period_ns, uint64_t now_ns)
{
    uint64_t level = 0;
    for (size_t i = 0; i < list->count; i++) {
        level += list->events[i].at_ns + period_ns > now_ns ? list->events[i].cost : 0;
    }
    return level;
}

/* When the first so many units of those that count have left. */
static uint64_t list_left_at(const struct list *list, uint64_t period_ns, uint64_t cost,
                             uint64_t now_ns)
{
    uint64_t left = 0;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t leaves_ns = list->events[i].at_ns + period_ns;
        left += leaves_ns > now_ns ? list->events[i].cost : 0;
        if (left >= cost) {
            return leaves_ns;
        }
    }
    fail_msg("so much never leaves");
    return 0;
}

static void compare(struct small *small, struct list *list, enum weir_operation operation,
                    uint64_t cost, uint64_t reading_ns)
{
    const struct weir_limit *limit = &small->rule.limit;
    uint64_t period_ns = limit->full_ns;
    uint64_t now_ns = reading_ns > list->since_ns ? reading_ns : list->since_ns;
    uint64_t level = list_level(list, period_ns, now_ns);
    uint64_t room = limit->capacity - level;
    struct weir_detail detail;
    struct weir_decision decision = ask(small, operation, 0, cost, reading_ns, &detail);
    enum weir_verdict verdict = cost > limit->capacity ? WEIR_NEVER
                                : cost > room          ? WEIR_LIMITED
                                                       : WEIR_ALLOWED;
    uint64_t added = verdict == WEIR_ALLOWED ? cost : 0;
    if (operation == WEIR_FILL) {
        verdict = WEIR_ALLOWED;
        added = cost < room ? cost : room;
        assert_int_equal(detail.amount.numerator_low, cost - added);
        assert_int_equal(detail.full, added == room);
    }
    if (operation == WEIR_SHOW) {
        verdict = WEIR_ALLOWED;
        added = 0;
        assert_int_equal(detail.amount.numerator_low, level);
    }
    assert_int_equal(decision.verdict, verdict);
    assert_int_equal(decision.remaining, room - added);
    int64_t wait_ns =
        verdict == WEIR_LIMITED
            ? (int64_t)(list_left_at(list, period_ns, cost - room, now_ns) - reading_ns)
            : -1;
    assert_int_equal(decision.retry_after_ns, wait_ns);
    if (added > 0 && operation != WEIR_CAN_TAKE) {
        assert_int_not_equal(list->count, EVENTS_MAX);
        list->events[list->count++] = (struct window_event){now_ns, added};
        list->since_ns = now_ns;
    }
    uint64_t empty_ns = added > 0   ? now_ns + period_ns
                        : level > 0 ? list_left_at(list, period_ns, level, now_ns)
                                    : reading_ns;
    assert_int_equal(decision.reset_after_ns, empty_ns - reading_ns);
}

/* Costs of all sizes at gaps of all sizes, and readings that lag. */
static void test_a_log_answers_as_a_list_of_its_events(void **state)
{
    (void)state;
    static const char *const LIMITS[] = {"window 3/10s",  "window 100/1ms",        "window 40/60ns",
                                         "window 1000/d", "window 1000000/36525d", "window 500/s"};
    for (uint64_t round = 0; round < 60; round++) {
        uint64_t random = round * 77 + 1;
        struct small *small =
            open_small_pool(RING, CHUNKS, LIMITS[round % (sizeof LIMITS / sizeof LIMITS[0])]);
        struct list *list = calloc(1, sizeof *list);
        uint64_t now_ns = YEAR;
        for (int i = 0; i < 3000; i++) {
            static const enum weir_operation OPERATIONS[] = {WEIR_TAKE,     WEIR_TAKE, WEIR_TAKE,
                                                             WEIR_CAN_TAKE, WEIR_FILL, WEIR_SHOW};
            uint64_t period_ns = small->rule.limit.full_ns;
            uint64_t capacity = small->rule.limit.capacity;
            uint64_t step_ns = period_ns / (capacity < 300 ? capacity : 300) + 1;
            uint64_t most = round % 2 == 0 ? 1 : capacity;
            uint64_t cost = next_random(&random) % 3 == 0 ? 1 + next_random(&random) % most : 1;
            cost += next_random(&random) % 50 == 0 ? capacity : 0;
            now_ns += next_random(&random) % 4 == 0 ? next_random(&random) % (4 * step_ns) : 0;
            now_ns += next_random(&random) % 700 == 0 ? period_ns : 0;
            uint64_t lag_ns = next_random(&random) % 30 == 0 ? next_random(&random) % period_ns : 0;
            if (now_ns > WEIR_NOW_NS_MAX) {
                break;
            }
            compare(small, list, OPERATIONS[next_random(&random) % 6], cost,
                    lag_ns < now_ns ? now_ns - lag_ns : 0);
        }
        free(list);
        free(small);
    }
}

/* ---- how much of a log is read ---- */

enum { LONG_COUNT = 1000, PEOPLE = 3 };

/* A full window of LONG_COUNT events, a millisecond apart, in a dozen chunks. */
static struct small *open_long(void)
{
    struct small *small = open_small_pool(RING, CHUNKS, "window 1000/h");
    for (uint64_t i = 0; i < LONG_COUNT; i++) {
        assert_take(small, 0, 1, YEAR + i * MS, WEIR_ALLOWED);
    }
    assert_in_range(used_chunks(small), 10, 20);
    return small;
}

static uint64_t long_leaves_at(uint64_t unit)
{
    return YEAR + (unit - 1) * MS + 3600 * S;
}

/* Spoils the events of all chunks but the first and the newest, which every question reads, and those with one of
 * these units, counted from 1: who reads what is spoilt gets other numbers. Returns the chunks as they were. */
static char *spoil_all_but(struct small *small, const uint64_t *units, size_t count)
{
    char *before = malloc(sizeof small->events);
    assert_non_null(before);
    memcpy(before, small->events, sizeof small->events);
    uint32_t chunk_count = (uint32_t)used_chunks(small);
    for (uint32_t id = 2; id < chunk_count; id++) {
        struct chunk *chunk = event_pool_chunk(&small->table.events, id);
        const struct chunk *next = event_pool_chunk(&small->table.events, id + 1);
        bool is_read = false;
        for (size_t i = 0; i < count; i++) {
            is_read |= chunk->before < units[i] && units[i] <= next->before;
        }
        if (!is_read) {
            memset(chunk->events, 0x5a, sizeof chunk->events);
        }
    }
    return before;
}

static void mend(struct small *small, char *before)
{
    memcpy(small->events, before, sizeof small->events);
    free(before);
}

/* However long the log: where a refused cost fits is found by what chunks say was let through before them. */
static void test_a_refusal_reads_no_chunk_that_it_can_skip(void **state)
{
    (void)state;
    struct small *small = open_long();
    uint64_t now_ns = YEAR + LONG_COUNT * MS;
    for (uint64_t cost = 1; cost <= LONG_COUNT; cost++) {
        char *before = spoil_all_but(small, &cost, 1);
        struct weir_decision decision = ask(small, WEIR_TAKE, 0, cost, now_ns, NULL);
        assert_int_equal(decision.verdict, WEIR_LIMITED);
        assert_int_equal(decision.retry_after_ns, long_leaves_at(cost) - now_ns);
        mend(small, before);
    }
    free(small);
}

/* People with these costs, in order; the last one is followed by nobody. */
struct row {
    uint64_t costs[PEOPLE];
    uint64_t served_at_ns[PEOPLE];
    size_t read_count;
};

static struct window_place read_person(const struct window_line *line, uintptr_t at)
{
    struct row *row = (struct row *)(uintptr_t)line->lines;
    row->read_count++;
    return (struct window_place){row->costs[at - 1] * WEIR_UNIT, &row->served_at_ns[at - 1],
                                 at < PEOPLE ? at + 1 : 0};
}

static void test_a_line_reads_only_where_it_is_served(void **state)
{
    (void)state;
    struct small *small = open_long();
    uint64_t now_ns = YEAR + LONG_COUNT * MS;
    for (uint64_t first = 1; first <= 600; first += 7) {
        struct row row = {.costs = {first, 150, 249}};
        const uint64_t units[] = {first, first + 150, first + 399, first + 400};
        struct window_line line = {read_person, &row, 1};
        struct charge charge = {.cost_micro = WEIR_UNIT};
        char *before = spoil_all_but(small, units, sizeof units / sizeof units[0]);
        assert_int_equal(window_fits_behind_at(&small->table.store, &small->rule.limit, hash_of(0),
                                               &line, &charge, now_ns),
                         long_leaves_at(first + 400));
        for (size_t i = 0; i < PEOPLE; i++) {
            assert_int_equal(row.served_at_ns[i], long_leaves_at(units[i]));
        }
        assert_in_range(row.read_count, PEOPLE, 2 * PEOPLE); // before it fits, and when it does
        mend(small, before);
    }
    free(small);
}

/* Who watches it drain, a few units at a time: the levels and instants of the list. */
struct watcher {
    struct drain_visitor visitor;
    uint64_t random;
    uint64_t level;
    uint64_t wanted;
    const struct list *list;
    uint64_t period_ns;
    uint64_t count;
};

static uint64_t watch(struct drain_visitor *visitor, uint64_t now_ns, uint64_t level)
{
    struct watcher *watcher = (struct watcher *)(void *)visitor;
    if (watcher->count++ == 0) {
        watcher->level = list_level(watcher->list, watcher->period_ns, now_ns);
        assert_int_equal(level, watcher->level);
    } else {
        uint64_t left = watcher->level - level;
        uint64_t start_ns = YEAR; // nothing has left then
        assert_true(left >= watcher->wanted || level == 0);
        assert_int_equal(now_ns, list_left_at(watcher->list, watcher->period_ns, left, start_ns));
    }
    uint64_t units = 1 + next_random(&watcher->random) % 40;
    watcher->wanted = watcher->level - level + units;
    return units;
}

static void test_a_drain_is_told_as_a_list_would(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 200; round++) {
        struct small *small = open_small_pool(RING, CHUNKS, "window 10000/d");
        struct list *list = calloc(1, sizeof *list);
        struct watcher watcher = {.visitor = {watch}, .random = round * 77, .list = list};
        watcher.period_ns = small->rule.limit.full_ns;
        uint64_t now_ns = YEAR;
        for (uint64_t i = round * 4; i > 0; i--) {
            uint64_t cost = next_random(&watcher.random) % 3 == 0 ? round % 30 + 1 : 1;
            now_ns += next_random(&watcher.random) % MS;
            if (ask(small, WEIR_TAKE, 0, cost, now_ns, NULL).verdict == WEIR_ALLOWED) {
                list->events[list->count++] = (struct window_event){now_ns, cost};
            }
        }
        table_visit_drain(&small->table.store, &small->rule.limit, hash_of(0), &watcher.visitor,
                          now_ns);
        assert_in_range(watcher.count, 2, list->count + 1);
        free(list);
        free(small);
    }
}

/* ---- how much memory ---- */

/* What 30 000 events of cost 1 take, so far apart. */
static double bytes_per_event(uint64_t gap_ns)
{
    const uint64_t count = 30000;
    struct small *small = open_small_pool(RING, CHUNKS, "window 30000/36525d");
    for (uint64_t i = 0; i < count; i++) {
        assert_take(small, 0, 1, YEAR + i * gap_ns, WEIR_ALLOWED);
    }
    double bytes = (double)((used_chunks(small) - 1) * CHUNK_BYTES) / (double)count; // and one
    free(small);
    return bytes;
}

static void test_an_event_takes_at_most_eight_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t gap_ns;
        double most;
    } CASES[] = {
        {"at one instant", 0, 1.15},   {"1 us apart", 1000, 2.3},
        {"1 ms apart", MS, 3.5},       {"200 ms apart", 200 * MS, 4.6},
        {"1 min apart", 60 * S, 5.75}, {"1 h apart", 3600 * S, 6.8},
        {"1 d apart", DAY, 8.0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        double bytes = bytes_per_event(CASES[i].gap_ns);
        print_message("  events %s: %.2f bytes each\n", CASES[i].name, bytes);
        assert_true(bytes <= CASES[i].most);
    }
}

static void test_a_log_gives_back_what_has_left(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, "window 1000/s");
    for (uint64_t i = 0; i < 100000; i++) {
        assert_take(small, 0, 1, YEAR + i * MS, WEIR_ALLOWED);
        assert_in_range(used_chunks(small), 1, 1000 * 4 / 224 + 2);
    }
    free(small);
}

static void test_a_log_in_one_chunk_begins_again_in_it(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, 2, "window 25/5s");
    for (uint64_t i = 0; i < 10000; i++) { // a second chunk now and then, never a third
        assert_take(small, 0, 1, YEAR + i * 7 * S, WEIR_ALLOWED);
    }
    assert_int_equal(small->table.events.header->full_count, 0);
    free(small);
}

/* ---- where there is no more ---- */

static void test_a_full_pool_answers_as_a_full_table(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, 3, "window 5/s");
    for (uint64_t key = 0; key < 3; key++) {
        assert_take(small, key, 1, YEAR, WEIR_ALLOWED);
    }
    struct weir_decision decision = ask(small, WEIR_TAKE, 3, 1, YEAR, NULL);
    assert_int_equal(decision.verdict, WEIR_FAILED);
    assert_int_equal(decision.reset_after_ns, -1);
    assert_int_equal(ask(small, WEIR_CAN_TAKE, 3, 1, YEAR, NULL).verdict, WEIR_ALLOWED);
    assert_int_equal(ask(small, WEIR_FILL, 3, 1, YEAR, NULL).verdict, WEIR_FAILED);
    assert_take(small, 0, 1, YEAR, WEIR_ALLOWED); // there is room in its own
    small->rule = small_rule("window 5/s on_full=allow");
    decision = ask(small, WEIR_TAKE, 3, 1, YEAR, NULL);
    assert_int_equal(decision.verdict, WEIR_ALLOWED);
    assert_int_equal(decision.remaining, 4);
    assert_int_equal(ask(small, WEIR_SHOW, 3, 0, YEAR, NULL).remaining, 5);
    struct weir_limiter_stats stats;
    small->table.store.ops->stats(&small->table.store, &stats);
    assert_int_equal(stats.events_full_count, 3);
    assert_int_equal(stats.full_count, 0);
    assert_int_equal(stats.events_used_bytes, 3 * CHUNK_BYTES);
    free(small);
}

static void test_a_full_pool_gives_what_has_drained(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, 40, "window 5/s");
    for (uint64_t key = 0; key < 40; key++) {
        assert_take(small, key, 1, YEAR + key * MS, WEIR_ALLOWED);
    }
    assert_take(small, 40, 1, YEAR + S - 1, WEIR_FAILED);
    assert_take(small, 40, 1, YEAR + S, WEIR_ALLOWED); // of key 0, at that instant
    assert_take(small, 41, 1, YEAR + S, WEIR_FAILED);
    for (uint64_t key = 41; key < 60; key++) {
        assert_take(small, key, 1, YEAR + 2 * S, WEIR_ALLOWED);
    }
    assert_int_equal(ask(small, WEIR_SHOW, 59, 0, YEAR + 2 * S, NULL).remaining, 4);
    assert_int_equal(ask(small, WEIR_SHOW, 39, 0, YEAR + S, NULL).remaining, 5); // it has drained
    free(small);
}

/* A long log in a pool that has no more: what leaves makes room for what comes. */
static void test_a_log_that_has_the_whole_pool_goes_on(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, 6, "window 250/s");
    for (uint64_t i = 0; i < 5000; i++) { // four bytes each: a little less than five chunks
        assert_take(small, 0, 1, YEAR + i * 4 * MS, WEIR_ALLOWED);
    }
    assert_int_equal(small->table.events.header->full_count, 0);
    free(small);
}

/* Whoever dies with a chunk in his hands leaves one that no log leads to. */
static void test_the_sweep_finds_what_nobody_has(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, 7, "window 250/s");
    struct event_pool *pool = &small->table.events;
    for (uint64_t i = 0; i < 200; i++) {
        assert_take(small, 0, 1, YEAR + i * MS, WEIR_ALLOWED); // 3 chunks
    }
    assert_int_equal(used_chunks(small), 3);
    (void)event_pool_take(pool, hash_of(0)); // not in its log
    (void)event_pool_take(pool, hash_of(1)); // of a key that has no slot
    (void)event_pool_take(pool, hash_of(2)); // and of one that lets nothing through
    assert_take(small, 4, 1, YEAR + 200 * MS, WEIR_ALLOWED);
    assert_int_equal(used_chunks(small), 7);
    for (uint64_t key = 6; key < 12; key += 2) {
        assert_take(small, key, 1, YEAR + 200 * MS, WEIR_ALLOWED);
    }
    assert_take(small, 12, 1, YEAR + 200 * MS, WEIR_FAILED);
    assert_int_equal(ask(small, WEIR_SHOW, 0, 0, YEAR + 200 * MS, NULL).remaining, 50);
    free(small);
}

static void test_the_slot_of_a_window_is_reused_with_its_chunks(void **state)
{
    (void)state;
    struct small *small = open_small_pool(1, CHUNKS, "window 300/s"); // two slots in each stripe
    for (uint64_t i = 0; i < 200; i++) {
        assert_take(small, 0, 1, YEAR + i * MS, WEIR_ALLOWED);
    }
    assert_take(small, 2, 1, YEAR + 200 * MS, WEIR_ALLOWED);
    assert_int_equal(used_chunks(small), 4);
    assert_take(small, 4, 1, YEAR + 1199 * MS, WEIR_FAILED); // an event of key 0 still counts
    assert_take(small, 4, 1, YEAR + 1200 * MS, WEIR_ALLOWED);
    assert_int_equal(used_chunks(small), 2);
    assert_int_equal(ask(small, WEIR_SHOW, 2, 0, YEAR + 1199 * MS, NULL).remaining, 299);
    assert_int_equal(ask(small, WEIR_SHOW, 4, 0, YEAR + 1200 * MS, NULL).remaining, 299);
    free(small);
}

static void test_a_reset_gives_everything_back(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, "window 300/s");
    for (uint64_t key = 0; key < 4; key++) {
        for (uint64_t i = 0; i < 200; i++) {
            assert_take(small, key, 1, YEAR + i * MS, WEIR_ALLOWED);
        }
    }
    struct weir_detail detail;
    (void)ask(small, WEIR_RESET, 0, 0, YEAR + 200 * MS, &detail);
    assert_true(detail.existed);
    assert_int_equal(used_chunks(small), 9);
    assert_int_equal(table_live_count(&small->table, YEAR + 200 * MS), 3);
    assert_int_equal(table_reset_all(&small->table.store, YEAR + 200 * MS), 3);
    assert_int_equal(used_chunks(small), 0);
    assert_int_equal(table_live_count(&small->table, YEAR + 200 * MS), 0);
    assert_int_equal(ask(small, WEIR_SHOW, 1, 0, YEAR + 200 * MS, NULL).remaining, 300);
    free(small);
}

static void test_a_refund_is_refused(void **state)
{
    (void)state;
    struct small *small = open_small_pool(RING, CHUNKS, "window 5/s");
    assert_take(small, 0, 2, YEAR, WEIR_ALLOWED);
    assert_int_equal(ask(small, WEIR_REFUND, 0, 1, YEAR, NULL).verdict, WEIR_FAILED);
    assert_int_equal(ask(small, WEIR_SHOW, 0, 0, YEAR, NULL).remaining, 3);
    free(small);
}

/* ---- damage ---- */

/* Whatever a crash of the machine left: nothing is read outside of the pool (ASan looks), nothing goes on
 * for ever, and afterwards the window lets through what it should. */
static void test_a_damaged_log_is_forgotten(void **state)
{
    (void)state;
    for (uint64_t round = 1; round < 3000; round++) {
        struct small *small = open_small_pool(RING, 12, "window 300/s");
        uint64_t random = round;
        for (uint64_t i = 0; i < 250; i++) {
            assert_take(small, i % 2, 1, YEAR + i * MS, WEIR_ALLOWED);
        }
        uint64_t at = 0;
        for (uint64_t count = 1 + next_random(&random) % 6; count > 0; count--) {
            uint64_t field = next_random(&random) % 4;
            at = CHUNK_BYTES + next_random(&random) % (6 * CHUNK_BYTES);
            at = field > 0 ? at / CHUNK_BYTES * CHUNK_BYTES + CHUNK_EVENT_BYTES + at % 32 : at;
            small->events[at] ^= (char)(1 << next_random(&random) % 8);
        }
        uint64_t now_ns = YEAR + 260 * MS;
        for (int i = 0; i < 50; i++) {
            for (uint64_t key = 0; key < 4; key++) {
                now_ns += next_random(&random) % (20 * MS);
                (void)ask(small, WEIR_TAKE, key, 1 + next_random(&random) % 20, now_ns, NULL);
                (void)ask(small, WEIR_SHOW, key, 0, now_ns, NULL);
            }
        }
        (void)table_sweep_events(&small->table, now_ns);
        now_ns += 2 * S;
        small->table.epoch++; // the machine starts anew
        small->table.events.epoch++;
        for (uint64_t key = 0; key < 2; key++) {
            (void)ask(small, WEIR_RESET, key, 0, now_ns, NULL);
            (void)ask(small, WEIR_TAKE, key, 300, now_ns, NULL);
        }
        free(small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_read_as_they_were_written),
        cmocka_unit_test(test_an_event_is_as_short_as_the_table_says),
        cmocka_unit_test(test_a_log_answers_as_a_list_of_its_events),
        cmocka_unit_test(test_a_refusal_reads_no_chunk_that_it_can_skip),
        cmocka_unit_test(test_a_line_reads_only_where_it_is_served),
        cmocka_unit_test(test_a_drain_is_told_as_a_list_would),
        cmocka_unit_test(test_an_event_takes_at_most_eight_bytes),
        cmocka_unit_test(test_a_log_gives_back_what_has_left),
        cmocka_unit_test(test_a_log_in_one_chunk_begins_again_in_it),
        cmocka_unit_test(test_a_full_pool_answers_as_a_full_table),
        cmocka_unit_test(test_a_full_pool_gives_what_has_drained),
        cmocka_unit_test(test_a_log_that_has_the_whole_pool_goes_on),
        cmocka_unit_test(test_the_sweep_finds_what_nobody_has),
        cmocka_unit_test(test_the_slot_of_a_window_is_reused_with_its_chunks),
        cmocka_unit_test(test_a_reset_gives_everything_back),
        cmocka_unit_test(test_a_refund_is_refused),
        cmocka_unit_test(test_a_damaged_log_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
