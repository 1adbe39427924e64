/* SPDX-License-Identifier: MIT
 *
 * The command `help`: an overview, or the page of one command. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const char OVERVIEW_HEAD[] =
    "weir lets requests pass at the rate you choose.\n"
    "\n"
    "    weir serve                          start a server on this machine\n"
    "    weir take login:alice 10/s          may alice log in once more?\n"
    "    weir explain 100/s capacity=20      what does this limit promise?\n"
    "    weir simulate 10/s access.log       what would it have done to this log?\n"
    "\n"
    "Commands:\n";

static const char OVERVIEW_TAIL[] =
    "\n"
    "A limit is [KIND] COUNT/[N]UNIT [capacity=C]: a bucket drains COUNT per period and holds C,\n"
    "COUNT unless said; a queue lets one go after the other; stepped drains COUNT at once, at the\n"
    "end of each period; fixed lets COUNT pass in each window of the calendar, UTC; window in any\n"
    "period, exactly; sliding nearly so, in less memory. Units: ns us ms s min h d w, of fixed\n"
    "also month year. block=30s, or empty: who is refused is locked out so long.\n"
    "    10/s    1000/30d    100/s capacity=20    queue 5/s capacity=10    fixed 1000/month\n"
    "\n"
    "Exit codes: 0 allowed or done, 1 limited or blocked, 2 wrong usage, 3 failure, 4 never.\n"
    "In a shell:  weir take deploy 1/h || echo 'not yet'\n"
    "\n"
    "weir COMMAND --help says more about each command; so do the manual pages, weir(1).\n";

static void print_overview(void)
{
    struct colours colours = colours_of_output();
    (void)fputs(OVERVIEW_HEAD, stdout);
    for (int i = 0; COMMANDS[i] != NULL; i++) {
        int width = printf("  %s%s%s %s", colours.bold, COMMANDS[i]->name, colours.plain,
                           COMMANDS[i]->words);
        width -= (int)(strlen(colours.bold) + strlen(colours.plain));
        help_beside(width, COMMANDS[i]->summary);
    }
    (void)fputs(OVERVIEW_TAIL, stdout);
}

static int run_help(const struct command *self, int count, char **words)
{
    if (count == 0 || words[0][0] == '-') {
        print_overview();
        return CLI_DONE;
    }
    const struct command *command = command_find(words[0]);
    if (command == NULL) {
        return usage_error(self, "there is no command '%.60s'", words[0]);
    }
    if (command->options == NULL) { // it reads its own command line, and knows --help
        char help[] = "--help";
        char *help_words[] = {words[0], help, NULL};
        return command->run(command, 1, help_words + 1);
    }
    command_help(command);
    return CLI_DONE;
}

static const struct option HELP_OPTIONS[] = {{NULL, NULL, NULL}};

const struct command HELP_COMMAND = {
    .name = "help",
    .words = "[COMMAND]",
    .summary = "this text, or more about one command",
    .about = "Says what weir can do, or more about one command.",
    .examples = "    weir help take\n",
    .options = HELP_OPTIONS,
    .run = run_help,
};
