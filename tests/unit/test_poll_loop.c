/* SPDX-License-Identifier: MIT
 *
 * The loop over poll(), with real pipes. Nothing is slept for: what a pass waits for is there, or comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/poll_loop.h"

enum { FOR_EVER_S = 30, TIMERS = 6 };

#define FOR_EVER_NS (UINT64_C(1000000000) * FOR_EVER_S)

/* A pipe whose ends are watched.
 *   calls   how often it was called, and with which events last
 *   closes  the watch that a call ends, and the one that it begins */
struct end {
    struct loop *loop;
    struct loop_watch watch;
    int calls;
    unsigned events;
    struct end *closes, *begins;
};

static struct poll_loop poll_loop;
static struct loop *const loop = &poll_loop.loop;
static int fds[2];
static struct end reader, writer;

static void on_ready(void *owner, unsigned events)
{
    struct end *end = owner;
    end->calls++;
    end->events = events;
    if (end->closes != NULL) {
        loop_unwatch(end->loop, &end->closes->watch);
    }
    if (end->begins != NULL) {
        assert_true(loop_watch(end->loop, &end->begins->watch, fds[1], LOOP_WRITE));
    }
}

static struct end end_of(struct end *end)
{
    return (struct end){.loop = loop, .watch = {.ready = on_ready, .owner = end}};
}

static int open_all(void **state)
{
    (void)state;
    reader = end_of(&reader);
    writer = end_of(&writer);
    return poll_loop_open(&poll_loop) && pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    loop_unwatch(loop, &reader.watch);
    loop_unwatch(loop, &writer.watch);
    poll_loop_close(&poll_loop);
    (void)close(fds[0]);
    return close(fds[1]) == 0 || fds[1] < 0 ? 0 : -1;
}

static void write_byte(void)
{
    assert_int_equal(write(fds[1], "x", 1), 1);
}

static void read_byte(void)
{
    char byte;
    assert_int_equal(read(fds[0], &byte, 1), 1);
}

/* ---- fds ---- */

static void test_a_watch_is_called_as_long_as_its_fd_is_ready(void **state)
{
    (void)state;
    assert_true(loop_watch(loop, &reader.watch, fds[0], LOOP_READ));
    poll_loop_pass(&poll_loop, 0);
    assert_int_equal(reader.calls, 0);
    write_byte();
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(reader.calls, 2);
    assert_int_equal(reader.events, LOOP_READ);
    read_byte();
    poll_loop_pass(&poll_loop, 0);
    assert_int_equal(reader.calls, 2);
}

static void test_a_watch_that_has_gone_is_not_called(void **state)
{
    (void)state;
    assert_true(loop_watch(loop, &reader.watch, fds[0], LOOP_READ));
    write_byte();
    loop_unwatch(loop, &reader.watch);
    loop_unwatch(loop, &reader.watch); // as often as one likes
    poll_loop_pass(&poll_loop, 0);
    assert_int_equal(reader.calls, 0);
    assert_true(loop_watch(loop, &reader.watch, fds[0], LOOP_READ));
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(reader.calls, 1);
}

static void test_events_can_be_changed(void **state)
{
    (void)state;
    assert_true(loop_watch(loop, &writer.watch, fds[1], LOOP_READ));
    poll_loop_pass(&poll_loop, 0);
    assert_int_equal(writer.calls, 0); // nothing is ever read there
    assert_true(loop_watch(loop, &writer.watch, fds[1], LOOP_READ | LOOP_WRITE));
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(writer.calls, 1);
    assert_int_equal(writer.events, LOOP_WRITE);
}

static void test_who_is_unwatched_in_a_pass_is_not_called_in_it(void **state)
{
    (void)state;
    struct end *first = &reader, *second = &writer;
    first->closes = second;
    second->closes = first;
    write_byte();
    assert_true(loop_watch(loop, &reader.watch, fds[0], LOOP_READ));
    assert_true(loop_watch(loop, &writer.watch, fds[1], LOOP_WRITE));
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(reader.calls + writer.calls, 1);
}

/* The slot of one that has gone is another's: events that were meant for the former do not reach it. */
static void test_who_is_watched_in_a_pass_is_called_in_the_next(void **state)
{
    (void)state;
    int more[2];
    struct end other = end_of(&other);
    assert_int_equal(pipe2(more, O_CLOEXEC), 0);
    reader.closes = &other;
    reader.begins = &writer;
    write_byte();
    assert_true(loop_watch(loop, &reader.watch, fds[0], LOOP_READ));
    assert_true(loop_watch(loop, &other.watch, more[1], LOOP_WRITE));
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(writer.watch.slot, other.watch.slot);
    assert_int_equal(reader.calls, 1);
    assert_int_equal(other.calls, 0);
    assert_int_equal(writer.calls, 0);
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(writer.calls, 1);
    (void)close(more[0]);
    (void)close(more[1]);
}

static void test_a_closed_connection_is_ready_for_what_is_waited_for(void **state)
{
    (void)state;
    assert_true(loop_watch(loop, &reader.watch, fds[0], LOOP_READ));
    (void)close(fds[1]);
    fds[1] = -1;
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(reader.events, LOOP_READ);
}

static void test_a_loop_that_is_full_says_so(void **state)
{
    (void)state;
    struct end ends[POLL_LOOP_FDS_MAX];
    for (int i = 0; i < POLL_LOOP_FDS_MAX; i++) {
        ends[i] = end_of(&ends[i]);
        assert_int_equal(loop_watch(loop, &ends[i].watch, fds[0], LOOP_READ),
                         i < POLL_LOOP_FDS_MAX - 1); // one is the loop's own
    }
    loop_unwatch(loop, &ends[7].watch);
    assert_true(loop_watch(loop, &ends[POLL_LOOP_FDS_MAX - 1].watch, fds[0], LOOP_READ));
    for (int i = 0; i < POLL_LOOP_FDS_MAX; i++) {
        loop_unwatch(loop, &ends[i].watch);
    }
    assert_int_equal(poll_loop.slot_count, 1);
}

/* ---- timers ---- */

struct alarm {
    struct loop_timer timer;
    int calls;
    struct alarm *sets, *clears;
};

static int order[TIMERS], called_count;
static struct alarm alarms[TIMERS];

static void on_due(void *owner)
{
    struct alarm *called = owner;
    called->calls++;
    order[called_count++ % TIMERS] = (int)(called - alarms);
    if (called->sets != NULL) {
        loop_set_timer(loop, &called->sets->timer, 0);
    }
    if (called->clears != NULL) {
        loop_clear_timer(loop, &called->clears->timer);
    }
}

static void make_alarms(void)
{
    called_count = 0;
    for (int i = 0; i < TIMERS; i++) {
        alarms[i] = (struct alarm){.timer = {.due = on_due, .owner = &alarms[i]}};
    }
}

static void test_timers_are_called_once_and_in_order(void **state)
{
    (void)state;
    make_alarms();
    static const uint64_t AT_NS[TIMERS] = {5, 3, 9, 3, 1, UINT64_MAX};
    static const int ORDER[TIMERS - 1] = {4, 1, 3, 0, 2};
    for (int i = 0; i < TIMERS; i++) {
        loop_set_timer(loop, &alarms[i].timer, AT_NS[i]);
    }
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    poll_loop_pass(&poll_loop, 0);
    assert_int_equal(called_count, TIMERS - 1);
    assert_memory_equal(order, ORDER, sizeof ORDER);
    loop_clear_timer(loop, &alarms[TIMERS - 1].timer);
}

static void test_a_timer_can_be_moved(void **state)
{
    (void)state;
    make_alarms();
    loop_set_timer(loop, &alarms[0].timer, 1);
    loop_set_timer(loop, &alarms[1].timer, 2);
    loop_set_timer(loop, &alarms[0].timer, UINT64_MAX);
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(alarms[0].calls, 0);
    assert_int_equal(alarms[1].calls, 1);
    loop_clear_timer(loop, &alarms[0].timer);
    loop_clear_timer(loop, &alarms[0].timer);
}

static void test_a_pass_sleeps_until_a_timer_is_due(void **state)
{
    (void)state;
    make_alarms();
    uint64_t at_ns = loop_now_ns(loop) + 1000000;
    loop_set_timer(loop, &alarms[0].timer, at_ns);
    while (alarms[0].calls == 0) {
        poll_loop_pass(&poll_loop, FOR_EVER_NS);
    }
    assert_true(loop_now_ns(loop) >= at_ns);
}

static void test_a_timer_that_is_set_in_a_pass_waits_for_the_next(void **state)
{
    (void)state;
    make_alarms();
    alarms[0].sets = &alarms[0];
    loop_set_timer(loop, &alarms[0].timer, 0);
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(alarms[0].calls, 1);
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(alarms[0].calls, 2);
    loop_clear_timer(loop, &alarms[0].timer);
}

static void test_a_timer_that_is_cleared_in_a_pass_is_not_called(void **state)
{
    (void)state;
    make_alarms();
    alarms[0].clears = &alarms[1];
    for (int i = 0; i < 3; i++) {
        loop_set_timer(loop, &alarms[i].timer, (uint64_t)i);
    }
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(alarms[0].calls, 1);
    assert_int_equal(alarms[1].calls, 0);
    assert_int_equal(alarms[2].calls, 1);
}

static void test_fds_come_before_timers(void **state)
{
    (void)state;
    make_alarms();
    write_byte();
    assert_true(loop_watch(loop, &reader.watch, fds[0], LOOP_READ));
    loop_set_timer(loop, &alarms[0].timer, 0);
    poll_loop_pass(&poll_loop, FOR_EVER_NS);
    assert_int_equal(reader.calls, 1);
    assert_int_equal(alarms[0].calls, 1);
}

/* ---- being woken ---- */

static void *wake_it(void *argument)
{
    poll_loop_wake(argument);
    return NULL;
}

static void test_another_thread_ends_the_sleep(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_it, &poll_loop), 0);
    (void)alarm(FOR_EVER_S);
    poll_loop_pass(&poll_loop, UINT64_MAX);
    (void)alarm(0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* What came before the sleep ends it too, however often it was; and only one. */
static void test_a_wake_is_kept_until_the_next_pass(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        poll_loop_wake(&poll_loop);
    }
    (void)alarm(FOR_EVER_S);
    poll_loop_pass(&poll_loop, UINT64_MAX);
    (void)alarm(0);
    uint64_t before_ns = loop_now_ns(loop);
    poll_loop_pass(&poll_loop, 1000000);
    assert_true(loop_now_ns(loop) - before_ns >= 1000000 / 2); // it slept: two clocks
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(test_a_watch_is_called_as_long_as_its_fd_is_ready),
        TEST(test_a_watch_that_has_gone_is_not_called),
        TEST(test_events_can_be_changed),
        TEST(test_who_is_unwatched_in_a_pass_is_not_called_in_it),
        TEST(test_who_is_watched_in_a_pass_is_called_in_the_next),
        TEST(test_a_closed_connection_is_ready_for_what_is_waited_for),
        TEST(test_a_loop_that_is_full_says_so),
        TEST(test_timers_are_called_once_and_in_order),
        TEST(test_a_timer_can_be_moved),
        TEST(test_a_pass_sleeps_until_a_timer_is_due),
        TEST(test_a_timer_that_is_set_in_a_pass_waits_for_the_next),
        TEST(test_a_timer_that_is_cleared_in_a_pass_is_not_called),
        TEST(test_fds_come_before_timers),
        TEST(test_another_thread_ends_the_sleep),
        TEST(test_a_wake_is_kept_until_the_next_pass),
    };
#undef TEST
    return cmocka_run_group_tests_name("poll_loop", tests, NULL, NULL);
}
