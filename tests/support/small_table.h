/* SPDX-License-Identifier: MIT
 *
 * A table over the test's own memory, so small that a test says where each key lies, and fills it with a
 * few.
 *
 *     struct small *small = open_small(2, "1/s capacity=5"); // four slots, in two lines
 *     ... table_decide_hash(&small->table, &request, hash_at(0, 1, 1), now_ns) ...
 *     free(small); */
#ifndef WEIR_TESTS_SMALL_TABLE_H
#define WEIR_TESTS_SMALL_TABLE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "store/table/inside.h"

enum { RING = 256, CHUNKS = 1024 }; // lines of a stripe, as many as can be probed; chunks: the most

struct small {
    struct table table;
    struct stripe stripes[2];
    struct table_line lines[2 * RING];
    struct weir_rule rule; // for a test that asks about one
    char events[(CHUNKS + 1) * CHUNK_BYTES] __attribute__((aligned(64)));
};

/* A rule of no limiter. */
static inline struct weir_rule small_rule(const char *text)
{
    struct weir_rule rule = {.hash_key = {1, 2}};
    struct weir_error error;
    if (weir_limit_from_text(&rule.limit, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return rule;
}

static inline struct small *open_stripes(uint64_t stripe_count, uint64_t line_count,
                                         const char *limit)
{
    struct small *small = aligned_alloc(128, (sizeof *small + 127) / 128 * 128);
    assert_non_null(small);
    memset(small, 0, sizeof *small);
    table_init(&small->table, small->lines, small->stripes, stripe_count, line_count);
    if (limit != NULL) {
        small->rule = small_rule(limit);
    }
    return small;
}

/* One stripe of so many lines, for hash_at(); no room for events. `limit` may be NULL. */
static inline struct small *open_small(uint64_t line_count, const char *limit)
{
    return open_stripes(1, line_count, limit);
}

/* Two stripes of so many lines, for hash_of(), and so many chunks of events. `limit` may be NULL. */
static inline struct small *open_small_pool(uint64_t line_count, uint64_t chunk_count,
                                            const char *limit)
{
    struct small *small = open_stripes(2, line_count, limit);
    event_pool_place(&small->table.events, small->events, (chunk_count + 1) * CHUNK_BYTES,
                     &small->table.members);
    return small;
}

/* A hash whose home is this line; keys of one number and different lines are different keys. */
static inline uint64_t hash_at(uint64_t line, uint64_t number, uint64_t owner)
{
    return number << 32 | owner << 16 | line;
}

/* A key of a stripe: even numbers are of the first one. */
static inline uint64_t hash_of(uint64_t number)
{
    return number << 63 | hash_at(number / 2 % RING, number / 2 + 1, number / 2 + 1);
}

static inline uint64_t used_chunks(const struct small *small)
{
    return event_pool_used_count(&small->table.events);
}

static inline void assert_same(const struct weir_decision *a, const struct weir_decision *b)
{
    assert_int_equal(a->verdict, b->verdict);
    assert_int_equal(a->capacity, b->capacity);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
}

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; // xorshift64, G. Marsaglia, 2003
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
