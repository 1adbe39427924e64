/* SPDX-License-Identifier: MIT
 *
 * Where a key can live, by its hash: the stripe, the home line in it, the lines beyond; and the look into
 * one of them, which every take of an existing bucket begins with. slots.c is the rest of the way. */
#ifndef WEIR_STORE_TABLE_PLACES_H
#define WEIR_STORE_TABLE_PLACES_H

#include "core/bucket_math.h"
#include "store/table/table.h"
#include "sync/atomic.h"

/* A slot that holds the key, and the state that was read from it. */
struct found {
    struct table_line *line;
    struct weir_bucket *state;
    struct weir_bucket seen;
};

static inline uint64_t table_stripe_index_of(const struct table *table, uint64_t hash)
{
    return (uint64_t)(((uint128)(hash & ~TABLE_LOW_BITS) * table->stripe_count) >> 64);
}

/* The stripe in which a key with this hash lives, if anywhere. */
static inline struct stripe *table_stripe_of(const struct table *table, uint64_t hash)
{
    return &table->stripes[table_stripe_index_of(table, hash)];
}

/* The index of its home line; and its owner bits, in their place in the word. */
static inline uint64_t table_home_of(const struct table *table, uint64_t hash)
{
    return table_stripe_index_of(table, hash) * table->stripe_lines
           + (hash & (table->stripe_lines - 1));
}

static inline uint64_t table_owner_of(uint64_t hash)
{
    return hash << (BUCKET_OWNER_SHIFT - 16) & BUCKET_OWNER_MASK; // bits 16 .. 31 of the hash
}

/* The line `distance` lines beyond home; a stripe is a ring. */
static inline struct table_line *probe_line(const struct table *table, uint64_t home,
                                            uint64_t distance)
{
    uint64_t ring = table->stripe_lines - 1;
    return &table->lines[(home & ~ring) | ((home + distance) & ring)];
}

static inline uint64_t probe_count(const struct table *table)
{
    return table->stripe_lines < TABLE_PROBE_LINES_MAX ? table->stripe_lines
                                                       : TABLE_PROBE_LINES_MAX;
}

/* Looks for the key in one line. Which slot it would be in is chance, so that is computed and not
 * branched on; that it is here, the processor may guess. */
static inline bool table_look(struct table_line *line, uint64_t hash, struct found *found)
{
    size_t slot = 0;
    for (size_t i = 1; i < TABLE_LINE_SLOTS; i++) { // A1: who misses a key goes on to A2
        slot |= i & -(size_t)(load_acquire(&line->tags[i]) == hash);
    }
    COMPUTED(slot);
    if (load_acquire(&line->tags[slot]) != hash) { // A1: sees the state that R1 follows
        return false;
    }
    found->line = line;
    found->state = &line->states[slot];
    found->seen = load_bucket(found->state);
    /* The second look. Acquire, though nothing follows: it may not move up. */
    return load_acquire(&line->tags[slot]) == hash
           && (found->seen.word & BUCKET_OWNER_MASK) == table_owner_of(hash);
}

#endif
