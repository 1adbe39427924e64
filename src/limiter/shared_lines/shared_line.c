/* SPDX-License-Identifier: MIT
 *
 * One line of those who share a store: who stands in it, and whose turn it is. The two ways to wait are
 * those of line_bucket.c and line_queue.c; what is different is that a queue's waiters know their own
 * ends, so that nobody has to add up what others may have died over. */
#include <assert.h>

#include "limiter/shared_lines/shared_room.h"
#include "sync/atomic.h"

static const struct span NOTHING = {0, 0};

static bool is_queue(const struct weir_limit *limit)
{
    return limit->kind == WEIR_KIND_QUEUE;
}

/* ---- standing in it ---- */

/* How much is still in the bucket, as time, when such a cost fits into it. */
static struct span rest_beside(const struct weir_limit *limit, struct span span)
{
    return span_sub_or_zero(limit_full(limit), span, limit->denominator);
}

/* Whether another place of the same take counts it among those who wait. */
static bool stands_elsewhere(const struct shared_lines *shared, uint32_t place)
{
    uint32_t member = ticket_at(shared, place)->next_member;
    while (member != place && ticket_at(shared, member)->line == 0) {
        member = ticket_at(shared, member)->next_member;
    }
    return member != place;
}

static void count_in(struct shared_lines *shared, struct shared_line *line, uint32_t place)
{
    const struct ticket *ticket = ticket_at(shared, place);
    const struct weir_limit *limit = &ticket->rule.limit;
    struct span rest = rest_beside(limit, ticket->span);
    line->count++;
    line->whole_count += (rest.ns | rest.rest) == 0;
    line->tight_count += limit->denominator > 1 && rest.ns == 0;
    line->ahead = span_add(line->ahead, ticket->span, limit->denominator);
    shared->room->waiting_count += !stands_elsewhere(shared, place);
}

static void count_out(struct shared_lines *shared, struct shared_line *line, uint32_t place)
{
    const struct ticket *ticket = ticket_at(shared, place);
    const struct weir_limit *limit = &ticket->rule.limit;
    struct span rest = rest_beside(limit, ticket->span);
    line->count--;
    line->whole_count -= (rest.ns | rest.rest) == 0;
    line->tight_count -= limit->denominator > 1 && rest.ns == 0;
    line->ahead = span_sub(line->ahead, ticket->span, limit->denominator);
    shared->room->waiting_count -= !stands_elsewhere(shared, place);
}

/* Links one in behind `previous`; 0: at the front. */
static void link_behind(struct shared_lines *shared, uint32_t line_place, uint32_t previous,
                        uint32_t place)
{
    struct shared_line *line = shared_line_at(shared, line_place);
    struct ticket *ticket = ticket_at(shared, place);
    ticket->line = line_place;
    ticket->previous = previous;
    ticket->next = previous != 0 ? ticket_at(shared, previous)->next : line->first;
    *(previous != 0 ? &ticket_at(shared, previous)->next : &line->first) = place;
    *(ticket->next != 0 ? &ticket_at(shared, ticket->next)->previous : &line->last) = place;
    count_in(shared, line, place);
}

void shared_append(struct shared_lines *shared, uint32_t line, uint32_t place)
{
    link_behind(shared, line, shared_line_at(shared, line)->last, place);
}

void shared_insert(struct shared_lines *shared, uint32_t line, uint32_t place)
{
    uint32_t previous = shared_line_at(shared, line)->last;
    while (previous != 0 && ticket_at(shared, previous)->turn > ticket_at(shared, place)->turn) {
        previous = ticket_at(shared, previous)->previous;
    }
    link_behind(shared, line, previous, place);
    const struct ticket *ticket = ticket_at(shared, place);
    if (ticket->next != 0 && ticket_at(shared, ticket->next)->standing != ticket->standing) {
        room_call(shared, ticket->next); // it listens to whoever stands before it
    }
}

void shared_unlink(struct shared_lines *shared, uint32_t place)
{
    struct ticket *ticket = ticket_at(shared, place);
    struct shared_line *line = shared_line_at(shared, ticket->line);
    *(ticket->previous != 0 ? &ticket_at(shared, ticket->previous)->next : &line->first) =
        ticket->next;
    *(ticket->next != 0 ? &ticket_at(shared, ticket->next)->previous : &line->last) =
        ticket->previous;
    count_out(shared, line, place);
    line->watcher = line->watcher == place ? 0 : line->watcher;
    line->called = line->called == place ? 0 : line->called;
    ticket->line = 0;
    if (ticket->next != 0 && ticket_at(shared, ticket->next)->standing != ticket->standing) {
        room_call(shared, ticket->next); // it listens to whoever stands before it
    }
}

/* ---- the bucket ---- */

struct outcome shared_decide(struct shared_lines *shared, const struct shared_line *line,
                             enum weir_operation operation, uint64_t cost_micro,
                             struct line_terms terms, uint64_t now_ns)
{
    struct store *store = shared->lines->store;
    struct weir_request request = {.rule = &ticket_at(shared, line->first)->rule,
                                   .cost_micro = cost_micro,
                                   .operation = operation};
    return store->ops->lines->decide_in_line(store, &request, line->id, &terms, now_ns);
}

struct outcome shared_look(struct shared_lines *shared, uint32_t line, uint64_t now_ns)
{
    struct line_terms marked = {0, true, true};
    return shared_decide(shared, shared_line_at(shared, line), WEIR_SHOW, 0, marked, now_ns);
}

void shared_unmark(struct shared_lines *shared, uint64_t id, uint64_t now_ns)
{
    struct weir_request request = {.rule = &shared->any, .operation = WEIR_SHOW};
    struct line_terms unmarked = {0, false, false};
    struct store *store = shared->lines->store;
    (void)store->ops->lines->decide_in_line(store, &request, id, &unmarked, now_ns);
}

/* ---- a queue: everybody has been charged ---- */

static struct span egress_of(const struct ticket *ticket)
{
    return queue_egress(&ticket->rule.limit, ticket->span, ticket->end);
}

uint64_t shared_egress_at(const struct shared_lines *shared, uint32_t place)
{
    return span_ceil_ns(egress_of(ticket_at(shared, place)));
}

/* Moves this one and all behind it. */
static void move_ends(struct shared_lines *shared, uint32_t from, struct span earlier,
                      struct span later)
{
    for (uint32_t place = from; place != 0; place = ticket_at(shared, place)->next) {
        struct ticket *ticket = ticket_at(shared, place);
        uint64_t denominator = ticket->rule.limit.denominator;
        ticket->end =
            span_sub_or_zero(span_add(ticket->end, later, denominator), earlier, denominator);
    }
}

static void move_queue(struct shared_lines *shared, const struct shared_line *line,
                       const struct weir_limit *limit, struct span earlier, struct span later,
                       uint64_t now_ns)
{
    struct store *store = shared->lines->store;
    struct line_move move = {earlier, later, line->count > 0};
    store->ops->lines->move_line(store, limit, line->id, &move, now_ns);
}

/* The first one goes now, and is late: from here on the whole line is. */
static void postpone(struct shared_lines *shared, const struct shared_line *line, uint64_t now_ns)
{
    const struct weir_limit *limit = shared_limit(shared, line);
    struct span now = {now_ns, 0};
    struct span late = span_sub(now, egress_of(ticket_at(shared, line->first)), limit->denominator);
    move_queue(shared, line, limit, NOTHING, late, now_ns);
    move_ends(shared, line->first, NOTHING, late);
}

/* Those behind move up by his cost; the next one goes now at the earliest. What he was charged is given back
 * last: who dies here leaves it charged. */
static void leave_queue(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    struct ticket *ticket = ticket_at(shared, place);
    const struct shared_line *line = shared_line_at(shared, ticket->line);
    const struct weir_limit *limit = &ticket->rule.limit;
    uint32_t next = ticket->next;
    struct span later = NOTHING;
    bool was_first = line->first == place;
    shared_unlink(shared, place);
    if (was_first && next != 0) {
        struct span now = {now_ns, 0};
        struct span egress =
            span_sub_or_zero(egress_of(ticket_at(shared, next)), ticket->span, limit->denominator);
        later = span_sub_or_zero(now, egress, limit->denominator);
    }
    move_ends(shared, next, ticket->span, later);
    move_queue(shared, line, limit, ticket->span, later, now_ns);
}

/* Moves this one up by so much, and all behind it to the ends of those before them. */
static void close_up(struct shared_lines *shared, uint32_t from, struct span earlier)
{
    struct ticket *before = ticket_at(shared, from);
    uint64_t denominator = before->rule.limit.denominator;
    before->end = span_sub(before->end, earlier, denominator);
    for (uint32_t place = before->next; place != 0; place = before->next) {
        struct ticket *ticket = ticket_at(shared, place);
        ticket->end = span_add(before->end, ticket->span, denominator);
        before = ticket;
    }
}

/* As line_queue.c does it. Places move up one after the other, and the bucket last: who dies here leaves
 * it charged. */
struct span shared_give_back_beside(struct shared_lines *shared, uint32_t line_place,
                                    struct span most, uint64_t now_ns)
{
    const struct shared_line *line = shared_line_at(shared, line_place);
    const struct weir_limit *limit = shared_limit(shared, line);
    uint64_t denominator = limit->denominator;
    struct span earliest = {now_ns > line->gone_ns ? now_ns : line->gone_ns, 0};
    struct span left = most;
    struct span after = shared_look(shared, line_place, now_ns).moment;
    struct span end = ticket_at(shared, line->last)->end;
    (void)span_give_back(span_sub_or_zero(after, end, denominator), &left, denominator);
    for (uint32_t place = line->last; place != 0 && (left.ns | left.rest) != 0;) {
        const struct ticket *ticket = ticket_at(shared, place);
        uint32_t previous = ticket->previous;
        struct span begin = span_sub_or_zero(ticket->end, ticket->span, denominator);
        end = previous != 0 ? ticket_at(shared, previous)->end : earliest;
        struct span before = span_sub_or_zero(begin, end, denominator);
        struct span stays = span_give_back(before, &left, denominator);
        if (previous == 0 || (left.ns | left.rest) == 0) {
            close_up(shared, place, span_sub(before, stays, denominator));
        }
        place = previous;
    }
    struct span given = span_sub(most, left, denominator);
    move_queue(shared, line, limit, given, NOTHING, now_ns);
    return given;
}

/* Somebody died while he moved the line, so some may have been moved and some not. Every end is at most
 * what the bucket and those behind it leave; so nobody goes later than what is charged says, and no two
 * come closer than their costs. */
void shared_straighten(struct shared_lines *shared, uint32_t line_place, uint64_t now_ns)
{
    const struct shared_line *line = shared_line_at(shared, line_place);
    if (line->first == 0 || !is_queue(shared_limit(shared, line))) {
        return;
    }
    struct span latest = shared_look(shared, line_place, now_ns).moment;
    for (uint32_t place = line->last; place != 0; place = ticket_at(shared, place)->previous) {
        struct ticket *ticket = ticket_at(shared, place);
        if (span_less(latest, ticket->end)) {
            ticket->end = latest;
        }
        latest = span_sub_or_zero(ticket->end, ticket->span, ticket->rule.limit.denominator);
    }
}

void shared_give_back(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    if (ticket_at(shared, place)->state == TICKET_STANDS) {
        room_set_state(ticket_at(shared, place), TICKET_GONE); // first: nobody gives back twice
    }
    if (is_queue(&ticket_at(shared, place)->rule.limit)) {
        leave_queue(shared, place, now_ns);
    } else {
        shared_unlink(shared, place);
    }
}

/* ---- how long it takes ---- */

/* The moment after a take that was made as soon as it fitted; see line_bucket.c. */
static struct span after_serving(const struct weir_limit *limit, struct span moment,
                                 struct span span)
{
    uint64_t due_ns = fits_at(limit, span_add(moment, span, limit->denominator));
    return span_add(bucket_start(moment, due_ns), span, limit->denominator);
}

/* The moment when all who stand in line are served. */
static struct span after_all(const struct shared_lines *shared, const struct shared_line *line,
                             struct span moment)
{
    const struct weir_limit *limit = shared_limit(shared, line);
    struct span full = limit_full(limit);
    if (line->tight_count == 0) {
        return span_add(moment, line->ahead, limit->denominator);
    }
    if (line->whole_count == line->count) {
        uint64_t last_ns = span_ceil_ns(moment) + (line->count - 1) * span_ceil_ns(full);
        return span_add((struct span){last_ns, 0}, full, limit->denominator);
    }
    for (uint32_t place = line->first; place != 0; place = ticket_at(shared, place)->next) {
        moment = after_serving(limit, moment, ticket_at(shared, place)->span);
    }
    return moment;
}

static struct window_place read_ticket(const struct window_line *line, uintptr_t at)
{
    struct ticket *ticket = ticket_at(line->lines, (uint32_t)at);
    return (struct window_place){ticket->cost_micro, &ticket->end.ns, ticket->next};
}

uint64_t shared_head_fits_at(struct shared_lines *shared, const struct weir_limit *limit,
                             uint64_t id, const struct charge *charge, struct span moment,
                             uint64_t now_ns)
{
    if (kind_has_log(limit)) {
        struct window_line nobody = {read_ticket, shared, 0};
        return window_fits_behind_at(shared->lines->store, limit, id, &nobody, charge, now_ns);
    }
    return kind_fits_at(limit, moment, charge, now_ns);
}

uint64_t shared_fits_behind_at(const struct shared_lines *shared, uint32_t line_place,
                               const struct charge *charge, struct span moment, uint64_t now_ns)
{
    const struct shared_line *line = shared_line_at(shared, line_place);
    const struct weir_limit *limit = shared_limit(shared, line);
    if (kind_has_log(limit)) {
        struct window_line all = {read_ticket, shared, line->first};
        return window_fits_behind_at(shared->lines->store, limit, line->id, &all, charge, now_ns);
    }
    uint64_t utc_offset_ns =
        shared->lines->store->ops->lines->utc_offset_ns(shared->lines->store); // as it is now
    if (limit->kind == WEIR_KIND_BUCKET) {
        struct span behind = after_all(shared, line, moment);
        return fits_at(limit, span_add(behind, charge->span, limit->denominator));
    }
    for (uint32_t place = line->first; place != 0; place = ticket_at(shared, place)->next) {
        struct charge before = charge_of(limit, ticket_at(shared, place)->cost_micro);
        before.utc_offset_ns = (int64_t)utc_offset_ns;
        struct weir_bucket then = bucket_with_moment((struct weir_bucket){0, 0}, moment);
        now_ns = kind_fits_at(limit, moment, &before, now_ns);
        moment = kind_take(then, limit, &before, now_ns).moment;
    }
    return kind_fits_at(limit, moment, charge, now_ns);
}

uint64_t shared_pass_after(struct shared_lines *shared, uint32_t line_place,
                           const struct charge *charge, struct outcome *outcome, uint64_t now_ns)
{
    const struct shared_line *line = shared_line_at(shared, line_place);
    const struct weir_limit *limit = shared_limit(shared, line);
    *outcome = shared_look(shared, line_place, now_ns);
    if (!is_queue(limit)) {
        return ns_until(shared_fits_behind_at(shared, line_place, charge, outcome->moment, now_ns),
                        now_ns);
    }
    uint64_t pass_ns = kind_fits_at(limit, outcome->moment, charge, now_ns);
    uint64_t gone_ns = shared_egress_at(shared, line->last);
    return ns_until(pass_ns > gone_ns ? pass_ns : gone_ns, now_ns);
}

/* ---- whose turn it is ---- */

static uint64_t grace_of(const struct weir_limit *limit)
{
    return limit->unit_ns > TURN_GRACE_NS ? limit->unit_ns : TURN_GRACE_NS;
}

/* Who is charged stands in queues only, and each of these lets it go by itself. */
static bool goes_by_itself(const struct ticket *ticket)
{
    return is_queue(&ticket->rule.limit);
}

/* Who stands before another place of the same take than this one, at the front of that line; 0: nobody does. */
static uint32_t held_up_by(const struct shared_lines *shared, uint32_t place)
{
    uint32_t member = place;
    do {
        const struct ticket *ticket = ticket_at(shared, member);
        uint32_t first = ticket->line != 0 ? shared_line_at(shared, ticket->line)->first : member;
        if (first != member && !goes_by_itself(ticket)) {
            return first;
        }
        member = ticket->next_member;
    } while (member != place);
    return 0;
}

bool shared_is_first_everywhere(const struct shared_lines *shared, uint32_t place)
{
    return held_up_by(shared, place) == 0;
}

/* Whose turn everybody in this line waits for. That is the first one; but where it waits under several limits,
 * and is not the first in another line, it is whoever that line waits for, and so on. Each of them came before
 * the one whom he holds up, so there is an end to it. */
static uint32_t find_holder(const struct shared_lines *shared, uint32_t line)
{
    uint32_t place = shared_line_at(shared, line)->first;
    uint32_t before;
    while ((before = held_up_by(shared, place)) != 0) {
        place = before;
    }
    return place;
}

/* When a place at the front could go, if nobody else mattered. */
static uint64_t due_at(struct shared_lines *shared, const struct ticket *ticket, uint64_t now_ns)
{
    const struct weir_limit *limit = &ticket->rule.limit;
    struct charge charge = charge_of(limit, ticket->cost_micro);
    uint64_t due_ns = is_queue(limit)
                          ? span_ceil_ns(egress_of(ticket))
                          : shared_head_fits_at(shared, limit, ticket->id, &charge,
                                                shared_look(shared, ticket->line, now_ns).moment,
                                                ticket->called_ns);
    return due_ns > ticket->called_ns ? due_ns : ticket->called_ns;
}

/* When somebody who is the first wherever he stands is passed over: all of his limits have to let him in
 * before he is late. */
static uint64_t passed_at(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    uint64_t due_ns = 0, grace_ns = 0;
    uint32_t member = place;
    do {
        const struct ticket *ticket = ticket_at(shared, member);
        if (member == place || (ticket->line != 0 && !goes_by_itself(ticket))) {
            uint64_t member_due_ns = due_at(shared, ticket, now_ns);
            uint64_t member_grace_ns = grace_of(&ticket->rule.limit);
            due_ns = member_due_ns > due_ns ? member_due_ns : due_ns;
            grace_ns = member_grace_ns > grace_ns ? member_grace_ns : grace_ns;
        }
        member = ticket->next_member;
    } while (member != place);
    return due_ns + grace_ns;
}

uint64_t shared_look_at(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    uint32_t line_place = ticket_at(shared, place)->line;
    const struct shared_line *line = shared_line_at(shared, line_place);
    uint32_t holder = find_holder(shared, line_place);
    if (line->watcher == 0 || is_own(shared, ticket_at(shared, holder))) {
        return UINT64_MAX;
    }
    uint64_t passed_ns = passed_at(shared, holder, now_ns);
    uint64_t between = line->watcher == place ? 0 : line->count;
    uint64_t look_ns;
    if (__builtin_mul_overflow(between, ns_until(passed_ns, now_ns), &look_ns)
        || __builtin_add_overflow(look_ns, passed_ns, &look_ns)) {
        return UINT64_MAX;
    }
    return look_ns;
}

/* It has to be of another process: who is stopped stops as a whole. */
static uint32_t next_watcher(const struct shared_lines *shared, const struct shared_line *line)
{
    uint32_t standing = ticket_at(shared, line->first)->standing;
    uint32_t place = line->first;
    while (place != 0 && ticket_at(shared, place)->standing == standing) {
        place = ticket_at(shared, place)->next;
    }
    return place;
}

/* Those who look after a take in its other lines wait for somebody else from now on. */
static void call_watchers_beside(struct shared_lines *shared, uint32_t place)
{
    for (uint32_t member = ticket_at(shared, place)->next_member; member != place;
         member = ticket_at(shared, member)->next_member) {
        uint32_t line = ticket_at(shared, member)->line;
        if (line != 0 && shared_line_at(shared, line)->watcher != 0) {
            room_call(shared, shared_line_at(shared, line)->watcher);
        }
    }
}

void shared_settle(struct shared_lines *shared, uint32_t line_place, uint64_t now_ns)
{
    struct shared_line *line = shared_line_at(shared, line_place);
    if (line->count == 0) {
        shared_unmark(shared, line->id, now_ns);
        room_free_line(shared, line_place);
        return;
    }
    if (line->called != line->first) {
        line->called = line->first;
        ticket_at(shared, line->first)->called_ns = now_ns;
        room_call(shared, line->first);
        call_watchers_beside(shared, line->first);
    }
    if (line->watcher == 0
        || ticket_at(shared, line->watcher)->standing == ticket_at(shared, line->first)->standing) {
        line->watcher = next_watcher(shared, line);
        if (line->watcher != 0) {
            room_call(shared, line->watcher);
        }
    }
}

/* It is out of all lines until its process goes on, and knows. */
static void pass_over(struct shared_lines *shared, uint32_t place, uint64_t now_ns)
{
    uint32_t member = place;
    do {
        struct ticket *ticket = ticket_at(shared, member);
        uint32_t line = ticket->line;
        if (line != 0) {
            room_set_state(ticket, TICKET_PASSED_OVER);
            shared_give_back(shared, member, now_ns);
            shared_settle(shared, line, now_ns);
        }
        member = ticket->next_member;
    } while (member != place);
    room_call(shared, place);
}

static bool is_alive(struct shared_lines *shared, uint32_t place)
{
    const struct ticket *ticket = ticket_at(shared, place);
    return is_own(shared, ticket) || room_is_alive(shared, ticket->standing);
}

void shared_clear_head(struct shared_lines *shared, uint32_t line_place, uint64_t now_ns)
{
    uint64_t id = shared_line_at(shared, line_place)->id;
    while (room_find(shared, id) == line_place) {
        uint32_t place = shared_line_at(shared, line_place)->first;
        uint32_t before;
        while (is_alive(shared, place) && (before = held_up_by(shared, place)) != 0) {
            place = before;
        }
        if (!is_alive(shared, place)) {
            room_bury(shared, ticket_at(shared, place)->standing, now_ns);
        } else if (!is_own(shared, ticket_at(shared, place))
                   && now_ns >= passed_at(shared, place, now_ns)) {
            pass_over(shared, place, now_ns);
        } else {
            return; // ours are about to be served
        }
    }
}

/* ---- serving ---- */

/* True if the first one goes now, or is locked out, or a window has no room for its event: as the outcome says.
 * Otherwise *due_ns says when. */
static bool take_turn(struct shared_lines *shared, uint32_t line_place, uint64_t now_ns,
                      struct outcome *outcome, uint64_t *due_ns)
{
    struct shared_line *line = shared_line_at(shared, line_place);
    const struct ticket *first = ticket_at(shared, line->first);
    const struct weir_limit *limit = &first->rule.limit;
    struct line_terms terms = {0, line->count > 1, true};
    if (!is_queue(limit)) {
        struct charge charge = charge_of(limit, first->cost_micro);
        *outcome = shared_decide(shared, line, WEIR_TAKE, first->cost_micro, terms, now_ns);
        if (outcome->verdict == WEIR_LIMITED) {
            *due_ns =
                shared_head_fits_at(shared, limit, line->id, &charge, outcome->moment, now_ns);
        }
        return outcome->verdict != WEIR_LIMITED;
    }
    *due_ns = span_ceil_ns(egress_of(first));
    if (*due_ns > now_ns) {
        return false;
    }
    if (now_ns - *due_ns > WEIR_JITTER_NS) {
        postpone(shared, line, now_ns);
    }
    line->gone_ns = span_ceil_ns(egress_of(first));
    *outcome = shared_decide(shared, line, WEIR_SHOW, 0, terms, now_ns);
    outcome->verdict = WEIR_ALLOWED;
    return true;
}

/* When to look at the first one again, which is ours and is not served yet. */
static void schedule_first(struct shared_lines *shared, uint32_t place, uint64_t due_ns,
                           uint64_t now_ns)
{
    struct waiter *waiter = shared->own[place - 1].waiter;
    uint64_t deadline_ns = ticket_at(shared, place)->deadline_ns;
    if (waiter->run != NULL) {
        shared_run_schedule(shared, waiter, now_ns);
    } else {
        waiter->ops->schedule(waiter, due_ns < deadline_ns ? due_ns : deadline_ns);
    }
}

/* Serves the first one, which is ours. False if it is not its turn. */
static bool serve_first(struct shared_lines *shared, uint32_t line_place, uint64_t now_ns)
{
    const struct shared_line *line = shared_line_at(shared, line_place);
    struct lines_stats *stats = &shared->lines->stats;
    uint32_t place = line->first;
    struct ticket *first = ticket_at(shared, place);
    struct waiter *waiter = shared->own[place - 1].waiter;
    struct outcome outcome;
    struct weir_decision decision;
    uint64_t due_ns;
    if (waiter->run != NULL && !is_queue(&first->rule.limit)) {
        return shared_run_serve(shared, waiter, now_ns);
    }
    if (!take_turn(shared, line_place, now_ns, &outcome, &due_ns)) {
        schedule_first(shared, place, due_ns, now_ns);
        return false;
    }
    line_answer_or_fail(shared->lines, &decision, &first->rule.limit, line->id, outcome, now_ns);
    shared_unlink(shared, place);
    if (waiter->run != NULL) {
        shared_run_note_egress(shared, place, now_ns);
        return true;
    }
    stats->served_count += decision.verdict == WEIR_ALLOWED;
    stats->blocked_count += decision.verdict == WEIR_BLOCKED;
    shared_answer(shared, place, &decision);
    return true;
}

void shared_serve(struct shared_lines *shared, uint32_t line_place, uint64_t now_ns)
{
    const struct shared_line *line = shared_line_at(shared, line_place);
    uint64_t id = line->id;
    while (room_find(shared, id) == line_place && line->first != 0
           && is_own(shared, ticket_at(shared, line->first))
           && serve_first(shared, line_place, now_ns)) {
    }
    if (room_find(shared, id) == line_place) { // a take under several limits may have closed it
        shared_settle(shared, line_place, now_ns);
    }
}
