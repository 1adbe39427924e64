/* SPDX-License-Identifier: MIT
 *
 * The command `weir`: finds the command that was asked for, and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "server/stores.h"

const struct command *const COMMANDS[] = {
    &SERVE_COMMAND,
    &TAKE_COMMAND,
    &CAN_TAKE_COMMAND,
    &FILL_COMMAND,
    &REFUND_COMMAND,
    &RESET_COMMAND,
    &SHOW_COMMAND,
    &BLOCK_COMMAND,
    &UNBLOCK_COMMAND,
    &RUN_COMMAND,
    &PIPE_COMMAND,
    &EXPLAIN_COMMAND,
    &SIMULATE_COMMAND,
    &STORE_COMMAND,
    &CHECK_CONFIG_COMMAND,
    &BENCH_COMMAND,
    &HELP_COMMAND,
    &VERSION_COMMAND,
    NULL,
};

const struct command *command_find(const char *name)
{
    if (strcmp(name, "peek") == 0) {
        return &CAN_TAKE_COMMAND; // an alias for hands that are used to it
    }
    for (int i = 0; COMMANDS[i] != NULL; i++) {
        if (strcmp(COMMANDS[i]->name, name) == 0) {
            return COMMANDS[i];
        }
    }
    return NULL;
}

static const char *command_name(const void *commands, int i)
{
    const struct command *const *list = commands;
    return list[i] != NULL ? list[i]->name : NULL;
}

static int unknown_command(const char *name)
{
    const char *nearest = nearest_word(name, command_name, COMMANDS);
    char shown[61];
    (void)snprintf(shown, sizeof shown, "%s", name);
    make_printable(shown);
    (void)fprintf(stderr, "weir: unknown command '%s'", shown);
    if (nearest != NULL) {
        (void)fprintf(stderr, "; did you mean weir %s?", nearest);
    }
    (void)fputs("\nweir help lists the commands\n", stderr);
    return CLI_USAGE;
}

/* What was printed has to have arrived: a full disk is a failure. */
static int finish(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("weir: standard output");
        return CLI_FAILED;
    }
    return code;
}

/* The URL in an argument: all of it, or what stands behind --store=. NULL: none that has something to hide. */
static char *url_to_hide(char *argument, char shown[STORE_SHOWN_MAX])
{
    static const char OPTION[] = "--store=";
    bool is_option = strncmp(argument, OPTION, strlen(OPTION)) == 0;
    char *url = is_option ? argument + strlen(OPTION) : argument;
    const struct weir_store_driver *driver = store_driver_find(url, STORE_DRIVERS, NULL);
    if (driver == NULL || driver->show == NULL) {
        return NULL;
    }
    driver->show(url, shown, STORE_SHOWN_MAX);
    return strcmp(url, shown) != 0 ? url : NULL;
}

/* Everybody can see by ps what a program was called with, and the URL of a database may have a password in it. So the
 * command gets a copy, and where ps looks stands what may be shown. */
static bool hide_passwords(int argc, char **argv)
{
    char shown[STORE_SHOWN_MAX];
    for (int i = 1; i < argc; i++) {
        char *url = url_to_hide(argv[i], shown);
        if (url != NULL) {
            argv[i] = strdup(argv[i]); // as long as the process
            size_t length = strlen(url);
            for (size_t at = 0; at < length; at++) {
                url[at] = at < strlen(shown) ? shown[at] : '\0';
            }
        }
        if (argv[i] == NULL) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc > 0) {
        program_path = argv[0];
    }
    if (argc < 2) {
        (void)fputs("weir: say what to do; weir help lists the commands\n", stderr);
        return CLI_USAGE;
    }
    if (!hide_passwords(argc, argv)) {
        (void)fputs("weir: no memory\n", stderr);
        return CLI_FAILED;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        name = VERSION_COMMAND.name;
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = HELP_COMMAND.name;
    }
    const struct command *command = command_find(name);
    if (command == NULL) {
        return unknown_command(name);
    }
    return finish(command->run(command, argc - 2, argv + 2));
}
