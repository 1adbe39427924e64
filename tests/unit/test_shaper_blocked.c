/* SPDX-License-Identifier: MIT
 *
 * Threads that wait for room in a shaper: who gets in, when, and in which order. */
#include "../support/letters_in_line.h"

#include <pthread.h>
#include <sched.h>

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

static void assert_joins_cancelled(struct sender *sender)
{
    void *result;
    assert_int_equal(pthread_join(sender->thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void assert_cancelled(struct sender *sender)
{
    assert_int_equal(pthread_cancel(sender->thread), 0);
    assert_joins_cancelled(sender);
    assert_false(sender->is_done);
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

/* Those behind a cancelled thread fit where it did not, and whoever sleeps is told. */
static void test_a_cancelled_thread_gives_its_place_back(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=3", WEIR_OVERFLOW_BLOCK, 0);
    static struct sender large = {.letter = 'b', .cost_micro = 3 * WEIR_UNIT};
    static struct sender middle = {.letter = 'c', .cost_micro = 2 * WEIR_UNIT};
    static struct sender small = {.letter = 'd', .cost_micro = WEIR_UNIT};
    submit('a', 2, 0, 200 * MS);
    start_blocked(&large);
    start_blocked(&middle);
    start_blocked(&small);
    assert_cancelled(&middle);
    assert_int_equal(stats_of().blocked_count, 2);
    int told_before = told.sooner_count;
    assert_cancelled(&large);
    assert_int_equal(told.sooner_count, told_before + 1);
    assert_int_equal(weir_shaper_next_ns(shaper), 0);
    assert_nothing_due(0); // but lets in the small one
    assert_got_in(&small, 300 * MS);
    assert_int_equal(stats_of().blocked_count, 0);
    assert_leaves_as("ad", (const uint64_t[]){200 * MS, 300 * MS});
}

/* As one that was the last, and that others come behind. */
static void test_others_are_blocked_behind_a_cancelled_thread(void **state)
{
    (void)state;
    open_with("queue 10/s capacity=1", WEIR_OVERFLOW_BLOCK, 0);
    static struct sender first = {.letter = 'b', .cost_micro = WEIR_UNIT};
    static struct sender last = {.letter = 'c', .cost_micro = WEIR_UNIT};
    static struct sender next = {.letter = 'd', .cost_micro = WEIR_UNIT};
    submit('a', 1, 0, 100 * MS);
    start_blocked(&first);
    start_blocked(&last);
    assert_cancelled(&last);
    start_blocked(&next);
    assert_pops('a', 100 * MS, 100 * MS);
    assert_got_in(&first, 200 * MS);
    assert_pops('b', 200 * MS, 200 * MS);
    assert_got_in(&next, 300 * MS);
}

/* The functions of the config are usually points of cancellation: they write to a pipe. */
static _Atomic int returned_count;

static void be_cancelled_telling(void *context)
{
    (void)context;
    pthread_testcancel();
    returned_count++;
}

static void be_cancelled_dropping(void *context, void *item, uint64_t ticket)
{
    (void)item, (void)ticket;
    be_cancelled_telling(context);
}

static void open_cancelling(const char *text, enum weir_overflow overflow)
{
    struct weir_shaper_config config = {
        .overflow = overflow, .dropped = be_cancelled_dropping, .sooner = be_cancelled_telling};
    returned_count = 0;
    assert_int_equal(weir_limit_from_text(&limit, text, NULL), WEIR_OK);
    assert_int_equal(weir_shaper_open(&shaper, &limit, &config, NULL), WEIR_OK);
}

static void *send_item_cancelled(void *argument)
{
    (void)pthread_cancel(pthread_self()); // acts at the next point of cancellation
    (void)send_item(argument);
    pthread_testcancel();
    return NULL;
}

static void test_a_thread_is_not_cancelled_while_it_tells(void **state)
{
    (void)state;
    open_cancelling("queue 10/s capacity=10 first=now", WEIR_OVERFLOW_BLOCK);
    static struct sender sender = {.letter = 'b', .cost_micro = 10 * WEIR_UNIT};
    submit('a', 10, 0, 0);
    assert_pops('a', 0, 0);
    int told_before = returned_count;
    assert_int_equal(pthread_create(&sender.thread, NULL, send_item_cancelled, &sender), 0);
    assert_joins_cancelled(&sender);
    assert_int_equal(returned_count, told_before + 1);
    assert_false(sender.is_done); // but while it was blocked
    assert_int_equal(stats_of().blocked_count, 0);
    assert_true(weir_shaper_next_ns(shaper) == UINT64_MAX);
}

static void test_a_thread_is_not_cancelled_while_it_hands_over_what_it_dropped(void **state)
{
    (void)state;
    open_cancelling("queue 10/s capacity=3", WEIR_OVERFLOW_DROP_OLDEST);
    static struct sender sender = {.letter = 'd', .cost_micro = 3 * WEIR_UNIT};
    submit('a', 1, 0, 100 * MS);
    submit('b', 1, 0, 200 * MS);
    submit('c', 1, 0, 300 * MS);
    int told_before = returned_count;
    assert_int_equal(pthread_create(&sender.thread, NULL, send_item_cancelled, &sender), 0);
    assert_joins_cancelled(&sender);
    assert_int_equal(returned_count, told_before + 3);
    assert_true(sender.is_done);
    assert_int_equal(sender.submitted.decision.verdict, WEIR_ALLOWED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHAPER_TEST(test_blocked_threads_get_in_as_room_comes_first_come_first_served),
        SHAPER_TEST(test_a_cancelled_item_lets_in_who_is_blocked),
        SHAPER_TEST(test_an_empty_line_lets_in_who_is_blocked_when_time_has_come),
        SHAPER_TEST(test_who_is_blocked_gets_in_no_earlier_than_it_came),
        SHAPER_TEST(test_shut_down_sends_blocked_threads_away),
        SHAPER_TEST(test_a_cancelled_thread_gives_its_place_back),
        SHAPER_TEST(test_others_are_blocked_behind_a_cancelled_thread),
        SHAPER_TEST(test_a_thread_is_not_cancelled_while_it_tells),
        SHAPER_TEST(test_a_thread_is_not_cancelled_while_it_hands_over_what_it_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
