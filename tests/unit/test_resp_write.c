/* SPDX-License-Identifier: MIT
 *
 * The writer of RESP replies: integers of every length, and what differs between RESP2 and RESP3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "protocol/resp/resp_write.h"

static void assert_digits(uint64_t value)
{
    char expected[32];
    char text[32];
    (void)snprintf(expected, sizeof expected, "%" PRIu64, value);
    *resp_put_digits(text, value) = '\0';
    assert_string_equal(text, expected);
}

static void assert_integer(int64_t value)
{
    char expected[32];
    char text[32];
    (void)snprintf(expected, sizeof expected, ":%" PRId64 "\r\n", value);
    char *end = resp_put_integer(text, value);
    assert_true(end - text <= RESP_INTEGER_BYTES_MAX);
    *end = '\0';
    assert_string_equal(text, expected);
}

static void test_writes_integers_around_every_power(void **state)
{
    (void)state;
    uint64_t ten = 1;
    for (int i = 0; i < 20; i++, ten *= 10) {
        for (uint64_t value = ten - 2; value != ten + 3; value++) {
            assert_digits(value);
            assert_integer((int64_t)value);
            assert_integer((int64_t)(0 - value));
        }
    }
    for (int bit = 0; bit < 64; bit++) {
        assert_digits((UINT64_C(1) << bit) - 1);
        assert_digits(UINT64_C(1) << bit);
    }
    assert_digits(UINT64_MAX);
    assert_integer(INT64_MAX);
    assert_integer(INT64_MIN);
}

static void test_writes_all_small_integers(void **state)
{
    (void)state;
    for (int64_t value = -20000; value <= 20000; value++) {
        assert_integer(value);
    }
}

/* What the writers below append, as a text; good until the next one. */
static struct buffer output;

static void begin(void)
{
    buffer_fini(&output);
    buffer_init(&output, 4096);
}

static void assert_written(const char *expected)
{
    buffer_append(&output, "", 1);
    assert_false(output.failed);
    assert_string_equal(output.at, expected);
    begin();
}

static void test_writes_what_differs_between_versions(void **state)
{
    (void)state;
    begin();
    resp_write_null(&output, 2);
    assert_written("$-1\r\n");
    resp_write_null(&output, 3);
    assert_written("_\r\n");
    resp_write_map(&output, 2, 7);
    assert_written("*14\r\n");
    resp_write_map(&output, 3, 7);
    assert_written("%7\r\n");
    resp_write_verbatim(&output, 2, (struct bytes){"abc", 3});
    assert_written("$3\r\nabc\r\n");
    resp_write_verbatim(&output, 3, (struct bytes){"abc", 3});
    assert_written("=7\r\ntxt:abc\r\n");
}

static void test_writes_texts(void **state)
{
    (void)state;
    begin();
    resp_write_simple(&output, "OK");
    assert_written("+OK\r\n");
    resp_write_bulk_text(&output, "");
    assert_written("$0\r\n\r\n");
    resp_write_bulk(&output, (struct bytes){"a\r\nb", 4});
    assert_written("$4\r\na\r\nb\r\n");
    resp_write_array(&output, 0);
    assert_written("*0\r\n");
    resp_write_integer(&output, -1);
    assert_written(":-1\r\n");
}

static void test_keeps_an_error_on_its_line(void **state)
{
    (void)state;
    begin();
    resp_write_error(&output, "ERR %s", "a\r\n+OK\nb");
    assert_written("-ERR a  +OK b\r\n");
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    resp_write_error(&output, "%s", text); // longer ones are cut
    assert_int_equal(output.length, 1 + 511 + 2);
    assert_memory_equal(output.at + output.length - 3, "x\r\n", 3);
    buffer_fini(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_integers_around_every_power),
        cmocka_unit_test(test_writes_all_small_integers),
        cmocka_unit_test(test_writes_what_differs_between_versions),
        cmocka_unit_test(test_writes_texts),
        cmocka_unit_test(test_keeps_an_error_on_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
