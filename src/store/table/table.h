/* SPDX-License-Identifier: MIT
 *
 * The table: buckets by the hash of their key, in bounded memory that threads share, or processes.
 * README.md in this folder says how it works; slots.c opens with the contract of its shared words. */
#ifndef WEIR_STORE_TABLE_TABLE_H
#define WEIR_STORE_TABLE_TABLE_H

#include <sys/types.h>

#include "platform/mapping.h"
#include "store/store.h"
#include "store/table/event_pool.h"
#include "store/table/store_clock.h"
#include "sync/lock.h"
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
    TABLE_GROUP = 16,            // of them, how many are hashed and on their way together
};

/* Which of a hash's bits do not choose the stripe; and what the hash of a block differs in from its
 * bucket's: the home line, the owner bits, and nothing above. */
#define TABLE_LOW_BITS   UINT64_C(0xffffff)
#define TABLE_BLOCK_BITS UINT64_C(0x35a9c7)
_Static_assert((TABLE_BLOCK_BITS & ~TABLE_LOW_BITS) == 0, "a block lies in its bucket's stripe");

/* One cache line.
 *   displaced        about the keys whose home is this line and that found no room in it; displaced.h
 *   lowered_from_ns  the latest moment from which a refund or reset moved a bucket of this line back */
struct table_line {
    struct weir_bucket states[TABLE_LINE_SLOTS];
    uint64_t tags[TABLE_LINE_SLOTS]; // a key's whole hash; 0: never used
    uint64_t displaced;
    uint64_t lowered_from_ns;
} __attribute__((aligned(64)));

/* What the lines of one stripe share: the lock of their insertions, and the latest reading of the
 * clock at which one of their slots was given to another key. Whoever locks it reads one line of memory.
 *   epoch         of the table when these lines were last known to be whole: see repair.c
 *   reused_at_ns  with STRIPE_MOVED once the buckets of these lines are on their way to another table */
struct stripe {
    struct lock lock;
    uint64_t epoch;
    uint64_t reused_at_ns;
    uint64_t used_count;
    uint64_t reused_count;
    uint64_t full_count;
    uint64_t evicted_count;
} __attribute__((aligned(128)));

/* Above every reading. */
#define STRIPE_MOVED (UINT64_C(1) << 63)

/* What a table's guard says. The kernel writes the first one; the last one costs a system call for each batch. */
enum { GUARD_CHILD = 0, GUARD_OURS = 1, GUARD_ASK = 2 };

/* Where the file of a table is, for those who have to open it again. */
struct file_origin;

/*   root     the table that was opened, whose store everybody holds; itself, but in one that it led to
 *   current  of the root: the table in which to begin to look
 *   waits_in  of the root: the table behind which those stand who wait; the keeper of the lines moves it
 *   next     NULL, or the table in which the buckets of this one go on (transfer.c)
 *   is_lost  of the root: the buckets have moved to where this process cannot follow
 *   guard    of the root: GUARD_CHILD in a child that has come out of fork(). Private memory is its parent's, and
 *            must not be used there; memory that processes share may be, once the child has joined
 *            (table_join_again())
 *   owner    of the root, where the guard says GUARD_ASK: the process that opened it, or has joined
 *   members  in whose name this process locks
 *   home     of a file: which boot, and which file
 *   epoch    how often the memory has outlived all who used it
 *   utc_renewed_ns  of the root: the reading at which somebody last looked up UTC; whoever
 *                   moves it does
 *   utc_offset_ns   of the root: what was seen then; line_ops.h
 *   waiting  behind these buckets; of the root, behind those of waits_in */
struct table {
    struct store store;
    struct table *root;
    void *current;
    struct table *waits_in;
    void *next;
    uint64_t is_lost;
    struct file_origin *origin; // of the root of a file
    struct table_line *lines;
    struct stripe *stripes;
    uint64_t stripe_count;
    uint64_t stripe_lines; // a power of two
    uint64_t *guard;
    pid_t owner;
    struct membership members;
    struct waiting_area waiting;
    struct weir_bucket home;
    struct store_clock clock;
    bool follows_wall; // utc_offset_ns is renewed
    uint64_t utc_renewed_ns, utc_offset_ns;
    uint64_t epoch;
    struct event_pool events;
    struct mapping mapping;
    struct mapping events_mapping; // of memory; in a file they are of one mapping with the lines
    struct mapping guard_page;
};

/* Where those begin to look who hold this store: it changes when somebody comes upon a bucket that has
 * moved. */
static inline struct table *table_current(const struct store *store)
{
    return load_pointer(&((const struct table *)store)->current);
}

/* How many stripes fit into so much memory, and of how many lines. */
struct table_shape {
    uint64_t stripe_count;
    uint64_t stripe_lines;
    uint64_t bytes;
};
struct table_shape table_shape_of(uint64_t memory_bytes);

/* How much of memory that processes share is for those who wait: one part in WAITING_SHARE. */
enum { WAITING_SHARE = 16, WAITING_BYTES_MAX = 8 << 20 };
uint64_t table_waiting_bytes(uint64_t memory_bytes);

/* How much memory for the events of windows there is beside a table of this size, unless said: one part in
 * EVENTS_SHARE. */
enum { EVENTS_SHARE = 4 };
uint64_t table_events_bytes(uint64_t memory_bytes);

/* Opens a table of private memory, WEIR_MEMORY_BYTES_MIN .. _MAX, and beside it WEIR_EVENTS_BYTES_MIN ..
 * _MAX for the events of windows. NULL, with errno, if refused. store_ops.close() releases it. */
struct store *table_open(uint64_t memory_bytes, uint64_t events_bytes);

/* The same, shared with the processes that this one will fork. */
struct store *table_open_shared(uint64_t memory_bytes, uint64_t events_bytes);

/* Has limits that go by the calendar follow the wall clock: from now on, and before anybody uses the table.
 * Otherwise readings count as UTC. */
void table_follow_wall(struct store *store);

/* UTC minus the table's clock, looked up again about once a second. */
int64_t table_utc_offset_ns(struct table *table, uint64_t now_ns);

/* Lays a table over memory of this shape: lines, and the stripes behind them. */
void table_place(struct table *table, void *memory, struct table_shape shape);

/* From now on a fork is noticed: the first is true in a child, until the second was called there. */
void table_guard_against_fork(struct table *table);
bool table_is_inherited(const struct table *root);
void table_own(struct table *root);

/* Lets those who share this table wait in memory behind it, aligned to a cache line. */
void table_place_waiting(struct table *table, void *memory, uint64_t bytes);

/* Uses memory that the caller has zeroed and keeps: `stripe_count` stripes and
 * stripe_count * stripe_lines lines. */
void table_init(struct table *table, struct table_line *lines, struct stripe *stripes,
                uint64_t stripe_count, uint64_t stripe_lines);

/* Answers one request whose key has this hash (not 0). decide() is this behind hashing and
 * prefetching; tests that choose their hashes call it directly. */
struct weir_decision table_decide_hash(struct table *table, const struct weir_request *request,
                                       uint64_t hash, uint64_t now_ns);

/* Lays a bucket into a table that nobody else uses yet, in which the key has none. False: no slot that it
 * could have is free. */
bool table_put(struct table *table, uint64_t hash, struct weir_bucket bucket);

/* The same into one slot of a line, in which its home knows that it is to be found. */
void table_put_at(struct table *table, uint64_t line, int slot, uint64_t hash,
                  struct weir_bucket bucket);

/* What to do about buckets that are on their way to another table. Waits until they have arrived, and
 * returns the table in which to look again; or NULL, if it cannot be opened (following.c). Thread-safe. */
struct table *table_follow(struct table *table, uint64_t hash);

/* As line_ops and upkeep_ops. */
uint64_t table_seen_utc_offset_ns(const struct store *store);
bool table_waits_elsewhere(const struct store *store);
bool table_follow_waiting(struct store *store);
enum store_name table_look_at_name(struct store *store);
enum weir_status table_regain_name(struct store *store, struct line_mover *lines, uint64_t now_ns,
                                   struct store_regained *regained, struct weir_error *error);

/* Makes a stripe whole whose lock's holder died, or that a crash of the machine may have torn. Under its
 * lock. */
void table_repair(struct table *table, struct stripe *stripe);

/* How many buckets are not empty. Looks at every slot while others use the table: what changes meanwhile is seen
 * or not. */
uint64_t table_live_count(const struct table *table, uint64_t now_ns);

/* As upkeep_ops. */
void table_describe(const struct store *store, struct store_description *description,
                    uint64_t now_ns);
uint64_t table_reset_all(struct store *store, uint64_t now_ns);

/* As upkeep_ops. Counts all slots of a table of up to CENSUS_SLOTS. Of a larger one it looks at so many slots, in
 * stripes that lie equally far apart: keys are spread over the stripes by chance, so the share that
 * is found differs from that of the whole table by 0.2 % (one standard deviation) at most. */
enum { CENSUS_SLOTS = 65536 };
void table_census(const struct store *store, struct store_census *census, uint64_t now_ns);

#endif
