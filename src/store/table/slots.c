/* SPDX-License-Identifier: MIT
 *
 * The concurrent table. README.md in this folder explains the scheme; this is its contract.
 *
 *  Shared word          Written by                        Order    Pairs with
 *  slot tag             inserter, under the stripe's lock release  R1 -> A1 in table_look()
 *  slot state           any thread, by compare-and-swap   acq_rel  itself: owner, moment and remainder
 *                                                                  change together
 *  stripe reused_at_ns  inserter, under the lock          release  R2 -> A2 in table_latest_reuse()
 *  line lowered_from_ns refund and reset, under the lock, acq_rel  R3 -> is_unchanged() in together.c
 *                       by a maximum
 *  line displaced       inserter, under the lock          relaxed  nothing: see the price below
 *  stripe counters      inserter, under the lock          relaxed  nothing: statistics
 *
 *  A take      finds the slot by its tag, reads the state, looks at the tag again, decides, and swaps
 *              the state if it must change. It never locks, allocates or makes a system call.
 *  A refusal   only reads.
 *  Moving back what does not raise a state, or sets a flag, is swapped under the stripe's lock
 *              (table_commit_own): so while that is held a state that is equal is unchanged.
 *  Insertion   under the stripe's lock: looks again, picks a slot that was never used or whose bucket
 *              is drained, swaps its state to (owner, empty since X), then publishes the tag (R1).
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
 *              find it and ask him (pass() in single.c), and its slot is not reused. He sets and clears it
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
 *  Evicting    where every slot that a key may have is live, and on_full=evict: the bucket that is nearest to empty
 *              is dropped as if it had drained at X. R2 comes first here too, so its key counts as empty
 *              since X, for a lagging clock as well. What is dropped, is forgiven: one capacity of that key at most.
 *              But X is not above the moments that this bucket had. A stale take fails because the owner bits
 *              differ. If the slot passes on, to a key with the same owner bits (1 in 65536) whose bucket comes to
 *              the very nanosecond and remainder that the sleeping thread has read, the swap succeeds. A take or
 *              fill then charges that key: too much for it, never too little. All else is swapped
 *              under the lock, where the tag tells (table_commit_own).
 *
 *  Progress: a swap fails only because another change of this slot succeeded (lock-free).
 *  Price of the races: a reader that misses a fresh insertion, or sees an old `displaced`, takes the lock
 *  and looks again; an insertion that lost its slot to a take tries the next one; the slots of a line in which
 *  something was given back stay unused until what was given back would have drained by itself. */
#include "store/table/table.h"

#include <assert.h>

#include "store/table/displaced.h"
#include "store/table/inside.h"
#include "store/table/places.h"
#include "sync/atomic.h"

__attribute__((noinline)) bool table_find(const struct table *table, uint64_t hash, uint64_t home,
                                          struct found *found)
{
    uint64_t displaced = load_relaxed(&table->lines[home].displaced);
    uint64_t hinted = displaced_distance(displaced, hash);
    if (hinted != 0 && table_look(probe_line(table, home, hinted), hash, found)) {
        return true;
    }
    for (uint64_t distance = 0; distance <= displaced_reach(displaced); distance++) {
        if (table_look(probe_line(table, home, distance), hash, found)) {
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
        lock_release(&stripe->lock);
        assert(!is_found || (found->seen.word & BUCKET_MARKED) == 0);
    }
    return is_found;
}

/* Writes down that a bucket of this line is about to move back from this moment. */
static void note_lowering(struct table_line *line, struct weir_bucket from)
{
    uint64_t noted_ns = load_acquire(&line->lowered_from_ns);
    while (noted_ns < from.empty_at_ns
           && !cas_word(&line->lowered_from_ns, &noted_ns, from.empty_at_ns)) { // R3
    }
}

bool table_is_kept(const struct table *table, struct weir_bucket seen, uint64_t tag,
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

static void count(uint64_t *counter)
{
    store_relaxed(counter, load_relaxed(counter) + 1); // under the lock: a statistic
}

/* Tries to give one slot's state to the key; its tag comes later. Under the stripe's lock. */
static bool claim(struct table *table, struct stripe *stripe, struct table_line *line, int i,
                  uint64_t hash, uint64_t flags, uint64_t since_ns)
{
    uint64_t owner = table_owner_of(hash);
    uint64_t tag = load_relaxed(&line->tags[i]); // written under the lock only
    struct weir_bucket seen = load_bucket(&line->states[i]);
    uint64_t lowered_from_ns = load_relaxed(&line->lowered_from_ns); // likewise
    bool is_partner = tag == table_block_of(hash); // a bucket and its block are wanted together
    if (is_partner || !is_free(seen, tag, owner, lowered_from_ns, since_ns)
        || table_is_kept(table, seen, tag, since_ns)) {
        return false;
    }
    if (tag != 0) { // R2: before the former bucket can be missed
        store_release(&stripe->reused_at_ns, since_ns);
    }
    if (!cas_bucket(&line->states[i], seen, (struct weir_bucket){since_ns, owner | flags})) {
        assert(tag != 0); // no key matches one that was never used
        return false;
    }
    if (tag != 0) {
        table_free_events(table, tag, seen);
    }
    count(tag == 0 ? &stripe->used_count : &stripe->reused_count);
    return true;
}

/* True if a hint still leads to a key of this home. Under the lock. */
static bool hint_is_good(const struct table *table, uint64_t home, unsigned i)
{
    uint64_t displaced = load_relaxed(&table->lines[home].displaced);
    const struct table_line *line = probe_line(table, home, hint_distance(displaced, i));
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

/* Gives the slot to the key, whose state it has. Under the lock. */
static void publish(struct table *table, struct table_line *line, int i, uint64_t hash,
                    uint64_t home, uint64_t distance)
{
    if (distance != 0) {
        note_displaced(table, hash, home, distance);
    }
    store_release(&line->tags[i], hash); // R1: who sees this sees all that came before
}

/* ---- on_full=evict ---- */

/* How often an insertion looks for another bucket when the one that it chose is charged meanwhile. */
enum { EVICTION_TRIES_MAX = 4 };

/* A live bucket whose slot a key may get. */
struct victim {
    struct table_line *line;
    int slot;
    uint64_t distance;
    struct weir_bucket seen;
};

/* Whether a live bucket may be dropped: none that is locked out, is waited for, stands still, has moved or has
 * events; no block; and none that its own key could be taken for. One that begins now stays: it has not been
 * charged yet. */
static bool may_be_dropped(struct weir_bucket seen, uint64_t tag, uint64_t hash, uint64_t since_ns)
{
    const uint64_t kept = BUCKET_FLAGS | BUCKET_IS_BLOCK | BUCKET_LOG;
    return tag != 0 && tag != table_block_of(hash) && (seen.word & kept) == 0
           && seen.empty_at_ns > since_ns
           && (seen.word & BUCKET_OWNER_MASK) != table_owner_of(hash);
}

/* The one that is nearest to empty. False: none may be dropped. */
static bool choose_victim(const struct table *table, uint64_t hash, uint64_t home,
                          uint64_t since_ns, struct victim *victim)
{
    victim->seen.empty_at_ns = UINT64_MAX;
    for (uint64_t distance = 0; distance < probe_count(table); distance++) {
        struct table_line *line = probe_line(table, home, distance);
        for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
            uint64_t tag = load_relaxed(&line->tags[i]); // written under the lock only
            struct weir_bucket seen = load_bucket(&line->states[i]);
            if (may_be_dropped(seen, tag, hash, since_ns)
                && seen.empty_at_ns < victim->seen.empty_at_ns) {
                *victim = (struct victim){line, i, distance, seen};
            }
        }
    }
    return victim->seen.empty_at_ns != UINT64_MAX;
}

/* Gives the key the slot of a live bucket. False: none may be dropped, or they are too busy. */
static bool evict(struct table *table, struct stripe *stripe, uint64_t hash, uint64_t home,
                  uint64_t flags, uint64_t since_ns)
{
    const struct weir_bucket given = {since_ns, table_owner_of(hash) | flags};
    struct victim victim;
    for (int i = 0; i < EVICTION_TRIES_MAX && choose_victim(table, hash, home, since_ns, &victim);
         i++) {
        store_release(&stripe->reused_at_ns, since_ns); // R2
        if (cas_bucket(&victim.line->states[victim.slot], victim.seen, given)) {
            count(&stripe->evicted_count);
            publish(table, victim.line, victim.slot, hash, home, victim.distance);
            return true;
        }
    }
    return false;
}

bool table_insert_locked(struct table *table, uint64_t hash, uint64_t home, uint64_t flags,
                         enum weir_on_full on_full, uint64_t now_ns)
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
        struct table_line *line = probe_line(table, home, distance);
        for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
            if (claim(table, stripe, line, i, hash, flags, since_ns)) {
                publish(table, line, i, hash, home, distance);
                return true;
            }
        }
    }
    if (on_full == WEIR_ON_FULL_EVICT && evict(table, stripe, hash, home, flags, since_ns)) {
        return true;
    }
    count(&stripe->full_count);
    return false;
}

bool table_insert(struct table *table, uint64_t hash, uint64_t home, enum weir_on_full on_full,
                  uint64_t now_ns)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    table_lock_stripe(table, stripe);
    bool done = table_insert_locked(table, hash, home, 0, on_full, now_ns);
    lock_release(&stripe->lock);
    return done;
}

void table_put_at(struct table *table, uint64_t line, int slot, uint64_t hash,
                  struct weir_bucket bucket)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    struct weir_bucket *state = &table->lines[line].states[slot];
    store_relaxed(&state->empty_at_ns, bucket.empty_at_ns);
    store_relaxed(&state->word, bucket.word);
    store_relaxed(&table->lines[line].tags[slot], hash);
    store_relaxed(&stripe->used_count, load_relaxed(&stripe->used_count) + 1);
}

bool table_put(struct table *table, uint64_t hash, struct weir_bucket bucket)
{
    uint64_t home = table_home_of(table, hash);
    for (uint64_t distance = 0; distance < probe_count(table); distance++) {
        struct table_line *line = probe_line(table, home, distance);
        for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
            if (load_relaxed(&line->tags[i]) != 0) {
                continue;
            }
            if (distance != 0) {
                note_displaced(table, hash, home, distance);
            }
            table_put_at(table, (uint64_t)(line - table->lines), i, hash, bucket);
            return true;
        }
    }
    return false;
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

/* Whether this would move a bucket back to before the latest reuse. The bucket may have been dropped, and made
 * again, since its key looked when that was. In a line it stays where it is. */
static bool is_too_far_back(const struct stripe *stripe, struct weir_bucket seen,
                            struct weir_bucket next)
{
    return next.empty_at_ns < seen.empty_at_ns && (seen.word & BUCKET_LINE) == 0
           && next.empty_at_ns < load_relaxed(&stripe->reused_at_ns);
}

bool table_commit_own(struct table *table, uint64_t hash, const struct found *found,
                      struct weir_bucket next)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    table_lock_stripe(table, stripe);
    uint64_t tag = load_relaxed(&found->line->tags[found->state - found->line->states]);
    bool done =
        tag == hash && !is_too_far_back(stripe, found->seen, next) && table_commit(found, next);
    lock_release(&stripe->lock);
    return done;
}
