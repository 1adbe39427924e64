/* SPDX-License-Identifier: MIT
 *
 * Limits that have a name, with what belongs to them: other numbers for some keys, chains of several
 * limits, and which request is for which of them. All that a configuration says, and nothing of how
 * it is written.
 *
 *     struct names *names = names_open();
 *     names_add_limit(names, name, limit, (struct limit_policy){0}, &error);
 *     names_bind(names, limiter);
 *     ...
 *     struct name_found found = names_find(names, "api", 3);
 *     const struct named_rule *numbers = named_limit_rule(found.limit, key, key_len);
 *
 * Three steps, each by one thread: it is opened and added to; bound to a limiter; and then only read,
 * by any thread, until it is closed. What was found in it points into it. */
#ifndef WEIR_LIMITER_NAMES_NAMES_H
#define WEIR_LIMITER_NAMES_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "weir/limiter.h"

enum {
    NAME_BYTES_MAX = 63,
    NAMES_LIMIT_COUNT_MAX = 256,
    NAMES_OVERRIDE_COUNT_MAX = 16384, // of all limits together
    NAMES_PATTERN_COUNT_MAX = 64,     // of one limit: they are tried one by one
    NAMES_CHAIN_COUNT_MAX = 256,
    NAMES_ROUTE_COUNT_MAX = 256, // they, too
    NAMES_PATH_BYTES_MAX = 1024, // of a route
    CHAIN_LINK_COUNT_MAX = 16,
    CHAIN_PIECE_COUNT_MAX = 16, // of one key template: texts and variables
    CHAIN_TEMPLATE_BYTES_MAX = 1024,
    CHAIN_KEYS_BYTES_MAX = 65536, // of all keys of one chain, filled in
    VARIABLE_COUNT_MAX = 16       // that come with one request
};

/* Numbers of a limit, for the keys that have them. */
struct named_rule {
    struct weir_rule rule;
    struct bytes words; // as they were written: "100/s capacity=20"
};

/* Other numbers for one key, or for those of a pattern. */
struct override {
    struct bytes key;     // as it was written, with its `*` if it is a pattern
    size_t before, after; // of a pattern: bytes before and behind the `*`
    struct named_rule numbers;
};

struct named_limit {
    char name[NAME_BYTES_MAX + 1];
    size_t index;   // among the limits of these names, as they were added
    bool is_shadow; // it decides and is counted, and refuses nothing
    bool resets;    // buckets start empty when the numbers change
    struct named_rule usual;
    struct override *overrides; // in the order in which they were added
    size_t override_count, override_room;
    uint32_t *slots; // of the exact ones: a hash table, index + 1, linear probing
    size_t slot_count;
    size_t exact_bytes_max; // the longest key among them
    uint32_t patterns[NAMES_PATTERN_COUNT_MAX];
    size_t pattern_count;
};

/* A piece of a key: a text, or the value of a variable. */
struct template_piece {
    struct bytes text;
    bool is_variable;
};

struct chain_link {
    const struct named_limit *limit;
    struct bytes written; // the template: "user:{user}"
    struct template_piece pieces[CHAIN_PIECE_COUNT_MAX];
    size_t piece_count;
};

/* Several limits, decided together, all or nothing; each with a key of its own. */
struct named_chain {
    char name[NAME_BYTES_MAX + 1];
    struct chain_link links[CHAIN_LINK_COUNT_MAX];
    size_t link_count;
    bool uses_key; // some template asks for {key}: the request's own
};

/* What a name stands for: a limit, a chain, or neither. */
struct name_found {
    const struct named_limit *limit;
    const struct named_chain *chain;
};

/* Which requests a limit or chain is for, and what they cost. */
struct route {
    unsigned methods;  // a bit per method; 0: all
    struct bytes path; // a prefix, in whole segments
    struct name_found target;
    uint64_t cost_micro;
};

struct names;

/* ---- adding: single owner ---- */

/* NULL if there is no memory. */
struct names *names_open(void);
void names_close(struct names *names); // NULL is fine

/* WEIR_OK if these bytes can be a new name: a small letter, then small letters, digits, `_` and `-`,
 * at most NAME_BYTES_MAX; no kind of limit, no word that weir keeps for itself, and not there yet. */
WEIR_MUST_USE enum weir_status names_check(const struct names *names, struct bytes name,
                                           struct weir_error *error);

/* Add a part; all texts are copied. A name has passed names_check() before, and the key of an override
 * names_check_override(): what is wrong then is the limit's text, the template, the path; error->offset
 * is a place in it.
 *   WEIR_E_SYNTAX     it cannot be, or cannot be beside what is there
 *   WEIR_E_RANGE      too many, too long, or a number of the limit
 *   WEIR_E_INEXACT    as weir_limit_parse()
 *   WEIR_E_NO_MEMORY
 * A failure leaves them as they were. */
struct limit_policy {
    bool is_shadow, resets;
};
WEIR_MUST_USE enum weir_status names_add_limit(struct names *names, struct bytes name,
                                               struct bytes limit, struct limit_policy policy,
                                               struct weir_error *error);

/* Of the limit that was added last. One `*` in the key makes it a pattern; the first that was added
 * counts. */
WEIR_MUST_USE enum weir_status names_check_override(const struct names *names, struct bytes key,
                                                    struct weir_error *error);
WEIR_MUST_USE enum weir_status names_add_override(struct names *names, struct bytes key,
                                                  struct bytes limit, struct weir_error *error);

WEIR_MUST_USE enum weir_status names_add_chain(struct names *names, struct bytes name,
                                               struct weir_error *error);
/* To the chain that was added last. `key` is a template: texts, and variables as {name}. */
WEIR_MUST_USE enum weir_status names_add_link(struct names *names, const struct named_limit *limit,
                                              struct bytes key, struct weir_error *error);

/* A route that no request can reach is an error. `methods` of method_bit(). */
WEIR_MUST_USE enum weir_status names_add_route(struct names *names, unsigned methods,
                                               struct bytes path, struct name_found target,
                                               uint64_t cost_micro, struct weir_error *error);

/* Whether all limits of a target can count such a cost, overrides among them: some count in whole
 * units. */
bool name_counts(struct name_found target, uint64_t cost_micro);

/* Numbers that never hold a cost: of a limit, for an override's key, or for all others, if that is empty.
 * Limit NULL: there are none. */
struct too_small {
    const struct named_limit *limit;
    struct bytes key;
};

/* The first numbers of a target that refuse such a cost for ever; a limit in shadow mode would. */
struct too_small name_never_holds(struct name_found target, uint64_t cost_micro);

/* Gives every rule the hash key under which this limiter has its buckets. The last step. */
void names_bind(struct names *names, const struct weir_limiter *limiter);

/* ---- reading: thread-safe ---- */

/* Whether a limit's text is meant as a name: it begins with a small letter, and not with a kind. */
bool name_is_meant(const char *text, size_t length);

/* Finds what a limit's text names.
 *   WEIR_OK        *found; both NULL: it is a limit that is written out, right or wrong
 *   WEIR_E_SYNTAX  it is meant as a name, and nothing has it
 * `names` may be NULL: then everything is written out. */
WEIR_MUST_USE enum weir_status names_resolve(const struct names *names, const char *text,
                                             size_t length, struct name_found *found,
                                             struct weir_error *error);

/* Both NULL where nothing has this name. */
struct name_found names_find(const struct names *names, const char *name, size_t length);

/* A decision about a limit in shadow mode, as it is answered: allowed, and now. */
void named_limit_pass(struct weir_decision *decision);

/* The numbers that a limit has for this key. */
const struct named_rule *named_limit_rule(const struct named_limit *limit, const void *key,
                                          size_t key_len);

/* The first route for this request, or NULL. `method` in capitals; one that is not known is only for
 * routes of all methods. `path` as normalised by route_path(). */
const struct route *names_route(const struct names *names, struct bytes method, struct bytes path);

/* The bit of a method in `methods`, in capitals; 0 if it is none that weir knows. And its name by the
 * number of the bit; NULL beyond the last. */
unsigned method_bit(struct bytes method);
const char *method_name(unsigned index);

/* Writes the path of a request's target as routes are compared: without a query, with %XX decoded
 * once, `.` and `..` resolved, and a single slash for several. `room` is target.length bytes.
 * False if the target does not begin with a slash. */
bool route_path(struct bytes target, char *room, struct bytes *path);

/* What came with a request, by name. */
struct variables {
    size_t count;
    struct variable {
        struct bytes name, value;
    } entries[VARIABLE_COUNT_MAX];
};

/* False if there are too many, or there is one of this name. */
bool variables_add(struct variables *variables, struct bytes name, struct bytes value);

/* Fills in the keys of a chain.
 *   key    the request's own; no bytes: it has none
 *   room   of which *used were needed; a key that is one variable or one text needs none
 *   WEIR_E_SYNTAX  a variable is missing or has no bytes, or the same bucket would be there twice
 *   WEIR_E_RANGE   a key longer than WEIR_KEY_BYTES_MAX, or all than CHAIN_KEYS_BYTES_MAX */
WEIR_MUST_USE enum weir_status chain_fill_in(const struct named_chain *chain, struct bytes key,
                                             const struct variables *variables, char *room,
                                             size_t room_bytes, size_t *used,
                                             struct bytes keys[CHAIN_LINK_COUNT_MAX],
                                             struct weir_error *error);

/* Walking through all of them, in the order in which they were added. */
size_t names_limit_count(const struct names *names);
const struct named_limit *names_limit(const struct names *names, size_t i);
size_t names_chain_count(const struct names *names);
const struct named_chain *names_chain(const struct names *names, size_t i);
size_t names_route_count(const struct names *names);
const struct route *names_route_at(const struct names *names, size_t i);
size_t names_override_count(const struct names *names);

/* How two editions differ, in limits and chains by name. */
struct names_changes {
    size_t added_count, changed_count, removed_count;
    bool routes_changed;
};
struct names_changes names_compare(const struct names *before, const struct names *after);

#endif
