/* SPDX-License-Identifier: MIT */
#include "store/postgres/statement.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "store/postgres/sql.h"
#include "store/store.h"

/* Numbers of types, of src/include/catalog/pg_type.dat. They never change. */
enum {
    INT8 = 20,
    INT4 = 23,
    INT4S = 1007, // an array of them
    INT8S = 1016,
    UUID = 2950,
    UUIDS = 2951,
};

enum { BINARY = 1, ARRAY_HEAD_BYTES = 20 };

const struct statement STATEMENTS[STATEMENT_COUNT] = {
    [TAKE_ONE] = {"weir_take_one", SQL_TAKE_ONE, 7, {UUID, INT8, INT8, INT8, INT8, INT8, INT8}},
    [TAKE_MANY] = {"weir_take_many",
                   SQL_TAKE_MANY,
                   9,
                   {UUIDS, INT8S, INT8S, INT8S, INT8S, INT8S, INT4S, INT4S, INT8}},
    [TAKE_RUN] = {"weir_take_run",
                  SQL_TAKE_RUN,
                  7,
                  {UUIDS, INT8S, INT8S, INT8S, INT8S, INT8S, INT8}},
    [READ_MANY] = {"weir_read_many", SQL_READ_MANY, 2, {UUIDS, INT8}},
    [SWAP] = {"weir_swap", SQL_SWAP, 8, {UUIDS, INT8S, INT8S, INT8S, INT8S, INT8S, INT4S, INT8}},
};

/* ---- parameters ---- */

/* What libpq is handed.
 *   at  free memory */
struct parameters {
    const char *values[PARAMETERS_MAX];
    int lengths[PARAMETERS_MAX];
    int formats[PARAMETERS_MAX];
    int count;
    char *at;
};

static void put_bytes(struct parameters *parameters, const void *bytes, size_t length)
{
    memcpy(parameters->at, bytes, length);
    parameters->at += length;
}

static void put_int4(struct parameters *parameters, uint32_t value)
{
    uint32_t big = htobe32(value);
    put_bytes(parameters, &big, sizeof big);
}

static void put_int8(struct parameters *parameters, uint64_t value)
{
    uint64_t big = htobe64(value);
    assert(value < UINT64_C(1) << 63);
    put_bytes(parameters, &big, sizeof big);
}

static void begin(struct parameters *parameters)
{
    parameters->values[parameters->count] = parameters->at;
    parameters->formats[parameters->count] = BINARY;
}

static void end(struct parameters *parameters)
{
    int i = parameters->count++;
    parameters->lengths[i] = (int)(parameters->at - parameters->values[i]);
}

static void add_int8(struct parameters *parameters, uint64_t value)
{
    begin(parameters);
    put_int8(parameters, value);
    end(parameters);
}

static void add_reading(struct parameters *parameters, uint64_t reading)
{
    if (reading == STORE_NOW) {
        parameters->values[parameters->count++] = NULL;
    } else {
        add_int8(parameters, reading);
    }
}

/* An array of one dimension, without NULLs; its elements follow, each behind its length. array_send() in PostgreSQL's
 * arrayfuncs.c. */
static void begin_array(struct parameters *parameters, uint32_t type, size_t count)
{
    begin(parameters);
    put_int4(parameters, 1); // dimension
    put_int4(parameters, 0); // no NULLs
    put_int4(parameters, type);
    put_int4(parameters, (uint32_t)count);
    put_int4(parameters, 1); // the first index
}

/* ---- rows ---- */

struct rows {
    const struct plan_question *questions;
    const struct step *step;
    size_t count;
};

static const struct plan_question *row_question(const struct rows *rows, size_t row)
{
    const struct plan_entry *entries = rows->step->entries;
    return &rows->questions[rows->step->is_run ? entries->questions[row]
                                               : entries[row].questions[0]];
}

static const uint8_t *row_name(const struct rows *rows, size_t row)
{
    const struct swap_rows *swap = &rows->step->rows;
    return swap->names != NULL ? swap->names[row] : row_question(rows, row)->name;
}

static void add_names(struct parameters *parameters, const struct rows *rows)
{
    begin_array(parameters, UUID, rows->count);
    for (size_t row = 0; row < rows->count; row++) {
        put_int4(parameters, BUCKET_NAME_BYTES);
        put_bytes(parameters, row_name(rows, row), BUCKET_NAME_BYTES);
    }
    end(parameters);
}

/* D, span and slack of a question, in this order. The slack is how far beyond the reading the moment may be before the
 * take: what is compared there then needs no sum. */
enum number { DENOMINATOR, SPAN_NS, SPAN_REST, SLACK_NS, SLACK_REST, NUMBER_COUNT };

static uint64_t number_of(const struct plan_question *question, enum number which)
{
    struct span slack = span_sub(question->full, question->span, question->denominator);
    const uint64_t numbers[NUMBER_COUNT] = {question->denominator, question->span.ns,
                                            question->span.rest, slack.ns, slack.rest};
    return numbers[which];
}

static void add_numbers(struct parameters *parameters, const struct rows *rows)
{
    for (enum number which = 0; which < NUMBER_COUNT; which++) {
        begin_array(parameters, INT8, rows->count);
        for (size_t row = 0; row < rows->count; row++) {
            put_int4(parameters, sizeof(uint64_t));
            put_int8(parameters, number_of(row_question(rows, row), which));
        }
        end(parameters);
    }
}

static void add_counts(struct parameters *parameters, const struct rows *rows, bool of_empty)
{
    begin_array(parameters, INT4, rows->count);
    for (size_t row = 0; row < rows->count; row++) {
        uint32_t count = rows->step->entries[row].count;
        put_int4(parameters, sizeof(uint32_t));
        put_int4(parameters, of_empty ? plan_fit_empty(row_question(rows, row), count) : count);
    }
    end(parameters);
}

static void add_take(struct parameters *parameters, const struct plan_question *question)
{
    begin(parameters);
    put_bytes(parameters, question->name, BUCKET_NAME_BYTES);
    end(parameters);
    for (enum number which = 0; which < NUMBER_COUNT; which++) {
        add_int8(parameters, number_of(question, which));
    }
}

/* The numbers of a write, in this order. */
enum swap_number { SEEN_NS, SEEN_REST, NEXT_NS, NEXT_REST, NOT_AFTER, SWAP_NUMBER_COUNT };

static uint64_t swap_number_of(const struct swap_rows *rows, size_t row, enum swap_number which)
{
    const uint64_t numbers[SWAP_NUMBER_COUNT] = {rows->seen[row].ns, rows->seen[row].rest,
                                                 rows->next[row].ns, rows->next[row].rest,
                                                 rows->not_after[row]};
    return numbers[which];
}

static void add_swap(struct parameters *parameters, const struct swap_rows *rows)
{
    for (enum swap_number which = 0; which < SWAP_NUMBER_COUNT; which++) {
        begin_array(parameters, INT8, rows->count);
        for (size_t row = 0; row < rows->count; row++) {
            put_int4(parameters, sizeof(uint64_t));
            put_int8(parameters, swap_number_of(rows, row, which));
        }
        end(parameters);
    }
    begin_array(parameters, INT4, rows->count);
    for (size_t row = 0; row < rows->count; row++) {
        put_int4(parameters, sizeof(uint32_t));
        put_int4(parameters, rows->groups[row] + 1);
    }
    end(parameters);
}

static void add_all(struct parameters *parameters, enum statement_kind kind,
                    const struct rows *rows, uint64_t reading)
{
    if (kind == TAKE_ONE) {
        add_take(parameters, row_question(rows, 0));
    } else {
        add_names(parameters, rows);
    }
    if (kind == TAKE_MANY || kind == TAKE_RUN) {
        add_numbers(parameters, rows);
    }
    if (kind == TAKE_MANY) {
        add_counts(parameters, rows, false);
        add_counts(parameters, rows, true);
    }
    if (kind == SWAP) {
        add_swap(parameters, &rows->step->rows);
    }
    add_reading(parameters, reading);
}

/* ---- sending ---- */

size_t statement_bytes(size_t row_count)
{
    size_t row_bytes = 4 + BUCKET_NAME_BYTES + NUMBER_COUNT * (4 + 8) + 2 * (4 + 4);
    return PARAMETERS_MAX * ARRAY_HEAD_BYTES + row_count * row_bytes;
}

bool statement_send(const struct libpq *pq, PGconn *connection, const struct step *step,
                    const struct plan_question *questions, uint64_t reading, bool is_prepared,
                    char *memory)
{
    const struct statement *statement = &STATEMENTS[step->kind];
    struct rows rows = {questions, step, step_row_count(step)};
    struct parameters parameters = {.count = 0, .at = memory};
    add_all(&parameters, step->kind, &rows, reading);
    assert(parameters.count == statement->parameter_count);
    int is_sent = is_prepared ? pq->sendQueryPrepared(connection, statement->name, parameters.count,
                                                      parameters.values, parameters.lengths,
                                                      parameters.formats, BINARY)
                              : pq->sendQueryParams(connection, statement->text, parameters.count,
                                                    statement->types, parameters.values,
                                                    parameters.lengths, parameters.formats, BINARY);
    return is_sent == 1 && pq->pipelineSync(connection) == 1;
}

/* ---- rows of answers ---- */

struct answer {
    int64_t index, ns, rest, took, at_ns;
};

/* Which columns a statement answers with; -1: it does not. */
struct columns {
    int count, index, ns, rest, took, at;
};

/* TAKE_ONE: read_array(). */
static const struct columns COLUMNS[STATEMENT_COUNT] = {
    [TAKE_MANY] = {5, 0, 1, 2, 3, 4},
    [TAKE_RUN] = {4, -1, 0, 1, 2, 3},
    [READ_MANY] = {4, 0, 1, 2, -1, 3},
    [SWAP] = {2, 0, -1, -1, 1, -1},
};

/* Of big-endian bytes, up to eight. One byte is a boolean. */
static int64_t number_of_bytes(const char *bytes, int length)
{
    uint64_t bits = length > 1 && (bytes[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (int i = 0; i < length; i++) {
        bits = bits << 8 | (unsigned char)bytes[i];
    }
    return (int64_t)bits;
}

/* A column that may be missing: then the number stays as it is. */
static bool read_column(const struct libpq *pq, const PGresult *result, int row, int column,
                        int64_t *number)
{
    if (column < 0) {
        return true;
    }
    int length = pq->getlength(result, row, column);
    if (pq->getisnull(result, row, column) || length < 1 || length > 8) {
        return false;
    }
    *number = number_of_bytes(pq->getvalue(result, row, column), length);
    return true;
}

static bool read_columns(const struct libpq *pq, const PGresult *result,
                         const struct columns *columns, int row, struct answer *answer)
{
    return pq->nfields(result) == columns->count
           && read_column(pq, result, row, columns->index, &answer->index)
           && read_column(pq, result, row, columns->ns, &answer->ns)
           && read_column(pq, result, row, columns->rest, &answer->rest)
           && read_column(pq, result, row, columns->took, &answer->took)
           && read_column(pq, result, row, columns->at, &answer->at_ns);
}

/* The one column of TAKE_ONE: an array of ns, rest, took and reading, as begin_array() makes one. */
static bool read_array(const struct libpq *pq, const PGresult *result, int row,
                       struct answer *answer)
{
    enum { ELEMENT_BYTES = 4 + 8, COUNT = 4 };
    int64_t *const numbers[COUNT] = {&answer->ns, &answer->rest, &answer->took, &answer->at_ns};
    if (pq->nfields(result) != 1
        || pq->getlength(result, row, 0) != ARRAY_HEAD_BYTES + COUNT * ELEMENT_BYTES) {
        return false;
    }
    const char *element = pq->getvalue(result, row, 0) + ARRAY_HEAD_BYTES;
    for (int i = 0; i < COUNT; i++, element += ELEMENT_BYTES) {
        *numbers[i] = number_of_bytes(element + 4, 8);
    }
    return true;
}

bool statement_row(const struct libpq *pq, const PGresult *result, enum statement_kind kind,
                   int number, struct statement_row *row)
{
    struct answer answer = {(int64_t)number + 1, 0, 0, 0, 0};
    bool is_read = kind == TAKE_ONE ? read_array(pq, result, number, &answer)
                                    : read_columns(pq, result, &COLUMNS[kind], number, &answer);
    *row = (struct statement_row){.index = (size_t)answer.index - 1,
                                  .moment = {(uint64_t)answer.ns, (uint64_t)answer.rest},
                                  .took = (uint32_t)answer.took,
                                  .at_ns = (uint64_t)answer.at_ns};
    return is_read && answer.index > 0 && answer.ns >= 0 && answer.rest >= 0 && answer.at_ns >= 0
           && answer.took >= 0 && answer.took <= INT32_MAX;
}
