/* SPDX-License-Identifier: MIT
 *
 * The reader of RESP commands: each case whole, split at every byte, a byte at a time, and ending at
 * a guard page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/parser_cases.h"
#include "protocol/resp/resp_parse.h"

/* ---- Running a case ---- */

/* What came out, in memory of its own. */
struct outcome {
    enum resp_result result;
    size_t used;
    size_t arg_count;
    char error[80];
    char args[RESP_INLINE_BYTES_MAX * 3]; // each as "<bytes>|"
    size_t args_length;
};

struct runner {
    bool is_stranger;
    struct resp_progress progress;
    struct outcome now, whole;
    size_t parse_count, parse_count_max; // how often the parser really had to look
};

static void copy_args(struct outcome *outcome, const struct resp_command *command)
{
    outcome->args_length = 0;
    for (size_t i = 0; i < command->arg_count; i++) {
        memcpy(outcome->args + outcome->args_length, command->args[i].at, command->args[i].length);
        outcome->args_length += command->args[i].length;
        outcome->args[outcome->args_length++] = '|';
    }
}

static bool parse(void *context, struct bytes arrived)
{
    static struct resp_command command;
    struct runner *runner = context;
    struct outcome *outcome = &runner->now;
    runner->parse_count++;
    outcome->result = resp_parse(arrived, runner->is_stranger, &command, &runner->progress);
    if (outcome->result == RESP_DONE) {
        assert_true(runner->progress.used >= 1 && runner->progress.used <= arrived.length);
        outcome->used = runner->progress.used;
        outcome->arg_count = command.arg_count;
        copy_args(outcome, &command);
    } else if (outcome->result == RESP_BAD) {
        (void)snprintf(outcome->error, sizeof outcome->error, "%s", runner->progress.error);
    } else {
        assert_true(runner->progress.need > arrived.length);
    }
    return outcome->result != RESP_MORE;
}

static void finish(void *context, size_t way)
{
    struct runner *runner = context;
    if (way == 0) {
        runner->whole = runner->now;
    } else {
        assert_int_equal(runner->now.result, runner->whole.result);
        assert_string_equal(runner->now.error, runner->whole.error);
        assert_int_equal(runner->now.used, runner->whole.used);
        assert_int_equal(runner->now.arg_count, runner->whole.arg_count);
        assert_int_equal(runner->now.args_length, runner->whole.args_length);
        assert_memory_equal(runner->now.args, runner->whole.args, runner->whole.args_length);
    }
    if (runner->parse_count > runner->parse_count_max) {
        runner->parse_count_max = runner->parse_count;
    }
    runner->parse_count = 0;
    memset(&runner->now, 0, offsetof(struct outcome, args));
    runner->now.args_length = 0;
    runner->now.result = RESP_MORE;
    memset(&runner->progress, 0, sizeof runner->progress);
}

/* Runs all ways, sees that they agree, and returns what came out. */
static const struct runner *run(struct bytes text, bool is_stranger)
{
    static struct runner runner;
    memset(&runner, 0, sizeof runner);
    runner.is_stranger = is_stranger;
    runner.now.result = RESP_MORE;
    struct parser_case all = {parse, finish, &runner, &runner.progress.need};
    parser_case_run(&all, text, 1024);
    return &runner;
}

static struct bytes literal(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

/* The arguments as "one|two|", and all of the text used. */
static void assert_command(const char *text, const char *args)
{
    const struct outcome *outcome = &run(literal(text), false)->whole;
    if (outcome->result != RESP_DONE) {
        fail_msg("%s: %d %s", text, (int)outcome->result, outcome->error);
    }
    assert_int_equal(outcome->used, strlen(text));
    assert_int_equal(outcome->args_length, strlen(args));
    assert_memory_equal(outcome->args, args, outcome->args_length);
}

static void assert_bad_bytes(struct bytes text, bool is_stranger, const char *error)
{
    const struct outcome *outcome = &run(text, is_stranger)->whole;
    if (outcome->result != RESP_BAD || strcmp(outcome->error, error) != 0) {
        fail_msg("%.*s: %d '%s' instead of '%s'", (int)(text.length < 99 ? text.length : 99),
                 text.at, (int)outcome->result, outcome->error, error);
    }
}

static void assert_bad(const char *text, const char *error)
{
    assert_bad_bytes(literal(text), false, error);
}

static void assert_more(const char *text)
{
    assert_int_equal(run(literal(text), false)->whole.result, RESP_MORE);
}

/* A command of `count` arguments of `length` bytes each; free it. */
static struct bytes build(size_t count, size_t length)
{
    size_t size = 32 + count * (length + 32);
    char *text = malloc(size);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, size, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        at += (size_t)snprintf(text + at, size - at, "$%zu\r\n", length);
        memset(text + at, 'a', length);
        at += length;
        memcpy(text + at, "\r\n", 2);
        at += 2;
    }
    return (struct bytes){text, at};
}

static void free_bytes(struct bytes text)
{
    free((char *)(uintptr_t)text.at);
}

/* ---- Arrays ---- */

static void test_reads_an_array_of_bulk_strings(void **state)
{
    (void)state;
    assert_command("*1\r\n$4\r\nPING\r\n", "PING|");
    assert_command("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "ECHO||");
    assert_command(
        "*5\r\n$11\r\nCL.THROTTLE\r\n$5\r\nalice\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
        "CL.THROTTLE|alice|15|30|60|");
    assert_command("*2\r\n$4\r\nECHO\r\n$7\r\na\r\nb\r\nc\r\n", "ECHO|a\r\nb\r\nc|");
}

static void test_reads_bulk_strings_of_every_length_of_header(void **state)
{
    (void)state;
    static const size_t LENGTHS[] = {0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10000, 65535, 65536};
    for (size_t i = 0; i < sizeof LENGTHS / sizeof LENGTHS[0]; i++) {
        struct bytes text = build(2, LENGTHS[i]);
        const struct outcome *outcome = &run(text, false)->whole;
        assert_int_equal(outcome->result, RESP_DONE);
        assert_int_equal(outcome->used, text.length);
        assert_int_equal(outcome->args_length, 2 * (LENGTHS[i] + 1));
        free_bytes(text);
    }
}

static void test_leaves_the_next_command(void **state)
{
    (void)state;
    const struct outcome *outcome =
        &run(literal("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI"), false)->whole;
    assert_int_equal(outcome->result, RESP_DONE);
    assert_int_equal(outcome->used, 14);
}

static void test_asks_nothing_of_an_empty_array(void **state)
{
    (void)state;
    assert_command("*0\r\n", "");
    assert_command("*-1\r\n", ""); // as Redis: skipped
}

static void test_waits_for_every_byte(void **state)
{
    (void)state;
    static const char TEXT[] = "*2\r\n$4\r\nECHO\r\n$12\r\nabcdefghijkl\r\n";
    for (size_t length = 1; length < sizeof TEXT - 1; length++) {
        char part[sizeof TEXT];
        memcpy(part, TEXT, length);
        part[length] = '\0';
        assert_more(part);
    }
}

static void test_refuses_counts(void **state)
{
    (void)state;
    static const char ERROR[] = "Protocol error: invalid multibulk length";
    assert_bad("*1025\r\n", ERROR);
    assert_bad("*99999999999999999999\r\n", ERROR);
    assert_bad("*\r\n", ERROR);
    assert_bad("*-\r\n", ERROR);
    assert_bad("*+1\r\n", ERROR);
    assert_bad("* 1\r\n", ERROR);
    assert_bad("*1 \r\n", ERROR);
    assert_bad("*01\r\n", ERROR);
    assert_bad("*00\r\n", ERROR);
    assert_bad("*x\r\n", ERROR);
    assert_bad("*1\n$4\nPING\n", ERROR);
    assert_bad("*1\r$4\r\nPING\r\n", ERROR);
}

static void test_refuses_lengths(void **state)
{
    (void)state;
    static const char ERROR[] = "Protocol error: invalid bulk length";
    assert_bad("*1\r\n$65537\r\n", ERROR);
    assert_bad("*1\r\n$-1\r\n", ERROR);
    assert_bad("*1\r\n$\r\n", ERROR);
    assert_bad("*1\r\n$+4\r\nPING\r\n", ERROR);
    assert_bad("*1\r\n$ 4\r\nPING\r\n", ERROR);
    assert_bad("*1\r\n$04\r\nPING\r\n", ERROR);
    assert_bad("*1\r\n$4\nPING\n", ERROR);
    assert_bad("*1\r\n$99999999999999999999\r\n", ERROR);
}

static void test_refuses_what_is_no_bulk_string(void **state)
{
    (void)state;
    assert_bad("*1\r\n:4\r\n", "Protocol error: expected '$', got ':'");
    assert_bad("*1\r\n*1\r\n", "Protocol error: expected '$', got '*'");
    assert_bad("*1\r\n\r\n", "Protocol error: expected '$', got '?'");
    assert_bad("*1\r\n\x01\r\n", "Protocol error: expected '$', got '?'");
}

static void test_refuses_a_bulk_string_that_goes_on(void **state)
{
    (void)state;
    static const char ERROR[] = "Protocol error: expected CRLF after the bulk string";
    assert_bad("*1\r\n$4\r\nPINGS\r\n", ERROR);
    assert_bad("*1\r\n$4\r\nPING\r\r", ERROR);
    assert_bad("*1\r\n$4\r\nPING\n\n", ERROR);
}

static void test_bounds_arguments(void **state)
{
    (void)state;
    struct bytes most = build(RESP_ARG_COUNT_MAX, 1);
    assert_int_equal(run(most, false)->whole.arg_count, RESP_ARG_COUNT_MAX);
    free_bytes(most);
}

static void test_bounds_a_whole_command(void **state)
{
    (void)state;
    struct bytes text = build(4, RESP_BULK_BYTES_MAX);
    const struct outcome *outcome = &run((struct bytes){text.at, 1000}, false)->whole;
    assert_int_equal(outcome->result, RESP_MORE); // what it will be is not known yet
    outcome = &run((struct bytes){text.at, 140000}, false)->whole;
    assert_int_equal(outcome->result, RESP_BAD);
    assert_string_equal(outcome->error, "Protocol error: the command is longer than 196608 bytes");
    free_bytes(text);
}

static void test_bounds_strangers(void **state)
{
    (void)state;
    struct bytes text = build(RESP_STRANGER_ARG_COUNT_MAX, 1);
    assert_int_equal(run(text, true)->whole.result, RESP_DONE);
    free_bytes(text);
    text = build(1, RESP_STRANGER_BULK_BYTES_MAX);
    assert_int_equal(run(text, true)->whole.result, RESP_DONE);
    free_bytes(text);
    assert_bad_bytes(literal("*11\r\n"), true, "Protocol error: unauthenticated multibulk length");
    assert_bad_bytes(literal("*1\r\n$1025\r\n"), true,
                     "Protocol error: unauthenticated bulk length");
    text = build(5, RESP_STRANGER_BULK_BYTES_MAX);
    assert_bad_bytes(text, true, "Protocol error: more than 4096 bytes before the password");
    assert_int_equal(run(text, false)->whole.result, RESP_DONE);
    free_bytes(text);
    char line[RESP_STRANGER_BYTES_MAX];
    memset(line, 'a', sizeof line);
    assert_bad_bytes((struct bytes){line, sizeof line}, true,
                     "Protocol error: more than 4096 bytes before the password");
    line[sizeof line - 1] = '\n';
    assert_int_equal(run((struct bytes){line, sizeof line}, true)->whole.result, RESP_DONE);
}

/* ---- Lines ---- */

static void test_reads_a_line(void **state)
{
    (void)state;
    assert_command("PING\r\n", "PING|");
    assert_command("PING\n", "PING|");
    assert_command("  ECHO \t hello  \r\n", "ECHO|hello|");
    assert_command("\r\n", "");
    assert_command("   \n", "");
    assert_command("WEIR.TAKE alice \"10/s capacity=5\"\r\n", "WEIR.TAKE|alice|10/s capacity=5|");
}

static void test_reads_quotes(void **state)
{
    (void)state;
    assert_command("ECHO \"a b\"\n", "ECHO|a b|");
    assert_command("ECHO 'a b'\n", "ECHO|a b|");
    assert_command("ECHO \"\"\n", "ECHO||");
    assert_command("ECHO ''\n", "ECHO||");
    assert_command("ECHO \"\\x41\\n\\r\\t\\b\\a\\\"\\\\\\q\"\n", "ECHO|A\n\r\t\b\a\"\\q|");
    assert_command("ECHO \"\\x4\\xzz\"\n", "ECHO|x4xzz|");
    assert_command("ECHO 'a\\'b\\n'\n", "ECHO|a'b\\n|");
    assert_command("ECHO a\"b c\"\n", "ECHO|ab c|");
}

static void test_refuses_quotes_that_do_not_balance(void **state)
{
    (void)state;
    static const char ERROR[] = "Protocol error: unbalanced quotes in request";
    assert_bad("ECHO \"a\n", ERROR);
    assert_bad("ECHO 'a\n", ERROR);
    assert_bad("ECHO \"a\"b\n", ERROR);
    assert_bad("ECHO 'a'b\n", ERROR);
    assert_bad("ECHO \"a\\\"\n", ERROR);
}

static void test_bounds_a_line(void **state)
{
    (void)state;
    static char text[RESP_INLINE_BYTES_MAX + 2];
    memset(text, 'a', sizeof text);
    assert_bad_bytes((struct bytes){text, sizeof text}, false,
                     "Protocol error: too big inline request");
    text[RESP_INLINE_BYTES_MAX - 1] = '\n';
    const struct outcome *outcome = &run((struct bytes){text, RESP_INLINE_BYTES_MAX}, false)->whole;
    assert_int_equal(outcome->result, RESP_DONE);
    assert_int_equal(outcome->args_length, RESP_INLINE_BYTES_MAX);
}

static void test_bounds_the_words_of_a_line(void **state)
{
    (void)state;
    char text[2 * (RESP_ARG_COUNT_MAX + 1) + 1];
    for (size_t i = 0; i <= RESP_ARG_COUNT_MAX; i++) {
        memcpy(text + 2 * i, "a ", 2);
    }
    text[2 * RESP_ARG_COUNT_MAX - 1] = '\n';
    struct bytes most = {text, (size_t)2 * RESP_ARG_COUNT_MAX};
    assert_int_equal(run(most, false)->whole.arg_count, RESP_ARG_COUNT_MAX);
    text[2 * RESP_ARG_COUNT_MAX - 1] = ' ';
    text[2 * RESP_ARG_COUNT_MAX + 1] = '\n';
    assert_bad_bytes((struct bytes){text, sizeof text - 1}, false,
                     "Protocol error: invalid multibulk length");
    assert_bad_bytes(literal("a a a a a a a a a a a\n"), true,
                     "Protocol error: unauthenticated multibulk length");
}

/* ---- Cost ---- */

/* How often the parser looks at a command that comes a byte at a time: far less than once a byte. */
static void test_does_not_look_at_every_byte_again(void **state)
{
    (void)state;
    struct bytes text = build(2, 60000);
    assert_true(run(text, false)->parse_count_max < 20);
    free_bytes(text);
    text = build(RESP_ARG_COUNT_MAX, 1);
    assert_true(run(text, false)->parse_count_max < 100);
    free_bytes(text);
    text = build(RESP_ARG_COUNT_MAX, 150);
    assert_true(run(text, false)->parse_count_max < 2000);
    free_bytes(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_an_array_of_bulk_strings),
        cmocka_unit_test(test_reads_bulk_strings_of_every_length_of_header),
        cmocka_unit_test(test_leaves_the_next_command),
        cmocka_unit_test(test_asks_nothing_of_an_empty_array),
        cmocka_unit_test(test_waits_for_every_byte),
        cmocka_unit_test(test_refuses_counts),
        cmocka_unit_test(test_refuses_lengths),
        cmocka_unit_test(test_refuses_what_is_no_bulk_string),
        cmocka_unit_test(test_refuses_a_bulk_string_that_goes_on),
        cmocka_unit_test(test_bounds_arguments),
        cmocka_unit_test(test_bounds_a_whole_command),
        cmocka_unit_test(test_bounds_strangers),
        cmocka_unit_test(test_reads_a_line),
        cmocka_unit_test(test_reads_quotes),
        cmocka_unit_test(test_refuses_quotes_that_do_not_balance),
        cmocka_unit_test(test_bounds_a_line),
        cmocka_unit_test(test_bounds_the_words_of_a_line),
        cmocka_unit_test(test_does_not_look_at_every_byte_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
