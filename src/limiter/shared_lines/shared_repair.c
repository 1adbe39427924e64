/* SPDX-License-Identifier: MIT
 *
 * What is left to do when somebody died while he changed the room. Whoever locks it next does it, before
 * anything else. Everything is written by single stores, and only these count:
 *
 *   died after                        what is there                      what is done about it
 *   the bucket was marked             a mark without a line              whoever meets it takes it away
 *   a queue was charged               the same, and a cost               the cost stays charged
 *   `state` says that it stands       all of a ticket                    he is dead, and is buried
 *   a head's turn was charged         the ticket still stands            buried: the cost stays charged
 *   `state` says gone, or free        its cost in a queue, perhaps only  the cost stays charged; the ends of
 *                                     some of those behind it moved up   those behind are set straight
 *   `state` says passed over          the same                           the same; he joins again himself
 *   a refund moved some up            the cost, and gaps between places the cost stays charged
 *   `state` says held                 a ticket that stands nowhere       nothing while its process lives
 *   some of the tickets of one take   the others still stand             its process finds one passed over, and
 *   were passed over                                                     takes the others out
 *   somebody was called or was not    lists that lead nowhere            all lists are made anew, and
 *                                                                        everybody is called
 *
 * To give back what a queue has charged is the last thing that is done about a ticket, after `state`: so it
 * is done once or not at all, and never twice. */
#include <assert.h>
#include <string.h>

#include "limiter/shared_lines/shared_room.h"

static void note_whole(struct shared_lines *shared)
{
    __atomic_store_n(&shared->room->start.epoch, shared->area->epoch, __ATOMIC_RELEASE);
}

void room_begin(struct shared_lines *shared)
{
    struct room *room = shared->room;
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        struct ticket *ticket = ticket_at(shared, place);
        if (ticket->state != TICKET_FREE) { // of another boot: its bucket may be used again
            shared_unmark(shared, ticket->id, 0);
        }
        room_set_state(ticket, TICKET_FREE);
        standing_at(shared, place)->is_used = false;
    }
    room_clear(shared);
    room->turns = room->latest_now_ns = 0;
    note_whole(shared);
}

static void put_in_line(struct shared_lines *shared, uint32_t place)
{
    const struct ticket *ticket = ticket_at(shared, place);
    uint32_t line = room_find(shared, ticket->id);
    if (line == 0) {
        line = room_take_line(shared);
        shared_line_at(shared, line)->id = ticket->id;
        shared_line_at(shared, line)->gone_ns = shared->room->latest_now_ns; // at the latest
        room_put_in_bin(shared, line);
    }
    shared_insert(shared, line, place);
}

void room_repair(struct shared_lines *shared, uint64_t now_ns)
{
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        struct ticket *ticket = ticket_at(shared, place);
        if (ticket->state == TICKET_GONE) {
            room_set_state(ticket, TICKET_FREE);
        }
        ticket->line = 0;
    }
    room_clear(shared);
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        if (ticket_at(shared, place)->state == TICKET_STANDS) {
            put_in_line(shared, place);
        }
    }
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        uint32_t line = ticket_at(shared, place)->line;
        if (line != 0 && shared_line_at(shared, line)->first == place) {
            shared_straighten(shared, line, now_ns);
        }
    }
    room_bury_all(shared, now_ns);
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        if (ticket_at(shared, place)->state != TICKET_FREE) {
            room_call(shared, place);
        }
        if (ticket_at(shared, place)->state == TICKET_STANDS) {
            shared_settle(shared, ticket_at(shared, place)->line, now_ns);
        }
    }
    note_whole(shared);
}
