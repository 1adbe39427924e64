/* SPDX-License-Identifier: MIT */
#include "limiter/lines.h"

#include <assert.h>
#include <stdlib.h>

#include "core/kinds.h"
#include "sync/mutex.h"

enum { BIN_COUNT_MIN = 64 }; // a power of two

/* All who wait for one bucket.
 *   ahead        what they all add to the moment, for a bucket: nobody of them is charged yet
 *   whole_count  how many of them ask for all of the bucket
 *   tight_count  and how many for so much that it is empty, within a nanosecond, when they fit
 *   start        in a queue, the moment at which the first one's own time begins: for all are charged
 *   tail         and the moment at which the last one's ends */
struct line {
    struct line *next_in_bin;
    uint64_t id;
    struct weir_rule rule;
    struct waiter *first, *last;
    size_t count, whole_count, tight_count;
    struct span ahead;
    struct span start, tail;
};

/* Who waits, and alone, needs no more memory than this; a server has its own part beside it. */
_Static_assert(sizeof(struct waiter) + sizeof(struct line) <= 336, "a place in line is small");

struct lines {
    struct line_keeper keeper; // first: the store hands it back
    struct mutex mutex;        // of everything below, and of every waiter
    struct store *store;
    struct line **bins; // by id
    size_t bin_count;
    struct line *spare; // so that nobody allocates who does not wait in the end
    uint64_t waiting_max;
    struct lines_stats stats;
};

/* ---- finding a line ---- */

static struct line **bin_of(const struct lines *lines, uint64_t id)
{
    return &lines->bins[(id >> 32) & (lines->bin_count - 1)]; // bits of a keyed hash
}

static struct line *find_line(const struct lines *lines, uint64_t id)
{
    struct line *line = *bin_of(lines, id);
    while (line != NULL && line->id != id) {
        line = line->next_in_bin;
    }
    return line;
}

static void put_in_bin(struct lines *lines, struct line *line)
{
    struct line **bin = bin_of(lines, line->id);
    line->next_in_bin = *bin;
    *bin = line;
}

/* Doubles the bins. Without memory the chains just become longer. */
static void grow_bins(struct lines *lines)
{
    struct line **old = lines->bins;
    size_t old_count = lines->bin_count;
    struct line **bins = calloc(2 * old_count, sizeof(struct line *));
    if (bins == NULL) {
        return;
    }
    lines->bins = bins;
    lines->bin_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct line *line = old[i];
            old[i] = line->next_in_bin;
            put_in_bin(lines, line);
        }
    }
    free(old);
}

/* Sees to it that a line can be opened. */
static bool has_spare(struct lines *lines)
{
    if (lines->spare == NULL) {
        lines->spare = malloc(sizeof *lines->spare);
    }
    return lines->spare != NULL;
}

static struct line *open_line(struct lines *lines, const struct weir_rule *rule, uint64_t id)
{
    struct line *line = lines->spare;
    assert(line != NULL);
    lines->spare = NULL;
    *line = (struct line){.id = id, .rule = *rule};
    put_in_bin(lines, line);
    if (++lines->stats.line_count > lines->bin_count) {
        grow_bins(lines);
    }
    return line;
}

static void close_line(struct lines *lines, struct line *line)
{
    assert(line->first == NULL && line->count == 0);
    struct line **at = bin_of(lines, line->id);
    while (*at != line) {
        at = &(*at)->next_in_bin;
    }
    *at = line->next_in_bin;
    lines->stats.line_count--;
    if (lines->spare == NULL) {
        lines->spare = line;
    } else {
        free(line);
    }
}

/* ---- standing in it ---- */

static const struct weir_limit *limit_of(const struct line *line)
{
    return &line->rule.limit;
}

/* How much is still in the bucket, as time, when such a cost fits into it. */
static struct span rest_beside(const struct line *line, struct span span)
{
    return span_sub_or_zero(limit_full(limit_of(line)), span, limit_of(line)->denominator);
}

static bool is_whole(const struct line *line, struct span span)
{
    struct span rest = rest_beside(line, span);
    return (rest.ns | rest.rest) == 0;
}

/* Where moments are whole nanoseconds, nobody is late by a part of one. */
static bool is_tight(const struct line *line, struct span span)
{
    return limit_of(line)->denominator > 1 && rest_beside(line, span).ns == 0;
}

static void append(struct lines *lines, struct line *line, struct waiter *waiter)
{
    waiter->line = line;
    waiter->next = NULL;
    waiter->previous = line->last;
    *(line->last != NULL ? &line->last->next : &line->first) = waiter;
    line->last = waiter;
    line->count++;
    line->whole_count += is_whole(line, waiter->span);
    line->tight_count += is_tight(line, waiter->span);
    line->ahead = span_add(line->ahead, waiter->span, limit_of(line)->denominator);
    lines->stats.waiting_count++;
    lines->stats.joined_count++;
}

static void unlink_waiter(struct lines *lines, struct waiter *waiter)
{
    struct line *line = waiter->line;
    *(waiter->previous != NULL ? &waiter->previous->next : &line->first) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &line->last) = waiter->previous;
    line->count--;
    line->whole_count -= is_whole(line, waiter->span);
    line->tight_count -= is_tight(line, waiter->span);
    line->ahead = span_sub(line->ahead, waiter->span, limit_of(line)->denominator);
    lines->stats.waiting_count--;
    waiter->line = NULL;
}

static struct outcome decide_in_line(struct lines *lines, const struct line *line,
                                     enum weir_operation operation, uint64_t cost_micro,
                                     struct line_terms terms, uint64_t now_ns)
{
    struct weir_request request = {
        .rule = &line->rule, .cost_micro = cost_micro, .operation = operation};
    return lines->store->ops->decide_in_line(lines->store, &request, line->id, &terms, now_ns);
}

/* Where the bucket stands; it stays marked while somebody waits. */
static struct outcome look_at(struct lines *lines, const struct line *line, uint64_t now_ns)
{
    bool stays = line->first != NULL;
    return decide_in_line(lines, line, WEIR_SHOW, 0, (struct line_terms){0, stays, stays}, now_ns);
}

static const struct span NOTHING = {0, 0};

static uint64_t ns_until(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns > now_ns ? then_ns - now_ns : 0;
}

/* The earliest reading at which `after`, the moment that a take would lead to, is within the capacity. */
static uint64_t fits_at(const struct weir_limit *limit, struct span after)
{
    return span_ceil_ns(span_sub_or_zero(after, limit_full(limit), limit->denominator));
}

static void refuse(struct weir_decision *decision, const struct weir_limit *limit,
                   struct outcome outcome, uint64_t retry_after_ns, uint64_t now_ns)
{
    outcome.verdict = WEIR_LIMITED;
    kind_answer(decision, limit, outcome, now_ns);
    decision->retry_after_ns = (int64_t)(retry_after_ns > 0 ? retry_after_ns : 1);
}

/* ---- a bucket's line: nobody is charged before his turn ---- */

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
static uint64_t fits_behind_at(const struct line *line, const struct charge *charge,
                               struct span moment, uint64_t now_ns)
{
    const struct weir_limit *limit = limit_of(line);
    if (limit->kind == WEIR_KIND_BUCKET) {
        struct span behind = after_all(line, moment);
        return fits_at(limit, span_add(behind, charge->span, limit->denominator));
    }
    for (const struct waiter *waiter = line->first; waiter != NULL; waiter = waiter->next) {
        struct charge before = charge_of(limit, waiter->cost_micro);
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
    *outcome = look_at(lines, line, now_ns);
    return ns_until(fits_behind_at(line, charge, outcome->moment, now_ns), now_ns);
}

static void leave_bucket(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    struct line *line = waiter->line;
    unlink_waiter(lines, waiter);
    if (line->first == NULL) {
        decide_in_line(lines, line, WEIR_SHOW, 0, (struct line_terms){0, false, false}, now_ns);
    }
}

/* ---- a queue: everybody is charged, and goes at his egress ---- */

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
    lines->store->ops->move_line(lines->store, limit_of(line), line->id, &move, now_ns);
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
    unlink_waiter(lines, first);
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
    unlink_waiter(lines, waiter);
    if (was_first && line->first != NULL) {
        struct span egress = egress_of_first(line);
        later = span_sub_or_zero((struct span){now_ns, 0}, egress, denominator);
        line->start = span_add(line->start, later, denominator);
    }
    move_queue(lines, line, waiter->span, later, now_ns);
}

/* ---- either kind ---- */

static bool is_queue(const struct line *line)
{
    return limit_of(line)->kind == WEIR_KIND_QUEUE;
}

/* Those behind move up. The line may be empty now, and is still open. */
static void give_back(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    (is_queue(waiter->line) ? leave_queue : leave_bucket)(lines, waiter, now_ns);
}

/* After which time a take that does not wait would pass: behind all who are there. */
static uint64_t pass_after(struct lines *lines, const struct line *line,
                           const struct charge *charge, struct outcome *outcome, uint64_t now_ns)
{
    const struct weir_limit *limit = limit_of(line);
    if (!is_queue(line)) {
        return wait_behind(lines, line, charge, outcome, now_ns);
    }
    *outcome = look_at(lines, line, now_ns);
    uint64_t pass_ns = kind_fits_at(limit, outcome->moment, charge, now_ns);
    if (line->last != NULL) {
        uint64_t gone_ns = span_ceil_ns(queue_egress(limit, line->last->span, line->tail));
        pass_ns = pass_ns > gone_ns ? pass_ns : gone_ns;
    }
    return ns_until(pass_ns, now_ns);
}

/* Its deadline is here. To come again would be to come behind those who stay. */
static void send_away(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    struct line *line = waiter->line;
    struct weir_decision decision;
    struct outcome outcome;
    give_back(lines, waiter, now_ns);
    struct charge charge = charge_of(limit_of(line), waiter->cost_micro);
    uint64_t pass_ns = pass_after(lines, line, &charge, &outcome, now_ns);
    refuse(&decision, limit_of(line), outcome, pass_ns, now_ns);
    lines->stats.expired_count++;
    waiter->ops->answer(waiter, &decision);
}

/* ---- serving ---- */

/* The head takes as soon as it fits, and so does the next. */
static void serve_bucket(struct lines *lines, struct line *line, uint64_t now_ns)
{
    const struct weir_limit *limit = limit_of(line);
    while (line->first != NULL) {
        struct waiter *head = line->first;
        struct line_terms terms = {0, line->count > 1, true};
        struct outcome outcome =
            decide_in_line(lines, line, WEIR_TAKE, head->cost_micro, terms, now_ns);
        if (outcome.verdict == WEIR_ALLOWED) {
            struct weir_decision decision;
            kind_answer(&decision, limit, outcome, now_ns);
            lines->stats.served_count++;
            unlink_waiter(lines, head);
            head->ops->answer(head, &decision);
        } else if (now_ns >= head->deadline_ns) {
            send_away(lines, head, now_ns);
        } else {
            struct charge charge = charge_of(limit, head->cost_micro);
            uint64_t due_ns = kind_fits_at(limit, outcome.moment, &charge, now_ns);
            head->ops->schedule(head, due_ns < head->deadline_ns ? due_ns : head->deadline_ns);
            return;
        }
    }
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
        (void)pop_first(lines, line);
        struct line_terms terms = {0, line->first != NULL, true};
        struct outcome outcome = decide_in_line(lines, line, WEIR_SHOW, 0, terms, now_ns);
        kind_answer(&decision, limit_of(line), outcome, now_ns);
        lines->stats.served_count++;
        first->ops->answer(first, &decision);
    }
}

/* Serves all whose time has come, then says when to look again. Closes a line that is empty. */
static void serve(struct lines *lines, struct line *line, uint64_t now_ns)
{
    (is_queue(line) ? serve_queue : serve_bucket)(lines, line, now_ns);
    if (line->first == NULL) {
        close_line(lines, line);
    }
}

void lines_call(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    if (waiter->line != NULL) { // it is not answered meanwhile
        serve(lines, waiter->line, now_ns);
    }
    if (waiter->line != NULL && now_ns >= waiter->deadline_ns) {
        struct line *line = waiter->line;
        send_away(lines, waiter, now_ns);
        serve(lines, line, now_ns); // those behind may go now
    }
}

/* ---- joining ---- */

/* What joining is about. */
struct joining {
    struct waiter *waiter;
    const struct weir_request *request;
    uint64_t id;
    struct charge charge;
    uint32_t waiting; // how many may wait, as this request has it
    uint64_t wait_ns, now_ns;
    struct weir_decision *decision;
};

/* Refuses, for this wait is not enough, or there is no place for another one. */
static bool turn_away(struct lines *lines, const struct joining *joining, struct outcome outcome,
                      uint64_t needed_ns, uint64_t place_after_ns)
{
    uint64_t late_ns = ns_until(needed_ns, joining->wait_ns);
    uint64_t retry_ns = late_ns > place_after_ns ? late_ns : place_after_ns;
    refuse(joining->decision, &joining->request->rule->limit, outcome, retry_ns, joining->now_ns);
    lines->stats.late_count += late_ns > 0;
    lines->stats.full_count += late_ns == 0;
    return false;
}

static bool stand(struct lines *lines, struct line *line, const struct joining *joining,
                  uint64_t due_ns)
{
    struct waiter *waiter = joining->waiter;
    waiter->cost_micro = joining->request->cost_micro;
    waiter->span = joining->charge.span;
    waiter->deadline_ns = joining->now_ns + joining->wait_ns;
    append(lines, line, waiter);
    /* Only the head goes by its own time; whoever is behind it is looked at when it comes to the front. */
    bool is_head = line->first == waiter;
    waiter->ops->schedule(waiter,
                          is_head && due_ns < waiter->deadline_ns ? due_ns : waiter->deadline_ns);
    return true;
}

static bool is_full(const struct lines *lines, const struct line *line,
                    const struct joining *joining)
{
    size_t count = line != NULL ? line->count : 0;
    return lines->stats.waiting_count >= lines->waiting_max || count >= joining->waiting;
}

/* When there is a place in a full line: as soon as the first one is served. More may stand there than
 * this request lets: then not before its own turn, which for none at all is exact, and otherwise enough. */
static uint64_t place_after(const struct line *line, const struct joining *joining,
                            uint64_t first_ns, uint64_t needed_ns)
{
    return line->count > joining->waiting ? needed_ns : ns_until(first_ns, joining->now_ns);
}

static bool say(const struct joining *joining, struct outcome outcome)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    if (outcome.verdict == WEIR_FAILED && limit->on_full == WEIR_ON_FULL_ALLOW) {
        outcome.verdict = WEIR_ALLOWED; // uncharged; no line forms where there is no bucket
    }
    if (outcome.verdict == WEIR_FAILED) {
        bucket_answer_failed(joining->decision, limit);
    } else {
        kind_answer(joining->decision, limit, outcome, joining->now_ns);
    }
    return false;
}

static struct outcome take_in_line(struct lines *lines, const struct joining *joining,
                                   struct line_terms terms)
{
    return lines->store->ops->decide_in_line(lines->store, joining->request, joining->id, &terms,
                                             joining->now_ns);
}

static void unmark(struct lines *lines, const struct joining *joining)
{
    struct line_move nowhere = {NOTHING, NOTHING, false};
    lines->store->ops->move_line(lines->store, &joining->request->rule->limit, joining->id,
                                 &nowhere, joining->now_ns);
}

/* Nobody waits for this bucket: it takes, or becomes the head. */
static bool join_bucket_alone(struct lines *lines, const struct joining *joining)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    bool has_place = !is_full(lines, NULL, joining) && has_spare(lines);
    struct outcome outcome = take_in_line(lines, joining, (struct line_terms){0, false, has_place});
    if (outcome.verdict != WEIR_LIMITED) {
        return say(joining, outcome);
    }
    uint64_t due_ns = kind_fits_at(limit, outcome.moment, &joining->charge, joining->now_ns);
    uint64_t needed_ns = ns_until(due_ns, joining->now_ns);
    if (!has_place) {
        return turn_away(lines, joining, outcome, needed_ns, needed_ns);
    }
    if (needed_ns > joining->wait_ns) {
        unmark(lines, joining);
        return turn_away(lines, joining, outcome, needed_ns, 0);
    }
    return stand(lines, open_line(lines, joining->request->rule, joining->id), joining, due_ns);
}

static bool join_bucket_behind(struct lines *lines, struct line *line,
                               const struct joining *joining)
{
    const struct weir_limit *limit = limit_of(line);
    struct outcome outcome;
    uint64_t needed_ns = wait_behind(lines, line, &joining->charge, &outcome, joining->now_ns);
    if (is_full(lines, line, joining)) {
        struct charge head = charge_of(limit, line->first->cost_micro);
        uint64_t free_at_ns = kind_fits_at(limit, outcome.moment, &head, joining->now_ns);
        uint64_t place_ns = place_after(line, joining, free_at_ns, needed_ns);
        return turn_away(lines, joining, outcome, needed_ns, place_ns);
    }
    if (needed_ns > joining->wait_ns) {
        return turn_away(lines, joining, outcome, needed_ns, 0);
    }
    return stand(lines, line, joining, UINT64_MAX);
}

/* True if not even an empty queue would let it go in time: no later try can end otherwise. */
static bool is_in_vain(const struct joining *joining)
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
    struct outcome outcome = lines->store->ops->decide_in_line(lines->store, &question, joining->id,
                                                               &terms, joining->now_ns);
    outcome.verdict = WEIR_NEVER;
    return say(joining, outcome);
}

/* A queue charges at once. Refused is who finds it full, or would go too late; or who finds no place to
 * wait, and cannot go now. `line` is NULL where nobody waits. */
static bool join_queue(struct lines *lines, struct line *line, const struct joining *joining)
{
    const struct weir_limit *limit = &joining->request->rule->limit;
    uint64_t denominator = limit->denominator;
    if (is_in_vain(joining)) {
        return answer_never(lines, joining, line != NULL);
    }
    bool has_place = !is_full(lines, line, joining) && (line != NULL || has_spare(lines));
    uint64_t patience_ns = has_place ? joining->wait_ns : 0;
    struct line_terms terms = {patience_ns, line != NULL || has_place, line != NULL};
    struct outcome outcome = take_in_line(lines, joining, terms);
    if (outcome.verdict == WEIR_LIMITED) {
        struct span begin = bucket_start(outcome.moment, joining->now_ns);
        struct span after = span_add(begin, joining->charge.span, denominator);
        uint64_t fits_ns = ns_until(fits_at(limit, after), joining->now_ns);
        struct span egress = queue_egress(limit, joining->charge.span, after);
        uint64_t needed_ns = ns_until(span_ceil_ns(egress), joining->now_ns);
        uint64_t place_ns = has_place ? 0 : needed_ns;
        if (!has_place && line != NULL) {
            uint64_t first_ns = span_ceil_ns(egress_of_first(line));
            place_ns = place_after(line, joining, first_ns, needed_ns);
        }
        return turn_away(lines, joining, outcome, needed_ns,
                         fits_ns > place_ns ? fits_ns : place_ns);
    }
    uint64_t delay_ns = bucket_delay_ns(limit, &joining->charge, outcome, joining->now_ns);
    if (outcome.verdict != WEIR_ALLOWED || delay_ns == 0) {
        if (outcome.verdict == WEIR_ALLOWED && line == NULL && has_place) {
            unmark(lines, joining);
        }
        return say(joining, outcome);
    }
    struct span begin = span_sub(outcome.moment, joining->charge.span, denominator);
    if (line == NULL) {
        line = open_line(lines, joining->request->rule, joining->id);
        line->start = line->tail = begin;
    }
    joining->waiter->gap = span_sub_or_zero(begin, line->tail, denominator);
    line->tail = outcome.moment;
    return stand(lines, line, joining, joining->now_ns + delay_ns);
}

/* What charges nothing waits for nobody: a cost of 0, or one that never fits. */
static bool answer_at_once(struct lines *lines, const struct joining *joining, bool is_marked)
{
    return say(joining, take_in_line(lines, joining, (struct line_terms){0, is_marked, is_marked}));
}

/* Somebody waits. A named bucket's numbers may have changed: a line keeps those it was opened with, for
 * everything in it is counted in them. */
static bool join_behind(struct lines *lines, struct line *line, const struct joining *joining)
{
    struct weir_request request = *joining->request;
    struct joining behind = *joining;
    request.rule = &line->rule;
    behind.request = &request;
    behind.charge = charge_of(limit_of(line), request.cost_micro);
    if (behind.charge.never) {
        return answer_at_once(lines, &behind, true);
    }
    return is_queue(line) ? join_queue(lines, line, &behind)
                          : join_bucket_behind(lines, line, &behind);
}

static bool join(struct lines *lines, const struct joining *joining)
{
    struct line *line = find_line(lines, joining->id);
    if (joining->charge.never || joining->charge.cost_micro == 0) {
        return answer_at_once(lines, joining, line != NULL);
    }
    if (line != NULL) {
        serve(lines, line, joining->now_ns); // whoever is due goes first
        line = find_line(lines, joining->id);
    }
    if (line != NULL) {
        return join_behind(lines, line, joining);
    }
    return joining->request->rule->limit.kind == WEIR_KIND_QUEUE
               ? join_queue(lines, NULL, joining)
               : join_bucket_alone(lines, joining);
}

bool lines_join(struct lines *lines, struct waiter *waiter, const struct weir_request *request,
                uint64_t wait_ns, uint64_t now_ns, struct weir_decision *decision)
{
    assert(request->operation == WEIR_TAKE);
    struct joining joining = {
        .waiter = waiter,
        .request = request,
        .id = lines->store->ops->id(lines->store, request),
        .charge = charge_of(&request->rule->limit, request->cost_micro),
        .waiting = request->rule->limit.waiting,
        .wait_ns = wait_ns < LINES_WAIT_NS_MAX ? wait_ns : LINES_WAIT_NS_MAX,
        .now_ns = clamp_now(now_ns),
        .decision = decision,
    };
    waiter->line = NULL;
    waiter->gap = NOTHING;
    if (lines->store->ops->status(lines->store) != WEIR_OK) { // a fork's child
        bucket_answer_failed(decision, &request->rule->limit);
        return false;
    }
    lines_lock(lines);
    bool waits = join(lines, &joining);
    lines_unlock(lines);
    return waits;
}

bool lines_leave(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    lines_lock(lines);
    if (waiter->line != NULL && waiter->line->first != waiter) {
        serve(lines, waiter->line, now_ns); // whoever is due goes first
    }
    struct line *line = waiter->line;
    bool stood = line != NULL;
    if (stood) {
        give_back(lines, waiter, now_ns);
        serve(lines, line, now_ns); // those behind may go now
        lines->stats.left_count++;
    }
    lines_unlock(lines);
    return stood;
}

/* ---- those who do not wait ---- */

/* A take that does not wait is refused while others do: it would fit behind them. */
static void refuse_beside(struct lines *lines, struct line *line,
                          const struct weir_request *request, uint64_t now_ns,
                          struct weir_decision *decision)
{
    struct charge charge = charge_of(limit_of(line), request->cost_micro);
    struct outcome outcome;
    uint64_t needed_ns = pass_after(lines, line, &charge, &outcome, now_ns);
    refuse(decision, limit_of(line), outcome, needed_ns, now_ns);
}

/* A fill, refund or reset: the head may fit earlier now, or later. The places in a queue belong to those
 * who stand there: nobody else gives them back. */
static void change_beside(struct lines *lines, struct line *line,
                          const struct weir_request *request, uint64_t now_ns,
                          struct weir_decision *decision)
{
    struct line_terms terms = {0, true, true};
    struct weir_request change = *request;
    if (is_queue(line) && request->operation != WEIR_FILL) {
        change.operation = WEIR_SHOW;
    }
    struct outcome outcome =
        lines->store->ops->decide_in_line(lines->store, &change, line->id, &terms, now_ns);
    kind_answer(decision, limit_of(line), outcome, now_ns);
    serve(lines, line, now_ns);
}

static bool meet(struct line_keeper *keeper, const struct weir_request *request, uint64_t id,
                 uint64_t now_ns, struct weir_decision *decision)
{
    struct lines *lines = (struct lines *)(void *)keeper;
    lines_lock(lines);
    struct line *line = find_line(lines, id);
    if (line != NULL) {
        serve(lines, line, now_ns); // whoever is due goes first
        line = find_line(lines, id);
    }
    if (line != NULL && (request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE)) {
        refuse_beside(lines, line, request, now_ns, decision);
    } else if (line != NULL) {
        change_beside(lines, line, request, now_ns, decision);
    }
    lines_unlock(lines);
    return line != NULL;
}

/* ---- the beginning and the end ---- */

struct lines *lines_open(struct store *store, uint64_t waiting_max)
{
    struct lines *lines = calloc(1, sizeof *lines);
    struct line **bins = calloc(BIN_COUNT_MIN, sizeof(struct line *));
    if (lines == NULL || bins == NULL) {
        free(lines);
        free(bins);
        return NULL;
    }
    lines->keeper.meet = meet;
    lines->store = store;
    lines->bins = bins;
    lines->bin_count = BIN_COUNT_MIN;
    lines->waiting_max = waiting_max;
    store->keeper = &lines->keeper;
    return lines;
}

void lines_close(struct lines *lines)
{
    if (lines != NULL) {
        assert(lines->stats.waiting_count == 0);
        lines->store->keeper = NULL;
        free(lines->spare);
        free(lines->bins);
        free(lines);
    }
}

void lines_lock(struct lines *lines)
{
    mutex_lock(&lines->mutex);
}

void lines_unlock(struct lines *lines)
{
    mutex_unlock(&lines->mutex);
}

pthread_mutex_t *lines_mutex(struct lines *lines)
{
    return &lines->mutex.mutex;
}

uint64_t lines_now_ns(const struct lines *lines)
{
    return lines->store->ops->now_ns(lines->store);
}

void lines_read_stats(struct lines *lines, struct lines_stats *stats)
{
    lines_lock(lines);
    *stats = lines->stats;
    lines_unlock(lines);
}
