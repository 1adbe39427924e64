/* SPDX-License-Identifier: MIT
 *
 * The planner, in three steps: sort the questions by name (plan_names.c), find a wave for each, write the plan down.
 *
 * How waves are found. A name is held for the rest of a wave, by a fold or by runs. A fold is all questions that are
 * equal: takes of one name with the same numbers, or reads of one name. In each wave all batches walk, each through its
 * own questions. A batch walks on as long as the names that it comes to are free, or held by the fold of its question.
 * If a name is held by others the batch waits, in its question's fold or among the waiting runs.
 *
 *     batch 1: X1 X2      wave 0   X is held by X1   batch 1 takes its X1, and waits for X2
 *     batch 2: X2 X1                                 batch 2 waits for X2
 *     batch 3: X1                                    batch 3 takes its X1, and is through
 *                         wave 1   X is held by X2   batches 1 and 2 take it. 1 is through, and 2 waits for X1
 *                         wave 2   X is held by X1   batch 2 takes it
 *
 * A wave begins with those that wait, before any batch walks. First all waiting runs get their names: runs never hinder
 * each other. Then each name that no run holds goes to the fold that has waited longest for it. So each wave answers at
 * least one question, and no name is waited for in vain.
 *
 * Why that is linear. A question waits once at most, and is looked at when it comes and when its wait ends. Beside
 * that, a wave looks at each name for which folds wait. In that wave the name is held by a question that gets its place,
 * which pays for the look. */
#include "store/plan.h"

#include <assert.h>
#include <string.h>

#include "store/plan_state.h"
#include "weir/limit.h"

_Static_assert(PLAN_QUESTIONS_MAX <= INT64_MAX / (WEIR_DENOMINATOR_MAX + 1),
               "so many rests fit a signed 64-bit integer, as databases have them");

/* ---- memory ---- */

/* The next part of the memory. Without memory only `used` grows. */
static void *lend(char *memory, size_t *used, size_t count, size_t size)
{
    size_t at = *used;
    *used += (count * size + 15) / 16 * 16;
    return memory != NULL ? memory + at : NULL;
}

/* How much is needed; if there is memory it is dealt out. Waves are last: mostly there are few. */
static size_t deal_out(struct planning *planning, size_t count, void *memory)
{
    size_t used = 0;
    planning->heads = lend(memory, &used, count, sizeof *planning->heads);
    planning->spare_heads = lend(memory, &used, count, sizeof *planning->spare_heads);
    planning->by_name = lend(memory, &used, count, sizeof *planning->by_name);
    planning->order = lend(memory, &used, count, sizeof *planning->order);
    planning->cursors = lend(memory, &used, count, sizeof *planning->cursors);
    planning->findings = lend(memory, &used, count, sizeof *planning->findings);
    planning->names = lend(memory, &used, count, sizeof *planning->names);
    planning->folds = lend(memory, &used, count, sizeof *planning->folds);
    planning->entries = lend(memory, &used, count, sizeof *planning->entries);
    planning->waves = lend(memory, &used, count, sizeof *planning->waves);
    return used;
}

/* ---- waves ---- */

/* The question behind this one, or behind its run. PLAN_NONE: the batch ends here. */
static uint32_t next_of_batch(const struct planning *planning, uint32_t i)
{
    while (planning->questions[i].and_next) {
        i++;
    }
    uint32_t next = i + 1;
    bool is_last =
        next == planning->count || planning->questions[next].batch != planning->questions[i].batch;
    return is_last ? PLAN_NONE : next;
}

static uint32_t holder_of(const struct plan_finding *finding)
{
    return finding->form == PLAN_OF_RUN ? PLAN_RUNS : finding->fold;
}

/* Whether the name of this question is free in this wave, or held by what it may join. */
static bool has_room(const struct planning *planning, uint32_t i)
{
    const struct plan_finding *finding = &planning->findings[i];
    const struct plan_name *name = &planning->names[finding->name];
    return name->wave != planning->wave || name->holder == holder_of(finding);
}

static void settle(struct planning *planning, uint32_t i)
{
    struct plan_finding *finding = &planning->findings[i];
    struct plan_name *name = &planning->names[finding->name];
    name->wave = finding->wave = planning->wave;
    name->holder = holder_of(finding);
}

/* Gives a question, or a run as a whole, its place in this wave. If there is none it changes nothing, and returns
 * false. */
static bool enter(struct planning *planning, uint32_t first)
{
    const struct plan_question *questions = planning->questions;
    uint32_t last = first;
    while (has_room(planning, last) && questions[last].and_next) {
        last++;
    }
    if (!has_room(planning, last)) {
        return false;
    }
    for (uint32_t i = first; i <= last; i++) {
        settle(planning, i);
    }
    return true;
}

static void add_name(struct planning *planning, uint32_t name)
{
    planning->names[name].next = planning->waiting_names;
    planning->waiting_names = name;
}

static void add_question(struct planning *planning, uint32_t *list, uint32_t i)
{
    planning->findings[i].next = *list;
    *list = i;
}

static void wait_in_fold(struct planning *planning, uint32_t i)
{
    const struct plan_finding *finding = &planning->findings[i];
    struct plan_name *name = &planning->names[finding->name];
    struct plan_fold *fold = &planning->folds[finding->fold];
    if (fold->waiting == PLAN_NONE) {
        fold->next = PLAN_NONE;
        if (name->first == PLAN_NONE) {
            name->first = finding->fold;
            add_name(planning, finding->name);
        } else {
            planning->folds[name->last].next = finding->fold;
        }
        name->last = finding->fold;
    }
    add_question(planning, &fold->waiting, i);
}

/* A batch walks on in this wave, from this question as far as it can. */
static void walk(struct planning *planning, uint32_t i)
{
    while (i != PLAN_NONE && enter(planning, i)) {
        i = next_of_batch(planning, i);
    }
    if (i == PLAN_NONE) {
        return;
    }
    if (planning->findings[i].form == PLAN_OF_RUN) {
        add_question(planning, &planning->waiting_runs, i);
    } else {
        wait_in_fold(planning, i);
    }
}

/* Gives each of the list its place, and adds it to those whose batches walk on. */
static void admit(struct planning *planning, uint32_t list, uint32_t *going)
{
    while (list != PLAN_NONE) {
        uint32_t i = list;
        list = planning->findings[i].next;
        bool has_entered = enter(planning, i);
        assert(has_entered);
        (void)has_entered;
        add_question(planning, going, i);
    }
}

/* The questions of the fold that has waited longest for this name. It waits no more. */
static uint32_t take_fold(struct planning *planning, struct plan_name *name)
{
    struct plan_fold *fold = &planning->folds[name->first];
    uint32_t list = fold->waiting;
    name->first = fold->next;
    fold->waiting = PLAN_NONE;
    return list;
}

/* Gives places to waiting runs; and for each name that no run holds, to the fold that has waited longest. */
static void begin_wave(struct planning *planning, uint32_t *going)
{
    uint32_t runs = planning->waiting_runs;
    uint32_t at = planning->waiting_names;
    planning->waiting_runs = planning->waiting_names = PLAN_NONE;
    admit(planning, runs, going);
    while (at != PLAN_NONE) {
        struct plan_name *name = &planning->names[at];
        uint32_t next = name->next;
        if (name->wave != planning->wave) {
            admit(planning, take_fold(planning, name), going);
        }
        if (name->first != PLAN_NONE) {
            add_name(planning, at);
        }
        at = next;
    }
}

static void find_waves(struct planning *planning)
{
    planning->waiting_runs = planning->waiting_names = PLAN_NONE;
    for (uint32_t i = 0; i < planning->count; i++) {
        if (i == 0 || planning->questions[i].batch != planning->questions[i - 1].batch) {
            walk(planning, i);
        }
    }
    while (planning->waiting_runs != PLAN_NONE || planning->waiting_names != PLAN_NONE) {
        uint32_t going = PLAN_NONE;
        planning->wave++;
        begin_wave(planning, &going);
        for (uint32_t i = going; i != PLAN_NONE; i = planning->findings[i].next) {
            walk(planning, next_of_batch(planning, i));
        }
    }
    planning->wave_count = planning->wave + 1;
}

/* ---- the plan ---- */

/* Where the indices of each wave begin. */
static void find_cursors(struct planning *planning)
{
    memset(planning->cursors, 0, planning->wave_count * sizeof *planning->cursors);
    for (uint32_t i = 0; i < planning->count; i++) {
        planning->cursors[planning->findings[i].wave]++;
    }
    uint32_t begins = 0;
    for (uint32_t wave = 0; wave < planning->wave_count; wave++) {
        uint32_t count = planning->cursors[wave];
        planning->cursors[wave] = begins;
        begins += count;
    }
}

/* Lists the takes, or the reads, of all waves. Equal ones of a name stay in their order. */
static void write_form(struct planning *planning, enum plan_form form)
{
    for (uint32_t i = 0; i < planning->count; i++) {
        uint32_t at = planning->by_name[i];
        const struct plan_finding *finding = &planning->findings[at];
        if (finding->form == form) {
            planning->order[planning->cursors[finding->wave]++] = at;
        }
    }
}

/* Runs in the order in which they came, the questions of each by name. */
static void write_runs(struct planning *planning)
{
    struct plan_finding *findings = planning->findings;
    for (uint32_t i = 0; i < planning->count; i++) {
        if (findings[i].form == PLAN_OF_RUN) {
            uint32_t *cursor = &planning->cursors[findings[i].wave];
            if (findings[i].fold == i) {
                findings[i].next = *cursor;
            }
            ++*cursor;
        }
    }
    for (uint32_t i = 0; i < planning->count; i++) {
        uint32_t at = planning->by_name[i];
        if (findings[at].form == PLAN_OF_RUN) {
            planning->order[findings[findings[at].fold].next++] = at;
        }
    }
}

/* How many of the questions from here on are of one entry, or of one run. */
static uint32_t count_same(const struct planning *planning, uint32_t at)
{
    const struct plan_finding *first = &planning->findings[planning->order[at]];
    uint32_t end = at + 1;
    for (; end < planning->count; end++) {
        const struct plan_finding *other = &planning->findings[planning->order[end]];
        if (other->wave != first->wave || other->form != first->form
            || other->fold != first->fold) {
            break;
        }
        const struct plan_finding *former = &planning->findings[planning->order[end - 1]];
        assert(first->form != PLAN_OF_RUN || other->name != former->name);
    }
    return end - at;
}

static void add_entry(struct plan_wave *wave, enum plan_form form, const struct plan_entry *entry)
{
    const struct plan_entry **list = form == PLAN_TAKE   ? &wave->takes
                                     : form == PLAN_READ ? &wave->reads
                                                         : &wave->runs;
    uint32_t *count = form == PLAN_TAKE   ? &wave->take_count
                      : form == PLAN_READ ? &wave->read_count
                                          : &wave->run_count;
    if (*count == 0) {
        *list = entry;
    }
    ++*count;
}

static struct plan_waves write_down(struct planning *planning)
{
    find_cursors(planning);
    write_form(planning, PLAN_TAKE);
    write_form(planning, PLAN_READ);
    write_runs(planning);
    memset(planning->waves, 0, planning->wave_count * sizeof *planning->waves);
    struct plan_entry *entry = planning->entries;
    for (uint32_t at = 0; at < planning->count; entry++) {
        const struct plan_finding *first = &planning->findings[planning->order[at]];
        *entry = (struct plan_entry){&planning->order[at], count_same(planning, at)};
        add_entry(&planning->waves[first->wave], first->form, entry);
        at += entry->count;
    }
    return (struct plan_waves){planning->waves, planning->wave_count};
}

/* ---- what others call ---- */

size_t plan_bytes(size_t count)
{
    struct planning planning;
    assert(count <= PLAN_QUESTIONS_MAX);
    return deal_out(&planning, count, NULL);
}

static bool is_valid(const struct plan_question *questions, size_t count, size_t i)
{
    const struct plan_question *question = &questions[i];
    if (question->and_next && (i + 1 == count || questions[i + 1].batch != question->batch)) {
        return false; // where would its run end?
    }
    return question->is_read
           || (question->denominator - 1 < WEIR_DENOMINATOR_MAX
               && question->span.rest < question->denominator
               && question->full.rest < question->denominator
               && (question->span.ns | question->span.rest) != 0
               && !span_less(question->full, question->span));
}

struct plan_waves plan_make(const struct plan_question *questions, size_t count, void *memory)
{
    struct planning planning = {.questions = questions, .count = (uint32_t)count};
    assert(count <= PLAN_QUESTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(is_valid(questions, count, i));
    }
    if (count == 0) {
        return (struct plan_waves){NULL, 0};
    }
    (void)deal_out(&planning, count, memory);
    planning_find_names(&planning);
    find_waves(&planning);
    return write_down(&planning);
}

/* In D-ths of a nanosecond. */
static uint128 parts_of(struct span span, uint64_t denominator)
{
    return (uint128)span.ns * denominator + span.rest;
}

uint32_t plan_fit_empty(const struct plan_question *take, uint32_t count)
{
    uint128 span = parts_of(take->span, take->denominator);
    uint128 full = parts_of(take->full, take->denominator);
    return count * span <= full ? count : (uint32_t)(full / span);
}

struct span plan_moment_after(const struct plan_question *question, uint32_t place, uint32_t took,
                              struct span last)
{
    uint64_t denominator = question->denominator;
    struct span moment = last.rest < denominator ? last : (struct span){last.ns + 1, 0};
    if (place >= took) {
        return moment;
    }
    uint64_t later = took - 1 - place; // takes that were let in after it
    assert(later < PLAN_QUESTIONS_MAX);
    uint64_t rest = later * question->span.rest;
    struct span moved = {later * question->span.ns + rest / denominator, rest % denominator};
    return span_sub(moment, moved, denominator);
}
