/* SPDX-License-Identifier: MIT
 *
 * Limits by name, and the numbers that they have for a key. */
#include "limiter/names/names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/limit_words.h"
#include "limiter/names/names_state.h"

enum { TEXT_BLOCK_BYTES = 16 * 1024, OVERRIDES_AT_FIRST = 8 };

struct names *names_open(void)
{
    return calloc(1, sizeof(struct names));
}

static void close_limit(struct named_limit *limit)
{
    free(limit->overrides);
    free(limit->slots);
    free(limit);
}

void names_close(struct names *names)
{
    if (names == NULL) {
        return;
    }
    for (size_t i = 0; i < names->limit_count; i++) {
        close_limit(names->limits[i]);
    }
    for (size_t i = 0; i < names->chain_count; i++) {
        free(names->chains[i]);
    }
    while (names->texts != NULL) {
        struct text_block *block = names->texts;
        names->texts = block->next;
        free(block);
    }
    free(names);
}

struct bytes names_keep(struct names *names, struct bytes text)
{
    struct text_block *block = names->texts;
    if (block == NULL || block->size - block->used < text.length) {
        size_t size = text.length > TEXT_BLOCK_BYTES ? text.length : TEXT_BLOCK_BYTES;
        block = malloc(sizeof *block + size);
        if (block == NULL) {
            return (struct bytes){NULL, 0};
        }
        *block = (struct text_block){.next = names->texts, .size = size};
        names->texts = block;
    }
    char *copy = block->bytes + block->used;
    memcpy(copy, text.at, text.length);
    block->used += text.length;
    return (struct bytes){copy, text.length};
}

/* FNV-1a. Who would make keys collide has to write them into the configuration. */
static uint64_t hash_bytes(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

/* ---- names ---- */

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_of_names(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* The bytes of a name at the front of the text. */
static size_t name_length(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && (i == 0 ? is_letter(text[i]) : is_of_names(text[i]))) {
        i++;
    }
    return i;
}

bool name_is_meant(const char *text, size_t length)
{
    return length > 0 && is_letter(text[0]) && !limit_word_is_kind(text, name_length(text, length));
}

static const char *entry_name(const struct names *names, uint16_t entry)
{
    size_t i = (size_t)(entry & ~NAMES_IS_CHAIN) - 1;
    return entry & NAMES_IS_CHAIN ? names->chains[i]->name : names->limits[i]->name;
}

struct name_found names_find(const struct names *names, const char *name, size_t length)
{
    struct name_found found = {NULL, NULL};
    if (length == 0 || length > NAME_BYTES_MAX) {
        return found;
    }
    size_t at = hash_bytes(name, length) % NAMES_SLOT_COUNT;
    for (; names->slots[at] != 0; at = (at + 1) % NAMES_SLOT_COUNT) {
        uint16_t entry = names->slots[at];
        const char *there = entry_name(names, entry);
        if (strncmp(there, name, length) == 0 && there[length] == '\0') {
            size_t i = (size_t)(entry & ~NAMES_IS_CHAIN) - 1;
            found.chain = entry & NAMES_IS_CHAIN ? names->chains[i] : NULL;
            found.limit = entry & NAMES_IS_CHAIN ? NULL : names->limits[i];
            break;
        }
    }
    return found;
}

enum weir_status names_resolve(const struct names *names, const char *text, size_t length,
                               struct name_found *found, struct weir_error *error)
{
    *found = (struct name_found){NULL, NULL};
    if (names == NULL || names->limit_count == 0 || !name_is_meant(text, length)) {
        return WEIR_OK;
    }
    *found = names_find(names, text, length);
    if (found->limit != NULL || found->chain != NULL) {
        return WEIR_OK;
    }
    struct bytes word = {text, name_length(text, length)};
    struct name_found first = names_find(names, word.at, word.length);
    if (first.limit != NULL || first.chain != NULL) {
        return fail(error, WEIR_E_SYNTAX, word.length,
                    "a name stands alone: what %.*s means is said in the configuration",
                    text_shown(word), word.at);
    }
    return fail(error, WEIR_E_SYNTAX, 0,
                "'%.*s' is no kind of limit, and nothing in the configuration has this name",
                text_shown(word), word.at);
}

void named_limit_pass(struct weir_decision *decision)
{
    decision->verdict = WEIR_ALLOWED;
    decision->retry_after_ns = -1;
    decision->delay_ns = 0;
}

void names_publish(struct names *names, const char *name, uint16_t entry)
{
    size_t at = hash_bytes(name, strlen(name)) % NAMES_SLOT_COUNT;
    while (names->slots[at] != 0) {
        at = (at + 1) % NAMES_SLOT_COUNT;
    }
    names->slots[at] = entry;
}

/* `throttle` is whose the buckets of CL.THROTTLE are, `inline` what metrics call limits without a
 * name, and `concurrent` will be a kind. */
static bool is_kept(struct bytes name)
{
    static const char *const KEPT[] = {"throttle", "inline", "concurrent"};
    for (size_t i = 0; i < sizeof KEPT / sizeof KEPT[0]; i++) {
        if (text_equals(name, (struct bytes){KEPT[i], strlen(KEPT[i])})) {
            return true;
        }
    }
    return false;
}

enum weir_status names_check(const struct names *names, struct bytes name, struct weir_error *error)
{
    size_t good = name_length(name.at, name.length);
    if (name.length == 0) {
        return fail(error, WEIR_E_SYNTAX, 0, "a name is missing");
    }
    if (good < name.length) {
        return fail(error, WEIR_E_SYNTAX, good,
                    "'%.*s' is no name: a small letter, then small letters, digits, _ and -",
                    text_shown(name), name.at);
    }
    if (name.length > NAME_BYTES_MAX) {
        return fail(error, WEIR_E_RANGE, NAME_BYTES_MAX, "a name has at most %d bytes",
                    NAME_BYTES_MAX);
    }
    if (limit_word_is_kind(name.at, name.length)) {
        return fail(error, WEIR_E_SYNTAX, 0, "'%.*s' is a kind of limit, so it cannot be a name",
                    text_shown(name), name.at);
    }
    if (is_kept(name)) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "'%.*s' means something else to weir: choose another "
                    "name",
                    text_shown(name), name.at);
    }
    struct name_found found = names_find(names, name.at, name.length);
    if (found.limit != NULL || found.chain != NULL) {
        return fail(error, WEIR_E_SYNTAX, 0, "there is a %s '%.*s' already",
                    found.limit != NULL ? "limit" : "chain", text_shown(name), name.at);
    }
    return WEIR_OK;
}

/* ---- limits ---- */

/* Compiles the numbers; the hash key is names_bind()'s. */
static enum weir_status read_numbers(struct names *names, struct named_rule *numbers,
                                     struct bytes words, struct weir_error *error)
{
    struct weir_limit_config config;
    enum weir_status status = WEIR_OK;
    if (name_is_meant(words.at, words.length)) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "a limit starts with a count or with a kind, and '%.*s' is no kind",
                    text_shown((struct bytes){words.at, name_length(words.at, words.length)}),
                    words.at);
    }
    status = weir_limit_parse(&config, words.at, words.length, error);
    if (status == WEIR_OK) {
        status = weir_limit_init(&numbers->rule.limit, &config, error);
    }
    if (status == WEIR_OK) {
        numbers->words = names_keep(names, words);
        if (numbers->words.at == NULL) {
            status = fail(error, WEIR_E_NO_MEMORY, 0, "no memory");
        }
    }
    return status;
}

enum weir_status names_add_limit(struct names *names, struct bytes name, struct bytes limit,
                                 struct limit_policy policy, struct weir_error *error)
{
    assert(names_check(names, name, NULL) == WEIR_OK);
    if (names->limit_count == NAMES_LIMIT_COUNT_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "there are more than %d limits", NAMES_LIMIT_COUNT_MAX);
    }
    struct named_limit *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory");
    }
    enum weir_status status = read_numbers(names, &made->usual, limit, error);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    memcpy(made->name, name.at, name.length); // zeroed behind
    made->index = names->limit_count;
    made->is_shadow = policy.is_shadow;
    made->resets = policy.resets;
    names->limits[names->limit_count++] = made;
    names_publish(names, made->name, (uint16_t)names->limit_count);
    return WEIR_OK;
}

/* ---- overrides ---- */

static const struct override *find_exact(const struct named_limit *limit, const void *key,
                                         size_t key_len)
{
    if (limit->slot_count == 0 || key_len > limit->exact_bytes_max) {
        return NULL;
    }
    size_t at = hash_bytes(key, key_len) & (limit->slot_count - 1);
    for (; limit->slots[at] != 0; at = (at + 1) & (limit->slot_count - 1)) {
        const struct override *there = &limit->overrides[limit->slots[at] - 1];
        if (text_equals(there->key, (struct bytes){key, key_len})) {
            return there;
        }
    }
    return NULL;
}

static bool matches(const struct override *pattern, const char *key, size_t key_len)
{
    const char *end = pattern->key.at + pattern->key.length - pattern->after;
    return key_len >= pattern->before + pattern->after
           && memcmp(key, pattern->key.at, pattern->before) == 0
           && memcmp(key + key_len - pattern->after, end, pattern->after) == 0;
}

const struct named_rule *named_limit_rule(const struct named_limit *limit, const void *key,
                                          size_t key_len)
{
    const struct override *exact = find_exact(limit, key, key_len);
    if (exact != NULL) {
        return &exact->numbers;
    }
    for (size_t i = 0; i < limit->pattern_count; i++) {
        const struct override *pattern = &limit->overrides[limit->patterns[i]];
        if (matches(pattern, key, key_len)) {
            return &pattern->numbers;
        }
    }
    return &limit->usual;
}

static const char *find_star(struct bytes key)
{
    return memchr(key.at, '*', key.length);
}

/* True if whatever the later pattern matches, the earlier one does: no finite number of patterns does so
 * together that does not alone. */
static bool takes_all(const struct override *earlier, struct bytes later, const char *star)
{
    size_t before = (size_t)(star - later.at);
    size_t after = later.length - before - 1;
    return earlier->before <= before && earlier->after <= after
           && matches(earlier, later.at, later.length);
}

static enum weir_status check_new(const struct named_limit *limit, struct bytes key,
                                  struct weir_error *error)
{
    return find_exact(limit, key.at, key.length) == NULL
               ? WEIR_OK
               : fail(error, WEIR_E_SYNTAX, 0, "'%.*s' is there twice", text_shown(key), key.at);
}

/* A pattern is new, and those before it leave something for it. */
static enum weir_status check_reachable(const struct named_limit *limit, struct bytes key,
                                        const char *star, struct weir_error *error)
{
    for (size_t i = 0; i < limit->pattern_count; i++) {
        const struct override *earlier = &limit->overrides[limit->patterns[i]];
        if (text_equals(earlier->key, key)) {
            return fail(error, WEIR_E_SYNTAX, 0, "'%.*s' is there twice", text_shown(key), key.at);
        }
        if (takes_all(earlier, key, star)) {
            return fail(error, WEIR_E_SYNTAX, 0,
                        "no key comes here: '%.*s' before it takes them all",
                        text_shown(earlier->key), earlier->key.at);
        }
    }
    return WEIR_OK;
}

enum weir_status names_check_override(const struct names *names, struct bytes key,
                                      struct weir_error *error)
{
    assert(names->limit_count > 0);
    const struct named_limit *limit = names->limits[names->limit_count - 1];
    if (key.length == 0 || key.length > WEIR_KEY_BYTES_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "a key has 1 to %d bytes", WEIR_KEY_BYTES_MAX);
    }
    const char *star = find_star(key);
    if (star != NULL) {
        struct bytes rest = {star + 1, key.length - (size_t)(star + 1 - key.at)};
        const char *second = find_star(rest);
        if (second != NULL) {
            return fail(error, WEIR_E_SYNTAX, (size_t)(second - key.at), "a pattern has one *");
        }
        if (limit->pattern_count == NAMES_PATTERN_COUNT_MAX) {
            return fail(error, WEIR_E_RANGE, 0, "a limit has at most %d patterns",
                        NAMES_PATTERN_COUNT_MAX);
        }
    }
    enum weir_status status =
        star != NULL ? check_reachable(limit, key, star, error) : check_new(limit, key, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (names->override_count == NAMES_OVERRIDE_COUNT_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "there are more than %d overrides",
                    NAMES_OVERRIDE_COUNT_MAX);
    }
    return WEIR_OK;
}

static bool reserve_override(struct named_limit *limit)
{
    if (limit->override_count < limit->override_room) {
        return true;
    }
    size_t room = limit->override_room > 0 ? 2 * limit->override_room : OVERRIDES_AT_FIRST;
    struct override *overrides = realloc(limit->overrides, room * sizeof *overrides);
    if (overrides != NULL) {
        limit->overrides = overrides;
        limit->override_room = room;
    }
    return overrides != NULL;
}

static void place(struct named_limit *limit, size_t i)
{
    struct bytes key = limit->overrides[i].key;
    size_t at = hash_bytes(key.at, key.length) & (limit->slot_count - 1);
    while (limit->slots[at] != 0) {
        at = (at + 1) & (limit->slot_count - 1);
    }
    limit->slots[at] = (uint32_t)i + 1;
}

/* Keeps the table of exact keys at most half full, with room for one more. */
static bool reserve_slot(struct named_limit *limit)
{
    size_t exact_count = limit->override_count - limit->pattern_count;
    if (2 * (exact_count + 1) <= limit->slot_count) {
        return true;
    }
    size_t count = limit->slot_count > 0 ? 2 * limit->slot_count : (size_t)2 * OVERRIDES_AT_FIRST;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    free(limit->slots);
    limit->slots = slots;
    limit->slot_count = count;
    for (size_t i = 0; i < limit->override_count; i++) {
        if (find_star(limit->overrides[i].key) == NULL) {
            place(limit, i);
        }
    }
    return true;
}

static void add_override(struct named_limit *limit, const struct override *override)
{
    const char *star = find_star(override->key);
    size_t i = limit->override_count++;
    struct override *there = &limit->overrides[i];
    *there = *override;
    if (star == NULL) {
        size_t length = override->key.length;
        limit->exact_bytes_max = length > limit->exact_bytes_max ? length : limit->exact_bytes_max;
        place(limit, i);
    } else {
        there->before = (size_t)(star - override->key.at);
        there->after = override->key.length - there->before - 1;
        limit->patterns[limit->pattern_count++] = (uint32_t)i;
    }
}

enum weir_status names_add_override(struct names *names, struct bytes key, struct bytes limit,
                                    struct weir_error *error)
{
    assert(names_check_override(names, key, NULL) == WEIR_OK);
    struct named_limit *last = names->limits[names->limit_count - 1];
    struct override override = {0};
    enum weir_status status = read_numbers(names, &override.numbers, limit, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (override.numbers.rule.limit.kind != last->usual.rule.limit.kind) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "an override has other numbers and the same kind: %s is '%.*s'", last->name,
                    text_shown(last->usual.words), last->usual.words.at);
    }
    override.key = names_keep(names, key);
    if (override.key.at == NULL || !reserve_override(last) || !reserve_slot(last)) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory");
    }
    add_override(last, &override);
    names->override_count++;
    return WEIR_OK;
}

/* ---- the limiter ---- */

/* A bucket is (name, kind, key); where it shall start empty with other numbers, these are part of the
 * name: the two words under which their buckets would be without one. */
static void bind_rule(const struct named_limit *limit, struct named_rule *numbers,
                      const struct weir_limiter *limiter)
{
    struct weir_limit compiled = numbers->rule.limit;
    char identity[NAME_BYTES_MAX + 1 + sizeof numbers->rule.hash_key];
    size_t length = strlen(limit->name);
    memcpy(identity, limit->name, length);
    if (limit->resets) {
        weir_rule_init(&numbers->rule, limiter, &compiled);
        identity[length++] = '\0';
        memcpy(identity + length, numbers->rule.hash_key, sizeof numbers->rule.hash_key);
        length += sizeof numbers->rule.hash_key;
    }
    weir_rule_init_named(&numbers->rule, limiter, &compiled, identity, length);
}

void names_bind(struct names *names, const struct weir_limiter *limiter)
{
    for (size_t i = 0; i < names->limit_count; i++) {
        struct named_limit *limit = names->limits[i];
        bind_rule(limit, &limit->usual, limiter);
        for (size_t k = 0; k < limit->override_count; k++) {
            bind_rule(limit, &limit->overrides[k].numbers, limiter);
        }
    }
}

/* ---- walking through them ---- */

size_t names_limit_count(const struct names *names)
{
    return names->limit_count;
}

const struct named_limit *names_limit(const struct names *names, size_t i)
{
    assert(i < names->limit_count);
    return names->limits[i];
}

size_t names_chain_count(const struct names *names)
{
    return names->chain_count;
}

const struct named_chain *names_chain(const struct names *names, size_t i)
{
    assert(i < names->chain_count);
    return names->chains[i];
}

size_t names_route_count(const struct names *names)
{
    return names->route_count;
}

const struct route *names_route_at(const struct names *names, size_t i)
{
    assert(i < names->route_count);
    return &names->routes[i];
}

size_t names_override_count(const struct names *names)
{
    return names->override_count;
}

static bool same_limit(const struct named_limit *a, const struct named_limit *b)
{
    bool same = a->is_shadow == b->is_shadow && a->resets == b->resets
                && a->override_count == b->override_count
                && text_equals(a->usual.words, b->usual.words);
    for (size_t i = 0; same && i < a->override_count; i++) {
        same = text_equals(a->overrides[i].key, b->overrides[i].key)
               && text_equals(a->overrides[i].numbers.words, b->overrides[i].numbers.words);
    }
    return same;
}

static bool same_chain(const struct named_chain *a, const struct named_chain *b)
{
    bool same = a->link_count == b->link_count;
    for (size_t i = 0; same && i < a->link_count; i++) {
        same = strcmp(a->links[i].limit->name, b->links[i].limit->name) == 0
               && text_equals(a->links[i].written, b->links[i].written);
    }
    return same;
}

static const char *target_name(struct name_found target)
{
    return target.chain != NULL ? target.chain->name : target.limit->name;
}

static bool same_route(const struct route *a, const struct route *b)
{
    return a->methods == b->methods && a->cost_micro == b->cost_micro
           && text_equals(a->path, b->path)
           && strcmp(target_name(a->target), target_name(b->target)) == 0;
}

/* How one name of `after` stands to `before`. */
static void compare_one(const struct names *before, struct name_found now,
                        struct names_changes *changes)
{
    const char *name = target_name(now);
    struct name_found then = names_find(before, name, strlen(name));
    if (then.limit == NULL && then.chain == NULL) {
        changes->added_count++;
    } else if (now.limit != NULL) {
        changes->changed_count += then.limit == NULL || !same_limit(then.limit, now.limit);
    } else {
        changes->changed_count += then.chain == NULL || !same_chain(then.chain, now.chain);
    }
}

struct names_changes names_compare(const struct names *before, const struct names *after)
{
    struct names_changes changes = {0};
    for (size_t i = 0; i < after->limit_count; i++) {
        compare_one(before, (struct name_found){.limit = after->limits[i]}, &changes);
    }
    for (size_t i = 0; i < after->chain_count; i++) {
        compare_one(before, (struct name_found){.chain = after->chains[i]}, &changes);
    }
    size_t now_count = after->limit_count + after->chain_count;
    changes.removed_count =
        before->limit_count + before->chain_count - (now_count - changes.added_count);
    changes.routes_changed = before->route_count != after->route_count;
    for (size_t i = 0; !changes.routes_changed && i < after->route_count; i++) {
        changes.routes_changed = !same_route(&before->routes[i], &after->routes[i]);
    }
    return changes;
}
