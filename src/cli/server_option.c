/* SPDX-License-Identifier: MIT */
#include "cli/server_option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int read_address(struct server_option *server, const struct command *command)
{
    struct address address;
    const char *why = address_parse(&address, server->text);
    if (why == NULL && !address.is_unix && address.port == 0) {
        why = "the port is a number from 1 to 65535";
    }
    if (why != NULL) {
        return usage_error(command, "bad server address '%.80s': %s", server->text, why);
    }
    if (address.is_unix) {
        struct socket_address *local = &server->resolved[0];
        local->local.sun_family = AF_UNIX;
        memcpy(local->local.sun_path, address.path, sizeof address.path);
        local->length = sizeof local->local;
        server->resolved_count = 1;
        return CLI_DONE;
    }
    server->resolved_count = address_resolve(&address, server->resolved, &why);
    if (server->resolved_count == 0) {
        complain(command, "no address for '%s': %s", address.host, why);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

int place_choose(struct server_option *server, const char **store_url,
                 const struct command *command)
{
    bool is_said = server->text != NULL || *store_url != NULL;
    if (!is_said) {
        server->text = from_environment("WEIR_SERVER");
        *store_url = from_environment("WEIR_STORE");
    }
    if (server->text != NULL && *store_url != NULL) {
        return usage_error(command, "a bucket lives in one place: %s",
                           is_said ? "--server or --store" : "unset WEIR_SERVER or WEIR_STORE");
    }
    return CLI_DONE;
}

int server_option_complete(struct server_option *server, const struct command *command)
{
    if (server->text == NULL) {
        server->text = from_environment("WEIR_SERVER");
    }
    if (server->text == NULL) {
        server->text = SERVER_DEFAULT;
    }
    int code = read_address(server, command);
    if (code != CLI_DONE) {
        return code;
    }
    if (server->password_file == NULL) {
        server->password_file = from_environment("WEIR_PASSWORD_FILE");
    }
    const char *why;
    if (server->password_file != NULL
        && !password_read(&server->password, server->password_file, &why)) {
        complain(command, "no password from %s: %s", server->password_file, why);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

void server_option_fini(struct server_option *server)
{
    password_fini(&server->password);
}

int complain_no_server(const struct server_option *server, const struct command *command,
                       const char *option, const char *why)
{
    bool is_http = strcmp(option, "--http") == 0;
    complain(command, "no server at %s (%s); this starts one:", server->text, why);
    if (strcmp(server->text, is_http ? SERVER_HTTP_DEFAULT : SERVER_DEFAULT) == 0) {
        (void)fprintf(stderr, "    %s serve\n", program_path);
    } else {
        (void)fprintf(stderr, "    %s serve %s %s\n", program_path, option, server->text);
    }
    return CLI_FAILED;
}
