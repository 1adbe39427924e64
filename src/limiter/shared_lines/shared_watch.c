/* SPDX-License-Identifier: MIT
 *
 * Whose death each process looks for: that of every process directly before one of its own tickets. */
#include "limiter/shared_lines/shared_room.h"

void shared_unwatch(struct shared_lines *shared, uint32_t place)
{
    struct own_ticket *own = &shared->own[place - 1];
    for (uint32_t i = 0; own->watched != 0 && i < shared->watch_count; i++) {
        struct watch *watch = &shared->watches[i];
        if (watch->standing == own->watched) {
            watch->count--;
            if (watch->count == 0) {
                *watch = shared->watches[--shared->watch_count];
            }
            break;
        }
    }
    own->watched = 0;
}

static void watch(struct shared_lines *shared, struct own_ticket *own, uint32_t standing)
{
    uint32_t i = 0;
    while (i < shared->watch_count && shared->watches[i].standing != standing) {
        i++;
    }
    if (i == shared->watch_count) {
        shared->watches[shared->watch_count++] = (struct watch){standing, 0};
        shared->has_new_watch = true;
    }
    shared->watches[i].count++;
    own->watched = standing;
}

/* The process before this one, while this one stands in line; 0: none, or our own. */
static uint32_t standing_before(const struct shared_lines *shared, const struct ticket *ticket)
{
    if (ticket->state != TICKET_STANDS || ticket->previous == 0) {
        return 0;
    }
    const struct ticket *previous = ticket_at(shared, ticket->previous);
    return is_own(shared, previous) ? 0 : previous->standing;
}

void shared_renew_watch(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    struct own_ticket *own = &shared->own[place - 1];
    const struct ticket *ticket = ticket_at(shared, place);
    uint32_t before = standing_before(shared, ticket);
    while (before != 0 && !room_is_alive(shared, before)) {
        room_bury(shared, before, now_ns);
        before = standing_before(shared, ticket);
    }
    if (before != own->watched) {
        shared_unwatch(shared, place);
        if (before != 0) {
            watch(shared, own, before);
        }
    }
}
