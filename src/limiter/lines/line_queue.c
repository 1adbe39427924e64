/* SPDX-License-Identifier: MIT
 *
 * A queue: the bucket itself is the line. Everybody is charged when he joins, and goes at his egress, one
 * after the other; `start`, the gaps and the costs say when. */
#include "limiter/lines/line.h"

static const struct span NOTHING = {0, 0};

/* When the first one goes, exactly. */
static struct span egress_of_first(const struct line *line)
{
    const struct weir_limit *limit = limit_of(line);
    const struct waiter *first = line->first;
    struct span begin = span_add(line->start, first->gap, limit->denominator);
    return queue_egress(limit, first->span, span_add(begin, first->span, limit->denominator));
}

/* Moves the bucket's moment, and what the line remembers of it. */
static void move_queue(struct lines *lines, struct line *line, struct span earlier,
                       struct span later, uint64_t now_ns)
{
    uint64_t denominator = limit_of(line)->denominator;
    struct line_move move = {earlier, later, line->first != NULL};
    line->tail = span_sub_or_zero(span_add(line->tail, later, denominator), earlier, denominator);
    lines->store->ops->lines->move_line(lines->store, limit_of(line), line->id, &move, now_ns);
}

/* The first one goes now, and is late: from here on the whole line is. */
static void postpone(struct lines *lines, struct line *line, uint64_t now_ns)
{
    struct span now = {now_ns, 0};
    struct span late = span_sub(now, egress_of_first(line), limit_of(line)->denominator);
    line->start = span_add(line->start, late, limit_of(line)->denominator);
    move_queue(lines, line, NOTHING, late, now_ns);
}

/* Takes the first one out; the next one's own time begins where his ends. */
static struct waiter *pop_first(struct lines *lines, struct line *line)
{
    uint64_t denominator = limit_of(line)->denominator;
    struct waiter *first = line->first;
    line->start = span_add(line->start, first->gap, denominator);
    line->start = span_add(line->start, first->span, denominator);
    line_unlink(lines, first);
    return first;
}

/* Those behind move up by his cost; the next one goes now at the earliest. */
static void leave_queue(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    struct line *line = waiter->line;
    uint64_t denominator = limit_of(line)->denominator;
    struct span later = NOTHING;
    bool was_first = line->first == waiter;
    if (waiter->next != NULL) { // what was filled in before him stays, before the next one
        waiter->next->gap = span_add(waiter->next->gap, waiter->gap, denominator);
    } else {
        line->tail = span_sub(line->tail, waiter->gap, denominator);
    }
    line_unlink(lines, waiter);
    if (was_first && line->first != NULL) {
        struct span egress = egress_of_first(line);
        later = span_sub_or_zero((struct span){now_ns, 0}, egress, denominator);
        line->start = span_add(line->start, later, denominator);
    }
    move_queue(lines, line, waiter->span, later, now_ns);
}

/* What nobody's place is: what was filled in behind the last one, between two, and before the first one,
 * whose own time begins now at the earliest, and not before the one who went last. As without a line, the
 * end of what is charged comes back first; each place behind moves up by what was before it. */
static struct span give_back_beside(struct lines *lines, struct line *line, struct span most,
                                    uint64_t now_ns)
{
    uint64_t denominator = limit_of(line)->denominator;
    struct waiter *first = line->first;
    struct span earliest = {now_ns > line->gone_ns ? now_ns : line->gone_ns, 0};
    struct span left = most;
    struct span moment = line_look(lines, line, now_ns).moment;
    (void)span_give_back(span_sub_or_zero(moment, line->tail, denominator), &left, denominator);
    struct span left_behind = left;
    for (struct waiter *waiter = line->last; waiter != first; waiter = waiter->previous) {
        waiter->gap = span_give_back(waiter->gap, &left, denominator);
    }
    line->start = span_add(line->start, first->gap, denominator);
    first->gap = NOTHING;
    struct span before = span_sub_or_zero(line->start, earliest, denominator);
    struct span stays = span_give_back(before, &left, denominator);
    line->start = span_sub(line->start, span_sub(before, stays, denominator), denominator);
    line->tail = span_sub(line->tail, span_sub(left_behind, left, denominator), denominator);
    struct line_move move = {span_sub(most, left, denominator), NOTHING, true};
    lines->store->ops->lines->move_line(lines->store, limit_of(line), line->id, &move, now_ns);
    return move.earlier;
}

static void serve_queue(struct lines *lines, struct line *line, uint64_t now_ns)
{
    while (line->first != NULL) {
        uint64_t due_ns = span_ceil_ns(egress_of_first(line));
        struct waiter *first = line->first;
        struct weir_decision decision;
        if (due_ns > now_ns) {
            uint64_t deadline_ns = first->deadline_ns;
            first->ops->schedule(first, due_ns < deadline_ns ? due_ns : deadline_ns);
            return;
        }
        if (now_ns - due_ns > WEIR_JITTER_NS) {
            postpone(lines, line, now_ns);
        }
        line->gone_ns = span_ceil_ns(egress_of_first(line));
        (void)pop_first(lines, line);
        struct line_terms terms = {0, line->first != NULL, true};
        struct outcome outcome = line_decide(lines, line, WEIR_SHOW, 0, terms, now_ns);
        kind_answer(&decision, limit_of(line), outcome, now_ns);
        lines->stats.served_count += first->together == NULL;
        first->ops->answer(first, &decision);
    }
}

/* A take that does not wait goes when the last one has gone, and there is room for it. */
static uint64_t pass_queue(struct lines *lines, const struct line *line,
                           const struct charge *charge, struct outcome *outcome, uint64_t now_ns)
{
    const struct weir_limit *limit = limit_of(line);
    *outcome = line_look(lines, line, now_ns);
    uint64_t pass_ns = kind_fits_at(limit, outcome->moment, charge, now_ns);
    if (line->last != NULL) {
        uint64_t gone_ns = span_ceil_ns(queue_egress(limit, line->last->span, line->tail));
        pass_ns = pass_ns > gone_ns ? pass_ns : gone_ns;
    }
    return ns_until(pass_ns, now_ns);
}

bool line_is_in_vain(const struct joining *joining)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    struct span own = queue_egress(limit, joining->charge.span, joining->charge.span);
    return span_ceil_ns(own) > (joining->waiting > 0 ? joining->wait_ns : 0);
}

static bool answer_never(struct lines *lines, const struct joining *joining, bool is_marked)
{
    struct weir_request question = *joining->request;
    struct line_terms terms = {0, is_marked, is_marked};
    question.operation = WEIR_SHOW;
    struct outcome outcome = lines->store->ops->lines->decide_in_line(
        lines->store, &question, joining->id, &terms, joining->now_ns);
    outcome.verdict = WEIR_NEVER;
    return line_say(lines, joining, outcome);
}

/* It is full, or he would go too late, or has no place to wait in. */
static struct shortage shortage_of_queue(struct lines *lines, const struct line *line,
                                         const struct joining *joining, struct outcome outcome)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    struct span begin = bucket_start(outcome.moment, joining->now_ns);
    struct span after = span_add(begin, joining->charge.span, limit->denominator);
    struct span egress = queue_egress(limit, joining->charge.span, after);
    uint64_t fits_ns = ns_until(fits_at(limit, after), joining->now_ns);
    uint64_t needed_ns = ns_until(span_ceil_ns(egress), joining->now_ns);
    if (line_has_place(lines, line, joining)) {
        return (struct shortage){needed_ns, fits_ns};
    }
    uint64_t place_ns = needed_ns;
    if (line != NULL) {
        uint64_t first_ns = span_ceil_ns(egress_of_first(line));
        place_ns = line_place_after(line, joining, first_ns, needed_ns);
    }
    return (struct shortage){needed_ns, fits_ns > place_ns ? fits_ns : place_ns};
}

bool line_stand_in_queue(struct lines *lines, struct line *line, const struct joining *joining,
                         struct outcome outcome)
{
    const struct weir_rule *rule = joining->request->rule;
    uint64_t denominator = rule->limit.denominator;
    uint64_t delay_ns = bucket_delay_ns(&rule->limit, &joining->charge, outcome, joining->now_ns);
    struct span begin = span_sub(outcome.moment, joining->charge.span, denominator);
    if (line == NULL) {
        line = line_open(lines, rule, joining->id);
        line->start = line->tail = begin;
    }
    joining->waiter->gap = span_sub_or_zero(begin, line->tail, denominator);
    line->tail = outcome.moment;
    return line_stand(lines, line, joining, joining->now_ns + delay_ns);
}

/* A queue charges at once. Refused is who finds it full, or would go too late; or who finds no place to
 * wait, and cannot go now. `line` is NULL where nobody waits. */
static bool join_queue(struct lines *lines, struct line *line, const struct joining *joining)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    if (line_is_in_vain(joining)) {
        return answer_never(lines, joining, line != NULL);
    }
    bool has_place = line_has_place(lines, line, joining);
    uint64_t patience_ns = has_place ? joining->wait_ns : 0;
    struct line_terms terms = {patience_ns, line != NULL || has_place, line != NULL};
    struct outcome outcome = line_take(lines, joining, terms);
    if (outcome.verdict == WEIR_LIMITED) {
        return line_turn_away(lines, joining, outcome,
                              shortage_of_queue(lines, line, joining, outcome));
    }
    if (outcome.verdict == WEIR_ALLOWED
        && bucket_delay_ns(limit, &joining->charge, outcome, joining->now_ns) > 0) {
        return line_stand_in_queue(lines, line, joining, outcome);
    }
    if (outcome.verdict == WEIR_ALLOWED && line == NULL && has_place) {
        line_unmark(lines, joining);
    }
    return line_say(lines, joining, outcome);
}

const struct line_kind LINE_OF_QUEUE = {
    .join = join_queue,
    .serve = serve_queue,
    .give_back = leave_queue,
    .pass_after = pass_queue,
    .shortage = shortage_of_queue,
    .give_back_beside = give_back_beside,
};
