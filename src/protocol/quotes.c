/* SPDX-License-Identifier: MIT */
#include "protocol/quotes.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The signs that words of a sentence stand between. strchr() finds the end of the text as well. */
static bool ends_word(char c)
{
    return strchr(" ,;.:)", c) != NULL;
}

/* '/', '=': of a grammar, not of a client. */
static bool is_sign(const char *at)
{
    return at[1] != '\0' && at[1] != '\'' && ispunct((unsigned char)at[1]) && at[2] == '\''
           && ends_word(at[3]);
}

/* The first quote that begins a word; NULL if there is none. */
static const char *find_opening(const char *sentence)
{
    bool is_inside = false; // a word
    for (const char *at = sentence; *at != '\0'; at++) {
        if (*at == '\'' && !is_inside) {
            if (!is_sign(at)) {
                return at;
            }
            at += 2;
        }
        is_inside = *at != ' ' && *at != '(';
    }
    return NULL;
}

/* Behind the last quote that ends a word, or the end of the text. */
static const char *find_rest(const char *opening)
{
    const char *end = opening + strlen(opening);
    for (const char *at = end; at > opening + 1; at--) {
        if (at[-1] == '\'' && ends_word(*at)) {
            return at;
        }
    }
    return end;
}

const char *quotes_empty(const char *sentence, char *emptied, size_t bytes)
{
    assert(bytes > 0);
    const char *opening = find_opening(sentence);
    if (opening == NULL) {
        (void)snprintf(emptied, bytes, "%s", sentence);
    } else {
        (void)snprintf(emptied, bytes, "%.*s'..'%s", (int)(opening - sentence), sentence,
                       find_rest(opening));
    }
    return emptied;
}
