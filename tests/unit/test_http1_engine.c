/* SPDX-License-Identifier: MIT
 *
 * The HTTP engine without a socket: what goes in, what comes out, byte for byte where it matters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>

#include "../support/http1_world.h"

#define DATE      "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define NO_STORE  "Cache-Control: no-store\r\n"
#define HOST      "Host: a\r\n"
#define END       HOST "\r\n"
#define NS_PER_MS UINT64_C(1000000)

static struct world world;
static enum engine_state state_after; // of the last request()

static int setup(void **state)
{
    (void)state;
    assert_true(http1_world_open(&world, 1 << 20));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

/* ---- Asking ---- */

/* Sends a request over a connection of its own and returns all that comes back. */
static const char *request(const char *text)
{
    world_connect(&world);
    world.output.length = 0;
    state_after = world_feed(&world, text, strlen(text));
    buffer_append(&world.output, "", 1);
    assert_false(world.output.failed);
    return world.output.at;
}

static const char *get(const char *target, const char *fields)
{
    char text[4096];
    int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "%s\r\n", target, fields);
    assert_in_range(length, 1, sizeof text - 1);
    return request(text);
}

static const char *post(const char *path, const char *body)
{
    char text[4096];
    int length =
        snprintf(text, sizeof text, "POST %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s",
                 path, strlen(body), body);
    assert_in_range(length, 1, sizeof text - 1);
    return request(text);
}

static unsigned status_of(const char *reply)
{
    unsigned status = 0;
    assert_int_equal(sscanf(reply, "HTTP/1.1 %3u ", &status), 1);
    return status;
}

static const char *body_of(const char *reply)
{
    const char *end = strstr(reply, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static void assert_status(const char *reply, unsigned status)
{
    if (status_of(reply) != status) {
        fail_msg("%u expected: %s", status, reply);
    }
}

/* The length that is said is the length that is there. */
static void assert_length(const char *reply)
{
    const char *length = strstr(reply, "\r\nContent-Length: ");
    assert_non_null(length);
    assert_int_equal(strtoul(length + 18, NULL, 10), strlen(body_of(reply)));
}

static void assert_has(const char *reply, const char *part)
{
    if (strstr(reply, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, reply);
    }
}

static void assert_lacks(const char *reply, const char *part)
{
    if (strstr(reply, part) != NULL) {
        fail_msg("\"%s\" is in: %s", part, reply);
    }
}

static void assert_problem(const char *reply, unsigned status, const char *detail)
{
    assert_status(reply, status);
    assert_length(reply);
    assert_has(reply, "\r\nContent-Type: application/problem+json\r\n");
    assert_has(body_of(reply), detail);
}

/* ---- Decisions in JSON ---- */

static void test_take_answers_in_json(void **state)
{
    (void)state;
    assert_string_equal(
        post("/v1/take", "{\"key\":\"alice\",\"limit\":\"10/s\",\"cost\":2.5}"),
        "HTTP/1.1 200 OK\r\n" DATE "RateLimit-Policy: \"10/s\";q=10;w=1\r\n"
        "RateLimit: \"10/s\";r=7;t=1\r\n" NO_STORE
        "Content-Type: application/json\r\nContent-Length: 130\r\n\r\n"
        "{\"verdict\":\"allowed\",\"capacity\":10,\"remaining\":7,\"retry_after_ns\":-1,"
        "\"retry_after_ms\":-1,\"reset_after_ns\":250000000,\"delay_ns\":0}\n");
    assert_int_equal(state_after, ENGINE_OPEN);
}

static void test_a_refusal_is_a_problem_with_the_decision_in_it(void **state)
{
    (void)state;
    const char *take = "{\"key\":\"alice\",\"limit\":\"25/5s\",\"cost\":25}";
    assert_status(post("/v1/take", take), 200);
    world.service.now_ns = 1;
    assert_string_equal(
        post("/v1/take", "{\"key\":\"alice\",\"limit\":\"25/5s\"}"),
        "HTTP/1.1 429 Too Many Requests\r\n" DATE "Retry-After: 1\r\n"
        "RateLimit-Policy: \"25/5s\";q=25;w=5\r\nRateLimit: \"25/5s\";r=0;t=1\r\n" NO_STORE
        "Content-Type: application/problem+json\r\nContent-Length: 321\r\n\r\n"
        "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
        "\"title\":\"Quota exceeded\",\"status\":429,"
        "\"detail\":\"25/5s is limited to 25 per 5 s\",\"violated-policies\":[\"25/5s\"],"
        "\"verdict\":\"limited\",\"capacity\":25,\"remaining\":0,\"retry_after_ns\":199999999,"
        "\"retry_after_ms\":200,\"reset_after_ns\":4999999999,\"delay_ns\":0}\n");
}

static void test_never_is_422_without_retry_after(void **state)
{
    (void)state;
    const char *reply =
        post("/v1/take", "{\"key\":\"a\",\"limit\":\"10/s\",\"cost\":\"10.000001\"}");
    assert_problem(reply, 422, "\"detail\":\"a cost of 10.000001 is more than 10/s ever holds\"");
    assert_has(reply,
               "\"type\":\"about:blank\",\"title\":\"Unprocessable Content\",\"status\":422,");
    assert_has(reply,
               "\"verdict\":\"never\",\"capacity\":10,\"remaining\":10,\"retry_after_ns\":-1,");
    assert_lacks(reply, "Retry-After");
}

static void test_the_other_operations(void **state)
{
    (void)state;
    const char *question = "{\"key\":\"a\",\"limit\":\"1/3s capacity=3\",\"cost\":2}";
    const char *plain = "{\"key\":\"a\",\"limit\":\"1/3s capacity=3\"}";
    const char *reply = post("/v1/can_take", question);
    assert_status(reply, 200);
    assert_has(reply, "\"remaining\":1,");
    reply = post("/v1/show", plain);
    assert_has(reply, "\"remaining\":3,");
    assert_has(reply, "\"reset_after_ns\":0,\"delay_ns\":0,\"level\":\"0\"}\n");
    reply = post("/v1/fill", question);
    assert_has(reply, "\"remaining\":1,");
    assert_has(reply, ",\"spill\":\"0\",\"full\":false}\n");
    world.service.now_ns = 1000 * NS_PER_MS;
    reply = post("/v1/fill", question);
    assert_has(reply, "\"remaining\":0,");
    assert_has(reply, ",\"spill\":\"2/3\",\"full\":true}\n");
    world.service.now_ns = 2000 * NS_PER_MS;
    assert_has(post("/v1/show", plain), "\"level\":\"8/3\"}\n");
    reply = post("/v1/refund", question);
    assert_has(reply, "{\"verdict\":\"allowed\",\"capacity\":3,\"remaining\":2,");
    assert_length(reply);
    assert_string_equal(body_of(post("/v1/reset", plain)), "{\"existed\":true}\n");
    reply = post("/v1/reset", plain);
    assert_string_equal(body_of(reply), "{\"existed\":false}\n");
    assert_lacks(reply, "RateLimit");
    assert_status(reply, 200);
}

static void test_a_full_table_is_503(void **state)
{
    (void)state;
    world_close(&world);
    assert_true(http1_world_open(&world, WEIR_MEMORY_BYTES_MIN));
    const char *reply = NULL;
    for (int i = 0; i < 20000; i++) {
        char body[64];
        (void)snprintf(body, sizeof body, "{\"key\":\"k%d\",\"limit\":\"1/w\"}", i);
        reply = post("/v1/take", body);
        if (status_of(reply) == 503) {
            break;
        }
    }
    assert_problem(reply, 503,
                   "\"detail\":\"no decision about 1/w: the table is full of live buckets");
    assert_has(reply, "http-problem-types#temporary-reduced-capacity\"");
    assert_has(reply, "\"verdict\":\"error\",\"capacity\":1,\"remaining\":0,\"retry_after_ns\":-1,"
                      "\"retry_after_ms\":-1,\"reset_after_ns\":-1,\"delay_ns\":0}\n");
    assert_lacks(reply, "RateLimit");
    assert_lacks(reply, "Retry-After");
    assert_int_equal(world.counters.decisions[PROTOCOL_HTTP][WEIR_FAILED], 1);
}

/* ---- GET /v1/check ---- */

static void test_check_allows_by_200(void **state)
{
    (void)state;
    assert_string_equal(get("/v1/check?key=a&limit=10/s", ""),
                        "HTTP/1.1 200 OK\r\n" DATE "RateLimit-Policy: \"10/s\";q=10;w=1\r\n"
                        "RateLimit: \"10/s\";r=9;t=1\r\n" NO_STORE "Content-Length: 0\r\n\r\n");
}

/* The rate alone is half of the truth where the bucket holds more, or less, than its count. */
static void test_a_refusal_names_a_capacity_that_is_not_the_count(void **state)
{
    static const struct {
        const char *limit, *query, *promise;
    } rows[] = {
        {"10/s", "10/s", "10 per 1 s\""},
        {"10/s capacity=10", "10/s+capacity%3d10", "10 per 1 s\""},
        {"10/min burst=2.5", "10/min+burst%3d2.5", "10 per 1 min, at most 2.5 at once\""},
        {"0.5/s", "0.5/s", "0.5 per 1 s, at most 1 at once\""},
        {"bucket 1/5s capacity=9", "bucket+1/5s+capacity%3d9", "1 per 5 s, at most 9 at once\""},
        {"queue 5/s capacity=2", "queue+5/s+capacity%3d2", "5 per 1 s, at most 2 in line\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[128];
        char detail[128];
        (void)snprintf(target, sizeof target, "/v1/check?key=a&limit=%s", rows[i].query);
        (void)snprintf(detail, sizeof detail, "\"detail\":\"%s is limited to %s", rows[i].limit,
                       rows[i].promise);
        const char *reply;
        do {
            reply = get(target, "");
        } while (status_of(reply) == 200);
        assert_problem(reply, 429, detail);
    }
}

static void test_check_refuses_by_429(void **state)
{
    (void)state;
    assert_status(get("/v1/check?key=a&limit=10/10s+capacity%3d5&cost=5", ""), 200);
    const char *reply = get("/v1/check?key=a&limit=10/10s+capacity%3d5&cost=2", "");
    assert_problem(reply, 429,
                   "\"detail\":\"10/10s capacity=5 is limited to 10 per 10 s, at most 5 at once\","
                   "\"violated-policies\":[\"10/10s capacity=5\"],");
    assert_has(reply, "\r\nRetry-After: 2\r\nRateLimit-Policy: \"10/10s capacity=5\";q=5;w=5\r\n"
                      "RateLimit: \"10/10s capacity=5\";r=0;t=2\r\n" NO_STORE);
    assert_lacks(reply, "\"key\"");
    assert_problem(get("/v1/check?key=a&limit=10/s&cost=11", ""), 429, "is more than 10/s ever");
}

static void test_check_refuses_by_the_status_that_was_chosen(void **state)
{
    (void)state;
    world.config.refused_status = 403;
    assert_status(get("/v1/check?key=a&limit=1/s", ""), 200);
    assert_problem(get("/v1/check?key=a&limit=1/s", ""), 403, "\"status\":403,");
    assert_status(post("/v1/take", "{\"key\":\"a\",\"limit\":\"1/s\"}"), 429);
}

static void test_check_takes_key_and_cost_from_headers(void **state)
{
    (void)state;
    const char *fields = "X-Weir-Key: alice\r\nX-Weir-Cost: 3\r\n";
    assert_has(get("/v1/check?limit=10/s", fields), ";r=7;");
    assert_has(get("/v1/check?limit=10/s&cost=1", fields), ";r=6;"); // the query wins
    assert_has(get("/v1/check?limit=10/s&key=bob", fields), ";r=7;");
    assert_has(get("/v1/check?limit=10/s&key=alice&cost=0", ""), ";r=6;");
}

static void test_check_decodes_the_query(void **state)
{
    (void)state;
    assert_has(get("/v1/check?key=a%20b%2fc&limit=10%2Fs&cost=1", ""), ";r=9;");
    assert_has(post("/v1/show", "{\"key\":\"a b/c\",\"limit\":\"10/s\"}"), "\"level\":\"1\"");
    assert_has(get("/v1/check?key=a+b/c&limit=600/min+capacity=10", ""), ";r=8;");
    assert_has(get("/v1/check?key=%00&limit=10/s", ""), ";r=9;");
    assert_has(post("/v1/show", "{\"key\":\"\\u0000\",\"limit\":\"10/s\"}"), "\"level\":\"1\"");
}

static void test_check_answers_every_method(void **state)
{
    (void)state;
    assert_status(request("POST /v1/check?key=a&limit=10/s HTTP/1.1\r\n" END), 200);
    assert_status(request("PATCH /v1/check?key=a&limit=10/s HTTP/1.1\r\n" END), 200);
    assert_status(request("OPTIONS /v1/check?key=a&limit=10/s HTTP/1.1\r\n" END), 200);
    assert_has(request("HEAD /v1/check?key=a&limit=10/s HTTP/1.1\r\n" END), ";r=6;");
    assert_status(request("TRACE /v1/check?key=a&limit=10/s HTTP/1.1\r\n" END), 405);
}

static void test_check_does_not_read_the_rest(void **state)
{
    (void)state;
    assert_has(get("/v1/check?key=a&limit=10/s&cost=1&rest=/orders?cost=0&key=%zz&x", ""), ";r=9;");
    assert_has(get("http://weir:8390/v1/check?key=a&limit=10/s", ""), ";r=8;");
}

static void test_check_says_what_is_wrong(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/v1/check?limit=10/s", "the key is missing: say key=, by=address or X-Weir-Key"},
        {"/v1/check?limit=10/s&key=", "the key is missing"},
        {"/v1/check?key=a", "the limit is missing: say limit=10/s"},
        {"/v1/check?key=a&limit=", "the limit is missing"},
        {"/v1/check", "the key is missing"},
        {"/v1/check?key=a&limit=10/x", "the limit, byte 3: "},
        {"/v1/check?key=a&limit=10/s&cost=-1", "the cost, byte 0: "},
        {"/v1/check?key=a&limit=10/s&cost=", "the cost, byte 0: "},
        {"/v1/check?key=a&limit=10/s&costs=1", "says \\\"costs\\\": there are key, by, limit"},
        {"/v1/check?key=a&key=a&limit=10/s", "the query says key= twice"},
        {"/v1/check?key=%&limit=10/s", "the query, byte 4: % must begin %XX"},
        {"/v1/check?limit=10/s&key=ab%4", "the query, byte 17: % must begin %XX"},
        {"/v1/check?limit=10/s&by=name", "by= can only be by=address"},
        {"/v1/check?limit=10/s&by=address&key=a", "key= and by=address exclude each other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_problem(get(cases[i][0], ""), 400, cases[i][1]);
        assert_int_equal(state_after, ENGINE_OPEN);
    }
    assert_problem(get("/v1/check?limit=10/s", "X-Weir-Key: a\r\nX-Weir-Key: b\r\n"), 400,
                   "X-Weir-Key is there twice");
    assert_int_equal(world.counters.bad_requests[PROTOCOL_HTTP],
                     sizeof cases / sizeof cases[0] + 1);
}

/* ---- By address ---- */

static void set_peer(const char *text)
{
    world.peer = (struct peer){.has_address = text != NULL};
    if (text != NULL && inet_pton(AF_INET6, text, world.peer.address) != 1) {
        char mapped[64];
        (void)snprintf(mapped, sizeof mapped, "::ffff:%s", text);
        assert_int_equal(inet_pton(AF_INET6, mapped, world.peer.address), 1);
    }
}

static void trust(const char *address, unsigned bits)
{
    struct cidr *cidr = &world.config.trusted_proxies[world.config.trusted_proxy_count++];
    assert_int_equal(inet_pton(AF_INET6, address, cidr->address), 1);
    cidr->prefix_bits = bits;
}

/* Checks by address, and that the key was this one. */
static void assert_address(const char *forwarded, const char *key)
{
    char fields[512];
    char body[128];
    (void)snprintf(fields, sizeof fields, "%s%s", forwarded, *forwarded != '\0' ? "\r\n" : "");
    assert_status(get("/v1/check?by=address&limit=10/s&cost=3", fields), 200);
    (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"limit\":\"10/s\"}", key);
    const char *reply = post("/v1/show", body);
    if (strstr(reply, "\"level\":\"3\"") == NULL) {
        fail_msg("%s is not %s", forwarded, key);
    }
    assert_has(post("/v1/reset", body), "true");
}

static void test_show_and_reset_have_no_cost(void **state)
{
    (void)state;
    const char *body = "{\"key\":\"a\",\"limit\":\"1/s\",\"cost\":1}";
    assert_problem(post("/v1/show", body), 400, "cost");
    assert_problem(post("/v1/reset", body), 400, "cost");
    assert_status(post("/v1/can_take", body), 200);
}

static void test_by_address_of_the_peer(void **state)
{
    (void)state;
    set_peer("203.0.113.7");
    assert_address("", "203.0.113.7");
    assert_address("X-Forwarded-For: 198.51.100.1", "203.0.113.7"); // not trusted: not looked at
    assert_address("X-Weir-Key: alice", "203.0.113.7");
    set_peer("2001:db8:1:2:3:4:5:6");
    assert_address("", "2001:db8:1:2::/64");
    set_peer("2001:db8:0:1:ffff::1");
    assert_address("", "2001:db8:0:1::/64");
    set_peer("2001:db8::1");
    assert_address("", "2001:db8::/64");
    set_peer("::1");
    assert_address("", "::/64");
}

static void test_by_address_behind_trusted_proxies(void **state)
{
    (void)state;
    set_peer("10.1.2.3");
    trust("::ffff:10.0.0.0", 96 + 8);
    trust("fd00::", 9);
    assert_address("X-Forwarded-For: 198.51.100.1", "198.51.100.1");
    assert_address("X-Forwarded-For: 1.1.1.1, 198.51.100.1", "198.51.100.1");
    assert_address("X-Forwarded-For: evil, 198.51.100.1 ,10.9.9.9,", "198.51.100.1");
    assert_address("X-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 198.51.100.1\r\n"
                   "X-Forwarded-For: 10.0.0.1, fd7f::1",
                   "198.51.100.1");
    assert_address("X-Forwarded-For: 10.0.0.9, 10.0.0.1", "10.0.0.9");
    assert_address("X-Forwarded-For: 198.51.100.1:4711", "198.51.100.1");
    assert_address("X-Forwarded-For: [2001:db8:a:b::1]:4711", "2001:db8:a:b::/64");
    assert_address("X-Forwarded-For: 2001:db8:a:b::1", "2001:db8:a:b::/64");
    assert_address("X-Forwarded-For: ::ffff:198.51.100.1", "198.51.100.1");
    assert_address("X-Forwarded-For: fe80::1, fd80::1", "fd80::/64"); // outside the 9 bits
    const char *target = "/v1/check?by=address&limit=10/s";
    assert_problem(get(target, ""), 400, "needs the address in"); // not one bucket for everybody
    assert_problem(get(target, "X-Forwarded-For: ,\r\n"), 400, "needs the address in");
    assert_problem(get(target, "X-Forwarded-For: 1.1.1.1, unknown\r\n"), 400, "no address");
    assert_problem(get(target, "X-Forwarded-For: 1.1.1\r\n"), 400, "no address");
    assert_problem(get(target, "X-Forwarded-For: 01.1.1.1\r\n"), 400, "no address");
    assert_problem(get(target, "X-Forwarded-For: [::1\r\n"), 400, "no address");
}

static void test_by_address_over_a_unix_socket(void **state)
{
    (void)state;
    set_peer(NULL);
    assert_address("X-Forwarded-For: 1.1.1.1, 198.51.100.1", "198.51.100.1");
    assert_problem(get("/v1/check?by=address&limit=10/s", ""), 400, "needs the address in");
}

/* ---- Header presets ---- */

/* What an allowed and a refused check say, between Date and Cache-Control. */
static void assert_preset(enum header_preset preset, const char *allowed, const char *refused)
{
    char expected[512];
    world.config.headers = preset;
    world.service.now_ns = 0;
    assert_status(post("/v1/reset", "{\"key\":\"a\",\"limit\":\"10/10s\"}"), 200);
    assert_status(get("/v1/check?key=a&limit=10/10s&cost=9", ""), 200);
    (void)snprintf(expected, sizeof expected,
                   "HTTP/1.1 200 OK\r\n" DATE "%s" NO_STORE "Content-Length: 0\r\n\r\n", allowed);
    assert_string_equal(get("/v1/check?key=a&limit=10/10s", ""), expected);
    world.service.now_ns = 220 * NS_PER_MS;
    const char *reply = get("/v1/check?key=a&limit=10/10s", "");
    (void)snprintf(expected, sizeof expected,
                   "HTTP/1.1 429 Too Many Requests\r\n" DATE "Retry-After: 1\r\n%s" NO_STORE,
                   refused);
    if (strncmp(reply, expected, strlen(expected)) != 0) {
        fail_msg("%s is not %s", reply, expected);
    }
    assert_length(reply);
}

static void test_header_presets(void **state)
{
    (void)state;
    assert_preset(HEADERS_DRAFT,
                  "RateLimit-Policy: \"10/10s\";q=10;w=10\r\nRateLimit: \"10/10s\";r=0;t=10\r\n",
                  "RateLimit-Policy: \"10/10s\";q=10;w=10\r\nRateLimit: \"10/10s\";r=0;t=1\r\n");
    assert_preset(HEADERS_X_RATELIMIT,
                  "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 10\r\n",
                  "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 10\r\n");
    assert_preset(HEADERS_USED, "X-Shopify-Shop-Api-Call-Limit: 10/10\r\n",
                  "X-Shopify-Shop-Api-Call-Limit: 10/10\r\n");
    assert_preset(HEADERS_RATE_LIMITED, "", "X-Rate-Limited-For: 0.78\r\n");
    assert_preset(HEADERS_NONE, "", "");
}

static void test_article_000_gets_its_body(void **state)
{
    (void)state;
    world.config.headers = HEADERS_RATE_LIMITED;
    assert_status(get("/v1/check?key=a&limit=10/10s&cost=10", ""), 200);
    const char *reply = get("/v1/check?key=a&limit=10/10s", "");
    assert_has(reply, "\r\nX-Rate-Limited-For: 1\r\n");
    assert_has(reply, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 12\r\n\r\n");
    assert_string_equal(body_of(reply), "Rate limited");
}

/* draft 11: the window is whole seconds, the quota what drains in it, the burst what differs. */
static void test_policies(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"10/s", "\"10/s\";q=10;w=1\r\n"},
        {"10/s+capacity=5", "\"10/s capacity=5\";q=10;w=1;weir-burst=5\r\n"},
        {"10/s+capacity=15", "\"10/s capacity=15\";q=20;w=2;weir-burst=15\r\n"},
        {"1/3s", "\"1/3s\";q=1;w=3\r\n"},
        {"3/s+capacity=1", "\"3/s capacity=1\";q=3;w=1;weir-burst=1\r\n"},
        {"7/3s+capacity=5", "\"7/3s capacity=5\";q=7;w=3;weir-burst=5\r\n"}, // 2.14 s
        {"1000/30d", "\"1000/30d\";q=1000;w=2592000\r\n"},
        {"1000000/us", "\"1000000/us\";q=1000000000000;w=1;weir-burst=1000000\r\n"},
        {"1000000/ns", "\"1000000/ns\";q=999999999999999;w=1;weir-burst=1000000\r\n"},
        {"0.5/min", "\"0.5/min\";q=1;w=120\r\n"},
        {"10/s++++++++++++++++++++++++++++++++++++++++++++++++++capacity=10", // beyond the cache
         "\"10/s                                                  capacity=10\";q=10;w=1\r\n"},
    };
    for (int round = 0; round < 2; round++) { // the second from the cache
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            char target[128];
            char policy[128];
            (void)snprintf(target, sizeof target, "/v1/check?key=p&cost=0&limit=%s", cases[i][0]);
            (void)snprintf(policy, sizeof policy, "\r\nRateLimit-Policy: %s", cases[i][1]);
            assert_has(get(target, ""), policy);
        }
    }
    assert_has(get("/v1/check?key=p&cost=0&limit=10/s", ""), "\r\nRateLimit: \"10/s\";r=10\r\n");
}

static void test_retry_after_as_a_date(void **state)
{
    (void)state;
    world.config.retry_after_date = true;
    assert_status(get("/v1/check?key=a&limit=1/d", ""), 200);
    assert_has(get("/v1/check?key=a&limit=1/d", ""),
               "\r\nRetry-After: Mon, 07 Nov 1994 08:49:37 GMT\r\n");
}

static void test_keys_are_disclosed_only_if_allowed(void **state)
{
    (void)state;
    assert_status(get("/v1/check?key=a%22%ff&limit=1/s", ""), 200);
    assert_lacks(get("/v1/check?key=a%22%ff&limit=1/s", ""), "a\\\"");
    world.config.disclose_keys = true;
    const char *reply = get("/v1/check?key=a%22%ff&limit=1/s", "");
    assert_problem(reply, 429,
                   "\"detail\":\"1/s is limited to 1 per 1 s for a\\\"\xef\xbf\xbd\","
                   "\"violated-policies\":[\"1/s\"],\"key\":\"a\\\"\xef\xbf\xbd\",");
}

/* ---- Who may ask ---- */

static void test_password(void **state)
{
    (void)state;
    world.config.password = "open sesame";
    world.config.password_len = 11;
    const char *target = "/v1/check?key=a&limit=10/s";
    static const char *const wrong[] = {
        "",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer open sesam\r\n",
        "Authorization: Bearer open sesamee\r\n",
        "Authorization: Bearer open sesameopen sesame\r\n",
        "Authorization: Basic open sesame\r\n",
        "Authorization: open sesame\r\n",
        "Authorization: Bearer open sesame\r\nAuthorization: Bearer open sesame\r\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *reply = get(target, wrong[i]);
        assert_problem(reply, 401, "wants its password");
        assert_has(reply, "\r\nWWW-Authenticate: Bearer realm=\"weir\"\r\n");
    }
    assert_int_equal(world.counters.auth_failures[PROTOCOL_HTTP], sizeof wrong / sizeof wrong[0]);
    assert_has(get(target, "Authorization: bearer open sesame\r\n"), ";r=9;");
    assert_status(get("/metrics", ""), 401);
    assert_status(get("/nothing", ""), 401);
    assert_status(get("/", ""), 401);
    assert_status(get("/healthz", ""), 200);
}

/* ---- Everything else ---- */

static void test_pages(void **state)
{
    (void)state;
    const char *reply = get("/", "");
    assert_status(reply, 200);
    assert_length(reply);
    assert_has(body_of(reply), "/v1/check?");
    reply = get("/metrics", "");
    assert_has(reply, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    assert_string_equal(body_of(reply), "weir_up 1\n");
    assert_string_equal(body_of(get("/healthz", "")),
                        "ok\nlines: of this server; another one has its own\n");
    world.is_healthy = false;
    reply = get("/healthz", "");
    assert_status(reply, 503);
    assert_string_equal(body_of(reply), "draining\n");
}

static void test_head_has_no_body(void **state)
{
    (void)state;
    const char *reply = request("HEAD /metrics HTTP/1.1\r\n" END);
    assert_status(reply, 200);
    assert_has(reply, "\r\nContent-Length: 10\r\n");
    assert_string_equal(body_of(reply), "");
    reply = request("HEAD /nothing HTTP/1.1\r\n" END);
    assert_status(reply, 404);
    assert_string_equal(body_of(reply), "");
    assert_status(get("/v1/check?key=a&limit=1/s", ""), 200);
    reply = request("HEAD /v1/check?key=a&limit=1/s HTTP/1.1\r\n" END);
    assert_status(reply, 429);
    assert_string_equal(body_of(reply), "");
}

static void test_methods_and_paths(void **state)
{
    (void)state;
    assert_problem(get("/v2/take", ""), 404, "there is no /v2/take; GET / lists what there is");
    assert_problem(get("/v1/check/", ""), 404, "there is no /v1/check/");
    const char *reply = get("/v1/take", "");
    assert_problem(reply, 405, "GET is not a method of /v1/take: it has POST, OPTIONS");
    assert_has(reply, "\r\nAllow: POST, OPTIONS\r\n");
    assert_has(request("DELETE /metrics HTTP/1.1\r\n" END), "\r\nAllow: GET, HEAD, OPTIONS\r\n");
    assert_string_equal(request("OPTIONS /v1/fill HTTP/1.1\r\n" END),
                        "HTTP/1.1 204 No Content\r\n" DATE "Allow: POST, OPTIONS\r\n" NO_STORE
                        "\r\n");
    assert_has(request("OPTIONS * HTTP/1.1\r\n" END), "\r\nAllow: GET, HEAD, POST, OPTIONS\r\n");
    assert_problem(request("BREW / HTTP/1.1\r\n" END), 501, "method");
    assert_problem(request("CONNECT a:1 HTTP/1.1\r\n" END), 501, "method");
}

static void test_bad_bodies(void **state)
{
    (void)state;
    assert_problem(post("/v1/take", "{\"key\":\"a\""), 400, "line 1, column 10: ");
    assert_problem(post("/v1/take", "{\"key\":\"a\",\"limit\":\"10/s\",\"ttl\":1}"), 400,
                   "unknown field \\\"ttl\\\": there are key, limit, cost, wait_ms and vars");
    assert_problem(post("/v1/take", "{\"key\":\"a\",\"limit\":\"10/fortnight\"}"), 400,
                   "the limit, byte 3: ");
    assert_problem(post("/v1/take", "{\"key\":\"a\",\"limit\":\"10/s\",\"cost\":\"1,5\"}"), 400,
                   "\\\"cost\\\", byte 1: ");
    assert_int_equal(state_after, ENGINE_OPEN); // the request was bad, the connection is not
}

static void test_a_bad_request_ends_the_connection(void **state)
{
    (void)state;
    const char *reply = request("GET /v1/check?key=a&limit=10/s HTTP/1.1\r\n" END
                                "GET / HTTP/1.1\nHost: a\n\nGET / HTTP/1.1\r\n" END);
    assert_status(reply, 200);
    const char *second = strstr(reply, "\r\n\r\n") + 4;
    assert_problem(second, 400, "byte 14 of the request: a line must end with CR LF");
    assert_has(second, "\r\nConnection: close\r\n");
    assert_int_equal(state_after, ENGINE_CLOSE);
}

static void test_connections_stay_or_close(void **state)
{
    (void)state;
    assert_lacks(request("GET /healthz HTTP/1.1\r\n" END), "Connection");
    assert_int_equal(state_after, ENGINE_OPEN);
    assert_has(request("GET /healthz HTTP/1.1\r\nConnection: close\r\n" END "GET"),
               "\r\nConnection: close\r\n");
    assert_int_equal(state_after, ENGINE_CLOSE);
    assert_has(request("GET /healthz HTTP/1.0\r\n\r\n"), "\r\nConnection: close\r\n");
    assert_int_equal(state_after, ENGINE_CLOSE);
    assert_has(request("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
               "\r\nConnection: keep-alive\r\n");
    assert_int_equal(state_after, ENGINE_OPEN);
}

#define QUESTION "{\"key\":\"a\",\"limit\":\"10/s\"}" // 26 bytes

static void test_continue_is_said_once_and_in_order(void **state)
{
    (void)state;
    const char *head = "GET /healthz HTTP/1.1\r\n" END "POST /v1/take HTTP/1.1\r\n" HOST
                       "Expect: 100-continue\r\nContent-Length: 26\r\n\r\n";
    const char *reply = request(head);
    assert_status(reply, 200);
    assert_has(reply, "its own\nHTTP/1.1 100 Continue\r\n\r\n");
    world.output.length = 0;
    assert_int_equal(world_feed(&world, "{", 1), ENGINE_OPEN);
    assert_int_equal(world.output.length, 0);
    world_feed(&world, &QUESTION[1], 25);
    buffer_append(&world.output, "", 1);
    assert_has(world.output.at, "HTTP/1.1 200 OK\r\n");
    assert_lacks(world.output.at, "Continue");
    assert_lacks(request("POST /v1/take HTTP/1.1\r\n" HOST
                         "Expect: 100-continue\r\nContent-Length: 26\r\n\r\n" QUESTION),
                 "Continue");
    assert_status(request("POST /v1/take HTTP/1.1\r\n" HOST
                          "Expect: 100-continue\r\nContent-Length: 99999\r\n\r\n"),
                  413);
}

static void test_chunked_questions(void **state)
{
    (void)state;
    assert_has(
        request("POST /v1/take HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                "5\r\n{\"key\r\n15;x=y\r\n\":\"a\",\"limit\":\"10/s\"}\r\n0\r\nT: x\r\n\r\n"),
        "\"remaining\":9,");
}

/* Many requests of all kinds in one read: the replies come in order, and are the same however the
 * bytes arrive. */
static void test_pipelining(void **state)
{
    (void)state;
    struct buffer stream;
    buffer_init(&stream, 1 << 20);
    for (int i = 0; i < 150; i++) {
        buffer_printf(&stream, "GET /v1/check?key=a&limit=100/s&cost=1 HTTP/1.1\r\n" END);
        if (i % 50 == 7) {
            buffer_append_text(&stream,
                               "POST /v1/show HTTP/1.1\r\n" HOST "Content-Length: 27\r\n\r\n"
                               "{\"key\":\"a\",\"limit\":\"100/s\"}GET /x HTTP/1.1\r\n" END);
        }
    }
    assert_int_equal(world_feed(&world, stream.at, stream.length), ENGINE_OPEN);
    assert_int_equal(world.input.length, 0);
    buffer_append(&world.output, "", 1);
    const char *at = world.output.at;
    for (unsigned i = 0; i < 150; i++) {
        char rate[64];
        (void)snprintf(rate, sizeof rate, "RateLimit: \"100/s\";r=%u;", i < 100 ? 99 - i : 0);
        const char *next = strstr(at, "RateLimit: ");
        assert_non_null(next);
        assert_memory_equal(next, rate, strlen(rate));
        at = next + 1;
        if (i % 50 == 7) {
            at = strstr(at, "\"level\":");
            assert_non_null(at);
            at = strstr(at, "HTTP/1.1 404 Not Found\r\n");
            assert_non_null(at);
        }
    }
    struct buffer whole = world.output;
    buffer_init(&world.output, 1 << 24);
    assert_status(post("/v1/reset", "{\"key\":\"a\",\"limit\":\"100/s\"}"), 200);
    world_connect(&world);
    world.output.length = 0;
    for (size_t i = 0; i < stream.length; i++) {
        assert_int_equal(world_feed(&world, stream.at + i, 1), ENGINE_OPEN);
    }
    assert_int_equal(world.output.length, whole.length - 1);
    assert_memory_equal(world.output.at, whole.at, whole.length - 1);
    buffer_fini(&whole);
    buffer_fini(&stream);
    assert_int_equal(world.counters.requests[PROTOCOL_HTTP], 2 * 156 + 1);
    assert_int_equal(world.counters.decisions[PROTOCOL_HTTP][WEIR_ALLOWED], 2 * 103);
    assert_int_equal(world.counters.decisions[PROTOCOL_HTTP][WEIR_LIMITED], 2 * 50);
}

/* Each needs nearly all the room that a request may have, so a batch holds only a few. */
static void test_pipelined_large_questions(void **state)
{
    (void)state;
    enum { COUNT = 8, KEY_BYTES = 60000 };
    struct buffer stream;
    buffer_init(&stream, 1 << 20);
    for (int i = 0; i < COUNT; i++) {
        size_t chunk = KEY_BYTES + 25;
        buffer_printf(&stream,
                      "POST /v1/take HTTP/1.1\r\n" HOST
                      "Transfer-Encoding: chunked\r\n\r\n%zx\r\n{\"limit\":\"10/s\",\"key\":\"",
                      chunk);
        memset(buffer_reserve(&stream, KEY_BYTES), 'k', KEY_BYTES);
        stream.length += KEY_BYTES;
        buffer_append_text(&stream, "\"}\r\n0\r\n\r\n");
    }
    world_feed(&world, stream.at, stream.length);
    buffer_append(&world.output, "", 1);
    for (int left = 9; left > 9 - COUNT; left--) {
        char remaining[32];
        (void)snprintf(remaining, sizeof remaining, "\"remaining\":%d,", left);
        assert_has(world.output.at, remaining);
    }
    buffer_fini(&stream);
}

/* Small requests with large answers stop at ENGINE_OUTPUT_BYTES_PLENTY, and go on afterwards. */
static void test_plenty_of_output_pauses(void **state)
{
    (void)state;
    static const char one[] = "GET / HTTP/1.1\r\n" END;
    struct buffer stream;
    buffer_init(&stream, 1 << 20);
    for (int i = 0; i < 2000; i++) {
        buffer_append(&stream, one, sizeof one - 1);
    }
    struct buffer output;
    buffer_init(&output, 1 << 22);
    size_t used;
    assert_int_equal(HTTP1_ENGINE.feed(world.session, &world.service,
                                       (struct bytes){stream.at, stream.length}, &output, &used),
                     ENGINE_OPEN);
    assert_in_range(output.length, ENGINE_OUTPUT_BYTES_PLENTY, 2 * ENGINE_OUTPUT_BYTES_PLENTY);
    assert_true(used < stream.length);
    assert_int_equal(used % (sizeof one - 1), 0);
    buffer_fini(&output);
    world_feed(&world, stream.at, stream.length);
    assert_int_equal(world.input.length, 0);
    buffer_fini(&stream);
}

/* ---- Waiting in line ---- */

static const char TAKE_K[] = "{\"key\":\"k\",\"limit\":\"1/s\"}";

/* Lets the take go that the world holds. */
static const char *let_go(enum engine_state expected)
{
    world.output.length = 0;
    assert_true(world.wait.is_waiting);
    world.wait.is_waiting = false;
    assert_int_equal(
        HTTP1_ENGINE.resume(world.session, &world.service, world.wait.decisions, &world.output),
        expected);
    assert_int_equal(HTTP1_ENGINE.held_bytes(world.session), 0);
    buffer_append(&world.output, "", 1);
    return world.output.at;
}

static void test_a_take_waits_and_holds_up_what_is_behind_it(void **state)
{
    (void)state;
    static const char behind[] = "GET /healthz HTTP/1.1\r\n" HOST "\r\n";
    char text[1024];
    (void)post("/v1/take", TAKE_K);
    world.wait.holds = true;
    world.config.disclose_keys = true;
    static const char body[] = "{\"key\":\"k\",\"limit\":\"1/s\",\"wait_ms\":1500}";
    (void)snprintf(text, sizeof text,
                   "%sPOST /v1/take HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s%s", behind,
                   strlen(body), body, behind);
    const char *before = request(text);
    assert_int_equal(state_after, ENGINE_WAITING);
    assert_status(before, 200);
    assert_string_equal(body_of(before), "ok\nlines: of this server; another one has its own\n");
    assert_int_equal(world.wait.wait_ns, UINT64_C(1500000000));
    assert_int_equal(world.input.length, strlen(behind));
    assert_true(HTTP1_ENGINE.held_bytes(world.session) > 0);
    const char *reply = let_go(ENGINE_OPEN);
    assert_status(reply, 200);
    assert_length(reply);
    assert_has(reply, "RateLimit-Policy: \"1/s\";q=1;w=1\r\n");
    assert_has(body_of(reply), "{\"verdict\":\"allowed\",\"capacity\":1,");
    world.output.length = 0;
    assert_int_equal(world_feed(&world, "", 0), ENGINE_OPEN);
    assert_int_equal(world.input.length, 0);
}

static void test_a_refusal_after_a_wait_says_what_it_would_have_said_before(void **state)
{
    (void)state;
    (void)post("/v1/take", TAKE_K);
    world.wait.holds = true;
    world.config.disclose_keys = true;
    (void)get("/v1/check?key=k&limit=1/s&wait_ms=1500", "Connection: close\r\n");
    assert_int_equal(state_after, ENGINE_WAITING);
    world.wait.decisions[0].verdict = WEIR_LIMITED;
    world.wait.decisions[0].retry_after_ns = 1;
    const char *reply = let_go(ENGINE_CLOSE);
    assert_problem(reply, 429, "\"detail\":\"1/s is limited to 1 per 1 s for k\"");
    assert_has(reply, "Connection: close\r\n");
}

static void test_an_error_says_why(void **state)
{
    (void)state;
    (void)post("/v1/take", TAKE_K);
    world.wait.holds = true;
    (void)get("/v1/check?key=k&limit=1/s&wait_ms=1500", "");
    world.wait.decisions[0].verdict = WEIR_FAILED;
    world.service.failure = "the server is stopping";
    assert_problem(let_go(ENGINE_OPEN), 503,
                   "\"detail\":\"no decision about 1/s: the server is stopping\"");
    world.service.failure = NULL;
}

static void test_where_nobody_can_wait_that_is_an_error(void **state)
{
    (void)state;
    world.wait.why_not = "nobody can wait here";
    assert_problem(post("/v1/take", "{\"key\":\"k\",\"limit\":\"1/s\",\"wait_ms\":5}"), 501,
                   "\"detail\":\"wait_ms: nobody can wait here\"");
    assert_problem(get("/v1/check?key=k&limit=1/s&wait_ms=5", ""), 501, "nobody can wait here");
    assert_status(get("/v1/check?key=k&limit=1/s&wait_ms=0", ""), 200);
}

static void test_a_wait_that_is_always_too_short_says_so(void **state)
{
    (void)state;
    (void)post("/v1/take", "{\"key\":\"k\",\"limit\":\"queue 1/s\"}");
    world.wait.holds = true;
    (void)get("/v1/check?key=k&limit=queue+1/s&wait_ms=1500", "");
    world.wait.decisions[0].verdict = WEIR_NEVER;
    assert_problem(let_go(ENGINE_OPEN), 429,
                   "the wait is shorter than what an empty line of queue 1/s takes");
}

static void test_who_leaves_while_waiting_leaves_nothing(void **state)
{
    (void)state;
    (void)post("/v1/take", TAKE_K);
    world.wait.holds = true;
    (void)get("/v1/check?key=k&limit=1/s&wait_ms=1500", "");
    assert_int_equal(state_after, ENGINE_WAITING);
    world_connect(&world); // closes the one that waits: the address sanitizer would know
}

static void test_what_cannot_wait_says_so(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1", "86400001", "1.5", "\"5\"", "null", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char body[128];
        (void)snprintf(body, sizeof body, "{\"key\":\"k\",\"limit\":\"1/s\",\"wait_ms\":%s}",
                       bad[i]);
        assert_problem(post("/v1/take", body), 400,
                       "\"wait_ms\\\" must be a whole number from 0 to 86400000 (24 hours)");
    }
    static const char *const bad_query[] = {"", "-1", "86400001", "99999999999999999999", "5s"};
    for (size_t i = 0; i < sizeof bad_query / sizeof bad_query[0]; i++) {
        char target[128];
        (void)snprintf(target, sizeof target, "/v1/check?key=k&limit=1/s&wait_ms=%s", bad_query[i]);
        assert_problem(get(target, ""), 400, "wait_ms must be a whole number from 0 to 86400000");
    }
    assert_problem(post("/v1/fill", "{\"key\":\"k\",\"limit\":\"1/s\",\"wait_ms\":5}"), 400,
                   "has no meaning here: only a take waits");
    assert_status(post("/v1/take", "{\"key\":\"k\",\"limit\":\"1/s\",\"wait_ms\":0}"), 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_take_waits_and_holds_up_what_is_behind_it),
        TEST(test_a_refusal_after_a_wait_says_what_it_would_have_said_before),
        TEST(test_who_leaves_while_waiting_leaves_nothing),
        TEST(test_an_error_says_why),
        TEST(test_where_nobody_can_wait_that_is_an_error),
        TEST(test_a_wait_that_is_always_too_short_says_so),
        TEST(test_what_cannot_wait_says_so),
        TEST(test_take_answers_in_json),
        TEST(test_a_refusal_is_a_problem_with_the_decision_in_it),
        TEST(test_never_is_422_without_retry_after),
        TEST(test_the_other_operations),
        TEST(test_a_full_table_is_503),
        TEST(test_check_allows_by_200),
        TEST(test_check_refuses_by_429),
        TEST(test_a_refusal_names_a_capacity_that_is_not_the_count),
        TEST(test_check_refuses_by_the_status_that_was_chosen),
        TEST(test_check_takes_key_and_cost_from_headers),
        TEST(test_check_decodes_the_query),
        TEST(test_check_answers_every_method),
        TEST(test_check_does_not_read_the_rest),
        TEST(test_check_says_what_is_wrong),
        TEST(test_show_and_reset_have_no_cost),
        TEST(test_by_address_of_the_peer),
        TEST(test_by_address_behind_trusted_proxies),
        TEST(test_by_address_over_a_unix_socket),
        TEST(test_header_presets),
        TEST(test_article_000_gets_its_body),
        TEST(test_policies),
        TEST(test_retry_after_as_a_date),
        TEST(test_keys_are_disclosed_only_if_allowed),
        TEST(test_password),
        TEST(test_pages),
        TEST(test_head_has_no_body),
        TEST(test_methods_and_paths),
        TEST(test_bad_bodies),
        TEST(test_a_bad_request_ends_the_connection),
        TEST(test_connections_stay_or_close),
        TEST(test_continue_is_said_once_and_in_order),
        TEST(test_chunked_questions),
        TEST(test_pipelining),
        TEST(test_pipelined_large_questions),
        TEST(test_plenty_of_output_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
