/* SPDX-License-Identifier: MIT */
#include "cli/store_option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/process.h"

enum { PATH_BYTES_MAX = 1024 };

/* The folder where programs keep their state, by the XDG Base Directory Specification. False if there is
 * no home to keep it in. */
static bool find_folder(char folder[PATH_BYTES_MAX])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length;
    if (state != NULL && state[0] == '/') { // a relative one is to be ignored
        length = snprintf(folder, PATH_BYTES_MAX, "%s/weir", state);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(folder, PATH_BYTES_MAX, "%s/.local/state/weir", home);
    } else {
        return false;
    }
    return length > 0 && length < PATH_BYTES_MAX;
}

/* Makes a folder and those above it, as far as they are missing. */
static bool make_folder(char *folder)
{
    if (access(folder, F_OK) == 0) {
        return true;
    }
    for (char *at = folder + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            bool is_made = mkdir(folder, 0700) == 0 || errno == EEXIST;
            *at = '/';
            if (!is_made) {
                return false;
            }
        }
    }
    return mkdir(folder, 0700) == 0 || errno == EEXIST;
}

/* Writes a path as a URL has it. */
static void write_url(char url[STORE_URL_MAX], const char *folder)
{
    char path[PATH_BYTES_MAX + 16];
    char *to = url + sprintf(url, "file:");
    (void)snprintf(path, sizeof path, "%s/default.weir", folder);
    for (const char *from = path; *from != '\0'; from++) {
        if (*from == '%' || *from == '?') {
            to += sprintf(to, "%%%02X", (unsigned)(unsigned char)*from);
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

int store_option_default(struct store_option *store, const struct command *command)
{
    char folder[PATH_BYTES_MAX];
    if (!find_folder(folder)) {
        return usage_error(command,
                           "there is no HOME to keep buckets in: say --store file:/PATH or "
                           "--server ADDR");
    }
    if (!make_folder(folder)) {
        complain(command, "cannot make %s: %s; say --store file:/PATH or --server ADDR", folder,
                 strerror(errno));
        return CLI_FAILED;
    }
    write_url(store->default_url, folder);
    store->url = store->default_url;
    return CLI_DONE;
}

static void decide(struct weir_limiter *limiter, const struct weir_rule *rule,
                   const struct question *question, struct answer *answer)
{
    struct weir_detail detail = {.existed = false};
    struct weir_request request = {
        .rule = rule,
        .key = question->key,
        .key_len = strlen(question->key),
        .cost_micro = question->cost_micro,
        .operation = question->operation,
        .detail = &detail,
    };
    *answer = (struct answer){
        .operation = question->operation,
        .is_local = true,
        .cost_micro = question->cost_micro,
        .config = question->config,
    };
    weir_limiter_decide(limiter, &request, &answer->decision, 1);
    answer->existed = detail.existed;
    answer->full = detail.full;
    answer->parsed = detail.amount;
    int length = weir_amount_print(&detail.amount, answer->amount_text);
    answer->amount = (struct bytes){answer->amount_text, (size_t)length};
}

int store_option_complete(struct store_option *store, const struct command *command)
{
    const char *said = getenv("WEIR_STORE");
    if (store->url == NULL && said != NULL && said[0] != '\0') {
        store->url = said;
    }
    if (store->url == NULL) {
        return store_option_default(store, command);
    }
    if (strncmp(store->url, "memory:", 7) == 0) {
        return usage_error(command, "memory is forgotten when this command ends: file:/PATH");
    }
    return CLI_DONE;
}

int store_option_open(const struct store_option *store, const struct command *command,
                      struct weir_limiter **limiter)
{
    struct weir_limiter_config config = {.store = store->url};
    struct weir_error error = {.message = ""};
    process_end_if_cut();
    enum weir_status status = weir_limiter_open(limiter, &config, &error);
    if (status == WEIR_E_SYNTAX) {
        complain_at(command, store->url, &error);
        return CLI_USAGE;
    }
    if (status != WEIR_OK) {
        complain(command, "%s", error.message);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

int store_option_ask(const struct store_option *store, const struct question *question,
                     struct answer *answer)
{
    struct weir_limiter *limiter;
    struct weir_rule rule;
    struct weir_error error = {.message = ""};
    int code = store_option_open(store, question->command, &limiter);
    if (code != CLI_DONE) {
        return code;
    }
    enum weir_status status = weir_rule_from_text(&rule, limiter, question->limit, &error);
    if (status == WEIR_OK) {
        decide(limiter, &rule, question, answer);
    } else {
        complain_at(question->command, question->limit, &error);
    }
    weir_limiter_close(limiter);
    return status == WEIR_OK ? CLI_DONE : CLI_USAGE;
}
