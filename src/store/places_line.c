/* SPDX-License-Identifier: MIT
 *
 * One line of places.c: how waiters and pieces of places come together.
 *
 * The waiters stand in the order of the ends of their pieces, and each in turn gets the first piece behind the one
 * before that is long enough. So if somebody leaves no other piece is later than before.
 *
 * Only the first waiter's piece is kept exact. Others' pieces were right when the line was laid out last, and may be
 * earlier by now: all that depends on them is what is known to be free behind the last one. So the line is laid out when
 * an eighth of what is in it has left, and some steps of that at each change of the line: O(1) for each, and no change
 * takes long. What is laid out in part is right, too. If the last waiter leaves its own piece is free without that. */
#include <assert.h>

#include "store/places_state.h"

/* How many waiters and places are looked at in one call of places_line_lay_on(): more than eight for each that leaves, so
 * that it is through before it is to begin again. */
#ifndef LAYING_STEPS // a test has its own
#define LAYING_STEPS 64
#endif

static uint128 later_of(uint128 a, uint128 b)
{
    return a > b ? a : b;
}

/* Where a piece may begin whose user goes at `now_ns`. */
static uint128 earliest_start(const struct places_line *line, uint128 span, uint64_t now_ns)
{
    uint128 now = (uint128)now_ns * line->denominator;
    return line->egress == EGRESS_AT_END ? less_or_zero(now, span) : now;
}

/* The same for one that has a piece, and may be a little late for it. */
static uint128 earliest_of(const struct places_line *line, const struct places_waiter *waiter,
                           uint64_t now_ns)
{
    uint64_t before_ns = now_ns > WEIR_JITTER_NS ? now_ns - WEIR_JITTER_NS : 0;
    uint128 in_time = earliest_start(line, waiter->span, now_ns);
    uint128 own = waiter->end - waiter->span;
    return own < in_time ? later_of(own, earliest_start(line, waiter->span, before_ns)) : in_time;
}

static struct piece find_from(struct place *place, uint128 from, uint128 span, uint32_t most)
{
    for (; place != NULL && most > 0; place = place->next, most--) {
        uint128 start = later_of(place->start, from);
        if (start + span <= place->end) {
            return (struct piece){place, start};
        }
    }
    return (struct piece){NULL, 0};
}

struct piece places_line_find(const struct places_line *line, uint128 span, uint64_t now_ns,
                              uint32_t most)
{
    uint128 from = later_of(line->tail_at, earliest_start(line, span, now_ns));
    return find_from(line->tail, from, span, most);
}

/* ---- places ---- */

static void unlink_place(struct places_line *line, struct place *place)
{
    *(place->previous != NULL ? &place->previous->next : &line->front) = place->next;
    *(place->next != NULL ? &place->next->previous : &line->back) = place->previous;
    line->place_count--;
}

void places_line_drop_place(struct places *places, struct place *place)
{
    struct places_line *line = place->line;
    unlink_place(line, place);
    if (line->latest == place) {
        line->latest = place->previous;
    }
    if (line->tail == place) {
        line->tail = place->next;
    }
    if (line->laying_place == place) {
        line->laying_place = place->next;
    }
    if (line->laying_probe == place) {
        line->laying_probe = place->next;
    }
    *place = (struct place){.next = places->unused_places};
    places->unused_places = place;
    places->stats.place_count--;
}

/* Lets the first of two places that touch have all. */
static struct place *join_places(struct places *places, struct place *first, struct place *second)
{
    struct places_line *line = first->line;
    uint128 end = second->end;
    line->tail = line->tail == second ? first : line->tail;
    line->laying_place = line->laying_place == second ? first : line->laying_place;
    line->laying_probe = line->laying_probe == second ? first : line->laying_probe;
    places_line_drop_place(places, second);
    first->end = end;
    return first;
}

struct place *places_line_add_place(struct places *places, struct places_line *line,
                                    struct place *place)
{
    struct place *before = line->latest != NULL ? line->latest : line->back;
    while (before != NULL && before->end > place->end) {
        before = before->previous;
    }
    struct place *after = before != NULL ? before->next : line->front;
    while (after != NULL && after->end <= place->end) {
        before = after;
        after = after->next;
    }
    place->previous = before;
    place->next = after;
    *(before != NULL ? &before->next : &line->front) = place;
    *(after != NULL ? &after->previous : &line->back) = place;
    line->place_count++;
    if (place->end > line->tail_at && (line->tail == NULL || place->end < line->tail->end)) {
        line->tail = place;
    }
    if (before != NULL && before->end == place->start) {
        place = join_places(places, before, place);
    }
    if (after != NULL && place->end == after->start) {
        place = join_places(places, place, after);
    }
    line->latest = place;
    return place;
}

/* ---- waiters ---- */

static void link_behind(struct places_line *line, struct places_waiter *before,
                        struct places_waiter *waiter)
{
    struct places_waiter *after = before != NULL ? before->next : line->first;
    waiter->line = line;
    waiter->previous = before;
    waiter->next = after;
    *(before != NULL ? &before->next : &line->first) = waiter;
    *(after != NULL ? &after->previous : &line->last) = waiter;
    line->newest = waiter;
    line->count++;
    if (line->is_laying && after == line->laying) {
        line->laying = waiter;
        line->laying_probe = line->laying_place;
    }
}

void places_line_append(struct places_line *line, struct places_waiter *waiter, struct piece piece)
{
    waiter->end = piece.start + waiter->span;
    link_behind(line, line->last, waiter);
    line->tail = piece.place;
    line->tail_at = waiter->end;
}

void places_line_insert(struct places_line *line, struct places_waiter *waiter, struct place *place,
                        uint128 end)
{
    struct places_waiter *before = line->newest != NULL ? line->newest : line->last;
    waiter->end = end;
    while (before != NULL && before->end > end) {
        before = before->previous;
    }
    struct places_waiter *after = before != NULL ? before->next : line->first;
    while (after != NULL && after->end <= end) {
        before = after;
        after = after->next;
    }
    link_behind(line, before, waiter);
    if (end > line->tail_at) {
        line->tail = place;
        line->tail_at = end;
    }
}

void places_line_remove(struct places_line *line, struct places_waiter *waiter)
{
    *(waiter->previous != NULL ? &waiter->previous->next : &line->first) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &line->last) = waiter->previous;
    if (line->newest == waiter) {
        line->newest = waiter->previous;
    }
    if (line->laying == waiter) {
        line->laying = waiter->next;
        line->laying_probe = line->laying_place;
    }
    waiter->next = waiter->previous = NULL;
    waiter->line = NULL;
    line->count--;
}

static void fall_out(struct places_line *line, struct places_waiter *waiter)
{
    places_line_remove(line, waiter);
    waiter->line = line;
    waiter->has_fallen_out = true;
    waiter->previous = line->fallen_last;
    *(line->fallen_last != NULL ? &line->fallen_last->next : &line->fallen_first) = waiter;
    line->fallen_last = waiter;
}

static void begin_laying(struct places_line *line)
{
    line->is_laying = true;
    line->laying = line->first;
    line->laying_place = line->laying_probe = line->front;
    line->laying_from = 0;
    line->left_count = 0;
}

/* Looks at one place for the next waiter. */
static void lay_on(struct places_line *line, uint64_t now_ns)
{
    struct places_waiter *waiter = line->laying;
    uint128 earliest = later_of(line->laying_from, earliest_of(line, waiter, now_ns));
    struct piece piece = find_from(line->laying_probe, earliest, waiter->span, 1);
    if (piece.place != NULL) {
        line->laying = waiter->next;
        line->laying_place = piece.place;
        line->laying_from = waiter->end = piece.start + waiter->span;
    } else if (line->laying_probe != NULL) {
        line->laying_probe = line->laying_probe->next;
    } else {
        fall_out(line, waiter);
    }
}

void places_line_lay_on(struct places_line *line, uint64_t now_ns)
{
    for (int i = 0; i < LAYING_STEPS && line->is_laying && line->laying != NULL; i++) {
        lay_on(line, now_ns);
    }
    if (line->is_laying && line->laying == NULL) {
        line->is_laying = false;
        line->tail = line->laying_place;
        line->tail_at = line->laying_from;
    }
}

void places_line_leave(struct places_line *line, struct places_waiter *waiter)
{
    bool is_last = waiter == line->last;
    places_line_remove(line, waiter);
    line->left_count++;
    if (!line->is_laying && line->left_count >= (line->count + line->place_count) / 8) {
        begin_laying(line);
    } else if (is_last && line->last != NULL && !line->is_laying) {
        line->tail_at = line->last->end;
    }
}

bool places_line_settle_first(struct places *places, struct places_line *line, uint64_t now_ns)
{
    struct places_waiter *first = line->first;
    struct piece piece =
        find_from(line->front, earliest_of(line, first, now_ns), first->span, UINT32_MAX);
    while (line->front != piece.place) {
        places_line_drop_place(places, line->front); // nobody goes before it
    }
    if (piece.place == NULL) {
        fall_out(line, first);
        return false;
    }
    uint128 end = piece.start + first->span;
    bool is_late = end > first->end;
    piece.place->start = piece.start;
    first->end = end;
    if (is_late) { // so others may find no place, and until that is known none is free
        line->tail = NULL;
        line->tail_at = line->back->end;
        begin_laying(line);
    }
    return true;
}
