/* SPDX-License-Identifier: MIT
 *
 * The command line of `weir simulate`. */
#include <stdlib.h>
#include <string.h>

#include "cli/limit_arguments.h"
#include "cli/simulate/instant.h"
#include "cli/simulate/simulate.h"
#include "core/quantity.h"

enum {
    OPTION_FORMAT,
    OPTION_KEY,
    OPTION_UNIT,
    OPTION_FILL,
    OPTION_SVG,
    OPTION_DECISIONS,
    OPTION_MEMORY,
    OPTION_JSON
};

const struct option SIMULATE_OPTIONS[] = {
    [OPTION_FORMAT] = {"format", "NAME", "csv, common or combined; else by the first line"},
    [OPTION_KEY] = {"key", "NAME",
                    "of a log: address user method path status referer agent; of a\n"
                    "CSV: a column that its first line names; none: one key for all;\n"
                    "address, or the column key"},
    [OPTION_UNIT] = {"unit", "UNIT", "of plain numbers in a CSV: s ms us ns; s"},
    [OPTION_FILL] = {"fill", NULL,
                     "fill instead of take: clamp at the capacity, count what spills"},
    [OPTION_SVG] = {"svg", "FILE", "draw the levels as SVG"},
    [OPTION_DECISIONS] = {"decisions", "FILE", "write every decision as a line of CSV"},
    [OPTION_MEMORY] = {"memory", "SIZE", "for the buckets, 64K or more: 256M"},
    [OPTION_JSON] = {"json", NULL, "what came out as JSON, times in nanoseconds"},
    {NULL, NULL, NULL},
};

/* name=value: goes on with the limit before it. */
static bool is_policy(const char *word)
{
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyz_");
    return length > 0 && word[length] == '=';
}

/* Reads the limit in `count` words into a new lane. */
static int add_lane(struct simulate *simulate, int count, char **words)
{
    struct weir_error error;
    if (simulate->lane_count == LANE_COUNT_MAX) {
        return usage_error(simulate->command, "at most %d limits at once", LANE_COUNT_MAX);
    }
    struct lane *lane = &simulate->lanes[simulate->lane_count];
    if (!join_limit(lane->text, count, words)) {
        return usage_error(simulate->command, "a limit has at most %d bytes", WEIR_LIMIT_TEXT_MAX);
    }
    if (weir_limit_parse(&lane->config, lane->text, strlen(lane->text), &error) != WEIR_OK) {
        complain_at(simulate->command, lane->text, &error);
        if (count == 1) {
            complain(simulate->command, "(a file whose name looks like a limit is ./%s)",
                     lane->text);
        }
        return CLI_USAGE;
    }
    simulate->lane_count++;
    return CLI_DONE;
}

/* Which words are limits, and which is the file: a limit begins with its kind or its rate, and goes
 * on with every name=value; what begins none is the file, and comes last. */
static int read_words(struct simulate *simulate, int count, char **words)
{
    int at = 0;
    while (at < count && (word_is_rate(words[at]) || word_is_kind(words[at]))) {
        int begin = at++;
        if (word_is_kind(words[begin]) && at < count && word_is_rate(words[at])) {
            at++;
        }
        while (at < count && is_policy(words[at])) {
            at++;
        }
        int code = add_lane(simulate, at - begin, words + begin);
        if (code != CLI_DONE) {
            return code;
        }
    }
    if (at + 1 < count) {
        return usage_error(simulate->command, "'%.60s' is no limit, and the file comes last",
                           words[at]);
    }
    if (simulate->lane_count == 0) {
        return usage_error(simulate->command, "say which limit, for example 10/s access.log");
    }
    simulate->path = at < count ? words[at] : NULL;
    return CLI_DONE;
}

static int read_format(struct simulate *simulate, const char *text)
{
    static const char *const NAMES[] = {
        [FORMAT_CSV] = "csv", [FORMAT_COMMON] = "common", [FORMAT_COMBINED] = "combined"};
    for (int i = FORMAT_CSV; i <= FORMAT_COMBINED; i++) {
        if (strcmp(text, NAMES[i]) == 0) {
            simulate->reader.format = (enum arrival_format)i;
            return CLI_DONE;
        }
    }
    return usage_error(simulate->command, "--format is csv, common or combined, not '%.40s'", text);
}

static int read_unit(struct simulate *simulate, const char *text)
{
    if (!instant_unit(&simulate->reader.unit_power, (struct bytes){text, strlen(text)})) {
        return usage_error(simulate->command, "--unit is s, ms, us or ns, not '%.40s'", text);
    }
    return CLI_DONE;
}

static int read_memory(struct simulate *simulate, const char *text)
{
    if (!quantity_parse_bytes(text, &simulate->memory_bytes)
        || simulate->memory_bytes < WEIR_MEMORY_BYTES_MIN
        || simulate->memory_bytes > WEIR_MEMORY_BYTES_MAX) {
        return usage_error(simulate->command, "--memory is a size from 64K to 16T, not '%.40s'",
                           text);
    }
    return CLI_DONE;
}

static int read_option(struct simulate *simulate, int option, const char *value)
{
    switch (option) {
    case OPTION_FORMAT: return read_format(simulate, value);
    case OPTION_KEY: simulate->reader.key = value; break;
    case OPTION_UNIT: return read_unit(simulate, value);
    case OPTION_FILL: simulate->fill = true; break;
    case OPTION_SVG: simulate->svg_path = value; break;
    case OPTION_DECISIONS: simulate->decisions_path = value; break;
    case OPTION_MEMORY: return read_memory(simulate, value);
    case OPTION_JSON: simulate->json = true; break;
    default: break;
    }
    return CLI_DONE;
}

enum { WORD_COUNT_MAX = 128 };

int simulate_read(struct simulate *simulate, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    char *plain[WORD_COUNT_MAX];
    int plain_count = 0;
    const char *value;
    simulate->reader.unit_power = 9;
    simulate->lanes = calloc(LANE_COUNT_MAX, sizeof simulate->lanes[0]);
    if (simulate->lanes == NULL) {
        complain(simulate->command, "out of memory");
        return CLI_FAILED;
    }
    for (int option;
         (option = arguments_next(&arguments, SIMULATE_OPTIONS, &value)) != ARGUMENT_END;) {
        int code = CLI_DONE;
        if (option >= 0) {
            code = read_option(simulate, option, value);
        } else if (option == ARGUMENT_HELP) {
            simulate->help = true;
            return CLI_DONE;
        } else if (option != ARGUMENT_WORD) {
            code = usage_error(simulate->command, "%s", arguments.problem);
        } else if (plain_count == WORD_COUNT_MAX) {
            code = usage_error(simulate->command, "too many words");
        } else {
            plain[plain_count++] = words[arguments.at - 1];
        }
        if (code != CLI_DONE) {
            return code;
        }
    }
    return read_words(simulate, plain_count, plain);
}

void simulate_fini(struct simulate *simulate)
{
    weir_limiter_close(simulate->limiter);
    free(simulate->lanes);
}
