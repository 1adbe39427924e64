/* SPDX-License-Identifier: MIT
 *
 * Standing in the lines of a store that processes share, leaving them, and meeting them. shared_room.h says
 * where the other chapters are. */
#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limiter/shared_lines/shared_room.h"

/* ---- how it ends ---- */

void shared_answer(struct shared_lines *shared, uint32_t place,
                   const struct weir_decision *decision)
{
    struct own_ticket *own = &shared->own[place - 1];
    struct waiter *waiter = own->waiter;
    shared_unwatch(shared, place);
    own->waiter = NULL;
    waiter->ticket = 0;
    shared->lines->stats.waiting_count--;
    room_free_ticket(shared, place);
    waiter->ops->answer(waiter, decision);
}

uint64_t shared_pass_anyway_after(struct shared_lines *shared, uint64_t id,
                                  const struct weir_rule *rule, uint64_t cost_micro,
                                  struct outcome *outcome, uint64_t now_ns)
{
    struct charge charge = charge_of(&rule->limit, cost_micro);
    uint32_t line = room_find(shared, id);
    if (line != 0) {
        return shared_pass_after(shared, line, &charge, outcome, now_ns);
    }
    struct store *store = shared->lines->store;
    struct weir_request request = {.rule = rule, .operation = WEIR_SHOW};
    struct line_terms unmarked = {0, false, false};
    *outcome = store->ops->lines->decide_in_line(store, &request, id, &unmarked, now_ns);
    return ns_until(shared_head_fits_at(shared, &rule->limit, id, &charge, outcome->moment, now_ns),
                    now_ns);
}

void shared_call_line(struct shared_lines *shared, uint64_t id, uint64_t now_ns)
{
    uint32_t line = room_find(shared, id);
    if (line != 0) {
        shared_line_at(shared, line)->called = shared_line_at(shared, line)->watcher = 0;
        shared_settle(shared, line, now_ns);
    }
}

void shared_block_refused(struct shared_lines *shared, uint64_t id, const struct weir_rule *rule,
                          struct weir_decision *decision, uint64_t now_ns)
{
    line_block_refused(shared->lines, rule, id, decision, now_ns);
    if (rule->limit.block_ns != 0) {
        shared_call_line(shared, id, now_ns);
    }
}

void shared_tell(struct shared_lines *shared, uint64_t id, uint64_t now_ns)
{
    now_ns = room_enter(shared, now_ns);
    shared_call_line(shared, id, now_ns);
    room_leave(shared, now_ns);
}

/* To come again would be to come behind those who stay. */
void shared_send_away(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
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
    uint64_t pass_ns = shared_pass_anyway_after(shared, id, &rule, cost_micro, &outcome, now_ns);
    line_refuse(&decision, &rule.limit, outcome, pass_ns, now_ns);
    shared->lines->stats.expired_count++;
    shared_block_refused(shared, id, &rule, &decision, now_ns);
    shared_answer(shared, place, &decision);
}

/* ---- standing there, and leaving ---- */

uint32_t shared_find_ready(struct shared_lines *shared, uint64_t id, uint64_t now_ns)
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

/* Who is not the first looks again at its deadline; and when the first one is late, in case that those in
 * between do not look either. */
static void schedule_behind(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    struct waiter *waiter = shared->own[place - 1].waiter;
    uint64_t deadline_ns = ticket_at(shared, place)->deadline_ns;
    uint64_t look_ns = shared_look_at(shared, place, now_ns);
    waiter->ops->schedule(waiter, look_ns < deadline_ns ? look_ns : deadline_ns);
}

void shared_attend(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    const struct ticket *ticket = ticket_at(shared, place);
    struct waiter *waiter = shared->own[place - 1].waiter;
    if (waiter->run != NULL) {
        shared_run_attend(shared, waiter, now_ns);
        return;
    }
    shared_renew_watch(shared, place, now_ns);
    if (ticket->state == TICKET_PASSED_OVER) {
        shared_join_again(shared, place, now_ns);
        return;
    }
    shared_clear_head(shared, ticket->line, now_ns);
    shared_serve(shared, ticket->line, now_ns);
    if (shared->own[place - 1].waiter != waiter || ticket->state != TICKET_STANDS) {
        return; // it was answered
    }
    if (now_ns >= ticket->deadline_ns) {
        shared_send_away(shared, place, now_ns);
    } else if (shared_line_at(shared, ticket->line)->first != place) {
        schedule_behind(shared, place, now_ns);
    }
}

void shared_call(struct shared_lines *shared, struct waiter *waiter, uint64_t now_ns)
{
    now_ns = room_enter(shared, now_ns);
    if (waiter->run != NULL) {
        shared_run_attend(shared, waiter, now_ns);
    } else if (waiter->ticket != 0) { // it is not answered meanwhile
        shared_attend(shared, waiter->ticket, now_ns);
    }
    room_leave(shared, now_ns);
}

static bool leave(struct shared_lines *shared, struct waiter *waiter, uint64_t now_ns)
{
    uint32_t place = waiter->ticket;
    if (place != 0 && ticket_at(shared, place)->line != 0
        && shared_line_at(shared, ticket_at(shared, place)->line)->first != place) {
        shared_serve(shared, ticket_at(shared, place)->line, now_ns); // whoever is due goes first
        place = waiter->ticket;
    }
    if (place == 0) {
        return false;
    }
    uint32_t line = ticket_at(shared, place)->line;
    if (line != 0) {
        shared_give_back(shared, place, now_ns);
    }
    shared_unwatch(shared, place);
    shared->own[place - 1].waiter = NULL;
    waiter->ticket = 0;
    room_free_ticket(shared, place);
    if (line != 0) {
        shared_settle(shared, line, now_ns); // those behind may go now
    }
    return true;
}

bool shared_leave(struct shared_lines *shared, struct waiter *waiter, uint64_t now_ns)
{
    struct lines_stats *stats = &shared->lines->stats;
    lines_lock(shared->lines);
    now_ns = room_enter(shared, now_ns);
    bool left = waiter->run != NULL ? shared_run_leave(shared, waiter, now_ns)
                                    : leave(shared, waiter, now_ns);
    stats->waiting_count -= left;
    stats->left_count += left;
    room_leave(shared, now_ns);
    lines_unlock(shared->lines);
    return left;
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
    if (request->operation == WEIR_TAKE && !request->shadow) {
        shared_block_refused(shared, shared_line_at(shared, line)->id, request->rule, decision,
                             now_ns);
    }
}

/* A refund or reset of a queue: the places belong to those who stand there. */
static void give_back_beside(struct shared_lines *shared, uint32_t line,
                             const struct weir_request *request, uint64_t now_ns,
                             struct weir_decision *decision)
{
    const struct weir_limit *limit = shared_limit(shared, shared_line_at(shared, line));
    struct span most = span_to_give_back(limit, request);
    struct span given = shared_give_back_beside(shared, line, most, now_ns);
    line_answer_given_back(decision, request, limit, given, shared_look(shared, line, now_ns),
                           now_ns);
}

/* A fill, refund or reset: the head may fit earlier now, or later. */
static void change_beside(struct shared_lines *shared, uint32_t place,
                          const struct weir_request *request, uint64_t now_ns,
                          struct weir_decision *decision)
{
    const struct shared_line *line = shared_line_at(shared, place);
    struct store *store = shared->lines->store;
    struct line_terms marked = {0, true, true};
    if (request->rule->limit.kind == WEIR_KIND_QUEUE && request->operation != WEIR_FILL) {
        give_back_beside(shared, place, request, now_ns, decision);
    } else {
        struct outcome outcome =
            store->ops->lines->decide_in_line(store, request, line->id, &marked, now_ns);
        line_answer(shared->lines, decision, shared_limit(shared, line), line->id, outcome, now_ns);
    }
    shared_call_line(shared, line->id, now_ns);
}

/* A mark without a line is what somebody left behind who died, or a machine that stopped. */
static bool meet(struct line_keeper *keeper, const struct weir_request *request, uint64_t id,
                 uint64_t now_ns, struct weir_decision *decision)
{
    struct shared_lines *shared = ((struct lines *)(void *)keeper)->shared;
    shared_begin_here(shared);
    lines_lock(shared->lines);
    now_ns = room_enter(shared, now_ns);
    uint32_t line = shared_find_ready(shared, id, now_ns);
    if (request->operation == WEIR_BLOCK) {
        shared_call_line(shared, id, now_ns); // who has to go will
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

/* Among them may be one that has died and is not buried yet. */
static uint64_t count_waiting(struct line_keeper *keeper, uint64_t id, uint64_t now_ns)
{
    struct shared_lines *shared = ((struct lines *)(void *)keeper)->shared;
    shared_begin_here(shared);
    lines_lock(shared->lines);
    now_ns = room_enter(shared, now_ns);
    uint32_t line = room_find(shared, id);
    uint64_t count = line != 0 ? shared_line_at(shared, line)->count : 0;
    room_leave(shared, now_ns);
    lines_unlock(shared->lines);
    return count;
}

/* ---- the beginning and the end ---- */

static void forget_parent(struct shared_lines *shared)
{
    memset(&shared->lines->mutex, 0, sizeof shared->lines->mutex);
    memset(&shared->lines->stats, 0, sizeof shared->lines->stats);
    memset(shared->own, 0, shared->place_count * sizeof shared->own[0]);
    memset(&shared->attendant, 0, sizeof shared->attendant);
    shared->standing = shared->watch_count = 0;
    shared->has_new_watch = false;
}

/* While a thread is at it, `pid` is minus the number of its process: a child that is forked in that moment finds what
 * is none of its own, and begins by itself. */
void shared_begin_here(struct shared_lines *shared)
{
    pid_t here = getpid();
    pid_t seen;
    while ((seen = __atomic_load_n(&shared->pid, __ATOMIC_ACQUIRE)) != here) {
        if (seen != -here
            && __atomic_compare_exchange_n(&shared->pid, &seen, -here, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED)) {
            forget_parent(shared);
            __atomic_store_n(&shared->pid, here, __ATOMIC_RELEASE);
        } else {
            (void)sched_yield(); // another thread of this process does it
        }
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
    shared->own =
        calloc(ROOM_PLACES_MAX, sizeof *shared->own); // there may be more in the next room
    shared->watches = calloc(ROOM_PLACES_MAX, sizeof *shared->watches);
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
    lines->keeper = (struct line_keeper){.meet = meet, .count = count_waiting};
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
