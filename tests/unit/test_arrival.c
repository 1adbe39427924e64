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

static void doubled_quotes_of_a_key_are_one(void **state)
{
    (void)state;
    struct arrival_reader reader = begun("1", NULL, BEGIN_ARRIVAL);
    static const char *const CASES[][2] = {
        {"1,\"x\"\"y\"", "x\"y"},
        {"1,\"\"\"\"", "\""},
        {"1,\"\"\"\"\"\",2", "\"\""},
        {"1,\"a,\"\"b\"\"\"", "a,\"b\""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char line[32];
        struct arrival arrival;
        (void)strcpy(line, CASES[i][0]);
        assert_null(arrival_read(&reader, line_of(line), &arrival));
        assert_true(arrival.key_is_doubled);
        arrival_undouble(&arrival, line + (arrival.key.at - line)); // where it is
        assert_int_equal(arrival.key.length, strlen(CASES[i][1]));
        assert_memory_equal(arrival.key.at, CASES[i][1], arrival.key.length);
    }
    struct arrival arrival;
    assert_null(arrival_read(&reader, line_of("1,\"plain\",\"0\""), &arrival));
    assert_false(arrival.key_is_doubled);
    assert_null(arrival_read(&reader, line_of("1,x\"\"y"), &arrival)); // not in quotes
    assert_false(arrival.key_is_doubled);
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
    reader = begun("COST,Key,\"Time\"", NULL, BEGIN_HEADER); // however it is written
    reads(&reader, "2,bob,7", 7000000000, "bob", 2 * WEIR_UNIT);
    assert_false(arrival_wants_key(&reader));
    reader = begun("Time,User", "user", BEGIN_HEADER);
    reads(&reader, "7,bob", 7000000000, "bob", WEIR_UNIT);
    assert_false(arrival_wants_key(&reader));
    (void)begun("time,user", "address", BEGIN_NEVER);
    (void)begun("time,user,User", "user", BEGIN_NEVER);
    (void)begun("1,2", "user", BEGIN_NEVER);
}

static void columns_that_could_be_the_key_are_told(void **state)
{
    (void)state;
    struct arrival_reader reader = begun("time,user,cost", NULL, BEGIN_HEADER);
    assert_true(arrival_wants_key(&reader));
    reader = begun("time,user,cost", "none", BEGIN_HEADER); // somebody said so
    assert_false(arrival_wants_key(&reader));
    reader = begun("time,cost", NULL, BEGIN_HEADER);
    assert_false(arrival_wants_key(&reader));
    reader = begun("1,a", NULL, BEGIN_ARRIVAL);
    assert_false(arrival_wants_key(&reader));
}

static void a_column_that_is_read_is_named_once(void **state)
{
    (void)state;
    (void)begun("time,time", NULL, BEGIN_NEVER);
    (void)begun("time,cost,cost", NULL, BEGIN_NEVER);
    (void)begun("time,user,user", "user", BEGIN_NEVER);
    struct arrival_reader reader =
        begun("time,user,user,key", NULL, BEGIN_HEADER); // neither is read
    reads(&reader, "7,a,b,k", 7000000000, "k", WEIR_UNIT);
}

static void a_mark_before_the_first_line_is_skipped(void **state)
{
    (void)state;
    struct bytes line = arrival_first_line(line_of("\xef\xbb\xbftime"));
    assert_int_equal(line.length, 4);
    assert_memory_equal(line.at, "time", 4);
    assert_int_equal(arrival_first_line(line_of("\xef\xbb")).length, 2);
    assert_int_equal(arrival_first_line(line_of("1.5")).length, 3);
}

/* Also on the first line, where nothing is known of the format yet. */
static void a_wrong_time_is_told_for_what_it_is(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {"1.0000000001", "the time is finer than a nanosecond"},
        {"1.0000000001,bob", "the time is finer than a nanosecond"},
        {"99999999999s", "the time is after the year 2116"},
        {"1795266000000", "the time is after the year 2116 in seconds; in milliseconds: --unit ms"},
        {"1795266000000000,bob",
         "the time is after the year 2116 in seconds; in microseconds: --unit us"},
        {"1795266000000000000.0",
         "the time is after the year 2116 in seconds; in nanoseconds: --unit ns"},
        {"9999999999999999999", "the time is after the year 2116"},
        {"2026-02-30T00:00:00Z", "there is no such date or time of day"},
        {"10.0.0.1 - -", "neither CSV that begins with a time, nor an access log"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct arrival_reader reader = {.unit_power = 9};
        const char *why;
        assert_int_equal(arrival_begin(&reader, line_of(CASES[i][0]), &why), BEGIN_UNKNOWN);
        assert_string_equal(why, CASES[i][1]);
    }
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
    (void)begun("when,who", NULL, BEGIN_NEVER); // columns, and none of them is a time
    (void)begun("\"first name\",cost", NULL, BEGIN_NEVER);
    (void)begun("Well, this is no header", NULL, BEGIN_UNKNOWN);
    (void)begun("when", NULL, BEGIN_UNKNOWN);
    (void)begun("{\"time\": 1}", NULL, BEGIN_UNKNOWN);
    assert_int_equal(begun("2026-11-21T10:24:48Z,bob", NULL, BEGIN_ARRIVAL).format, FORMAT_CSV);
    struct arrival_reader asked = {.format = FORMAT_CSV};
    const char *why;
    assert_int_equal(arrival_begin(&asked, line_of("when,who"), &why), BEGIN_NEVER);
    assert_string_equal(why,
                        "the header names no column 'time'; it needs one, as in time,key,cost");
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
        cmocka_unit_test(doubled_quotes_of_a_key_are_one),
        cmocka_unit_test(a_header_names_the_columns),
        cmocka_unit_test(columns_that_could_be_the_key_are_told),
        cmocka_unit_test(a_column_that_is_read_is_named_once),
        cmocka_unit_test(a_mark_before_the_first_line_is_skipped),
        cmocka_unit_test(a_wrong_time_is_told_for_what_it_is),
        cmocka_unit_test(blank_lines_and_comments_are_no_arrivals),
        cmocka_unit_test(the_first_line_tells_the_format),
        cmocka_unit_test(access_logs_have_fields_for_keys),
        cmocka_unit_test(odd_lines_of_a_log_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
