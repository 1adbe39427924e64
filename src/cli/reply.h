/* SPDX-License-Identifier: MIT
 *
 * What a server answers in RESP2, as far as the commands of weir answer: one value, or an array of
 * values, that are numbers, texts, or arrays of such. */
#ifndef WEIR_CLI_REPLY_H
#define WEIR_CLI_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"

enum {
    REPLY_ITEM_COUNT_MAX = 80,
    REPLY_LINE_BYTES_MAX = 1024,      // a number, or a sentence
    REPLY_BULK_BYTES_MAX = 64 * 1024, // a text of a given length
};

enum reply_result {
    REPLY_DONE, // *reply is filled, *used bytes consumed; its texts point into the input
    REPLY_MORE, // a valid beginning
    REPLY_BAD   // no reply that weir's commands have
};

/*   type  ':' number, '+' or '$' text, '-' error (its text too); '*' an array of `number` values, which
 *         are the items behind it, and none of them an array */
struct reply_item {
    char type;
    int64_t number;
    struct bytes text;
};

/* A single value has count 1 and is no array. `count` is of all items, those of inner arrays too. */
struct reply {
    bool is_array;
    size_t count;
    struct reply_item items[REPLY_ITEM_COUNT_MAX];
};

/* Parses one reply from the front of `input`. Pure: no I/O, no allocation, nothing remembered. */
enum reply_result reply_parse(struct bytes input, struct reply *reply, size_t *used);

/* True if the reply is an error whose text starts with `prefix`. */
bool reply_is_error(const struct reply *reply, const char *prefix);

#endif
