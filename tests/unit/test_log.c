/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/log.h"
#include "server/test_clock.h"

static const uint64_t WALL_NS = UINT64_C(1795245151123000000); // 2026-11-21T07:12:31.123Z

static void assert_line_at(uint64_t wall_ns, bool json, const struct log_field *fields,
                           const char *expected)
{
    struct log log = {.json = json};
    char line[LOG_LINE_BYTES_MAX];
    size_t length = log_format(&log, line, wall_ns, LOG_WARN, "event", fields);
    assert_string_equal(line, expected);
    assert_int_equal(length, strlen(expected));
}

static void assert_line(bool json, const struct log_field *fields, const char *expected)
{
    assert_line_at(WALL_NS, json, fields, expected);
}

static void test_a_line_says_when_how_bad_what_and_details(void **state)
{
    (void)state;
    const struct log_field fields[] = {
        log_text("word", "a:1"), log_number("n", 7), {NULL, NULL, 0}};
    assert_line(false, fields, "2026-11-21T07:12:31.123Z warn event word=a:1 n=7\n");
    assert_line(true, fields,
                "{\"time\":\"2026-11-21T07:12:31.123Z\",\"level\":\"warn\",\"event\":\"event\","
                "\"word\":\"a:1\",\"n\":7}\n");
}

static void test_dates_and_numbers_of_all_lengths(void **state)
{
    (void)state;
    const struct log_field fields[] = {log_number("none", 0),
                                       log_number("most", INT64_MAX),
                                       log_number("least", UINT64_C(1) << 63),
                                       {NULL, NULL, 0}};
    static const char NUMBERS[] = " warn event none=0 most=9223372036854775807 "
                                  "least=-9223372036854775808\n";
    static const struct {
        uint64_t wall_s;
        const char *date;
    } SHOWN[] = {
        {0, "1970-01-01T00:00:00.007Z"},          {951782399, "2000-02-28T23:59:59.007Z"},
        {951782400, "2000-02-29T00:00:00.007Z"},  {951868800, "2000-03-01T00:00:00.007Z"},
        {1709251199, "2024-02-29T23:59:59.007Z"}, {1735689599, "2024-12-31T23:59:59.007Z"},
    };
    for (size_t i = 0; i < sizeof SHOWN / sizeof SHOWN[0]; i++) {
        char expected[LOG_LINE_BYTES_MAX];
        (void)snprintf(expected, sizeof expected, "%s%s", SHOWN[i].date, NUMBERS);
        assert_line_at(SHOWN[i].wall_s * 1000000000 + 7999999, false, fields, expected);
    }
}

static void test_what_could_mislead_is_quoted_and_escaped(void **state)
{
    (void)state;
    const struct log_field fields[] = {log_text("a", "two words"),
                                       log_text("b", "\"\\\n\x1b\xc3\xa9"),
                                       log_text("c", ""),
                                       log_text("d", "x=y"),
                                       {NULL, NULL, 0}};
    assert_line(false, fields,
                "2026-11-21T07:12:31.123Z warn event a=\"two words\" "
                "b=\"\\\"\\\\\\u000a\\u001b\\u00c3\\u00a9\" c=\"\" d=\"x=y\"\n");
}

static void test_a_long_line_is_cut_at_a_field(void **state)
{
    (void)state;
    char text[LOG_LINE_BYTES_MAX];
    for (size_t length = 0; length < sizeof text - 1; length++) {
        memset(text, 'x', length);
        text[length] = '\0';
        const struct log_field fields[] = {
            log_number("n", 1), log_text("long", text), log_number("m", 2), {NULL, NULL, 0}};
        struct log log = {.json = true};
        char line[LOG_LINE_BYTES_MAX];
        size_t line_len = log_format(&log, line, WALL_NS, LOG_WARN, "event", fields);
        assert_true(line_len < LOG_LINE_BYTES_MAX);
        assert_string_equal(line + line_len - 2, "}\n");
        char before = line[line_len - 3];
        assert_true(before == '1' || before == '2' || before == '"'); // the end of a value
    }
}

static void test_a_level_below_is_left_out(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    struct log log = {.fd = fds[1], .level = LOG_WARN};
    LOG(&log, LOG_INFO, "quiet", log_number("n", 1));
    char line[LOG_LINE_BYTES_MAX];
    assert_int_equal(read(fds[0], line, sizeof line), -1);
    LOG(&log, LOG_WARN, "loud", log_number("n", 1));
    assert_true(read(fds[0], line, sizeof line) > 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void test_a_full_pipe_drops_lines_instead_of_waiting(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, 0), 0); // a blocking one, as standard error is
    struct log log = {.fd = fds[1]};
    for (int i = 0; i < 10000 && log.dropped_count == 0; i++) {
        LOG(&log, LOG_INFO, "line", log_text("text", "0123456789012345678901234567890123456789"));
    }
    assert_true(log.dropped_count > 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void test_the_gate_passes_so_many_a_second_and_counts_the_rest(void **state)
{
    (void)state;
    struct log_gate gate = {0};
    uint64_t skipped = 99;
    for (int i = 0; i < LOG_GATE_PER_S; i++) {
        assert_true(log_gate_pass(&gate, 1000000000, &skipped));
        assert_int_equal(skipped, 0);
    }
    assert_false(log_gate_pass(&gate, 1000000000, &skipped));
    assert_false(log_gate_pass(&gate, 1000000000, &skipped));
    assert_true(log_gate_pass(&gate, 2000000000, &skipped));
    assert_int_equal(skipped, 2);
}

static void test_the_test_clock_stands_at_0_and_moves_forwards_only(void **state)
{
    (void)state;
    struct test_clock clock = {0};
    assert_int_equal(test_clock_now_ns(&clock), 0);
    assert_true(test_clock_set(&clock, 5));
    assert_true(test_clock_set(&clock, 5));
    assert_false(test_clock_set(&clock, 4));
    assert_int_equal(test_clock_now_ns(&clock), 5);
    assert_false(test_clock_set(&clock, WEIR_NOW_NS_MAX + 1));
    assert_true(test_clock_set(&clock, WEIR_NOW_NS_MAX));
    assert_int_equal(test_clock_now_ns(&clock), WEIR_NOW_NS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_says_when_how_bad_what_and_details),
        cmocka_unit_test(test_dates_and_numbers_of_all_lengths),
        cmocka_unit_test(test_what_could_mislead_is_quoted_and_escaped),
        cmocka_unit_test(test_a_long_line_is_cut_at_a_field),
        cmocka_unit_test(test_a_level_below_is_left_out),
        cmocka_unit_test(test_a_full_pipe_drops_lines_instead_of_waiting),
        cmocka_unit_test(test_the_gate_passes_so_many_a_second_and_counts_the_rest),
        cmocka_unit_test(test_the_test_clock_stands_at_0_and_moves_forwards_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
