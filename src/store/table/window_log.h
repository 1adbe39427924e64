/* SPDX-License-Identifier: MIT
 *
 * The log of one window: which events it has let through, in chunks of the pool.
 *
 *     state   | moment at which all have left | end of the newest chunk's events, 8 bits | its id, 32 bits |
 *                                                                                              |
 *     chunks  [oldest] --next--> [ ] --next--> [ ] --next--> [newest] <------------------------+
 *                 ^--------------oldest----------------------'
 *
 * An event is added by writing it behind the newest one, where nobody reads, and then swapping the state: the
 * moment, the chunk and the end change together or not at all. All else can be read from the chunks: a
 * chunk says how much was let through before it, so the level is one subtraction between the two ends,
 * however long the log; and where its events stop is where their costs add up to what the next chunk says.
 * Chunks whose events have left are given back from the old end.
 *
 * Everything here is called under the lock of the key's stripe. Who dies in the middle leaves the log
 * as it was, or with the event; and at worst a chunk that no log leads to, which the sweep finds
 * (table_sweep_events()).
 *
 * What is read may be damaged, where a crash of the machine has torn a file: every chunk must name the key,
 * and they must follow one another. If they do not the functions here say so; nothing is read outside of
 * the pool, and nothing goes on for ever. */
#ifndef WEIR_STORE_TABLE_WINDOW_LOG_H
#define WEIR_STORE_TABLE_WINDOW_LOG_H

#include "core/window_math.h"
#include "store/table/event_pool.h"

/*   newest    NULL: nothing was let through
 *   end       of its events, in bytes
 *   since_ns  an earlier reading counts as this one: the last event, or the moment since when there is
 *             nothing
 *   total     what was let through so far, modulo 2^32 */
struct window_log {
    struct event_pool *pool;
    uint64_t tag;
    struct weir_bucket state;
    struct chunk *newest;
    uint32_t newest_id;
    uint32_t end;
    uint64_t since_ns;
    uint32_t total;
};

/* A place in a log, before its next event.
 *   at      in the events of the chunk
 *   at_ns   the instant of the event before
 *   before  what was let through before the next event, modulo 2^32 */
struct window_cursor {
    const struct chunk *chunk;
    uint32_t at;
    uint32_t before;
    uint64_t at_ns;
};

/* How a log stands at a reading: the level, the moment at which it is empty, and its first event that has
 * not left. */
struct window_view {
    uint64_t now_ns;
    uint64_t level;
    uint64_t empty_at_ns;
    struct window_cursor first;
};

/* Follows a state. False if it leads to no log of this key. */
bool window_log_open(struct window_log *log, struct event_pool *pool, uint64_t tag,
                     struct weir_bucket state);

/* False if the log is damaged. */
bool window_log_look(const struct window_log *log, const struct weir_limit *limit, uint64_t now_ns,
                     struct window_view *view);

/* Before its first event, whether that still counts or not. Of one that is not damaged. */
struct window_cursor window_log_start(const struct window_log *log);

/* The next event; false at the end, and where the log is damaged. */
bool window_log_next(const struct window_log *log, struct window_cursor *cursor,
                     struct window_event *event);

/* Plays a view forwards until `units` units of it have left, or all of an event that has more: it is then the view
 * of the instant at which the last of them leaves.
 *   units  1 .. the level
 * Skips whole chunks by what they say was let through before them, and reads the events of the last one only: a
 * million events are a few thousand steps, not a million. Where the log is damaged, all of it leaves at the
 * moment at which it is empty. */
void window_log_leave(const struct window_log *log, const struct weir_limit *limit, uint64_t units,
                      struct window_view *view);

/* The earliest reading at which a cost that does not fit now, and is not for never, does. */
uint64_t window_log_fits_at(const struct window_log *log, const struct weir_limit *limit,
                            const struct window_view *view, uint64_t cost);

/* What a take comes to; and when it fits, if it is limited. */
struct outcome window_log_take(const struct window_log *log, const struct weir_limit *limit,
                               const struct window_view *view, const struct charge *charge,
                               uint64_t *fits_at_ns);

/* Whether the events that the log still holds could count again, for the limit's period is longer now: then
 * it has to begin anew, before the next event. */
bool window_log_is_worn_out(const struct window_log *log, const struct weir_limit *limit,
                            const struct window_view *view);

/* Writes an event of now, and says which state is to lead to it: if that is not swapped in, give the chunk
 * `taken_id` back unless it is 0. False: there is no chunk for it. */
bool window_log_add(struct window_log *log, const struct weir_limit *limit,
                    const struct window_view *view, uint64_t cost, struct weir_bucket *next,
                    uint32_t *taken_id);

/* Goes on to the state that it said, once that is swapped in: nothing has to be read again. */
void window_log_added(struct window_log *log, const struct window_view *view, uint64_t cost,
                      struct weir_bucket next);

/* Gives back the chunks whose events have all left at this reading, but for the newest. */
void window_log_drop(const struct window_log *log, const struct weir_limit *limit, uint64_t now_ns);

/* Gives back all chunks, when no state leads to them any longer. */
void window_log_free(const struct window_log *log);

/* Marks the chunks as seen in this turn of the sweep. */
void window_log_mark(const struct window_log *log, uint32_t turn);

/* A state without a log, empty since then; owner and flags stay. */
struct weir_bucket window_state_empty(struct weir_bucket state, uint64_t since_ns);

#endif
