/* SPDX-License-Identifier: MIT
 *
 * From a tree to names: which fields there are, and what each may say. Whatever is not as it should be
 * is an error, with its place; nothing is guessed and nothing is left out. After an error in one limit, override,
 * chain, part of a chain or route the reading goes on with the next one, only to find more errors. */
#include "config/config.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/tree.h"
#include "core/bucket_math.h"

struct reader {
    struct tree tree;
    struct names *names;
    const struct node *limits; // all of them, those that are wrong too
    const struct node *chains; // and those that are still to be read
    struct config_errors *errors;
    struct config_error *error; // the latest
    struct config_error beyond; // where errors go for which there is no room
};

/* Makes room for one more error. */
static void begin_error(struct reader *reader)
{
    struct config_errors *errors = reader->errors;
    reader->error =
        errors->count < CONFIG_ERROR_COUNT_MAX ? &errors->at[errors->count] : &reader->beyond;
    errors->count++;
}

/* Says what is wrong with a node. Returns false. */
__attribute__((format(printf, 3, 4))) static bool
refuse(struct reader *reader, const struct node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    begin_error(reader);
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

/* The place of a field among the values of its form. False, and an error, if there is no such field. */
static bool find_field(struct reader *reader, const struct node *key, const struct form *form,
                       size_t *field)
{
    size_t i = 0;
    *field = 0;
    if (key->shape != NODE_SCALAR) {
        return refuse(reader, key, "a field's name must be a text, not %s", shape_name(key));
    }
    while (i < FIELD_COUNT_MAX && form->fields[i] != NULL && !is_text(key, form->fields[i])) {
        i++;
    }
    *field = i;
    return (i < FIELD_COUNT_MAX && form->fields[i] != NULL)
           || refuse(reader, key, "unknown field '%.*s' of %s: %s", shown(key), key->text,
                     form->what, form->there);
}

/* Finds the value of each field, NULL where it is not said. Refuses others, and those said twice, and goes on
 * behind them. */
static bool take_fields(struct reader *reader, const struct node *mapping, const struct form *form,
                        const struct node *values[FIELD_COUNT_MAX])
{
    memset(values, 0, FIELD_COUNT_MAX * sizeof values[0]);
    if (mapping->shape != NODE_MAPPING) {
        return is_empty(mapping)
               || refuse(reader, mapping, "%s must be a mapping, not %s", form->what,
                         shape_name(mapping));
    }
    bool is_good = true;
    const struct node *key = tree_first(&reader->tree, mapping);
    while (key != NULL) {
        const struct node *value = tree_next(&reader->tree, key);
        size_t i;
        if (!find_field(reader, key, form, &i)) {
            is_good = false;
        } else if (values[i] != NULL) {
            is_good = refuse(reader, key, "'%s' is there twice, first in line %u", form->fields[i],
                             (unsigned)values[i]->line);
        } else {
            values[i] = value;
        }
        key = tree_next(&reader->tree, value);
    }
    return is_good;
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
    bool is_good = true;
    const struct node *key = tree_first(&reader->tree, overrides);
    while (key != NULL) {
        const struct node *value = tree_next(&reader->tree, key);
        assert(value != NULL); // of every key
        is_good = read_override(reader, key, value) && is_good;
        key = tree_next(&reader->tree, value);
    }
    return is_good;
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

/* Whether this name stands among the limits, or among the chains: above or below, and right or wrong. */
static bool is_written(const struct reader *reader, const struct node *mapping,
                       const struct node *name)
{
    bool has_names = mapping != NULL && mapping->shape == NODE_MAPPING;
    const struct node *key = has_names ? tree_first(&reader->tree, mapping) : NULL;
    while (key != NULL) {
        const struct node *value = tree_next(&reader->tree, key);
        if (key->shape == NODE_SCALAR && name->length == key->length
            && memcmp(key->text, name->text, name->length) == 0) {
            return true;
        }
        key = tree_next(&reader->tree, value);
    }
    return false;
}

/* The limit of this name, for a chain; NULL and an error if there is none. One that is wrong itself has had its
 * error. */
static const struct named_limit *find_limit(struct reader *reader, const struct node *name)
{
    struct name_found found = names_find(reader->names, name->text, name->length);
    if (found.limit == NULL && is_written(reader, reader->chains, name)) {
        (void)refuse(reader, name, "'%.*s' is a chain, and chains do not nest", shown(name),
                     name->text);
    } else if (found.limit == NULL && !is_written(reader, reader->limits, name)) {
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
    bool is_good = true;
    const struct node *link = tree_first(&reader->tree, value);
    while (link != NULL) {
        is_good = read_link(reader, link) && is_good;
        link = tree_next(&reader->tree, link);
    }
    return is_good;
}

static bool check_name(struct reader *reader, const struct node *name)
{
    struct weir_error error;
    return need_scalar(reader, name, "a name")
           && (names_check(reader->names, text_of(name), &error) == WEIR_OK
               || refuse_text(reader, name, "", &error));
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
    bool is_good = true;
    const struct node *name = tree_first(&reader->tree, mapping);
    while (name != NULL) {
        const struct node *value = tree_next(&reader->tree, name);
        is_good = check_name(reader, name) && read(reader, name, value) && is_good;
        name = tree_next(&reader->tree, value);
    }
    return is_good;
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
        bool is_wrong = is_written(reader, reader->limits, fields[1])
                        || is_written(reader, reader->chains, fields[1]);
        return !is_wrong
               && refuse(reader, fields[1], "there is no limit or chain '%.*s'", shown(fields[1]),
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
    bool is_good = true;
    const struct node *route = tree_first(&reader->tree, routes);
    for (; route != NULL; route = tree_next(&reader->tree, route)) {
        is_good = read_route(reader, route) && is_good;
    }
    return is_good;
}

/* ---- the whole ---- */

/* Chains speak of limits, and routes of both, in whatever order they stand. A file without limits is one
 * that is just being written, rather than the wish to have none. */
static bool read_all(struct reader *reader)
{
    static const struct form FORM = {
        "a configuration", "there are limits, chains and routes", {"limits", "chains", "routes"}};
    const struct node *fields[FIELD_COUNT_MAX];
    bool is_good = take_fields(reader, &reader->tree.nodes[0], &FORM, fields);
    if (fields[0] == NULL && !is_good) {
        return false; // they may be what has another name
    }
    if (fields[0] == NULL || is_empty(fields[0])) {
        return refuse(reader, fields[0] != NULL ? fields[0] : &reader->tree.nodes[0],
                      "there are no limits in it: 'limits: {}' says that there shall be none");
    }
    reader->limits = fields[0];
    reader->chains = fields[1];
    is_good = read_named(reader, fields[0], "limits", read_limit) && is_good;
    is_good = read_named(reader, fields[1], "chains", read_chain) && is_good;
    return read_routes(reader, fields[2]) && is_good;
}

struct names *config_parse_all(const char *text, size_t length, struct config_errors *errors)
{
    struct reader reader = {.errors = errors};
    struct config_error *error = &errors->at[0];
    *error = (struct config_error){0};
    errors->count = 0;
    if (length > CONFIG_BYTES_MAX) {
        errors->count = 1;
        (void)snprintf(error->message, sizeof error->message, "it is larger than %d MiB",
                       CONFIG_BYTES_MAX >> 20);
        return NULL;
    }
    if (!tree_read(&reader.tree, text, length, error)) {
        errors->count = 1;
        return NULL;
    }
    reader.names = names_open();
    if (reader.names == NULL) {
        errors->count = 1;
        (void)snprintf(error->message, sizeof error->message, "no memory");
    } else if (!read_all(&reader)) {
        names_close(reader.names);
        reader.names = NULL;
    }
    tree_close(&reader.tree);
    return reader.names;
}

struct names *config_parse(const char *text, size_t length, struct config_error *error)
{
    struct config_errors errors;
    struct names *names = config_parse_all(text, length, &errors);
    *error = errors.at[0];
    return names;
}

const char *config_library(void)
{
    return tree_library();
}
