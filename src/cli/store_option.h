/* SPDX-License-Identifier: MIT
 *
 * Which store a command decides in by itself, without a server: --store, or the variable WEIR_STORE, or
 * the file that all commands of a user share. */
#ifndef WEIR_CLI_STORE_OPTION_H
#define WEIR_CLI_STORE_OPTION_H

#include "cli/question.h"

enum { STORE_URL_MAX = 3 * 1024 + 8 }; // every byte of a path escaped

/*   url  as it was given, or default_url */
struct store_option {
    const char *url;
    char default_url[STORE_URL_MAX];
};

/* What is asked of the store: under several limits as many requests, decided together. */
struct store_requests {
    size_t count;
    struct weir_rule rules[LIMIT_LIST_COUNT_MAX];
    struct weir_request requests[LIMIT_LIST_COUNT_MAX];
};

/* Chooses the store where nothing was said: ${XDG_STATE_HOME:-~/.local/state}/weir/default.weir, and
 * makes its folder. Returns CLI_DONE, or complains and returns another code. */
int store_option_default(struct store_option *store, const struct command *command);

/* Where the store is: --store, else WEIR_STORE, else the default. Returns CLI_DONE, or complains. */
int store_option_complete(struct store_option *store, const struct command *command);

/* Says that a URL cannot be read, and where; without its password, if it may have one. */
void store_option_complain(const struct command *command, const char *url,
                           const struct weir_error *error);

/* Opens the store. Returns CLI_DONE, or complains. */
int store_option_open(const struct store_option *store, const struct command *command,
                      struct weir_limiter **limiter);

/* Compiles what is asked. CLI_DONE, or complains. */
int store_option_compile(struct store_requests *made, const struct weir_limiter *limiter,
                         const struct question *question);

/* What an answer says of a store that hosts share; NULL of any other. */
const char *store_option_cannot(const struct weir_limiter *limiter);

/* Decides what was compiled, now, and fills the answer. */
void store_option_decide(struct weir_limiter *limiter, struct store_requests *made,
                         const struct question *question, struct answer *answer);

/* Complains that a store knows no names, which the question has. */
int store_option_refuse_names(const struct question *question);

/* Opens the store, decides, and fills the answer. Returns CLI_DONE, or complains. */
int store_option_ask(const struct store_option *store, const struct question *question,
                     struct answer *answer);

#endif
