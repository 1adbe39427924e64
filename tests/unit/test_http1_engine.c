/* SPDX-License-Identifier: MIT
 *
 * The HTTP engine without a socket: what goes in, what comes out, byte for byte where it matters. What
 * proxies ask is in test_http1_check.c, the order of what one connection asks in test_http1_connection.c. */
#include "../support/http1_ask.h"

/* ---- Decisions in JSON ---- */

static void test_take_answers_in_json(void **state)
{
    (void)state;
    assert_string_equal(
        post("/v1/take", "{\"key\":\"alice\",\"limit\":\"10/s\",\"cost\":2.5}"),
        "HTTP/1.1 200 OK\r\n" DATE "RateLimit-Policy: \"10/s\";q=10;w=1\r\n"
        "RateLimit: \"10/s\";r=7;t=1\r\n" OF_ALL
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
        "RateLimit-Policy: \"25/5s\";q=25;w=5\r\nRateLimit: \"25/5s\";r=0;t=1\r\n" OF_ALL
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
    assert_has(reply, "\"delay_ns\":0,\"level\":\"0\",\"waiting\":0}\n");
    reply = post("/v1/fill", question);
    assert_has(reply, "\"remaining\":1,");
    assert_has(reply, ",\"spill\":\"0\",\"full\":false}\n");
    world.service.now_ns = 1000 * NS_PER_MS;
    reply = post("/v1/fill", question);
    assert_has(reply, "\"remaining\":0,");
    assert_has(reply, ",\"spill\":\"2/3\",\"full\":true}\n");
    world.service.now_ns = 2000 * NS_PER_MS;
    assert_has(post("/v1/show", plain), "\"level\":\"8/3\",\"waiting\":0}\n");
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

/* What there is too little of is said: more events, not more table. */
static void test_a_full_memory_for_events_is_503(void **state)
{
    (void)state;
    world_close(&world);
    assert_true(http1_world_open(&world, WEIR_MEMORY_BYTES_MIN));
    const char *reply = NULL;
    for (int i = 0; i < 1000; i++) {
        char body[64];
        (void)snprintf(body, sizeof body, "{\"key\":\"k%d\",\"limit\":\"window 1/w\"}", i);
        reply = post("/v1/take", body);
        if (status_of(reply) == 503) {
            break;
        }
    }
    assert_problem(reply, 503,
                   "\"detail\":\"no decision about window 1/w: the memory for events is full "
                   "(more: events=), or the table is");
}

static void test_show_and_reset_have_no_cost(void **state)
{
    (void)state;
    const char *body = "{\"key\":\"a\",\"limit\":\"1/s\",\"cost\":1}";
    assert_problem(post("/v1/show", body), 400, "cost");
    assert_problem(post("/v1/reset", body), 400, "cost");
    assert_status(post("/v1/can_take", body), 200);
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

/* ---- Pages, methods and bodies ---- */

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
                        "HTTP/1.1 204 No Content\r\n" DATE "Allow: POST, OPTIONS\r\n" OF_ALL
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_take_answers_in_json),
        TEST(test_a_refusal_is_a_problem_with_the_decision_in_it),
        TEST(test_never_is_422_without_retry_after),
        TEST(test_the_other_operations),
        TEST(test_a_full_table_is_503),
        TEST(test_a_full_memory_for_events_is_503),
        TEST(test_show_and_reset_have_no_cost),
        TEST(test_password),
        TEST(test_pages),
        TEST(test_head_has_no_body),
        TEST(test_methods_and_paths),
        TEST(test_bad_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
