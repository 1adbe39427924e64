/* SPDX-License-Identifier: MIT */
#include "platform/random.h"

#include <errno.h>
#include <sys/random.h>

bool random_fill(void *bytes, size_t count)
{
    ssize_t got;
    do {
        got = getrandom(bytes, count, 0); // up to 256 bytes come whole or not at all
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)count;
}
