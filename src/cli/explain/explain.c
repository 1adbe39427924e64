/* SPDX-License-Identifier: MIT
 *
 * `weir explain LIMIT`: what a limit promises. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/explain/explain.h"
#include "cli/limit_arguments.h"
#include "cli/name_hint.h"
#include "cli/promise.h"
#include "config/config.h"
#include "core/quantity.h"

/* Windows worth a line: the limit's own period, and those that people think in. */
static const uint64_t WINDOWS_NS[] = {NS_PER_S, 60 * NS_PER_S, 3600 * NS_PER_S, 86400 * NS_PER_S,
                                      30 * 86400 * NS_PER_S};

static void choose_windows(struct explanation *e)
{
    uint64_t period_ns = promise_period_ns(&e->config);
    e->windows_ns[e->window_count++] = period_ns;
    uint64_t interval_ns = amount_ceil(&e->interval_ns);
    for (size_t i = 0; i < sizeof WINDOWS_NS / sizeof WINDOWS_NS[0]; i++) {
        if (WINDOWS_NS[i] > period_ns && WINDOWS_NS[i] >= interval_ns
            && e->window_count < WINDOW_COUNT_MAX - 1) {
            e->windows_ns[e->window_count++] = WINDOWS_NS[i];
        }
    }
}

/* "Never more than COUNT in any PERIOD", which a bucket of COUNT/PERIOD does not promise: the limits that do. */
static void choose_strict(struct explanation *e)
{
    const struct plan plan = {e->config.count_micro, e->windows_ns[0]};
    if (e->config.count_micro % WEIR_UNIT == 0 && e->config.kind != WEIR_KIND_WINDOW) {
        e->count = e->config.count_micro / WEIR_UNIT;
        e->strict_count = plan_choose(&plan, 0, e->strict);
    }
}

/* "month", "3 years": of the calendar. */
static void say_months(struct explanation *e)
{
    bool is_years = e->config.period_months % 12 == 0;
    uint32_t count = e->config.period_months / (is_years ? 12 : 1);
    const char *unit = is_years ? "year" : "month";
    if (count == 1) {
        (void)strcpy(e->period, unit);
    } else {
        (void)snprintf(e->period, sizeof e->period, "%u %ss", (unsigned)count, unit);
    }
}

static void say_period(struct explanation *e)
{
    char text[DURATION_TEXT_MAX];
    if (e->config.period_months != 0) {
        say_months(e);
        return;
    }
    struct weir_amount period_ns = {.numerator_low = e->config.period_ns, .denominator_low = 1};
    (void)duration_print_exact(&period_ns, text);
    (void)strcpy(e->period, strncmp(text, "1 ", 2) == 0 ? text + 2 : text);
}

static void explanation_init(struct explanation *e, const struct weir_limit_config *config,
                             const char *written)
{
    *e = (struct explanation){
        .config = *config,
        .written = written,
        .is_queue = config->kind == WEIR_KIND_QUEUE,
        .rate_per_s = promise_rate_per_s(config),
        .interval_ns = promise_drain_ns(config, WEIR_UNIT),
        .drain_ns = promise_drain_ns(config, promise_held_micro(config)),
        .delay_max_ns = promise_drain_ns(config, config->capacity_micro),
        .wait_of_one_ns = promise_wait_ns(config, WEIR_UNIT),
        .wait_max_ns = promise_wait_ns(config, config->capacity_micro),
    };
    (void)limit_text(config, e->canonical);
    say_period(e);
    choose_windows(e);
    choose_strict(e);
}

enum { OPTION_CONFIG, OPTION_MAX_LATENCY, OPTION_JITTER, OPTION_JSON };

static const struct option OPTIONS[] = {
    [OPTION_CONFIG] = {"config", "FILE",
                       "a configuration, one of whose limits is meant by its name"},
    [OPTION_MAX_LATENCY] = {"max-latency", "DURATION",
                            "choose the capacity: the most that drains in so much time; of\n"
                            "at most N in any T, leave out the buckets that take longer"},
    [OPTION_JITTER] = {"jitter", "DURATION",
                       "of at most N in any T: they are counted where they arrive, and\n"
                       "the way there takes so much longer at one time than at another"},
    [OPTION_JSON] = {"json", NULL, "the same as JSON, every number exact"},
    {NULL, NULL, NULL},
};

enum { WORD_COUNT_MAX = 16 };

/* What the command line says. */
struct request {
    const struct command *command;
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    const char *config_path;         // NULL: none
    const struct named_limit *named; // NULL: it is written out
    uint64_t max_latency_ns;         // 0: none
    uint64_t jitter_ns;              // 0: none
    bool json;
};

/* capacity = rate * latency. */
static int choose_capacity(const struct request *request, struct weir_limit_config *config)
{
    if (strstr(request->text, "capacity=") != NULL || strstr(request->text, "burst=") != NULL) {
        return usage_error(request->command, "--max-latency chooses the capacity: leave it out");
    }
    if (config->kind == WEIR_KIND_FIXED || config->kind == WEIR_KIND_SLIDING
        || config->kind == WEIR_KIND_WINDOW) {
        return usage_error(request->command,
                           "--max-latency chooses a capacity: this kind holds its count");
    }
    config->capacity_micro = plan_capacity(config, request->max_latency_ns);
    if (config->capacity_micro < WEIR_UNIT) {
        struct weir_amount interval_ns = promise_drain_ns(config, WEIR_UNIT);
        char interval[DURATION_TEXT_MAX];
        return usage_error(request->command,
                           "nothing of cost 1 can be served so soon: one drains every %s",
                           duration_print_exact(&interval_ns, interval));
    }
    struct weir_limit unused;
    struct weir_error error;
    if (weir_limit_init(&unused, config, &error) != WEIR_OK) {
        complain(request->command, "%s", error.message);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int explain_limit(const struct request *request)
{
    struct weir_limit_config config;
    struct weir_error error;
    if (weir_limit_parse(&config, request->text, strlen(request->text), &error) != WEIR_OK) {
        char hint[NAME_HINT_BYTES_MAX];
        if (request->config_path == NULL && name_hint(request->text, hint)[0] != '\0') {
            return usage_error(request->command, "'%s' is no kind of limit%s", request->text, hint);
        }
        complain_at(request->command, request->text, &error);
        return CLI_USAGE;
    }
    if (request->max_latency_ns > 0) {
        int code = choose_capacity(request, &config);
        if (code != CLI_DONE) {
            return code;
        }
    }
    struct explanation explanation;
    explanation_init(&explanation, &config, request->text);
    explanation.max_latency_ns = request->max_latency_ns;
    explanation.named = request->named;
    return request->json ? explain_in_json(request->command, &explanation)
                         : explain_in_words(&explanation);
}

static int read_duration(const struct request *request, const char *option, const char *text,
                         uint64_t *ns)
{
    struct weir_error error;
    if (quantity_parse_duration(ns, text, &error) != WEIR_OK) {
        complain_at(request->command, text, &error);
        return CLI_USAGE;
    }
    return *ns > 0 ? CLI_DONE : usage_error(request->command, "--%s is above 0", option);
}

/* The text may be a name; then it becomes what the name stands for. An exit code. */
static int read_name(struct request *request, const struct names *names)
{
    struct weir_error error;
    struct name_found found;
    if (names_resolve(names, request->text, strlen(request->text), &found, &error) != WEIR_OK) {
        complain_at(request->command, request->text, &error);
        return CLI_USAGE;
    }
    if (found.chain != NULL) {
        return usage_error(request->command,
                           "%s is a chain: one limit at a time, each keeps its own promise",
                           found.chain->name);
    }
    request->named = found.limit;
    if (found.limit != NULL) { // a limit's text was good, so it fits
        const struct bytes *words = &found.limit->usual.words;
        memcpy(request->text, words->at, words->length);
        request->text[words->length] = '\0';
    }
    return CLI_DONE;
}

static int explain_in_config(struct request *request)
{
    struct config_error error;
    struct names *names = config_read(request->config_path, &error);
    if (names == NULL) {
        char line[CONFIG_PATH_BYTES_MAX + CONFIG_MESSAGE_BYTES_MAX];
        config_error_print(&error, request->config_path, line, sizeof line);
        complain(request->command, "%s", line);
        return CLI_FAILED;
    }
    int code = read_name(request, names);
    code = code == CLI_DONE ? explain_limit(request) : code;
    names_close(names);
    return code;
}

/* True if the words are a list of limits, as take has it; where no names are known, one that could be a name is
 * no limit. */
static bool has_several(int count, char **words, bool knows_names)
{
    struct limit_arguments joined;
    for (int i = 0; i < count && !knows_names; i++) {
        if (word_is_name(words[i])) {
            return false;
        }
    }
    return limit_arguments_join(&joined, count, words) && strchr(joined.text, ',') != NULL;
}

static int run_explain(const struct command *command, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    struct request request = {.command = command};
    char *limit_words[WORD_COUNT_MAX];
    int limit_count = 0;
    int code = CLI_DONE;
    const char *value;
    for (int option; (option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_CONFIG: request.config_path = value; break;
        case OPTION_MAX_LATENCY:
            code = read_duration(&request, "max-latency", value, &request.max_latency_ns);
            break;
        case OPTION_JITTER:
            code = read_duration(&request, "jitter", value, &request.jitter_ns);
            break;
        case OPTION_JSON: request.json = true; break;
        case ARGUMENT_HELP: command_help(command); return CLI_DONE;
        case ARGUMENT_WORD:
            if (limit_count == WORD_COUNT_MAX) {
                return usage_error(command, "too many words");
            }
            limit_words[limit_count++] = words[arguments.at - 1];
            break;
        default: return usage_error(command, "%s", arguments.problem);
        }
        if (code != CLI_DONE) {
            return code;
        }
    }
    if (limit_count == 0) {
        return usage_error(command, "say which limit, for example 100/s capacity=20");
    }
    if (!join_limit(request.text, limit_count, limit_words)) {
        return usage_error(command, "a limit has at most %d bytes", WEIR_LIMIT_TEXT_MAX);
    }
    if (plan_is_meant(request.text)) {
        if (request.config_path != NULL) {
            return usage_error(command, "--config is for a limit by its name: leave it out");
        }
        return explain_wanted(command, request.text,
                              (struct wanted_options){.max_latency_ns = request.max_latency_ns,
                                                      .jitter_ns = request.jitter_ns,
                                                      .json = request.json});
    }
    if (request.jitter_ns > 0) {
        return usage_error(command, "--jitter is for 'at most N in any T'");
    }
    if (has_several(limit_count, limit_words, request.config_path != NULL)) {
        return usage_error(command, "one limit at a time: in a list each keeps its own promise");
    }
    return request.config_path != NULL ? explain_in_config(&request) : explain_limit(&request);
}

const struct command EXPLAIN_COMMAND = {
    .name = "explain",
    .words = "LIMIT | at most N in any T",
    .summary = "what a limit promises",
    .about =
        "Says what a limit promises: how much passes at most in any window, how long anyone\n"
        "waits, how it drains, what it costs in memory, and which limit guarantees that it is\n"
        "never more than so many in any period. Every number is exact. The other way round,\n"
        "'at most N in any T' names the buckets and the window that guarantee just that, one\n"
        "recommended, and what each costs; --max-latency leaves out the buckets that take longer\n"
        "to drain from full, and --jitter allows for a way to the counter that varies.",
    .examples = "    weir explain 10/s\n"
                "    weir explain 100/s capacity=20\n"
                "    weir explain at most 300 in any 60s\n"
                "    weir explain at most 300 in any 60s --max-latency 2s\n"
                "    weir explain at most 100 in any 60s --jitter 1s\n"
                "    weir explain queue 100/s --max-latency 200ms\n"
                "    weir explain login --config weir.yaml\n"
                "    weir explain --json 1000/30d\n",
    .options = OPTIONS,
    .run = run_explain,
};
