/* SPDX-License-Identifier: MIT
 *
 * Stands in for src/sync/atomic.h when the explorer compiles the table: the same names, each a
 * step of the explorer (explore_memory.c). Sequentially consistent; the orders are documented and
 * reviewed in the real header, and watched by ThreadSanitizer. */
#ifndef WEIR_SYNC_ATOMIC_H
#define WEIR_SYNC_ATOMIC_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "weir/bucket.h"

/* Never changes in these walks: everybody begins in the table that was opened. */
static inline void *load_pointer(void *const *at)
{
    return *at;
}

uint64_t load_acquire(const uint64_t *word);
uint64_t load_relaxed(const uint64_t *word);
void store_release(uint64_t *word, uint64_t value);
void store_relaxed(uint64_t *word, uint64_t value);
bool cas_word(uint64_t *word, uint64_t *expected, uint64_t next);
bool cas_bucket(struct weir_bucket *bucket, struct weir_bucket expected, struct weir_bucket next);
struct weir_bucket load_bucket(const struct weir_bucket *bucket);

/* As a swap, which notices if somebody has changed what nobody may. */
static inline void store_bucket(struct weir_bucket *bucket, struct weir_bucket last,
                                struct weir_bucket next)
{
    bool done = cas_bucket(bucket, last, next);
    assert(done);
    (void)done;
}

#endif
