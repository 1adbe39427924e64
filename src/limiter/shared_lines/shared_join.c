/* SPDX-License-Identifier: MIT
 *
 * Joining a line of a store that processes share, for a take under one limit. */
#include <assert.h>

#include "limiter/shared_lines/shared_room.h"

/* Who joins, and the ticket that it has already if it joins again. */
struct entry {
    struct joining joining;
    uint32_t ticket;
};

static const struct weir_limit *limit_asked(const struct entry *entry)
{
    return &entry->joining.request->rule->limit;
}

/* It stands there from now on. `line` is 0 where nobody waits yet. */
static bool stand(struct shared_lines *shared, const struct entry *entry, uint32_t line,
                  struct span end)
{
    const struct joining *joining = &entry->joining;
    uint32_t place = entry->ticket;
    if (place == 0) {
        place = room_take_ticket(shared);
        shared->own[place - 1] = (struct own_ticket){.waiter = joining->waiter};
        joining->waiter->ticket = place;
        shared->lines->stats.waiting_count++;
        shared->lines->stats.joined_count++;
    }
    if (line == 0) {
        line = room_take_line(shared);
        shared_line_at(shared, line)->id = joining->id;
        room_put_in_bin(shared, line);
    }
    struct ticket *ticket = ticket_at(shared, place);
    ticket->standing = shared->standing;
    ticket->id = joining->id;
    ticket->turn = shared->room->turns++;
    ticket->cost_micro = joining->request->cost_micro;
    ticket->deadline_ns = joining->now_ns + joining->wait_ns;
    ticket->called_ns = joining->now_ns;
    ticket->span = joining->charge.span;
    ticket->end = end;
    ticket->rule = *joining->request->rule;
    room_set_state(ticket, TICKET_STANDS);
    shared_append(shared, line, place);
    shared_settle(shared, line, joining->now_ns);
    room_call(shared, place); // it looks when to look
    return true;
}

/* Whether another one can wait: here, and in a line of which so many are. */
static bool has_place(const struct shared_lines *shared, const struct entry *entry, uint32_t line)
{
    const struct room *room = shared->room;
    uint32_t count = line != 0 ? shared_line_at(shared, line)->count : 0;
    return shared->standing != 0 && (entry->ticket != 0 || room->free_ticket != 0)
           && (line != 0 || room->free_line != 0) && count < entry->joining.waiting
           && room->waiting_count < shared->lines->waiting_max;
}

/* ---- what is between somebody and his turn ---- */

/* As line_place_after(). */
static uint64_t place_after(const struct shared_lines *shared, const struct joining *joining,
                            uint32_t line, uint64_t first_ns, uint64_t needed_ns)
{
    return shared_line_at(shared, line)->count > joining->waiting
               ? needed_ns
               : ns_until(first_ns, joining->now_ns);
}

static struct shortage shortage_of_bucket(struct shared_lines *shared,
                                          const struct joining *joining, uint32_t line,
                                          struct outcome outcome, bool has_place)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    uint64_t now_ns = joining->now_ns;
    const struct charge *charge = &joining->charge;
    uint64_t turn_ns =
        line != 0 ? shared_fits_behind_at(shared, line, charge, outcome.moment, now_ns)
                  : shared_head_fits_at(shared, limit, joining->id, charge, outcome.moment, now_ns);
    uint64_t needed_ns = ns_until(turn_ns, now_ns);
    if (has_place) {
        return (struct shortage){needed_ns, 0};
    }
    if (line == 0) {
        return (struct shortage){needed_ns, needed_ns};
    }
    const struct ticket *first = ticket_at(shared, shared_line_at(shared, line)->first);
    struct charge head = charge_of(limit, first->cost_micro);
    uint64_t first_ns =
        shared_head_fits_at(shared, limit, joining->id, &head, outcome.moment, now_ns);
    return (struct shortage){needed_ns, place_after(shared, joining, line, first_ns, needed_ns)};
}

/* It is full, or he would go too late, or has no place to wait in. */
static struct shortage shortage_of_queue(const struct shared_lines *shared,
                                         const struct joining *joining, uint32_t line,
                                         struct outcome outcome, bool has_place)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    struct span begin = bucket_start(outcome.moment, joining->now_ns);
    struct span after = span_add(begin, joining->charge.span, limit->denominator);
    uint64_t fits_ns = ns_until(fits_at(limit, after), joining->now_ns);
    struct span egress = queue_egress(limit, joining->charge.span, after);
    uint64_t needed_ns = ns_until(span_ceil_ns(egress), joining->now_ns);
    uint64_t place_ns = has_place ? 0 : needed_ns;
    if (!has_place && line != 0) {
        uint64_t first_ns = shared_egress_at(shared, shared_line_at(shared, line)->first);
        place_ns = place_after(shared, joining, line, first_ns, needed_ns);
    }
    return (struct shortage){needed_ns, fits_ns > place_ns ? fits_ns : place_ns};
}

struct shortage shared_shortage(struct shared_lines *shared, const struct joining *joining,
                                uint32_t line, struct outcome outcome, bool has_place)
{
    bool is_queue = joining->request->rule->limit.kind == WEIR_KIND_QUEUE;
    return is_queue ? shortage_of_queue(shared, joining, line, outcome, has_place)
                    : shortage_of_bucket(shared, joining, line, outcome, has_place);
}

/* ---- joining ---- */

static bool join_bucket_alone(struct shared_lines *shared, const struct entry *entry,
                              bool has_place)
{
    const struct joining *joining = &entry->joining;
    struct line_terms terms = {0, false, has_place};
    struct outcome outcome = line_take(shared->lines, joining, terms);
    if (outcome.verdict != WEIR_LIMITED) {
        return line_say(shared->lines, joining, outcome);
    }
    struct shortage shortage = shared_shortage(shared, joining, 0, outcome, has_place);
    if (has_place && shortage.needed_ns > joining->wait_ns) {
        line_unmark(shared->lines, joining);
    }
    if (!has_place || shortage.needed_ns > joining->wait_ns) {
        return line_turn_away(shared->lines, joining, outcome, shortage);
    }
    return stand(shared, entry, 0, (struct span){0, 0});
}

static bool join_bucket_behind(struct shared_lines *shared, const struct entry *entry,
                               uint32_t line, bool has_place)
{
    const struct joining *joining = &entry->joining;
    struct outcome outcome = shared_look(shared, line, joining->now_ns);
    struct shortage shortage = shared_shortage(shared, joining, line, outcome, has_place);
    if (!has_place || shortage.needed_ns > joining->wait_ns) {
        return line_turn_away(shared->lines, joining, outcome, shortage);
    }
    return stand(shared, entry, line, (struct span){0, 0});
}

static bool answer_never(struct shared_lines *shared, const struct entry *entry, bool is_marked)
{
    struct weir_request question = *entry->joining.request;
    struct joining asking = entry->joining;
    question.operation = WEIR_SHOW;
    asking.request = &question;
    struct line_terms terms = {0, is_marked, is_marked};
    struct outcome outcome = line_take(shared->lines, &asking, terms);
    outcome.verdict = WEIR_NEVER;
    return line_say(shared->lines, &entry->joining, outcome);
}

/* A queue charges at once; see line_queue.c. */
static bool join_queue(struct shared_lines *shared, const struct entry *entry, uint32_t line,
                       bool has_place)
{
    const struct joining *joining = &entry->joining;
    if (line_is_in_vain(joining)) {
        return answer_never(shared, entry, line != 0);
    }
    struct line_terms terms = {has_place ? joining->wait_ns : 0, line != 0 || has_place, line != 0};
    struct outcome outcome = line_take(shared->lines, joining, terms);
    if (outcome.verdict == WEIR_LIMITED) {
        return line_turn_away(shared->lines, joining, outcome,
                              shared_shortage(shared, joining, line, outcome, has_place));
    }
    uint64_t delay_ns =
        bucket_delay_ns(limit_asked(entry), &joining->charge, outcome, joining->now_ns);
    if (outcome.verdict != WEIR_ALLOWED || delay_ns == 0) {
        if (outcome.verdict == WEIR_ALLOWED && line == 0 && has_place) {
            line_unmark(shared->lines, joining);
        }
        return line_say(shared->lines, joining, outcome);
    }
    return stand(shared, entry, line, outcome.moment);
}

/* The line that it would join, after all have gone who can. Who died without having anybody behind him is
 * noticed at the latest when his place is wanted. */
static uint32_t find_line(struct shared_lines *shared, const struct entry *entry, bool *with_place)
{
    const struct joining *joining = &entry->joining;
    uint32_t line = shared_find_ready(shared, joining->id, joining->now_ns);
    if (shared->standing != 0 && !has_place(shared, entry, line)) {
        room_bury_all(shared, joining->now_ns);
        line = room_find(shared, joining->id);
    }
    *with_place = has_place(shared, entry, line);
    return line;
}

/* In the room. True: it stands in line. */
static bool join(struct shared_lines *shared, const struct entry *asked)
{
    struct entry entry = *asked;
    struct joining *joining = &entry.joining;
    struct weir_request request = *joining->request;
    struct weir_rule rule;
    bool with_place;
    uint32_t line = find_line(shared, &entry, &with_place);
    if (line != 0) { // everything in it is counted in its numbers
        const struct ticket *first = ticket_at(shared, shared_line_at(shared, line)->first);
        rule = rule_in_line(request.rule, &first->rule);
        request.rule = &rule;
        joining->request = &request;
        joining->charge = charge_of(&rule.limit, request.cost_micro);
    }
    if (joining->charge.never || request.cost_micro == 0) {
        struct line_terms terms = {0, line != 0, line != 0};
        return line_say(shared->lines, joining, line_take(shared->lines, joining, terms));
    }
    if (request.rule->limit.kind == WEIR_KIND_QUEUE) {
        return join_queue(shared, &entry, line, with_place);
    }
    return line != 0 ? join_bucket_behind(shared, &entry, line, with_place)
                     : join_bucket_alone(shared, &entry, with_place);
}

void shared_join_again(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    const struct ticket *ticket = ticket_at(shared, place);
    struct weir_rule rule = ticket->rule;
    struct weir_request request = {
        .rule = &rule, .cost_micro = ticket->cost_micro, .operation = WEIR_TAKE};
    struct weir_decision decision;
    struct entry entry = {
        .joining = {.waiter = shared->own[place - 1].waiter,
                    .request = &request,
                    .id = ticket->id,
                    .charge = charge_of(&rule.limit, ticket->cost_micro),
                    .waiting = rule.limit.waiting,
                    .wait_ns = ns_until(ticket->deadline_ns, now_ns),
                    .now_ns = now_ns,
                    .decision = &decision},
        .ticket = place,
    };
    if (entry.joining.wait_ns == 0) {
        shared_send_away(shared, place, now_ns);
    } else if (!join(shared, &entry)) {
        shared_block_refused(shared, entry.joining.id, &rule, &decision, now_ns);
        shared_answer(shared, place, &decision);
    }
}

/* True if that is the answer: where nobody of this process has waited yet, most takes need no attendant. */
static bool decides_at_once(struct shared_lines *shared, const struct joining *joining)
{
    struct entry entry = {.joining = *joining};
    bool is_queue = limit_asked(&entry)->kind == WEIR_KIND_QUEUE;
    if (shared->standing != 0 || room_find(shared, joining->id) != 0
        || (is_queue && (joining->charge.never || line_is_in_vain(joining)))) {
        return false;
    }
    struct outcome outcome =
        line_take(shared->lines, joining, (struct line_terms){0, false, false});
    return outcome.verdict != WEIR_LIMITED && !line_say(shared->lines, joining, outcome);
}

bool shared_join(struct shared_lines *shared, const struct joining *joining)
{
    struct entry entry = {.joining = *joining};
    bool waits = false;
    entry.joining.now_ns = room_enter(shared, joining->now_ns);
    bool is_decided = decides_at_once(shared, &entry.joining);
    room_leave(shared, entry.joining.now_ns);
    if (!is_decided) {
        (void)attendant_begin(shared); // without one it is refused where it would have to wait
        entry.joining.now_ns = room_enter(shared, joining->now_ns);
        waits = join(shared, &entry);
        room_leave(shared, entry.joining.now_ns);
    }
    return waits;
}
