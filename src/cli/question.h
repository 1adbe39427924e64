/* SPDX-License-Identifier: MIT
 *
 * A question about one bucket, and the conversation with the server that answers it: what take and
 * its relatives, run, and pipe --key have in common.
 *
 *     struct question question = question_of(command, WEIR_TAKE);
 *     ... the command line ...
 *     code = question_prepare(&question);
 *     if (code == CLI_DONE) {
 *         code = question_ask(&question, &client, &answer);
 *         client_close(&client);
 *     }
 *     question_fini(&question);
 *
 * Whatever goes wrong is said on standard error here, once. */
#ifndef WEIR_CLI_QUESTION_H
#define WEIR_CLI_QUESTION_H

#include <stdint.h>

#include "cli/answer.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/duration.h"
#include "cli/known_limits.h"
#include "cli/limit_arguments.h"
#include "cli/outlook.h"
#include "cli/server_option.h"

struct local;

#define QUESTION_WAIT_MS_MAX UINT64_C(86400000) // 24 h, as on the wire

/* The options that every command which asks a server begins with, in this order. */
enum {
    QUESTION_SERVER,
    QUESTION_PASSWORD_FILE,
    QUESTION_TIMEOUT,
    QUESTION_OPTION_COUNT // a command's own options follow
};

/* `otherwise` says where the bucket is if nobody says so. */
#define QUESTION_OPTIONS(otherwise)                                                                \
    [QUESTION_SERVER] =                                                                            \
        {"server", "ADDR",                                                                         \
         "HOST:PORT, [IPV6]:PORT or unix:/PATH; else WEIR_SERVER, else\n" otherwise},              \
    [QUESTION_PASSWORD_FILE] = {"password-file", "FILE",                                           \
                                "its first line is the server's password; else\n"                  \
                                "WEIR_PASSWORD_FILE"},                                             \
    [QUESTION_TIMEOUT] = {"timeout", "DURATION", "how long to wait for an answer: 500ms; 5s"}

#define QUESTION_VARS_OPTION                                                                       \
    {                                                                                              \
        "vars", "NAME=VALUE,...", "what a chain's keys are made of: user=ann,tenant=acme"          \
    }

#define QUESTION_STORE_OPTION                                                                      \
    {                                                                                              \
        "store", "URL",                                                                            \
            "file:/PATH, where the bucket lives; else WEIR_STORE, else\n"                          \
            "file:~/.local/state/weir/default.weir"                                                \
    }

/*   wait_ms    how long it may stand in line; 0: not at all
 *   unbounded  nobody said how long: who asks will ask again
 *   block_ms   how long a block lasts */
struct question {
    const struct command *command;
    enum weir_operation operation;
    struct server_option server;
    const char *key;
    char limit[LIMIT_LIST_TEXT_MAX + 1]; // or a list of them
    struct limit_list list;              // where each stands in it
    struct weir_limit_config config;     // the first of them
    bool has_queue;                      // one of them is a queue
    bool is_named; // a name among them, whose numbers the server knows; `config` may be empty
    struct known_limits known; // what it has said about them
    const char *vars;          // "user=ann,tenant=acme", for chains; NULL: none
    uint64_t cost_micro;
    uint64_t wait_ms;
    uint64_t block_ms;
    uint64_t timeout_ns;
    bool unbounded;
    struct local *local;       // answers it here, in a store; NULL: a server does
    bool logs_in;              // a password goes ahead of what is sent next
    bool learns;               // and so does the question what the names mean
    bool looks_ahead;          // and so do the questions what it can expect in line
    struct outlook outlook;    // what those were answered
    uint64_t waiting_since_ns; // since it was first sent; 0: it was not
};

/* As it is before the command line was read: a cost of 1, and 5 s for an answer. The second is a take
 * that waits as long as it takes. */
struct question question_of(const struct command *command, enum weir_operation operation);
struct question question_that_waits(const struct command *command);

/* Each reads a part of the command line. CLI_DONE, or complains and returns CLI_USAGE.
 *   question_read_option()  one of QUESTION_OPTIONS
 *   question_read_words()   a key, and the limit in one word or several; of a take and a can_take also
 *                           several limits. Comes last: cost and variables must suit the limits */
int question_read_option(struct question *question, int option, const char *value);
int question_read_cost(struct question *question, const char *text);
int question_read_wait(struct question *question, const char *text);
int question_read_vars(struct question *question, const char *text);
int question_read_words(struct question *question, int count, char **words);

/* An answer that knows what was asked, and nothing else yet. */
void question_begin_answer(const struct question *question, struct answer *answer);

/* Chooses who answers: what the command line says counts alone, else the environment, else it is the file
 * that all commands of a user share. question_fini() is due in any case. CLI_DONE, or complains.
 *   local  with what --store says; used if no server is asked, and until then the question's */
int question_prepare(struct question *question, struct local *local);
void question_fini(struct question *question);

/* Whoever answers, for messages: "the server at weir:6390", "the store". Returns `text`. */
enum { PLACE_TEXT_MAX = 320 };
const char *question_place(const struct question *question, char text[PLACE_TEXT_MAX]);

/* Asks, once, and waits for the answer: `timeout_ns`, and what the question itself waits; where it
 * waits, a terminal sees its place in line and about how long it takes. client_close() is due in any case;
 * the answer's texts are good until then. */
int question_ask(struct question *question, struct client *client, struct answer *answer);

/* Whether it waits in one line, in which it has a place: not under several limits. */
bool question_has_one_line(const struct question *question);

/* Keeps what it can expect in line, as of now: from the answers to a can_take, and to a show that says how many
 * wait; NULL: that is not known. */
void question_expect(struct question *question, const struct answer *can_take,
                     const struct answer *show);

/* Asks a server only what the names mean for the key: question->known. CLI_DONE, or complains. */
int question_learn(struct question *question);

/* The same in three steps, for who has something else to do meanwhile. */
int question_open(struct question *question, struct client *client);
int question_send(struct question *question, struct client *client);
int question_receive(struct question *question, struct client *client, struct answer *answer);

/* Sleeps before it is asked again; a terminal sees that too. */
void question_pause(struct question *question, uint64_t pause_ns);

#endif
