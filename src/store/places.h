/* SPDX-License-Identifier: MIT
 *
 * Places: how one server keeps what it has reserved for its waiters in a store that hosts share. Pure: values in,
 * values out. docs/design/places.md says why it is so.
 *
 * An example. A bucket lets 1 per second pass and holds 1. It is full until second 1. Four clients wait for it, A and C
 * at this server, B and D at another one. The store has answered each of them with the bucket's moment, the end of its
 * place:
 *
 *     second     1      2      3      4      5
 *                |  A   |  B   |  C   |  D   |       the moment is 5
 *     they go    A      B      C      D              each a full bucket (1 s) before the end of its place
 *
 *     A leaves   |  C   |  B   | free |  D   |       C moves up. 3..4 is not the end of the line, so the next client
 *                                                    that waits here gets it
 *     D leaves   |  C   |  B   | free |              the other server gives 4..5 back: the moment is 4
 *
 * A place is a piece of time that was charged. Two rules are all there is to it:
 *
 *   - No part of a place is used twice.
 *   - Who uses the piece from p to p + s goes at p + s - full or later, and not later than p.
 *
 * That is enough. What goes between a and b uses pieces that lie between a and b + full, and none of them twice: so it is
 * no more than full + (b - a), which is what a bucket lets pass. And so a place may be cut, its neighbours may be joined
 * with it, and anybody may have it. But a charge that stands before others cannot be given back.
 *
 * How to use it:
 *
 *     switch (places_join(places, &waiter, &question, now_ns)) {
 *     case PLACES_ASK:                        // take with question's span, and places_beyond() as its `full`
 *         ... answered: allowed  ->  places_granted(places, waiter.asked, moment, reading_ns, now_ns)
 *         ... else               ->  places_refused(places, waiter.asked, moment, now_ns)
 *     case PLACES_STANDS: ...                 // in a place that was free. places_next() will say when it goes
 *     case PLACES_FULL: ...                   // there is no memory for one more
 *     }
 *
 *     while ((event = places_next(places, now_ns)).kind != PLACES_NOTHING) {
 *         ... PLACES_GO         event.waiter goes now
 *         ... PLACES_AGAIN      event.waiter has lost its place, for this server was late: it may join again
 *         ... PLACES_GIVE_BACK  swap: if the moment is still event.to, let it be event.from
 *     }
 *     ... look again at places_next_ns()      // and after each call of any of these
 *
 * All instants are of the store's clock. `now_ns` is what it shows at least: heard_clock_now_ns(). heard_clock_when_ns()
 * makes a timer of an instant. An older `now_ns` than the last one does no harm.
 *
 * Which limits: buckets and queues. A line of another kind is no sequence of pieces.
 *
 * Order: first come, first served, by the store's order. While nobody leaves that is the order among all servers. Where
 * somebody has left it holds among those of each server; a new client may get a free place, and go before one that waits
 * at another server.
 *
 * Time: each call O(log lines), and O(1) for each waiter over its life. If many waiters leave the line is laid out anew
 * now and then. That is O(waiters) at once, and O(1) for each that left. Memory: places_bytes(), which the caller lends, and
 * struct places_waiter, which is part of what waits. Never allocates, never blocks.
 * Threads: single owner. A server has one of these for all of its threads, under the lock of its lines. */
#ifndef WEIR_STORE_PLACES_H
#define WEIR_STORE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arith.h"
#include "core/bucket_math.h"
#include "store/bucket_name.h"
#include "weir/limit.h"

/* The longest patience, nine years: with the longest limit and the latest reading it stays below SWAP_DISPLACED_NS. */
#define PLACES_PATIENCE_NS_MAX (UINT64_C(1) << 58)

/* No instant. */
#define PLACES_NEVER UINT64_MAX

enum { PLACES_COUNT_MAX = 1 << 24 };

struct places;
struct place;
struct places_line;

/* One that waits. The caller's memory, which stays where it is until the waiter has gone or left. All zeroes: it waits
 * nowhere.
 *   asked  what the store was asked for; NULL when that is answered
 * The rest belongs to places.c.
 *   line   in which it stands, or which it has fallen out of; NULL: neither
 *   end    of its piece, as the line was laid out last; the piece is not later now
 * Lengths and moments are in D-ths of a nanosecond. */
struct places_waiter {
    struct places_waiter *next, *previous;
    struct place *asked;
    struct places_line *line;
    uint128 span, end;
    bool has_fallen_out;
};

/*   name       of the bucket
 *   limit      a bucket or a queue. Only read during the call
 *   span       of the cost, not zero, and no longer than a full bucket: charge_of()
 *   latest_ns  until when the waiter waits: heard_clock_now_ns() at its deadline */
struct places_question {
    uint8_t name[BUCKET_NAME_BYTES];
    const struct weir_limit *limit;
    struct span span;
    uint64_t latest_ns;
};

enum places_joined { PLACES_STANDS, PLACES_ASK, PLACES_FULL };

/*   PLACES_GOES      it need not wait
 *   PLACES_IN_LINE   it waits
 *   PLACES_FOR_NONE  its waiter has left */
enum places_grant { PLACES_GOES, PLACES_IN_LINE, PLACES_FOR_NONE };

enum places_event_kind { PLACES_NOTHING, PLACES_GO, PLACES_AGAIN, PLACES_GIVE_BACK };

/*   waiter    PLACES_GO, PLACES_AGAIN: it stands in no line any more
 *   from, to  PLACES_GO: its piece. PLACES_GIVE_BACK: what goes back
 *   name, denominator, line, until_ns   PLACES_GIVE_BACK: the bucket, the D of from and to, what places_given_back() is
 *             told, and until when by the store's clock the swap may be done */
struct places_event {
    enum places_event_kind kind;
    struct places_waiter *waiter;
    struct places_line *line;
    struct span from, to;
    uint8_t name[BUCKET_NAME_BYTES];
    uint64_t denominator;
    uint64_t until_ns;
};

/* What has become of a swap that gives back. */
enum places_swapped { PLACES_SWAPPED, PLACES_NOT_SWAPPED, PLACES_SWAP_UNKNOWN };

/*   place_count_max  how many places there may be at once, asked for, used or free. 1 .. PLACES_COUNT_MAX
 *   line_count_max   for how many buckets. 1 .. PLACES_COUNT_MAX
 *   seed             secret: names of buckets are chosen by strangers, and are found by a hash */
struct places_config {
    uint32_t place_count_max;
    uint32_t line_count_max;
    uint64_t seed[2];
};

/*   place_count  asked for, used or free
 *   waiting_count  stand in a line
 *   line_count   buckets */
struct places_stats {
    uint32_t place_count;
    uint32_t waiting_count;
    uint32_t line_count;
};

/* ---- what the store is asked ---- */

/* How far beyond the reading the moment may lead for a take that waits up to `patience_ns`: the `full` of its
 * plan_question. 0 is a take that does not wait. For example 10/s capacity=10: 1 s, and with a patience of 3 s it is 4 s.
 * A queue's take is refused if it is full, whatever the patience; and if it would go too late.
 * It counts waiting= in units: with waiting=5 nobody waits longer than 5 units take to drain.
 * If it is shorter than the charge's span the take is refused without being asked: no wait would do. Pure; thread-safe. */
struct span places_beyond(const struct weir_limit *limit, const struct charge *charge,
                          uint64_t patience_ns);

/* Whether somebody may be waiting, anywhere: then the store does not refund, but leaves the moment alone. The time that has
 * drained in between would be handed out twice. Fills when to ask again: the line has passed by then, unless others have
 * come. Pure; thread-safe. */
bool places_forbid_refund(const struct weir_limit *limit, struct span moment, uint64_t now_ns,
                          uint64_t *again_ns);

/* ---- waiting ---- */

/* How much memory places_init() needs: about 64 bytes for each place, and 250 for each line. */
size_t places_bytes(const struct places_config *config);

/* Makes places of memory, aligned as malloc() aligns, which it holds from now on. There is nothing to close. */
struct places *places_init(void *memory, const struct places_config *config);

/* Waits. PLACES_ASK: waiter->asked is what the answer of the store is about. */
enum places_joined places_join(struct places *places, struct places_waiter *waiter,
                               const struct places_question *question, uint64_t now_ns);

/* The store has let it in, and moved the bucket to `moment` at `reading_ns`. If its waiter has left the place is free.
 *   moment  after this take: of several that were decided together, plan_moment_after() */
enum places_grant places_granted(struct places *places, struct place *asked, struct span moment,
                                 uint64_t reading_ns, uint64_t now_ns);

/* The store has refused it, or its fate is unknown. The waiter, if it is still there, waits nowhere now.
 *   moment  of the bucket; zeroes if that is not known */
void places_refused(struct places *places, struct place *asked, struct span moment,
                    uint64_t now_ns);

/* The waiter leaves: its client has gone, or its deadline is here. Its memory is the caller's again. False if it waited
 * nowhere. */
bool places_leave(struct places *places, struct places_waiter *waiter, uint64_t now_ns);

/* What is to be done now, one thing at a time. */
struct places_event places_next(struct places *places, uint64_t now_ns);

/* When there will be something to do; PLACES_NEVER. It may be too early. */
uint64_t places_next_ns(const struct places *places);

/* The answer to PLACES_GIVE_BACK.
 *   line  of the event. Not used any more afterwards */
void places_given_back(struct places *places, struct places_line *line, enum places_swapped swapped,
                       uint64_t now_ns);

struct places_stats places_stats(const struct places *places);

/* The invariant, by walking over everything: for tests. */
bool places_valid(const struct places *places);

#endif
