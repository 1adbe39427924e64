/* SPDX-License-Identifier: MIT
 *
 * Looking after a store: how full it is, whether its file still has its name, another size. For the server's main
 * thread and for `weir store`. A store that cannot be looked after in this way has no upkeep_ops. */
#ifndef WEIR_STORE_UPKEEP_H
#define WEIR_STORE_UPKEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/limiter.h"
#include "weir/status.h"

struct store;

enum { STORE_PATH_MAX = 1024 }; // of a file, with its NUL

/* How full a store is, counted or, where it is large, estimated from a part of it.
 *   slot_count  buckets that fit at most
 *   live_count  buckets that are not empty
 *   free_count  slots that a new key could get: never used, or of a bucket that has drained */
struct store_census {
    uint64_t slot_count;
    uint64_t live_count;
    uint64_t free_count;
};

/* What is there now under the name of the file in which a store lives.
 *   STORE_NAMED        this file, or one to which its buckets are moving; always so of memory
 *   STORE_DELETED      nothing
 *   STORE_UNSEEN       nothing that can be looked at: its folder may not be entered
 *   STORE_REPLACED     another file
 *   STORE_OVERWRITTEN  this file, but another store was copied into it: its users do not agree on their buckets
 *   STORE_LOST         nothing, and the buckets had moved there: nothing can be decided */
enum store_name {
    STORE_NAMED,
    STORE_DELETED,
    STORE_UNSEEN,
    STORE_REPLACED,
    STORE_OVERWRITTEN,
    STORE_LOST,
};

/* What has become of a file that had lost its name.
 *   STORE_AS_IT_WAS  it has its name
 *   STORE_LINKED     it was there under another name, and has this one again, too
 *   STORE_CARRIED    it had been deleted: its buckets are in a new file of this name
 *   STORE_EXCHANGED  another file has its name, and is in use now: what the buckets held is lost */
enum store_outcome { STORE_AS_IT_WAS, STORE_LINKED, STORE_CARRIED, STORE_EXCHANGED };

/*   bucket_count   live buckets that were carried, or are lost
 *   waiting_count  who stood in line, and goes on waiting
 *   held_ns        how long takes were held up */
struct store_regained {
    enum store_outcome outcome;
    uint64_t bucket_count;
    uint64_t waiting_count;
    uint64_t held_ns;
};

enum line_mover_result { LINES_ENTERED, LINES_DO_NOT_FIT, LINES_NO_MEMORY };

/* Takes those along who stand in line. The store does not know what is in the room behind its buckets; the keeper of
 * the lines does (limiter/shared_lines/shared_move.h).
 *   enter()  `into` may be NULL: then nobody is taken along. From now on nobody joins a line, leaves it, or is
 *            served, until leave(). If not all of them have a place in `into`, or there is no memory, nothing has
 *            happened, and this is all
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

/* What a file says of itself.
 *   format       of its header
 *   made_wall_s  seconds since 1970 (UTC)
 *   live_count   buckets that are not empty, counted one by one */
struct store_description {
    uint32_t format;
    uint64_t made_wall_s;
    uint64_t live_count;
};

enum resize_phase { RESIZE_ALLOCATING, RESIZE_MOVING, RESIZE_WRITING };

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

/* Looking after a file that this process need not have open. Startup and main thread only; `path` is absolute.
 *   resize()  another size, while others use it
 *   renew()   all that is in it is forgotten without a look at it; nobody may have it open */
struct file_upkeep {
    enum weir_status (*resize)(const struct resize_config *config, struct resize_report *report,
                               struct weir_error *error);
    enum weir_status (*renew)(const char *path, struct weir_error *error);
};

/* Looking after a store that is open. */
struct upkeep_ops {
    /* Takes a fraction of a millisecond, however large the store is. Locks nothing. */
    void (*census)(const struct store *store, struct store_census *census, uint64_t now_ns);
    /* One thread at a time. */
    enum store_name (*look_at_name)(struct store *store);
    /* Goes on under the name of the store's file, if that was deleted or replaced, with all who have the old file open.
     * On failure all is as it was, and the error names the file and the reason. At worst it takes as long as writing
     * the whole file; others wait no longer than for a resize. The same thread as look_at_name(). */
    enum weir_status (*regain_name)(struct store *store, struct line_mover *lines, uint64_t now_ns,
                                    struct store_regained *regained, struct weir_error *error);
    /* Looks at every slot while others use the store: what changes meanwhile is seen or not. NULL: not offered. */
    void (*describe)(const struct store *store, struct store_description *description,
                     uint64_t now_ns);
    /* Empties all buckets, as WEIR_RESET does, lets everybody in who is locked out, and says how many were not
     * empty. Looks at every slot, as above. */
    uint64_t (*reset_all)(struct store *store, uint64_t now_ns);
};

#endif
