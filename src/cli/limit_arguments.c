/* SPDX-License-Identifier: MIT */
#include "cli/limit_arguments.h"

#include <string.h>

#include "core/limit_words.h"
#include "limiter/names/names.h"

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

bool word_is_name(const char *word)
{
    size_t length =
        strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_-"); // as names_check() has it
    return length <= NAME_BYTES_MAX && name_is_meant(word, length)
           && (word[length] == '\0' || word[length] == ',');
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

enum weir_status limits_read(const char *text, struct limits_said *said, struct weir_error *error)
{
    struct limit_list *list = &said->list;
    enum weir_status status = limit_list_split(list, text, strlen(text), error);
    said->grain_micro = 1;
    said->has_queue = false;
    said->is_named = false;
    for (size_t i = list->count;
         status == WEIR_OK && i-- > 0;) { // the first is read last, and kept
        const struct limit_span *span = &list->spans[i];
        struct weir_limit limit;
        if (name_is_meant(text + span->at, span->length)) { // the server knows its numbers
            said->is_named = true;
            said->first = (struct weir_limit_config){0};
            continue;
        }
        status = weir_limit_parse(&said->first, text + span->at, span->length, error);
        status = status == WEIR_OK ? weir_limit_init(&limit, &said->first, error) : status;
        if (status != WEIR_OK) {
            return limit_list_fail(list, i, status, error);
        }
        said->has_queue |= limit.kind == WEIR_KIND_QUEUE;
        if (limit.grain_micro > said->grain_micro) {
            said->grain_micro = limit.grain_micro;
        }
    }
    return status;
}

/* A name is a limit of its own, but not what seems to be an option with its '=' apart, or forgotten: then the
 * parser says so. */
static bool begins_name(int i, int count, char *const *words)
{
    const char *before = i > 0 ? words[i - 1] : "";
    const char *next = i + 1 < count ? words[i + 1] : "";
    bool ends_option = before[0] != '\0' && before[strlen(before) - 1] == '=';
    bool has_value = next[0] == '=' || (next[0] >= '0' && next[0] <= '9' && !word_is_rate(next));
    return word_is_name(words[i]) && !ends_option && !has_value;
}

bool limit_arguments_join(struct limit_arguments *joined, int count, char **words)
{
    joined->length = 0;
    joined->text[0] = '\0';
    for (int i = 0; i < count; i++) {
        bool begins =
            word_is_rate(words[i]) || word_is_kind(words[i]) || begins_name(i, count, words);
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
