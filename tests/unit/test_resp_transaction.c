/* SPDX-License-Identifier: MIT
 *
 * MULTI .. EXEC: what is queued, what spoils it, what it holds, and how much. */
#include "../support/resp_ask.h"

#include <stdio.h>

static size_t held_bytes(void)
{
    return RESP_ENGINE.held_bytes(world.session);
}

static void test_runs_a_transaction(void **state)
{
    (void)state;
    assert_answer("MULTI\n", "+OK\r\n");
    assert_answer("*3\r\n$9\r\nWEIR.TAKE\r\n$5\r\nalice\r\n$3\r\n2/s\r\n", "+QUEUED\r\n");
    assert_answer("ECHO \"a b\"\n", "+QUEUED\r\n");
    assert_answer("CL.THROTTLE bob 1 1 1\nWEIR.TAKE k 1/fortnight\n", "+QUEUED\r\n+QUEUED\r\n");
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_ALLOWED], 0);
    assert_answer("EXEC\n", "*4\r\n*6\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:500000000\r\n:0\r\n"
                            "$3\r\na b\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n"
                            "-ERR invalid limit at byte 2: unknown unit 'fortnight'; one of ns us "
                            "ms s min h d w\r\n");
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_ALLOWED], 2);
    assert_int_equal(world.counters.requests[PROTOCOL_RESP], 6);
    assert_answer("PING\nEXEC\n", "+PONG\r\n-ERR EXEC without MULTI\r\n");
}

static void test_runs_a_transaction_in_pieces(void **state)
{
    (void)state;
    static const char TEXT[] = "WEIR.TAKE a 9/s\r\nMULTI\r\n*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na\r\n"
                               "$3\r\n9/s\r\n\r\n*0\r\nPING x\r\nEXEC\r\nPING\r\n";
    static const char ANSWER[] = "*6\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:111111112\r\n:0\r\n+OK\r\n"
                                 "+QUEUED\r\n+QUEUED\r\n*2\r\n"
                                 "*6\r\n:0\r\n:9\r\n:7\r\n:-1\r\n:222222223\r\n:0\r\n$1\r\nx\r\n"
                                 "+PONG\r\n";
    assert_answer(TEXT, ANSWER);
    (void)ask("WEIR.RESET a 9/s\n");
    assert_answer_by_bytes(TEXT, sizeof TEXT - 1, ANSWER);
}

static void test_refuses_a_spoilt_transaction(void **state)
{
    (void)state;
    static const char ABORT[] = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    (void)ask("MULTI\nWEIR.TAKE k 1/s\n");
    assert_answer("NOPE\n", "-ERR unknown command 'NOPE', with args beginning with: \r\n");
    assert_answer("WEIR.TAKE k 1/s\n", "+QUEUED\r\n");
    assert_answer("EXEC\n", ABORT);
    (void)ask("MULTI\nWEIR.SHOW k\n");
    assert_answer("EXEC\n", ABORT);
    (void)ask("MULTI\nCLIENT NOPE\n");
    assert_answer("CLIENT NOPE\n", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP.\r\n");
    assert_answer("EXEC\n", ABORT);
    assert_answer("WEIR.SHOW k 1/s\n",
                  "*8\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n:0\r\n");
    (void)ask("MULTI\n");
    assert_answer("EXEC x\n", "-EXECABORT Transaction discarded because of: wrong number of "
                              "arguments for 'exec' command\r\n");
    assert_answer("DISCARD\n", "-ERR DISCARD without MULTI\r\n");
}

static void test_does_not_spoil_by_nesting(void **state)
{
    (void)state;
    assert_answer("WATCH a b\nUNWATCH\nMULTI\n", "+OK\r\n+OK\r\n+OK\r\n");
    assert_answer("MULTI\n", "-ERR MULTI calls can not be nested\r\n");
    assert_answer("WATCH a\n", "-ERR WATCH inside MULTI is not allowed\r\n");
    assert_answer("UNWATCH\nCLIENT ID\nCLIENT HELP\nCOMMAND COUNT\n",
                  "+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    assert_int_equal(strncmp(ask("EXEC\n"), "*4\r\n+OK\r\n:7\r\n*12\r\n+CLIENT", 25), 0);
}

static void test_releases_a_transaction(void **state)
{
    (void)state;
    static const char *const ENDS[] = {"EXEC\n", "DISCARD\n", "RESET\n", "EXEC x\n"};
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        assert_int_equal(held_bytes(), 0);
        (void)ask("MULTI\nPING\n");
        assert_true(held_bytes() > 0);
        (void)ask(ENDS[i]);
        assert_int_equal(held_bytes(), 0);
    }
    (void)ask("MULTI\nPING\n");
    size_t before = held_bytes();
    (void)ask("NOPE\n"); // will not run, so is not kept
    assert_true(held_bytes() < before);
    assert_last_answer("QUIT\n", "+OK\r\n"); // and the end of the connection frees the rest
}

static void test_bounds_a_transaction(void **state)
{
    (void)state;
    static const char BEYOND[] =
        "-ERR a transaction holds at most 1024 commands and 131072 bytes\r\n";
    (void)ask("MULTI\n");
    for (unsigned i = 0; i < 1024; i++) {
        assert_answer("WEIR.FILL k 1024/s\n", "+QUEUED\r\n");
    }
    char *full = strdup(ask("EXEC\n"));
    assert_non_null(full);
    assert_int_equal(strncmp(full, "*1024\r\n*8\r\n:0\r\n:1024\r\n:1023\r\n", 29), 0);
    free(full);
    (void)ask("MULTI\n");
    for (unsigned i = 0; i < 1024; i++) {
        (void)ask("PING\n");
    }
    assert_answer("PING\n", BEYOND);
    assert_answer("PING\n", "+QUEUED\r\n");
    assert_int_equal(strncmp(ask("EXEC\n"), "-EXECABORT", 10), 0);

    char text[40000] = "ECHO ";
    memset(text + 5, 'x', sizeof text - 7);
    text[sizeof text - 2] = '\n';
    text[sizeof text - 1] = '\0';
    (void)ask("MULTI\n");
    for (unsigned i = 0; i < 3; i++) {
        assert_answer(text, "+QUEUED\r\n");
    }
    assert_answer(text, BEYOND);
    assert_true(held_bytes() < 1000);
    assert_int_equal(strncmp(ask("EXEC\n"), "-EXECABORT", 10), 0);
}

/* All of its questions are answered by one reading of the clock; what moves it is a command, too. */
static void test_moves_the_clock_in_a_transaction(void **state)
{
    (void)state;
    (void)ask("MULTI\nWEIR.RESET k 1/s\nCL.THROTTLE k 0 1 1\nWEIR.CLOCK ADVANCE 1000000000\n"
              "CL.THROTTLE k 0 1 1\nCL.THROTTLE k 0 1 1\n");
    assert_answer("EXEC\n", "*5\r\n:0\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n:1000000000\r\n"
                            "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1"
                            "\r\n");
}

static void test_says_hello_in_a_transaction(void **state)
{
    (void)state;
    world.config.password = "secret";
    world.config.password_len = 6;
    assert_answer("MULTI\n", "-NOAUTH Authentication required.\r\n");
    assert_answer("AUTH secret\nMULTI\nAUTH wrong\nGET k\nHELLO 3\nGET k\n",
                  "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    const char *answer = ask("EXEC\n");
    static const char BEGIN[] = "*4\r\n-WRONGPASS invalid username-password pair or user is "
                                "disabled.\r\n$-1\r\n%7\r\n";
    assert_int_equal(strncmp(answer, BEGIN, sizeof BEGIN - 1), 0);
    assert_string_equal(answer + strlen(answer) - 7, "*0\r\n_\r\n");
    assert_answer("MULTI\nRESET\nPING\n", "+OK\r\n+RESET\r\n-NOAUTH Authentication required.\r\n");
}

/* EXEC, too, stops where there is plenty to send, and goes on from there. */
static void test_pauses_in_a_transaction(void **state)
{
    (void)state;
    (void)ask("MULTI\n");
    for (unsigned i = 0; i < 1000; i++) {
        (void)ask("COMMAND\n");
    }
    (void)ask("ECHO last\n");
    world.output.length = 0;
    buffer_append(&world.input, "EXEC\nPING\n", 10);
    size_t used = 0;
    unsigned turns = 0;
    world_answer_at_once(&world);
    for (size_t before = 0; used == 0; before = world.output.length) {
        struct buffer replies;
        buffer_init(&replies, (size_t)16 << 20);
        enum engine_state is =
            RESP_ENGINE.feed(world.session, &world.service,
                             (struct bytes){world.input.at, world.input.length}, &replies, &used);
        assert_true(is == ENGINE_PAUSED || (is == ENGINE_OPEN && used > 0));
        assert_true(replies.length > 0 && replies.length < (size_t)2 << 20);
        buffer_append(&world.output, replies.at, replies.length);
        buffer_fini(&replies);
        assert_true(world.output.length > before);
        turns++;
    }
    assert_true(turns > 2);
    buffer_consume(&world.input, used);
    (void)world_feed(&world, "", 0);
    assert_memory_equal(world.output.at, "*1001\r\n*", 8);
    static const char END[] = "$4\r\nlast\r\n+PONG\r\n";
    assert_memory_equal(world.output.at + world.output.length - (sizeof END - 1), END,
                        sizeof END - 1);
    assert_int_equal(held_bytes(), 0);
    assert_int_equal(world.counters.requests[PROTOCOL_RESP], 1004);
}

/* And where it has worked for long. All of it is decided at the reading with which EXEC began; what stands behind it
 * at the one of its own turn. */
static void test_has_one_reading_of_the_clock(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    (void)ask("MULTI\n");
    for (unsigned i = 0; i < COUNT; i++) {
        (void)ask("WEIR.TAKE k 1000/s\n");
    }
    struct bytes input = {"EXEC\nWEIR.TAKE k 1000/s\n", 24};
    struct buffer replies;
    buffer_init(&replies, (size_t)16 << 20);
    size_t used = 0;
    unsigned turns = 0;
    world_answer_at_once(&world);
    world.look_ns = PACE_FEED_NS;
    while (input.length > 0) {
        world.worked_ns = 0;
        (void)RESP_ENGINE.feed(world.session, &world.service, input, &replies, &used);
        input = (struct bytes){input.at + used, input.length - used};
        world.service.now_ns += 100000000; // a tenth of a second, in which 100 drain
        turns++;
    }
    assert_true(turns > COUNT / 64);
    buffer_append(&replies, "", 1);
    assert_memory_equal(replies.at, "*500\r\n", 6);
    const char *at = replies.at + 6;
    for (unsigned i = 0; i < COUNT; i++) {
        char expected[64];
        (void)snprintf(expected, sizeof expected,
                       "*6\r\n:0\r\n:1000\r\n:%u\r\n:-1\r\n:%u000000\r\n", 999 - i, i + 1);
        assert_memory_equal(at, expected, strlen(expected));
        at += strlen(expected) + 4;
    }
    assert_memory_equal(at, "*6\r\n:0\r\n:1000\r\n:999", 19); // all of it has drained
    buffer_fini(&replies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_runs_a_transaction),           TEST(test_runs_a_transaction_in_pieces),
        TEST(test_has_one_reading_of_the_clock), TEST(test_refuses_a_spoilt_transaction),
        TEST(test_does_not_spoil_by_nesting),    TEST(test_releases_a_transaction),
        TEST(test_bounds_a_transaction),         TEST(test_moves_the_clock_in_a_transaction),
        TEST(test_says_hello_in_a_transaction),  TEST(test_pauses_in_a_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
