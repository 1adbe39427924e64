/* SPDX-License-Identifier: MIT
 *
 * A process that moves everything to another file, and to which something happens on its way: it is killed, or
 * somebody else is faster.
 *
 *     struct hampered hampered;
 *     hampered_init(&hampered, AFTER_ENTER, make_a_stranger);
 *     struct resize_config config = {.lines = &hampered.lines, ...};
 *
 *     hampered_kill(AFTER_ENTER, resize); // in a child: resize(lines) does not come to its end */
#ifndef WEIR_TESTS_PROCESSES_HAMPERED_H
#define WEIR_TESTS_PROCESSES_HAMPERED_H

#include "limiter/shared_lines/shared_move.h"

/* On the way of those who wait. The step that counts (store/table/transfer.c) lies behind AFTER_CARRY. */
enum point { BEFORE_ENTER, AFTER_ENTER, AFTER_CARRY, BEFORE_LEAVE, AFTER_LEAVE, POINT_COUNT };

struct hampered {
    struct line_mover lines; // first: it leads back here
    struct room_mover mover;
    enum point point;
    void (*happens)(void);
};

/* `happens` is called once, at that point. */
void hampered_init(struct hampered *hampered, enum point point, void (*happens)(void));

/* Has a child move, which kills itself at that point. Ends the test if it did not come there. */
void hampered_kill(enum point point, void (*move)(struct line_mover *lines));

#endif
