/* SPDX-License-Identifier: MIT
 *
 * In place of tree.c where there is no libyaml. */
#include "config/tree.h"

#include <stdio.h>

bool tree_read(struct tree *tree, const char *text, size_t length, struct config_error *error)
{
    (void)text;
    (void)length;
    *tree = (struct tree){0};
    *error = (struct config_error){0};
    (void)snprintf(error->message, sizeof error->message,
                   "this weir was built without libyaml, and reads no configuration");
    return false;
}

void tree_close(struct tree *tree)
{
    (void)tree;
}

const char *tree_library(void)
{
    return NULL;
}
