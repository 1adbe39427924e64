/* SPDX-License-Identifier: MIT */
#include "limiter/together.h"

#include <string.h>

static bool is_same_bucket(const struct weir_request *a, const struct weir_request *b)
{
    return memcmp(a->rule->hash_key, b->rule->hash_key, sizeof a->rule->hash_key) == 0
           && a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

bool together_find_twice(const struct weir_request *requests, size_t count, size_t *later,
                         size_t *earlier)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (is_same_bucket(&requests[i], &requests[j])) {
                *later = i;
                *earlier = j;
                return true;
            }
        }
    }
    return false;
}
