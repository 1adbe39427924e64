/* SPDX-License-Identifier: MIT
 *
 * The RESP engine, without a socket: what its commands answer, byte for byte, to RESP2 and RESP3.
 * Transactions are in test_resp_transaction.c, connections in test_resp_connection.c. */
#include "../support/resp_ask.h"

#include <stdio.h>

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

/* Under limits that are written out nothing is in shadow: then that is what is said. */
static void test_says_what_shadows_would_have_said_if_asked(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKE alice 2/s SHADOW\n",
                  "*8\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:500000000\r\n:0\r\n:0\r\n:-1\r\n");
    assert_answer("WEIR.CANTAKE alice 2/s shadow COST 2\n",
                  "*8\r\n:1\r\n:2\r\n:1\r\n:500000000\r\n:500000000\r\n:0\r\n:0\r\n:-1\r\n");
    assert_answer("WEIR.TAKE alice 2/s COST 1 SHADOW WAIT 0\n",
                  "*8\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n:0\r\n:-1\r\n");
    assert_answer("WEIR.TAKEALL 1 bob 2/s SHADOW VAR a b\n",
                  "*11\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:500000000\r\n:0\r\n:-1\r\n*3\r\n:2\r\n:1\r\n"
                  ":500000000\r\n:0\r\n:-1\r\n:-1\r\n");
    (void)ask("HELLO 3\n");
    assert_answer(
        "WEIR.TAKE carol 2/s SHADOW\n",
        "%8\r\n+verdict\r\n:0\r\n+capacity\r\n:2\r\n+remaining\r\n:1\r\n+retry_after_ns\r\n"
        ":-1\r\n+reset_after_ns\r\n:500000000\r\n+delay_ns\r\n:0\r\n+shadow\r\n:0\r\n"
        "+shadow_retry_after_ns\r\n:-1\r\n");
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
    assert_answer(
        "WEIR.SHOW k 3/s\n",
        "*8\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:333333333\r\n:0\r\n$11\r\n0.999999997\r\n:0\r\n");
    assert_answer("WEIR.RESET k 3/s\n", ":1\r\n");
    assert_answer("WEIR.RESET k 3/s\n", ":0\r\n");
    assert_answer("WEIR.SHOW k 3/s\n",
                  "*8\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n:0\r\n$1\r\n0\r\n:0\r\n");
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
                  "-ERR syntax error: after the limit comes nothing "
                  "or COST and a number, or SHADOW, each once\r\n");
    assert_answer("WEIR.FILL k 10/s SHADOW\n",
                  "-ERR syntax error: after the limit comes nothing or COST and a number\r\n");
    static const char *const wrong[] = {"COST",          "WAIT",       "WAIT 5 WAIT 5",
                                        "COST 1 COST 1", "PATIENCE 5", "SHADOW SHADOW",
                                        "SHADOW 5"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char command[64];
        (void)snprintf(command, sizeof command, "WEIR.TAKE k 10/s %s\n", wrong[i]);
        assert_answer(command, "-ERR syntax error: after the limit comes nothing or COST and a "
                               "number, or WAIT and milliseconds, or SHADOW, each once\r\n");
    }
    static const char *const absurd[] = {"-1",      "86400001", "1.5",
                                         "forever", "1e3",      "99999999999999999999"};
    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
        char command[64];
        (void)snprintf(command, sizeof command, "WEIR.TAKE k 10/s WAIT %s\n", absurd[i]);
        assert_answer(command, "-ERR invalid wait: WAIT takes 0 to 86400000 whole milliseconds "
                               "(24 hours)\r\n");
    }
    assert_answer("WEIR.TAKE \"\" 10/s\n",
                  "-ERR invalid key: it must be 1 to 65535 bytes, not 0\r\n");
    assert_answer("WEIR.TAKE k\n", "-ERR wrong number of arguments for 'weir.take' command\r\n");
    assert_answer("WEIR.SHOW k 1/s COST 1\n",
                  "-ERR wrong number of arguments for 'weir.show' command\r\n");
    assert_int_equal(world.counters.bad_requests[PROTOCOL_RESP], 22);
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
        assert_string_equal(answer,
                            length == 65535
                                ? "*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n"
                                : "-ERR invalid key: it must be 1 to 65535 bytes, not 65536\r\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_takes_until_refused),
        TEST(test_takes_the_array_form),
        TEST(test_answers_maps_to_resp3),
        TEST(test_says_what_shadows_would_have_said_if_asked),
        TEST(test_can_take_fill_refund_show_reset),
        TEST(test_says_what_is_wrong_and_where),
        TEST(test_bounds_the_key),
        TEST(test_forgets_limits_with_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
