/* SPDX-License-Identifier: MIT */
#include "store/bucket_name.h"

#include <string.h>

#include "platform/sha256.h"

void bucket_name(uint8_t name[BUCKET_NAME_BYTES], const uint64_t identity[2], const void *key,
                 size_t key_len)
{
    struct sha256 sha;
    uint8_t digest[SHA256_BYTES];
    sha256_begin(&sha);
    sha256_add(&sha, identity, 2 * sizeof identity[0]); // bytes, as limiter/identity.c laid them
    sha256_add(&sha, key, key_len);
    sha256_end(&sha, digest);
    memcpy(name, digest, BUCKET_NAME_BYTES);
}
