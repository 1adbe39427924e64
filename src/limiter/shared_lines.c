/* SPDX-License-Identifier: MIT
 *
 * Joining, leaving and meeting the lines of a store that processes share. shared_room.h says where the other
 * chapters are. */
#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limiter/shared_room.h"

/* Who joins, and the ticket that it has already if it joins again. */
struct entry {
    struct joining joining;
    uint32_t ticket;
};

static const struct weir_limit *limit_asked(const struct entry *entry)
{
    return &entry->joining.request->rule->limit;
}

/* ---- who is listened to ---- */

static void unwatch(struct shared_lines *shared, struct own_ticket *own)
{
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

/* The dead before it are out of its way afterwards. */
static void renew_watch(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    struct own_ticket *own = &shared->own[place - 1];
    const struct ticket *ticket = ticket_at(shared, place);
    uint32_t before = standing_before(shared, ticket);
    while (before != 0 && !room_is_alive(shared, before)) {
        room_bury(shared, before, now_ns);
        before = standing_before(shared, ticket);
    }
    if (before != own->watched) {
        unwatch(shared, own);
        if (before != 0) {
            watch(shared, own, before);
        }
    }
}

/* ---- how it ends ---- */

void shared_answer(struct shared_lines *shared, uint32_t place,
                   const struct weir_decision *decision)
{
    struct own_ticket *own = &shared->own[place - 1];
    struct waiter *waiter = own->waiter;
    unwatch(shared, own);
    own->waiter = NULL;
    waiter->ticket = 0;
    shared->lines->stats.waiting_count--;
    room_free_ticket(shared, place);
    waiter->ops->answer(waiter, decision);
}

/* When a take passes behind all who are there, whether anybody is or not. */
static uint64_t pass_after(struct shared_lines *shared, uint64_t id, const struct weir_rule *rule,
                           uint64_t cost_micro, struct outcome *outcome, uint64_t now_ns)
{
    struct charge charge = charge_of(&rule->limit, cost_micro);
    uint32_t line = room_find(shared, id);
    if (line != 0) {
        return shared_pass_after(shared, line, &charge, outcome, now_ns);
    }
    struct store *store = shared->lines->store;
    struct weir_request request = {.rule = rule, .operation = WEIR_SHOW};
    struct line_terms unmarked = {0, false, false};
    *outcome = store->ops->decide_in_line(store, &request, id, &unmarked, now_ns);
    return ns_until(kind_fits_at(&rule->limit, outcome->moment, &charge, now_ns), now_ns);
}

/* Those who stand there look anew. */
static void call_line(struct shared_lines *shared, uint64_t id, uint64_t now_ns)
{
    uint32_t line = room_find(shared, id);
    if (line != 0) {
        shared_line_at(shared, line)->called = shared_line_at(shared, line)->watcher = 0;
        shared_settle(shared, line, now_ns);
    }
}

/* Somebody was refused: his key is locked out, if the limit says so, and those in its line are told. */
static void block_refused(struct shared_lines *shared, uint64_t id, const struct weir_rule *rule,
                          const struct weir_decision *decision, uint64_t now_ns)
{
    line_block_refused(shared->lines, rule, id, decision, now_ns);
    if (rule->limit.block_ns != 0) {
        call_line(shared, id, now_ns);
    }
}

void shared_tell(struct shared_lines *shared, uint64_t id, uint64_t now_ns)
{
    now_ns = room_enter(shared, now_ns);
    call_line(shared, id, now_ns);
    room_leave(shared, now_ns);
}

/* Its deadline is here. To come again would be to come behind those who stay. */
static void send_away(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    const struct ticket *ticket = ticket_at(shared, place);
    struct weir_rule rule = ticket->rule;
    uint64_t id = ticket->id;
    uint64_t cost_micro = ticket->cost_micro;
    if (ticket->state == TICKET_STANDS) {
        uint32_t line = ticket->line;
        shared_give_back(shared, place, now_ns);
        shared_settle(shared, line, now_ns);
    }
    struct outcome outcome;
    struct weir_decision decision;
    uint64_t pass_ns = pass_after(shared, id, &rule, cost_micro, &outcome, now_ns);
    line_refuse(&decision, &rule.limit, outcome, pass_ns, now_ns);
    shared->lines->stats.expired_count++;
    block_refused(shared, id, &rule, &decision, now_ns);
    shared_answer(shared, place, &decision);
}

/* ---- joining ---- */

static bool turn_away(struct shared_lines *shared, const struct entry *entry,
                      struct outcome outcome, uint64_t needed_ns, uint64_t place_after_ns)
{
    const struct joining *joining = &entry->joining;
    uint64_t late_ns = ns_until(needed_ns, joining->wait_ns);
    uint64_t retry_ns = late_ns > place_after_ns ? late_ns : place_after_ns;
    line_refuse(joining->decision, limit_asked(entry), outcome, retry_ns, joining->now_ns);
    shared->lines->stats.late_count += late_ns > 0;
    shared->lines->stats.full_count += late_ns == 0;
    return false;
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

/* As line_place_after(). */
static uint64_t place_after(const struct shared_lines *shared, const struct entry *entry,
                            uint32_t line, uint64_t first_ns, uint64_t needed_ns)
{
    return shared_line_at(shared, line)->count > entry->joining.waiting
               ? needed_ns
               : ns_until(first_ns, entry->joining.now_ns);
}

static bool join_bucket_alone(struct shared_lines *shared, const struct entry *entry,
                              bool has_place)
{
    const struct joining *joining = &entry->joining;
    struct line_terms terms = {0, false, has_place};
    struct outcome outcome = line_take(shared->lines, joining, terms);
    if (outcome.verdict != WEIR_LIMITED) {
        return line_say(shared->lines, joining, outcome);
    }
    uint64_t due_ns =
        kind_fits_at(limit_asked(entry), outcome.moment, &joining->charge, joining->now_ns);
    uint64_t needed_ns = ns_until(due_ns, joining->now_ns);
    if (!has_place) {
        return turn_away(shared, entry, outcome, needed_ns, needed_ns);
    }
    if (needed_ns > joining->wait_ns) {
        line_unmark(shared->lines, joining);
        return turn_away(shared, entry, outcome, needed_ns, 0);
    }
    return stand(shared, entry, 0, (struct span){0, 0});
}

static bool join_bucket_behind(struct shared_lines *shared, const struct entry *entry,
                               uint32_t line, bool has_place)
{
    const struct joining *joining = &entry->joining;
    struct outcome outcome;
    uint64_t needed_ns =
        shared_pass_after(shared, line, &joining->charge, &outcome, joining->now_ns);
    if (!has_place) {
        const struct ticket *first = ticket_at(shared, shared_line_at(shared, line)->first);
        struct charge charge = charge_of(limit_asked(entry), first->cost_micro);
        uint64_t first_ns =
            kind_fits_at(limit_asked(entry), outcome.moment, &charge, joining->now_ns);
        return turn_away(shared, entry, outcome, needed_ns,
                         place_after(shared, entry, line, first_ns, needed_ns));
    }
    if (needed_ns > joining->wait_ns) {
        return turn_away(shared, entry, outcome, needed_ns, 0);
    }
    return stand(shared, entry, line, (struct span){0, 0});
}

/* True if not even an empty queue would let it go in time: no later try can end otherwise. */
static bool is_in_vain(const struct entry *entry)
{
    const struct joining *joining = &entry->joining;
    struct span own = queue_egress(limit_asked(entry), joining->charge.span, joining->charge.span);
    return span_ceil_ns(own) > (joining->waiting > 0 ? joining->wait_ns : 0);
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

/* It is full, or he would go too late, or has no place to wait in. */
static bool refuse_queue(struct shared_lines *shared, const struct entry *entry, uint32_t line,
                         struct outcome outcome, bool has_place)
{
    const struct joining *joining = &entry->joining;
    const struct weir_limit *limit = limit_asked(entry);
    struct span begin = bucket_start(outcome.moment, joining->now_ns);
    struct span after = span_add(begin, joining->charge.span, limit->denominator);
    uint64_t fits_ns = ns_until(fits_at(limit, after), joining->now_ns);
    struct span egress = queue_egress(limit, joining->charge.span, after);
    uint64_t needed_ns = ns_until(span_ceil_ns(egress), joining->now_ns);
    uint64_t place_ns = has_place ? 0 : needed_ns;
    if (!has_place && line != 0) {
        uint64_t first_ns = shared_egress_at(shared, shared_line_at(shared, line)->first);
        place_ns = place_after(shared, entry, line, first_ns, needed_ns);
    }
    return turn_away(shared, entry, outcome, needed_ns, fits_ns > place_ns ? fits_ns : place_ns);
}

/* A queue charges at once; see line_queue.c. */
static bool join_queue(struct shared_lines *shared, const struct entry *entry, uint32_t line,
                       bool has_place)
{
    const struct joining *joining = &entry->joining;
    if (is_in_vain(entry)) {
        return answer_never(shared, entry, line != 0);
    }
    struct line_terms terms = {has_place ? joining->wait_ns : 0, line != 0 || has_place, line != 0};
    struct outcome outcome = line_take(shared->lines, joining, terms);
    if (outcome.verdict == WEIR_LIMITED) {
        return refuse_queue(shared, entry, line, outcome, has_place);
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

/* The line of this bucket, after all have gone whose time has come: ours, the dead, and who is stopped. */
static uint32_t find_ready(struct shared_lines *shared, uint64_t id, uint64_t now_ns)
{
    uint32_t line = room_find(shared, id);
    if (line != 0) {
        shared_clear_head(shared, line, now_ns);
        line = room_find(shared, id);
    }
    if (line != 0) {
        shared_serve(shared, line, now_ns);
    }
    return room_find(shared, id);
}

/* The line that it would join, after all have gone who can. Who died without having anybody behind him is
 * noticed at the latest when his place is wanted. */
static uint32_t find_line(struct shared_lines *shared, const struct entry *entry, bool *with_place)
{
    const struct joining *joining = &entry->joining;
    uint32_t line = find_ready(shared, joining->id, joining->now_ns);
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
        rule = ticket_at(shared, shared_line_at(shared, line)->first)->rule;
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

/* Its process has gone on after it was passed over: it comes again, behind all. */
static void join_again(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
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
        send_away(shared, place, now_ns);
    } else if (!join(shared, &entry)) {
        block_refused(shared, entry.joining.id, &rule, &decision, now_ns);
        shared_answer(shared, place, &decision);
    }
}

/* True if that is the answer: where nobody of this process has waited yet, most takes need no attendant. */
static bool decides_at_once(struct shared_lines *shared, const struct joining *joining)
{
    struct entry entry = {.joining = *joining};
    bool is_queue = limit_asked(&entry)->kind == WEIR_KIND_QUEUE;
    if (shared->standing != 0 || room_find(shared, joining->id) != 0
        || (is_queue && (joining->charge.never || is_in_vain(&entry)))) {
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

/* ---- standing there, and leaving ---- */

/* Who is not the first looks again at its deadline; and when the first one is late, in case that those in
 * between do not look either. */
static void schedule_behind(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    const struct ticket *ticket = ticket_at(shared, place);
    const struct shared_line *line = shared_line_at(shared, ticket->line);
    struct waiter *waiter = shared->own[place - 1].waiter;
    uint64_t due_ns = ticket->deadline_ns;
    if (line->watcher != 0) {
        uint64_t passed_ns = shared_passed_at(shared, ticket->line, now_ns);
        uint64_t between = line->watcher == place ? 0 : line->count;
        uint64_t look_ns;
        if (!__builtin_mul_overflow(between, ns_until(passed_ns, now_ns), &look_ns)
            && !__builtin_add_overflow(look_ns, passed_ns, &look_ns) && look_ns < due_ns) {
            due_ns = look_ns;
        }
    }
    waiter->ops->schedule(waiter, due_ns);
}

void shared_attend(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    const struct ticket *ticket = ticket_at(shared, place);
    const struct waiter *waiter = shared->own[place - 1].waiter;
    renew_watch(shared, place, now_ns);
    if (ticket->state == TICKET_PASSED_OVER) {
        join_again(shared, place, now_ns);
        return;
    }
    shared_clear_head(shared, ticket->line, now_ns);
    shared_serve(shared, ticket->line, now_ns);
    if (shared->own[place - 1].waiter != waiter || ticket->state != TICKET_STANDS) {
        return; // it was answered
    }
    if (now_ns >= ticket->deadline_ns) {
        send_away(shared, place, now_ns);
    } else if (shared_line_at(shared, ticket->line)->first != place) {
        schedule_behind(shared, place, now_ns);
    }
}

void shared_call(struct shared_lines *shared, struct waiter *waiter, uint64_t now_ns)
{
    now_ns = room_enter(shared, now_ns);
    if (waiter->ticket != 0) { // it is not answered meanwhile
        shared_attend(shared, waiter->ticket, now_ns);
    }
    room_leave(shared, now_ns);
}

bool shared_leave(struct shared_lines *shared, struct waiter *waiter, uint64_t now_ns)
{
    lines_lock(shared->lines);
    now_ns = room_enter(shared, now_ns);
    uint32_t place = waiter->ticket;
    if (place != 0 && ticket_at(shared, place)->line != 0
        && shared_line_at(shared, ticket_at(shared, place)->line)->first != place) {
        shared_serve(shared, ticket_at(shared, place)->line, now_ns); // whoever is due goes first
        place = waiter->ticket;
    }
    if (place != 0) {
        struct own_ticket *own = &shared->own[place - 1];
        uint32_t line = ticket_at(shared, place)->line;
        if (line != 0) {
            shared_give_back(shared, place, now_ns);
        }
        unwatch(shared, own);
        own->waiter = NULL;
        waiter->ticket = 0;
        room_free_ticket(shared, place);
        if (line != 0) {
            shared_settle(shared, line, now_ns); // those behind may go now
        }
        shared->lines->stats.waiting_count--;
        shared->lines->stats.left_count++;
    }
    room_leave(shared, now_ns);
    lines_unlock(shared->lines);
    return place != 0;
}

/* ---- those who do not wait ---- */

/* A take that does not wait is refused while others do: it would fit behind them. */
static void refuse_beside(struct shared_lines *shared, uint32_t line,
                          const struct weir_request *request, uint64_t now_ns,
                          struct weir_decision *decision)
{
    const struct weir_limit *limit = shared_limit(shared, shared_line_at(shared, line));
    struct charge charge = charge_of(limit, request->cost_micro);
    struct outcome outcome;
    uint64_t needed_ns = shared_pass_after(shared, line, &charge, &outcome, now_ns);
    line_refuse(decision, limit, outcome, needed_ns, now_ns);
    if (request->operation == WEIR_TAKE) {
        block_refused(shared, shared_line_at(shared, line)->id, request->rule, decision, now_ns);
    }
}

/* A fill, refund or reset: the head may fit earlier now, or later. The places in a queue belong to those
 * who stand there: nobody else gives them back. */
static void change_beside(struct shared_lines *shared, uint32_t place,
                          const struct weir_request *request, uint64_t now_ns,
                          struct weir_decision *decision)
{
    const struct shared_line *line = shared_line_at(shared, place);
    struct store *store = shared->lines->store;
    struct line_terms marked = {0, true, true};
    struct weir_request change = *request;
    if (request->rule->limit.kind == WEIR_KIND_QUEUE && request->operation != WEIR_FILL) {
        change.operation = WEIR_SHOW;
    }
    struct outcome outcome = store->ops->decide_in_line(store, &change, line->id, &marked, now_ns);
    line_answer(shared->lines, decision, shared_limit(shared, line), line->id, outcome, now_ns);
    call_line(shared, line->id, now_ns);
}

/* A mark without a line is what somebody left behind who died, or a machine that stopped. */
static bool meet(struct line_keeper *keeper, const struct weir_request *request, uint64_t id,
                 uint64_t now_ns, struct weir_decision *decision)
{
    struct shared_lines *shared = ((struct lines *)(void *)keeper)->shared;
    shared_begin_here(shared);
    lines_lock(shared->lines);
    now_ns = room_enter(shared, now_ns);
    uint32_t line = find_ready(shared, id, now_ns);
    if (request->operation == WEIR_BLOCK) {
        call_line(shared, id, now_ns); // who has to go will
    } else if (line == 0) {
        shared_unmark(shared, id, now_ns);
    } else if (request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE) {
        refuse_beside(shared, line, request, now_ns, decision);
    } else {
        change_beside(shared, line, request, now_ns, decision);
    }
    room_leave(shared, now_ns);
    lines_unlock(shared->lines);
    return line != 0;
}

/* ---- the beginning and the end ---- */

void shared_begin_here(struct shared_lines *shared)
{
    pid_t here = getpid();
    pid_t seen = __atomic_load_n(&shared->pid, __ATOMIC_ACQUIRE);
    if (seen == here) {
        return;
    }
    if (seen != 0
        && __atomic_compare_exchange_n(&shared->pid, &seen, 0, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_ACQUIRE)) {
        memset(&shared->lines->mutex, 0, sizeof shared->lines->mutex);
        memset(&shared->lines->stats, 0, sizeof shared->lines->stats);
        memset(shared->own, 0, shared->place_count * sizeof shared->own[0]);
        memset(&shared->attendant, 0, sizeof shared->attendant);
        shared->standing = shared->watch_count = 0;
        shared->has_new_watch = false;
        __atomic_store_n(&shared->pid, here, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&shared->pid, __ATOMIC_ACQUIRE) != here) {
        (void)sched_yield(); // another thread of this process does it
    }
}

/* A bucket whose denominator is the largest there is, so that every remainder is one of its own. */
#define ANY_LIMIT "1099511.627775/1ns"

bool shared_valid(struct shared_lines *shared)
{
    uint64_t now_ns = room_enter(shared, STORE_NOW);
    bool is_valid = room_valid(shared);
    room_leave(shared, now_ns);
    return is_valid;
}

void shared_read_stats(const struct shared_lines *shared, struct lines_stats *stats)
{
    stats->line_count = __atomic_load_n(&shared->room->line_count, __ATOMIC_RELAXED);
    if (stats->waiting_max > shared->place_count) {
        stats->waiting_max = shared->place_count;
    }
}

struct shared_lines *shared_open(struct lines *lines, struct store *store, bool is_caller_clock)
{
    struct shared_lines *shared = calloc(1, sizeof *shared);
    if (shared == NULL || !room_lay(shared, store)
        || weir_limit_from_text(&shared->any.limit, ANY_LIMIT, NULL) != WEIR_OK) {
        free(shared);
        return NULL;
    }
    shared->own = calloc(shared->place_count, sizeof *shared->own);
    shared->watches = calloc(shared->place_count, sizeof *shared->watches);
    if (shared->own == NULL || shared->watches == NULL) {
        free(shared->own);
        free(shared->watches);
        free(shared);
        return NULL;
    }
    assert(shared->any.limit.denominator == WEIR_DENOMINATOR_MAX);
    shared->lines = lines;
    shared->pid = getpid();
    shared->is_caller_clock = is_caller_clock;
    lines->keeper.meet = meet;
    return shared;
}

void shared_close(struct shared_lines *shared)
{
    if (shared != NULL) {
        shared_begin_here(shared);
        attendant_end(shared);
        free(shared->own);
        free(shared->watches);
        free(shared);
    }
}
