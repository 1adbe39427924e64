/* SPDX-License-Identifier: MIT
 *
 * The command line of `weir simulate`. */
#include <stdlib.h>
#include <string.h>

#include "cli/limit_arguments.h"
#include "cli/name_hint.h"
#include "cli/simulate/instant.h"
#include "cli/simulate/simulate.h"
#include "config/config.h"
#include "core/fail.h"
#include "core/quantity.h"

enum {
    OPTION_FORMAT,
    OPTION_KEY,
    OPTION_UNIT,
    OPTION_OF,
    OPTION_CONFIG,
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
    [OPTION_CONFIG] = {"config", "FILE", "a configuration, whose limits are tried by name, too"},
    [OPTION_OF] = {"of", "KEY",
                   "of several, whose level is drawn; else the one that each limit\n"
                   "turned away most often, if a FILE can be read twice to find that"},
    [OPTION_FILL] = {"fill", NULL,
                     "fill instead of take: clamp at the capacity, count what spills"},
    [OPTION_SVG] = {"svg", "FILE", "draw the levels as SVG"},
    [OPTION_DECISIONS] = {"decisions", "FILE", "write every decision as a line of CSV"},
    [OPTION_MEMORY] = {"memory", "SIZE",
                       "for the buckets, 64K or more, and a quarter of that besides for\n"
                       "the events of windows: 256M"},
    [OPTION_JSON] = {"json", NULL, "what came out as JSON, times in nanoseconds"},
    {NULL, NULL, NULL},
};

/* name=value: goes on with the limit before it. */
static bool is_policy(const char *word)
{
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyz_");
    return length > 0 && word[length] == '=';
}

/* A limit that is written out, or what its name stands for. */
static enum weir_status read_limit(const struct names *names, struct tried *tried, const char *text,
                                   size_t length, struct weir_error *error)
{
    struct weir_limit_config config;
    struct name_found found;
    enum weir_status status = names_resolve(names, text, length, &found, error);
    tried->named = found.limit;
    if (status != WEIR_OK) {
        return status;
    }
    if (found.chain != NULL) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "%s is a chain: its limits have keys of their own, and a recording has one; "
                    "try them by their names",
                    found.chain->name);
    }
    if (found.limit != NULL) {
        tried->rule.limit = found.limit->usual.rule.limit;
    } else {
        status = weir_limit_parse(&config, text, length, error);
        status = status == WEIR_OK ? weir_limit_init(&tried->rule.limit, &config, error) : status;
    }
    if (status == WEIR_OK) {
        memcpy(tried->text, text, length); // what parses is no longer than a limit may be
    }
    return status;
}

/* Reads each limit of a lane's text. */
static enum weir_status read_list(const struct names *names, struct lane *lane,
                                  struct weir_error *error)
{
    struct limit_list *list = &lane->list;
    enum weir_status status = limit_list_split(list, lane->text, strlen(lane->text), error);
    for (size_t i = 0; i < list->count && status == WEIR_OK; i++) {
        const struct limit_span *span = &list->spans[i];
        status = read_limit(names, &lane->tried[i], lane->text + span->at, span->length, error);
        if (status != WEIR_OK) {
            return limit_list_fail(list, i, status, error);
        }
    }
    return status;
}

/* Reads the limit, or the list, in `count` words into a new lane. */
static int add_lane(struct simulate *simulate, int count, char **words)
{
    struct limit_arguments joined;
    struct weir_error error;
    if (simulate->lane_count == LANE_COUNT_MAX) {
        return usage_error(simulate->command, "at most %d limits at once", LANE_COUNT_MAX);
    }
    struct lane *lane = &simulate->lanes[simulate->lane_count];
    if (!limit_arguments_join(&joined, count, words)) {
        return usage_error(simulate->command, "limits that decide together have at most %d bytes",
                           LIMIT_LIST_TEXT_MAX);
    }
    memcpy(lane->text, joined.text, joined.length + 1);
    if (read_list(simulate->names, lane, &error) != WEIR_OK) {
        complain_at(simulate->command, lane->text, &error);
        if (count == 1 && word_is_rate(words[0]) && strpbrk(lane->text, ", ") == NULL) {
            complain(simulate->command, "(a file whose name looks like a limit is ./%s)",
                     lane->text);
        }
        return CLI_USAGE;
    }
    simulate->lane_count++;
    simulate->limit_count += lane->list.count;
    return CLI_DONE;
}

/* One limit of a lane begins at this word. Returns where it ends. */
static int end_of_limit(int at, int count, char **words)
{
    int begin = at++;
    if (word_is_kind(words[begin]) && at < count && word_is_rate(words[at])) {
        at++;
    }
    while (at < count && is_policy(words[at])) {
        at++;
    }
    return at;
}

/* Only a name that somebody has: any other word is a file. */
static bool begins_name(const struct names *names, const char *word)
{
    if (names == NULL) {
        return false;
    }
    struct name_found found = names_find(names, word, strcspn(word, ", "));
    return found.limit != NULL || found.chain != NULL;
}

static bool begins_limit(const struct names *names, const char *word)
{
    return word_is_rate(word) || word_is_kind(word) || begins_name(names, word);
}

/* The next limit decides together with this one. */
static bool ends_with_comma(const char *word)
{
    return word[0] != '\0' && word[strlen(word) - 1] == ',';
}

/* Which words are limits, and which is the file: a limit begins with its kind or its rate, and goes
 * on with every name=value, and behind a comma with the next one; what begins none is the file, and comes last. */
static int read_words(struct simulate *simulate, int count, char **words)
{
    int at = 0;
    const struct names *names = simulate->names;
    while (at < count && begins_limit(names, words[at])) {
        int begin = at;
        at = end_of_limit(at, count, words);
        while (ends_with_comma(words[at - 1]) && at < count && begins_limit(names, words[at])) {
            at = end_of_limit(at, count, words);
        }
        int code = add_lane(simulate, at - begin, words + begin);
        if (code != CLI_DONE) {
            return code;
        }
    }
    char hint[NAME_HINT_BYTES_MAX] = "";
    if (at < count && names == NULL) {
        (void)name_hint(words[at], hint);
    }
    if (at + 1 < count) {
        return usage_error(simulate->command, "'%.60s' is no limit%s, and the file comes last%s",
                           words[at], names != NULL ? ", nor a name of one" : "", hint);
    }
    if (simulate->lane_count == 0) {
        return usage_error(simulate->command, "say which limit, for example 10/s access.log%s",
                           hint);
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
    case OPTION_CONFIG: simulate->config_path = value; break;
    case OPTION_OF: simulate->of = value; break;
    case OPTION_FILL: simulate->fill = true; break;
    case OPTION_SVG: simulate->svg_path = value; break;
    case OPTION_DECISIONS: simulate->decisions_path = value; break;
    case OPTION_MEMORY: return read_memory(simulate, value);
    case OPTION_JSON: simulate->json = true; break;
    default: break;
    }
    return CLI_DONE;
}

static int read_config(struct simulate *simulate)
{
    struct config_error error;
    if (simulate->config_path == NULL) {
        return CLI_DONE;
    }
    simulate->names = config_read(simulate->config_path, &error);
    if (simulate->names == NULL) {
        char line[CONFIG_PATH_BYTES_MAX + CONFIG_MESSAGE_BYTES_MAX];
        config_error_print(&error, simulate->config_path, line, sizeof line);
        complain(simulate->command, "%s", line);
        return CLI_FAILED;
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
    int code = read_config(simulate);
    code = code == CLI_DONE ? read_words(simulate, plain_count, plain) : code;
    if (code == CLI_DONE && simulate->fill && simulate->limit_count > simulate->lane_count) {
        code = usage_error(simulate->command, "one limit at a time: only takes are under several");
    }
    return code;
}

void simulate_fini(struct simulate *simulate)
{
    weir_limiter_close(simulate->limiter);
    watch_forget(simulate);
    for (size_t i = 0; i < simulate->lane_count; i++) {
        course_fini(&simulate->lanes[i].all);
    }
    free(simulate->lanes);
    names_close(simulate->names);
}
