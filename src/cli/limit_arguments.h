/* SPDX-License-Identifier: MIT
 *
 * Limits on a command line, where a shell has cut them into words:
 *
 *     weir take login:alice 10/s 100/min capacity=50
 *
 * A limit begins with its kind or its rate, and goes on with every name=value; or it is a name. */
#ifndef WEIR_CLI_LIMIT_ARGUMENTS_H
#define WEIR_CLI_LIMIT_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "limiter/limit_list.h"

/* Whether a word is one of the kinds of limit. */
bool word_is_kind(const char *word);

/* Whether it is COUNT/PERIOD; or several words in one, the first of which is that or a kind. */
bool word_is_rate(const char *word);

/* Whether it can be the name of a limit, up to a comma. */
bool word_is_name(const char *word);

/* What the words say, as one text. */
struct limit_arguments {
    size_t length;
    char text[LIMIT_LIST_TEXT_MAX + 1];
};

/* Joins the words with spaces, and with a comma before one that begins another limit. False if that
 * is longer than any list of limits. */
bool limit_arguments_join(struct limit_arguments *joined, int count, char **words);

/* What a limit or a list of them says.
 *   grain_micro  in what millionths all of them can count */
struct limits_said {
    struct limit_list list;
    struct weir_limit_config first;
    uint32_t grain_micro;
    bool has_queue;
    bool is_named; // a name is among them; where it is the first, nothing is known of that
};

/* Reads it. Statuses of weir_limit_parse() and limit_list_split(). */
WEIR_MUST_USE enum weir_status limits_read(const char *text, struct limits_said *said,
                                           struct weir_error *error);

#endif
