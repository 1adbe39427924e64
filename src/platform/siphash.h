/* SPDX-License-Identifier: MIT
 *
 * SipHash, the keyed hash of J.-P. Aumasson and D. J. Bernstein ("SipHash: a fast short-input PRF",
 * 2012). Keys of buckets are chosen by strangers, so the hash must be one that they cannot steer. */
#ifndef WEIR_PLATFORM_SIPHASH_H
#define WEIR_PLATFORM_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4, the standard strength: for deriving keys. Thread-safe, pure. */
uint64_t siphash24(const uint64_t key[2], const void *bytes, size_t length);

/* SipHash-1-3, the fast one: for finding buckets. With vector instructions where the processor has
 * AVX-512, chosen at run time. Thread-safe, pure. */
uint64_t siphash13(const uint64_t key[2], const void *bytes, size_t length);

/* One message of siphash13_many(). */
struct siphash_input {
    const uint64_t *key; // two words
    const void *bytes;
    size_t length;
};

/* siphash13() of `count` messages, several at a time in the processor's vector registers where it
 * has them (AVX-512, chosen at run time). Thread-safe, pure. */
void siphash13_many(const struct siphash_input *inputs, uint64_t *hashes, size_t count);

/* The twin without vectors, for tests and for other processors. */
void siphash13_many_plain(const struct siphash_input *inputs, uint64_t *hashes, size_t count);

#endif
