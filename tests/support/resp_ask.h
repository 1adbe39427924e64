/* SPDX-License-Identifier: MIT
 *
 * Asks a RESP engine, over one connection, and compares what it answers byte for byte.
 *
 *     assert_answer("MULTI\nPING\nEXEC\n", "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n"); */
#ifndef WEIR_TESTS_RESP_ASK_H
#define WEIR_TESTS_RESP_ASK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "resp_world.h"

static struct world world;

static inline int open_world(void **state)
{
    (void)state;
    return resp_world_open(&world, (uint64_t)1 << 20) ? 0 : -1;
}

static inline int close_world(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

/* What is answered to these bytes, as one NUL-terminated text. */
static inline const char *ask_bytes(const char *bytes, size_t length, enum engine_state expected)
{
    world.output.length = 0;
    enum engine_state state = world_feed(&world, bytes, length);
    assert_false(world.output.failed);
    buffer_append(&world.output, "", 1);
    if (state != expected) {
        fail_msg("state %d after: %s", (int)state, world.output.at);
    }
    return world.output.at;
}

static inline const char *ask(const char *text)
{
    return ask_bytes(text, strlen(text), ENGINE_OPEN);
}

static inline void assert_answer(const char *text, const char *answer)
{
    assert_string_equal(ask(text), answer);
}

/* The same when every byte comes by itself. */
static inline void assert_answer_by_bytes(const char *text, size_t length, const char *answer)
{
    size_t answered = 0;
    for (size_t at = 0; at < length; at++) {
        const char *part = ask_bytes(text + at, 1, ENGINE_OPEN);
        assert_memory_equal(part, answer + answered, strlen(part));
        answered += strlen(part);
    }
    assert_int_equal(answered, strlen(answer));
}

static inline void assert_last_answer(const char *text, const char *answer)
{
    assert_string_equal(ask_bytes(text, strlen(text), ENGINE_CLOSE), answer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

#endif
