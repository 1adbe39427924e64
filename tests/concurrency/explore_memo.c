/* SPDX-License-Identifier: MIT
 *
 * What explore_acts.c has found once, for as long as a script is walked through: an operation meets the same few
 * buckets in most of the schedules. What it may come to depends on nothing but what is asked here. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

enum {
    ENTRIES = 1 << 12,
    ENTRIES_USUAL = ENTRIES / 2 // with more it begins anew, but not while an operation answers
};

/*   keys       those that it is about, as a guess knows them
 *   readings   of whom it may have met the operation: of those that have begun; 0: of everybody */
struct asked {
    const struct operation *operation;
    uint64_t readings;
    struct known keys[TOGETHER_MAX];
};

struct entry {
    struct asked asked; // without an operation: it is free
    struct chosen chosen;
};

static struct entry entries[ENTRIES];
static struct entry *used[ENTRIES];
static int used_count;

/* The one of that question, or a free one. */
static struct entry *find(const struct asked *asked)
{
    uint64_t i = digest_words((struct digest){0, 0}, asked, sizeof *asked).low % ENTRIES;
    while (entries[i].asked.operation != NULL
           && memcmp(&entries[i].asked, asked, sizeof *asked) != 0) {
        i = (i + 1) % ENTRIES;
    }
    return &entries[i];
}

static void fill(struct entry *entry, const struct asked *asked, const struct guess *guess,
                 bool is_early)
{
    static struct choices choices;
    acts_choose(&choices, guess, asked->operation, is_early);
    size_t size = (size_t)choices.count * sizeof choices.at[0];
    struct choice *at = malloc(size);
    assert(at != NULL && used_count < ENTRIES - 1);
    memcpy(at, choices.at, size);
    entry->asked = *asked;
    entry->chosen = (struct chosen){choices.count, at};
    used[used_count++] = entry;
}

struct chosen memo_choose(const struct guess *guess, const struct operation *operation,
                          bool is_early)
{
    struct asked asked = {.operation = operation, .readings = is_early ? 0 : model_begun()};
    for (int i = 0; i <= operation->more_count; i++) {
        asked.keys[i] = guess->keys[key_of(operation, i)];
    }
    struct entry *entry = find(&asked);
    if (entry->asked.operation == NULL) {
        fill(entry, &asked, guess, is_early);
    }
    return entry->chosen;
}

void memo_forget(void)
{
    for (int i = 0; i < used_count; i++) {
        free(used[i]->chosen.at);
        memset(used[i], 0, sizeof *used[i]);
    }
    used_count = 0;
}

void memo_tidy(void)
{
    if (used_count > ENTRIES_USUAL) {
        memo_forget();
    }
}
