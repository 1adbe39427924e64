/* SPDX-License-Identifier: MIT */
#include "cli/store_limit.h"

#include <stdio.h>
#include <string.h>

#include "limiter/identity.h"
#include "limiter/names/names.h"
#include "protocol/json/json_text.h"

static bool is_action(const struct store_limit_request *request, const char *name)
{
    return request->word_count > 0 && strcmp(request->words[0], name) == 0;
}

int store_limit_check(const struct command *command, const struct store_limit_request *request)
{
    bool is_known =
        is_action(request, "add") || is_action(request, "list") || is_action(request, "remove");
    int count = request->word_count;
    if (!is_known) {
        return usage_error(command, "say what to do: limit add, limit list or limit remove");
    }
    if (is_action(request, "add") && count < 3) {
        return usage_error(command, "add which limit? weir store limit add login 10/s URL");
    }
    if (is_action(request, "remove") && count != 2) {
        return usage_error(command, "remove which one? weir store limit remove login URL");
    }
    if (is_action(request, "list") && count != 1) {
        return usage_error(command, "limit list has no words but the URL: '%s'", request->words[1]);
    }
    return CLI_DONE;
}

static int failed(const struct command *command, const struct weir_error *error)
{
    complain(command, "%s", error->message);
    return CLI_FAILED;
}

/* ---- add ---- */

/* As a name of a configuration. */
static int check_name(const struct command *command, const char *name)
{
    struct weir_error error;
    struct names *names = names_open();
    if (names == NULL) {
        complain(command, "no memory");
        return CLI_FAILED;
    }
    enum weir_status status = names_check(names, (struct bytes){name, strlen(name)}, &error);
    names_close(names);
    return status == WEIR_OK ? CLI_DONE : usage_error(command, "%s", error.message);
}

/* What SQL decides: people.sql. */
static int check_limit(const struct command *command, const struct weir_limit *limit)
{
    if (limit->kind != WEIR_KIND_BUCKET && limit->kind != WEIR_KIND_QUEUE) {
        return usage_error(command, "SQL decides limits of the kinds bucket and queue; a limit of "
                                    "another kind needs weir itself");
    }
    if (limit->block_ns != 0) {
        return usage_error(command, "SQL blocks nobody: leave block= out, or have weir decide");
    }
    return CLI_DONE;
}

static int read_limit(const struct command *command, const struct store_limit_request *request,
                      struct weir_limit *limit, char text[WEIR_LIMIT_TEXT_MAX])
{
    char words[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_limit_config config;
    struct weir_error error;
    size_t length = 0;
    for (int i = 2; i < request->word_count && length < sizeof words; i++) {
        int more = snprintf(words + length, sizeof words - length, "%s%s", i > 2 ? " " : "",
                            request->words[i]);
        length += (size_t)more;
    }
    if (length >= sizeof words) {
        return usage_error(command, "the limit is longer than %d bytes", WEIR_LIMIT_TEXT_MAX);
    }
    if (weir_limit_parse(&config, words, strlen(words), &error) != WEIR_OK
        || weir_limit_init(limit, &config, &error) != WEIR_OK
        || weir_limit_print(&config, text, WEIR_LIMIT_TEXT_MAX) != WEIR_OK) { // it has room
        complain_at(command, words, &error);
        return CLI_USAGE;
    }
    return check_limit(command, limit);
}

static void say(bool json, const char *name, const char *text)
{
    (void)printf(json ? "{\"name\":\"%s\",\"limit\":\"%s\"}\n" : "%s is %s\n", name, text);
}

static int run_add(const struct command *command, const struct store_limit_request *request)
{
    const struct identity_source source = {.is_of_all_hosts = true};
    const char *name = request->words[1];
    char text[WEIR_LIMIT_TEXT_MAX];
    uint64_t identity[2];
    struct weir_limit limit;
    struct weir_error error = {.message = ""};
    int code = check_name(command, name);
    code = code == CLI_DONE ? read_limit(command, request, &limit, text) : code;
    if (code != CLI_DONE) {
        return code;
    }
    identity_of_name(identity, &source, (enum weir_kind)limit.kind, name, strlen(name));
    struct database_limit added = {.name = name, .text = text, .limit = &limit};
    memcpy(added.identity, identity, sizeof added.identity);
    if (request->upkeep->add_limit(request->url, &added, &error) != WEIR_OK) {
        return failed(command, &error);
    }
    say(request->json, name, text);
    return CLI_DONE;
}

/* ---- list, remove ---- */

/* Anybody who may write the table may have written these. */
static void tell(void *context, const char *name, const char *text)
{
    const bool *json = context;
    char shown[2][WEIR_LIMIT_TEXT_MAX];
    const char *const texts[2] = {name, text};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(shown[i], sizeof shown[i], "%s", texts[i]);
        make_printable(shown[i]);
    }
    if (!*json) {
        say(false, shown[0], shown[1]);
        return;
    }
    char escaped[2][WEIR_LIMIT_TEXT_MAX * JSON_ESCAPED_BYTES_MAX + 1];
    for (size_t i = 0; i < 2; i++) {
        *json_put_escaped(escaped[i], (struct bytes){shown[i], strlen(shown[i])}) = '\0';
    }
    say(true, escaped[0], escaped[1]);
}

static int run_list(const struct command *command, const struct store_limit_request *request)
{
    struct weir_error error = {.message = ""};
    bool json = request->json;
    enum weir_status status = request->upkeep->list_limits(request->url, tell, &json, &error);
    return status == WEIR_OK ? CLI_DONE : failed(command, &error);
}

static int run_remove(const struct command *command, const struct store_limit_request *request)
{
    const char *name = request->words[1];
    struct weir_error error = {.message = ""};
    bool existed;
    int code = check_name(command, name);
    if (code != CLI_DONE) {
        return code;
    }
    if (request->upkeep->remove_limit(request->url, name, &existed, &error) != WEIR_OK) {
        return failed(command, &error);
    }
    if (!existed) {
        complain(command, "there is no limit named '%.64s'", name);
        return CLI_FAILED;
    }
    (void)printf(request->json ? "{\"removed\":\"%s\"}\n" : "removed %s\n", name);
    return CLI_DONE;
}

int store_limit_run(const struct command *command, const struct store_limit_request *request)
{
    return is_action(request, "add")    ? run_add(command, request)
           : is_action(request, "list") ? run_list(command, request)
                                        : run_remove(command, request);
}
