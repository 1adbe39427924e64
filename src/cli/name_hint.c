/* SPDX-License-Identifier: MIT */
#include "cli/name_hint.h"

#include <stdio.h>

#include "cli/limit_arguments.h"

const char *name_hint(const char *word, char text[NAME_HINT_BYTES_MAX])
{
    char path[CONFIG_PATH_BYTES_MAX];
    text[0] = '\0';
    if (!word_is_name(word)) {
        return text;
    }
    bool is_there = config_find(path);
    (void)snprintf(text, NAME_HINT_BYTES_MAX, "; a name needs --config FILE%s%s%s",
                   is_there ? " (there is " : "", is_there ? path : "", is_there ? ")" : "");
    return text;
}
