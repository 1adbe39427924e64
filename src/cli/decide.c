/* SPDX-License-Identifier: MIT
 *
 * take, can-take, fill, refund, reset and show: one question about one bucket, put to a server over
 * RESP in one round trip. */
#include <stdio.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/duration.h"
#include "cli/request.h"
#include "cli/server_option.h"

enum { WORD_COUNT_MAX = 16, REQUEST_BYTES_MAX = WEIR_KEY_BYTES_MAX + 4096 };

#define TIMEOUT_NS_DEFAULT (5 * NS_PER_S)

/* The words of the wire, by operation. */
static const char *const WIRE_NAMES[] = {
    [WEIR_TAKE] = "WEIR.TAKE",     [WEIR_CAN_TAKE] = "WEIR.CANTAKE", [WEIR_FILL] = "WEIR.FILL",
    [WEIR_REFUND] = "WEIR.REFUND", [WEIR_SHOW] = "WEIR.SHOW",        [WEIR_RESET] = "WEIR.RESET",
};

/* What the command line says. */
struct decide {
    const struct command *command;
    enum weir_operation operation;
    struct server_option server;
    const char *key;
    char limit[WEIR_LIMIT_TEXT_MAX + 1];
    const char *cost; // NULL: 1
    struct answer answer;
    uint64_t timeout_ns;
    bool json;
    bool help;
};

enum { OPTION_SERVER, OPTION_PASSWORD_FILE, OPTION_TIMEOUT, OPTION_JSON, OPTION_COST };

#define COMMON_OPTIONS                                                                             \
    [OPTION_SERVER] = {"server", "ADDR",                                                           \
                       "HOST:PORT, [IPV6]:PORT or unix:/PATH; else WEIR_SERVER, else\n"            \
                       "127.0.0.1:6390"},                                                          \
    [OPTION_PASSWORD_FILE] = {"password-file", "FILE",                                             \
                              "its first line is the server's password; else\n"                    \
                              "WEIR_PASSWORD_FILE"},                                               \
    [OPTION_TIMEOUT] = {"timeout", "DURATION", "how long to wait for an answer: 500ms; 5s"},       \
    [OPTION_JSON] = {"json", NULL, "one line of JSON, times in nanoseconds, -1 for none"}

static const struct option OPTIONS[] = {COMMON_OPTIONS, {NULL, NULL, NULL}};

static const struct option OPTIONS_WITH_COST[] = {
    COMMON_OPTIONS,
    [OPTION_COST] = {"cost", "N", "how much it asks for, to six decimal places; 1"},
    {NULL, NULL, NULL},
};

static int read_cost(struct decide *decide, const char *text)
{
    struct weir_error error;
    decide->cost = text;
    if (weir_cost_parse(&decide->answer.cost_micro, text, strlen(text), &error) != WEIR_OK) {
        complain_at(decide->command, text, &error);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int read_timeout(struct decide *decide, const char *text)
{
    struct weir_error error;
    if (duration_parse(&decide->timeout_ns, text, &error) != WEIR_OK) {
        complain_at(decide->command, text, &error);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

/* The words: a key, and the limit in one word or several. */
static int read_words(struct decide *decide, int count, char **words)
{
    if (count == 0) {
        return usage_error(decide->command, "say which key and which limit: login:alice 10/s");
    }
    if (count == 1) {
        return usage_error(decide->command, "say which limit, for example 10/s");
    }
    size_t key_len = strlen(words[0]);
    if (key_len == 0 || key_len > WEIR_KEY_BYTES_MAX) {
        return usage_error(decide->command, "a key has 1 to %d bytes", WEIR_KEY_BYTES_MAX);
    }
    decide->key = words[0];
    if (!join_limit(decide->limit, count - 1, words + 1)) {
        return usage_error(decide->command, "a limit has at most %d bytes", WEIR_LIMIT_TEXT_MAX);
    }
    struct weir_limit_config config;
    struct weir_error error;
    if (weir_limit_parse(&config, decide->limit, strlen(decide->limit), &error) != WEIR_OK) {
        complain_at(decide->command, decide->limit, &error);
        return CLI_USAGE;
    }
    decide->answer.capacity_micro = config.capacity_micro;
    return CLI_DONE;
}

static int read_command_line(struct decide *decide, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    char *plain[WORD_COUNT_MAX];
    int plain_count = 0;
    int code = CLI_DONE;
    const char *value;
    for (int option;
         (option = arguments_next(&arguments, decide->command->options, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_SERVER: decide->server.text = value; break;
        case OPTION_PASSWORD_FILE: decide->server.password_file = value; break;
        case OPTION_TIMEOUT: code = read_timeout(decide, value); break;
        case OPTION_JSON: decide->json = true; break;
        case OPTION_COST: code = read_cost(decide, value); break;
        case ARGUMENT_HELP: decide->help = true; return CLI_DONE;
        case ARGUMENT_WORD:
            if (plain_count == WORD_COUNT_MAX) {
                return usage_error(decide->command, "too many words");
            }
            plain[plain_count++] = words[arguments.at - 1];
            break;
        default: return usage_error(decide->command, "%s", arguments.problem);
        }
        if (code != CLI_DONE) {
            return code;
        }
    }
    return read_words(decide, plain_count, plain);
}

/* AUTH, where there is a password, and the question: one write. */
static void write_request(struct buffer *request, const struct decide *decide)
{
    const char *name = WIRE_NAMES[decide->operation];
    if (decide->server.password.text != NULL) {
        request_begin(request, 2);
        request_word(request, "AUTH", 4);
        request_word(request, decide->server.password.text, decide->server.password.length);
    }
    request_begin(request, decide->cost != NULL ? 5 : 3);
    request_word(request, name, strlen(name));
    request_word(request, decide->key, strlen(decide->key));
    request_word(request, decide->limit, strlen(decide->limit));
    if (decide->cost != NULL) {
        request_word(request, "COST", 4);
        request_word(request, decide->cost, strlen(decide->cost));
    }
}

/* The connection failed. */
static int fail_client(const struct decide *decide, const struct client *client,
                       enum client_status status)
{
    if (status == CLIENT_NO_SERVER) {
        return complain_no_server(&decide->server, decide->command, "--resp", client->problem);
    }
    complain(decide->command, "the server at %s: %s", decide->server.text, client->problem);
    return CLI_FAILED;
}

/* The server answered with an error. */
static int fail_reply(const struct decide *decide, const struct reply *reply)
{
    const char *where = decide->server.text;
    if (reply_is_error(reply, "NOAUTH")) {
        complain(decide->command,
                 "the server at %s wants a password: --password-file FILE or WEIR_PASSWORD_FILE",
                 where);
    } else if (reply_is_error(reply, "WRONGPASS")) {
        complain(decide->command, "the server at %s refuses the password from %s", where,
                 decide->server.password_file);
    } else if (decide->server.password.text != NULL && reply_is_error(reply, "ERR AUTH")) {
        complain(decide->command, "the server at %s has no password; leave out the one from %s",
                 where, decide->server.password_file);
    } else if (reply_is_error(reply, "")) {
        complain(decide->command, "the server at %s says: %.*s", where,
                 (int)reply->items[0].text.length, reply->items[0].text.at);
    } else {
        complain(decide->command, "the server at %s: its answer is none to %s", where,
                 WIRE_NAMES[decide->operation]);
    }
    return CLI_FAILED;
}

static int ask(struct decide *decide, struct client *client, struct buffer *request)
{
    struct reply reply;
    enum client_status status = client_open(client, decide->server.resolved,
                                            decide->server.resolved_count, decide->timeout_ns);
    if (status == CLIENT_OK) {
        status = client_send(client, (struct bytes){request->at, request->length});
    }
    if (status == CLIENT_OK && decide->server.password.text != NULL) {
        status = client_receive(client, &reply);
        if (status == CLIENT_OK && reply.items[0].type != '+') {
            return fail_reply(decide, &reply);
        }
    }
    if (status == CLIENT_OK) {
        status = client_receive(client, &reply);
    }
    if (status != CLIENT_OK) {
        return fail_client(decide, client, status);
    }
    if (!answer_read(&decide->answer, &reply)) {
        return fail_reply(decide, &reply);
    }
    if (decide->json) {
        answer_say_json(&decide->answer);
    } else {
        answer_say(&decide->answer);
    }
    return answer_exit_code(&decide->answer);
}

static int run_decide(const struct command *command, enum weir_operation operation, int count,
                      char **words)
{
    struct decide decide = {
        .command = command,
        .operation = operation,
        .answer = {.operation = operation, .cost_micro = WEIR_UNIT},
        .timeout_ns = TIMEOUT_NS_DEFAULT,
    };
    int code = read_command_line(&decide, count, words);
    if (code != CLI_DONE) {
        return code;
    }
    if (decide.help) {
        command_help(command);
        return CLI_DONE;
    }
    code = server_option_complete(&decide.server, command);
    if (code == CLI_DONE) {
        struct client client;
        struct buffer request;
        buffer_init(&request, REQUEST_BYTES_MAX);
        write_request(&request, &decide);
        if (request.failed) {
            complain(command, "out of memory");
            code = CLI_FAILED;
        } else {
            code = ask(&decide, &client, &request);
            client_close(&client);
        }
        buffer_fini(&request);
    }
    server_option_fini(&decide.server);
    return code;
}

#define RUN(name, operation)                                                                       \
    static int name(const struct command *command, int count, char **words)                        \
    {                                                                                              \
        return run_decide(command, operation, count, words);                                       \
    }

RUN(run_take, WEIR_TAKE)
RUN(run_can_take, WEIR_CAN_TAKE)
RUN(run_fill, WEIR_FILL)
RUN(run_refund, WEIR_REFUND)
RUN(run_reset, WEIR_RESET)
RUN(run_show, WEIR_SHOW)

const struct command TAKE_COMMAND = {
    .name = "take",
    .words = "KEY LIMIT...",
    .summary = "charge a bucket if it fits: may this pass now?",
    .about =
        "Charges the cost to the bucket of this key under this limit, if it fits; otherwise\n"
        "charges nothing and says when to come back. Exits with 0 if it is allowed, 1 if it is\n"
        "limited, 4 if the cost exceeds the capacity, so that no wait helps.",
    .examples = "    weir take login:alice 10/s\n"
                "    weir take export:bob 100/h capacity=5 --cost 2.5\n"
                "    weir take deploy 1/h --json || echo 'not yet'\n",
    .options = OPTIONS_WITH_COST,
    .run = run_take,
};

const struct command CAN_TAKE_COMMAND = {
    .name = "can-take",
    .words = "KEY LIMIT...",
    .summary = "the same question without charging",
    .about = "Answers exactly what weir take would answer now, exit code included, and charges\n"
             "nothing.",
    .examples = "    weir can-take login:alice 10/s\n"
                "    weir can-take spend:bob 1000/30d --cost 990\n",
    .options = OPTIONS_WITH_COST,
    .run = run_can_take,
};

const struct command FILL_COMMAND = {
    .name = "fill",
    .words = "KEY LIMIT...",
    .summary = "charge whatever comes; what does not fit spills",
    .about = "Charges the cost up to the capacity, and says how much did not fit and whether the\n"
             "bucket is full. For what has happened already and can only be counted.",
    .examples = "    weir fill rows:bob 1000/min --cost 250\n",
    .options = OPTIONS_WITH_COST,
    .run = run_fill,
};

const struct command REFUND_COMMAND = {
    .name = "refund",
    .words = "KEY LIMIT...",
    .summary = "give cost back",
    .about = "Gives cost back, for what was taken and not used. The level never goes below zero.",
    .examples = "    weir refund spend:bob 1000/30d --cost 30\n",
    .options = OPTIONS_WITH_COST,
    .run = run_refund,
};

const struct command RESET_COMMAND = {
    .name = "reset",
    .words = "KEY LIMIT...",
    .summary = "empty a bucket",
    .about = "Empties the bucket, as if nobody had ever taken from it.",
    .examples = "    weir reset login:alice 10/s\n",
    .options = OPTIONS,
    .run = run_reset,
};

const struct command SHOW_COMMAND = {
    .name = "show",
    .words = "KEY LIMIT...",
    .summary = "how full a bucket is",
    .about = "Says how full the bucket is, exactly, and charges nothing.",
    .examples = "    weir show login:alice 10/s\n"
                "    weir show --json spend:bob 1000/30d\n",
    .options = OPTIONS,
    .run = run_show,
};
