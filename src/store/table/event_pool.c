/* SPDX-License-Identifier: MIT
 *
 * Every function here is a few stores under one lock, in an order in which dying between any two of them
 * loses no chunk: see event_pool.h. */
#include "store/table/event_pool.h"

#include <stddef.h>
#include <string.h>

#include "sync/atomic.h"

void event_pool_place(struct event_pool *pool, void *memory, uint64_t bytes,
                      const struct membership *members)
{
    *pool = (struct event_pool){.members = members, .header = memory};
    pool->chunks = (struct chunk *)memory + 1;
    pool->chunk_count = bytes / CHUNK_BYTES - 1;
}

bool event_pool_is_possible(const struct event_pool *pool)
{
    /* Relaxed: each by itself, whatever the other is by then. */
    return load_relaxed(&pool->header->fresh_count) <= pool->chunk_count
           && load_relaxed(&pool->header->free_count) <= pool->chunk_count;
}

static void put_in_list(struct pool_header *header, struct chunk *chunk, uint64_t id)
{
    chunk->next = (uint32_t)header->free_first;
    header->free_first = id;
    store_relaxed(&header->free_count, header->free_count + 1);
}

/* Makes the list of free chunks anew. Under the lock. */
static void repair(struct event_pool *pool)
{
    struct pool_header *header = pool->header;
    if (header->fresh_count > pool->chunk_count) { // torn by a crash of the machine
        store_relaxed(&header->fresh_count, pool->chunk_count);
    }
    header->free_first = 0;
    store_relaxed(&header->free_count, 0);
    for (uint64_t id = header->fresh_count; id >= 1; id--) {
        struct chunk *chunk = event_pool_chunk(pool, id);
        if (load_acquire(&chunk->owner) == 0) {
            put_in_list(header, chunk, id);
        }
    }
    header->epoch = pool->epoch;
}

static void lock(struct event_pool *pool)
{
    bool is_heir = lock_acquire(&pool->header->lock, pool->members);
    if (__builtin_expect(is_heir || pool->header->epoch != pool->epoch, 0)) {
        repair(pool);
    }
}

static void unlock(struct event_pool *pool)
{
    lock_release(&pool->header->lock);
}

/* Under the lock. Whoever dies before `owner` is written has taken nothing. */
static uint64_t take_any(struct event_pool *pool)
{
    struct pool_header *header = pool->header;
    uint64_t id = header->free_first;
    const struct chunk *chunk = event_pool_chunk(pool, id);
    if (chunk != NULL) {
        header->free_first = chunk->next;
        store_relaxed(&header->free_count, header->free_count - 1);
        return id;
    }
    if (header->fresh_count < pool->chunk_count) {
        store_relaxed(&header->fresh_count, header->fresh_count + 1);
        return header->fresh_count;
    }
    return 0;
}

uint32_t event_pool_take(struct event_pool *pool, uint64_t owner)
{
    if (pool->chunk_count == 0) {
        return 0;
    }
    lock(pool);
    uint64_t id = take_any(pool);
    struct chunk *chunk = event_pool_chunk(pool, id);
    if (chunk != NULL) {
        chunk->swept = (uint32_t)pool->header->sweep_turn;
        store_release(&chunk->owner, owner);
    }
    unlock(pool);
    return (uint32_t)id;
}

void event_pool_give(struct event_pool *pool, uint32_t id)
{
    struct chunk *chunk = event_pool_chunk(pool, id);
    assert(chunk != NULL);
    lock(pool);
    assert(chunk->owner != 0);
    store_release(&chunk->owner, 0); // whoever dies now has given it back
    put_in_list(pool->header, chunk, id);
    unlock(pool);
}

void event_pool_count_full(struct event_pool *pool)
{
    if (pool->chunk_count != 0) {
        lock(pool);
        store_relaxed(&pool->header->full_count, pool->header->full_count + 1);
        unlock(pool);
    }
}

struct sweep_part event_pool_sweep(struct event_pool *pool)
{
    if (pool->chunk_count == 0) {
        return (struct sweep_part){0, 0, 0};
    }
    lock(pool);
    struct pool_header *header = pool->header;
    if (header->sweep_at >= header->fresh_count) {
        header->sweep_at = 0;
        header->sweep_turn++;
    }
    uint64_t left = header->fresh_count - header->sweep_at;
    uint64_t count = SWEEP_CHUNKS;
    for (uint64_t i = 0; i < header->sweep_narrow && count > SWEEP_CHUNKS_MIN; i++) {
        count /= 2;
    }
    struct sweep_part part = {header->sweep_at, count < left ? count : left,
                              (uint32_t)header->sweep_turn};
    header->sweep_at += part.count;
    unlock(pool);
    return part;
}

bool event_pool_carry(struct event_pool *into, struct event_pool *from)
{
    if (from->chunk_count == 0) {
        return true;
    }
    lock(from); // so that the list is whole
    const struct pool_header *old = from->header;
    struct pool_header *new = into->header;
    bool fits = old->fresh_count <= into->chunk_count;
    if (fits) {
        memcpy(into->chunks, from->chunks, old->fresh_count * sizeof *into->chunks);
        new->fresh_count = old->fresh_count;
        new->free_first = old->free_first;
        new->free_count = old->free_count;
        new->sweep_at = old->sweep_at;
        new->sweep_turn = old->sweep_turn;
        new->epoch = into->epoch;
    }
    unlock(from);
    return fits;
}

uint64_t event_pool_fresh_count(const struct event_pool *pool)
{
    return pool->chunk_count != 0 ? load_relaxed(&pool->header->fresh_count) : 0; // a statistic
}

void event_pool_swept(struct event_pool *pool, bool has_found)
{
    if (pool->chunk_count != 0) {
        lock(pool);
        pool->header->sweep_narrow = has_found ? 0 : pool->header->sweep_narrow + 1;
        unlock(pool);
    }
}

uint64_t event_pool_used_count(const struct event_pool *pool)
{
    if (pool->chunk_count == 0) {
        return 0;
    }
    /* Relaxed, and one after the other: a statistic. */
    uint64_t free_count = load_relaxed(&pool->header->free_count);
    uint64_t fresh_count = load_relaxed(&pool->header->fresh_count);
    return fresh_count > free_count ? fresh_count - free_count : 0;
}

uint64_t event_pool_full_count(const struct event_pool *pool)
{
    return pool->chunk_count != 0 ? load_relaxed(&pool->header->full_count) : 0;
}
