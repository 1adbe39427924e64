/* SPDX-License-Identifier: MIT
 *
 * What a sentence for a client quotes of the client's request: taken out before the log gets it. It may be a key. */
#ifndef WEIR_PROTOCOL_QUOTES_H
#define WEIR_PROTOCOL_QUOTES_H

#include <stddef.h>

/* Copies `sentence` to `emptied`, cut to `bytes`, with '..' for all from its first quoted word to its last one.
 *
 *     unknown unit 'parsec'; one of ns us ms   ->   unknown unit '..'; one of ns us ms
 *     expected '/' and a period, not 'x'       ->   expected '/' and a period, not '..'
 *
 * A single sign of punctuation in quotes is kept. What was quoted may have quotes in it; an apostrophe within a word
 * is none. Returns `emptied`. */
const char *quotes_empty(const char *sentence, char *emptied, size_t bytes);

#endif
