/* SPDX-License-Identifier: MIT
 *
 * `weir bench` between its parts: what was asked for, and what came out. */
#ifndef WEIR_CLI_BENCH_BENCH_H
#define WEIR_CLI_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/bench/load.h"
#include "cli/bench/worker.h"
#include "cli/server_option.h"

/* What the command line says, complete. */
struct bench {
    const struct command *command;
    struct server_option server;
    struct load_config load;
    struct weir_limit_config rate;
    const char *rate_text; // NULL: saturate
    bool rate_said, saturate_said;
    uint64_t connections;
    uint64_t pipeline;
    uint64_t threads;
    uint64_t keys;
    double skew;
    const char *skew_text;
    uint64_t duration_ns;
    uint64_t requests; // UINT64_MAX: as many as the time allows
    uint64_t timeout_ns;
    uint64_t seed;
    bool json;
    bool help;
};

/* Reads the command line: CLI_DONE, or complains. */
int bench_read(struct bench *bench, int count, char **words);

extern const struct option BENCH_OPTIONS[];

/* What came out, all workers together. */
struct bench_result {
    struct tally tally;
    struct histogram latency;
    struct histogram late;
    uint64_t took_ns; // from the start to the last answer
    const char *error;
};

/* How many were answered. */
uint64_t tally_answered(const struct tally *tally);

void bench_say(const struct bench *bench, const struct bench_result *result);
int bench_say_json(const struct bench *bench, const struct bench_result *result);

#endif
