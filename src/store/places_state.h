/* SPDX-License-Identifier: MIT
 *
 * The lines of a server, for places.c, places_line.c and places_lines.c. Nobody else includes it.
 *
 * All lengths and moments are in D-ths of a nanosecond: a moment is below 2^63 ns, and D below 2^40. */
#ifndef WEIR_STORE_PLACES_STATE_H
#define WEIR_STORE_PLACES_STATE_H

#include <assert.h>

#include "store/places.h"

/* When a waiter may go that has a piece of a place. */
enum places_egress {
    EGRESS_WHEN_IT_FITS, // a full bucket before its end
    EGRESS_AT_END,       // of a queue
    EGRESS_AT_START,     // of one with first=now
};

/* A place.
 *   line        of its bucket; in the list of unused ones NULL
 *   waiter      while it is asked for: the one that waits for it; NULL if that has left
 *   start, end  what is left of it. While it is asked for, `end` is the span */
struct place {
    struct place *next, *previous;
    struct places_line *line;
    struct places_waiter *waiter;
    uint128 start, end;
};

/* The waiters of one bucket, in their order, and the places that they share.
 *   lead          how long before its end the bucket's moment lets a place's user go; 0 for a queue
 *   front, back   the places by their ends. No two of them touch: neighbours are joined
 *   latest        the place that was added last; NULL
 *   first, last   the waiters, by the ends of their pieces
 *   newest        the waiter that was added last; NULL
 *   tail          the place that has the end of the last waiter's piece, or one behind it; NULL if there is none
 *   tail_at       the end of the last waiter's piece, or later
 *   buried        no place that ends here or before is at the end of the line in the store
 *   giving_from, giving_to  what is being given back: in no place meanwhile. Zeroes: nothing
 *   fallen_first, fallen_last  those that have no place any more
 *   count         of the waiters, place_count of the places
 *   left_count    who have left since it was begun to lay the line out
 *   is_laying     it is being laid out: `laying` is next, NULL if none is; the one before it ends at laying_from, in
 *                 laying_place; and laying_probe is the place to look at
 *   asked_count   places asked for
 *   due_ns        when to look at it, heap_index where it is in the heap then
 *   next          of the same hash; of those that are unused */
struct places_line {
    uint8_t name[BUCKET_NAME_BYTES];
    uint64_t denominator;
    uint128 lead;
    enum places_egress egress;
    uint32_t count, place_count, left_count, asked_count, heap_index;
    struct place *front, *back, *latest, *tail;
    struct places_waiter *first, *last, *newest, *fallen_first, *fallen_last;
    struct places_waiter *laying;
    struct place *laying_place, *laying_probe;
    bool is_laying;
    uint128 laying_from, tail_at, buried, giving_from, giving_to;
    uint64_t due_ns;
    struct places_line *next;
};

/*   heap    lines that have a due_ns, the earliest first
 *   hashed  lines by the hash of their names; hash_mask + 1 lists */
struct places {
    struct places_config config;
    struct place *unused_places;
    struct places_line *unused_lines;
    struct places_line **heap, **hashed;
    uint32_t heap_count, hash_mask;
    struct places_stats stats;
};

/* A piece of a place, which begins at `start`. Without a place: none. */
struct piece {
    struct place *place;
    uint128 start;
};

static inline enum places_egress egress_of(const struct weir_limit *limit)
{
    if (limit->kind == WEIR_KIND_QUEUE) {
        return limit->first == WEIR_FIRST_NOW ? EGRESS_AT_START : EGRESS_AT_END;
    }
    assert(limit->kind == WEIR_KIND_BUCKET);
    return EGRESS_WHEN_IT_FITS;
}

static inline uint128 limit_parts(const struct weir_limit *limit, struct span span)
{
    return (uint128)span.ns * limit->denominator + span.rest;
}

static inline uint128 lead_of(const struct weir_limit *limit)
{
    return egress_of(limit) == EGRESS_WHEN_IT_FITS ? limit_parts(limit, limit_full(limit)) : 0;
}

static inline uint128 moment_parts(const struct places_line *line, struct span moment)
{
    return (uint128)moment.ns * line->denominator + moment.rest;
}

static inline struct span parts_moment(const struct places_line *line, uint128 parts)
{
    return (struct span){(uint64_t)(parts / line->denominator),
                         (uint64_t)(parts % line->denominator)};
}

static inline uint128 less_or_zero(uint128 a, uint128 b)
{
    return a > b ? a - b : 0;
}

/* Where the moment is, at most, if nobody waits. */
static inline uint128 line_lapsed(const struct places_line *line, uint64_t now_ns)
{
    return (uint128)now_ns * line->denominator + line->lead;
}

/* The first whole nanosecond at which the user of a piece may go. */
static inline uint64_t line_instant_ns(const struct places_line *line, uint128 start, uint128 end)
{
    uint128 parts = line->egress == EGRESS_AT_START ? start : less_or_zero(end, line->lead);
    return (uint64_t)((parts + line->denominator - 1) / line->denominator);
}

/* ---- one line: places_line.c ---- */

/* The first piece behind all waiters that fits and is used now or later. It looks at `most` places at most. */
struct piece places_line_find(const struct places_line *line, uint128 span, uint64_t now_ns,
                              uint32_t most);

/* Adds a place, or joins it with its neighbours. Returns the place that has it now. */
struct place *places_line_add_place(struct places *places, struct places_line *line,
                                    struct place *place);

void places_line_drop_place(struct places *places, struct place *place);

/* Appends a waiter with a piece behind all others. */
void places_line_append(struct places_line *line, struct places_waiter *waiter, struct piece piece);

/* Adds a waiter that uses the end of this place, by the order of the ends. */
void places_line_insert(struct places_line *line, struct places_waiter *waiter, struct place *place,
                        uint128 end);

/* Takes a waiter out that has a piece, or had one. */
void places_line_remove(struct places_line *line, struct places_waiter *waiter);

/* The same for one that leaves: so its piece is free. Begins to lay the line out now and then. */
void places_line_leave(struct places_line *line, struct places_waiter *waiter);

/* Goes on laying the line out, if it is being laid out: gives each waiter, in their order, the first piece that is left.
 * For which there is none falls out. After some steps it stops until it is called again. */
void places_line_lay_on(struct places_line *line, uint64_t now_ns);

/* Brings the first waiter's piece to the front of the first place. False if there is none for it: it has fallen out. */
bool places_line_settle_first(struct places *places, struct places_line *line, uint64_t now_ns);

/* ---- all of them: places_lines.c ---- */

/* NULL if there is none. A limit whose numbers have changed has a line of its own, beside the one of its old numbers. */
struct places_line *places_find_line(const struct places *places,
                                     const struct places_question *question);

/* NULL if there is no memory. */
struct places_line *places_open_line(struct places *places, const struct places_question *question);

/* It has no waiter and no place, and nothing on its way. */
void places_close_line(struct places *places, struct places_line *line);

/* Sets when a line is to be looked at; PLACES_NEVER. */
void places_schedule(struct places *places, struct places_line *line, uint64_t due_ns);

#endif
