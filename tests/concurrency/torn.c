/* SPDX-License-Identifier: MIT
 *
 * The 16 bytes that load_bucket() reads are of one instant. One thread swaps pairs of equal halves, the other
 * reads, and must never see a pair of two different ones. That is for processors where the compiler's own way
 * is two loads (sync/atomic.h), so it finds something under `qemu-aarch64 -cpu cortex-a72`. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/atomic.h"

enum { READS = 1000000, READS_SOAK = 200000000, CHANGES = 1000 };

static struct weir_bucket bucket __attribute__((aligned(16)));
static uint64_t is_over; // atomic

static void *swap(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; load_relaxed(&is_over) == 0; i++) {
        struct weir_bucket now = {i, i}, next = {i + 1, i + 1};
        if (!cas_bucket(&bucket, now, next)) {
            (void)fprintf(stderr, "a swap failed, though nobody else changes the bucket\n");
            exit(1);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    unsigned long reads_min = is_soak ? READS_SOAK : READS;
    unsigned long reads = 0, torn_count = 0, change_count = 0;
    uint64_t last = 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, swap, NULL) != 0) {
        return 1;
    }
    for (; reads < reads_min || change_count < CHANGES; reads++) {
        struct weir_bucket seen = load_bucket(&bucket);
        torn_count += seen.empty_at_ns != seen.word;
        change_count += seen.word != last;
        last = seen.word;
    }
    store_relaxed(&is_over, 1);
    (void)pthread_join(thread, NULL);
    printf("%lu of %lu reads were torn; %lu found another pair than the one before\n", torn_count,
           reads, change_count);
    return torn_count != 0;
}
