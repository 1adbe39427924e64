/* SPDX-License-Identifier: MIT
 *
 * weir check-config: reads a configuration as the server would, and says what is in it, or what is
 * wrong with it and where. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "config/config.h"

enum { OPTION_JSON };

static const struct option OPTIONS[] = {
    [OPTION_JSON] = {"json", NULL, "as JSON"},
    {NULL, NULL, NULL},
};

static const char *target_name(const struct name_found *target)
{
    return target->chain != NULL ? target->chain->name : target->limit->name;
}

/* ---- for people ---- */

static void say_text(const struct bytes *text)
{
    for (size_t i = 0; i < text->length; i++) {
        char c = text->at[i];
        (void)putchar((unsigned char)c < ' ' || c == 0x7f ? '?' : c); // it ends no line, nor steers
    }
}

/* The longest name, so that what follows stands in a column. */
static int name_width(const struct names *names)
{
    size_t width = 0;
    for (size_t i = 0; i < names_limit_count(names); i++) {
        size_t length = strlen(names_limit(names, i)->name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < names_chain_count(names); i++) {
        size_t length = strlen(names_chain(names, i)->name);
        width = length > width ? length : width;
    }
    return (int)width;
}

/* An override is a whole limit: what it does not say does not hold for its keys. */
static void say_not_inherited(const struct weir_limit *usual, const struct weir_limit *own)
{
    if (usual->block_ns != 0 && own->block_ns == 0) {
        (void)fputs("; blocks nobody, since it says no block=", stdout);
    }
    if (usual->on_full != own->on_full && own->on_full == WEIR_ON_FULL_REFUSE) {
        (void)fputs("; refuses when memory is full, since it says no on_full=", stdout);
    }
    if (usual->on_error != own->on_error && own->on_error == WEIR_ON_ERROR_REFUSE) {
        (void)fputs("; refuses when the store is out of reach, since it says no on_error=", stdout);
    }
}

static void say_limit(const struct named_limit *limit, int width)
{
    (void)printf("  %-*s  ", width, limit->name);
    say_text(&limit->usual.words);
    (void)printf("%s%s\n", limit->is_shadow ? "; shadow: refuses nothing" : "",
                 limit->resets ? "; on_change=reset" : "");
    for (size_t i = 0; i < limit->override_count; i++) {
        (void)printf("  %*s  ", width, "");
        say_text(&limit->overrides[i].key);
        (void)fputs(": ", stdout);
        say_text(&limit->overrides[i].numbers.words);
        say_not_inherited(&limit->usual.rule.limit, &limit->overrides[i].numbers.rule.limit);
        (void)putchar('\n');
    }
}

static void say_chain(const struct named_chain *chain, int width)
{
    for (size_t i = 0; i < chain->link_count; i++) {
        (void)printf("  %-*s  %s of ", width, i == 0 ? chain->name : "",
                     chain->links[i].limit->name);
        say_text(&chain->links[i].written);
        (void)putchar('\n');
    }
}

static void say_route(const struct route *route)
{
    (void)fputs("  ", stdout);
    say_text(&route->path);
    const char *method;
    for (unsigned i = 0; (method = method_name(i)) != NULL; i++) {
        if ((route->methods >> i & 1) != 0) {
            (void)printf(" %s", method);
        }
    }
    char cost[MICRO_TEXT_MAX];
    (void)printf(": %s, cost %s\n", target_name(&route->target),
                 print_micro(route->cost_micro, cost));
}

static void say_count(const char *before, size_t count, const char *what)
{
    (void)printf("%s %zu %s%s", before, count, what, count == 1 ? "" : "s");
}

/* ---- what is not wrong, but hardly meant ---- */

static const char NO_LAST_ROUTE[] =
    "no route for / and every method: a request that no route is for is answered 400, and nginx "
    "turns "
    "that into an error. End with a route whose path is /, of a limit that is wide enough";

/* Whether there are routes, and requests that none of them is for. */
static bool lacks_last_route(const struct names *names)
{
    static const struct bytes ROOT = {"/", 1};
    bool lacks = false;
    const char *method;
    for (unsigned i = 0; (method = method_name(i)) != NULL; i++) {
        const struct bytes name = {method, strlen(method)};
        lacks = lacks || names_route(names, name, ROOT) == NULL;
    }
    return lacks && names_route_count(names) > 0;
}

static void say(const struct names *names, const char *path)
{
    int width = name_width(names);
    (void)printf("%s is good:", path);
    say_count("", names_limit_count(names), "limit");
    say_count(",", names_override_count(names), "override");
    say_count(",", names_chain_count(names), "chain");
    say_count(",", names_route_count(names), "route");
    (void)putchar('\n');
    for (size_t i = 0; i < names_limit_count(names); i++) {
        (void)fputs(i == 0 ? "\nlimits\n" : "", stdout);
        say_limit(names_limit(names, i), width);
    }
    for (size_t i = 0; i < names_chain_count(names); i++) {
        (void)fputs(i == 0 ? "\nchains\n" : "", stdout);
        say_chain(names_chain(names, i), width);
    }
    for (size_t i = 0; i < names_route_count(names); i++) {
        (void)fputs(i == 0 ? "\nroutes\n" : "", stdout);
        say_route(names_route_at(names, i));
    }
    if (lacks_last_route(names)) {
        (void)printf("\nwarning: %s\n", NO_LAST_ROUTE);
    }
}

/* ---- as JSON ---- */

/* Keys may hold bytes that are no text; those are left out, as JSON has no place for them. */
static json_t *json_text(const struct bytes *text)
{
    json_t *whole = json_stringn(text->at, text->length);
    return whole != NULL ? whole : json_null();
}

static json_t *json_limit(const struct named_limit *limit)
{
    json_t *overrides = json_array();
    for (size_t i = 0; i < limit->override_count; i++) {
        const struct override *override = &limit->overrides[i];
        json_array_append_new(overrides, json_pack("{so so}", "key", json_text(&override->key),
                                                   "limit", json_text(&override->numbers.words)));
    }
    return json_pack("{ss so sb ss so}", "name", limit->name, "limit",
                     json_text(&limit->usual.words), "shadow", limit->is_shadow, "on_change",
                     limit->resets ? "reset" : "keep", "overrides", overrides);
}

static json_t *json_chain(const struct named_chain *chain)
{
    json_t *links = json_array();
    for (size_t i = 0; i < chain->link_count; i++) {
        json_array_append_new(links, json_pack("{ss so}", "limit", chain->links[i].limit->name,
                                               "key", json_text(&chain->links[i].written)));
    }
    return json_pack("{ss so}", "name", chain->name, "limits", links);
}

/* All methods are an empty list. */
static json_t *json_route(const struct route *route)
{
    char cost[MICRO_TEXT_MAX];
    json_t *methods = json_array();
    const char *method;
    for (unsigned i = 0; (method = method_name(i)) != NULL; i++) {
        if ((route->methods >> i & 1) != 0) {
            json_array_append_new(methods, json_string(method));
        }
    }
    return json_pack("{so so ss ss}", "path", json_text(&route->path), "methods", methods, "limit",
                     target_name(&route->target), "cost", print_micro(route->cost_micro, cost));
}

static json_t *json_names(const struct names *names, const char *path)
{
    json_t *limits = json_array();
    json_t *chains = json_array();
    json_t *routes = json_array();
    for (size_t i = 0; i < names_limit_count(names); i++) {
        json_array_append_new(limits, json_limit(names_limit(names, i)));
    }
    for (size_t i = 0; i < names_chain_count(names); i++) {
        json_array_append_new(chains, json_chain(names_chain(names, i)));
    }
    for (size_t i = 0; i < names_route_count(names); i++) {
        json_array_append_new(routes, json_route(names_route_at(names, i)));
    }
    json_t *warnings = json_array();
    if (lacks_last_route(names)) {
        json_array_append_new(warnings, json_string(NO_LAST_ROUTE));
    }
    return json_pack("{ss sb so so so so}", "file", path, "good", 1, "limits", limits, "chains",
                     chains, "routes", routes, "warnings", warnings);
}

static json_t *json_error(const struct config_error *error)
{
    return json_pack("{sI sI ss}", "line", (json_int_t)error->line, "column",
                     (json_int_t)error->column, "why", error->message);
}

/* Line, column and why are those of the first. */
static json_t *json_bad(const struct config_errors *errors, size_t shown, const char *path)
{
    json_t *all = json_array();
    for (size_t i = 0; i < shown; i++) {
        json_array_append_new(all, json_error(&errors->at[i]));
    }
    json_t *root = json_error(&errors->at[0]);
    json_object_set_new(root, "file", json_string(path));
    json_object_set_new(root, "good", json_false());
    json_object_set_new(root, "errors", all);
    json_object_set_new(root, "error_count", json_integer((json_int_t)errors->count));
    return root;
}

static int say_json(const struct command *command, json_t *root, int code)
{
    if (root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0) {
        json_decref(root);
        complain(command, "out of memory, or a text that is no UTF-8");
        return CLI_FAILED;
    }
    json_decref(root);
    (void)putchar('\n');
    return code;
}

/* ---- the command ---- */

static int by_place(const void *left, const void *right)
{
    const struct config_error *a = left;
    const struct config_error *b = right;
    if (a->line != b->line) {
        return a->line < b->line ? -1 : 1;
    }
    return (a->column > b->column) - (a->column < b->column);
}

/* One a line, as compilers do, so that editors find the places. */
static void complain_of_all(const struct command *command, const struct config_errors *errors,
                            size_t shown, const char *path)
{
    char line[CONFIG_PATH_BYTES_MAX + CONFIG_MESSAGE_BYTES_MAX];
    for (size_t i = 0; i < shown; i++) {
        config_error_print(&errors->at[i], path, line, sizeof line);
        complain(command, "%s", line);
    }
    if (errors->count > shown) {
        complain(command, "%s: and %zu more errors", path, errors->count - shown);
    }
}

static int refuse_all(const struct command *command, struct config_errors *errors, const char *path,
                      bool json)
{
    size_t shown = errors->count < CONFIG_ERROR_COUNT_MAX ? errors->count : CONFIG_ERROR_COUNT_MAX;
    qsort(errors->at, shown, sizeof errors->at[0], by_place);
    if (json) {
        return say_json(command, json_bad(errors, shown, path), CLI_FAILED);
    }
    complain_of_all(command, errors, shown, path);
    return CLI_FAILED;
}

static int check(const struct command *command, const char *path, bool json)
{
    struct config_errors errors;
    struct names *names = config_read_all(path, &errors);
    if (names == NULL) {
        return refuse_all(command, &errors, path, json);
    }
    int code = CLI_DONE;
    if (json) {
        code = say_json(command, json_names(names, path), CLI_DONE);
    } else {
        say(names, path);
    }
    names_close(names);
    return code;
}

static int run_check_config(const struct command *command, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    char found[CONFIG_PATH_BYTES_MAX];
    const char *path = NULL;
    const char *value;
    bool json = false;
    for (int option; (option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_JSON: json = true; break;
        case ARGUMENT_HELP: command_help(command); return CLI_DONE;
        case ARGUMENT_WORD:
            if (path != NULL) {
                return usage_error(command, "one file at a time");
            }
            path = value;
            break;
        default: return usage_error(command, "%s", arguments.problem);
        }
    }
    if (path == NULL && !config_find(found)) {
        complain(command, "there is no $XDG_CONFIG_HOME/weir/weir.yaml (~/.config) and no "
                          "/etc/weir/weir.yaml: say which file");
        return CLI_FAILED;
    }
    return check(command, path != NULL ? path : found, json);
}

const struct command CHECK_CONFIG_COMMAND = {
    .name = "check-config",
    .words = "[FILE]",
    .summary = "read a configuration as the server would, and say what is in it",
    .about =
        "Says which limits, overrides, chains and routes a configuration has, or what is wrong\n"
        "with it, up to 20 errors at once: file, line, column and why. Without FILE it reads the\n"
        "one that weir serve would: $XDG_CONFIG_HOME/weir/weir.yaml (~/.config) or\n"
        "/etc/weir/weir.yaml.\n"
        "Ends with 0 if all of it is right, and 3 if not.",
    .examples = "    weir check-config\n"
                "    weir check-config ./weir.yaml --json\n",
    .options = OPTIONS,
    .run = run_check_config,
};
