/* SPDX-License-Identifier: MIT
 *
 * What is missing where a word may be meant as the name of a limit, and no configuration was said. */
#ifndef WEIR_CLI_NAME_HINT_H
#define WEIR_CLI_NAME_HINT_H

#include "config/config.h"

enum { NAME_HINT_BYTES_MAX = CONFIG_PATH_BYTES_MAX + 64 };

/* "; a name needs --config FILE", and which file there is; "" if the word, up to a comma, can be nobody's name.
 * Returns `text`. */
const char *name_hint(const char *word, char text[NAME_HINT_BYTES_MAX]);

#endif
