/* SPDX-License-Identifier: MIT */
#include "cli/known_limits.h"

#include <string.h>

enum { ITEMS_PER_LIMIT = 3 }; // the array that it is, its name, its numbers

static bool copy_text(char to[WEIR_LIMIT_TEXT_MAX + 1], const struct reply_item *item)
{
    if (item->type != '$' || item->text.length > WEIR_LIMIT_TEXT_MAX
        || memchr(item->text.at, '\0', item->text.length) != NULL) {
        return false;
    }
    memcpy(to, item->text.at, item->text.length);
    to[item->text.length] = '\0';
    return true;
}

static bool read_limit(struct known_limit *limit, const struct reply_item *items)
{
    return items[0].type == '*' && items[0].number == ITEMS_PER_LIMIT - 1
           && copy_text(limit->name, &items[1]) && copy_text(limit->words, &items[2])
           && weir_limit_parse(&limit->config, limit->words, strlen(limit->words), NULL) == WEIR_OK;
}

static void add_name(struct known_limits *known, size_t i, size_t *at)
{
    size_t length = strlen(known->limits[i].name);
    memcpy(known->names + *at, known->limits[i].name, length);
    known->list.spans[i] = (struct limit_span){*at, length};
    *at += length;
}

bool known_limits_read(struct known_limits *known, const struct reply *reply)
{
    size_t count = reply->count / ITEMS_PER_LIMIT;
    size_t at = 0;
    known->count = 0;
    if (!reply->is_array || count < 1 || count > LIMIT_LIST_COUNT_MAX
        || reply->count != count * ITEMS_PER_LIMIT) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!read_limit(&known->limits[i], &reply->items[ITEMS_PER_LIMIT * i])) {
            return false;
        }
        add_name(known, i, &at);
    }
    known->list.count = count;
    known->count = count;
    return true;
}

bool known_limit_is_named(const struct known_limit *limit)
{
    return strcmp(limit->name, limit->words) != 0;
}
