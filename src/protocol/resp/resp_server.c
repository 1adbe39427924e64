/* SPDX-License-Identifier: MIT
 *
 * The commands about the server: what clients and tools look at before they trust one, and the test
 * clock. */
#include <string.h>
#include <time.h>

#include "protocol/resp/resp_session.h"

enum { INFO_BYTES_MAX = 256 * 1024 };

static void handle_info(struct resp_call *call)
{
    char section[32] = "";
    struct buffer text;
    bool has_section = call->command->arg_count > 1;
    if (has_section) {
        struct bytes arg = resp_arg(call, 1);
        size_t length = arg.length < sizeof section ? arg.length : sizeof section - 1;
        for (size_t i = 0; i < length; i++) {
            char c = arg.at[i];
            section[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
    }
    bool is_all = !has_section || strcmp(section, "all") == 0 || strcmp(section, "default") == 0
                  || strcmp(section, "everything") == 0;
    buffer_init(&text, INFO_BYTES_MAX);
    resp_count(call);
    call->service->ops->write_info(call->service, &text, is_all ? NULL : section);
    resp_write_verbatim(call->output, call->session->version, (struct bytes){text.at, text.length});
    buffer_fini(&text);
}

/* What redis-benchmark and friends ask about. */
static const char *const CONFIG[][2] = {
    {"save", ""}, {"appendonly", "no"}, {"databases", "16"}, {"maxmemory", "0"}, {"timeout", "0"},
};
enum { CONFIG_COUNT = sizeof CONFIG / sizeof CONFIG[0] };

/* The name to answer for a setting: as it was asked for, or its own where `*` was. NULL: not asked. */
static struct bytes config_asked_as(const struct resp_call *call, size_t i)
{
    bool is_all = false;
    for (size_t arg = 2; arg < call->command->arg_count; arg++) {
        struct bytes pattern = resp_arg(call, arg);
        if (resp_word_is(pattern, CONFIG[i][0])) {
            return pattern;
        }
        is_all |= resp_word_is(pattern, "*");
    }
    return (struct bytes){is_all ? CONFIG[i][0] : NULL, is_all ? strlen(CONFIG[i][0]) : 0};
}

static void config_get(struct resp_call *call)
{
    size_t count = 0;
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        count += config_asked_as(call, i).at != NULL;
    }
    resp_write_map(call->output, call->session->version, count);
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        struct bytes name = config_asked_as(call, i);
        if (name.at != NULL) {
            resp_write_bulk(call->output, name);
            resp_write_bulk_text(call->output, CONFIG[i][1]);
        }
    }
}

static void config_set(struct resp_call *call)
{
    struct bytes option = resp_arg(call, 2);
    resp_fail(call, "ERR CONFIG SET failed - '%.*s' is set when weir serve is started",
              option.length < 64 ? (int)option.length : 64, option.at);
}

static const struct resp_handler CONFIG_HANDLERS[] = {
    {"get", -3, false, config_get},
    {"set", -4, false, config_set},
    {NULL, 0, false, NULL},
};

static void handle_config(struct resp_call *call)
{
    resp_handle_subcommand(call, "config", CONFIG_HANDLERS);
}

/* COMMAND. */

/* Where the keys of a command stand: first, last (negative: from the end) and step. */
struct key_places {
    int first, last, step;
};

static struct key_places places_of(const struct resp_handler *handler)
{
    static const char *const ONE_KEY[] = {"get",         "ttl",      "pttl", "type",
                                          "cl.throttle", "cl.probe", "gcra"};
    static const char *const MANY_KEYS[] = {"del", "unlink", "exists", "watch"};
    for (size_t i = 0; i < sizeof MANY_KEYS / sizeof MANY_KEYS[0]; i++) {
        if (strcmp(handler->name, MANY_KEYS[i]) == 0) {
            return (struct key_places){1, -1, 1};
        }
    }
    if (strcmp(handler->name, "weir.takeall") == 0) { // at least; how many there are it says itself
        return (struct key_places){2, 2, 1};
    }
    bool has_key =
        strncmp(handler->name, "weir.", 5) == 0 && strcmp(handler->name, "weir.clock") != 0;
    for (size_t i = 0; i < sizeof ONE_KEY / sizeof ONE_KEY[0]; i++) {
        has_key |= strcmp(handler->name, ONE_KEY[i]) == 0;
    }
    return has_key ? (struct key_places){1, 1, 1} : (struct key_places){0, 0, 0};
}

/* The ten fields of Redis 7; those that weir has nothing to say about are empty. */
static void write_command(struct resp_call *call, const struct resp_handler *handler)
{
    struct key_places places = places_of(handler);
    resp_write_array(call->output, 10);
    resp_write_bulk_text(call->output, handler->name);
    resp_write_integer(call->output, handler->arity);
    resp_write_array(call->output, 1);
    resp_write_simple(call->output, "fast");
    resp_write_integer(call->output, places.first);
    resp_write_integer(call->output, places.last);
    resp_write_integer(call->output, places.step);
    for (int i = 0; i < 4; i++) { // ACL categories, tips, key specifications, subcommands
        resp_write_array(call->output, 0);
    }
}

static size_t count_commands(const struct resp_call *call)
{
    size_t count = 0;
    const struct resp_handler *const *table = call->tables;
    for (; *table != NULL; table++) {
        for (const struct resp_handler *handler = *table; handler->name != NULL; handler++) {
            count++;
        }
    }
    return count;
}

static void write_commands(struct resp_call *call, bool names_only)
{
    resp_write_array(call->output, count_commands(call));
    const struct resp_handler *const *table = call->tables;
    for (; *table != NULL; table++) {
        for (const struct resp_handler *handler = *table; handler->name != NULL; handler++) {
            if (names_only) {
                resp_write_bulk_text(call->output, handler->name);
            } else {
                write_command(call, handler);
            }
        }
    }
}

static void command_count(struct resp_call *call)
{
    resp_write_integer(call->output, (int64_t)count_commands(call));
}

static void command_list(struct resp_call *call)
{
    write_commands(call, true);
}

static void command_docs(struct resp_call *call)
{
    resp_write_map(call->output, call->session->version, 0);
}

static void command_info(struct resp_call *call)
{
    size_t arg_count = call->command->arg_count;
    if (arg_count == 2) {
        write_commands(call, false);
        return;
    }
    resp_write_array(call->output, arg_count - 2);
    for (size_t i = 2; i < arg_count; i++) {
        const struct resp_handler *handler = resp_find_handler(call, resp_arg(call, i));
        if (handler != NULL) {
            write_command(call, handler);
        } else {
            resp_write_null(call->output, call->session->version);
        }
    }
}

static void command_getkeys(struct resp_call *call)
{
    const struct resp_handler *handler = resp_find_handler(call, resp_arg(call, 2));
    if (handler == NULL) {
        resp_fail(call, "ERR Invalid command specified");
        return;
    }
    struct key_places places = places_of(handler);
    size_t last = places.last < 0 ? call->command->arg_count - 1 : (size_t)places.last + 2;
    if (places.first == 0 || last >= call->command->arg_count || last < 3) {
        resp_fail(call, "ERR The command has no key arguments");
        return;
    }
    resp_write_array(call->output, last - 2);
    for (size_t i = 3; i <= last; i++) {
        resp_write_bulk(call->output, resp_arg(call, i));
    }
}

static const struct resp_handler COMMAND_HANDLERS[] = {
    {"count", 2, false, command_count},      {"list", 2, false, command_list},
    {"docs", -2, false, command_docs},       {"info", -2, false, command_info},
    {"getkeys", -4, false, command_getkeys}, {NULL, 0, false, NULL},
};

static void handle_command(struct resp_call *call)
{
    if (call->command->arg_count == 1) {
        write_commands(call, false);
    } else {
        resp_handle_subcommand(call, "command", COMMAND_HANDLERS);
    }
}

/* TIME is the one command that reads the wall clock: decisions never do. */
static void handle_time(struct resp_call *call)
{
    struct timespec now;
    char digits[RESP_INTEGER_BYTES_MAX];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    resp_write_array(call->output, 2);
    char *end = resp_put_digits(digits, (uint64_t)now.tv_sec);
    resp_write_bulk(call->output, (struct bytes){digits, (size_t)(end - digits)});
    end = resp_put_digits(digits, (uint64_t)now.tv_nsec / 1000);
    resp_write_bulk(call->output, (struct bytes){digits, (size_t)(end - digits)});
}

/* Tools that look for trouble find none here: the metrics say what weir knows. */

static void write_nothing(struct resp_call *call)
{
    resp_write_array(call->output, 0);
}

static void write_zero(struct resp_call *call)
{
    resp_write_integer(call->output, 0);
}

static void write_no_value(struct resp_call *call)
{
    resp_write_null(call->output, call->session->version);
}

static const struct resp_handler LATENCY_HANDLERS[] = {
    {"latest", 2, false, write_nothing},
    {"history", 3, false, write_nothing},
    {"reset", -2, false, write_zero},
    {NULL, 0, false, NULL},
};

static void handle_latency(struct resp_call *call)
{
    resp_handle_subcommand(call, "latency", LATENCY_HANDLERS);
}

static const struct resp_handler MEMORY_HANDLERS[] = {
    {"usage", -3, false, write_no_value},
    {NULL, 0, false, NULL},
};

static void handle_memory(struct resp_call *call)
{
    resp_handle_subcommand(call, "memory", MEMORY_HANDLERS);
}

static void slowlog_reset(struct resp_call *call)
{
    resp_write_simple(call->output, "OK");
}

static const struct resp_handler SLOWLOG_HANDLERS[] = {
    {"get", -2, false, write_nothing},
    {"len", 2, false, write_zero},
    {"reset", 2, false, slowlog_reset},
    {NULL, 0, false, NULL},
};

static void handle_slowlog(struct resp_call *call)
{
    resp_handle_subcommand(call, "slowlog", SLOWLOG_HANDLERS);
}

static void handle_cluster(struct resp_call *call)
{
    resp_fail(call, "ERR This instance has cluster support disabled");
}

static void acl_whoami(struct resp_call *call)
{
    resp_write_bulk_text(call->output, "default");
}

static void acl_list(struct resp_call *call)
{
    bool has_password = call->service->config->password != NULL;
    resp_write_array(call->output, 1);
    resp_write_bulk_text(call->output, has_password ? "user default on ~* +@all"
                                                    : "user default on nopass ~* +@all");
}

static const struct resp_handler ACL_HANDLERS[] = {
    {"whoami", 2, false, acl_whoami},
    {"list", 2, false, acl_list},
    {"cat", -2, false, write_nothing},
    {NULL, 0, false, NULL},
};

static void handle_acl(struct resp_call *call)
{
    resp_handle_subcommand(call, "acl", ACL_HANDLERS);
}

/* WEIR.CLOCK [SET ns | ADVANCE ns]: the test clock. Answers its reading. */
static void handle_clock(struct resp_call *call)
{
    struct service *service = call->service;
    int64_t ns = 0;
    bool is_set = call->command->arg_count == 3 && resp_word_is(resp_arg(call, 1), "set");
    bool is_advance = call->command->arg_count == 3 && resp_word_is(resp_arg(call, 1), "advance");
    if (call->command->arg_count != 1 && !is_set && !is_advance) {
        resp_fail(call, "ERR syntax error: WEIR.CLOCK [SET ns | ADVANCE ns]");
        return;
    }
    if ((is_set || is_advance) && (!resp_read_integer(resp_arg(call, 2), &ns) || ns < 0)) {
        resp_fail(call, "ERR the time must be a whole number of nanoseconds");
        return;
    }
    bool is_done = is_set       ? service->ops->test_clock_set(service, (uint64_t)ns)
                   : is_advance ? service->ops->test_clock_advance(service, (uint64_t)ns)
                                : true;
    if (!is_done) {
        resp_fail(call, "ERR the test clock only moves forwards, and to at most 2^62 ns");
        return;
    }
    resp_write_integer(call->output, (int64_t)service->now_ns);
}

const struct resp_handler RESP_SERVER_HANDLERS[] = {
    {"info", -1, false, handle_info},       {"config", -2, false, handle_config},
    {"command", -1, false, handle_command}, {"time", 1, false, handle_time},
    {"latency", -2, false, handle_latency}, {"memory", -2, false, handle_memory},
    {"slowlog", -2, false, handle_slowlog}, {"cluster", -2, false, handle_cluster},
    {"acl", -2, false, handle_acl},         {NULL, 0, false, NULL},
};

const struct resp_handler RESP_CLOCK_HANDLERS[] = {
    {"weir.clock", -1, false, handle_clock},
    {NULL, 0, false, NULL},
};
