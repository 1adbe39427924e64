/* SPDX-License-Identifier: MIT
 *
 * Chains: several limits with a key each, written as templates.
 *
 *     tenant:{tenant}     a text and a variable
 *
 * A template is taken to pieces once, and filled in for each request. Braces stand for nothing but
 * variables, whose names are like those of limits; {key} is the request's own key. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "limiter/names/names.h"
#include "limiter/names/names_state.h"

static const struct bytes KEY = {"key", 3};

enum weir_status names_add_chain(struct names *names, struct bytes name, struct weir_error *error)
{
    assert(names_check(names, name, NULL) == WEIR_OK);
    if (names->chain_count == NAMES_CHAIN_COUNT_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "there are more than %d chains", NAMES_CHAIN_COUNT_MAX);
    }
    struct named_chain *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory");
    }
    memcpy(made->name, name.at, name.length); // zeroed behind
    names->chains[names->chain_count++] = made;
    names_publish(names, made->name, (uint16_t)(names->chain_count | NAMES_IS_CHAIN));
    return WEIR_OK;
}

/* ---- variables ---- */

bool variables_add(struct variables *variables, struct bytes name, struct bytes value)
{
    for (size_t i = 0; i < variables->count; i++) {
        if (text_equals(variables->entries[i].name, name)) {
            return false;
        }
    }
    if (variables->count == VARIABLE_COUNT_MAX) {
        return false;
    }
    variables->entries[variables->count++] = (struct variable){name, value};
    return true;
}

/* `at` is NULL if there is none of this name. */
static struct bytes find_value(const struct variables *variables, struct bytes key,
                               struct bytes name)
{
    if (text_equals(name, KEY)) {
        return key;
    }
    for (size_t i = 0; i < variables->count; i++) {
        if (text_equals(variables->entries[i].name, name)) {
            return variables->entries[i].value;
        }
    }
    return (struct bytes){NULL, 0};
}

/* ---- templates ---- */

/* What is left of a template, and where its pieces go. */
struct template
{
    struct bytes all;
    size_t at;
    struct chain_link *link;
    struct weir_error *error;
};

static enum weir_status add_piece(struct template *template, struct bytes text, bool is_variable)
{
    struct chain_link *link = template->link;
    if (text.length == 0 && !is_variable) {
        return WEIR_OK;
    }
    if (link->piece_count == CHAIN_PIECE_COUNT_MAX) {
        return fail(template->error, WEIR_E_RANGE, (size_t)(text.at - template->all.at),
                    "a key has at most %d pieces", CHAIN_PIECE_COUNT_MAX);
    }
    link->pieces[link->piece_count++] =
        (struct template_piece){.text = text, .is_variable = is_variable};
    return WEIR_OK;
}

/* The bytes up to the next brace. */
static struct bytes read_run(struct template *template)
{
    size_t start = template->at;
    while (template->at < template->all.length && template->all.at[template->at] != '{'
           && template->all.at[template->at] != '}') {
        template->at++;
    }
    return (struct bytes){template->all.at + start, template->at - start};
}

static bool is_variable_name(struct bytes name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = name.at[i];
        bool is_letter = c >= 'a' && c <= 'z';
        if (!is_letter && (i == 0 || !((c >= '0' && c <= '9') || c == '_' || c == '-'))) {
            return false;
        }
    }
    return name.length > 0 && name.length <= NAME_BYTES_MAX;
}

/* Reads "{name}", whose first brace is next. */
static enum weir_status read_variable(struct template *template)
{
    size_t start = template->at++;
    struct bytes name = read_run(template);
    bool is_closed = template->at < template->all.length && template->all.at[template->at] == '}';
    if (!is_closed) {
        return fail(template->error, WEIR_E_SYNTAX, start, "this { has no } behind its name");
    }
    template->at++;
    if (!is_variable_name(name)) {
        return fail(
            template->error, WEIR_E_SYNTAX, start + 1,
            "'%.*s' is no name of a variable: a small letter, then small letters, digits, _ "
            "and -, at most %d",
            text_shown(name), name.at, NAME_BYTES_MAX);
    }
    return add_piece(template, name, true);
}

static enum weir_status read_template(struct template *template)
{
    if (template->all.length == 0 || template->all.length > CHAIN_TEMPLATE_BYTES_MAX) {
        return fail(template->error, WEIR_E_RANGE, 0, "a key has 1 to %d bytes",
                    CHAIN_TEMPLATE_BYTES_MAX);
    }
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && template->at < template->all.length) {
        status = add_piece(template, read_run(template), false);
        if (status != WEIR_OK || template->at == template->all.length) {
            break;
        }
        if (template->all.at[template->at] == '}') {
            return fail(template->error, WEIR_E_SYNTAX, template->at, "this } has no { before it");
        }
        status = read_variable(template);
    }
    return status;
}

static bool uses_key(const struct chain_link *link)
{
    bool uses = false;
    for (size_t i = 0; i < link->piece_count; i++) {
        uses = uses || (link->pieces[i].is_variable && text_equals(link->pieces[i].text, KEY));
    }
    return uses;
}

/* How many variables a request has to bring for a chain with one more link; more than VARIABLE_COUNT_MAX
 * are one more. {key} is none of them. */
static size_t count_variables(const struct named_chain *chain, const struct chain_link *more)
{
    struct variables variables = {.count = 0};
    for (size_t i = 0; i <= chain->link_count; i++) {
        const struct chain_link *link = i < chain->link_count ? &chain->links[i] : more;
        for (size_t k = 0; k < link->piece_count; k++) {
            const struct template_piece *piece = &link->pieces[k];
            bool is_new = piece->is_variable && !text_equals(piece->text, KEY)
                          && find_value(&variables, KEY, piece->text).at == NULL;
            if (is_new && !variables_add(&variables, piece->text, piece->text)) {
                return VARIABLE_COUNT_MAX + 1;
            }
        }
    }
    return variables.count;
}

enum weir_status names_add_link(struct names *names, const struct named_limit *limit,
                                struct bytes key, struct weir_error *error)
{
    assert(names->chain_count > 0);
    struct named_chain *chain = names->chains[names->chain_count - 1];
    if (chain->link_count == CHAIN_LINK_COUNT_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "a chain has at most %d limits", CHAIN_LINK_COUNT_MAX);
    }
    struct chain_link link = {.limit = limit, .written = names_keep(names, key)};
    if (link.written.at == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory");
    }
    struct template template = {.all = link.written, .link = &link, .error = error};
    enum weir_status status = read_template(&template);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < chain->link_count; i++) {
        if (chain->links[i].limit == limit && text_equals(chain->links[i].written, link.written)) {
            return fail(error, WEIR_E_SYNTAX, 0, "%s has this key in this chain already",
                        limit->name);
        }
    }
    if (count_variables(chain, &link) > VARIABLE_COUNT_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "a chain asks for at most %d variables",
                    VARIABLE_COUNT_MAX);
    }
    chain->links[chain->link_count++] = link;
    chain->uses_key = chain->uses_key || uses_key(&link);
    return WEIR_OK;
}

/* ---- filling in ---- */

/* What a request brings, and what is left of the room. */
struct filling {
    const struct named_chain *chain;
    struct bytes key;
    const struct variables *variables;
    char *room;
    size_t room_bytes, used;
    struct weir_error *error;
};

static enum weir_status fill_piece(const struct filling *filling, const struct chain_link *link,
                                   const struct template_piece *piece, struct bytes *filled)
{
    *filled = piece->text;
    if (!piece->is_variable) {
        return WEIR_OK;
    }
    *filled = find_value(filling->variables, filling->key, piece->text);
    if (filled->length == 0) {
        bool is_there = filled->at != NULL && !text_equals(piece->text, KEY); // no bytes: no key
        return fail(filling->error, WEIR_E_SYNTAX, 0,
                    "{%.*s} is %s: %s asks for it, in the key %.*s", text_shown(piece->text),
                    piece->text.at, is_there ? "empty" : "missing", filling->chain->name,
                    text_shown(link->written), link->written.at);
    }
    return WEIR_OK;
}

static enum weir_status fill_link(struct filling *filling, const struct chain_link *link,
                                  struct bytes *key)
{
    char *start = filling->room + filling->used;
    size_t length = 0;
    for (size_t i = 0; i < link->piece_count; i++) {
        struct bytes piece;
        enum weir_status status = fill_piece(filling, link, &link->pieces[i], &piece);
        if (status != WEIR_OK) {
            return status;
        }
        if (piece.length > WEIR_KEY_BYTES_MAX - length) {
            return fail(filling->error, WEIR_E_RANGE, 0, "the key %.*s has more than %d bytes",
                        text_shown(link->written), link->written.at, WEIR_KEY_BYTES_MAX);
        }
        length += piece.length;
        if (link->piece_count == 1) {
            *key = piece; // as it is
            return WEIR_OK;
        }
        if (length > filling->room_bytes - filling->used) {
            return fail(filling->error, WEIR_E_RANGE, 0, "the keys of %s have more than %zu bytes",
                        filling->chain->name, filling->room_bytes);
        }
        memcpy(start + length - piece.length, piece.at, piece.length);
    }
    *key = (struct bytes){start, length};
    filling->used += length;
    return WEIR_OK;
}

/* Two templates of one limit may become one key. */
static enum weir_status check_twice(const struct filling *filling, const struct bytes *keys,
                                    size_t last)
{
    const struct chain_link *links = filling->chain->links;
    for (size_t i = 0; i < last; i++) {
        if (links[i].limit == links[last].limit && text_equals(keys[i], keys[last])) {
            return fail(
                filling->error, WEIR_E_SYNTAX, 0, "the keys %.*s and %.*s of %s are the same here",
                text_shown(links[i].written), links[i].written.at, text_shown(links[last].written),
                links[last].written.at, links[last].limit->name);
        }
    }
    return WEIR_OK;
}

enum weir_status chain_fill_in(const struct named_chain *chain, struct bytes key,
                               const struct variables *variables, char *room, size_t room_bytes,
                               size_t *used, struct bytes keys[CHAIN_LINK_COUNT_MAX],
                               struct weir_error *error)
{
    struct filling filling = {chain, key, variables, room, room_bytes, 0, error};
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < chain->link_count && status == WEIR_OK; i++) {
        status = fill_link(&filling, &chain->links[i], &keys[i]);
        if (status == WEIR_OK) {
            status = check_twice(&filling, keys, i);
        }
    }
    *used = filling.used;
    return status;
}
