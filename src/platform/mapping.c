/* SPDX-License-Identifier: MIT */
#include "platform/mapping.h"

#include <stdint.h>
#include <sys/mman.h>

bool mapping_open_private(struct mapping *mapping, size_t bytes)
{
    size_t slack = bytes >= MAPPING_HUGE_BYTES ? MAPPING_HUGE_BYTES : 0;
    size_t whole_bytes = bytes + slack;
    void *whole_at = mmap(NULL, whole_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole_at == MAP_FAILED) {
        return false;
    }
    size_t into = slack == 0 ? 0 : -(uintptr_t)whole_at % MAPPING_HUGE_BYTES;
    char *at = (char *)whole_at + into;
    if (bytes >= MAPPING_HUGE_FROM_BYTES) {
        (void)madvise(at, bytes, MADV_HUGEPAGE); // a wish: without it everything works, slower
    }
    *mapping = (struct mapping){at, bytes, whole_at, whole_bytes};
    return true;
}

void mapping_close(struct mapping *mapping)
{
    if (mapping->whole_at != NULL) {
        (void)munmap(mapping->whole_at, mapping->whole_bytes);
    }
    *mapping = (struct mapping){0};
}
