/* SPDX-License-Identifier: MIT
 *
 * A connection of RESP: answers in order, however the bytes come; how it begins and ends; and takes that
 * wait while others stand behind them. */
#include "../support/resp_ask.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Order, and bytes that come in pieces ---- */

static const char MIXED[] =
    "*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na\r\n$3\r\n1/"
    "s\r\nPING\r\n*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nb\r\n"
    "$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na\r\n$4\r\n1/st\r\nNOPE\n"
    "*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na\r\n$3\r\n1/s\r\n*0\r\n\r\nECHO \"a b\"\r\n"
    "*3\r\n$10\r\nWEIR.RESET\r\n$1\r\na\r\n$3\r\n1/"
    "s\r\n*3\r\n$9\r\nWEIR.SHOW\r\n$1\r\na\r\n$3\r\n1/s\r\n";
static const char MIXED_ANSWER[] =
    "*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n+PONG\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:"
    "1\r\n"
    "-ERR invalid limit at byte 2: unknown unit 'st'; one of ns us ms s min h d w\r\n"
    "-ERR unknown command 'NOPE', with args beginning with: \r\n"
    "*6\r\n:1\r\n:1\r\n:0\r\n:1000000000\r\n:1000000000\r\n:0\r\n$3\r\na b\r\n:1\r\n"
    "*8\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n:0\r\n";

static void test_answers_in_order(void **state)
{
    (void)state;
    assert_answer(MIXED, MIXED_ANSWER);
}

static void test_answers_the_same_in_pieces(void **state)
{
    (void)state;
    char piece[sizeof MIXED];
    for (size_t at = 1; at < sizeof MIXED - 1; at++) {
        (void)ask("WEIR.RESET a 1/s\nDEL b\n");
        memcpy(piece, MIXED, at);
        piece[at] = '\0';
        char *first = strdup(ask(piece));
        assert_non_null(first);
        const char *second = ask(MIXED + at);
        assert_memory_equal(first, MIXED_ANSWER, strlen(first));
        assert_string_equal(second, MIXED_ANSWER + strlen(first));
        free(first);
    }
    (void)ask("WEIR.RESET a 1/s\nDEL b\n");
    assert_answer_by_bytes(MIXED, sizeof MIXED - 1, MIXED_ANSWER);
}

static void test_decides_more_than_a_batch(void **state)
{
    (void)state;
    char text[300 * 64];
    size_t length = 0;
    for (unsigned i = 0; i < 300; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\nk\r\n$5\r\n300/s\r\n");
    }
    const char *answer = ask_bytes(text, length, ENGINE_OPEN);
    for (unsigned i = 0; i < 300; i++) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "*6\r\n:0\r\n:300\r\n:%u\r\n:-1\r\n:", 299 - i);
        assert_memory_equal(answer, expected, strlen(expected));
        answer = strstr(answer, "\r\n:0\r\n*6\r\n");
        assert_true(answer != NULL || i == 299);
        answer = answer != NULL ? answer + 6 : "";
    }
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_ALLOWED], 300);
    assert_int_equal(world.counters.requests[PROTOCOL_RESP], 300);
}

/* Small commands with large answers do not pile up, and all get their answer. */
static void test_pauses_when_its_output_is_plenty(void **state)
{
    (void)state;
    char text[3000 * 9];
    for (size_t i = 0; i < 3000; i++) {
        memcpy(text + 9 * i, "COMMAND\r\n", 9);
    }
    buffer_append(&world.input, text, sizeof text);
    size_t used;
    world_answer_at_once(&world);
    enum engine_state result =
        RESP_ENGINE.feed(world.session, &world.service,
                         (struct bytes){world.input.at, world.input.length}, &world.output, &used);
    assert_int_equal(result, ENGINE_PAUSED);
    assert_true(used < world.input.length);
    assert_true(world.output.length < 2 * ENGINE_OUTPUT_BYTES_PLENTY);
    buffer_consume(&world.input, used);
    const char *answer = ask("ECHO end\r\n");
    assert_string_equal(answer + strlen(answer) - 9, "$3\r\nend\r\n");
}

/* ---- Its share of a turn ---- */

/* A pipeline of so many takes under this limit. */
static struct buffer takes_of(const char *limit, unsigned count)
{
    struct buffer text;
    buffer_init(&text, 1 << 20);
    for (unsigned i = 0; i < count; i++) {
        buffer_printf(&text, "*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\nk\r\n$%zu\r\n%s\r\n", strlen(limit),
                      limit);
    }
    return text;
}

/* Feeds them once, and returns how many were answered. */
static unsigned feed_takes(const struct buffer *text, unsigned count, enum engine_state expected)
{
    size_t used;
    world_answer_at_once(&world);
    world.output.length = 0;
    world.worked_ns = 0;
    assert_int_equal(RESP_ENGINE.feed(world.session, &world.service,
                                      (struct bytes){text->at, text->length}, &world.output, &used),
                     expected);
    assert_int_equal(used % (text->length / count), 0);
    return (unsigned)(used / (text->length / count));
}

static void test_pauses_when_it_has_worked_for_long(void **state)
{
    (void)state;
    struct buffer text = takes_of("1000/s", 1000);
    world.look_ns = PACE_FEED_NS / 4;
    assert_int_equal(feed_takes(&text, 1000, ENGINE_PAUSED), 4 * 64);
    world.look_ns = 0;
    assert_int_equal(feed_takes(&text, 1000, ENGINE_OPEN), 1000);
    buffer_fini(&text);
}

/* A take of a large window is a batch by itself; of small ones there are as many in a batch as of others. */
static void test_looks_at_the_clock_after_what_may_be_long(void **state)
{
    (void)state;
    static const struct {
        const char *limit;
        unsigned count;
    } CASES[] = {
        {"window 4000/h", 64},         {"window 40000/h", 7},      {"window 1000000/h", 1},
        {"window 1000000/h, 10/s", 1}, {"10/s, 20/min, 30/h", 22},
    };
    world.look_ns = PACE_FEED_NS;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct buffer text = takes_of(CASES[i].limit, 100);
        world_connect(&world); // one that has not been slow before
        assert_int_equal(feed_takes(&text, 100, ENGINE_PAUSED), CASES[i].count);
        buffer_fini(&text);
    }
}

/* Where takes turn out to be slow its batches get shorter, and longer again when they are not. */
static void test_goes_in_smaller_steps_where_it_was_slow(void **state)
{
    (void)state;
    struct buffer text = takes_of("1000/s", 1000);
    world.look_ns = 8 * PACE_FEED_NS;
    assert_int_equal(feed_takes(&text, 1000, ENGINE_PAUSED), 64);
    world.look_ns = PACE_FEED_NS;
    assert_int_equal(feed_takes(&text, 1000, ENGINE_PAUSED), 4); // 8 ms were 32 times too long
    for (unsigned expected = 2; expected <= 64; expected *= 2) {
        world.look_ns = 0;
        (void)feed_takes(&text, 1000, ENGINE_OPEN);
    }
    world.look_ns = PACE_FEED_NS;
    assert_int_equal(feed_takes(&text, 1000, ENGINE_PAUSED), 64);
    buffer_fini(&text);
}

/* What it answers is the same wherever it pauses, to all kinds of commands. */
static void test_answers_the_same_in_many_turns(void **state)
{
    (void)state;
    struct buffer text;
    buffer_init(&text, 1 << 20);
    for (int i = 0; i < 100; i++) {
        buffer_append(&text, MIXED, sizeof MIXED - 1);
        buffer_printf(&text,
                      "DEL b\nWEIR.TAKE a 1/s COST 2 WAIT 5\nMULTI\nWEIR.TAKE c 50/s\n"
                      "PING %d\nWEIR.TAKEALL 2 d 9/s e 9/s\nEXEC\n",
                      i);
    }
    char *whole = NULL;
    size_t length = 0;
    for (int round = 0; round < 3; round++) {
        world.look_ns = (uint64_t)round * PACE_FEED_NS;
        (void)ask(
            "WEIR.RESET a 1/s\nDEL b\nWEIR.RESET c 50/s\nWEIR.RESET d 9/s\nWEIR.RESET e 9/s\n");
        const char *answer = ask_bytes(text.at, text.length, ENGINE_OPEN);
        if (whole == NULL) {
            length = world.output.length;
            whole = malloc(length);
            assert_non_null(whole);
            memcpy(whole, answer, length);
        }
        assert_int_equal(world.output.length, length);
        assert_memory_equal(answer, whole, length);
    }
    free(whole);
    buffer_fini(&text);
}

/* ---- Connections ---- */

static void test_closes_after_protocol_errors(void **state)
{
    (void)state;
    assert_last_answer("PING\r\n*1\r\n:3\r\nPING\r\n",
                       "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n");
    world_connect(&world);
    assert_last_answer("*9999\r\n", "-ERR Protocol error: invalid multibulk length\r\n");
}

static void test_closes_on_browsers(void **state)
{
    (void)state;
    assert_last_answer("POST / HTTP/1.1\r\nHost: a\r\n\r\nWEIR.TAKE k 1/s\r\n", "");
    world_connect(&world);
    static const char *const lines[] = {
        "GET / HTTP/1.1\r\n",
        "GET /x HTTP/1.0\n",
        "get /%0d%0aWEIR.TAKE HTTP/1.1 \r\n",
        "PUT /a b HTTP/1.1\r\n",
        "WEIR.TAKE k 1/s HTTP/1.1\r\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[100];
        (void)snprintf(text, sizeof text, "%sWEIR.TAKE k 1/s\r\n", lines[i]);
        assert_last_answer(text, "");
        world_connect(&world);
    }
    assert_answer("*2\r\n$4\r\nECHO\r\n$8\r\nHTTP/1.1\r\n", "$8\r\nHTTP/1.1\r\n");
    assert_answer("ECHO HTTP/2.0\n", "$8\r\nHTTP/2.0\r\n");
    assert_answer("WEIR.SHOW k 1/s\n",
                  "*8\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n:0\r\n");
}

static void test_quits(void **state)
{
    (void)state;
    assert_last_answer("QUIT\r\nPING\r\n", "+OK\r\n");
}

static void test_says_hello(void **state)
{
    (void)state;
    assert_answer(
        "HELLO\n",
        "*14\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n$5\r\nproto\r\n"
        ":2\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n"
        "$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
    assert_answer(
        "HELLO 3 SETNAME me\n",
        "%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n$5\r\nproto\r\n"
        ":3\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n"
        "$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
    assert_answer("CLIENT GETNAME\n", "$2\r\nme\r\n");
    assert_answer("HELLO 4\n", "-NOPROTO unsupported protocol version\r\n");
    assert_answer("HELLO x\n", "-ERR Protocol version is not an integer or out of range\r\n");
    assert_answer("HELLO 3 SETNAME\n", "-ERR Syntax error in HELLO option 'SETNAME'\r\n");
    assert_answer("GET none\n", "_\r\n");
    assert_answer("RESET\n", "+RESET\r\n");
    assert_answer("CLIENT GETNAME\n", "$-1\r\n");
}

static void test_wants_the_password(void **state)
{
    (void)state;
    static const char WRONG[] =
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    world.config.password = "secret";
    world.config.password_len = 6;
    assert_answer("PING\n", "-NOAUTH Authentication required.\r\n");
    assert_answer("WEIR.TAKE k 1/s\n", "-NOAUTH Authentication required.\r\n");
    assert_answer("CL.THROTTLE k 1 1 1\n", "-NOAUTH Authentication required.\r\n");
    assert_answer("NOPE\n", "-ERR unknown command 'NOPE', with args beginning with: \r\n");
    assert_answer("AUTH secre\n", WRONG);
    assert_answer("AUTH secrets\n", WRONG);
    assert_answer("AUTH \"\"\n", WRONG);
    assert_answer("AUTH root secret\n", WRONG);
    assert_answer("HELLO 3 AUTH default Secret\n", WRONG);
    assert_int_equal(world.counters.auth_failures[PROTOCOL_RESP], 5);
    assert_int_equal(strncmp(ask("HELLO 3\n"), "-NOAUTH HELLO must be called", 28), 0);
    assert_int_equal(strncmp(ask("HELLO 3 AUTH default secret\n"), "%7\r\n", 4), 0);
    assert_answer("PING\n", "+PONG\r\n");
    assert_answer("RESET\n", "+RESET\r\n");
    assert_answer("PING\n", "-NOAUTH Authentication required.\r\n");
    assert_answer("AUTH secret\n", "+OK\r\n");
    assert_answer("AUTH default secret\n", "+OK\r\n");
    assert_answer("AUTH wrong\n", WRONG); // and stays who he was, as Redis has it
    assert_answer("PING\n", "+PONG\r\n");
    assert_answer("WEIR.SHOW k 1/s\n",
                  "*8\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n:0\r\n");
}

static void test_closes_after_wrong_passwords_in_a_row(void **state)
{
    (void)state;
    static const char WRONG[] =
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    world.config.password = "secret";
    world.config.password_len = 6;
    for (int round = 0; round < 3; round++) { // a right one forgives
        for (int i = 0; i < 7; i++) {
            assert_answer(i % 2 == 0 ? "AUTH wrong\n" : "HELLO 3 AUTH default wrong\n", WRONG);
        }
        assert_answer("AUTH secret\n", "+OK\r\n");
    }
    for (int i = 0; i < 7; i++) {
        assert_answer("AUTH wrong\n", WRONG);
    }
    assert_last_answer("AUTH wrong\nPING\n", WRONG);
}

static void test_bounds_strangers(void **state)
{
    (void)state;
    world.config.password = "secret";
    world.config.password_len = 6;
    assert_last_answer("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n");
    world_connect(&world);
    assert_last_answer("*2\r\n$4\r\nAUTH\r\n$1025\r\n",
                       "-ERR Protocol error: unauthenticated bulk length\r\n");
}

/* Commands that are refused count until the password comes. */
static void test_bounds_what_strangers_say_in_all(void **state)
{
    (void)state;
    world.config.password = "secret";
    world.config.password_len = 6;
    for (size_t i = 0; i < 4096 / 8; i++) {
        assert_answer("PING 12\n", "-NOAUTH Authentication required.\r\n");
    }
    assert_last_answer("\n", "-ERR Protocol error: more than 4096 bytes before the password\r\n");
    world_connect(&world);
    for (size_t i = 0; i < 1000; i++) { // RESET makes a stranger of it again, and again
        assert_answer("RESET\nAUTH secret\n", "+RESET\r\n+OK\r\n");
    }
}

/* In one packet with AUTH: what is behind it has the ordinary bounds. */
static void test_bounds_nobody_behind_the_password(void **state)
{
    (void)state;
    static char text[100000];
    world.config.password = "secret";
    world.config.password_len = 6;
    int length =
        snprintf(text, sizeof text, "AUTH secret\r\n*2\r\n$4\r\nECHO\r\n$60000\r\n%060000d\r\n", 0);
    assert_in_range(length, 60000, sizeof text - 1);
    static char expected[100000];
    (void)snprintf(expected, sizeof expected, "+OK\r\n$60000\r\n%060000d\r\n", 0);
    assert_answer(text, expected);
}

static void test_knows_the_test_clock(void **state)
{
    (void)state;
    assert_answer("WEIR.CLOCK\n", ":0\r\n");
    assert_answer("WEIR.CLOCK SET 100\n", ":100\r\n");
    assert_answer("WEIR.CLOCK advance 5\n", ":105\r\n");
    static const char BACKWARDS[] =
        "-ERR the test clock only moves forwards, and to at most 2^62 ns\r\n";
    assert_answer("WEIR.CLOCK SET 104\n", BACKWARDS);
    assert_answer("WEIR.CLOCK ADVANCE 4611686018427387904\n", BACKWARDS);
    assert_answer("WEIR.CLOCK ADVANCE -1\n",
                  "-ERR the time must be a whole number of nanoseconds\r\n");
    assert_answer("WEIR.CLOCK BACK\n", "-ERR syntax error: WEIR.CLOCK [SET ns | ADVANCE ns]\r\n");
    assert_answer("COMMAND INFO weir.clock\n",
                  "*1\r\n*10\r\n$10\r\nweir.clock\r\n:-1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n*0\r\n"
                  "*0\r\n*0\r\n*0\r\n");
    world.ops.test_clock_set = NULL;
    assert_answer("WEIR.CLOCK\n",
                  "-ERR unknown command 'WEIR.CLOCK', with args beginning with: \r\n");
    assert_answer("COMMAND INFO weir.clock\n", "*1\r\n$-1\r\n");
}

static void test_helps_with_subcommands(void **state)
{
    (void)state;
    assert_answer("SLOWLOG HELP\n", "*4\r\n+SLOWLOG <subcommand> [<arg> ...]. Subcommands are:\r\n"
                                    "+get\r\n+len\r\n+reset\r\n");
}

static void test_answers_info(void **state)
{
    (void)state;
    assert_answer("INFO\n", "$15\r\n# all\r\nweir:1\r\n\r\n");
    assert_answer("INFO Server\n", "$18\r\n# server\r\nweir:1\r\n\r\n");
    (void)ask("HELLO 3\n");
    assert_answer("INFO\n", "=19\r\ntxt:# all\r\nweir:1\r\n\r\n");
}

/* ---- Waiting in line ---- */

#define TAKEN   "*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n"
#define LIMITED "*6\r\n:1\r\n:1\r\n:0\r\n:1000000000\r\n:1000000000\r\n:0\r\n"

/* Lets the take go that the world holds. */
static const char *let_go(void)
{
    world.output.length = 0;
    assert_true(world.wait.is_waiting);
    world.wait.is_waiting = false;
    enum engine_state state =
        RESP_ENGINE.resume(world.session, &world.service, world.wait.decisions, &world.output);
    assert_int_equal(state, ENGINE_OPEN);
    buffer_append(&world.output, "", 1);
    return world.output.at;
}

static void test_a_take_waits_and_holds_up_what_is_behind_it(void **state)
{
    (void)state;
    static const char text[] = "WEIR.TAKE k 1/s\nWEIR.TAKE k 1/s WAIT 1500 COST 1\nPING\n";
    world.wait.holds = true;
    assert_string_equal(ask_bytes(text, strlen(text), ENGINE_WAITING), TAKEN);
    assert_int_equal(world.wait.wait_ns, UINT64_C(1500000000));
    assert_int_equal(world.input.length, strlen("PING\n"));
    assert_string_equal(let_go(), TAKEN);
    assert_answer("", "+PONG\r\n");
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_ALLOWED], 2);
}

static void test_a_wait_in_vain_is_answered_at_once_and_in_order(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKE k 1/s\nWEIR.TAKE k 1/s WAIT 999\nWEIR.TAKE k 1/s WAIT 0\nPING\n",
                  TAKEN LIMITED LIMITED "+PONG\r\n");
}

static void test_a_wait_is_answered_as_a_map_in_resp3(void **state)
{
    (void)state;
    (void)ask("HELLO 3\n");
    (void)ask("WEIR.TAKE k 1/s\n");
    assert_answer("WEIR.TAKE k 1/s WAIT 86400000\n",
                  "%6\r\n+verdict\r\n:0\r\n+capacity\r\n:1\r\n+remaining\r\n:0\r\n"
                  "+retry_after_ns\r\n:-1\r\n+reset_after_ns\r\n:1000000000\r\n"
                  "+delay_ns\r\n:0\r\n");
}

static void test_a_transaction_cannot_wait(void **state)
{
    (void)state;
    assert_answer("MULTI\nWEIR.TAKE k 1/s COST 1 WAIT 5\nEXEC\n",
                  "+OK\r\n-ERR WAIT cannot be inside a transaction: EXEC answers at once\r\n"
                  "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_false(world.wait.is_waiting);
    assert_answer("MULTI\nWEIR.TAKE k 1/s COST 1\nEXEC\n", "+OK\r\n+QUEUED\r\n*1\r\n" TAKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_take_waits_and_holds_up_what_is_behind_it),
        TEST(test_a_wait_in_vain_is_answered_at_once_and_in_order),
        TEST(test_a_wait_is_answered_as_a_map_in_resp3),
        TEST(test_a_transaction_cannot_wait),
        TEST(test_answers_in_order),
        TEST(test_answers_the_same_in_pieces),
        TEST(test_decides_more_than_a_batch),
        TEST(test_pauses_when_it_has_worked_for_long),
        TEST(test_looks_at_the_clock_after_what_may_be_long),
        TEST(test_goes_in_smaller_steps_where_it_was_slow),
        TEST(test_answers_the_same_in_many_turns),
        TEST(test_pauses_when_its_output_is_plenty),
        TEST(test_closes_after_protocol_errors),
        TEST(test_closes_on_browsers),
        TEST(test_quits),
        TEST(test_says_hello),
        TEST(test_wants_the_password),
        TEST(test_closes_after_wrong_passwords_in_a_row),
        TEST(test_bounds_strangers),
        TEST(test_bounds_what_strangers_say_in_all),
        TEST(test_bounds_nobody_behind_the_password),
        TEST(test_knows_the_test_clock),
        TEST(test_helps_with_subcommands),
        TEST(test_answers_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
