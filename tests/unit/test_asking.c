/* SPDX-License-Identifier: MIT
 *
 * What an engine does while the store is asked: it has changed, written and counted nothing of that batch, and says
 * so. That the answers are the same in the end is the matter of property_late.c and of the late_* tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "../support/http1_world.h"
#include "../support/resp_world.h"

static struct world world;
static size_t used; // by the last feed()

static int open_resp(void **state)
{
    (void)state;
    assert_true(resp_world_open(&world, WEIR_MEMORY_BYTES_MIN));
    world_answer_later(&world, 100, 1);
    return 0;
}

static int open_http(void **state)
{
    (void)state;
    assert_true(http1_world_open(&world, WEIR_MEMORY_BYTES_MIN));
    world_answer_later(&world, 100, 1);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    late_forget(world.late);
    world_close(&world);
    return 0;
}

/* Feeds it once, and expects this state, so many bytes that are done with, and these answers. */
static void assert_feed(const char *input, enum engine_state expected, size_t expected_used,
                        const char *answers)
{
    world.output.length = 0;
    enum engine_state state = world.engine->feed(
        world.session, &world.service, (struct bytes){input, strlen(input)}, &world.output, &used);
    buffer_append(&world.output, "", 1);
    assert_string_equal(world.output.at, answers);
    assert_int_equal(state, expected);
    assert_int_equal(used, expected_used);
}

static void assert_requests(uint64_t requests, uint64_t bad_requests)
{
    enum protocol protocol = world.engine->protocol;
    assert_int_equal(world.counters.requests[protocol], requests);
    assert_int_equal(world.counters.bad_requests[protocol], bad_requests);
}

/* The question that is asked, and then what was asked of the store. */
static void assert_asked(size_t count)
{
    assert_int_equal(world.late->count, count);
}

#define ALLOWED(remaining, reset) "*6\r\n:0\r\n:2\r\n:" remaining "\r\n:-1\r\n:" reset "\r\n:0\r\n"
#define TAKE_A                    "*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na\r\n$3\r\n2/s\r\n"

/* ---- Both ---- */

/* Sends a text so often, and expects that as much of it is done with. */
static void send_often(const char *text, unsigned times, enum engine_state expected, size_t done)
{
    struct buffer input;
    buffer_init(&input, 1 << 20);
    for (unsigned i = 0; i < times; i++) {
        buffer_append_text(&input, text);
    }
    world.output.length = 0;
    world.worked_ns = 0;
    assert_int_equal(world.engine->feed(world.session, &world.service,
                                        (struct bytes){input.at, input.length}, &world.output,
                                        &used),
                     expected);
    assert_int_equal(used, done * strlen(text));
    buffer_fini(&input);
}

/* A connection that has been slow goes in small steps, but not through what it has asked for before. */
static void assert_takes_all_answers(const char *question, const char *other)
{
    send_often(question, 64, ENGINE_ASKING, 0);
    assert_asked(64);
    world.look_ns = 8 * PACE_FEED_NS;
    send_often(other, 17, ENGINE_PAUSED, 16);
    late_answer(world.late, &world.service);
    send_often(question, 64, ENGINE_OPEN, 64);
    assert_int_equal(world.service.answers_left, 0);
}

/* ---- RESP ---- */

static void test_stops_in_front_of_what_is_no_question(void **state)
{
    (void)state;
    assert_feed("PING\n" TAKE_A "NOPE\n", ENGINE_ASKING, 5, "+PONG\r\n");
    assert_asked(1);
    assert_requests(1, 0);
    late_answer(world.late, &world.service);
    assert_feed(TAKE_A "NOPE\n", ENGINE_PAUSED, sizeof TAKE_A - 1, ALLOWED("1", "500000000"));
    assert_requests(2, 0);
    assert_feed("NOPE\n", ENGINE_OPEN, 5,
                "-ERR unknown command 'NOPE', with args beginning with: \r\n");
    assert_requests(3, 1);
}

/* What has come meanwhile is for the next batch. */
static void test_ends_where_the_answers_end(void **state)
{
    (void)state;
    assert_feed(TAKE_A, ENGINE_ASKING, 0, "");
    late_answer(world.late, &world.service);
    assert_feed(TAKE_A TAKE_A, ENGINE_PAUSED, sizeof TAKE_A - 1, ALLOWED("1", "500000000"));
    assert_feed(TAKE_A, ENGINE_ASKING, 0, "");
    late_answer(world.late, &world.service);
    assert_feed(TAKE_A, ENGINE_OPEN, sizeof TAKE_A - 1, ALLOWED("0", "1000000000"));
    assert_requests(2, 0);
}

static void test_takes_all_answers_though_it_is_slow(void **state)
{
    (void)state;
    assert_takes_all_answers(TAKE_A, "*1\r\n$4\r\nPING\r\n");
}

static void test_exec_goes_back_to_where_the_batch_began(void **state)
{
    (void)state;
    world.late->percent = 0;
    (void)world_feed(&world, "MULTI\nPING\nWEIR.TAKE a 2/s\nDEL a b\nPING\n", 41);
    world.late->percent = 100;
    assert_feed("EXEC\nPING\n", ENGINE_ASKING, 0, "*4\r\n+PONG\r\n");
    assert_asked(1);
    assert_requests(6, 0); // EXEC has begun to answer
    late_answer(world.late, &world.service);
    assert_feed("EXEC\nPING\n", ENGINE_PAUSED, 0, ALLOWED("1", "500000000"));
    assert_feed("EXEC\nPING\n", ENGINE_ASKING, 0, "");
    assert_asked(2);
    late_answer(world.late, &world.service);
    assert_feed("EXEC\nPING\n", ENGINE_PAUSED, 0, ":0\r\n");
    assert_feed("EXEC\nPING\n", ENGINE_OPEN, 10, "+PONG\r\n+PONG\r\n");
    assert_requests(7, 0);
}

/* The last answer of a transaction ends it, and the feed. */
static void test_exec_ends_with_its_answers(void **state)
{
    (void)state;
    (void)world_feed(&world, "MULTI\n" TAKE_A, 6 + sizeof TAKE_A - 1);
    assert_feed("EXEC\nPING\n", ENGINE_ASKING, 0, "*1\r\n");
    late_answer(world.late, &world.service);
    assert_feed("EXEC\nPING\n", ENGINE_PAUSED, 5, ALLOWED("1", "500000000"));
    assert_int_equal(world.engine->held_bytes(world.session), 0);
}

/* Eight wrong passwords end the connection, but not before EXEC has answered all. */
static void test_exec_remembers_that_the_connection_ends(void **state)
{
    (void)state;
    world.config.password = "secret";
    world.config.password_len = 6;
    (void)world_feed(&world, "AUTH secret\nMULTI\n", 18);
    for (unsigned i = 0; i < 8; i++) {
        (void)world_feed(&world, "AUTH wrong\n", 11);
    }
    (void)world_feed(&world, TAKE_A, sizeof TAKE_A - 1);
    world.output.length = 0;
    assert_int_equal(world_feed(&world, "EXEC\nPING\n", 10), ENGINE_CLOSE);
    static const char END[] =
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n" //
        ALLOWED("1", "500000000");
    buffer_append(&world.output, "", 1);
    assert_true(world.output.length > sizeof END);
    assert_string_equal(world.output.at + world.output.length - sizeof END, END);
    assert_int_equal(world.counters.auth_failures[PROTOCOL_RESP], 8);
}

static void test_asks_about_many_keys_a_batch_at_a_time(void **state)
{
    (void)state;
    struct buffer text;
    buffer_init(&text, 1 << 20);
    buffer_append_text(&text, "EXISTS");
    for (unsigned i = 0; i < 100; i++) {
        buffer_append_text(&text, " a");
    }
    buffer_append(&text, "\n", 2);
    world.late->percent = 0;
    (void)world_feed(&world, "CL.THROTTLE a 1 1 1\n", 20);
    world.late->percent = 100;
    assert_feed(text.at, ENGINE_ASKING, 0, "");
    assert_asked(64);
    late_answer(world.late, &world.service);
    assert_feed(text.at, ENGINE_PAUSED, 0, "");
    assert_feed(text.at, ENGINE_ASKING, 0, "");
    assert_asked(36);
    assert_requests(1, 0);
    late_answer(world.late, &world.service);
    assert_feed(text.at, ENGINE_OPEN, text.length - 1, ":100\r\n");
    assert_requests(2, 0);
    buffer_fini(&text);
}

/* A take that may wait is no question of a batch: the one before it goes first. */
static void test_waits_behind_the_batch(void **state)
{
    (void)state;
    static const char INPUT[] = TAKE_A "WEIR.TAKE a 2/s COST 2 WAIT 5000\n";
    world.wait.holds = true;
    assert_feed(INPUT, ENGINE_ASKING, 0, "");
    assert_false(world.wait.is_waiting);
    late_answer(world.late, &world.service);
    assert_feed(INPUT, ENGINE_PAUSED, sizeof TAKE_A - 1, ALLOWED("1", "500000000"));
    assert_feed(INPUT + used, ENGINE_WAITING, sizeof INPUT - sizeof TAKE_A, "");
    assert_true(world.wait.is_waiting);
}

/* What can never be read comes after the answers. */
static void test_refuses_behind_the_batch(void **state)
{
    (void)state;
    assert_feed(TAKE_A "*x\r\n", ENGINE_ASKING, 0, "");
    assert_requests(0, 0);
    late_answer(world.late, &world.service);
    assert_feed(TAKE_A "*x\r\n", ENGINE_PAUSED, sizeof TAKE_A - 1, ALLOWED("1", "500000000"));
    assert_feed("*x\r\n", ENGINE_CLOSE, 4, "-ERR Protocol error: invalid multibulk length\r\n");
}

/* ---- HTTP ---- */

#define CHECK "GET /v1/check?key=a&limit=2/s HTTP/1.1\r\nHost: localhost\r\n"
#define RIGHT "Authorization: Bearer secret\r\n"

static void set_password(void)
{
    world.config.password = "secret";
    world.config.password_len = 6;
}

static bool has(const char *part)
{
    return strstr(world.output.at, part) != NULL;
}

static enum engine_state feed_http(const char *input)
{
    world.output.length = 0;
    enum engine_state state = world.engine->feed(
        world.session, &world.service, (struct bytes){input, strlen(input)}, &world.output, &used);
    buffer_append(&world.output, "", 1);
    return state;
}

/* A client that brings the password is known when its request has been answered. */
static void test_puts_the_session_back(void **state)
{
    (void)state;
    static const char INPUT[] = CHECK RIGHT "\r\n";
    set_password();
    assert_feed(INPUT, ENGINE_ASKING, 0, "");
    assert_true(world.engine->is_stranger(world.session, &world.service));
    late_answer(world.late, &world.service);
    assert_int_equal(feed_http(INPUT), ENGINE_OPEN);
    assert_true(has("HTTP/1.1 200 OK"));
    assert_false(world.engine->is_stranger(world.session, &world.service));
}

static void test_counts_a_wrong_password_once(void **state)
{
    (void)state;
    static const char INPUT[] = CHECK RIGHT "\r\n" CHECK "Authorization: Bearer wrong\r\n\r\n";
    const size_t first = sizeof CHECK RIGHT "\r\n" - 1;
    set_password();
    assert_feed(INPUT, ENGINE_ASKING, 0, "");
    assert_int_equal(world.counters.auth_failures[PROTOCOL_HTTP], 0);
    assert_requests(0, 0);
    late_answer(world.late, &world.service);
    assert_int_equal(feed_http(INPUT), ENGINE_PAUSED);
    assert_int_equal(used, first);
    assert_int_equal(feed_http(INPUT + first), ENGINE_CLOSE);
    assert_true(has("HTTP/1.1 401 "));
    assert_int_equal(world.counters.auth_failures[PROTOCOL_HTTP], 1);
    assert_requests(2, 1);
}

/* A body that was asked for before is not asked for again. */
static void test_asks_for_a_body_once(void **state)
{
    (void)state;
    static const char HEAD[] = "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue"
                               "\r\nContent-Length: 25\r\n\r\n";
    static const char BODY[] = "{\"key\":\"a\",\"limit\":\"2/s\"} "; // less the space
    char whole[256];
    (void)snprintf(whole, sizeof whole, "%s%.24s", HEAD, BODY);
    assert_feed(HEAD, ENGINE_OPEN, 0, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_feed(whole, ENGINE_OPEN, 0, "");
    (void)snprintf(whole, sizeof whole, "%s%.25s", HEAD, BODY);
    assert_feed(whole, ENGINE_ASKING, 0, "");
    whole[strlen(whole) - 1] = '\0'; // as if the last byte had not been there
    assert_feed(whole, ENGINE_OPEN, 0, "");
}

static void test_http_takes_all_answers_though_it_is_slow(void **state)
{
    (void)state;
    assert_takes_all_answers(CHECK "\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

/* A take that may wait is decided by the line; those before it by the store, first. */
static void test_http_waits_behind_the_batch(void **state)
{
    (void)state;
    static const char INPUT[] = CHECK "\r\nGET /v1/check?key=a&limit=2/s&cost=2&wait_ms=5000 "
                                      "HTTP/1.1\r\nHost: localhost\r\n\r\n";
    world.wait.holds = true;
    assert_feed(INPUT, ENGINE_ASKING, 0, "");
    assert_asked(1);
    assert_false(world.wait.is_waiting);
    late_answer(world.late, &world.service);
    assert_int_equal(feed_http(INPUT), ENGINE_PAUSED);
    assert_int_equal(used, sizeof CHECK "\r\n" - 1);
    assert_int_equal(feed_http(INPUT + used), ENGINE_WAITING);
    assert_true(world.wait.is_waiting);
}

#define RESP(name) cmocka_unit_test_setup_teardown(name, open_resp, close_world)
#define HTTP(name) cmocka_unit_test_setup_teardown(name, open_http, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESP(test_stops_in_front_of_what_is_no_question),
        RESP(test_ends_where_the_answers_end),
        RESP(test_takes_all_answers_though_it_is_slow),
        RESP(test_exec_goes_back_to_where_the_batch_began),
        RESP(test_exec_ends_with_its_answers),
        RESP(test_exec_remembers_that_the_connection_ends),
        RESP(test_asks_about_many_keys_a_batch_at_a_time),
        RESP(test_waits_behind_the_batch),
        RESP(test_refuses_behind_the_batch),
        HTTP(test_puts_the_session_back),
        HTTP(test_counts_a_wrong_password_once),
        HTTP(test_asks_for_a_body_once),
        HTTP(test_http_takes_all_answers_though_it_is_slow),
        HTTP(test_http_waits_behind_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
