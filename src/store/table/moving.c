/* SPDX-License-Identifier: MIT
 *
 * How buckets move to another table without losing one, or a charge.
 *
 *  Shared word          Written by                             Order    Pairs with
 *  BUCKET_MOVED         the mover, under the stripe's lock     full     the states' own swaps
 *  STRIPE_MOVED         the same; in reused_at_ns              release  M1 -> A2 in table_latest_reuse()
 *
 *  The mover locks a stripe, says STRIPE_MOVED, and marks each bucket's state by compare-and-swap. The
 *  state that the swap replaced is the last one that this bucket has here: it is copied, without the
 *  mark. Then comes the next stripe. When all have been carried, one store makes the other table the
 *  one that counts (transfer.c); until then the mover may give up, or die, and everything stays as it was:
 *  nobody else ever wrote to a marked state.
 *
 *  Whoever finds a marked state, or nothing at all in a stripe that says STRIPE_MOVED, asks
 *  table_follow(), which waits for the mover.
 *    - A take that read the state before it was marked fails its swap, and looks again.
 *    - A refusal that read the state before it was marked is right: that is what the bucket was then.
 *    - Who finds no bucket reads the stripe's word after the search. No mark there: the search was over
 *      before anybody could have used the other table.
 *    - An insertion holds the stripe's lock, so it comes before the move, and is carried; or after it,
 *      and sees the word.
 *    - Who slept meanwhile, for however long, finds the marks when it wakes: they stay in the old
 *      memory, which is not used again.
 *
 *  The mark needs no note in lowered_from_ns, and neither do the lines of the other table: a note is for
 *  those who read a state of this very slot, and nobody has read one there.
 *
 *  A bucket that has drained is the same as none, and stays behind, which is how forgotten keys leave the
 *  table for good. As with every reuse a missing bucket then counts as empty since `since_ns`: the
 *  latest reading of any reuse in the old table, and of the move.
 *
 *  Killed in a stripe, the mover leaves marks. The heir of the stripe's lock leaves them alone, because
 *  the word says who they are of; moving_take_back() clears them, and the word last. A state that is marked
 *  in a stripe whose word does not say so can only come from a crash of the machine, and repair.c
 *  clears that.
 *
 *  Price: an operation on a bucket that has been marked waits for the whole rest of the move. */
#include "store/table/moving.h"

#include <assert.h>

#include "core/bucket_math.h"
#include "store/table/inside.h"
#include "sync/atomic.h"

/* Marks a state, and returns it as it was. */
static struct weir_bucket mark(struct weir_bucket *state)
{
    struct weir_bucket seen;
    struct weir_bucket marked;
    do {
        seen = load_bucket(state);
        marked = (struct weir_bucket){seen.empty_at_ns, seen.word | BUCKET_MOVED};
    } while (!cas_bucket(state, seen, marked));
    return (struct weir_bucket){seen.empty_at_ns, seen.word & ~BUCKET_MOVED};
}

/* Whether a bucket may be forgotten on the way. */
static bool is_over(struct weir_bucket bucket, uint64_t now_ns)
{
    return bucket.empty_at_ns < now_ns && (bucket.word & BUCKET_FLAGS) == 0;
}

/* False: it has no place there. */
static bool lay(const struct moving *moving, const struct table_line *line, int i,
                struct weir_bucket bucket)
{
    uint64_t tag = load_relaxed(&line->tags[i]);
    if (moving->into == NULL) {
        return true;
    }
    if (moving->keeps_places) {
        table_put_at(moving->into, (uint64_t)(line - moving->from->lines), i, tag, bucket);
        return true;
    }
    return table_put(moving->into, tag, bucket);
}

static bool carry_line(struct moving *moving, struct table_line *line)
{
    if (moving->keeps_places) { // of keys that stay behind too: that is harmless
        store_relaxed(&moving->into->lines[line - moving->from->lines].displaced,
                      load_relaxed(&line->displaced));
    }
    for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
        uint64_t tag = load_relaxed(&line->tags[i]); // written under the lock only
        if (tag == 0) {
            continue; // nobody's
        }
        struct weir_bucket bucket = mark(&line->states[i]);
        if (is_over(bucket, moving->now_ns)) {
            moving->left_count++;
        } else if (lay(moving, line, i, bucket)) {
            moving->carried_count++;
        } else {
            return false;
        }
    }
    return true;
}

/* The first line of a stripe. */
static struct table_line *lines_of(const struct table *table, const struct stripe *stripe)
{
    return &table->lines[(uint64_t)(stripe - table->stripes) * table->stripe_lines];
}

bool moving_carry(struct moving *moving, struct stripe *stripe)
{
    struct table *from = moving->from;
    struct table_line *lines = lines_of(from, stripe);
    bool done = true;
    table_lock_stripe(from, stripe);
    uint64_t reused_at_ns = load_relaxed(&stripe->reused_at_ns) & ~STRIPE_MOVED;
    if (moving->since_ns < reused_at_ns) {
        moving->since_ns = reused_at_ns;
    }
    store_release(&stripe->reused_at_ns, reused_at_ns | STRIPE_MOVED); // M1: before the first mark
    for (uint64_t i = 0; i < from->stripe_lines && done; i++) {
        done = carry_line(moving, &lines[i]);
    }
    lock_release(&stripe->lock);
    return done;
}

void moving_end(struct moving *moving)
{
    for (uint64_t i = 0; i < moving->into->stripe_count; i++) {
        store_relaxed(&moving->into->stripes[i].reused_at_ns, moving->since_ns);
    }
}

void moving_unmark(struct table_line *line)
{
    for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
        struct weir_bucket seen = load_bucket(&line->states[i]);
        if ((seen.word & BUCKET_MOVED) != 0) {
            struct weir_bucket back = {seen.empty_at_ns, seen.word & ~BUCKET_MOVED};
            bool done = cas_bucket(&line->states[i], seen, back);
            assert(done); // nobody else changes a marked state
            (void)done;
        }
    }
}

void moving_take_back(struct table *table, struct stripe *stripe)
{
    struct table_line *lines = lines_of(table, stripe);
    table_lock_stripe(table, stripe);
    uint64_t reused_at_ns = load_relaxed(&stripe->reused_at_ns);
    for (uint64_t i = 0; i < table->stripe_lines; i++) {
        moving_unmark(&lines[i]);
    }
    store_release(&stripe->reused_at_ns, reused_at_ns & ~STRIPE_MOVED);
    lock_release(&stripe->lock);
}
