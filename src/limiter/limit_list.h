/* SPDX-License-Identifier: MIT
 *
 * Several limits in one text, which one take obeys all together:
 *
 *     window 25/5s, window 300/60s
 *
 * A comma stands between two limits, and in none. A text without one is a list of one limit, and
 * everything that is wrong with it is said as if there were no lists. */
#ifndef WEIR_LIMITER_LIMIT_LIST_H
#define WEIR_LIMITER_LIMIT_LIST_H

#include <stddef.h>

#include "weir/limiter.h"

enum {
    LIMIT_LIST_COUNT_MAX = WEIR_TOGETHER_MAX,
    LIMIT_LIST_TEXT_MAX = LIMIT_LIST_COUNT_MAX * (WEIR_LIMIT_TEXT_MAX + 2), // ", " behind each
};

/* Where the limits stand in the text, the spaces around each left out; the only one is all of it. */
struct limit_span {
    size_t at, length;
};

struct limit_list {
    size_t count; // 1 .. LIMIT_LIST_COUNT_MAX
    struct limit_span spans[LIMIT_LIST_COUNT_MAX];
};

/* Finds the limits of a text; reads none of them.
 *   WEIR_OK
 *   WEIR_E_SYNTAX  one of several is empty; *error says which and where
 *   WEIR_E_RANGE   more than LIMIT_LIST_COUNT_MAX, or bytes than LIMIT_LIST_TEXT_MAX
 * `error` may be NULL. Pure. */
WEIR_MUST_USE enum weir_status limit_list_split(struct limit_list *list, const char *text,
                                                size_t length, struct weir_error *error);

/* Turns what was said about the i-th limit's own text into what is wrong with the list: which limit
 * it is, and where in the whole text. Passes the status on. `error` may be NULL. */
enum weir_status limit_list_fail(const struct limit_list *list, size_t i, enum weir_status status,
                                 struct weir_error *error);

/* The same for two limits that are one and the same bucket, the i-th and the earlier j-th. */
enum weir_status limit_list_fail_twice(const struct limit_list *list, size_t i, size_t j,
                                       struct weir_error *error);

#endif
