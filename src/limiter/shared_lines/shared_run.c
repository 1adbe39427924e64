/* SPDX-License-Identifier: MIT
 *
 * Waiting under several limits for one take, where processes share the store: as line_together.c describes
 * it, with a ticket for each limit. All of them are taken when it begins to wait, so that it finds its place in
 * whichever line it has to stand in later; they are linked in a circle, so that others see to which take a
 * ticket belongs:
 *
 *     held     the limit has room for it, or has let it go: nobody hears of it there
 *     stands   the limit refuses it; or it is a queue, and it is charged
 *
 * Nobody else changes the circle, so nothing about it has to be repaired: if its process dies, all of its
 * tickets go. Who passes it over takes it out of all lines; if he dies over that, some of its tickets say so,
 * and one is enough for it to join anew.
 *
 * No two takes wait for each other: every line is in the order of arrival, which is one for all lines of the
 * room (`turn`). Whoever came first of all who stand anywhere is the first wherever he stands; so he goes when
 * his limits let him in, or is found dead, or late. In a queue nobody waits for his other limits, so there
 * it is the order of the charges. */
#include <assert.h>

#include "limiter/shared_lines/shared_run.h"

/* Others wait for this limit, and it does not stand among them. A queue is its own line: who is charged
 * stands behind all who were before. */
static bool is_behind(const struct shared_lines *shared, const struct shared_member *member)
{
    return !member_stands(shared, member) && !member_is_queue(&member->asked)
           && !member_charges_nothing(&member->asked) && room_find(shared, member->asked.id) != 0;
}

uint32_t run_some_place(const struct shared_lines *shared, const struct shared_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        if (member_stands(shared, &run->members[i])) {
            return run->members[i].ticket;
        }
    }
    return 0;
}

bool run_is_first_everywhere(const struct shared_lines *shared, const struct shared_run *run)
{
    uint32_t place = run_some_place(shared, run);
    return place == 0 || shared_is_first_everywhere(shared, place);
}

/* ---- its tickets ---- */

void run_free_tickets(struct shared_lines *shared, struct shared_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        uint32_t place = run->members[i].ticket;
        if (place != 0) {
            shared_unwatch(shared, place);
            shared->own[place - 1].waiter = NULL;
            room_free_ticket(shared, place);
            run->members[i].ticket = 0;
        }
    }
}

bool run_take_tickets(struct shared_lines *shared, struct shared_run *run)
{
    uint32_t first = 0;
    for (size_t i = 0; i < run->count; i++) {
        struct shared_member *member = &run->members[i];
        if (member_is_idle(&member->asked)) {
            continue;
        }
        uint32_t place = room_take_ticket(shared);
        if (place == 0) {
            run_free_tickets(shared, run);
            return false;
        }
        struct ticket *ticket = ticket_at(shared, place);
        if (first == 0) {
            first = place;
        } else {
            ticket->next_member = ticket_at(shared, first)->next_member;
            ticket_at(shared, first)->next_member = place;
        }
        ticket->standing = shared->standing;
        ticket->id = member->asked.id;
        ticket->cost_micro = member->asked.cost_micro;
        ticket->deadline_ns = run->deadline_ns;
        ticket->line = 0;
        room_set_state(ticket, TICKET_HELD);
        shared->own[place - 1] = (struct own_ticket){.waiter = run->owner};
        member->ticket = place;
    }
    return true;
}

bool run_has_place(const struct shared_lines *shared, const struct shared_run *run,
                   const struct shared_member *member)
{
    uint32_t line = room_find(shared, member->asked.id);
    uint32_t count = line != 0 ? shared_line_at(shared, line)->count : 0;
    uint32_t others = shared->room->waiting_count - (run_some_place(shared, run) != 0);
    return member->ticket != 0 && count < member->asked.rule.limit.waiting
           && others < shared->lines->waiting_max;
}

/* A line keeps the numbers that it was opened with. Who is dead, or stopped, at its front is out of the way
 * afterwards. */
static void meet_line(struct shared_lines *shared, struct shared_member *member, uint64_t now_ns)
{
    uint32_t line = room_find(shared, member->asked.id);
    if (line != 0) {
        shared_clear_head(shared, line, now_ns);
        line = room_find(shared, member->asked.id);
    }
    if (line != 0) {
        member_take_numbers(&member->asked,
                            &ticket_at(shared, shared_line_at(shared, line)->first)->rule);
    }
}

/* ---- asking ---- */

const struct joining *run_joining_of(struct member_joining *room,
                                     const struct shared_member *member,
                                     const struct shared_run *run, uint64_t now_ns)
{
    return member_joining_of(room, &member->asked, run->owner, run->deadline_ns, now_ns);
}

struct outcome run_ask_one(struct shared_lines *shared, const struct shared_member *member,
                           enum weir_operation operation, uint64_t now_ns)
{
    bool is_marked = room_find(shared, member->asked.id) != 0;
    return member_ask(shared->lines, &member->asked, operation, is_marked, now_ns);
}

bool run_ask_all(struct shared_lines *shared, const struct shared_run *run,
                 enum weir_operation operation, struct outcome *outcomes, uint64_t now_ns)
{
    struct store *store = shared->lines->store;
    struct weir_request requests[WEIR_TOGETHER_MAX];
    uint64_t ids[WEIR_TOGETHER_MAX];
    struct line_terms terms[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        uint32_t line = room_find(shared, member->asked.id);
        uint32_t count = line != 0 ? shared_line_at(shared, line)->count : 0;
        bool may_stand = member_is_queue(&member->asked) && !member_is_idle(&member->asked)
                         && run_has_place(shared, run, member);
        bool may_charge = !member->asked.is_shadow || !is_behind(shared, member);
        requests[i] = (struct weir_request){.rule = &member->asked.rule,
                                            .cost_micro = may_charge ? member->asked.cost_micro : 0,
                                            .operation = operation,
                                            .and_next = i + 1 < run->count,
                                            .shadow = member->asked.is_shadow};
        ids[i] = member->asked.id;
        terms[i] = (struct line_terms){
            .patience_ns = may_stand ? ns_until(run->deadline_ns, now_ns) : 0,
            .stays_if_allowed = count > member_stands(shared, member) || may_stand,
            .stays_if_refused = line != 0};
    }
    return store->ops->lines->decide_run_in_line(store, requests, ids, terms, outcomes, run->count,
                                                 now_ns);
}

bool run_take(struct shared_lines *shared, struct shared_run *run, struct outcome *outcomes,
              uint64_t now_ns)
{
    enum weir_operation operation = WEIR_TAKE;
    for (size_t i = 0; i < run->count; i++) {
        struct shared_member *member = &run->members[i];
        if (!member_stands(shared, member)) {
            meet_line(shared, member, now_ns);
        }
    }
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        if (member_is_in_vain(&member->asked, run->deadline_ns, now_ns)
            || (!member->asked.is_shadow && is_behind(shared, member))) {
            operation = WEIR_CAN_TAKE;
        }
    }
    bool fits = run_ask_all(shared, run, operation, outcomes, now_ns);
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        if (member_is_in_vain(&member->asked, run->deadline_ns, now_ns)) {
            outcomes[i].verdict = WEIR_NEVER;
        } else if (is_behind(shared, member) && outcomes[i].verdict != WEIR_BLOCKED) {
            outcomes[i].verdict = WEIR_LIMITED;
        }
    }
    return fits && operation == WEIR_TAKE;
}

bool run_is_decided(const struct shared_run *run, const struct outcome *outcomes)
{
    for (size_t i = 0; i < run->count; i++) {
        if (member_decides(&run->members[i].asked, outcomes[i])) {
            return true;
        }
    }
    return false;
}

bool run_is_refused_by_queue(const struct shared_run *run, const struct outcome *outcomes)
{
    for (size_t i = 0; i < run->count; i++) {
        if (member_refuses_at_once(&run->members[i].asked, outcomes[i])) {
            return true;
        }
    }
    return false;
}

/* ---- standing, and going ---- */

/* Its ticket in the line of this limit, whose first one it may be. */
static void put_in_line(struct shared_lines *shared, const struct shared_member *member,
                        uint64_t turn, struct span end, uint64_t now_ns)
{
    struct ticket *ticket = ticket_at(shared, member->ticket);
    uint32_t line = room_find(shared, member->asked.id);
    if (line == 0) {
        line = room_take_line(shared);
        assert(line != 0); // there are as many as tickets
        shared_line_at(shared, line)->id = member->asked.id;
        room_put_in_bin(shared, line);
    }
    ticket->turn = turn;
    ticket->called_ns = now_ns;
    ticket->span = member->asked.charge.span;
    ticket->end = end;
    ticket->rule = member->asked.rule;
    room_set_state(ticket, TICKET_STANDS);
    shared_insert(shared, line, member->ticket);
    shared_settle(shared, line, now_ns);
}

/* Takes it out of one line, where it has nothing to give back. */
static void take_from_line(struct shared_lines *shared, const struct shared_member *member,
                           uint64_t now_ns)
{
    struct ticket *ticket = ticket_at(shared, member->ticket);
    uint32_t line = ticket->line;
    shared_unlink(shared, member->ticket);
    room_set_state(ticket, TICKET_HELD);
    shared_unwatch(shared, member->ticket);
    shared_settle(shared, line, now_ns);
}

/* Stands in the line of a limit that refuses it. False if that lets it in meanwhile. */
static bool stand(struct shared_lines *shared, const struct shared_run *run,
                  const struct shared_member *member, uint64_t now_ns)
{
    if (room_find(shared, member->asked.id) == 0) {
        struct member_joining room;
        const struct joining *joining = run_joining_of(&room, member, run, now_ns);
        room.request.operation = WEIR_CAN_TAKE;
        struct line_terms marked = {0, false, true};
        if (line_take(shared->lines, joining, marked).verdict != WEIR_LIMITED) {
            return false;
        }
    }
    put_in_line(shared, member, run->turn, (struct span){0, 0}, now_ns);
    return true;
}

bool run_stand_where_refused(struct shared_lines *shared, struct shared_run *run,
                             const struct outcome *outcomes, uint64_t now_ns)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        if (member_refuses(&member->asked, outcomes[i]) && !member_stands(shared, member)
            && !stand(shared, run, member, now_ns)) {
            return false;
        }
    }
    room_call(shared, run_some_place(shared, run));
    return true;
}

bool run_go(struct shared_lines *shared, struct shared_run *run, const struct outcome *outcomes,
            uint64_t now_ns)
{
    run->is_charged = true;
    for (size_t i = 0; i < run->count; i++) {
        struct shared_member *member = &run->members[i];
        member->asked.verdict = outcomes[i].verdict;
        if (member_stands(shared, member)) {
            take_from_line(shared, member, now_ns);
        }
    }
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        struct member_joining room;
        if (!member_is_queue(&member->asked) || member_is_idle(&member->asked)) {
            continue;
        }
        if (bucket_delay_ns(&member->asked.rule.limit, &member->asked.charge, outcomes[i], now_ns)
            > 0) {
            put_in_line(shared, member, shared->room->turns++, outcomes[i].moment, now_ns);
            room_call(shared, member->ticket);
        } else if (room_find(shared, member->asked.id) == 0) {
            line_unmark(shared->lines, run_joining_of(&room, member, run, now_ns));
        }
    }
    return run_some_place(shared, run) != 0;
}

void run_withdraw(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    for (size_t i = 0; i < run->count; i++) {
        struct shared_member *member = &run->members[i];
        uint32_t line = member_stands(shared, member) ? ticket_at(shared, member->ticket)->line : 0;
        if (line != 0) {
            shared_give_back(shared, member->ticket, now_ns);
            shared_settle(shared, line, now_ns); // those behind may go now
        } else if (run->is_charged && member->asked.verdict == WEIR_ALLOWED
                   && !member_is_queue(&member->asked)) {
            (void)run_ask_one(shared, member, WEIR_REFUND, now_ns);
            shared_call_line(shared, member->asked.id, now_ns);
        }
        if (member->ticket != 0) {
            room_set_state(ticket_at(shared, member->ticket), TICKET_HELD);
            shared_unwatch(shared, member->ticket);
        }
    }
    run->is_charged = false;
}
