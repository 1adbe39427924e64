/* SPDX-License-Identifier: MIT
 *
 * How many instructions one call is: weir_limiter_take() of a bucket that is there, led through one by one in a
 * child (steps.h). The memory of many keys answers several times slower than a take is decided, so what counts is
 * how many calls are on their way at once: while one waits for its line, the processor works ahead, as far as the
 * next call's prefetch if little enough lies between. A core that looks 320 instructions ahead does so if a call
 * is some 260, and beyond that every call costs a whole miss.
 *
 * What lies inside the clock and the hash is left out: it depends on the processor, and now and then the clock
 * asks the kernel. */
#include <stdio.h>
#include <stdlib.h>

#include "platform/siphash.h"
#include "sharing.h"
#include "steps.h"
#include "weir/clock.h"
#include "weir/limiter.h"

enum { KEY_BYTES = 16, CALL_BYTES_MAX = 8 };

/* What a call may be: as measured with gcc 12 and clang 14, and some ten more for other versions. */
#if defined(__clang__)
#define BOUND(gcc, clang) (clang)
#else
#define BOUND(gcc, clang) (gcc)
#endif

static const struct kind {
    const char *limit;
    int steps_max;
    enum weir_verdict verdict;
} KINDS[] = {
    {"1000000/3650d", BOUND(188, 177), WEIR_ALLOWED},
    {"1/3650d", BOUND(180, 168), WEIR_LIMITED},
    {"queue 1000000/3650d", BOUND(226, 211), WEIR_ALLOWED},
    {"stepped 1000000/3650d", BOUND(321, 311), WEIR_ALLOWED},
    {"fixed 1000000/3650d", BOUND(321, 304), WEIR_ALLOWED},
    {"sliding 1000000/3650d", BOUND(364, 357), WEIR_ALLOWED},
};

static const struct kind *kind;
static struct weir_limiter *limiter;
static struct weir_rule rule;
static enum weir_verdict last;

static void take(const void *key)
{
    last = weir_limiter_take(limiter, &rule, key, KEY_BYTES, WEIR_UNIT).verdict;
}

/* Private memory is the child's that opens it. */
static void begin(void)
{
    const struct weir_limiter_config config = {.memory_bytes = WEIR_MEMORY_BYTES_MIN};
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, kind->limit, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    take("user:00000000042");
    take("user:00000000042");
    if (last != kind->verdict) {
        give_up("%s: another verdict", kind->limit);
    }
}

/* Where the path comes into a function, at `from` or later; the path's end if it does not. */
static int entry_of(const struct path *path, uint64_t function, int from)
{
    while (from < path->count && path->pcs[from] != function) {
        from++;
    }
    return from;
}

/* Where it is back behind the call that led there. */
static int return_of(const struct path *path, int entry)
{
    uint64_t call = path->pcs[entry - 1];
    int at = entry;
    while (at < path->count && path->pcs[at] - call - 1 >= CALL_BYTES_MAX) {
        at++;
    }
    return at;
}

/* How many of the steps between two lie inside a function that is called there. */
static int steps_inside(const struct path *path, uint64_t function, int from, int to)
{
    int count = 0;
    for (int entry = entry_of(path, function, from); entry < to;) {
        int end = return_of(path, entry);
        count += end - entry;
        entry = entry_of(path, function, end);
    }
    return count;
}

/* False: a call has become longer. */
static bool measure(void)
{
    static struct path path;
    pid_t child = steps_start(&path, begin, take, "user:00000000042");
    while (steps_next(&path, child)) {
    }
    steps_end(child);
    int entry = entry_of(&path, (uint64_t)weir_limiter_take, 1);
    int end = return_of(&path, entry);
    int clock = steps_inside(&path, (uint64_t)weir_clock_now_ns, entry, end);
    int hash = steps_inside(&path, (uint64_t)siphash13, entry, end);
    if (end == path.count || clock == 0 || hash == 0) {
        give_up("the path of %d steps does not come by where it should", path.count);
    }
    int steps = end - entry - clock - hash;
    printf("%-24s %3d instructions, of %d at most; the hash %d, the clock %d\n", kind->limit, steps,
           kind->steps_max, hash, clock);
    return steps <= kind->steps_max;
}

int main(void)
{
#if !defined(__x86_64__)
    printf("skipped: single steps break load-exclusive pairs\n");
    return 77;
#elif !defined(__OPTIMIZE__)
    printf("skipped: code that is not optimised says nothing about this\n");
    return 77;
#endif
    bool is_as_short = true;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        kind = &KINDS[i];
        is_as_short &= measure();
    }
    return is_as_short ? EXIT_SUCCESS : EXIT_FAILURE;
}
