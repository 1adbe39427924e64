/* SPDX-License-Identifier: MIT
 *
 * What the measuring programs share. Each of them stays alive and obeys standard input: at every
 * line it runs all of its loops once and prints one line of JSON, {"name": figure, ...}. So
 * bench.py can ask several programs in turn, and compare only what ran side by side. */
#ifndef WEIR_TESTS_BENCH_H
#define WEIR_TESTS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* GNU extension: the 16-byte word that the compare-and-swap instruction takes. */
__extension__ typedef unsigned __int128 word16;

static inline uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Processor time of this thread: a loop that another process interrupts costs no more by it. */
static inline uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* xorshift64*: cheap enough to vanish beside a cache miss. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return (uint64_t)(((word16)random_next(state) * bound) >> 64);
}

/* Keeps a value alive without storing it anywhere. */
static inline void keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/* Memory as weir's table gets it: huge pages where the kernel gives them. */
static inline void *map_huge(size_t bytes)
{
    size_t huge = (size_t)2 << 20;
    char *at = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    at += (huge - (uintptr_t)at % huge) % huge;
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

static inline bool next_round(void)
{
    char line[64];
    return fgets(line, sizeof line, stdin) != NULL;
}

static inline void print_figure(const char *name, double figure)
{
    static bool first = true;
    printf("%s\"%s\": %.4f", first ? "{" : ", ", name, figure);
    first = strcmp(name, "end") == 0;
    if (first) {
        printf("}\n");
        fflush(stdout);
    }
}

#endif
