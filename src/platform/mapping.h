/* SPDX-License-Identifier: MIT
 *
 * Memory by the page, from the operating system. */
#ifndef WEIR_PLATFORM_MAPPING_H
#define WEIR_PLATFORM_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

struct mapping {
    void *at; /* aligned to a page; private memory to MAPPING_HUGE_BYTES if larger than that */
    size_t bytes;
    void *whole_at; /* what was mapped, to give it back */
    size_t whole_bytes;
};

/* A huge page of x86-64, and of aarch64 with pages of 4 KiB; and from how much memory on such pages are asked for. A
 * table of 64 MiB is somewhat smaller: whole stripes. */
enum { MAPPING_HUGE_BYTES = 2 << 20, MAPPING_HUGE_FROM_BYTES = 63 << 20 };

/* Maps private, zeroed memory that is touched only as it is used. False, with errno, if refused; so
 * for all of these. */
bool mapping_open_private(struct mapping *mapping, size_t bytes);

/* The same, of a page, that is all zeroes again in a child after fork(). EINVAL where the kernel cannot do
 * that (Linux before 4.14), ENOSYS where it only says that it can: qemu-user accepts any advice and follows
 * none, so a kernel that accepts advice that does not exist is not believed. */
bool mapping_open_wiped(struct mapping *mapping);

/* Maps zeroed memory that this process shares with those it will fork. */
bool mapping_open_shared(struct mapping *mapping, size_t bytes);

/* Maps the beginning of a file, shared with whoever else maps it. */
bool mapping_open_file(struct mapping *mapping, int fd, size_t bytes);

/* Asks for the pages from `at` on, to be written to, so that nobody waits for them later. What is in them stays.
 * A wish: without it everything works, slower. */
void mapping_fetch(void *at, size_t bytes);

void mapping_close(struct mapping *mapping);

#endif
