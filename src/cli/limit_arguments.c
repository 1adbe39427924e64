/* SPDX-License-Identifier: MIT */
#include "cli/limit_arguments.h"

#include <string.h>

#include "core/limit_words.h"

bool word_is_kind(const char *word)
{
    return limit_word_is_kind(word, strlen(word));
}

bool word_is_rate(const char *word)
{
    size_t length = strcspn(word, " ");
    if (word[0] >= '0' && word[0] <= '9') {
        return memchr(word, '/', length) != NULL;
    }
    return word[length] != '\0' && limit_word_is_kind(word, length);
}

/* Puts `piece` behind the text. False if there is no room. */
static bool append(struct limit_arguments *to, const char *piece, size_t length)
{
    if (length > LIMIT_LIST_TEXT_MAX - to->length) {
        return false;
    }
    memcpy(to->text + to->length, piece, length);
    to->length += length;
    to->text[to->length] = '\0';
    return true;
}

bool limit_arguments_join(struct limit_arguments *joined, int count, char **words)
{
    joined->length = 0;
    joined->text[0] = '\0';
    for (int i = 0; i < count; i++) {
        bool begins = word_is_rate(words[i]) || word_is_kind(words[i]);
        bool goes_on = i > 0 && (word_is_kind(words[i - 1]) || !begins);
        bool has_comma = joined->length > 0 && joined->text[joined->length - 1] == ',';
        const char *between = i == 0 ? "" : goes_on || has_comma ? " " : ", ";
        if (!append(joined, between, strlen(between))
            || !append(joined, words[i], strlen(words[i]))) {
            return false;
        }
    }
    return true;
}
