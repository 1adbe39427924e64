/* SPDX-License-Identifier: MIT
 *
 * Windows: buckets whose state leads to a log of events (window_log.h). Every question about one is asked
 * under the lock of its stripe, reads too, for the log is many words; one swap of the state then changes
 * it. So whoever else looks at the state needs to know nothing of this: a flag is found there as in any
 * other, and a slot is not given away before the moment at which all events have left. What is left of
 * the former owner's log is given back then.
 *
 * A window that has drained keeps its chunks until it is asked again, or its slot is reused, or the pool
 * is exhausted: then whoever needs a chunk sweeps a part of the pool, and gives back what belongs to
 * drained windows and what no log leads to, because somebody died with it in his hands. How much he looks at
 * is bounded, and little where the last ones found nothing: a pool of which nearly nothing could be given
 * back counts as full. */
#include <assert.h>

#include "core/operation.h"
#include "store/table/inside.h"
#include "store/table/window_log.h"
#include "sync/atomic.h"

/* A question on its way.
 *   fits_at_ns  of a take that is refused
 *   terms   of the keeper of lines, who asks for one who waits; NULL: somebody else asks
 *   added   units that it lets through
 *   clears  it empties the window */
struct turn {
    struct table *table;
    const struct weir_request *request;
    const struct line_terms *terms;
    struct charge charge;
    uint64_t hash, home;
    uint64_t now_ns;
    struct found found;
    bool is_found;
    struct window_log log;
    struct window_view view;
    struct outcome outcome;
    uint64_t fits_at_ns;
    struct weir_detail detail;
    uint64_t added;
    bool clears;
};

/* How far a turn came. */
enum progress {
    DECIDED,
    LOOK_AGAIN, // somebody else has changed the state
    MEETS_LINE, // those who wait go first
    HAS_MOVED,  // to another table
    OUT_OF_REACH,
    NO_SLOT,  // for the window
    NO_CHUNK, // for the event
};

static const struct weir_limit *limit_of(const struct turn *turn)
{
    return &turn->request->rule->limit;
}

/* ---- deciding ---- */

static void judge_take(struct turn *turn)
{
    turn->outcome =
        window_log_take(&turn->log, limit_of(turn), &turn->view, &turn->charge, &turn->fits_at_ns);
    if (turn->outcome.verdict == WEIR_ALLOWED && turn->request->operation == WEIR_TAKE) {
        turn->added = turn->charge.cost_micro / WEIR_UNIT;
    }
}

static void judge_fill(struct turn *turn)
{
    const struct weir_limit *limit = limit_of(turn);
    const struct window_view *view = &turn->view;
    uint64_t room = window_room(limit, view->level);
    uint64_t cost = turn->charge.cost_micro / WEIR_UNIT;
    turn->outcome = window_outcome(WEIR_ALLOWED, view->empty_at_ns, view->level);
    if (turn->charge.uncounted) {
        turn->outcome.verdict = WEIR_NEVER;
        turn->detail.amount = amount_of(turn->charge.cost_micro, WEIR_UNIT);
        return;
    }
    turn->added = cost < room ? cost : room;
    turn->detail.amount = amount_of(cost - turn->added, 1);
    turn->detail.full = turn->added == room;
    if (turn->added > 0) {
        turn->outcome =
            window_outcome(WEIR_ALLOWED, view->now_ns + limit->full_ns, view->level + turn->added);
    }
}

/* What the window says, and what it has to become for that. */
static void judge(struct turn *turn)
{
    const struct window_view *view = &turn->view;
    turn->outcome = window_outcome(WEIR_ALLOWED, view->empty_at_ns, view->level);
    turn->detail = (struct weir_detail){.existed = view->level > 0};
    turn->added = 0;
    turn->clears = false;
    switch (turn->request->operation) {
    case WEIR_TAKE:
    case WEIR_CAN_TAKE: judge_take(turn); break;
    case WEIR_FILL: judge_fill(turn); break;
    case WEIR_REFUND: turn->outcome.verdict = WEIR_FAILED; break; // what was let through has passed
    case WEIR_SHOW:
        turn->detail.amount = amount_of(view->level, 1);
        turn->detail.empty_at_ns = view->empty_at_ns;
        break;
    case WEIR_RESET:
        turn->clears =
            view->level > 0 || turn->log.newest != NULL; // under a longer period it counts again
        turn->outcome = window_outcome(WEIR_ALLOWED, 0, 0);
        break;
    case WEIR_BLOCK: // block.c
    case WEIR_UNBLOCK: break;
    }
}

/* What it says while the key is locked out. */
static void judge_blocked(struct turn *turn, uint64_t ends_ns)
{
    judge(turn);
    turn->outcome = window_outcome(WEIR_BLOCKED, turn->view.empty_at_ns, turn->view.level);
    turn->fits_at_ns = ends_ns;
    turn->added = 0;
    if (turn->request->operation == WEIR_FILL) { // all that it brings is spilt
        turn->detail.amount = amount_of(turn->charge.cost_micro, WEIR_UNIT);
        turn->detail.full = window_room(limit_of(turn), turn->view.level) == 0;
    }
}

/* ---- under the lock ---- */

/* Finds the window; a missing one counts as empty since the latest reuse. False: it has moved. */
static bool find(struct turn *turn)
{
    const struct table *table = turn->table;
    turn->home = table_home_of(table, turn->hash);
    turn->is_found = table_find(table, turn->hash, turn->home, &turn->found);
    if (turn->is_found) {
        return (turn->found.seen.word & BUCKET_MOVED) == 0;
    }
    uint64_t reused_at_ns = table_latest_reuse(table_stripe_of(table, turn->hash));
    turn->found.seen = (struct weir_bucket){reused_at_ns, 0};
    return (reused_at_ns & STRIPE_MOVED) == 0;
}

/* Reads its log. False: it is damaged. */
static bool look(struct turn *turn)
{
    return window_log_open(&turn->log, &turn->table->events, turn->hash, turn->found.seen)
           && window_log_look(&turn->log, limit_of(turn), turn->now_ns, &turn->view);
}

/* True if somebody stands in line for it who has to be asked first. */
static bool meets_line(const struct turn *turn)
{
    return turn->terms == NULL && turn->is_found && (turn->found.seen.word & BUCKET_LINE) != 0
           && turn->table->root->store.keeper != NULL
           && table_heeds_line(turn->request, &turn->charge);
}

/* A log that no longer leads anywhere is none. What can be found of it is left to the sweep. */
static enum progress forget_damaged(struct turn *turn)
{
    (void)table_commit(&turn->found, window_state_empty(turn->found.seen, turn->now_ns));
    return LOOK_AGAIN;
}

/* Takes the log from a window in which nothing counts. */
static enum progress clear(struct turn *turn, uint64_t since_ns)
{
    if (!table_commit(&turn->found, window_state_empty(turn->found.seen, since_ns))) {
        return LOOK_AGAIN;
    }
    if (turn->log.newest != NULL) {
        window_log_free(&turn->log);
    }
    return DECIDED;
}

static struct weir_bucket with_terms(const struct turn *turn, struct weir_bucket state)
{
    const struct line_terms *terms = turn->terms;
    if (terms != NULL) {
        bool stays = turn->outcome.verdict == WEIR_ALLOWED ? terms->stays_if_allowed
                                                           : terms->stays_if_refused;
        state.word = stays ? state.word | BUCKET_LINE : state.word & ~BUCKET_LINE;
    }
    return state;
}

/* Sees to it that a key that is locked out by this can be. In a line the keeper does it. */
static bool begin_block(const struct turn *turn)
{
    bool is_take = turn->request->operation == WEIR_TAKE;
    return (turn->terms == NULL || !is_take)
           && operation_locks_out(turn->request, turn->outcome, &turn->detail)
           && table_make_block(turn->table, turn->hash, table_on_full(turn->request), turn->now_ns);
}

/* Who comes back before both are over, the block and what counts, does so in vain. */
static void end_block(struct turn *turn)
{
    uint64_t ends_ns = kind_block_ends_ns(limit_of(turn), turn->outcome.moment, turn->now_ns);
    ends_ns = table_raise_block(turn->table, turn->hash, ends_ns);
    turn->fits_at_ns = turn->fits_at_ns > ends_ns ? turn->fits_at_ns : ends_ns;
}

/* Swaps a state in that differs in flags only. */
static enum progress write_flags(struct turn *turn, bool blocks)
{
    struct weir_bucket next = with_terms(turn, turn->found.seen);
    next.word |= blocks ? BUCKET_BLOCKED : 0;
    if (next.word != turn->found.seen.word && !table_commit(&turn->found, next)) {
        return LOOK_AGAIN;
    }
    if (blocks) {
        end_block(turn);
    }
    return DECIDED;
}

/* Lets it through: from here on it counts. */
static enum progress add(struct turn *turn, bool blocks)
{
    const struct weir_limit *limit = limit_of(turn);
    struct weir_bucket next;
    uint32_t taken_id;
    if (!window_log_add(&turn->log, limit, &turn->view, turn->added, &next, &taken_id)) {
        return NO_CHUNK;
    }
    next = with_terms(turn, next);
    next.word |= blocks ? BUCKET_BLOCKED : 0;
    if (!table_commit(&turn->found, next)) {
        if (taken_id != 0) {
            event_pool_give(&turn->table->events, taken_id);
        }
        return LOOK_AGAIN;
    }
    window_log_added(&turn->log, &turn->view, turn->added, next);
    window_log_drop(&turn->log, limit, turn->view.now_ns);
    if (blocks) {
        end_block(turn);
    }
    return DECIDED;
}

/* The key's block has ended: says so. */
static enum progress forget_block(struct turn *turn)
{
    struct weir_bucket next = turn->found.seen;
    next.word &= ~BUCKET_BLOCKED;
    (void)table_commit(&turn->found, next);
    return LOOK_AGAIN;
}

static enum progress decide_locked(struct turn *turn)
{
    if (!find(turn)) {
        return HAS_MOVED;
    }
    if (!look(turn)) {
        return forget_damaged(turn);
    }
    bool is_flagged = turn->is_found && (turn->found.seen.word & BUCKET_BLOCKED) != 0;
    bool only_looks = turn->terms != NULL && turn->request->operation == WEIR_SHOW;
    if (is_flagged && !only_looks && operation_heeds_block(turn->request, &turn->charge)) {
        uint64_t ends_ns = table_block_ends_ns(turn->table, turn->hash);
        if (ends_ns <= turn->now_ns) {
            return forget_block(turn);
        }
        judge_blocked(turn, ends_ns);
        return DECIDED;
    }
    if (meets_line(turn)) {
        return MEETS_LINE;
    }
    judge(turn);
    if (turn->clears) { // not to before the latest reuse: slots.c
        uint64_t reused_at_ns = table_latest_reuse(table_stripe_of(turn->table, turn->hash));
        return clear(turn, turn->now_ns > reused_at_ns ? turn->now_ns : reused_at_ns);
    }
    bool is_marked = with_terms(turn, turn->found.seen).word != turn->found.seen.word;
    if (!turn->is_found && (turn->added > 0 || is_marked)) {
        bool has_slot = table_insert_locked(turn->table, turn->hash, turn->home, 0,
                                            table_on_full(turn->request), turn->view.now_ns);
        return has_slot ? LOOK_AGAIN : NO_SLOT;
    }
    if (turn->added > 0 && window_log_is_worn_out(&turn->log, limit_of(turn), &turn->view)) {
        (void)clear(turn, turn->view.now_ns);
        return LOOK_AGAIN;
    }
    bool blocks = turn->is_found && begin_block(turn);
    return turn->added > 0 ? add(turn, blocks) : write_flags(turn, blocks);
}

/* Goes on in the table to which this one's buckets have moved. */
static enum progress follow(struct turn *turn)
{
    struct table *next = table_follow(turn->table, turn->hash);
    if (next == NULL) {
        turn->outcome = window_outcome(WEIR_FAILED, 0, 0);
        return OUT_OF_REACH;
    }
    turn->table = next;
    return LOOK_AGAIN;
}

/* One turn under the lock, or as many as it takes. */
static enum progress decide(struct turn *turn)
{
    enum progress progress;
    do {
        struct stripe *stripe = table_stripe_of(turn->table, turn->hash);
        table_lock_stripe(turn->table, stripe);
        progress = decide_locked(turn);
        lock_release(&stripe->lock);
        progress = progress == HAS_MOVED ? follow(turn) : progress;
    } while (progress == LOOK_AGAIN
             || (progress == NO_CHUNK && table_sweep_events(turn->table, turn->now_ns)));
    if (progress == NO_CHUNK) {
        event_pool_count_full(&turn->table->events);
    }
    return progress;
}

/* Sets what is read before it is decided, and no more: to clear all of it would take a tenth of a take's time. */
static void begin(struct turn *turn, struct table *table, const struct weir_request *request,
                  uint64_t hash, const struct line_terms *terms, uint64_t now_ns)
{
    turn->table = table;
    turn->request = request;
    turn->terms = terms;
    turn->charge = charge_of(&request->rule->limit, request->cost_micro);
    turn->hash = hash;
    turn->now_ns = now_ns;
    turn->view = (struct window_view){.level = 0};
    turn->outcome = window_outcome(WEIR_FAILED, 0, 0);
    turn->detail = (struct weir_detail){.existed = false};
}

/* ---- for the rest of the table ---- */

/* What the operation says beside the decision: a take nothing. */
static void write_detail(const struct turn *turn)
{
    if (turn->request->operation != WEIR_TAKE && turn->request->detail != NULL) {
        *turn->request->detail = turn->detail;
    }
}

static void answer(const struct turn *turn, struct weir_decision *decision)
{
    const struct weir_limit *limit = limit_of(turn);
    kind_answer(decision, limit, turn->outcome, turn->now_ns);
    if (turn->outcome.verdict == WEIR_LIMITED || turn->outcome.verdict == WEIR_BLOCKED) {
        decision->retry_after_ns = (int64_t)(turn->fits_at_ns - turn->now_ns);
    }
    write_detail(turn);
}

void table_decide_window(struct table *table, const struct weir_request *request, uint64_t hash,
                         uint64_t now_ns, struct weir_decision *decision)
{
    struct turn turn;
    begin(&turn, table, request, hash, NULL, now_ns);
    struct line_keeper *keeper = table->root->store.keeper;
    enum progress progress;
    while ((progress = decide(&turn)) == MEETS_LINE) {
        if (keeper->meet(keeper, request, hash, now_ns, decision)) {
            return;
        }
    }
    if (progress == OUT_OF_REACH) {
        table_answer_undecided(turn.table, request, decision, 1, now_ns);
        return;
    }
    if (progress != DECIDED && limit_of(&turn)->on_full != WEIR_ON_FULL_ALLOW) {
        turn.outcome.verdict = WEIR_FAILED;
    }
    answer(&turn, decision);
    table_count_waiting(turn.table, request, hash, turn.found.seen, now_ns);
}

struct outcome table_decide_window_in_line(struct table *table, const struct weir_request *request,
                                           uint64_t hash, const struct line_terms *terms,
                                           uint64_t now_ns)
{
    struct turn turn;
    begin(&turn, table, request, hash, terms, now_ns);
    enum progress progress = decide(&turn);
    if (progress == OUT_OF_REACH) {
        return table_fail_in_line(request, &turn.charge, now_ns);
    }
    if (progress != DECIDED) {
        turn.outcome.verdict = WEIR_FAILED;
    }
    write_detail(&turn);
    return turn.outcome;
}

struct span table_window_moment(struct table *table, const struct weir_request *request,
                                uint64_t hash, uint64_t now_ns)
{
    const struct weir_request look = {.rule = request->rule, .operation = WEIR_SHOW};
    struct turn turn;
    begin(&turn, table, &look, hash, NULL, now_ns);
    (void)decide(&turn);
    return turn.outcome.moment;
}

void table_visit_drain(struct store *store, const struct weir_limit *limit, uint64_t id,
                       struct drain_visitor *visitor, uint64_t now_ns)
{
    const struct weir_rule rule = {.limit = *limit};
    const struct weir_request request = {.rule = &rule, .operation = WEIR_SHOW};
    const struct line_terms terms = {0, false, false};
    struct turn turn;
    begin(&turn, table_current(store), &request, id, &terms, now_ns);
    struct stripe *stripe = table_stripe_of(turn.table, id);
    table_lock_stripe(turn.table, stripe);
    while (!find(&turn)) {
        lock_release(&stripe->lock);
        if (follow(&turn) == OUT_OF_REACH) {
            (void)visitor->at(visitor, now_ns, 0);
            return;
        }
        stripe = table_stripe_of(turn.table, id);
        table_lock_stripe(turn.table, stripe);
    }
    if (!look(&turn)) { // of a damaged log nothing counts
        turn.view = (struct window_view){.now_ns = now_ns};
    }
    struct window_view *view = &turn.view;
    uint64_t units = visitor->at(visitor, view->now_ns, view->level);
    while (units > 0 && view->level > 0) {
        window_log_leave(&turn.log, limit, units < view->level ? units : view->level, view);
        units = visitor->at(visitor, view->now_ns, view->level);
    }
    lock_release(&stripe->lock);
}

void table_free_events(struct table *table, uint64_t tag, struct weir_bucket state)
{
    struct window_log log;
    if ((state.word & BUCKET_LOG) != 0 && window_log_open(&log, &table->events, tag, state)) {
        window_log_free(&log);
    }
}

/* ---- the sweep ---- */

/* Looks at one chunk, under the lock of its owner's stripe. True if any was given back. */
static bool sweep_locked(struct table *table, uint32_t id, uint64_t owner, uint32_t turn,
                         uint64_t now_ns)
{
    const struct chunk *chunk = event_pool_chunk(&table->events, id);
    struct found found;
    struct window_log log = {.newest = NULL};
    if (chunk == NULL
        || load_acquire(&chunk->owner) != owner) { // given back, and perhaps taken again
        return false;
    }
    bool leads = table_find(table, owner, table_home_of(table, owner), &found)
                 && (found.seen.word & BUCKET_LOG) != 0
                 && window_log_open(&log, &table->events, owner, found.seen);
    if (leads && found.seen.empty_at_ns <= now_ns && (found.seen.word & BUCKET_FLAGS) == 0
        && table_commit(&found, window_state_empty(found.seen, found.seen.empty_at_ns))) {
        window_log_free(&log);
        return true;
    }
    if (leads && chunk->swept != turn) {
        window_log_mark(&log, turn);
    }
    bool is_nobodys = !leads || chunk->swept != turn;
    if (is_nobodys) {
        event_pool_give(&table->events, id);
    }
    return is_nobodys;
}

bool table_sweep_events(struct table *table, uint64_t now_ns)
{
    struct sweep_part part = event_pool_sweep(&table->events);
    bool has_found = false;
    for (uint64_t i = 1; i <= part.count; i++) {
        uint32_t id = (uint32_t)(part.first + i);
        const struct chunk *chunk = event_pool_chunk(&table->events, id);
        uint64_t owner = chunk != NULL ? load_acquire(&chunk->owner) : 0;
        if (owner == 0) {
            has_found = true; // somebody gave it back meanwhile
            continue;
        }
        struct stripe *stripe = table_stripe_of(table, owner);
        table_lock_stripe(table, stripe);
        has_found |= sweep_locked(table, id, owner, part.turn, now_ns);
        lock_release(&stripe->lock);
    }
    event_pool_swept(&table->events, has_found);
    return has_found;
}
