/* SPDX-License-Identifier: MIT
 *
 * `weir simulate`, in pieces:
 *
 *     options.c   the command line
 *     input.c     lines of a file
 *     arrival.c   a line -> an arrival; instant.c: its time
 *     lane.c      arrivals -> decisions of libweir, counted: one lane per limit, each alone
 *     decisions.c every one of them, written down
 *     worst.c     who was refused most
 *     trace.c     what is kept of the course of events, in bounded memory
 *     picture.c   a trace -> levels and marks over time
 *     plot.c svg.c report.c   what is shown
 *     simulate.c  the loop over all lines */
#ifndef WEIR_CLI_SIMULATE_SIMULATE_H
#define WEIR_CLI_SIMULATE_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/simulate/arrival.h"
#include "cli/simulate/trace.h"
#include "cli/simulate/worst.h"
#include "core/arith.h"
#include "weir/limiter.h"

enum { LANE_COUNT_MAX = 16, BAD_SHOWN_MAX = 5, FULL_SHOWN_MAX = 8, WORST_SHOWN_MAX = 5 };

/* What came of the arrivals under one limit. */
struct tally {
    uint64_t admitted, refused, never;
    uint64_t blocked; // their key was locked out
    uint64_t no_room; // the table was full of live buckets
    uint64_t delayed, delay_max_ns;
    uint128 delay_sum_ns;
    uint128 admitted_micro, refused_micro; // by cost
    uint64_t spilled, full;                // fills
    uint128 spill_units, spill_rest;       // rest / denominator below one unit
    uint128 spill_denominator;
    uint64_t full_at_ns[FULL_SHOWN_MAX]; // of the first
};

/* One limit, which knows nothing of the others. */
struct lane {
    char text[WEIR_LIMIT_TEXT_MAX + 1]; // as written
    struct weir_limit_config config;
    struct weir_rule rule;
    struct tally tally;
    struct worst worst;
    struct bins arriving;
    struct bins leaving; // apart: a line may reach years beyond the recording
};

struct bad_line {
    uint64_t number;
    const char *why;
};

struct simulate {
    const struct command *command;
    struct lane *lanes;
    size_t lane_count;
    const char *path; // NULL: standard input
    const char *svg_path;
    const char *decisions_path;
    struct arrival_reader reader;
    uint64_t memory_bytes;
    bool fill, json, help;

    struct weir_limiter *limiter;
    FILE *decisions;      // NULL: not wanted
    uint64_t hash_key[2]; // of what is kept of keys
    struct recording recording;
    uint64_t bad_count;
    struct bad_line bad[BAD_SHOWN_MAX];
    bool has_costs; // other than 1
};

extern const struct option SIMULATE_OPTIONS[];

/* Reads the command line; makes the lanes. An exit code. */
int simulate_read(struct simulate *simulate, int count, char **words);
void simulate_fini(struct simulate *simulate);

/* Opens the limiter and binds the lanes to it. An exit code. */
int lanes_open(struct simulate *simulate);

/* Has every lane decide about arrivals, in this order. */
void lanes_decide(struct simulate *simulate, const struct arrival *arrivals, size_t count);

/* The file of decisions, if one is wanted; exit codes. */
int decisions_open(struct simulate *simulate);
void decisions_write(const struct simulate *simulate, const struct lane *lane,
                     const struct arrival *arrival, const struct weir_decision *decision,
                     const struct weir_detail *detail);
int decisions_close(struct simulate *simulate);

/* What there is to say; exit codes. */
void simulate_say(const struct simulate *simulate);
int simulate_say_json(const struct simulate *simulate);
int simulate_draw(const struct simulate *simulate); // the SVG

/* Refused in any way. */
static inline uint64_t tally_refused(const struct tally *tally)
{
    return tally->refused + tally->never + tally->blocked + tally->no_room;
}

/* For pictures: an amount, and the capacity, in units. */
static inline double amount_value(const struct weir_amount *amount)
{
    uint128 numerator = (uint128)amount->numerator_high << 64 | amount->numerator_low;
    uint128 denominator = (uint128)amount->denominator_high << 64 | amount->denominator_low;
    return denominator > 0 ? (double)numerator / (double)denominator : 0;
}

static inline double lane_capacity(const struct lane *lane)
{
    return (double)lane->config.capacity_micro / (double)WEIR_UNIT;
}

#endif
