/* SPDX-License-Identifier: MIT
 *
 * The command line of `weir bench`. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/limit_arguments.h"
#include "core/quantity.h"
#include "core/time_units.h"

enum {
    OPTION_SERVER,
    OPTION_PROTOCOL,
    OPTION_COMMAND,
    OPTION_LIMIT,
    OPTION_COST,
    OPTION_RATE,
    OPTION_SATURATE,
    OPTION_DURATION,
    OPTION_REQUESTS,
    OPTION_CONNECTIONS,
    OPTION_PIPELINE,
    OPTION_THREADS,
    OPTION_KEYS,
    OPTION_SKEW,
    OPTION_SEED,
    OPTION_TIMEOUT,
    OPTION_PASSWORD_FILE,
    OPTION_JSON
};

const struct option BENCH_OPTIONS[] = {
    [OPTION_SERVER] = {"server", "ADDR",
                       "where; else WEIR_SERVER, else 127.0.0.1:6390; for HTTP\n127.0.0.1:8390"},
    [OPTION_PROTOCOL] = {"protocol", "NAME", "resp, or http; resp"},
    [OPTION_COMMAND] = {"command", "NAME",
                        "take can-take fill refund show ping; throttle over RESP, check\n"
                        "over HTTP; take"},
    [OPTION_LIMIT] = {"limit", "LIMIT", "of every key, or a list: '10/s, 1000/h'; '100/s'"},
    [OPTION_COST] = {"cost", "N", "of every request; 1"},
    [OPTION_RATE] = {"rate", "R/UNIT", "send so many, whatever comes back; 1000/s"},
    [OPTION_SATURATE] = {"saturate", NULL, "instead, send whenever a connection has room"},
    [OPTION_DURATION] = {"duration", "DURATION", "10s"},
    [OPTION_REQUESTS] = {"requests", "N", "stop after so many"},
    [OPTION_CONNECTIONS] = {"connections", "N", "50"},
    [OPTION_PIPELINE] = {"pipeline", "N", "requests on their way per connection, at most; 1"},
    [OPTION_THREADS] = {"threads", "N", "1"},
    [OPTION_KEYS] = {"keys", "N", "how many keys the requests are about; 100000"},
    [OPTION_SKEW] = {"skew", "S",
                     "0: each key as often as the others; 1: the second half as often\n"
                     "as the first, the third a third, and so on (Zipf); 0"},
    [OPTION_SEED] = {"seed", "N", "of the choice of keys, to have the same again; 1"},
    [OPTION_TIMEOUT] = {"timeout", "DURATION",
                        "to connect, and for the last answers at the end; 1s"},
    [OPTION_PASSWORD_FILE] = {"password-file", "FILE", "or WEIR_PASSWORD_FILE"},
    [OPTION_JSON] = {"json", NULL, "what came out as JSON, times in nanoseconds"},
    {NULL, NULL, NULL},
};

#define REQUESTS_MAX    UINT64_C(1000000000000)
#define DURATION_NS_MAX (UINT64_C(7) * 86400 * NS_PER_S)
#define SKEW_MAX        10.0

static int read_number(const struct bench *bench, int option, const char *text, uint64_t max,
                       uint64_t *number)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= max; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (at == text || *at != '\0' || value < 1 || value > max) {
        return usage_error(bench->command, "--%s is a whole number from 1 to %llu, not '%.40s'",
                           BENCH_OPTIONS[option].name, (unsigned long long)max, text);
    }
    *number = value;
    return CLI_DONE;
}

static int read_duration(const struct bench *bench, const char *text, uint64_t *ns)
{
    struct weir_error error;
    if (quantity_parse_duration(ns, text, &error) != WEIR_OK) {
        complain_at(bench->command, text, &error);
        return CLI_USAGE;
    }
    if (*ns == 0 || *ns > DURATION_NS_MAX) {
        return usage_error(bench->command, "a duration is above 0 and at most 7d, not '%.40s'",
                           text);
    }
    return CLI_DONE;
}

/* A rate is written as a limit is, without anything behind it. */
static int read_rate(struct bench *bench, const char *text)
{
    struct weir_error error;
    size_t length = strcspn(text, " ");
    enum weir_status status = weir_limit_parse(&bench->rate, text, length, &error);
    bool is_number = text[0] >= '0' && text[0] <= '9';
    if (!is_number || (status == WEIR_OK && text[length] != '\0')) {
        return usage_error(bench->command,
                           "a rate is COUNT/[N]UNIT, for example 1000/s, not '%.40s'", text);
    }
    if (status != WEIR_OK) {
        complain_at(bench->command, text, &error);
        return CLI_USAGE;
    }
    bench->rate_text = text;
    return CLI_DONE;
}

static int read_limit(struct bench *bench, const char *text)
{
    struct weir_error error;
    struct limits_said said;
    if (limits_read(text, &said, &error) != WEIR_OK) {
        complain_at(bench->command, text, &error);
        return CLI_USAGE;
    }
    bench->load.limit = text;
    bench->load.limit_count = said.list.count;
    bench->load.limit_config = said.first;
    return CLI_DONE;
}

static int read_cost(struct bench *bench, const char *text)
{
    struct weir_error error;
    uint64_t cost_micro;
    bench->load.cost = text;
    if (weir_cost_parse(&cost_micro, text, strlen(text), &error) != WEIR_OK) {
        complain_at(bench->command, text, &error);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int read_skew(struct bench *bench, const char *text)
{
    char *end;
    bench->skew = strtod(text, &end);
    bench->skew_text = text;
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || !(bench->skew <= SKEW_MAX)) {
        return usage_error(bench->command, "--skew is a number from 0 to 10, not '%.40s'", text);
    }
    return CLI_DONE;
}

static int read_protocol(struct bench *bench, const char *text)
{
    if (strcmp(text, "resp") != 0 && strcmp(text, "http") != 0) {
        return usage_error(bench->command, "--protocol is resp or http, not '%.40s'", text);
    }
    bench->load.protocol = text[0] == 'r' ? LOAD_RESP : LOAD_HTTP;
    return CLI_DONE;
}

static int read_load_command(struct bench *bench, const char *text)
{
    for (int i = 0; i < LOAD_COMMAND_COUNT; i++) {
        if (strcmp(LOAD_COMMAND_NAMES[i], text) == 0) {
            bench->load.command = (enum load_command)i;
            return CLI_DONE;
        }
    }
    return usage_error(bench->command, "--command: there is no '%.40s'", text);
}

static int read_option(struct bench *bench, int option, const char *value)
{
    switch (option) {
    case OPTION_SERVER: bench->server.text = value; return CLI_DONE;
    case OPTION_PROTOCOL: return read_protocol(bench, value);
    case OPTION_COMMAND: return read_load_command(bench, value);
    case OPTION_LIMIT: return read_limit(bench, value);
    case OPTION_COST: return read_cost(bench, value);
    case OPTION_RATE: bench->rate_said = true; return read_rate(bench, value);
    case OPTION_SATURATE: bench->saturate_said = true; return CLI_DONE;
    case OPTION_DURATION: return read_duration(bench, value, &bench->duration_ns);
    case OPTION_REQUESTS: return read_number(bench, option, value, REQUESTS_MAX, &bench->requests);
    case OPTION_CONNECTIONS:
        return read_number(bench, option, value, CONNECTION_COUNT_MAX, &bench->connections);
    case OPTION_PIPELINE: return read_number(bench, option, value, PIPELINE_MAX, &bench->pipeline);
    case OPTION_THREADS:
        return read_number(bench, option, value, WORKER_COUNT_MAX, &bench->threads);
    case OPTION_KEYS: return read_number(bench, option, value, LOAD_KEY_COUNT_MAX, &bench->keys);
    case OPTION_SKEW: return read_skew(bench, value);
    case OPTION_SEED: return read_number(bench, option, value, UINT32_MAX, &bench->seed);
    case OPTION_TIMEOUT: return read_duration(bench, value, &bench->timeout_ns);
    case OPTION_PASSWORD_FILE: bench->server.password_file = value; return CLI_DONE;
    case OPTION_JSON: bench->json = true; return CLI_DONE;
    case ARGUMENT_HELP: bench->help = true; return CLI_DONE;
    default: return usage_error(bench->command, "'%.40s': it takes only options", value);
    }
}

/* What nobody said. */
static int set_defaults(struct bench *bench)
{
    bench->connections = 50;
    bench->pipeline = 1;
    bench->threads = 1;
    bench->keys = 100000;
    bench->skew_text = "0";
    bench->duration_ns = 10 * NS_PER_S;
    bench->requests = UINT64_MAX;
    bench->timeout_ns = NS_PER_S;
    bench->seed = 1;
    int code = read_limit(bench, "100/s");
    return code == CLI_DONE ? read_rate(bench, "1000/s") : code;
}

/* What each option alone cannot know. */
static int check_together(struct bench *bench)
{
    enum load_command command = bench->load.command;
    if (bench->rate_said && bench->saturate_said) {
        return usage_error(bench->command, "--rate and --saturate exclude each other");
    }
    if (bench->load.cost != NULL && (command == LOAD_SHOW || command == LOAD_PING)) {
        return usage_error(bench->command, "--command %s takes no --cost",
                           LOAD_COMMAND_NAMES[command]);
    }
    if (bench->saturate_said) {
        bench->rate_text = NULL;
    }
    return CLI_DONE;
}

int bench_read(struct bench *bench, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    const char *value;
    int code = set_defaults(bench);
    while (code == CLI_DONE && !bench->help) {
        int option = arguments_next(&arguments, BENCH_OPTIONS, &value);
        if (option == ARGUMENT_END) {
            break;
        }
        if (option == ARGUMENT_BAD) {
            return usage_error(bench->command, "%s", arguments.problem);
        }
        code = read_option(bench, option, value);
    }
    if (code == CLI_DONE && !bench->help) {
        code = check_together(bench);
    }
    bench->threads = bench->threads < bench->connections ? bench->threads : bench->connections;
    return code;
}
