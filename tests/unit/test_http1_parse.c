/* SPDX-License-Identifier: MIT
 *
 * The reader of HTTP/1.1 requests: each case whole, split at every byte, a byte at a time, and
 * ending at a guard page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "../support/parser_cases.h"
#include "protocol/http1/http1_parse.h"
#include "protocol/http1/http1_query.h"

#define ROW  "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define POST "POST /v1/take HTTP/1.1\r\nHost: a\r\n"

/* ---- Running a case ---- */

struct outcome {
    enum http1_result result;
    struct http1_request request;
    size_t used;
};

/* What came out when the text arrived as a whole, and what comes out in the way that is on. */
struct ways {
    struct outcome whole;
    struct outcome current;
};

static bool parse_arrived(void *context, struct bytes arrived)
{
    struct outcome *outcome = &((struct ways *)context)->current;
    outcome->result = http1_parse(&outcome->request, arrived, &outcome->used);
    return outcome->result != HTTP1_MORE;
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->result, b->result);
    if (a->result == HTTP1_BAD) {
        assert_int_equal(a->request.status, b->request.status);
        assert_string_equal(a->request.reason, b->request.reason);
        assert_int_equal(a->request.bad_at, b->request.bad_at);
    } else if (a->result == HTTP1_DONE) {
        assert_int_equal(a->used, b->used);
        assert_memory_equal(&a->request.body, &b->request.body, sizeof a->request.body);
        assert_memory_equal(a->request.field, b->request.field, sizeof a->request.field);
        assert_int_equal(a->request.seen, b->request.seen);
    }
}

static void finish_way(void *context, size_t way)
{
    struct ways *ways = context;
    if (way == 0) {
        ways->whole = ways->current;
    } else {
        assert_same(&ways->whole, &ways->current);
    }
    ways->current = (struct outcome){.result = HTTP1_MORE};
}

/* Split at the first `split_max` bytes; all ways give the same. Returns what. */
static struct outcome parse_ways(struct bytes text, size_t split_max)
{
    struct ways ways = {.current.result = HTTP1_MORE};
    parser_case_run(&(struct parser_case){parse_arrived, finish_way, &ways, NULL}, text, split_max);
    return ways.whole;
}

static struct outcome parse_all_ways(struct bytes text)
{
    return parse_ways(text, text.length);
}

static struct bytes literal(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static void assert_bad(struct bytes text, unsigned status)
{
    struct outcome outcome = parse_all_ways(text);
    if (outcome.result != HTTP1_BAD || outcome.request.status != status) {
        fail_msg("%d, status %u instead of %u: %.*s", (int)outcome.result, outcome.request.status,
                 status, (int)(text.length < 200 ? text.length : 200), text.at);
    }
    assert_true(outcome.request.bad_at <= text.length);
}

static struct outcome assert_good(struct bytes text)
{
    struct outcome outcome = parse_all_ways(text);
    if (outcome.result != HTTP1_DONE) {
        fail_msg("%d, status %u (%s): %s", (int)outcome.result, outcome.request.status,
                 outcome.request.reason, text.at);
    }
    return outcome;
}

static void assert_slice(const char *text, struct http1_slice slice, const char *expected)
{
    assert_int_equal(slice.length, strlen(expected));
    assert_memory_equal(text + slice.at, expected, slice.length);
}

/* ---- What is read ---- */

static void test_reads_a_get(void **state)
{
    (void)state;
    const char *text = "GET /v1/check?key=a&limit=10/s HTTP/1.1\r\nhOST: example.org:80\r\n"
                       "X-Other:\r\nX-Weir-Key: \t alice b \t\r\n\r\nGET";
    struct outcome outcome = assert_good(literal(text));
    struct http1_request *request = &outcome.request;
    assert_int_equal(outcome.used, strlen(text) - 3);
    assert_int_equal(request->method, HTTP1_GET);
    assert_false(request->is_http10);
    assert_false(request->close);
    assert_slice(text, request->target, "/v1/check?key=a&limit=10/s");
    assert_slice(text, request->field[HTTP1_HOST], "example.org:80");
    assert_slice(text, request->field[HTTP1_X_WEIR_KEY], "alice b");
    assert_int_equal(request->seen, 1 << HTTP1_HOST | 1 << HTTP1_X_WEIR_KEY);
    assert_int_equal(request->body_bytes, 0);
}

static void test_steps_through_the_fields(void **state)
{
    (void)state;
    const char *text = ROW HOST "X-Forwarded-For: 1.1.1.1\r\nempty:\r\nx-forwarded-for: 2\r\n\r\n";
    struct outcome outcome = assert_good(literal(text));
    struct bytes fields = http1_slice_bytes(text, outcome.request.fields);
    struct bytes name;
    struct bytes value;
    const char *const expected[][2] = {
        {"Host", "a"}, {"X-Forwarded-For", "1.1.1.1"}, {"empty", ""}, {"x-forwarded-for", "2"}};
    size_t at = 0;
    for (size_t i = 0; i < 4; i++) {
        assert_true(http1_field_next(fields, &at, &name, &value));
        assert_int_equal(name.length, strlen(expected[i][0]));
        assert_memory_equal(name.at, expected[i][0], name.length);
        assert_int_equal(value.length, strlen(expected[i][1]));
        assert_memory_equal(value.at, expected[i][1], value.length);
    }
    assert_false(http1_field_next(fields, &at, &name, &value));
    assert_int_equal(outcome.request.repeated, 1 << HTTP1_X_FORWARDED_FOR);
}

static void test_knows_the_methods(void **state)
{
    (void)state;
    const char *const names[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                 "CONNECT", "OPTIONS", "TRACE", "PATCH"};
    for (int i = 0; i < 9; i++) {
        char text[64];
        int length = snprintf(text, sizeof text, "%s * HTTP/1.1\r\n" HOST "\r\n", names[i]);
        struct outcome outcome = assert_good((struct bytes){text, (size_t)length});
        assert_int_equal(outcome.request.method, HTTP1_GET + i);
        assert_string_equal(http1_method_name(outcome.request.method), names[i]);
    }
    struct outcome outcome = assert_good(literal("get / HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(outcome.request.method, HTTP1_UNKNOWN);
}

static void test_skips_one_empty_line_before_a_request(void **state)
{
    (void)state;
    struct outcome outcome = assert_good(literal("\r\n" ROW HOST "\r\n"));
    assert_int_equal(outcome.used, strlen("\r\n" ROW HOST "\r\n"));
    assert_bad(literal("\r\n\r\n" ROW HOST "\r\n"), 400);
}

static void test_connection_says_whether_it_stays(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool close, keep_alive;
    } cases[] = {
        {ROW HOST "\r\n", false, false},
        {ROW HOST "Connection: keep-alive\r\n\r\n", false, false},
        {ROW HOST "Connection: close\r\n\r\n", true, false},
        {ROW HOST "Connection: foo, ,CLOSE , bar\r\n\r\n", true, false},
        {ROW HOST "Connection: closed, keep-alive\r\nConnection: Close\r\n\r\n", true, false},
        {"GET / HTTP/1.0\r\n\r\n", true, false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", false, true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", true, false},
        {"GET / HTTP/1.7\r\n" HOST "\r\n", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = assert_good(literal(cases[i].text));
        assert_int_equal(outcome.request.close, cases[i].close);
        assert_int_equal(outcome.request.keep_alive, cases[i].keep_alive);
    }
}

static void assert_body(const char *text, const char *expected)
{
    char body[64] = "";
    struct outcome outcome = assert_good(literal(text));
    assert_int_equal(outcome.request.body_bytes, strlen(expected));
    http1_body_copy(&outcome.request, text, body);
    assert_memory_equal(body, expected, strlen(expected));
    assert_int_equal(outcome.used, strlen(text));
}

static void test_reads_bodies(void **state)
{
    (void)state;
    assert_body(POST "Content-Length: 5\r\n\r\na\n\rbc", "a\n\rbc");
    assert_body(POST "Content-Length: 0\r\n\r\n", "");
    assert_body(POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "abc");
    assert_body(POST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", "");
    assert_body(POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00000002;x=\"y\"\r\n\r\n\r\n"
                     "00A\r\n0123456789\r\n0\r\nTrailer: x\r\nContent-Length: 9\r\n\r\n",
                "abc\r\n0123456789");
}

static void test_notices_expect(void **state)
{
    (void)state;
    const char *head = POST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
    struct outcome outcome = parse_all_ways(literal(head));
    assert_int_equal(outcome.result, HTTP1_MORE);
    assert_true(outcome.request.expects_continue);
    assert_true(outcome.request.phase > HTTP1_IN_FIELDS);
    outcome = assert_good(literal("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"));
    assert_false(outcome.request.expects_continue); // RFC 9110, 10.1.1: 1.0 does not know it
}

static void test_scans_no_byte_twice(void **state)
{
    (void)state;
    struct bytes text = literal("GET /a/long/target/for/the/scan HTTP/1.1\r\nHost: a\r\n");
    struct http1_request request = {0};
    for (size_t length = 1; length < text.length; length++) {
        size_t used;
        assert_int_equal(http1_parse(&request, (struct bytes){text.at, length}, &used), HTTP1_MORE);
        bool at_cr = text.at[length - 1] == '\r';
        assert_int_equal(request.scanned, length - at_cr);
    }
}

/* ---- What is refused ---- */

static void test_refuses_bad_request_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {" GET / HTTP/1.1\r\n", 400},
        {"GET  / HTTP/1.1\r\n", 400},
        {"GET /  HTTP/1.1\r\n", 400},
        {"GET\t/ HTTP/1.1\r\n", 400},
        {"GET /\tHTTP/1.1\r\n", 400},
        {"GET / HTTP/1.1 \r\n", 400},
        {"GET /\r\n", 400},
        {"GET / \r\n", 400},
        {"GET / HTTP/1.1\n", 400},
        {"GET / HTTP/1.1\r\r\n", 400},
        {"GET / HTTP/1.1\rX", 400},
        {"GET / http/1.1\r\n", 400},
        {"GET / HTTP/1\r\n", 400},
        {"GET / HTTP/1.10\r\n", 400},
        {"GET / HTTP/a.1\r\n", 400},
        {"GET / HTTP/2.0\r\n", 505},
        {"GET / HTTP/0.9\r\n", 505},
        {"G(T / HTTP/1.1\r\n", 400},
        {"GET /\xc3\xa4 HTTP/1.1\r\n", 400},
        {"GET /\x7f HTTP/1.1\r\n", 400},
        {"GET /\x01 HTTP/1.1\r\n", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"*1\r\n$4\r\nPING\r\n", 400},
        {"PING\r\n", 400},
        {"\n", 400},
        {"\x16\x03\x01\x02", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_bad(literal(cases[i].text), cases[i].status);
    }
}

/* A target is looked through eight bytes at a time: whatever is wrong is found at every place. */
static void test_finds_what_no_target_may_have(void **state)
{
    (void)state;
    enum { TARGET_BYTES = 21, TARGET_AT = 4 };
    char line[] = "GET /bcdefghijklmnopqrst~ HTTP/1.1\r\nHost: a\r\n\r\n";
    struct outcome good = assert_good(literal(line));
    assert_int_equal(good.request.target.length, TARGET_BYTES);
    for (size_t i = TARGET_AT + 1; i < TARGET_AT + TARGET_BYTES; i++) {
        char before = line[i];
        for (const char *c = "\t\x7f\x80\xff"; *c != '\0'; c++) {
            line[i] = *c;
            struct bytes text = literal(line);
            assert_bad(text, 400);
            assert_int_equal(parse_all_ways(text).request.bad_at, i);
        }
        line[i] = before;
    }
}

static void test_refuses_bad_fields(void **state)
{
    (void)state;
    static const char *const cases[] = {
        ROW "Host : a\r\n\r\n",
        ROW " Host: a\r\n\r\n",
        ROW HOST " folded\r\n\r\n",
        ROW HOST "\tfolded\r\n\r\n",
        ROW HOST "name\r\n\r\n",
        ROW HOST ": value\r\n\r\n",
        ROW HOST "na me: x\r\n\r\n",
        ROW HOST "n\xc3\xa4me: x\r\n\r\n",
        ROW HOST "name: a\x01\r\n\r\n",
        ROW HOST "name: a\x7f\r\n\r\n",
        ROW HOST "name: a\rb\r\n\r\n",
        ROW HOST "name: a\nb: c\r\n\r\n",
        ROW HOST "\n",
        ROW HOST "\r\r\n",
        ROW "\r\n",
        ROW HOST HOST "\r\n",
        ROW "Host: a b\r\n\r\n",
        ROW "Host: a/b\r\n\r\n",
        ROW "Host: u@a\r\n\r\n",
        ROW "Host: a,b\r\n" HOST "\r\n",
        ROW HOST "(x): y\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_bad(literal(cases[i]), 400);
    }
    static const char with_nul[] = ROW HOST "name: a\0b\r\n\r\n";
    assert_bad((struct bytes){with_nul, sizeof with_nul - 1}, 400);
}

static void test_refuses_ambiguous_framing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {POST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
        {POST "Transfer-Encoding: xchunked\r\n\r\n", 501},
        {POST "Transfer-Encoding: \"chunked\"\r\n\r\n", 501},
        {POST "Transfer-Encoding:\r\n\r\n", 501},
        {POST "Transfer-Encoding: identity\r\n\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400},
        {POST "Content-Length: 3\r\nContent-Length: 03\r\n\r\n", 400},
        {POST "Content-Length: 3, 3\r\n\r\n", 400},
        {POST "Content-Length: +3\r\n\r\n", 400},
        {POST "Content-Length: -3\r\n\r\n", 400},
        {POST "Content-Length: 0x3\r\n\r\n", 400},
        {POST "Content-Length: 3 3\r\n\r\n", 400},
        {POST "Content-Length: 3.0\r\n\r\n", 400},
        {POST "Content-Length:\r\n\r\n", 400},
        {POST "Content-Length: 18446744073709551619\r\n\r\n", 400},
        {POST "Content-Length: 999999999999999999\r\n\r\n", 413},
        {POST "Content-Length: 65537\r\n\r\n", 413},
        {POST "Expect: 200-ok\r\nContent-Length: 2\r\n\r\n", 417},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_bad(literal(cases[i].text), cases[i].status);
    }
}

#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static void test_refuses_bad_chunks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {CHUNKED "\r\n", 400},           {CHUNKED "x\r\n", 400},
        {CHUNKED " 3\r\nabc\r\n", 400},  {CHUNKED "3 \r\nabc\r\n", 400},
        {CHUNKED "3 ;a\r\nabc", 400},    {CHUNKED "+3\r\nabc\r\n", 400},
        {CHUNKED "0x3\r\nabc\r\n", 400}, {CHUNKED "3\nabc\r\n", 400},
        {CHUNKED "3\r\nabcd\r\n", 400},  {CHUNKED "3\r\nabc\n", 400},
        {CHUNKED "3\r\nabc\rX", 400},    {CHUNKED "000000003\r\nabc\r\n", 400},
        {CHUNKED ";a\r\n", 400},         {CHUNKED "FFFFFFFF\r\n", 413},
        {CHUNKED "10001\r\n", 413},      {CHUNKED "3\r\nabc\r\nFFFFFFFE\r\n", 413},
        {CHUNKED "0\r\n a: b\r\n", 400}, {CHUNKED "0\r\nx\r\n", 400},
        {CHUNKED "0\r\n\n", 400},        {CHUNKED "3;\x01\r\nabc\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_bad(literal(cases[i].text), cases[i].status);
    }
}

/* ---- The limits, at their edges ---- */

/* A text that is put together. */
struct text {
    char at[PARSER_CASE_BYTES_MAX];
    size_t length;
};

static void add(struct text *text, const char *more)
{
    size_t length = strlen(more);
    assert_true(text->length + length <= sizeof text->at);
    memcpy(text->at + text->length, more, length);
    text->length += length;
}

static void add_repeated(struct text *text, char c, size_t count)
{
    assert_true(text->length + count <= sizeof text->at);
    memset(text->at + text->length, c, count);
    text->length += count;
}

static void assert_edge(const struct text *text, unsigned status)
{
    struct outcome outcome = parse_ways((struct bytes){text->at, text->length}, 64);
    assert_int_equal(outcome.result, status == 0 ? HTTP1_DONE : HTTP1_BAD);
    assert_int_equal(outcome.request.status, status);
}

static void test_request_line_has_a_limit(void **state)
{
    (void)state;
    static struct text text;
    for (size_t extra = 0; extra < 2; extra++) {
        text.length = 0;
        add(&text, "GET /");
        add_repeated(&text, 'a', HTTP1_LINE_BYTES_MAX - 14 + extra);
        add(&text, " HTTP/1.1\r\n" HOST "\r\n");
        assert_edge(&text, extra == 0 ? 0 : 414);
    }
}

static void test_fields_have_limits(void **state)
{
    (void)state;
    static struct text text;
    for (size_t extra = 0; extra < 2; extra++) {
        text.length = 0;
        add(&text, ROW HOST "x: ");
        add_repeated(&text, 'a', HTTP1_HEADER_BYTES_MAX - 14 + extra);
        add(&text, "\r\n\r\n");
        assert_edge(&text, extra == 0 ? 0 : 431);
        text.length = 0;
        add(&text, ROW HOST);
        for (size_t i = 1; i < HTTP1_FIELD_COUNT_MAX + extra; i++) {
            add(&text, "x: y\r\n");
        }
        add(&text, "\r\n");
        assert_edge(&text, extra == 0 ? 0 : 431);
    }
}

static void test_bodies_have_limits(void **state)
{
    (void)state;
    static struct text text;
    text.length = 0;
    add(&text, POST "Content-Length: 65536\r\n\r\n");
    add_repeated(&text, 'x', 65536);
    assert_edge(&text, 0);
    text.length = 0;
    add(&text, CHUNKED "10000\r\n");
    add_repeated(&text, 'x', 65536);
    add(&text, "\r\n0\r\n\r\n");
    assert_edge(&text, 0);
    text.length = 0; // 22 000 chunks of a byte are below 64 KiB, and beyond 128 KiB on the wire
    add(&text, CHUNKED);
    for (int i = 0; i < 22000; i++) {
        add(&text, "1\r\nx\r\n");
    }
    add(&text, "0\r\n\r\n");
    assert_edge(&text, 413);
    text.length = 0;
    add(&text, CHUNKED "1;");
    add_repeated(&text, 'x', HTTP1_CHUNK_LINE_BYTES_MAX);
    assert_edge(&text, 400);
}

/* ---- Queries ---- */

static void test_splits_queries(void **state)
{
    (void)state;
    struct bytes path;
    struct bytes query;
    struct bytes name;
    struct bytes value;
    query_split(literal("/a?b=c%20d&&e&f=g=h?"), &path, &query);
    assert_int_equal(path.length, 2);
    const char *const expected[][2] = {{"b", "c%20d"}, {"e", ""}, {"f", "g=h?"}};
    for (size_t i = 0; i < 3; i++) {
        assert_true(query_next(&query, &name, &value));
        assert_int_equal(name.length, strlen(expected[i][0]));
        assert_memory_equal(name.at, expected[i][0], name.length);
        assert_int_equal(value.length, strlen(expected[i][1]));
        assert_memory_equal(value.at, expected[i][1], value.length);
    }
    assert_false(query_next(&query, &name, &value));
    query_split(literal("/a"), &path, &query);
    assert_int_equal(query.length, 0);
    assert_false(query_next(&query, &name, &value));
}

static void test_decodes_percents_strictly(void **state)
{
    (void)state;
    char room[16];
    size_t used;
    struct bytes value = literal("a%2Fb+%00%e4");
    assert_true(query_decode(&value, room, &used));
    assert_int_equal(used, 6);
    assert_int_equal(value.length, 6);
    assert_memory_equal(value.at, "a/b \0\xe4", 6);
    const char *plain = "10/s";
    value = literal(plain);
    assert_true(query_decode(&value, room, &used));
    assert_ptr_equal(value.at, plain);
    assert_int_equal(used, 0);
    const char *const bad[] = {"ab%", "ab%1", "ab%1g", "ab%g1", "ab%%31", "ab% 1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        value = literal(bad[i]);
        assert_false(query_decode(&value, room, &used));
        assert_ptr_equal(value.at, bad[i] + 2);
    }
}

/* Escapes are looked for eight bytes at a time: they are found at every place. */
static void test_decodes_escapes_wherever_they_are(void **state)
{
    (void)state;
    enum { TEXT_BYTES = 20 };
    for (size_t first = 0; first < TEXT_BYTES; first++) {
        for (size_t second = first + 1; second < TEXT_BYTES; second++) {
            char encoded[3 * TEXT_BYTES] = "";
            char expected[TEXT_BYTES + 1] = "abcdefghijklmnopqrst";
            char room[TEXT_BYTES];
            size_t used;
            expected[first] = '\xc3';
            expected[second] = ' ';
            (void)snprintf(encoded, sizeof encoded, "%.*s%%C3%.*s+%s", (int)first, expected,
                           (int)(second - first - 1), expected + first + 1, expected + second + 1);
            struct bytes value = literal(encoded);
            assert_true(query_decode(&value, room, &used));
            assert_int_equal(used, TEXT_BYTES);
            assert_int_equal(value.length, TEXT_BYTES);
            assert_memory_equal(value.at, expected, TEXT_BYTES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_a_get),
        cmocka_unit_test(test_steps_through_the_fields),
        cmocka_unit_test(test_knows_the_methods),
        cmocka_unit_test(test_skips_one_empty_line_before_a_request),
        cmocka_unit_test(test_connection_says_whether_it_stays),
        cmocka_unit_test(test_reads_bodies),
        cmocka_unit_test(test_notices_expect),
        cmocka_unit_test(test_scans_no_byte_twice),
        cmocka_unit_test(test_refuses_bad_request_lines),
        cmocka_unit_test(test_finds_what_no_target_may_have),
        cmocka_unit_test(test_refuses_bad_fields),
        cmocka_unit_test(test_refuses_ambiguous_framing),
        cmocka_unit_test(test_refuses_bad_chunks),
        cmocka_unit_test(test_request_line_has_a_limit),
        cmocka_unit_test(test_fields_have_limits),
        cmocka_unit_test(test_bodies_have_limits),
        cmocka_unit_test(test_splits_queries),
        cmocka_unit_test(test_decodes_percents_strictly),
        cmocka_unit_test(test_decodes_escapes_wherever_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
