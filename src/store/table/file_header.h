/* SPDX-License-Identifier: MIT
 *
 * The file: a page of header, the lines, the stripes, and what lies beside the table, region by region.
 * Offsets, never pointers; the same structs as in memory, so the header says which, and a program that was
 * compiled otherwise keeps away.
 *
 *     +--------+------------------------ ... --+-------------- ... --+---------+ ...
 *     | header | lines                         | stripes             | regions |
 *     +--------+------------------------ ... --+-------------- ... --+---------+ ...
 *     0        4096                            + 64 per line         + 128 per stripe
 *
 *  Shared word  Written by                           Order    Pairs with
 *  home .. in_use        one that comes or leaves     plain    behind the gate (home.h)
 *  phase        who moves the buckets to another     release  load in file_phase()
 *               file, or gives that up; under `moving`
 *  everything else of the header                     never    (time: store_clock.h; first_bytes: before
 *                                                             the file has its name) */
#ifndef WEIR_STORE_TABLE_FILE_HEADER_H
#define WEIR_STORE_TABLE_FILE_HEADER_H

#include "store/table/table.h"

enum { FILE_FORMAT = 6, FILE_BYTE_ORDER = 0x01020304, FILE_HEADER_BYTES = 4096 };

#define FILE_MAGIC "weirfile" // 8 bytes, without its NUL

/* Behind the name of a file until it gets the name of the one whose buckets it has taken; and then the inode of
 * that one. */
#define FILE_SUCCESSOR ".weir-resize-"

/* What lies behind the stripes, in this order. */
enum file_region_name {
    FILE_REGION_WAITING, // those who wait: limiter/shared_lines/shared_room.h
    FILE_REGION_EVENTS,  // of windows: event_pool.h; from the first page behind `table_bytes`
    FILE_REGION_COUNT
};

struct file_region {
    uint64_t at; // from the beginning of the file
    uint64_t bytes;
};

/* What never changes. Its sum is the last word. */
struct file_stamp {
    char magic[8];
    uint32_t byte_order;
    uint32_t format;
    uint64_t file_bytes;
    uint64_t table_bytes; // what was asked for: all but the events
    uint64_t stripe_count;
    uint64_t stripe_lines;
    uint32_t line_bytes;
    uint32_t stripe_bytes;
    uint32_t is_caller_clock;
    uint32_t chunk_bytes;
    struct file_region regions[FILE_REGION_COUNT];
    uint64_t seed[2];
    uint64_t made_wall_s;
    uint64_t sum;
};

/* Whether the buckets are to be found here. The step to FILE_MOVED is the one that counts (transfer.c). */
enum file_phase { FILE_STAYS, FILE_MOVING, FILE_MOVED };

/*   home    the kernel's boot id, with the file's inode in it
 *   epoch   how often one that came alone could not tell that it was whole: home.c
 *   home_epoch  the first one at this home
 *   in_use  0 once the last one has left that had it open
 *   moving  held by whoever moves the buckets to another file
 *   phase   enum file_phase
 *   first_bytes, first_events_bytes  with which the buckets' first file was made; 0: this is the first */
struct file_header {
    struct file_stamp stamp;
    struct weir_bucket home __attribute__((aligned(64)));
    uint64_t epoch, home_epoch;
    uint64_t in_use;
    struct shared_time time __attribute__((aligned(64)));
    struct lock moving __attribute__((aligned(64)));
    uint64_t phase;
    uint64_t first_bytes, first_events_bytes;
};

_Static_assert(FILE_HEADER_BYTES % CHUNK_BYTES == 0, "events begin at whole pages");
static inline enum file_phase file_phase(const struct file_header *header)
{
    return (enum file_phase)load_acquire(&header->phase);
}

_Static_assert(sizeof(struct file_header) <= FILE_HEADER_BYTES, "the header is a page");
_Static_assert(sizeof(struct stripe) == 128 && sizeof(struct table_line) == 64,
               "as the format says");

#endif
