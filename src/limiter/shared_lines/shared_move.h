/* SPDX-License-Identifier: MIT
 *
 * Those who stand in line for the buckets of a file, when it gets another size (store/upkeep.h):
 *
 *     struct room_mover mover;
 *     room_mover_init(&mover);
 *     struct resize_config config = {.lines = &mover.lines, ...};
 *
 * The mover copies their places to the room of the other file. Each process finds there what it left, and
 * goes on: shared_move.c. */
#ifndef WEIR_LIMITER_SHARED_LINES_SHARED_MOVE_H
#define WEIR_LIMITER_SHARED_LINES_SHARED_MOVE_H

#include "store/upkeep.h"

struct lines;

/* From room to room. */
struct room_mover {
    struct line_mover lines;
    struct lines *from, *into;
};

void room_mover_init(struct room_mover *mover);

#endif
