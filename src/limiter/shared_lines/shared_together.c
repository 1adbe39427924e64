/* SPDX-License-Identifier: MIT
 *
 * Waiting under several limits where processes share the store: when it is its turn, and how it ends. What
 * stands in the lines for it is in shared_run.c. */
#include <stdlib.h>
#include <string.h>

#include "limiter/shared_lines/shared_run.h"

/* ---- answering ---- */

static void finish(struct shared_lines *shared, struct shared_run *run)
{
    struct waiter *owner = run->owner;
    run_free_tickets(shared, run);
    owner->run = NULL;
    shared->lines->stats.waiting_count--;
    owner->ops->answer(owner, run->decisions);
    free(run);
}

/* It is refused by this limit, which may let others in before: after which time this call would pass. */
static void answer_refused(struct shared_lines *shared, const struct shared_member *member,
                           struct weir_decision *decision, uint64_t now_ns)
{
    const struct line_member *asked = &member->asked;
    struct outcome outcome;
    uint64_t pass_ns = shared_pass_anyway_after(shared, asked->id, &asked->rule, asked->cost_micro,
                                                &outcome, now_ns);
    line_refuse(decision, &asked->rule.limit, outcome, pass_ns, now_ns);
}

/* As this limit has it. */
static void write_answer(struct shared_lines *shared, const struct shared_member *member,
                         struct weir_decision *decision, struct outcome outcome, uint64_t now_ns)
{
    if (outcome.verdict == WEIR_LIMITED) {
        answer_refused(shared, member, decision, now_ns);
    } else {
        line_answer(shared->lines, decision, &member->asked.rule.limit, member->asked.id, outcome,
                    now_ns);
    }
}

static void write_answers(struct shared_lines *shared, struct shared_run *run,
                          const struct outcome *outcomes, uint64_t now_ns)
{
    for (size_t i = 0; i < run->count; i++) {
        write_answer(shared, &run->members[i], &run->decisions[i], outcomes[i], now_ns);
    }
}

/* All have let it go that may refuse. */
static void answer_allowed(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        struct outcome outcome = run_ask_one(shared, member, WEIR_SHOW, now_ns);
        outcome.verdict = member->asked.verdict;
        write_answer(shared, member, &run->decisions[i], outcome, now_ns);
    }
    shared->lines->stats.served_count++;
    finish(shared, run);
}

/* It waits no longer, and was not let in: by those limits in whose lines it stands, or stood until it was passed
 * over, or that say so. */
static void send_away(struct shared_lines *shared, struct shared_run *run,
                      const struct outcome *outcomes, uint64_t now_ns)
{
    bool refused[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        refused[i] = (outcomes != NULL && member_refuses(&member->asked, outcomes[i]))
                     || member_stands(shared, member) || member_was_passed_over(shared, member);
    }
    run_withdraw(shared, run, now_ns);
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        const struct line_member *asked = &member->asked;
        struct weir_decision *decision = &run->decisions[i];
        if (refused[i]) {
            answer_refused(shared, member, decision, now_ns);
            shared_block_refused(shared, asked->id, &asked->rule, decision, now_ns);
        } else {
            struct outcome outcome =
                run_ask_one(shared, member, member_asked_at_the_end(asked), now_ns);
            write_answer(shared, member, decision, outcome, now_ns);
        }
    }
    shared->lines->stats.expired_count++;
    finish(shared, run);
}

/* Answers what no turn will change. */
static void answer_decided(struct shared_lines *shared, struct shared_run *run,
                           const struct outcome *outcomes, uint64_t now_ns)
{
    bool is_blocked = false;
    for (size_t i = 0; i < run->count; i++) {
        is_blocked |= outcomes[i].verdict == WEIR_BLOCKED && !run->members[i].asked.is_shadow;
    }
    run_withdraw(shared, run, now_ns);
    write_answers(shared, run, outcomes, now_ns);
    shared->lines->stats.blocked_count += is_blocked;
    finish(shared, run);
}

/* ---- its turn ---- */

/* When the last of the limits in whose lines it stands lets it in; now, if all do. */
static uint64_t fits_where_it_stands_at(struct shared_lines *shared, const struct shared_run *run,
                                        const struct outcome *outcomes, uint64_t now_ns)
{
    uint64_t last_ns = now_ns;
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        if (member_stands(shared, member) && member_refuses(&member->asked, outcomes[i])) {
            uint64_t fits_ns =
                shared_head_fits_at(shared, &member->asked.rule.limit, member->asked.id,
                                    &member->asked.charge, outcomes[i].moment, now_ns);
            last_ns = fits_ns > last_ns ? fits_ns : last_ns;
        }
    }
    return last_ns;
}

void shared_run_schedule(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns)
{
    const struct shared_run *run = owner->run;
    uint64_t due_ns = run->deadline_ns < run->due_ns ? run->deadline_ns : run->due_ns;
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        if (!member_stands(shared, member)) {
            continue;
        }
        const struct ticket *ticket = ticket_at(shared, member->ticket);
        uint64_t look_ns = UINT64_MAX;
        if (shared_line_at(shared, ticket->line)->first != member->ticket) {
            look_ns = shared_look_at(shared, member->ticket, now_ns);
        } else if (member_is_queue(&member->asked)) {
            look_ns = shared_egress_at(shared, member->ticket);
        }
        due_ns = look_ns < due_ns ? look_ns : due_ns;
    }
    owner->ops->schedule(owner, due_ns);
}

/* Answers if one of its keys was blocked: that it is told before its turn. */
static bool answer_blocked(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    struct store *store = shared->lines->store;
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    bool may_be_blocked = false;
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        may_be_blocked |= !member_is_idle(&member->asked)
                          && store->ops->lines->blocked_until_ns(store, member->asked.id) > now_ns;
    }
    if (!may_be_blocked) {
        return false;
    }
    (void)run_ask_all(shared, run, WEIR_CAN_TAKE, outcomes, now_ns);
    if (!run_is_decided(run, outcomes)) {
        return false;
    }
    answer_decided(shared, run, outcomes, now_ns);
    return true;
}

bool shared_run_serve(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns)
{
    struct shared_run *run = owner->run;
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    if (answer_blocked(shared, run, now_ns)) {
        return true;
    }
    run->due_ns = UINT64_MAX;
    while (run_is_first_everywhere(shared, run)) {
        if (run_take(shared, run, outcomes, now_ns)) {
            if (!run_go(shared, run, outcomes, now_ns)) {
                answer_allowed(shared, run, now_ns);
            }
            return true;
        }
        if (run_is_decided(run, outcomes)) {
            answer_decided(shared, run, outcomes, now_ns);
            return true;
        }
        if (run_is_refused_by_queue(run, outcomes) || now_ns >= run->deadline_ns) {
            send_away(shared, run, outcomes, now_ns);
            return true;
        }
        uint64_t due_ns = fits_where_it_stands_at(shared, run, outcomes, now_ns);
        if (due_ns > now_ns) {
            run->due_ns = due_ns;
            break;
        }
        (void)run_stand_where_refused(shared, run, outcomes, now_ns); // others refuse it now
    }
    shared_run_schedule(shared, owner, now_ns);
    return false;
}

void shared_run_note_egress(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    struct waiter *owner = shared->own[place - 1].waiter;
    room_set_state(ticket_at(shared, place), TICKET_HELD);
    shared_unwatch(shared, place);
    if (run_some_place(shared, owner->run) == 0) {
        answer_allowed(shared, owner->run, now_ns);
    } else {
        shared_run_schedule(shared, owner, now_ns);
    }
}

/* ---- joining ---- */

/* Refused at once, if it cannot wait where it is refused: there is no place, or it would be too late. */
static bool turn_away(struct shared_lines *shared, struct shared_run *run,
                      const struct outcome *outcomes, uint64_t now_ns)
{
    bool is_late = false, is_full = false;
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        const struct weir_limit *limit = &member->asked.rule.limit;
        struct weir_decision *decision = &run->decisions[i];
        struct member_joining room;
        const struct joining *joining = run_joining_of(&room, member, run, now_ns);
        if (!member_refuses(&member->asked, outcomes[i])) {
            write_answer(shared, member, decision, outcomes[i], now_ns);
            continue;
        }
        bool may_stand = run_has_place(shared, run, member);
        struct shortage shortage = shared_shortage(
            shared, joining, room_find(shared, member->asked.id), outcomes[i], may_stand);
        uint64_t late_ns = ns_until(shortage.needed_ns, joining->wait_ns);
        is_late |= late_ns > 0;
        is_full |= !may_stand || member_is_queue(&member->asked);
        line_refuse(decision, limit, outcomes[i],
                    late_ns > shortage.place_ns ? late_ns : shortage.place_ns, now_ns);
    }
    shared->lines->stats.late_count += is_late;
    shared->lines->stats.full_count += !is_late && is_full;
    return is_late || is_full;
}

/* True: it stands in line. Otherwise its decisions are written. */
static bool begin(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    run->turn = shared->room->turns++;
    run->due_ns = UINT64_MAX;
    for (size_t i = 0; i < run->count; i++) {
        if (run->members[i].ticket != 0) {
            ticket_at(shared, run->members[i].ticket)->turn = run->turn;
        }
    }
    for (;;) {
        bool goes = run_take(shared, run, outcomes, now_ns);
        if (goes && run_go(shared, run, outcomes, now_ns)) {
            return true;
        }
        if (goes || run_is_decided(run, outcomes)) {
            write_answers(shared, run, outcomes, now_ns);
            return false;
        }
        if (turn_away(shared, run, outcomes, now_ns)) {
            return false;
        }
        if (run_stand_where_refused(shared, run, outcomes, now_ns)) {
            return true;
        }
        run_withdraw(shared, run, now_ns); // one of them fits meanwhile
    }
}

/* Whoever is not let in again, and for no other reason than that limits are reached, blocks their keys. */
static void block_all_refused(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    for (size_t i = 0; i < run->count; i++) {
        int verdict = (int)run->decisions[i].verdict;
        if (!run->members[i].asked.is_shadow && verdict != WEIR_ALLOWED
            && verdict != WEIR_LIMITED) {
            return;
        }
    }
    for (size_t i = 0; i < run->count; i++) {
        const struct shared_member *member = &run->members[i];
        if (!member->asked.is_shadow) {
            shared_block_refused(shared, member->asked.id, &member->asked.rule, &run->decisions[i],
                                 now_ns);
        }
    }
}

/* Its process has gone on after it was passed over: it comes again, behind all. */
static void join_again(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    if (now_ns >= run->deadline_ns) {
        send_away(shared, run, NULL, now_ns);
        return;
    }
    run_withdraw(shared, run, now_ns);
    if (begin(shared, run, now_ns)) {
        return;
    }
    block_all_refused(shared, run, now_ns);
    finish(shared, run);
}

static struct shared_run *make(const struct shared_lines *shared, struct waiter *owner,
                               const struct weir_request *requests, size_t count)
{
    struct shared_run *run = malloc(sizeof *run + count * sizeof run->members[0]);
    if (run == NULL) {
        return NULL;
    }
    *run = (struct shared_run){.owner = owner, .count = count};
    for (size_t i = 0; i < count; i++) {
        run->members[i] = (struct shared_member){.asked = member_of(shared->lines, &requests[i])};
    }
    return run;
}

/* Those who are due go first; who is dead without anybody behind him is noticed at the latest when his place is
 * wanted. */
static void prepare(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    for (size_t i = 0; i < run->count; i++) {
        (void)shared_find_ready(shared, run->members[i].asked.id, now_ns);
    }
    if (shared->standing != 0 && !run_take_tickets(shared, run)) {
        room_bury_all(shared, now_ns);
        (void)run_take_tickets(shared, run);
    }
}

/* In the room. True: it stands in line. */
static bool join(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    prepare(shared, run, now_ns);
    run->owner->run = run;
    bool waits = begin(shared, run, now_ns);
    if (waits) {
        shared->lines->stats.waiting_count++;
        shared->lines->stats.joined_count++;
    } else {
        run_free_tickets(shared, run);
        run->owner->run = NULL;
    }
    return waits;
}

/* True if that is the answer: where nobody of this process has waited yet, most takes need no attendant. */
static bool decides_at_once(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns)
{
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    if (shared->standing != 0) {
        return false;
    }
    prepare(shared, run, now_ns);
    bool goes = run_take(shared, run, outcomes, now_ns);
    if (goes || run_is_decided(run, outcomes)) {
        write_answers(shared, run, outcomes, now_ns);
    }
    return goes || run_is_decided(run, outcomes);
}

bool shared_run_join(struct shared_lines *shared, struct waiter *owner,
                     const struct weir_request *requests, size_t count, uint64_t wait_ns,
                     uint64_t now_ns, struct weir_decision *decisions)
{
    struct shared_run *run = make(shared, owner, requests, count);
    if (run == NULL) {
        lines_answer_failed(requests, count, decisions);
        return false;
    }
    bool waits = false;
    uint64_t entered_ns = room_enter(shared, now_ns);
    run->deadline_ns = entered_ns + wait_ns;
    bool is_decided = decides_at_once(shared, run, entered_ns);
    room_leave(shared, entered_ns);
    if (!is_decided) {
        (void)attendant_begin(shared); // without one it is refused where it would have to wait
        entered_ns = room_enter(shared, now_ns);
        run->deadline_ns = entered_ns + wait_ns;
        waits = join(shared, run, entered_ns);
        if (!waits) {
            memcpy(decisions, run->decisions, count * sizeof *decisions);
            free(run);
        }
        room_leave(shared, entered_ns);
        return waits;
    }
    memcpy(decisions, run->decisions, count * sizeof *decisions);
    free(run);
    return false;
}

/* ---- another room ---- */

bool shared_run_begins_at(const struct waiter *owner, uint32_t place)
{
    const struct shared_run *run = owner->run;
    size_t i = 0;
    while (i < run->count && run->members[i].ticket == 0) {
        i++;
    }
    return i < run->count && run->members[i].ticket == place;
}

bool shared_run_return(struct shared_lines *shared, struct waiter *owner)
{
    struct shared_run *run = owner->run;
    for (size_t i = 0; i < run->count; i++) {
        run->members[i].ticket = 0;
    }
    if (!run_take_tickets(shared, run)) {
        return false;
    }
    for (size_t i = 0; i < run->count; i++) {
        uint32_t place = run->members[i].ticket;
        if (place != 0) {
            room_set_state(ticket_at(shared, place), TICKET_PASSED_OVER);
            room_call(shared, place);
        }
    }
    return true;
}

void shared_run_fail(struct shared_lines *shared, struct waiter *owner)
{
    struct shared_run *run = owner->run;
    struct store *store = shared->lines->store;
    struct weir_request requests[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < run->count; i++) {
        const struct line_member *asked = &run->members[i].asked;
        if (run->members[i].ticket != 0) {
            shared->own[run->members[i].ticket - 1] = (struct own_ticket){.waiter = NULL};
        }
        requests[i] = (struct weir_request){
            .rule = &asked->rule,
            .key = &asked->id, // in place of the key, which nobody has kept
            .key_len = sizeof asked->id,
            .cost_micro = asked->cost_micro,
            .and_next = i + 1 < run->count,
            .shadow = asked->is_shadow,
        };
    }
    lines_answer_undecided(shared->lines, requests, run->count, store->ops->now_ns(store),
                           run->decisions);
    owner->run = NULL;
    owner->ops->answer(owner, run->decisions);
    free(run);
}

/* ---- standing there, and leaving ---- */

/* Serves the lines in which others stand before it: whoever is due goes first. */
static void serve_others(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns)
{
    for (size_t i = 0; owner->run != NULL && i < owner->run->count; i++) {
        uint32_t place = owner->run->members[i].ticket;
        uint32_t line = place != 0 ? ticket_at(shared, place)->line : 0;
        if (line != 0 && shared_line_at(shared, line)->first != place) {
            shared_clear_head(shared, line, now_ns);
            shared_serve(shared, line, now_ns);
        }
    }
}

/* Serves those in which it is the first: each queue, and one of the others, where it is asked as a whole. */
static void serve_itself(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns)
{
    bool is_asked = false;
    for (size_t i = 0; owner->run != NULL && i < owner->run->count; i++) {
        const struct shared_member *member = &owner->run->members[i];
        uint32_t line = member_stands(shared, member) ? ticket_at(shared, member->ticket)->line : 0;
        bool is_first = line != 0 && shared_line_at(shared, line)->first == member->ticket;
        if (is_first && (member_is_queue(&member->asked) || !is_asked)) {
            is_asked |= !member_is_queue(&member->asked);
            shared_serve(shared, line, now_ns);
        }
    }
}

void shared_run_attend(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns)
{
    struct shared_run *run = owner->run;
    for (size_t i = 0; i < run->count; i++) {
        if (run->members[i].ticket != 0) {
            shared_renew_watch(shared, run->members[i].ticket, now_ns);
        }
    }
    for (size_t i = 0; i < run->count; i++) {
        if (member_was_passed_over(shared, &run->members[i])) {
            join_again(shared, run, now_ns);
            return;
        }
    }
    run->due_ns = UINT64_MAX; // others may stand before it by now
    serve_others(shared, owner, now_ns);
    serve_itself(shared, owner, now_ns);
    if (owner->run != NULL && now_ns >= run->deadline_ns) {
        send_away(shared, run, NULL, now_ns);
    } else if (owner->run != NULL) {
        shared_run_schedule(shared, owner, now_ns);
    }
}

bool shared_run_leave(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns)
{
    serve_others(shared, owner, now_ns);
    struct shared_run *run = owner->run;
    if (run == NULL) {
        return false;
    }
    run_withdraw(shared, run, now_ns);
    run_free_tickets(shared, run);
    owner->run = NULL;
    free(run);
    return true;
}
