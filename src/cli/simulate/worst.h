/* SPDX-License-Identifier: MIT
 *
 * Who was turned away most often, in bounded memory: Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi,
 * "Efficient computation of frequent and top-k elements in data streams", 2005).
 *
 * There are WORST_COUNT counters. A key that has none takes over the smallest one, with its count:
 * so a count is never too low, and at most `error` too high. While no more than WORST_COUNT keys were
 * refused, all of it is exact; and whoever was refused more often than total / WORST_COUNT times is
 * always among them. */
#ifndef WEIR_CLI_SIMULATE_WORST_H
#define WEIR_CLI_SIMULATE_WORST_H

#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"

enum { WORST_COUNT = 1024, WORST_KEY_BYTES = 100, WORST_INDEX_COUNT = 4 * WORST_COUNT };

/* The first bytes of a key are kept to show; it is known by its hash. */
struct worst_key {
    uint64_t hash;
    uint64_t count;
    uint64_t error;
    uint32_t length; // of the whole key
    uint32_t slot;   // in the index
    char text[WORST_KEY_BYTES];
};

/* A heap, the smallest count first, and an index by hash. All zeroes is empty. About 140 KiB. */
struct worst {
    size_t count;
    struct worst_key keys[WORST_COUNT];
    uint16_t heap[WORST_COUNT];        // indices of keys
    uint16_t places[WORST_COUNT];      // of each key in the heap
    uint16_t index[WORST_INDEX_COUNT]; // 1 + index of a key; 0 is free
};

/* Counts one refusal. `hash` is a keyed hash of the key, so that nobody can make keys collide. */
void worst_add(struct worst *worst, uint64_t hash, struct bytes key);

/* Fills `sorted` with the up to `max` largest, the worst first; among equal counts the one that came
 * first. Returns how many. */
size_t worst_list(const struct worst *worst, const struct worst_key *sorted[], size_t max);

#endif
