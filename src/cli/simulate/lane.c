/* SPDX-License-Identifier: MIT
 *
 * The simulation itself: every arrival is decided by libweir, in a limiter of its own, at the time
 * that the recording gives it. */
#include <assert.h>
#include <string.h>

#include "cli/duration.h"
#include "cli/simulate/simulate.h"
#include "platform/random.h"
#include "platform/siphash.h"

/* So many at once are fast; an arrival may be under more limits than that. */
enum { REQUEST_COUNT = 64, REQUEST_COUNT_MAX = LANE_COUNT_MAX * LIMIT_LIST_COUNT_MAX };
_Static_assert(REQUEST_COUNT_MAX >= REQUEST_COUNT, "an arrival under every limit fits a batch");

/* No two limits of a list may be one bucket: of one name, or if they are written out, of one identity. */
static enum weir_status check_distinct(const struct simulate *simulate, const struct lane *lane,
                                       struct weir_error *error)
{
    struct weir_rule rules[LIMIT_LIST_COUNT_MAX];
    for (size_t i = 0; i < lane->list.count; i++) {
        weir_rule_init(&rules[i], simulate->limiter, &lane->tried[i].rule.limit);
        for (size_t j = 0; j < i; j++) {
            const struct named_limit *named = lane->tried[i].named;
            bool has_numbers =
                memcmp(rules[i].hash_key, rules[j].hash_key, sizeof rules[i].hash_key) == 0;
            if (named == lane->tried[j].named && (named != NULL || has_numbers)) {
                return limit_list_fail_twice(&lane->list, i, j, error);
            }
        }
    }
    return WEIR_OK;
}

/* By the numbers of lane and limit, so that the same limit may be given twice. */
static enum weir_status bind_lane(const struct simulate *simulate, struct lane *lane,
                                  struct weir_error *error)
{
    for (size_t i = 0; i < lane->list.count; i++) {
        const size_t name[] = {(size_t)(lane - simulate->lanes), i};
        const struct weir_limit limit = lane->tried[i].rule.limit;
        weir_rule_init_named(&lane->tried[i].rule, simulate->limiter, &limit, name, sizeof name);
    }
    return check_distinct(simulate, lane, error);
}

const struct weir_limit *tried_limit(const struct tried *tried, struct bytes key)
{
    return tried->named != NULL ? &named_limit_rule(tried->named, key.at, key.length)->rule.limit
                                : &tried->rule.limit;
}

const struct weir_rule *tried_rule(const struct tried *tried, struct bytes key,
                                   struct weir_rule *room)
{
    if (tried->named == NULL || tried->named->override_count == 0) {
        return &tried->rule;
    }
    *room = tried->rule; // a key keeps its numbers, so it keeps its bucket
    room->limit = *tried_limit(tried, key);
    return room;
}

static void note_limit(struct simulate *simulate, struct lane *lane, const struct weir_limit *limit)
{
    simulate->may_pass_full |= limit->on_full == WEIR_ON_FULL_ALLOW;
    lane->has_window |= limit->kind == WEIR_KIND_WINDOW;
}

/* A limit, and its overrides. */
static void note_tried(struct simulate *simulate, struct lane *lane, const struct tried *tried)
{
    const struct named_limit *named = tried->named;
    note_limit(simulate, lane, &tried->rule.limit);
    for (size_t i = 0; named != NULL && i < named->override_count; i++) {
        note_limit(simulate, lane, &named->overrides[i].numbers.rule.limit);
    }
}

/* Empty buckets, and the lanes bound to them. */
static int open_limiter(struct simulate *simulate)
{
    const struct weir_limiter_config config = {.memory_bytes = simulate->memory_bytes,
                                               .caller_clock = true};
    struct weir_error error;
    if (weir_limiter_open(&simulate->limiter, &config, &error) != WEIR_OK) {
        complain(simulate->command, "%s", error.message);
        return CLI_FAILED;
    }
    for (size_t i = 0; i < simulate->lane_count; i++) {
        struct lane *lane = &simulate->lanes[i];
        if (bind_lane(simulate, lane, &error) != WEIR_OK) {
            complain_at(simulate->command, lane->text, &error);
            return CLI_USAGE;
        }
        for (size_t j = 0; j < lane->list.count; j++) {
            note_tried(simulate, lane, &lane->tried[j]);
        }
    }
    return CLI_DONE;
}

int lanes_open(struct simulate *simulate)
{
    if (!random_fill(simulate->hash_key, sizeof simulate->hash_key)) {
        complain(simulate->command, "no random seed");
        return CLI_FAILED;
    }
    bool has_memory = watch_begin(simulate);
    for (size_t i = 0; i < simulate->lane_count && has_memory; i++) {
        has_memory = course_init(&simulate->lanes[i].all, &simulate->lanes[i]);
    }
    if (!has_memory) {
        complain(simulate->command, "out of memory");
        return CLI_FAILED;
    }
    return open_limiter(simulate);
}

void lanes_note_full(struct simulate *simulate)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(simulate->limiter, &stats);
    simulate->found_buckets_full = stats.full_count > 0;
    simulate->found_events_full = stats.events_full_count > 0;
}

int lanes_open_again(struct simulate *simulate)
{
    weir_limiter_close(simulate->limiter);
    simulate->limiter = NULL;
    return open_limiter(simulate);
}

static void note_closest(struct lane *lane, uint64_t key_hash, struct bytes key,
                         const struct weir_decision *decision)
{
    if (decision->verdict != WEIR_ALLOWED || decision->remaining >= lane->least_remaining) {
        return;
    }
    lane->least_remaining = decision->remaining;
    if (lane->closest.hash != key_hash || lane->closest.text[0] == '\0') {
        lane->closest.hash = key_hash;
        key_print(key.at, key.length, lane->closest.text);
    }
}

static void lane_note(const struct simulate *simulate, struct lane *lane,
                      const struct arrival *arrival, uint64_t key_hash,
                      const struct outcome *outcome)
{
    bool has_level = !simulate->recording.has_keys;
    if (course_note(simulate, lane, &lane->all, has_level, arrival, outcome)) {
        worst_add(&lane->worst, key_hash, arrival->key);
    }
    note_closest(lane, key_hash, arrival->key, outcome->whole);
    if (lane->watched != NULL && lane->watched->key.hash == key_hash) {
        watch_note(simulate, lane, arrival, outcome);
    }
    if (simulate->decisions != NULL) {
        decisions_write(simulate, lane, arrival, outcome);
    }
}

/* The first arrival: time begins here. */
static void begin_courses(struct simulate *simulate, uint64_t first_ns)
{
    bool whole_seconds = simulate->reader.format != FORMAT_CSV;
    uint64_t unit_ns = whole_seconds ? NS_PER_S : 1;
    for (size_t i = 0; i < simulate->lane_count; i++) {
        struct lane *lane = &simulate->lanes[i];
        lane->least_remaining = UINT64_MAX;
        course_begin(&lane->all, lane, first_ns, unit_ns);
        if (lane->watched != NULL) {
            course_begin(&lane->watched->course, lane, first_ns, unit_ns);
        }
    }
}

/* What a lane asks about an arrival. Returns how many questions that is. */
static size_t ask(const struct simulate *simulate, const struct lane *lane,
                  const struct arrival *arrival, struct weir_request *requests,
                  struct weir_rule *rules, struct weir_detail *details)
{
    for (size_t i = 0; i < lane->list.count; i++) {
        requests[i] = (struct weir_request){
            .rule = tried_rule(&lane->tried[i], arrival->key, &rules[i]),
            .key = arrival->key.at,
            .key_len = arrival->key.length,
            .cost_micro = arrival->cost_micro,
            .operation = simulate->fill ? WEIR_FILL : WEIR_TAKE,
            .and_next = i + 1 < lane->list.count,
            .detail = simulate->fill ? &details[i] : NULL,
        };
    }
    return lane->list.count;
}

/* What it was told. `whole` has room for what a list says together. */
static struct outcome outcome_of(const struct lane *lane, const struct weir_decision *decisions,
                                 const struct weir_detail *details, struct weir_decision *whole)
{
    struct outcome outcome = {.each = decisions, .whole = decisions, .detail = details};
    if (lane_is_list(lane)) {
        *whole = weir_decision_of_all(decisions, lane->list.count, &outcome.binding);
        outcome.whole = whole;
    }
    return outcome;
}

static void note(struct simulate *simulate, const struct arrival *arrival,
                 const struct weir_decision *decisions, const struct weir_detail *details,
                 const bool *found_full)
{
    uint64_t hash = siphash13(simulate->hash_key, arrival->key.at, arrival->key.length);
    if (simulate->recording.count == 0) {
        decisions_begin(simulate);
        begin_courses(simulate, arrival->at_ns);
    }
    recording_add(&simulate->recording, arrival->at_ns, arrival->cost_micro, hash);
    simulate->has_costs |= arrival->cost_micro != WEIR_UNIT;
    for (size_t i = 0, at = 0; i < simulate->lane_count; i++) {
        struct lane *lane = &simulate->lanes[i];
        struct weir_decision whole;
        struct outcome outcome = outcome_of(lane, decisions + at, details + at, &whole);
        outcome.found_full = found_full[at];
        lane_note(simulate, lane, arrival, hash, &outcome);
        at += lane->list.count;
    }
}

/* What the bucket of a request holds, times a denominator of its limit's. */
static uint128 level_of(const struct simulate *simulate, const struct weir_request *asked,
                        uint64_t at_ns)
{
    struct weir_detail detail;
    struct weir_decision unused;
    struct weir_request request = {
        .rule = asked->rule,
        .key = asked->key,
        .key_len = asked->key_len,
        .operation = WEIR_SHOW,
        .detail = &detail,
    };
    weir_limiter_decide_at(simulate->limiter, &request, &unused, 1, at_ns);
    return (uint128)detail.amount.numerator_high << 64 | detail.amount.numerator_low;
}

/* True if what was allowed left nothing behind: neither a bucket, nor in a window, which may have one from before,
 * its event. */
static bool left_nothing(const struct simulate *simulate, const struct weir_request *asked,
                         uint128 before, uint64_t at_ns)
{
    if (asked->rule->limit.on_full != WEIR_ON_FULL_ALLOW || asked->cost_micro == 0) {
        return false;
    }
    uint128 after = level_of(simulate, asked, at_ns);
    return after == 0 || (asked->rule->limit.kind == WEIR_KIND_WINDOW && after == before);
}

/* One lane's questions about one arrival. Returns true if it was let in although there was no room: what
 * on_full=allow answers looks like any other answer, so the buckets are looked at. */
static bool decide_and_look(const struct simulate *simulate, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t at_ns)
{
    uint128 before[LIMIT_LIST_COUNT_MAX];
    bool allowed = true;
    bool found_full = false;
    for (size_t i = 0; i < count; i++) {
        bool is_window = requests[i].rule->limit.kind == WEIR_KIND_WINDOW;
        before[i] = is_window ? level_of(simulate, &requests[i], at_ns) : 0;
    }
    weir_limiter_decide_at(simulate->limiter, requests, decisions, count, at_ns);
    for (size_t i = 0; i < count; i++) {
        allowed &= decisions[i].verdict == WEIR_ALLOWED;
    }
    for (size_t i = 0; i < count && allowed && !found_full; i++) {
        found_full = left_nothing(simulate, &requests[i], before[i], at_ns);
    }
    return found_full;
}

/* found_full[] is of the first of each lane's questions about an arrival. */
static void decide(const struct simulate *simulate, const struct weir_request *requests,
                   struct weir_decision *decisions, bool *found_full, size_t count, uint64_t at_ns)
{
    memset(found_full, 0, count * sizeof found_full[0]);
    if (!simulate->may_pass_full) {
        weir_limiter_decide_at(simulate->limiter, requests, decisions, count, at_ns);
        return;
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin + 1;
        while (requests[end - 1].and_next) {
            end++;
        }
        found_full[begin] =
            decide_and_look(simulate, requests + begin, decisions + begin, end - begin, at_ns);
    }
}

/* Arrivals at one instant: every one under every limit, in one batch. */
static void decide_batch(struct simulate *simulate, const struct arrival *arrivals, size_t count)
{
    struct weir_request requests[REQUEST_COUNT_MAX];
    struct weir_rule rules[REQUEST_COUNT_MAX]; // of those who have numbers of their own
    struct weir_decision decisions[REQUEST_COUNT_MAX];
    struct weir_detail details[REQUEST_COUNT_MAX];
    bool found_full[REQUEST_COUNT_MAX];
    size_t total = 0;
    assert(count > 0 && count * simulate->limit_count <= REQUEST_COUNT_MAX);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < simulate->lane_count; j++) {
            total += ask(simulate, &simulate->lanes[j], &arrivals[i], requests + total,
                         rules + total, details + total);
        }
    }
    decide(simulate, requests, decisions, found_full, total, arrivals[0].at_ns);
    for (size_t i = 0; i < count; i++) {
        size_t at = i * simulate->limit_count;
        note(simulate, &arrivals[i], decisions + at, details + at, found_full + at);
    }
}

void lanes_decide(struct simulate *simulate, const struct arrival *arrivals, size_t count)
{
    size_t limit_count = simulate->limit_count;
    size_t at_once = limit_count < REQUEST_COUNT ? REQUEST_COUNT / limit_count : 1;
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

static void decide_again(const struct simulate *simulate, const struct lane *lane,
                         const struct arrival *arrival)
{
    struct weir_request requests[LIMIT_LIST_COUNT_MAX];
    struct weir_rule rules[LIMIT_LIST_COUNT_MAX];
    struct weir_decision decisions[LIMIT_LIST_COUNT_MAX];
    struct weir_detail details[LIMIT_LIST_COUNT_MAX];
    struct weir_decision whole;
    size_t count = ask(simulate, lane, arrival, requests, rules, details);
    weir_limiter_decide_at(simulate->limiter, requests, decisions, count, arrival->at_ns);
    struct outcome outcome = outcome_of(lane, decisions, details, &whole);
    watch_note(simulate, lane, arrival, &outcome);
}

void lanes_decide_again(struct simulate *simulate, const struct arrival *arrivals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct arrival *arrival = &arrivals[i];
        uint64_t hash = siphash13(simulate->hash_key, arrival->key.at, arrival->key.length);
        for (size_t j = 0; j < simulate->lane_count; j++) {
            if (simulate->lanes[j].watched->key.hash == hash) {
                decide_again(simulate, &simulate->lanes[j], arrival);
            }
        }
    }
}
