/* SPDX-License-Identifier: MIT */
#include "limiter/limit_list.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"

/* Numbers are for people: the first limit is limit 1. */
static enum weir_status fail_count(const struct limit_list *list, size_t count,
                                   struct weir_error *error)
{
    const struct limit_span *last = &list->spans[LIMIT_LIST_COUNT_MAX - 1];
    return fail(error, WEIR_E_RANGE, last->at + last->length,
                "%zu limits: at most %d can be taken together", count, (int)LIMIT_LIST_COUNT_MAX);
}

static struct limit_span trim(const char *text, size_t from, size_t to)
{
    while (from < to && text[from] == ' ') {
        from++;
    }
    while (to > from && text[to - 1] == ' ') {
        to--;
    }
    return (struct limit_span){from, to - from};
}

static size_t count_commas(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += text[i] == ',';
    }
    return count;
}

enum weir_status limit_list_split(struct limit_list *list, const char *text, size_t length,
                                  struct weir_error *error)
{
    list->count = 1;
    list->spans[0] = (struct limit_span){0, length};
    if (length == 0 || memchr(text, ',', length) == NULL) {
        return WEIR_OK;
    }
    if (length > LIMIT_LIST_TEXT_MAX) {
        return fail(error, WEIR_E_RANGE, LIMIT_LIST_TEXT_MAX,
                    "the limits are longer than %d bytes together", (int)LIMIT_LIST_TEXT_MAX);
    }
    size_t count = count_commas(text, length) + 1;
    size_t at = 0;
    list->count = count < LIMIT_LIST_COUNT_MAX ? count : LIMIT_LIST_COUNT_MAX;
    for (size_t i = 0; i < list->count; i++) {
        const char *comma = memchr(text + at, ',', length - at);
        size_t end = comma != NULL ? (size_t)(comma - text) : length;
        list->spans[i] = trim(text, at, end);
        if (list->spans[i].length == 0) {
            return fail(error, WEIR_E_SYNTAX, end, "limit %zu of %zu is empty", i + 1, count);
        }
        at = end + 1;
    }
    return count <= LIMIT_LIST_COUNT_MAX ? WEIR_OK : fail_count(list, count, error);
}

enum weir_status limit_list_fail(const struct limit_list *list, size_t i, enum weir_status status,
                                 struct weir_error *error)
{
    assert(i < list->count);
    if (error != NULL && list->count > 1) {
        struct weir_error own = *error;
        int shown = (int)(sizeof own.message - sizeof "limit 16 of 16: ");
        (void)fail(error, status, list->spans[i].at + own.offset, "limit %zu of %zu: %.*s", i + 1,
                   list->count, shown, own.message);
    }
    return status;
}

enum weir_status limit_list_fail_twice(const struct limit_list *list, size_t i, size_t j,
                                       struct weir_error *error)
{
    assert(j < i && i < list->count);
    return fail(error, WEIR_E_SYNTAX, list->spans[i].at,
                "limit %zu of %zu is limit %zu again, the same bucket twice", i + 1, list->count,
                j + 1);
}
