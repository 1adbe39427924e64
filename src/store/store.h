/* SPDX-License-Identifier: MIT
 *
 * A store is where buckets live: a small table of functions, one folder per implementation, each
 * ending in one constant `struct store_ops`.
 *
 * What an implementer may assume: rules are bound to this store's limiter; decide() is called from any
 * thread, from many at once, and close() when no other call runs. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "core/bucket_math.h"
#include "sync/lock.h"
#include "weir/limiter.h"

struct store;

/* Who keeps the lines in which people stand for the buckets of a store (limiter/lines/lines.h). A bucket for
 * which somebody waits is marked, so that nobody overtakes: whoever comes upon the mark asks here. */
struct line_keeper {
    /* A request that may not pass by those who wait has met a marked bucket. Decides it; or returns
     * false, if nobody waits any longer: then the mark has gone too, and the store looks again. A
     * WEIR_BLOCK has been done before; what it returns then does not matter. */
    bool (*meet)(struct line_keeper *keeper, const struct weir_request *request, uint64_t id,
                 uint64_t now_ns, struct weir_decision *decision);
    /* How many wait for a marked bucket. Nobody is served, and nothing changes. */
    uint64_t (*count)(struct line_keeper *keeper, uint64_t id, uint64_t now_ns);
};

/* What the keeper says beside the question.
 *   patience_ns        a take that may go only later than this is refused
 *   stays_if_allowed,  whether the bucket is marked afterwards
 *   stays_if_refused */
struct line_terms {
    uint64_t patience_ns;
    bool stays_if_allowed;
    bool stays_if_refused;
};

/* How far a line moves: first earlier, then later. */
struct line_move {
    struct span earlier, later;
    bool stays; // marked afterwards
};

/* Watches a window drain, from now until its last event has left. at() is told an instant and the level that
 * the window has then, for the first time at the reading that counts. It returns how many units have to leave before
 * it wants to know more, or 0 if it knows enough. */
struct drain_visitor {
    uint64_t (*at)(struct drain_visitor *visitor, uint64_t now_ns, uint64_t level);
};

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

struct line_mover; // store/table/resize.h

struct store_ops {
    /* Answers requests in order, all at one instant: `now_ns`, or STORE_NOW for the store's own clock,
     * read once the memory of the first requests is on its way. Never blocks for longer than another
     * thread needs to insert a bucket. */
    void (*decide)(struct store *store, const struct weir_request *requests,
                   struct weir_decision *decisions, size_t count, uint64_t now_ns);
    /* decide() of one take, at the store's own clock. */
    struct weir_decision (*take)(struct store *store, const struct weir_rule *rule, const void *key,
                                 size_t key_len, uint64_t cost_micro);
    /* The store's clock. */
    uint64_t (*now_ns)(const struct store *store);
    /* WEIR_OK, or why every decision fails in this process. */
    enum weir_status (*status)(struct store *store);
    void (*stats)(const struct store *store, struct weir_limiter_stats *stats);
    /* Takes a fraction of a millisecond, however large the store is. Locks nothing. */
    void (*census)(const struct store *store, struct store_census *census, uint64_t now_ns);
    /* One thread at a time. */
    enum store_name (*look_at_name)(struct store *store);
    /* Goes on under the name of the store's file, if that was deleted or replaced, with all who have the old file open.
     * On failure all is as it was, and the error names the file and the reason. At worst it takes as long as writing
     * the whole file; others wait no longer than for a resize. The same thread as look_at_name(). */
    enum weir_status (*regain_name)(struct store *store, struct line_mover *lines, uint64_t now_ns,
                                    struct store_regained *regained, struct weir_error *error);

    /* For the keeper of lines, who calls these for one bucket at a time, and knows it by its id: equal
     * ids are the same bucket. */
    uint64_t (*id)(const struct store *store, const struct weir_request *request);

    /* As decide(), but does not look whether the bucket is marked, and marks it as the terms say. The
     * verdict is WEIR_FAILED where the store has no room for the bucket, whatever on_full says: then
     * nothing is charged or marked, and the moment is what it would have been. WEIR_BLOCKED: neither, and
     * the mark is as it was. A take that is refused does not block its key, although the limit says so:
     * who waits is not refused, so that is for the keeper to do. */
    struct outcome (*decide_in_line)(struct store *store, const struct weir_request *request,
                                     uint64_t id, const struct line_terms *terms, uint64_t now_ns);

    /* The same for a run, all or nothing: true if all of it is allowed. Each outcome says what its own
     * limit says, and where the bucket stands; that of a bucket for which there is no room and whose
     * on_full allows is that of an empty one. The mark of one that is not charged stays as it is. */
    bool (*decide_run_in_line)(struct store *store, const struct weir_request *requests,
                               const uint64_t *ids, const struct line_terms *terms,
                               struct outcome *outcomes, size_t count, uint64_t now_ns);

    /* Moves the moment at which a marked bucket is empty, though not to before now. */
    void (*move_line)(struct store *store, const struct weir_limit *limit, uint64_t id,
                      const struct line_move *move, uint64_t now_ns);

    /* Until when a key is blocked; at once where decide_in_line() has just said that it is. */
    uint64_t (*blocked_until_ns)(const struct store *store, uint64_t id);

    /* Of a limit of kind window: how it drains if nothing is added. The visitor is called at most once for
     * each event, under the lock of the window's stripe. */
    void (*visit_drain)(struct store *store, const struct weir_limit *limit, uint64_t id,
                        struct drain_visitor *visitor, uint64_t now_ns);

    /* Of a store that processes share. Whether the room in which those stand who wait is no longer the one
     * that `waiting_room` leads to; while one holds its lock that does not change. And sees to it that this
     * leads on to the next one: false if that is out of reach, and then nobody can be served. The memory of
     * the one before stays. Under the keeper's own lock. */
    bool (*waits_elsewhere)(const struct store *store);
    bool (*follow_waiting)(struct store *store);

    void (*close)(struct store *store);
};

/* Beyond every reading. */
#define STORE_NOW UINT64_MAX

/* The beginning of the memory in which those wait who share a store: for the keeper of the lines.
 *   epoch  zero in new memory; the last epoch in which the keeper has made it whole */
struct waiting_room {
    struct lock lock;
    uint64_t epoch;
};

/* First member of every store.
 *   members        in whose name this process locks the waiting room
 *   waiting_room   NULL: this process has the buckets to itself
 *   waiting_bytes  how large it is, the beginning included
 *   waiting_epoch  changes when what is in it may be half done; 1 at first
 *   waiting_since  an earlier epoch is one of which nobody waits any longer. All five change in follow_waiting(),
 *                  or in a child that has come out of fork()
 *   utc_offset_ns  UTC minus the store's clock, modulo 2^64, for limits that go by the calendar; 0 where a
 *                  reading is UTC itself. Read and written relaxed: it changes only when a clock is set */
struct store {
    const struct store_ops *ops;
    struct line_keeper *keeper; // NULL: nobody can wait here
    uint64_t utc_offset_ns;
    const struct membership *members;
    struct waiting_room *waiting_room;
    size_t waiting_bytes;
    uint64_t waiting_epoch, waiting_since;
};

#endif
