/* SPDX-License-Identifier: MIT
 *
 * weir store: how a file of buckets is doing, and how to empty it, while others use it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/store_option.h"
#include "limiter/limiter_state.h"
#include "limiter/store_url.h"
#include "store/table/file_header.h"

enum { OPTION_STORE, OPTION_JSON };

static const struct option OPTIONS[] = {
    [OPTION_STORE] = {"store", "URL",
                      "file:/PATH; else WEIR_STORE, else\nfile:~/.local/state/weir/default.weir"},
    [OPTION_JSON] = {"json", NULL, "one line of JSON"},
    {NULL, NULL, NULL},
};

/* What is known of a store. */
struct status {
    struct weir_limiter_stats stats;
    uint64_t live_count;
    uint32_t format;
    char made[32]; // RFC 3339
};

static struct table *table_of(const struct weir_limiter *limiter)
{
    return (struct table *)limiter->store;
}

static void read_status(const struct weir_limiter *limiter, struct status *status)
{
    const struct table *table = table_of(limiter);
    const struct file_header *header = table->mapping.at;
    time_t made_s = (time_t)header->stamp.made_wall_s;
    struct tm made;
    weir_limiter_stats(limiter, &status->stats);
    status->live_count = table_live_count(table, weir_limiter_now_ns(limiter));
    status->format = header->stamp.format;
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
                 ",\"events_full\":%" PRIu64 "}\n",
                 status->format, status->made, stats->memory_bytes, stats->slot_count,
                 status->live_count, stats->used_count, stats->reused_count, stats->full_count,
                 stats->events_bytes, stats->events_used_bytes, stats->events_full_count);
}

static double percent(uint64_t part, uint64_t whole)
{
    return 100.0 * (double)part / (double)whole;
}

static void say(const struct status *status, const char *url)
{
    const struct weir_limiter_stats *stats = &status->stats;
    (void)printf("%s\n\n", url);
    (void)printf("  format   %" PRIu32 ", made %s\n", status->format, status->made);
    (void)printf("  size     %" PRIu64 " KiB, %" PRIu64 " slots\n", stats->memory_bytes >> 10,
                 stats->slot_count);
    (void)printf("  buckets  %" PRIu64
                 " not empty: %.1f %% of the slots; beyond 80 %% some may find "
                 "no room\n",
                 status->live_count, percent(status->live_count, stats->slot_count));
    (void)printf(
        "  used     %" PRIu64 " slots so far (%.1f %%); %" PRIu64 " times again, for another "
        "bucket\n",
        stats->used_count, percent(stats->used_count, stats->slot_count), stats->reused_count);
    (void)printf("  events   %" PRIu64 " KiB of %" PRIu64 " hold those of windows\n",
                 stats->events_used_bytes >> 10, stats->events_bytes >> 10);
    (void)printf("  no room  %" PRIu64 " times for a bucket, %" PRIu64
                 " times for an event: answered as on_full says\n",
                 stats->full_count, stats->events_full_count);
}

static int run_status(const struct weir_limiter *limiter, const char *url, bool json)
{
    struct status status;
    read_status(limiter, &status);
    if (json) {
        say_json(&status);
    } else {
        say(&status, url);
    }
    return CLI_DONE;
}

static int run_reset(const struct weir_limiter *limiter, bool json)
{
    struct weir_rule any;
    if (weir_rule_from_text(&any, limiter, "1/s", NULL) != WEIR_OK) {
        return CLI_FAILED;
    }
    uint64_t count = table_reset_all(table_of(limiter), &any, weir_limiter_now_ns(limiter));
    (void)printf(json ? "{\"emptied\":%" PRIu64 "}\n" : "emptied %" PRIu64 " buckets\n", count);
    return CLI_DONE;
}

/* Looking after a store must not make one. */
static int check_there(const struct command *command, const char *url)
{
    struct store_url parsed;
    struct weir_error error;
    if (store_url_parse(&parsed, url, &error) != WEIR_OK) {
        complain_at(command, url, &error);
        return CLI_USAGE;
    }
    if (access(parsed.path, F_OK) != 0) {
        complain(command, "no store at %s: %s", parsed.path, strerror(errno));
        return CLI_FAILED;
    }
    return CLI_DONE;
}

static int run_action(const struct command *command, struct store_option *store, bool is_reset,
                      bool json)
{
    struct weir_limiter *limiter;
    int code = store_option_complete(store, command);
    code = code == CLI_DONE ? check_there(command, store->url) : code;
    code = code == CLI_DONE ? store_option_open(store, command, &limiter) : code;
    if (code == CLI_DONE) {
        code = is_reset ? run_reset(limiter, json) : run_status(limiter, store->url, json);
        weir_limiter_close(limiter);
    }
    return code;
}

static int run_store(const struct command *command, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    struct store_option store = {.url = NULL};
    const char *action = NULL;
    const char *value;
    bool json = false;
    for (int option; (option = arguments_next(&arguments, OPTIONS, &value)) != ARGUMENT_END;) {
        switch (option) {
        case OPTION_STORE: store.url = value; break;
        case OPTION_JSON: json = true; break;
        case ARGUMENT_HELP: command_help(command); return CLI_DONE;
        case ARGUMENT_WORD:
            if (action != NULL) {
                return usage_error(command, "one of status, reset");
            }
            action = words[arguments.at - 1];
            break;
        default: return usage_error(command, "%s", arguments.problem);
        }
    }
    bool is_reset = action != NULL && strcmp(action, "reset") == 0;
    if (action == NULL || (!is_reset && strcmp(action, "status") != 0)) {
        return usage_error(command, "say what to do: status or reset");
    }
    return run_action(command, &store, is_reset, json);
}

const struct command STORE_COMMAND = {
    .name = "store",
    .words = "status|reset",
    .summary = "how a file of buckets is doing; or empty all of them",
    .about =
        "status says how full the file is, and how often there was no room for a bucket.\n"
        "reset empties all buckets, as if nobody had ever taken from them. Others may use the\n"
        "file meanwhile.",
    .examples = "    weir store status\n"
                "    weir store status --store file:/var/lib/weir/buckets --json\n"
                "    weir store reset\n",
    .options = OPTIONS,
    .run = run_store,
};
