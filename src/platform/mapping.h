/* SPDX-License-Identifier: MIT
 *
 * Memory by the page, from the operating system. */
#ifndef WEIR_PLATFORM_MAPPING_H
#define WEIR_PLATFORM_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

struct mapping {
    void *at; /* aligned to a page; to MAPPING_HUGE_BYTES if larger than that */
    size_t bytes;
    void *whole_at; /* what was mapped, to give it back */
    size_t whole_bytes;
};

enum {
    MAPPING_HUGE_BYTES = 2 << 20,       // a huge page of x86-64 and of aarch64 with 4 KiB pages
    MAPPING_HUGE_FROM_BYTES = 64 << 20, // from here on huge pages are asked for
};

/* Maps private, zeroed memory that is touched only as it is used. False, with errno, if refused. */
bool mapping_open_private(struct mapping *mapping, size_t bytes);
void mapping_close(struct mapping *mapping);

#endif
