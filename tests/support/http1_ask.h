/* SPDX-License-Identifier: MIT
 *
 * Asks an HTTP engine, each time over a connection of its own, and looks at what comes back.
 *
 *     assert_status(post("/v1/take", "{\"key\":\"a\",\"limit\":\"10/s\"}"), 200);
 *     assert_has(get("/v1/check?key=a&limit=10/s", "Connection: close\r\n"), ";r=8;"); */
#ifndef WEIR_TESTS_HTTP1_ASK_H
#define WEIR_TESTS_HTTP1_ASK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "http1_world.h"

#define DATE      "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define OF_ALL    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
#define HOST      "Host: localhost\r\n"
#define END       HOST "\r\n"
#define NS_PER_MS UINT64_C(1000000)

static struct world world;
static enum engine_state state_after; // of the last request()

static inline int setup(void **state)
{
    (void)state;
    assert_true(http1_world_open(&world, 1 << 20));
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Sends a request over a connection of its own and returns all that comes back. */
static inline const char *request(const char *text)
{
    world_connect(&world);
    world.output.length = 0;
    state_after = world_feed(&world, text, strlen(text));
    buffer_append(&world.output, "", 1);
    assert_false(world.output.failed);
    return world.output.at;
}

/* Lets the take go that the world holds, and returns what comes back. */
static inline const char *let_go(enum engine_state expected)
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

static inline const char *get(const char *target, const char *fields)
{
    char text[16384];
    int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "%s\r\n", target, fields);
    assert_in_range(length, 1, sizeof text - 1);
    return request(text);
}

static inline const char *post(const char *path, const char *body)
{
    char text[16384];
    int length =
        snprintf(text, sizeof text, "POST %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s",
                 path, strlen(body), body);
    assert_in_range(length, 1, sizeof text - 1);
    return request(text);
}

static inline unsigned status_of(const char *reply)
{
    unsigned status = 0;
    assert_int_equal(sscanf(reply, "HTTP/1.1 %3u ", &status), 1);
    return status;
}

static inline const char *body_of(const char *reply)
{
    const char *end = strstr(reply, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static inline void assert_status(const char *reply, unsigned status)
{
    if (status_of(reply) != status) {
        fail_msg("%u expected: %s", status, reply);
    }
}

/* The length that is said is the length that is there. */
static inline void assert_length(const char *reply)
{
    const char *length = strstr(reply, "\r\nContent-Length: ");
    assert_non_null(length);
    assert_int_equal(strtoul(length + 18, NULL, 10), strlen(body_of(reply)));
}

static inline void assert_has(const char *reply, const char *part)
{
    if (strstr(reply, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, reply);
    }
}

static inline void assert_lacks(const char *reply, const char *part)
{
    if (strstr(reply, part) != NULL) {
        fail_msg("\"%s\" is in: %s", part, reply);
    }
}

static inline void assert_problem(const char *reply, unsigned status, const char *detail)
{
    assert_status(reply, status);
    assert_length(reply);
    assert_has(reply, "\r\nContent-Type: application/problem+json\r\n");
    assert_has(body_of(reply), detail);
}

#endif
