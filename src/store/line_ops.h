/* SPDX-License-Identifier: MIT
 *
 * What a store offers to the keeper of the lines in which people stand for its buckets, and what it asks of that
 * keeper. A store whose buckets cannot be marked has no line_ops. */
#ifndef WEIR_STORE_LINE_OPS_H
#define WEIR_STORE_LINE_OPS_H

#include "core/bucket_math.h"
#include "sync/lock.h"
#include "weir/limiter.h"

struct store;

/* Who keeps the lines in which people stand for the buckets of a store (limiter/lines/lines.h). A bucket for
 * which somebody waits is marked, so that nobody overtakes: a take that comes upon the mark is
 * brought here. */
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

/* The beginning of the memory in which those wait who share a store: for the keeper of the lines.
 *   epoch  zero in new memory; the last epoch in which the keeper has made it whole */
struct waiting_room {
    struct lock lock;
    uint64_t epoch;
};

/* Where those wait who share a store: for the keeper of the lines. All five change in follow_waiting(), or in a child
 * that has come out of fork().
 *   members  in whose name this process locks the room
 *   room     NULL: this process has the buckets to itself
 *   bytes    how large it is, the beginning included
 *   epoch    changes when what is in it may be half done; 1 at first
 *   since    an earlier epoch is one of which nobody waits any longer */
struct waiting_area {
    const struct membership *members;
    struct waiting_room *room;
    size_t bytes;
    uint64_t epoch, since;
};

/* The keeper calls these for one bucket at a time, and knows it by its id. */
struct line_ops {
    /* Equal ids are the same bucket. */
    uint64_t (*id)(const struct store *store, const struct weir_request *request);

    /* As decide(), but does not look whether the bucket is marked, and marks it as the terms say. The
     * verdict is WEIR_FAILED where the store has no room for the bucket, whatever on_full says, or is out of
     * reach, whatever on_error says: then nothing is charged or marked, and the moment is what it would have
     * been. WEIR_BLOCKED: neither, and the mark is as it was. A take that is refused does not block its key, although the limit says so:
     * who waits is not refused, so that is for the keeper to do. */
    struct outcome (*decide_in_line)(struct store *store, const struct weir_request *request,
                                     uint64_t id, const struct line_terms *terms, uint64_t now_ns);

    /* The same for a run, all or nothing: true if all of it is allowed. Each outcome says what its own
     * limit says, and where the bucket stands; that of a bucket for which there is no room and whose
     * on_full allows is that of an empty one, and so is each where the store is out of reach and on_error
     * allows. The mark of one that is not charged stays as it is. */
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

    /* UTC minus the store's clock, modulo 2^64, for limits that go by the calendar; 0 where a reading is UTC itself. It
     * changes only when a clock is set. */
    uint64_t (*utc_offset_ns)(const struct store *store);

    /* The same struct for as long as the store is open. */
    const struct waiting_area *(*waiting_area)(const struct store *store);

    /* Of a store that processes share. Whether the room in which those stand who wait is no longer that
     * of waiting_area(); while one holds its lock that does not change. And sees to it that this
     * leads on to the next one: false if that is out of reach, and then nobody can be served. The memory of
     * the one before stays. Under the keeper's own lock. */
    bool (*waits_elsewhere)(const struct store *store);
    bool (*follow_waiting)(struct store *store);
};

#endif
