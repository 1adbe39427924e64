/* SPDX-License-Identifier: MIT
 *
 * The clock of a store that hosts share, as far as this server has heard: how late it is there, at least.
 *
 * A waiter may go at an instant of the store's clock. This server sees another clock, its own monotonic one, and hears
 * the store's only in answers. An example, in milliseconds. Both clocks began at different times:
 *
 *     asked at 5000, answered at 5010, and the answer's reading is 800
 *         at 5000 the store's clock was 800 at most; at 5010 it was 800 at least
 *     a waiter may go at 900
 *         so not before 5110 here. At 5110 the store's clock is 900 or later, up to 910
 *
 * Who goes at 5110 goes 10 ms late at most, and never early. Answers that took less time on their way say more: asked
 * at 5060, answered at 5061, reading 859. From then on the waiter may go at 5102.
 *
 * Clocks also differ in their rates. So what this server counts since an answer is reduced by a 512th, 1953 millionths:
 * the kernel turns a clock by 500 millionths at most when it follows NTP by itself, and there are two clocks. Each answer
 * that says more begins anew, so the price is 2 ms for each second in which no answer came.
 *
 * Somebody may set the store's clock back, and a standby's clock may be behind. An answer says so if its reading is
 * earlier than the store's clock was, as far as we knew, when we asked. Then all instants come later from there on: by the
 * new clock. What went before that was right by the time that had passed.
 *
 * All zeroes: nothing was heard. Pure: no I/O, and the caller reads the clock. Threads: single owner. */
#ifndef WEIR_STORE_HEARD_CLOCK_H
#define WEIR_STORE_HEARD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arith.h"

/* The part by which two clocks may differ in their rates. */
enum { HEARD_CLOCK_DRIFT = 512 };

/*   reading_ns  of the store's clock
 *   heard_ns    of our own clock, when that answer came */
struct heard_clock {
    uint64_t reading_ns;
    uint64_t heard_ns;
};

/* What the store's clock shows at least at `own_ns` of ours; 0 if nothing was heard. */
static inline uint64_t heard_clock_now_ns(const struct heard_clock *clock, uint64_t own_ns)
{
    if (clock->reading_ns == 0) {
        return 0;
    }
    if (own_ns < clock->heard_ns) {
        uint64_t before_ns = clock->heard_ns - own_ns;
        before_ns += before_ns / HEARD_CLOCK_DRIFT + 1;
        return clock->reading_ns > before_ns ? clock->reading_ns - before_ns : 0;
    }
    uint64_t since_ns = own_ns - clock->heard_ns;
    uint64_t most_ns = since_ns / HEARD_CLOCK_DRIFT + (since_ns % HEARD_CLOCK_DRIFT != 0);
    return clock->reading_ns + since_ns - most_ns;
}

/* The earliest instant of our clock, not before the last answer came, at which the store's shows `store_ns` at least.
 * Something was heard. */
static inline uint64_t heard_clock_when_ns(const struct heard_clock *clock, uint64_t store_ns)
{
    if (store_ns <= clock->reading_ns) {
        return clock->heard_ns;
    }
    uint128 product = (uint128)(store_ns - clock->reading_ns) * HEARD_CLOCK_DRIFT;
    uint128 since_ns = (product + HEARD_CLOCK_DRIFT - 2) / (HEARD_CLOCK_DRIFT - 1);
    return since_ns < UINT64_MAX - clock->heard_ns ? clock->heard_ns + (uint64_t)since_ns
                                                   : UINT64_MAX;
}

/* An answer.
 *   sent_ns     of our clock, before the question was written
 *   reading_ns  of the store's clock, read between the two others
 *   heard_ns    of our clock, when the answer was read
 * Returns whether the store's clock was set back. */
static inline bool heard_clock_hear(struct heard_clock *clock, uint64_t sent_ns,
                                    uint64_t reading_ns, uint64_t heard_ns)
{
    bool is_back = reading_ns < heard_clock_now_ns(clock, sent_ns);
    if (is_back || reading_ns > heard_clock_now_ns(clock, heard_ns)) {
        *clock = (struct heard_clock){reading_ns, heard_ns};
    }
    return is_back;
}

#endif
