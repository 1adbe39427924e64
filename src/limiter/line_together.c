/* SPDX-License-Identifier: MIT
 *
 * Waiting under several limits for one take. A limit that refuses it has a member of it in its line, at
 * the place of its arrival; the other limits hear of it only when its turn has come, so it holds nobody
 * up there. Its turn is when every member is the first in its line: then all limits are asked at once.
 * That somebody's turn comes is certain, because all lines have the same order: who came first of all
 * is the first wherever it stands.
 *
 * Once it is allowed it is charged everywhere. What is left is to go through its queues, each of which has
 * a member in its line until its egress; it may go when the last has let it. Who leaves before that gets
 * back what the other limits were charged.
 *
 * Whoever is the next in a line that a member has left looks for himself: he is called at once, rather
 * than served from here, where one line would lead to another without end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/line.h"

/* One limit of it.
 *   due_ns  when this place wants to be looked at; UINT64_MAX: not by itself */
struct member {
    struct waiter waiter; // first: it leads back here
    struct weir_rule rule;
    uint64_t id;
    uint64_t due_ns;
    struct charge charge;
    bool is_shadow; // its refusal refuses nothing
};

/*   place_count  in how many lines it stands
 *   is_charged   it waits for its queues only */
struct together {
    struct lines *lines;
    struct waiter *owner;
    uint64_t deadline_ns;
    size_t count, place_count;
    bool is_charged;
    struct weir_decision decisions[WEIR_TOGETHER_MAX];
    struct member members[];
};

bool together_enters(struct together *together)
{
    return together->place_count++ == 0;
}

bool together_leaves(struct together *together)
{
    return --together->place_count == 0;
}

static bool stands(const struct member *member)
{
    return member->waiter.line != NULL;
}

static bool is_queue(const struct member *member)
{
    return member->rule.limit.kind == WEIR_KIND_QUEUE;
}

/* It charges nothing, or refuses nothing: it waits for nobody. */
static bool is_idle(const struct member *member)
{
    return member->charge.never || member->charge.cost_micro == 0 || member->is_shadow;
}

/* Whether this limit keeps it from going. */
static bool refuses(const struct member *member, struct outcome outcome)
{
    return outcome.verdict == WEIR_LIMITED && !member->is_shadow;
}

/* Others wait for this limit, and it does not stand among them. A queue is its own line: who is charged
 * stands behind all who were before. */
static bool is_behind(const struct lines *lines, const struct member *member)
{
    return !stands(member) && !is_queue(member) && !is_idle(member)
           && line_find(lines, member->id) != NULL;
}

static bool is_first_everywhere(const struct together *together)
{
    for (size_t i = 0; i < together->count; i++) {
        const struct waiter *waiter = &together->members[i].waiter;
        if (waiter->line != NULL && waiter->line->first != waiter) {
            return false;
        }
    }
    return true;
}

/* ---- time ---- */

static void reschedule(struct together *together)
{
    uint64_t due_ns = together->deadline_ns;
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        due_ns = stands(member) && member->due_ns < due_ns ? member->due_ns : due_ns;
    }
    together->owner->ops->schedule(together->owner, due_ns);
}

static void schedule_member(struct waiter *waiter, uint64_t due_ns)
{
    ((struct member *)(void *)waiter)->due_ns = due_ns;
    reschedule(waiter->together);
}

/* One place less in this line: whoever is the first now looks at once. */
static void call_next(struct lines *lines, struct line *line, uint64_t now_ns)
{
    if (line == lines->served) {
        return; // it is being looked at
    }
    if (line->first == NULL) {
        line_close(lines, line);
    } else {
        line->first->ops->schedule(line->first, now_ns);
    }
}

/* ---- asking ---- */

/* What joining is about, for one limit. */
struct member_joining {
    struct weir_request request;
    struct weir_decision decision; // nobody reads it
    struct joining joining;
};

static const struct joining *joining_of(struct member_joining *room, struct member *member,
                                        const struct together *together, uint64_t now_ns)
{
    room->request =
        (struct weir_request){.rule = &member->rule, .cost_micro = member->waiter.cost_micro};
    room->joining = (struct joining){
        .waiter = &member->waiter,
        .request = &room->request,
        .id = member->id,
        .charge = member->charge,
        .waiting = member->rule.limit.waiting,
        .wait_ns = ns_until(together->deadline_ns, now_ns),
        .now_ns = now_ns,
        .decision = &room->decision,
    };
    return &room->joining;
}

/* Asks about one of the limits. Its bucket stays marked if others wait for it. */
static struct outcome ask_one(struct lines *lines, const struct member *member,
                              enum weir_operation operation, uint64_t now_ns)
{
    const struct line *line = line_find(lines, member->id);
    bool is_marked = line != NULL && line->first != NULL;
    struct line_terms terms = {0, is_marked, is_marked};
    struct weir_request request = {
        .rule = &member->rule, .cost_micro = member->waiter.cost_micro, .operation = operation};
    return lines->store->ops->decide_in_line(lines->store, &request, member->id, &terms, now_ns);
}

/* Asks all limits at once. True if it was allowed, and for a take is charged. */
static bool ask_all(struct lines *lines, struct together *together, enum weir_operation operation,
                    struct outcome *outcomes, uint64_t now_ns)
{
    struct weir_request requests[WEIR_TOGETHER_MAX];
    uint64_t ids[WEIR_TOGETHER_MAX];
    struct line_terms terms[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        struct member_joining room;
        const struct joining *joining = joining_of(&room, member, together, now_ns);
        const struct line *line = line_find(lines, member->id);
        size_t others = line != NULL ? line->count - stands(member) : 0;
        bool has_place =
            is_queue(member) && !is_idle(member) && line_has_place(lines, line, joining);
        requests[i] = room.request;
        requests[i].operation = operation;
        requests[i].and_next = i + 1 < together->count;
        requests[i].shadow = member->is_shadow;
        ids[i] = member->id;
        terms[i] = (struct line_terms){.patience_ns = has_place ? joining->wait_ns : 0,
                                       .stays_if_allowed = others > 0 || has_place,
                                       .stays_if_refused = line != NULL};
    }
    return lines->store->ops->decide_run_in_line(lines->store, requests, ids, terms, outcomes,
                                                 together->count, now_ns);
}

/* ---- standing, and going ---- */

/* Stands in the line of a limit that refuses it. False if that lets it in meanwhile. */
static bool stand(struct lines *lines, struct together *together, struct member *member,
                  uint64_t now_ns)
{
    struct member_joining room;
    const struct joining *joining = joining_of(&room, member, together, now_ns);
    struct line *line = line_find(lines, member->id);
    if (line == NULL) {
        room.request.operation = WEIR_CAN_TAKE;
        struct outcome outcome = line_take(lines, joining, (struct line_terms){0, false, true});
        if (outcome.verdict != WEIR_LIMITED) {
            return false;
        }
        line = line_open(lines, &member->rule, member->id);
    }
    return line_stand(lines, line, joining, UINT64_MAX);
}

/* Stands wherever it is refused. */
static bool stand_where_refused(struct lines *lines, struct together *together,
                                const struct outcome *outcomes, uint64_t now_ns)
{
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        if (refuses(member, outcomes[i]) && !stands(member)
            && !stand(lines, together, member, now_ns)) {
            return false;
        }
    }
    return true;
}

/* It is charged everywhere. True if a queue has not let it go yet. */
static bool go(struct lines *lines, struct together *together, const struct outcome *outcomes,
               uint64_t now_ns)
{
    together->is_charged = true;
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        struct line *line = member->waiter.line;
        if (line != NULL) {
            line_unlink(lines, &member->waiter);
            call_next(lines, line, now_ns);
        }
    }
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        struct member_joining room;
        const struct joining *joining = joining_of(&room, member, together, now_ns);
        struct line *line = line_find(lines, member->id);
        if (!is_queue(member) || is_idle(member)) {
            continue;
        }
        if (bucket_delay_ns(&member->rule.limit, &member->charge, outcomes[i], now_ns) > 0) {
            (void)line_stand_in_queue(lines, line, joining, outcomes[i]);
        } else if (line == NULL) {
            line_unmark(lines, joining);
        }
    }
    return together->place_count > 0;
}

/* Gives its places back; and what it was charged where it stands no more. */
static void withdraw(struct lines *lines, struct together *together, uint64_t now_ns)
{
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        struct line *line = line_find(lines, member->id);
        if (stands(member)) {
            line->kind->give_back(lines, &member->waiter, now_ns);
        } else if (together->is_charged && !is_queue(member)) {
            (void)ask_one(lines, member, WEIR_REFUND, now_ns);
        } else {
            continue;
        }
        if (line != NULL) {
            call_next(lines, line, now_ns);
        }
    }
}

/* ---- answering ---- */

static void finish(struct together *together)
{
    struct waiter *owner = together->owner;
    owner->together = NULL;
    owner->ops->answer(owner, together->decisions);
    free(together);
}

/* As its outcomes say: a queue that has let it go, or a limit that was asked. */
static void write_answers(struct together *together, const struct outcome *outcomes,
                          uint64_t now_ns)
{
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        struct weir_decision *decision = &together->decisions[i];
        if (outcomes[i].verdict == WEIR_FAILED) {
            bucket_answer_failed(decision, &member->rule.limit);
        } else {
            line_answer(together->lines, decision, &member->rule.limit, member->id, outcomes[i],
                        now_ns);
        }
    }
}

/* All have let it go. */
static void answer_allowed(struct lines *lines, struct together *together, uint64_t now_ns)
{
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < together->count; i++) {
        outcomes[i] = ask_one(lines, &together->members[i], WEIR_SHOW, now_ns);
        outcomes[i].verdict = WEIR_ALLOWED;
    }
    write_answers(together, outcomes, now_ns);
    lines->stats.served_count++;
    finish(together);
}

/* It waits no longer, and was not let in: by those limits in whose lines it stands, or that say so. */
static void send_away(struct lines *lines, struct together *together,
                      const struct outcome *outcomes, uint64_t now_ns)
{
    bool refused[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < together->count; i++) {
        bool is_said = outcomes != NULL && refuses(&together->members[i], outcomes[i]);
        refused[i] = is_said || stands(&together->members[i]);
    }
    withdraw(lines, together, now_ns);
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        const struct line *line = line_find(lines, member->id);
        struct weir_decision *decision = &together->decisions[i];
        struct outcome outcome = ask_one(lines, member, WEIR_SHOW, now_ns);
        uint64_t pass_ns = ns_until(line_head_fits_at(lines, &member->rule.limit, member->id,
                                                      &member->charge, outcome.moment, now_ns),
                                    now_ns);
        if (line != NULL && line->first != NULL && !is_idle(member)) {
            pass_ns = line->kind->pass_after(lines, line, &member->charge, &outcome, now_ns);
        }
        if (refused[i]) {
            line_refuse(decision, &member->rule.limit, outcome, pass_ns, now_ns);
            line_block_refused(lines, &member->rule, member->id, decision, now_ns);
        } else {
            kind_answer(decision, &member->rule.limit, outcome, now_ns);
        }
    }
    lines->stats.expired_count++;
    finish(together);
}

/* A queue has let it go; perhaps it was the last. */
static void note_egress(struct waiter *waiter, const struct weir_decision *decision)
{
    struct together *together = waiter->together;
    (void)decision; // of one limit; all of them are asked
    if (together->place_count > 0) {
        reschedule(together);
    } else {
        answer_allowed(together->lines, together, together->lines->served_at_ns);
    }
}

/* ---- its turn ---- */

/* Neither yes nor not yet: no wait helps. */
static bool is_decided(const struct together *together, const struct outcome *outcomes)
{
    bool is_decided = false;
    for (size_t i = 0; i < together->count; i++) {
        is_decided |= outcomes[i].verdict != WEIR_LIMITED && outcomes[i].verdict != WEIR_ALLOWED
                      && !together->members[i].is_shadow;
    }
    return is_decided;
}

/* A queue is full, or would let it go too late: it refuses at once, for it is its own line. */
static bool is_refused_by_queue(const struct together *together, const struct outcome *outcomes)
{
    bool is_refused = false;
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        is_refused |= refuses(member, outcomes[i]) && is_queue(member);
    }
    return is_refused;
}

/* A queue that even empty would let it go too late: no wait helps. */
static bool is_in_vain(struct together *together, size_t i, uint64_t now_ns)
{
    struct member *member = &together->members[i];
    struct member_joining room;
    return is_queue(member) && !is_idle(member)
           && line_is_in_vain(joining_of(&room, member, together, now_ns));
}

/* Takes, unless somebody waits for one of its limits whom it would overtake. True if it is charged; if
 * not, what every limit says. Afterwards there is memory to stand in every line. */
static bool take(struct lines *lines, struct together *together, struct outcome *outcomes,
                 uint64_t now_ns)
{
    enum weir_operation operation = WEIR_TAKE;
    if (!line_has_spares(lines, together->count)) {
        for (size_t i = 0; i < together->count; i++) {
            outcomes[i].verdict = WEIR_FAILED;
        }
        return false;
    }
    for (size_t i = 0; i < together->count; i++) {
        if (is_in_vain(together, i, now_ns) || is_behind(lines, &together->members[i])) {
            operation = WEIR_CAN_TAKE;
        }
    }
    bool fits = ask_all(lines, together, operation, outcomes, now_ns);
    for (size_t i = 0; i < together->count; i++) {
        if (is_in_vain(together, i, now_ns)) {
            outcomes[i].verdict = WEIR_NEVER;
        } else if (is_behind(lines, &together->members[i]) && outcomes[i].verdict != WEIR_BLOCKED) {
            outcomes[i].verdict = WEIR_LIMITED;
        }
    }
    return fits && operation == WEIR_TAKE;
}

/* When the last of the limits in whose lines it stands lets it in; now, if all do. */
static uint64_t fits_where_it_stands_at(struct lines *lines, const struct together *together,
                                        const struct outcome *outcomes, uint64_t now_ns)
{
    uint64_t last_ns = now_ns;
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        if (stands(member) && refuses(member, outcomes[i])) {
            uint64_t fits_ns = line_head_fits_at(lines, &member->rule.limit, member->id,
                                                 &member->charge, outcomes[i].moment, now_ns);
            last_ns = fits_ns > last_ns ? fits_ns : last_ns;
        }
    }
    return last_ns;
}

static void call_at(struct together *together, uint64_t due_ns)
{
    for (size_t i = 0; i < together->count; i++) {
        together->members[i].due_ns = due_ns;
    }
    reschedule(together);
}

/* One of its keys may have been blocked: that it is told before its turn. */
static bool may_be_blocked(const struct lines *lines, const struct together *together,
                           uint64_t now_ns)
{
    bool is_blocked = false;
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        is_blocked |= !is_idle(member)
                      && lines->store->ops->blocked_until_ns(lines->store, member->id) > now_ns;
    }
    return is_blocked;
}

/* Answers what is decided without a turn. */
static bool answer_blocked(struct lines *lines, struct together *together, uint64_t now_ns)
{
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    if (!may_be_blocked(lines, together, now_ns)) {
        return false;
    }
    (void)ask_all(lines, together, WEIR_CAN_TAKE, outcomes, now_ns);
    if (!is_decided(together, outcomes)) {
        return false;
    }
    withdraw(lines, together, now_ns);
    write_answers(together, outcomes, now_ns);
    lines->stats.blocked_count++;
    finish(together);
    return true;
}

bool together_serve(struct lines *lines, struct together *together, uint64_t now_ns)
{
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    if (answer_blocked(lines, together, now_ns)) {
        return true;
    }
    while (is_first_everywhere(together)) {
        if (take(lines, together, outcomes, now_ns)) {
            if (!go(lines, together, outcomes, now_ns)) {
                answer_allowed(lines, together, now_ns);
            }
            return true;
        }
        if (is_decided(together, outcomes)) {
            withdraw(lines, together, now_ns);
            write_answers(together, outcomes, now_ns);
            finish(together);
            return true;
        }
        if (is_refused_by_queue(together, outcomes) || now_ns >= together->deadline_ns) {
            send_away(lines, together, outcomes, now_ns);
            return true;
        }
        uint64_t due_ns = fits_where_it_stands_at(lines, together, outcomes, now_ns);
        if (due_ns > now_ns) {
            call_at(together, due_ns);
            return false;
        }
        (void)stand_where_refused(lines, together, outcomes, now_ns); // others refuse it now
    }
    reschedule(together);
    return false;
}

/* Serves the lines in which it stands, or those in which others stand before it. */
static void serve_lines(struct lines *lines, struct waiter *owner, bool all, uint64_t now_ns)
{
    size_t count = owner->together->count;
    for (size_t i = 0; i < count && owner->together != NULL; i++) {
        const struct waiter *waiter = &owner->together->members[i].waiter;
        if (waiter->line != NULL && (all || waiter->line->first != waiter)) {
            line_serve(lines, waiter->line, now_ns);
        }
    }
}

void together_call(struct lines *lines, struct together *together, uint64_t now_ns)
{
    struct waiter *owner = together->owner;
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        member->due_ns = member->due_ns > now_ns ? member->due_ns : UINT64_MAX;
    }
    serve_lines(lines, owner, true, now_ns);
    if (owner->together != NULL && now_ns >= together->deadline_ns) {
        send_away(lines, together, NULL, now_ns);
    } else if (owner->together != NULL) {
        reschedule(together);
    }
}

bool together_leave(struct lines *lines, struct waiter *owner, uint64_t now_ns)
{
    serve_lines(lines, owner, false, now_ns); // whoever is due goes first
    struct together *together = owner->together;
    if (together == NULL) {
        return false;
    }
    withdraw(lines, together, now_ns);
    lines->stats.left_count++;
    owner->together = NULL;
    free(together);
    return true;
}

/* ---- joining ---- */

/* Refused at once, if it cannot wait where it is refused: there is no place, or it would be too late. */
static bool turn_away(struct lines *lines, struct together *together,
                      const struct outcome *outcomes, uint64_t now_ns)
{
    bool is_late = false, is_full = false;
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        struct weir_decision *decision = &together->decisions[i];
        const struct weir_limit *limit = &member->rule.limit;
        struct member_joining room;
        const struct joining *joining = joining_of(&room, member, together, now_ns);
        if (!refuses(member, outcomes[i])) {
            kind_answer(decision, limit, outcomes[i], now_ns);
            continue;
        }
        const struct line *line = line_find(lines, member->id);
        struct shortage shortage = line_kind_of(limit)->shortage(lines, line, joining, outcomes[i]);
        uint64_t late_ns = ns_until(shortage.needed_ns, joining->wait_ns);
        is_late |= late_ns > 0;
        is_full |= shortage.place_ns > 0 || is_queue(member);
        line_refuse(decision, limit, outcomes[i],
                    late_ns > shortage.place_ns ? late_ns : shortage.place_ns, now_ns);
    }
    lines->stats.late_count += is_late;
    lines->stats.full_count += !is_late && is_full;
    return is_late || is_full;
}

/* True: it stands in line. Otherwise its decisions are written. */
static bool begin(struct lines *lines, struct together *together, uint64_t now_ns)
{
    struct outcome outcomes[WEIR_TOGETHER_MAX];
    for (;;) {
        bool goes = take(lines, together, outcomes, now_ns);
        if (goes && go(lines, together, outcomes, now_ns)) {
            return true;
        }
        if (goes || is_decided(together, outcomes)) {
            write_answers(together, outcomes, now_ns);
            return false;
        }
        if (turn_away(lines, together, outcomes, now_ns)) {
            return false;
        }
        if (stand_where_refused(lines, together, outcomes, now_ns)) {
            if (is_first_everywhere(together)) {
                call_at(together, fits_where_it_stands_at(lines, together, outcomes, now_ns));
            }
            return true;
        }
        withdraw(lines, together, now_ns); // one of them fits meanwhile
    }
}

static bool has_twice(const struct together *together)
{
    for (size_t i = 0; i < together->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (together->members[i].id == together->members[j].id) {
                return true;
            }
        }
    }
    return false;
}

/* A line keeps the numbers that it was opened with, and is brought up to date first. */
static void meet_line(struct lines *lines, struct member *member, uint64_t now_ns)
{
    struct line *line = line_find(lines, member->id);
    if (line != NULL) {
        line_serve(lines, line, now_ns); // whoever is due goes first
        line = line_find(lines, member->id);
    }
    if (line != NULL) {
        member->rule = line->rule;
        member->charge = charge_of(limit_of(line), member->waiter.cost_micro);
    }
}

static struct together *make(struct lines *lines, struct waiter *owner,
                             const struct weir_request *requests, size_t count,
                             uint64_t deadline_ns)
{
    static const struct waiter_ops OPS = {.schedule = schedule_member, .answer = note_egress};
    struct together *together = malloc(sizeof *together + count * sizeof together->members[0]);
    if (together == NULL) {
        return NULL;
    }
    *together = (struct together){
        .lines = lines, .owner = owner, .deadline_ns = deadline_ns, .count = count};
    for (size_t i = 0; i < count; i++) {
        const struct weir_request *request = &requests[i];
        together->members[i] = (struct member){
            .waiter = {.ops = &OPS,
                       .together = together,
                       .turn = owner->turn,
                       .cost_micro = request->cost_micro},
            .rule = *request->rule,
            .id = lines->store->ops->id(lines->store, request),
            .due_ns = UINT64_MAX,
            .charge = charge_of(&request->rule->limit, request->cost_micro),
            .is_shadow = request->shadow,
        };
    }
    return together;
}

bool together_join(struct lines *lines, struct waiter *owner, const struct weir_request *requests,
                   size_t count, uint64_t wait_ns, uint64_t now_ns, struct weir_decision *decisions)
{
    struct together *together = make(lines, owner, requests, count, now_ns + wait_ns);
    if (together == NULL || has_twice(together)) {
        lines_answer_failed(requests, count, decisions);
        free(together);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        meet_line(lines, &together->members[i], now_ns);
    }
    owner->together = together;
    if (begin(lines, together, now_ns)) {
        lines->stats.joined_count++;
        return true;
    }
    owner->together = NULL;
    memcpy(decisions, together->decisions, count * sizeof *decisions);
    free(together);
    return false;
}
