/* SPDX-License-Identifier: MIT
 *
 * The words of a limit's text that others must tell from their own, and its text over a period of one's own. */
#ifndef WEIR_CORE_LIMIT_WORDS_H
#define WEIR_CORE_LIMIT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/limit.h"

/* True if these bytes are a kind of limit: "bucket". Thread-safe. */
bool limit_word_is_kind(const char *text, size_t length);

/* "refuse", "allow" or "evict". Thread-safe. */
const char *limit_on_full_word(enum weir_on_full on_full);

/* "refuse" or "allow". Thread-safe. */
const char *limit_on_error_word(enum weir_on_error on_error);

/* As weir_limit_print(), but with the count and the period that the config has, also where the canonical text
 * says the same rate otherwise: 9/3s, not 3/s. Its reader gets just this config again. Thread-safe. */
WEIR_MUST_USE enum weir_status limit_print_as_written(const struct weir_limit_config *config,
                                                      char *text, size_t size);

#endif
