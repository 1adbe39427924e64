/* SPDX-License-Identifier: MIT
 *
 * The line of a bucket, and of every kind that is not a queue: nobody is charged before his turn. The head
 * takes as soon as its cost fits, and so does the next; the others only have to know whether that will be
 * in time. */
#include "limiter/lines/line.h"
#include "sync/atomic.h"

/* The moment after a take that was made as soon as it fitted. That is at a reading, a whole nanosecond; if
 * the bucket was empty by then, its time counts from there. */
static struct span after_serving(const struct weir_limit *limit, struct span moment,
                                 struct span span)
{
    uint64_t due_ns = fits_at(limit, span_add(moment, span, limit->denominator));
    return span_add(bucket_start(moment, due_ns), span, limit->denominator);
}

/* The moment when all who stand in line are served: the sum of what they add, but for the parts of a
 * nanosecond that are lost where a cost is all of the bucket. Only a line in which some costs are so and
 * some are not has to be walked through. */
static struct span after_all(const struct line *line, struct span moment)
{
    const struct weir_limit *limit = limit_of(line);
    struct span full = limit_full(limit);
    if (line->tight_count == 0) {
        return span_add(moment, line->ahead, limit->denominator);
    }
    if (line->whole_count == line->count) {
        uint64_t last_ns = span_ceil_ns(moment) + (line->count - 1) * span_ceil_ns(full);
        return span_add((struct span){last_ns, 0}, full, limit->denominator);
    }
    for (const struct waiter *waiter = line->first; waiter != NULL; waiter = waiter->next) {
        moment = after_serving(limit, moment, waiter->span);
    }
    return moment;
}

/* When a charge fits behind all who are there, each of whom goes as soon as he fits. What a bucket drains
 * meanwhile is known by its span; a line of any other kind is walked through. */
static uint64_t fits_behind_at(struct lines *lines, const struct line *line,
                               const struct charge *charge, struct span moment, uint64_t now_ns)
{
    const struct weir_limit *limit = limit_of(line);
    if (kind_has_log(limit)) {
        return line_window_fits_at(lines, limit, line->id, line->first, charge, now_ns);
    }
    uint64_t utc_offset_ns =
        lines->store->ops->lines->utc_offset_ns(lines->store); // it may change until then
    if (limit->kind == WEIR_KIND_BUCKET) {
        struct span behind = after_all(line, moment);
        return fits_at(limit, span_add(behind, charge->span, limit->denominator));
    }
    for (const struct waiter *waiter = line->first; waiter != NULL; waiter = waiter->next) {
        struct charge before = charge_of(limit, waiter->cost_micro);
        before.utc_offset_ns = (int64_t)utc_offset_ns;
        struct weir_bucket then = bucket_with_moment((struct weir_bucket){0, 0}, moment);
        now_ns = kind_fits_at(limit, moment, &before, now_ns);
        moment = kind_take(then, limit, &before, now_ns).moment;
    }
    return kind_fits_at(limit, moment, charge, now_ns);
}

/* How long a take of this cost would have to wait behind all who are there. */
static uint64_t wait_behind(struct lines *lines, const struct line *line,
                            const struct charge *charge, struct outcome *outcome, uint64_t now_ns)
{
    *outcome = line_look(lines, line, now_ns);
    return ns_until(fits_behind_at(lines, line, charge, outcome->moment, now_ns), now_ns);
}

static struct shortage shortage_of_bucket(struct lines *lines, const struct line *line,
                                          const struct joining *joining, struct outcome outcome)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    uint64_t now_ns = joining->now_ns;
    const struct charge *charge = &joining->charge;
    uint64_t turn_ns =
        line != NULL ? fits_behind_at(lines, line, charge, outcome.moment, now_ns)
                     : line_head_fits_at(lines, limit, joining->id, charge, outcome.moment, now_ns);
    uint64_t needed_ns = ns_until(turn_ns, now_ns);
    if (line_has_place(lines, line, joining)) {
        return (struct shortage){needed_ns, 0};
    }
    if (line == NULL) {
        return (struct shortage){needed_ns, needed_ns};
    }
    struct charge head = charge_of(limit, line->first->cost_micro);
    uint64_t free_at_ns = line_head_fits_at(lines, limit, line->id, &head, outcome.moment, now_ns);
    return (struct shortage){needed_ns, line_place_after(line, joining, free_at_ns, needed_ns)};
}

static void leave_bucket(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    struct line *line = waiter->line;
    line_unlink(lines, waiter);
    if (line->first == NULL) {
        line_decide(lines, line, WEIR_SHOW, 0, (struct line_terms){0, false, false}, now_ns);
    }
}

/* The head takes as soon as it fits, and so does the next. */
static void serve_bucket(struct lines *lines, struct line *line, uint64_t now_ns)
{
    const struct weir_limit *limit = limit_of(line);
    while (line->first != NULL) {
        struct waiter *head = line->first;
        if (head->together != NULL) {
            if (!together_serve(lines, head->together, now_ns)) {
                return;
            }
            continue;
        }
        struct line_terms terms = {0, line->count > 1, true};
        struct outcome outcome =
            line_decide(lines, line, WEIR_TAKE, head->cost_micro, terms, now_ns);
        if (outcome.verdict == WEIR_ALLOWED) {
            struct weir_decision decision;
            kind_answer(&decision, limit, outcome, now_ns);
            lines->stats.served_count++;
            line_unlink(lines, head);
            head->ops->answer(head, &decision);
        } else if (outcome.verdict != WEIR_LIMITED) {
            line_turn_out(lines, head, outcome, now_ns);
        } else if (now_ns >= head->deadline_ns) {
            line_send_away(lines, head, now_ns);
        } else {
            struct charge charge = charge_of(limit, head->cost_micro);
            uint64_t due_ns =
                line_head_fits_at(lines, limit, line->id, &charge, outcome.moment, now_ns);
            head->ops->schedule(head, due_ns < head->deadline_ns ? due_ns : head->deadline_ns);
            return;
        }
    }
}

/* Nobody waits for this bucket: it takes, or becomes the head. */
static bool join_bucket_alone(struct lines *lines, const struct joining *joining)
{
    bool has_place = line_has_place(lines, NULL, joining);
    struct outcome outcome = line_take(lines, joining, (struct line_terms){0, false, has_place});
    if (outcome.verdict != WEIR_LIMITED) {
        return line_say(lines, joining, outcome);
    }
    struct shortage shortage = shortage_of_bucket(lines, NULL, joining, outcome);
    if (!has_place || shortage.needed_ns > joining->wait_ns) {
        if (has_place) {
            line_unmark(lines, joining);
        }
        return line_turn_away(lines, joining, outcome, shortage);
    }
    return line_stand(lines, line_open(lines, joining->request->rule, joining->id), joining,
                      joining->now_ns + shortage.needed_ns);
}

static bool join_bucket_behind(struct lines *lines, struct line *line,
                               const struct joining *joining)
{
    struct outcome outcome = line_look(lines, line, joining->now_ns);
    struct shortage shortage = shortage_of_bucket(lines, line, joining, outcome);
    if (!line_has_place(lines, line, joining) || shortage.needed_ns > joining->wait_ns) {
        return line_turn_away(lines, joining, outcome, shortage);
    }
    return line_stand(lines, line, joining, UINT64_MAX);
}

static bool join_bucket(struct lines *lines, struct line *line, const struct joining *joining)
{
    return line != NULL ? join_bucket_behind(lines, line, joining)
                        : join_bucket_alone(lines, joining);
}

const struct line_kind LINE_OF_BUCKET = {
    .join = join_bucket,
    .serve = serve_bucket,
    .give_back = leave_bucket,
    .pass_after = wait_behind,
    .shortage = shortage_of_bucket,
    .give_back_beside = NULL,
};
