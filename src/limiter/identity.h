/* SPDX-License-Identifier: MIT
 *
 * What makes a bucket the same bucket: a limit's numbers, or its name, become the 128 bits of a rule's hash_key.
 *
 *     store      hash_key
 *     the table  SipHash-2-4 of the frame, twice, under the limiter's seed: another one in each process or file
 *     shared by hosts  the first 16 bytes of SHA-256 of the frame: the same everywhere (store/bucket_name.h)
 *
 * The frame of a limit that is written out: domain 1, kind, first, calendar; denominator, scale, capacity: the rate in
 * lowest terms, so that the same limit in other words is the same bucket. That of a name: domain 2, kind; the name's
 * length; for hosts the name itself. All are words of 64 bits, little-endian: where hosts share a store this, and the
 * numbers of the kinds (weir/limit.h), never change. */
#ifndef WEIR_LIMITER_IDENTITY_H
#define WEIR_LIMITER_IDENTITY_H

#include <stdbool.h>

#include "weir/limiter.h"

/*   seed            of the limiter
 *   is_of_all_hosts  the store is one that hosts share */
struct identity_source {
    uint64_t seed[2];
    bool is_of_all_hosts;
};

void identity_of_numbers(uint64_t hash_key[2], const struct identity_source *source,
                         const struct weir_limit *limit);
void identity_of_name(uint64_t hash_key[2], const struct identity_source *source,
                      enum weir_kind kind, const void *name, size_t name_len);

#endif
