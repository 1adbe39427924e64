/* SPDX-License-Identifier: MIT
 *
 * Comparing a password without telling how much of it was right. */
#ifndef WEIR_PROTOCOL_SECRET_H
#define WEIR_PROTOCOL_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "core/bytes.h"

/* True if `given` is the secret. The time depends on the length of `given` only, which whoever sent
 * it knows: neither on the secret's bytes nor on its length. */
static inline bool secret_equals(struct bytes given, struct bytes secret)
{
    size_t differences = given.length ^ secret.length;
    size_t at = 0;
    for (size_t i = 0; i < given.length; i++) {
        /* Starts over behind the secret's end, without a branch; an empty secret has one byte to
         * read as well, its NUL. */
        differences |= (size_t)(unsigned char)(given.at[i] ^ secret.at[at]);
        at = (at + 1) & (0 - (size_t)(at + 1 < secret.length));
    }
    return differences == 0;
}

#endif
