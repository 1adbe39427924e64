/* SPDX-License-Identifier: MIT
 *
 * A run on its way: requests that are decided together. What together.c and its chapter on windows share;
 * nobody else includes it. */
#ifndef WEIR_STORE_TABLE_RUN_H
#define WEIR_STORE_TABLE_RUN_H

#include "core/operation.h"
#include "store/table/inside.h"
#include "store/table/window_log.h"

/* One of the buckets that are asked together.
 *   found      where it is; of one that is missing, how it counts
 *   waits      somebody stands in line there, and the keeper of lines has answered
 *   ends_ns    of one with the flag, of its block; 0: there is none
 *   is_marked  by us
 *   is_full    there is no slot for it, or for its event no room, and on_full answers
 *   has_moved  to another table, or is on its way there */
struct member {
    const struct weir_request *request;
    struct weir_decision *decision;
    uint64_t hash, home;
    struct charge charge;
    struct found found;
    struct outcome outcome;
    uint64_t ends_ns;
    bool is_found, is_marked, waits, is_full, has_moved;
};

/* What else is known of a member that keeps a log, while its stripe is locked.
 *   fits_at_ns  if it is limited
 *   next        the state that leads to the event, once that is written
 *   taken_id    the chunk that was taken for it; 0: none */
struct run_window {
    struct window_log log;
    struct window_view view;
    uint64_t fits_at_ns;
    struct weir_bucket next;
    uint32_t taken_id;
};

/*   terms       of each, where whoever keeps the lines asks: then no line is met
 *   held_count  of these members the stripes are locked: the first ones, all of them or all but one
 *   is_short    of chunks, and none can be found: on_full answers
 *   windows     of each, in its place */
struct run {
    struct table *table;
    const struct line_terms *terms; // or NULL
    uint64_t now_ns;
    size_t count, held_count;
    bool is_short;
    struct stripes stripes; // that are locked
    struct member members[WEIR_TOGETHER_MAX];
    struct run_window windows[WEIR_TOGETHER_MAX];
};

static inline const struct weir_limit *limit_of(const struct member *member)
{
    return &member->request->rule->limit;
}

static inline bool is_window(const struct member *member)
{
    return kind_has_log(limit_of(member));
}

static inline bool is_flagged(const struct member *member)
{
    return member->is_found && (member->found.seen.word & BUCKET_BLOCKED) != 0;
}

static inline bool meets_mark(const struct member *member)
{
    return member->is_found && (member->found.seen.word & BUCKET_MARKED) != 0;
}

/* Whether it lets the others pass. */
static inline bool agrees(const struct member *member)
{
    return member->request->shadow || (!member->waits && member->outcome.verdict == WEIR_ALLOWED);
}

/* Whether it is to be charged where all agree. */
static inline bool is_charged(const struct member *member)
{
    return member->request->operation == WEIR_TAKE && !member->waits && !member->is_full
           && member->outcome.verdict == WEIR_ALLOWED && member->charge.cost_micro != 0;
}

/* ---- together_window.c: all under the lock of the member's stripe, but for the last ---- */

/* Reads the log that the state leads to. False: it was damaged, and is forgotten; find it again. */
bool run_read_log(struct run *run, const struct member *member);

/* What its limit says, and when it fits. */
struct outcome run_judge_window(struct run *run, const struct member *member);

/* Where it stands: its moment, with the level in whole units for a remainder. */
struct span run_window_moment(const struct run *run, const struct member *member);

/* Writes the event of a member that is marked, where nobody sees it before the next state is swapped in. False:
 * there is no chunk for it. */
bool run_write_event(struct run *run, struct member *member);

/* None of the states will be swapped in: gives back what was taken for the events. */
void run_give_back(struct run *run);

/* The state has been: gives back what has left the log. */
void run_drop_events(struct run *run, const struct member *member);

/* Looks for chunks that nobody needs any longer. False: the pool counts as full. Under no lock. */
bool run_find_chunks(struct run *run);

#endif
