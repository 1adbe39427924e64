/* SPDX-License-Identifier: MIT
 *
 * Questions in JSON, and strings on the way out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/parser_cases.h"
#include "protocol/json/json_request.h"
#include "protocol/json/json_text.h"

static char room[PARSER_CASE_BYTES_MAX];
static char error[JSON_ERROR_TEXT_MAX];

/* Reads from memory that ends where nobody may look. */
static enum json_result read_form(struct json_question *question, enum json_form form,
                                  const char *body, size_t length)
{
    char *copy = parser_case_memory() + PARSER_CASE_BYTES_MAX - length;
    size_t used;
    memcpy(copy, body, length);
    error[0] = '\0';
    return json_question_read(question, form, (struct bytes){copy, length}, room, &used, error);
}

static enum json_result read_bytes(struct json_question *question, const char *body, size_t length)
{
    return read_form(question, JSON_ONE_KEY, body, length);
}

static enum json_result read_text(struct json_question *question, const char *body)
{
    return read_bytes(question, body, strlen(body));
}

static void assert_good(const char *body, const char *key, const char *limit, uint64_t cost_micro)
{
    struct json_question question;
    if (read_text(&question, body) != JSON_OK) {
        fail_msg("%s: %s", body, error);
    }
    assert_int_equal(question.pairs[0].key.length, strlen(key));
    assert_memory_equal(question.pairs[0].key.at, key, strlen(key));
    assert_int_equal(question.pairs[0].limit.length, strlen(limit));
    assert_memory_equal(question.pairs[0].limit.at, limit, strlen(limit));
    assert_int_equal(question.cost_micro, cost_micro);
}

static void assert_bad(const char *body, const char *expected)
{
    struct json_question question;
    assert_int_equal(read_text(&question, body), JSON_BAD);
    if (strstr(error, expected) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error, expected);
    }
}

#define K "\"key\":\"a\",\"limit\":\"10/s\""

static void test_reads_a_question(void **state)
{
    (void)state;
    assert_good("{\"key\":\"login:alice\",\"limit\":\"10/s\"}", "login:alice", "10/s", WEIR_UNIT);
    assert_good(" {\r\n\t\"cost\" : 3 , \"limit\":\"1/min capacity=5\", \"key\":\"\\u00e4\\\"\"}\n",
                "\xc3\xa4\"", "1/min capacity=5", 3 * WEIR_UNIT);
}

static void test_reads_costs(void **state)
{
    (void)state;
    static const struct {
        const char *cost;
        uint64_t micro;
    } cases[] = {
        {"0", 0},
        {"0.0", 0},
        {"5.1e-7", 1},
        {"1", 1000000},
        {"1000000000000", 1000000000000000000},
        {"\"0.25\"", 250000},
        {"\"0.000001\"", 1},
        {"0.1", 100000},
        {"0.3", 300000},
        {"1.0000005", 1000001}, // the double is a little above: up
        {"2.9999996", 3000000},
        {"1e3", 1000000000},
        {"1.5E-6", 2}, // the double is a little above one and a half
        {"999999999999.999999", 999999999999999999 + 1}, // the nearest double is 10^12
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[128];
        (void)snprintf(body, sizeof body, "{" K ",\"cost\":%s}", cases[i].cost);
        struct json_question question;
        if (read_text(&question, body) != JSON_OK) {
            fail_msg("%s: %s", body, error);
        }
        if (question.cost_micro != cases[i].micro) {
            fail_msg("%s: %llu", body, (unsigned long long)question.cost_micro);
        }
    }
}

static void test_refuses_bad_costs(void **state)
{
    (void)state;
    assert_bad("{" K ",\"cost\":-1}", "\"cost\", byte 0: ");
    assert_bad("{" K ",\"cost\":-0.5}", "\"cost\", byte 0: ");
    assert_bad("{" K ",\"cost\":1000000000001}", "\"cost\", byte 0: ");
    assert_bad("{" K ",\"cost\":1e300}", "\"cost\", byte 0: ");
    assert_bad("{" K ",\"cost\":1e400}", "line 1, column 38: ");
    assert_bad("{" K ",\"cost\":9223372036854775808}", "too big integer");
    assert_bad("{" K ",\"cost\":1e-9}", "\"cost\" is above 0 and nearer");
    assert_bad("{" K ",\"cost\":4.9e-7}", "\"cost\" is above 0 and nearer");
    assert_bad("{" K ",\"cost\":\"1.0000001\"}", "more than six places");
    assert_bad("{" K ",\"cost\":\"\"}", "\"cost\", byte 0: ");
    assert_bad("{" K ",\"cost\":\" 1\"}", "\"cost\", byte 0: ");
    assert_bad("{" K ",\"cost\":\"1\\u0000\"}", "\"cost\", byte 1: ");
    assert_bad("{" K ",\"cost\":true}", "not a boolean");
    assert_bad("{" K ",\"cost\":null}", "not null");
    assert_bad("{" K ",\"cost\":[1]}", "not an array");
}

static void test_refuses_what_is_no_question(void **state)
{
    (void)state;
    assert_bad("", "the body is empty");
    assert_bad("[]", "must be an object, not an array");
    assert_bad("\"a\"", "must be an object, not a string");
    assert_bad("null", "must be an object, not null");
    assert_bad("{}", "\"limit\" is missing");
    assert_bad("{\"key\":\"a\"}", "\"limit\" is missing");
    assert_bad("{\"key\":\"\",\"limit\":\"10/s\"}", "\"key\" has 0 bytes");
    assert_bad("{\"key\":\"a\",\"limit\":\"\"}", "\"limit\" has 0 bytes");
    assert_bad("{\"key\":7,\"limit\":\"10/s\"}", "\"key\" must be a string, not a number");
    assert_bad("{" K ",\"costs\":1}", "unknown field \"costs\"");
    assert_bad("{" K ",\"key\":\"b\"}", "line 1, column ");
    assert_bad("{" K "} x", "line 1, column ");
    assert_bad("{\n\"key\": \"a\",\n  oops}", "line 3, column 6: ");
    assert_bad("{\"key\":\"\xff\",\"limit\":\"10/s\"}", "line 1, column ");
    assert_bad("{\"key\":\"\xed\xa0\x80\",\"limit\":\"10/s\"}", "line 1, column ");
    assert_bad("{\"key\":\"\\ud800\",\"limit\":\"10/s\"}", "line 1, column ");
    assert_bad("{\"key\":\"a", "line 1, column ");
    assert_bad("{'key':'a'}", "line 1, column ");
}

static void test_an_array_of_limits_is_a_list(void **state)
{
    (void)state;
    assert_good("{\"key\":\"a\",\"limit\":[\"10/s\",\"100/min\"]}", "a", "10/s, 100/min",
                WEIR_UNIT);
    assert_good("{\"key\":\"a\",\"limit\":\"10/s,100/min\"}", "a", "10/s,100/min", WEIR_UNIT);
    assert_good("{\"limit\":[\"10/s\"],\"key\":\"a\"}", "a", "10/s", WEIR_UNIT);
    assert_bad("{\"key\":\"a\",\"limit\":[]}", "\"limit\" has 0 limits: it must have 1 to 16");
    assert_bad("{\"key\":\"a\",\"limit\":[\"10/s\",7]}",
               "\"limit[1]\" must be a string, not a number");
    assert_bad("{\"key\":\"a\",\"limit\":[\"10/s\",\"\"]}", "\"limit[1]\" has 0 bytes");
    assert_bad("{\"key\":\"a\",\"limit\":[[\"10/s\"]]}",
               "\"limit[0]\" must be a string, not an array");
    assert_bad("{\"key\":\"a\",\"limit\":{\"b\":\"10/s\"}}",
               "\"limit\" must be a string, not an object");
}

static void read_all(struct json_question *question, const char *body, enum json_result expected)
{
    enum json_result result = read_form(question, JSON_SEVERAL_KEYS, body, strlen(body));
    if (result != expected) {
        fail_msg("%s: %s", body, error);
    }
}

static void assert_pair(const struct json_pair *pair, const char *key, const char *limit)
{
    assert_int_equal(pair->key.length, strlen(key));
    assert_memory_equal(pair->key.at, key, strlen(key));
    assert_int_equal(pair->limit.length, strlen(limit));
    assert_memory_equal(pair->limit.at, limit, strlen(limit));
}

static void test_reads_several_keys_each_with_its_limit(void **state)
{
    (void)state;
    struct json_question question;
    read_all(&question,
             "{\"cost\":2,\"limits\":[{\"key\":\"user:\\u00e4\",\"limit\":\"10/s\"},"
             "{\"limit\":[\"5/s\",\"9/min\"],\"key\":\"all\"}],\"wait_ms\":7}",
             JSON_OK);
    assert_int_equal(question.pair_count, 2);
    assert_pair(&question.pairs[0], "user:\xc3\xa4", "10/s");
    assert_pair(&question.pairs[1], "all", "5/s, 9/min");
    assert_int_equal(question.cost_micro, 2 * WEIR_UNIT);
    assert_int_equal(question.wait_ns, 7000000);
}

static void test_says_which_of_several_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *body, *expected;
    } CASES[] = {
        {"", "send {\"limits\": [{\"key\": ..., \"limit\": ...}]}"},
        {"{}", "\"limits\" is missing"},
        {"{" K "}", "unknown field \"key\": there are limits, cost, wait_ms and vars"},
        {"{\"limits\":{}}", "\"limits\" must be an array, not an object"},
        {"{\"limits\":[]}", "\"limits\" has 0 members: it must have 1 to 16"},
        {"{\"limits\":[{" K "},[]]}", "limits[1]: it must be an object, not an array"},
        {"{\"limits\":[{" K "},{}]}", "limits[1]: \"limit\" is missing"},
        {"{\"limits\":[{" K "},{\"key\":\"a\"}]}", "limits[1]: \"limit\" is missing"},
        {"{\"limits\":[{" K ",\"cost\":1}]}",
         "limits[0]: unknown field \"cost\": there are key and limit"},
        {"{\"limits\":[{\"key\":\"\",\"limit\":\"1/s\"}]}", "limits[0]: \"key\" has 0 bytes"},
        {"{\"limits\":[{" K "}],\"cost\":-1}", "\"cost\", byte 0: "},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct json_question question;
        read_all(&question, CASES[i].body, JSON_BAD);
        if (strstr(error, CASES[i].expected) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", error, CASES[i].expected);
        }
    }
}

static void test_reads_sixteen_of_several_and_not_seventeen(void **state)
{
    (void)state;
    char body[1024] = "{\"limits\":[";
    struct json_question question;
    for (int count = 1; count <= 17; count++) {
        strcat(body, count > 1 ? ",{" K "}" : "{" K "}");
        size_t length = strlen(body);
        strcat(body, "]}");
        read_all(&question, body, count <= 16 ? JSON_OK : JSON_BAD);
        assert_int_equal(question.pair_count, count <= 16 ? count : 0);
        body[length] = '\0';
    }
    assert_string_equal(error, "\"limits\" has 17 members: it must have 1 to 16");
}

/* Whether one is needed depends on what the limit is. */
static void test_a_key_may_be_missing(void **state)
{
    (void)state;
    struct json_question question;
    assert_int_equal(read_text(&question, "{\"limit\":\"request\"}"), JSON_OK);
    assert_int_equal(question.pairs[0].key.length, 0);
    assert_int_equal(question.pair_count, 1);
}

static void test_keys_may_hold_nul(void **state)
{
    (void)state;
    struct json_question question;
    assert_int_equal(read_text(&question, "{\"key\":\"a\\u0000b\",\"limit\":\"1/s\"}"), JSON_OK);
    assert_int_equal(question.pairs[0].key.length, 3);
    assert_memory_equal(question.pairs[0].key.at, "a\0b", 3);
    static const char raw[] = "{\"key\":\"a\0b\",\"limit\":\"1/s\"}";
    assert_int_equal(read_bytes(&question, raw, sizeof raw - 1), JSON_BAD);
}

static void test_keys_have_a_limit(void **state)
{
    (void)state;
    struct json_question question;
    size_t size = WEIR_KEY_BYTES_MAX + 64;
    char *body = malloc(size);
    assert_non_null(body);
    for (size_t extra = 0; extra < 2; extra++) {
        size_t length = (size_t)snprintf(body, size, "{\"limit\":\"1/s\",\"key\":\"");
        memset(body + length, 'k', WEIR_KEY_BYTES_MAX + extra);
        length += WEIR_KEY_BYTES_MAX + extra;
        memcpy(body + length, "\"}", 2);
        assert_int_equal(read_bytes(&question, body, length + 2), extra == 0 ? JSON_OK : JSON_BAD);
    }
    assert_string_equal(error, "\"key\" has 65536 bytes: it must have 1 to 65535");
    free(body);
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    static char body[60000];
    memset(body, '[', sizeof body - 1);
    assert_bad(body, "maximum parsing depth reached");
}

static void assert_escaped(const char *text, size_t length, const char *expected)
{
    char out[256];
    char *end = json_put_escaped(out, (struct bytes){text, length});
    assert_int_equal(end - out, strlen(expected));
    assert_memory_equal(out, expected, strlen(expected));
}

static void test_escapes_strings(void **state)
{
    (void)state;
    assert_escaped("plain /", 7, "plain /");
    assert_escaped("a\"b\\c\n\t\0\x1f\x7f", 10, "a\\\"b\\\\c\\u000a\\u0009\\u0000\\u001f\\u007f");
    assert_escaped("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", 11,
                   "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
#define BAD "\xef\xbf\xbd"
    assert_escaped("\xff", 1, BAD);
    assert_escaped("a\xc3", 2, "a" BAD);                    // cut short
    assert_escaped("\x80z", 2, BAD "z");                    // a tail without a lead
    assert_escaped("\xc0\xaf", 2, BAD BAD);                 // longer than it needs to be
    assert_escaped("\xe0\x80\xaf", 3, BAD BAD BAD);         // likewise
    assert_escaped("\xf0\x80\x80\xaf", 4, BAD BAD BAD BAD); // likewise
    assert_escaped("\xed\xa0\x80", 3, BAD BAD BAD);         // a surrogate
    assert_escaped("\xf4\x90\x80\x80", 4, BAD BAD BAD BAD); // beyond U+10FFFF
    assert_escaped("\xf5\x80\x80\x80", 4, BAD BAD BAD BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_a_question),
        cmocka_unit_test(test_reads_costs),
        cmocka_unit_test(test_refuses_bad_costs),
        cmocka_unit_test(test_refuses_what_is_no_question),
        cmocka_unit_test(test_a_key_may_be_missing),
        cmocka_unit_test(test_keys_may_hold_nul),
        cmocka_unit_test(test_keys_have_a_limit),
        cmocka_unit_test(test_an_array_of_limits_is_a_list),
        cmocka_unit_test(test_reads_several_keys_each_with_its_limit),
        cmocka_unit_test(test_says_which_of_several_is_wrong),
        cmocka_unit_test(test_reads_sixteen_of_several_and_not_seventeen),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_escapes_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
