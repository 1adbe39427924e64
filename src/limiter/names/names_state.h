/* SPDX-License-Identifier: MIT
 *
 * What names are made of, for the files that make them: names.c, names_chain.c, names_route.c. */
#ifndef WEIR_LIMITER_NAMES_NAMES_STATE_H
#define WEIR_LIMITER_NAMES_NAMES_STATE_H

#include <string.h>

#include "limiter/names/names.h"

enum {
    // limits and chains in one table, at most half full; a power of two
    NAMES_SLOT_COUNT = 1024,
    NAMES_IS_CHAIN = 1 << 15
};
_Static_assert(2 * (NAMES_LIMIT_COUNT_MAX + NAMES_CHAIN_COUNT_MAX) <= NAMES_SLOT_COUNT,
               "a free slot ends every search");

/* Memory for texts, in blocks that stay where they are. */
struct text_block {
    struct text_block *next;
    size_t used, size;
    char bytes[];
};

struct names {
    struct named_limit *limits[NAMES_LIMIT_COUNT_MAX];
    size_t limit_count;
    struct named_chain *chains[NAMES_CHAIN_COUNT_MAX];
    size_t chain_count;
    struct route routes[NAMES_ROUTE_COUNT_MAX];
    size_t route_count;
    size_t override_count;
    uint16_t slots[NAMES_SLOT_COUNT]; // 0: free; index + 1, NAMES_IS_CHAIN of a chain
    struct text_block *texts;
};

/* Copies a text, which then lives as long as the names. `at` is NULL if there is no memory. */
struct bytes names_keep(struct names *names, struct bytes text);

/* Makes a name findable: the chain or limit that was added last. */
void names_publish(struct names *names, const char *name, uint16_t entry);

static inline bool text_equals(struct bytes a, struct bytes b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* At most so many bytes of a text are repeated in a message. */
static inline int text_shown(struct bytes text)
{
    return text.length < 64 ? (int)text.length : 64;
}

#endif
