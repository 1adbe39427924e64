/* SPDX-License-Identifier: MIT
 *
 * weir store limit: the limits that SQL takes under by their names, in a database. */
#ifndef WEIR_CLI_STORE_LIMIT_H
#define WEIR_CLI_STORE_LIMIT_H

#include <stdbool.h>

#include "cli/cli.h"
#include "store/database.h"

enum { STORE_LIMIT_WORDS_MAX = 12 };

/* What is asked for.
 *   words  "add", NAME, and the words of LIMIT; "list"; "remove", NAME */
struct store_limit_request {
    const char *url;
    const struct database_upkeep *upkeep;
    const char *words[STORE_LIMIT_WORDS_MAX];
    int word_count;
    bool json;
};

/* Whether the words are a command. CLI_DONE, or complains. */
int store_limit_check(const struct command *command, const struct store_limit_request *request);

/* Does what store_limit_check() has let pass, and says what came of it. Returns the command's exit code. */
int store_limit_run(const struct command *command, const struct store_limit_request *request);

#endif
