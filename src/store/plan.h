/* SPDX-License-Identifier: MIT
 *
 * The planner of stores that hosts share: it turns the questions of many clients into few statements. Pure.
 *
 * An example. Three clients ask in one turn:
 *
 *     0  batch 1  take 1 of alice          wave 0   takes  alice, 1   answers 0 and 3
 *     1  batch 1  take 1 of bob      =>                    bob, 1     answers 1
 *     2  batch 2  take 2 of alice          wave 1   takes  alice, 2   answers 2
 *     3  batch 3  take 1 of alice                   reads  bob        answers 4
 *     4  batch 3  look at bob
 *
 * A wave is sent as one statement for its takes, one for its reads, and one for each of its runs. Takes 0 and 3 are one
 * row of the first statement, with the count 2:
 *
 *     struct plan_waves plan = plan_make(questions, count, memory);    // plan_bytes(count)
 *     for (size_t i = 0; i < plan.count; i++) {
 *         const struct plan_wave *wave = &plan.waves[i];
 *         for (uint32_t row = 0; row < wave->take_count; row++) {
 *             const struct plan_entry *entry = &wave->takes[row];
 *             const struct plan_question *take = &questions[entry->questions[0]];
 *             ... take->name, ->denominator, ->span, ->full, entry->count, plan_fit_empty(take, entry->count)
 *         }
 *         ... wave->reads, wave->runs
 *     }
 *
 * The store answers a row of takes with the bucket's moment, `last`, and how many of the takes it let in, `took`: the
 * first ones. Each question's own answer follows from that:
 *
 *     for (uint32_t place = 0; place < entry->count; place++) {
 *         const struct plan_question *take = &questions[entry->questions[place]];
 *         bool is_allowed = place < took;
 *         struct span moment = plan_moment_after(take, place, took, last);
 *     }
 *
 * What the caller may rely on:
 *   - Each question is answered by one entry, or is part of one run.
 *   - Waves are decided one after the other. In a wave no name is in two entries, nor in an entry and a run. Runs may
 *     share names. So the statements of a wave can be decided in any order, except that its runs keep theirs.
 *   - Takes, reads, and the questions of each run are sorted by name, as memcmp() compares. If every statement locks
 *     its rows in this order there is no deadlock.
 *   - Takes of one name with the same span, full and denominator are one entry if they are in one wave, also if they
 *     are of different batches. So are reads of one name, whatever their numbers are. Runs do not fold.
 *   - Along a batch waves never go back. So the answers are those of asking all questions one by one, in an order that
 *     keeps the order of each batch: by wave, and in a wave by index.
 *
 * How many waves. A question waits only while its name is held in the wave by one that is not its equal, or while one
 * before it in its batch waits. So clients that ask one question each, with two costs for one hot key, take two waves
 * however many they are. One client that asks n unequal takes of one name takes n.
 *
 * Where questions wait for a name, runs go first; then those go that are equal to the one that has waited longest.
 *
 * Time: O(n log n) for sorting by name, O(n) for the rest, whatever is asked. About 0.1 us for each of 1000 questions.
 * Memory: only plan_bytes(), which the caller lends. Threads: distinct objects only. */
#ifndef WEIR_STORE_PLAN_H
#define WEIR_STORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arith.h"
#include "store/bucket_name.h"

/* So that the rests of one entry's takes add up to less than 2^63, here and in the store. */
enum { PLAN_QUESTIONS_MAX = 1 << 20 };

/*   name         of the bucket
 *   span         how far a take moves the moment at which the bucket is empty. Not zero, and at most `full`: a take of
 *                nothing, or of more than ever fits, is a read
 *   full         how far beyond the reading the moment may lead: the capacity, and the patience of one that waits
 *   denominator  D of span and full, 1 .. WEIR_DENOMINATOR_MAX. Their rests are below it
 *   batch        questions of one batch keep their order. They lie one behind the other
 *   is_read      only looks at the moment. The planner does not look at its numbers, but plan_moment_after() needs its
 *                denominator. In a run is_read changes nothing here: what statement a run takes is the caller's affair
 *   and_next     the next question, of the same batch, belongs to the same run: all or nothing. A run has no name
 *                twice */
struct plan_question {
    uint8_t name[BUCKET_NAME_BYTES];
    struct span span;
    struct span full;
    uint64_t denominator;
    uint32_t batch;
    bool is_read;
    bool and_next;
};

/* An entry of takes or of reads: equal questions for one name, in the order in which the store decides them.
 * An entry of runs: the questions of one run, sorted by name.
 *   questions  indices into the questions that were planned
 *   count      1 or more */
struct plan_entry {
    const uint32_t *questions;
    uint32_t count;
};

/* What can be asked at once. Runs are in the order in which they are to be decided. */
struct plan_wave {
    const struct plan_entry *takes, *reads, *runs;
    uint32_t take_count, read_count, run_count;
};

struct plan_waves {
    const struct plan_wave *waves;
    size_t count;
};

/* How much memory plan_make() needs for so many questions: about 150 bytes for each. */
size_t plan_bytes(size_t count);

/* Plans.
 *   questions  in the order in which they came; only read
 *   count      0 .. PLAN_QUESTIONS_MAX
 *   memory     plan_bytes(count), aligned as malloc() aligns. It may hold anything before. The plan lies in it: it is
 *              valid until the caller writes there, and does not point into `questions` */
struct plan_waves plan_make(const struct plan_question *questions, size_t count, void *memory);

/* How many of `count` such takes in a row fit an empty bucket. Exact. Pure; thread-safe. */
uint32_t plan_fit_empty(const struct plan_question *take, uint32_t count);

/* The bucket's moment after one question of an entry: what its answer is computed from. Exact. Pure; thread-safe.
 * For example, of three takes of 100 ns two were let in, and `last` is 700 ns. The answers are computed from 600, from
 * 700, and from 700 for the take that was refused.
 *   place  of the question in its entry, from 0. The question is let in if place < took
 *   took   how many the store let in, at most as many as the entry has. 0 for a read, and for a question of a run
 *   last   the bucket's moment after the entry, as it is stored. A rest that is not below the question's denominator
 *          belongs to a limit whose numbers have changed, and counts as one nanosecond */
struct span plan_moment_after(const struct plan_question *question, uint32_t place, uint32_t took,
                              struct span last);

#endif
