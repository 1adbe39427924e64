/* SPDX-License-Identifier: MIT
 *
 * weir serve: the server has a command line, and a help, of its own. */
#include "cli/cli.h"
#include "server/server.h"

static int run_serve(const struct command *command, int count, char **words)
{
    (void)command;
    return server_main(count + 1, words - 1); // words follow the name of the command
}

const struct command SERVE_COMMAND = {
    .name = "serve",
    .words = "[OPTION]...",
    .summary = "start a server on this machine, for RESP and HTTP",
    .run = run_serve,
};
