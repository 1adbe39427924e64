/* SPDX-License-Identifier: MIT
 *
 * The planner's first step: sorts the questions by name, and numbers names and folds, so that plan.c compares numbers
 * only. */
#include <string.h>

#include "store/plan_state.h"

static bool is_of_run(const struct plan_question *questions, uint32_t i)
{
    return questions[i].and_next || (i > 0 && questions[i - 1].and_next);
}

static enum plan_form form_of(const struct plan_question *questions, uint32_t i)
{
    if (is_of_run(questions, i)) {
        return PLAN_OF_RUN;
    }
    return questions[i].is_read ? PLAN_READ : PLAN_TAKE;
}

static uint64_t name_head(const struct plan_question *question)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes = bytes << 8 | question->name[i];
    }
    return bytes;
}

/* By name. Of one name, questions that fold are equal; how others are ordered does not matter. */
static int compare(const struct planning *planning, uint32_t a, uint32_t b)
{
    const struct plan_question *one = &planning->questions[a];
    const struct plan_question *other = &planning->questions[b];
    enum plan_form form = planning->findings[a].form;
    int difference = memcmp(one->name, other->name, sizeof one->name);
    if (difference == 0) {
        difference = (int)form - (int)planning->findings[b].form;
    }
    if (difference == 0 && form == PLAN_TAKE) {
        difference = memcmp(&one->span, &other->span, sizeof one->span);
        if (difference == 0) {
            difference = memcmp(&one->full, &other->full, sizeof one->full);
        }
        if (difference == 0) {
            difference = memcmp(&one->denominator, &other->denominator, sizeof one->denominator);
        }
    }
    return difference;
}

static bool is_before(const struct planning *planning, struct plan_head a, struct plan_head b)
{
    return a.bytes != b.bytes ? a.bytes < b.bytes : compare(planning, a.index, b.index) < 0;
}

/* Two sorted lists become one. Equals stay in their order. */
static void merge(const struct planning *planning, struct plan_head *into,
                  const struct plan_head *first, size_t first_count, const struct plan_head *second,
                  size_t second_count)
{
    if (second_count > 0 && is_before(planning, second[0], first[first_count - 1])) {
        while (first_count > 0 && second_count > 0) {
            if (is_before(planning, *second, *first)) {
                *into++ = *second++;
                second_count--;
            } else {
                *into++ = *first++;
                first_count--;
            }
        }
    }
    memcpy(into, first, first_count * sizeof *first);
    memcpy(into + first_count, second, second_count * sizeof *second);
}

/* Merge sort: no names make it slow, and lists that are sorted already, as those of one hot name, are only copied. */
static void sort_heads(struct planning *planning)
{
    size_t count = planning->count;
    for (size_t width = 1; width < count; width *= 2) {
        struct plan_head *from = planning->heads;
        struct plan_head *into = planning->spare_heads;
        for (size_t at = 0; at < count; at += 2 * width) {
            size_t first_count = count - at < width ? count - at : width;
            size_t left = count - at - first_count;
            merge(planning, into + at, from + at, first_count, from + at + first_count,
                  left < width ? left : width);
        }
        planning->heads = into;
        planning->spare_heads = from;
    }
}

static void sort_by_name(struct planning *planning)
{
    for (uint32_t i = 0; i < planning->count; i++) {
        planning->heads[i] = (struct plan_head){name_head(&planning->questions[i]), i};
    }
    sort_heads(planning);
    for (uint32_t i = 0; i < planning->count; i++) {
        planning->by_name[i] = planning->heads[i].index;
    }
}

static bool is_same_name(const struct planning *planning, uint32_t a, uint32_t b)
{
    const struct plan_question *questions = planning->questions;
    return memcmp(questions[a].name, questions[b].name, sizeof questions[a].name) == 0;
}

/* Gives each name and each fold a number. */
static void number_names(struct planning *planning)
{
    uint32_t name = PLAN_NONE; // one more is 0
    uint32_t fold = PLAN_NONE;
    for (uint32_t i = 0; i < planning->count; i++) {
        uint32_t at = planning->by_name[i];
        bool is_first = i == 0;
        if (is_first || !is_same_name(planning, planning->by_name[i - 1], at)) {
            planning->names[++name] =
                (struct plan_name){PLAN_NONE, PLAN_NONE, PLAN_NONE, PLAN_NONE, PLAN_NONE};
        }
        if (is_first || compare(planning, planning->by_name[i - 1], at) != 0) {
            planning->folds[++fold] = (struct plan_fold){PLAN_NONE, PLAN_NONE};
        }
        planning->findings[at].name = name;
        planning->findings[at].fold = fold;
    }
}

/* Each of a run gets the index of the run's first question. */
static void number_runs(struct planning *planning)
{
    for (uint32_t i = 0; i < planning->count; i++) {
        if (planning->findings[i].form == PLAN_OF_RUN) {
            bool is_first = i == 0 || !planning->questions[i - 1].and_next;
            planning->findings[i].fold = is_first ? i : planning->findings[i - 1].fold;
        }
    }
}

void planning_find_names(struct planning *planning)
{
    for (uint32_t i = 0; i < planning->count; i++) {
        planning->findings[i].form = form_of(planning->questions, i);
    }
    sort_by_name(planning);
    number_names(planning);
    number_runs(planning);
}
