/* SPDX-License-Identifier: MIT
 *
 * What came of arrivals: counted, and over time. */
#include <assert.h>
#include <stdlib.h>

#include "cli/simulate/simulate.h"

static void tally_verdict(struct tally *tally, const struct lane *lane,
                          const struct arrival *arrival, const struct outcome *outcome)
{
    enum weir_verdict verdict = outcome->whole->verdict;
    tally->of[verdict].count++;
    tally->of[verdict].micro += arrival->cost_micro;
    if (verdict == WEIR_ALLOWED) {
        tally->unchecked += outcome->found_full;
        return;
    }
    tally->by[outcome->binding][verdict]++;
    if (verdict == WEIR_NEVER) {
        const struct weir_limit *limit = tried_limit(&lane->tried[outcome->binding], arrival->key);
        tally->not_whole += arrival->cost_micro % limit->grain_micro != 0;
    }
}

static void tally_delay(struct tally *tally, const struct weir_decision *decision)
{
    if (decision->verdict == WEIR_ALLOWED && decision->delay_ns > 0) {
        uint64_t delay_ns = (uint64_t)decision->delay_ns;
        tally->delayed++;
        tally->delay_sum_ns += delay_ns;
        tally->delay_max_ns = delay_ns > tally->delay_max_ns ? delay_ns : tally->delay_max_ns;
    }
}

#define SPILL_DENOMINATOR_MAX ((uint128)1 << 96)
#define SPILL_ROUNDED         ((uint128)1000000000) // times 2^96 it fits 128 bits

/* Both parts of a unit in the same denominator, which it returns: of the sum, and what is added to it. */
static uint128 spill_join(struct spill *spill, uint128 *rest, uint128 denominator)
{
    uint128 ours = spill->denominator;
    assert(denominator > 0 && denominator <= SPILL_DENOMINATOR_MAX);
    if (ours == 0 || ours == denominator) {
        return denominator;
    }
    if (!spill->is_rounded) {
        uint128 factor = denominator / gcd128(ours, denominator); // 1: ours is a multiple
        if (factor <= SPILL_DENOMINATOR_MAX / ours) {
            spill->rest *= factor;
            *rest *= ours * factor / denominator;
            return ours * factor;
        }
        spill->is_rounded = true;
        spill->rest = spill->rest * SPILL_ROUNDED / ours;
    }
    *rest = *rest * SPILL_ROUNDED / denominator;
    return SPILL_ROUNDED;
}

static void tally_spill(struct tally *tally, const struct weir_amount *amount)
{
    uint128 numerator = (uint128)amount->numerator_high << 64 | amount->numerator_low;
    uint128 denominator = (uint128)amount->denominator_high << 64 | amount->denominator_low;
    if (numerator == 0) {
        return;
    }
    struct spill *spill = &tally->spill;
    uint128 rest = numerator % denominator;
    tally->spilled++;
    spill->denominator = spill_join(spill, &rest, denominator);
    spill->rest += rest;
    spill->units += numerator / denominator + spill->rest / spill->denominator;
    spill->rest %= spill->denominator;
}

static void tally_fill(struct tally *tally, const struct arrival *arrival,
                       const struct weir_decision *decision, const struct weir_detail *detail)
{
    if (decision->verdict != WEIR_ALLOWED) {
        return;
    }
    tally_spill(tally, &detail->amount);
    if (detail->full && arrival->cost_micro > 0) {
        if (tally->full < FULL_SHOWN_MAX) {
            tally->full_at_ns[tally->full] = arrival->at_ns;
        }
        tally->full++;
    }
}

const struct missed_words *lane_missed_words(const struct simulate *simulate,
                                             const struct lane *lane)
{
    static const struct missed_words REFUSED = {"refused", ", refused most often", "refused"};
    static const struct missed_words TURNED_AWAY = {"turned away", ", turned away most often",
                                                    "turned away"};
    static const struct missed_words SPILLED = {"spilled", ", spilled most often", "spilled"};
    static const struct missed_words BOTH = {"spilled or turned away",
                                             ", spilled or turned away most often", "spilled etc."};
    const struct tally *tally = &lane->all.tally;
    uint64_t turned_away = tally_turned_away(tally);
    if (simulate->fill) {
        return turned_away == 0 ? &SPILLED : &BOTH;
    }
    return turned_away == tally->of[WEIR_LIMITED].count ? &REFUSED : &TURNED_AWAY;
}

/* The level now, for pictures only. */
static double level_at(const struct simulate *simulate, const struct weir_rule *rule,
                       struct bytes key, uint64_t now_ns)
{
    struct weir_detail detail;
    struct weir_decision unused;
    struct weir_request request = {
        .rule = rule,
        .key = key.at,
        .key_len = key.length,
        .operation = WEIR_SHOW,
        .detail = &detail,
    };
    weir_limiter_decide_at(simulate->limiter, &request, &unused, 1, now_ns);
    return amount_value(&detail.amount);
}

bool course_init(struct course *course, const struct lane *lane)
{
    if (lane_is_list(lane)) {
        course->each = calloc(lane->list.count, sizeof course->each[0]);
    }
    return course->each != NULL || !lane_is_list(lane);
}

void course_fini(struct course *course)
{
    free(course->each);
    course->each = NULL;
}

static void begin_bins(struct bins *bins, uint64_t origin_ns, uint64_t unit_ns)
{
    bins->origin_ns = origin_ns;
    bins->unit_ns = unit_ns;
}

void course_begin(struct course *course, const struct lane *lane, uint64_t origin_ns,
                  uint64_t unit_ns)
{
    course->latest_ns = origin_ns;
    begin_bins(&course->arriving, origin_ns, unit_ns);
    begin_bins(&course->leaving, origin_ns, unit_ns);
    for (size_t i = 0; course->each != NULL && i < lane->list.count; i++) {
        begin_bins(&course->each[i], origin_ns, unit_ns);
    }
}

static void note_level(const struct simulate *simulate, const struct lane *lane, size_t i,
                       struct course *course, struct bin *bin, const struct arrival *arrival,
                       const struct weir_decision *decision)
{
    struct weir_rule room;
    const struct weir_rule *rule = tried_rule(&lane->tried[i], arrival->key, &room);
    course->limits[i] = tried_limit(&lane->tried[i], arrival->key);
    if (decision->reset_after_ns >= 0) {
        bin_note_level(bin, level_at(simulate, rule, arrival->key, course->latest_ns),
                       arrival->at_ns + (uint64_t)decision->reset_after_ns);
    }
}

/* Whatever the whole list was refused for, it was one of its limits that refused. */
static void note_each(const struct simulate *simulate, const struct lane *lane,
                      struct course *course, bool has_level, const struct arrival *arrival,
                      const struct outcome *outcome)
{
    bool allowed = outcome->whole->verdict == WEIR_ALLOWED;
    for (size_t i = 0; i < lane->list.count; i++) {
        struct bin *bin = bins_at(&course->each[i], course->latest_ns);
        bin->admitted += allowed;
        bin->refused += !allowed && (size_t)outcome->binding == i;
        if (has_level) {
            note_level(simulate, lane, i, course, bin, arrival, &outcome->each[i]);
        }
    }
}

bool course_note(const struct simulate *simulate, const struct lane *lane, struct course *course,
                 bool has_level, const struct arrival *arrival, const struct outcome *outcome)
{
    struct tally *tally = &course->tally;
    const struct weir_decision *decision = outcome->whole;
    uint64_t spilled_before = tally->spilled;
    uint64_t full_before = tally->full;
    tally_verdict(tally, lane, arrival, outcome);
    if (simulate->fill) {
        tally_fill(tally, arrival, decision, outcome->detail);
    } else {
        tally_delay(tally, decision);
    }
    bool went_over = decision->verdict != WEIR_ALLOWED || tally->spilled > spilled_before;
    /* Late arrivals are shown at the latest time so far: a picture does not run backwards. */
    course->latest_ns = arrival->at_ns > course->latest_ns ? arrival->at_ns : course->latest_ns;
    struct bin *bin = bins_at(&course->arriving, course->latest_ns);
    bin->admitted += !went_over;
    bin->refused += went_over;
    bin->full += tally->full - full_before;
    if (course->each != NULL) {
        note_each(simulate, lane, course, has_level, arrival, outcome);
    } else if (has_level) {
        note_level(simulate, lane, 0, course, bin, arrival, decision);
    }
    if (decision->verdict == WEIR_ALLOWED && decision->delay_ns > 0) {
        uint64_t leaves_ns = arrival->at_ns + (uint64_t)decision->delay_ns;
        uint64_t latest_ns = course->latest_ns;
        bins_at(&course->leaving, leaves_ns > latest_ns ? leaves_ns : latest_ns)->leaving++;
    }
    return went_over;
}
