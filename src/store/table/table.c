/* SPDX-License-Identifier: MIT
 *
 * The concurrent table. README.md in this folder explains the scheme; this is its contract.
 *
 *  Shared word          Written by                        Order    Pairs with
 *  slot tag             inserter, under the stripe's lock release  R1 -> A1 in look()
 *  slot state           any thread, by compare-and-swap   full     itself: owner, moment and remainder
 *                                                                  change together
 *  stripe reused_at_ns  inserter, under the lock          release  R2 -> A2 in table_latest_reuse()
 *  line lowered_from_ns refund and reset, by a maximum    full     R3 -> A3 in reuse()
 *  line displaced       inserter, under the lock          relaxed  nothing: see the price below
 *  stripe counters      inserter, under the lock          relaxed  nothing: statistics
 *
 *  A take      finds the slot by its tag, reads the state, looks at the tag again, decides, and swaps
 *              the state if it must change. It never locks, allocates or makes a system call.
 *  A refusal   only reads.
 *  Insertion   under the stripe's lock: looks again, picks a slot that was never used or whose bucket
 *              is drained, swaps its state to (owner, empty since X), then publishes the tag (R1).
 *              A drained state is first given the new owner bits only, which shuts its owner out.
 *  Reuse       X is the latest reading known to the stripe: max(now, reused_at_ns). It is published (R2)
 *              before the swap, so whoever no longer finds the former bucket sees that reading, and
 *              treats a missing bucket as empty since then: a lagging clock finds nothing forgotten
 *              too early.
 *
 *  Moving      a state with BUCKET_MOVED goes on in another table, and so does every key of a stripe
 *              with STRIPE_MOVED that has no state here. Whoever meets one, asks table_follow() where to
 *              look again (moving.c).
 *
 *  Lines       a state in which the mark BUCKET_LINE is set belongs to whoever keeps the lines: others
 *              find it and ask him (decide_anywhere), and its slot is not reused. He sets and clears it
 *              in the same swaps by which he decides, one bucket at a time (table_decide_in_line).
 *
 *  Marks       a state in which BUCKET_MARKED is set stands still: a take under several limits is deciding
 *              (together.c). Whoever meets it waits for the stripe's lock, under which no mark but one's
 *              own is ever seen (table_find_unmarked); its slot is not reused.
 *
 *  Why a stale take cannot hit the wrong bucket: between reading a tag and swapping a state, the slot
 *  may pass to another key.
 *    - The state was read before the reuse. No state of the new bucket ever equals it: X is above every
 *      moment that the former bucket ever had (it was drained at X, and whoever moves a moment back
 *      first writes down, in lowered_from_ns, where it was), while the new bucket never goes below X
 *      (takes and fills only move it up; refund and reset stop at table_latest_reuse() >= X). The
 *      swap fails.
 *    - The state was read after the reuse. A slot never passes directly between keys with equal owner
 *      bits, so it took two reuses to come to a key that looks like the old one; the first of them
 *      published its tag before the second began, and the second look at the tag sees that.
 *
 *  Progress: a swap fails only because another change of this slot succeeded (lock-free).
 *  Price of the races: a reader that misses a fresh insertion, or sees an old `displaced`, takes the lock
 *  and looks again; an insertion that lost its slot to a take tries the next one; the slots of a line in which
 *  something was given back stay unused until what was given back would have drained by itself. */
#include "store/table/table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/kinds.h"
#include "store/table/displaced.h"
#include "store/table/inside.h"
#include "store/table/siphash.h"
#include "sync/atomic.h"
#include "sync/backoff.h"

static uint64_t stripe_index_of(const struct table *table, uint64_t hash)
{
    return (uint64_t)(((uint128)(hash & ~TABLE_LOW_BITS) * table->stripe_count) >> 64);
}

struct stripe *table_stripe_of(const struct table *table, uint64_t hash)
{
    return &table->stripes[stripe_index_of(table, hash)];
}

uint64_t table_home_of(const struct table *table, uint64_t hash)
{
    return stripe_index_of(table, hash) * table->stripe_lines + (hash & (table->stripe_lines - 1));
}

uint64_t table_owner_of(uint64_t hash)
{
    return hash << (BUCKET_OWNER_SHIFT - 16) & BUCKET_OWNER_MASK; // bits 16 .. 31 of the hash
}

/* The line `distance` lines beyond home; a stripe is a ring. */
static struct line *probe_line(const struct table *table, uint64_t home, uint64_t distance)
{
    uint64_t ring = table->stripe_lines - 1;
    return &table->lines[(home & ~ring) | ((home + distance) & ring)];
}

static uint64_t probe_count(const struct table *table)
{
    return table->stripe_lines < TABLE_PROBE_LINES_MAX ? table->stripe_lines
                                                       : TABLE_PROBE_LINES_MAX;
}

/* Looks for the key in one line. Which slot it would be in is chance, so that is computed and not
 * branched on; that it is here, the processor may guess. */
static inline bool look(struct line *line, uint64_t hash, struct found *found)
{
    size_t slot = 0;
    for (size_t i = 1; i < TABLE_LINE_SLOTS; i++) {
        slot |= i & -(size_t)(load_relaxed(&line->tags[i]) == hash); // relaxed: looked at again
    }
    COMPUTED(slot);
    if (load_acquire(&line->tags[slot]) != hash) { // A1: sees the state that R1 follows
        return false;
    }
    found->line = line;
    found->state = &line->states[slot];
    found->seen = load_bucket(found->state);
    /* The second look. Acquire, though nothing follows: it may not move up. */
    return load_acquire(&line->tags[slot]) == hash
           && (found->seen.word & BUCKET_OWNER_MASK) == table_owner_of(hash);
}

__attribute__((noinline)) bool table_find(const struct table *table, uint64_t hash, uint64_t home,
                                          struct found *found)
{
    uint64_t displaced = load_relaxed(&table->lines[home].displaced);
    uint64_t hinted = displaced_distance(displaced, hash);
    if (hinted != 0 && look(probe_line(table, home, hinted), hash, found)) {
        return true;
    }
    for (uint64_t distance = 0; distance <= displaced_reach(displaced); distance++) {
        if (look(probe_line(table, home, distance), hash, found)) {
            return true;
        }
    }
    return false;
}

uint64_t table_latest_reuse(const struct stripe *stripe)
{
    return load_acquire(&stripe->reused_at_ns); // A2: pairs with R2
}

bool table_find_unmarked(struct table *table, uint64_t hash, uint64_t home, struct found *found)
{
    bool is_found = table_find(table, hash, home, found);
    if (is_found && (found->seen.word & BUCKET_MARKED) != 0) {
        struct stripe *stripe = table_stripe_of(table, hash);
        table_lock_stripe(table, stripe);
        is_found = table_find(table, hash, home, found);
        mutex_unlock(&stripe->mutex);
        assert(!is_found || (found->seen.word & BUCKET_MARKED) == 0);
    }
    return is_found;
}

/* Writes down that a bucket of this line is about to move back from this moment. */
static void note_lowering(struct line *line, struct weir_bucket from)
{
    uint64_t noted_ns = load_acquire(&line->lowered_from_ns);
    while (noted_ns < from.empty_at_ns
           && !cas_word(&line->lowered_from_ns, &noted_ns, from.empty_at_ns)) { // R3
    }
}

/* Whether a drained bucket has to stay: somebody waits for it or is deciding, or its key is locked out. */
static bool is_kept(const struct table *table, struct weir_bucket seen, uint64_t tag,
                    uint64_t since_ns)
{
    return (seen.word & BUCKET_FLAGS) != 0
           && ((seen.word & ~BUCKET_BLOCKED & BUCKET_FLAGS) != 0
               || table_block_ends_ns(table, tag) > since_ns);
}

static bool is_free(struct weir_bucket seen, uint64_t tag, uint64_t owner, uint64_t lowered_from_ns,
                    uint64_t since_ns)
{
    if (tag == 0) { // never used: no key has ever matched it
        return seen.empty_at_ns <= since_ns;
    }
    /* Strictly drained, and above every moment it had; and never between equal owner bits. */
    return seen.empty_at_ns < since_ns && lowered_from_ns < since_ns
           && (seen.word & BUCKET_OWNER_MASK) != owner;
}

/* Gives the state of a drained bucket to another owner, in two swaps. False: it was used after all.
 * The first swap only shuts the former owner out. Now nobody moves this state, and all that was given
 * back is noted: taking and giving back may have led to the very state that was seen. */
static bool reuse(struct line *line, int i, struct weir_bucket seen, uint64_t owner, uint64_t flags,
                  uint64_t since_ns)
{
    struct weir_bucket given = {since_ns, owner | flags};
    struct weir_bucket shut = {seen.empty_at_ns, (seen.word & ~BUCKET_OWNER_MASK) | owner};
    if (!cas_bucket(&line->states[i], seen, shut)) {
        return false;
    }
    bool is_high = load_acquire(&line->lowered_from_ns) >= since_ns; // A3: R3 came before `shut`
    bool done = cas_bucket(&line->states[i], shut, is_high ? seen : given);
    assert(done);
    return done && !is_high;
}

/* Tries to give one slot's state to the key; its tag comes later. Under the stripe's lock. */
static bool claim(struct table *table, struct stripe *stripe, struct line *line, int i,
                  uint64_t hash, uint64_t flags, uint64_t since_ns)
{
    uint64_t owner = table_owner_of(hash);
    uint64_t tag = load_relaxed(&line->tags[i]); // written under the lock only
    struct weir_bucket seen = load_bucket(&line->states[i]);
    uint64_t lowered_from_ns = load_acquire(&line->lowered_from_ns); // a first look
    bool is_partner = tag == table_block_of(hash); // a bucket and its block are wanted together
    if (is_partner || !is_free(seen, tag, owner, lowered_from_ns, since_ns)
        || is_kept(table, seen, tag, since_ns)) {
        return false;
    }
    if (tag == 0) {
        bool done =
            cas_bucket(&line->states[i], seen, (struct weir_bucket){since_ns, owner | flags});
        assert(done); // no key matches it
        (void)done;
    } else {
        store_release(&stripe->reused_at_ns,
                      since_ns); // R2: before the former bucket can be missed
        if (!reuse(line, i, seen, owner, flags, since_ns)) {
            return false;
        }
        table_free_events(table, tag, seen);
    }
    uint64_t *counter = tag == 0 ? &stripe->used_count : &stripe->reused_count;
    store_relaxed(counter, load_relaxed(counter) + 1);
    return true;
}

/* True if a hint still leads to a key of this home. Under the lock. */
static bool hint_is_good(const struct table *table, uint64_t home, unsigned i)
{
    uint64_t displaced = load_relaxed(&table->lines[home].displaced);
    const struct line *line = probe_line(table, home, hint_distance(displaced, i));
    for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
        uint64_t tag = load_relaxed(&line->tags[slot]);
        bool is_same_mark = (displaced >> hint_shift(i) & 0xff) == hint_mark(tag);
        if (tag != 0 && is_same_mark && table_home_of(table, tag) == home) {
            return true;
        }
    }
    return false;
}

/* Writes down, at home, that the key was put so far away. Where all hints are in use it can still be
 * found within the reach. Under the lock, before the tag is published. */
static void note_displaced(struct table *table, uint64_t hash, uint64_t home, uint64_t distance)
{
    uint64_t *word = &table->lines[home].displaced;
    uint64_t displaced = displaced_with_reach(load_relaxed(word), distance);
    for (unsigned i = 0; i < HINT_COUNT; i++) {
        if (hint_distance(displaced, i) == 0 || !hint_is_good(table, home, i)) {
            displaced = displaced_with_hint(displaced, i, hash, distance);
            break;
        }
    }
    store_relaxed(word, displaced); // relaxed: R1 follows
}

bool table_insert_locked(struct table *table, uint64_t hash, uint64_t home, uint64_t flags,
                         uint64_t now_ns)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    struct found found;
    if (table_find(table, hash, home, &found)) {
        return true; // another thread was faster
    }
    uint64_t reused_at_ns = load_relaxed(&stripe->reused_at_ns);
    if ((reused_at_ns & STRIPE_MOVED) != 0) {
        return true; // not here: whoever looks again will see that
    }
    uint64_t since_ns = now_ns > reused_at_ns ? now_ns : reused_at_ns;
    for (uint64_t distance = 0; distance < probe_count(table); distance++) {
        struct line *line = probe_line(table, home, distance);
        for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
            if (!claim(table, stripe, line, i, hash, flags, since_ns)) {
                continue;
            }
            if (distance != 0) {
                note_displaced(table, hash, home, distance);
            }
            store_release(&line->tags[i], hash); // R1: who sees this sees all that came before
            return true;
        }
    }
    store_relaxed(&stripe->full_count, load_relaxed(&stripe->full_count) + 1);
    return false;
}

void table_lock_stripe(struct table *table, struct stripe *stripe)
{
    bool is_heir = mutex_lock(&stripe->mutex);
    if (__builtin_expect(is_heir || stripe->epoch != table->epoch, 0)) {
        table_repair(table, stripe);
    }
}

/* Sees to it that a key has a slot, or that its stripe has moved. False: every slot that it could have
 * holds a live bucket. */
__attribute__((noinline)) static bool insert(struct table *table, uint64_t hash, uint64_t home,
                                             uint64_t now_ns)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    table_lock_stripe(table, stripe);
    bool done = table_insert_locked(table, hash, home, 0, now_ns);
    mutex_unlock(&stripe->mutex);
    return done;
}

bool table_put(struct table *table, uint64_t hash, struct weir_bucket bucket)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    uint64_t home = table_home_of(table, hash);
    for (uint64_t distance = 0; distance < probe_count(table); distance++) {
        struct line *line = probe_line(table, home, distance);
        for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
            if (load_relaxed(&line->tags[i]) != 0) {
                continue;
            }
            store_relaxed(&line->states[i].empty_at_ns, bucket.empty_at_ns);
            store_relaxed(&line->states[i].word, bucket.word);
            if (distance != 0) {
                note_displaced(table, hash, home, distance);
            }
            store_relaxed(&line->tags[i], hash);
            store_relaxed(&stripe->used_count, load_relaxed(&stripe->used_count) + 1);
            return true;
        }
    }
    return false;
}

/* Where an operation leaves the bucket, and what it says beside the decision: a take nothing. */
static struct outcome apply(struct weir_bucket bucket, const struct weir_request *request,
                            const struct charge *charge, uint64_t now_ns,
                            struct weir_detail *detail)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct outcome outcome = bucket_show(bucket, limit);
    if (request->operation == WEIR_TAKE) {
        return kind_take(bucket, limit, charge, now_ns);
    }
    *detail = (struct weir_detail){.existed = kind_is_live(bucket, limit, now_ns)};
    switch (request->operation) {
    case WEIR_TAKE: break;
    case WEIR_CAN_TAKE: outcome = kind_take(bucket, limit, charge, now_ns); break;
    case WEIR_FILL:
        outcome = kind_fill(bucket, limit, charge, now_ns, &detail->amount, &detail->full);
        break;
    case WEIR_REFUND: outcome = kind_refund(bucket, limit, charge, now_ns); break;
    case WEIR_SHOW:
        detail->amount = kind_level(bucket, limit, now_ns);
        detail->empty_at_ns = detail->existed ? kind_empty_at_ns(limit, outcome.moment) : 0;
        break;
    case WEIR_RESET:
        if (detail->existed) {
            outcome.moment = (struct span){now_ns, 0};
        }
        break;
    case WEIR_BLOCK:
    case WEIR_UNBLOCK: break;
    }
    return outcome;
}

static void answer(struct weir_decision *decision, const struct weir_request *request,
                   const struct charge *charge, struct outcome outcome, uint64_t now_ns)
{
    const struct weir_limit *limit = &request->rule->limit;
    if (request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE) {
        kind_answer_take(decision, limit, charge, outcome, now_ns);
    } else {
        kind_answer(decision, limit, outcome, now_ns);
    }
}

/* True if the bucket has to be written to come to this outcome. */
static bool changes(struct weir_bucket bucket, const struct weir_request *request,
                    struct outcome outcome)
{
    struct span moment = bucket_moment(bucket, &request->rule->limit);
    return request->operation != WEIR_CAN_TAKE
           && (outcome.moment.ns != moment.ns || outcome.moment.rest != moment.rest);
}

/* What does not move up is written down: it may come back to a state that it had (see the contract above,
 * and together.c). */
bool table_commit(const struct found *found, struct weir_bucket next)
{
    if (__builtin_expect(next.empty_at_ns <= found->seen.empty_at_ns, 0)) {
        note_lowering(found->line, found->seen);
    }
    return cas_bucket(found->state, found->seen, next);
}

/* Not one that charges nothing. */
bool table_heeds_line(const struct weir_request *request, const struct charge *charge)
{
    bool is_take = request->operation == WEIR_TAKE || request->operation == WEIR_CAN_TAKE;
    bool is_answered = request->cost_micro == 0 || (is_take && charge->never);
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

/* Not to what would charge nothing, unless it only looks. */
bool table_heeds_block(const struct weir_request *request, const struct charge *charge)
{
    switch (request->operation) {
    case WEIR_TAKE:
    case WEIR_CAN_TAKE: return charge->cost_micro != 0 && !charge->never;
    case WEIR_FILL: return charge->cost_micro != 0 && !charge->uncounted;
    case WEIR_SHOW: return true;
    case WEIR_REFUND:
    case WEIR_RESET:
    case WEIR_BLOCK:
    case WEIR_UNBLOCK: break;
    }
    return false;
}

static void answer_blocked(struct weir_decision *decision, const struct weir_limit *limit,
                           struct span moment, uint64_t ends_ns, uint64_t now_ns)
{
    kind_answer(decision, limit, (struct outcome){WEIR_BLOCKED, moment}, now_ns);
    decision->retry_after_ns = (int64_t)(ends_ns - now_ns);
}

/* What is said beside that: a fill spills all that it brings. */
static void detail_blocked(struct table *table, const struct weir_request *request,
                           struct weir_bucket bucket, uint64_t now_ns)
{
    if (request->detail != NULL) {
        struct weir_request look = *request;
        look.cost_micro = 0;
        struct charge nothing = table_charge(table, &look, now_ns);
        (void)apply(bucket, &look, &nothing, now_ns, request->detail);
        if (request->operation == WEIR_FILL) {
            request->detail->amount = amount_of(request->cost_micro, WEIR_UNIT);
        }
    }
}

/* How a request gets past what stands before the bucket's own level: a block, or those who wait. */
enum passage { PASSES, IS_ANSWERED, LOOKS_AGAIN };

static enum passage pass(struct table *table, const struct weir_request *request,
                         const struct charge *charge, uint64_t hash, const struct found *found,
                         uint64_t now_ns, struct weir_decision *decision)
{
    struct line_keeper *keeper = table->root->store.keeper;
    if ((found->seen.word & BUCKET_BLOCKED) != 0 && table_heeds_block(request, charge)) {
        uint64_t ends_ns;
        if (!table_is_blocked(table, hash, found, now_ns, &ends_ns)) {
            return LOOKS_AGAIN;
        }
        answer_blocked(decision, &request->rule->limit,
                       bucket_moment(found->seen, &request->rule->limit), ends_ns, now_ns);
        detail_blocked(table, request, found->seen, now_ns);
        return IS_ANSWERED;
    }
    if ((found->seen.word & BUCKET_LINE) != 0 && keeper != NULL
        && table_heeds_line(request, charge)) {
        if (!table_knows_lines(table)) {
            table_refuse(request, decision, 1);
            return IS_ANSWERED;
        }
        bool is_answered = keeper->meet(keeper, request, hash, now_ns, decision);
        return is_answered ? IS_ANSWERED : LOOKS_AGAIN; // nobody waits any longer
    }
    return PASSES;
}

bool table_locks_out(const struct weir_request *request, struct outcome outcome,
                     const struct weir_detail *detail)
{
    if (request->rule->limit.block_ns == 0) {
        return false;
    }
    return (request->operation == WEIR_TAKE && outcome.verdict == WEIR_LIMITED)
           || (request->operation == WEIR_FILL && outcome.verdict == WEIR_ALLOWED && detail->full
               && request->cost_micro != 0);
}

/* Swaps the state that was found for the next one, and locks the key out if that is what follows. False if
 * it changed meanwhile. Where there is no room for a block, the rest is done. */
static bool commit_outcome(struct table *table, const struct weir_request *request, uint64_t hash,
                           const struct found *found, struct weir_bucket next,
                           struct outcome outcome, const struct weir_detail *detail,
                           uint64_t now_ns)
{
    if (table_locks_out(request, outcome, detail)) {
        uint64_t ends_ns = kind_block_ends_ns(&request->rule->limit, outcome.moment, now_ns);
        enum block_result result = table_commit_blocked(table, hash, found, next, ends_ns, now_ns);
        if (result != BLOCK_NO_ROOM) {
            return result == BLOCK_DONE;
        }
    }
    bool is_same = next.empty_at_ns == found->seen.empty_at_ns && next.word == found->seen.word;
    return is_same || table_commit(found, next);
}

/* Blocks the key, or lets it in, wherever its bucket is now. False: that cannot be opened. */
static bool do_block(struct table *table, enum weir_operation operation, uint64_t hash,
                     struct block *block, uint64_t now_ns)
{
    uint64_t home;
    for (;;) {
        block->result = BLOCK_DONE;
        if (operation == WEIR_UNBLOCK) {
            table_unblock(table, hash, block, now_ns);
        } else {
            table_block(table, hash, block, now_ns);
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
    uint64_t block_ns = request->block_ns > 0 ? request->block_ns : 1;
    block_ns = block_ns < WEIR_BLOCK_NS_MAX ? block_ns : WEIR_BLOCK_NS_MAX;
    struct block block = {.ends_ns = now_ns + block_ns};
    if (!do_block(table, request->operation, hash, &block, now_ns)) {
        table_refuse(request, decision, 1);
        return;
    }
    struct span moment = kind_has_log(limit) ? table_window_moment(table, request, hash, now_ns)
                                             : bucket_moment(block.bucket, limit);
    if (block.result == BLOCK_NO_ROOM) {
        bucket_answer_failed(decision, limit);
    } else if (request->operation == WEIR_UNBLOCK) {
        kind_answer(decision, limit, (struct outcome){WEIR_ALLOWED, moment}, now_ns);
    } else {
        answer_blocked(decision, limit, moment, block.ends_ns, now_ns);
        if ((block.bucket.word & BUCKET_LINE) != 0 && keeper != NULL && table_knows_lines(table)) {
            struct weir_decision unused;
            (void)keeper->meet(keeper, request, hash, now_ns, &unused);
        }
    }
    if (request->detail != NULL) {
        *request->detail = (struct weir_detail){.existed = block.was_blocked};
    }
}

/* Decides wherever the bucket is, or makes one. */
__attribute__((noinline)) static void decide_anywhere(struct table *table,
                                                      const struct weir_request *request,
                                                      uint64_t hash, uint64_t home, uint64_t now_ns,
                                                      struct weir_decision *decision)
{
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
            if (!follow(&table, hash, &home)) {
                table_refuse(request, decision, 1);
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
        struct outcome outcome = apply(found.seen, request, &charge, now_ns, detail);
        bool is_change = changes(found.seen, request, outcome);
        struct weir_bucket next =
            is_change ? bucket_with_moment(found.seen, outcome.moment) : found.seen;
        if (is_found
            && !commit_outcome(table, request, hash, &found, next, outcome, detail, now_ns)) {
            back_off(&turns); // the bucket changed meanwhile
            continue;
        }
        answer(decision, request, &charge, outcome, now_ns);
        if (is_found || !is_change) {
            return;
        }
        if (!insert(table, hash, home, now_ns)) {
            if (request->rule->limit.on_full == WEIR_ON_FULL_REFUSE) {
                bucket_answer_failed(decision, &request->rule->limit);
            }
            return; // otherwise the answer stays, as if the bucket had been made
        }
    }
}

/* For those who keep the lines. */

/* As apply(); a take that may go only after the patience has run out is refused. */
static struct outcome apply_patiently(struct weir_bucket bucket, const struct weir_request *request,
                                      const struct charge *charge, uint64_t patience_ns,
                                      uint64_t now_ns, struct weir_detail *detail)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct outcome outcome = apply(bucket, request, charge, now_ns, detail);
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
    bool done = do_block(table, WEIR_BLOCK, id, &block, now_ns) && block.result == BLOCK_DONE;
    struct span moment = bucket_moment(block.bucket, &request->rule->limit);
    return (struct outcome){done ? WEIR_BLOCKED : WEIR_FAILED, moment};
}

static struct outcome table_decide_in_line(struct store *store, const struct weir_request *request,
                                           uint64_t id, const struct line_terms *terms,
                                           uint64_t now_ns)
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
                return (struct outcome){WEIR_FAILED, {now_ns, 0}};
            }
            continue;
        }
        bool is_found = where == FOUND;
        bool is_flagged = is_found && (found.seen.word & BUCKET_BLOCKED) != 0;
        if (is_flagged && request->operation != WEIR_SHOW && table_heeds_block(request, &charge)) {
            uint64_t ends_ns;
            if (table_is_blocked(table, id, &found, now_ns, &ends_ns)) {
                struct span moment = bucket_moment(found.seen, &request->rule->limit);
                detail_blocked(table, request, found.seen, now_ns);
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
        if (!table_knows_lines(table) && ((next.word | found.seen.word) & BUCKET_LINE) != 0) {
            return (struct outcome){WEIR_FAILED, outcome.moment};
        }
        bool is_same = next.empty_at_ns == found.seen.empty_at_ns && next.word == found.seen.word;
        bool is_take =
            request->operation == WEIR_TAKE; // who is refused may wait: the keeper blocks
        if (is_found && !is_take
            && commit_outcome(table, request, id, &found, next, outcome, detail, now_ns)) {
            return outcome;
        }
        if (is_same || (is_found && is_take && table_commit(&found, next))) {
            return outcome;
        }
        if (!is_found && !insert(table, id, home, now_ns)) {
            return (struct outcome){WEIR_FAILED, outcome.moment};
        }
    }
}

static void table_move_line(struct store *store, const struct weir_limit *limit, uint64_t id,
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
        if (table_commit(&found,
                         bucket_with_line(bucket_with_moment(found.seen, moment), move->stays))) {
            return;
        }
    }
    /* Never forgotten, while it is marked; but others may have taken the mark away who had this file open
     * before it was given another size, and so do not know of these lines. */
    assert(store->waiting_room != NULL);
}

/* What is known of a request on its way through a batch. */
struct step {
    uint64_t hash;
    uint64_t home;
    struct line *line; // where the key probably lives
};

/* A usual take from the bucket that was found. False if it changed meanwhile, or has to do more. */
ALWAYS_INLINE bool take_found(const struct found *found, const struct weir_limit *limit,
                              uint64_t span_ns, uint64_t now_ns, struct weir_decision *decision)
{
    struct outcome outcome = usual_take(found->seen, limit, span_ns, now_ns);
    struct weir_bucket next = bucket_with_moment(found->seen, outcome.moment);
    if (outcome.verdict == WEIR_ALLOWED && !cas_bucket(found->state, found->seen, next)) {
        back_off_for(BACKOFF_TURNS_FIRST);
        return false;
    }
    if (outcome.verdict == WEIR_LIMITED && __builtin_expect(limit->block_ns != 0, 0)) {
        return false; // it locks its key out
    }
    usual_answer(decision, limit, span_ns, outcome, now_ns);
    return true;
}

/* Any other take from the bucket that was found, unless there is more to it: its flags, or a refusal that blocks.
 * By itself, so that what it needs costs the usual take nothing. False if the bucket changed meanwhile. */
__attribute__((noinline, flatten)) static bool
take_otherwise(struct table *table, const struct weir_request *request, const struct found *found,
               uint64_t now_ns, struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    if ((found->seen.word & BUCKET_FLAGS) != 0 || limit->block_ns != 0 || kind_has_log(limit)) {
        return false;
    }
    struct charge charge = charge_of(limit, request->cost_micro);
    if (limit->kind == WEIR_KIND_FIXED && fixed_opens(bucket_moment(found->seen, limit), now_ns)) {
        charge.utc_offset_ns = table_utc_offset_ns(table, now_ns);
    }
    struct outcome outcome = kind_take(found->seen, limit, &charge, now_ns);
    struct weir_bucket next = bucket_with_moment(found->seen, outcome.moment);
    bool is_charged = outcome.verdict == WEIR_ALLOWED && request->cost_micro != 0;
    if (is_charged && !cas_bucket(found->state, found->seen, next)) { // up: takes lower nothing
        back_off_for(BACKOFF_TURNS_FIRST);
        return false;
    }
    kind_answer_take(decision, limit, &charge, outcome, now_ns);
    return true;
}

/* Decides, hoping for a take from a bucket that is where the step says, and best of all a usual one. */
ALWAYS_INLINE void decide_step(struct table *table, const struct weir_request *request,
                               const struct step *step, uint64_t now_ns,
                               struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    uint64_t span_ns = usual_span_ns(limit, request->cost_micro);
    struct found found;
    if (__builtin_expect(request->operation == WEIR_TAKE, 1)
        && __builtin_expect(look(step->line, step->hash, &found), 1)) {
        bool is_usual = span_ns != 0 && bucket_is_usual(found.seen);
        if (__builtin_expect(is_usual, 1)
                ? __builtin_expect(take_found(&found, limit, span_ns, now_ns, decision), 1)
                : take_otherwise(table, request, &found, now_ns, decision)) {
            return;
        }
    }
    decide_anywhere(table, request, step->hash, step->home, now_ns, decision);
}

struct weir_decision table_decide_hash(struct table *table, const struct weir_request *request,
                                       uint64_t hash, uint64_t now_ns)
{
    struct weir_decision decision;
    decide_anywhere(table, request, hash, table_home_of(table, hash), now_ns, &decision);
    return decision;
}

/* A hash is a tag, and 0 is the tag of a slot that was never used. */
static uint64_t tag_of(uint64_t hash)
{
    return hash + (hash == 0);
}

static void fetch(const void *line)
{
    __builtin_prefetch(line, 0, 3); // for reading: a refusal must not take the line from others
}

/* Where the key's home is. */
static inline void start_step(const struct table *table, struct step *step, uint64_t hash)
{
    step->hash = tag_of(hash);
    step->home = table_home_of(table, step->hash);
    step->line = &table->lines[step->home];
}

/* Guesses where the key lives, at home or where a hint says, and sends for that line. Free of
 * branches; whoever uses the guess looks properly. */
static inline void guess_step(const struct table *table, struct step *step)
{
    uint64_t distance = displaced_distance(load_relaxed(&step->line->displaced), step->hash);
    for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
        bool is_here = load_relaxed(&step->line->tags[i]) == step->hash;
        distance &= (uint64_t)is_here - 1;
    }
    step->line = probe_line(table, step->home, distance);
    fetch(step->line);
}

_Static_assert(TABLE_BATCH == 2 * TABLE_GROUP, "a batch is two groups");

enum { RUNS_AHEAD = 8 }; // requests whose stripes are sent for before one is locked

static inline void start_steps(const struct table *table, const struct weir_request *requests,
                               struct step *steps, size_t count)
{
    struct siphash_input inputs[TABLE_GROUP];
    uint64_t hashes[TABLE_GROUP];
    assert(count > 0);
    for (size_t i = 0; i < count; i++) {
        const struct weir_request *request = &requests[i];
        inputs[i] = (struct siphash_input){request->rule->hash_key, request->key, request->key_len};
    }
    siphash13_many(inputs, hashes, count);
    for (size_t i = 0; i < count; i++) {
        start_step(table, &steps[i], hashes[i]);
    }
}

/* In a child of the process that these buckets belong to; and of questions that make no sense. */
void table_refuse(const struct weir_request *requests, struct weir_decision *decisions,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bucket_answer_failed(&decisions[i], &requests[i].rule->limit);
        if (requests[i].detail != NULL) {
            *requests[i].detail = (struct weir_detail){.amount = {0}};
        }
    }
}

/* Sends for the stripes that runs will lock, of the requests up to `end`. */
static inline void fetch_stripes(const struct table *table, const struct weir_request *requests,
                                 const struct step *steps, size_t *fetched, size_t end)
{
    for (; *fetched < end; ++*fetched) {
        if (requests[*fetched].and_next) {
            __builtin_prefetch(table_stripe_of(table, steps[*fetched].hash), 1, 3);
        }
    }
}

/* Requests that are decided together. */
__attribute__((noinline)) static void decide_run(struct table *table,
                                                 const struct weir_request *requests,
                                                 const struct step *steps, uint64_t now_ns,
                                                 struct weir_decision *decisions, size_t count)
{
    uint64_t hashes[WEIR_TOGETHER_MAX];
    struct found found[WEIR_TOGETHER_MAX];
    bool is_usual = true;
    if (count > WEIR_TOGETHER_MAX) {
        table_refuse(requests, decisions, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        hashes[i] = steps[i].hash;
        is_usual = is_usual && requests[i].operation == WEIR_TAKE
                   && look(steps[i].line, hashes[i], &found[i]) && bucket_is_usual(found[i].seen);
    }
    if (is_usual && table_take_together(table, requests, hashes, found, decisions, count, now_ns)) {
        return;
    }
    table_decide_together(table, requests, hashes, decisions, count, now_ns);
}

/* Up to TABLE_BATCH requests. Waiting for memory is most of the price of a decision, so it is paid
 * for all of them at once: the lines are sent for before the first is looked at, and a displaced
 * bucket's own line is sent for TABLE_GROUP requests before it is decided on. No more than
 * TABLE_GROUP home lines are on their way at once: processors drop prefetches beyond some twenty,
 * without a word, and whoever needs the line then waits for it. */
static void decide_batch(struct table *table, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count, uint64_t *now_ns)
{
    struct step steps[TABLE_BATCH];
    assert(count > 0 && count <= TABLE_BATCH);
    size_t ahead = count < TABLE_GROUP ? count : TABLE_GROUP;
    start_steps(table, requests, steps, ahead);
    for (size_t i = 0; i < ahead; i++) {
        fetch(steps[i].line);
    }
    if (count > ahead) { // meanwhile
        start_steps(table, requests + ahead, steps + ahead, count - ahead);
    }
    if (*now_ns == STORE_NOW) {
        *now_ns = store_clock_now_ns(&table->clock);
    }
    for (size_t i = 0; i < ahead; i++) {
        guess_step(table, &steps[i]);
        if (i + ahead < count) {
            fetch(steps[i + ahead].line);
        }
    }
    for (size_t i = 0, first = 0, fetched = 0; i < count; i++) {
        if (i + ahead < count) {
            guess_step(table, &steps[i + ahead]);
        }
        if (__builtin_expect(requests[i].and_next && i + 1 < count, 0)) {
            size_t end = i + RUNS_AHEAD < count ? i + RUNS_AHEAD : count;
            fetch_stripes(table, requests, steps, &fetched, end);
            continue; // decided with the last of its run
        }
        if (__builtin_expect(i == first, 1)) {
            decide_step(table, &requests[i], &steps[i], *now_ns, &decisions[i]);
        } else {
            decide_run(table, requests + first, steps + first, *now_ns, decisions + first,
                       i + 1 - first);
        }
        first = i + 1;
    }
}

static void decide_one(struct table *table, const struct weir_request *request,
                       struct weir_decision *decision, uint64_t now_ns)
{
    struct step step;
    start_step(table, &step, siphash13(request->rule->hash_key, request->key, request->key_len));
    fetch(step.line);
    now_ns = now_ns == STORE_NOW ? store_clock_now_ns(&table->clock) : now_ns;
    guess_step(table, &step);
    decide_step(table, request, &step, now_ns, decision);
}

static size_t run_length(const struct weir_request *requests, size_t count)
{
    size_t length = 1;
    while (length < count && requests[length - 1].and_next) {
        length++;
    }
    return length;
}

/* How many of the next requests make a batch: what is decided together is not divided. */
static size_t batch_of(const struct weir_request *requests, size_t count)
{
    if (count <= TABLE_BATCH) {
        return count;
    }
    size_t some = TABLE_BATCH;
    while (some > 0 && requests[some - 1].and_next) {
        some--;
    }
    return some > 0 ? some : run_length(requests, count);
}

static void table_decide(struct store *store, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    if (__builtin_expect(*((struct table *)store)->guard == 0, 0)) {
        table_refuse(requests, decisions, count);
        return;
    }
    struct table *table = table_current(store);
    if (count == 1) {
        decide_one(table, requests, decisions, now_ns);
        return;
    }
    for (size_t at = 0; at < count;) {
        size_t some = batch_of(requests + at, count - at);
        if (some <= TABLE_BATCH) {
            decide_batch(table, requests + at, decisions + at, some, &now_ns);
        } else { // one run, and too long
            table_refuse(requests + at, decisions + at, some);
        }
        at += some;
    }
}

static uint64_t table_blocked_until_ns(const struct store *store, uint64_t id)
{
    return table_block_ends_ns(table_current(store), id);
}

static uint64_t table_id(const struct store *store, const struct weir_request *request)
{
    (void)store;
    return tag_of(siphash13(request->rule->hash_key, request->key, request->key_len));
}

static uint64_t events_bytes(const struct table *table)
{
    return table->events.header != NULL ? (table->events.chunk_count + 1) * CHUNK_BYTES : 0;
}

/* Of all but the events. */
static uint64_t table_bytes(const struct table *table)
{
    bool is_one_mapping = table->events_mapping.at == NULL;
    uint64_t bytes = table->mapping.bytes;
    return is_one_mapping && bytes != 0 ? bytes - events_bytes(table) : bytes;
}

static void table_stats(const struct store *store, struct weir_limiter_stats *stats)
{
    const struct table *table = table_current(store);
    *stats = (struct weir_limiter_stats){
        .memory_bytes = table_bytes(table),
        .slot_count = table->stripe_count * table->stripe_lines * TABLE_LINE_SLOTS,
        .events_bytes = events_bytes(table),
        .events_used_bytes = event_pool_used_count(&table->events) * CHUNK_BYTES,
        .events_full_count = event_pool_full_count(&table->events),
    };
    for (uint64_t i = 0; i < table->stripe_count; i++) { // relaxed: statistics
        stats->used_count += load_relaxed(&table->stripes[i].used_count);
        stats->reused_count += load_relaxed(&table->stripes[i].reused_count);
        stats->full_count += load_relaxed(&table->stripes[i].full_count);
    }
}

static void table_close(struct store *store)
{
    struct table *root = (struct table *)store;
    mapping_close(&root->guard_page);
    free(root->origin);
    for (struct table *table = root; table != NULL;) { // and those that it led to
        struct table *next = table->next;
        mapping_close(&table->mapping);
        mapping_close(&table->events_mapping);
        free(table);
        table = next;
    }
}

static uint64_t table_now_ns(const struct store *store)
{
    return store_clock_now_ns(&table_current(store)->clock);
}

static enum weir_status table_status(const struct store *store)
{
    const struct table *root = (const struct table *)store;
    if (load_relaxed(&root->is_lost) != 0) { // relaxed: nothing follows from it
        return WEIR_E_FILE;
    }
    return *root->guard != 0 ? WEIR_OK : WEIR_E_FORKED;
}

static const struct store_ops TABLE_OPS = {
    .decide = table_decide,
    .now_ns = table_now_ns,
    .status = table_status,
    .stats = table_stats,
    .id = table_id,
    .decide_in_line = table_decide_in_line,
    .decide_run_in_line = table_decide_together_in_line,
    .move_line = table_move_line,
    .blocked_until_ns = table_blocked_until_ns,
    .visit_events = table_visit_events,
    .close = table_close,
};

void table_init(struct table *table, struct line *lines, struct stripe *stripes,
                uint64_t stripe_count, uint64_t stripe_lines)
{
    static const uint64_t NOBODYS_CHILD = 1;
    assert(stripe_count > 0);
    assert(stripe_lines > 0 && (stripe_lines & (stripe_lines - 1)) == 0);
    *table = (struct table){
        .store = {.ops = &TABLE_OPS},
        .root = table,
        .current = table,
        .lines = lines,
        .stripes = stripes,
        .stripe_count = stripe_count,
        .stripe_lines = stripe_lines,
        .guard = &NOBODYS_CHILD,
    };
}
