/* SPDX-License-Identifier: MIT */
#include "cli/store_database.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/json/json_text.h"

static int failed(const struct command *command, const struct weir_error *error)
{
    complain(command, "%s", error->message);
    return CLI_FAILED;
}

static void put_json(const char *name, const char *text)
{
    char escaped[1024 * JSON_ESCAPED_BYTES_MAX + 1];
    *json_put_escaped(escaped, (struct bytes){text, strlen(text)}) = '\0';
    (void)printf(",\"%s\":\"%s\"", name, escaped);
}

/* ---- status ---- */

static double percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 100.0;
}

static void say_status_json(const struct database_description *found)
{
    (void)printf("{\"schema\":");
    (void)printf(found->version < 0 ? "null" : "%d", found->version);
    (void)printf(",\"known_schema\":%d", found->known_version);
    put_json("server", found->server);
    put_json("role", found->role);
    put_json("lacking", found->lacking);
    put_json("settings", found->settings);
    put_json("unset", found->unset);
    put_json("synchronous_commit", found->commits);
    put_json("vacuumed", found->vacuumed);
    (void)printf(",\"unlogged\":%s,\"buckets_about\":%" PRIu64 ",\"table_bytes\":%" PRIu64
                 ",\"index_bytes\":%" PRIu64 ",\"pages\":%" PRIu64 ",\"next_page\":%" PRIu64
                 ",\"updates\":%" PRIu64 ",\"hot_updates\":%" PRIu64 ",\"dead\":%" PRIu64 "}\n",
                 found->is_unlogged ? "true" : "false", found->bucket_count, found->table_bytes,
                 found->index_bytes, found->page_count, found->next_page, found->update_count,
                 found->hot_count, found->dead_count);
}

static void say_schema(const struct database_description *found)
{
    if (found->version < 0) {
        (void)printf("  schema   its version cannot be read\n");
    } else if (found->version == found->known_version) {
        (void)printf("  schema   version %d, which this weir needs\n", found->version);
    } else {
        (void)printf("  schema   version %d, and this weir needs %d\n", found->version,
                     found->known_version);
    }
}

static void say_figures(const struct database_description *found)
{
    (void)printf("  buckets  about %" PRIu64 ", as the database estimates\n", found->bucket_count);
    (void)printf("  size     %" PRIu64 " KiB of rows, %" PRIu64 " KiB of index\n",
                 found->table_bytes >> 10, found->index_bytes >> 10);
    (void)printf("  updates  %" PRIu64 ", of these %.1f %% touched no index (HOT)\n",
                 found->update_count, percent(found->hot_count, found->update_count));
    (void)printf("  dead     %" PRIu64 " versions of rows; last vacuum: %s\n", found->dead_count,
                 found->vacuumed[0] != '\0' ? found->vacuumed : "never");
    (void)printf("  pruning  goes on at page %" PRIu64 " of %" PRIu64 "\n", found->next_page,
                 found->page_count);
}

static void say_promises(const struct database_description *found)
{
    (void)printf("  table    %s\n", found->is_unlogged
                                        ? "unlogged: a crash of the database empties all buckets"
                                        : "logged: it outlives a crash of the database");
    (void)printf("  commits  synchronous_commit=%s%s\n", found->commits,
                 strcmp(found->commits, "off") == 0
                     ? ": a crash may forget the takes of the last half a second"
                     : "");
    (void)printf("  settings %s\n",
                 found->settings[0] != '\0' ? found->settings : "none of the role or the database");
}

/* What is to be put right. */
static void say_advice(const struct database_request *request,
                       const struct database_description *found)
{
    if (found->version >= 0 && found->version < found->known_version) {
        (void)printf("\nThe schema is too old for this weir; this brings it up to date:\n"
                     "  weir store migrate '%s'\n",
                     request->shown);
    } else if (found->version > found->known_version) {
        (void)printf(
            "\nThe schema is too new for this weir, which has to be brought up to date.\n");
    }
    if (found->lacking[0] != '\0' || found->unset[0] != '\0') {
        (void)printf("\n%s%s%s; the owner gives that to the role:\n"
                     "  weir store init URL --role '%s'\n",
                     found->lacking[0] != '\0' ? "A server lacks "
                                               : "With prepare=off a server needs ",
                     found->lacking, found->lacking[0] != '\0' ? "" : found->unset, found->role);
    }
}

static int run_status(const struct command *command, const struct database_request *request)
{
    struct database_description found;
    struct weir_error error = {.message = ""};
    if (request->upkeep->describe(request->url, &found, &error) != WEIR_OK) {
        return failed(command, &error);
    }
    if (request->json) {
        say_status_json(&found);
        return CLI_DONE;
    }
    (void)printf("%s\n\n", request->shown);
    (void)printf("  server   %s\n", found.server);
    say_schema(&found);
    (void)printf("  role     %s: %s\n", found.role,
                 found.lacking[0] == '\0' ? "it may do all that a server does" : "it lacks rights");
    say_figures(&found);
    say_promises(&found);
    say_advice(request, &found);
    return CLI_DONE;
}

/* ---- init, migrate ---- */

static int print_script(const struct command *command, const struct database_request *request)
{
    char *text;
    struct weir_error error = {.message = ""};
    if (request->upkeep->script(&request->plan, &text, &error) != WEIR_OK) {
        return failed(command, &error);
    }
    (void)fputs(text, stdout);
    free(text);
    return CLI_DONE;
}

static int run_init(const struct command *command, const struct database_request *request)
{
    struct weir_error error = {.message = ""};
    if (request->prints) {
        return print_script(command, request);
    }
    if (request->upkeep->init(request->url, &request->plan, &error) != WEIR_OK) {
        return failed(command, &error);
    }
    (void)printf(request->json ? "{\"ready\":true}\n" : "it is ready\n");
    return CLI_DONE;
}

static int run_migrate(const struct command *command, const struct database_request *request)
{
    struct database_migration done;
    struct weir_error error = {.message = ""};
    if (request->upkeep->migrate(request->url, &done, &error) != WEIR_OK) {
        return failed(command, &error);
    }
    if (request->json) {
        (void)printf("{\"from\":%d,\"to\":%d}\n", done.from, done.to);
    } else if (done.from == done.to) {
        (void)printf("the schema has version %d already, which this weir needs\n", done.to);
    } else {
        (void)printf("the schema had version %d, and has version %d now\n", done.from, done.to);
    }
    return CLI_DONE;
}

/* ---- prune ---- */

/* ^C ends it behind the pages that it is at. */
static volatile sig_atomic_t is_interrupted;

static void note_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

static void catch_interrupts(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        (void)sigaction(SIGNALS[i], &action, NULL);
    }
}

/*   is_shown  on a terminal
 *   percent   of the table that is done */
struct progress {
    bool is_shown;
    uint64_t percent;
};

static bool watch_prune(void *context, uint64_t done, uint64_t total)
{
    struct progress *progress = context;
    uint64_t percent = 100 * done / total;
    if (progress->is_shown && percent != progress->percent) {
        (void)fprintf(stderr, "\rpruning %3" PRIu64 " %%", percent);
    }
    progress->percent = percent;
    return is_interrupted == 0 || done == total;
}

static int run_prune(const struct command *command, const struct database_request *request)
{
    struct progress progress = {.is_shown = !request->json && isatty(STDERR_FILENO) != 0};
    struct database_pruning done;
    struct weir_error error = {.message = ""};
    catch_interrupts();
    enum weir_status status =
        request->upkeep->prune(request->url, watch_prune, &progress, &done, &error);
    if (progress.is_shown) {
        (void)fprintf(stderr, "\r%-13s\r", "");
    }
    if (status != WEIR_OK) {
        return failed(command, &error);
    }
    if (request->json) {
        (void)printf("{\"pruned\":%" PRIu64 ",\"whole\":%s}\n", done.pruned_count,
                     done.is_whole ? "true" : "false");
    } else if (done.is_whole) {
        (void)printf("deleted %" PRIu64 " buckets that had been empty for a minute\n",
                     done.pruned_count);
    } else {
        (void)printf("stopped after %" PRIu64 " %% of the table: deleted %" PRIu64
                     " buckets that had been empty for a minute\n",
                     progress.percent, done.pruned_count);
    }
    return done.is_whole ? CLI_DONE : CLI_FAILED;
}

/* ---- reset ---- */

/* Whether the person at the terminal says y or yes. */
static bool is_agreed(const struct database_request *request)
{
    char line[16];
    (void)fprintf(stderr, "forget all buckets in %s? Every key starts anew. [y/N] ",
                  request->shown);
    if (fgets(line, sizeof line, stdin) == NULL) {
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, "y") == 0 || strcmp(line, "yes") == 0;
}

static int run_reset(const struct command *command, const struct database_request *request)
{
    struct weir_error error = {.message = ""};
    if (!request->is_sure && isatty(STDIN_FILENO) == 0) {
        return usage_error(command,
                           "this forgets all buckets of all hosts; without a terminal to ask "
                           "at it needs --yes");
    }
    if (!request->is_sure && !is_agreed(request)) {
        complain(command, "nothing was forgotten");
        return CLI_FAILED;
    }
    if (request->upkeep->reset(request->url, &error) != WEIR_OK) {
        return failed(command, &error);
    }
    (void)printf(request->json ? "{\"forgotten\":true}\n" : "all buckets are forgotten\n");
    return CLI_DONE;
}

int store_database_run(const struct command *command, const struct database_request *request)
{
    static const struct {
        const char *name;
        int (*run)(const struct command *command, const struct database_request *request);
    } ACTIONS[] = {
        {"status", run_status}, {"init", run_init},   {"migrate", run_migrate},
        {"prune", run_prune},   {"reset", run_reset},
    };
    for (size_t i = 0; i < sizeof ACTIONS / sizeof ACTIONS[0]; i++) {
        if (strcmp(request->action, ACTIONS[i].name) == 0) {
            return ACTIONS[i].run(command, request);
        }
    }
    return usage_error(command, "only a file has a size and a header: file:/PATH");
}
