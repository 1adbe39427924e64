/* SPDX-License-Identifier: MIT */
#include "store/postgres/flight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "store/postgres/session.h"
#include "store/remote.h"

/*   port       of a probe, otherwise NULL
 *   planned    of questions[], which are those of all batches
 *   steps      statements, in the order in which they are sent; over_count of them are through
 *   result     of the one that is heard, until its sync says that it stands
 *   reading    STORE_NOW, or that of a test's clock
 *   room       for the parameters of one statement */
struct flight {
    struct batch_list batches;
    struct port *port;
    struct question **questions;
    struct plan_question *planned;
    struct step *steps;
    struct plan_entry probe;
    uint32_t probe_index;
    size_t step_count, over_count;
    PGresult *result;
    const struct libpq *pq;
    uint64_t reading;
    char *room;
    max_align_t memory[];
};

/* ---- making one ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

/* All in one piece of memory. *plan_memory gets the planner's part. */
static struct flight *allocate(size_t count, void **plan_memory)
{
    const size_t sizes[] = {aligned(count * sizeof(struct question *)),
                            aligned(count * sizeof(struct plan_question)),
                            aligned(count * sizeof(struct step)), aligned(plan_bytes(count)),
                            aligned(statement_bytes(count))};
    size_t bytes = sizeof(struct flight);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bytes += sizes[i];
    }
    struct flight *flight = malloc(bytes);
    if (flight == NULL) {
        return NULL;
    }
    *flight = (struct flight){.batches = {.order = BATCH_BY_PLACE}, .reading = STORE_NOW};
    char *at = (char *)flight->memory;
    flight->questions = (void *)at;
    flight->planned = (void *)(at += sizes[0]);
    flight->steps = (void *)(at += sizes[1]);
    *plan_memory = at += sizes[2];
    flight->room = at + sizes[3];
    return flight;
}

static void add_step(struct flight *flight, enum statement_kind kind, bool is_run,
                     const struct plan_entry *entries, uint32_t count)
{
    if (count > 0) {
        flight->steps[flight->step_count++] = (struct step){kind, is_run, entries, count};
    }
}

/* Starting the statement for many costs as much as two for one. */
static bool are_few(const struct plan_wave *wave)
{
    bool are_few = wave->take_count <= 2;
    for (uint32_t i = 0; are_few && i < wave->take_count; i++) {
        are_few = wave->takes[i].count == 1;
    }
    return are_few;
}

static void add_wave(struct flight *flight, const struct plan_wave *wave, bool is_careful)
{
    if (is_careful || are_few(wave)) {
        for (uint32_t i = 0; i < wave->take_count; i++) {
            const struct plan_entry *entry = &wave->takes[i];
            add_step(flight, entry->count == 1 ? TAKE_ONE : TAKE_MANY, false, entry, 1);
        }
    } else {
        add_step(flight, TAKE_MANY, false, wave->takes, wave->take_count);
    }
    add_step(flight, READ_MANY, false, wave->reads, wave->read_count);
    for (uint32_t i = 0; i < wave->run_count; i++) {
        const struct plan_entry *run = &wave->runs[i];
        bool is_read = flight->questions[run->questions[0]]->is_read;
        add_step(flight, is_read ? READ_MANY : TAKE_RUN, true, run, 1);
    }
}

static size_t count_questions(const struct batch_list *batches)
{
    size_t count = 0;
    for (struct batch *batch = batches->first; batch != NULL;
         batch = batch_list_next(batches, batch)) {
        count += ask_of(batch)->asked_count;
    }
    return count;
}

/* Takes the questions of a batch that are asked. Returns how many there are then. */
static size_t add_questions(struct flight *flight, size_t count, struct batch *batch,
                            uint32_t number)
{
    struct ask *ask = ask_of(batch);
    for (size_t i = 0; i < batch->count; i++) {
        if (ask->questions[i].is_asked) {
            flight->questions[count] = &ask->questions[i];
            flight->planned[count] = ask->questions[i].planned;
            flight->planned[count++].batch = number;
        }
    }
    ask->waiting_count = ask->asked_count;
    ask->has_succeeded = ask->has_failed = false;
    ask->is_written = true;
    return count;
}

struct flight *flight_make(struct batch_list *batches)
{
    size_t count = count_questions(batches);
    void *plan_memory;
    struct flight *flight = allocate(count, &plan_memory);
    if (flight == NULL) {
        return NULL;
    }
    flight->reading = batches->first->now_ns;
    bool is_careful = batches->first->is_retry;
    size_t added_count = 0;
    uint32_t number = 0;
    for (struct batch *batch; (batch = batch_list_take(batches)) != NULL;) {
        assert(batch->now_ns == flight->reading);
        added_count = add_questions(flight, added_count, batch, number++);
        batch_list_add(&flight->batches, batch);
    }
    assert(added_count == count);
    struct plan_waves plan = plan_make(flight->planned, count, plan_memory);
    for (size_t i = 0; i < plan.count; i++) {
        add_wave(flight, &plan.waves[i], is_careful);
    }
    return flight;
}

struct flight *flight_make_probe(struct port *port)
{
    void *plan_memory;
    struct flight *flight = allocate(1, &plan_memory);
    if (flight != NULL) {
        flight->port = port;
        flight->questions[0] = NULL;
        flight->planned[0] = (struct plan_question){
            .name = "weir probe", .span = {1, 0}, .full = {1000000000, 0}, .denominator = 1};
        flight->planned[0].name[15] = (uint8_t)((uintptr_t)port >> 6); // not one row for all ports
        flight->probe = (struct plan_entry){&flight->probe_index, 1};
        add_step(flight, TAKE_ONE, false, &flight->probe, 1);
    }
    return flight;
}

bool flight_send(struct flight *flight, const struct libpq *pq, PGconn *connection,
                 bool is_prepared)
{
    flight->pq = pq;
    for (size_t i = 0; i < flight->step_count; i++) {
        if (!statement_send(pq, connection, &flight->steps[i], flight->planned, flight->reading,
                            is_prepared, flight->room)) {
            return false;
        }
    }
    return true;
}

/* ---- reports ---- */

static void report(struct flight *flight, struct batch *batch, enum fate fate)
{
    batch_list_remove(&flight->batches, batch);
    port_answered(batch, fate);
}

static void settle_question(struct flight *flight, struct question *question, bool has_succeeded)
{
    struct ask *ask = ask_of(question->batch);
    ask->has_succeeded = ask->has_succeeded || has_succeeded;
    ask->has_failed = ask->has_failed || !has_succeeded;
    if (--ask->waiting_count == 0) {
        report(flight, question->batch,
               !ask->has_failed     ? FATE_DECIDED
               : ask->has_succeeded ? FATE_UNKNOWN
                                    : FATE_NOT_ASKED);
    }
}

static void settle_step(struct flight *flight, const struct step *step, bool has_succeeded)
{
    for (uint32_t i = 0; i < step->entry_count; i++) {
        for (uint32_t j = 0; j < step->entries[i].count; j++) {
            settle_question(flight, flight->questions[step->entries[i].questions[j]],
                            has_succeeded);
        }
    }
}

/* ---- answers ---- */

static bool answer_run(struct flight *flight, const struct step *step)
{
    const struct plan_entry *run = step->entries;
    struct question *questions[WEIR_TOGETHER_MAX];
    struct statement_row rows[WEIR_TOGETHER_MAX];
    for (uint32_t i = 0; i < run->count; i++) {
        struct statement_row row;
        if (!statement_row(flight->pq, flight->result, step->kind, (int)i, &row)
            || row.index >= run->count) {
            return false;
        }
        questions[i] = flight->questions[run->questions[i]];
        rows[row.index] = row;
    }
    question_answer_run(questions, rows, run->count);
    return true;
}

static bool answer_entries(struct flight *flight, const struct step *step)
{
    for (uint32_t i = 0; i < step->entry_count; i++) {
        struct statement_row row;
        if (!statement_row(flight->pq, flight->result, step->kind, (int)i, &row)
            || row.index >= step->entry_count) {
            return false;
        }
        const struct plan_entry *entry = &step->entries[row.index];
        for (uint32_t place = 0; place < entry->count; place++) {
            question_answer(flight->questions[entry->questions[place]], place, &row);
        }
    }
    return true;
}

/* False: that is no answer to this statement. */
static bool answer_step(struct flight *flight, const struct step *step)
{
    uint32_t row_count = step->is_run ? step->entries->count : step->entry_count;
    if (flight->pq->ntuples(flight->result) != (int)row_count) {
        return false;
    }
    if (flight->port != NULL) {
        port_probe_answered(flight->port);
        return true;
    }
    return step->is_run ? answer_run(flight, step) : answer_entries(flight, step);
}

/* ---- errors ---- */

/* Whether a session goes on after an error. After others it is opened anew, which looks at the schema, and says what has
 * become of it. Each of these goes away by itself:
 *   22     a number out of its range
 *   40     others came between
 *   53     no memory, no room on the disk
 *   55     a lock was not to be had within lock_timeout
 *   57014  it took longer than statement_timeout */
static bool goes_on(const struct libpq *pq, const PGresult *result)
{
    static const char *const PASSING[] = {"22", "40", "53", "55", "57014"};
    const char *severity = pq->resultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    bool is_passing = false;
    for (size_t i = 0; state != NULL && i < sizeof PASSING / sizeof PASSING[0]; i++) {
        is_passing = is_passing || strncmp(state, PASSING[i], strlen(PASSING[i])) == 0;
    }
    return is_passing && severity != NULL && strcmp(severity, "ERROR") == 0;
}

/* Whether it failed because of others, and would not have without them. */
static bool is_others_fault(const struct libpq *pq, const PGresult *result)
{
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    return state != NULL && (strncmp(state, "40", 2) == 0 || strcmp(state, "55P03") == 0);
}

static void say_error(const struct flight *flight, struct weir_error *error)
{
    const char *state = flight->pq->resultErrorField(flight->result, PG_DIAG_SQLSTATE);
    const char *text = flight->pq->resultErrorField(flight->result, PG_DIAG_MESSAGE_PRIMARY);
    char message[WEIR_ERROR_TEXT_MAX / 2];
    session_copy_message(message, sizeof message, text != NULL ? text : "an answer without rows");
    (void)fail(error, WEIR_E_SYSTEM, 0, "%s (%s)%s", message, state != NULL ? state : "no SQLSTATE",
               session_is_schema_missing(flight->pq, flight->result)
                   ? "; weir store init makes the schema"
                   : "");
}

/* An error of libpq's own: the connection is gone. */
static bool is_of_connection(const struct libpq *pq, const PGresult *result)
{
    return pq->resultStatus(result) == PGRES_FATAL_ERROR
           && pq->resultErrorField(result, PG_DIAG_SQLSTATE) == NULL;
}

/* ---- hearing ---- */

/* The statement is through: what was answered stands. */
static enum flight_state end_step(struct flight *flight, struct weir_error *error)
{
    const struct step *step = &flight->steps[flight->over_count++];
    bool has_rows = flight->pq->resultStatus(flight->result) == PGRES_TUPLES_OK;
    bool has_answered = has_rows && answer_step(flight, step);
    bool is_good = has_answered || (!has_rows && goes_on(flight->pq, flight->result));
    if (has_rows && !has_answered) {
        (void)fail(error, WEIR_E_SYSTEM, 0, "its answer is none to what was asked");
        return FLIGHT_BROKEN; // something was charged
    }
    if (!is_good) {
        say_error(flight, error);
    }
    if (flight->batches.first != NULL && is_others_fault(flight->pq, flight->result)) {
        port_store_spoke(flight->batches.first->port);
    }
    if (flight->port == NULL) {
        settle_step(flight, step, has_answered);
    }
    flight->pq->clear(flight->result);
    flight->result = NULL;
    return !is_good                                   ? FLIGHT_BROKEN
           : flight->over_count == flight->step_count ? FLIGHT_OVER
                                                      : FLIGHT_OUT;
}

/* An error may come behind the rows: the transaction ends with the sync. */
static void keep_result(struct flight *flight, PGresult *result)
{
    if (flight->result != NULL) {
        flight->pq->clear(flight->result);
    }
    flight->result = result;
}

enum flight_state flight_hear(struct flight *flight, const struct libpq *pq, PGconn *connection,
                              struct weir_error *error)
{
    enum flight_state state = FLIGHT_OUT;
    unsigned end_count = 0; // NULLs in a row
    while (state == FLIGHT_OUT && !pq->isBusy(connection)) {
        PGresult *result = pq->getResult(connection);
        end_count = result == NULL ? end_count + 1 : 0;
        if (end_count > 1 || (result != NULL && is_of_connection(pq, result))) {
            pq->clear(result); // one NULL stands between a statement and its sync
            session_copy_message(error->message, sizeof error->message,
                                 pq->errorMessage(connection));
            return FLIGHT_BROKEN;
        }
        if (result == NULL) {
            continue;
        }
        if (pq->resultStatus(result) != PGRES_PIPELINE_SYNC) {
            keep_result(flight, result);
        } else {
            pq->clear(result);
            state = end_step(flight, error);
        }
    }
    return state;
}

/* ---- the end ---- */

void flight_end(struct flight *flight, enum fate fate)
{
    for (struct batch *batch; (batch = flight->batches.first) != NULL;) {
        report(flight, batch, fate);
    }
    flight_forget(flight);
}

void flight_forget(struct flight *flight)
{
    if (flight != NULL && flight->result != NULL) {
        flight->pq->clear(flight->result);
    }
    free(flight);
}
