/* SPDX-License-Identifier: MIT
 *
 * The shape of a configuration: scalars, lists and mappings, and where each of them stands. Of YAML it
 * takes what people write by hand: no anchors, aliases, tags or second documents, so nothing refers to
 * anything and a small file cannot unfold into a large one. */
#ifndef WEIR_CONFIG_TREE_H
#define WEIR_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

enum {
    TREE_NODE_COUNT_MAX = 100000, // an override has two
    TREE_DEPTH_MAX = 16
};

enum node_shape { NODE_SCALAR, NODE_LIST, NODE_MAPPING };

/* A node. In a mapping a key and its value are one behind the other. */
struct node {
    enum node_shape shape;
    uint32_t line, column; // from 1; the column of a scalar's first byte, behind its quote
    const char *text;      // of a scalar; NUL-terminated, but it may hold others
    size_t length;
    bool is_plain;        // a scalar without quotes: an offset in it is one in the line
    bool is_block;        // a scalar over several lines
    uint32_t first, next; // indices among the nodes; 0: none, since 0 is the root
    uint32_t child_count;
};

struct tree {
    struct node *nodes;
    size_t node_count;
    char *texts; // of all scalars
};

/* Reads a file's text. False: *error says what cannot be read, and where; nothing is to be released.
 * A text with nothing in it is an empty mapping. */
bool tree_read(struct tree *tree, const char *text, size_t length, struct config_error *error);
void tree_close(struct tree *tree);

static inline const struct node *tree_first(const struct tree *tree, const struct node *node)
{
    return node->first != 0 ? &tree->nodes[node->first] : NULL;
}

static inline const struct node *tree_next(const struct tree *tree, const struct node *node)
{
    return node->next != 0 ? &tree->nodes[node->next] : NULL;
}

/* The version of libyaml, or NULL where this weir was built without it. */
const char *tree_library(void);

#endif
