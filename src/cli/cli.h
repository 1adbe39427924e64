/* SPDX-License-Identifier: MIT
 *
 * What the commands of `weir` share: how one is described, how it ends, how it complains. */
#ifndef WEIR_CLI_CLI_H
#define WEIR_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/arguments.h"
#include "weir/limit.h"

/* How `weir` exits. A refusal is an answer, and has a code of its own. */
enum exit_code {
    CLI_DONE = 0,    // allowed, or done
    CLI_LIMITED = 1, // not now
    CLI_USAGE = 2,   // the command line is wrong
    CLI_FAILED = 3,  // no answer: no server, a bad reply, no permission
    CLI_NEVER = 4    // no later try ends otherwise: the cost exceeds the capacity
};

/* One command: everything that help, the man page's reader and main() need to know of it. */
struct command {
    const char *name;
    const char *words;   // what follows the name: "KEY LIMIT..."
    const char *summary; // one line, for the list of commands
    const char *about;   // what it does, for its own help
    const char *examples;
    const struct option *options; // ends in a NULL name; NULL: it reads its own command line
    int (*run)(const struct command *command, int count, char **words);
};

extern const struct command TAKE_COMMAND, CAN_TAKE_COMMAND, FILL_COMMAND, REFUND_COMMAND,
    RESET_COMMAND, SHOW_COMMAND, BLOCK_COMMAND, UNBLOCK_COMMAND, RUN_COMMAND, PIPE_COMMAND,
    EXPLAIN_COMMAND, SIMULATE_COMMAND, BENCH_COMMAND, STORE_COMMAND, CHECK_CONFIG_COMMAND,
    SERVE_COMMAND, HELP_COMMAND, VERSION_COMMAND;

/* In the order of the help; ends in NULL. */
extern const struct command *const COMMANDS[];

/* NULL if there is none of this name; knows the alias `peek`. */
const struct command *command_find(const char *name);

/* The command's own page of help, to standard output. */
void command_help(const struct command *command);

/* Prints what belongs beside a name that is `width` wide, in a column of its own. */
void help_beside(int width, const char *text);

/* How weir was called, to repeat in commands that people may paste. Set once, by main(). */
extern const char *program_path;

/* Puts ? in place of control characters: text may come from anybody, and their terminal codes are none of ours. */
void make_printable(char *text);

/* "weir take: what" and a newline, to standard error. */
__attribute__((format(printf, 2, 3))) void complain(const struct command *command,
                                                    const char *format, ...);

/* The same about one place in a text, which it shows with a caret under the place. */
void complain_at(const struct command *command, const char *text, const struct weir_error *error);

/* "weir take: what; see weir take --help", and the exit code for it. */
__attribute__((format(printf, 2, 3))) int usage_error(const struct command *command,
                                                      const char *format, ...);

/* Joins words with single spaces into a limit's text. False if it is longer than any limit. */
bool join_limit(char text[WEIR_LIMIT_TEXT_MAX + 1], int count, char **words);

/* Millionths as people write them: "10", "0.5". */
enum { MICRO_TEXT_MAX = 32 };
const char *print_micro(uint64_t micro, char text[MICRO_TEXT_MAX]);

/* Colours, empty strings where standard output is no terminal or NO_COLOR is set. */
struct colours {
    const char *good, *bad, *dim, *bold, *plain;
};
struct colours colours_of_output(void);

#endif
