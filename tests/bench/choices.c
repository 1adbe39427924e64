/* SPDX-License-Identifier: MIT
 *
 * Row 40: what weir could do in two ways on this processor, and which it chose when it was compiled and started: the
 * keyed hash of one key and of eight, and the reading of 16 bytes at one instant. */
#include "platform/siphash.c" // for the functions behind the choice
#include "sync/atomic.h"

#include "bench.h"

enum { ROUNDS = 1000 * 1000, KEY_BYTES = 16, MANY = 8 };

static const uint64_t SEED[2] = {1, 2};
static char keys[MANY][KEY_BYTES] = {"user:0000000001"};

static double ns_each(uint64_t start_ns, size_t count)
{
    return (double)(cpu_ns() - start_ns) / (double)count;
}

/* One key after another, as calls hash them that do not depend on each other. */
static double time_hash(uint64_t (*hash)(const uint64_t *, const void *, size_t))
{
    uint64_t start_ns = cpu_ns();
    for (size_t i = 0; i < ROUNDS; i++) {
        keep(hash(SEED, keys[i % MANY], KEY_BYTES));
    }
    return ns_each(start_ns, ROUNDS);
}

static double time_hashes(void (*hash_many)(const struct siphash_input *, uint64_t *, size_t))
{
    struct siphash_input inputs[MANY];
    uint64_t hashes[MANY];
    for (size_t i = 0; i < MANY; i++) {
        inputs[i] = (struct siphash_input){SEED, keys[i], KEY_BYTES};
    }
    uint64_t start_ns = cpu_ns();
    for (size_t i = 0; i < ROUNDS / MANY; i++) {
        hash_many(inputs, hashes, MANY);
        keep(hashes[0]);
    }
    return ns_each(start_ns, ROUNDS);
}

/* With the swap that follows in a take. */
static double time_load(struct weir_bucket (*load)(const struct weir_bucket *))
{
    static _Alignas(16) struct weir_bucket bucket;
    uint64_t start_ns = cpu_ns();
    for (size_t i = 0; i < ROUNDS; i++) {
        struct weir_bucket seen = load(&bucket);
        struct weir_bucket next = {seen.empty_at_ns + 1, seen.word};
        keep(cas_bucket(&bucket, seen, next));
    }
    return ns_each(start_ns, ROUNDS);
}

int main(void)
{
    while (next_round()) {
        print_figure("hash", time_hash(siphash13));
        print_figure("hash_plain", time_hash(siphash13_plain));
        print_figure("hashes", time_hashes(siphash13_many));
        print_figure("hashes_plain", time_hashes(siphash13_many_plain));
        print_figure("load", time_load(load_bucket));
        print_figure("load_by_cas", time_load(load_bucket_by_cas));
        print_figure("end", 0);
    }
    return 0;
}
