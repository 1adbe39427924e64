/* SPDX-License-Identifier: MIT
 *
 * Who is locked out. A block is an entry of its own, found by a hash that derives from its bucket's: it
 * lies in the same stripe, and its moment is the block's end. The bucket's state has the flag
 * BUCKET_BLOCKED, which says that there may be such an entry: so whoever is not blocked never looks for
 * one. docs/design/block.md says why it is so.
 *
 *  Shared word            Written by
 *  flag of a bucket       under the stripe's lock, by compare-and-swap: nobody sets it while another clears it
 *  state of an entry      likewise: while a block is in it, it has BUCKET_IS_BLOCK
 *
 *  Blocking    sets the flag, then raises the entry. In between the bucket is flagged, and its entry is
 *              missing or over: whoever sees that takes the lock, and so waits for the end. By hand the
 *              bucket stands still meanwhile, with a mark as in together.c: so what the answer says of it
 *              was true when the block began.
 *  Unblocking  ends the entry, then clears the flag. Likewise.
 *  Looking     takes no lock: flag, entry, and the bucket once more. If it is still the same, there was
 *              an instant at which it stood so and the block ran until then.
 *  Ending      whoever finds the flag and no entry that runs looks again under the lock, ends the entry, clears
 *              the flag, and goes on. The first whose reading has come to the end does so for all.
 *
 *  Died in the middle: the flag without an entry that runs, which means not blocked.
 *  Reuse: table_is_kept() keeps the slot of a flagged bucket while its block runs, and the two
 *  never take each other's slot. An entry that is over is a drained slot like any other. */
#include <assert.h>

#include "store/table/inside.h"
#include "sync/atomic.h"

static bool find_entry(const struct table *table, uint64_t hash, struct found *entry)
{
    uint64_t tag = table_block_of(hash);
    return table_find(table, tag, table_home_of(table, tag), entry);
}

uint64_t table_block_ends_ns(const struct table *table, uint64_t hash)
{
    struct found entry;
    bool is_block = find_entry(table, hash, &entry) && (entry.seen.word & BUCKET_IS_BLOCK) != 0;
    return is_block ? entry.seen.empty_at_ns : 0;
}

/* ---- under the lock ---- */

/* Whether the buckets of this stripe are on their way to another table: then nothing here counts. */
static bool has_moved(const struct stripe *stripe)
{
    return (table_latest_reuse(stripe) & STRIPE_MOVED) != 0;
}

bool table_make_block(struct table *table, uint64_t hash, enum weir_on_full on_full,
                      uint64_t now_ns)
{
    uint64_t tag = table_block_of(hash);
    return table_insert_locked(table, tag, table_home_of(table, tag), 0, on_full, now_ns);
}

static void write_flag(const struct table *table, uint64_t hash, bool is_blocked)
{
    struct found bucket;
    while (table_find(table, hash, table_home_of(table, hash), &bucket)) {
        struct weir_bucket next = bucket.seen;
        next.word = is_blocked ? next.word | BUCKET_BLOCKED : next.word & ~BUCKET_BLOCKED;
        if (next.word == bucket.seen.word || table_commit(&bucket, next)) {
            return;
        }
    }
}

uint64_t table_raise_block(const struct table *table, uint64_t hash, uint64_t ends_ns)
{
    struct found entry;
    while (find_entry(table, hash, &entry)) {
        uint64_t was_ns = entry.seen.empty_at_ns;
        struct weir_bucket next = {was_ns > ends_ns ? was_ns : ends_ns,
                                   entry.seen.word | BUCKET_IS_BLOCK};
        if (cas_bucket(entry.state, entry.seen, next)) {
            return next.empty_at_ns;
        }
    }
    assert(false); // it was inserted under this lock
    return ends_ns;
}

/* It stops at the latest reuse, as everything that moves a state back; but that is not
 * written down in lowered_from_ns: nobody but who holds this lock ever swaps a state with a block in it, so
 * nobody else remembers one, and the slot is free at once. */
void table_end_block(const struct table *table, uint64_t hash, uint64_t now_ns)
{
    struct found entry;
    uint64_t reused_at_ns = table_latest_reuse(table_stripe_of(table, hash));
    uint64_t since_ns = now_ns > reused_at_ns ? now_ns : reused_at_ns;
    while (find_entry(table, hash, &entry) && (entry.seen.word & BUCKET_IS_BLOCK) != 0) {
        uint64_t was_ns = entry.seen.empty_at_ns;
        struct weir_bucket next = {was_ns < since_ns ? was_ns : since_ns,
                                   entry.seen.word & ~BUCKET_IS_BLOCK};
        if (cas_bucket(entry.state, entry.seen, next)) {
            return;
        }
    }
}

/* ---- without ---- */

/* Clears the flag of a bucket whose block is over. The entry goes first: else who blocks the key again would show
 * the former end, between flag and entry, to whoever lags behind that. */
static void forget_if_over(struct table *table, uint64_t hash, uint64_t now_ns)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    table_lock_stripe(table, stripe);
    if (!has_moved(stripe) && table_block_ends_ns(table, hash) <= now_ns) {
        table_end_block(table, hash, now_ns);
        write_flag(table, hash, false);
    }
    lock_release(&stripe->lock);
}

bool table_is_blocked(struct table *table, uint64_t hash, const struct found *bucket,
                      uint64_t now_ns, uint64_t *ends_ns)
{
    *ends_ns = table_block_ends_ns(table, hash);
    if (*ends_ns > now_ns) {
        struct weir_bucket again = load_bucket(bucket->state);
        return again.word == bucket->seen.word && again.empty_at_ns == bucket->seen.empty_at_ns;
    }
    forget_if_over(table, hash, now_ns);
    return false;
}

enum block_result table_commit_blocked(struct table *table, uint64_t hash,
                                       const struct found *bucket, struct weir_bucket next,
                                       uint64_t *ends_ns, enum weir_on_full on_full,
                                       uint64_t now_ns)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    enum block_result result = BLOCK_NO_ROOM;
    next.word |= BUCKET_BLOCKED;
    table_lock_stripe(table, stripe);
    if (has_moved(stripe)) {
        result = BLOCK_LOST;
    } else if (table_make_block(table, hash, on_full, now_ns)) {
        result = cas_bucket(bucket->state, bucket->seen, next) ? BLOCK_DONE : BLOCK_LOST;
    }
    if (result == BLOCK_DONE) {
        *ends_ns = table_raise_block(table, hash, *ends_ns);
    }
    lock_release(&stripe->lock);
    return result;
}

/* Makes a bucket stand still, with these flags from now on. False: there is none. Under the lock. */
static bool hold(const struct table *table, uint64_t hash, uint64_t flags, struct found *bucket)
{
    while (table_find(table, hash, table_home_of(table, hash), bucket)) {
        struct weir_bucket held = bucket->seen;
        held.word |= flags | BUCKET_MARKED;
        if (cas_bucket(bucket->state, bucket->seen, held)) {
            bucket->seen = held;
            return true;
        }
    }
    return false;
}

/* Lets it go on, blocked or not. */
static void let_go(const struct found *bucket, bool is_blocked)
{
    struct weir_bucket next = bucket->seen;
    next.word &= ~(is_blocked ? BUCKET_MARKED : BUCKET_MARKED | BUCKET_BLOCKED);
    store_bucket(bucket->state, bucket->seen, next); // whoever else comes here waits
}

/* How a key stands; a missing bucket counts as empty since the latest reuse. Under the lock. */
static void look(const struct table *table, uint64_t hash, struct block *block, uint64_t now_ns)
{
    struct found bucket = {.seen = {table_latest_reuse(table_stripe_of(table, hash)), 0}};
    bool is_found = table_find(table, hash, table_home_of(table, hash), &bucket);
    block->bucket = bucket.seen;
    block->was_blocked = is_found && (bucket.seen.word & BUCKET_BLOCKED) != 0
                         && table_block_ends_ns(table, hash) > now_ns;
}

void table_block(struct table *table, uint64_t hash, struct block *block, enum weir_on_full on_full,
                 uint64_t now_ns)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    struct found bucket;
    table_lock_stripe(table, stripe);
    bool has_room = table_insert_locked(table, hash, table_home_of(table, hash), 0, on_full, now_ns)
                    && table_make_block(table, hash, on_full, now_ns);
    look(table, hash, block, now_ns);
    block->result = has_moved(stripe) ? BLOCK_LOST : has_room ? BLOCK_DONE : BLOCK_NO_ROOM;
    if (block->result == BLOCK_DONE && hold(table, hash, BUCKET_BLOCKED, &bucket)) {
        block->bucket = bucket.seen;
        block->ends_ns = table_raise_block(table, hash, block->ends_ns);
        let_go(&bucket, true);
    }
    lock_release(&stripe->lock);
}

void table_unblock(struct table *table, uint64_t hash, struct block *block, uint64_t now_ns)
{
    struct stripe *stripe = table_stripe_of(table, hash);
    struct found bucket;
    table_lock_stripe(table, stripe);
    look(table, hash, block, now_ns);
    block->result = has_moved(stripe) ? BLOCK_LOST : BLOCK_DONE;
    if (block->result == BLOCK_DONE && (block->bucket.word & BUCKET_BLOCKED) != 0
        && hold(table, hash, 0, &bucket)) {
        block->bucket = bucket.seen;
        table_end_block(table, hash, now_ns);
        let_go(&bucket, false);
    }
    lock_release(&stripe->lock);
}
