/* SPDX-License-Identifier: MIT
 *
 * A clock that stands still at 0 until somebody moves it, and moves forwards only: for tests of
 * whatever lives by the server's time. */
#ifndef WEIR_SERVER_TEST_CLOCK_H
#define WEIR_SERVER_TEST_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "weir/bucket.h"

/* Shared word  Written by            Order    Pairs with
 * now_ns       any thread, by CAS    seq_cst  itself; a test moves it now and then, speed is none
 *                                             of its business
 * All zeroes stands at 0. */
struct test_clock {
    _Atomic uint64_t now_ns;
};

static inline uint64_t test_clock_now_ns(struct test_clock *clock)
{
    return atomic_load_explicit(&clock->now_ns, memory_order_seq_cst);
}

/* False, and the clock stays, if that would be backwards or beyond WEIR_NOW_NS_MAX. */
static inline bool test_clock_set(struct test_clock *clock, uint64_t now_ns)
{
    uint64_t before = test_clock_now_ns(clock);
    do {
        if (now_ns < before || now_ns > WEIR_NOW_NS_MAX) {
            return false;
        }
    } while (!atomic_compare_exchange_strong_explicit(&clock->now_ns, &before, now_ns,
                                                      memory_order_seq_cst, memory_order_seq_cst));
    return true;
}

#endif
