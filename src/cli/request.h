/* SPDX-License-Identifier: MIT
 *
 * Commands of RESP, as clients write them: an array of texts. */
#ifndef WEIR_CLI_REQUEST_H
#define WEIR_CLI_REQUEST_H

#include <stddef.h>

#include "protocol/buffer.h"

/* Appends the beginning of a command, and then each of its words. */
void request_begin(struct buffer *request, size_t word_count);
void request_word(struct buffer *request, const void *word, size_t length);

#endif
