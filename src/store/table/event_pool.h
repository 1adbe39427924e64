/* SPDX-License-Identifier: MIT
 *
 * Memory for the events of windows: chunks of one size, in a region beside the lines and stripes of a
 * table. Who has none left gets none: the pool is bounded like the table.
 *
 *     +-------------+---------+---------+-- ... --+
 *     | pool_header | chunk 1 | chunk 2 |         |       256 bytes each; 0 is no chunk
 *     +-------------+---------+---------+-- ... --+
 *
 * A chunk belongs to the key whose tag it names, from the moment it is taken until it is given back. Of
 * its other words only the log of that key knows what they mean (window_log.h): they are written under the
 * lock of the key's stripe. The pool's own lock comes after every stripe's.
 *
 *  Shared word   Written by                             Order    Pairs with
 *  owner         under the pool's lock, by who holds    release  load in table_sweep_events(), which looks
 *                the lock of that owner's stripe                 again under the stripe's lock
 *  next          of a free chunk: under the pool's lock plain    of one in use: the stripe's lock
 *  the header    under the pool's lock                  relaxed  nothing: table_stats() reads it too
 *
 * Who dies with the lock leaves the list of free chunks half changed. But a chunk is free exactly if it
 * names nobody, so the heir makes the list anew. The same is done once after a reboot. */
#ifndef WEIR_STORE_TABLE_EVENT_POOL_H
#define WEIR_STORE_TABLE_EVENT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "sync/lock.h"

enum { CHUNK_BYTES = 256, CHUNK_EVENT_BYTES = 224 };

/* A piece of a key's log. The events come first, so that whoever reads one may look at the bytes behind
 * it without leaving the chunk.
 *   events    in code: core/window_math.h
 *   owner     the tag of the key; 0: free
 *   first_ns  the instant of the first event
 *   next      the chunk with the events that followed; of a free one, the next free one
 *   oldest    of the newest chunk of a log: where the log begins
 *   before    the costs of all events before this chunk, modulo 2^32
 *   swept     the turn of the sweep in which this chunk was last seen in its log */
struct chunk {
    uint8_t events[CHUNK_EVENT_BYTES];
    uint64_t owner;
    uint64_t first_ns;
    uint32_t next;
    uint32_t oldest;
    uint32_t before;
    uint32_t swept;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct chunk) == CHUNK_BYTES, "as the format says");

/* All zeroes is an empty pool.
 *   fresh_count  how many chunks have ever been taken: those behind them are untouched memory
 *   free_first   the first of the list of those that were given back
 *   sweep_at     the chunk before the one that the sweep looks at next
 *   sweep_turn   how often it has come around
 *   sweep_narrow how often one after another it has found nothing
 *   full_count   events that found no chunk
 *   epoch        of the table when the list was last known to be whole */
struct pool_header {
    struct lock lock;
    uint64_t fresh_count;
    uint64_t free_first;
    uint64_t free_count;
    uint64_t sweep_at;
    uint64_t sweep_turn;
    uint64_t sweep_narrow;
    uint64_t full_count;
    uint64_t epoch;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct pool_header) <= CHUNK_BYTES, "the header has a chunk's room");

/* How one process sees the pool. All zeroes has no chunks.
 *   members  in whose name it locks */
struct event_pool {
    const struct membership *members;
    struct pool_header *header;
    struct chunk *chunks;
    uint64_t chunk_count;
    uint64_t epoch; // of the table
};

/* Lays a pool over memory that is zeroed or holds one. */
void event_pool_place(struct event_pool *pool, void *memory, uint64_t bytes,
                      const struct membership *members);

/* False: its counts cannot be, so the memory is damaged. Others may use it meanwhile. */
bool event_pool_is_possible(const struct event_pool *pool);

static inline struct chunk *event_pool_chunk(const struct event_pool *pool, uint64_t id)
{
    return id >= 1 && id <= pool->chunk_count ? &pool->chunks[id - 1] : NULL;
}

/* Takes a chunk for the key with this tag; 0 if there is none. Its events are whatever they were. */
uint32_t event_pool_take(struct event_pool *pool, uint64_t owner);

/* Gives one back that its owner's log does not lead to any longer. */
void event_pool_give(struct event_pool *pool, uint32_t id);

/* Counts an event that found no chunk. */
void event_pool_count_full(struct event_pool *pool);

/* A part of the chunks for the sweep to look at: the `count` after `first`, in the turn `turn`. At most
 * SWEEP_CHUNKS; half as many for each one that has found nothing since one found something. */
enum { SWEEP_CHUNKS = 256, SWEEP_CHUNKS_MIN = 8 };
struct sweep_part {
    uint64_t first, count;
    uint32_t turn;
};
struct sweep_part event_pool_sweep(struct event_pool *pool);

/* What came of it. */
void event_pool_swept(struct event_pool *pool, bool has_found);

/* Copies all chunks that were ever taken into a pool that nobody else uses yet: their numbers stay. Nobody
 * changes a chunk of `from` meanwhile. False: there is no room for them. */
bool event_pool_carry(struct event_pool *into, struct event_pool *from);

/* How many chunks `into` must have for that. */
uint64_t event_pool_fresh_count(const struct event_pool *pool);

/* Statistics: how many chunks belong to somebody, and how many events found none. */
uint64_t event_pool_used_count(const struct event_pool *pool);
uint64_t event_pool_full_count(const struct event_pool *pool);

#endif
