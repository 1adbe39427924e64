/* SPDX-License-Identifier: MIT
 *
 * One bucket, whatever is asked: takes that are not usual, the other operations, a bucket that has to be made,
 * one that is locked out or for which somebody waits. Then the same for those who keep the lines. A window
 * goes its own way (window.c), and several buckets at once another (together.c). */
#include <assert.h>

#include "core/decision.h"
#include "core/operation.h"
#include "core/undecided.h"
#include "store/table/inside.h"
#include "sync/backoff.h"

/* Not one that charges nothing. */
bool table_heeds_line(const struct weir_request *request, const struct charge *charge)
{
    bool is_answered = request->cost_micro == 0 || (request_is_take(request) && charge->never);
    return request->operation == WEIR_RESET || (request->operation != WEIR_SHOW && !is_answered);
}

/* What a search has come to. */
enum whereabouts { FOUND, MISSING, MOVED };

/* Looks for the bucket of a request; one that is missing counts as empty since the latest reuse. What
 * moves a state back must not move it to before that (see the contract above), so *now_ns may rise: it
 * is read after the search, no earlier than the reuse that gave a found bucket its slot. */
static enum whereabouts find_or_assume(struct table *table, const struct weir_request *request,
                                       uint64_t hash, uint64_t home, struct found *found,
                                       uint64_t *now_ns)
{
    bool moves_back = request->operation == WEIR_REFUND || request->operation == WEIR_RESET;
    bool is_found = table_find_unmarked(table, hash, home, found);
    if (is_found && (found->seen.word & BUCKET_MOVED) != 0) {
        return MOVED;
    }
    if (!is_found || moves_back) {
        uint64_t reused_at_ns = table_latest_reuse(table_stripe_of(table, hash));
        if ((reused_at_ns & STRIPE_MOVED) != 0) {
            return MOVED;
        }
        *now_ns = moves_back && *now_ns < reused_at_ns ? reused_at_ns : *now_ns;
        found->seen = is_found ? found->seen : (struct weir_bucket){reused_at_ns, 0};
    }
    return is_found ? FOUND : MISSING;
}

/* Goes on in the table in which to look again. False: it cannot be opened. */
static bool follow(struct table **table, uint64_t hash, uint64_t *home)
{
    *table = table_follow(*table, hash);
    *home = *table != NULL ? table_home_of(*table, hash) : 0;
    return *table != NULL;
}

void table_count_waiting(struct table *table, const struct weir_request *request, uint64_t hash,
                         struct weir_bucket seen, uint64_t now_ns)
{
    struct line_keeper *keeper = table->root->store.keeper;
    if (request->operation == WEIR_SHOW && request->detail != NULL && keeper != NULL
        && (seen.word & BUCKET_LINE) != 0) {
        request->detail->waiting = keeper->count(keeper, hash, now_ns);
    }
}

/* How a request gets past what stands before the bucket's own level: a block, or those who wait. */
enum passage { PASSES, IS_ANSWERED, LOOKS_AGAIN };

static enum passage pass(struct table *table, const struct weir_request *request,
                         const struct charge *charge, uint64_t hash, const struct found *found,
                         uint64_t now_ns, struct weir_decision *decision)
{
    struct line_keeper *keeper = table->root->store.keeper;
    if ((found->seen.word & BUCKET_BLOCKED) != 0 && operation_heeds_block(request, charge)) {
        uint64_t ends_ns;
        if (!table_is_blocked(table, hash, found, now_ns, &ends_ns)) {
            return LOOKS_AGAIN;
        }
        operation_answer_blocked(decision, &request->rule->limit,
                                 bucket_moment(found->seen, &request->rule->limit), ends_ns,
                                 now_ns);
        operation_detail_blocked(request, found->seen, now_ns);
        table_count_waiting(table, request, hash, found->seen, now_ns);
        return IS_ANSWERED;
    }
    if ((found->seen.word & BUCKET_LINE) != 0 && keeper != NULL
        && table_heeds_line(request, charge)) {
        bool is_answered = keeper->meet(keeper, request, hash, now_ns, decision);
        return is_answered ? IS_ANSWERED : LOOKS_AGAIN; // nobody waits any longer
    }
    return PASSES;
}

/* Swaps the state that was found for the next one, and locks the key out if that is what follows, until
 * *ends_ns. False if it changed meanwhile. Where there is no room for a block, the rest is done. */
static bool commit_outcome(struct table *table, const struct weir_request *request, uint64_t hash,
                           const struct found *found, struct weir_bucket next,
                           struct outcome outcome, const struct weir_detail *detail,
                           uint64_t now_ns, uint64_t *ends_ns)
{
    if (operation_locks_out(request, outcome, detail)) {
        *ends_ns = kind_block_ends_ns(&request->rule->limit, outcome.moment, now_ns);
        enum block_result result =
            table_commit_blocked(table, hash, found, next, ends_ns, table_on_full(request), now_ns);
        if (result != BLOCK_NO_ROOM) {
            return result == BLOCK_DONE;
        }
    }
    *ends_ns = 0;
    bool is_same = next.empty_at_ns == found->seen.empty_at_ns && next.word == found->seen.word;
    if (is_same) {
        return true;
    }
    return next.empty_at_ns > found->seen.empty_at_ns ? table_commit(found, next)
                                                      : table_commit_own(table, hash, found, next);
}

/* Blocks the key, or lets it in, wherever its bucket is now. False: that cannot be opened. */
static bool do_block(struct table *table, const struct weir_request *request,
                     enum weir_operation operation, uint64_t hash, struct block *block,
                     uint64_t now_ns)
{
    uint64_t home;
    for (;;) {
        block->result = BLOCK_DONE;
        if (operation == WEIR_UNBLOCK) {
            table_unblock(table, hash, block, now_ns);
        } else {
            table_block(table, hash, block, table_on_full(request), now_ns);
        }
        if (block->result != BLOCK_LOST) {
            return true;
        }
        if (!follow(&table, hash, &home)) {
            return false;
        }
    }
}

/* Then those who wait for it are told. */
static void decide_block(struct table *table, const struct weir_request *request, uint64_t hash,
                         uint64_t now_ns, struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct line_keeper *keeper = table->root->store.keeper;
    struct block block = {.ends_ns = operation_block_ends_ns(request, now_ns)};
    if (!do_block(table, request, request->operation, hash, &block, now_ns)) {
        table_answer_undecided(table, request, decision, 1, now_ns);
        return;
    }
    struct span moment = kind_has_log(limit) ? table_window_moment(table, request, hash, now_ns)
                                             : bucket_moment(block.bucket, limit);
    if (block.result == BLOCK_NO_ROOM) {
        bucket_answer_failed(decision, limit);
    } else if (request->operation == WEIR_UNBLOCK) {
        kind_answer(decision, limit, (struct outcome){WEIR_ALLOWED, moment}, now_ns);
    } else {
        operation_answer_blocked(decision, limit, moment, block.ends_ns, now_ns);
        if ((block.bucket.word & BUCKET_LINE) != 0 && keeper != NULL) {
            struct weir_decision unused;
            (void)keeper->meet(keeper, request, hash, now_ns, &unused);
        }
    }
    if (request->detail != NULL) {
        *request->detail = (struct weir_detail){.existed = block.was_blocked};
    }
}

void table_decide_anywhere(struct table *table, const struct weir_request *request, uint64_t hash,
                           uint64_t home, uint64_t now_ns, struct weir_decision *decision)
{
    if (!request_makes_sense(request)) {
        answer_nonsense(request, decision, 1);
        return;
    }
    if (request->operation == WEIR_BLOCK || request->operation == WEIR_UNBLOCK) {
        decide_block(table, request, hash, now_ns, decision);
        return;
    }
    if (kind_has_log(&request->rule->limit)) {
        table_decide_window(table, request, hash, now_ns, decision);
        return;
    }
    struct charge charge = table_charge(table, request, now_ns);
    struct weir_detail unused;
    struct weir_detail *detail = request->detail != NULL ? request->detail : &unused;
    struct found found;
    uint64_t reading_ns = now_ns;
    unsigned turns = BACKOFF_TURNS_FIRST;
    for (;;) {
        enum whereabouts where = find_or_assume(table, request, hash, home, &found, &now_ns);
        if (__builtin_expect(where == MOVED, 0)) {
            struct table *before = table;
            if (!follow(&table, hash, &home)) {
                table_answer_undecided(before, request, decision, 1, now_ns);
                return;
            }
            continue;
        }
        bool is_found = where == FOUND;
        enum passage passage =
            is_found ? pass(table, request, &charge, hash, &found, reading_ns, decision) : PASSES;
        if (passage == IS_ANSWERED) {
            return;
        }
        if (passage == LOOKS_AGAIN) {
            continue;
        }
        struct outcome outcome = operation_apply(found.seen, request, &charge, now_ns, detail);
        bool is_change = operation_changes(found.seen, request, outcome);
        struct weir_bucket next =
            is_change ? bucket_with_moment(found.seen, outcome.moment) : found.seen;
        uint64_t ends_ns = 0;
        if (is_found
            && !commit_outcome(table, request, hash, &found, next, outcome, detail, now_ns,
                               &ends_ns)) {
            back_off(&turns); // the bucket changed meanwhile
            continue;
        }
        operation_answer(decision, request, &charge, outcome, now_ns);
        decision_lock_out(decision, ends_ns, now_ns);
        table_count_waiting(table, request, hash, found.seen, reading_ns);
        if (is_found || !is_change) {
            return;
        }
        if (!table_insert(table, hash, home, table_on_full(request), now_ns)) {
            if (table_on_full(request) != WEIR_ON_FULL_ALLOW) {
                bucket_answer_failed(decision, &request->rule->limit);
            }
            return; // otherwise the answer stays, as if the bucket had been made
        }
    }
}

/* ---- for those who keep the lines ---- */

/* As operation_apply(); a take that may go only after the patience has run out is refused. */
static struct outcome apply_patiently(struct weir_bucket bucket, const struct weir_request *request,
                                      const struct charge *charge, uint64_t patience_ns,
                                      uint64_t now_ns, struct weir_detail *detail)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct outcome outcome = operation_apply(bucket, request, charge, now_ns, detail);
    if (outcome_is_too_late(request, charge, outcome, patience_ns, now_ns)) {
        return (struct outcome){WEIR_LIMITED, bucket_moment(bucket, limit)};
    }
    return outcome;
}

/* Whether there is room for it or not: the refusal that it follows stands. */
static struct outcome block_in_line(struct table *table, const struct weir_request *request,
                                    uint64_t id, uint64_t now_ns)
{
    struct block block = {.ends_ns = now_ns + request->block_ns};
    bool done =
        do_block(table, request, WEIR_BLOCK, id, &block, now_ns) && block.result == BLOCK_DONE;
    struct span moment = bucket_moment(block.bucket, &request->rule->limit);
    return (struct outcome){done ? WEIR_BLOCKED : WEIR_FAILED, moment};
}

struct outcome table_fail_in_line(const struct weir_request *request, const struct charge *charge,
                                  uint64_t now_ns)
{
    struct weir_detail unused;
    struct outcome outcome = undecided_outcome(request, charge, &unused, now_ns);
    outcome.verdict = outcome.verdict == WEIR_ALLOWED ? WEIR_FAILED : outcome.verdict;
    return outcome;
}

struct outcome table_decide_in_line(struct store *store, const struct weir_request *request,
                                    uint64_t id, const struct line_terms *terms, uint64_t now_ns)
{
    struct table *table = table_current(store);
    struct charge charge = table_charge(table, request, now_ns);
    uint64_t home = table_home_of(table, id);
    struct weir_detail unused;
    struct weir_detail *detail = request->detail != NULL ? request->detail : &unused;
    struct found found;
    if (request->operation == WEIR_BLOCK) {
        return block_in_line(table, request, id, now_ns);
    }
    if (kind_has_log(&request->rule->limit)) {
        return table_decide_window_in_line(table, request, id, terms, now_ns);
    }
    for (;;) {
        enum whereabouts where = find_or_assume(table, request, id, home, &found, &now_ns);
        if (__builtin_expect(where == MOVED, 0)) {
            if (!follow(&table, id, &home)) {
                return table_fail_in_line(request, &charge, now_ns);
            }
            continue;
        }
        uint64_t ends_ns; // of a block
        bool is_found = where == FOUND;
        bool is_flagged = is_found && (found.seen.word & BUCKET_BLOCKED) != 0;
        if (is_flagged && request->operation != WEIR_SHOW
            && operation_heeds_block(request, &charge)) {
            if (table_is_blocked(table, id, &found, now_ns, &ends_ns)) {
                struct span moment = bucket_moment(found.seen, &request->rule->limit);
                operation_detail_blocked(request, found.seen, now_ns);
                return (struct outcome){WEIR_BLOCKED, moment};
            }
            continue;
        }
        struct outcome outcome =
            apply_patiently(found.seen, request, &charge, terms->patience_ns, now_ns, detail);
        bool stays =
            outcome.verdict == WEIR_ALLOWED ? terms->stays_if_allowed : terms->stays_if_refused;
        struct span kept = request->operation != WEIR_CAN_TAKE
                               ? outcome.moment
                               : bucket_moment(found.seen, &request->rule->limit);
        struct weir_bucket next = bucket_with_line(bucket_with_moment(found.seen, kept), stays);
        bool is_same = next.empty_at_ns == found.seen.empty_at_ns && next.word == found.seen.word;
        bool is_take =
            request->operation == WEIR_TAKE; // who is refused may wait: the keeper blocks
        if (is_found && !is_take
            && commit_outcome(table, request, id, &found, next, outcome, detail, now_ns,
                              &ends_ns)) {
            return outcome;
        }
        if (is_same || (is_found && is_take && table_commit_own(table, id, &found, next))) {
            return outcome;
        }
        if (!is_found && !table_insert(table, id, home, table_on_full(request), now_ns)) {
            return (struct outcome){WEIR_FAILED, outcome.moment};
        }
    }
}

void table_move_line(struct store *store, const struct weir_limit *limit, uint64_t id,
                     const struct line_move *move, uint64_t now_ns)
{
    struct table *table = table_current(store);
    uint64_t denominator = limit->denominator;
    uint64_t home = table_home_of(table, id);
    struct found found;
    while (table_find_unmarked(table, id, home, &found)) {
        if ((found.seen.word & BUCKET_MOVED) != 0) {
            if (!follow(&table, id, &home)) {
                return; // nobody can be served from here any longer
            }
            continue;
        }
        struct span later = span_add(bucket_moment(found.seen, limit), move->later, denominator);
        struct span moment = span_sub_or_zero(later, move->earlier, denominator);
        bool is_moved = span_less((struct span){0, 0}, move->later)
                        || span_less((struct span){0, 0}, move->earlier);
        moment = is_moved ? bucket_start(moment, now_ns) : bucket_moment(found.seen, limit);
        if (table_commit_own(
                table, id, &found,
                bucket_with_line(bucket_with_moment(found.seen, moment), move->stays))) {
            return;
        }
    }
    /* Never forgotten, while it is marked. What lies in memory that others write, too, is not asserted. */
    assert(((const struct table *)store)->waiting.room != NULL);
}

void table_answer_undecided(struct table *table, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    if (now_ns == STORE_NOW) {
        now_ns = store_clock_now_ns(&table->clock);
    }
    answer_undecided(requests, decisions, count,
                     now_ns + table_seen_utc_offset_ns(&table->root->store));
}

struct weir_decision table_decide_hash(struct table *table, const struct weir_request *request,
                                       uint64_t hash, uint64_t now_ns)
{
    struct weir_decision decision;
    table_decide_anywhere(table, request, hash, table_home_of(table, hash), now_ns, &decision);
    return decision;
}
