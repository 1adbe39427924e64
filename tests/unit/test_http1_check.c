/* SPDX-License-Identifier: MIT
 *
 * GET /v1/check, as proxies ask it: by key and by address; and what header fields and problem details say of
 * a decision. */
#include "../support/http1_ask.h"

#include <arpa/inet.h>

/* ---- GET /v1/check ---- */

static void test_check_allows_by_200(void **state)
{
    (void)state;
    assert_string_equal(get("/v1/check?key=a&limit=10/s", ""),
                        "HTTP/1.1 200 OK\r\n" DATE "RateLimit-Policy: \"10/s\";q=10;w=1\r\n"
                        "RateLimit: \"10/s\";r=9;t=1\r\n" OF_ALL "Content-Length: 0\r\n\r\n");
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
        {"fixed 7/month", "fixed+7/month", "7 per 1 month\""},
        {"fixed 7/1year", "fixed+7/1year", "7 per 1 year\""},
        {"fixed 7/3month", "fixed+7/3month", "7 per 3 months\""},
        {"fixed 7/11year  block=1s", "fixed+7/11year++block%3d1s", "7 per 11 years\""},
        {"fixed 7/30min", "fixed+7/30min", "7 per 30 min\""},
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
                      "RateLimit: \"10/10s capacity=5\";r=0;t=2\r\n" OF_ALL);
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
        {"/v1/check?key=a&limit=10/s&costs=1", "says 'costs': there are key, by, limit"},
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
                   "HTTP/1.1 200 OK\r\n" DATE "%s" OF_ALL "Content-Length: 0\r\n\r\n", allowed);
    assert_string_equal(get("/v1/check?key=a&limit=10/10s", ""), expected);
    world.service.now_ns = 220 * NS_PER_MS;
    const char *reply = get("/v1/check?key=a&limit=10/10s", "");
    (void)snprintf(expected, sizeof expected,
                   "HTTP/1.1 429 Too Many Requests\r\n" DATE "Retry-After: 1\r\n%s" OF_ALL,
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

/* draft 11: the window is whole seconds, the quota what drains in it, the burst what differs. Of what counts
 * in a period the window is that, and the quota the count. */
static void test_policies(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"10/s", "\"10/s\";q=10;w=1\r\n"},
        {"10/s+capacity=10",
         "\"10/s capacity=10\";q=10;w=1\r\n"}, // the same limit, as it was asked for
        {"10/s+capacity=5", "\"10/s capacity=5\";q=10;w=1;weir-burst=5\r\n"},
        {"10/s+capacity=15", "\"10/s capacity=15\";q=20;w=2;weir-burst=15\r\n"},
        {"1/3s", "\"1/3s\";q=1;w=3\r\n"},
        {"3/s+capacity=1", "\"3/s capacity=1\";q=3;w=1;weir-burst=1\r\n"},
        {"7/3s+capacity=5", "\"7/3s capacity=5\";q=7;w=3;weir-burst=5\r\n"}, // 2.14 s
        {"1000/30d", "\"1000/30d\";q=1000;w=2592000\r\n"},
        {"1000000/us", "\"1000000/us\";q=1000000000000;w=1;weir-burst=1000000\r\n"},
        {"1000000/ns", "\"1000000/ns\";q=999999999999999;w=1;weir-burst=1000000\r\n"},
        {"0.5/min", "\"0.5/min\";q=1;w=120\r\n"},
        {"queue+10/s", "\"queue 10/s\";q=10;w=1\r\n"},
        {"queue+10/s+first=now", "\"queue 10/s first=now\";q=20;w=2;weir-burst=10\r\n"}, // 1.1 s
        {"queue+3/s+capacity=4", "\"queue 3/s capacity=4\";q=6;w=2;weir-burst=4\r\n"},
        {"stepped+10/min", "\"stepped 10/min\";q=10;w=60\r\n"},
        {"stepped+3/10s+capacity=4", "\"stepped 3/10s capacity=4\";q=6;w=20;weir-burst=4\r\n"},
        {"stepped+3/ms+capacity=4", "\"stepped 3/ms capacity=4\";q=3000;w=1;weir-burst=4\r\n"},
        {"window+25/5s", "\"window 25/5s\";q=25;w=5\r\n"},
        {"window+10/1500ms", "\"window 10/1500ms\";q=10;w=2\r\n"},
        {"window+1000000/ns", "\"window 1000000/ns\";q=1000000;w=1\r\n"},
        {"window+1/36525d", "\"window 1/36525d\";q=1;w=3155760000\r\n"},
        {"sliding+100/min", "\"sliding 100/min\";q=100;w=60\r\n"},
        {"sliding+1/1000001us", "\"sliding 1/1000001us\";q=1;w=2\r\n"},
        {"fixed+10/min", "\"fixed 10/min\";q=10;w=60\r\n"},
        {"fixed+2.5/w", "\"fixed 2.5/w\";q=2;w=604800\r\n"},
        {"fixed+0.5/s", "\"fixed 0.5/s\";q=0;w=1\r\n"},
        {"fixed+1000000000000/ns", "\"fixed 1000000000000/ns\";q=1000000000000;w=1\r\n"},
        {"fixed+1000/month", "\"fixed 1000/month\";q=1000;w=2678400\r\n"},
        {"fixed+7/3month", "\"fixed 7/3month\";q=7;w=7948800\r\n"},  // July to September
        {"fixed+7/9month", "\"fixed 7/9month\";q=7;w=23760000\r\n"}, // from April, say
        {"fixed+3/year", "\"fixed 3/year\";q=3;w=31622400\r\n"},
        {"fixed+3/3year", "\"fixed 3/3year\";q=3;w=94694400\r\n"},
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

/* What the three takes of a key say, a second apart, under a limit that lets two through. */
static void assert_says_when(const char *limit, const char *const said[3])
{
    char target[128];
    (void)snprintf(target, sizeof target, "/v1/check?key=when&limit=%s", limit);
    for (uint64_t i = 0; i < 3; i++) {
        world.service.now_ns = i * 1000 * NS_PER_MS;
        assert_has(get(target, ""), said[i]);
    }
}

/* Of all that do not go by the wall clock. */
static void test_every_kind_says_when(void **state)
{
    (void)state;
    assert_says_when("window+2/5s",
                     (const char *const[]){";r=1;t=5\r\n", ";r=0;t=5\r\n", ";r=0;t=3\r\n"});
    assert_says_when("sliding+2/10s",
                     (const char *const[]){";r=1;t=20\r\n", ";r=0;t=19\r\n", ";r=0;t=13\r\n"});
    assert_says_when("stepped+2/5s",
                     (const char *const[]){";r=1;t=5\r\n", ";r=0;t=4\r\n", ";r=0;t=3\r\n"});
    world.config.headers = HEADERS_X_RATELIMIT;
    assert_has(get("/v1/check?key=when&limit=window+2/5s", ""),
               "\r\nRetry-After: 3\r\nX-RateLimit-Limit: 2\r\nX-RateLimit-Remaining: 0\r\n"
               "X-RateLimit-Reset: 4\r\n");
    assert_has(get("/v1/check?key=when&limit=sliding+2/10s", ""),
               "\r\nRetry-After: 13\r\nX-RateLimit-Limit: 2\r\nX-RateLimit-Remaining: 0\r\n"
               "X-RateLimit-Reset: 18\r\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_check_allows_by_200),
        TEST(test_check_refuses_by_429),
        TEST(test_a_refusal_names_a_capacity_that_is_not_the_count),
        TEST(test_check_refuses_by_the_status_that_was_chosen),
        TEST(test_check_takes_key_and_cost_from_headers),
        TEST(test_check_decodes_the_query),
        TEST(test_check_answers_every_method),
        TEST(test_check_does_not_read_the_rest),
        TEST(test_check_says_what_is_wrong),
        TEST(test_by_address_of_the_peer),
        TEST(test_by_address_behind_trusted_proxies),
        TEST(test_by_address_over_a_unix_socket),
        TEST(test_header_presets),
        TEST(test_article_000_gets_its_body),
        TEST(test_policies),
        TEST(test_every_kind_says_when),
        TEST(test_retry_after_as_a_date),
        TEST(test_keys_are_disclosed_only_if_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
