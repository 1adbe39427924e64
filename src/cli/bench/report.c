/* SPDX-License-Identifier: MIT
 *
 * What `weir bench` found, for people and as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/bench/bench.h"
#include "cli/duration.h"

static const struct {
    const char *name;
    const char *json_name;
    double percent;
} PERCENTILES[] = {
    {"p50", "p50", 50.0},     {"p90", "p90", 90.0},  {"p99", "p99", 99.0},
    {"p99.9", "p99_9", 99.9}, {"max", "max", 100.0},
};
enum { PERCENTILE_COUNT = sizeof PERCENTILES / sizeof PERCENTILES[0] };

static const char *const VERDICT_NAMES[LOAD_VERDICT_COUNT] = {
    [LOAD_ALLOWED] = "allowed", [LOAD_LIMITED] = "limited", [LOAD_NEVER] = "never",
    [LOAD_UNDECIDED] = "error", [LOAD_PLAIN] = "plain",     [LOAD_FAILED] = "failed",
};

uint64_t tally_answered(const struct tally *tally)
{
    uint64_t answered = 0;
    for (int i = 0; i < LOAD_VERDICT_COUNT; i++) {
        answered += tally->verdicts[i];
    }
    return answered;
}

static uint64_t per_second(uint64_t count, uint64_t ns)
{
    return ns > 0 ? (uint64_t)((double)count * 1e9 / (double)ns) : 0;
}

static void say_percentiles(const struct histogram *histogram, const char *name)
{
    (void)printf("  %-8s", name);
    for (int i = 0; i < PERCENTILE_COUNT; i++) {
        char time[DURATION_TEXT_MAX];
        uint64_t ns = histogram_percentile(histogram, PERCENTILES[i].percent);
        (void)printf("%s %s%s", PERCENTILES[i].name, duration_print_near(ns, time),
                     i + 1 < PERCENTILE_COUNT ? "   " : "\n");
    }
}

/* What nobody wants to see, and says only if it is there. */
static void say_trouble(const struct bench *bench, const struct bench_result *result)
{
    const struct tally *tally = &result->tally;
    if (tally->unsent > 0) {
        (void)printf("  unsent  %" PRIu64
                     " were due and not sent before the end: every connection was"
                     " full,\n          or this machine too slow\n",
                     tally->unsent);
    }
    if (tally->pending > 0) {
        char time[DURATION_TEXT_MAX];
        (void)printf("  pending %" PRIu64 " had no answer %s after the end\n", tally->pending,
                     duration_print_near(bench->timeout_ns, time));
    }
    if (tally->broken > 0) {
        (void)printf("  broken  %" PRIu64 " connections, with %" PRIu64 " requests on them\n",
                     tally->broken, tally->lost);
    }
    if (result->error != NULL) {
        (void)printf("  first error: %s\n", result->error);
    }
}

void bench_say(const struct bench *bench, const struct bench_result *result)
{
    const struct tally *tally = &result->tally;
    uint64_t answered = tally_answered(tally);
    char time[DURATION_TEXT_MAX];
    (void)printf("%s '%s' at %s: %" PRIu64 " connections, pipeline %" PRIu64 ", %" PRIu64
                 " keys, skew %s\n",
                 LOAD_COMMAND_NAMES[bench->load.command], bench->load.limit, bench->server.text,
                 bench->connections, bench->pipeline, bench->keys, bench->skew_text);
    (void)printf("  answered %" PRIu64 " of %" PRIu64 " in %s: %" PRIu64 " per second", answered,
                 tally->sent, duration_print_near(result->took_ns, time),
                 per_second(answered, result->took_ns));
    (void)printf(bench->rate_text != NULL ? " of %s\n" : "\n", bench->rate_text);
    (void)printf("  verdicts");
    for (int i = 0; i < LOAD_VERDICT_COUNT; i++) {
        if (tally->verdicts[i] > 0) {
            (void)printf(" %s %" PRIu64, VERDICT_NAMES[i], tally->verdicts[i]);
        }
    }
    (void)puts(answered > 0 ? "" : " none");
    if (answered == 0) { // nor are there times, then
        say_trouble(bench, result);
        return;
    }
    say_percentiles(&result->latency, "latency");
    if (bench->rate_text != NULL) {
        say_percentiles(&result->late, "late");
        (void)puts("  latency counts from when a request was due; late is how much later it was"
                   " sent");
    } else {
        (void)puts("  latency counts from when a request was sent: a saturating client waits for"
                   " room");
    }
    say_trouble(bench, result);
}

static json_t *json_percentiles(const struct histogram *histogram)
{
    json_t *percentiles = json_object();
    for (int i = 0; i < PERCENTILE_COUNT; i++) {
        uint64_t ns = histogram_percentile(histogram, PERCENTILES[i].percent);
        (void)json_object_set_new(percentiles, PERCENTILES[i].json_name,
                                  json_integer((json_int_t)ns));
    }
    return percentiles;
}

static json_t *json_verdicts(const struct tally *tally)
{
    json_t *verdicts = json_object();
    for (int i = 0; i < LOAD_VERDICT_COUNT; i++) {
        (void)json_object_set_new(verdicts, VERDICT_NAMES[i],
                                  json_integer((json_int_t)tally->verdicts[i]));
    }
    return verdicts;
}

int bench_say_json(const struct bench *bench, const struct bench_result *result)
{
    const struct tally *tally = &result->tally;
    uint64_t answered = tally_answered(tally);
    json_t *root = json_pack(
        "{ss ss ss ss ss? sI sI sI sI ss sI sI sI sI sI sI sI sI so so so ss?}", "protocol",
        bench->load.protocol == LOAD_RESP ? "resp" : "http", "server", bench->server.text,
        "command", LOAD_COMMAND_NAMES[bench->load.command], "limit", bench->load.limit, "rate",
        bench->rate_text, "connections", (json_int_t)bench->connections, "pipeline",
        (json_int_t)bench->pipeline, "threads", (json_int_t)bench->threads, "keys",
        (json_int_t)bench->keys, "skew", bench->skew_text, "took_ns", (json_int_t)result->took_ns,
        "sent", (json_int_t)tally->sent, "answered", (json_int_t)answered, "answered_per_s",
        (json_int_t)per_second(answered, result->took_ns), "unsent", (json_int_t)tally->unsent,
        "pending", (json_int_t)tally->pending, "lost", (json_int_t)tally->lost, "broken",
        (json_int_t)tally->broken, "verdicts", json_verdicts(tally), "latency_ns",
        json_percentiles(&result->latency), "late_ns", json_percentiles(&result->late),
        "first_error", result->error);
    if (root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0) {
        json_decref(root);
        complain(bench->command, "out of memory, or a server's name that is not UTF-8");
        return CLI_FAILED;
    }
    json_decref(root);
    (void)putchar('\n');
    return CLI_DONE;
}
