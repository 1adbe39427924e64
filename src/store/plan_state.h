/* SPDX-License-Identifier: MIT
 *
 * A plan on its way, for plan.c and plan_names.c. Nobody else includes it. */
#ifndef WEIR_STORE_PLAN_STATE_H
#define WEIR_STORE_PLAN_STATE_H

#include "store/plan.h"

/* No question, name or fold. */
#define PLAN_NONE UINT32_MAX

/* What holds a name if it is no fold. */
#define PLAN_RUNS (UINT32_MAX - 1)

enum plan_form { PLAN_TAKE, PLAN_READ, PLAN_OF_RUN };

/* What is sorted: the first bytes of a question's name, as a number. Mostly they are enough. */
struct plan_head {
    uint64_t bytes;
    uint32_t index;
};

/* What the planner finds out about a question.
 *   name  by its rank
 *   fold  of a take or a read. In a run: the index of the run's first question
 *   next  in the list of questions that wait, or of those whose batch walks on. In write_runs(), of a run's first
 *         question: where the next one of the run is written */
struct plan_finding {
    uint32_t name, fold, wave, next;
    enum plan_form form;
};

/*   wave         in which it was held last, by `holder`, which is a fold or PLAN_RUNS
 *   first, last  of its folds in which questions wait. The first one has waited longest
 *   next         in the list of names for which folds wait */
struct plan_name {
    uint32_t wave, holder, first, last, next;
};

/*   waiting  the list of its questions that wait
 *   next     the fold that has waited next longest for its name */
struct plan_fold {
    uint32_t waiting, next;
};

/*   wave           that is being filled
 *   by_name        indices of the questions, sorted
 *   order          the same indices, as the plan's entries list them
 *   cursors        of each wave: where its next index is written
 *   waiting_runs   the list of the first questions of runs that wait
 *   waiting_names  the list of names for which folds wait */
struct planning {
    const struct plan_question *questions;
    uint32_t count, wave, wave_count;
    struct plan_head *heads, *spare_heads;
    uint32_t *by_name, *order, *cursors;
    struct plan_finding *findings;
    struct plan_name *names;
    struct plan_fold *folds;
    struct plan_entry *entries;
    struct plan_wave *waves;
    uint32_t waiting_runs, waiting_names;
};

/* Finds the form, the name and the fold of each question, and sorts them: by_name. */
void planning_find_names(struct planning *planning);

#endif
