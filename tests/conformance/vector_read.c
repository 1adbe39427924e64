/* SPDX-License-Identifier: MIT
 *
 * Reads the words of a vector, and counts what was right. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vector_run.h"

void bad_vector(const struct run *run, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s:%u: ", run->path, run->line);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

void expect(struct run *run, const struct step *step, bool is_right, const char *expected,
            const char *got)
{
    run->checked++;
    if (!is_right) {
        run->failed++;
        fprintf(stderr, "%s:%u: %s\n  expected %s, got %s\n", run->path, run->line, step->text,
                expected, got);
    }
}

static uint64_t unit_ns(const struct run *run, const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } UNITS[] = {{"", 1},
                 {"ns", 1},
                 {"us", 1000},
                 {"ms", 1000000},
                 {"s", 1000000000},
                 {"min", UINT64_C(60000000000)},
                 {"h", UINT64_C(3600000000000)},
                 {"d", UINT64_C(86400000000000)},
                 {"w", UINT64_C(604800000000000)}};
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        if (strcmp(unit, UNITS[i].name) == 0) {
            return UNITS[i].ns;
        }
    }
    bad_vector(run, "'%s' is no unit of time", unit);
}

uint64_t read_time(const struct run *run, const char *text)
{
    char *end;
    uint64_t whole = strtoull(text, &end, 10);
    uint64_t rest = 0;
    uint64_t scale = 1;
    if (*end == '.') {
        for (end++; *end >= '0' && *end <= '9'; end++) {
            rest = rest * 10 + (uint64_t)(*end - '0');
            scale *= 10;
        }
    }
    uint64_t unit = unit_ns(run, end);
    if (rest * unit % scale != 0) {
        bad_vector(run, "'%s' is no whole number of nanoseconds", text);
    }
    return whole * unit + rest * unit / scale;
}

uint64_t read_cost(const struct run *run, const char *text)
{
    uint64_t cost_micro;
    struct weir_error error;
    if (weir_cost_parse(&cost_micro, text, strlen(text), &error) != WEIR_OK) {
        bad_vector(run, "'%s': %s", text, error.message);
    }
    return cost_micro;
}

long long read_integer(const struct run *run, const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        bad_vector(run, "'%s' is no integer", text);
    }
    return value;
}

size_t split(char *text, char **words)
{
    size_t count = 0;
    for (char *word = strtok(text, " "); word != NULL && count < WORDS_MAX;
         word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    return count;
}
