/* SPDX-License-Identifier: MIT */
#include "limiter/names/asked.h"

#include <string.h>

#include "core/fail.h"

bool asked_by_name(const struct names *names, const char *text, size_t length)
{
    struct limit_list list;
    if (names == NULL || names_limit_count(names) == 0 || length == 0) {
        return false;
    }
    if (memchr(text, ',', length) == NULL) {
        return name_is_meant(text, length);
    }
    if (limit_list_split(&list, text, length, NULL) != WEIR_OK) {
        return false; // whoever reads it says what is wrong
    }
    for (size_t i = 0; i < list.count; i++) {
        if (name_is_meant(text + list.spans[i].at, list.spans[i].length)) {
            return true;
        }
    }
    return false;
}

bool asked_for_chain(const struct names *names, const char *text, size_t length)
{
    struct limit_list list;
    bool is_found = false;
    if (!asked_by_name(names, text, length)
        || limit_list_split(&list, text, length, NULL) != WEIR_OK) {
        return false;
    }
    for (size_t i = 0; i < list.count && !is_found; i++) {
        const struct limit_span *span = &list.spans[i];
        is_found = names_find(names, text + span->at, span->length).chain != NULL;
    }
    return is_found;
}

/* What is being read, and where the next limit goes.
 *   begins  how many limits the elements before the i-th of the list came to */
struct gathering {
    const struct asking *asking;
    struct limit_list list;
    size_t begins[LIMIT_LIST_COUNT_MAX];
    struct weir_rule *rules;
    struct asked_part *parts;
    struct asked *asked;
    struct weir_error *error;
};

static enum weir_status check_room(const struct gathering *gathering, size_t more)
{
    if (more > LIMIT_LIST_COUNT_MAX - gathering->asked->count) {
        return fail(gathering->error, WEIR_E_RANGE, 0,
                    "with these there are more than %d limits to be taken together",
                    (int)LIMIT_LIST_COUNT_MAX);
    }
    return WEIR_OK;
}

static void add_named(const struct gathering *gathering, const struct named_limit *limit,
                      struct bytes key)
{
    size_t i = gathering->asked->count++;
    const struct named_rule *numbers = named_limit_rule(limit, key.at, key.length);
    gathering->rules[i] = numbers->rule;
    gathering->parts[i] = (struct asked_part){
        .named = limit,
        .key = key,
        .said = {limit->name, strlen(limit->name)},
        .words = numbers->words,
    };
}

static enum weir_status need_key(const struct gathering *gathering)
{
    return gathering->asking->key.length > 0
               ? WEIR_OK
               : fail(gathering->error, WEIR_E_SYNTAX, 0, "this limit needs a key");
}

static enum weir_status add_chain(const struct gathering *gathering,
                                  const struct named_chain *chain)
{
    const struct asking *asking = gathering->asking;
    struct asked *asked = gathering->asked;
    struct bytes keys[CHAIN_LINK_COUNT_MAX];
    size_t used = 0;
    enum weir_status status = check_room(gathering, chain->link_count);
    if (status == WEIR_OK) {
        status = chain_fill_in(chain, asking->key, asking->variables, asking->room + asked->used,
                               asking->room_bytes - asked->used, &used, keys, gathering->error);
    }
    for (size_t i = 0; status == WEIR_OK && i < chain->link_count; i++) {
        add_named(gathering, chain->links[i].limit, keys[i]);
    }
    asked->used += used;
    asked->has_chain = true;
    return status;
}

static enum weir_status add_written(const struct gathering *gathering, const char *text,
                                    size_t length)
{
    size_t i = gathering->asked->count;
    enum weir_status status = rule_cache_text(gathering->asking->cache, &gathering->rules[i], text,
                                              length, gathering->error);
    status = status == WEIR_OK ? need_key(gathering) : status;
    if (status == WEIR_OK) {
        const struct bytes words = {text, length};
        gathering->parts[i] =
            (struct asked_part){.key = gathering->asking->key, .said = words, .words = words};
        gathering->asked->count++;
    }
    return status;
}

/* One element of the list. */
static enum weir_status add_one(const struct gathering *gathering, const char *text, size_t length)
{
    struct name_found found;
    enum weir_status status =
        names_resolve(gathering->asking->names, text, length, &found, gathering->error);
    if (status != WEIR_OK) {
        return status;
    }
    if (found.chain != NULL) {
        return add_chain(gathering, found.chain);
    }
    status = check_room(gathering, 1);
    if (status == WEIR_OK && found.limit == NULL) {
        return add_written(gathering, text, length);
    }
    status = status == WEIR_OK ? need_key(gathering) : status;
    if (status == WEIR_OK) {
        add_named(gathering, found.limit, gathering->asking->key);
    }
    return status;
}

/* Chains come to several limits, which are counted as the answer would. */
static enum weir_status fail_twice(const struct gathering *gathering, size_t later, size_t earlier)
{
    const struct limit_list *list = &gathering->list;
    size_t element = list->count - 1;
    if (!gathering->asked->has_chain) {
        return limit_list_fail_twice(list, later, earlier, gathering->error);
    }
    while (gathering->begins[element] > later) {
        element--;
    }
    return fail(gathering->error, WEIR_E_SYNTAX, list->spans[element].at,
                "limit %zu is limit %zu again, the same bucket twice", later + 1, earlier + 1);
}

static enum weir_status check_distinct(const struct gathering *gathering)
{
    const struct weir_rule *rules = gathering->rules;
    const struct asked_part *parts = gathering->parts;
    for (size_t i = 1; i < gathering->asked->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (memcmp(rules[i].hash_key, rules[j].hash_key, sizeof rules[i].hash_key) == 0
                && parts[i].key.length == parts[j].key.length
                && memcmp(parts[i].key.at, parts[j].key.at, parts[i].key.length) == 0) {
                return fail_twice(gathering, i, j);
            }
        }
    }
    return WEIR_OK;
}

enum weir_status asked_read(const struct asking *asking, const char *text, size_t length,
                            struct weir_rule *rules, struct asked_part *parts, struct asked *asked,
                            struct weir_error *error)
{
    struct gathering gathering = {
        .asking = asking, .rules = rules, .parts = parts, .asked = asked, .error = error};
    struct limit_list *list = &gathering.list;
    *asked = (struct asked){0};
    enum weir_status status = limit_list_split(list, text, length, error);
    for (size_t i = 0; status == WEIR_OK && i < list->count; i++) {
        const struct limit_span *span = &list->spans[i];
        gathering.begins[i] = asked->count;
        status = add_one(&gathering, text + span->at, span->length);
        if (status != WEIR_OK) {
            return limit_list_fail(list, i, status, error);
        }
    }
    return status == WEIR_OK ? check_distinct(&gathering) : status;
}
