/* SPDX-License-Identifier: MIT
 *
 * Several limits in one request of HTTP: lists on one key, POST /v1/take_all, and what the header
 * fields and problem details say of them. */
#include "../support/http1_ask.h"

static void assert_reply(const char *reply, unsigned status, const char *body)
{
    char line[64];
    (void)snprintf(line, sizeof line, "HTTP/1.1 %u ", status);
    assert_memory_equal(reply, line, strlen(line));
    assert_string_equal(body_of(reply), body);
    (void)snprintf(line, sizeof line, "\r\nContent-Length: %zu\r\n", strlen(body));
    assert_has(reply, line);
}

/* The whole of why. */
static void assert_detail(const char *reply, unsigned status, const char *detail)
{
    char part[512];
    (void)snprintf(part, sizeof part, "\"detail\":\"%s\"", detail);
    assert_problem(reply, status, part);
}

/* ---- Decisions ---- */

#define BOTH "\"key\":\"k\",\"limit\":[\"2/s\",\"3/min\"]"

static void test_a_list_is_all_or_nothing(void **state)
{
    (void)state;
    assert_reply(post("/v1/take", "{\"key\":\"k\",\"limit\":\"2/s, 3/min\",\"cost\":2}"), 200,
                 "{\"verdict\":\"allowed\",\"capacity\":2,\"remaining\":0,\"retry_after_ns\":-1,"
                 "\"retry_after_ms\":-1,\"reset_after_ns\":1000000000,\"delay_ns\":0,"
                 "\"binding\":-1,\"limits\":[{\"limit\":\"2/"
                 "s\",\"capacity\":2,\"remaining\":0,\"reset_after_ns\":"
                 "1000000000},{\"limit\":\"3/"
                 "min\",\"capacity\":3,\"remaining\":1,\"reset_after_ns\":40000000000}]}\n");
    for (int i = 0; i < 2; i++) {
        assert_reply(
            post("/v1/take", "{" BOTH "}"), 429,
            "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
            "\"title\":\"Quota exceeded\",\"status\":429,"
            "\"detail\":\"2/s is limited to 2 per 1 s\",\"violated-policies\":[\"2/s\"],"
            "\"verdict\":\"limited\",\"capacity\":2,\"remaining\":0,\"retry_after_ns\":500000000,"
            "\"retry_after_ms\":500,\"reset_after_ns\":1000000000,\"delay_ns\":0,"
            "\"binding\":0,\"limits\":[{\"limit\":\"2/"
            "s\",\"capacity\":2,\"remaining\":0,\"reset_after_ns\":"
            "1000000000},{\"limit\":\"3/"
            "min\",\"capacity\":3,\"remaining\":1,\"reset_after_ns\":40000000000}]}\n");
    }
}

static void test_the_detail_is_of_the_limit_that_decided(void **state)
{
    (void)state;
    assert_has(post("/v1/take", "{" BOTH ",\"cost\":2}"), "200 OK");
    world.service.now_ns += 1000000000;
    assert_detail(post("/v1/take", "{" BOTH ",\"cost\":2}"), 429,
                  "3/min is limited to 3 per 1 min");
    const char *reply = post("/v1/take", "{" BOTH ",\"cost\":2.5}");
    assert_detail(reply, 422, "a cost of 2.5 is more than 2/s ever holds");
    assert_lacks(reply, "Retry-After");
    assert_has(reply, "\"violated-policies\":[\"2/s\",\"3/min\"]");
    assert_has(reply, "\"binding\":0");
}

static void test_one_block_decides_for_all(void **state)
{
    (void)state;
    static const char TARGET[] = "/v1/check?key=k&limit=3/min,1/s+block=30s";
    (void)get(TARGET, "");
    (void)get(TARGET, "");
    const char *reply = get(TARGET, "");
    assert_detail(reply, 429, "1/s block=30s is blocked");
    assert_has(reply, "\r\nRetry-After: 30\r\n");
    assert_has(reply, "\r\nRateLimit: \"3/min\";r=2, \"1/s block=30s\";r=0;t=30\r\n");
    assert_has(reply, "\"verdict\":\"blocked\",\"capacity\":1,");
    assert_has(reply, "\"binding\":1");
}

static void test_can_take_charges_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_has(post("/v1/can_take", "{" BOTH ",\"cost\":2}"), "\"remaining\":0,\"retry");
    }
}

static void test_several_keys_each_have_their_limit(void **state)
{
    (void)state;
    assert_has(post("/v1/take_all", "{\"limits\":[{\"key\":\"user:a\",\"limit\":\"2/s\"},"
                                    "{\"key\":\"all\",\"limit\":\"3/min\"}],\"cost\":2}"),
               "\"binding\":-1,\"limits\":[{\"limit\":\"2/"
               "s\",\"capacity\":2,\"remaining\":0,\"reset_after_ns\":"
               "1000000000},{\"limit\":\"3/"
               "min\",\"capacity\":3,\"remaining\":1,\"reset_after_ns\":40000000000}]}\n");
    const char *reply = post("/v1/take_all", "{\"limits\":[{\"key\":\"user:b\",\"limit\":\"2/s\"},"
                                             "{\"key\":\"all\",\"limit\":\"3/min\"}],\"cost\":2}");
    assert_detail(reply, 429, "3/min is limited to 3 per 1 min");
    assert_has(reply, "\r\nRetry-After: 20\r\n");
    assert_has(reply, "\"binding\":1,\"limits\":[{\"limit\":\"2/s\",\"capacity\":2,\"remaining\":2,"
                      "\"reset_after_ns\":0},");
    assert_has(post("/v1/show", "{\"key\":\"user:b\",\"limit\":\"2/s\"}"), "\"level\":\"0\"");
}

static void test_a_single_pair_answers_as_several_do(void **state)
{
    (void)state;
    assert_has(post("/v1/take_all", "{\"limits\":[{\"key\":\"k\",\"limit\":\"1/s\"}]}"),
               "\"binding\":-1,\"limits\":[{\"limit\":\"1/s\",\"capacity\":1,\"remaining\":0,");
    assert_has(post("/v1/take_all", "{\"limits\":[{\"key\":\"k\",\"limit\":\"1/s\"}]}"),
               "\"binding\":0,\"limits\":[{\"limit\":\"1/s\",\"capacity\":1,\"remaining\":0,");
    assert_lacks(post("/v1/take", "{\"key\":\"k\",\"limit\":[\"1/s\"]}"), "binding");
}

static void test_check_is_under_a_list(void **state)
{
    (void)state;
    const char *reply = get("/v1/check?key=k&limit=2/s,+3/min&cost=2", "");
    assert_reply(reply, 200, "");
    assert_has(reply, "\r\nRateLimit-Policy: \"2/s\";q=2;w=1, \"3/min\";q=3;w=60\r\n"
                      "RateLimit: \"2/s\";r=0;t=1, \"3/min\";r=1;t=40\r\n");
    reply = get("/v1/check?key=k&limit=2/s%2c3/min&cost=2", "");
    assert_detail(reply, 429, "3/min is limited to 3 per 1 min");
    assert_has(reply, "\"violated-policies\":[\"2/s\",\"3/min\"]");
    assert_has(reply, "\r\nRetry-After: 20\r\n"
                      "RateLimit-Policy: \"2/s\";q=2;w=1, \"3/min\";q=3;w=60\r\n"
                      "RateLimit: \"2/s\";r=0;t=1, \"3/min\";r=1;t=20\r\n");
}

/* t is when there is more to be had, and Retry-After should not be earlier than any of them. */
static void test_where_one_refuses_the_others_do_not_say_when(void **state)
{
    (void)state;
    (void)get("/v1/check?key=k&limit=2/s,1000/30d&cost=2", "");
    assert_has(get("/v1/check?key=k&limit=2/s,1000/30d", ""),
               "\r\nRetry-After: 1\r\n"
               "RateLimit-Policy: \"2/s\";q=2;w=1, \"1000/30d\";q=1000;w=2592000\r\n"
               "RateLimit: \"2/s\";r=0;t=1, \"1000/30d\";r=998\r\n");
}

static void test_other_presets_show_the_whole(void **state)
{
    (void)state;
    world.config.headers = HEADERS_X_RATELIMIT;
    assert_has(get("/v1/check?key=k&limit=9/s,3/min", ""), "\r\nX-RateLimit-Limit: 3\r\n"
                                                           "X-RateLimit-Remaining: 2\r\n"
                                                           "X-RateLimit-Reset: 20\r\n");
    world.config.headers = HEADERS_RATE_LIMITED;
    (void)get("/v1/check?key=k&limit=9/s,3/min&cost=2", "");
    assert_has(get("/v1/check?key=k&limit=9/s,3/min", ""), "\r\nX-Rate-Limited-For: 20\r\n");
}

static void test_the_key_that_decided_is_disclosed(void **state)
{
    (void)state;
    static const char BODY[] = "{\"limits\":[{\"key\":\"user:a\",\"limit\":\"2/s\"},"
                               "{\"key\":\"all\",\"limit\":\"1/min\"}]}";
    world.config.disclose_keys = true;
    (void)post("/v1/take_all", BODY);
    const char *reply = post("/v1/take_all", BODY);
    assert_detail(reply, 429, "1/min is limited to 1 per 1 min for all");
    assert_has(reply, "\"key\":\"all\"");
    assert_lacks(reply, "user:a");
}

static void test_one_request_counts_once(void **state)
{
    (void)state;
    (void)post("/v1/take", "{" BOTH "}");
    (void)post("/v1/take", "{" BOTH ",\"cost\":2}");
    (void)post("/v1/take", "{" BOTH ",\"cost\":9}");
    assert_int_equal(world.counters.decisions[PROTOCOL_HTTP][WEIR_ALLOWED], 1);
    assert_int_equal(world.counters.decisions[PROTOCOL_HTTP][WEIR_LIMITED], 1);
    assert_int_equal(world.counters.decisions[PROTOCOL_HTTP][WEIR_NEVER], 1);
}

/* ---- Waiting in line ---- */

static void test_several_limits_wait_together(void **state)
{
    (void)state;
    (void)post("/v1/take", "{\"key\":\"k\",\"limit\":\"2/s\",\"cost\":2}");
    world.wait.holds = true;
    (void)post("/v1/take", "{\"key\":\"k\",\"limit\":[\"3/min\",\"2/s\"],\"wait_ms\":1500}");
    assert_int_equal(world.wait.wait_ns, UINT64_C(1500000000));
    assert_true(HTTP1_ENGINE.held_bytes(world.session) > strlen("3/min2/s"));
    const char *reply = let_go(ENGINE_OPEN);
    assert_has(reply, "HTTP/1.1 200 ");
    assert_has(reply, "RateLimit-Policy: \"3/min\";q=3;w=60, \"2/s\";q=2;w=1\r\n");
    assert_has(body_of(reply),
               "\"binding\":-1,\"limits\":[{\"limit\":\"3/min\",\"capacity\":3,\"remaining\":3,");
}

static void test_who_waited_in_vain_hears_which_limit_it_was(void **state)
{
    (void)state;
    (void)post("/v1/take", "{\"key\":\"b\",\"limit\":\"2/s\",\"cost\":2}");
    world.wait.holds = true;
    world.config.disclose_keys = true;
    (void)post("/v1/take_all", "{\"limits\":[{\"key\":\"a\",\"limit\":\"3/min\"},{\"key\":\"b\","
                               "\"limit\":\"2/s\"}],\"wait_ms\":1500}");
    world.wait.decisions[1].verdict = WEIR_LIMITED;
    world.wait.decisions[1].retry_after_ns = 1;
    const char *reply = let_go(ENGINE_OPEN);
    assert_has(reply, "HTTP/1.1 429 ");
    assert_has(reply, "\"detail\":\"2/s is limited to 2 per 1 s for b\"");
    assert_has(body_of(reply), "\"binding\":1,");
}

/* ---- What is wrong ---- */

static void test_says_what_is_wrong_and_charges_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body;
        unsigned status;
        const char *detail;
    } CASES[] = {
        {"/v1/take", "{\"key\":\"k\",\"limit\":\"2/s, 3/x\"}", 400,
         "the limit, byte 7: limit 2 of 2: unknown unit 'x'; one of ns us ms s min h d w"},
        {"/v1/take", "{\"key\":\"k\",\"limit\":[\"2/s\",\" \"]}", 400,
         "the limit, byte 6: limit 2 of 2 is empty"},
        {"/v1/take", "{\"key\":\"k\",\"limit\":[\"2/s\",\"120/min capacity=2\"]}", 400,
         "the limit, byte 5: limit 2 of 2 is limit 1 again, the same bucket twice"},
        {"/v1/take", "{" BOTH ",\"cost\":\"x\"}", 400,
         "\\\"cost\\\", byte 0: expected the cost, not 'x'"},
        {"/v1/take", "{\"key\":\"k\",\"limit\":[\"2/s\",\"sliding 3/min\"],\"cost\":0.5}", 400,
         "the cost: limit 2: this limit counts whole units, so the cost must be a whole number"},
        {"/v1/fill", "{" BOTH "}", 400,
         "several limits: only a take or a can_take is under a list"},
        {"/v1/show", "{" BOTH "}", 400,
         "several limits: only a take or a can_take is under a list"},
        {"/v1/take_all",
         "{\"limits\":[{\"key\":\"k\",\"limit\":\"2/s\"},{\"key\":\"k\",\"limit\":"
         "\"3/x\"}]}",
         400, "limits[1]: \\\"limit\\\", byte 2: unknown unit 'x'; one of ns us ms s min h d w"},
        {"/v1/take_all",
         "{\"limits\":[{\"key\":\"k\",\"limit\":\"2/s\"},{\"key\":\"k\",\"limit\":"
         "\"2/s\"}]}",
         400, "limit 2 is limit 1 again, the same bucket twice"},
        {"/v1/take_all",
         "{\"limits\":[{\"key\":\"k\",\"limit\":\"1/s,2/s,3/s,4/s,5/s,6/s,7/s,8/s\"},"
         "{\"key\":\"k\",\"limit\":\"1/h,2/h,3/h,4/h,5/h,6/h,7/h,8/h,9/h\"}]}",
         400, "limits[1]: that is more than 16 limits together"},
        {"/v1/take", "{\"limit\":\"2/s\"}", 400, "\\\"key\\\" is missing"},
        {"/v1/take_all", "{\"limits\":[{\"key\":\"k\",\"limit\":\"2/s\"},{\"limit\":\"3/s\"}]}",
         400, "limits[1]: \\\"key\\\" is missing"},
        {"/v1/take_all", "{\"limits\":[]}", 400,
         "\\\"limits\\\" has 0 members: it must have 1 to 16"},
        {"/v1/take_all", "{" BOTH "}", 400,
         "unknown field \\\"key\\\": there are limits, cost, wait_ms and vars"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_detail(post(CASES[i].path, CASES[i].body), CASES[i].status, CASES[i].detail);
    }
    assert_has(
        post("/v1/can_take", "{" BOTH ",\"cost\":0}"),
        "\"limits\":[{\"limit\":\"2/s\",\"capacity\":2,\"remaining\":2,\"reset_after_ns\":0},"
        "{\"limit\":\"3/min\",\"capacity\":3,\"remaining\":3,\"reset_after_ns\":0}]}\n");
}

/* Sixteen limits, each as long as a limit may be: everything that is said of them has room. */
static void test_the_longest_list_has_room(void **state)
{
    (void)state;
    char body[8192] = "{\"key\":\"";
    world.config.disclose_keys = true;
    memset(body + strlen(body), '\x7f', 2000); // shown as \u007f
    strcat(body, "\",\"cost\":1,\"limit\":[");
    for (int i = 0; i < 16; i++) {
        size_t length = strlen(body);
        (void)snprintf(body + length, sizeof body - length, "%s\"%d.000001/3h%*scapacity=1.5\"",
                       i > 0 ? "," : "", 100 + i, WEIR_LIMIT_TEXT_MAX - 25, "");
    }
    strcat(body, "]}");
    const char *reply = post("/v1/take", body);
    assert_has(reply, "HTTP/1.1 200 OK");
    assert_has(reply, "/3h");
    reply = post("/v1/take", body);
    assert_has(reply, "HTTP/1.1 429 ");
    assert_has(reply, "\"binding\":");
    assert_string_equal(reply + strlen(reply) - 3, "]}\n");
}

/* ---- Batches ---- */

static void test_a_pipeline_answers_as_one_by_one(void **state)
{
    (void)state;
    static const char *const SHAPES[] = {
        "/v1/check?key=a&limit=5/s,9/min",
        "/v1/check?key=a&limit=5/s",
        "/v1/check?key=b&limit=7/s,8/s,9/s,1/h,2/h,3/h,4/h,5/h,6/h,7/h,8/h,9/h",
        "/v1/check?key=b&limit=7/s,8/x",
    };
    enum { COUNT = 150 };
    char *pipeline = calloc(COUNT, 256);
    char *alone = calloc(COUNT, 8192);
    assert_non_null(pipeline);
    assert_non_null(alone);
    for (int i = 0; i < COUNT; i++) {
        strcat(alone, get(SHAPES[i * 5 % 4], ""));
        char *to = pipeline + strlen(pipeline);
        (void)sprintf(to, "GET %s HTTP/1.1\r\nHost: weir\r\n\r\n", SHAPES[i * 5 % 4]);
    }
    world_close(&world);
    assert_int_equal(setup(NULL), 0);
    assert_string_equal(request(pipeline), alone);
    free(pipeline);
    free(alone);
}

static void test_answers_the_same_in_pieces(void **state)
{
    (void)state;
    static const char BODY[] = "{\"limits\":[{\"key\":\"a\",\"limit\":\"2/s,3/s\"},"
                               "{\"key\":\"b\",\"limit\":[\"2/s\"]}],\"cost\":0}";
    char *whole = strdup(post("/v1/take_all", BODY));
    char text[512];
    assert_non_null(whole);
    int length =
        snprintf(text, sizeof text,
                 "POST /v1/take_all HTTP/1.1\r\nHost: weir\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(BODY), BODY);
    for (int at = 1; at < length; at++) {
        world.output.length = 0;
        (void)world_feed(&world, text, (size_t)at);
        assert_int_equal(world.output.length, 0);
        (void)world_feed(&world, text + at, (size_t)(length - at));
        assert_int_equal(world.output.length, strlen(whole));
        assert_memory_equal(world.output.at, whole, strlen(whole));
    }
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_list_is_all_or_nothing),
        TEST(test_the_detail_is_of_the_limit_that_decided),
        TEST(test_one_block_decides_for_all),
        TEST(test_can_take_charges_nothing),
        TEST(test_several_keys_each_have_their_limit),
        TEST(test_a_single_pair_answers_as_several_do),
        TEST(test_check_is_under_a_list),
        TEST(test_where_one_refuses_the_others_do_not_say_when),
        TEST(test_other_presets_show_the_whole),
        TEST(test_the_key_that_decided_is_disclosed),
        TEST(test_one_request_counts_once),
        TEST(test_several_limits_wait_together),
        TEST(test_who_waited_in_vain_hears_which_limit_it_was),
        TEST(test_says_what_is_wrong_and_charges_nothing),
        TEST(test_the_longest_list_has_room),
        TEST(test_a_pipeline_answers_as_one_by_one),
        TEST(test_answers_the_same_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
