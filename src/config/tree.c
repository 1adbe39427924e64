/* SPDX-License-Identifier: MIT
 *
 * From YAML to a tree, by the events of libyaml. */
#include "config/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* What is open at the moment: lists and mappings, outermost first. */
struct growing {
    struct tree *tree;
    size_t node_room;
    size_t text_used;
    uint32_t open[TREE_DEPTH_MAX];
    uint32_t last[TREE_DEPTH_MAX]; // the youngest child of each; 0: none yet
    size_t depth;
    bool is_done; // the document has ended
    struct config_error *error;
};

__attribute__((format(printf, 3, 4))) static bool refuse(struct config_error *error,
                                                         yaml_mark_t mark, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error->line = (uint32_t)mark.line + 1;
    error->column = (uint32_t)mark.column + 1;
    (void)vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return false;
}

/* Where a byte of the file stands. Of what is no text libyaml says no more than that. */
static yaml_mark_t mark_of_byte(struct bytes file, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < file.length; i++) {
        bool ends = file.at[i] == '\n';
        mark.line += ends;
        mark.column = ends ? 0 : mark.column + 1;
    }
    return mark;
}

/* Whether what libyaml stumbled over is a tab, of which it says that it "cannot start any token". */
static bool is_tab(struct bytes file, yaml_mark_t mark)
{
    size_t line = 0;
    size_t at = 0;
    while (at < file.length && line < mark.line) {
        line += file.at[at++] == '\n';
    }
    at += mark.column;
    return at < file.length && file.at[at] == '\t';
}

/* libyaml's words, with its place, which it counts from 0. */
static bool refuse_by_library(struct config_error *error, const yaml_parser_t *parser,
                              struct bytes file)
{
    const char *problem = parser->problem != NULL ? parser->problem : "it cannot be read";
    switch (parser->error) {
    case YAML_MEMORY_ERROR: return refuse(error, parser->mark, "no memory");
    case YAML_READER_ERROR:
        return refuse(error, mark_of_byte(file, parser->problem_offset), "this is no YAML: %s",
                      problem);
    case YAML_NO_ERROR:
    case YAML_SCANNER_ERROR:
    case YAML_PARSER_ERROR:
    case YAML_COMPOSER_ERROR:
    case YAML_WRITER_ERROR:
    case YAML_EMITTER_ERROR: break;
    }
    if (parser->error == YAML_SCANNER_ERROR && is_tab(file, parser->problem_mark)) {
        return refuse(error, parser->problem_mark,
                      "this is no YAML: a tab cannot stand here, lines are indented by spaces");
    }
    if (parser->context != NULL) {
        return refuse(error, parser->problem_mark, "this is no YAML: %s, %s", parser->context,
                      problem);
    }
    return refuse(error, parser->problem_mark, "this is no YAML: %s", problem);
}

/* ---- nodes ---- */

static bool reserve_node(struct growing *growing, yaml_mark_t mark)
{
    struct tree *tree = growing->tree;
    if (tree->node_count == TREE_NODE_COUNT_MAX) {
        return refuse(growing->error, mark, "there is too much: more than %d values",
                      TREE_NODE_COUNT_MAX);
    }
    if (tree->node_count < growing->node_room) {
        return true;
    }
    size_t room = growing->node_room > 0 ? 2 * growing->node_room : 64;
    struct node *nodes = realloc(tree->nodes, room * sizeof *nodes);
    if (nodes == NULL) {
        return refuse(growing->error, mark, "no memory");
    }
    tree->nodes = nodes;
    growing->node_room = room;
    return true;
}

/* Adds a node to what is open. NULL and an error if it cannot. */
static struct node *add_node(struct growing *growing, enum node_shape shape, yaml_mark_t mark)
{
    struct tree *tree = growing->tree;
    if (!reserve_node(growing, mark)) {
        return NULL;
    }
    uint32_t index = (uint32_t)tree->node_count++;
    struct node *node = &tree->nodes[index];
    *node = (struct node){
        .shape = shape, .line = (uint32_t)mark.line + 1, .column = (uint32_t)mark.column + 1};
    if (growing->depth > 0) {
        size_t top = growing->depth - 1;
        struct node *parent = &tree->nodes[growing->open[top]];
        if (growing->last[top] == 0) {
            parent->first = index;
        } else {
            tree->nodes[growing->last[top]].next = index;
        }
        growing->last[top] = index;
        parent->child_count++;
    }
    return node;
}

/* All scalars together are no longer than the file, but for their NULs: an escape only shrinks, and
 * folding, too. Yet it is checked. */
static bool add_scalar(struct growing *growing, const yaml_event_t *event, size_t text_room)
{
    size_t length = event->data.scalar.length;
    struct node *node = add_node(growing, NODE_SCALAR, event->start_mark);
    if (node == NULL) {
        return false;
    }
    if (length >= text_room - growing->text_used) {
        return refuse(growing->error, event->start_mark, "there is too much text");
    }
    char *text = growing->tree->texts + growing->text_used;
    memcpy(text, event->data.scalar.value, length);
    text[length] = '\0';
    growing->text_used += length + 1;
    yaml_scalar_style_t style = event->data.scalar.style;
    node->text = text;
    node->length = length;
    node->is_plain = style == YAML_PLAIN_SCALAR_STYLE;
    node->is_block = event->start_mark.line != event->end_mark.line;
    node->column += !node->is_plain && !node->is_block; // behind the quote
    return true;
}

static bool open_collection(struct growing *growing, enum node_shape shape, yaml_mark_t mark)
{
    if (growing->depth == TREE_DEPTH_MAX) {
        return refuse(growing->error, mark, "this is nested too deeply");
    }
    struct node *node = add_node(growing, shape, mark);
    if (node == NULL) {
        return false;
    }
    growing->open[growing->depth] = (uint32_t)(node - growing->tree->nodes);
    growing->last[growing->depth] = 0;
    growing->depth++;
    return true;
}

/* ---- events ---- */

static bool has_extras(const yaml_char_t *anchor, const yaml_char_t *tag)
{
    return anchor != NULL || tag != NULL;
}

static bool take_event(struct growing *growing, const yaml_event_t *event, size_t text_room)
{
    static const char NO_EXTRAS[] = "anchors and tags (& and !) have no meaning here; quote a text "
                                    "that begins with one";
    yaml_mark_t mark = event->start_mark;
    switch (event->type) {
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT: return true;
    case YAML_DOCUMENT_END_EVENT: growing->is_done = true; return true;
    case YAML_STREAM_END_EVENT: return true;
    case YAML_DOCUMENT_START_EVENT:
        return !growing->is_done || refuse(growing->error, mark, "a second document begins here");
    case YAML_ALIAS_EVENT:
        return refuse(growing->error, mark,
                      "aliases (*) have no meaning here; quote a text that begins with one");
    case YAML_SCALAR_EVENT:
        return has_extras(event->data.scalar.anchor, event->data.scalar.tag)
                   ? refuse(growing->error, mark, "%s", NO_EXTRAS)
                   : add_scalar(growing, event, text_room);
    case YAML_SEQUENCE_START_EVENT:
        return has_extras(event->data.sequence_start.anchor, event->data.sequence_start.tag)
                   ? refuse(growing->error, mark, "%s", NO_EXTRAS)
                   : open_collection(growing, NODE_LIST, mark);
    case YAML_MAPPING_START_EVENT:
        return has_extras(event->data.mapping_start.anchor, event->data.mapping_start.tag)
                   ? refuse(growing->error, mark, "%s", NO_EXTRAS)
                   : open_collection(growing, NODE_MAPPING, mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: growing->depth--; return true;
    }
    return true;
}

static bool read_events(struct growing *growing, yaml_parser_t *parser, struct bytes file,
                        size_t text_room)
{
    for (bool goes_on = true; goes_on;) {
        yaml_event_t event;
        if (yaml_parser_parse(parser, &event) == 0) {
            return refuse_by_library(growing->error, parser, file);
        }
        bool is_good = take_event(growing, &event, text_room);
        goes_on = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (!is_good) {
            return false;
        }
    }
    yaml_mark_t start = {0};
    return growing->tree->node_count > 0 || open_collection(growing, NODE_MAPPING, start);
}

bool tree_read(struct tree *tree, const char *text, size_t length, struct config_error *error)
{
    yaml_parser_t parser;
    size_t text_room = 2 * length + 16; // a byte and a NUL each
    *tree = (struct tree){.texts = malloc(text_room)};
    *error = (struct config_error){0};
    struct growing growing = {.tree = tree, .error = error};
    if (tree->texts == NULL || yaml_parser_initialize(&parser) == 0) {
        free(tree->texts);
        return refuse(error, (yaml_mark_t){0}, "no memory");
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    bool is_good = read_events(&growing, &parser, (struct bytes){text, length}, text_room);
    yaml_parser_delete(&parser);
    if (!is_good) {
        tree_close(tree);
    }
    return is_good;
}

void tree_close(struct tree *tree)
{
    free(tree->nodes);
    free(tree->texts);
    *tree = (struct tree){0};
}

const char *tree_library(void)
{
    return yaml_get_version_string();
}
