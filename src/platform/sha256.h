/* SPDX-License-Identifier: MIT
 *
 * SHA-256: FIPS 180-4, sections 5 and 6.2. For names that other programs have to compute alike; not keyed, and not
 * made to be fast.
 *
 *     struct sha256 sha;
 *     sha256_begin(&sha);
 *     sha256_add(&sha, bytes, length);
 *     sha256_end(&sha, digest);
 *
 * Pure; thread-safe. */
#ifndef WEIR_PLATFORM_SHA256_H
#define WEIR_PLATFORM_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

struct sha256 {
    uint32_t state[8];
    uint64_t length; // in bytes
    uint8_t block[64];
};

void sha256_begin(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *bytes, size_t length);
void sha256_end(struct sha256 *sha, uint8_t digest[SHA256_BYTES]);

#endif
