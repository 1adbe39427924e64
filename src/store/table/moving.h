/* SPDX-License-Identifier: MIT
 *
 * Carrying the buckets of a table to another one, of another size, while others use the first. moving.c
 * opens with how; resize.h does it with files. */
#ifndef WEIR_STORE_TABLE_MOVING_H
#define WEIR_STORE_TABLE_MOVING_H

#include "store/table/table.h"

/*   into      nobody else uses it yet; NULL: the buckets are marked, and not carried
 *   keeps_places  `into` has the same shape, and is empty: each bucket gets the place that it has in `from`
 *   now_ns    a bucket that was empty before this, and for which nobody waits, stays behind
 *   since_ns  a bucket that is missing in `into` counts as empty since then */
struct moving {
    struct table *from;
    struct table *into;
    bool keeps_places;
    uint64_t now_ns;
    uint64_t since_ns;
    uint64_t carried_count;
    uint64_t left_count;
};

/* Carries the buckets of one stripe. From now on whoever asks for a key of this stripe waits in
 * table_follow(). False: a bucket found no room. Only one at a time moves a table: see transfer.c. */
bool moving_carry(struct moving *moving, struct stripe *stripe);

/* The last step before others may use `into`, if there is one. */
void moving_end(struct moving *moving);

/* Lets the buckets of a stripe go on where they are. For whoever knows that nobody moves them any longer:
 * the mover has given up, or died. */
void moving_take_back(struct table *table, struct stripe *stripe);

/* Takes the marks off the states of a line. Under its stripe's lock. */
void moving_unmark(struct table_line *line);

#endif
