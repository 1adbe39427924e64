/* SPDX-License-Identifier: MIT */
#include "cli/arguments.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WORD_LENGTH_MAX = 32, LIKENESS_DISTANCE_MAX = 2 };

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* How many letters must be added, dropped or changed to get from one word to the other
 * (V. Levenshtein, 1965): one row of the table at a time. */
static size_t edit_distance(const char *from, const char *to)
{
    size_t row[WORD_LENGTH_MAX + 1];
    size_t to_length = strlen(to);
    assert(to_length <= WORD_LENGTH_MAX);
    for (size_t j = 0; j <= to_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; from[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= to_length; j++) {
            size_t above = row[j];
            size_t change = diagonal + (from[i - 1] != to[j - 1]);
            row[j] = smallest(above + 1, row[j - 1] + 1, change);
            diagonal = above;
        }
    }
    return row[to_length];
}

const char *nearest_word(const char *word, const char *(*next)(const void *context, int i),
                         const void *context)
{
    const char *nearest = NULL;
    size_t nearest_distance = LIKENESS_DISTANCE_MAX + 1;
    if (strlen(word) > WORD_LENGTH_MAX) {
        return NULL;
    }
    for (int i = 0;; i++) {
        const char *candidate = next(context, i);
        if (candidate == NULL) {
            return nearest;
        }
        size_t distance = edit_distance(word, candidate);
        if (distance < nearest_distance && distance < strlen(candidate)) {
            nearest = candidate;
            nearest_distance = distance;
        }
    }
}

static const char *option_name(const void *options, int i)
{
    return ((const struct option *)options)[i].name;
}

static int unknown_option(struct arguments *arguments, const struct option *options,
                          const char *word)
{
    char name[WORD_LENGTH_MAX + 1];
    const char *bare = word + strspn(word, "-");
    size_t length = strcspn(bare, "=");
    const char *nearest = NULL;
    if (length < sizeof name) {
        memcpy(name, bare, length);
        name[length] = '\0';
        nearest = nearest_word(name, option_name, options);
    }
    if (nearest != NULL) {
        (void)snprintf(arguments->problem, sizeof arguments->problem,
                       "unknown option %.60s; did you mean --%s?", word, nearest);
    } else {
        (void)snprintf(arguments->problem, sizeof arguments->problem,
                       "unknown option %.60s; a word that starts with - comes after --", word);
    }
    return ARGUMENT_BAD;
}

/* The value of an option: after its '=', or the next word. */
static int option_value(struct arguments *arguments, const struct option *option, int index,
                        const char *equals, const char **value)
{
    if (option->value == NULL && equals != NULL) {
        (void)snprintf(arguments->problem, sizeof arguments->problem, "--%s takes no value",
                       option->name);
        return ARGUMENT_BAD;
    }
    if (option->value == NULL) {
        return index;
    }
    assert(index < 64); // a bit for each
    if ((arguments->seen >> index & 1) != 0) {
        (void)snprintf(arguments->problem, sizeof arguments->problem, "--%s is given twice",
                       option->name);
        return ARGUMENT_BAD;
    }
    arguments->seen |= UINT64_C(1) << index;
    if (equals != NULL) {
        *value = equals + 1;
    } else if (arguments->at < arguments->count) {
        *value = arguments->words[arguments->at++];
    } else {
        (void)snprintf(arguments->problem, sizeof arguments->problem, "--%s needs a value: %s",
                       option->name, option->value);
        return ARGUMENT_BAD;
    }
    return index;
}

int arguments_next(struct arguments *arguments, const struct option *options, const char **value)
{
    *value = NULL;
    if (arguments->at == arguments->count) {
        return ARGUMENT_END;
    }
    const char *word = arguments->words[arguments->at++];
    if (arguments->options_over || word[0] != '-' || word[1] == '\0') {
        *value = word;
        return ARGUMENT_WORD;
    }
    if (strcmp(word, "--") == 0) {
        arguments->options_over = true;
        return arguments_next(arguments, options, value);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return ARGUMENT_HELP;
    }
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    size_t dashes = strncmp(word, "--", 2) == 0 ? 2 : 1;
    for (int i = 0; options[i].name != NULL; i++) {
        size_t name_length = strlen(options[i].name);
        if (dashes == (name_length == 1 ? 1 : 2) && length - dashes == name_length
            && memcmp(word + dashes, options[i].name, name_length) == 0) {
            return option_value(arguments, &options[i], i, equals, value);
        }
    }
    return unknown_option(arguments, options, word);
}
