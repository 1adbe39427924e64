/* SPDX-License-Identifier: MIT
 *
 * Swap: how a store that hosts share decides what its own statement or script does not know. That is each kind but
 * bucket and queue; fill, refund, show, reset, block and unblock; block= on a limit; shadow; runs of any of these.
 * The store reads, the C core decides, and the store writes if nobody came between. Pure: no I/O, no allocation.
 *
 * An example. A client refunds 1 to alice under "10/s":
 *
 *     for (int tries = 0; tries < SWAP_TRIES_MAX; tries++) {
 *         struct swap_state seen, next;
 *         uint64_t now_ns;
 *         ... one statement: read alice's two rows into `seen`, and the store's clock into now_ns
 *         if (!swap_decide(&request, &name, 1, &seen, now_ns, &next, &decision)) {
 *             return; // nothing to write: the answer stands
 *         }
 *         ... one statement: if all rows are still as in `seen`, write those that differ in `next`
 *         if (written) {
 *             return; // the answer stands
 *         }
 *     }
 *     ... surely nothing is charged: on_error answers, FATE_NOT_ASKED
 *
 * What the store has to see to:
 *   - All rows of a run are read at one instant: in one statement, or in one script. Then a refusal is an answer
 *     although nothing is locked.
 *   - The clock is read with the rows, or before them, and never after the write. An older reading sees a fuller bucket.
 *   - The write compares all rows of `seen`, also those that it does not change, in one transaction or script. It
 *     locks them in the order of their names. A row that is missing is a row of zeroes, when it is read and when it is
 *     compared. A row that becomes zeroes may be deleted. Only where swap_has_block() is false the row of the block
 *     need not be compared: a block that begins, or ends, changes the row of the bucket.
 *   - An equal row is good enough. If it changed and came back, the decision is still right.
 *   - A write carries until when it may be done, by the store's clock. Its client may have given up, refunded again and
 *     taken; then the row is as it was, and a late write would refund twice. One whose fate is unknown is not sent again.
 *
 * A bucket has two rows of 128 bits each:
 *
 *                 row of the bucket                     row of its block (swap_block_name())
 *     usual       moment.ns, moment.rest                when the last block ended, 0
 *     blocked     SWAP_DISPLACED_NS + moment.rest, 0    when the block ends, moment.ns
 *
 * So the row of a blocked bucket shows a moment later than any limit lets a bucket reach. The statement of a plain take,
 * which reads this row alone, refuses by its own arithmetic. It needs no branch for blocks, and cannot overlook one. The
 * answer of a refusal brings the row's ns: if swap_is_displaced() the figures are elsewhere, and the question is asked
 * again by swap. The same holds for a row of a statement for many takes, for a plain read, and for each row of a plain
 * run. A refusal that writes its row again as it was (a rest below D, here 0) does no harm.
 *
 * A block that is over stays in the rows until a request comes that it would have refused. The plain statement refuses it
 * still, so it comes here, and swap_decide() takes the block out in the same write. From then on the block is over for
 * everybody, also at a reading before its end.
 *
 * What a prune has to know, with `before` a margin behind the reading:
 *   - A usual row, of either kind, may go if ns < before and rest < before. (A rest is below 2^40 ns, 18 minutes.) For the
 *     row of a block this means that the block is over, and its bucket empty.
 *   - A displaced row shows a moment that never comes. It may go if the row of its block is missing, and that has to be
 *     seen behind the lock of the displaced row: in the snapshot from before the lock a new block is not seen yet.
 * A store with a time-to-live gives both rows the same one, from swap_forgets_at_ns().
 *
 * Windows keep a log of events, and no two rows hold it: swap_decide() answers them by an error. When the store keeps
 * logs a state gets a third member, the log as it was read, and the rest stays. */
#ifndef WEIR_STORE_SWAP_H
#define WEIR_STORE_SWAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/bucket_name.h"
#include "weir/limiter.h"

/* How often a question is read and decided until its write comes through. */
enum { SWAP_TRIES_MAX = 8 };

/* Later than any moment: a reading is at most WEIR_NOW_NS_MAX, and no limit leads further than WEIR_SPAN_NS_MAX beyond
 * it. Nine years are left for a patience. A rest added to it stays below 2^63. */
#define SWAP_DISPLACED_NS (UINT64_C(7) << 60)

/* As it lies in the store: two integers that are not negative there. */
struct swap_row {
    uint64_t ns;
    uint64_t rest;
};

/* What there is to know of one bucket. Zeroes: nothing is stored. */
struct swap_state {
    struct swap_row bucket;
    struct swap_row block;
};

/* The name of the row of a block: that of its bucket, with the lowest bit of the last byte flipped. So in the order of
 * names they are neighbours. Of a hash, so the chance that it is another bucket's name is that of any two. */
static inline void swap_block_name(uint8_t block[BUCKET_NAME_BYTES],
                                   const uint8_t bucket[BUCKET_NAME_BYTES])
{
    for (size_t i = 0; i < BUCKET_NAME_BYTES; i++) {
        block[i] = bucket[i];
    }
    block[BUCKET_NAME_BYTES - 1] ^= 1;
}

/* Whether this is the `ns` of the row of a bucket whose key may be blocked: then only swap_decide() knows more. */
static inline bool swap_is_displaced(uint64_t ns)
{
    return ns >= SWAP_DISPLACED_NS;
}

/* Whether there is, or may have been, a row of a block: it has numbers, or the bucket is displaced. */
static inline bool swap_has_block(const struct swap_state *state)
{
    return (state->block.ns | state->block.rest) != 0 || swap_is_displaced(state->bucket.ns);
}

/* The reading at which both rows are as good as none. */
static inline uint64_t swap_forgets_at_ns(const struct swap_state *state)
{
    bool is_displaced = swap_is_displaced(state->bucket.ns);
    uint64_t moment_ns = is_displaced ? state->block.rest : state->bucket.ns;
    uint64_t empty_ns = moment_ns + 1; // the rest is less than a nanosecond
    return state->block.ns > empty_ns ? state->block.ns : empty_ns;
}

static inline bool swap_is_same_row(struct swap_row a, struct swap_row b)
{
    return a.ns == b.ns && a.rest == b.rest;
}

/* Whether this question, or this run, has to be asked by swap. If not it is plain: takes and can_takes of buckets and
 * queues, without block=, and in a run without shadow. The statements for these know all they need, unless
 * swap_is_displaced().
 *   count  1, or of a run 2 .. WEIR_TOGETHER_MAX
 * Pure; thread-safe. */
bool swap_is_needed(const struct weir_request *requests, size_t count);

/* Whether swap_decide() decides this question, or this run. If not it answers by an error: it makes no sense (a limit of
 * zeroes, an operation that is none, in a run mixed operations or a bucket twice), or is under a window.
 *   names  of their buckets, in the same order; only the first WEIR_TOGETHER_MAX are read
 *   count  1, or how many a run has
 * Pure; thread-safe. */
bool swap_can_decide(const struct weir_request *requests, const uint8_t (*names)[BUCKET_NAME_BYTES],
                     size_t count);

/* Decides one request, or a run of them: all or nothing. The answers are those of the table (memory:) at this reading.
 *   requests   of the run. Keys and and_next are not looked at; details are filled where they are wanted
 *   names      of their buckets, in the same order
 *   count      1, or of a run 2 .. WEIR_TOGETHER_MAX
 *   seen       of each bucket, as it was read
 *   now_ns     the reading that was read with it, UTC in nanoseconds
 *   next       of each bucket, filled: what is to be written. If it is not written the answer does not count
 *   decisions  one for each request
 * Returns whether `next` differs from `seen`. A question that only looks, and a refusal that blocks nobody, change
 * nothing; but the first of them that comes when a block is over does.
 *
 * What it cannot decide is answered by an error. Whatever the rows hold is decided somehow, and does no harm beyond the
 * answer. Pure; thread-safe. Never allocates. */
bool swap_decide(const struct weir_request *requests, const uint8_t (*names)[BUCKET_NAME_BYTES],
                 size_t count, const struct swap_state *seen, uint64_t now_ns,
                 struct swap_state *next, struct weir_decision *decisions);

#endif
