/* SPDX-License-Identifier: MIT
 *
 * Reads a command line one argument at a time, options and words in any order:
 *
 *     struct arguments arguments = {.count = count, .words = words};
 *     const char *value;
 *     int option;
 *     while ((option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END) {
 *         switch (option) {
 *         case OPTION_COST: ...
 *         case ARGUMENT_WORD: ...
 *
 * Options are spelled out, "--cost 5" or "--cost=5"; "--" ends them. Not getopt_long(): that one
 * also takes any unambiguous beginning of a name, so a new option would break old command lines. */
#ifndef WEIR_CLI_ARGUMENTS_H
#define WEIR_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

/*   name   one of a single character follows one dash: -0
 *   value  how help calls its argument; NULL: it takes none */
struct option {
    const char *name;
    const char *value;
    const char *help;
};

enum {
    ARGUMENT_END = -1,
    ARGUMENT_WORD = -2, // *value is the word
    ARGUMENT_HELP = -3, // --help or -h, which every command knows
    ARGUMENT_BAD = -4   // `problem` says why
};

enum { ARGUMENT_PROBLEM_MAX = 160 };

struct arguments {
    int count;
    char **words;
    int at;
    bool options_over;
    uint64_t seen; // options with a value that have been given: by index, one bit each
    char problem[ARGUMENT_PROBLEM_MAX];
};

/* Returns an index into `options` or one of the above. *value points into the words, NULL for an
 * option without an argument. */
int arguments_next(struct arguments *arguments, const struct option *options, const char **value);

/* The candidate that is most like `word`, or NULL where none is like it. `next` returns the i-th
 * candidate of `context`, NULL at the end. */
const char *nearest_word(const char *word, const char *(*next)(const void *context, int i),
                         const void *context);

#endif
