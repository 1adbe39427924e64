/* SPDX-License-Identifier: MIT */
#include "cli/simulate/trace.h"

#include <assert.h>
#include <string.h>

void history_add(struct history *history, uint64_t at_ns, uint64_t cost_micro)
{
    if (history->count < KEPT_COUNT_MAX) {
        history->kept[history->count] = (struct kept){at_ns, cost_micro};
    }
    history->count++;
}

void recording_add(struct recording *recording, uint64_t at_ns, uint64_t cost_micro,
                   uint64_t key_hash)
{
    if (recording->count == 0) {
        recording->first_ns = recording->latest_ns = at_ns;
        recording->key_hash = key_hash;
    }
    recording->has_keys |= key_hash != recording->key_hash;
    history_add(&recording->history, at_ns, cost_micro);
    recording->count++;
    if (at_ns >= recording->latest_ns) {
        recording->latest_ns = at_ns;
        return;
    }
    uint64_t late_ns = recording->latest_ns - at_ns;
    recording->late_count++;
    recording->late_max_ns = late_ns > recording->late_max_ns ? late_ns : recording->late_max_ns;
    recording->first_ns = at_ns < recording->first_ns ? at_ns : recording->first_ns;
}

static struct bin merge(const struct bin *a, const struct bin *b)
{
    const struct bin *later = a->drained_ns > b->drained_ns ? a : b;
    return (struct bin){
        .admitted = a->admitted + b->admitted,
        .refused = a->refused + b->refused,
        .full = a->full + b->full,
        .leaving = a->leaving + b->leaving,
        .drained_ns = later->drained_ns,
        .level = later->level,
        .peak = a->peak > b->peak ? a->peak : b->peak,
    };
}

static void double_width(struct bins *bins)
{
    const size_t half = BIN_COUNT / 2;
    for (size_t i = 0; i < half; i++) {
        bins->bins[i] = merge(&bins->bins[2 * i], &bins->bins[2 * i + 1]);
    }
    memset(bins->bins + half, 0, half * sizeof bins->bins[0]);
    bins->shift++;
}

struct bin *bins_at(struct bins *bins, uint64_t at_ns)
{
    assert(at_ns >= bins->origin_ns);
    uint64_t units = (at_ns - bins->origin_ns) / bins->unit_ns;
    while (units >> bins->shift >= BIN_COUNT) {
        double_width(bins);
    }
    return &bins->bins[units >> bins->shift];
}

void bin_note_level(struct bin *bin, double level, uint64_t drained_ns)
{
    bin->peak = level > bin->peak ? level : bin->peak;
    if (drained_ns >= bin->drained_ns) {
        bin->drained_ns = drained_ns;
        bin->level = level;
    }
}
