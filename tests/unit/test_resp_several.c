/* SPDX-License-Identifier: MIT
 *
 * Several limits in one command of RESP: lists on one key, and WEIR.TAKEALL. Answers are shown with a
 * space for each end of a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/resp_world.h"

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

/* What is answered, each line's end as a space. */
static const char *ask_bytes(const char *bytes, size_t length)
{
    world.output.length = 0;
    assert_int_equal(world_feed(&world, bytes, length), ENGINE_OPEN);
    assert_false(world.output.failed);
    size_t to = 0;
    for (size_t from = 0; from < world.output.length; from++) {
        char c = world.output.at[from];
        if (c != '\r') {
            world.output.at[to++] = c == '\n' ? ' ' : c;
        }
    }
    world.output.length = to;
    buffer_append(&world.output, "", 1);
    return world.output.at;
}

static const char *ask(const char *text)
{
    return ask_bytes(text, strlen(text));
}

static void assert_answer(const char *text, const char *answer)
{
    assert_string_equal(ask(text), answer);
}

/* ---- Decisions ---- */

static void test_a_list_is_all_or_nothing(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKE k \"2/s, 3/min\"\n",
                  "*9 :0 :2 :1 :-1 :500000000 :0 :-1 *3 :2 :1 :500000000 *3 :3 :2 :20000000000 ");
    assert_answer("WEIR.TAKE k \"2/s,3/min\" COST 1\n",
                  "*9 :0 :2 :0 :-1 :1000000000 :0 :-1 *3 :2 :0 :1000000000 *3 :3 :1 :40000000000 ");
    assert_answer("WEIR.TAKE k \"2/s, 3/min\"\n",
                  "*9 :1 :2 :0 :500000000 :1000000000 :0 :0 *3 :2 :0 :1000000000 "
                  "*3 :3 :1 :40000000000 ");
    (void)ask("WEIR.CLOCK SET 1000000000\n");
    assert_answer("WEIR.TAKE k \"2/s, 3/min\"\n",
                  "*9 :0 :3 :0 :-1 :59000000000 :0 :-1 *3 :2 :1 :500000000 *3 :3 :0 :59000000000 ");
    assert_answer("WEIR.TAKE k \"2/s, 3/min\"\n",
                  "*9 :1 :3 :0 :19000000000 :59000000000 :0 :1 *3 :2 :1 :500000000 "
                  "*3 :3 :0 :59000000000 ");
    assert_answer("WEIR.TAKE k \"2/s, 3/min\" COST 3\n",
                  "*9 :2 :2 :1 :-1 :500000000 :0 :0 *3 :2 :1 :500000000 *3 :3 :0 :59000000000 ");
    assert_answer("WEIR.TAKE k 2/s\n", "*6 :0 :2 :0 :-1 :1000000000 :0 ");
}

static void test_can_take_charges_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_answer("WEIR.CANTAKE k \"2/s, 3/min\" COST 2\n",
                      "*9 :0 :2 :0 :-1 :1000000000 :0 :-1 *3 :2 :0 :1000000000 "
                      "*3 :3 :1 :40000000000 ");
    }
    assert_answer("WEIR.PEEK k \"2/s, 3/min\" COST 0\n",
                  "*9 :0 :2 :2 :-1 :0 :0 :-1 *3 :2 :2 :0 *3 :3 :3 :0 ");
}

/* A key that one of the limits has locked out is blocked for all of the take. */
static void test_one_block_decides_for_all(void **state)
{
    (void)state;
    (void)ask("WEIR.TAKE k \"1/s block=30s, 3/min\"\nWEIR.TAKE k \"1/s block=30s, 3/min\"\n");
    static const char ANSWER[] = "*9 :3 :1 :0 :30000000000 :1000000000 :0 :0 *3 :1 :0 :1000000000 "
                                 "*3 :3 :2 :20000000000 ";
    assert_answer("WEIR.TAKE k \"1/s block=30s, 3/min\"\n", ANSWER);
    assert_answer("WEIR.TAKEALL 2 k \"1/s block=30s\" k 3/min\n", ANSWER);
    assert_answer("WEIR.SHOW k 3/min\n", "*8 :0 :3 :2 :-1 :20000000000 :0 $1 1 :0 ");
}

static void test_several_keys_each_have_their_limit(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKEALL 2 user:a 2/s all 3/min COST 2\n",
                  "*9 :0 :2 :0 :-1 :1000000000 :0 :-1 *3 :2 :0 :1000000000 "
                  "*3 :3 :1 :40000000000 ");
    assert_answer("weir.takeall 2 user:b 2/s all 3/min COST 2\n",
                  "*9 :1 :3 :1 :20000000000 :40000000000 :0 :1 *3 :2 :2 :0 *3 :3 :1 :40000000000 ");
    assert_answer("WEIR.SHOW user:b 2/s\n", "*8 :0 :2 :2 :-1 :0 :0 $1 0 :0 ");
    assert_answer("WEIR.SHOW all 3/min\n", "*8 :0 :3 :1 :-1 :40000000000 :0 $1 2 :0 ");
}

/* Both keys are under the same text, and one of them under a list. */
static void test_pairs_may_share_a_limit_and_have_lists(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKEALL 3 a \"2/s, 3/min\" b 2/s c \"2/s, 3/min\"\n",
                  "*12 :0 :2 :1 :-1 :500000000 :0 :-1 *3 :2 :1 :500000000 *3 :3 :2 :20000000000 "
                  "*3 :2 :1 :500000000 *3 :2 :1 :500000000 *3 :3 :2 :20000000000 ");
}

static void test_one_pair_answers_as_several_do(void **state)
{
    (void)state;
    assert_answer("WEIR.TAKEALL 1 k 1/s\n",
                  "*8 :0 :1 :0 :-1 :1000000000 :0 :-1 *3 :1 :0 :1000000000 ");
    assert_answer("WEIR.TAKEALL 1 k 1/s\n",
                  "*8 :1 :1 :0 :1000000000 :1000000000 :0 :0 *3 :1 :0 :1000000000 ");
}

static void test_resp3_gets_maps(void **state)
{
    (void)state;
    (void)ask("HELLO 3\n");
    static const char ANSWER[] =
        "%8 +verdict :1 +capacity :2 +remaining :0 +retry_after_ns :500000000 "
        "+reset_after_ns :1000000000 +delay_ns :0 +binding :0 +limits *2 "
        "%3 +capacity :2 +remaining :0 +reset_after_ns :1000000000 "
        "%3 +capacity :3 +remaining :1 +reset_after_ns :40000000000 ";
    (void)ask("WEIR.TAKE k \"2/s, 3/min\" COST 2\n");
    assert_answer("WEIR.TAKE k \"2/s, 3/min\"\n", ANSWER);
    assert_answer("WEIR.TAKEALL 2 k 2/s k 3/min\n", ANSWER);
}

static void test_one_take_counts_once(void **state)
{
    (void)state;
    (void)ask("WEIR.TAKE k \"1/s, 3/min\"\nWEIR.TAKE k \"1/s, 3/min\"\n"
              "WEIR.TAKEALL 2 a 1/s b 3/min\nWEIR.TAKE k \"1/s, 3/min\" COST 2\n");
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_ALLOWED], 2);
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_LIMITED], 1);
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_NEVER], 1);
    assert_int_equal(world.counters.requests[PROTOCOL_RESP], 4);
}

static void test_a_transaction_runs_them(void **state)
{
    (void)state;
    assert_answer("MULTI\nWEIR.TAKE k \"2/s, 3/min\"\nWEIR.TAKEALL 2 k 2/s k 3/min\nPING\n"
                  "WEIR.TAKEALL 2 k 2/s k 2/s\nEXEC\n",
                  "+OK +QUEUED +QUEUED +QUEUED +QUEUED *4 "
                  "*9 :0 :2 :1 :-1 :500000000 :0 :-1 *3 :2 :1 :500000000 *3 :3 :2 :20000000000 "
                  "*9 :0 :2 :0 :-1 :1000000000 :0 :-1 *3 :2 :0 :1000000000 *3 :3 :1 :40000000000 "
                  "+PONG -ERR invalid limits: limit 2 is limit 1 again, the same bucket twice ");
}

/* ---- What is wrong ---- */

#define USAGE                                                                                      \
    "-ERR syntax error: WEIR.TAKEALL n is followed by n pairs of a key and its limit, 1 to 16 "

#define TOO_MANY "-ERR invalid limits: at most 16 can be taken together "

static void test_says_what_is_wrong_and_charges_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *command, *answer;
    } CASES[] = {
        {"WEIR.TAKE k \"2/s, 3/x\"",
         "-ERR invalid limit at byte 7: limit 2 of 2: unknown unit 'x'; "
         "one of ns us ms s min h d w "},
        {"WEIR.TAKE k \"2/s,\"", "-ERR invalid limit at byte 4: limit 2 of 2 is empty "},
        {"WEIR.TAKE k \"2/s, 3/min, 120/min capacity=2\"",
         "-ERR invalid limit at byte 12: limit 3 of 3 is limit 1 again, the same bucket twice "},
        {"WEIR.TAKE k \"2/s, 3/min\" COST x",
         "-ERR invalid cost at byte 0: expected the cost, not 'x' "},
        {"WEIR.TAKE k \"2/s, 3/min\" WAIT x",
         "-ERR invalid wait: WAIT takes 0 to 86400000 whole milliseconds (24 hours) "},
        {"WEIR.TAKE k \"2/s, sliding 3/min\" COST 0.5 WAIT 5",
         "-ERR invalid cost: limit 2: this limit counts whole units, so the cost must be a whole "
         "number "},
        {"WEIR.TAKEALL 2 k 2/s k 2/s WAIT 5",
         "-ERR invalid limits: limit 2 is limit 1 again, the same bucket twice "},
        {"WEIR.CANTAKE k \"2/s, 3/min\" WAIT 5",
         "-ERR syntax error: after the limit comes nothing or "
         "COST and a number, or SHADOW, each once "},
        {"WEIR.TAKE k \"2/s, sliding 3/min\" COST 0.5",
         "-ERR invalid cost: limit 2: this limit counts whole units, so the cost must be a whole "
         "number "},
        {"WEIR.TAKEALL 0 k 2/s", USAGE},
        {"WEIR.TAKEALL 17 k 2/s", TOO_MANY},
        {"WEIR.TAKEALL -1 k 2/s", USAGE},
        {"WEIR.TAKEALL x k 2/s", USAGE},
        {"WEIR.TAKEALL 17", TOO_MANY},
        {"WEIR.TAKEALL 9223372036854775807 k 2/s", TOO_MANY},
        {"WEIR.TAKEALL 0", USAGE},
        {"WEIR.TAKEALL x", USAGE},
        {"WEIR.TAKEALL 2 k 2/s", USAGE},
        {"WEIR.TAKEALL 2 k 2/s k", USAGE},
        {"WEIR.TAKEALL 1 k 2/s k", "-ERR syntax error: after the limit comes nothing or COST and a "
                                   "number, or WAIT and milliseconds, or SHADOW, each once "},
        {"WEIR.TAKEALL 2 k 2/s \"\" 3/min",
         "-ERR invalid key: it must be 1 to 65535 bytes, not 0 "},
        {"WEIR.TAKEALL 2 k 2/s k 3/x",
         "-ERR invalid limit of pair 2 at byte 2: unknown unit 'x'; one of ns us ms s min h d w "},
        {"WEIR.TAKEALL 2 k 2/s k 2/s",
         "-ERR invalid limits: limit 2 is limit 1 again, the same bucket twice "},
        {"WEIR.TAKEALL 2 k 2/s k \"3/min, 120/min capacity=2\"",
         "-ERR invalid limits: limit 3 is limit 1 again, the same bucket twice "},
        {"WEIR.TAKEALL 1 k", USAGE},
        {"WEIR.TAKEALL", "-ERR wrong number of arguments for 'weir.takeall' command "},
    };
    size_t count = sizeof CASES / sizeof CASES[0];
    for (size_t i = 0; i < count; i++) {
        char command[256];
        (void)snprintf(command, sizeof command, "%s\n", CASES[i].command);
        assert_answer(command, CASES[i].answer);
    }
    assert_answer("WEIR.CANTAKE k \"2/s, 3/min\" COST 0\n",
                  "*9 :0 :2 :2 :-1 :0 :0 :-1 *3 :2 :2 :0 *3 :3 :3 :0 ");
    assert_int_equal(world.counters.bad_requests[PROTOCOL_RESP], count);
}

static void test_only_takes_are_under_lists(void **state)
{
    (void)state;
    static const char *const OTHERS[] = {"FILL", "REFUND", "SHOW", "RESET"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        char command[64];
        (void)snprintf(command, sizeof command, "WEIR.%s k \"2/s, 3/s\"\n", OTHERS[i]);
        assert_answer(command,
                      "-ERR invalid limit: it is a list: only WEIR.TAKE and WEIR.CANTAKE take one, "
                      "and WEIR.TAKEALL does with several keys ");
    }
}

/* ---- Waiting in line ---- */

#define WAITED ":0 :2 :0 :-1 :1000000000 :0 :-1 "

static void test_several_limits_wait_together(void **state)
{
    (void)state;
    (void)ask("WEIR.TAKE k 2/s COST 2\n");
    assert_answer("WEIR.TAKE k \"2/s, 3/min\" WAIT 1500\nPING\n",
                  "*9 " WAITED "*3 :2 :0 :1000000000 *3 :3 :3 :0 +PONG ");
    assert_int_equal(world.wait.wait_ns, UINT64_C(1500000000));
    assert_answer("WEIR.TAKEALL 2 k 3/min k 2/s WAIT 1500\n",
                  "*9 " WAITED "*3 :3 :3 :0 *3 :2 :0 :1000000000 ");
    assert_answer("WEIR.TAKEALL 1 k 2/s WAIT 1500\n", "*8 " WAITED "*3 :2 :0 :1000000000 ");
    assert_int_equal(world.counters.decisions[PROTOCOL_RESP][WEIR_ALLOWED], 4);
}

static void test_a_wait_in_vain_names_the_limit_that_refuses(void **state)
{
    (void)state;
    (void)ask("WEIR.TAKE k 2/s COST 2\n");
    assert_answer("WEIR.TAKE k \"3/min, 2/s\" WAIT 1\n",
                  "*9 :1 :2 :0 :500000000 :1000000000 :0 :1 *3 :3 :3 :0 *3 :2 :0 :1000000000 ");
}

static void test_a_pipeline_goes_on_behind_who_waits(void **state)
{
    (void)state;
    (void)ask("WEIR.TAKE k 2/s COST 2\n");
    assert_answer("WEIR.TAKE a \"1/s, 1/min\"\nWEIR.TAKE k \"2/s, 3/min\" WAIT 1500\n"
                  "WEIR.TAKE b \"1/s, 1/min\"\n",
                  "*9 :0 :1 :0 :-1 :1000000000 :0 :-1 *3 :1 :0 :1000000000 *3 :1 :0 :60000000000 "
                  "*9 " WAITED "*3 :2 :0 :1000000000 *3 :3 :3 :0 "
                  "*9 :0 :1 :0 :-1 :1000000000 :0 :-1 *3 :1 :0 :1000000000 *3 :1 :0 :60000000000 ");
}

static void test_wait_is_refused_before_it_is_queued(void **state)
{
    (void)state;
    assert_answer("MULTI\nWEIR.TAKEALL 2 k 2/s k 3/min WAIT 5\nEXEC\n",
                  "+OK -ERR WAIT cannot be inside a transaction: EXEC answers at once "
                  "-EXECABORT Transaction discarded because of previous errors. ");
    assert_answer("MULTI\nWEIR.TAKEALL 2 wait 2/s wait 3/min\nDISCARD\n", "+OK +QUEUED +OK ");
}

/* "WEIR.TAKEALL n k0 1/s k1 1/s ..", with lists of `each` limits. */
static void write_take_all(char *text, size_t size, int pairs, int each)
{
    size_t length = (size_t)snprintf(text, size, "WEIR.TAKEALL %d", pairs);
    for (int i = 0; i < pairs; i++) {
        length += (size_t)snprintf(text + length, size - length, " k%d \"", i);
        for (int limit = 1; limit <= each; limit++) {
            length += (size_t)snprintf(text + length, size - length, "%s%d/h", limit > 1 ? "," : "",
                                       limit);
        }
        length += (size_t)snprintf(text + length, size - length, "\"");
    }
    (void)snprintf(text + length, size - length, "\n");
}

static void test_sixteen_and_not_seventeen(void **state)
{
    (void)state;
    char text[4096];
    char start[64];
    for (int pairs = 1; pairs <= 16; pairs++) {
        for (int each = 1; each <= 16; each++) {
            write_take_all(text, sizeof text, pairs, each);
            (void)snprintf(start, sizeof start, "*%d :", 7 + pairs * each);
            const char *answer = ask(text);
            if (pairs * each <= 16) {
                assert_memory_equal(answer, start, strlen(start));
            } else {
                (void)snprintf(start, sizeof start,
                               "-ERR invalid limits: pair %d brings more than 16 together ",
                               16 / each + 1);
                assert_string_equal(answer, start);
            }
        }
    }
    assert_answer(
        "WEIR.TAKE k 1/s,2/s,3/s,4/s,5/s,6/s,7/s,8/s,9/s,1/h,2/h,3/h,4/h,5/h,6/h,7/h,8/h\n",
        "-ERR invalid limit at byte 63: 17 limits: at most 16 can be taken together ");
}

/* ---- Batches ---- */

/* The i-th command of a long pipeline, of all shapes: what stands around a key. */
static void write_command(char *text, size_t size, int i)
{
    static const char *const SHAPES[][2] = {
        {"WEIR.TAKE", "5/s"},
        {"WEIR.TAKE", "\"5/s, 9/min\""},
        {"WEIR.TAKEALL 2", "5/s all 1000/h"},
        {"WEIR.TAKEALL 3", "\"5/s, 9/min\" all 1000/h user \"7/s, 8/s, 9/s, 1/s, 2/s, 3/s\""},
        {"WEIR.SHOW", "5/s"},
        {"WEIR.TAKEALL 2", "5/s all 1000/x"},
        {"CL.THROTTLE", "5 5 5"},
        {"WEIR.CANTAKE", "\"5/s, 9/min\""},
    };
    const char *const *shape = SHAPES[(i * 7 + i / 5) % 8];
    (void)snprintf(text, size, "%s k%d %s\n", shape[0], i % 9, shape[1]);
}

enum { PIPELINE_COUNT = 400 };

/* The same, as arrays of bulk strings: an inline command would end each batch. */
static size_t to_array(char *to, const char *line)
{
    char words[64][96];
    int count = 0;
    while (*line != '\n') {
        bool is_quoted = *line == '"';
        line += is_quoted;
        size_t length = strcspn(line, is_quoted ? "\"" : " \n");
        (void)snprintf(words[count++], sizeof words[0], "%.*s", (int)length, line);
        line += length + is_quoted;
        line += *line == ' ';
    }
    size_t at = (size_t)sprintf(to, "*%d\r\n", count);
    for (int i = 0; i < count; i++) {
        at += (size_t)sprintf(to + at, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    }
    return at;
}

static void test_a_pipeline_answers_as_one_by_one(void **state)
{
    (void)state;
    static char pipeline[PIPELINE_COUNT * 256];
    char *alone = calloc(1, (size_t)1 << 20);
    size_t length = 0;
    size_t answered = 0;
    assert_non_null(alone);
    for (int i = 0; i < PIPELINE_COUNT; i++) {
        char line[128];
        write_command(line, sizeof line, i);
        size_t command = to_array(pipeline + length, line);
        const char *answer = ask_bytes(pipeline + length, command);
        memcpy(alone + answered, answer, strlen(answer));
        answered += strlen(answer);
        length += command;
    }
    world_close(&world);
    assert_int_equal(open_world(NULL), 0);
    assert_string_equal(ask_bytes(pipeline, length), alone);
    free(alone);
}

static void test_answers_the_same_in_pieces(void **state)
{
    (void)state;
    static const char TEXT[] =
        "*4\r\n$12\r\nWEIR.TAKEALL\r\n$1\r\n1\r\n$1\r\na\r\n$8\r\n1/s, 2/h\r\n"
        "*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na\r\n$8\r\n1/s, 2/h\r\n";
    static const char ANSWER[] =
        "*9 :0 :1 :0 :-1 :1000000000 :0 :-1 *3 :1 :0 :1000000000 *3 :2 :1 :1800000000000 "
        "*9 :1 :1 :0 :1000000000 :1000000000 :0 :0 *3 :1 :0 :1000000000 *3 :2 :1 :1800000000000 ";
    size_t length = sizeof TEXT - 1;
    for (size_t at = 0; at <= length; at++) {
        char both[sizeof ANSWER + 1];
        (void)ask("WEIR.RESET a 1/s\nWEIR.RESET a 2/h\n");
        (void)snprintf(both, sizeof both, "%s", ask_bytes(TEXT, at));
        size_t first = strlen(both);
        (void)snprintf(both + first, sizeof both - first, "%s", ask_bytes(TEXT + at, length - at));
        assert_string_equal(both, ANSWER);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(test_a_list_is_all_or_nothing),
        TEST(test_can_take_charges_nothing),
        TEST(test_one_block_decides_for_all),
        TEST(test_several_keys_each_have_their_limit),
        TEST(test_pairs_may_share_a_limit_and_have_lists),
        TEST(test_one_pair_answers_as_several_do),
        TEST(test_resp3_gets_maps),
        TEST(test_one_take_counts_once),
        TEST(test_a_transaction_runs_them),
        TEST(test_says_what_is_wrong_and_charges_nothing),
        TEST(test_only_takes_are_under_lists),
        TEST(test_several_limits_wait_together),
        TEST(test_a_wait_in_vain_names_the_limit_that_refuses),
        TEST(test_a_pipeline_goes_on_behind_who_waits),
        TEST(test_wait_is_refused_before_it_is_queued),
        TEST(test_sixteen_and_not_seventeen),
        TEST(test_a_pipeline_answers_as_one_by_one),
        TEST(test_answers_the_same_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
