/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/simulate/arrival.h"
#include "weir/limit.h"

static struct bytes line_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

/* A reader that has seen this first line. */
static struct arrival_reader begun(const char *first, const char *key, enum arrival_begin expected)
{
    struct arrival_reader reader = {.key = key, .unit_power = 9};
    const char *why;
    assert_int_equal(arrival_begin(&reader, line_of(first), &why), expected);
    assert_true((why != NULL) == (expected == BEGIN_NEVER || expected == BEGIN_UNKNOWN));
    return reader;
}

static void reads(const struct arrival_reader *reader, const char *line, uint64_t at_ns,
                  const char *key, uint64_t cost_micro)
{
    struct arrival arrival;
    assert_null(arrival_read(reader, line_of(line), &arrival));
    assert_true(arrival.at_ns == at_ns);
    assert_int_equal(arrival.key.length, strlen(key));
    assert_memory_equal(arrival.key.at, key, strlen(key));
    assert_int_equal(arrival.cost_micro, cost_micro);
}

static void refuses(const struct arrival_reader *reader, const char *line, const char *why)
{
    struct arrival arrival;
    const char *said = arrival_read(reader, line_of(line), &arrival);
    assert_non_null(said);
    if (strstr(said, why) == NULL) {
        print_message("'%s': said '%s', not '%s'\n", line, said, why);
    }
    assert_non_null(strstr(said, why));
}

static void csv_is_a_time_a_key_and_a_cost(void **state)
{
    (void)state;
    struct arrival_reader reader = begun("1.5,alice,2", NULL, BEGIN_ARRIVAL);
    assert_int_equal(reader.format, FORMAT_CSV);
    reads(&reader, "1.5", 1500000000, "", WEIR_UNIT);
    reads(&reader, "1.5,alice", 1500000000, "alice", WEIR_UNIT);
    reads(&reader, " 1.5 ,\talice , 0.25", 1500000000, "alice", WEIR_UNIT / 4);
    reads(&reader, "1.5,alice,,more,columns", 1500000000, "alice", WEIR_UNIT);
    reads(&reader, "2ms,,1000000000000", 2000000, "", WEIR_MICRO_MAX);
    reads(&reader, "\"2ms\",\"a,\"\"b\"\"\",\"3\"", 2000000, "a,\"\"b\"\"", 3 * WEIR_UNIT);
    reads(&reader, "\"1\" , \"\" , 2", 1000000000, "", 2 * WEIR_UNIT);
    refuses(&reader, "later,alice", "expected a time");
    refuses(&reader, ",alice", "expected a time");
    refuses(&reader, "1,\"alice", "a quote is not closed");
    refuses(&reader, "1,\"alice\"x", "expected a comma");
    refuses(&reader, "1,a,-1", "no decimal number");
    refuses(&reader, "1,a,1000000000001", "above 1000000000000");
    refuses(&reader, "1,a,0.0000001", "six places");
}

static void a_header_names_the_columns(void **state)
{
    (void)state;
    struct arrival_reader reader = begun("cost,user,\"time\",key", NULL, BEGIN_HEADER);
    reads(&reader, "2,bob,7,k", 7000000000, "k", 2 * WEIR_UNIT);
    refuses(&reader, "2,bob", "ends before its time");
    reader = begun("cost,user,time,key", "user", BEGIN_HEADER);
    reads(&reader, "2,bob,7,k", 7000000000, "bob", 2 * WEIR_UNIT);
    reader = begun("time,user", "none", BEGIN_HEADER);
    reads(&reader, "7,bob", 7000000000, "", WEIR_UNIT);
    reader = begun("time,user", NULL, BEGIN_HEADER); // no column is called key
    reads(&reader, "7,bob", 7000000000, "", WEIR_UNIT);
    reader = begun("time,user", "time", BEGIN_HEADER);
    reads(&reader, "7,bob", 7000000000, "7", WEIR_UNIT);
    (void)begun("time,user", "address", BEGIN_NEVER);
    (void)begun("1,2", "user", BEGIN_NEVER);
}

static void blank_lines_and_comments_are_no_arrivals(void **state)
{
    (void)state;
    assert_true(arrival_is_blank(line_of("")));
    assert_true(arrival_is_blank(line_of(" \t")));
    assert_true(arrival_is_blank(line_of("  # when, who")));
    assert_false(arrival_is_blank(line_of("1")));
}

static void the_first_line_tells_the_format(void **state)
{
    (void)state;
    (void)begun("what is this", NULL, BEGIN_UNKNOWN);
    (void)begun("when,who", NULL, BEGIN_UNKNOWN);
    (void)begun("{\"time\": 1}", NULL, BEGIN_UNKNOWN);
    assert_int_equal(begun("2026-11-21T10:24:48Z,bob", NULL, BEGIN_ARRIVAL).format, FORMAT_CSV);
    struct arrival_reader asked = {.format = FORMAT_CSV};
    const char *why;
    assert_int_equal(arrival_begin(&asked, line_of("when,who"), &why), BEGIN_NEVER);
    assert_string_equal(why, "the header names no column 'time'");
}

#define COMMON   "203.0.113.7 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a/b?c=1 HTTP/1.0\" 200 23"
#define COMBINED COMMON " \"http://example.com/\" \"Mozilla \\\"quoted\\\" \\\\\""
#define AT       UINT64_C(971211336000000000)

static void access_logs_have_fields_for_keys(void **state)
{
    (void)state;
    static const struct {
        const char *field, *key;
    } CASES[] = {
        {"address", "203.0.113.7"},
        {"user", "frank"},
        {"method", "GET"},
        {"path", "/a/b"},
        {"status", "200"},
        {"referer", "http://example.com/"},
        {"none", ""},
        {"agent", "Mozilla \\\"quoted\\\" \\\\"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct arrival_reader reader = begun(COMBINED, CASES[i].field, BEGIN_ARRIVAL);
        assert_int_equal(reader.format, FORMAT_COMBINED);
        reads(&reader, COMBINED, AT, CASES[i].key, WEIR_UNIT);
        reads(&reader, COMBINED " 0.123 more", AT, CASES[i].key, WEIR_UNIT);
        refuses(&reader, COMMON, "not the combined format");
    }
    struct arrival_reader reader = begun(COMMON, NULL, BEGIN_ARRIVAL);
    assert_int_equal(reader.format, FORMAT_COMMON);
    reads(&reader, COMMON, AT, "203.0.113.7", WEIR_UNIT);
    reads(&reader, COMBINED, AT, "203.0.113.7", WEIR_UNIT);
    (void)begun(COMMON, "agent", BEGIN_NEVER);
    (void)begun(COMMON, "colour", BEGIN_NEVER);
}

static void odd_lines_of_a_log_are_told(void **state)
{
    (void)state;
    struct arrival_reader reader = begun(COMMON, "path", BEGIN_ARRIVAL);
    static const char *const BAD[] = {
        "",
        "203.0.113.7",
        "203.0.113.7 - - [10/Oct/2000:13:55:36 -0700",
        "203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] GET / 200 23",
        "203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] \"GET /",
        "203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / \\\" 200 23",
        "203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" ok 23",
        "203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 23x",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        refuses(&reader, BAD[i], "expected address ident user");
    }
    refuses(&reader, "1 - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03\" 400 -",
            "no method and path");
    refuses(&reader, "1 - - [10/Oct/2000:13:55:36 -0700] \"GET \" 400 -", "no method and path");
    refuses(&reader, "1 - - [10/Oct/2000:25:55:36 -0700] \"GET / HTTP/1.0\" 400 -", "no such date");
    reader = begun(COMMON, NULL, BEGIN_ARRIVAL);
    reads(&reader, "::1 - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03\" 400 -", AT, "::1",
          WEIR_UNIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_is_a_time_a_key_and_a_cost),
        cmocka_unit_test(a_header_names_the_columns),
        cmocka_unit_test(blank_lines_and_comments_are_no_arrivals),
        cmocka_unit_test(the_first_line_tells_the_format),
        cmocka_unit_test(access_logs_have_fields_for_keys),
        cmocka_unit_test(odd_lines_of_a_log_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
