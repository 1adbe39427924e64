/* SPDX-License-Identifier: MIT
 *
 * A shaper: a line of your own items, released one after another at a limit's rate. A burst goes
 * in, an even stream comes out.
 *
 *     struct weir_limit limit;
 *     struct weir_shaper *shaper;
 *     struct weir_error error;
 *     if (weir_limit_from_text(&limit, "queue 5/s capacity=10", &error) == WEIR_OK
 *         && weir_shaper_open(&shaper, &limit, NULL, &error) == WEIR_OK) {
 *         struct weir_submitted submitted = weir_shaper_submit(shaper, mail, WEIR_UNIT, now_ns);
 *         ...
 *         struct weir_released released;
 *         while (weir_shaper_pop(shaper, now_ns, &released)) {
 *             send_mail(released.item);
 *         }
 *         sleep_until(weir_shaper_next_ns(shaper)); // an instant: what is late adds up to nothing
 *     }
 *
 * An item is a pointer that the shaper never follows. It has no thread and no clock: whoever pops,
 * says what time it is, in nanoseconds of whatever clock you like, 0 .. WEIR_NOW_NS_MAX (larger
 * ones count as that), the same for all calls. A reading older than another one is no error: it
 * sees a fuller line, and releases less.
 *
 * **Instants.** The limit, of kind queue, says who fits and when he may go: exactly what
 * weir_bucket_take() answers for it. An item starts when the one before ends, or at once if the
 * line has run empty; it ends what its cost takes to drain later; and may go at its end
 * (first=interval) or at its start (first=now). These are exact rationals, no rounding adds up;
 * what you see of them is rounded up to a nanosecond.
 *
 * **Late is not a burst.** What is popped at most WEIR_JITTER_NS after its instant changes nothing
 * for the others. If the first item in line is later than that at a call, the line goes on from
 * there: the first may go now, and all behind keep their distances. So of two items the second
 * never follows sooner than what lies between them in the line, less WEIR_JITTER_NS; however long
 * nobody popped.
 *
 * **Places and tickets.** A ticket names a place in the line, until what stands there leaves it. It
 * is never 0, and comes again at the earliest when its memory has been used 2^40 times.
 *
 * Every call but open and close is thread-safe: one mutex, held for a few dozen instructions, and
 * by none while it waits or while it calls you. Each costs the same however long the line is. All
 * memory is allocated by open. */
#ifndef WEIR_SHAPER_H
#define WEIR_SHAPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/decision.h"
#include "weir/limit.h"
#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_SHAPER_ITEMS_MAX (UINT32_C(1) << 24) /* places, at most; 32 bytes each */
#define WEIR_SHAPER_ITEMS     (UINT32_C(1) << 20) /* at most, unless said */

struct weir_shaper;

/* What happens to an item that does not fit. */
enum weir_overflow {
    /* It is refused. */
    WEIR_OVERFLOW_REFUSE = 0,
    /* The first in line leaves unreleased, due or not; then the next, until the new one fits. Each
     * that stays moves up by the costs of those who left: with equal costs, to the instant of the
     * one before it; and the new one gets the instant that the last one had. */
    WEIR_OVERFLOW_DROP_OLDEST = 1,
    /* Its thread waits until it fits. First come, first served. */
    WEIR_OVERFLOW_BLOCK = 2
};

/* All zeroes is a good configuration.
 *   overflow   what happens to an item that does not fit
 *   items_max  places: how many items stand in line at most, those included that may go and have
 *              not been popped; 1 .. WEIR_SHAPER_ITEMS_MAX. 0 means as many units as the limit lets
 *              in, and as drain in WEIR_JITTER_NS, at most WEIR_SHAPER_ITEMS: of items that cost a
 *              unit or more, none is ever refused for want of a place
 *   dropped    called for every item that leaves without having been popped or cancelled: by
 *              WEIR_OVERFLOW_DROP_OLDEST, in the thread that submits, and by close. May be NULL
 *   sooner     called when weir_shaper_next_ns() has become earlier, in the thread that made it so:
 *              to wake up who sleeps until then. Not by pop, which is followed by asking. May be
 *              NULL
 *   context    what both are given
 * Both are called without the lock: they may call the shaper, but not close it. */
struct weir_shaper_config {
    enum weir_overflow overflow;
    uint32_t items_max;
    void (*dropped)(void *context, void *item, uint64_t ticket);
    void (*sooner)(void *context);
    void *context;
};

/* What submitting came to.
 *   decision   allowed: it stands in line, and delay_ns says how long; limited, never: it does not,
 *              and is still the caller's; error: likewise, the shaper was shut down. remaining:
 *              whole units that still fit. Where a place is missing, retry_after_ns says when one
 *              becomes free if what is due is popped
 *   ticket     its place; 0 if it has none
 *   egress_ns  when it may go, as things stand now; UINT64_MAX if it does not stand in line */
struct weir_submitted {
    struct weir_decision decision;
    uint64_t ticket;
    uint64_t egress_ns;
};

/* An item that may go. egress_ns is the instant at which it might at the earliest: at or before the
 * reading at which it was popped, by at most WEIR_JITTER_NS. */
struct weir_released {
    void *item;
    uint64_t ticket;
    uint64_t cost_micro;
    uint64_t egress_ns;
};

struct weir_shaper_stats {
    uint64_t item_count;      /* items that stand in line now */
    uint64_t blocked_count;   /* threads that wait to get in, now */
    uint64_t released_count;  /* popped so far */
    uint64_t dropped_count;   /* to make room */
    uint64_t cancelled_count; /* so far */
    uint64_t late_count;      /* how often the line had to go on from a later instant */
};

/* Opens a shaper. `limit`, of kind queue, is copied. `config` may be NULL.
 *   WEIR_OK           *shaper is yours; weir_shaper_close() releases it
 *   WEIR_E_RANGE      the limit is of another kind, or a number in the config none of its values
 *   WEIR_E_NO_MEMORY  for so many places
 * On failure *shaper is NULL. `error` may be NULL. Thread-safe. */
WEIR_MUST_USE enum weir_status weir_shaper_open(struct weir_shaper **shaper,
                                                const struct weir_limit *limit,
                                                const struct weir_shaper_config *config,
                                                struct weir_error *error);

/* Shuts down, waits until the threads that were blocked have left, hands what still stands in line
 * to `dropped`, in its order, and releases everything. No other call may be running, or come. NULL
 * is fine. */
void weir_shaper_close(struct weir_shaper *shaper);

/* From now on nobody gets in: who submits, or is blocked, is answered with verdict error at once.
 * What stands in line stays, to be popped. Thread-safe. */
void weir_shaper_shut_down(struct weir_shaper *shaper);

/* Puts an item into the line.
 *   item        anything; the shaper's while it stands in line
 *   cost_micro  millionths of a unit; 0 has its place in the order and takes no time. More than the
 *               capacity is never let in
 *   now_ns      the reading at which it arrives. Due items are in line until they are popped, but
 *               they have drained: pop first, and at one instant egress comes before arrival
 * Thread-safe. With WEIR_OVERFLOW_BLOCK it blocks the thread until the item fits at the reading of
 * another thread's pop or cancel, or until shut-down. Never allocates.
 * A point of cancellation while it is blocked. A thread that pthread_cancel() ends there no longer waits, and
 * its item is still the caller's. If the item got in at that very instant, it stays in line, as for a thread
 * that is cancelled just after this call. No other call of this header is a point of cancellation, and
 * neither are the functions of the config while the shaper calls them. */
struct weir_submitted weir_shaper_submit(struct weir_shaper *shaper, void *item,
                                         uint64_t cost_micro, uint64_t now_ns);

/* The instant at which weir_shaper_pop() has something to do, rounded up; UINT64_MAX if there is
 * none. That is when the first in line may go, or when the first blocked thread's item fits.
 * Thread-safe. */
uint64_t weir_shaper_next_ns(struct weir_shaper *shaper);

/* Takes the first item out of the line if it may go at `now_ns`; and lets in who is blocked, as far
 * as it fits. False: nothing may go yet, *released is as it was. Several may go at one reading: pop
 * until false. Thread-safe; never blocks. */
bool weir_shaper_pop(struct weir_shaper *shaper, uint64_t now_ns, struct weir_released *released);

/* Takes an item out of the line, due or not. All behind it move up by its cost, at once; they may
 * be due by that. Lets in who is blocked, as far as it fits. `item` may be NULL.
 * False: nothing stands at this place any more. Thread-safe; never blocks. */
bool weir_shaper_cancel(struct weir_shaper *shaper, uint64_t ticket, uint64_t now_ns, void **item);

/* Puts another item into a place. Instant, cost and ticket are the place's, and stay. *old, which
 * may be NULL, gets the item that stood there. False: nothing does any more. Thread-safe; never
 * blocks. */
bool weir_shaper_replace(struct weir_shaper *shaper, uint64_t ticket, void *item, void **old);

/* Exchanges the items of two places, which stay as they are: each ticket now names the other's
 * item. False: nothing stands at one of them any more, and nothing has changed. Thread-safe; never
 * blocks. */
bool weir_shaper_swap(struct weir_shaper *shaper, uint64_t ticket, uint64_t other);

/* Thread-safe; never blocks. */
void weir_shaper_read_stats(struct weir_shaper *shaper, struct weir_shaper_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
