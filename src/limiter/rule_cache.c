/* SPDX-License-Identifier: MIT
 *
 * A set-associative cache: the text's hash chooses a set, and in the set the rule that was used
 * longest ago makes room. Texts longer than an entry's are compiled each time. */
#include "limiter/rule_cache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "limiter/limit_list.h"

enum {
    RULE_CACHE_SETS = 256, // a power of two
    RULE_CACHE_WAYS = 4,
    RULE_CACHE_COUNT = RULE_CACHE_SETS * RULE_CACHE_WAYS,
    RULE_TEXT_MAX = 47, // "100/s capacity=20" has 17 bytes

    LIST_CACHE_COUNT = 128, // a power of two
    LIST_RULES_MAX = 4,     // of a list that is kept whole
    LIST_TEXT_MAX = 111,
};

/* CL.THROTTLE's numbers stand for a text: 24 bytes, marked so that no limit's text is taken for them. */
struct numbers {
    uint64_t capacity, count, period_ns;
};

struct entry {
    struct weir_rule rule;
    uint32_t used_at; // by the cache's own counter
    uint8_t is_numbers;
    uint8_t length; // 0: free
    char text[RULE_TEXT_MAX];
};

/* A list that is kept whole. Two lists that want the same place put each other out; then their limits
 * are found one by one. */
struct list_entry {
    uint8_t count;
    uint8_t length; // 0: free
    char text[LIST_TEXT_MAX];
    struct weir_rule rules[LIST_RULES_MAX];
};

struct rule_cache {
    const struct weir_limiter *limiter;
    uint32_t clock;
    struct entry entries[RULE_CACHE_SETS][RULE_CACHE_WAYS];
    struct list_entry lists[LIST_CACHE_COUNT];
};

struct rule_cache *rule_cache_open(const struct weir_limiter *limiter)
{
    struct rule_cache *cache = calloc(1, sizeof *cache); // touched only as it fills
    if (cache != NULL) {
        cache->limiter = limiter;
    }
    return cache;
}

void rule_cache_close(struct rule_cache *cache)
{
    free(cache);
}

/* Not keyed: who makes texts collide only makes his own limits compile again. */
static uint32_t hash_text(const char *text, size_t length)
{
    uint64_t hash = length;
    for (; length >= 8; text += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    }
    for (; length > 0; text++, length--) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (uint32_t)(hash >> 32);
}

static struct entry *set_of(struct rule_cache *cache, const char *text, size_t length)
{
    return cache->entries[hash_text(text, length) % RULE_CACHE_SETS];
}

static struct entry *look_up(struct rule_cache *cache, struct entry *set, const char *text,
                             size_t length, bool is_numbers)
{
    for (int i = 0; i < RULE_CACHE_WAYS; i++) {
        struct entry *entry = &set[i];
        if (entry->length == length && entry->is_numbers == is_numbers
            && memcmp(entry->text, text, length) == 0) {
            entry->used_at = ++cache->clock;
            return entry;
        }
    }
    return NULL;
}

/* The entry that was used longest ago; ages are differences, so the counter may wrap. */
static void remember(struct rule_cache *cache, struct entry *set, const char *text, size_t length,
                     bool is_numbers, const struct weir_rule *rule)
{
    struct entry *oldest = &set[0];
    for (int i = 1; i < RULE_CACHE_WAYS; i++) {
        if (cache->clock - set[i].used_at > cache->clock - oldest->used_at) {
            oldest = &set[i];
        }
    }
    oldest->rule = *rule;
    oldest->used_at = ++cache->clock;
    oldest->is_numbers = is_numbers;
    oldest->length = (uint8_t)length;
    memcpy(oldest->text, text, length);
}

enum weir_status rule_cache_text(struct rule_cache *cache, struct weir_rule *rule, const char *text,
                                 size_t length, struct weir_error *error)
{
    bool fits = length >= 1 && length <= RULE_TEXT_MAX;
    struct entry *set = fits ? set_of(cache, text, length) : NULL;
    struct entry *entry = fits ? look_up(cache, set, text, length, false) : NULL;
    if (entry != NULL) {
        *rule = entry->rule;
        return WEIR_OK;
    }
    struct weir_limit_config config;
    struct weir_limit limit;
    enum weir_status status = weir_limit_parse(&config, text, length, error);
    if (status == WEIR_OK) {
        status = weir_limit_init(&limit, &config, error);
    }
    if (status == WEIR_OK) {
        weir_rule_init(rule, cache->limiter, &limit);
        if (fits) {
            remember(cache, set, text, length, false, rule);
        }
    }
    return status;
}

/* Several limits of one key: no two may be one bucket. */
static enum weir_status check_distinct(const struct limit_list *list, const struct weir_rule *rules,
                                       struct weir_error *error)
{
    for (size_t i = 1; i < list->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (memcmp(rules[i].hash_key, rules[j].hash_key, sizeof rules[i].hash_key) == 0) {
                return limit_list_fail_twice(list, i, j, error);
            }
        }
    }
    return WEIR_OK;
}

/* Finds or compiles each limit of a list. */
static enum weir_status find_each(struct rule_cache *cache, struct weir_rule *rules,
                                  const struct limit_list *list, const char *text,
                                  struct weir_error *error)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct limit_span *span = &list->spans[i];
        enum weir_status status =
            rule_cache_text(cache, &rules[i], text + span->at, span->length, error);
        if (status != WEIR_OK) {
            return limit_list_fail(list, i, status, error);
        }
    }
    return check_distinct(list, rules, error);
}

static void remember_list(struct list_entry *entry, const char *text, size_t length,
                          const struct weir_rule *rules, size_t count)
{
    if (count >= 2 && count <= LIST_RULES_MAX && length <= LIST_TEXT_MAX) {
        entry->count = (uint8_t)count;
        entry->length = (uint8_t)length;
        memcpy(entry->text, text, length);
        memcpy(entry->rules, rules, count * sizeof *rules);
    }
}

enum weir_status rule_cache_list(struct rule_cache *cache, struct weir_rule *rules, size_t *count,
                                 const char *text, size_t length, struct weir_error *error)
{
    /* Nearly always it is one limit and known: no comma has to be looked for. */
    uint32_t hash = length <= LIST_TEXT_MAX ? hash_text(text, length) : 0;
    struct list_entry *kept = &cache->lists[hash % LIST_CACHE_COUNT];
    if (length >= 1 && length <= RULE_TEXT_MAX) {
        struct entry *set = cache->entries[hash % RULE_CACHE_SETS];
        struct entry *entry = look_up(cache, set, text, length, false);
        if (entry != NULL) {
            *rules = entry->rule;
            *count = 1;
            return WEIR_OK;
        }
    }
    if (length >= 1 && kept->length == length && memcmp(kept->text, text, length) == 0) {
        *count = kept->count;
        memcpy(rules, kept->rules, kept->count * sizeof *rules);
        return WEIR_OK;
    }
    struct limit_list list;
    enum weir_status status = limit_list_split(&list, text, length, error);
    if (status == WEIR_OK) {
        status = find_each(cache, rules, &list, text, error);
    }
    if (status == WEIR_OK) {
        *count = list.count;
        remember_list(kept, text, length, rules, list.count);
    }
    return status;
}

static enum weir_status check_numbers(struct numbers numbers, struct weir_error *error)
{
    if (numbers.capacity < 1 || numbers.capacity > WEIR_UNITS_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "the capacity must be 1 to 1000000000000");
    }
    if (numbers.count < 1 || numbers.count > WEIR_UNITS_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "the count must be 1 to 1000000000000");
    }
    if (numbers.period_ns < 1 || numbers.period_ns > WEIR_SPAN_NS_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "the period must be 1 ns to 100 years");
    }
    return WEIR_OK;
}

enum weir_status rule_cache_throttle(struct rule_cache *cache, struct weir_rule *rule,
                                     uint64_t capacity, uint64_t count, uint64_t period_ns,
                                     struct weir_error *error)
{
    struct numbers numbers = {capacity, count, period_ns};
    char text[sizeof numbers];
    memcpy(text, &numbers, sizeof text);
    struct entry *set = set_of(cache, text, sizeof text);
    struct entry *entry = look_up(cache, set, text, sizeof text, true);
    if (entry != NULL) {
        *rule = entry->rule;
        return WEIR_OK;
    }
    struct weir_limit limit;
    enum weir_status status = check_numbers(numbers, error);
    if (status == WEIR_OK) {
        struct weir_limit_config config = {
            .kind = WEIR_KIND_BUCKET,
            .count_micro = count * WEIR_UNIT,
            .period_ns = period_ns,
            .capacity_micro = capacity * WEIR_UNIT,
            .on_full = WEIR_ON_FULL_REFUSE,
        };
        status = weir_limit_init(&limit, &config, error);
    }
    if (status == WEIR_OK) {
        weir_rule_init_named(rule, cache->limiter, &limit, "throttle", 8);
        remember(cache, set, text, sizeof text, true, rule);
    }
    return status;
}
