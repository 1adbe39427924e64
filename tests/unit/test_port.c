/* SPDX-License-Identifier: MIT
 *
 * A port, with a bad wire behind it, on a clock that stands still: each row of the table in docs/design/stores.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "../support/delayed/delayed_link.h"
#include "../support/still_loop.h"
#include "limiter/limiter_state.h"
#include "store/port.h"

#define MS UINT64_C(1000000)

enum { ASKERS = 64 };

/*   is_done, fate  what it was told; its batch is forgotten then, unless it keeps the answers */
struct asker {
    struct batch *batch;
    bool is_done, keeps;
    enum fate fate;
    struct weir_decision decision;
    uint64_t done_ns;
};

static struct weir_limiter *limiter;
static struct weir_rule rule;
static struct still_loop loop;
static struct delayed_store delayed;
static struct port *port;
static struct asker askers[ASKERS];
static int asker_count, downs, stays, backs;
static bool may_be_done;
static char why[WEIR_ERROR_TEXT_MAX];

static void flush(void *context)
{
    (void)context;
    bool before = may_be_done;
    may_be_done = false;
    port_flush(port);
    may_be_done = before;
}

static void on_told(void *context, enum port_event event, const char *reason)
{
    (void)context;
    downs += event == PORT_WENT_DOWN;
    stays += event == PORT_STAYS_DOWN;
    backs += event == PORT_CAME_BACK;
    (void)strncpy(why, reason, sizeof why - 1);
}

static void on_done(struct batch *batch)
{
    struct asker *asker = batch->asker;
    assert_true(may_be_done);
    assert_false(asker->is_done);
    assert_ptr_equal(asker->batch, batch);
    asker->is_done = true;
    asker->fate = batch->fate;
    asker->done_ns = loop.now_ns;
    asker->decision = batch->decisions[0];
    if (!asker->keeps) {
        port_forget(batch);
    }
}

static struct port_stats stats(void)
{
    struct port_stats now;
    port_stats(port, &now);
    uint64_t ended = now.decided + now.not_asked + now.unknown + now.forgotten;
    assert_in_range(now.asked, ended, ended + now.pending);
    return now;
}

/* Nothing happens for so long. */
static void go(uint64_t ns)
{
    still_loop_go(&loop, loop.now_ns + ns);
}

static int open_with(const struct port_config *config)
{
    static const struct weir_limiter_config memory = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                                      .caller_clock = true};
    struct weir_error error;
    asker_count = downs = stays = backs = 0;
    may_be_done = true;
    still_loop_init(&loop, flush, NULL);
    loop.now_ns = 1000 * MS;
    if (weir_limiter_open(&limiter, &memory, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, "10/s capacity=10", &error) != WEIR_OK) {
        return -1;
    }
    delayed_init(&delayed, limiter->store, 1);
    port = port_open(&delayed.store, &delayed_ops, &loop.loop, config);
    return port != NULL ? 0 : -1;
}

static const struct port_config CONFIG = {
    .batch_count_max = 8, .bytes_max = 100000, .seed = 7, .told = on_told};

static int open_world(void **state)
{
    (void)state;
    return open_with(&CONFIG);
}

/* With room for those that are lost. */
static int open_wide(void **state)
{
    struct port_config config = CONFIG;
    (void)state;
    config.batch_count_max = 100;
    return open_with(&config);
}

static int close_world(void **state)
{
    (void)state;
    port_close(port);
    assert_null(loop.timers.first);
    assert_null(delayed.first_link);
    weir_limiter_close(limiter);
    return 0;
}

/* One take, by a key of its own unless it is given one. What it was asked with is gone before anything is sent. */
static struct asker *ask_key(const char *name)
{
    struct asker *asker = &askers[asker_count++];
    struct weir_rule own_rule = rule;
    char key[32];
    (void)strncpy(key, name, sizeof key - 1);
    struct weir_request request = {.rule = &own_rule,
                                   .key = key,
                                   .key_len = strlen(name),
                                   .cost_micro = WEIR_UNIT,
                                   .operation = WEIR_TAKE};
    struct asking asking = {
        .requests = &request, .count = 1, .now_ns = 0, .asker = asker, .done = on_done};
    assert_in_range(asker_count, 1, ASKERS);
    *asker = (struct asker){.batch = NULL};
    may_be_done = false;
    asker->batch = port_decide(port, &asking);
    may_be_done = true;
    memset(key, 0xff, sizeof key);
    memset(&own_rule, 0xff, sizeof own_rule);
    memset(&request, 0xff, sizeof request);
    return asker;
}

static struct asker *ask(void)
{
    return ask_key("k");
}

/* And sends it, at the end of this turn. */
static struct asker *ask_now(void)
{
    struct asker *asker = ask();
    flush(NULL);
    return asker;
}

static void assert_fate(const struct asker *asker, enum fate fate)
{
    assert_true(asker->is_done);
    assert_int_equal(asker->fate, fate);
}

static uint64_t charged(void)
{
    return 10 - weir_limiter_take_at(limiter, &rule, "k", 1, 0, 0).remaining;
}

/* ---- the store answers ---- */

static void test_an_answer_is_the_one_of_the_store(void **state)
{
    (void)state;
    go(0);
    delayed.plan.there_ns = delayed.plan.back_ns = 4 * MS;
    for (uint64_t i = 0; i < 12; i++) {
        const struct asker *asker = ask_now();
        assert_false(asker->is_done);
        go(10 * MS);
        assert_fate(asker, FATE_DECIDED);
        assert_int_equal(asker->decision.verdict, i < 10 ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(asker->decision.remaining, i < 10 ? 9 - i : 0);
    }
    assert_int_equal(stats().decided, 12);
    assert_int_equal(stats().pending, 0);
    assert_int_equal(stats().pending_bytes, 0);
}

static void test_what_is_asked_in_one_turn_goes_out_at_its_end(void **state)
{
    (void)state;
    go(0);
    const struct asker *first = ask(), *second = ask_key("other");
    assert_int_equal(delayed.sent, 0);
    flush(NULL);
    assert_int_equal(delayed.sent, 2);
    go(0);
    assert_fate(first, FATE_DECIDED);
    assert_fate(second, FATE_DECIDED);
}

static void keep_batch(struct batch *batch)
{
    *(struct batch **)batch->asker = batch;
}

static void test_details_and_runs_come_to_those_who_want_them(void **state)
{
    (void)state;
    go(0);
    struct weir_detail first = {.waiting = 77}, second = first;
    struct weir_request requests[3] = {
        {.rule = &rule, .key = "a", .key_len = 1, .cost_micro = 3 * WEIR_UNIT},
        {.rule = &rule, .key = "a", .key_len = 1, .operation = WEIR_SHOW, .detail = &first},
        {.rule = &rule, .operation = WEIR_RESET, .detail = &second}};
    struct weir_decision decisions[3];
    struct batch *batch = NULL;
    struct asking asking = {
        .requests = requests, .count = 3, .own_bytes = 100, .asker = &batch, .done = keep_batch};
    memset(port_decide(port, &asking)->own, 1, 100); // before it is filled with answers
    flush(NULL);
    assert_null(batch);
    go(0);
    assert_int_equal(((char *)batch->own)[99], 1);
    batch_answer(batch, requests, decisions);
    assert_int_equal(decisions[1].remaining, 7);
    assert_int_equal(first.amount.numerator_low / first.amount.denominator_low, 3);
    assert_true(first.existed);
    assert_false(second.existed);
    assert_int_equal(second.waiting, 0);
    port_forget(batch);
}

/* ---- deadlines ---- */

static void test_at_its_deadline_what_was_not_sent_is_not_asked(void **state)
{
    (void)state;
    delayed.plan.connect_ns = 30 * MS;
    go(0);
    const struct asker *asker = ask_now();
    go(20 * MS - 1);
    assert_false(asker->is_done);
    go(1);
    assert_fate(asker, FATE_NOT_ASKED);
    go(30 * MS);
    assert_int_equal(charged(), 0);
}

static void test_what_the_link_could_not_write_is_not_asked(void **state)
{
    (void)state;
    go(0);
    delayed.plan.written_max = 1;
    delayed.plan.lost_there = 1000;
    const struct asker *first = ask_now(), *second = ask_now();
    go(20 * MS);
    assert_fate(first, FATE_UNKNOWN);
    assert_fate(second, FATE_NOT_ASKED);
    assert_int_equal(delayed.taken_back, 1);
}

static void test_at_its_deadline_what_was_sent_is_unknown_and_stays_so(void **state)
{
    (void)state;
    go(0);
    delayed.plan.lost_back = 1000;
    const struct asker *asker = ask_now();
    go(20 * MS - 1);
    assert_false(asker->is_done);
    go(1);
    assert_fate(asker, FATE_UNKNOWN);
    delayed.plan.lost_back = 0;
    go(3000 * MS);
    assert_int_equal(delayed.sent, 1); // never again
    assert_int_equal(charged(), 1);
    assert_int_equal(stats().unknown, 1);
    assert_int_equal(stats().retried, 0);
}

static void test_a_link_that_says_unknown_is_believed(void **state)
{
    (void)state;
    go(0);
    delayed.plan.unknown_back = 1000;
    const struct asker *asker = ask_now();
    go(0);
    assert_fate(asker, FATE_UNKNOWN);
    go(100 * MS);
    assert_int_equal(charged(), 1);
}

static void test_an_answer_after_the_deadline_is_late(void **state)
{
    (void)state;
    go(0);
    delayed.plan.is_silent = true;
    struct asker *asker = ask();
    asker->keeps = true;
    flush(NULL);
    go(25 * MS);
    assert_fate(asker, FATE_UNKNOWN);
    assert_int_equal(stats().pending, 1); // the link has it
    assert_int_equal(stats().late, 0);
    delayed.plan.is_silent = false;
    delayed_look(&delayed);
    go(0);
    assert_int_equal(stats().late, 1);
    assert_int_equal(stats().unknown, 1);
    assert_int_equal(stats().pending, 0);
    assert_int_equal(asker->batch->fate, FATE_UNKNOWN); // as it was told
    port_forget(asker->batch);
}

/* ---- a thread that was stopped ---- */

static void test_a_thread_that_was_stopped_reads_what_has_come(void **state)
{
    (void)state;
    go(0);
    delayed.plan.way_ns = 4 * MS;
    for (int is_backwards = 0; is_backwards < 2;
         is_backwards++) { // the port's timer is first, or the link's
        const struct asker *asker = ask_now();
        still_loop_stall(&loop, loop.now_ns + 50 * MS, is_backwards != 0);
        assert_fate(asker, FATE_DECIDED);
    }
    assert_int_equal(stats().late, 0);
}

static void test_a_thread_that_was_stopped_sends_what_has_gathered(void **state)
{
    (void)state;
    go(0);
    const struct asker *first = ask(), *second = ask();
    loop.now_ns += 50 * MS;
    flush(NULL);
    go(0);
    assert_fate(first, FATE_DECIDED);
    assert_fate(second, FATE_DECIDED);
    delayed.plan.is_silent = true;
    const struct asker *third = ask();
    loop.now_ns += 50 * MS;
    flush(NULL);
    go(20 * MS - 1);
    assert_false(third->is_done);
    go(1);
    assert_fate(third, FATE_UNKNOWN);
}

/* Nor those that waited in the link behind others: they are not asked. */
static void test_a_thread_that_was_stopped_does_not_blame_the_store(void **state)
{
    (void)state;
    go(0);
    delayed.plan.written_max = 1;
    for (int i = 0; i < 6; i++) {
        (void)ask();
    }
    flush(NULL);
    still_loop_stall(&loop, loop.now_ns + 50 * MS, false);
    assert_fate(&askers[0], FATE_DECIDED);
    assert_fate(&askers[5], FATE_NOT_ASKED);
    assert_false(stats().is_down);
}

static void test_a_turn_that_is_longer_than_the_deadline_does_not_blame_the_store(void **state)
{
    (void)state;
    go(0);
    for (int i = 0; i < 4; i++) {
        const struct asker *asker = ask();
        loop.now_ns += 50 * MS;
        loop_timers_run(&loop.timers, loop.now_ns); // before the end of its turn
        assert_fate(asker, FATE_NOT_ASKED);
    }
    assert_false(stats().is_down);
}

/* ---- again ---- */

static void test_what_was_not_asked_is_asked_again_once(void **state)
{
    (void)state;
    go(0);
    delayed.plan.not_asked = 1000;
    const struct asker *asker = ask_now();
    go(0);
    assert_fate(asker, FATE_NOT_ASKED);
    assert_int_equal(delayed.sent, 2);
    assert_int_equal(stats().retried, 1);
    assert_int_equal(stats().not_asked, 1);
}

static void test_what_is_asked_again_keeps_its_deadline(void **state)
{
    (void)state;
    go(0);
    delayed.plan.written_max = 1;
    delayed.plan.is_silent = true;
    const struct asker *first = ask_now();
    go(15 * MS);
    delayed.plan.is_silent = false;
    delayed.plan.not_asked = 1000;
    still_loop_pass(&loop);
    delayed_look(&delayed);
    loop_timers_run(&loop.timers, loop.now_ns); // reported, and not sent again yet
    assert_int_equal(stats().retried, 1);
    delayed.plan.is_silent = true;
    flush(NULL);
    assert_int_equal(delayed.sent, 2);
    go(5 * MS - 1);
    assert_false(first->is_done);
    go(1);
    assert_fate(first, FATE_UNKNOWN);
}

/* It had its time once. */
static void test_what_is_asked_again_keeps_its_deadline_where_the_thread_was_stopped(void **state)
{
    (void)state;
    go(0);
    delayed.plan.not_asked = 1000;
    const struct asker *first = ask_now();
    loop_timers_run(&loop.timers, loop.now_ns); // reported, and not sent again yet
    assert_int_equal(stats().retried, 1);
    loop.now_ns += 50 * MS;
    flush(NULL);
    assert_int_equal(delayed.sent, 1);
    go(0);
    assert_fate(first, FATE_NOT_ASKED);
}

static void test_what_cannot_be_written_is_reported_later(void **state)
{
    (void)state;
    go(0);
    delayed.plan.refused_sending = 1000;
    const struct asker *asker = ask_now(); // on_done() looks whether it may be called
    assert_false(asker->is_done);
    go(0);
    assert_fate(asker, FATE_NOT_ASKED);
    assert_int_equal(stats().retried, 1);
    assert_int_equal(delayed.sent, 0);
}

/* ---- connections ---- */

static void test_of_a_lost_connection_what_was_sent_is_unknown(void **state)
{
    (void)state;
    go(500 * MS);
    delayed.plan.written_max = 1;
    delayed.plan.there_ns = 1;
    const struct asker *sent = ask_now(), *queued = ask_now();
    delayed_break(&delayed);
    go(0);
    assert_fate(sent, FATE_UNKNOWN);
    go(1 * MS);
    assert_fate(queued, FATE_DECIDED); // by the next connection
    assert_int_equal(delayed.links, 2);
    assert_int_equal(stats().retried, 1);
    assert_int_equal(stats().opened, 0);
    assert_int_equal(downs, 0);
}

static void test_a_lost_connection_that_does_not_come_back_opens_the_breaker(void **state)
{
    (void)state;
    go(500 * MS);
    delayed.plan.refuses = true;
    delayed_break(&delayed);
    go(0);
    assert_true(stats().is_down);
    assert_int_equal(downs, 1);
    assert_string_equal(why, "connection refused");
}

/* So that it is not opened anew without end. */
static void test_a_connection_that_is_lost_at_once_opens_the_breaker(void **state)
{
    (void)state;
    go(99 * MS);
    delayed_break(&delayed);
    go(0);
    assert_true(stats().is_down);
    assert_string_equal(why, "connection reset");
}

static void test_without_a_connection_nobody_waits(void **state)
{
    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        delayed.plan.refuses = true;
        delayed.plan.fails_at_once = at_once != 0;
        const struct asker *gathered = ask_now(); // before it has tried
        go(0);
        assert_fate(gathered, FATE_NOT_ASKED);
        assert_null(ask()->batch);
        assert_int_equal(stats().refused_down, 1);
        assert_int_equal(downs, at_once + 1);
        assert_string_equal(why, at_once ? "no such socket" : "connection refused");
        delayed.plan.refuses = false;
        go(1000 * MS);
        assert_int_equal(backs, at_once + 1);
        if (at_once == 0) {
            port_close(port);
            port = port_open(&delayed.store, &delayed_ops, &loop.loop, &CONFIG);
        }
    }
}

static void test_connecting_that_takes_too_long_opens_the_breaker(void **state)
{
    (void)state;
    delayed.plan.is_silent = true;
    go(PORT_PATIENCE * 100 * MS - 1);
    assert_int_equal(downs, 0);
    go(1);
    assert_int_equal(downs, 1);
    assert_string_equal(why, "it takes too long to connect");
}

/* ---- the breaker ---- */

static void let_three_fail(void)
{
    uint64_t lost_there = delayed.plan.lost_there;
    delayed.plan.lost_there = 1000;
    for (int i = 0; i < 3; i++) {
        assert_false(stats().is_down);
        (void)ask_now();
        go(20 * MS);
    }
    delayed.plan.lost_there = (unsigned)lost_there;
    assert_true(stats().is_down);
}

static void test_three_in_a_row_open_the_breaker(void **state)
{
    (void)state;
    go(0);
    let_three_fail();
    assert_int_equal(stats().opened, 1);
    assert_int_equal(downs, 1);
    assert_string_equal(why, "no answer within 20 ms, 3 times in a row");
    assert_null(ask()->batch);
    assert_int_equal(stats().pending, 0); // of a link that is closed
    assert_null(delayed.first_link);
    assert_int_equal(backs, 0);
    go(151 * MS);
    assert_int_equal(backs, 1);
    assert_int_equal(delayed.links, 2);
    assert_int_equal(delayed.probes, 1);
    const struct asker *asker = ask_now();
    go(0);
    assert_fate(asker, FATE_DECIDED);
}

static void test_an_answer_between_failures_keeps_it_closed(void **state)
{
    (void)state;
    go(0);
    for (int i = 0; i < 9; i++) {
        delayed.plan.lost_there = i % 3 != 2 ? 1000 : 0;
        (void)ask_now();
        go(20 * MS);
    }
    assert_int_equal(stats().unknown, 6);
    assert_int_equal(stats().opened, 0);
}

/* A turn in which so many ask, and none is answered. */
static void let_fail(int count)
{
    delayed.plan.lost_there = 1000;
    while (count-- > 0) {
        (void)ask();
    }
    flush(NULL);
    go(20 * MS);
    delayed.plan.lost_there = 0;
    asker_count = 0;
}

static void test_all_that_is_sent_together_is_one_failure(void **state)
{
    (void)state;
    go(0);
    let_fail(8);
    let_fail(8);
    assert_int_equal(stats().unknown, 16);
    assert_false(stats().is_down);
    let_fail(1);
    assert_true(stats().is_down);
    assert_string_equal(why, "no answer within 20 ms, 3 times in a row");
}

/* Somebody asks in each millisecond for so long, of a store that is silent. */
static void ask_for(uint64_t ms)
{
    delayed.plan.is_silent = true;
    for (uint64_t i = 0; i < ms && !stats().is_down; i++) {
        (void)ask_now();
        go(MS);
        asker_count %= ASKERS / 2; // each is done by then
    }
}

/* A stranger's lock, a checkpoint. */
static void test_a_store_that_is_silent_for_40_ms_is_not_given_up(void **state)
{
    (void)state;
    go(0);
    for (int i = 0; i < 3; i++) {
        ask_for(40);
        assert_in_range(stats().unknown, 1, (uint64_t)(i + 1) * 40);
        delayed.plan.is_silent = false;
        delayed_look(&delayed);
        go(MS);
        const struct asker *asker = ask_now();
        go(MS);
        assert_fate(asker, FATE_DECIDED);
    }
    assert_int_equal(stats().opened, 0);
}

static void test_a_store_that_falls_silent_is_given_up_after_three_deadlines(void **state)
{
    (void)state;
    go(0);
    uint64_t began_ns = loop.now_ns;
    ask_for(1000);
    assert_true(stats().is_down);
    assert_in_range(loop.now_ns - began_ns, 60 * MS, 62 * MS); // and the turns between
}

/* The store has spoken, though it has decided nothing: as an answer would, that begins a new row of failures. */
static void test_a_row_that_somebody_else_holds_is_no_failure_and_ends_their_row(void **state)
{
    (void)state;
    go(0);
    for (int i = 0; i < 9; i++) {
        let_fail(2);
        let_fail(2);
        delayed.plan.held = 1000;
        const struct asker *asker = ask_now();
        go(20 * MS);
        assert_fate(asker, FATE_NOT_ASKED);
        delayed.plan.held = 0;
        assert_false(stats().is_down);
    }
    assert_int_equal(stats().retried, 9);
    let_three_fail();
}

static void test_a_store_that_refuses_three_times_is_given_up(void **state)
{
    (void)state;
    go(0);
    delayed.plan.not_asked = 1000;
    for (int i = 0; i < 3; i++) {
        assert_false(stats().is_down);
        assert_false(ask_now()->is_done);
        go(0);
    }
    assert_true(stats().is_down);
}

static void test_those_that_have_gathered_are_not_asked_when_it_opens(void **state)
{
    (void)state;
    go(0);
    let_fail(1);
    let_fail(1);
    delayed.plan.unknown_there = 1000;
    (void)ask();
    flush(NULL);
    const struct asker *gathered = ask();
    loop.end_turn = NULL;
    go(0);
    assert_fate(gathered, FATE_NOT_ASKED);
    assert_true(stats().is_down);
}

static void test_a_slow_store_stays_away(void **state)
{
    (void)state;
    go(0);
    let_three_fail();
    delayed.plan.way_ns = 11 * MS;
    go(1000 * MS);
    assert_in_range(delayed.probes, 7, 20);
    assert_int_equal(backs, 0);
    delayed.plan.way_ns = 10 * MS;
    go(300 * MS);
    assert_int_equal(backs, 1);
}

/* ---- why it stays away ---- */

static void wait_for_an_attempt(void)
{
    uint64_t links = delayed.links;
    for (int i = 0; delayed.links == links; i++) {
        assert_in_range(i, 0, 600);
        go(MS);
    }
}

static void test_what_two_attempts_say_is_why_it_stays_away_and_is_told_once(void **state)
{
    (void)state;
    go(0);
    for (int outage = 1; outage <= 2; outage++) {
        let_three_fail();
        assert_string_equal(why, "no answer within 20 ms, 3 times in a row");
        delayed.plan.refuses = true;
        wait_for_an_attempt();
        assert_int_equal(stays, outage - 1);
        wait_for_an_attempt();
        assert_int_equal(stays, outage);
        assert_string_equal(why, "connection refused");
        go(1000 * MS);
        assert_int_equal(stays, outage);
        assert_int_equal(downs, outage);
        delayed.plan.refuses = false;
        go(300 * MS);
        assert_int_equal(backs, outage);
    }
}

/* As of a server that is being started. */
static void test_what_one_attempt_says_is_not_told_until_another_agrees(void **state)
{
    (void)state;
    go(0);
    let_three_fail();
    delayed.plan.refuses = true;
    for (int i = 0; i < 8; i++) {
        delayed.plan.breaks = i % 2 == 0 ? 1000 : 0; // "connection reset"
        wait_for_an_attempt();
    }
    assert_int_equal(stays, 0);
    delayed.plan.fails_at_once = true;
    go(1000 * MS);
    assert_int_equal(stays, 1);
    assert_string_equal(why, "no such socket");
    delayed.plan.fails_at_once = false;
    go(1000 * MS);
    assert_int_equal(stays, 2);
    assert_string_equal(why, "connection refused");
}

/* A store that takes the connection, and a while later ends it instead of answering the probe. */
static void test_what_ends_a_probe_is_why_it_stays_away(void **state)
{
    (void)state;
    go(0);
    let_three_fail();
    delayed.plan.way_ns = 1000 * MS;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stays, 0);
        wait_for_an_attempt();
        go(120 * MS);
        delayed_break(&delayed);
        go(0);
    }
    assert_int_equal(stays, 1);
    assert_string_equal(why, "connection reset");
}

static void test_a_store_that_is_silent_says_nothing_about_why(void **state)
{
    (void)state;
    go(0);
    let_three_fail();
    delayed.plan.is_silent = true;
    go(3000 * MS);
    assert_int_equal(stays, 0);
}

/* However the store was away. */
static void test_it_is_back_within_a_second(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        go(200 * MS);
        (void)ask();
        delayed.plan.is_silent = i % 2 == 0;
        delayed.plan.refuses = i % 2 != 0;
        delayed_break(&delayed);
        flush(NULL);
        for (int tries = 0; !stats().is_down; tries++) {
            assert_true(tries < 10);
            (void)ask_now();
            go(20 * MS);
        }
        go((uint64_t)(i * 37) * MS);
        assert_true(stats().is_down);
        asker_count = 0;
        delayed.plan.is_silent = delayed.plan.refuses = false; // and nobody tells the links
        go(700 * MS);
        assert_false(stats().is_down);
    }
}

static void test_ports_do_not_try_at_one_instant(void **state)
{
    (void)state;
    enum { PORTS = 16 };
    struct port *ports[PORTS];
    struct port_config config = CONFIG;
    delayed.plan.refuses = true;
    for (int i = 0; i < PORTS; i++) {
        config.seed = (uint64_t)i * 1234567 + 1;
        ports[i] = port_open(&delayed.store, &delayed_ops, &loop.loop, &config);
    }
    go(0);
    uint64_t most = 0, before = delayed.links;
    for (int i = 0; i < 300; i++) {
        uint64_t links = delayed.links;
        go(1 * MS);
        most = delayed.links - links > most ? delayed.links - links : most;
    }
    assert_in_range(delayed.links - before, 2 * PORTS, 6 * PORTS + 6);
    assert_true(most <= PORTS / 3);
    for (int i = 0; i < PORTS; i++) {
        port_close(ports[i]);
    }
}

/* ---- room ---- */

static void test_there_is_room_for_so_many_and_late_ones_count(void **state)
{
    (void)state;
    go(0);
    delayed.plan.lost_back = 1000;
    (void)ask_now();
    (void)ask_now();
    go(19 * MS);
    delayed.plan.lost_back = 0;
    (void)ask_now();
    go(1 * MS); // the first two are unknown, and the third has been answered
    assert_int_equal(stats().unknown, 2);
    assert_int_equal(stats().pending, 2);
    for (int i = 0; i < 6; i++) {
        assert_non_null(ask()->batch);
    }
    assert_null(ask()->batch);
    assert_int_equal(stats().refused_room, 1);
    flush(NULL);
    go(0);
    assert_non_null(ask()->batch);
    flush(NULL);
    go(0);
    struct port_stats now = stats();
    assert_int_equal(now.asked, 10);
}

static void test_there_is_room_for_so_many_bytes(void **state)
{
    (void)state;
    struct port_config config = CONFIG;
    close_world(NULL);
    config.batch_count_max = 1000;
    config.bytes_max = 1;
    assert_int_equal(open_with(&config), 0);
    assert_null(ask()->batch);
    close_world(NULL);
    config.bytes_max = 1200;
    assert_int_equal(open_with(&config), 0);
    int count = 0;
    while (ask()->batch != NULL) {
        count++;
    }
    struct port_stats now;
    port_stats(port, &now);
    assert_in_range(count, 1, 4);
    assert_in_range(now.pending_bytes, 1200 / 2, 1200);
    assert_int_equal(now.refused_room, 1);
}

/* While others are answered the breaker does not open. */
static void test_an_answer_that_never_comes_ends_the_connection(void **state)
{
    (void)state;
    go(0);
    delayed.plan.lost_back = 1000;
    (void)ask_now();
    go(0);
    delayed.plan.lost_back = 0;
    for (int i = 0; i < 10; i++) {
        go(102 * MS - 1);
        (void)ask_now();
        assert_int_equal(delayed.links, 1);
        assert_int_equal(stats().pending, 2);
    }
    go(102 * MS);
    assert_int_equal(delayed.links, 2);
    assert_int_equal(stats().pending, 0);
    assert_int_equal(stats().opened, 0);
}

/* ---- the asker goes ---- */

static void test_what_is_forgotten_before_it_is_sent_is_not_asked(void **state)
{
    (void)state;
    go(0);
    port_forget(ask()->batch);
    assert_int_equal(stats().pending, 0);
    delayed.plan.written_max = 1;
    const struct asker *first = ask();
    struct asker *queued = ask();
    flush(NULL);
    port_forget(queued->batch);
    go(100 * MS);
    assert_fate(first, FATE_DECIDED);
    assert_false(queued->is_done);
    assert_int_equal(charged(), 1);
    assert_int_equal(stats().forgotten, 2);
    assert_int_equal(stats().pending, 0);
}

static void test_what_is_forgotten_afterwards_stays_charged(void **state)
{
    (void)state;
    go(0);
    delayed.plan.there_ns = 4 * MS;
    struct asker *asker = ask_now();
    port_forget(asker->batch);
    go(100 * MS);
    assert_false(asker->is_done);
    assert_int_equal(charged(), 1);
    assert_int_equal(stats().forgotten, 1);
    assert_int_equal(stats().late, 1);
}

static void test_those_who_go_do_not_hide_a_dead_store(void **state)
{
    (void)state;
    go(0);
    delayed.plan.is_silent = true;
    for (int i = 0; i < 3; i++) {
        port_forget(ask_now()->batch);
        go(20 * MS);
    }
    assert_true(stats().is_down);
}

/* ---- the end ---- */

static void test_closing_ends_all(void **state)
{
    (void)state;
    go(0);
    delayed.plan.is_silent = true;
    struct asker *over = ask_now();
    over->keeps = true;
    go(20 * MS);
    delayed.plan.written_max = 1;
    const struct asker *sent = ask(), *queued;
    delayed.plan.written_max = 2;
    flush(NULL);
    queued = ask_now();
    const struct asker *gathered = ask();
    port_close(port);
    assert_fate(over, FATE_UNKNOWN);
    assert_fate(sent, FATE_UNKNOWN);
    assert_fate(queued, FATE_NOT_ASKED);
    assert_fate(gathered, FATE_NOT_ASKED);
    port_forget(over->batch); // the port has gone
    port_close(NULL);
    port = port_open(&delayed.store, &delayed_ops, &loop.loop, &CONFIG);
}

static void test_an_idle_port_sets_no_timer(void **state)
{
    (void)state;
    go(0);
    (void)ask_now();
    go(20 * MS);
    assert_null(loop.timers.first);
}

static void ask_another(struct batch *batch)
{
    port_forget(batch);
    (void)ask();
}

static void test_done_may_ask_again(void **state)
{
    (void)state;
    go(0);
    struct weir_request request = {.rule = &rule, .cost_micro = WEIR_UNIT};
    struct asking asking = {.requests = &request, .count = 1, .done = ask_another};
    (void)port_decide(port, &asking);
    flush(NULL);
    go(0);
    assert_fate(&askers[0], FATE_DECIDED);
}

int main(void)
{
#define TEST(name)      cmocka_unit_test_setup_teardown(name, open_world, close_world)
#define TEST_WIDE(name) cmocka_unit_test_setup_teardown(name, open_wide, close_world)
    const struct CMUnitTest tests[] = {
        TEST(test_an_answer_is_the_one_of_the_store),
        TEST(test_what_is_asked_in_one_turn_goes_out_at_its_end),
        TEST(test_details_and_runs_come_to_those_who_want_them),
        TEST(test_at_its_deadline_what_was_not_sent_is_not_asked),
        TEST(test_what_the_link_could_not_write_is_not_asked),
        TEST(test_at_its_deadline_what_was_sent_is_unknown_and_stays_so),
        TEST(test_a_link_that_says_unknown_is_believed),
        TEST(test_an_answer_after_the_deadline_is_late),
        TEST(test_a_thread_that_was_stopped_reads_what_has_come),
        TEST(test_a_thread_that_was_stopped_sends_what_has_gathered),
        TEST(test_a_thread_that_was_stopped_does_not_blame_the_store),
        TEST(test_a_turn_that_is_longer_than_the_deadline_does_not_blame_the_store),
        TEST(test_what_was_not_asked_is_asked_again_once),
        TEST(test_what_is_asked_again_keeps_its_deadline),
        TEST(test_what_is_asked_again_keeps_its_deadline_where_the_thread_was_stopped),
        TEST(test_what_cannot_be_written_is_reported_later),
        TEST(test_of_a_lost_connection_what_was_sent_is_unknown),
        TEST(test_a_lost_connection_that_does_not_come_back_opens_the_breaker),
        TEST(test_a_connection_that_is_lost_at_once_opens_the_breaker),
        TEST(test_without_a_connection_nobody_waits),
        TEST(test_connecting_that_takes_too_long_opens_the_breaker),
        TEST(test_three_in_a_row_open_the_breaker),
        TEST(test_an_answer_between_failures_keeps_it_closed),
        TEST_WIDE(test_all_that_is_sent_together_is_one_failure),
        TEST_WIDE(test_a_store_that_is_silent_for_40_ms_is_not_given_up),
        TEST_WIDE(test_a_store_that_falls_silent_is_given_up_after_three_deadlines),
        TEST_WIDE(test_a_row_that_somebody_else_holds_is_no_failure_and_ends_their_row),
        TEST(test_a_store_that_refuses_three_times_is_given_up),
        TEST(test_those_that_have_gathered_are_not_asked_when_it_opens),
        TEST(test_a_slow_store_stays_away),
        TEST(test_what_two_attempts_say_is_why_it_stays_away_and_is_told_once),
        TEST(test_what_one_attempt_says_is_not_told_until_another_agrees),
        TEST(test_what_ends_a_probe_is_why_it_stays_away),
        TEST(test_a_store_that_is_silent_says_nothing_about_why),
        TEST(test_it_is_back_within_a_second),
        TEST(test_ports_do_not_try_at_one_instant),
        TEST(test_there_is_room_for_so_many_and_late_ones_count),
        TEST(test_there_is_room_for_so_many_bytes),
        TEST(test_an_answer_that_never_comes_ends_the_connection),
        TEST(test_what_is_forgotten_before_it_is_sent_is_not_asked),
        TEST(test_what_is_forgotten_afterwards_stays_charged),
        TEST(test_those_who_go_do_not_hide_a_dead_store),
        TEST(test_closing_ends_all),
        TEST(test_an_idle_port_sets_no_timer),
        TEST(test_done_may_ask_again),
    };
#undef TEST
#undef TEST_WIDE
    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
