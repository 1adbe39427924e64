/* SPDX-License-Identifier: MIT
 *
 * A table in a file that the processes of one host map, and that outlives them. file.c opens with what
 * the file looks like, and what can happen to it. */
#ifndef WEIR_STORE_TABLE_FILE_H
#define WEIR_STORE_TABLE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/*   path             absolute
 *   bytes            for buckets, WEIR_MEMORY_BYTES_MIN .. _MAX; 0: as it is, and `new_bytes` for a
 *                    new one
 *   events_bytes     for the events of windows, behind that; 0: as it is, and a part of what a new one
 *                    has for buckets (table_events_bytes())
 *   mode             of a new file
 *   must_exist       it is not made; and unless the seed is 0, it is the one of that seed
 *   is_caller_clock  its buckets live by a clock of the caller's: a file is of one kind or the other
 *   seed             of a new file
 *   made_wall_s      of a new file; 0: now */
struct file_config {
    const char *path;
    uint64_t bytes;
    uint64_t new_bytes;
    uint64_t events_bytes;
    unsigned mode;
    bool must_exist;
    bool is_caller_clock;
    uint64_t flush_every_ns;
    uint64_t seed[2];
    uint64_t made_wall_s;
};

/* Opens the file, or makes it if there is none; the seed of the file goes to seed[].
 *   WEIR_OK       *store is open; store_ops.close() releases it, the file stays
 *   WEIR_E_FILE   it is not one that this program can use
 *   WEIR_E_SYSTEM, WEIR_E_NO_MEMORY */
enum weir_status table_open_file(struct store **store, const struct file_config *config,
                                 uint64_t seed[2], struct weir_error *error);

/* True for the f_type of a file system that other hosts may have mounted too, or that we cannot know. */
bool file_system_is_remote(uint64_t type);

#endif
