/* SPDX-License-Identifier: MIT */
#include "store/table/store_clock.h"

#include <sys/mman.h>
#include <time.h>

#include "sync/cancel.h"

static uint64_t wall_now_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void store_clock_start(struct store_clock *clock)
{
    *clock->shared =
        (struct shared_time){.last = {weir_clock_now_ns() + clock->bias_ns, wall_now_ns()}};
}

bool store_clock_goes_on(const struct store_clock *clock)
{
    uint64_t last_ns = load_bucket(&clock->shared->last).empty_at_ns; // before our own reading
    uint64_t now_ns =
        weir_clock_now_ns() + clock->bias_ns + load_relaxed(&clock->shared->offset_ns);
    return now_ns + WEIR_CLOCK_ERROR_NS_MAX >= last_ns;
}

void store_clock_resume(struct store_clock *clock)
{
    struct shared_time *shared = clock->shared;
    struct weir_bucket last, next;
    do {
        last = load_bucket(&shared->last);
        uint64_t wall_ns = wall_now_ns();
        uint64_t away_ns = wall_ns > last.word ? wall_ns - last.word : 0;
        next = (struct weir_bucket){last.empty_at_ns + away_ns, wall_ns};
    } while (!cas_bucket(&shared->last, last, next));
    store_release(&shared->offset_ns, next.empty_at_ns - weir_clock_now_ns() - clock->bias_ns);
}

/* Whoever comes first writes the whole mapping to its disk; the others go on. */
static void flush_if_due(const struct store_clock *clock, uint64_t now_ns)
{
    uint64_t flushed_ns = load_acquire(&clock->shared->flushed_ns);
    if (clock->flush_every_ns != 0 && now_ns > flushed_ns + clock->flush_every_ns
        && cas_word(&clock->shared->flushed_ns, &flushed_ns, now_ns)) {
        int before = cancel_forbid(); // the take has been charged, and has to be answered
        (void)msync(clock->flushed.at, clock->flushed.bytes, MS_SYNC);
        cancel_allow(before);
    }
}

void store_clock_renew(const struct store_clock *clock, uint64_t now_ns)
{
    struct weir_bucket last = load_bucket(&clock->shared->last);
    if (now_ns > last.empty_at_ns + STORE_CLOCK_RENEW_NS) {
        /* If it fails, another was faster. */
        (void)cas_bucket(&clock->shared->last, last, (struct weir_bucket){now_ns, wall_now_ns()});
    }
    flush_if_due(clock, now_ns);
}

/* Between two readings of the one clock the other: the closer they are, the better. */
struct utc_reading store_clock_read_utc(const struct store_clock *clock)
{
    enum { TRIES = 4 };
    struct utc_reading best = {0, UINT64_MAX};
    for (int i = 0; i < TRIES && best.noise_ns > UTC_STEP_NS / 100; i++) {
        uint64_t before_ns = store_clock_now_ns(clock);
        uint64_t wall_ns = wall_now_ns();
        uint64_t noise_ns = store_clock_now_ns(clock) - before_ns;
        if (noise_ns < best.noise_ns) {
            best = (struct utc_reading){wall_ns - (before_ns + noise_ns / 2), noise_ns};
        }
    }
    return best;
}

uint64_t utc_settle(uint64_t offset_ns, struct utc_reading reading)
{
    uint64_t ahead_ns = reading.offset_ns - offset_ns;
    uint64_t step_ns = ahead_ns < UINT64_MAX / 2 ? ahead_ns : 0 - ahead_ns;
    bool is_step = step_ns > UTC_STEP_NS && reading.noise_ns < UTC_STEP_NS;
    return is_step ? reading.offset_ns : offset_ns;
}
