/* SPDX-License-Identifier: MIT
 *
 * weir run: waits for its turn, then becomes the command. Nothing of weir is left when the command
 * runs: signals, exit code and terminal are the command's own.
 *
 * Its exit codes are those of env(1) and timeout(1), so that whoever reads them need not ask whether
 * it was weir or the command that ended so. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/local.h"

enum { WORD_COUNT_MAX = 16 };

enum {
    RUN_NOT_IN_TIME = 124,    // the turn did not come
    RUN_FAILED = 125,         // weir could not ask, or the cost can never pass
    RUN_NOT_EXECUTABLE = 126, // the command is there and cannot be run
    RUN_NOT_FOUND = 127       // there is no such command
};

/* A refusal for want of room in the line is asked again after its retry_after, and never sooner than
 * this: so that no answer, however odd, makes it spin. */
#define ASK_AGAIN_NS_MIN (10 * NS_PER_MS)

enum { OPTION_STORE = QUESTION_OPTION_COUNT, OPTION_COST, OPTION_VARS, OPTION_WAIT };

static const struct option OPTIONS[] = {
    QUESTION_OPTIONS("the store"),
    [OPTION_STORE] = QUESTION_STORE_OPTION,
    [OPTION_COST] = {"cost", "N", "how much it asks for, to six decimal places; 1"},
    [OPTION_VARS] = QUESTION_VARS_OPTION,
    [OPTION_WAIT] = {"wait", "DURATION",
                     "stand in line for at most so long; 0: do not; else as long as\nit takes"},
    {NULL, NULL, NULL},
};

/*   words  of the command, NULL at the end as argv has it; NULL: there was no -- */
struct run {
    struct question question;
    struct local local;
    char **words;
    bool help;
};

static int read_command_line(struct run *run, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    struct question *question = &run->question;
    char *plain[WORD_COUNT_MAX];
    int plain_count = 0;
    int code = CLI_DONE;
    const char *value;
    for (int option; run->words == NULL
                     && (option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_STORE: run->local.store.url = value; break;
        case OPTION_COST: code = question_read_cost(question, value); break;
        case OPTION_VARS: code = question_read_vars(question, value); break;
        case OPTION_WAIT:
            code = question_read_wait(question, value);
            question->unbounded = false;
            break;
        case ARGUMENT_HELP: run->help = true; return CLI_DONE;
        case ARGUMENT_WORD:
            if (arguments.options_over) {
                run->words = &words[arguments.at - 1];
                break;
            }
            if (plain_count == WORD_COUNT_MAX) {
                return usage_error(question->command, "too many words before the --");
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
    if (run->words == NULL) {
        return usage_error(question->command, "say what to run after --");
    }
    code = question_read_words(question, plain_count, plain);
    bool may_be_queue = question->is_named || question->has_queue;
    if (may_be_queue && question->wait_ms == 0) {
        question->wait_ms = 1; // the least: a take that waits not at all is given a place for later
    }
    return code;
}

/* Stands in line until it is allowed: CLI_DONE, or says why not and returns how to exit. */
static int wait_for_turn(struct question *question)
{
    char never[NEVER_TEXT_MAX];
    char place[PLACE_TEXT_MAX];
    for (;;) {
        struct client client;
        struct answer answer = {.existed = false};
        int code = question_ask(question, &client, &answer);
        client_close(&client);
        if (code != CLI_DONE) {
            return RUN_FAILED;
        }
        switch (answer.decision.verdict) {
        case WEIR_ALLOWED: return CLI_DONE;
        case WEIR_NEVER:
            if (!question->unbounded && answer_waited_too_short(&answer)) {
                complain(question->command, "%s: its turn did not come in time: %s", question->key,
                         answer_never_text(&answer, never));
                return RUN_NOT_IN_TIME;
            }
            complain(question->command, "its turn never comes: %s",
                     answer_never_text(&answer, never));
            return RUN_FAILED;
        case WEIR_FAILED:
            complain(question->command, "%s %s", question_place(question, place),
                     answer_failure_text(&answer, answer.wait_ns > 0));
            return RUN_FAILED;
        case WEIR_LIMITED:
        case WEIR_BLOCKED: break;
        }
        uint64_t retry_ns =
            answer.decision.retry_after_ns > 0 ? (uint64_t)answer.decision.retry_after_ns : 0;
        if (!question->unbounded) {
            char time[DURATION_TEXT_MAX];
            char named[NAMED_TEXT_MAX];
            complain(question->command, "%s: its turn did not come in time; %sretry in %s",
                     question->key, answer_named_text(&answer, named),
                     duration_print_up(retry_ns, time));
            return RUN_NOT_IN_TIME;
        }
        question_pause(question, retry_ns > ASK_AGAIN_NS_MIN ? retry_ns : ASK_AGAIN_NS_MIN);
    }
}

/* Becomes the command; returns only if that fails. */
static int become(const struct run *run)
{
    (void)execvp(run->words[0], run->words);
    int code = errno == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
    complain(run->question.command, "cannot run '%.200s': %s", run->words[0], strerror(errno));
    return code;
}

static int run_run(const struct command *command, int count, char **words)
{
    struct run run = {.question = question_that_waits(command)};
    if (read_command_line(&run, count, words) != CLI_DONE) {
        return RUN_FAILED;
    }
    if (run.help) {
        command_help(command);
        return CLI_DONE;
    }
    bool is_ready = question_prepare(&run.question, &run.local) == CLI_DONE;
    int code = is_ready ? wait_for_turn(&run.question) : RUN_FAILED;
    question_fini(&run.question);
    return code == CLI_DONE ? become(&run) : code;
}

const struct command RUN_COMMAND = {
    .name = "run",
    .words = "KEY LIMIT... -- CMD [WORD]...",
    .summary = "wait for one's turn, then run a command",
    .about =
        "Waits in line until the cost fits, as weir take --wait does, then becomes the command:\n"
        "its signals and its exit code are its own. Without --wait it waits as long as it takes,\n"
        "and asks again where the line is full. Of a queue it runs the command when the queue\n"
        "lets it go, and --wait 0 is 1 ms there. Ctrl-C while it waits gives the place back.\n"
        "\n"
        "Exits with the command's code, or with 124 if its turn did not come in time, 125 if weir\n"
        "failed (a wrong command line, no answer, or a cost that can never pass), 126 if the\n"
        "command cannot be run, 127 if there is none of this name. The line is that of all who\n"
        "share the bucket: without a server, in the file of this user.",
    .examples = "    weir run api:acme 5/s -- curl -f https://api.example/orders\n"
                "    weir run mail:shop 'queue 10/min' --wait 5min -- ./send-one\n"
                "    weir run backup 1/h --wait 0 -- ./backup || echo 'not now'\n"
                "    weir run - request --vars user=ann,tenant=acme -- ./export\n",
    .options = OPTIONS,
    .run = run_run,
};
