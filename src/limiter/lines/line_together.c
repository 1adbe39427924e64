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

#include "limiter/lines/line_member.h"

/* One limit of it.
 *   due_ns  when this place wants to be looked at; UINT64_MAX: not by itself */
struct member {
    struct waiter waiter; // first: it leads back here
    struct line_member asked;
    uint64_t due_ns;
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

/* Others wait for this limit, and it does not stand among them. A queue is its own line: who is charged
 * stands behind all who were before. */
static bool is_behind(const struct lines *lines, const struct member *member)
{
    return !stands(member) && !member_is_queue(&member->asked)
           && !member_charges_nothing(&member->asked) && line_find(lines, member->asked.id) != NULL;
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

static const struct joining *joining_of(struct member_joining *room, struct member *member,
                                        const struct together *together, uint64_t now_ns)
{
    return member_joining_of(room, &member->asked, &member->waiter, together->deadline_ns, now_ns);
}

static struct outcome ask_one(struct lines *lines, const struct member *member,
                              enum weir_operation operation, uint64_t now_ns)
{
    const struct line *line = line_find(lines, member->asked.id);
    bool is_marked = line != NULL && line->first != NULL;
    return member_ask(lines, &member->asked, operation, is_marked, now_ns);
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
        const struct line *line = line_find(lines, member->asked.id);
        size_t others = line != NULL ? line->count - stands(member) : 0;
        bool has_place = member_is_queue(&member->asked) && !member_is_idle(&member->asked)
                         && line_has_place(lines, line, joining);
        bool may_charge = !member->asked.is_shadow || !is_behind(lines, member);
        requests[i] = room.request;
        requests[i].cost_micro = may_charge ? member->asked.cost_micro : 0;
        requests[i].operation = operation;
        requests[i].and_next = i + 1 < together->count;
        requests[i].shadow = member->asked.is_shadow;
        ids[i] = member->asked.id;
        terms[i] = (struct line_terms){.patience_ns = has_place ? joining->wait_ns : 0,
                                       .stays_if_allowed = others > 0 || has_place,
                                       .stays_if_refused = line != NULL};
    }
    return lines->store->ops->lines->decide_run_in_line(lines->store, requests, ids, terms,
                                                        outcomes, together->count, now_ns);
}

/* ---- standing, and going ---- */

/* Stands in the line of a limit that refuses it. False if that lets it in meanwhile. */
static bool stand(struct lines *lines, struct together *together, struct member *member,
                  uint64_t now_ns)
{
    struct member_joining room;
    const struct joining *joining = joining_of(&room, member, together, now_ns);
    struct line *line = line_find(lines, member->asked.id);
    if (line == NULL) {
        room.request.operation = WEIR_CAN_TAKE;
        struct outcome outcome = line_take(lines, joining, (struct line_terms){0, false, true});
        if (outcome.verdict != WEIR_LIMITED) {
            return false;
        }
        line = line_open(lines, &member->asked.rule, member->asked.id);
    }
    return line_stand(lines, line, joining, UINT64_MAX);
}

/* Stands wherever it is refused. */
static bool stand_where_refused(struct lines *lines, struct together *together,
                                const struct outcome *outcomes, uint64_t now_ns)
{
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        if (member_refuses(&member->asked, outcomes[i]) && !stands(member)
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
        member->asked.verdict = outcomes[i].verdict;
        if (line != NULL) {
            line_unlink(lines, &member->waiter);
            call_next(lines, line, now_ns);
        }
    }
    for (size_t i = 0; i < together->count; i++) {
        struct member *member = &together->members[i];
        struct member_joining room;
        const struct joining *joining = joining_of(&room, member, together, now_ns);
        struct line *line = line_find(lines, member->asked.id);
        if (!member_is_queue(&member->asked) || member_is_idle(&member->asked)) {
            continue;
        }
        if (bucket_delay_ns(&member->asked.rule.limit, &member->asked.charge, outcomes[i], now_ns)
            > 0) {
            member->waiter.turn = lines->turns++; // behind all who were charged before
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
        struct line *line = line_find(lines, member->asked.id);
        if (stands(member)) {
            line->kind->give_back(lines, &member->waiter, now_ns);
        } else if (together->is_charged && member->asked.verdict == WEIR_ALLOWED
                   && !member_is_queue(&member->asked)) {
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

/* It is refused by this limit, which may let others in before: after which time this call would pass. */
static void answer_refused(struct lines *lines, const struct member *member,
                           struct weir_decision *decision, uint64_t now_ns)
{
    const struct weir_limit *limit = &member->asked.rule.limit;
    const struct charge *charge = &member->asked.charge;
    const struct line *line = line_find(lines, member->asked.id);
    struct outcome outcome = ask_one(lines, member, WEIR_SHOW, now_ns);
    uint64_t pass_ns = ns_until(
        line_head_fits_at(lines, limit, member->asked.id, charge, outcome.moment, now_ns), now_ns);
    if (line != NULL && line->first != NULL && !member_charges_nothing(&member->asked)) {
        pass_ns = line->kind->pass_after(lines, line, charge, &outcome, now_ns);
    }
    line_refuse(decision, limit, outcome, pass_ns, now_ns);
}

/* As this limit has it. */
static void write_answer(struct lines *lines, const struct member *member,
                         struct weir_decision *decision, struct outcome outcome, uint64_t now_ns)
{
    if (outcome.verdict == WEIR_LIMITED) {
        answer_refused(lines, member, decision, now_ns);
    } else {
        line_answer(lines, decision, &member->asked.rule.limit, member->asked.id, outcome, now_ns);
    }
}

static void write_answers(struct lines *lines, struct together *together,
                          const struct outcome *outcomes, uint64_t now_ns)
{
    for (size_t i = 0; i < together->count; i++) {
        write_answer(lines, &together->members[i], &together->decisions[i], outcomes[i], now_ns);
    }
}

/* All have let it go that may refuse. */
static void answer_allowed(struct lines *lines, struct together *together, uint64_t now_ns)
{
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        struct outcome outcome = ask_one(lines, member, WEIR_SHOW, now_ns);
        outcome.verdict = member->asked.verdict;
        write_answer(lines, member, &together->decisions[i], outcome, now_ns);
    }
    lines->stats.served_count++;
    finish(together);
}

/* It waits no longer, and was not let in: by those limits in whose lines it stands, or that say so. */
static void send_away(struct lines *lines, struct together *together,
                      const struct outcome *outcomes, uint64_t now_ns)
{
    bool refused[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < together->count; i++) {
        bool is_said = outcomes != NULL && member_refuses(&together->members[i].asked, outcomes[i]);
        refused[i] = is_said || stands(&together->members[i]);
    }
    withdraw(lines, together, now_ns);
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        struct weir_decision *decision = &together->decisions[i];
        if (refused[i]) {
            answer_refused(lines, member, decision, now_ns);
            line_block_refused(lines, &member->asked.rule, member->asked.id, decision, now_ns);
        } else {
            struct outcome outcome =
                ask_one(lines, member, member_asked_at_the_end(&member->asked), now_ns);
            write_answer(lines, member, decision, outcome, now_ns);
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

static bool is_decided(const struct together *together, const struct outcome *outcomes)
{
    bool is_decided = false;
    for (size_t i = 0; i < together->count; i++) {
        is_decided |= member_decides(&together->members[i].asked, outcomes[i]);
    }
    return is_decided;
}

/* A queue is full, or would let it go too late: it refuses at once, for it is its own line. */
static bool is_refused_by_queue(const struct together *together, const struct outcome *outcomes)
{
    bool is_refused = false;
    for (size_t i = 0; i < together->count; i++) {
        is_refused |= member_refuses_at_once(&together->members[i].asked, outcomes[i]);
    }
    return is_refused;
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
        const struct member *member = &together->members[i];
        if (member_is_in_vain(&member->asked, together->deadline_ns, now_ns)
            || (!member->asked.is_shadow && is_behind(lines, member))) {
            operation = WEIR_CAN_TAKE;
        }
    }
    bool fits = ask_all(lines, together, operation, outcomes, now_ns);
    for (size_t i = 0; i < together->count; i++) {
        const struct member *member = &together->members[i];
        if (member_is_in_vain(&member->asked, together->deadline_ns, now_ns)) {
            outcomes[i].verdict = WEIR_NEVER;
        } else if (is_behind(lines, member) && outcomes[i].verdict != WEIR_BLOCKED) {
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
        if (stands(member) && member_refuses(&member->asked, outcomes[i])) {
            uint64_t fits_ns = line_head_fits_at(lines, &member->asked.rule.limit, member->asked.id,
                                                 &member->asked.charge, outcomes[i].moment, now_ns);
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
        is_blocked |=
            !member_is_idle(&member->asked)
            && lines->store->ops->lines->blocked_until_ns(lines->store, member->asked.id) > now_ns;
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
    write_answers(lines, together, outcomes, now_ns);
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
            write_answers(lines, together, outcomes, now_ns);
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
        const struct weir_limit *limit = &member->asked.rule.limit;
        struct member_joining room;
        const struct joining *joining = joining_of(&room, member, together, now_ns);
        if (!member_refuses(&member->asked, outcomes[i])) {
            write_answer(lines, member, decision, outcomes[i], now_ns);
            continue;
        }
        const struct line *line = line_find(lines, member->asked.id);
        struct shortage shortage = line_kind_of(limit)->shortage(lines, line, joining, outcomes[i]);
        uint64_t late_ns = ns_until(shortage.needed_ns, joining->wait_ns);
        is_late |= late_ns > 0;
        is_full |= shortage.place_ns > 0 || member_is_queue(&member->asked);
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
            write_answers(lines, together, outcomes, now_ns);
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

/* A line keeps the numbers that it was opened with, and is brought up to date first. */
static void meet_line(struct lines *lines, struct member *member, uint64_t now_ns)
{
    struct line *line = line_find(lines, member->asked.id);
    if (line != NULL) {
        line_serve(lines, line, now_ns); // whoever is due goes first
        line = line_find(lines, member->asked.id);
    }
    if (line != NULL) {
        member_take_numbers(&member->asked, &line->rule);
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
        together->members[i] = (struct member){
            .waiter = {.ops = &OPS,
                       .together = together,
                       .turn = owner->turn,
                       .cost_micro = requests[i].cost_micro},
            .asked = member_of(lines, &requests[i]),
            .due_ns = UINT64_MAX,
        };
    }
    return together;
}

bool together_join(struct lines *lines, struct waiter *owner, const struct weir_request *requests,
                   size_t count, uint64_t wait_ns, uint64_t now_ns, struct weir_decision *decisions)
{
    struct together *together = make(lines, owner, requests, count, now_ns + wait_ns);
    if (together == NULL) {
        lines_answer_failed(requests, count, decisions);
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
