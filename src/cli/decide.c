/* SPDX-License-Identifier: MIT
 *
 * take, can-take, fill, refund, reset, show, block and unblock: one question about one key, put to a
 * server over RESP in one round trip, or decided here in a file that others share. */
#include "cli/local.h"

enum { WORD_COUNT_MAX = 1 + 8 * LIMIT_LIST_COUNT_MAX };

enum { OPTION_STORE = QUESTION_OPTION_COUNT, OPTION_JSON, OPTION_COST, OPTION_VARS, OPTION_WAIT };

#define COMMON_OPTIONS                                                                             \
    QUESTION_OPTIONS("the store"), [OPTION_STORE] = QUESTION_STORE_OPTION,                         \
                                   [OPTION_JSON] = {                                               \
                                       "json", NULL,                                               \
                                       "one line of JSON, times in nanoseconds, -1 for none"}

#define COST_OPTION [OPTION_COST] = {"cost", "N", "how much it asks for, to six decimal places; 1"}

#define VARS_OPTION [OPTION_VARS] = QUESTION_VARS_OPTION

static const struct option OPTIONS[] = {COMMON_OPTIONS, {NULL, NULL, NULL}};

static const struct option OPTIONS_WITH_COST[] = {COMMON_OPTIONS, COST_OPTION, {NULL, NULL, NULL}};

static const struct option OPTIONS_OF_CAN_TAKE[] = {
    COMMON_OPTIONS, COST_OPTION, VARS_OPTION, {NULL, NULL, NULL}};

static const struct option OPTIONS_OF_TAKE[] = {
    COMMON_OPTIONS,
    COST_OPTION,
    VARS_OPTION,
    [OPTION_WAIT] = {"wait", "DURATION", "stand in line for so long if it is not allowed now: 30s"},
    {NULL, NULL, NULL},
};

/* What the command line says. */
struct decide {
    struct question question;
    struct local local;
    bool json;
    bool help;
};

static int read_command_line(struct decide *decide, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    struct question *question = &decide->question;
    const struct command *command = question->command;
    char *plain[WORD_COUNT_MAX];
    int plain_count = 0;
    int code = CLI_DONE;
    const char *value;
    for (int option;
         (option = arguments_next(&arguments, command->options, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_STORE: decide->local.store.url = value; break;
        case OPTION_JSON: decide->json = true; break;
        case OPTION_COST: code = question_read_cost(question, value); break;
        case OPTION_VARS: code = question_read_vars(question, value); break;
        case OPTION_WAIT: code = question_read_wait(question, value); break;
        case ARGUMENT_HELP: decide->help = true; return CLI_DONE;
        case ARGUMENT_WORD:
            if (plain_count == WORD_COUNT_MAX) {
                return usage_error(command, "too many words");
            }
            plain[plain_count++] = words[arguments.at - 1];
            break;
        case ARGUMENT_BAD: return usage_error(command, "%s", arguments.problem);
        default: code = question_read_option(question, option, value); break;
        }
        if (code != CLI_DONE) {
            return code;
        }
    }
    return question_read_words(question, plain_count, plain);
}

/* Says what was decided, and returns the exit code for it. */
static int say(const struct decide *decide, const struct answer *answer)
{
    if (decide->json) {
        answer_say_json(answer);
    } else {
        answer_say(answer);
    }
    return answer_exit_code(answer);
}

/* A server is asked, and a store in which it may have to wait. */
static int ask_and_wait(struct decide *decide)
{
    struct client client;
    struct answer answer;
    int code = question_ask(&decide->question, &client, &answer);
    code = code == CLI_DONE ? say(decide, &answer) : code;
    client_close(&client);
    return code;
}

static int ask_store(struct decide *decide)
{
    struct answer answer;
    int code = store_option_ask(&decide->local.store, &decide->question, &answer);
    return code == CLI_DONE ? say(decide, &answer) : code;
}

static int run_decide(const struct command *command, enum weir_operation operation, int count,
                      char **words)
{
    struct decide decide = {.question = question_of(command, operation)};
    int code = read_command_line(&decide, count, words);
    if (code != CLI_DONE) {
        return code;
    }
    if (decide.help) {
        command_help(command);
        return CLI_DONE;
    }
    struct question *question = &decide.question;
    code = question_prepare(question, &decide.local);
    if (code == CLI_DONE) {
        bool is_short = question->local != NULL && question->wait_ms == 0;
        code = is_short ? ask_store(&decide) : ask_and_wait(&decide);
    }
    question_fini(question);
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
RUN(run_block, WEIR_BLOCK)
RUN(run_unblock, WEIR_UNBLOCK)

const struct command TAKE_COMMAND = {
    .name = "take",
    .words = "KEY LIMIT...",
    .summary = "charge a bucket if it fits: may this pass now?",
    .about =
        "Charges the cost to the bucket of this key under this limit, if it fits; otherwise\n"
        "charges nothing and says when to come back. Exits with 0 if it is allowed, 1 if it is\n"
        "limited or its key is blocked, 4 if the cost exceeds the capacity: no wait helps.\n"
        "\n"
        "Under several limits, up to 16, it is allowed if every one allows it; otherwise nothing\n"
        "is charged anywhere, and the limit that decided is marked.\n"
        "\n"
        "With --wait it stands in line, first come, first served, and the answer comes when it\n"
        "is its turn: whoever comes meanwhile, with or without --wait, is behind it. A wait that\n"
        "cannot end in time is refused at once, and so is everyone while the line is full. At\n"
        "most 24 h, in whole milliseconds. Ctrl-C gives the place back. The line is that of all\n"
        "who share the bucket: of one server, or of one file.",
    .examples =
        "    weir take login:alice 10/s\n"
        "    weir take export:bob 100/h capacity=5 --cost 2.5\n"
        "    weir take api:acme 10/s 1000/h\n"
        "    weir take deploy 1/h --json || echo 'not yet'\n"
        "    weir take api:acme 5/s --wait 30s --server weir:6390 && curl https://api.example/\n",
    .options = OPTIONS_OF_TAKE,
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
    .options = OPTIONS_OF_CAN_TAKE,
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
    .about =
        "Gives cost back, for what was taken and not used. The level never goes below zero.\n"
        "A late refund can admit more than the limit promises, for what was taken has drained\n"
        "meanwhile: with 10/s, A takes 10 at 0 s, B takes 10 at 1 s, A gives its 10 back, and C\n"
        "takes 10. B and C are 20 at one instant, where the limit promises 10. At most the cost\n"
        "less what has drained since the take is safe.",
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
    .about = "Says how full the bucket is, exactly, and how many callers wait in line for it. It\n"
             "charges nothing.",
    .examples = "    weir show login:alice 10/s\n"
                "    weir show --json spend:bob 1000/30d\n",
    .options = OPTIONS,
    .run = run_show,
};

const struct command BLOCK_COMMAND = {
    .name = "block",
    .words = "KEY LIMIT... DURATION",
    .summary = "lock a key out for a while",
    .about =
        "Whoever asks for this key under this limit is told that it is blocked, until the time "
        "has\n"
        "passed: at most 100 years, in whole milliseconds. What the bucket holds stays as it is.\n"
        "To block again is to prolong it, never to shorten it; weir unblock ends it. A limit can\n"
        "block by itself whoever is refused: weir take login:alice '5/min block=15min'.",
    .examples = "    weir block login:alice 5/min 1h\n"
                "    weir block ip:203.0.113.7 100/s capacity=20 30d\n",
    .options = OPTIONS,
    .run = run_block,
};

const struct command UNBLOCK_COMMAND = {
    .name = "unblock",
    .words = "KEY LIMIT...",
    .summary = "let a key in again",
    .about = "Ends a block, however it began, and says whether there was one.",
    .examples = "    weir unblock login:alice 5/min\n",
    .options = OPTIONS,
    .run = run_unblock,
};
