/* SPDX-License-Identifier: MIT
 *
 * The simulation itself: every arrival is decided by libweir, in a limiter of its own, at the time
 * that the recording gives it. */
#include <assert.h>

#include "cli/duration.h"
#include "cli/simulate/simulate.h"
#include "platform/random.h"
#include "store/table/siphash.h"

enum { REQUEST_COUNT_MAX = 64 };
_Static_assert(REQUEST_COUNT_MAX - LANE_COUNT_MAX >= 0,
               "an arrival under every limit fits a batch");

int lanes_open(struct simulate *simulate)
{
    const struct weir_limiter_config config = {.memory_bytes = simulate->memory_bytes,
                                               .caller_clock = true};
    struct weir_error error;
    if (weir_limiter_open(&simulate->limiter, &config, &error) != WEIR_OK) {
        complain(simulate->command, "%s", error.message);
        return CLI_FAILED;
    }
    if (!random_fill(simulate->hash_key, sizeof simulate->hash_key)) {
        complain(simulate->command, "no random seed");
        return CLI_FAILED;
    }
    for (size_t i = 0; i < simulate->lane_count; i++) {
        struct lane *lane = &simulate->lanes[i];
        struct weir_limit limit;
        if (weir_limit_init(&limit, &lane->config, &error) != WEIR_OK) {
            complain(simulate->command, "%s", error.message);
            return CLI_USAGE;
        }
        /* By its number, so that the same limit may be given twice. */
        weir_rule_init_named(&lane->rule, simulate->limiter, &limit, &i, sizeof i);
    }
    return CLI_DONE;
}

static void tally_take(struct tally *tally, const struct arrival *arrival,
                       const struct weir_decision *decision)
{
    switch (decision->verdict) {
    case WEIR_ALLOWED:
        tally->admitted++;
        tally->admitted_micro += arrival->cost_micro;
        if (decision->delay_ns > 0) {
            uint64_t delay_ns = (uint64_t)decision->delay_ns;
            tally->delayed++;
            tally->delay_sum_ns += delay_ns;
            tally->delay_max_ns = delay_ns > tally->delay_max_ns ? delay_ns : tally->delay_max_ns;
        }
        return;
    case WEIR_LIMITED: tally->refused++; break;
    case WEIR_NEVER: tally->never++; break;
    case WEIR_BLOCKED: tally->blocked++; break;
    case WEIR_FAILED: tally->no_room++; break;
    }
    tally->refused_micro += arrival->cost_micro;
}

/* Of one limit all spills have the same denominator. */
static void tally_spill(struct tally *tally, const struct weir_amount *spill)
{
    uint128 numerator = (uint128)spill->numerator_high << 64 | spill->numerator_low;
    uint128 denominator = (uint128)spill->denominator_high << 64 | spill->denominator_low;
    if (numerator == 0) {
        return;
    }
    tally->spilled++;
    tally->spill_denominator = denominator;
    tally->spill_rest += numerator % denominator;
    tally->spill_units += numerator / denominator + tally->spill_rest / denominator;
    tally->spill_rest %= denominator;
}

static void tally_fill(struct tally *tally, const struct arrival *arrival,
                       const struct weir_decision *decision, const struct weir_detail *detail)
{
    if (decision->verdict != WEIR_ALLOWED) {
        tally->blocked += decision->verdict == WEIR_BLOCKED;
        tally->no_room += decision->verdict != WEIR_BLOCKED;
        return;
    }
    tally->admitted++;
    tally->admitted_micro += arrival->cost_micro;
    tally_spill(tally, &detail->amount);
    if (detail->full && arrival->cost_micro > 0) {
        if (tally->full < FULL_SHOWN_MAX) {
            tally->full_at_ns[tally->full] = arrival->at_ns;
        }
        tally->full++;
    }
}

/* The level now, for pictures only. */
static double level_at(const struct simulate *simulate, const struct lane *lane, struct bytes key,
                       uint64_t now_ns)
{
    struct weir_detail detail;
    struct weir_decision unused;
    struct weir_request request = {
        .rule = &lane->rule,
        .key = key.at,
        .key_len = key.length,
        .operation = WEIR_SHOW,
        .detail = &detail,
    };
    weir_limiter_decide_at(simulate->limiter, &request, &unused, 1, now_ns);
    return amount_value(&detail.amount);
}

/* Late arrivals are shown at the latest time so far: a picture does not run backwards. */
static void note_bin(const struct simulate *simulate, struct lane *lane,
                     const struct arrival *arrival, const struct weir_decision *decision,
                     bool went_over, bool full)
{
    uint64_t latest_ns = simulate->recording.latest_ns;
    struct bin *bin = bins_at(&lane->arriving, latest_ns);
    bin->admitted += !went_over;
    bin->refused += went_over;
    bin->full += full;
    if (decision->reset_after_ns >= 0 && !simulate->recording.has_keys) {
        bin_note_level(bin, level_at(simulate, lane, arrival->key, latest_ns),
                       arrival->at_ns + (uint64_t)decision->reset_after_ns);
    }
    if (decision->verdict == WEIR_ALLOWED && decision->delay_ns > 0) {
        uint64_t leaves_ns = arrival->at_ns + (uint64_t)decision->delay_ns;
        bins_at(&lane->leaving, leaves_ns > latest_ns ? leaves_ns : latest_ns)->leaving++;
    }
}

static void lane_note(const struct simulate *simulate, struct lane *lane,
                      const struct arrival *arrival, uint64_t key_hash,
                      const struct weir_decision *decision, const struct weir_detail *detail)
{
    uint64_t before = lane->tally.spilled + tally_refused(&lane->tally);
    uint64_t full_before = lane->tally.full;
    if (simulate->fill) {
        tally_fill(&lane->tally, arrival, decision, detail);
    } else {
        tally_take(&lane->tally, arrival, decision);
    }
    bool went_over = lane->tally.spilled + tally_refused(&lane->tally) > before;
    bool full = lane->tally.full > full_before;
    if (went_over) {
        worst_add(&lane->worst, key_hash, arrival->key);
    }
    note_bin(simulate, lane, arrival, decision, went_over, full);
    if (simulate->decisions != NULL) {
        decisions_write(simulate, lane, arrival, decision, detail);
    }
}

/* The first arrival: time begins here. */
static void begin_bins(struct simulate *simulate, uint64_t first_ns)
{
    bool whole_seconds = simulate->reader.format != FORMAT_CSV;
    for (size_t i = 0; i < simulate->lane_count; i++) {
        struct lane *lane = &simulate->lanes[i];
        lane->arriving.origin_ns = lane->leaving.origin_ns = first_ns;
        lane->arriving.unit_ns = lane->leaving.unit_ns = whole_seconds ? NS_PER_S : 1;
    }
}

/* Arrivals at one instant: every one under every limit, in one batch. */
static void decide_batch(struct simulate *simulate, const struct arrival *arrivals, size_t count)
{
    struct weir_request requests[REQUEST_COUNT_MAX];
    struct weir_decision decisions[REQUEST_COUNT_MAX];
    struct weir_detail details[REQUEST_COUNT_MAX];
    size_t total = 0;
    assert(count * simulate->lane_count <= REQUEST_COUNT_MAX);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < simulate->lane_count; j++, total++) {
            requests[total] = (struct weir_request){
                .rule = &simulate->lanes[j].rule,
                .key = arrivals[i].key.at,
                .key_len = arrivals[i].key.length,
                .cost_micro = arrivals[i].cost_micro,
                .operation = simulate->fill ? WEIR_FILL : WEIR_TAKE,
                .detail = simulate->fill ? &details[total] : NULL,
            };
        }
    }
    assert(total > 0);
    weir_limiter_decide_at(simulate->limiter, requests, decisions, total, arrivals[0].at_ns);
    for (size_t i = 0; i < count; i++) {
        const struct arrival *arrival = &arrivals[i];
        uint64_t hash = siphash13(simulate->hash_key, arrival->key.at, arrival->key.length);
        if (simulate->recording.count == 0) {
            begin_bins(simulate, arrival->at_ns);
        }
        recording_add(&simulate->recording, arrival->at_ns, arrival->cost_micro, hash);
        simulate->has_costs |= arrival->cost_micro != WEIR_UNIT;
        for (size_t j = 0; j < simulate->lane_count; j++) {
            size_t at = i * simulate->lane_count + j;
            lane_note(simulate, &simulate->lanes[j], arrival, hash, &decisions[at], &details[at]);
        }
    }
}

void lanes_decide(struct simulate *simulate, const struct arrival *arrivals, size_t count)
{
    size_t at_once = REQUEST_COUNT_MAX / simulate->lane_count;
    for (size_t begin = 0; begin < count;) {
        size_t end = begin + 1;
        while (end < count && end - begin < at_once
               && arrivals[end].at_ns == arrivals[begin].at_ns) {
            end++;
        }
        decide_batch(simulate, arrivals + begin, end - begin);
        begin = end;
    }
}
