/* SPDX-License-Identifier: MIT
 *
 * Swap: from the rows of buckets to their answers, and the rows that follow. */
#include "store/swap.h"

#include <assert.h>
#include <string.h>

#include "core/decision.h"
#include "core/operation.h"
#include "core/undecided.h"

_Static_assert(WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX < SWAP_DISPLACED_NS
                   && SWAP_DISPLACED_NS + BUCKET_REST_MASK < UINT64_C(1) << 63,
               "no moment of a bucket looks displaced, and one that does is a bigint");

/* ---- rows ---- */

/* A bucket and its block.
 *   bucket   its moment
 *   ends_ns  when its block ends, or ended
 *   flag     a block may run: the bucket is displaced */
struct place {
    struct weir_bucket bucket;
    uint64_t ends_ns;
    bool is_flagged;
};

/* A rest that no limit knows counts like any that is not below its denominator. */
static struct weir_bucket bucket_of(uint64_t ns, uint64_t rest)
{
    return (struct weir_bucket){ns, rest < BUCKET_REST_MASK ? rest : BUCKET_REST_MASK};
}

static struct place place_of(const struct swap_state *state)
{
    bool is_flagged = swap_is_displaced(state->bucket.ns);
    return (struct place){
        .bucket = is_flagged ? bucket_of(state->block.rest, state->bucket.ns - SWAP_DISPLACED_NS)
                             : bucket_of(state->bucket.ns, state->bucket.rest),
        .ends_ns = state->block.ns,
        .is_flagged = is_flagged,
    };
}

static struct swap_state state_of(const struct place *place)
{
    uint64_t ns = place->bucket.empty_at_ns;
    uint64_t rest = place->bucket.word;
    return place->is_flagged
               ? (struct swap_state){{SWAP_DISPLACED_NS + rest, 0}, {place->ends_ns, ns}}
               : (struct swap_state){{ns, rest}, {place->ends_ns, 0}};
}

static bool is_same_place(const struct place *a, const struct place *b)
{
    return a->bucket.empty_at_ns == b->bucket.empty_at_ns && a->bucket.word == b->bucket.word
           && a->ends_ns == b->ends_ns && a->is_flagged == b->is_flagged;
}

/* ---- blocks ---- */

static bool is_blocked(const struct place *place, uint64_t now_ns)
{
    return place->is_flagged && place->ends_ns > now_ns;
}

/* The key is let in. A reading that comes later, and is older, does not find the block either. */
static void end_block(struct place *place, uint64_t now_ns)
{
    place->ends_ns = place->ends_ns < now_ns ? place->ends_ns : now_ns;
    place->is_flagged = false;
}

/* Never brings the end forward. */
static void begin_block(struct place *place, uint64_t ends_ns)
{
    place->ends_ns = place->ends_ns > ends_ns ? place->ends_ns : ends_ns;
    place->is_flagged = true;
}

/* ---- one request ---- */

static void decide_block(const struct weir_request *request, struct place *place, uint64_t now_ns,
                         struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct span moment = bucket_moment(place->bucket, limit);
    if (request->detail != NULL) {
        *request->detail = (struct weir_detail){.existed = is_blocked(place, now_ns)};
    }
    if (request->operation == WEIR_BLOCK) {
        begin_block(place, operation_block_ends_ns(request, now_ns));
        operation_answer_blocked(decision, limit, moment, place->ends_ns, now_ns);
        return;
    }
    if (place->is_flagged) {
        end_block(place, now_ns);
    }
    kind_answer(decision, limit, (struct outcome){WEIR_ALLOWED, moment}, now_ns);
}

static void decide_one(const struct weir_request *request, struct place *place, uint64_t now_ns,
                       struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    if (request->operation == WEIR_BLOCK || request->operation == WEIR_UNBLOCK) {
        decide_block(request, place, now_ns, decision);
        return;
    }
    struct charge charge = charge_of(limit, request->cost_micro); // a reading is UTC: no offset
    if (place->is_flagged && operation_heeds_block(request, &charge)) {
        if (is_blocked(place, now_ns)) {
            struct span moment = bucket_moment(place->bucket, limit);
            operation_answer_blocked(decision, limit, moment, place->ends_ns, now_ns);
            operation_detail_blocked(request, place->bucket, now_ns);
            return;
        }
        end_block(place, now_ns);
    }
    struct weir_detail unused;
    struct weir_detail *detail = request->detail != NULL ? request->detail : &unused;
    struct outcome outcome = operation_apply(place->bucket, request, &charge, now_ns, detail);
    operation_answer(decision, request, &charge, outcome, now_ns);
    if (operation_changes(place->bucket, request, outcome)) {
        place->bucket = bucket_with_moment(place->bucket, outcome.moment);
    }
    if (operation_locks_out(request, outcome, detail)) {
        begin_block(place, kind_block_ends_ns(limit, outcome.moment, now_ns));
        decision_lock_out(decision, place->ends_ns, now_ns);
    }
}

/* ---- several, all or nothing ---- */

/* One request of a run.
 *   before  where its bucket stood */
struct member {
    struct charge charge;
    struct outcome outcome;
    struct span before;
};

/* What its own limit says; and its block, if one runs. One that is over ends. */
static void judge(const struct weir_request *request, struct place *place, uint64_t now_ns,
                  struct member *member)
{
    const struct weir_limit *limit = &request->rule->limit;
    member->charge = charge_of(limit, request->cost_micro);
    member->before = bucket_moment(place->bucket, limit);
    if (is_blocked(place, now_ns) && operation_heeds_block(request, &member->charge)) {
        member->outcome = (struct outcome){WEIR_BLOCKED, member->before};
        return;
    }
    if (place->is_flagged && !is_blocked(place, now_ns)) {
        end_block(place, now_ns);
    }
    member->outcome = kind_take(place->bucket, limit, &member->charge, now_ns);
}

static void answer_member(const struct weir_request *request, const struct member *member,
                          const struct place *place, bool agree, uint64_t now_ns,
                          struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    if (request->operation == WEIR_CAN_TAKE && request->detail != NULL) {
        *request->detail =
            (struct weir_detail){.existed = kind_empty_at_ns(limit, member->before) > now_ns};
    }
    if (member->outcome.verdict == WEIR_BLOCKED) {
        operation_answer_blocked(decision, limit, member->before, place->ends_ns, now_ns);
    } else {
        run_answer_take(decision, limit, &member->charge, member->outcome, member->before, agree,
                        now_ns);
    }
}

/* What is left of a member afterwards: it is charged, or its key is blocked, or neither. */
static void settle(const struct weir_request *request, const struct member *member,
                   struct run_word word, struct place *place, uint64_t now_ns,
                   struct weir_decision *decision)
{
    const struct weir_limit *limit = &request->rule->limit;
    struct outcome outcome = member->outcome;
    if (request->operation != WEIR_TAKE) {
        return;
    }
    if (run_word_agrees(word) && outcome.verdict == WEIR_ALLOWED
        && operation_changes(place->bucket, request, outcome)) {
        place->bucket = bucket_with_moment(place->bucket, outcome.moment);
    }
    if (run_word_locks_out(word) && !request->shadow && limit->block_ns != 0
        && outcome.verdict == WEIR_LIMITED) {
        begin_block(place, kind_block_ends_ns(limit, outcome.moment, now_ns));
        decision_lock_out(decision, place->ends_ns, now_ns);
    }
}

static void decide_run(const struct weir_request *requests, struct place *places, size_t count,
                       uint64_t now_ns, struct weir_decision *decisions)
{
    struct member members[WEIR_TOGETHER_MAX];
    struct run_word word = {.is_limited = false};
    for (size_t i = 0; i < count; i++) {
        judge(&requests[i], &places[i], now_ns, &members[i]);
        run_word_hear(&word, &requests[i], members[i].outcome.verdict);
    }
    bool agree = run_word_agrees(word);
    for (size_t i = 0; i < count; i++) {
        answer_member(&requests[i], &members[i], &places[i], agree, now_ns, &decisions[i]);
        settle(&requests[i], &members[i], word, &places[i], now_ns, &decisions[i]);
    }
}

/* ---- questions ---- */

bool swap_can_decide(const struct weir_request *requests, const uint8_t (*names)[BUCKET_NAME_BYTES],
                     size_t count)
{
    if (count > WEIR_TOGETHER_MAX || (count > 1 && !request_is_take(&requests[0]))) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!request_makes_sense(&requests[i]) || requests[i].operation != requests[0].operation
            || kind_has_log(&requests[i].rule->limit)) {
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (memcmp(names[i], names[j], BUCKET_NAME_BYTES) == 0) {
                return false;
            }
        }
    }
    return true;
}

static bool is_plain(const struct weir_request *request, bool is_run)
{
    const struct weir_limit *limit = &request->rule->limit;
    bool drains = limit->kind == WEIR_KIND_BUCKET || limit->kind == WEIR_KIND_QUEUE;
    return drains && request_makes_sense(request) && request_is_take(request)
           && limit->block_ns == 0 && !(is_run && request->shadow);
}

bool swap_is_needed(const struct weir_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_plain(&requests[i], count > 1) || requests[i].operation != requests[0].operation) {
            return true;
        }
    }
    return false;
}

bool swap_decide(const struct weir_request *requests, const uint8_t (*names)[BUCKET_NAME_BYTES],
                 size_t count, const struct swap_state *seen, uint64_t now_ns,
                 struct swap_state *next, struct weir_decision *decisions)
{
    struct place places[WEIR_TOGETHER_MAX];
    assert(count > 0);
    assert(count <= WEIR_TOGETHER_MAX);
    memcpy(next, seen, count * sizeof *seen);
    if (!swap_can_decide(requests, names, count)) {
        answer_nonsense(requests, decisions, count);
        return false;
    }
    now_ns = clamp_now(now_ns);
    for (size_t i = 0; i < count; i++) {
        places[i] = place_of(&seen[i]);
    }
    if (count == 1) {
        decide_one(requests, places, now_ns, decisions);
    } else {
        decide_run(requests, places, count, now_ns, decisions);
    }
    bool is_change = false;
    for (size_t i = 0; i < count; i++) {
        struct place before = place_of(&seen[i]);
        if (!is_same_place(&places[i], &before)) {
            next[i] = state_of(&places[i]);
            is_change = true;
        }
    }
    return is_change;
}
