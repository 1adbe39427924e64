/* SPDX-License-Identifier: MIT
 *
 * CL.THROTTLE, and what Redis' commands about keys say of its buckets. */
#include "../support/resp_ask.h"

#include <stdio.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_throttles_as_redis_cell),
        TEST(test_throttles_odd_quantities),
        TEST(test_throttles_by_the_key_alone),
        TEST(test_throttle_errors),
        TEST(test_a_full_table_is_an_error_of_throttle_and_a_verdict_of_take),
        TEST(test_redis_commands_see_throttle_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
