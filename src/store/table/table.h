/* SPDX-License-Identifier: MIT
 *
 * The table: buckets by the hash of their key, in bounded memory that threads share. README.md in
 * this folder says how it works; table.c opens with the contract of its shared words. */
#ifndef WEIR_STORE_TABLE_TABLE_H
#define WEIR_STORE_TABLE_TABLE_H

#include "platform/mapping.h"
#include "store/store.h"
#include "sync/mutex.h"
#include "weir/bucket.h"

/* How many slots share a line. Two fill a cache line; the checker also tries one. */
#ifndef TABLE_LINE_SLOTS
#define TABLE_LINE_SLOTS 2
#endif

enum {
    TABLE_STRIPE_LINES = 1024,      // 64 KiB of lines behind one lock
    TABLE_STRIPE_LINES_SMALL = 256, // in tables of less than TABLE_SMALL_BYTES
    TABLE_SMALL_BYTES = 2 << 20,
    TABLE_PROBE_LINES_MAX = 256, // how far from home a bucket may live
    TABLE_BATCH = 32,            // requests whose lines are fetched together
    TABLE_GROUP = 16,            // of them, how many are hashed together
};

/* One cache line.
 *   displaced        about the keys whose home is this line and that found no room in it; displaced.h
 *   lowered_from_ns  the latest moment from which a refund or reset moved a bucket of this line back */
struct line {
    struct weir_bucket states[TABLE_LINE_SLOTS];
    uint64_t tags[TABLE_LINE_SLOTS]; // a key's whole hash; 0: never used
    uint64_t displaced;
    uint64_t lowered_from_ns;
} __attribute__((aligned(64)));

/* What the lines of one stripe share: the lock of their insertions, and the latest reading of the
 * clock at which one of their slots was given to another key. */
struct stripe {
    struct mutex mutex;
    uint64_t reused_at_ns;
    uint64_t used_count;
    uint64_t reused_count;
    uint64_t full_count;
} __attribute__((aligned(128)));

struct table {
    struct store store;
    struct line *lines;
    struct stripe *stripes;
    uint64_t stripe_count;
    uint64_t stripe_lines; // a power of two
    struct mapping mapping;
};

/* How many stripes fit into so much memory, and of how many lines. */
struct table_shape {
    uint64_t stripe_count;
    uint64_t stripe_lines;
    uint64_t bytes;
};
struct table_shape table_shape_of(uint64_t memory_bytes);

/* Opens a table of private memory, WEIR_MEMORY_BYTES_MIN .. _MAX. NULL, with errno, if refused.
 * store_ops.close() releases it. */
struct store *table_open(uint64_t memory_bytes);

/* Uses memory that the caller has zeroed and keeps: `stripe_count` stripes and
 * stripe_count * stripe_lines lines. For table_open() and for the checker. */
void table_init(struct table *table, struct line *lines, struct stripe *stripes,
                uint64_t stripe_count, uint64_t stripe_lines);

/* Answers one request whose key has this hash (not 0). decide() is this behind hashing and
 * prefetching; tests that choose their hashes call it directly. */
struct weir_decision table_decide_hash(struct table *table, const struct weir_request *request,
                                       uint64_t hash, uint64_t now_ns);

/* Where a hash lives: the index of its home line, and its owner bits in their place in the word. */
uint64_t table_home_of(const struct table *table, uint64_t hash);
uint64_t table_owner_of(uint64_t hash);

#endif
