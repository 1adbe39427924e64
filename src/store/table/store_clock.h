/* SPDX-License-Identifier: MIT
 *
 * What time it is for the buckets of a store.
 *
 * In memory that is CLOCK_BOOTTIME, as weir/clock.h reads it. A file outlives that clock, which starts
 * again from 0 with the machine: so the file has an offset to it, and the pair (store time, wall time),
 * which any user of the file renews about once a second. After a reboot time goes on at the store time
 * of the pair, and as much later as the wall clock has moved since, if it has; never backwards.
 *
 *  Shared word  Written by                              Order    Pairs with
 *  last         any user, by compare-and-swap           full     itself: both halves change together
 *  offset_ns    the first user after a reboot, under    release  the file's `home`, which is written
 *               the file's lock                                  after it
 *  flushed_ns   any user, by compare-and-swap           full     itself
 *  Price of the races: a reading is as old as the thread's own (weir/clock.h); a pair that is a second
 *  old when the machine stops costs nothing, because the wall clock goes on. */
#ifndef WEIR_STORE_TABLE_STORE_CLOCK_H
#define WEIR_STORE_TABLE_STORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/mapping.h"
#include "sync/atomic.h"
#include "weir/clock.h"

#define STORE_CLOCK_RENEW_NS UINT64_C(1000000000)

/* The part that lies in the file.
 *   last        16 bytes that change at once, so a bucket: empty_at_ns is a store time, word the wall
 *               time of the same instant, nanoseconds since 1970
 *   offset_ns   what is added to CLOCK_BOOTTIME, modulo 2^64
 *   flushed_ns  the store time at which the file was last written to the disk on purpose */
struct shared_time {
    struct weir_bucket last;
    uint64_t offset_ns;
    uint64_t flushed_ns;
} __attribute__((aligned(16)));

/*   shared          NULL: CLOCK_BOOTTIME as it is
 *   bias_ns         what is added to this process's CLOCK_BOOTTIME to get the machine's, modulo 2^64: not 0
 *                   in a time namespace
 *   flush_every_ns  how often a renewal writes `flushed` to its disk; 0: never */
struct store_clock {
    struct shared_time *shared;
    uint64_t bias_ns;
    struct mapping flushed;
    uint64_t flush_every_ns;
};

/* Starts the time of a new file: as CLOCK_BOOTTIME has it. */
void store_clock_start(struct store_clock *clock);

/* Goes on after a reboot, or after the clock went back: no two processes at once. */
void store_clock_resume(struct store_clock *clock);

/* True if this machine's clock has not gone back behind the file's: it does when a virtual machine is
 * set back to an earlier state and its disk is not. */
bool store_clock_goes_on(const struct store_clock *clock);

/* Renews the pair, and flushes what is due. Never blocks but for a flush. */
void store_clock_renew(const struct store_clock *clock, uint64_t now_ns);

/* How far UTC is ahead of the clock, modulo 2^64, and how exactly that is known: the two were not read at one
 * instant but within `noise_ns`. */
struct utc_reading {
    uint64_t offset_ns;
    uint64_t noise_ns;
};

struct utc_reading store_clock_read_utc(const struct store_clock *clock);

/* The offset to go on with. Both clocks are slewed alike, so it changes only when the wall clock is set: less
 * than UTC_STEP_NS is noise, and a reading that is noisier than that says nothing. */
#define UTC_STEP_NS UINT64_C(1000000)
uint64_t utc_settle(uint64_t offset_ns, struct utc_reading reading);

static inline uint64_t store_clock_now_ns(const struct store_clock *clock)
{
    uint64_t now_ns = weir_clock_now_ns();
    if (clock->shared != NULL) {
        /* Relaxed: whoever reads an older one sees an older time. */
        now_ns += clock->bias_ns + load_relaxed(&clock->shared->offset_ns);
        /* Relaxed: one half of the pair, to see if it is due. */
        if (now_ns > load_relaxed(&clock->shared->last.empty_at_ns) + STORE_CLOCK_RENEW_NS) {
            store_clock_renew(clock, now_ns);
        }
    }
    return now_ns;
}

#endif
