/* SPDX-License-Identifier: MIT
 *
 * When it is one's turn at a window. Of a window no moment tells that: what it has let through leaves it
 * piece by piece, and what those in line add stays for a whole period. So the line is played through:
 *
 *     leaves    what leaves, one after another: first the events of the log, as the store tells them, then
 *               those of the waiters served meanwhile, who came later than all of these
 *     serves    after each, those who now fit, in order; at last the one who asks
 *
 * Each event and each waiter is looked at once. */
#include <assert.h>

#include "limiter/line.h"

/*   next      who is served next; NULL: the one who asks
 *   cost      of the one who asks
 *   now_ns    how far it has been played
 *   level     of the window then
 *   has_come  the turn of the one who asks */
struct play {
    struct event_visitor visitor;
    const struct weir_limit *limit;
    struct waiter *next;
    uint64_t cost;
    uint64_t now_ns;
    uint64_t level;
    bool has_come;
};

/* Serves all who fit. When that was is remembered with each. */
static void serve(struct play *play)
{
    while (!play->has_come) {
        struct waiter *waiter = play->next;
        uint64_t cost = waiter != NULL ? waiter->cost_micro / WEIR_UNIT : play->cost;
        if (cost > window_room(play->limit, play->level)) {
            return;
        }
        if (waiter == NULL) {
            play->has_come = true;
            return;
        }
        waiter->gap.ns = play->now_ns;
        play->level += cost;
        play->next = waiter->next;
    }
}

static void begin(struct event_visitor *visitor, uint64_t now_ns, uint64_t level)
{
    struct play *play = (struct play *)(void *)visitor;
    play->now_ns = now_ns;
    play->level = level;
    serve(play);
}

static bool leave(struct event_visitor *visitor, uint64_t leaves_at_ns, uint64_t cost)
{
    struct play *play = (struct play *)(void *)visitor;
    if (!play->has_come) {
        play->now_ns = leaves_at_ns;
        play->level -= cost;
        serve(play);
    }
    return !play->has_come;
}

uint64_t line_window_fits_at(struct lines *lines, const struct weir_limit *limit, uint64_t id,
                             struct waiter *first, const struct charge *charge, uint64_t now_ns)
{
    struct play play = {
        .visitor = {begin, leave},
        .limit = limit,
        .next = first,
        .cost = charge->cost_micro / WEIR_UNIT,
    };
    lines->store->ops->visit_events(lines->store, limit, id, &play.visitor, now_ns);
    for (const struct waiter *waiter = first; !play.has_come; waiter = waiter->next) {
        assert(waiter != NULL && waiter != play.next); // who is next fits into an empty window
        (void)leave(&play.visitor, waiter->gap.ns + limit->full_ns, waiter->cost_micro / WEIR_UNIT);
    }
    return play.now_ns > now_ns ? play.now_ns : now_ns;
}
