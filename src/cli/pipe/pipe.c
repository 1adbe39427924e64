/* SPDX-License-Identifier: MIT
 *
 * weir pipe: its command line. flow.c is the stream. */
#include "cli/pipe/pipe.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "limiter/names/names.h"

enum { WORD_COUNT_MAX = 16 };

enum {
    OPTION_STORE = QUESTION_OPTION_COUNT,
    OPTION_KEY,
    OPTION_BYTES,
    OPTION_COST,
    OPTION_NULL,
    OPTION_ZERO,
    OPTION_PROGRESS,
    OPTION_QUIET
};

static const struct option OPTIONS[] = {
    QUESTION_OPTIONS("the store"),
    [OPTION_STORE] = QUESTION_STORE_OPTION,
    [OPTION_KEY] = {"key", "KEY", "share the rate with all who use this key"},
    [OPTION_BYTES] = {"bytes", NULL, "the limit counts bytes, not lines"},
    [OPTION_COST] = {"cost", "N", "what a line costs, to six decimal places; 1"},
    [OPTION_NULL] = {"null", NULL, "lines end in a NUL byte, as find -print0 writes them"},
    [OPTION_ZERO] = {"0", NULL, "the same"},
    [OPTION_PROGRESS] = {"progress", NULL,
                         "show how far it is once a second, on standard error; unless\n"
                         "said, where that is a terminal and standard output is none"},
    [OPTION_QUIET] = {"quiet", NULL, "do not"},
    {NULL, NULL, NULL},
};

/* Of any kind the rate counts, and what one item may cost. */
static enum weir_status make_queue(struct pipe *pipe, struct weir_error *error)
{
    struct weir_limit_config *config = &pipe->question.config;
    if (config->kind != WEIR_KIND_QUEUE) {
        config->kind = WEIR_KIND_QUEUE;
        config->first = WEIR_FIRST_INTERVAL;
    }
    config->waiting = WEIR_WAITING_MAX; // a pipe waits, whoever else may not
    return weir_limit_init(&pipe->limit, config, error);
}

/* A limit without a kind is a queue here: "5/s" lets one go each 200 ms. */
static int read_written(struct pipe *pipe, const struct limit_arguments *written)
{
    struct question *question = &pipe->question;
    char text[WEIR_LIMIT_TEXT_MAX + sizeof "queue "];
    struct weir_error error;
    bool has_kind = written->text[0] < '0' || written->text[0] > '9';
    (void)snprintf(text, sizeof text, "%s%.*s", has_kind ? "" : "queue ", WEIR_LIMIT_TEXT_MAX,
                   written->text);
    enum weir_status status = weir_limit_parse(&question->config, text, strlen(text), &error);
    status = status == WEIR_OK ? make_queue(pipe, &error) : status;
    if (status != WEIR_OK) {
        complain_at(question->command, text, &error);
        return CLI_USAGE;
    }
    status = weir_limit_print(&question->config, question->limit, sizeof question->limit);
    assert(status == WEIR_OK);
    return CLI_DONE;
}

static int read_limit(struct pipe *pipe, int count, char **words)
{
    struct question *question = &pipe->question;
    struct limit_arguments written;
    if (count == 0) {
        return usage_error(question->command, "say which limit, for example 5/s");
    }
    if (!limit_arguments_join(&written, count, words) || written.length > WEIR_LIMIT_TEXT_MAX) {
        return usage_error(question->command, "a limit has at most %d bytes", WEIR_LIMIT_TEXT_MAX);
    }
    const char *comma = memchr(written.text, ',', written.length);
    if (comma != NULL) {
        const char *second = comma + 1 + strspn(comma + 1, " ");
        return usage_error(question->command,
                           "one limit: what leaves has one rate, the slowest; '%.40s' is another",
                           second);
    }
    question->is_named = name_is_meant(written.text, written.length);
    if (question->is_named) {
        memcpy(question->limit, written.text, written.length + 1);
    }
    int code = question->is_named ? CLI_DONE : read_written(pipe, &written);
    question->list = (struct limit_list){.count = 1, .spans = {{0, strlen(question->limit)}}};
    return code;
}

/* Gets the numbers of a name, for this key, from the server that knows them. */
static int learn_limit(struct pipe *pipe)
{
    struct question *question = &pipe->question;
    const struct known_limits *known = &question->known;
    struct weir_error error;
    if (question->local != NULL) {
        return store_option_refuse_names(question);
    }
    int code = question_learn(question);
    if (code != CLI_DONE) {
        return code;
    }
    if (known->count > 1 || strcmp(known->limits[0].name, question->limit) != 0) {
        return usage_error(question->command,
                           "'%.64s' is a chain: what leaves has one rate, that of one limit",
                           question->limit);
    }
    question->config = known->limits[0].config;
    if (make_queue(pipe, &error) != WEIR_OK) {
        complain_at(question->command, known->limits[0].words, &error);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

/* What the limit must be for such items. */
static int check_cost(const struct pipe *pipe)
{
    const struct question *question = &pipe->question;
    char cost[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    if (question->cost_micro > question->config.capacity_micro) {
        return usage_error(question->command, "a cost of %s never fits in a line of %s",
                           print_micro(question->cost_micro, cost),
                           print_micro(question->config.capacity_micro, capacity));
    }
    return CLI_DONE;
}

/* What only the whole command line shows. */
static int check(const struct pipe *pipe, const struct arguments *arguments)
{
    const struct question *question = &pipe->question;
    const struct command *command = question->command;
    bool has_cost = (arguments->seen >> OPTION_COST & 1) != 0;
    bool has_null = pipe->null_separated;
    if (pipe->by_bytes && (has_cost || has_null)) {
        return usage_error(command, "--%s is about lines, and --bytes knows none",
                           has_cost ? "cost" : "null");
    }
    if (pipe->quiet && pipe->progress) {
        return usage_error(command, "--quiet and --progress exclude each other");
    }
    if (question->key == NULL && (question->server.text != NULL || pipe->local.store.url != NULL)) {
        return usage_error(command, "--%s is of no use without --key",
                           question->server.text != NULL ? "server" : "store");
    }
    if (question->cost_micro == 0) {
        return usage_error(command, "lines that cost 0 would all go at once: there is no limit");
    }
    if (question->is_named && question->key == NULL) {
        return usage_error(command,
                           "'%.64s' is no kind of limit; names are a server's, from its "
                           "configuration: say whose bucket it is, --key KEY, and --server ADDR",
                           question->limit);
    }
    return question->is_named ? CLI_DONE : check_cost(pipe); // of a name it is not known yet
}

static int read_key(struct question *question, const char *key)
{
    size_t length = strlen(key);
    if (length == 0 || length > WEIR_KEY_BYTES_MAX) {
        return usage_error(question->command, "a key has 1 to %d bytes", WEIR_KEY_BYTES_MAX);
    }
    question->key = key;
    return CLI_DONE;
}

static int read_command_line(struct pipe *pipe, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    struct question *question = &pipe->question;
    char *plain[WORD_COUNT_MAX];
    int plain_count = 0;
    int code = CLI_DONE;
    const char *value;
    for (int option; (option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_STORE: pipe->local.store.url = value; break;
        case OPTION_KEY: code = read_key(question, value); break;
        case OPTION_BYTES: pipe->by_bytes = true; break;
        case OPTION_COST: code = question_read_cost(question, value); break;
        case OPTION_NULL:
        case OPTION_ZERO: pipe->null_separated = true; break;
        case OPTION_PROGRESS: pipe->progress = true; break;
        case OPTION_QUIET: pipe->quiet = true; break;
        case ARGUMENT_HELP: pipe->help = true; return CLI_DONE;
        case ARGUMENT_WORD:
            if (plain_count == WORD_COUNT_MAX) {
                return usage_error(question->command, "too many words");
            }
            plain[plain_count++] = words[arguments.at - 1];
            break;
        case ARGUMENT_BAD: return usage_error(question->command, "%s", arguments.problem);
        default: code = question_read_option(question, option, value); break;
        }
        if (code != CLI_DONE) {
            return code;
        }
    }
    pipe->item_cost_micro = question->cost_micro;
    code = read_limit(pipe, plain_count, plain);
    return code == CLI_DONE ? check(pipe, &arguments) : code;
}

/* Whatever we open must not become standard input or output because the caller had closed them. */
static bool has_both_ends(const struct command *command)
{
    static const char *const NAMES[] = {"standard input", "standard output"};
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            complain(command, "%s: %s", NAMES[fd], strerror(errno));
            return false;
        }
    }
    return true;
}

static int run_pipe(const struct command *command, int count, char **words)
{
    struct pipe pipe = {.question = question_that_waits(command)};
    int code = read_command_line(&pipe, count, words);
    if (code != CLI_DONE) {
        return code;
    }
    if (pipe.help) {
        command_help(command);
        return CLI_DONE;
    }
    if (!has_both_ends(command)) {
        return CLI_FAILED;
    }
    if (pipe.question.key != NULL) {
        code = question_prepare(&pipe.question, &pipe.local);
    }
    if (code == CLI_DONE && pipe.question.is_named) {
        code = learn_limit(&pipe);
        code = code == CLI_DONE ? check_cost(&pipe) : code;
    }
    if (code == CLI_DONE) {
        code = flow_run(&pipe);
    }
    question_fini(&pipe.question);
    return code;
}

const struct command PIPE_COMMAND = {
    .name = "pipe",
    .words = "LIMIT...",
    .summary = "let standard input through at a rate, evenly",
    .about =
        "Copies standard input to standard output, line by line or, with --bytes, byte by byte,\n"
        "and lets each go at its instant, evenly spaced: weir pipe 5/s lets one line go each\n"
        "200 ms. Nothing is dropped: while something waits to leave, no more is read than 64 KiB\n"
        "ahead, and whoever writes to it has to wait. After a stall nothing is caught up, the\n"
        "rate just goes on. Needs no server.\n"
        "\n"
        "A limit without a kind is a queue here; of other kinds the rate counts. With --key it "
        "may\n"
        "be a name of the server's configuration: its bucket, and its numbers for this key as "
        "they\n"
        "are when the pipe begins. The first item\n"
        "leaves one interval after it came, with first=now at once. The capacity is the most that\n"
        "one line may cost, and with --key how much may stand in the line that all with this key\n"
        "share: together they are never above the rate.",
    .examples = "    ./addresses | weir pipe 10/min | ./send-mail\n"
                "    tar c photos | weir pipe --bytes 1000000/s | ssh backup tar x\n"
                "    ./jobs | weir pipe 5/s --key api:acme | ./call-api\n"
                "    ./jobs | weir pipe partner --key api:acme --server weir:6390 | ./call-api\n",
    .options = OPTIONS,
    .run = run_pipe,
};
