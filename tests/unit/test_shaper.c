/* SPDX-License-Identifier: MIT
 *
 * The shaper: instants, leaving early, overflow, lateness; and random traces against a model that keeps
 * every item's span and adds them all up each time. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/weir.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct weir_limit limit;
static struct weir_shaper *shaper;

/* What the callbacks were told. */
static struct {
    void *items[64];
    size_t count;
    _Atomic int sooner_count;
} told;

static void note_dropped(void *context, void *item, uint64_t ticket)
{
    assert_ptr_equal(context, &told);
    assert_int_not_equal(ticket, 0);
    told.items[told.count++ % 64] = item;
}

static void note_sooner(void *context)
{
    assert_ptr_equal(context, &told);
    told.sooner_count++;
}

static void open_with(const char *text, enum weir_overflow overflow, uint32_t items_max)
{
    struct weir_shaper_config config = {.overflow = overflow,
                                        .items_max = items_max,
                                        .dropped = note_dropped,
                                        .sooner = note_sooner,
                                        .context = &told};
    memset(&told, 0, sizeof told);
    assert_int_equal(weir_limit_from_text(&limit, text, NULL), WEIR_OK);
    assert_int_equal(weir_shaper_open(&shaper, &limit, &config, NULL), WEIR_OK);
}

static int close_shaper(void **state)
{
    (void)state;
    weir_shaper_close(shaper);
    shaper = NULL;
    return 0;
}

/* Items are letters. */
static char letters[128];

static void *item_of(char letter)
{
    return &letters[(unsigned char)letter];
}

static char letter_of(const void *item)
{
    return (char)((const char *)item - letters);
}

static uint64_t submit(char letter, uint64_t cost, uint64_t now_ns, uint64_t egress_ns)
{
    struct weir_submitted submitted =
        weir_shaper_submit(shaper, item_of(letter), cost * WEIR_UNIT, now_ns);
    assert_int_equal(submitted.decision.verdict, WEIR_ALLOWED);
    assert_int_not_equal(submitted.ticket, 0);
    assert_int_equal(submitted.egress_ns, egress_ns);
    assert_int_equal(submitted.decision.delay_ns, egress_ns - now_ns);
    return submitted.ticket;
}

static void assert_refused(uint64_t cost, uint64_t now_ns, uint64_t retry_after_ns)
{
    struct weir_submitted submitted =
        weir_shaper_submit(shaper, item_of('!'), cost * WEIR_UNIT, now_ns);
    assert_int_equal(submitted.decision.verdict, WEIR_LIMITED);
    assert_int_equal(submitted.decision.retry_after_ns, retry_after_ns);
    assert_int_equal(submitted.decision.delay_ns, 0);
    assert_int_equal(submitted.ticket, 0);
    assert_true(submitted.egress_ns == UINT64_MAX);
}

static void assert_pops(char letter, uint64_t now_ns, uint64_t egress_ns)
{
    struct weir_released released = {0};
    assert_true(weir_shaper_pop(shaper, now_ns, &released));
    assert_int_equal(letter_of(released.item), letter);
    assert_int_equal(released.egress_ns, egress_ns);
}

static void assert_nothing_due(uint64_t now_ns)
{
    struct weir_released released;
    assert_false(weir_shaper_pop(shaper, now_ns, &released));
}

/* Pops each at its own instant, and the line ends there. */
static void assert_leaves_as(const char *order, const uint64_t *egress_ns)
{
    for (size_t i = 0; order[i] != '\0'; i++) {
        assert_int_equal(weir_shaper_next_ns(shaper), egress_ns[i]);
        assert_nothing_due(egress_ns[i] - 1);
        assert_pops(order[i], egress_ns[i], egress_ns[i]);
    }
    assert_true(weir_shaper_next_ns(shaper) == UINT64_MAX);
}

static struct weir_shaper_stats stats_of(void)
{
    struct weir_shaper_stats stats;
    weir_shaper_read_stats(shaper, &stats);
    return stats;
}

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

/* ---- threads that wait for room ---- */

struct sender {
    pthread_t thread;
    char letter;
    uint64_t cost_micro;
    uint64_t now_ns;
    struct weir_submitted submitted;
    _Atomic bool is_done;
};

static void *send_item(void *argument)
{
    struct sender *sender = argument;
    sender->submitted =
        weir_shaper_submit(shaper, item_of(sender->letter), sender->cost_micro, sender->now_ns);
    sender->is_done = true;
    return NULL;
}

/* Returns when its thread is blocked, behind those before. */
static void start_blocked(struct sender *sender)
{
    uint64_t before = stats_of().blocked_count;
    assert_int_equal(pthread_create(&sender->thread, NULL, send_item, sender), 0);
    while (stats_of().blocked_count == before) {
        assert_false(sender->is_done);
        sched_yield();
    }
}

static void assert_got_in(struct sender *sender, uint64_t egress_ns)
{
    assert_int_equal(pthread_join(sender->thread, NULL), 0);
    assert_int_equal(sender->submitted.decision.verdict, WEIR_ALLOWED);
    assert_int_equal(sender->submitted.egress_ns, egress_ns);
}

static void test_blocked_threads_get_in_as_room_comes_first_come_first_served(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=3", WEIR_OVERFLOW_BLOCK, 0);
    static struct sender large = {.letter = 'd', .cost_micro = 2 * WEIR_UNIT};
    static struct sender small = {.letter = 'e', .cost_micro = WEIR_UNIT, .now_ns = 100 * MS};
    submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 200 * MS);
    submit('c', 1, 0, 300 * MS);
    start_blocked(&large);
    assert_pops('a', 100 * MS, 100 * MS); // room for one
    start_blocked(&small);                // but the large one is not overtaken
    assert_int_equal(stats_of().blocked_count, 2);
    assert_pops('b', 200 * MS, 200 * MS);
    assert_got_in(&large, 500 * MS);
    assert_int_equal(stats_of().blocked_count, 1);
    assert_pops('c', 300 * MS, 300 * MS);
    assert_got_in(&small, 600 * MS);
    assert_leaves_as("de", (const uint64_t[]){500 * MS, 600 * MS});
}

static void test_a_cancelled_item_lets_in_who_is_blocked(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=1", WEIR_OVERFLOW_BLOCK, 0);
    static struct sender sender = {.letter = 'b', .cost_micro = WEIR_UNIT};
    uint64_t a = submit('a', 1, 0, 100 * MS);
    start_blocked(&sender);
    assert_true(weir_shaper_cancel(shaper, a, 40 * MS, NULL));
    assert_got_in(&sender, 140 * MS);
}

/* No item is left whose popping would make room, but time does; and whoever sleeps is told. */
static void test_an_empty_line_lets_in_who_is_blocked_when_time_has_come(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=10 first=now", WEIR_OVERFLOW_BLOCK, 0);
    static struct sender sender = {.letter = 'b', .cost_micro = 10 * WEIR_UNIT};
    submit('a', 10, 0, 0);
    assert_pops('a', 0, 0);
    int told_before = told.sooner_count;
    start_blocked(&sender);
    while (told.sooner_count == told_before) {
        sched_yield();
    }
    assert_int_equal(weir_shaper_next_ns(shaper), 900 * MS);
    assert_nothing_due(900 * MS - 1);
    assert_int_equal(stats_of().blocked_count, 1);
    assert_nothing_due(900 * MS); // but lets it in
    assert_got_in(&sender, 1000 * MS);
}

/* A popper whose clock is behind cannot let it leave before it came. */
static void test_who_is_blocked_gets_in_no_earlier_than_it_came(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=1", WEIR_OVERFLOW_BLOCK, 1);
    static struct sender sender = {.letter = 'b', .cost_micro = WEIR_UNIT, .now_ns = 103 * MS};
    submit('a', 1, 0, 100 * MS);
    start_blocked(&sender); // for want of a place
    assert_pops('a', 100 * MS, 100 * MS);
    assert_got_in(&sender, 203 * MS);
}

static void test_shut_down_sends_blocked_threads_away(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=1", WEIR_OVERFLOW_BLOCK, 0);
    static struct sender senders[3] = {
        {.letter = 'b', .cost_micro = WEIR_UNIT},
        {.letter = 'c', .cost_micro = WEIR_UNIT},
        {.letter = 'd', .cost_micro = WEIR_UNIT},
    };
    submit('a', 1, 0, 100 * MS);
    for (int i = 0; i < 3; i++) {
        start_blocked(&senders[i]);
    }
    assert_int_equal(close_shaper(NULL), 0); // waits for them
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
        assert_int_equal(senders[i].submitted.decision.verdict, WEIR_FAILED);
        assert_int_equal(senders[i].submitted.ticket, 0);
    }
    assert_int_equal(told.count, 1); // only a was in line
}

/* ---- random traces ---- */

/* The model counts in N-ths of a nanosecond, where the limit is N millionths per P: then everything is a
 * whole number, and a cost of m lasts m * P. */
__extension__ typedef __int128 wide;

enum { MODEL_MAX = 64 };

static struct {
    struct weir_limit_config limit;
    wide front; // when the first in line starts
    struct {
        uint64_t ticket, cost_micro, value;
    } line[MODEL_MAX];
    size_t count, places;
} model;

static wide in_parts(uint64_t ns)
{
    return (wide)ns * model.limit.count_micro;
}

static uint64_t in_ns_up(wide parts)
{
    return (uint64_t)((parts + model.limit.count_micro - 1) / model.limit.count_micro);
}

static wide lasts(uint64_t cost_micro)
{
    return (wide)cost_micro * model.limit.period_ns;
}

static wide model_back(void)
{
    wide back = model.front;
    for (size_t i = 0; i < model.count; i++) {
        back += lasts(model.line[i].cost_micro);
    }
    return back;
}

static wide model_egress(wide start, uint64_t cost_micro)
{
    return model.limit.first == WEIR_FIRST_NOW ? start : start + lasts(cost_micro);
}

static void model_settle(uint64_t now_ns)
{
    if (model.count > 0) {
        wide egress = model_egress(model.front, model.line[0].cost_micro);
        if (in_ns_up(egress) + WEIR_JITTER_NS < now_ns) {
            model.front += in_parts(now_ns) - egress;
        }
    }
}

static void model_remove(size_t at)
{
    model.count--;
    memmove(&model.line[at], &model.line[at + 1], (model.count - at) * sizeof model.line[0]);
}

static bool model_fits(wide back, uint64_t cost_micro, uint64_t now_ns)
{
    wide start = back > in_parts(now_ns) ? back : in_parts(now_ns);
    uint64_t one_more = model.limit.first == WEIR_FIRST_NOW ? WEIR_UNIT : 0;
    return cost_micro == 0
           || (cost_micro <= model.limit.capacity_micro
               && start + lasts(cost_micro)
                      <= in_parts(now_ns) + lasts(model.limit.capacity_micro + one_more));
}

static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * UINT64_C(2685821657736338717) >> 16) % bound;
}

static uint64_t random_cost(void)
{
    static const uint64_t COSTS[] = {0, 1, 300000, WEIR_UNIT, WEIR_UNIT, WEIR_UNIT, 2500000};
    return COSTS[random_below(sizeof COSTS / sizeof COSTS[0])];
}

static void step_submit(uint64_t now_ns, bool drops)
{
    static uint64_t values = 0;
    uint64_t cost_micro = random_cost(), value = ++values;
    model_settle(now_ns);
    size_t dropped = 0, dropped_before = told.count;
    if (drops && model_fits(model.front, cost_micro, now_ns)) {
        while (model.count == model.places || !model_fits(model_back(), cost_micro, now_ns)) {
            model_remove(0);
            dropped++;
        }
    }
    bool fits = model.count < model.places && model_fits(model_back(), cost_micro, now_ns);
    struct weir_submitted submitted =
        weir_shaper_submit(shaper, (void *)(uintptr_t)value, cost_micro, now_ns);
    assert_int_equal(submitted.ticket != 0, fits);
    assert_int_equal(told.count - dropped_before, dropped);
    if (!fits) {
        return;
    }
    wide back = model_back(), now = in_parts(now_ns);
    if (back < now) {
        model.front += now - back;
        back = now;
    }
    assert_int_equal(submitted.egress_ns, in_ns_up(model_egress(back, cost_micro)));
    model.line[model.count].ticket = submitted.ticket;
    model.line[model.count].cost_micro = cost_micro;
    model.line[model.count++].value = value;
}

static void step_pop(uint64_t now_ns)
{
    struct weir_released released;
    model_settle(now_ns);
    wide egress = model.count > 0 ? model_egress(model.front, model.line[0].cost_micro) : 0;
    bool due = model.count > 0 && egress <= in_parts(now_ns);
    assert_int_equal(weir_shaper_pop(shaper, now_ns, &released), due);
    if (due) {
        assert_int_equal((uintptr_t)released.item, model.line[0].value);
        assert_int_equal(released.ticket, model.line[0].ticket);
        assert_int_equal(released.cost_micro, model.line[0].cost_micro);
        assert_int_equal(released.egress_ns, in_ns_up(egress));
        model.front += lasts(model.line[0].cost_micro);
        model_remove(0);
    }
}

static void step_cancel(uint64_t now_ns)
{
    void *item = NULL;
    model_settle(now_ns);
    size_t at = (size_t)random_below(model.count);
    assert_true(weir_shaper_cancel(shaper, model.line[at].ticket, now_ns, &item));
    assert_int_equal((uintptr_t)item, model.line[at].value);
    model_remove(at);
}

static void step_swap(void)
{
    size_t one = (size_t)random_below(model.count), two = (size_t)random_below(model.count);
    assert_true(weir_shaper_swap(shaper, model.line[one].ticket, model.line[two].ticket));
    uint64_t value = model.line[one].value;
    model.line[one].value = model.line[two].value;
    model.line[two].value = value;
}

static void run_trace(uint64_t seed)
{
    static const char *const TEXTS[] = {"queue 5/s capacity=10",
                                        "queue 3/s capacity=4 first=now",
                                        "queue 7/13ms capacity=20",
                                        "queue 999983/s capacity=30",
                                        "queue 10000/s capacity=5",
                                        "queue 0.7/s capacity=2.5",
                                        "queue 1000/s capacity=9 first=now"};
    const char *text = TEXTS[seed % 7];
    bool drops = seed / 7 % 2 == 1;
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    memset(&model, 0, sizeof model);
    model.places = 1 + (size_t)random_below(40);
    assert_int_equal(weir_limit_parse(&model.limit, text, strlen(text), NULL), WEIR_OK);
    open_with(text, drops ? WEIR_OVERFLOW_DROP_OLDEST : WEIR_OVERFLOW_REFUSE,
              (uint32_t)model.places);
    uint64_t unit_ns = model.limit.period_ns * WEIR_UNIT / model.limit.count_micro;
    uint64_t now_ns = random_below(10 * S);
    for (int i = 0; i < 3000; i++) {
        uint64_t choice = random_below(16);
        if (choice < 6) {
            step_submit(now_ns, drops);
        } else if (choice < 10) {
            step_pop(now_ns);
        } else if (choice == 10 && model.count > 0) {
            step_cancel(now_ns);
        } else if (choice == 11 && model.count > 0) {
            step_swap();
        } else if (choice == 12 && model.count > 0) { // to the instant, or one before
            now_ns = weir_shaper_next_ns(shaper) - random_below(2);
        } else if (choice == 13 && random_below(8) == 0) {
            now_ns += random_below(20 * unit_ns + 2 * WEIR_JITTER_NS); // a stall
        } else {
            now_ns += random_below(unit_ns);
        }
        uint64_t next_ns = model.count == 0
                               ? UINT64_MAX
                               : in_ns_up(model_egress(model.front, model.line[0].cost_micro));
        assert_true(weir_shaper_next_ns(shaper) == next_ns);
        assert_int_equal(stats_of().item_count, model.count);
    }
    assert_int_equal(close_shaper(NULL), 0);
}

static void test_random_traces_agree_with_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 140; seed++) {
        run_trace(seed);
    }
}

int main(void)
{
#define SHAPER_TEST(test) cmocka_unit_test_teardown(test, close_shaper)
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
        SHAPER_TEST(test_blocked_threads_get_in_as_room_comes_first_come_first_served),
        SHAPER_TEST(test_a_cancelled_item_lets_in_who_is_blocked),
        SHAPER_TEST(test_an_empty_line_lets_in_who_is_blocked_when_time_has_come),
        SHAPER_TEST(test_who_is_blocked_gets_in_no_earlier_than_it_came),
        SHAPER_TEST(test_shut_down_sends_blocked_threads_away),
        SHAPER_TEST(test_random_traces_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
