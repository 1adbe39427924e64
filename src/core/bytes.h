/* SPDX-License-Identifier: MIT
 *
 * Bytes that somebody else owns. */
#ifndef WEIR_CORE_BYTES_H
#define WEIR_CORE_BYTES_H

#include <stddef.h>

struct bytes {
    const char *at;
    size_t length;
};

#endif
