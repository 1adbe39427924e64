/* SPDX-License-Identifier: MIT
 *
 * The shaper in one thread: instants, leaving early, overflow, lateness. Threads that wait for room:
 * test_shaper_blocked.c; random traces: test_shaper_traces.c. */
#include "../support/letters_in_line.h"

/* ---- opening ---- */

static void test_open_refuses_what_cannot_be(void **state)
{
    (void)state;
    struct weir_error error;
    struct weir_shaper_config config = {.items_max = WEIR_SHAPER_ITEMS_MAX + 1};
    assert_int_equal(weir_limit_from_text(&limit, "5/s", NULL), WEIR_OK);
    assert_int_equal(weir_shaper_open(&shaper, &limit, NULL, &error), WEIR_E_RANGE);
    assert_null(shaper);
    assert_string_equal(error.message, "a shaper's limit must be of kind queue");
    assert_int_equal(weir_limit_from_text(&limit, "queue 5/s", NULL), WEIR_OK);
    assert_int_equal(weir_shaper_open(&shaper, &limit, &config, &error), WEIR_E_RANGE);
    assert_null(shaper);
    config.items_max = 1;
    config.overflow = (enum weir_overflow)3;
    assert_int_equal(weir_shaper_open(&shaper, &limit, &config, NULL), WEIR_E_RANGE);
    assert_null(shaper);
}

static void test_a_zeroed_config_refuses_what_does_not_fit(void **state)
{
    (void)state;
    assert_int_equal(weir_limit_from_text(&limit, "queue 5/s capacity=1", NULL), WEIR_OK);
    assert_int_equal(weir_shaper_open(&shaper, &limit, NULL, NULL), WEIR_OK);
    submit('a', 1, 0, 200 * MS);
    assert_refused(1, 50 * MS, 150 * MS);
    assert_int_equal(stats_of().item_count, 1);
}

/* ---- instants ---- */

static void assert_same_decision(const struct weir_decision *got,
                                 const struct weir_decision *expected)
{
    assert_int_equal(got->verdict, expected->verdict);
    assert_int_equal(got->capacity, expected->capacity);
    assert_int_equal(got->remaining, expected->remaining);
    assert_int_equal(got->retry_after_ns, expected->retry_after_ns);
    assert_int_equal(got->reset_after_ns, expected->reset_after_ns);
    assert_int_equal(got->delay_ns, expected->delay_ns);
}

/* 20 arrivals every 25 ms into 5/s with 10 places: requests 1-11 and 17 get in, at whole intervals; the
 * 17th finds exactly one place. With first=now the first goes at once, and 13 get in. The counter, asked
 * beside it, says the same about each. */
static void run_worked_example(const char *text, uint64_t first_ns, const char *admitted)
{
    open_with(text, WEIR_OVERFLOW_REFUSE, 0);
    struct weir_bucket counter = {0};
    struct weir_released released;
    uint64_t expected_ns = first_ns, popped_ns = first_ns;
    char got[21] = "";
    for (int i = 0; i < 20; i++) {
        uint64_t now_ns = (uint64_t)i * 25 * MS;
        while (weir_shaper_next_ns(shaper) <= now_ns) {
            assert_true(weir_shaper_pop(shaper, popped_ns, &released));
            assert_int_equal(released.egress_ns, popped_ns);
            popped_ns += 200 * MS;
        }
        struct weir_submitted submitted = weir_shaper_submit(shaper, NULL, WEIR_UNIT, now_ns);
        struct weir_decision decision = weir_bucket_take(&counter, &limit, WEIR_UNIT, now_ns);
        assert_same_decision(&submitted.decision, &decision);
        got[i] = submitted.decision.verdict == WEIR_ALLOWED ? '+' : '-';
        if (got[i] == '+') {
            assert_int_equal(submitted.egress_ns, expected_ns);
            expected_ns += 200 * MS;
        }
    }
    assert_string_equal(got, admitted);
    for (; popped_ns < expected_ns; popped_ns += 200 * MS) {
        assert_int_equal(weir_shaper_next_ns(shaper), popped_ns);
        assert_nothing_due(popped_ns - 1);
        assert_true(weir_shaper_pop(shaper, popped_ns, &released));
        assert_int_equal(released.egress_ns, popped_ns);
    }
    assert_true(weir_shaper_next_ns(shaper) == UINT64_MAX);
}

static void test_the_worked_example_after_one_interval(void **state)
{
    (void)state;
    run_worked_example("queue 5/s capacity=10", 200 * MS, "+++++++++++-----+---");
}

static void test_the_worked_example_at_once(void **state)
{
    (void)state;
    run_worked_example("queue 5/s capacity=10 first=now", 0, "++++++++++++----+---");
}

static void test_thirds_of_a_second_are_exact(void **state)
{
    (void)state;
    open_with("queue 3/s capacity=30", WEIR_OVERFLOW_REFUSE, 0);
    for (uint64_t i = 1; i <= 30; i++) {
        submit('a', 1, 0, (i * S + 2) / 3);
    }
    for (uint64_t i = 1; i <= 30; i++) {
        assert_pops('a', (i * S + 2) / 3, (i * S + 2) / 3);
    }
}

static void test_a_large_cost_takes_its_time(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    submit('a', 1, 0, 100 * MS);
    submit('b', 5, 0, 600 * MS);
    submit('c', 1, 0, 700 * MS);
    assert_leaves_as("abc", (const uint64_t[]){100 * MS, 600 * MS, 700 * MS});
}

static void test_a_cost_of_nothing_has_its_place_in_the_order(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=2", WEIR_OVERFLOW_REFUSE, 0);
    submit('z', 0, 7, 7);
    assert_pops('z', 7, 7);
    submit('a', 1, 10, 100 * MS + 10);
    submit('b', 0, 10, 100 * MS + 10);
    submit('c', 1, 10, 200 * MS + 10);
    submit('d', 0, 10, 200 * MS + 10);
    assert_pops('a', 100 * MS + 10, 100 * MS + 10);
    assert_pops('b', 100 * MS + 10, 100 * MS + 10);
    assert_nothing_due(100 * MS + 10);
}

static void test_what_exceeds_the_capacity_never_gets_in(void **state)
{
    (void)state;
    for (int overflow = WEIR_OVERFLOW_REFUSE; overflow <= WEIR_OVERFLOW_BLOCK; overflow++) {
        open_with("queue 10/s capacity=2 first=now", (enum weir_overflow)overflow, 0);
        struct weir_submitted submitted = weir_shaper_submit(shaper, NULL, 3 * WEIR_UNIT, 0);
        assert_int_equal(submitted.decision.verdict, WEIR_NEVER);
        assert_int_equal(submitted.decision.retry_after_ns, -1);
        assert_int_equal(submitted.ticket, 0);
        weir_shaper_close(shaper);
    }
    shaper = NULL;
}

static void test_an_older_reading_sees_a_fuller_line(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=2", WEIR_OVERFLOW_REFUSE, 0);
    submit('a', 1, 1000 * MS, 1100 * MS);
    assert_refused(1, 950 * MS, 50 * MS);
    assert_nothing_due(950 * MS);
    submit('b', 1, 1000 * MS, 1200 * MS);
}

/* ---- leaving early, and changing places ---- */

static void test_those_behind_a_cancelled_item_move_up_by_its_cost(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    void *item = NULL;
    submit('a', 1, 0, 100 * MS);
    uint64_t b = submit('b', 3, 0, 400 * MS);
    submit('c', 1, 0, 500 * MS);
    uint64_t d = submit('d', 1, 0, 600 * MS);
    assert_true(weir_shaper_cancel(shaper, b, 50 * MS, &item));
    assert_int_equal(letter_of(item), 'b');
    assert_false(weir_shaper_cancel(shaper, b, 50 * MS, &item));
    assert_true(weir_shaper_cancel(shaper, d, 50 * MS, NULL));
    submit('e', 1, 50 * MS, 300 * MS);
    assert_leaves_as("ace", (const uint64_t[]){100 * MS, 200 * MS, 300 * MS});
    assert_int_equal(stats_of().cancelled_count, 2);
}

static void test_the_first_in_line_can_be_cancelled(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10 first=now", WEIR_OVERFLOW_REFUSE, 0);
    submit('a', 1, 0, 0);
    assert_pops('a', 0, 0);
    uint64_t b = submit('b', 2, 0, 100 * MS);
    submit('c', 1, 0, 300 * MS);
    assert_true(weir_shaper_cancel(shaper, b, 10 * MS, NULL));
    assert_leaves_as("c", (const uint64_t[]){100 * MS});
}

/* It gives back what has not drained: an empty line is an empty bucket. */
static void test_the_only_item_leaves_nothing_behind(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    uint64_t a = submit('a', 5, 0, 500 * MS);
    assert_true(weir_shaper_cancel(shaper, a, 60 * MS, NULL));
    assert_true(weir_shaper_next_ns(shaper) == UINT64_MAX);
    submit('b', 1, 60 * MS, 160 * MS);
}

static void test_a_ticket_ends_with_its_item(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 1);
    uint64_t a = submit('a', 1, 0, 100 * MS);
    assert_pops('a', 100 * MS, 100 * MS);
    assert_false(weir_shaper_cancel(shaper, a, 100 * MS, NULL));
    uint64_t b = submit('b', 1, 100 * MS, 200 * MS); // in the same memory
    assert_int_not_equal(a, b);
    assert_false(weir_shaper_cancel(shaper, a, 100 * MS, NULL));
    assert_false(weir_shaper_replace(shaper, a, NULL, NULL));
    assert_false(weir_shaper_cancel(shaper, 0, 100 * MS, NULL));
    assert_false(weir_shaper_cancel(shaper, UINT64_MAX, 100 * MS, NULL));
    assert_true(weir_shaper_cancel(shaper, b, 100 * MS, NULL));
}

static void test_another_item_takes_the_place_and_its_instant(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    void *old = NULL;
    submit('a', 1, 0, 100 * MS);
    uint64_t b = submit('b', 2, 0, 300 * MS);
    submit('c', 1, 0, 400 * MS);
    assert_true(weir_shaper_replace(shaper, b, item_of('B'), &old));
    assert_int_equal(letter_of(old), 'b');
    assert_leaves_as("aBc", (const uint64_t[]){100 * MS, 300 * MS, 400 * MS});
    assert_false(weir_shaper_replace(shaper, b, item_of('x'), &old));
}

static void test_two_items_change_places_and_the_instants_stay(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    void *item = NULL;
    uint64_t a = submit('a', 1, 0, 100 * MS);
    uint64_t b = submit('b', 2, 0, 300 * MS);
    uint64_t c = submit('c', 1, 0, 400 * MS);
    assert_true(weir_shaper_swap(shaper, a, c));
    assert_true(weir_shaper_swap(shaper, b, b));
    assert_pops('c', 100 * MS, 100 * MS);
    assert_false(weir_shaper_swap(shaper, a, b));
    assert_pops('b', 300 * MS, 300 * MS);
    assert_true(weir_shaper_cancel(shaper, c, 300 * MS, &item));
    assert_int_equal(letter_of(item), 'a');
}

/* ---- overflow ---- */

static void test_without_a_place_it_is_refused_until_the_next_is_due(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 2);
    submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 200 * MS);
    assert_refused(1, 30 * MS, 70 * MS);
    assert_refused(1, 101 * MS, 1);
    assert_pops('a', 101 * MS, 100 * MS);
    submit('c', 1, 101 * MS, 300 * MS);
}

/* What is due and has not been popped yet takes no room away: the counter knows nothing of it. */
static void test_usual_places_suffice_while_due_items_are_not_popped(void **state)
{
    (void)state;
    open_with("queue 10000/s capacity=4", WEIR_OVERFLOW_REFUSE, 0);
    struct weir_bucket counter = {0};
    for (uint64_t now_ns = 0; now_ns <= WEIR_JITTER_NS; now_ns += 10000) {
        struct weir_decision decision = weir_bucket_take(&counter, &limit, WEIR_UNIT, now_ns);
        struct weir_submitted submitted = weir_shaper_submit(shaper, NULL, WEIR_UNIT, now_ns);
        assert_int_equal(submitted.decision.verdict, decision.verdict);
    }
    assert_int_equal(stats_of().item_count, 54);
}

static void test_the_oldest_is_dropped_and_its_place_given_on(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=3", WEIR_OVERFLOW_DROP_OLDEST, 0);
    uint64_t a = submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 200 * MS);
    submit('c', 1, 0, 300 * MS);
    assert_int_equal(told.count, 0);
    submit('d', 1, 0, 300 * MS); // what c had; c has what b had, b what a had
    assert_int_equal(told.count, 1);
    assert_int_equal(letter_of(told.items[0]), 'a');
    assert_false(weir_shaper_cancel(shaper, a, 0, NULL));
    assert_leaves_as("bcd", (const uint64_t[]){100 * MS, 200 * MS, 300 * MS});
    assert_int_equal(stats_of().dropped_count, 1);
}

static void test_a_large_cost_drops_as_many_as_it_needs(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=50", WEIR_OVERFLOW_DROP_OLDEST, 0);
    for (uint64_t i = 1; i <= 50; i++) {
        submit((char)('A' + i), 1, 0, i * 100 * MS);
    }
    submit('z', 48, 0, 5000 * MS);
    assert_int_equal(told.count, 48);
    for (size_t i = 0; i < 48; i++) {
        assert_int_equal(letter_of(told.items[i]), (char)('B' + i));
    }
    assert_leaves_as("rsz", (const uint64_t[]){100 * MS, 200 * MS, 5000 * MS});
}

static void test_nobody_is_dropped_in_vain(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10 first=now", WEIR_OVERFLOW_DROP_OLDEST, 0);
    submit('a', 10, 0, 0);
    assert_pops('a', 0, 0); // its time lasts until 1 s
    submit('b', 1, 0, 1000 * MS);
    assert_refused(5, 0, 500 * MS);
    assert_int_equal(told.count, 0);
}

static void test_for_want_of_a_place_the_oldest_is_dropped_too(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_DROP_OLDEST, 1);
    submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 100 * MS);
    assert_int_equal(letter_of(told.items[0]), 'a');
    assert_leaves_as("b", (const uint64_t[]){100 * MS});
}

static void test_close_hands_back_what_stands_in_line(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=3", WEIR_OVERFLOW_REFUSE, 0);
    submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 200 * MS);
    assert_int_equal(close_shaper(NULL), 0);
    assert_int_equal(told.count, 2);
    assert_int_equal(letter_of(told.items[0]), 'a');
    assert_int_equal(letter_of(told.items[1]), 'b');
}

static void test_after_shut_down_nobody_gets_in_and_all_get_out(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=3", WEIR_OVERFLOW_DROP_OLDEST, 0);
    submit('a', 1, 0, 100 * MS);
    weir_shaper_shut_down(shaper);
    struct weir_submitted submitted = weir_shaper_submit(shaper, NULL, WEIR_UNIT, 0);
    assert_int_equal(submitted.decision.verdict, WEIR_FAILED);
    assert_int_equal(submitted.ticket, 0);
    assert_leaves_as("a", (const uint64_t[]){100 * MS});
}

static void test_who_sleeps_is_told_when_the_next_is_sooner(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    uint64_t a = submit('a', 5, 0, 500 * MS);
    assert_int_equal(told.sooner_count, 1); // was empty
    uint64_t b = submit('b', 1, 0, 600 * MS);
    assert_int_equal(told.sooner_count, 1);
    assert_true(weir_shaper_cancel(shaper, b, 0, NULL));
    assert_int_equal(told.sooner_count, 1);
    submit('c', 1, 0, 600 * MS);
    assert_true(weir_shaper_cancel(shaper, a, 0, NULL));
    assert_int_equal(told.sooner_count, 2);
    assert_pops('c', 100 * MS, 100 * MS);
    assert_int_equal(told.sooner_count, 2);
}

/* ---- lateness ---- */

static void test_what_is_a_little_late_moves_nothing(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 200 * MS);
    assert_pops('a', 100 * MS + WEIR_JITTER_NS, 100 * MS);
    assert_int_equal(weir_shaper_next_ns(shaper), 200 * MS);
    assert_int_equal(stats_of().late_count, 0);
}

static void test_what_is_later_moves_the_line(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10", WEIR_OVERFLOW_REFUSE, 0);
    uint64_t late_ns = 100 * MS + WEIR_JITTER_NS + 1;
    submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 200 * MS);
    assert_pops('a', late_ns, late_ns);
    assert_int_equal(weir_shaper_next_ns(shaper), late_ns + 100 * MS);
    assert_int_equal(stats_of().late_count, 1);
    submit('c', 1, late_ns, late_ns + 200 * MS);
}

/* Nobody pops for three seconds: then they go one by one, and those that come meanwhile find the places
 * taken. */
static void run_stall(const char *text, uint64_t capacity)
{
    open_with(text, WEIR_OVERFLOW_REFUSE, 0);
    uint64_t admitted = 0;
    while (weir_shaper_submit(shaper, NULL, WEIR_UNIT, 0).ticket != 0) {
        admitted++;
    }
    assert_int_equal(admitted, capacity);
    uint64_t now_ns = 3 * S, last_ns = 0;
    for (uint64_t popped = 0; popped < 25; popped++) {
        struct weir_released released;
        while (weir_shaper_submit(shaper, NULL, WEIR_UNIT, now_ns).ticket != 0) {
        }
        assert_true(stats_of().item_count <= capacity + 1); // one is due: it has drained
        assert_true(weir_shaper_pop(shaper, now_ns, &released));
        assert_false(weir_shaper_pop(shaper, now_ns, &released));
        assert_true(popped == 0 || now_ns - last_ns == 100 * MS);
        last_ns = now_ns;
        now_ns = weir_shaper_next_ns(shaper);
    }
    assert_int_equal(stats_of().late_count, 1);
}

static void test_a_stall_is_not_caught_up(void **state)
{
    (void)state;
    run_stall("queue 10/s capacity=10", 10);
    assert_int_equal(close_shaper(NULL), 0);
    run_stall("queue 10/s capacity=10 first=now", 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHAPER_TEST(test_open_refuses_what_cannot_be),
        SHAPER_TEST(test_a_zeroed_config_refuses_what_does_not_fit),
        SHAPER_TEST(test_the_worked_example_after_one_interval),
        SHAPER_TEST(test_the_worked_example_at_once),
        SHAPER_TEST(test_thirds_of_a_second_are_exact),
        SHAPER_TEST(test_a_large_cost_takes_its_time),
        SHAPER_TEST(test_a_cost_of_nothing_has_its_place_in_the_order),
        SHAPER_TEST(test_what_exceeds_the_capacity_never_gets_in),
        SHAPER_TEST(test_an_older_reading_sees_a_fuller_line),
        SHAPER_TEST(test_those_behind_a_cancelled_item_move_up_by_its_cost),
        SHAPER_TEST(test_the_first_in_line_can_be_cancelled),
        SHAPER_TEST(test_the_only_item_leaves_nothing_behind),
        SHAPER_TEST(test_a_ticket_ends_with_its_item),
        SHAPER_TEST(test_another_item_takes_the_place_and_its_instant),
        SHAPER_TEST(test_two_items_change_places_and_the_instants_stay),
        SHAPER_TEST(test_without_a_place_it_is_refused_until_the_next_is_due),
        SHAPER_TEST(test_usual_places_suffice_while_due_items_are_not_popped),
        SHAPER_TEST(test_the_oldest_is_dropped_and_its_place_given_on),
        SHAPER_TEST(test_a_large_cost_drops_as_many_as_it_needs),
        SHAPER_TEST(test_nobody_is_dropped_in_vain),
        SHAPER_TEST(test_for_want_of_a_place_the_oldest_is_dropped_too),
        SHAPER_TEST(test_close_hands_back_what_stands_in_line),
        SHAPER_TEST(test_after_shut_down_nobody_gets_in_and_all_get_out),
        SHAPER_TEST(test_who_sleeps_is_told_when_the_next_is_sooner),
        SHAPER_TEST(test_what_is_a_little_late_moves_nothing),
        SHAPER_TEST(test_what_is_later_moves_the_line),
        SHAPER_TEST(test_a_stall_is_not_caught_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
