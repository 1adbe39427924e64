/* SPDX-License-Identifier: MIT
 *
 * The memory in which those stand who share a store: places, calls, and who is alive. */
#include "limiter/shared_lines/shared_room.h"

#include <assert.h>
#include <string.h>

#include "platform/futex.h"

/* ---- where everything is ---- */

bool room_lay(struct shared_lines *shared, const struct store *store)
{
    enum {
        PLACE_BYTES = sizeof(struct ticket) + sizeof(struct standing) + sizeof(struct shared_line)
                      + sizeof(uint32_t)
    };
    const struct waiting_area *area = store->ops->lines->waiting_area(store);
    char *at = (char *)area->room;
    uint64_t place_count = (area->bytes - ROOM_START_BYTES) / PLACE_BYTES;
    if (area->bytes <= ROOM_START_BYTES || place_count == 0) {
        return false;
    }
    place_count = place_count < ROOM_PLACES_MAX ? place_count : ROOM_PLACES_MAX;
    shared->area = area;
    shared->place_count = (uint32_t)place_count;
    shared->bin_count = 1;
    while (2 * shared->bin_count <= place_count) {
        shared->bin_count *= 2;
    }
    shared->room = (struct room *)(void *)at;
    shared->tickets = (struct ticket *)(void *)(at + ROOM_START_BYTES);
    shared->standings = (struct standing *)(void *)(shared->tickets + place_count);
    shared->shared_lines = (struct shared_line *)(void *)(shared->standings + place_count);
    shared->bins = (uint32_t *)(void *)(shared->shared_lines + place_count);
    return true;
}

void room_clear(struct shared_lines *shared)
{
    struct room *room = shared->room;
    memset(shared->bins, 0, shared->bin_count * sizeof shared->bins[0]);
    room->free_ticket = room->free_standing = room->free_line = 0;
    room->waiting_count = room->line_count = 0;
    for (uint32_t place = shared->place_count; place > 0; place--) {
        ticket_at(shared, place)->is_called = false;
        if (ticket_at(shared, place)->state == TICKET_FREE) {
            room_free_ticket(shared, place);
        }
        standing_at(shared, place)->first_called = 0;
        if (!standing_at(shared, place)->is_used) {
            room_free_standing(shared, place);
        }
        shared_line_at(shared, place)->next_in_bin = room->free_line;
        room->free_line = place;
    }
}

/* ---- in and out ---- */

uint64_t room_enter(struct shared_lines *shared, uint64_t now_ns)
{
    struct store *store = shared->lines->store;
    const struct ticket *tickets = shared->tickets;
    bool is_heir = lock_acquire(&shared->room->start.lock, room_members(shared));
    bool has_moved = store->ops->lines->waits_elsewhere(store);
    if (has_moved && !room_follow(shared, &is_heir)) {
        return now_ns != STORE_NOW ? now_ns : shared->room->latest_now_ns;
    }
    struct room *room = shared->room;
    bool is_new = room->start.epoch < shared->area->since;
    bool is_whole = !is_heir && room->start.epoch == shared->area->epoch;
    if (is_new) {
        room_begin(shared);
    }
    now_ns = now_ns != STORE_NOW ? now_ns : room->latest_now_ns;
    if (now_ns > room->latest_now_ns) {
        room->latest_now_ns = now_ns;
    }
    if (!is_whole && !is_new) {
        room_repair(shared, now_ns);
    }
    if (has_moved) {
        room_arrive(shared, tickets, now_ns);
    }
    return now_ns;
}

/* Each call leads to a look at one ticket, and that to further calls at most of tickets behind it. */
void room_look_after_calls(struct shared_lines *shared, uint64_t now_ns)
{
    while (shared->standing != 0 && standing_at(shared, shared->standing)->first_called != 0) {
        struct standing *standing = standing_at(shared, shared->standing);
        uint32_t place = standing->first_called;
        struct ticket *ticket = ticket_at(shared, place);
        standing->first_called = ticket->next_called;
        ticket->is_called = false;
        if (ticket->state == TICKET_FREE) {
            room_free_ticket(shared, place); // which had to wait for this
        } else {
            shared_attend(shared, place, now_ns);
        }
    }
}

void room_leave(struct shared_lines *shared, uint64_t now_ns)
{
    room_look_after_calls(shared, now_ns);
    if (shared->has_new_watch) {
        shared->has_new_watch = false;
        attendant_call(shared);
    }
    lock_release(&shared->room->start.lock);
}

/* ---- places ---- */

void room_set_state(struct ticket *ticket, enum ticket_state state)
{
    __atomic_store_n(&ticket->state, (uint32_t)state, __ATOMIC_RELEASE);
}

uint32_t room_take_ticket(struct shared_lines *shared)
{
    uint32_t place = shared->room->free_ticket;
    if (place != 0) {
        shared->room->free_ticket = ticket_at(shared, place)->next;
        ticket_at(shared, place)->next_member = place;
    }
    return place;
}

void room_free_ticket(struct shared_lines *shared, uint32_t place)
{
    struct ticket *ticket = ticket_at(shared, place);
    room_set_state(ticket, TICKET_FREE);
    ticket->line = 0;
    if (!ticket->is_called) { // otherwise once it is not on that list any more
        ticket->next = shared->room->free_ticket;
        shared->room->free_ticket = place;
    }
}

uint32_t room_take_line(struct shared_lines *shared)
{
    uint32_t place = shared->room->free_line;
    if (place != 0) {
        shared->room->free_line = shared_line_at(shared, place)->next_in_bin;
        *shared_line_at(shared, place) = (struct shared_line){.id = 0};
    }
    return place;
}

void room_free_line(struct shared_lines *shared, uint32_t place)
{
    struct shared_line *line = shared_line_at(shared, place);
    uint32_t *at = &shared->bins[(line->id >> 32) & (shared->bin_count - 1)];
    while (*at != place) {
        at = &shared_line_at(shared, *at)->next_in_bin;
    }
    *at = line->next_in_bin;
    line->next_in_bin = shared->room->free_line;
    shared->room->free_line = place;
    shared->room->line_count--;
}

uint32_t room_take_standing(struct shared_lines *shared)
{
    uint32_t place = shared->room->free_standing;
    if (place != 0) {
        struct standing *standing = standing_at(shared, place);
        shared->room->free_standing = standing->next_free;
        standing->first_called = 0;
    }
    return place;
}

void room_free_standing(struct shared_lines *shared, uint32_t place)
{
    struct standing *standing = standing_at(shared, place);
    standing->is_used = standing->is_expected = false;
    standing->next_free = shared->room->free_standing;
    shared->room->free_standing = place;
}

void room_hold(struct shared_lines *shared, uint32_t place)
{
    struct standing *standing = standing_at(shared, place);
    standing->member = room_members(shared)->id;
    standing->is_used = true;
    standing->is_expected = false;
    shared->standing = place;
    shared->token = standing->token;
}

bool room_stand(struct shared_lines *shared, uint64_t now_ns)
{
    uint32_t place = room_take_standing(shared);
    if (place == 0) {
        room_bury_all(shared, now_ns);
        place = room_take_standing(shared);
    }
    shared->standing = 0;
    if (place != 0) {
        shared->room->tokens += shared->room->tokens == UINT32_MAX ? 2 : 1; // 0 is nobody's
        standing_at(shared, place)->token = shared->room->tokens;
        room_hold(shared, place);
    }
    return place != 0;
}

/* ---- lines by their buckets ---- */

uint32_t room_find(const struct shared_lines *shared, uint64_t id)
{
    uint32_t place = shared->bins[(id >> 32) & (shared->bin_count - 1)]; // bits of a keyed hash
    while (place != 0 && shared_line_at(shared, place)->id != id) {
        place = shared_line_at(shared, place)->next_in_bin;
    }
    return place;
}

void room_put_in_bin(struct shared_lines *shared, uint32_t place)
{
    struct shared_line *line = shared_line_at(shared, place);
    uint32_t *bin = &shared->bins[(line->id >> 32) & (shared->bin_count - 1)];
    line->next_in_bin = *bin;
    *bin = place;
    shared->room->line_count++;
}

/* ---- calls ---- */

/* A list that is not empty was made known when its first one came, under this lock: whoever dies in between
 * has an heir, who calls everybody. */
void room_call(struct shared_lines *shared, uint32_t place)
{
    struct ticket *ticket = ticket_at(shared, place);
    struct standing *standing = standing_at(shared, ticket->standing);
    if (ticket->is_called) {
        return;
    }
    bool is_first = standing->first_called == 0;
    ticket->is_called = true;
    ticket->next_called = standing->first_called;
    standing->first_called = place;
    if (is_first && !is_own(shared, ticket)) {
        (void)__atomic_fetch_add(&standing->calls, 1, __ATOMIC_RELAXED); // under the lock
        futex_wake(&standing->calls);
    }
}

/* ---- the dead ---- */

bool room_is_alive(struct shared_lines *shared, uint32_t place)
{
    const struct standing *standing = standing_at(shared, place);
    if (standing->is_used && standing->is_expected) {
        return shared->room->latest_now_ns < shared->room->expected_until_ns;
    }
    return standing->is_used && membership_is_alive(room_members(shared), standing->member);
}

void room_bury(struct shared_lines *shared, uint32_t standing, uint64_t now_ns)
{
    standing_at(shared, standing)->first_called = 0;
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        struct ticket *ticket = ticket_at(shared, place);
        if (ticket->state == TICKET_FREE || ticket->standing != standing) {
            continue;
        }
        uint32_t line = ticket->state == TICKET_STANDS ? ticket->line : 0;
        ticket->is_called = false; // nobody reads that list any more
        if (line != 0) {
            shared_give_back(shared, place, now_ns);
        }
        room_free_ticket(shared, place);
        if (line != 0) {
            shared_settle(shared, line, now_ns);
        }
    }
    room_free_standing(shared, standing);
}

void room_bury_all(struct shared_lines *shared, uint64_t now_ns)
{
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        if (standing_at(shared, place)->is_used && !room_is_alive(shared, place)) {
            room_bury(shared, place, now_ns);
        }
    }
}

/* ---- the invariant ---- */

bool room_valid(const struct shared_lines *shared)
{
    const struct room *room = shared->room;
    uint32_t free_tickets = 0;
    uint32_t used_tickets = 0;
    uint32_t free_lines = 0;
    for (uint32_t place = room->free_ticket; place != 0 && free_tickets <= shared->place_count;
         place = ticket_at(shared, place)->next) {
        free_tickets++;
    }
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        used_tickets += ticket_at(shared, place)->state != TICKET_FREE;
    }
    for (uint32_t place = room->free_line; place != 0 && free_lines <= shared->place_count;
         place = shared_line_at(shared, place)->next_in_bin) {
        free_lines++;
    }
    return free_tickets + used_tickets == shared->place_count
           && free_lines + room->line_count == shared->place_count;
}
