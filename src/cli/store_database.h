/* SPDX-License-Identifier: MIT
 *
 * weir store, of a store in a database: status, init, migrate, prune, reset. */
#ifndef WEIR_CLI_STORE_DATABASE_H
#define WEIR_CLI_STORE_DATABASE_H

#include <stdbool.h>

#include "cli/cli.h"
#include "store/driver.h"

/* What is asked for.
 *   shown     the URL as others may see it
 *   prints    of init: the SQL, and nothing is done
 *   is_sure   of reset: nobody is asked */
struct database_request {
    const char *action;
    const char *url;
    char shown[STORE_SHOWN_MAX];
    const struct database_upkeep *upkeep;
    struct database_plan plan;
    bool prints, is_sure, json;
};

/* Does it, and says what came of it. Returns the command's exit code. */
int store_database_run(const struct command *command, const struct database_request *request);

#endif
