/* SPDX-License-Identifier: MIT
 *
 * The keeper of lines, as small as can be: at most one stands in line for a key, and what it does with the
 * table is what limiter/lines/lines.c does. Its lock is a step like any other; what it guards needs none. */
#include "core/kinds.h"
#include "explore.h"
#include "sync/atomic.h"

static struct outcome decide_in_line(const struct weir_request *request, uint64_t hash,
                                     bool stays_if_allowed, bool stays_if_refused, uint64_t now_ns)
{
    struct line_terms terms = {0, stays_if_allowed, stays_if_refused};
    return table.store.ops->lines->decide_in_line(&table.store, request, hash, &terms, now_ns);
}

/* The real ones count the line; here it is enough that it says no. */
static void refuse(struct weir_decision *decision, struct outcome outcome, uint64_t now_ns)
{
    outcome.verdict = WEIR_LIMITED;
    kind_answer(decision, &model_rule.limit, outcome, now_ns);
    decision->retry_after_ns = 1;
}

static void answer(struct weir_decision *decision, struct outcome outcome, uint64_t now_ns)
{
    if (outcome.verdict == WEIR_FAILED) {
        bucket_answer_failed(decision, &model_rule.limit);
    } else if (outcome.verdict == WEIR_LIMITED) {
        refuse(decision, outcome, now_ns);
    } else {
        kind_answer(decision, &model_rule.limit, outcome, now_ns);
    }
}

/* NULL of a block, for which nobody stands. */
static uint64_t *standing_of(uint64_t hash)
{
    for (int key = 0; key < KEYS; key++) {
        if (hash_of_key(key) == hash) {
            return &world.shared.standing[key];
        }
    }
    return NULL;
}

/* Somebody who does not stand in line has met the mark. */
static bool meet(struct line_keeper *keeper, const struct weir_request *request, uint64_t hash,
                 uint64_t now_ns, struct weir_decision *decision)
{
    (void)keeper;
    mutex_lock(&world.shared.lines_mutex);
    bool stands = load_relaxed(standing_of(hash)) != 0;
    if (stands && (request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE)) {
        struct weir_request look = *request;
        look.operation = WEIR_SHOW;
        refuse(decision, decide_in_line(&look, hash, true, true, now_ns), now_ns);
    } else if (stands) {
        answer(decision, decide_in_line(request, hash, true, true, now_ns), now_ns);
    }
    mutex_unlock(&world.shared.lines_mutex);
    return stands;
}

struct line_keeper lines_keeper = {.meet = meet};

/* Takes, or stands in line; whoever is there already is not joined. */
static void join(struct weir_request *request, uint64_t hash, uint64_t now_ns,
                 struct weir_decision *decision)
{
    bool stands = load_relaxed(standing_of(hash)) != 0;
    request->operation = stands ? WEIR_SHOW : WEIR_TAKE;
    struct outcome outcome = decide_in_line(request, hash, stands, true, now_ns);
    if (stands) {
        refuse(decision, outcome, now_ns);
        return;
    }
    if (outcome.verdict == WEIR_LIMITED) {
        store_relaxed(standing_of(hash), 1);
    }
    answer(decision, outcome, now_ns);
}

/* The one who stands there takes if it fits, or leaves: with a cost by way of move_line(). */
static void serve_or_leave(struct weir_request *request, uint64_t hash, bool leaves,
                           uint64_t now_ns, struct weir_decision *decision)
{
    *decision = (struct weir_decision){.verdict = WEIR_NEVER}; // nobody is there
    if (load_relaxed(standing_of(hash)) == 0) {
        return;
    }
    bool moves = leaves && request->cost_micro != 0;
    request->operation = leaves ? WEIR_SHOW : WEIR_TAKE;
    struct outcome outcome = decide_in_line(request, hash, moves, true, now_ns);
    if (moves) {
        struct line_move nowhere = {.stays = false};
        table.store.ops->lines->move_line(&table.store, &model_rule.limit, hash, &nowhere, now_ns);
    }
    if (outcome.verdict == WEIR_ALLOWED) {
        store_relaxed(standing_of(hash), 0);
    }
    answer(decision, outcome, now_ns);
}

void lines_do(const struct operation *operation, struct weir_decision *decision)
{
    uint64_t hash = hash_of_key(operation->key);
    struct weir_request request = {.rule = &model_rule, .cost_micro = operation->cost * WEIR_UNIT};
    mutex_lock(&world.shared.lines_mutex);
    if (operation->kind == LINE_JOIN) {
        join(&request, hash, operation->now_ns, decision);
    } else {
        bool leaves = operation->kind == LINE_LEAVE;
        serve_or_leave(&request, hash, leaves, operation->now_ns, decision);
    }
    mutex_unlock(&world.shared.lines_mutex);
}

void lines_check_quiet(void)
{
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct table_line *line = &world.shared.lines[i / TABLE_LINE_SLOTS];
        uint64_t tag = line->tags[i % TABLE_LINE_SLOTS];
        bool is_marked = (line->states[i % TABLE_LINE_SLOTS].word & BUCKET_LINE) != 0;
        const uint64_t *standing = tag != 0 ? standing_of(tag) : NULL;
        if (is_marked != (standing != NULL && *standing != 0)) {
            explore_violation("a mark without anybody in line, or the other way round");
        }
    }
}
