/* SPDX-License-Identifier: MIT
 *
 * A command's own page of help, made from its table. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { TEXT_COLUMN = 26 };

void help_beside(int width, const char *text)
{
    if (width >= TEXT_COLUMN) {
        (void)putchar('\n');
        width = 0;
    }
    (void)printf("%*s", TEXT_COLUMN - width, "");
    for (const char *c = text; *c != '\0'; c++) {
        (void)putchar(*c);
        if (*c == '\n') {
            (void)printf("%*s", TEXT_COLUMN, "");
        }
    }
    (void)putchar('\n');
}

static void print_option(const struct option *option)
{
    int width =
        printf("  %s%s%s%s", strlen(option->name) == 1 ? "-" : "--", option->name,
               option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
    help_beside(width, option->help);
}

void command_help(const struct command *command)
{
    struct colours colours = colours_of_output();
    (void)printf("%sweir %s%s%s%s\n\n%s\n", colours.bold, command->name, colours.plain,
                 command->words[0] != '\0' ? " " : "", command->words, command->about);
    (void)puts("\nOptions:");
    for (const struct option *option = command->options; option->name != NULL; option++) {
        print_option(option);
    }
    print_option(&(struct option){"help", NULL, "this text"});
    (void)printf("\nExamples:\n%s", command->examples);
}
