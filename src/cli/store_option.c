/* SPDX-License-Identifier: MIT */
#include "cli/store_option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limiter/limiter_state.h"
#include "limiter/names/names.h"
#include "limiter/together.h"
#include "server/store_end.h"
#include "server/stores.h"
#include "store/remote.h"

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

static enum weir_status make_requests(struct store_requests *made,
                                      const struct weir_limiter *limiter,
                                      const struct question *question, struct weir_error *error)
{
    const struct limit_list *list = &question->list;
    size_t later;
    size_t earlier;
    made->count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        struct weir_limit limit;
        struct weir_limit_config config;
        const char *text = question->limit + list->spans[i].at;
        enum weir_status status = weir_limit_parse(&config, text, list->spans[i].length, error);
        status = status == WEIR_OK ? weir_limit_init(&limit, &config, error) : status;
        if (status != WEIR_OK) {
            return limit_list_fail(list, i, status, error);
        }
        weir_rule_init(&made->rules[i], limiter, &limit);
        made->requests[i] = (struct weir_request){
            .rule = &made->rules[i],
            .key = question->key,
            .key_len = strlen(question->key),
            .cost_micro = question->cost_micro,
            .operation = question->operation,
            .block_ns = question->block_ms * NS_PER_MS,
            .and_next = i + 1 < list->count,
        };
    }
    return together_find_twice(made->requests, made->count, &later, &earlier)
               ? limit_list_fail_twice(list, later, earlier, error)
               : WEIR_OK;
}

int store_option_refuse_names(const struct question *question)
{
    const struct limit_span *span = question->list.spans; // one of them is a name
    while (!name_is_meant(question->limit + span->at, span->length)) {
        span++;
    }
    complain(question->command,
             "'%.*s' is no kind of limit, nor an option of one; names are a server's, from its "
             "configuration: say which server, --server ADDR",
             span->length < NAME_BYTES_MAX ? (int)span->length : NAME_BYTES_MAX,
             question->limit + span->at);
    return CLI_USAGE;
}

int store_option_compile(struct store_requests *made, const struct weir_limiter *limiter,
                         const struct question *question)
{
    struct weir_error error = {.message = ""};
    if (question->is_named) {
        return store_option_refuse_names(question);
    }
    if (make_requests(made, limiter, question, &error) != WEIR_OK) {
        complain_at(question->command, question->limit, &error);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

const char *store_option_cannot(const struct weir_limiter *limiter)
{
    const struct remote_ops *remote = limiter->store->ops->remote;
    return remote == NULL || remote->cannot == NULL ? NULL
                                                    : "has not decided: it is out of reach, or "
                                                      "cannot decide this yet (docs/postgres.md)";
}

void store_option_decide(struct weir_limiter *limiter, struct store_requests *made,
                         const struct question *question, struct answer *answer)
{
    struct weir_detail detail = {.existed = false};
    question_begin_answer(question, answer);
    answer->is_local = true;
    answer->cannot = store_option_cannot(limiter);
    made->requests[0].detail = &detail;
    weir_limiter_decide(limiter, made->requests, answer->each, made->count);
    answer->decision = weir_decision_of_all(answer->each, made->count, &answer->binding);
    answer->existed = detail.existed;
    answer->full = detail.full;
    answer->waiting = detail.waiting;
    answer->parsed = detail.amount;
    int length = weir_amount_print(&detail.amount, answer->amount_text);
    answer->amount = (struct bytes){answer->amount_text, (size_t)length};
}

void store_option_complain(const struct command *command, const char *url,
                           const struct weir_error *error)
{
    struct weir_error unused;
    const struct weir_store_driver *driver = store_driver_find(url, STORE_DRIVERS, &unused);
    if (driver != NULL && driver->show != NULL) {
        char shown[STORE_SHOWN_MAX];
        driver->show(url, shown, sizeof shown);
        complain(command, "%s: %s", shown, error->message);
    } else {
        complain_at(command, url, error);
    }
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
    struct weir_error error; // of a URL that nobody can open, which is told when it is opened
    const struct weir_store_driver *driver = store_driver_find(store->url, STORE_DRIVERS, &error);
    if (driver != NULL && driver->is_forgotten) {
        return usage_error(command, "memory is forgotten when this command ends: file:/PATH");
    }
    return CLI_DONE;
}

int store_option_open(const struct store_option *store, const struct command *command,
                      struct weir_limiter **limiter)
{
    struct weir_limiter_config config = {.store = store->url, .drivers = STORE_DRIVERS};
    struct weir_error error = {.message = ""};
    store_end_begin(store->url, NULL);
    store_end_watch_opening();
    enum weir_status status = weir_limiter_open(limiter, &config, &error);
    store_end_unwatch();
    if (status == WEIR_E_SYNTAX) {
        store_option_complain(command, store->url, &error);
        return CLI_USAGE;
    }
    if (error.message[0] != '\0') { // of a store that hosts share, also if it may be back soon
        complain(command, "%s", error.message);
    }
    return status == WEIR_OK ? CLI_DONE : CLI_FAILED;
}

int store_option_ask(const struct store_option *store, const struct question *question,
                     struct answer *answer)
{
    struct weir_limiter *limiter;
    struct store_requests made;
    int code = store_option_open(store, question->command, &limiter);
    if (code != CLI_DONE) {
        return code;
    }
    code = store_option_compile(&made, limiter, question);
    store_end_watch(STUCK_S);
    if (code == CLI_DONE) {
        store_option_decide(limiter, &made, question, answer);
    }
    weir_limiter_close(limiter);
    store_end_unwatch();
    return code;
}
