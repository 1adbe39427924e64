/* SPDX-License-Identifier: MIT */
#include "limiter/shaper_line.h"

#include <stdlib.h>

#define NO_PLACE    UINT32_MAX
#define COST_FREE   UINT64_MAX
#define TICKET_STEP ((uint64_t)WEIR_SHAPER_ITEMS_MAX)

/* ---- places ---- */

static bool has_free_place(const struct shaper_line *line)
{
    return line->free != NO_PLACE || line->used_count < line->items_max;
}

static struct place *use_place(struct shaper_line *line)
{
    struct place *place;
    if (line->free != NO_PLACE) {
        place = &line->places[line->free];
        line->free = place->next;
    } else {
        place = &line->places[line->used_count];
        place->ticket = line->used_count++;
    }
    place->ticket += TICKET_STEP;
    return place;
}

static uint32_t index_of(const struct place *place)
{
    return (uint32_t)(place->ticket % TICKET_STEP);
}

struct place *shaper_line_find(const struct shaper_line *line, uint64_t ticket)
{
    uint64_t index = ticket % TICKET_STEP;
    if (index >= line->used_count) {
        return NULL;
    }
    struct place *place = &line->places[index];
    return place->ticket == ticket && place->cost_micro != COST_FREE ? place : NULL;
}

static void append_place(struct shaper_line *line, struct place *place)
{
    uint32_t index = index_of(place);
    place->next = NO_PLACE;
    place->previous = line->last;
    *(line->last == NO_PLACE ? &line->first : &line->places[line->last].next) = index;
    line->last = index;
    line->item_count++;
}

static void unlink_place(struct shaper_line *line, struct place *place)
{
    uint32_t next = place->next, previous = place->previous;
    *(next == NO_PLACE ? &line->last : &line->places[next].previous) = previous;
    *(previous == NO_PLACE ? &line->first : &line->places[previous].next) = next;
    line->item_count--;
    place->cost_micro = COST_FREE;
    place->next = line->free;
    line->free = index_of(place);
}

/* ---- instants ---- */

static struct span place_span(const struct shaper_line *line, const struct place *place)
{
    return charge_of(&line->limit, place->cost_micro).span;
}

/* When an item may go that starts at `start` and takes `span`. */
static struct span egress_of(const struct shaper_line *line, struct span start, struct span span)
{
    return line->limit.first == WEIR_FIRST_NOW ? start
                                               : span_add(start, span, line->limit.denominator);
}

static struct span first_egress(const struct shaper_line *line)
{
    const struct place *first = &line->places[line->first];
    return egress_of(line, line->front, place_span(line, first));
}

static bool is_in_line(const struct shaper_line *line)
{
    return line->first != NO_PLACE;
}

/* The whole line, so that what was to be at `then` will be at `now_ns`, which is later. */
static void move_line(struct shaper_line *line, struct span then, uint64_t now_ns)
{
    uint64_t denominator = line->limit.denominator;
    struct span by = span_sub((struct span){now_ns, 0}, then, denominator);
    line->front = span_add(line->front, by, denominator);
    line->back = span_add(line->back, by, denominator);
}

void shaper_line_settle(struct shaper_line *line, uint64_t now_ns)
{
    if (is_in_line(line)) {
        struct span egress = first_egress(line);
        if (span_ceil_ns(egress) + WEIR_JITTER_NS < now_ns) {
            move_line(line, egress, now_ns);
            line->late_count++;
        }
    }
}

/* ---- in and out ---- */

/* As a bucket of the core's. */
static struct weir_bucket line_bucket(const struct shaper_line *line)
{
    return bucket_with_moment((struct weir_bucket){0, 0}, line->back);
}

/* It would fit, but for a place: until the first one's becomes free. */
static void answer_no_place(const struct shaper_line *line, struct weir_decision *decision,
                            uint64_t now_ns)
{
    struct outcome outcome = {WEIR_LIMITED, line->back};
    uint64_t wait_ns = span_ceil_ns(span_since(first_egress(line), now_ns));
    kind_answer(decision, &line->limit, outcome, now_ns);
    decision->retry_after_ns = wait_ns != 0 ? (int64_t)wait_ns : 1;
}

/* Behind all others, from the end of the line or from now, if that is later. */
static struct place *stand_in_line(struct shaper_line *line, void *item, uint64_t cost_micro,
                                   struct span span, uint64_t now_ns)
{
    if (!is_in_line(line)) {
        line->front = line->back = bucket_start(line->back, now_ns);
    } else if (line->back.ns < now_ns) {
        move_line(line, line->back, now_ns);
    }
    line->back = span_add(line->back, span, line->limit.denominator);
    struct place *place = use_place(line);
    place->item = item;
    place->cost_micro = cost_micro;
    append_place(line, place);
    return place;
}

/* Lets an item in if it fits; says what came of it. */
bool shaper_line_enter(struct shaper_line *line, void *item, uint64_t cost_micro, uint64_t now_ns,
                       struct weir_submitted *submitted)
{
    struct weir_decision *decision = &submitted->decision;
    const struct weir_limit *limit = &line->limit;
    struct charge charge = charge_of(limit, cost_micro);
    struct outcome outcome = bucket_take(line_bucket(line), limit, &charge, now_ns);
    kind_answer_take(decision, limit, &charge, outcome, now_ns);
    submitted->ticket = 0;
    submitted->egress_ns = UINT64_MAX;
    if (outcome.verdict != WEIR_ALLOWED) {
        return false;
    }
    if (!has_free_place(line)) {
        answer_no_place(line, decision, now_ns);
        return false;
    }
    struct span start = bucket_start(line->back, now_ns);
    struct span egress = egress_of(line, start, charge.span);
    submitted->ticket = stand_in_line(line, item, cost_micro, charge.span, now_ns)->ticket;
    submitted->egress_ns = span_ceil_ns(egress);
    decision->delay_ns = (int64_t)span_ceil_ns(span_since(egress, now_ns));
    return true;
}

/* Whoever stands behind moves up by what is taken out. */
void *shaper_line_take_out(struct shaper_line *line, struct place *place)
{
    line->back = span_sub(line->back, place_span(line, place), line->limit.denominator);
    unlink_place(line, place);
    return place->item;
}

bool shaper_line_pop(struct shaper_line *line, uint64_t now_ns, struct weir_released *released)
{
    if (!is_in_line(line) || span_less((struct span){now_ns, 0}, first_egress(line))) {
        return false;
    }
    struct place *first = &line->places[line->first];
    *released = (struct weir_released){.item = first->item,
                                       .ticket = first->ticket,
                                       .cost_micro = first->cost_micro,
                                       .egress_ns = span_ceil_ns(first_egress(line))};
    line->front = span_add(line->front, place_span(line, first), line->limit.denominator);
    unlink_place(line, first);
    return true;
}

uint64_t shaper_line_next_ns(const struct shaper_line *line)
{
    return is_in_line(line) ? span_ceil_ns(first_egress(line)) : UINT64_MAX;
}

uint64_t shaper_line_fits_ns(const struct shaper_line *line, uint64_t cost_micro, uint64_t now_ns)
{
    if (!has_free_place(line)) {
        return UINT64_MAX;
    }
    struct weir_bucket bucket = line_bucket(line);
    struct weir_decision decision = weir_bucket_can_take(&bucket, &line->limit, cost_micro, now_ns);
    return now_ns + (decision.verdict == WEIR_LIMITED ? (uint64_t)decision.retry_after_ns : 0);
}

bool shaper_line_would_fit_alone(const struct shaper_line *line, uint64_t cost_micro,
                                 uint64_t now_ns)
{
    struct charge charge = charge_of(&line->limit, cost_micro);
    struct weir_bucket front = bucket_with_moment((struct weir_bucket){0, 0}, line->front);
    return bucket_take(front, &line->limit, &charge, now_ns).verdict == WEIR_ALLOWED;
}

struct place *shaper_line_first(const struct shaper_line *line)
{
    return is_in_line(line) ? &line->places[line->first] : NULL;
}

struct place *shaper_line_after(const struct shaper_line *line, const struct place *place)
{
    return place->next != NO_PLACE ? &line->places[place->next] : NULL;
}

bool shaper_line_valid(const struct shaper_line *line)
{
    bool is_empty = line->item_count == 0;
    return (line->first == NO_PLACE) == is_empty && (line->last == NO_PLACE) == is_empty
           && !span_less(line->back, line->front)
           && (!is_empty || !span_less(line->front, line->back));
}

bool shaper_line_init(struct shaper_line *line, const struct weir_limit *limit, uint32_t items_max)
{
    *line = (struct shaper_line){
        .limit = *limit,
        .items_max = items_max,
        .places = calloc(items_max, sizeof *line->places),
        .first = NO_PLACE,
        .last = NO_PLACE,
        .free = NO_PLACE,
    };
    return line->places != NULL;
}

void shaper_line_fini(struct shaper_line *line)
{
    free(line->places);
}
