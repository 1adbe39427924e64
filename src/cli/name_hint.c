/* SPDX-License-Identifier: MIT */
#include "cli/name_hint.h"

#include <stdio.h>
#include <string.h>

#include "limiter/names/names.h"

/* As names_check() has it, whose reasons nobody asks for here. */
static bool can_be_name(const char *word, size_t length)
{
    return length <= NAME_BYTES_MAX && name_is_meant(word, length)
           && strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

const char *name_hint(const char *word, char text[NAME_HINT_BYTES_MAX])
{
    char path[CONFIG_PATH_BYTES_MAX];
    text[0] = '\0';
    if (!can_be_name(word, strcspn(word, ","))) {
        return text;
    }
    bool is_there = config_find(path);
    (void)snprintf(text, NAME_HINT_BYTES_MAX, "; a name needs --config FILE%s%s%s",
                   is_there ? " (there is " : "", is_there ? path : "", is_there ? ")" : "");
    return text;
}
