/* SPDX-License-Identifier: MIT
 *
 * What `weir bench` sends, and when: requests, their instants, their keys. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "cli/bench/load.h"
#include "cli/bench/schedule.h"
#include "cli/bench/zipf.h"

static struct load_config config_of(enum load_protocol protocol, enum load_command command,
                                    const char *limit)
{
    struct load_config config = {.protocol = protocol, .command = command, .limit = limit};
    assert_int_equal(weir_limit_parse(&config.limit_config, limit, strlen(limit), NULL), WEIR_OK);
    return config;
}

static void sends(const struct load_config *config, uint64_t key_index, const char *expected)
{
    char problem[LOAD_PROBLEM_MAX];
    struct load load;
    struct buffer output;
    assert_true(load_init(&load, config, problem));
    buffer_init(&output, 2 * LOAD_REQUEST_BYTES_MAX);
    load_append(&load, key_index, &output);
    assert_int_equal(output.length, strlen(expected));
    assert_memory_equal(output.at, expected, output.length);
    buffer_fini(&output);
}

static void requests_of_resp(void **state)
{
    (void)state;
    struct load_config config = config_of(LOAD_RESP, LOAD_TAKE, "10/s");
    sends(&config, 42, "*3\r\n$9\r\nWEIR.TAKE\r\n$15\r\nbench:000000042\r\n$4\r\n10/s\r\n");
    config.cost = "2.5";
    sends(&config, 999999999,
          "*5\r\n$9\r\nWEIR.TAKE\r\n$15\r\nbench:999999999\r\n$4\r\n10/s\r\n$4\r\nCOST\r\n"
          "$3\r\n2.5\r\n");
    config = config_of(LOAD_RESP, LOAD_THROTTLE, "10/min capacity=16");
    sends(&config, 0,
          "*5\r\n$11\r\nCL.THROTTLE\r\n$15\r\nbench:000000000\r\n$2\r\n15\r\n$2\r\n10\r\n$2\r\n60"
          "\r\n");
    config = config_of(LOAD_RESP, LOAD_PING, "10/s");
    sends(&config, 7, "*1\r\n$4\r\nPING\r\n");
}

static void requests_of_http(void **state)
{
    (void)state;
    struct load_config config = config_of(LOAD_HTTP, LOAD_TAKE, "10/s");
    sends(&config, 42,
          "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
          "Content-Length: 40\r\n\r\n{\"key\":\"bench:000000042\",\"limit\":\"10/s\"}");
    config = config_of(LOAD_HTTP, LOAD_CHECK, "10/s capacity=3");
    config.cost = "2";
    config.password = (struct bytes){"secret", 6};
    sends(&config, 1,
          "GET /v1/check?key=bench:000000001&limit=10/s+capacity=3&cost=2 HTTP/1.1\r\n"
          "Host: localhost\r\nAuthorization: Bearer secret\r\n\r\n");
    config = config_of(LOAD_HTTP, LOAD_PING, "10/s");
    sends(&config, 1, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

static void what_a_protocol_cannot_say_is_refused(void **state)
{
    (void)state;
    char problem[LOAD_PROBLEM_MAX];
    struct load load;
    struct load_config config = config_of(LOAD_HTTP, LOAD_THROTTLE, "10/s");
    assert_false(load_init(&load, &config, problem));
    assert_string_equal(problem, "there is no throttle over HTTP");
    config = config_of(LOAD_RESP, LOAD_CHECK, "10/s");
    assert_false(load_init(&load, &config, problem));
    config = config_of(LOAD_RESP, LOAD_THROTTLE, "10/500ms");
    assert_false(load_init(&load, &config, problem));
    config = config_of(LOAD_RESP, LOAD_THROTTLE, "10/s capacity=1.5");
    assert_false(load_init(&load, &config, problem));
    static const enum load_command OF_ONE[] = {LOAD_FILL, LOAD_REFUND, LOAD_SHOW, LOAD_THROTTLE};
    for (size_t i = 0; i < sizeof OF_ONE / sizeof OF_ONE[0]; i++) {
        config = config_of(LOAD_RESP, OF_ONE[i], "10/s");
        config.limit_count = 2;
        assert_false(load_init(&load, &config, problem));
        assert_string_equal(problem,
                            "one limit at a time: only take, can-take and check are under several");
    }
}

static void answers(enum load_protocol protocol, enum load_command command, const char *reply,
                    enum load_verdict expected)
{
    const struct load load = {.protocol = protocol, .command = command};
    enum load_verdict verdict;
    struct bytes text;
    size_t used;
    for (size_t cut = 0; cut < strlen(reply); cut++) {
        assert_int_equal(load_read(&load, (struct bytes){reply, cut}, &verdict, &text, &used),
                         LOAD_MORE);
    }
    struct bytes whole = {reply, strlen(reply)};
    assert_int_equal(load_read(&load, whole, &verdict, &text, &used), LOAD_DONE);
    assert_int_equal(verdict, expected);
    assert_int_equal(used, strlen(reply));
}

static void replies_become_verdicts(void **state)
{
    (void)state;
    answers(LOAD_RESP, LOAD_TAKE, "*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:9\r\n:0\r\n", LOAD_ALLOWED);
    answers(LOAD_RESP, LOAD_TAKE, "*6\r\n:1\r\n:1\r\n:0\r\n:7\r\n:9\r\n:0\r\n", LOAD_LIMITED);
    answers(LOAD_RESP, LOAD_THROTTLE, "*5\r\n:1\r\n:1\r\n:0\r\n:7\r\n:9\r\n", LOAD_LIMITED);
    answers(LOAD_RESP, LOAD_TAKE, "-ERR no\r\n", LOAD_FAILED);
    answers(LOAD_RESP, LOAD_PING, "+PONG\r\n", LOAD_PLAIN);
    answers(LOAD_HTTP, LOAD_TAKE, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", LOAD_ALLOWED);
    answers(LOAD_HTTP, LOAD_TAKE,
            "HTTP/1.1 429 Too Many Requests\r\nA: b\r\ncontent-length:3\r\n\r\n{ }", LOAD_LIMITED);
    answers(LOAD_HTTP, LOAD_TAKE, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n", LOAD_NEVER);
    answers(LOAD_HTTP, LOAD_TAKE, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", LOAD_FAILED);
    answers(LOAD_HTTP, LOAD_CHECK, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", LOAD_LIMITED);
    answers(LOAD_HTTP, LOAD_CHECK, "HTTP/1.1 204 No Content\r\n\r\n", LOAD_ALLOWED);
    answers(LOAD_HTTP, LOAD_PING, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", LOAD_PLAIN);
}

static void what_is_no_reply_is_bad(void **state)
{
    (void)state;
    const struct load http = {.protocol = LOAD_HTTP};
    const struct load resp = {.protocol = LOAD_RESP};
    enum load_verdict verdict;
    struct bytes text;
    size_t used;
    assert_int_equal(load_read(&http, (struct bytes){"+PONG", 5}, &verdict, &text, &used),
                     LOAD_BAD);
    assert_int_equal(load_read(&resp, (struct bytes){"HTTP\r\n", 6}, &verdict, &text, &used),
                     LOAD_BAD);
    static const char HUGE[] = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
    assert_int_equal(
        load_read(&http, (struct bytes){HUGE, sizeof HUGE - 1}, &verdict, &text, &used), LOAD_BAD);
}

/* Three workers together send request i at exactly ceil(i * 1/7 us) ns. */
static void instants_are_exact_and_shared(void **state)
{
    (void)state;
    struct weir_limit_config rate;
    assert_int_equal(weir_limit_parse(&rate, "7/us", 4, NULL), WEIR_OK);
    for (uint64_t worker = 0; worker < 3; worker++) {
        struct schedule schedule;
        schedule_init(&schedule, &rate, worker, 3);
        for (uint64_t i = worker; i < 100000; i += 3) {
            assert_true(span_ceil_ns(schedule.due) == (i * 1000 + 6) / 7);
            schedule_advance(&schedule);
        }
    }
}

enum { DRAW_COUNT = 200000, RANK_COUNT = 50 };

/* How often each rank is drawn, against how often it should be; five standard deviations. */
static void ranks_follow(double skew, const double weights[RANK_COUNT])
{
    struct zipf zipf;
    uint64_t drawn[RANK_COUNT] = {0};
    uint64_t random = 1; // always the same
    double sum = 0;
    zipf_init(&zipf, RANK_COUNT, skew);
    for (int i = 0; i < DRAW_COUNT; i++) {
        uint64_t rank = zipf_next(&zipf, &random);
        assert_true(rank < RANK_COUNT);
        drawn[rank]++;
    }
    for (int i = 0; i < RANK_COUNT; i++) {
        sum += weights[i];
    }
    for (int i = 0; i < RANK_COUNT; i++) {
        double expected = DRAW_COUNT * weights[i] / sum;
        double off = (double)drawn[i] - expected;
        assert_true(off * off < 25 * expected);
    }
}

static void keys_follow_the_skew(void **state)
{
    (void)state;
    double equal[RANK_COUNT];
    double harmonic[RANK_COUNT];
    double squares[RANK_COUNT];
    for (int i = 0; i < RANK_COUNT; i++) {
        equal[i] = 1.0;
        harmonic[i] = 1.0 / (i + 1);
        squares[i] = 1.0 / ((double)(i + 1) * (i + 1));
    }
    ranks_follow(0.0, equal);
    ranks_follow(1.0, harmonic);
    ranks_follow(2.0, squares);
}

static void one_key_and_many_keys_stay_in_range(void **state)
{
    (void)state;
    static const double SKEWS[] = {0.0, 0.5, 0.99, 1.0, 1.5, 10.0};
    static const uint64_t COUNTS[] = {1, 2, 3, LOAD_KEY_COUNT_MAX};
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof SKEWS / sizeof SKEWS[0]; i++) {
        for (size_t j = 0; j < sizeof COUNTS / sizeof COUNTS[0]; j++) {
            struct zipf zipf;
            zipf_init(&zipf, COUNTS[j], SKEWS[i]);
            for (int draw = 0; draw < 2000; draw++) {
                assert_true(zipf_next(&zipf, &random) < COUNTS[j]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_resp),
        cmocka_unit_test(requests_of_http),
        cmocka_unit_test(what_a_protocol_cannot_say_is_refused),
        cmocka_unit_test(replies_become_verdicts),
        cmocka_unit_test(what_is_no_reply_is_bad),
        cmocka_unit_test(instants_are_exact_and_shared),
        cmocka_unit_test(keys_follow_the_skew),
        cmocka_unit_test(one_key_and_many_keys_stay_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
