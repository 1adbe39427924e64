/* SPDX-License-Identifier: MIT
 *
 * Seeds that nobody can guess. */
#ifndef WEIR_PLATFORM_RANDOM_H
#define WEIR_PLATFORM_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

/* Fills `bytes` from the operating system. False, with errno, if it cannot. At most 256 bytes. */
bool random_fill(void *bytes, size_t count);

#endif
