/* SPDX-License-Identifier: MIT
 *
 * The lines of places.c, and the memory of all: which line is a bucket's, found by a keyed hash of its name; and which
 * is due first, found in a heap. */
#include <assert.h>
#include <string.h>

#include "platform/siphash.h"
#include "store/places_state.h"

_Static_assert(sizeof(struct place) == 64 && sizeof(struct places_line) == 272,
               "what places_bytes() says");

/* ---- the heap ---- */

static void put(struct places *places, uint32_t index, struct places_line *line)
{
    places->heap[index] = line;
    line->heap_index = index;
}

static void sift_up(struct places *places, uint32_t index, struct places_line *line)
{
    while (index > 0 && line->due_ns < places->heap[(index - 1) / 2]->due_ns) {
        put(places, index, places->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(places, index, line);
}

static void sift_down(struct places *places, uint32_t index, struct places_line *line)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child + 1 < places->heap_count
            && places->heap[child + 1]->due_ns < places->heap[child]->due_ns) {
            child++;
        }
        if (child >= places->heap_count || places->heap[child]->due_ns >= line->due_ns) {
            break;
        }
        put(places, index, places->heap[child]);
        index = child;
    }
    put(places, index, line);
}

void places_schedule(struct places *places, struct places_line *line, uint64_t due_ns)
{
    uint64_t before_ns = line->due_ns;
    line->due_ns = due_ns;
    if (before_ns == PLACES_NEVER && due_ns != PLACES_NEVER) {
        sift_up(places, places->heap_count++, line);
    } else if (before_ns != PLACES_NEVER && due_ns == PLACES_NEVER) {
        struct places_line *last = places->heap[--places->heap_count];
        if (last != line) {
            sift_up(places, line->heap_index, last);
            sift_down(places, last->heap_index, last);
        }
    } else if (due_ns < before_ns) {
        sift_up(places, line->heap_index, line);
    } else if (due_ns > before_ns) {
        sift_down(places, line->heap_index, line);
    }
}

/* ---- lines by name ---- */

static struct places_line **list_of(const struct places *places, const uint8_t *name)
{
    uint64_t hash = siphash13(places->config.seed, name, BUCKET_NAME_BYTES);
    return &places->hashed[hash & places->hash_mask];
}

struct places_line *places_find_line(const struct places *places,
                                     const struct places_question *question)
{
    struct places_line *line = *list_of(places, question->name);
    while (line != NULL
           && (memcmp(line->name, question->name, sizeof line->name) != 0
               || line->denominator != question->limit->denominator
               || line->lead != lead_of(question->limit)
               || line->egress != egress_of(question->limit))) {
        line = line->next;
    }
    return line;
}

struct places_line *places_open_line(struct places *places, const struct places_question *question)
{
    struct places_line *line = places->unused_lines;
    if (line == NULL) {
        return NULL;
    }
    places->unused_lines = line->next;
    struct places_line **list = list_of(places, question->name);
    *line = (struct places_line){.denominator = question->limit->denominator,
                                 .lead = lead_of(question->limit),
                                 .egress = egress_of(question->limit),
                                 .due_ns = PLACES_NEVER,
                                 .next = *list};
    memcpy(line->name, question->name, sizeof line->name);
    *list = line;
    places->stats.line_count++;
    return line;
}

void places_close_line(struct places *places, struct places_line *line)
{
    struct places_line **at = list_of(places, line->name);
    while (*at != line) {
        at = &(*at)->next;
    }
    places_schedule(places, line, PLACES_NEVER);
    *at = line->next;
    line->next = places->unused_lines;
    places->unused_lines = line;
    places->stats.line_count--;
}

/* ---- memory ---- */

static uint32_t hash_count(const struct places_config *config)
{
    uint32_t count = 1;
    while (count < config->line_count_max) {
        count *= 2;
    }
    return count;
}

size_t places_bytes(const struct places_config *config)
{
    assert(config->place_count_max - 1 < PLACES_COUNT_MAX
           && config->line_count_max - 1 < PLACES_COUNT_MAX);
    return (sizeof(struct places) + 15) / 16 * 16 + config->place_count_max * sizeof(struct place)
           + config->line_count_max * (sizeof(struct places_line) + sizeof(struct places_line *))
           + hash_count(config) * sizeof(struct places_line *);
}

struct places *places_init(void *memory, const struct places_config *config)
{
    memset(memory, 0, places_bytes(config));
    struct places *places = memory;
    struct place *all = (void *)((char *)memory + (sizeof *places + 15) / 16 * 16);
    struct places_line *lines = (void *)(all + config->place_count_max);
    places->config = *config;
    places->hash_mask = hash_count(config) - 1;
    places->heap = (void *)(lines + config->line_count_max);
    places->hashed = places->heap + config->line_count_max;
    for (uint32_t i = config->place_count_max; i > 0; i--) {
        all[i - 1].next = places->unused_places;
        places->unused_places = &all[i - 1];
    }
    for (uint32_t i = config->line_count_max; i > 0; i--) {
        lines[i - 1].next = places->unused_lines;
        places->unused_lines = &lines[i - 1];
    }
    return places;
}
