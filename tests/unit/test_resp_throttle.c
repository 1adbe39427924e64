/* SPDX-License-Identifier: MIT
 *
 * CL.THROTTLE, CL.PROBE and GCRA, and what Redis' commands about keys say of their buckets. */
#include "../support/resp_ask.h"

#include <stdio.h>
#include <stdlib.h>

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
    assert_answer(
        "CL.THROTTLE k 1 1 -1\n",
        "-Cell error: Store error: period must be 1 to 3155760000 seconds (100 years)\r\n");
    assert_answer(
        "CL.THROTTLE k 1 1 3155760001\n",
        "-Cell error: Store error: period must be 1 to 3155760000 seconds (100 years)\r\n");
    assert_answer(
        "CL.THROTTLE k 1 1 36028797018963969\n", // 2^55 + 1: times 10^9 it would be 10^9
        "-Cell error: Store error: period must be 1 to 3155760000 seconds (100 years)\r\n");
    assert_answer(
        "CL.THROTTLE k 1000 1 3155760000\n",
        "-Cell error: Store error: a full bucket would take more than 100 years to empty\r\n");
}

/* Integers of four to eight digits are read in another way than shorter and longer ones. */
static void test_throttle_reads_integers_of_every_length(void **state)
{
    (void)state;
    for (int length = 1; length <= 11; length++) {
        char text[80];
        char answer[80];
        char digits[] = "12345678909";
        digits[length] = '\0';
        (void)snprintf(text, sizeof text, "CL.PROBE k %s 999999 1\n", digits);
        (void)snprintf(answer, sizeof answer, "*5\r\n:0\r\n:%llu\r\n:%s\r\n",
                       strtoull(digits, NULL, 10) + 1, digits);
        assert_memory_equal(ask(text), answer, strlen(answer));
        for (int at = 0; at < length; at++) {
            for (const char *c = "/:a\x80\xb0\xff"; *c != '\0'; c++) {
                (void)snprintf(text, sizeof text, "CL.PROBE k %.*s%c%s 999999 1\n", at, digits, *c,
                               digits + at + 1);
                assert_memory_equal(ask(text), NO_INTEGER, strlen(NO_INTEGER));
            }
        }
    }
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

/* ---- CL.PROBE ---- */

static void test_a_probe_answers_as_throttle_would_and_charges_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_answer("CL.PROBE user 2 30 60\n", "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:2\r\n");
    }
    assert_answer("EXISTS user\n", ":0\r\n");
    assert_answer("CL.THROTTLE user 2 30 60 2\n", "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n");
    for (int i = 0; i < 3; i++) {
        assert_answer("cl.probe user 2 30 60\n", "*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:6\r\n");
        assert_answer("CL.PROBE user 2 30 60 2\n", "*5\r\n:1\r\n:3\r\n:1\r\n:2\r\n:4\r\n");
        assert_answer("CL.PROBE user 2 30 60 0\n", "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n");
        assert_answer("CL.PROBE user 2 30 60 4\n", "*5\r\n:1\r\n:3\r\n:1\r\n:-1\r\n:4\r\n");
        assert_answer("CL.PROBE user 2 30 60 9223372036854775807\n",
                      "*5\r\n:1\r\n:3\r\n:1\r\n:-1\r\n:4\r\n");
    }
    assert_answer("CL.THROTTLE user 2 30 60\n", "*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:6\r\n");
}

static void test_probe_errors(void **state)
{
    (void)state;
    assert_answer("CL.PROBE k 1 1\n",
                  "-Cell error: Store error: Usage: cl.probe <key> <max_burst> <count per period> "
                  "<period> [<quantity>]\r\n");
    assert_answer("CL.PROBE k x 1 1\n", NO_INTEGER "x\r\n");
    assert_answer("CL.PROBE k 1 0 1\n",
                  "-Cell error: Store error: Zero rates are not supported\r\n");
    assert_answer(
        "CL.PROBE k 1 1 1 -1\n",
        "-Cell error: Store error: quantity must be 0 or more: a probe gives nothing back\r\n");
}

/* ---- GCRA ---- */

static void test_gcra_as_redis_drafted_it(void **state)
{
    (void)state;
    assert_answer("GCRA user 5 10 60\n", "*5\r\n:0\r\n:6\r\n:5\r\n:-1\r\n:6\r\n");
    assert_answer("gcra user 5 10 60 tokens 5\n", "*5\r\n:0\r\n:6\r\n:0\r\n:-1\r\n:36\r\n");
    assert_answer("GCRA user 5 10 60.0\n", "*5\r\n:1\r\n:6\r\n:0\r\n:6\r\n:36\r\n");
    assert_answer("GCRA user 5 10 6e1 TOKENS 7\n", "*5\r\n:1\r\n:6\r\n:0\r\n:-1\r\n:36\r\n");
    assert_answer("GCRA user 5 10 60 TOKENS 9223372036854775807\n",
                  "*5\r\n:1\r\n:6\r\n:0\r\n:-1\r\n:36\r\n");
    (void)ask("WEIR.CLOCK SET 5999999999\n");
    assert_answer("GCRA user 5 10 60\n", "*5\r\n:1\r\n:6\r\n:0\r\n:1\r\n:31\r\n");
    (void)ask("WEIR.CLOCK SET 6000000000\n");
    assert_answer("GCRA user 5 10 60\n", "*5\r\n:0\r\n:6\r\n:0\r\n:-1\r\n:36\r\n");
}

static void test_gcra_and_throttle_share_their_buckets(void **state)
{
    (void)state;
    assert_answer("GCRA k 2 30 60 TOKENS 2\n", "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n");
    assert_answer("CL.THROTTLE k 2 30 60\n", "*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:6\r\n");
    assert_answer("CL.PROBE k 2 30 60\n", "*5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:6\r\n");
    assert_answer("TTL k\n", ":6\r\n");
    assert_answer("DEL k\n", ":1\r\n");
}

/* A period as PTTL shows it: one unit of it, in milliseconds. */
static void assert_period(const char *period, const char *pttl)
{
    char text[256];
    (void)snprintf(text, sizeof text, "GCRA %s 0 1 %s\n", period, period);
    if (strncmp(ask(text), "*5\r\n:0", 6) != 0) {
        fail_msg("%s", period);
    }
    (void)snprintf(text, sizeof text, "PTTL %s\n", period);
    assert_answer(text, pttl);
    (void)snprintf(text, sizeof text, "DEL %s\n", period);
    assert_answer(text, ":1\r\n");
}

static void test_gcra_reads_a_period_as_clients_write_it(void **state)
{
    (void)state;
    assert_period("1", ":1000\r\n");
    assert_period("0.5", ":500\r\n");
    assert_period(".25", ":250\r\n");
    assert_period("2.", ":2000\r\n");
    assert_period("1.5E+3", ":1500000\r\n");
    assert_period("1.5e-3", ":2\r\n");
    assert_period("0.10000000000000001", ":100\r\n"); // a double of 17 digits
    assert_period("0.1000000000000000055511151231257827", ":100\r\n");
    assert_period("0.000000001", ":1\r\n");
    assert_period("0.0010000005", ":2\r\n"); // the nearest nanosecond is one more
    assert_period("0.00100000049", ":1\r\n");
    assert_period("00000000000000000000000000000001", ":1000\r\n");
    assert_period("3155760000", ":3155760000000\r\n");
    assert_period("3155760000000000000000000e-15", ":3155760000000\r\n");
}

static void test_gcra_errors(void **state)
{
    (void)state;
    static const char *const PERIODS[] = {
        "0",
        "0.0",
        "-1",
        "+1",
        "0.0000000004",
        "3155760000.1",
        "3155760001",
        "1e10",
        "1e400",
        "1e99999",
        "1e-9999",
        ".",
        "e1",
        "1e",
        "1e1.5",
        "1x",
        "x",
        "inf",
        "nan",
        "0x10",
        "1 ",
        "1.2.3",
        "\"\"",
        "99999999999999999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof PERIODS / sizeof PERIODS[0]; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "GCRA k 1 1 %s\n", PERIODS[i]);
        if (PERIODS[i][1] == ' ') {
            (void)snprintf(text, sizeof text, "GCRA k 1 1 \"%s\"\n", PERIODS[i]);
        }
        assert_answer(text, "-ERR invalid period: it must be a decimal number of seconds, from "
                            "0.000000001 to 3155760000 (100 years)\r\n");
    }
    assert_answer("GCRA k 1 1\n", "-ERR wrong number of arguments for 'gcra' command\r\n");
#define AFTER "-ERR syntax error: after the period comes nothing, or TOKENS and a number\r\n"
    assert_answer("GCRA k 1 1 1 TOKENS\n", AFTER);
    assert_answer("GCRA k 1 1 1 COST 1\n", AFTER);
    assert_answer("GCRA k 1 1 1 TOKENS 1 1\n", AFTER);
    assert_answer("GCRA k -1 1 1\n",
                  "-ERR invalid max-burst: it must be a whole number, 0 to 999999999999\r\n");
    assert_answer(
        "GCRA k 1 0 1\n",
        "-ERR invalid tokens-per-period: it must be a whole number, 1 to 1000000000000\r\n");
    assert_answer("GCRA k 1 1 1 TOKENS 0\n",
                  "-ERR invalid TOKENS: it must be a whole number, 1 to 9223372036854775807\r\n");
    assert_answer("GCRA k 1 1 1 TOKENS -1\n",
                  "-ERR invalid TOKENS: it must be a whole number, 1 to 9223372036854775807\r\n");
    assert_answer("GCRA \"\" 1 1 1\n", "-ERR invalid key: it must be 1 to 65535 bytes, not 0\r\n");
    assert_answer("GCRA k 1000 1 3155760000\n",
                  "-ERR invalid limit: a full bucket would take more than 100 years to empty\r\n");
    assert_answer("EXISTS k\n", ":0\r\n"); // an error charges nothing
}

static void test_a_full_table_is_an_error_of_gcra(void **state)
{
    (void)state;
    char text[64];
    const char *answer = "";
    for (unsigned i = 0; i < 100000 && answer[0] != '-'; i++) {
        (void)snprintf(text, sizeof text, "GCRA key%u 1 1 1000000\n", i);
        answer = ask(text);
    }
    assert_string_equal(answer, "-ERR the table is full of live buckets\r\n");
}

static void test_tools_find_the_key(void **state)
{
    (void)state;
    assert_answer("COMMAND GETKEYS GCRA k 1 1 1\n", "*1\r\n$1\r\nk\r\n");
    assert_answer("COMMAND GETKEYS CL.PROBE k 1 1 1\n", "*1\r\n$1\r\nk\r\n");
    assert_answer("COMMAND GETKEYS CL.THROTTLE k 1 1 1\n", "*1\r\n$1\r\nk\r\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_throttles_as_redis_cell),
        TEST(test_throttles_odd_quantities),
        TEST(test_throttles_by_the_key_alone),
        TEST(test_throttle_errors),
        TEST(test_throttle_reads_integers_of_every_length),
        TEST(test_a_full_table_is_an_error_of_throttle_and_a_verdict_of_take),
        TEST(test_a_probe_answers_as_throttle_would_and_charges_nothing),
        TEST(test_probe_errors),
        TEST(test_gcra_as_redis_drafted_it),
        TEST(test_gcra_and_throttle_share_their_buckets),
        TEST(test_gcra_reads_a_period_as_clients_write_it),
        TEST(test_gcra_errors),
        TEST(test_a_full_table_is_an_error_of_gcra),
        TEST(test_tools_find_the_key),
        TEST(test_redis_commands_see_throttle_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
