/* SPDX-License-Identifier: MIT
 *
 * From a tree to names: which fields there are, and what each may say. Whatever is not as it should be
 * ends the reading, with its place; nothing is guessed and nothing is left out. */
#include "config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/tree.h"
#include "core/bucket_math.h"

struct reader {
    struct tree tree;
    struct names *names;
    const struct node *chains; // all of them, those that are still to be read too
    struct config_error *error;
};

/* Says what is wrong with a node. Returns false. */
__attribute__((format(printf, 3, 4))) static bool
refuse(struct reader *reader, const struct node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    reader->error->line = node->line;
    reader->error->column = node->column;
    (void)vsnprintf(reader->error->message, sizeof reader->error->message, format, args);
    va_end(args);
    return false;
}

/* The same of what names have said, at a place in a scalar that stands on one line. */
static bool refuse_text(struct reader *reader, const struct node *node, const char *what,
                        const struct weir_error *error)
{
    (void)refuse(reader, node, "%s%s", what, error->message);
    if (node->shape == NODE_SCALAR && !node->is_block) {
        reader->error->column += (uint32_t)error->offset;
    }
    return false;
}

static struct bytes text_of(const struct node *node)
{
    return (struct bytes){node->text, node->length};
}

static bool is_text(const struct node *node, const char *text)
{
    return node->length == strlen(text) && memcmp(node->text, text, node->length) == 0;
}

static int shown_of(size_t length)
{
    return length < 64 ? (int)length : 64;
}

static int shown(const struct node *node)
{
    return shown_of(node->length);
}

/* `routes:` with nothing behind it: all of it may be commented out; or with YAML's words for nothing. */
static bool is_empty(const struct node *node)
{
    return node->shape == NODE_SCALAR && node->is_plain
           && (node->length == 0 || is_text(node, "~") || is_text(node, "null"));
}

static const char *shape_name(const struct node *node)
{
    switch (node->shape) {
    case NODE_SCALAR: return "a text";
    case NODE_LIST: return "a list";
    case NODE_MAPPING: break;
    }
    return "a mapping";
}

/* False, and an error, unless it is a scalar with something in it. */
static bool need_scalar(struct reader *reader, const struct node *node, const char *what)
{
    if (node->shape == NODE_MAPPING && node->child_count > 0) {
        return refuse(reader, node, "%s must be a text, not a mapping: quote what begins with {",
                      what);
    }
    if (node->shape != NODE_SCALAR) {
        return refuse(reader, node, "%s must be a text, not %s", what, shape_name(node));
    }
    return !is_empty(node) || refuse(reader, node, "%s is missing", what);
}

/* ---- fields ---- */

enum { FIELD_COUNT_MAX = 4 };

/* What a mapping is, for messages, and the fields that it may have. */
struct form {
    const char *what;
    const char *there; // "there are limits, chains and routes"
    const char *fields[FIELD_COUNT_MAX];
};

/* Finds the value of each field, NULL where it is not said. Refuses others, and those said twice. */
static bool take_fields(struct reader *reader, const struct node *mapping, const struct form *form,
                        const struct node *values[FIELD_COUNT_MAX])
{
    memset(values, 0, FIELD_COUNT_MAX * sizeof values[0]);
    if (mapping->shape != NODE_MAPPING) {
        return is_empty(mapping)
               || refuse(reader, mapping, "%s must be a mapping, not %s", form->what,
                         shape_name(mapping));
    }
    const struct node *key = tree_first(&reader->tree, mapping);
    while (key != NULL) {
        const struct node *value = tree_next(&reader->tree, key);
        size_t i = 0;
        if (key->shape != NODE_SCALAR) {
            return refuse(reader, key, "a field's name must be a text, not %s", shape_name(key));
        }
        while (i < FIELD_COUNT_MAX && form->fields[i] != NULL && !is_text(key, form->fields[i])) {
            i++;
        }
        if (i == FIELD_COUNT_MAX || form->fields[i] == NULL) {
            return refuse(reader, key, "unknown field '%.*s' of %s: %s", shown(key), key->text,
                          form->what, form->there);
        }
        if (values[i] != NULL) {
            return refuse(reader, key, "'%s' is there twice, first in line %u", form->fields[i],
                          (unsigned)values[i]->line);
        }
        values[i] = value;
        key = tree_next(&reader->tree, value);
    }
    return true;
}

/* One of two words; *second says which. NULL: the first. */
static bool read_choice(struct reader *reader, const struct node *node, const char *what,
                        const char *const words[2], bool *second)
{
    *second = false;
    if (node == NULL) {
        return true;
    }
    if (!need_scalar(reader, node, what)) {
        return false;
    }
    *second = is_text(node, words[1]);
    return *second || is_text(node, words[0])
           || refuse(reader, node, "%s is %s or %s, not '%.*s'", what, words[0], words[1],
                     shown(node), node->text);
}

/* ---- limits ---- */

static bool read_override(struct reader *reader, const struct node *key, const struct node *value)
{
    struct weir_error error;
    if (!need_scalar(reader, key, "the key of an override")
        || !need_scalar(reader, value, "the limit of an override")) {
        return false;
    }
    if (names_check_override(reader->names, text_of(key), &error) != WEIR_OK) {
        return refuse_text(reader, key, "overrides: ", &error);
    }
    return names_add_override(reader->names, text_of(key), text_of(value), &error) == WEIR_OK
           || refuse_text(reader, value, "the limit: ", &error);
}

static bool read_overrides(struct reader *reader, const struct node *overrides)
{
    if (overrides == NULL || is_empty(overrides)) {
        return true;
    }
    if (overrides->shape != NODE_MAPPING) {
        return refuse(reader, overrides, "overrides must be a mapping of keys to limits, not %s",
                      shape_name(overrides));
    }
    const struct node *key = tree_first(&reader->tree, overrides);
    while (key != NULL) {
        const struct node *value = tree_next(&reader->tree, key);
        if (!read_override(reader, key, value)) {
            return false;
        }
        key = tree_next(&reader->tree, value);
    }
    return true;
}

static bool add_limit(struct reader *reader, const struct node *name, const struct node *limit,
                      struct limit_policy policy)
{
    struct weir_error error;
    if (!need_scalar(reader, limit, "a limit")) {
        return false;
    }
    return names_add_limit(reader->names, text_of(name), text_of(limit), policy, &error) == WEIR_OK
           || refuse_text(reader, limit, "the limit: ", &error);
}

static bool read_limit(struct reader *reader, const struct node *name, const struct node *value)
{
    static const struct form FORM = {"a limit",
                                     "there are limit, overrides, shadow and on_change",
                                     {"limit", "overrides", "shadow", "on_change"}};
    static const char *const SHADOW[2] = {"false", "true"};
    static const char *const ON_CHANGE[2] = {"keep", "reset"};
    const struct node *fields[FIELD_COUNT_MAX];
    struct limit_policy policy = {0};
    if (value->shape == NODE_SCALAR) {
        return add_limit(reader, name, value, policy);
    }
    if (!take_fields(reader, value, &FORM, fields)) {
        return false;
    }
    if (fields[0] == NULL) {
        return refuse(reader, value, "%.*s has no field 'limit'", shown(name), name->text);
    }
    return read_choice(reader, fields[2], "shadow", SHADOW, &policy.is_shadow)
           && read_choice(reader, fields[3], "on_change", ON_CHANGE, &policy.resets)
           && add_limit(reader, name, fields[0], policy) && read_overrides(reader, fields[1]);
}

/* ---- chains ---- */

/* Whether a chain has this name, above or below. */
static bool is_chain(const struct reader *reader, const struct node *name)
{
    const struct node *key = tree_first(&reader->tree, reader->chains);
    while (key != NULL) {
        const struct node *value = tree_next(&reader->tree, key);
        if (key->shape == NODE_SCALAR && is_text(key, name->text)) {
            return true;
        }
        key = tree_next(&reader->tree, value);
    }
    return false;
}

/* The limit of this name, for a chain; NULL and an error if there is none. */
static const struct named_limit *find_limit(struct reader *reader, const struct node *name)
{
    struct name_found found = names_find(reader->names, name->text, name->length);
    if (found.limit == NULL && is_chain(reader, name)) {
        (void)refuse(reader, name, "'%.*s' is a chain, and chains do not nest", shown(name),
                     name->text);
    } else if (found.limit == NULL) {
        (void)refuse(reader, name, "there is no limit '%.*s'", shown(name), name->text);
    }
    return found.limit;
}

static bool read_link(struct reader *reader, const struct node *link)
{
    static const struct form FORM = {
        "a part of a chain", "there are limit and key", {"limit", "key"}};
    static const struct bytes OWN_KEY = {"{key}", 5};
    const struct node *fields[FIELD_COUNT_MAX] = {link};
    struct weir_error error;
    if (link->shape != NODE_SCALAR && !take_fields(reader, link, &FORM, fields)) {
        return false;
    }
    if (fields[0] == NULL) {
        return refuse(reader, link, "a part of a chain needs the field 'limit'");
    }
    if (!need_scalar(reader, fields[0], "the limit of a chain")
        || (fields[1] != NULL && !need_scalar(reader, fields[1], "the key"))) {
        return false;
    }
    const struct named_limit *limit = find_limit(reader, fields[0]);
    if (limit == NULL) {
        return false;
    }
    const struct node *key = fields[1] != NULL ? fields[1] : fields[0];
    error.offset = 0;
    return names_add_link(reader->names, limit, fields[1] != NULL ? text_of(key) : OWN_KEY, &error)
               == WEIR_OK
           || refuse_text(reader, key, "the key: ", &error);
}

static bool read_chain(struct reader *reader, const struct node *name, const struct node *value)
{
    struct weir_error error;
    if (value->shape != NODE_LIST || value->child_count == 0) {
        return refuse(reader, value, "a chain is a list of limits, each with its key");
    }
    if (names_add_chain(reader->names, text_of(name), &error) != WEIR_OK) {
        return refuse_text(reader, name, "", &error);
    }
    const struct node *link = tree_first(&reader->tree, value);
    while (link != NULL) {
        if (!read_link(reader, link)) {
            return false;
        }
        link = tree_next(&reader->tree, link);
    }
    return true;
}

/* Limits and chains: a mapping from names. */
static bool read_named(struct reader *reader, const struct node *mapping, const char *what,
                       bool (*read)(struct reader *reader, const struct node *name,
                                    const struct node *value))
{
    if (mapping == NULL || is_empty(mapping)) {
        return true;
    }
    if (mapping->shape != NODE_MAPPING) {
        return refuse(reader, mapping, "%s must be a mapping of names, not %s", what,
                      shape_name(mapping));
    }
    const struct node *name = tree_first(&reader->tree, mapping);
    while (name != NULL) {
        const struct node *value = tree_next(&reader->tree, name);
        struct weir_error error;
        if (!need_scalar(reader, name, "a name")) {
            return false;
        }
        if (names_check(reader->names, text_of(name), &error) != WEIR_OK) {
            return refuse_text(reader, name, "", &error);
        }
        if (!read(reader, name, value)) {
            return false;
        }
        name = tree_next(&reader->tree, value);
    }
    return true;
}

/* ---- routes ---- */

/* What a text in other letters may be meant as; NULL if as none. */
static const char *method_meant(struct bytes text)
{
    const char *method;
    for (unsigned i = 0; (method = method_name(i)) != NULL; i++) {
        if (text.length == strlen(method) && strncasecmp(text.at, method, text.length) == 0) {
            return method;
        }
    }
    return NULL;
}

static bool read_method(struct reader *reader, const struct node *node, unsigned *methods)
{
    if (!need_scalar(reader, node, "a method")) {
        return false;
    }
    unsigned bit = method_bit(text_of(node));
    if (bit == 0) {
        const char *meant = method_meant(text_of(node));
        if (meant != NULL) {
            return refuse(reader, node, "'%.*s' is no method: they are written in capitals, %s",
                          shown(node), node->text, meant);
        }
        return refuse(reader, node,
                      "'%.*s' is no method: GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH",
                      shown(node), node->text);
    }
    if ((*methods & bit) != 0) {
        return refuse(reader, node, "%.*s is there twice", shown(node), node->text);
    }
    *methods |= bit;
    return true;
}

static bool read_methods(struct reader *reader, const struct node *node, unsigned *methods)
{
    *methods = 0;
    if (node == NULL) {
        return true;
    }
    if (node->shape != NODE_LIST) {
        return read_method(reader, node, methods);
    }
    const struct node *one = tree_first(&reader->tree, node);
    if (one == NULL) {
        return refuse(reader, node, "this list of methods is empty: leave it out to mean all");
    }
    for (; one != NULL; one = tree_next(&reader->tree, one)) {
        if (!read_method(reader, one, methods)) {
            return false;
        }
    }
    return true;
}

static bool read_cost(struct reader *reader, const struct node *node, uint64_t *cost_micro)
{
    struct weir_error error;
    *cost_micro = WEIR_UNIT;
    if (node == NULL) {
        return true;
    }
    if (!need_scalar(reader, node, "the cost")) {
        return false;
    }
    return weir_cost_parse(cost_micro, node->text, node->length, &error) == WEIR_OK
           || refuse_text(reader, node, "", &error);
}

static bool refuse_cost(struct reader *reader, const struct node *node,
                        const struct too_small *never)
{
    if (never->key.length == 0) {
        return refuse(reader, node, "no request would ever pass: %s never holds so much",
                      never->limit->name);
    }
    return refuse(reader, node,
                  "no request of '%.*s' would ever pass: %s never holds so much for it",
                  shown_of(never->key.length), never->key.at, never->limit->name);
}

static bool read_route(struct reader *reader, const struct node *node)
{
    static const struct form FORM = {
        "a route", "there are path, method, limit and cost", {"path", "limit", "method", "cost"}};
    const struct node *fields[FIELD_COUNT_MAX];
    unsigned methods;
    uint64_t cost_micro;
    struct weir_error error;
    if (!take_fields(reader, node, &FORM, fields)) {
        return false;
    }
    if (fields[0] == NULL || fields[1] == NULL) {
        return refuse(reader, node, "a route needs the fields 'path' and 'limit'");
    }
    if (!need_scalar(reader, fields[0], "the path")
        || !need_scalar(reader, fields[1], "the limit of a route")
        || !read_methods(reader, fields[2], &methods)
        || !read_cost(reader, fields[3], &cost_micro)) {
        return false;
    }
    struct name_found target = names_find(reader->names, fields[1]->text, fields[1]->length);
    if (target.limit == NULL && target.chain == NULL) {
        return refuse(reader, fields[1], "there is no limit or chain '%.*s'", shown(fields[1]),
                      fields[1]->text);
    }
    if (!name_counts(target, cost_micro)) {
        return refuse(reader, fields[3], "the cost: " LIMIT_COUNTS_WHOLE);
    }
    struct too_small never = name_never_holds(target, cost_micro);
    if (never.limit != NULL) {
        return refuse_cost(reader, fields[3] != NULL ? fields[3] : fields[1], &never);
    }
    return names_add_route(reader->names, methods, text_of(fields[0]), target, cost_micro, &error)
               == WEIR_OK
           || refuse_text(reader, fields[0], "the path: ", &error);
}

static bool read_routes(struct reader *reader, const struct node *routes)
{
    if (routes == NULL || is_empty(routes)) {
        return true;
    }
    if (routes->shape != NODE_LIST) {
        return refuse(reader, routes, "routes must be a list, not %s", shape_name(routes));
    }
    const struct node *route = tree_first(&reader->tree, routes);
    for (; route != NULL; route = tree_next(&reader->tree, route)) {
        if (!read_route(reader, route)) {
            return false;
        }
    }
    return true;
}

/* ---- the whole ---- */

/* Chains speak of limits, and routes of both, in whatever order they stand. A file without limits is one
 * that is just being written, rather than the wish to have none. */
static bool read_all(struct reader *reader)
{
    static const struct form FORM = {
        "a configuration", "there are limits, chains and routes", {"limits", "chains", "routes"}};
    const struct node *fields[FIELD_COUNT_MAX];
    if (!take_fields(reader, &reader->tree.nodes[0], &FORM, fields)) {
        return false;
    }
    if (fields[0] == NULL || is_empty(fields[0])) {
        return refuse(reader, fields[0] != NULL ? fields[0] : &reader->tree.nodes[0],
                      "there are no limits in it: 'limits: {}' says that there shall be none");
    }
    reader->chains = fields[1];
    return read_named(reader, fields[0], "limits", read_limit)
           && read_named(reader, fields[1], "chains", read_chain) && read_routes(reader, fields[2]);
}

struct names *config_parse(const char *text, size_t length, struct config_error *error)
{
    struct reader reader = {.error = error};
    *error = (struct config_error){0};
    if (length > CONFIG_BYTES_MAX) {
        (void)snprintf(error->message, sizeof error->message, "it is larger than %d MiB",
                       CONFIG_BYTES_MAX >> 20);
        return NULL;
    }
    if (!tree_read(&reader.tree, text, length, error)) {
        return NULL;
    }
    reader.names = names_open();
    if (reader.names == NULL) {
        (void)snprintf(error->message, sizeof error->message, "no memory");
    } else if (!read_all(&reader)) {
        names_close(reader.names);
        reader.names = NULL;
    }
    tree_close(&reader.tree);
    return reader.names;
}

const char *config_library(void)
{
    return tree_library();
}
