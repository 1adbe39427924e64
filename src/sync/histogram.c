/* SPDX-License-Identifier: MIT */
#include "sync/histogram.h"

#include <assert.h>
#include <stddef.h>

static const uint64_t VALUE_MAX = (UINT64_C(1) << HISTOGRAM_VALUE_BITS) - 1;

/* Range r of power p: the p-th block of HISTOGRAM_STEPS. Block 0 holds 0 .. 31 one by one; block b
 * holds 2^(b+4) .. 2^(b+5) - 1, each range 2^(b-1) wide. */
static size_t range_of(uint64_t value)
{
    if (value < HISTOGRAM_STEPS) {
        return (size_t)value;
    }
    unsigned top_bit = 63 - (unsigned)__builtin_clzll(value);
    unsigned shift = top_bit - HISTOGRAM_STEP_BITS;
    return ((size_t)(shift + 1) << HISTOGRAM_STEP_BITS) + (size_t)(value >> shift)
           - HISTOGRAM_STEPS;
}

static uint64_t range_last_value(size_t range)
{
    if (range < HISTOGRAM_STEPS) {
        return range;
    }
    unsigned shift = (unsigned)(range >> HISTOGRAM_STEP_BITS) - 1;
    uint64_t step = (range & (HISTOGRAM_STEPS - 1)) + HISTOGRAM_STEPS;
    return ((step + 1) << shift) - 1;
}

/* Relaxed: statistics with one writer; no other memory depends on them. */
static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void add(uint64_t *word, uint64_t amount)
{
    __atomic_store_n(word, load(word) + amount, __ATOMIC_RELAXED);
}

void histogram_record_many(struct histogram *histogram, uint64_t value, uint64_t times)
{
    if (value > VALUE_MAX) {
        value = VALUE_MAX;
    }
    add(&histogram->counts[range_of(value)], times);
    add(&histogram->count, times);
    add(&histogram->sum, value * times);
    if (value > load(&histogram->max) && times > 0) {
        __atomic_store_n(&histogram->max, value, __ATOMIC_RELAXED); // a statistic, as above
    }
}

void histogram_record(struct histogram *histogram, uint64_t value)
{
    histogram_record_many(histogram, value, 1);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_RANGE_COUNT; i++) {
        uint64_t count = load(&from->counts[i]);
        if (count > 0) {
            add(&into->counts[i], count);
            add(&into->count, count); // from the ranges: so that they always add up
        }
    }
    add(&into->sum, load(&from->sum));
    if (load(&from->max) > into->max) {
        into->max = load(&from->max);
    }
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    assert(percent >= 0.0 && percent <= 100.0);
    double rank = percent / 100.0 * (double)histogram->count;
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_RANGE_COUNT; i++) {
        seen += histogram->counts[i];
        if (histogram->counts[i] > 0 && (double)seen >= rank) {
            uint64_t last = range_last_value(i);
            return last < histogram->max ? last : histogram->max;
        }
    }
    return histogram->max;
}

uint64_t histogram_count_below(const struct histogram *histogram, uint64_t bound)
{
    uint64_t count = 0;
    for (size_t i = 0; i < HISTOGRAM_RANGE_COUNT && range_last_value(i) < bound; i++) {
        count += histogram->counts[i];
    }
    return count;
}
