/* SPDX-License-Identifier: MIT
 *
 * Where a pipe writes to. If that is a pipe of the kernel's, it collects 64 KiB, which a reader that
 * stalls would then get at once. So it is made as narrow as it goes: a pipe of one page counts as full,
 * and poll() does not call it writable, until everything in it was read. That tells when an item was
 * taken, without asking again and again. */
#ifndef WEIR_CLI_PIPE_OUTLET_H
#define WEIR_CLI_PIPE_OUTLET_H

#include <stdbool.h>
#include <stddef.h>

/*   width  as it was found; 0: it is no pipe, or could not be made narrow */
struct outlet {
    int fd;
    int width;
};

/* From now on it holds no more than `bytes`, or one page. */
void outlet_narrow(struct outlet *outlet, int fd, size_t bytes);

/* As it was found: others may go on writing to it. */
void outlet_restore(const struct outlet *outlet);

static inline bool outlet_is_narrow(const struct outlet *outlet)
{
    return outlet->width > 0;
}

#endif
