/* SPDX-License-Identifier: MIT
 *
 * `weir simulate`, in pieces:
 *
 *     options.c   the command line
 *     outputs.c   what it must not overwrite
 *     input.c     lines of a file
 *     arrival.c   a line -> an arrival; instant.c: its time
 *     lane.c      arrivals -> decisions of libweir: one lane per limit or list of limits, each alone
 *     course.c    decisions -> counts, and a trace of them
 *     decisions.c every one of them, written down
 *     worst.c     who was turned away most
 *     watch.c     the one key whose level is drawn, where there are several
 *     trace.c     what is kept of the course of events, in bounded memory
 *     picture.c   a trace -> levels and marks over time
 *     plot.c svg.c report.c   what is shown
 *     simulate.c  the loop over all lines, and over those of a file once more */
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
#include "limiter/limit_list.h"
#include "limiter/names/names.h"
#include "weir/limiter.h"

enum { LANE_COUNT_MAX = 16, BAD_SHOWN_MAX = 5, FULL_SHOWN_MAX = 8, WORST_SHOWN_MAX = 5 };

/* A sum of amounts: units, and a part of one, rest / denominator. A limit has one denominator, but a name whose
 * overrides have other rates has several; their common one grows by the factors that it lacks. Where it would grow
 * beyond 2^96, parts are rounded down to billionths from then on. All zeroes is nothing. */
struct spill {
    uint128 units, rest, denominator;
    bool is_rounded;
};

enum { VERDICT_COUNT = WEIR_FAILED + 1 };

/* Arrivals, and what they cost. */
struct share {
    uint64_t count;
    uint128 micro;
};

/* What came of the arrivals under one limit, or a list of them. Whoever was not let in was turned away.
 *   of         by verdict; WEIR_FAILED: there was no room for its key or its event
 *   by         of those who were turned away: by this limit of a list
 *   unchecked  of those who were let in: no room for their key or their event, and on_full=allow
 *   not_whole  of those who never fit: the cost is no whole number, and the limit counts nothing else */
struct tally {
    struct share of[VERDICT_COUNT];
    uint64_t by[LIMIT_LIST_COUNT_MAX][VERDICT_COUNT];
    uint64_t unchecked, not_whole;
    uint64_t delayed, delay_max_ns;
    uint128 delay_sum_ns;
    uint64_t spilled, full; // fills
    struct spill spill;
    uint64_t full_at_ns[FULL_SHOWN_MAX]; // of the first
};

/* The same over time: of all arrivals, or of those of one key.
 *   limits  of one key: the numbers that it has; NULL before it came
 *   each    of a list, for each of its limits, its level and what it refused; otherwise NULL */
struct course {
    struct tally tally;
    const struct weir_limit *limits[LIMIT_LIST_COUNT_MAX];
    uint64_t latest_ns; // so far, and not before the bins begin
    struct bins arriving;
    struct bins *each;
    struct bins leaving; // apart: a line may reach years beyond the recording
};

enum { KEY_TEXT_MAX = WORST_KEY_BYTES + sizeof "..." };

/* A key as it is shown, and how it is known. */
struct shown_key {
    uint64_t hash;
    char text[KEY_TEXT_MAX];
};

/* The key whose level is drawn where a recording has several. */
struct watched {
    struct shown_key key;
    const char *why; // it and no other
    struct history history;
    struct course course;
};

/* A limit, alone or in a list. */
struct tried {
    char text[WEIR_LIMIT_TEXT_MAX + 1]; // as written
    const struct named_limit *named;    // NULL: it is written out
    struct weir_rule rule;              // of a name, for keys that have no numbers of their own
};

/* One limit, or a list of limits that decide together; it knows nothing of other lanes.
 *   closest  the key that left the least room of all that were admitted, the first of them */
struct lane {
    char text[LIMIT_LIST_TEXT_MAX + 1]; // as written
    struct limit_list list;
    struct tried tried[LIMIT_LIST_COUNT_MAX];
    struct course all;
    struct worst worst;
    struct shown_key closest;
    uint64_t least_remaining;
    struct watched *watched; // NULL: none
    bool has_window;
};

/* What a lane decided about an arrival: each limit, and all together.
 *   binding  the limit that refused; else nothing is said
 *   detail   of a fill
 *   found_full  it was let in under on_full=allow, with no room for its key or its event */
struct outcome {
    const struct weir_decision *each;
    const struct weir_decision *whole;
    const struct weir_detail *detail;
    int binding;
    bool found_full;
};

struct bad_line {
    uint64_t number;
    const char *why;
};

struct simulate {
    const struct command *command;
    struct lane *lanes;
    size_t lane_count;
    size_t limit_count; // of all lanes
    const char *path;   // NULL: standard input
    const char *config_path;
    const char *svg_path;
    const char *decisions_path;
    const char *of; // the key to watch; NULL: by what comes of it
    struct arrival_reader reader;
    char columns[KEY_TEXT_MAX]; // of a header that names no key, though it could; or empty
    uint64_t memory_bytes;
    bool fill, json, help;
    bool may_pass_full; // some limit has on_full=allow
    bool found_buckets_full, found_events_full;

    struct names *names; // NULL: none
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

/* After all arrivals: takes note of which memory had no room for some of them. */
void lanes_note_full(struct simulate *simulate);

/* The numbers that a limit has for a key. They stay where they are. */
const struct weir_limit *tried_limit(const struct tried *tried, struct bytes key);

/* The rule with these numbers; `room` is for it. */
const struct weir_rule *tried_rule(const struct tried *tried, struct bytes key,
                                   struct weir_rule *room);

/* The same once more, in empty buckets, but each lane of the key that it watches only. */
int lanes_open_again(struct simulate *simulate);
void lanes_decide_again(struct simulate *simulate, const struct arrival *arrivals, size_t count);

/* Has each lane watch the key --of, if there is one; false if there is no memory. */
bool watch_begin(struct simulate *simulate);

/* After all arrivals: has each lane watch the key that it turned away most often, or if it did none, that came
 * closest to it. False if there is no memory. */
bool watch_choose(struct simulate *simulate);

/* No lane watches any key. */
void watch_forget(struct simulate *simulate);

/* The arrival's key is the watched one. */
void watch_note(const struct simulate *simulate, const struct lane *lane,
                const struct arrival *arrival, const struct outcome *outcome);

/* An empty one of a lane, all zeroes before. False if there is no memory. */
bool course_init(struct course *course, const struct lane *lane);
void course_fini(struct course *course);

/* Where time begins, and how it is divided. */
void course_begin(struct course *course, const struct lane *lane, uint64_t origin_ns,
                  uint64_t unit_ns);

/* Takes note of what was decided about an arrival; of its level, too, where all are of one key. Returns true if it
 * was turned away, or spilled. */
bool course_note(const struct simulate *simulate, const struct lane *lane, struct course *course,
                 bool has_level, const struct arrival *arrival, const struct outcome *outcome);

/* The levels of one limit, and what it refused. */
static inline const struct bins *course_bins(const struct course *course, size_t limit)
{
    return course->each != NULL ? &course->each[limit] : &course->arriving;
}

/* The first bytes of a key, as UTF-8; "" if it has none. Keys are strangers' bytes, and their terminal codes are
 * none of ours: what is no character, or none to be seen, becomes a question mark. */
void key_print(const char *key, size_t length, char text[KEY_TEXT_MAX]);

/* That no file is written over one that is read, or twice; asked before any is touched. An exit code. */
int outputs_check(const struct simulate *simulate, int input_fd);

/* The file of decisions, if one is wanted; exit codes. What is in it stays until there is an arrival. */
int decisions_open(struct simulate *simulate);
void decisions_begin(const struct simulate *simulate);
void decisions_write(const struct simulate *simulate, const struct lane *lane,
                     const struct arrival *arrival, const struct outcome *outcome);
int decisions_close(struct simulate *simulate);

/* What there is to say; exit codes. */
void simulate_say(const struct simulate *simulate);
int simulate_say_json(const struct simulate *simulate);
int simulate_draw(const struct simulate *simulate); // the SVG

static inline uint64_t tally_turned_away(const struct tally *tally)
{
    return tally->of[WEIR_LIMITED].count + tally->of[WEIR_NEVER].count
           + tally->of[WEIR_BLOCKED].count + tally->of[WEIR_FAILED].count;
}

/* What those are called together who did not get all that they asked for: refused, where there is nobody else
 * among them. */
struct missed_words {
    const char *word, *most_often;
    const char *label; // where there is little room
};
const struct missed_words *lane_missed_words(const struct simulate *simulate,
                                             const struct lane *lane);

/* For pictures: an amount, and the capacity, in units. */
static inline double amount_value(const struct weir_amount *amount)
{
    uint128 numerator = (uint128)amount->numerator_high << 64 | amount->numerator_low;
    uint128 denominator = (uint128)amount->denominator_high << 64 | amount->denominator_low;
    return denominator > 0 ? (double)numerator / (double)denominator : 0;
}

static inline double capacity_value(const struct weir_limit *limit)
{
    return (double)limit->capacity_micro / (double)WEIR_UNIT;
}

static inline bool lane_is_list(const struct lane *lane)
{
    return lane->list.count > 1;
}

#endif
