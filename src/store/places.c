/* SPDX-License-Identifier: MIT
 *
 * What happens to the places of a server, and what the caller has to do.
 *
 * After each change of a line refresh() says when it is to be looked at next: at once, if a waiter has no place any more
 * or the end of the line can be given back; when its first waiter goes; or when a place that nobody wants has lapsed. A
 * line is closed when it has no waiter, no place, and nothing on its way. */
#include "store/places.h"

#include <assert.h>
#include <string.h>

#include "store/places_state.h"

_Static_assert(WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX + PLACES_PATIENCE_NS_MAX < UINT64_C(7) << 60,
               "no moment is taken for that of a block (swap.h)");

/* How many free places a new waiter looks at that is too large for the first ones. Then it asks the store. */
enum { FREE_LOOKED_AT_MAX = 16 };

/* ---- what the store is asked ---- */

static uint128 lesser(uint128 a, uint128 b)
{
    return a < b ? a : b;
}

struct span places_beyond(const struct weir_limit *limit, const struct charge *charge,
                          uint64_t patience_ns)
{
    struct span unit = {limit->unit_ns, limit->unit_rest};
    uint64_t clipped_ns =
        patience_ns < PLACES_PATIENCE_NS_MAX ? patience_ns : PLACES_PATIENCE_NS_MAX;
    uint128 full = limit_parts(limit, limit_full(limit));
    uint128 wait =
        lesser((uint128)clipped_ns * limit->denominator, limit->waiting * limit_parts(limit, unit));
    uint128 beyond = full + wait;
    switch (egress_of(limit)) {
    case EGRESS_WHEN_IT_FITS: break;
    case EGRESS_AT_END: beyond = lesser(full, wait); break;
    case EGRESS_AT_START: beyond = lesser(full, wait + limit_parts(limit, charge->span)); break;
    }
    return (struct span){(uint64_t)(beyond / limit->denominator),
                         (uint64_t)(beyond % limit->denominator)};
}

bool places_forbid_refund(const struct weir_limit *limit, struct span moment, uint64_t now_ns,
                          uint64_t *again_ns)
{
    uint128 lead = lead_of(limit);
    uint128 left = less_or_zero(limit_parts(limit, moment), lead);
    *again_ns = (uint64_t)((left + limit->denominator - 1) / limit->denominator);
    return left > (uint128)now_ns * limit->denominator;
}

/* ---- a line's state ---- */

/* From where on the last place is free: its end if it is not. */
static uint128 free_end(const struct places_line *line)
{
    const struct place *back = line->back;
    uint128 from = back->start > line->tail_at ? back->start : line->tail_at;
    return from < back->end ? from : back->end;
}

/* Whether the end of the line can be given back. While something is asked it may be wanted here. */
static bool wants_to_give_back(const struct places_line *line, uint64_t now_ns)
{
    const struct place *back = line->back;
    return back != NULL && !line->is_laying && line->giving_to == 0 && line->asked_count == 0
           && back->end > line->buried && free_end(line) < back->end
           && back->end > line_lapsed(line, now_ns);
}

static uint64_t due_of(const struct places_line *line, uint64_t now_ns)
{
    if (line->fallen_first != NULL || wants_to_give_back(line, now_ns)) {
        return 0;
    }
    if (line->first != NULL) {
        uint128 start = line->front->start;
        return line_instant_ns(line, start, start + line->first->span);
    }
    if (line->front != NULL) { // it has lapsed
        uint128 end = less_or_zero(line->front->end, line->lead);
        return (uint64_t)((end + line->denominator - 1) / line->denominator);
    }
    return PLACES_NEVER;
}

/* After each change. The line may be closed. */
static void refresh(struct places *places, struct places_line *line, uint64_t now_ns)
{
    while (line->first != NULL && !places_line_settle_first(places, line, now_ns)) {
    }
    places_line_lay_on(line, now_ns);
    if (line->first == NULL) {
        line->tail = line->front;
        line->tail_at = 0;
        while (line->front != NULL && line->front->end <= line_lapsed(line, now_ns)) {
            places_line_drop_place(places, line->front);
        }
    }
    bool is_empty = line->first == NULL && line->front == NULL && line->fallen_first == NULL
                    && line->asked_count == 0 && line->giving_to == 0;
    if (is_empty) {
        places_close_line(places, line);
    } else {
        places_schedule(places, line, due_of(line, now_ns));
    }
}

static struct place *unused_place(struct places *places, struct places_line *line)
{
    struct place *place = places->unused_places;
    if (place != NULL) {
        places->unused_places = place->next;
        places->stats.place_count++;
        *place = (struct place){.line = line};
    }
    return place;
}

static void forget_place(struct places *places, struct place *place)
{
    *place = (struct place){.next = places->unused_places};
    places->unused_places = place;
    places->stats.place_count--;
}

/* ---- waiting ---- */

/* A place of this server behind all that wait here, that is free, and in time. */
static struct piece find_free(struct places_line *line, uint128 span, uint64_t latest_ns,
                              uint64_t now_ns)
{
    while (line->tail != NULL && line->tail->end <= line_lapsed(line, now_ns)) {
        line->tail = line->tail->next;
    }
    struct piece piece = places_line_find(line, span, now_ns, FREE_LOOKED_AT_MAX);
    if (piece.place != NULL && line_instant_ns(line, piece.start, piece.start + span) > latest_ns) {
        piece.place = NULL;
    }
    return piece;
}

enum places_joined places_join(struct places *places, struct places_waiter *waiter,
                               const struct places_question *question, uint64_t now_ns)
{
    struct places_line *line = places_find_line(places, question);
    uint128 span = limit_parts(question->limit, question->span);
    assert(waiter->line == NULL && waiter->asked == NULL);
    assert(span > 0 && span <= limit_parts(question->limit, limit_full(question->limit)));
    *waiter = (struct places_waiter){.span = span};
    if (line != NULL && line->asked_count == 0) { // otherwise those come first
        struct piece piece = find_free(line, span, question->latest_ns, now_ns);
        if (piece.place != NULL) {
            places_line_append(line, waiter, piece);
            places->stats.waiting_count++;
            refresh(places, line, now_ns);
            return PLACES_STANDS;
        }
    }
    if (places->unused_places == NULL
        || (line == NULL && (line = places_open_line(places, question)) == NULL)) {
        return PLACES_FULL;
    }
    waiter->asked = unused_place(places, line);
    waiter->asked->waiter = waiter;
    waiter->asked->end = span;
    line->asked_count++;
    refresh(places, line, now_ns);
    return PLACES_ASK;
}

static void stand(struct places_line *line, struct places_waiter *waiter, struct place *own,
                  uint128 end, uint64_t now_ns)
{
    struct piece piece = places_line_find(line, waiter->span, now_ns, UINT32_MAX);
    if (piece.place != NULL && piece.start + waiter->span <= end) {
        places_line_append(line, waiter, piece);
    } else { // answers came in another order, this one came late, or somebody has reset the bucket
        places_line_insert(line, waiter, own, end);
    }
}

enum places_grant places_granted(struct places *places, struct place *asked, struct span moment,
                                 uint64_t reading_ns, uint64_t now_ns)
{
    struct places_line *line = asked->line;
    struct places_waiter *waiter = asked->waiter;
    uint128 span = asked->end;
    uint128 end = moment_parts(line, moment);
    bool waits = line_instant_ns(line, end - span, end) > reading_ns;
    assert(end >= span);
    asked->waiter = NULL;
    line->asked_count--;
    if (waiter != NULL) {
        waiter->asked = NULL;
    }
    if (waits) {
        asked->start = end - span;
        asked->end = end;
        struct place *own = places_line_add_place(places, line, asked);
        if (waiter != NULL) {
            stand(line, waiter, own, end, now_ns);
            places->stats.waiting_count++;
        }
    } else {
        forget_place(places, asked);
    }
    refresh(places, line, now_ns);
    if (waiter == NULL) {
        return PLACES_FOR_NONE;
    }
    return waits ? PLACES_IN_LINE : PLACES_GOES;
}

void places_refused(struct places *places, struct place *asked, struct span moment, uint64_t now_ns)
{
    struct places_line *line = asked->line;
    line->asked_count--;
    if (asked->waiter != NULL) {
        asked->waiter->asked = NULL;
    }
    forget_place(places, asked);
    if (line->back != NULL && moment_parts(line, moment) > line->back->end) {
        line->buried = line->back->end;
    }
    refresh(places, line, now_ns);
}

static void remove_fallen(struct places_line *line, struct places_waiter *waiter)
{
    *(waiter->previous != NULL ? &waiter->previous->next : &line->fallen_first) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &line->fallen_last) = waiter->previous;
    *waiter = (struct places_waiter){.next = NULL};
}

bool places_leave(struct places *places, struct places_waiter *waiter, uint64_t now_ns)
{
    struct places_line *line = waiter->line;
    if (waiter->asked != NULL) {
        waiter->asked->waiter = NULL;
        waiter->asked = NULL;
        return true;
    }
    if (line == NULL) {
        return false;
    }
    places->stats.waiting_count--;
    if (waiter->has_fallen_out) {
        remove_fallen(line, waiter);
    } else {
        places_line_leave(line, waiter);
    }
    refresh(places, line, now_ns);
    return true;
}

/* ---- what is due ---- */

static struct places_event give_back(struct places *places, struct places_line *line)
{
    struct place *back = line->back;
    line->giving_from = free_end(line);
    line->giving_to = back->end;
    uint128 until = less_or_zero(back->end, line->lead);
    struct places_event event = {
        .kind = PLACES_GIVE_BACK,
        .line = line,
        .from = parts_moment(line, line->giving_from),
        .to = parts_moment(line, line->giving_to),
        .denominator = line->denominator,
        .until_ns = (uint64_t)(until / line->denominator),
    };
    memcpy(event.name, line->name, sizeof event.name);
    back->end = line->giving_from;
    if (back->start == back->end) {
        places_line_drop_place(places, back);
    }
    return event;
}

static struct places_event send_away(struct places *places, struct places_line *line)
{
    struct places_waiter *waiter = line->fallen_first;
    remove_fallen(line, waiter);
    places->stats.waiting_count--;
    return (struct places_event){.kind = PLACES_AGAIN, .waiter = waiter};
}

static struct places_event let_go(struct places *places, struct places_line *line)
{
    struct places_waiter *waiter = line->first;
    struct place *place = line->front;
    uint128 end = place->start + waiter->span;
    struct places_event event = {
        .kind = PLACES_GO,
        .waiter = waiter,
        .from = parts_moment(line, place->start),
        .to = parts_moment(line, end),
        .denominator = line->denominator,
    };
    places_line_remove(line, waiter);
    places->stats.waiting_count--;
    place->start = end;
    if (place->start == place->end) {
        places_line_drop_place(places, place);
    }
    return event;
}

struct places_event places_next(struct places *places, uint64_t now_ns)
{
    while (places->heap_count > 0 && places->heap[0]->due_ns <= now_ns) {
        struct places_line *line = places->heap[0];
        struct places_event event = {.kind = PLACES_NOTHING};
        refresh(places, line, now_ns); // the first waiter may be late
        if (places->heap_count == 0 || places->heap[0] != line || line->due_ns > now_ns) {
            continue;
        }
        if (line->fallen_first != NULL) {
            event = send_away(places, line);
        } else if (wants_to_give_back(line, now_ns)) {
            event = give_back(places, line);
        } else if (line->first != NULL) {
            event = let_go(places, line);
        }
        refresh(places, line, now_ns);
        if (event.kind != PLACES_NOTHING) {
            return event;
        }
    }
    return (struct places_event){.kind = PLACES_NOTHING};
}

uint64_t places_next_ns(const struct places *places)
{
    return places->heap_count > 0 ? places->heap[0]->due_ns : PLACES_NEVER;
}

void places_given_back(struct places *places, struct places_line *line, enum places_swapped swapped,
                       uint64_t now_ns)
{
    uint128 from = line->giving_from;
    uint128 to = line->giving_to;
    assert(to != 0);
    line->giving_from = line->giving_to = 0;
    if (swapped == PLACES_NOT_SWAPPED) {
        struct place *place = unused_place(places, line);
        line->buried = to > line->buried ? to : line->buried;
        if (place != NULL) { // otherwise it is lost
            place->start = from;
            place->end = to;
            (void)places_line_add_place(places, line, place);
        }
    } else if (line->back != NULL && line->back->end < from) {
        line->buried = line->back->end; // others are in between
    }
    refresh(places, line, now_ns);
}

struct places_stats places_stats(const struct places *places)
{
    return places->stats;
}

/* ---- the invariant ---- */

static bool line_valid(const struct places_line *line, struct places_stats *found)
{
    uint32_t count = 0;
    uint32_t place_count = 0;
    const struct place *former = NULL;
    for (const struct place *place = line->front; place != NULL; place = place->next) {
        if (place->line != line || place->previous != former || place->start >= place->end
            || (former != NULL && former->end > place->end)) {
            return false;
        }
        former = place;
        place_count++;
    }
    const struct places_waiter *ahead = NULL;
    for (const struct places_waiter *waiter = line->first; waiter != NULL; waiter = waiter->next) {
        if (waiter->line != line || waiter->previous != ahead || waiter->has_fallen_out
            || (!line->is_laying
                && ((ahead != NULL && ahead->end > waiter->end) || waiter->end > line->tail_at))) {
            return false;
        }
        ahead = waiter;
        count++;
    }
    for (const struct places_waiter *waiter = line->fallen_first; waiter != NULL;
         waiter = waiter->next) {
        found->waiting_count++;
    }
    found->waiting_count += count;
    found->place_count += place_count + line->asked_count;
    found->line_count++;
    return line->back == former && line->last == ahead && line->count == count
           && line->place_count == place_count && line->giving_from <= line->giving_to;
}

bool places_valid(const struct places *places)
{
    struct places_stats found = {0, 0, 0};
    uint32_t due_count = 0;
    for (uint32_t i = 0; i <= places->hash_mask; i++) {
        for (const struct places_line *line = places->hashed[i]; line != NULL; line = line->next) {
            if (!line_valid(line, &found)) {
                return false;
            }
            bool is_due = line->due_ns != PLACES_NEVER;
            if (is_due && places->heap[line->heap_index] != line) {
                return false;
            }
            due_count += is_due;
        }
    }
    for (uint32_t i = 1; i < places->heap_count; i++) {
        if (places->heap[i]->due_ns < places->heap[(i - 1) / 2]->due_ns) {
            return false;
        }
    }
    return due_count == places->heap_count && found.place_count == places->stats.place_count
           && found.waiting_count == places->stats.waiting_count
           && found.line_count == places->stats.line_count;
}
