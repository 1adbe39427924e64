/* SPDX-License-Identifier: MIT
 *
 * The RESP engine, without a socket: what it answers, byte for byte, to RESP2 and RESP3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/resp_world.h"

#define MS UINT64_C(1000000)

static struct world world;

static int open_world(void **state)
{
    (void)state;
    return resp_world_open(&world, (uint64_t)1 << 20) ? 0 : -1;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

/* What is answered to these bytes, as one NUL-terminated text. */
static const char *ask_bytes(const char *bytes, size_t length, enum engine_state expected)
{
    world.output.length = 0;
    enum engine_state state = world_feed(&world, bytes, length);
    assert_false(world.output.failed);
    buffer_append(&world.output, "", 1);
    if (state != expected) {
        fail_msg("state %d after: %s", (int)state, world.output.at);
    }
    return world.output.at;
}

static const char *ask(const char *text)
{
    return ask_bytes(text, strlen(text), ENGINE_OPEN);
}

static void assert_answer(const char *text, const char *answer)
{
    assert_string_equal(ask(text), answer);
}

static void assert_last_answer(const char *text, const char *answer)
{
    assert_string_equal(ask_bytes(text, strlen(text), ENGINE_CLOSE), answer);
}

/* ---- Decisions ---- */

static void test_takes_until_refused(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKE alice 2/s\n", "*6\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:500000000\r\n:0\r\n");
    assert_answer("weir.take alice 2/s COST 1\n",
                  "*6\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n");
    assert_answer("Weir.Take alice 2/s\n",
                  "*6\r\n:1\r\n:2\r\n:0\r\n:500000000\r\n:1000000000\r\n:0\r\n");
    assert_answer("WEIR.TAKE alice 2/s COST 2.000001\n",
                  "*6\r\n:2\r\n:2\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n");
    assert_answer("WEIR.TAKE alice 2/s cost 0\n",
                  "*6\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n");
}

static void test_takes_the_array_form(void **state)
{
    (void)state;
    assert_answer(
        "*5\r\n$9\r\nWEIR.TAKE\r\n$5\r\nalice\r\n$16\r\n10/s  capacity=5\r\n$4\r\nCOST\r\n"
        "$3\r\n1.5\r\n",
        "*6\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:150000000\r\n:0\r\n");
}

static void test_answers_maps_to_resp3(void **state)
{
    (void)state;
    (void)ask("HELLO 3\n");
    assert_answer(
        "WEIR.TAKE alice 2/s\n",
        "%6\r\n+verdict\r\n:0\r\n+capacity\r\n:2\r\n+remaining\r\n:1\r\n+retry_after_ns\r\n"
        ":-1\r\n+reset_after_ns\r\n:500000000\r\n+delay_ns\r\n:0\r\n");
    assert_answer(
        "WEIR.FILL alice 2/s COST 3\n",
        "%8\r\n+verdict\r\n:0\r\n+capacity\r\n:2\r\n+remaining\r\n:0\r\n+retry_after_ns\r\n"
        ":-1\r\n+reset_after_ns\r\n:1000000000\r\n+delay_ns\r\n:0\r\n+spill\r\n$1\r\n2\r\n"
        "+full\r\n:1\r\n");
    assert_answer("CL.THROTTLE bob 1 1 1\n", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n");
}

static void test_can_take_fill_refund_show_reset(void **state)
{
    (void)state;
    assert_answer("WEIR.CANTAKE k 3/s\n", "*6\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:333333334\r\n:0\r\n");
    assert_answer("WEIR.PEEK k 3/s\n", "*6\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:333333334\r\n:0\r\n");
    assert_answer("WEIR.RESET k 3/s\n", ":0\r\n");
    assert_answer("WEIR.FILL k 3/s COST 2.5\n",
                  "*8\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:833333334\r\n:0\r\n$1\r\n0\r\n:0\r\n");
    assert_answer("WEIR.FILL k 3/s COST 2.5\n",
                  "*8\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n$1\r\n2\r\n:1\r\n");
    assert_answer("WEIR.REFUND k 3/s COST 2\n",
                  "*6\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:333333334\r\n:0\r\n");
    (void)ask("WEIR.CLOCK ADVANCE 1\n");
    assert_answer("WEIR.SHOW k 3/s\n",
                  "*7\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:333333333\r\n:0\r\n$11\r\n0.999999997\r\n");
    assert_answer("WEIR.RESET k 3/s\n", ":1\r\n");
    assert_answer("WEIR.RESET k 3/s\n", ":0\r\n");
    assert_answer("WEIR.SHOW k 3/s\n", "*7\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n");
}

static void test_says_what_is_wrong_and_where(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKE k 10/fortnight\n",
                  "-ERR invalid limit at byte 3: unknown unit 'fortnight'; one of ns us ms s min h "
                  "d w\r\n");
    assert_answer("WEIR.TAKE k \"\"\n",
                  "-ERR invalid limit at byte 0: expected the count, but the text ends\r\n");
    assert_answer("WEIR.TAKE k 10/s COST -1\n",
                  "-ERR invalid cost at byte 0: expected the cost, not '-'\r\n");
    assert_answer("WEIR.TAKE k 10/s COST 1.2345678\n",
                  "-ERR invalid cost at byte 8: the cost has more than six places after the "
                  "point\r\n");
    assert_answer("WEIR.CANTAKE k 10/s WAIT 5\n",
                  "-ERR syntax error: after the limit comes nothing or COST and a number\r\n");
    static const char *const wrong[] = {"COST", "WAIT", "WAIT 5 WAIT 5", "COST 1 COST 1",
                                        "PATIENCE 5"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char command[64];
        (void)snprintf(command, sizeof command, "WEIR.TAKE k 10/s %s\n", wrong[i]);
        assert_answer(command, "-ERR syntax error: after the limit comes nothing or COST and a "
                               "number, or WAIT and milliseconds, each once\r\n");
    }
    static const char *const absurd[] = {"-1",      "86400001", "1.5",
                                         "forever", "1e3",      "99999999999999999999"};
    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
        char command[64];
        (void)snprintf(command, sizeof command, "WEIR.TAKE k 10/s WAIT %s\n", absurd[i]);
        assert_answer(command, "-ERR invalid wait: WAIT takes 0 to 86400000 whole milliseconds "
                               "(24 hours)\r\n");
    }
    assert_answer("WEIR.TAKE \"\" 10/s\n", "-ERR the key must be 1 to 65535 bytes, not 0\r\n");
    assert_answer("WEIR.TAKE k\n", "-ERR wrong number of arguments for 'weir.take' command\r\n");
    assert_answer("WEIR.SHOW k 1/s COST 1\n",
                  "-ERR wrong number of arguments for 'weir.show' command\r\n");
    assert_int_equal(world.counters.bad_requests[PROTOCOL_RESP], 19);
}

static void test_bounds_the_key(void **state)
{
    (void)state;
    size_t size = 70000;
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t length = 65535; length <= 65536; length++) {
        size_t at = (size_t)snprintf(text, size, "*3\r\n$9\r\nWEIR.TAKE\r\n$%zu\r\n", length);
        memset(text + at, 'k', length);
        at += length;
        memcpy(text + at, "\r\n$3\r\n1/s\r\n", 11);
        const char *answer = ask_bytes(text, at + 11, ENGINE_OPEN);
        assert_string_equal(answer, length == 65535
                                        ? "*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n"
                                        : "-ERR the key must be 1 to 65535 bytes, not 65536\r\n");
    }
    free(text);
}

/* An error after a limit was read, then the same limit in other bytes: the batch must not remember
 * memory that has gone. */
static void test_forgets_limits_with_their_bytes(void **state)
{
    (void)state;
    char *text =
        strdup("*5\r\n$9\r\nWEIR.TAKE\r\n$1\r\nk\r\n$3\r\n5/s\r\n$4\r\nCOST\r\n$1\r\nx\r\n");
    assert_non_null(text);
    (void)ask(text);
    free(text);
    assert_answer("WEIR.TAKE k 7/s\n", "*6\r\n:0\r\n:7\r\n:6\r\n:-1\r\n:142857143\r\n:0\r\n");
}

/* ---- CL.THROTTLE ---- */

static void test_throttles_as_redis_cell(void **state)
{
    (void)state;
    assert_answer("CL.THROTTLE user 2 30 60\n", "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:2\r\n");
    assert_answer("CL.THROTTLE user 2 30 60 2\n", "*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:6\r\n");
    assert_answer("CL.THROTTLE user 2 30 60\n", "*5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:6\r\n");
    (void)ask("WEIR.CLOCK ADVANCE 1\n");
    assert_answer("CL.THROTTLE user 2 30 60\n", "*5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:6\r\n");
    (void)ask("WEIR.CLOCK SET 1999999999\n");
    assert_answer("CL.THROTTLE user 2 30 60\n", "*5\r\n:1\r\n:3\r\n:0\r\n:1\r\n:5\r\n");
    (void)ask("WEIR.CLOCK SET 2000000000\n");
    assert_answer("CL.THROTTLE user 2 30 60\n", "*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:6\r\n");
}

static void test_throttles_odd_quantities(void **state)
{
    (void)state;
    assert_answer("CL.THROTTLE k 2 1 1 0\n", "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n");
    assert_answer("CL.THROTTLE k 2 1 1 +3\n", "*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:3\r\n");
    assert_answer("CL.THROTTLE k 2 1 1 4\n", "*5\r\n:1\r\n:3\r\n:0\r\n:-1\r\n:3\r\n");
    assert_answer("CL.THROTTLE k 2 1 1 9223372036854775807\n",
                  "*5\r\n:1\r\n:3\r\n:0\r\n:-1\r\n:3\r\n");
    assert_answer("CL.THROTTLE k 2 1 1 -1\n", "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:2\r\n");
    assert_answer("CL.THROTTLE k 2 1 1 -9223372036854775808\n",
                  "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n");
    assert_answer("CL.THROTTLE k 0 1 1\n", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n");
}

static void test_throttles_by_the_key_alone(void **state)
{
    (void)state;
    assert_answer("CL.THROTTLE k 6 7 1 7\n", "*5\r\n:0\r\n:7\r\n:0\r\n:-1\r\n:1\r\n");
    assert_answer("CL.THROTTLE k 2 3 1\n", "*5\r\n:1\r\n:3\r\n:0\r\n:1\r\n:1\r\n");
    assert_answer("EXISTS k\n", ":1\r\n");
}

static void test_throttle_errors(void **state)
{
    (void)state;
    static const char USAGE[] = "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> "
                                "<count per period> <period> [<quantity>]\r\n";
    assert_answer("CL.THROTTLE\n", USAGE);
    assert_answer("CL.THROTTLE k 1 1\n", USAGE);
    assert_answer("CL.THROTTLE k 1 1 1 1 1\n", USAGE);
#define NO_INTEGER "-Cell error: Store error: Couldn't parse as integer: "
    assert_answer("CL.THROTTLE k a b 1\n", NO_INTEGER "a\r\n");
    assert_answer("CL.THROTTLE k 1 b c\n", NO_INTEGER "b\r\n");
    assert_answer("CL.THROTTLE k 1 1 1 1.5\n", NO_INTEGER "1.5\r\n");
    assert_answer("CL.THROTTLE k \"\" 1 1\n", NO_INTEGER "\r\n");
    assert_answer("CL.THROTTLE k + 1 1\n", NO_INTEGER "+\r\n");
    assert_answer("CL.THROTTLE k 9223372036854775808 1 1\n", NO_INTEGER "9223372036854775808\r\n");
    assert_answer("CL.THROTTLE k 1 0 1\n",
                  "-Cell error: Store error: Zero rates are not supported\r\n");
    assert_answer("CL.THROTTLE k 1 1 0\n",
                  "-Cell error: Store error: Zero rates are not supported\r\n");
    assert_answer("CL.THROTTLE k -1 1 1\n",
                  "-Cell error: Store error: max_burst must be 0 to 999999999999\r\n");
    assert_answer("CL.THROTTLE k 1 -1 1\n",
                  "-Cell error: Store error: count must be 1 to 1000000000000\r\n");
    assert_answer("CL.THROTTLE k 1 1 -1\n",
                  "-Cell error: Store error: period must be 1 or more seconds\r\n");
    assert_answer(
        "CL.THROTTLE k 1000 1 3155760000\n",
        "-Cell error: Store error: a full bucket would take more than 100 years to empty\r\n");
}

static void test_a_full_table_is_an_error_of_throttle_and_a_verdict_of_take(void **state)
{
    (void)state;
    char text[64];
    const char *answer = "";
    for (unsigned i = 0; i < 100000 && strncmp(answer, "-Cell", 5) != 0; i++) {
        (void)snprintf(text, sizeof text, "CL.THROTTLE key%u 1 1 1000000\n", i);
        answer = ask(text);
    }
    assert_string_equal(answer, "-Cell error: Store error: the table is full of live buckets\r\n");
    answer = "";
    for (unsigned i = 0; i < 100000 && strncmp(answer, "*6\r\n:4", 6) != 0; i++) {
        (void)snprintf(text, sizeof text, "WEIR.TAKE key%u 1/w\n", i);
        answer = ask(text);
    }
    assert_string_equal(answer, "*6\r\n:4\r\n:1\r\n:0\r\n:-1\r\n:-1\r\n:0\r\n");
}

/* ---- Keys ---- */

static void test_redis_commands_see_throttle_buckets(void **state)
{
    (void)state;
    (void)ask("WEIR.CLOCK SET 5\n");
    (void)ask("CL.THROTTLE k 2 1 1 2\n");
    assert_answer("TTL k\n", ":2\r\n");
    assert_answer("PTTL k\n", ":2000\r\n");
    assert_answer("GET k\n", "$10\r\n2000000005\r\n");
    assert_answer("TYPE k\n", "+string\r\n");
    assert_answer("EXISTS k k other\n", ":2\r\n");
    (void)ask("WEIR.CLOCK ADVANCE 1\n");
    assert_answer("TTL k\n", ":2\r\n");
    assert_answer("PTTL k\n", ":2000\r\n");
    assert_answer("DEL k k\n", ":1\r\n");
    assert_answer("TTL k\n", ":-2\r\n");
    assert_answer("GET k\n", "$-1\r\n");
    assert_answer("TYPE k\n", "+none\r\n");
    assert_answer("UNLINK k\n", ":0\r\n");
    assert_answer("SCAN 0\n", "*2\r\n$1\r\n0\r\n*0\r\n");
    assert_answer("KEYS *\n", "*0\r\n");
    (void)ask("WEIR.TAKE other 1/s\n");
    assert_answer("EXISTS other\n", ":0\r\n"); // only CL.THROTTLE buckets have names
}

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
    "*7\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n";

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
    size_t answered = 0;
    for (size_t at = 0; at < sizeof MIXED - 1; at++) {
        const char *answer = ask_bytes(MIXED + at, 1, ENGINE_OPEN);
        assert_memory_equal(answer, MIXED_ANSWER + answered, strlen(answer));
        answered += strlen(answer);
    }
    assert_int_equal(answered, sizeof MIXED_ANSWER - 1);
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
    enum engine_state result =
        RESP_ENGINE.feed(world.session, &world.service,
                         (struct bytes){world.input.at, world.input.length}, &world.output, &used);
    assert_int_equal(result, ENGINE_OPEN);
    assert_true(used < world.input.length);
    assert_true(world.output.length < 2 * ENGINE_OUTPUT_BYTES_PLENTY);
    buffer_consume(&world.input, used);
    const char *answer = ask("ECHO end\r\n");
    assert_string_equal(answer + strlen(answer) - 9, "$3\r\nend\r\n");
}

/* ---- Transactions ---- */

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
    size_t answered = 0;
    for (size_t at = 0; at < sizeof TEXT - 1; at++) {
        const char *answer = ask_bytes(TEXT + at, 1, ENGINE_OPEN);
        assert_memory_equal(answer, ANSWER + answered, strlen(answer));
        answered += strlen(answer);
    }
    assert_int_equal(answered, sizeof ANSWER - 1);
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
    assert_answer("WEIR.SHOW k 1/s\n", "*7\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n");
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
    for (size_t before = 0; used == 0; before = world.output.length) {
        struct buffer replies;
        buffer_init(&replies, (size_t)16 << 20);
        assert_int_equal(RESP_ENGINE.feed(world.session, &world.service,
                                          (struct bytes){world.input.at, world.input.length},
                                          &replies, &used),
                         ENGINE_OPEN);
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
    assert_last_answer("GET / HTTP/1.1\r\nHost: a\r\n\r\nWEIR.TAKE k 1/s\r\n",
                       "-ERR wrong number of arguments for 'get' command\r\n");
    world_connect(&world);
    assert_answer("WEIR.SHOW k 1/s\n", "*7\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n");
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
    assert_answer("WEIR.SHOW k 1/s\n", "*7\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n");
}

static void test_bounds_strangers(void **state)
{
    (void)state;
    world.config.password = "secret";
    world.config.password_len = 6;
    assert_last_answer("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n");
    world_connect(&world);
    assert_last_answer("*2\r\n$4\r\nAUTH\r\n$16385\r\n",
                       "-ERR Protocol error: unauthenticated bulk length\r\n");
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_take_waits_and_holds_up_what_is_behind_it),
        TEST(test_a_wait_in_vain_is_answered_at_once_and_in_order),
        TEST(test_a_wait_is_answered_as_a_map_in_resp3),
        TEST(test_a_transaction_cannot_wait),
        TEST(test_takes_until_refused),
        TEST(test_takes_the_array_form),
        TEST(test_answers_maps_to_resp3),
        TEST(test_can_take_fill_refund_show_reset),
        TEST(test_says_what_is_wrong_and_where),
        TEST(test_bounds_the_key),
        TEST(test_forgets_limits_with_their_bytes),
        TEST(test_throttles_as_redis_cell),
        TEST(test_throttles_odd_quantities),
        TEST(test_throttles_by_the_key_alone),
        TEST(test_throttle_errors),
        TEST(test_a_full_table_is_an_error_of_throttle_and_a_verdict_of_take),
        TEST(test_redis_commands_see_throttle_buckets),
        TEST(test_answers_in_order),
        TEST(test_answers_the_same_in_pieces),
        TEST(test_decides_more_than_a_batch),
        TEST(test_pauses_when_its_output_is_plenty),
        TEST(test_runs_a_transaction),
        TEST(test_runs_a_transaction_in_pieces),
        TEST(test_refuses_a_spoilt_transaction),
        TEST(test_does_not_spoil_by_nesting),
        TEST(test_releases_a_transaction),
        TEST(test_bounds_a_transaction),
        TEST(test_moves_the_clock_in_a_transaction),
        TEST(test_says_hello_in_a_transaction),
        TEST(test_pauses_in_a_transaction),
        TEST(test_closes_after_protocol_errors),
        TEST(test_closes_on_browsers),
        TEST(test_quits),
        TEST(test_says_hello),
        TEST(test_wants_the_password),
        TEST(test_bounds_strangers),
        TEST(test_knows_the_test_clock),
        TEST(test_helps_with_subcommands),
        TEST(test_answers_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
