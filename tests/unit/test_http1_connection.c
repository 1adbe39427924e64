/* SPDX-License-Identifier: MIT
 *
 * A connection of HTTP: when it ends, what is pipelined on it, bodies that come in chunks, and takes that
 * wait while others stand behind them. */
#include "../support/http1_ask.h"

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

/* ---- A password ---- */

#define PASSWORD "Authorization: Bearer open sesame\r\n"
#define LOCKED   "POST /v1/take HTTP/1.1\r\n" HOST

static void lock_world(void)
{
    world.config.password = "open sesame";
    world.config.password_len = 11;
}

/* However much of a body is there, and whatever says how long it is, the head decides. */
static void test_nobody_reads_a_body_without_the_password(void **state)
{
    (void)state;
    static const char *const heads[] = {
        LOCKED "Content-Length: 26\r\n\r\n",
        LOCKED "Content-Length: 26\r\n\r\n{\"key\"",
        LOCKED "Content-Length: 26\r\n\r\n" QUESTION,
        LOCKED "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"k",
        LOCKED "Authorization: Bearer open\r\nContent-Length: 65536\r\n\r\n{",
        LOCKED "Expect: 100-continue\r\nContent-Length: 26\r\n\r\n",
        "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 26\r\n\r\n",
        "GET / HTTP/1.1\r\n" END,
    };
    lock_world();
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const char *reply = request(heads[i]);
        assert_problem(reply, 401, "wants its password");
        assert_has(reply, "\r\nConnection: close\r\n");
        assert_int_equal(state_after, ENGINE_CLOSE);
        assert_int_equal(world.input.length, 0);
    }
    assert_int_equal(world.counters.auth_failures[PROTOCOL_HTTP], sizeof heads / sizeof heads[0]);
    assert_int_equal(world.counters.requests[PROTOCOL_HTTP], sizeof heads / sizeof heads[0]);
}

static void test_with_the_password_a_body_may_come_late(void **state)
{
    (void)state;
    lock_world();
    const char *reply =
        request(LOCKED PASSWORD "Expect: 100-continue\r\nContent-Length: 26\r\n\r\n");
    assert_has(reply, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(world_feed(&world, QUESTION, 13), ENGINE_OPEN);
    world.output.length = 0;
    assert_int_equal(world_feed(&world, &QUESTION[13], 13), ENGINE_OPEN);
    buffer_append(&world.output, "", 1);
    assert_has(world.output.at, "HTTP/1.1 200 OK\r\n");
    world.output.length = 0; // the next one has to bring it again
    assert_int_equal(world_feed(&world, LOCKED "Content-Length: 26\r\n\r\n",
                                strlen(LOCKED "Content-Length: 26\r\n\r\n")),
                     ENGINE_CLOSE);
    buffer_append(&world.output, "", 1);
    assert_status(world.output.at, 401);
}

/* What came before it on the same connection is answered first. */
static void test_a_request_without_the_password_ends_a_pipeline(void **state)
{
    (void)state;
    lock_world();
    const char *reply = request("GET /v1/check?key=a&limit=10/s HTTP/1.1\r\n" PASSWORD END LOCKED
                                "Content-Length: 26\r\n\r\n");
    assert_status(reply, 200);
    assert_status(strstr(reply, "\r\n\r\n") + 4, 401);
}

static void test_health_without_the_password_is_told_once(void **state)
{
    (void)state;
    lock_world();
    const char *reply = request("GET /healthz HTTP/1.1\r\n" END "GET /healthz HTTP/1.1\r\n" END);
    assert_status(reply, 200);
    assert_has(reply, "\r\nConnection: close\r\n");
    assert_int_equal(state_after, ENGINE_CLOSE);
    assert_lacks(body_of(reply), "HTTP/1.1");
    assert_lacks(request("GET /healthz HTTP/1.1\r\n" PASSWORD END "GET /healthz HTTP/1.1\r\n" END),
                 "Connection");
    assert_int_equal(state_after, ENGINE_OPEN);
}

/* ---- Chunks ---- */

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
    world_answer_at_once(&world);
    assert_int_equal(HTTP1_ENGINE.feed(world.session, &world.service,
                                       (struct bytes){stream.at, stream.length}, &output, &used),
                     ENGINE_PAUSED);
    assert_in_range(output.length, ENGINE_OUTPUT_BYTES_PLENTY, 2 * ENGINE_OUTPUT_BYTES_PLENTY);
    assert_true(used < stream.length);
    assert_int_equal(used % (sizeof one - 1), 0);
    buffer_fini(&output);
    world_feed(&world, stream.at, stream.length);
    assert_int_equal(world.input.length, 0);
    buffer_fini(&stream);
}

static void append_check(struct buffer *stream, const char *limit, unsigned i)
{
    buffer_printf(stream, "GET /v1/check?key=k%u&limit=%s HTTP/1.1\r\n" END, i % 10, limit);
}

/* Nor does a pipeline of what takes long hold up others, whatever it is. */
static void test_long_work_pauses(void **state)
{
    (void)state;
    static const struct {
        const char *limit;
        unsigned count;
    } CASES[] = {{"300/s", 64}, {"window+40000/h", 7}, {"window+1000000/h", 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct buffer stream;
        struct buffer output;
        buffer_init(&stream, 1 << 20);
        buffer_init(&output, 1 << 22);
        for (unsigned n = 0; n < 200; n++) {
            append_check(&stream, CASES[i].limit, n);
        }
        size_t used;
        world_connect(&world);
        world_answer_at_once(&world);
        world.look_ns = PACE_FEED_NS;
        world.worked_ns = 0;
        assert_int_equal(HTTP1_ENGINE.feed(world.session, &world.service,
                                           (struct bytes){stream.at, stream.length}, &output,
                                           &used),
                         ENGINE_PAUSED);
        assert_int_equal(used, stream.length / 200 * CASES[i].count);
        world_connect(&world);
        assert_int_equal(world_feed(&world, stream.at, stream.length), ENGINE_OPEN);
        assert_int_equal(world.input.length, 0);
        buffer_append(&world.output, "", 1);
        unsigned count = 0;
        for (const char *at = world.output.at; (at = strstr(at, "HTTP/1.1 200 OK")) != NULL; at++) {
            count++;
        }
        assert_int_equal(count, 200);
        buffer_fini(&output);
        buffer_fini(&stream);
    }
}

/* ---- Waiting in line ---- */

static const char TAKE_K[] = "{\"key\":\"k\",\"limit\":\"1/s\"}";

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_take_waits_and_holds_up_what_is_behind_it),
        TEST(test_a_refusal_after_a_wait_says_what_it_would_have_said_before),
        TEST(test_who_leaves_while_waiting_leaves_nothing),
        TEST(test_an_error_says_why),
        TEST(test_a_wait_that_is_always_too_short_says_so),
        TEST(test_what_cannot_wait_says_so),
        TEST(test_a_bad_request_ends_the_connection),
        TEST(test_connections_stay_or_close),
        TEST(test_continue_is_said_once_and_in_order),
        TEST(test_nobody_reads_a_body_without_the_password),
        TEST(test_with_the_password_a_body_may_come_late),
        TEST(test_a_request_without_the_password_ends_a_pipeline),
        TEST(test_health_without_the_password_is_told_once),
        TEST(test_chunked_questions),
        TEST(test_pipelining),
        TEST(test_pipelined_large_questions),
        TEST(test_plenty_of_output_pauses),
        TEST(test_long_work_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
