/* SPDX-License-Identifier: MIT
 *
 * What is left to do when somebody died in the middle of an insertion. Whoever locks the stripe next
 * does it, before anything else; everybody else goes on meanwhile, because what is half done is harmless
 * to them. Everything shared is written by single stores, so this is all that can be half done:
 *
 *   died after                            what is there                       what is done about it
 *   a new slot's state was given          a state of nobody: the tag is 0     nothing: the next one
 *                                                                             takes it as never used
 *   reused_at_ns was raised (R2)          missing buckets count as empty      nothing: fuller, for a
 *                                         since a little later                lagging clock only
 *   the state was given away              a slot that matches nobody: owner   given back to its tag's
 *                                         bits that are not its tag's         key
 *   the counter was raised                one too many                        used: counted anew;
 *                                                                             reused: left, a statistic
 *   the reach was raised, a hint written  a longer search, a stale hint       nothing
 *   the tag was published                 a bucket that is empty              nothing: it is whole
 *   a live bucket's state was given away  likewise (on_full=evict)            given back, empty: it was
 *                                                                             to be dropped
 *   a bucket was marked (together.c)      who meets it waits for this lock    unmarked: it goes on from
 *                                                                             where it stood
 *
 * To give a slot back is to put its tag's owner bits into its state, and nothing else. That is (X, former
 * owner), and the former bucket was drained strictly before X, above every moment it ever had: it is empty,
 * and no state that a sleeping thread remembers equals it. (Of a bucket that was dropped, a thread of the same
 * key might: then it decides on what is there.) It must be done before the next insertion: the
 * former key, which finds nothing, would get a second slot, and one of the two would be lost.
 *
 * A take under several limits that died after it had charged the first of its buckets leaves the others as
 * they were: its marks say nothing of what it meant to write. Those in other stripes wait for heirs of
 * their own; they may have been charged or not. Nobody has heard of either.
 *
 * A take, a refund and a reset change one bucket by one swap: they are done or not. At worst a cost
 * was charged and nobody heard of it. A note in lowered_from_ns without its refund only keeps a line
 * from being reused for a while.
 *
 * After a crash of the machine a file's pages may be of different instants, some seconds apart. Then
 * a bucket can be out of its home's reach, so the reach is measured anew too; and it can have kept the
 * mark of a move (moving.c) that its stripe knows nothing of. */
#include "core/bucket_math.h"
#include "store/table/displaced.h"
#include "store/table/moving.h"
#include "store/table/places.h"
#include "store/table/table.h"
#include "sync/atomic.h"

/* Gives a slot back that was taken from its key and never got to another, and takes the mark away. */
static void give_back(struct table_line *line, int i)
{
    uint64_t owner = table_owner_of(load_relaxed(&line->tags[i]));
    struct weir_bucket seen = load_bucket(&line->states[i]);
    bool is_marked = (seen.word & BUCKET_MARKED) != 0;
    if (is_marked || (seen.word & BUCKET_OWNER_MASK) != owner) {
        uint64_t kept = seen.word & ~(BUCKET_OWNER_MASK | BUCKET_MARKED);
        bool done = cas_bucket(&line->states[i], seen,
                               (struct weir_bucket){seen.empty_at_ns, kept | owner});
        assert(done); // it matches nobody, or everybody waits: so nobody else moves it
        (void)done;
    }
}

/* Sees to it that the search from its home comes as far as this key. */
static void reach_out(struct table *table, uint64_t at, uint64_t tag)
{
    uint64_t home = table_home_of(table, tag);
    uint64_t distance = (at - home) & (table->stripe_lines - 1);
    uint64_t *displaced = &table->lines[home].displaced;
    if (distance <= DISTANCE_MAX) {
        store_relaxed(displaced, displaced_with_reach(load_relaxed(displaced), distance));
    }
}

void table_repair(struct table *table, struct stripe *stripe)
{
    uint64_t first = (uint64_t)(stripe - table->stripes) * table->stripe_lines;
    uint64_t used_count = 0;
    bool is_moving = (load_relaxed(&stripe->reused_at_ns) & STRIPE_MOVED) != 0;
    for (uint64_t at = first; at < first + table->stripe_lines; at++) {
        struct table_line *line = &table->lines[at];
        if (!is_moving) {
            moving_unmark(line);
        }
        for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
            uint64_t tag = load_relaxed(&line->tags[i]);
            if (tag != 0) {
                give_back(line, i);
                reach_out(table, at, tag);
                used_count++;
            }
        }
    }
    store_relaxed(&stripe->used_count, used_count);
    stripe->epoch = table->epoch;
}
