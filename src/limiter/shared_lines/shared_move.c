/* SPDX-License-Identifier: MIT
 *
 * From the room of one file to that of another: its buckets have moved, and those who stand in line for them
 * follow. Nobody overtakes, for the mover of the buckets (store/table/transfer.c) copies all places too, while
 * it holds the lock of the old room: so a process that comes to the new one, early or late, finds the lines as they
 * were.
 *
 *   the mover              copies the tickets; lists, sums and calls are made anew from them, as after a death
 *                          (shared_repair.c). The standings in the new room are *expected*: which member of the
 *                          new file a process will be only that process knows. Then it wakes all attendants
 *   an attendant           locks the old room, finds that it is not the one any longer, and goes to the new one,
 *                          where it says which member it is
 *   any other thread       waits for its attendant; so a process comes as a whole
 *   one that comes late    finds that its standing was given up, ARRIVAL_NS after the move: for it might have
 *                          been dead. Its places are free, and what a queue had charged was given back. It takes
 *                          another standing and joins again behind all, as one that was passed over
 *   one that is not expected  comes to the file of somebody else, put where its own one was (store/table/regain.c):
 *                          it is late in the same way
 *   one that cannot come   the file is out of its reach: those of its people who wait are answered by an error
 *
 * The old room stays as it was when the mover left, for as long as somebody has it mapped. That is where one
 * that comes late reads what its people were waiting for. */
#include "limiter/shared_lines/shared_move.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/shared_lines/shared_room.h"
#include "platform/futex.h"
#include "sync/cancel.h"

/* ---- the mover ---- */

static struct room_mover *mover_of(struct line_mover *lines)
{
    return (struct room_mover *)(void *)lines;
}

static void close_both(struct room_mover *mover)
{
    lines_close(mover->from);
    lines_close(mover->into);
    mover->from = mover->into = NULL;
}

/* Everybody keeps the number of his place. */
static bool have_places(const struct shared_lines *from, const struct shared_lines *into)
{
    for (uint32_t place = into->place_count + 1; place <= from->place_count; place++) {
        if (ticket_at(from, place)->state != TICKET_FREE || standing_at(from, place)->is_used) {
            return false;
        }
    }
    return true;
}

static enum line_mover_result enter(struct line_mover *lines, struct store *from,
                                    struct store *into, uint64_t now_ns)
{
    struct room_mover *mover = mover_of(lines);
    mover->from = lines_open_shared(from, ROOM_PLACES_MAX, true);
    mover->into = into != NULL ? lines_open_shared(into, ROOM_PLACES_MAX, true) : NULL;
    if (mover->from == NULL || (into != NULL && mover->into == NULL)) {
        close_both(mover);
        return LINES_NO_MEMORY;
    }
    struct shared_lines *shared = mover->from->shared;
    now_ns = room_enter(shared, now_ns);
    room_bury_all(shared, now_ns);
    if (into != NULL && !have_places(shared, mover->into->shared)) {
        room_leave(shared, now_ns);
        close_both(mover);
        return LINES_DO_NOT_FIT;
    }
    return LINES_ENTERED;
}

static void copy_tickets(const struct shared_lines *from, struct shared_lines *into)
{
    for (uint32_t place = 1; place <= from->place_count; place++) {
        if (ticket_at(from, place)->state != TICKET_FREE) {
            *ticket_at(into, place) = *ticket_at(from, place);
        }
    }
}

static void expect_processes(const struct shared_lines *from, struct shared_lines *into)
{
    for (uint32_t place = 1; place <= from->place_count; place++) {
        if (standing_at(from, place)->is_used) {
            standing_at(into, place)->token = standing_at(from, place)->token;
            standing_at(into, place)->is_used = standing_at(into, place)->is_expected = true;
        }
    }
}

static void wake(struct standing *standing)
{
    (void)__atomic_fetch_add(&standing->calls, 1, __ATOMIC_RELAXED); // under the lock
    futex_wake(&standing->calls);
}

static void wake_all(const struct shared_lines *shared)
{
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        if (standing_at(shared, place)->is_used) {
            wake(standing_at(shared, place));
        }
    }
}

static void copy_room(const struct shared_lines *from, struct shared_lines *into, uint64_t now_ns)
{
    (void)room_enter(into, now_ns);
    copy_tickets(from, into);
    expect_processes(from, into);
    into->room->turns = from->room->turns;
    into->room->tokens = from->room->tokens;
    into->room->latest_now_ns = from->room->latest_now_ns;
    into->room->expected_until_ns = now_ns + ARRIVAL_NS;
    room_repair(into, now_ns);
    room_leave(into, now_ns);
}

/* Those in the room wake up before it is decided that all have moved, and wait for the lock: a mover that dies in
 * between has called them already. */
static uint64_t carry(struct line_mover *lines, uint64_t now_ns)
{
    struct room_mover *mover = mover_of(lines);
    const struct shared_lines *from = mover->from->shared;
    if (mover->into != NULL) {
        copy_room(from, mover->into->shared, now_ns);
    }
    from->room->is_left = mover->into == NULL;
    wake_all(from);
    return from->room->waiting_count;
}

/* If all stays as it was: nobody could take his turn meanwhile, so nobody is late. */
static void leave(struct line_mover *lines, uint64_t now_ns)
{
    struct room_mover *mover = mover_of(lines);
    struct shared_lines *shared = mover->from->shared;
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        ticket_at(shared, place)->called_ns = now_ns;
    }
    room_leave(shared, now_ns);
    close_both(mover);
}

void room_mover_init(struct room_mover *mover)
{
    *mover = (struct room_mover){.lines = {.enter = enter, .carry = carry, .leave = leave}};
}

/* ---- a process that follows ---- */

static void fail(struct shared_lines *shared, struct waiter *waiter, const struct ticket *ticket)
{
    struct store *store = shared->lines->store;
    struct weir_decision decision;
    shared->lines->stats.waiting_count--;
    if (waiter->run != NULL) {
        shared_run_fail(shared, waiter);
        return;
    }
    struct weir_request request = {.rule = &ticket->rule, .cost_micro = ticket->cost_micro};
    lines_answer_undecided(shared->lines, &request, 1, store->ops->now_ns(store), &decision);
    waiter->ticket = 0;
    waiter->ops->answer(waiter, &decision);
}

/* One who waits, and what his ticket was before his process came too late; the first one, if he has several. */
struct latecomer {
    struct waiter *waiter;
    const struct ticket *ticket;
};

/* The last one first: the one that is called last is the first to look. */
static int compare_turns(const void *a, const void *b)
{
    uint64_t turn_a = ((const struct latecomer *)a)->ticket->turn;
    uint64_t turn_b = ((const struct latecomer *)b)->ticket->turn;
    return turn_a < turn_b ? 1 : turn_a > turn_b ? -1 : 0;
}

/* Takes away all who wait here, with their tickets of before. How many were written. */
static size_t take_all(struct shared_lines *shared, const struct ticket *tickets,
                       struct latecomer *latecomers, size_t count_max)
{
    size_t count = 0;
    for (uint32_t place = 1; place <= ROOM_PLACES_MAX; place++) {
        struct own_ticket *own = &shared->own[place - 1];
        struct waiter *waiter = own->waiter;
        *own = (struct own_ticket){.waiter = NULL};
        if (waiter == NULL || (waiter->run != NULL && !shared_run_begins_at(waiter, place))) {
            continue;
        }
        if (count < count_max) {
            latecomers[count++] = (struct latecomer){waiter, &tickets[place - 1]};
        } else {
            fail(shared, waiter, &tickets[place - 1]);
        }
    }
    shared->watch_count = 0;
    shared->has_new_watch = false;
    return count;
}

/* A place in the new room, that was passed over: it joins as soon as it is looked at. */
static void put_behind(struct shared_lines *shared, const struct latecomer *latecomer)
{
    if (latecomer->waiter->run != NULL) {
        if (shared->standing == 0 || !shared_run_return(shared, latecomer->waiter)) {
            fail(shared, latecomer->waiter, latecomer->ticket);
        }
        return;
    }
    uint32_t place = shared->standing != 0 ? room_take_ticket(shared) : 0;
    if (place == 0) {
        fail(shared, latecomer->waiter, latecomer->ticket);
        return;
    }
    struct ticket ticket = *latecomer->ticket;
    ticket.state = TICKET_FREE;
    ticket.standing = shared->standing;
    ticket.next_member = place;
    ticket.line = ticket.next = ticket.previous = 0;
    ticket.is_called = false;
    *ticket_at(shared, place) = ticket;
    shared->own[place - 1].waiter = latecomer->waiter;
    latecomer->waiter->ticket = place;
    room_set_state(ticket_at(shared, place), TICKET_PASSED_OVER);
    room_call(shared, place);
}

static void come_late(struct shared_lines *shared, const struct ticket *tickets, uint64_t now_ns)
{
    size_t count = shared->lines->stats.waiting_count;
    struct latecomer *latecomers = count > 0 ? calloc(count, sizeof *latecomers) : NULL;
    count = take_all(shared, tickets, latecomers, latecomers != NULL ? count : 0);
    (void)room_stand(shared, now_ns);
    if (count > 0) {
        qsort(latecomers, count, sizeof *latecomers, compare_turns);
    }
    for (size_t i = 0; i < count; i++) {
        put_behind(shared, &latecomers[i]);
    }
    free(latecomers);
}

static bool is_attendant(const struct shared_lines *shared)
{
    return shared->standing != 0 && pthread_equal(shared->attendant.thread, pthread_self()) != 0;
}

/* Nobody of this process can be served any longer. The attendant ends. */
static void strand(struct shared_lines *shared, const struct ticket *tickets)
{
    (void)take_all(shared, tickets, NULL, 0);
    shared->standing = 0;
    (void)pthread_cond_broadcast(&shared->attendant.changed);
}

/* Under the lock of the old room: its attendant knows, or will now. */
static void wait_for_attendant(struct shared_lines *shared)
{
    wake(standing_at(shared, shared->standing));
    lock_release(&shared->room->start.lock);
    (void)pthread_cond_wait(&shared->attendant.changed, lines_mutex(shared->lines));
}

bool room_follow(struct shared_lines *shared, bool *is_heir)
{
    struct store *store = shared->lines->store;
    const struct ticket *before = shared->tickets;
    bool is_reached = true;
    int before_cancel = cancel_forbid(); // any take may come here
    while (is_reached && store->ops->lines->waits_elsewhere(store)) {
        if (shared->standing != 0 && !is_attendant(shared)) {
            wait_for_attendant(shared);
        } else {
            shared->token = shared->room->is_left ? 0 : shared->token;
            lock_release(&shared->room->start.lock);
            is_reached = store->ops->lines->follow_waiting(store);
            bool is_laid = room_lay(shared, store);
            assert(is_laid); // as the first one was
            (void)is_laid;
        }
        *is_heir = lock_acquire(&shared->room->start.lock, room_members(shared));
    }
    cancel_allow(before_cancel);
    if (!is_reached) {
        strand(shared, before);
    }
    return is_reached;
}

void room_arrive(struct shared_lines *shared, const struct ticket *tickets, uint64_t now_ns)
{
    if (!is_attendant(shared)) {
        return; // it was here before, or nobody of this process waits
    }
    uint32_t place = shared->standing;
    bool is_expected = place <= shared->place_count && standing_at(shared, place)->is_used
                       && standing_at(shared, place)->token == shared->token;
    if (is_expected) {
        room_hold(shared, place);
    } else {
        come_late(shared, tickets, now_ns);
    }
    (void)pthread_cond_broadcast(&shared->attendant.changed);
}
