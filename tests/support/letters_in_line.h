/* SPDX-License-Identifier: MIT
 *
 * A shaper whose items are letters, at instants of the test's own.
 *
 *     open_with("queue 10/s capacity=3", WEIR_OVERFLOW_REFUSE, 0);
 *     submit('a', 1, 0, 100 * MS); // goes 100 ms later
 *     assert_pops('a', 100 * MS, 100 * MS); */
#ifndef WEIR_TESTS_LETTERS_IN_LINE_H
#define WEIR_TESTS_LETTERS_IN_LINE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "weir/weir.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct weir_limit limit;
static struct weir_shaper *shaper;

/* What the callbacks were told. */
static struct {
    void *items[64];
    size_t count;
    _Atomic int sooner_count;
} told;

static inline void note_dropped(void *context, void *item, uint64_t ticket)
{
    assert_ptr_equal(context, &told);
    assert_int_not_equal(ticket, 0);
    told.items[told.count++ % 64] = item;
}

static inline void note_sooner(void *context)
{
    assert_ptr_equal(context, &told);
    told.sooner_count++;
}

static inline void open_with(const char *text, enum weir_overflow overflow, uint32_t items_max)
{
    struct weir_shaper_config config = {.overflow = overflow,
                                        .items_max = items_max,
                                        .dropped = note_dropped,
                                        .sooner = note_sooner,
                                        .context = &told};
    memset(&told, 0, sizeof told);
    assert_int_equal(weir_limit_from_text(&limit, text, NULL), WEIR_OK);
    assert_int_equal(weir_shaper_open(&shaper, &limit, &config, NULL), WEIR_OK);
}

static inline int close_shaper(void **state)
{
    (void)state;
    weir_shaper_close(shaper);
    shaper = NULL;
    return 0;
}

/* Items are letters. */
static char letters[128];

static inline void *item_of(char letter)
{
    return &letters[(unsigned char)letter];
}

static inline char letter_of(const void *item)
{
    return (char)((const char *)item - letters);
}

static inline uint64_t submit(char letter, uint64_t cost, uint64_t now_ns, uint64_t egress_ns)
{
    struct weir_submitted submitted =
        weir_shaper_submit(shaper, item_of(letter), cost * WEIR_UNIT, now_ns);
    assert_int_equal(submitted.decision.verdict, WEIR_ALLOWED);
    assert_int_not_equal(submitted.ticket, 0);
    assert_int_equal(submitted.egress_ns, egress_ns);
    assert_int_equal(submitted.decision.delay_ns, egress_ns - now_ns);
    return submitted.ticket;
}

static inline void assert_refused(uint64_t cost, uint64_t now_ns, uint64_t retry_after_ns)
{
    struct weir_submitted submitted =
        weir_shaper_submit(shaper, item_of('!'), cost * WEIR_UNIT, now_ns);
    assert_int_equal(submitted.decision.verdict, WEIR_LIMITED);
    assert_int_equal(submitted.decision.retry_after_ns, retry_after_ns);
    assert_int_equal(submitted.decision.delay_ns, 0);
    assert_int_equal(submitted.ticket, 0);
    assert_true(submitted.egress_ns == UINT64_MAX);
}

static inline void assert_pops(char letter, uint64_t now_ns, uint64_t egress_ns)
{
    struct weir_released released = {0};
    assert_true(weir_shaper_pop(shaper, now_ns, &released));
    assert_int_equal(letter_of(released.item), letter);
    assert_int_equal(released.egress_ns, egress_ns);
}

static inline void assert_nothing_due(uint64_t now_ns)
{
    struct weir_released released;
    assert_false(weir_shaper_pop(shaper, now_ns, &released));
}

/* Pops each at its own instant, and the line ends there. */
static inline void assert_leaves_as(const char *order, const uint64_t *egress_ns)
{
    for (size_t i = 0; order[i] != '\0'; i++) {
        assert_int_equal(weir_shaper_next_ns(shaper), egress_ns[i]);
        assert_nothing_due(egress_ns[i] - 1);
        assert_pops(order[i], egress_ns[i], egress_ns[i]);
    }
    assert_true(weir_shaper_next_ns(shaper) == UINT64_MAX);
}

static inline struct weir_shaper_stats stats_of(void)
{
    struct weir_shaper_stats stats;
    weir_shaper_read_stats(shaper, &stats);
    return stats;
}

/* A test that leaves its shaper to be closed. */
#define SHAPER_TEST(test) cmocka_unit_test_teardown(test, close_shaper)

#endif
