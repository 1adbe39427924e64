/* SPDX-License-Identifier: MIT
 *
 * Names of buckets in stores that hosts share: 128 bits, which all servers and SQL compute alike, without a seed, so
 * that a server starts while the store is down.
 *
 *     identity  the first 16 bytes of SHA-256(frame): what makes a limit the same limit, see limiter/identity.h
 *     name      the first 16 bytes of SHA-256(identity, key)
 *
 * In PostgreSQL a name is substring(sha256(identity || key) FOR 16). Two of 2^40 buckets have one name with a
 * probability of 2^-49. One that chooses keys cannot choose names. One that reads the store can find
 * out which of the keys that it guesses are there: the store is the server's own. */
#ifndef WEIR_STORE_BUCKET_NAME_H
#define WEIR_STORE_BUCKET_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "store/exported.h"

enum { BUCKET_NAME_BYTES = 16 };

/* The name of the bucket of this key under a rule with this identity, which is its hash_key. Pure; thread-safe. */
void bucket_name(uint8_t name[BUCKET_NAME_BYTES], const uint64_t identity[2], const void *key,
                 size_t key_len);

#endif
