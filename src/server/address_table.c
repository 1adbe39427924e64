/* SPDX-License-Identifier: MIT
 *
 * Open addressing with linear probing, at most half full, deletion by moving back (Knuth, volume 3,
 * 6.4, algorithm R). The hash is seeded, because who connects chooses his address. */
#include "server/address_table.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct entry {
    uint64_t high, low; // of the address; low is 0 for an IPv6 /64
    uint64_t count;     // 0: free
};

struct address_table {
    pthread_mutex_t mutex;
    uint64_t per_address_max;
    uint64_t seed[2];
    size_t used;
    size_t mask;
    struct entry entries[];
};

static void read_address(const uint8_t address[16], struct entry *entry)
{
    static const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    memcpy(&entry->high, address, 8);
    memcpy(&entry->low, address + 8, 8);
    if (memcmp(address, v4_mapped, sizeof v4_mapped) != 0) {
        entry->low = 0;
    }
}

/* Two rounds of multiply and fold with secret odd factors: enough for a count that no reply shows. */
static size_t home(const struct address_table *table, const struct entry *entry)
{
    uint64_t mixed = (entry->high ^ table->seed[0]) * (table->seed[1] | 1);
    mixed = ((mixed >> 32) ^ mixed ^ entry->low) * (table->seed[0] | 1);
    return (size_t)((mixed >> 32) ^ mixed) & table->mask;
}

struct address_table *address_table_open(size_t address_count, uint64_t per_address_max)
{
    size_t size = 16;
    while (size < address_count * 2) {
        size *= 2;
    }
    struct address_table *table = calloc(1, sizeof *table + size * sizeof table->entries[0]);
    if (table == NULL || getrandom(table->seed, sizeof table->seed, 0) != sizeof table->seed) {
        free(table);
        return NULL;
    }
    table->per_address_max = per_address_max;
    table->mask = size - 1;
    (void)pthread_mutex_init(&table->mutex, NULL);
    return table;
}

void address_table_close(struct address_table *table)
{
    if (table != NULL) {
        (void)pthread_mutex_destroy(&table->mutex);
        free(table);
    }
}

/* The entry of this address, or the free one where it would stand. The table is never full. */
static size_t find(const struct address_table *table, const struct entry *key)
{
    size_t at = home(table, key);
    while (table->entries[at].count > 0
           && (table->entries[at].high != key->high || table->entries[at].low != key->low)) {
        at = (at + 1) & table->mask;
    }
    return at;
}

bool address_table_enter(struct address_table *table, const uint8_t address[16])
{
    struct entry key = {0};
    read_address(address, &key);
    (void)pthread_mutex_lock(&table->mutex);
    struct entry *entry = &table->entries[find(table, &key)];
    bool is_new = entry->count == 0;
    bool entered =
        entry->count < table->per_address_max && (!is_new || table->used <= table->mask / 2);
    if (entered) {
        table->used += is_new;
        key.count = entry->count + 1;
        *entry = key;
    }
    (void)pthread_mutex_unlock(&table->mutex);
    return entered;
}

uint64_t address_table_count(struct address_table *table, const uint8_t address[16])
{
    struct entry key = {0};
    read_address(address, &key);
    (void)pthread_mutex_lock(&table->mutex);
    uint64_t count = table->entries[find(table, &key)].count;
    (void)pthread_mutex_unlock(&table->mutex);
    return count;
}

/* Frees an entry and moves back those that its place had pushed on. */
static void remove_entry(struct address_table *table, size_t hole)
{
    for (size_t at = (hole + 1) & table->mask; table->entries[at].count > 0;
         at = (at + 1) & table->mask) {
        size_t from_home = (at - home(table, &table->entries[at])) & table->mask;
        if (from_home >= ((at - hole) & table->mask)) {
            table->entries[hole] = table->entries[at];
            hole = at;
        }
    }
    table->entries[hole] = (struct entry){0};
    table->used--;
}

void address_table_leave(struct address_table *table, const uint8_t address[16])
{
    struct entry key = {0};
    read_address(address, &key);
    (void)pthread_mutex_lock(&table->mutex);
    size_t at = find(table, &key);
    assert(table->entries[at].count > 0);
    if (table->entries[at].count > 0 && --table->entries[at].count == 0) {
        remove_entry(table, at);
    }
    (void)pthread_mutex_unlock(&table->mutex);
}
