/* SPDX-License-Identifier: MIT
 *
 * What is remembered of a recording, to draw it afterwards. Memory is bounded however long it is:
 * few arrivals of one key are kept as they are, and are drawn exactly. Of all others there is
 * one row of bins over time, which become twice as wide whenever they do not reach any more. */
#ifndef WEIR_CLI_SIMULATE_TRACE_H
#define WEIR_CLI_SIMULATE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEPT_COUNT_MAX = 2000, BIN_COUNT = 512 };

struct kept {
    uint64_t at_ns;
    uint64_t cost_micro;
};

/* Arrivals of one key, the first of them as they are. All zeroes is empty. */
struct history {
    uint64_t count;
    struct kept kept[KEPT_COUNT_MAX];
};

void history_add(struct history *history, uint64_t at_ns, uint64_t cost_micro);

/* True while every arrival is kept. */
static inline bool history_is_whole(const struct history *history)
{
    return history->count <= KEPT_COUNT_MAX;
}

/* What is the same for all limits. All zeroes is empty. */
struct recording {
    uint64_t count;
    uint64_t first_ns, latest_ns; // the latest is the largest
    uint64_t late_count;          // arrivals with an older time than one before them
    uint64_t late_max_ns;
    uint64_t key_hash;      // of the first
    bool has_keys;          // a second key has come
    struct history history; // of use where it has not
};

/* Takes note of an arrival. */
void recording_add(struct recording *recording, uint64_t at_ns, uint64_t cost_micro,
                   uint64_t key_hash);

/* What happened in a stretch of time: arrivals, or what leaves a queue. Levels are of use where all
 * of it is of one key.
 *   peak               the highest level
 *   level, drained_ns  the last level, and when it will have drained; else 0 */
struct bin {
    uint64_t admitted, refused, full, leaving;
    uint64_t drained_ns;
    double level, peak;
};

/* A bin covers unit_ns * 2^shift nanoseconds, where the unit is what the recording's times are
 * whole multiples of: otherwise a log of whole seconds would have three of them in some bins and
 * two in others. All zeroes but origin and unit is empty. */
struct bins {
    uint64_t origin_ns;
    uint64_t unit_ns;
    unsigned shift;
    struct bin bins[BIN_COUNT];
};

static inline uint64_t bins_width_ns(const struct bins *bins)
{
    return bins->unit_ns << bins->shift;
}

/* The bin of an instant, which is not before the origin. */
struct bin *bins_at(struct bins *bins, uint64_t at_ns);

/* A bucket has this level, and will be empty at drained_ns. */
void bin_note_level(struct bin *bin, double level, uint64_t drained_ns);

#endif
