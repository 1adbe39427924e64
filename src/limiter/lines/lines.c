/* SPDX-License-Identifier: MIT
 *
 * Joining a line, leaving it, and meeting one. line.h says where the other chapters are. */
#include "limiter/lines/lines.h"

#include <assert.h>
#include <stdlib.h>

#include "core/decision.h"
#include "core/undecided.h"
#include "limiter/shared_lines/shared_room.h"

enum { BIN_COUNT_MIN = 64 }; // a power of two

/* ---- blocks ---- */

/* If it was let in meanwhile, that is at once. */
void line_answer(const struct lines *lines, struct weir_decision *decision,
                 const struct weir_limit *limit, uint64_t id, struct outcome outcome,
                 uint64_t now_ns)
{
    kind_answer(decision, limit, outcome, now_ns);
    if (outcome.verdict == WEIR_BLOCKED) {
        uint64_t ends_ns = lines->store->ops->lines->blocked_until_ns(lines->store, id);
        decision->retry_after_ns = (int64_t)(ends_ns > now_ns ? ends_ns - now_ns : 1);
    }
}

static bool is_out_of_reach(const struct lines *lines)
{
    return lines->store->ops->status(lines->store) != WEIR_OK;
}

/* If the store comes back between its failure and this question, on_full answers instead of on_error. */
static bool failure_passes(const struct lines *lines, const struct weir_limit *limit)
{
    return is_out_of_reach(lines) ? limit->on_error == WEIR_ON_ERROR_ALLOW
                                  : limit->on_full == WEIR_ON_FULL_ALLOW;
}

void line_answer_or_fail(const struct lines *lines, struct weir_decision *decision,
                         const struct weir_limit *limit, uint64_t id, struct outcome outcome,
                         uint64_t now_ns)
{
    if (outcome.verdict == WEIR_FAILED && failure_passes(lines, limit)) {
        outcome.verdict = WEIR_ALLOWED; // uncharged
    }
    if (outcome.verdict == WEIR_FAILED) {
        bucket_answer_failed(decision, limit);
    } else {
        line_answer(lines, decision, limit, id, outcome, now_ns);
    }
}

/* The limit as this waiter asked for it. */
static struct weir_rule rule_of(const struct waiter *waiter)
{
    struct weir_rule rule = waiter->line->rule;
    rule.limit.block_ns = waiter->block_ns;
    rule.limit.on_full = waiter->on_full;
    return rule;
}

void line_turn_out(struct lines *lines, struct waiter *waiter, struct outcome outcome,
                   uint64_t now_ns)
{
    struct line *line = waiter->line;
    const struct weir_rule rule = rule_of(waiter);
    struct weir_decision decision;
    line->kind->give_back(lines, waiter, now_ns);
    line_answer_or_fail(lines, &decision, &rule.limit, line->id, outcome, now_ns);
    lines->stats.blocked_count += outcome.verdict == WEIR_BLOCKED;
    waiter->ops->answer(waiter, &decision);
}

void line_block_refused(struct lines *lines, const struct weir_rule *rule, uint64_t id,
                        struct weir_decision *decision, uint64_t now_ns)
{
    const struct store_ops *ops = lines->store->ops;
    uint64_t block_ns = rule->limit.block_ns;
    if (block_ns != 0 && decision->verdict == WEIR_LIMITED) {
        struct line_terms unused = {0, false, false};
        struct weir_request block = {.rule = rule, .operation = WEIR_BLOCK, .block_ns = block_ns};
        if (block_ns == WEIR_BLOCK_UNTIL_EMPTY) {
            block.block_ns = (uint64_t)decision->reset_after_ns;
        }
        (void)ops->lines->decide_in_line(lines->store, &block, id, &unused, now_ns);
        decision_lock_out(decision, ops->lines->blocked_until_ns(lines->store, id), now_ns);
    }
}

/* ---- time has come ---- */

/* Its deadline is here. To come again would be to come behind those who stay. */
void line_send_away(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    struct line *line = waiter->line;
    const struct weir_rule rule = rule_of(waiter);
    struct weir_decision decision;
    struct outcome outcome;
    line->kind->give_back(lines, waiter, now_ns);
    struct charge charge = charge_of(limit_of(line), waiter->cost_micro);
    uint64_t pass_ns = line->kind->pass_after(lines, line, &charge, &outcome, now_ns);
    line_refuse(&decision, limit_of(line), outcome, pass_ns, now_ns);
    lines->stats.expired_count++;
    line_block_refused(lines, &rule, line->id, &decision, now_ns);
    waiter->ops->answer(waiter, &decision);
}

void line_serve(struct lines *lines, struct line *line, uint64_t now_ns)
{
    assert(lines->served == NULL);
    lines->served = line;
    lines->served_at_ns = now_ns;
    line->kind->serve(lines, line, now_ns);
    lines->served = NULL;
    if (line->first == NULL) {
        line_close(lines, line);
    }
}

void lines_call(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    if (lines->shared != NULL) {
        shared_call(lines->shared, waiter, now_ns);
        return;
    }
    if (waiter->together != NULL) {
        together_call(lines, waiter->together, now_ns);
        return;
    }
    if (waiter->line != NULL) { // it is not answered meanwhile
        line_serve(lines, waiter->line, now_ns);
    }
    if (waiter->line != NULL && now_ns >= waiter->deadline_ns) {
        struct line *line = waiter->line;
        line_send_away(lines, waiter, now_ns);
        line_serve(lines, line, now_ns); // those behind may go now
    } else if (waiter->line != NULL && waiter->line->first != waiter) {
        /* A take under several limits was let in before this waiter, which was the first. */
        waiter->ops->schedule(waiter, waiter->deadline_ns);
    }
}

/* Whoever stands in the line of a bucket that may have been blocked just now. */
static void tell_the_blocked(struct lines *lines, const struct weir_rule *rule, uint64_t id,
                             uint64_t now_ns)
{
    struct line *line = rule->limit.block_ns != 0 ? line_find(lines, id) : NULL;
    if (rule->limit.block_ns != 0 && lines->shared != NULL) {
        shared_tell(lines->shared, id, now_ns);
    } else if (line != NULL) {
        line_serve(lines, line, now_ns);
    }
}

/* Whoever was not let in, and for no other reason than that limits are reached. */
static void block_all_refused(struct lines *lines, const struct weir_request *requests,
                              size_t count, struct weir_decision *decisions, uint64_t now_ns)
{
    for (size_t i = 0; i < count; i++) {
        bool is_reason = !requests[i].shadow && decisions[i].verdict != WEIR_ALLOWED;
        if (is_reason && decisions[i].verdict != WEIR_LIMITED) {
            return;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct weir_rule *rule = requests[i].rule;
        if (rule->limit.block_ns != 0 && !requests[i].shadow
            && decisions[i].verdict == WEIR_LIMITED) {
            uint64_t id = lines->store->ops->lines->id(lines->store, &requests[i]);
            line_block_refused(lines, rule, id, &decisions[i], now_ns);
            tell_the_blocked(lines, rule, id, now_ns);
        }
    }
}

/* ---- joining ---- */

/* Refuses, for this wait is not enough, or there is no place for another one. */
bool line_turn_away(struct lines *lines, const struct joining *joining, struct outcome outcome,
                    struct shortage shortage)
{
    uint64_t late_ns = ns_until(shortage.needed_ns, joining->wait_ns);
    uint64_t retry_ns = late_ns > shortage.place_ns ? late_ns : shortage.place_ns;
    line_refuse(joining->decision, &joining->request->rule->limit, outcome, retry_ns,
                joining->now_ns);
    lines->stats.late_count += late_ns > 0;
    lines->stats.full_count += late_ns == 0;
    return false;
}

bool line_stand(struct lines *lines, struct line *line, const struct joining *joining,
                uint64_t due_ns)
{
    struct waiter *waiter = joining->waiter;
    waiter->cost_micro = joining->request->cost_micro;
    waiter->span = joining->charge.span;
    waiter->deadline_ns = joining->now_ns + joining->wait_ns;
    waiter->block_ns = joining->request->rule->limit.block_ns;
    waiter->on_full = joining->request->rule->limit.on_full;
    line_append(lines, line, waiter);
    lines->stats.joined_count += waiter->together == NULL;
    /* Only the head goes by its own time; whoever is behind it is looked at when it comes to the front. */
    bool is_head = line->first == waiter;
    waiter->ops->schedule(waiter,
                          is_head && due_ns < waiter->deadline_ns ? due_ns : waiter->deadline_ns);
    return true;
}

bool line_has_place(struct lines *lines, const struct line *line, const struct joining *joining)
{
    size_t count = line != NULL ? line->count : 0;
    return lines->stats.waiting_count < lines->waiting_max && count < joining->waiting
           && (line != NULL || line_has_spares(lines, 1));
}

/* When there is a place in a full line: as soon as the first one is served. More may stand there than
 * this request lets: then not before its own turn, which for none at all is exact, and otherwise enough. */
uint64_t line_place_after(const struct line *line, const struct joining *joining, uint64_t first_ns,
                          uint64_t needed_ns)
{
    return line->count > joining->waiting ? needed_ns : ns_until(first_ns, joining->now_ns);
}

/* No line forms where there is no room for a bucket. */
bool line_say(struct lines *lines, const struct joining *joining, struct outcome outcome)
{
    line_answer_or_fail(lines, joining->decision, &joining->request->rule->limit, joining->id,
                        outcome, joining->now_ns);
    return false;
}

struct outcome line_take(struct lines *lines, const struct joining *joining,
                         struct line_terms terms)
{
    return lines->store->ops->lines->decide_in_line(lines->store, joining->request, joining->id,
                                                    &terms, joining->now_ns);
}

void line_unmark(struct lines *lines, const struct joining *joining)
{
    struct weir_request question = *joining->request;
    struct line_terms terms = {0, false, false};
    question.operation = WEIR_SHOW;
    (void)lines->store->ops->lines->decide_in_line(lines->store, &question, joining->id, &terms,
                                                   joining->now_ns);
}

/* What charges nothing waits for nobody: a cost of 0, or one that never fits. */
static bool answer_at_once(struct lines *lines, const struct joining *joining, bool is_marked)
{
    struct line_terms terms = {0, is_marked, is_marked};
    return line_say(lines, joining, line_take(lines, joining, terms));
}

/* Somebody waits. A named bucket's numbers may have changed: a line keeps those it was opened with, for
 * everything in it is counted in them. */
static bool join_behind(struct lines *lines, struct line *line, const struct joining *joining)
{
    const struct weir_rule rule = rule_in_line(joining->request->rule, &line->rule);
    struct weir_request request = *joining->request;
    struct joining behind = *joining;
    request.rule = &rule;
    behind.request = &request;
    behind.charge = charge_of(limit_of(line), request.cost_micro);
    if (behind.charge.never) {
        return answer_at_once(lines, &behind, true);
    }
    return line->kind->join(lines, line, &behind);
}

static bool join(struct lines *lines, const struct joining *joining)
{
    struct line *line = line_find(lines, joining->id);
    if (joining->charge.never || joining->charge.cost_micro == 0) {
        return answer_at_once(lines, joining, line != NULL);
    }
    if (line != NULL) {
        line_serve(lines, line, joining->now_ns); // whoever is due goes first
        line = line_find(lines, joining->id);
    }
    if (line != NULL) {
        return join_behind(lines, line, joining);
    }
    return line_kind_of(&joining->request->rule->limit)->join(lines, NULL, joining);
}

static bool join_one(struct lines *lines, struct waiter *waiter, const struct weir_request *request,
                     uint64_t wait_ns, uint64_t now_ns, struct weir_decision *decision)
{
    struct joining joining = {
        .waiter = waiter,
        .request = request,
        .id = lines->store->ops->lines->id(lines->store, request),
        .charge = charge_of(&request->rule->limit, request->cost_micro),
        .waiting = request->rule->limit.waiting,
        .wait_ns = wait_ns,
        .now_ns = now_ns,
        .decision = decision,
    };
    return lines->shared != NULL ? shared_join(lines->shared, &joining) : join(lines, &joining);
}

bool lines_are_shared(const struct lines *lines)
{
    return lines->shared != NULL;
}

void lines_answer_failed(const struct weir_request *requests, size_t count,
                         struct weir_decision *decisions)
{
    for (size_t i = 0; i < count; i++) {
        bucket_answer_failed(&decisions[i], &requests[i].rule->limit);
    }
}

void lines_answer_undecided(const struct lines *lines, const struct weir_request *requests,
                            size_t count, uint64_t now_ns, struct weir_decision *decisions)
{
    if (!is_out_of_reach(lines)) {
        lines_answer_failed(requests, count, decisions);
        return;
    }
    answer_undecided(requests, decisions, count,
                     now_ns + lines->store->ops->lines->utc_offset_ns(lines->store));
    for (size_t i = 0; i < count; i++) {
        decisions[i].delay_ns = 0;
    }
}

/* The same bucket twice. */
static bool asks_twice(const struct lines *lines, const struct weir_request *requests, size_t count)
{
    uint64_t ids[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < count; i++) {
        ids[i] = lines->store->ops->lines->id(lines->store, &requests[i]);
        for (size_t j = 0; j < i; j++) {
            if (ids[i] == ids[j]) {
                return true;
            }
        }
    }
    return false;
}

/* Whether nobody can stand in line for what these ask. */
static bool is_in_vain(const struct lines *lines, const struct weir_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!limit_is_compiled(&requests[i].rule->limit)) {
            return true;
        }
    }
    return is_out_of_reach(lines) // of a fork's child, too
           || (count > 1 && asks_twice(lines, requests, count));
}

bool lines_join(struct lines *lines, struct waiter *waiter, const struct weir_request *requests,
                size_t count, uint64_t wait_ns, uint64_t now_ns, struct weir_decision *decisions)
{
    wait_ns = wait_ns < LINES_WAIT_NS_MAX ? wait_ns : LINES_WAIT_NS_MAX;
    now_ns = clamp_now(now_ns);
    waiter->line = NULL;
    waiter->together = NULL;
    waiter->turn = 0; // and no ticket
    waiter->gap = (struct span){0, 0};
    assert(requests[0].operation == WEIR_TAKE);
    if (lines->store->ops->lines == NULL) { // nobody can be marked as waiting
        lines_answer_failed(requests, count, decisions);
        return false;
    }
    if (is_in_vain(lines, requests, count)) {
        lines_answer_undecided(lines, requests, count, now_ns, decisions);
        return false;
    }
    if (lines->shared != NULL) {
        shared_begin_here(lines->shared);
    }
    lines_lock(lines);
    if (lines->shared == NULL) {
        waiter->turn = lines->turns++;
    }
    bool waits = false;
    if (count == 1) {
        waits = join_one(lines, waiter, requests, wait_ns, now_ns, decisions);
    } else if (lines->shared != NULL) {
        waits = shared_run_join(lines->shared, waiter, requests, count, wait_ns, now_ns, decisions);
    } else {
        waits = together_join(lines, waiter, requests, count, wait_ns, now_ns, decisions);
    }
    if (!waits) {
        block_all_refused(lines, requests, count, decisions, now_ns);
    }
    lines_unlock(lines);
    return waits;
}

bool lines_leave(struct lines *lines, struct waiter *waiter, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    if (lines->shared != NULL) {
        return shared_leave(lines->shared, waiter, now_ns);
    }
    lines_lock(lines);
    if (waiter->together != NULL) {
        bool left = together_leave(lines, waiter, now_ns);
        lines_unlock(lines);
        return left;
    }
    if (waiter->line != NULL && waiter->line->first != waiter) {
        line_serve(lines, waiter->line, now_ns); // whoever is due goes first
    }
    struct line *line = waiter->line;
    bool stood = line != NULL;
    if (stood) {
        line->kind->give_back(lines, waiter, now_ns);
        line_serve(lines, line, now_ns); // those behind may go now
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
    uint64_t needed_ns = line->kind->pass_after(lines, line, &charge, &outcome, now_ns);
    line_refuse(decision, limit_of(line), outcome, needed_ns, now_ns);
    if (request->operation == WEIR_TAKE && !request->shadow) {
        line_block_refused(lines, request->rule, line->id, decision, now_ns);
        tell_the_blocked(lines, request->rule, line->id, now_ns);
    }
}

/* A refund or reset of a queue: the places belong to those who stand there. */
static void give_back_beside(struct lines *lines, struct line *line,
                             const struct weir_request *request, uint64_t now_ns,
                             struct weir_decision *decision)
{
    struct span most = span_to_give_back(limit_of(line), request);
    struct span given = line->kind->give_back_beside(lines, line, most, now_ns);
    line_answer_given_back(decision, request, limit_of(line), given, line_look(lines, line, now_ns),
                           now_ns);
}

/* A fill, refund or reset: the head may fit earlier now, or later. */
static void change_beside(struct lines *lines, struct line *line,
                          const struct weir_request *request, uint64_t now_ns,
                          struct weir_decision *decision)
{
    struct line_terms terms = {0, true, true};
    if (line->kind->give_back_beside != NULL && request->operation != WEIR_FILL) {
        give_back_beside(lines, line, request, now_ns, decision);
    } else {
        struct outcome outcome = lines->store->ops->lines->decide_in_line(lines->store, request,
                                                                          line->id, &terms, now_ns);
        line_answer(lines, decision, limit_of(line), line->id, outcome, now_ns);
    }
    line_serve(lines, line, now_ns);
}

static bool meet(struct line_keeper *keeper, const struct weir_request *request, uint64_t id,
                 uint64_t now_ns, struct weir_decision *decision)
{
    struct lines *lines = (struct lines *)(void *)keeper;
    lines_lock(lines);
    struct line *line = line_find(lines, id);
    if (line != NULL) {
        line_serve(lines, line, now_ns); // whoever is due goes first
        line = line_find(lines, id);
    }
    if (request->operation == WEIR_BLOCK) {
        line = NULL; // who had to go has gone
    } else if (line != NULL
               && (request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE)) {
        refuse_beside(lines, line, request, now_ns, decision);
    } else if (line != NULL) {
        change_beside(lines, line, request, now_ns, decision);
    }
    lines_unlock(lines);
    return line != NULL;
}

static uint64_t count_waiting(struct line_keeper *keeper, uint64_t id, uint64_t now_ns)
{
    struct lines *lines = (struct lines *)(void *)keeper;
    (void)now_ns;
    lines_lock(lines);
    const struct line *line = line_find(lines, id);
    uint64_t count = line != NULL ? line->count : 0;
    lines_unlock(lines);
    return count;
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
    lines->keeper = (struct line_keeper){.meet = meet, .count = count_waiting};
    lines->store = store;
    lines->bins = bins;
    lines->bin_count = BIN_COUNT_MIN;
    lines->waiting_max = waiting_max;
    store->keeper = &lines->keeper;
    return lines;
}

struct lines *lines_open_shared(struct store *store, uint64_t waiting_max, bool is_caller_clock)
{
    struct lines *lines = lines_open(store, waiting_max);
    if (lines != NULL) {
        lines->shared = shared_open(lines, store, is_caller_clock);
    }
    if (lines != NULL && lines->shared == NULL) {
        lines_close(lines);
        return NULL;
    }
    return lines;
}

void lines_close(struct lines *lines)
{
    if (lines != NULL) {
        shared_close(lines->shared);
        assert(lines->stats.waiting_count == 0);
        lines->store->keeper = NULL;
        while (lines->spares != NULL) {
            struct line *spare = lines->spares;
            lines->spares = spare->next_in_bin;
            free(spare);
        }
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

bool lines_valid(struct lines *lines)
{
    lines_lock(lines);
    bool is_valid = lines->shared == NULL || shared_valid(lines->shared);
    lines_unlock(lines);
    return is_valid;
}

void lines_read_stats(struct lines *lines, struct lines_stats *stats)
{
    if (lines->shared != NULL) {
        shared_begin_here(lines->shared);
    }
    lines_lock(lines);
    *stats = lines->stats;
    stats->waiting_max = lines->waiting_max;
    if (lines->shared != NULL) {
        shared_read_stats(lines->shared, stats);
    }
    lines_unlock(lines);
}
