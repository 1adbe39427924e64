/* SPDX-License-Identifier: MIT
 *
 * When it is one's turn at a window. Of a window no moment tells that: what it has let through leaves it
 * piece by piece, and what those in line add stays for a whole period. So the line is played through:
 *
 *     leaves    what leaves: first the events of the log, then those of the waiters served meanwhile, who came
 *               later than all of these
 *     serves    once enough has left for the next waiter, all who now fit, in order; at last the one who asks
 *
 * Each waiter is looked at once. Of the events only those are, before which somebody is served: the store skips
 * what has to leave before that (window_log_leave()). */
#include <assert.h>

#include "limiter/lines/line.h"

/*   line      who stands before the one who asks
 *   next      who of them is served next; 0: the one who asks
 *   cost      of the one who asks
 *   now_ns    how far it has been played
 *   level     of the window then: its events that have not left,
 *   served    and what those who were served have added to them
 *   has_come  the turn of the one who asks */
struct play {
    struct drain_visitor visitor;
    const struct weir_limit *limit;
    const struct window_line *line;
    uintptr_t next;
    uint64_t cost;
    uint64_t now_ns;
    uint64_t level;
    uint64_t served;
    bool has_come;
};

/* Serves all who fit. When that was is remembered with each. Returns how many units have to leave before the next
 * one fits; 0: the one who asks has been served. */
static uint64_t serve(struct play *play)
{
    while (!play->has_come) {
        struct window_place place = {.cost_micro = 0};
        if (play->next != 0) {
            place = play->line->read(play->line, play->next);
        }
        uint64_t cost = play->next != 0 ? place.cost_micro / WEIR_UNIT : play->cost;
        uint64_t level = play->level + play->served;
        if (cost > window_room(play->limit, level)) {
            return level + cost - window_room(play->limit, 0);
        }
        if (play->next == 0) {
            play->has_come = true;
        } else {
            *place.served_at_ns = play->now_ns;
            play->served += cost;
            play->next = place.next;
        }
    }
    return 0;
}

static uint64_t drain(struct drain_visitor *visitor, uint64_t now_ns, uint64_t level)
{
    struct play *play = (struct play *)(void *)visitor;
    play->now_ns = now_ns;
    play->level = level;
    return serve(play);
}

uint64_t window_fits_behind_at(struct store *store, const struct weir_limit *limit, uint64_t id,
                               const struct window_line *line, const struct charge *charge,
                               uint64_t now_ns)
{
    struct play play = {
        .visitor = {drain},
        .limit = limit,
        .line = line,
        .next = line->first,
        .cost = charge->cost_micro / WEIR_UNIT,
    };
    store->ops->lines->visit_drain(store, limit, id, &play.visitor, now_ns);
    for (uintptr_t at = line->first; !play.has_come;) {
        assert(at != 0 && at != play.next); // who is next fits into an empty window
        struct window_place place = line->read(line, at);
        play.now_ns = *place.served_at_ns + limit->full_ns;
        play.served -= place.cost_micro / WEIR_UNIT;
        (void)serve(&play);
        at = place.next;
    }
    return play.now_ns > now_ns ? play.now_ns : now_ns;
}

static struct window_place read_waiter(const struct window_line *line, uintptr_t at)
{
    struct waiter *waiter = (struct waiter *)at;
    (void)line; // they know each other
    return (struct window_place){waiter->cost_micro, &waiter->gap.ns, (uintptr_t)waiter->next};
}

uint64_t line_window_fits_at(struct lines *lines, const struct weir_limit *limit, uint64_t id,
                             struct waiter *first, const struct charge *charge, uint64_t now_ns)
{
    struct window_line line = {read_waiter, NULL, (uintptr_t)first};
    return window_fits_behind_at(lines->store, limit, id, &line, charge, now_ns);
}
