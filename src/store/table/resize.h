/* SPDX-License-Identifier: MIT
 *
 * A file of another size for the same buckets, while processes use them. resize.c opens with how. */
#ifndef WEIR_STORE_TABLE_RESIZE_H
#define WEIR_STORE_TABLE_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"
#include "weir/status.h"

enum resize_phase { RESIZE_ALLOCATING, RESIZE_MOVING, RESIZE_WRITING };

enum line_mover_result { LINES_ENTERED, LINES_DO_NOT_FIT, LINES_NO_MEMORY };

/* Takes those along who stand in line: for whoever knows what is in the room behind the buckets
 * (limiter/shared_lines/shared_move.h).
 *   enter()  `into` may be NULL: then nobody is taken along. From now on nobody joins a line, leaves it, or is served, until leave(). If not all of them
 *            have a place in `into`, or there is no memory, nothing has happened, and this is all
 *   carry()  they stand in `into` as they do in `from`, and there their processes will look for them. Without `into`
 *            each process will have its people join the lines of another room, behind those who are there. Says how
 *            many they are. The last thing to be done before that is where the buckets are
 *   leave()  whether carry() was called or not */
struct line_mover {
    enum line_mover_result (*enter)(struct line_mover *mover, struct store *from,
                                    struct store *into, uint64_t now_ns);
    uint64_t (*carry)(struct line_mover *mover, uint64_t now_ns);
    void (*leave)(struct line_mover *mover, uint64_t now_ns);
};

/*   path             absolute
 *   bytes            the file without the events as it shall be, WEIR_MEMORY_BYTES_MIN .. _MAX
 *   events_bytes     the memory for events; 0: it changes in proportion
 *   is_caller_clock  its buckets live by a clock of the caller's, and now_ns is its reading
 *   lines            who takes those along who stand in line
 *   watch            NULL, or told how far it is; false: give up. In RESIZE_MOVING everybody's takes wait for it:
 *                    it must not sleep there, nor write to what may block */
struct resize_config {
    const char *path;
    uint64_t bytes;
    uint64_t events_bytes;
    bool is_caller_clock;
    uint64_t now_ns;
    struct line_mover *lines;
    bool (*watch)(void *context, enum resize_phase phase, uint64_t done, uint64_t total);
    void *context;
};

/*   from_bytes     the size that it had; from_events_bytes, events_bytes: the memory for events, before and
 *                  after
 *   carried_count  buckets that moved; left_count: that had drained, and were forgotten
 *   waiting_count  who stand in line, and moved with their buckets
 *   held_ns        how long takes were held up: from the first mark to the last step */
struct resize_report {
    uint64_t from_bytes;
    uint64_t from_events_bytes;
    uint64_t events_bytes;
    uint64_t carried_count;
    uint64_t left_count;
    uint64_t waiting_count;
    uint64_t held_ns;
};

/* Gives the file another size. Whoever has it open goes on in the new one by itself. After a failure, or a
 * death at any instant, either everything is as it was or all of it is done. A file that has these sizes
 * already is left alone: they are the same before and after.
 *   WEIR_OK       done, and on the disk
 *   WEIR_E_RANGE  the buckets do not fit, or those who wait; nothing has changed
 *   WEIR_E_FILE, WEIR_E_SYSTEM, WEIR_E_NO_MEMORY: nothing has changed */
enum weir_status resize_file(const struct resize_config *config, struct resize_report *report,
                             struct weir_error *error);

#endif
