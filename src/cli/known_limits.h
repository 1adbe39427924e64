/* SPDX-License-Identifier: MIT
 *
 * What a server says that names mean for a key: WEIR.LIMITS. Of a chain it is all of its limits. */
#ifndef WEIR_CLI_KNOWN_LIMITS_H
#define WEIR_CLI_KNOWN_LIMITS_H

#include <stdbool.h>

#include "cli/reply.h"
#include "limiter/limit_list.h"

/* One limit: what it is called, and its numbers; what was written out is called as it was written. */
struct known_limit {
    char name[WEIR_LIMIT_TEXT_MAX + 1];
    char words[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_limit_config config; // of the words
};

/*   count  0: nothing is known
 *   names  of all, where `list` says */
struct known_limits {
    size_t count;
    struct known_limit limits[LIMIT_LIST_COUNT_MAX];
    char names[LIMIT_LIST_TEXT_MAX + 1];
    struct limit_list list;
};

/* Reads them from a reply. False, and nothing is known, if it is none to WEIR.LIMITS. */
bool known_limits_read(struct known_limits *known, const struct reply *reply);

/* Whether it is a name, with numbers of its own. */
bool known_limit_is_named(const struct known_limit *limit);

#endif
