/* SPDX-License-Identifier: MIT */
#include "platform/mapping.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* One mapping, used as it is. */
static bool open_plain(struct mapping *mapping, size_t bytes, int flags, int fd)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) {
        return false;
    }
    *mapping = (struct mapping){at, bytes, at, bytes};
    return true;
}

bool mapping_open_wiped(struct mapping *mapping)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (!open_plain(mapping, page_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1)) {
        return false;
    }
    const int no_advice = -1;
    bool is_ignored = madvise(mapping->at, page_bytes, no_advice) == 0;
    if (is_ignored || madvise(mapping->at, page_bytes, MADV_WIPEONFORK) != 0) {
        int why = is_ignored ? ENOSYS : errno;
        mapping_close(mapping);
        errno = why;
        return false;
    }
    return true;
}

bool mapping_open_shared(struct mapping *mapping, size_t bytes)
{
    return open_plain(mapping, bytes, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

bool mapping_open_file(struct mapping *mapping, int fd, size_t bytes)
{
    return open_plain(mapping, bytes, MAP_SHARED, fd);
}

void mapping_fetch(void *at, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE // Linux 5.14
    (void)madvise(at, bytes, MADV_POPULATE_WRITE);
#else
    (void)madvise(at, bytes, MADV_WILLNEED);
#endif
}

void mapping_close(struct mapping *mapping)
{
    if (mapping->whole_at != NULL) {
        (void)munmap(mapping->whole_at, mapping->whole_bytes);
    }
    *mapping = (struct mapping){0};
}
