/* SPDX-License-Identifier: MIT
 *
 * What a store keeps of a batch's questions until their answers come; and the answers to plain ones, computed in C from
 * the moment that the statement led to and the reading at which it decided.
 *
 * An example. Under 10/s capacity=10 alice takes 1: span 100 ms, full 1 s. The row is (moment, took, reading) =
 * (5.3 s, 1, 5 s): allowed, remaining 7, and the bucket is empty in 300 ms.
 *
 * Plain are takes and can_takes under buckets and queues without block=, alone or as runs of them, none of which is in
 * shadow. What charges nothing whatever the bucket holds (a can_take, a cost of 0, one that never fits) is a read.
 * Everything else is decided by swap (swaps.h); and so is a whole batch that has one such question, in its order. A plain
 * question whose bucket turns out to be displaced goes there, too. What swap cannot decide, windows and what makes no
 * sense, is answered by an error, and not asked. */
#ifndef WEIR_STORE_POSTGRES_QUESTION_H
#define WEIR_STORE_POSTGRES_QUESTION_H

#include "store/batch.h"
#include "store/plan.h"
#include "store/postgres/statement.h"

/* Why it is answered by an error. */
#define QUESTION_CANNOT                                                                            \
    "a store in PostgreSQL keeps no log of events, which a window needs; sliding does without"

/* The questions of a run lie one behind the other; planned.and_next says where it ends.
 *   planned   what a statement needs. A take of nothing in a run that charges has no span, and fits always. Where swap
 *             decides it is the name, and and_next
 *   batch     whose it is; decision, detail: there; NULL: none is wanted
 *   bucket    a number that swaps.c gives its bucket
 *   is_read   it charges nothing: so for all of a run, or for none
 *   is_asked  it is not answered yet
 *   is_swap   swap decides it */
struct question {
    struct plan_question planned;
    struct batch *batch;
    struct weir_decision *decision;
    struct weir_detail *detail;
    struct weir_limit limit;
    uint64_t cost_micro, block_ns;
    enum weir_operation operation;
    uint32_t bucket;
    bool shadow;
    bool is_read;
    bool is_asked;
    bool is_swap;
};

struct store;

/* What a run costs PostgreSQL, in questions that are asked together: 300 us. And one that swap decides: it reads two
 * rows, and writes as many. */
enum { RUN_WEIGHT = 64, SWAP_WEIGHT = 8 };

/* What is in batch->ask.
 *   asked_count    questions that are asked; weight: what they cost, in questions
 *   waiting_count  of these, whose statement is not through
 *   is_swap        swap decides them all; also where the planner would need many statements for them
 *   is_written     it was handed to the system, or may have been
 *   has_succeeded, has_failed  some statement of it */
struct ask {
    uint32_t asked_count, weight, waiting_count;
    bool is_swap, is_written, has_succeeded, has_failed;
    struct question questions[];
};

static inline struct ask *ask_of(const struct batch *batch)
{
    return batch->ask;
}

/* remote_ops.ask_bytes() and copy(). */
size_t question_ask_bytes(const struct store *store, const struct weir_request *requests,
                          size_t count);
void question_copy(const struct store *store, struct batch *batch,
                   const struct weir_request *requests);

/* How many questions the run that begins here has. */
static inline size_t question_run_length(const struct question *questions)
{
    size_t count = 1;
    while (questions[count - 1].planned.and_next) {
        count++;
    }
    return count;
}

/* Answers the plain question at `place` of an entry of takes or reads. */
void question_answer(struct question *question, uint32_t place, const struct statement_row *row);

/* Answers a plain run: a row for each question, in the same order. */
void question_answer_run(struct question *const *questions, const struct statement_row *rows,
                         size_t count);

/* A run, or a single question, as swap_decide() takes it. It points into itself. */
struct question_request {
    struct weir_request requests[WEIR_TOGETHER_MAX];
    struct weir_rule rules[WEIR_TOGETHER_MAX];
    uint8_t names[WEIR_TOGETHER_MAX][BUCKET_NAME_BYTES];
};

void question_request(struct question_request *request, const struct question *questions,
                      size_t count);

#endif
