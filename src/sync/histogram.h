/* SPDX-License-Identifier: MIT
 *
 * Durations by the million in a few kilobytes: how many fell into each of a fixed set of ranges.
 *
 *     struct histogram *histogram = calloc(1, sizeof *histogram);
 *     histogram_record(histogram, latency_ns);
 *     uint64_t p99_ns = histogram_percentile(histogram, 99.0);
 *
 * Log-linear: every power of two is cut into HISTOGRAM_STEPS equal ranges, so a value is known to
 * 1/32 (3.1 %) of itself, and values below 32 exactly. (G. Tene's HdrHistogram, with fixed
 * precision.) All zeroes is an empty one.
 *
 * Shared word   Written by           Order     Pairs with
 * all counts    the one owner        relaxed   nothing: statistics
 * Price of the race: a reader that merges while the owner records may see a count without the sum
 * that belongs to it, or the other way round. */
#ifndef WEIR_SYNC_HISTOGRAM_H
#define WEIR_SYNC_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_STEP_BITS = 5,
    HISTOGRAM_STEPS = 1 << HISTOGRAM_STEP_BITS,
    HISTOGRAM_VALUE_BITS = 44, // 2^44 ns: 4.9 hours; larger values count as the largest
    HISTOGRAM_RANGE_COUNT = (HISTOGRAM_VALUE_BITS - HISTOGRAM_STEP_BITS + 1) * HISTOGRAM_STEPS
};

struct histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t counts[HISTOGRAM_RANGE_COUNT];
};

/* Single owner. Never blocks, never allocates. */
void histogram_record(struct histogram *histogram, uint64_t value);

/* The same for `times` equal values. */
void histogram_record_many(struct histogram *histogram, uint64_t value, uint64_t times);

/* Adds what `from` holds to `into`, which the caller owns; `from` may be another thread's. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The largest value of the range in which the value of rank ceil(percent/100 * count) lies, but
 * never more than the largest recorded; 0 if empty. percent: 0 .. 100. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

/* How many recorded values are below `bound`. Exact where `bound` is a power of two. */
uint64_t histogram_count_below(const struct histogram *histogram, uint64_t bound);

#endif
