/* SPDX-License-Identifier: MIT
 *
 * The timing wheel against a list that is kept sorted. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/wheel.h"

static struct wheel wheel;

static void assert_takes(uint64_t now_ns, const struct wheel_entry *expected)
{
    assert_ptr_equal(wheel_take_due(&wheel, now_ns), expected);
    assert_true(wheel_valid(&wheel));
    if (expected != NULL) {
        assert_false(wheel_holds(expected));
    }
}

static void test_an_empty_wheel_has_nothing(void **state)
{
    (void)state;
    wheel_init(&wheel, 7);
    assert_true(wheel_valid(&wheel));
    assert_int_equal(wheel_next_ns(&wheel), UINT64_MAX);
    assert_takes(UINT64_MAX - 1, NULL);
}

static void test_an_entry_is_due_to_the_nanosecond(void **state)
{
    (void)state;
    struct wheel_entry entry = {0};
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t due_ns = (UINT64_C(1) << bit) + 1;
        wheel_init(&wheel, 0);
        assert_false(wheel_holds(&entry));
        wheel_add(&wheel, &entry, due_ns);
        assert_true(wheel_holds(&entry));
        assert_int_equal(wheel_next_ns(&wheel), due_ns);
        assert_takes(due_ns - 1, NULL);
        assert_int_equal(wheel_next_ns(&wheel), due_ns);
        assert_takes(due_ns, &entry);
        assert_int_equal(wheel_next_ns(&wheel), UINT64_MAX);
    }
}

static void test_entries_leave_in_the_order_in_which_they_are_due(void **state)
{
    (void)state;
    static const uint64_t DUE_NS[] = {1u << 20, 70, 5, 64, UINT64_MAX - 1, 63, 1u << 30, 4097};
    static const int ORDER[] = {2, 5, 3, 1, 7, 0, 6, 4};
    struct wheel_entry entries[8] = {{0}};
    wheel_init(&wheel, 0);
    for (int i = 0; i < 8; i++) {
        wheel_add(&wheel, &entries[i], DUE_NS[i]);
    }
    for (int i = 0; i < 8; i++) {
        assert_takes(UINT64_MAX - 1, &entries[ORDER[i]]);
    }
    assert_takes(UINT64_MAX - 1, NULL);
}

/* Also those that were added when the wheel's instant was another, and lie elsewhere for a while. */
static void test_equal_dues_leave_first_in_first_out(void **state)
{
    (void)state;
    struct wheel_entry entries[6] = {{0}};
    wheel_init(&wheel, 0);
    for (int i = 0; i < 6; i++) {
        wheel_add(&wheel, &entries[i], 1000000);
        assert_takes((uint64_t)i * 199999, NULL);
    }
    for (int i = 0; i < 6; i++) {
        assert_takes(1000000, &entries[i]);
    }
}

static void test_late_entries_leave_first_and_in_the_order_of_adding(void **state)
{
    (void)state;
    struct wheel_entry now = {0}, soon = {0}, late = {0}, later = {0};
    wheel_init(&wheel, 0);
    assert_takes(1000, NULL);
    wheel_add(&wheel, &soon, 1001);
    wheel_add(&wheel, &now, 1000);
    wheel_add(&wheel, &late, 999);
    wheel_add(&wheel, &later, 3);
    assert_true(wheel_next_ns(&wheel) <= 1000);
    assert_takes(1000, &now);
    assert_takes(1000, &late);
    assert_takes(1000, &later);
    assert_takes(1000, NULL);
    assert_takes(1001, &soon);
}

static void test_a_late_entry_can_be_removed(void **state)
{
    (void)state;
    struct wheel_entry late = {0}, other = {0};
    wheel_init(&wheel, 0);
    assert_takes(1u << 20, NULL);
    wheel_add(&wheel, &late, 3);
    wheel_add(&wheel, &other, 4);
    wheel_remove(&wheel, &late);
    assert_false(wheel_holds(&late));
    assert_takes(1u << 20, &other);
}

/* While the wheel has gone on only to what it gave out, an entry before its latest reading is not
 * late: what is due between goes in between. */
static void test_between_two_takes_of_one_reading_the_order_holds(void **state)
{
    (void)state;
    struct wheel_entry first = {0}, second = {0}, third = {0};
    wheel_init(&wheel, 0);
    wheel_add(&wheel, &first, 50);
    wheel_add(&wheel, &third, 70);
    assert_takes(100, &first);
    wheel_add(&wheel, &second, 60);
    assert_takes(100, &second);
    assert_takes(100, &third);
}

static void test_at_an_older_reading_nothing_leaves(void **state)
{
    (void)state;
    struct wheel_entry late = {0}, later = {0};
    wheel_init(&wheel, 0);
    assert_takes(1000, NULL);
    wheel_add(&wheel, &late, 500);
    wheel_add(&wheel, &later, 1001);
    assert_takes(999, NULL);
    assert_takes(1000, &late);
    assert_takes(999, NULL);
    assert_takes(1001, &later);
}

/* Ten thousand that are due in ten seconds: whoever sleeps until wheel_next_ns() is woken a handful of
 * times, and then knows exactly. */
static void test_asking_at_the_bound_soon_gives_the_instant(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    static struct wheel_entry entries[COUNT];
    const uint64_t start_ns = UINT64_C(123456789012345);
    const uint64_t due_ns = start_ns + UINT64_C(10000000000);
    wheel_init(&wheel, start_ns);
    for (uint64_t i = COUNT; i-- > 0;) {
        wheel_add(&wheel, &entries[i], due_ns + i * 7);
    }
    int wakes = 0;
    uint64_t now_ns = start_ns;
    while (now_ns < due_ns) {
        uint64_t next_ns = wheel_next_ns(&wheel);
        assert_in_range(next_ns, now_ns + 1, due_ns);
        now_ns = next_ns;
        wakes++;
        if (now_ns < due_ns) {
            assert_takes(now_ns, NULL);
        }
    }
    assert_in_range(wakes, 1, WHEEL_LEVELS);
    for (int i = 0; i < COUNT; i++) {
        assert_ptr_equal(wheel_take_due(&wheel, due_ns + (uint64_t)i * 7), &entries[i]);
    }
}

/* The obvious model: all entries in one array, in the order in which they are to leave. */
enum { MODEL_MAX = 300 };

static struct {
    struct wheel_entry *entries[MODEL_MAX];
    uint64_t counts_ns[MODEL_MAX]; // its due, or the reading at which it was late
    size_t count;
    uint64_t now_ns;       // the wheel's: what is due before is late
    uint64_t least_now_ns; // it is at least there: nothing was left at this reading
    uint64_t latest_ns;    // and at most here
} model;

static void model_add(struct wheel_entry *entry, uint64_t due_ns)
{
    uint64_t counts_ns = due_ns > model.now_ns ? due_ns : model.now_ns;
    size_t at = model.count++;
    for (; at > 0 && model.counts_ns[at - 1] > counts_ns; at--) {
        model.entries[at] = model.entries[at - 1];
        model.counts_ns[at] = model.counts_ns[at - 1];
    }
    model.entries[at] = entry;
    model.counts_ns[at] = counts_ns;
}

static void model_remove(size_t at)
{
    model.count--;
    for (; at < model.count; at++) {
        model.entries[at] = model.entries[at + 1];
        model.counts_ns[at] = model.counts_ns[at + 1];
    }
}

static struct wheel_entry *model_take_due(uint64_t now_ns)
{
    if (model.count > 0 && model.counts_ns[0] <= now_ns) {
        struct wheel_entry *entry = model.entries[0];
        model_remove(0);
        return entry;
    }
    model.least_now_ns = now_ns > model.least_now_ns ? now_ns : model.least_now_ns;
    return NULL;
}

static uint64_t random_state;

static uint64_t random_next(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

/* Any size from 0 to 2^bits - 1, all orders of magnitude alike. */
static uint64_t random_of_any_size(unsigned bits)
{
    uint64_t size = random_next() % (bits + 1);
    return size == 0 ? 0 : random_next() >> (64 - size);
}

/* Behind, at, just before or far after the wheel's instant, and often what another one has. */
static uint64_t random_due_ns(unsigned bits)
{
    uint64_t far_ns = random_of_any_size(bits);
    switch (random_next() % 8) {
    case 0: return model.now_ns > far_ns ? model.now_ns - far_ns : 0;
    case 1:
    case 2: return model.count > 0 ? model.entries[random_next() % model.count]->due_ns : far_ns;
    default: return far_ns < UINT64_MAX - 1 - model.now_ns ? model.now_ns + far_ns : UINT64_MAX - 1;
    }
}

static void random_step(struct wheel_entry *pool, unsigned bits)
{
    struct wheel_entry *entry = &pool[random_next() % MODEL_MAX];
    switch (random_next() % 4) {
    case 0:
    case 1:
        if (!wheel_holds(entry)) {
            uint64_t due_ns = random_due_ns(bits);
            model_add(entry, due_ns);
            wheel_add(&wheel, entry, due_ns);
        }
        return;
    case 2:
        if (model.count > 0) {
            size_t at = random_next() % model.count;
            wheel_remove(&wheel, model.entries[at]);
            model_remove(at);
        }
        return;
    default: {
        uint64_t step_ns = random_of_any_size(bits > 3 ? bits - 3 : 1);
        uint64_t now_ns = model.now_ns < UINT64_MAX - 1 - step_ns ? model.now_ns + step_ns : 0;
        model.latest_ns = now_ns > model.latest_ns ? now_ns : model.latest_ns;
        for (uint64_t takes = random_next() % 4; takes-- > 0;) {
            assert_ptr_equal(wheel_take_due(&wheel, now_ns), model_take_due(now_ns));
        }
    }
    }
}

static void assert_same_next(void)
{
    uint64_t next_ns = wheel_next_ns(&wheel);
    if (model.count == 0) {
        assert_int_equal(next_ns, UINT64_MAX);
    } else {
        assert_in_range(next_ns, model.now_ns, model.counts_ns[0]);
        if (model.count <= 8) {
            assert_int_equal(next_ns, model.counts_ns[0]);
        }
    }
}

static void test_random_traces_agree_with_a_sorted_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        static struct wheel_entry pool[MODEL_MAX];
        unsigned bits = (unsigned)(seed % 64) + 1;
        random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
        memset(pool, 0, sizeof pool);
        memset(&model, 0, sizeof model);
        model.now_ns = seed % 2 == 0 ? 0 : random_of_any_size(63);
        model.least_now_ns = model.latest_ns = model.now_ns;
        wheel_init(&wheel, model.now_ns);
        for (int i = 0; i < 1500; i++) {
            random_step(pool, bits);
            assert_same_next();
            assert_in_range(wheel.now_ns, model.least_now_ns, model.latest_ns);
            model.now_ns = wheel.now_ns;
            if (i % 16 == 0 && !wheel_valid(&wheel)) {
                fail_msg("seed %llu, step %d: the wheel is not valid", (unsigned long long)seed, i);
            }
        }
        while (model.count > 0) {
            assert_ptr_equal(wheel_take_due(&wheel, UINT64_MAX - 1),
                             model_take_due(UINT64_MAX - 1));
        }
        assert_int_equal(wheel_next_ns(&wheel), UINT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_wheel_has_nothing),
        cmocka_unit_test(test_an_entry_is_due_to_the_nanosecond),
        cmocka_unit_test(test_entries_leave_in_the_order_in_which_they_are_due),
        cmocka_unit_test(test_equal_dues_leave_first_in_first_out),
        cmocka_unit_test(test_late_entries_leave_first_and_in_the_order_of_adding),
        cmocka_unit_test(test_a_late_entry_can_be_removed),
        cmocka_unit_test(test_between_two_takes_of_one_reading_the_order_holds),
        cmocka_unit_test(test_at_an_older_reading_nothing_leaves),
        cmocka_unit_test(test_asking_at_the_bound_soon_gives_the_instant),
        cmocka_unit_test(test_random_traces_agree_with_a_sorted_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
