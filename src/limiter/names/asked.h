/* SPDX-License-Identifier: MIT
 *
 * What a limit's text asks for where names may stand in it:
 *
 *     api                 the numbers that the limit of this name has for the key
 *     api, 100/min        a list: names and limits that are written out
 *     request             a chain: several limits, each with a key of its own
 *
 * A text without names is left to rule_cache_list(). */
#ifndef WEIR_LIMITER_NAMES_ASKED_H
#define WEIR_LIMITER_NAMES_ASKED_H

#include "limiter/limit_list.h"
#include "limiter/names/names.h"
#include "limiter/rule_cache.h"

/* One of the limits that decide. */
struct asked_part {
    const struct named_limit *named; // NULL: it is written out, and on the request's own key
    struct bytes key;
    struct bytes said;  // what it is called in answers: its name, or as it was written
    struct bytes words; // its numbers
};

/* What a request brings. */
struct asking {
    const struct names *names; // may be NULL
    struct rule_cache *cache;
    struct bytes key; // no bytes: none, which is an error where somebody needs one
    const struct variables *variables;
    char *room; // where keys of chains go
    size_t room_bytes;
};

/* Whether somebody's name is meant in this text. */
bool asked_by_name(const struct names *names, const char *text, size_t length);

/* Whether a chain is among what is meant in it. */
bool asked_for_chain(const struct names *names, const char *text, size_t length);

struct asked {
    size_t count; // 1 .. LIMIT_LIST_COUNT_MAX
    size_t used;  // of the room
    bool has_chain;
};

/* Reads such a text. `rules` and `parts` have room for LIMIT_LIST_COUNT_MAX. Statuses of
 * limit_list_split(), weir_limit_parse() and chain_fill_in(); WEIR_E_SYNTAX also where nothing has a
 * name, or the same bucket is asked for twice. After a failure nothing of it counts. */
WEIR_MUST_USE enum weir_status asked_read(const struct asking *asking, const char *text,
                                          size_t length, struct weir_rule *rules,
                                          struct asked_part *parts, struct asked *asked,
                                          struct weir_error *error);

#endif
