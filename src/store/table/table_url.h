/* SPDX-License-Identifier: MIT
 *
 * Where buckets live, as people write it: "memory:", "memory:?shared=yes", "file:/path?mode=0660". */
#ifndef WEIR_STORE_TABLE_TABLE_URL_H
#define WEIR_STORE_TABLE_TABLE_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "store/table/file.h"
#include "weir/status.h"

enum store_kind { STORE_MEMORY, STORE_FILE };

/*   bytes, events_bytes      0: not said
 *   is_shared    memory: with the children of this process
 *   path .. flush_every_ns   file */
struct store_url {
    enum store_kind kind;
    uint64_t bytes;
    uint64_t events_bytes;
    bool is_shared;
    char path[STORE_PATH_MAX];
    unsigned mode;
    uint64_t flush_every_ns;
};

/* Reads a URL that begins with "memory:" or "file:"; error->offset says where it is wrong. */
enum weir_status store_url_parse(struct store_url *url, const char *text, struct weir_error *error);

#endif
