/* SPDX-License-Identifier: MIT
 *
 * weir store: how a file of buckets is doing, and how to empty it or give it another size, while others use
 * it. What it does for a database is in store_database.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/store_database.h"
#include "cli/store_limit.h"
#include "cli/store_option.h"
#include "cli/store_resize.h"
#include "core/quantity.h"
#include "limiter/limiter_state.h"
#include "server/store_end.h"
#include "server/stores.h"

enum {
    OPTION_STORE,
    OPTION_EVENTS,
    OPTION_FORCE,
    OPTION_YES,
    OPTION_ROLE,
    OPTION_UNLOGGED,
    OPTION_PRINT,
    OPTION_JSON,
};

enum { GROW_FROM_PERCENT = 70 }; // of the slots in use: beyond 80 some may find no room

static const struct option OPTIONS[] = {
    [OPTION_STORE] = {"store", "URL",
                      "file:/PATH; else WEIR_STORE, else\nfile:~/.local/state/weir/default.weir"},
    [OPTION_EVENTS] = {"events", "SIZE",
                       "of resize: how much memory for the events of windows;\n"
                       "otherwise it changes in proportion"},
    [OPTION_FORCE] = {"force", NULL,
                      "of reset: make everything behind the header of the file new,\n"
                      "also if it is damaged; no other process may have the file open"},
    [OPTION_YES] = {"yes", NULL, "of reset, for a database: do not ask"},
    [OPTION_ROLE] = {"role", "NAME",
                     "of init: give this role the rights and the settings that a server\n"
                     "needs, and no more"},
    [OPTION_UNLOGGED] = {"unlogged", NULL,
                         "of init: writes less, and a crash of the database empties all\n"
                         "buckets; a standby has none"},
    [OPTION_PRINT] = {"print", NULL, "of init: print the SQL, and do nothing"},
    [OPTION_JSON] = {"json", NULL, "one line of JSON"},
    {NULL, NULL, NULL},
};

/* What is known of a store. */
struct status {
    struct weir_limiter_stats stats;
    struct store_description file;
    uint64_t advised_bytes; // 0: as it is
    char made[32];          // RFC 3339
};

/* Twice the size, where buckets find no room or soon may. */
static uint64_t advise(const struct status *status)
{
    const struct weir_limiter_stats *stats = &status->stats;
    bool is_small = stats->full_count != 0 || stats->events_full_count != 0
                    || status->file.live_count > stats->slot_count / 100 * GROW_FROM_PERCENT;
    bool can_grow = stats->memory_bytes <= WEIR_MEMORY_BYTES_MAX / 2;
    return is_small && can_grow ? 2 * stats->memory_bytes : 0;
}

static void read_status(const struct weir_limiter *limiter, struct status *status)
{
    struct tm made;
    weir_limiter_stats(limiter, &status->stats);
    limiter->store->ops->upkeep->describe(limiter->store, &status->file,
                                          weir_limiter_now_ns(limiter));
    time_t made_s = (time_t)status->file.made_wall_s;
    status->advised_bytes = advise(status);
    status->made[0] = '\0';
    if (gmtime_r(&made_s, &made) != NULL) {
        (void)strftime(status->made, sizeof status->made, "%Y-%m-%dT%H:%M:%SZ", &made);
    }
}

static void say_json(const struct status *status)
{
    const struct weir_limiter_stats *stats = &status->stats;
    (void)printf("{\"format\":%" PRIu32 ",\"made\":\"%s\",\"bytes\":%" PRIu64 ",\"slots\":%" PRIu64
                 ",\"live\":%" PRIu64 ",\"used\":%" PRIu64 ",\"reused\":%" PRIu64
                 ",\"full\":%" PRIu64 ",\"events_bytes\":%" PRIu64 ",\"events_used_bytes\":%" PRIu64
                 ",\"events_full\":%" PRIu64 ",\"advised_bytes\":%" PRIu64 "}\n",
                 status->file.format, status->made, stats->memory_bytes, stats->slot_count,
                 status->file.live_count, stats->used_count, stats->reused_count, stats->full_count,
                 stats->events_bytes, stats->events_used_bytes, stats->events_full_count,
                 status->advised_bytes);
}

static double percent(uint64_t part, uint64_t whole)
{
    return 100.0 * (double)part / (double)whole;
}

static void say(const struct status *status, const char *url)
{
    const struct weir_limiter_stats *stats = &status->stats;
    (void)printf("%s\n\n", url);
    (void)printf("  format   %" PRIu32 ", made %s\n", status->file.format, status->made);
    (void)printf("  size     %" PRIu64 " KiB, %" PRIu64 " slots\n", stats->memory_bytes >> 10,
                 stats->slot_count);
    (void)printf("  buckets  %" PRIu64
                 " not empty: %.1f %% of the slots; beyond 80 %% some may find "
                 "no room\n",
                 status->file.live_count, percent(status->file.live_count, stats->slot_count));
    (void)printf(
        "  used     %" PRIu64 " slots so far (%.1f %%); %" PRIu64 " times again, for another "
        "bucket\n",
        stats->used_count, percent(stats->used_count, stats->slot_count), stats->reused_count);
    (void)printf("  events   %" PRIu64 " KiB of %" PRIu64 " hold those of windows\n",
                 stats->events_used_bytes >> 10, stats->events_bytes >> 10);
    (void)printf("  no room  %" PRIu64 " times for a bucket, %" PRIu64
                 " times for an event: answered as on_full says\n",
                 stats->full_count, stats->events_full_count);
    if (stats->evicted_count != 0) {
        (void)printf("  dropped  %" PRIu64 " buckets that were not empty, under on_full=evict\n",
                     stats->evicted_count);
    }
    if (status->advised_bytes != 0) {
        (void)printf("\nIt is too small, and can grow while it is in use:\n"
                     "  weir store resize %" PRIu64 "K --store '%s'\n",
                     status->advised_bytes >> 10, url);
    }
}

static int run_status(const struct command *command, const struct weir_limiter *limiter,
                      const char *url, bool json)
{
    struct status status;
    read_status(limiter, &status);
    if (status.stats.used_count > status.stats.slot_count) {
        complain(command,
                 "%s is damaged: it counts more slots in use than it has; when all that use it "
                 "have ended, copy it; this forgets what is in it: "
                 "weir store reset --force --store '%s'",
                 url, url);
        return CLI_FAILED;
    }
    if (json) {
        say_json(&status);
    } else {
        say(&status, url);
    }
    return CLI_DONE;
}

static uint64_t limiter_bytes(const struct weir_limiter *limiter)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    return stats.memory_bytes + stats.events_bytes;
}

static int run_reset(const struct weir_limiter *limiter, bool json)
{
    struct store *store = limiter->store;
    uint64_t count = store->ops->upkeep->reset_all(store, weir_limiter_now_ns(limiter));
    (void)printf(json ? "{\"emptied\":%" PRIu64 "}\n" : "emptied %" PRIu64 " buckets\n", count);
    return CLI_DONE;
}

/* Where a store is. */
struct place {
    const char *url;
    const struct weir_store_driver *driver;
    char path[STORE_PATH_MAX]; // "" where it is no file
};

/* What the command line says. */
struct upkeep {
    struct store_option store;
    const char *action;
    uint64_t bytes, events_bytes; // of resize
    bool force, is_sure;          // of reset
    struct database_plan plan;    // of init
    bool prints;                  // likewise
    bool json;
    struct store_limit_request limit;
};

/* Without a look at what is in it. */
static int run_renewal(const struct command *command, const struct place *place, bool json)
{
    struct weir_error error;
    store_end_begin(place->url, NULL);
    if (place->driver->files->renew(place->path, &error) != WEIR_OK) {
        complain(command, "%s", error.message);
        return CLI_FAILED;
    }
    (void)printf(json ? "{\"renewed\":true}\n" : "all buckets, locks, lines and events are new\n");
    return CLI_DONE;
}

static int run_resize(const struct command *command, const struct place *place,
                      const struct upkeep *upkeep)
{
    store_end_begin(place->url, NULL);
    return store_resize(command, place->driver->files, place->path, upkeep->bytes,
                        upkeep->events_bytes, upkeep->json);
}

/* Of a store that is not open. Looking after it must not make one. */
static int find_place(const struct command *command, const char *url, struct place *place)
{
    struct weir_error error;
    place->url = url;
    place->driver = store_driver_read(url, STORE_DRIVERS, place->path, &error);
    if (place->driver == NULL) {
        store_option_complain(command, url, &error);
        return CLI_USAGE;
    }
    if (place->path[0] != '\0' && access(place->path, F_OK) != 0) {
        complain(command, "no store at %s: %s", place->path, strerror(errno));
        return CLI_FAILED;
    }
    return CLI_DONE;
}

static bool is_action(const struct upkeep *upkeep, const char *name)
{
    return upkeep->action != NULL && strcmp(upkeep->action, name) == 0;
}

static bool is_forgotten(const struct store_option *store)
{
    const char *url = store->url != NULL ? store->url : getenv("WEIR_STORE");
    struct weir_error error;
    const struct weir_store_driver *driver =
        url != NULL ? store_driver_find(url, STORE_DRIVERS, &error) : NULL;
    return driver != NULL && driver->is_forgotten;
}

static int run_open(const struct command *command, const struct upkeep *upkeep)
{
    struct weir_limiter *limiter;
    int code = store_option_open(&upkeep->store, command, &limiter);
    if (code == CLI_DONE && limiter->store->ops->upkeep == NULL) {
        char shown[STORE_SHOWN_MAX];
        store_url_show(upkeep->store.url, STORE_DRIVERS, shown, sizeof shown);
        complain(command, "%s is looked after by its own tools", shown);
        weir_limiter_close(limiter);
        return CLI_FAILED;
    }
    if (code == CLI_DONE) {
        store_end_watch(STUCK_S + limiter_bytes(limiter) / SCANNED_PER_S);
        code = is_action(upkeep, "reset")
                   ? run_reset(limiter, upkeep->json)
                   : run_status(command, limiter, upkeep->store.url, upkeep->json);
        weir_limiter_close(limiter);
        store_end_unwatch();
    }
    return code;
}

static bool is_for_database(const struct upkeep *upkeep)
{
    return is_action(upkeep, "init") || is_action(upkeep, "migrate") || is_action(upkeep, "prune")
           || is_action(upkeep, "limit");
}

static int run_database(const struct command *command, const struct place *place,
                        const struct upkeep *upkeep)
{
    struct database_request request = {
        .action = upkeep->action,
        .url = place->url,
        .upkeep = place->driver->database,
        .plan = upkeep->plan,
        .prints = upkeep->prints,
        .is_sure = upkeep->is_sure,
        .json = upkeep->json,
    };
    store_url_show(place->url, STORE_DRIVERS, request.shown, sizeof request.shown);
    return store_database_run(command, &request);
}

/* The SQL of init needs no database. */
static int print_schema(const struct command *command, const struct upkeep *upkeep)
{
    struct place place = {.url = "postgres://", .driver = NULL};
    struct weir_error error;
    place.driver = store_driver_find(place.url, STORE_DRIVERS, &error);
    if (place.driver == NULL || place.driver->database == NULL) {
        complain(command, "this weir was built without PostgreSQL (libpq-dev was not there)");
        return CLI_FAILED;
    }
    return run_database(command, &place, upkeep);
}

static int run_action(const struct command *command, struct upkeep *upkeep)
{
    if (upkeep->prints) {
        return print_schema(command, upkeep);
    }
    struct place place;
    bool is_resize = is_action(upkeep, "resize");
    if (is_resize && is_forgotten(&upkeep->store)) {
        return usage_error(command, "memory keeps the size that it was opened with, shared=yes or "
                                    "not; a file can grow: file:/PATH");
    }
    int code = store_option_complete(&upkeep->store, command);
    code = code == CLI_DONE ? find_place(command, upkeep->store.url, &place) : code;
    if (code != CLI_DONE) {
        return code;
    }
    if (is_for_database(upkeep) && place.driver->database == NULL) {
        return usage_error(command, "%s is for a database: postgres://HOST/DATABASE",
                           upkeep->action);
    }
    if (is_action(upkeep, "limit")) {
        upkeep->limit.url = place.url;
        upkeep->limit.upkeep = place.driver->database;
        upkeep->limit.json = upkeep->json;
        return store_limit_run(command, &upkeep->limit);
    }
    if (place.driver->database != NULL && !is_resize && !upkeep->force) {
        return run_database(command, &place, upkeep);
    }
    if ((is_resize || upkeep->force) && place.driver->files == NULL) {
        return usage_error(command, "only a file has a size and a header: file:/PATH");
    }
    return is_resize       ? run_resize(command, &place, upkeep)
           : upkeep->force ? run_renewal(command, &place, upkeep->json)
                           : run_open(command, upkeep);
}

/* The words of the command: what to do, and to what size. */
static int read_word(const struct command *command, struct upkeep *upkeep, const char *word)
{
    if (upkeep->action == NULL) {
        upkeep->action = word;
        return CLI_DONE;
    }
    if (strchr(word, ':') != NULL && upkeep->store.url == NULL) {
        upkeep->store.url = word;
        return CLI_DONE;
    }
    if (is_action(upkeep, "limit") && upkeep->limit.word_count < STORE_LIMIT_WORDS_MAX) {
        upkeep->limit.words[upkeep->limit.word_count++] = word;
        return CLI_DONE;
    }
    if (!is_action(upkeep, "resize")) {
        return usage_error(command,
                           "one of status, resize, reset, init, migrate, prune, limit, and a URL");
    }
    if (upkeep->bytes != 0) {
        return usage_error(command, "one size");
    }
    if (!quantity_parse_bytes(word, &upkeep->bytes) || upkeep->bytes < WEIR_MEMORY_BYTES_MIN
        || upkeep->bytes > WEIR_MEMORY_BYTES_MAX) {
        return usage_error(command, "a size is 64K to 16T, for example 64M: '%s'", word);
    }
    return CLI_DONE;
}

static int read_events(const struct command *command, struct upkeep *upkeep, const char *value)
{
    if (!quantity_parse_bytes(value, &upkeep->events_bytes)
        || upkeep->events_bytes < WEIR_EVENTS_BYTES_MIN
        || upkeep->events_bytes > WEIR_EVENTS_BYTES_MAX) {
        return usage_error(command, "memory for events is 4K to 1T, for example 16M: '%s'", value);
    }
    return CLI_DONE;
}

static int check_options(const struct command *command, const struct upkeep *upkeep)
{
    const struct {
        bool is_there;
        const char *option, *action;
    } GIVEN[] = {
        {upkeep->events_bytes != 0, "events", "resize"},
        {upkeep->force, "force", "reset"},
        {upkeep->is_sure, "yes", "reset"},
        {upkeep->plan.role != NULL, "role", "init"},
        {upkeep->plan.is_unlogged, "unlogged", "init"},
        {upkeep->prints, "print", "init"},
    };
    for (size_t i = 0; i < sizeof GIVEN / sizeof GIVEN[0]; i++) {
        if (GIVEN[i].is_there && !is_action(upkeep, GIVEN[i].action)) {
            return usage_error(command, "--%s is an option of %s", GIVEN[i].option,
                               GIVEN[i].action);
        }
    }
    return CLI_DONE;
}

static int check_action(const struct command *command, const struct upkeep *upkeep)
{
    static const char *const ACTIONS[] = {"status",  "resize", "reset", "init",
                                          "migrate", "prune",  "limit"};
    bool is_known = false;
    for (size_t i = 0; i < sizeof ACTIONS / sizeof ACTIONS[0]; i++) {
        is_known = is_known || is_action(upkeep, ACTIONS[i]);
    }
    if (!is_known) {
        return usage_error(command,
                           "say what to do: status, resize, reset, init, migrate, prune or limit");
    }
    if (is_action(upkeep, "limit") && store_limit_check(command, &upkeep->limit) != CLI_DONE) {
        return CLI_USAGE;
    }
    if (is_action(upkeep, "resize") && upkeep->bytes == 0) {
        return usage_error(command, "to what size? weir store resize 64M");
    }
    return check_options(command, upkeep);
}

static int run_store(const struct command *command, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    struct upkeep upkeep = {.action = NULL};
    const char *value;
    int code = CLI_DONE;
    for (int option; (option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_STORE: upkeep.store.url = value; break;
        case OPTION_EVENTS: code = read_events(command, &upkeep, value); break;
        case OPTION_FORCE: upkeep.force = true; break;
        case OPTION_YES: upkeep.is_sure = true; break;
        case OPTION_ROLE: upkeep.plan.role = value; break;
        case OPTION_UNLOGGED: upkeep.plan.is_unlogged = true; break;
        case OPTION_PRINT: upkeep.prints = true; break;
        case OPTION_JSON: upkeep.json = true; break;
        case ARGUMENT_HELP: command_help(command); return CLI_DONE;
        case ARGUMENT_WORD: code = read_word(command, &upkeep, value); break;
        default: return usage_error(command, "%s", arguments.problem);
        }
        if (code != CLI_DONE) {
            return code;
        }
    }
    code = check_action(command, &upkeep);
    return code == CLI_DONE ? run_action(command, &upkeep) : code;
}

const struct command STORE_COMMAND = {
    .name = "store",
    .words = "status|resize SIZE|reset|init|migrate|prune|limit [URL]",
    .summary = "look after a file of buckets, or a database",
    .about =
        "Of a file:\n"
        "status says how full the file is, and how often there was no room for a bucket.\n"
        "resize moves all buckets to a file of another size, 64K to 16T, which gets the name of\n"
        "the first. None is lost, nor a charge: takes wait for a moment, and go on there.\n"
        "reset empties all buckets, as if nobody had ever taken from them.\n"
        "Others may use the file meanwhile. reset --force needs it for itself, and heals a file "
        "that\n"
        "is damaged: it looks at nothing but the header.\n"
        "\n"
        "Of a database of PostgreSQL, which servers may use meanwhile:\n"
        "init makes the schema of weir, or renews its functions. --role lets a role use it.\n"
        "status says how the schema, the role, the table and its pruning are doing.\n"
        "migrate brings an older schema to the version that this weir needs.\n"
        "prune deletes the buckets that have been empty for a minute, as servers do all the "
        "while.\n"
        "reset forgets all buckets. It asks first.\n"
        "limit add NAME LIMIT, limit list and limit remove NAME are about the limits that SQL\n"
        "takes under: SELECT * FROM weir.take('login', 'alice').",
    .examples = "    weir store status\n"
                "    weir store status --store file:/var/lib/weir/buckets --json\n"
                "    weir store resize 64M\n"
                "    weir store reset\n"
                "    weir store reset --force --store file:/var/lib/weir/buckets\n"
                "    weir store init postgres://owner@db.example/limits --role weir\n"
                "    weir store init --role weir --print | psql limits\n"
                "    weir store status postgres://weir@db.example/limits\n"
                "    weir store limit add login 10/s postgres://owner@db.example/limits\n",
    .options = OPTIONS,
    .run = run_store,
};
