/* SPDX-License-Identifier: MIT
 *
 * The clock: CLOCK_BOOTTIME, through the processor's time-stamp counter (TSC) where that is what the
 * kernel itself reads.
 *
 * A decision costs about as much as reading the time, so the reading is worth making cheap: rdtsc
 * and one multiplication instead of a trip through the vDSO. Each thread keeps an anchor, a pair
 * (counter, nanoseconds) that the kernel vouched for, and extends it by the counter's rate for at
 * most a millisecond; then it asks the kernel again.
 *
 *   rate       measured between two anchors at least RATE_MIN_NS apart: each reading of the pair is
 *              good to about 50 ns, so the rate is good to 10 in a million and a millisecond's
 *              extension to 10 ns. The counter is the same on all cores, so a new thread begins with
 *              the rate that others know
 *   never back where the extension ran ahead of the kernel by e, the next millisecond starts from
 *              the extension and runs slower by e, instead of stepping back
 *   doubt      an extension that is off by more than DOUBT_NS (the counter stopped in a suspend, was
 *              moved to another machine) throws the rate away: until a new one is measured the thread
 *              reads the kernel's clock
 *
 * The anchors are thread-local: a cache of the kernel's clock, and with the rate the only state of the
 * library outside its caller's objects. Nothing has to be set up or released; fork() copies it, still
 * true. */
#include "weir/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "core/arith.h"
#include "platform/clock_source.h"

static uint64_t read_kernel_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_BOOTTIME, &time); // cannot fail on Linux 2.6.39 and later
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

#if defined(__x86_64__)

#include <fcntl.h>
#include <unistd.h>

enum {
    ANCHOR_NS = 1000000,     // how long an anchor is good for
    RATE_MIN_NS = 10000000,  // the shortest stretch that a rate is measured over
    RATE_MAX_NS = 500000000, // the longest: the rate follows the kernel's own corrections
    PAIR_TICKS_MAX = 2000,   // a pair that took longer was interrupted
    PAIR_TRIES = 4,
    DOUBT_NS = WEIR_CLOCK_ERROR_NS_MAX / 2,
};

/* A reading of the counter, and the kernel's time at that instant. */
struct pair {
    uint64_t ticks;
    uint64_t ns;
};

struct thread_clock {
    bool is_open;
    bool has_tsc;           // the kernel trusts the counter
    struct pair anchor;     // extended until it is `good_ticks` old
    uint64_t good_ticks;    // 0: no rate yet; ask the kernel every time
    uint64_t ns_per_tick;   // of this extension, in 2^-32 ns
    struct pair rate_start; // the rate is measured from here
    uint64_t rate;          // the counter's own, in 2^-32 ns per tick; 0: not yet measured
    uint64_t last_ns;       // the last answer
};

static _Thread_local struct thread_clock thread_clock __attribute__((tls_model("initial-exec")));

/* The counter's rate as some thread measured it last; 0: not known, or in doubt. Relaxed, to read and
 * to write: it stands for itself, and is looked at once in a thread's life. */
static uint64_t known_rate;

static uint64_t read_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

/* True if the kernel's own clock is the counter: then it is invariant and the same on all cores. */
static bool kernel_trusts_tsc(void)
{
    char name[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, name, sizeof name);
    (void)close(fd);
    return length == 4 && memcmp(name, "tsc\n", 4) == 0;
}

/* Reads both clocks as nearly at once as the scheduler lets us. False if it did not. */
static bool read_pair(struct pair *pair)
{
    for (int i = 0; i < PAIR_TRIES; i++) {
        uint64_t before = read_ticks();
        uint64_t ns = read_kernel_ns();
        uint64_t took = read_ticks() - before;
        if (took <= PAIR_TICKS_MAX) {
            *pair = (struct pair){before + took / 2, ns};
            return true;
        }
    }
    return false;
}

static uint64_t extend(const struct thread_clock *clock, uint64_t ticks)
{
    /* Below 2^64: an anchor is extended by about 10^6 ns at most. */
    return clock->anchor.ns + ((ticks - clock->anchor.ticks) * clock->ns_per_tick >> 32);
}

/* Starts to measure the rate anew, and reads the kernel's clock until it is known. */
static void forget_rate(struct thread_clock *clock, struct pair now)
{
    clock->rate_start = now;
    clock->rate = 0;
    clock->good_ticks = 0;
    __atomic_store_n(&known_rate, 0, __ATOMIC_RELAXED);
}

static void measure_rate(struct thread_clock *clock, struct pair now)
{
    uint64_t ns = now.ns - clock->rate_start.ns;
    uint64_t ticks = now.ticks - clock->rate_start.ticks;
    if (ns < RATE_MIN_NS || ticks == 0) {
        return;
    }
    clock->rate = (uint64_t)(((uint128)ns << 32) / ticks);
    __atomic_store_n(&known_rate, clock->rate, __ATOMIC_RELAXED);
    if (ns > RATE_MAX_NS) {
        clock->rate_start = now;
    }
}

/* Starts the next extension at `now`, never below `floor_ns`. */
static void set_anchor(struct thread_clock *clock, struct pair now, uint64_t floor_ns)
{
    uint64_t ahead_ns = floor_ns > now.ns ? floor_ns - now.ns : 0;
    clock->anchor = (struct pair){now.ticks, now.ns + ahead_ns};
    clock->ns_per_tick = clock->rate - (uint64_t)((uint128)clock->rate * ahead_ns / ANCHOR_NS);
    clock->good_ticks = ((uint64_t)ANCHOR_NS << 32) / clock->rate;
}

/* The anchor is too old, or there is none: asks the kernel, and sets the next one. By itself, so that
 * the registers it needs cost other readings nothing. */
__attribute__((noinline)) static uint64_t renew(struct thread_clock *clock)
{
    struct pair now;
    if (!clock->is_open) {
        clock->is_open = true;
        clock->has_tsc = kernel_trusts_tsc();
        clock->has_tsc = clock->has_tsc && read_pair(&clock->rate_start);
        clock->rate = __atomic_load_n(&known_rate, __ATOMIC_RELAXED);
    }
    if (!clock->has_tsc || !read_pair(&now)) {
        return read_kernel_ns();
    }
    uint64_t floor_ns = now.ns;
    if (clock->good_ticks != 0) {
        uint64_t age_ticks = now.ticks - clock->anchor.ticks;
        bool is_near = age_ticks < 4 * clock->good_ticks; // else the extension says nothing
        uint64_t extended_ns = is_near ? extend(clock, now.ticks) : now.ns;
        if (extended_ns > now.ns + DOUBT_NS || extended_ns + DOUBT_NS < now.ns) {
            forget_rate(clock, now);
            return now.ns;
        }
        floor_ns = extended_ns;
    }
    measure_rate(clock, now);
    if (clock->rate != 0) {
        set_anchor(clock, now, floor_ns);
    }
    return now.ns > floor_ns ? now.ns : floor_ns;
}

uint64_t weir_clock_now_ns(void)
{
    struct thread_clock *clock = &thread_clock;
    uint64_t ticks = read_ticks();
    uint64_t now_ns;
    if (__builtin_expect(ticks - clock->anchor.ticks < clock->good_ticks, 1)) {
        now_ns = extend(clock, ticks);
    } else {
        now_ns = renew(clock);
    }
    /* rdtsc may run a little early: never let two readings pass each other. */
    now_ns = now_ns > clock->last_ns ? now_ns : clock->last_ns;
    clock->last_ns = now_ns;
    return now_ns;
}

const char *clock_source(void)
{
    return kernel_trusts_tsc() ? "CLOCK_BOOTTIME through the TSC" : "CLOCK_BOOTTIME";
}

#else

uint64_t weir_clock_now_ns(void)
{
    return read_kernel_ns(); // aarch64: the vDSO reads the counter as cheaply as we could
}

const char *clock_source(void)
{
    return "CLOCK_BOOTTIME";
}

#endif
