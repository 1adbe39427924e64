/* SPDX-License-Identifier: MIT
 *
 * Which server a command talks to, and how it gets in: --server and --password-file, or the
 * variables WEIR_SERVER and WEIR_PASSWORD_FILE. */
#ifndef WEIR_CLI_SERVER_OPTION_H
#define WEIR_CLI_SERVER_OPTION_H

#include "cli/cli.h"
#include "server/address.h"
#include "server/password.h"

#define SERVER_DEFAULT      "127.0.0.1:6390"
#define SERVER_HTTP_DEFAULT "127.0.0.1:8390"

struct server_option {
    const char *text; // as it was given
    const char *password_file;
    struct socket_address resolved[ADDRESS_RESOLVED_COUNT_MAX];
    size_t resolved_count;
    struct password password;
};

/* Where buckets live: what the command line says counts alone, else the environment. Leaves NULL what
 * is said nowhere. CLI_DONE, or complains: both at once are an error. */
int place_choose(struct server_option *server, const char **store_url,
                 const struct command *command);

/* Completes from the environment what was not given, reads the address and the password. Returns
 * CLI_DONE, or complains and returns another code. server_option_fini() is due in any case. */
int server_option_complete(struct server_option *server, const struct command *command);
void server_option_fini(struct server_option *server);

/* Complains that nobody listens there, with the command that would start a server.
 *   option  of weir serve: "--resp" or "--http" */
int complain_no_server(const struct server_option *server, const struct command *command,
                       const char *option, const char *why);

#endif
