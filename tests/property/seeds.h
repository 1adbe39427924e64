/* SPDX-License-Identifier: MIT
 *
 * Random walks, each from a seed that can be said again. The program that includes this says in its head:
 *
 *     WEIR_SEED=N         repeats one walk; its seed is printed where one fails
 *     SOAK_MINUTES=N      for so long, instead of so many walks, and with other seeds each time
 *
 * Compiled with EVERY=N it takes one in N of them. */
#ifndef WEIR_TESTS_PROPERTY_SEEDS_H
#define WEIR_TESTS_PROPERTY_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* At least so many walks, by EVERY. False if it was one that somebody asked for: then nothing is known of all. */
static inline bool walk_seeds(uint64_t count, void (*walk)(uint64_t seed))
{
    const char *one = getenv("WEIR_SEED");
    const char *minutes = getenv("SOAK_MINUTES");
    if (one != NULL) {
        walk(strtoull(one, NULL, 10));
        return false;
    }
    uint64_t first = minutes != NULL ? (uint64_t)time(NULL) << 24 : 1;
    time_t end = time(NULL) + (minutes != NULL ? (time_t)atol(minutes) * 60 : 0);
    uint64_t seed = first;
    for (; seed < first + count / EVERY || time(NULL) < end; seed++) {
        walk(seed);
    }
    printf("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)seed - 1);
    return true;
}

#endif
