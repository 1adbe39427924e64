/* SPDX-License-Identifier: MIT */
#include "cli/simulate/worst.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

_Static_assert((WORST_INDEX_COUNT & (WORST_INDEX_COUNT - 1)) == 0, "a mask will do");
_Static_assert(WORST_COUNT < UINT16_MAX, "an index and 0 for none fit 16 bits");

/* ---- The index: linear probing ---- */

static size_t slot_after(size_t slot)
{
    return (slot + 1) & (WORST_INDEX_COUNT - 1);
}

static size_t home_of(uint64_t hash)
{
    return hash & (WORST_INDEX_COUNT - 1);
}

/* The slot of this hash, or the free one where it would go. */
static size_t find_slot(const struct worst *worst, uint64_t hash)
{
    size_t slot = home_of(hash);
    while (worst->index[slot] != 0 && worst->keys[worst->index[slot] - 1].hash != hash) {
        slot = slot_after(slot);
    }
    return slot;
}

/* Frees a slot, and moves up those behind it that it kept from their homes (D. Knuth, The Art of
 * Computer Programming, volume 3, section 6.4, algorithm R). */
static void free_slot(struct worst *worst, size_t hole)
{
    for (size_t slot = slot_after(hole); worst->index[slot] != 0; slot = slot_after(slot)) {
        struct worst_key *key = &worst->keys[worst->index[slot] - 1];
        size_t mask = WORST_INDEX_COUNT - 1;
        size_t from_home = (slot - home_of(key->hash)) & mask;
        if (from_home >= ((slot - hole) & mask)) {
            worst->index[hole] = worst->index[slot];
            key->slot = (uint32_t)hole;
            hole = slot;
        }
    }
    worst->index[hole] = 0;
}

/* ---- The heap ---- */

static void put_at(struct worst *worst, size_t place, uint16_t key)
{
    worst->heap[place] = key;
    worst->places[key] = (uint16_t)place;
}

/* A count has grown: its key goes down until both below it are no smaller. */
static void sift_down(struct worst *worst, size_t place)
{
    uint16_t moved = worst->heap[place];
    for (;;) {
        size_t below = 2 * place + 1;
        if (below >= worst->count) {
            break;
        }
        const uint16_t *heap = worst->heap;
        if (below + 1 < worst->count
            && worst->keys[heap[below + 1]].count < worst->keys[heap[below]].count) {
            below++;
        }
        if (worst->keys[moved].count <= worst->keys[heap[below]].count) {
            break;
        }
        put_at(worst, place, heap[below]);
        place = below;
    }
    put_at(worst, place, moved);
}

/* A new key, which counts 0 and so is the smallest. */
static void sift_up(struct worst *worst, size_t place)
{
    uint16_t moved = worst->heap[place];
    for (; place > 0; place = (place - 1) / 2) {
        uint16_t above = worst->heap[(place - 1) / 2];
        if (worst->keys[above].count <= worst->keys[moved].count) {
            break;
        }
        put_at(worst, place, above);
    }
    put_at(worst, place, moved);
}

/* ---- Both ---- */

static uint16_t new_key(struct worst *worst)
{
    if (worst->count < WORST_COUNT) {
        uint16_t added = (uint16_t)worst->count++;
        worst->keys[added] = (struct worst_key){.count = 0};
        put_at(worst, added, added);
        sift_up(worst, added);
        return added;
    }
    uint16_t smallest = worst->heap[0];
    free_slot(worst, worst->keys[smallest].slot);
    worst->keys[smallest].error = worst->keys[smallest].count;
    return smallest;
}

void worst_add(struct worst *worst, uint64_t hash, struct bytes key)
{
    size_t slot = find_slot(worst, hash);
    if (worst->index[slot] == 0) {
        uint16_t added = new_key(worst);
        struct worst_key *entry = &worst->keys[added];
        entry->hash = hash;
        entry->length = (uint32_t)key.length;
        memcpy(entry->text, key.at, key.length < WORST_KEY_BYTES ? key.length : WORST_KEY_BYTES);
        slot = find_slot(worst, hash); // a slot may just have been freed before it
        entry->slot = (uint32_t)slot;
        worst->index[slot] = (uint16_t)(added + 1);
    }
    uint16_t counted = (uint16_t)(worst->index[slot] - 1);
    worst->keys[counted].count++;
    sift_down(worst, worst->places[counted]);
}

size_t worst_list(const struct worst *worst, const struct worst_key *sorted[], size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < worst->count; i++) {
        const struct worst_key *key = &worst->keys[i];
        size_t at = count;
        while (at > 0 && sorted[at - 1]->count < key->count) {
            at--;
        }
        if (at == max) {
            continue;
        }
        count += count < max;
        memmove(&sorted[at + 1], &sorted[at], (count - 1 - at) * sizeof sorted[0]);
        sorted[at] = key;
    }
    assert(count <= max);
    return count;
}
