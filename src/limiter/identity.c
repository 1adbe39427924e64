/* SPDX-License-Identifier: MIT */
#include "limiter/identity.h"

#include <string.h>

#include "platform/sha256.h"
#include "platform/siphash.h"

enum domain { DOMAIN_NUMBERS = 1, DOMAIN_NAME = 2 };

struct frame {
    uint64_t word[4];
};

static void derive_seeded(uint64_t hash_key[2], const uint64_t seed[2], struct frame frame)
{
    for (uint64_t i = 0; i < 2; i++) {
        frame.word[0] ^= i << 63;
        hash_key[i] = siphash24(seed, &frame, sizeof frame);
    }
}

static void put_word(uint8_t *at, uint64_t word)
{
    for (size_t i = 0; i < 8; i++) {
        at[i] = (uint8_t)(word >> (8 * i));
    }
}

/* The words of the frame, and then the name. */
static void derive_shared(uint64_t hash_key[2], const uint64_t *words, size_t word_count,
                          const void *name, size_t name_len)
{
    struct sha256 sha;
    uint8_t bytes[8];
    uint8_t digest[SHA256_BYTES];
    sha256_begin(&sha);
    for (size_t i = 0; i < word_count; i++) {
        put_word(bytes, words[i]);
        sha256_add(&sha, bytes, sizeof bytes);
    }
    sha256_add(&sha, name, name_len);
    sha256_end(&sha, digest);
    memcpy(hash_key, digest, 2 * sizeof hash_key[0]);
}

void identity_of_numbers(uint64_t hash_key[2], const struct identity_source *source,
                         const struct weir_limit *limit)
{
    uint64_t words = DOMAIN_NUMBERS | (uint64_t)limit->kind << 8 | (uint64_t)limit->first << 16
                     | (uint64_t)limit->calendar << 24;
    struct frame frame = {{words, limit->denominator, limit->scale, limit->capacity_micro}};
    if (source->is_of_all_hosts) {
        derive_shared(hash_key, frame.word, 4, "", 0);
    } else {
        derive_seeded(hash_key, source->seed, frame);
    }
}

void identity_of_name(uint64_t hash_key[2], const struct identity_source *source,
                      enum weir_kind kind, const void *name, size_t name_len)
{
    struct frame frame = {{DOMAIN_NAME | (uint64_t)kind << 8, name_len, 0, 0}};
    if (source->is_of_all_hosts) {
        derive_shared(hash_key, frame.word, 2, name, name_len);
    } else {
        frame.word[2] = siphash24(source->seed, name, name_len);
        derive_seeded(hash_key, source->seed, frame);
    }
}
