/* SPDX-License-Identifier: MIT
 *
 * What the chapters on the table's buckets share; nobody else includes it.
 *
 *   table.c     batches, and the short way of a take; what a store offers
 *   single.c    one bucket, whatever is asked
 *   slots.c     where a bucket lives: finding it, making it, giving its slot to another key
 *   block.c     keys that are locked out
 *   moving.c    all of them, to another table; transfer.c: to another file; following.c: going on there;
 *               named.c: whether that file still has its name
 *   together.c  several at once, all or nothing; together_usual.c: the shortest way through it
 *   utc.c       the wall clock, for limits that go by the calendar
 *   window.c    the buckets that keep a log of events */
#ifndef WEIR_STORE_TABLE_INSIDE_H
#define WEIR_STORE_TABLE_INSIDE_H

#include "core/bucket_math.h"
#include "store/table/places.h"

/* Looks for the key wherever it can be. */
bool table_find(const struct table *table, uint64_t hash, uint64_t home, struct found *found);

/* The same, but a mark that was found has gone: waits for whoever decides about this bucket. */
bool table_find_unmarked(struct table *table, uint64_t hash, uint64_t home, struct found *found);

/* The latest reading at which a slot of this stripe was reused: no missing bucket was forgotten later,
 * and no bucket found began later. */
uint64_t table_latest_reuse(const struct stripe *stripe);

/* Whether a drained bucket has to stay: somebody waits for it or is deciding, or its key is locked out. */
bool table_is_kept(const struct table *table, struct weir_bucket seen, uint64_t tag,
                   uint64_t since_ns);

/* Locks a stripe, and makes it whole if its last holder died. */
static inline void table_lock_stripe(struct table *table, struct stripe *stripe)
{
    bool is_heir = lock_acquire(&stripe->lock, &table->members);
    if (__builtin_expect(is_heir || stripe->epoch != table->epoch, 0)) {
        table_repair(table, stripe);
    }
}

/* Sees to it, under the lock of its stripe, that the key has a slot; a new one begins with these flags.
 * Under on_full=evict that may be the slot of a live bucket, which is dropped (see slots.c).
 * False: every slot that it could have holds a live bucket, which is counted. */
bool table_insert_locked(struct table *table, uint64_t hash, uint64_t home, uint64_t flags,
                         enum weir_on_full on_full, uint64_t now_ns);

/* The same, taking that lock. True too if another thread was faster, or the stripe has moved: look again. */
bool table_insert(struct table *table, uint64_t hash, uint64_t home, enum weir_on_full on_full,
                  uint64_t now_ns);

static inline enum weir_on_full table_on_full(const struct weir_request *request)
{
    return (enum weir_on_full)request->rule->limit.on_full;
}

/* Swaps the state that was found for the next one. False if it changed meanwhile. */
bool table_commit(const struct found *found, struct weir_bucket next);

/* The same under the lock of its stripe, where no slot changes hands, and only if the slot is still this
 * key's, and has not been reused since. For all that moves a state back or marks it: of another key's bucket, that
 * would mint. */
bool table_commit_own(struct table *table, uint64_t hash, const struct found *found,
                      struct weir_bucket next);

/* Decides about one bucket wherever it is, or makes one. */
void table_decide_anywhere(struct table *table, const struct weir_request *request, uint64_t hash,
                           uint64_t home, uint64_t now_ns, struct weir_decision *decision);

/* As store_ops.decide_in_line(), and store_ops.move_line(). */
struct outcome table_decide_in_line(struct store *store, const struct weir_request *request,
                                    uint64_t id, const struct line_terms *terms, uint64_t now_ns);
void table_move_line(struct store *store, const struct weir_limit *limit, uint64_t id,
                     const struct line_move *move, uint64_t now_ns);

/* Whether this request has to let those pass who wait for the bucket. */
bool table_heeds_line(const struct weir_request *request, const struct charge *charge);

/* The locks of several stripes, each once, in the order of their addresses: whoever holds one waits for
 * those of higher addresses only. */
struct stripes {
    size_t count;
    struct stripe *at[WEIR_TOGETHER_MAX];
};

static inline void stripes_add(struct stripes *stripes, struct stripe *stripe)
{
    size_t at = stripes->count;
    while (at > 0 && stripes->at[at - 1] > stripe) {
        at--;
    }
    if (at > 0 && stripes->at[at - 1] == stripe) {
        return;
    }
    for (size_t i = stripes->count++; i > at; i--) {
        stripes->at[i] = stripes->at[i - 1];
    }
    stripes->at[at] = stripe;
}

static inline void stripes_lock(struct table *table, const struct stripes *stripes)
{
    for (size_t i = 0; i < stripes->count; i++) {
        table_lock_stripe(table, stripes->at[i]);
    }
}

static inline void stripes_unlock(const struct stripes *stripes)
{
    for (size_t i = stripes->count; i > 0; i--) {
        lock_release(&stripes->at[i - 1]->lock);
    }
}

/* Takes from 2 .. WEIR_TOGETHER_MAX usual buckets together, as they were found. False: nothing has
 * happened, and it is to be decided in the general way. */
bool table_take_together(struct table *table, const struct weir_request *requests,
                         const uint64_t *hashes, const struct found *found,
                         struct weir_decision *decisions, size_t count, uint64_t now_ns);

/* Decides 2 .. WEIR_TOGETHER_MAX requests together, whose keys have these hashes. */
void table_decide_together(struct table *table, const struct weir_request *requests,
                           const uint64_t *hashes, struct weir_decision *decisions, size_t count,
                           uint64_t now_ns);

/* As store_ops.decide_run_in_line(). */
bool table_decide_together_in_line(struct store *store, const struct weir_request *requests,
                                   const uint64_t *ids, const struct line_terms *terms,
                                   struct outcome *outcomes, size_t count, uint64_t now_ns);

/* The same state with its line's mark set or not. */
static inline struct weir_bucket bucket_with_line(struct weir_bucket bucket, bool is_marked)
{
    bucket.word = is_marked ? bucket.word | BUCKET_LINE : bucket.word & ~BUCKET_LINE;
    return bucket;
}

/* Whether a take that is allowed may go only after the patience of whoever waits has run out. */
static inline bool outcome_is_too_late(const struct weir_request *request,
                                       const struct charge *charge, struct outcome outcome,
                                       uint64_t patience_ns, uint64_t now_ns)
{
    return request->operation == WEIR_TAKE && outcome.verdict == WEIR_ALLOWED
           && bucket_delay_ns(&request->rule->limit, charge, outcome, now_ns) > patience_ns;
}

/* What a request's cost means under its limit, now. */
static inline struct charge table_charge(struct table *table, const struct weir_request *request,
                                         uint64_t now_ns)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct charge charge = charge_of(limit, request->cost_micro);
    if (__builtin_expect(limit->kind == WEIR_KIND_FIXED, 0)) {
        charge.utc_offset_ns = table_utc_offset_ns(table, now_ns);
    }
    return charge;
}

/* Decides about a window; window.c. */
void table_decide_window(struct table *table, const struct weir_request *request, uint64_t hash,
                         uint64_t now_ns, struct weir_decision *decision);

/* Of a SHOW: how many wait for the bucket that was seen so. Without a lock. */
void table_count_waiting(struct table *table, const struct weir_request *request, uint64_t hash,
                         struct weir_bucket seen, uint64_t now_ns);

/* The same for the keeper of lines, as store_ops.decide_in_line() says. */
struct outcome table_decide_window_in_line(struct table *table, const struct weir_request *request,
                                           uint64_t hash, const struct line_terms *terms,
                                           uint64_t now_ns);

/* The moment of a window, with its level for a remainder (window_outcome()). */
struct span table_window_moment(struct table *table, const struct weir_request *request,
                                uint64_t hash, uint64_t now_ns);

/* As store_ops.visit_drain(). */
void table_visit_drain(struct store *store, const struct weir_limit *limit, uint64_t id,
                       struct drain_visitor *visitor, uint64_t now_ns);

/* Gives back the events of a window whose slot was given away: the state was its last. Under the lock of
 * its stripe. */
void table_free_events(struct table *table, uint64_t tag, struct weir_bucket state);

/* Gives back some chunks that nobody needs any longer. False: it has found none. Under no lock. */
bool table_sweep_events(struct table *table, uint64_t now_ns);

/* Where the buckets are out of reach, for the keeper of lines. Failed, and on_error is for the keeper to heed; but a
 * cost above the capacity is never where on_error allows. */
struct outcome table_fail_in_line(const struct weir_request *request, const struct charge *charge,
                                  uint64_t now_ns);

/* Answers by on_error: this process may not use the buckets, or they are out of reach. `now_ns` may be STORE_NOW. */
void table_answer_undecided(struct table *table, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t now_ns);

/* ---- block.c ---- */

/* The hash under which the block of this key is found, and the other way round. It differs in low bits
 * only, so it lies in the same stripe. Of a keyed hash, so the chance that two keys meet there is that of
 * any two. */
static inline uint64_t table_block_of(uint64_t hash)
{
    uint64_t tag = hash ^ TABLE_BLOCK_BITS;
    return tag + (tag == 0); // 0 is the tag of a slot that was never used
}

/* The end of its block; 0 if there is none. Not to be relied on without the flag in its bucket. */
uint64_t table_block_ends_ns(const struct table *table, uint64_t hash);

/* Whether a block runs at `now_ns` for a bucket that was found with the flag; if so, *ends_ns is its end.
 * If not, look again: the bucket has changed, or its block was over and the flag has gone. */
bool table_is_blocked(struct table *table, uint64_t hash, const struct found *bucket,
                      uint64_t now_ns, uint64_t *ends_ns);

enum block_result { BLOCK_DONE, BLOCK_LOST, BLOCK_NO_ROOM };

/* Swaps the state that was found for the next one, and blocks the key until `*ends_ns` in the same
 * instant; then that is when its block ends, which may be later. Lost: the bucket changed meanwhile, or has
 * moved, so look again. No room: there is no slot for the block, which is counted, and nothing is done. */
enum block_result table_commit_blocked(struct table *table, uint64_t hash,
                                       const struct found *bucket, struct weir_bucket next,
                                       uint64_t *ends_ns, enum weir_on_full on_full,
                                       uint64_t now_ns);

/* The same in steps, under the stripe's lock: sees to it that there is a slot for a block (false: no room,
 * which is counted); then the bucket gets the flag; then its block ends at `ends_ns`, or when it does
 * already if that is later. */
bool table_make_block(struct table *table, uint64_t hash, enum weir_on_full on_full,
                      uint64_t now_ns);
uint64_t table_raise_block(const struct table *table, uint64_t hash, uint64_t ends_ns);

/* Ends a block at `now_ns`, or leaves its end where it was if that is earlier; the flag goes next. Under the
 * stripe's lock. */
void table_end_block(const struct table *table, uint64_t hash, uint64_t now_ns);

/*   result       lost: it has moved
 *   ends_ns      when the block is to end; then when it ends, which may be later
 *   bucket       how the bucket stands
 *   was_blocked  before this */
struct block {
    enum block_result result;
    uint64_t ends_ns;
    struct weir_bucket bucket;
    bool was_blocked;
};

/* Blocks a key, whether it has a bucket or not. */
void table_block(struct table *table, uint64_t hash, struct block *block, enum weir_on_full on_full,
                 uint64_t now_ns);

/* Lets it in. */
void table_unblock(struct table *table, uint64_t hash, struct block *block, uint64_t now_ns);

#endif
