/* SPDX-License-Identifier: MIT
 *
 * The questions of a flight that swap decides (store/swap.h): in rounds of a read and a write, a statement each for all
 * of them. Pure: what is read comes from flight.c, and what is to be written goes there.
 *
 * An example. Three clients ask in one turn: refund alice, reset bob, refund alice.
 *
 *     read    alice and alice's block, bob and bob's block      at one reading
 *     decide  refund alice; reset bob; refund alice, from what the first one leaves
 *     write   group 0: alice, as she was read -> after both refunds
 *             group 1: bob
 *     again   what has changed in between, from the start: SWAP_TRIES_MAX times
 *
 * Runs that share buckets are a group: it is written as a whole, or not at all. So the answers are those of asking one
 * by one, in the order in which the runs came. A group that changes nothing is answered by what was read. Runs whose
 * batch is past its deadline are not decided any more; and a write says until when it may be done.
 *
 * Threads: single owner. */
#ifndef WEIR_STORE_POSTGRES_SWAPS_H
#define WEIR_STORE_POSTGRES_SWAPS_H

#include "store/postgres/question.h"

/*   SWAP_OPEN     to be read, and decided
 *   SWAP_WRITING  decided; the answer counts if its group is written
 *   SWAP_DONE     answered
 *   SWAP_FAILED   surely nothing was written */
enum swap_run_state { SWAP_OPEN, SWAP_WRITING, SWAP_DONE, SWAP_FAILED };

/*   questions  a run, or a single one
 *   group      while it is SWAP_WRITING
 *   is_told    its batch knows */
struct swap_run {
    struct question *questions;
    uint32_t count, group;
    enum swap_run_state state;
    bool is_told;
};

/*   runs     in the order in which they are decided
 *   tries    rounds so far
 *   round    memory of the rounds; NULL before the first one
 * All zeroes but `runs`, which has room for as many as there are questions: no run yet. */
struct swaps {
    struct swap_run *runs;
    size_t run_count;
    unsigned tries;
    struct swap_round *round;
};

/* Adds the run that begins here. Not while a round is under way. */
void swaps_add(struct swaps *swaps, struct question *questions);

/* Begins a round: `rows` of all runs that are open are to be read. They are valid until the next round. False: no run is
 * open any more, because they are done, or SWAP_TRIES_MAX rounds were not enough, or there is no memory. */
bool swaps_begin(struct swaps *swaps, struct swap_rows *rows);

/* What row `row` was read as. Each of them once, before swaps_decide(). */
void swaps_see(struct swaps *swaps, size_t row, struct swap_row seen);

/* Decides.
 *   reading   of the store's clock, read with the rows
 *   clock_ns  weir_clock_now_ns(), read after the rows came
 * Returns how many groups are to be written. */
uint32_t swaps_decide(struct swaps *swaps, uint64_t reading, uint64_t clock_ns);

/* The rows of `count` groups from `first` on: valid until the next round. */
struct swap_rows swaps_write(const struct swaps *swaps, uint32_t first, uint32_t count);

/* What has become of a group.
 *   SWAP_UNHEARD  nobody knows
 *   SWAP_WRITTEN  its answers count
 *   SWAP_CHANGED  its rows were not as they had been, or it was too late: it is open again
 *   SWAP_BROKEN   the statement failed: surely nothing was written */
enum swap_end { SWAP_UNHEARD, SWAP_WRITTEN, SWAP_CHANGED, SWAP_BROKEN };

/* Notes that. False: there is no such group. */
bool swaps_note(struct swaps *swaps, uint32_t group, enum swap_end end);

/* Ends the runs of the groups about which something was noted. */
void swaps_end(struct swaps *swaps);

/* Gives up what is open: the read failed. */
void swaps_give_up(struct swaps *swaps);

/* Frees the memory of its rounds. */
void swaps_free(struct swaps *swaps);

#endif
