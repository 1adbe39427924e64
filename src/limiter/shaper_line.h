/* SPDX-License-Identifier: MIT
 *
 * The shaper's line, without its lock.
 *
 * A FIFO with two moments. `front` is when the first item in line starts, `back` when the last one
 * ends; between them the items lie one after another without a gap, each as long as its cost takes to
 * drain:
 *
 *     front                                          back
 *       |--- first ---|-- second --|------- last -------|
 *       ^ first=now   ^ first=interval: when the first may go
 *
 * So no item needs to know its instant. Popping moves `front` behind the first; submitting moves `back`;
 * whoever leaves from anywhere in between shortens the line by his length, and all behind him have moved
 * up: each is one addition of exact rationals. `back` is the moment of a bucket of kind queue, and who
 * fits is decided by the core, as for any other bucket.
 *
 * The price of doing without gaps: who arrives when all in line are due (by at most WEIR_JITTER_NS, but
 * nobody has popped them) moves the line up to himself. All that is due stays due by that.
 *
 * Readings are at most WEIR_NOW_NS_MAX. Never allocates but in init. Threads: single owner. */
#ifndef WEIR_LIMITER_SHAPER_LINE_H
#define WEIR_LIMITER_SHAPER_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/kinds.h"
#include "weir/shaper.h"

/* A place in line, or one that is free: then `next` is the next free one. Linked by their indices.
 *   ticket      the index in its lowest bits, above them how often the place has been used; a free one
 *               keeps its last, so that tickets do not repeat
 *   cost_micro  UINT64_MAX in a free one */
struct place {
    void *item;
    uint64_t ticket;
    uint64_t cost_micro;
    uint32_t next, previous;
};

_Static_assert(sizeof(void *) != 8 || sizeof(struct place) == 32, "as shaper.h says");

struct shaper_line {
    struct weir_limit limit;
    struct span front, back;
    struct place *places;
    uint32_t items_max;
    uint32_t item_count;
    uint32_t first, last; // in line
    uint32_t free;        // a list
    uint32_t used_count;  // places beyond have never been touched
    uint64_t late_count;  // how often settling moved the line
};

/* False without memory for so many places. */
bool shaper_line_init(struct shaper_line *line, const struct weir_limit *limit, uint32_t items_max);

void shaper_line_fini(struct shaper_line *line);

/* Whatever is asked of a line at a reading, this comes first: if the first item is later than
 * WEIR_JITTER_NS, it goes now, and the others follow from here. Nothing is caught up. */
void shaper_line_settle(struct shaper_line *line, uint64_t now_ns);

/* Lets an item in if it fits. *submitted says what came of it. */
bool shaper_line_enter(struct shaper_line *line, void *item, uint64_t cost_micro, uint64_t now_ns,
                       struct weir_submitted *submitted);

/* Takes out the first item if it may go. */
bool shaper_line_pop(struct shaper_line *line, uint64_t now_ns, struct weir_released *released);

/* The place that a ticket names; NULL if nothing stands there any more. */
struct place *shaper_line_find(const struct shaper_line *line, uint64_t ticket);

/* In their order; NULL behind the last. */
struct place *shaper_line_first(const struct shaper_line *line);
struct place *shaper_line_after(const struct shaper_line *line, const struct place *place);

/* Takes an item out from anywhere. Whoever stands behind moves up by its cost. */
void *shaper_line_take_out(struct shaper_line *line, struct place *place);

/* When the first item may go, rounded up; UINT64_MAX if there is none. */
uint64_t shaper_line_next_ns(const struct shaper_line *line);

/* From when on, `now_ns` or later, such an item fits, if nobody leaves before; UINT64_MAX where it
 * lacks a place. It must not exceed the capacity. */
uint64_t shaper_line_fits_ns(const struct shaper_line *line, uint64_t cost_micro, uint64_t now_ns);

/* Whether it would fit if nobody stood here any more. */
bool shaper_line_would_fit_alone(const struct shaper_line *line, uint64_t cost_micro,
                                 uint64_t now_ns);

bool shaper_line_valid(const struct shaper_line *line);

#endif
