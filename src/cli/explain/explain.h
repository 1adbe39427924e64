/* SPDX-License-Identifier: MIT
 *
 * `weir explain`, in pieces: explain.c works out what a limit promises, words.c and json.c say it with the texts of
 * figures.c, and wanted.c goes the other way, from "at most N in any T" to the limit. */
#ifndef WEIR_CLI_EXPLAIN_EXPLAIN_H
#define WEIR_CLI_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/plan.h"
#include "limiter/names/names.h"
#include "weir/decision.h"
#include "weir/limit.h"

enum {
    BUCKET_BYTES = 40, // two slots of 24 bytes to a line of 64, four fifths of them in use
    TEXT_WIDTH_MIN = 24,
    WINDOW_COUNT_MAX = 5
};

/* Everything that is said of a limit, before it is said in one form or another. */
struct explanation {
    struct weir_limit_config config;
    const char *written;             // as the command line has it, or the configuration
    const struct named_limit *named; // whose it is; NULL: nobody's
    char canonical[WEIR_LIMIT_TEXT_MAX];
    char period[DURATION_TEXT_MAX]; // "30 d"; "s" for 1 s, as in "10 per s"
    bool is_queue;
    uint64_t max_latency_ns; // what the capacity was made for, or 0
    struct weir_amount rate_per_s, interval_ns, drain_ns, delay_max_ns;
    struct weir_amount wait_of_one_ns, wait_max_ns; // of whoever is refused
    uint64_t windows_ns[WINDOW_COUNT_MAX];          // the first is the limit's own period
    size_t window_count;
    uint64_t count; // whole units per period, 0 if they are not whole
    struct plan_choice strict[PLAN_CHOICE_MAX];
    size_t strict_count;
};

/* Of cost 1 each: none where not even one fits. */
uint64_t requests_at_most(const struct explanation *e, const struct weir_amount *bound);

/* A limit's canonical text. Returns `text`. */
const char *limit_text(const struct weir_limit_config *config, char text[WEIR_LIMIT_TEXT_MAX]);

/* The width of a column for the texts of these: more than that of the longest. */
int explain_text_width(const struct plan_choice *choices, size_t count);

/* What one key of a limit needs while it is not empty, in bytes: at least, and at most. */
uint64_t explain_key_bytes_min(const struct weir_limit_config *config);
uint64_t explain_key_bytes(const struct weir_limit_config *config);

/* "1 s": a window, exactly. Returns `text`. */
const char *window_text(uint64_t window_ns, char text[DURATION_TEXT_MAX]);

/* Exit codes. */
int explain_in_words(const struct explanation *e);
int explain_in_json(const struct command *command, const struct explanation *e);

/* What "at most N in any T" is asked with; 0: without.
 *   max_latency_ns  only buckets that drain within it
 *   jitter_ns       N are counted where they arrive, and the way there takes so much longer at one time than at
 *                   another */
struct wanted_options {
    uint64_t max_latency_ns;
    uint64_t jitter_ns;
    bool json;
};

/* "at most N in any T": which limits guarantee that. An exit code. */
int explain_wanted(const struct command *command, const char *text, struct wanted_options options);

#endif
