/* SPDX-License-Identifier: MIT
 *
 * The statements of a store, their parameters in PostgreSQL's binary formats, and the rows that they answer.
 *
 *     statement     parameters                                              rows
 *     take one      name, D, span, slack, reading                           an array: moment, took, reading
 *     take many     arrays of these, how often each, how many fit; reading  for each name: index, moment, took, reading
 *     take run      arrays of name, D, span, slack; reading                  for each name, in order: moment, fits, reading
 *     read many     array of names; reading                                 for each name: index, moment, reading
 *     swap          arrays of name, seen, next, until when, group; reading  for each group: index, whether it was written
 *
 * An index counts from 1. The slack is full less span. */
#ifndef WEIR_STORE_POSTGRES_STATEMENT_H
#define WEIR_STORE_POSTGRES_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arith.h"
#include "store/plan.h"
#include "store/postgres/libpq.h"
#include "store/swap.h"

enum statement_kind { TAKE_ONE, TAKE_MANY, TAKE_RUN, READ_MANY, SWAP, STATEMENT_COUNT };

enum { PARAMETERS_MAX = 9 };

/* What the session prepares. */
struct statement {
    const char *name, *text;
    int parameter_count;
    Oid types[PARAMETERS_MAX];
};

extern const struct statement STATEMENTS[STATEMENT_COUNT];

/* Rows that a swap reads, or writes. Arrays of `count`.
 *   names       each once
 *   seen, next  of a write: what they have to be, and become. A row that is missing is one of zeroes
 *   not_after   of a write: the last reading of the store's clock at which it may be done
 *   groups      of a write: rows of one group are written together, or not at all */
struct swap_rows {
    const uint8_t (*names)[BUCKET_NAME_BYTES];
    const struct swap_row *seen, *next;
    const uint64_t *not_after;
    const uint32_t *groups;
    size_t count;
};

/* A statement to be sent: which one, and its rows.
 *   entries  rows of takes or reads, which answer entries[i].questions; or one entry whose questions are the rows
 *   is_run   it is the latter
 *   rows     of a swap, which has no entries; with no `names` it is none */
struct step {
    enum statement_kind kind;
    bool is_run;
    const struct plan_entry *entries;
    uint32_t entry_count;
    struct swap_rows rows;
};

static inline size_t step_row_count(const struct step *step)
{
    return step->rows.names != NULL ? step->rows.count
           : step->is_run           ? step->entries->count
                                    : step->entry_count;
}

/* How much memory the parameters of a statement need. */
size_t statement_bytes(size_t row_count);

/* Hands a statement over to libpq, with a sync behind it: so it is a transaction of its own. Nothing waits.
 *   questions    of the plan; NULL for a swap
 *   reading      STORE_NOW, or that of a test's clock
 *   is_prepared  in this session
 *   memory       statement_bytes(); free again when this returns
 * False: the connection is lost. */
bool statement_send(const struct libpq *pq, PGconn *connection, const struct step *step,
                    const struct plan_question *questions, uint64_t reading, bool is_prepared,
                    char *memory);

/* One row of an answer.
 *   index   of its entry, of its question in a run, of its row in the read of a swap, or of a group; from 0
 *   moment  of the bucket, after the statement; its rest may be no less than D. Or a row that a swap reads
 *   took    how many were let in, or whether it fits, or was written
 *   at_ns   the reading of the clock */
struct statement_row {
    size_t index;
    struct span moment;
    uint32_t took;
    uint64_t at_ns;
};

/* False: the answer is not what such a statement answers. */
bool statement_row(const struct libpq *pq, const PGresult *result, enum statement_kind kind,
                   int number, struct statement_row *row);

#endif
