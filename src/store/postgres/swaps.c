/* SPDX-License-Identifier: MIT */
#include "store/postgres/swaps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/bucket_math.h"
#include "weir/clock.h"

/* One bucket of a round.
 *   parent      of its group, as a forest: a bucket that is its own parent stands for the group
 *   is_changed  of one that stands for a group: there is something to write
 *   not_after   likewise: until when
 *   group       likewise: its number, if there is */
struct swap_bucket {
    struct swap_state seen, next;
    uint64_t not_after;
    uint32_t parent, group;
    bool is_changed;
};

/* Of each bucket two rows, its own and that of its block. In a read they are 2 i and 2 i + 1.
 *   room        in questions
 *   by_name     the questions of all open runs
 *   read_names  of the read; all that follows is of the write
 *   starts      where the rows of a group begin, and where those of the last one end
 *   ends        what was noted of each group */
struct swap_round {
    size_t room, bucket_count;
    struct question **by_name;
    struct swap_bucket *buckets;
    uint8_t (*read_names)[BUCKET_NAME_BYTES];
    uint8_t (*names)[BUCKET_NAME_BYTES];
    struct swap_row *seen, *next;
    uint64_t *not_after;
    uint32_t *groups, *starts;
    enum swap_end *ends;
    uint32_t group_count;
    max_align_t memory[];
};

void swaps_add(struct swaps *swaps, struct question *questions)
{
    size_t count = question_run_length(questions);
    for (size_t i = 0; i < count; i++) {
        questions[i].is_swap = true;
    }
    swaps->runs[swaps->run_count++] =
        (struct swap_run){.questions = questions, .count = (uint32_t)count};
}

/* ---- memory ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

/* For so many questions: each may be about a bucket of its own, and that a group of its own. */
static struct swap_round *make_round(size_t room)
{
    const size_t sizes[] = {
        aligned(room * sizeof(struct question *)),   aligned(room * sizeof(struct swap_bucket)),
        aligned(2 * room * BUCKET_NAME_BYTES),       aligned(2 * room * BUCKET_NAME_BYTES),
        aligned(2 * room * sizeof(struct swap_row)), aligned(2 * room * sizeof(struct swap_row)),
        aligned(2 * room * sizeof(uint64_t)),        aligned(2 * room * sizeof(uint32_t)),
        aligned((room + 1) * sizeof(uint32_t)),      aligned(room * sizeof(enum swap_end))};
    size_t bytes = sizeof(struct swap_round);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bytes += sizes[i];
    }
    struct swap_round *round = malloc(bytes);
    if (round == NULL) {
        return NULL;
    }
    char *at = (char *)round->memory;
    *round = (struct swap_round){.room = room};
    round->by_name = (void *)at;
    round->buckets = (void *)(at += sizes[0]);
    round->read_names = (void *)(at += sizes[1]);
    round->names = (void *)(at += sizes[2]);
    round->seen = (void *)(at += sizes[3]);
    round->next = (void *)(at += sizes[4]);
    round->not_after = (void *)(at += sizes[5]);
    round->groups = (void *)(at += sizes[6]);
    round->starts = (void *)(at += sizes[7]);
    round->ends = (void *)(at += sizes[8]);
    return round;
}

static size_t count_open(const struct swaps *swaps)
{
    size_t count = 0;
    for (size_t i = 0; i < swaps->run_count; i++) {
        count += swaps->runs[i].state == SWAP_OPEN ? swaps->runs[i].count : 0;
    }
    return count;
}

/* A first round has all questions, and a later one some of them. */
static bool has_memory(struct swaps *swaps, size_t count)
{
    if (swaps->round == NULL) {
        swaps->round = make_round(count);
    }
    return swaps->round != NULL && count <= swaps->round->room;
}

/* ---- what is read ---- */

static int compare_names(const void *a, const void *b)
{
    const struct question *const *left = a, *const *right = b;
    return memcmp((*left)->planned.name, (*right)->planned.name, BUCKET_NAME_BYTES);
}

/* Numbers the buckets of all open runs, in the order of their names. */
static void number_buckets(struct swaps *swaps)
{
    struct swap_round *round = swaps->round;
    size_t count = 0;
    for (size_t i = 0; i < swaps->run_count; i++) {
        const struct swap_run *run = &swaps->runs[i];
        for (size_t j = 0; run->state == SWAP_OPEN && j < run->count; j++) {
            round->by_name[count++] = &run->questions[j];
        }
    }
    qsort(round->by_name, count, sizeof *round->by_name, compare_names);
    round->bucket_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_names(&round->by_name[i - 1], &round->by_name[i]) != 0) {
            size_t number = round->bucket_count++;
            round->buckets[number] = (struct swap_bucket){.parent = (uint32_t)number};
            memcpy(round->read_names[2 * number], round->by_name[i]->planned.name,
                   BUCKET_NAME_BYTES);
            swap_block_name(round->read_names[2 * number + 1], round->read_names[2 * number]);
        }
        round->by_name[i]->bucket = (uint32_t)(round->bucket_count - 1);
    }
}

bool swaps_begin(struct swaps *swaps, struct swap_rows *rows)
{
    size_t count = count_open(swaps);
    if (count == 0 || swaps->tries == SWAP_TRIES_MAX || !has_memory(swaps, count)) {
        swaps_give_up(swaps);
        return false;
    }
    swaps->tries++;
    number_buckets(swaps);
    *rows =
        (struct swap_rows){.names = (const uint8_t(*)[BUCKET_NAME_BYTES])swaps->round->read_names,
                           .count = 2 * swaps->round->bucket_count};
    return true;
}

void swaps_see(struct swaps *swaps, size_t row, struct swap_row seen)
{
    struct swap_bucket *bucket = &swaps->round->buckets[row / 2];
    assert(row < 2 * swaps->round->bucket_count);
    if (row % 2 == 0) {
        bucket->seen.bucket = bucket->next.bucket = seen;
    } else {
        bucket->seen.block = bucket->next.block = seen;
    }
}

/* ---- deciding ---- */

static struct swap_bucket *root_of(struct swap_round *round, uint32_t bucket)
{
    while (round->buckets[bucket].parent != bucket) {
        uint32_t parent = round->buckets[bucket].parent;
        bucket = round->buckets[bucket].parent = round->buckets[parent].parent; // halves the way
    }
    return &round->buckets[bucket];
}

static void join_groups(struct swap_round *round, const struct swap_run *run)
{
    for (size_t i = 1; i < run->count; i++) {
        struct swap_bucket *one = root_of(round, run->questions[0].bucket);
        struct swap_bucket *other = root_of(round, run->questions[i].bucket);
        other->parent = (uint32_t)(one - round->buckets);
    }
}

/* What no row can hold: rows that somebody else has written may lead there. */
static bool fits_a_row(const struct swap_state *state)
{
    uint64_t all = state->bucket.ns | state->bucket.rest | state->block.ns | state->block.rest;
    return all >> 63 == 0;
}

/* From where the runs before it have led. */
static void decide_run(struct swap_round *round, struct swap_run *run, uint64_t reading)
{
    struct question_request request;
    struct swap_state seen[WEIR_TOGETHER_MAX], next[WEIR_TOGETHER_MAX];
    struct weir_decision decisions[WEIR_TOGETHER_MAX];
    bool fits = true;
    question_request(&request, run->questions, run->count);
    for (size_t i = 0; i < run->count; i++) {
        seen[i] = round->buckets[run->questions[i].bucket].next;
        if (run->questions[i].detail != NULL) { // of a try before
            *run->questions[i].detail = (struct weir_detail){.amount = amount_of(0, 1)};
        }
    }
    (void)swap_decide(request.requests, (const uint8_t(*)[BUCKET_NAME_BYTES])request.names,
                      run->count, seen, reading, next, decisions);
    for (size_t i = 0; i < run->count; i++) {
        fits = fits && fits_a_row(&next[i]);
    }
    for (size_t i = 0; fits && i < run->count; i++) {
        round->buckets[run->questions[i].bucket].next = next[i];
        *run->questions[i].decision = decisions[i];
    }
    run->state = fits ? SWAP_WRITING : SWAP_FAILED;
}

/* Until which reading of the store's clock its asker waits. `reading` was taken before `clock_ns`; each may be off by
 * a little. 0: it waits no more. */
static uint64_t ends_at(const struct swap_run *run, uint64_t reading, uint64_t clock_ns)
{
    const struct batch *batch = run->questions[0].batch;
    uint64_t error_ns = 2 * WEIR_CLOCK_ERROR_NS_MAX;
    return batch->deadline_ns > clock_ns + error_ns
               ? reading + (batch->deadline_ns - clock_ns - error_ns)
               : 0;
}

static bool is_same_state(const struct swap_state *a, const struct swap_state *b)
{
    return swap_is_same_row(a->bucket, b->bucket) && swap_is_same_row(a->block, b->block);
}

/* Adds up, where groups are stood for, what is known of their buckets and runs. */
static void sum_up(struct swaps *swaps, uint64_t reading, uint64_t clock_ns)
{
    struct swap_round *round = swaps->round;
    for (size_t i = 0; i < round->bucket_count; i++) {
        struct swap_bucket *bucket = &round->buckets[i];
        struct swap_bucket *root = root_of(round, (uint32_t)i);
        root->is_changed = root->is_changed || !is_same_state(&bucket->seen, &bucket->next);
        root->not_after = UINT64_MAX;
    }
    for (size_t i = 0; i < swaps->run_count; i++) {
        const struct swap_run *run = &swaps->runs[i];
        if (run->state == SWAP_WRITING) {
            struct swap_bucket *root = root_of(round, run->questions[0].bucket);
            uint64_t end = ends_at(run, reading, clock_ns);
            root->not_after = end < root->not_after ? end : root->not_after;
        }
    }
}

static void number_groups(struct swap_round *round)
{
    round->group_count = 0;
    for (size_t i = 0; i < round->bucket_count; i++) {
        if (round->buckets[i].parent == i && round->buckets[i].is_changed) {
            round->ends[round->group_count] = SWAP_UNHEARD;
            round->buckets[i].group = round->group_count++;
        }
    }
}

/* ---- what is written ---- */

static bool is_written(struct swap_round *round, size_t bucket)
{
    return root_of(round, (uint32_t)bucket)->is_changed;
}

/* A bucket has the row of its block with it where it may matter. */
static uint32_t count_rows(const struct swap_bucket *bucket)
{
    return swap_has_block(&bucket->seen) || swap_has_block(&bucket->next) ? 2 : 1;
}

static void put_row(struct swap_round *round, uint32_t at, size_t bucket, bool of_block)
{
    const struct swap_bucket *own = &round->buckets[bucket];
    const struct swap_bucket *root = root_of(round, (uint32_t)bucket);
    memcpy(round->names[at], round->read_names[2 * bucket + of_block], BUCKET_NAME_BYTES);
    round->seen[at] = of_block ? own->seen.block : own->seen.bucket;
    round->next[at] = of_block ? own->next.block : own->next.bucket;
    round->not_after[at] = root->not_after;
    round->groups[at] = root->group;
}

/* Counts the rows of each group, adds up where each ends, and fills it from there. */
static void lay_out(struct swap_round *round)
{
    memset(round->starts, 0, (round->group_count + 1) * sizeof *round->starts);
    for (size_t i = 0; i < round->bucket_count; i++) {
        if (is_written(round, i)) {
            round->starts[root_of(round, (uint32_t)i)->group] += count_rows(&round->buckets[i]);
        }
    }
    for (uint32_t group = 1; group <= round->group_count; group++) {
        round->starts[group] += round->starts[group - 1];
    }
    for (size_t i = 0; i < round->bucket_count; i++) {
        if (is_written(round, i)) {
            uint32_t *end = &round->starts[root_of(round, (uint32_t)i)->group];
            put_row(round, --*end, i, false);
            if (count_rows(&round->buckets[i]) == 2) {
                put_row(round, --*end, i, true);
            }
        }
    }
}

/* Groups that change nothing are answered. */
static void end_unchanged(struct swaps *swaps)
{
    for (size_t i = 0; i < swaps->run_count; i++) {
        struct swap_run *run = &swaps->runs[i];
        if (run->state == SWAP_WRITING) {
            const struct swap_bucket *root = root_of(swaps->round, run->questions[0].bucket);
            run->state = root->is_changed ? SWAP_WRITING : SWAP_DONE;
            run->group = root->group;
        }
    }
}

uint32_t swaps_decide(struct swaps *swaps, uint64_t reading, uint64_t clock_ns)
{
    reading = clamp_now(reading);
    for (size_t i = 0; i < swaps->run_count; i++) {
        struct swap_run *run = &swaps->runs[i];
        if (run->state == SWAP_OPEN && ends_at(run, reading, clock_ns) == 0) {
            run->state = SWAP_FAILED;
        } else if (run->state == SWAP_OPEN) {
            join_groups(swaps->round, run);
            decide_run(swaps->round, run, reading);
        }
    }
    sum_up(swaps, reading, clock_ns);
    number_groups(swaps->round);
    lay_out(swaps->round);
    end_unchanged(swaps);
    return swaps->round->group_count;
}

struct swap_rows swaps_write(const struct swaps *swaps, uint32_t first, uint32_t count)
{
    const struct swap_round *round = swaps->round;
    uint32_t at = round->starts[first];
    return (struct swap_rows){.names = (const uint8_t(*)[BUCKET_NAME_BYTES])round->names + at,
                              .seen = round->seen + at,
                              .next = round->next + at,
                              .not_after = round->not_after + at,
                              .groups = round->groups + at,
                              .count = round->starts[first + count] - at};
}

/* ---- the end ---- */

bool swaps_note(struct swaps *swaps, uint32_t group, enum swap_end end)
{
    bool is_there = swaps->round != NULL && group < swaps->round->group_count;
    if (is_there) {
        swaps->round->ends[group] = end;
    }
    return is_there;
}

void swaps_end(struct swaps *swaps)
{
    static const enum swap_run_state STATES[] = {[SWAP_UNHEARD] = SWAP_WRITING,
                                                 [SWAP_WRITTEN] = SWAP_DONE,
                                                 [SWAP_CHANGED] = SWAP_OPEN,
                                                 [SWAP_BROKEN] = SWAP_FAILED};
    for (size_t i = 0; i < swaps->run_count; i++) {
        struct swap_run *run = &swaps->runs[i];
        if (run->state == SWAP_WRITING) {
            run->state = STATES[swaps->round->ends[run->group]];
        }
    }
}

void swaps_give_up(struct swaps *swaps)
{
    for (size_t i = 0; i < swaps->run_count; i++) {
        if (swaps->runs[i].state == SWAP_OPEN) {
            swaps->runs[i].state = SWAP_FAILED;
        }
    }
}

void swaps_free(struct swaps *swaps)
{
    free(swaps->round);
    swaps->round = NULL;
}
