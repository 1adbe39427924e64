/* SPDX-License-Identifier: MIT
 *
 * The words of a limit's text that others must tell from their own. */
#ifndef WEIR_CORE_LIMIT_WORDS_H
#define WEIR_CORE_LIMIT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* True if these bytes are a kind of limit: "bucket". Thread-safe. */
bool limit_word_is_kind(const char *text, size_t length);

#endif
