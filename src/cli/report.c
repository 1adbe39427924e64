/* SPDX-License-Identifier: MIT
 *
 * What every command says in the same way: complaints, numbers, colours. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { LINE_BYTES = 2048 };

const char *program_path = "weir";

void make_printable(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        *c = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
    }
}

/* One line to standard error. */
__attribute__((format(printf, 2, 0))) static void say_line(const struct command *command,
                                                           const char *format, va_list args)
{
    char line[LINE_BYTES];
    (void)vsnprintf(line, sizeof line, format, args);
    make_printable(line);
    (void)fprintf(stderr, "weir %s: %s", command->name, line);
}

void complain(const struct command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(command, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
}

void complain_at(const struct command *command, const char *text, const struct weir_error *error)
{
    complain(command, "%s", error->message);
    (void)fputs("    ", stderr);
    for (const char *c = text; *c != '\0'; c++) { // byte by byte, so that the caret fits
        (void)fputc(*c >= ' ' && *c <= '~' ? *c : '?', stderr);
    }
    (void)fprintf(stderr, "\n    %*s^\n", (int)error->offset, "");
}

int usage_error(const struct command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(command, format, args);
    (void)fprintf(stderr, "; see weir %s --help\n", command->name);
    va_end(args);
    return CLI_USAGE;
}

bool join_limit(char text[WEIR_LIMIT_TEXT_MAX + 1], int count, char **words)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        size_t word_length = strlen(words[i]);
        if (word_length + 1 > WEIR_LIMIT_TEXT_MAX - length) {
            return false;
        }
        if (i > 0) {
            text[length++] = ' ';
        }
        memcpy(text + length, words[i], word_length + 1);
        length += word_length;
    }
    return true;
}

const char *print_micro(uint64_t micro, char text[MICRO_TEXT_MAX])
{
    int length = snprintf(text, MICRO_TEXT_MAX, "%" PRIu64 ".%06" PRIu64, micro / WEIR_UNIT,
                          micro % WEIR_UNIT);
    while (text[length - 1] == '0') {
        length--;
    }
    length -= text[length - 1] == '.';
    text[length] = '\0';
    return text;
}

struct colours colours_of_output(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    bool wanted = (no_color == NULL || no_color[0] == '\0') && terminal != NULL
                  && strcmp(terminal, "dumb") != 0 && isatty(STDOUT_FILENO);
    if (!wanted) {
        return (struct colours){"", "", "", "", ""};
    }
    return (struct colours){"\033[32m", "\033[31m", "\033[2m", "\033[1m", "\033[0m"};
}
