/* SPDX-License-Identifier: MIT */
#include "store/postgres/flight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "store/postgres/schema.h"
#include "store/postgres/swaps.h"
#include "store/postgres/talk.h"
#include "store/remote.h"
#include "weir/clock.h"

enum { WAVES_MAX = 8 };

/*   port        of a probe, otherwise NULL
 *   planned     of questions[], which are the plain ones of all batches
 *   swaps       the others
 *   steps       statements that are sent together, in this order; over_count of them are through
 *   result      of the one that is heard, until its sync says that it stands
 *   reading     STORE_NOW, or that of a test's clock
 *   read_ns     the reading that came with the rows of a swap
 *   room        for the parameters of one statement
 *   is_careful  it is asked again: no statement is shared */
struct flight {
    struct batch_list batches;
    struct port *port;
    struct question **questions;
    struct plan_question *planned;
    struct swaps swaps;
    struct step *steps;
    struct plan_entry probe;
    uint32_t probe_index;
    size_t step_count, over_count;
    PGresult *result;
    const struct libpq *pq;
    uint64_t reading, read_ns;
    char *room;
    bool is_careful;
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
                            aligned(count * sizeof(struct swap_run)),
                            aligned(count * sizeof(struct step)),
                            aligned(plan_bytes(count)),
                            aligned(statement_bytes(2 * count))}; // a swap has two rows of each
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
    flight->swaps.runs = (void *)(at += sizes[1]);
    flight->steps = (void *)(at += sizes[2]);
    *plan_memory = at += sizes[3];
    flight->room = at + sizes[4];
    return flight;
}

static void add_step(struct flight *flight, enum statement_kind kind, bool is_run,
                     const struct plan_entry *entries, uint32_t count)
{
    if (count > 0) {
        flight->steps[flight->step_count++] =
            (struct step){.kind = kind, .is_run = is_run, .entries = entries, .entry_count = count};
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

static void add_wave(struct flight *flight, const struct plan_wave *wave)
{
    if (flight->is_careful || are_few(wave)) {
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

/* Takes the questions of a batch that are asked. Returns how many plain ones there are then. */
static size_t add_questions(struct flight *flight, size_t count, struct batch *batch,
                            uint32_t number)
{
    struct ask *ask = ask_of(batch);
    for (size_t at = 0, length; at < batch->count; at += length) {
        struct question *questions = &ask->questions[at];
        length = question_run_length(questions);
        bool is_swap = ask->is_swap || questions->is_swap;
        if (questions->is_asked && is_swap) {
            swaps_add(&flight->swaps, questions);
        }
        for (size_t i = 0; questions->is_asked && !is_swap && i < length; i++) {
            flight->questions[count] = &questions[i];
            flight->planned[count] = questions[i].planned;
            flight->planned[count++].batch = number;
        }
    }
    ask->waiting_count = ask->asked_count;
    ask->has_succeeded = ask->has_failed = false;
    ask->is_written = true;
    return count;
}

static struct plan_waves plan_batches(struct flight *flight, void *plan_memory)
{
    size_t plain_count = 0;
    uint32_t number = 0;
    flight->swaps.run_count = 0;
    for (struct batch *batch = flight->batches.first; batch != NULL;
         batch = batch_list_next(&flight->batches, batch)) {
        plain_count = add_questions(flight, plain_count, batch, number++);
    }
    return plan_make(flight->planned, plain_count, plan_memory);
}

static void swap_batches_of(struct flight *flight, const struct plan_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < entries[i].count; j++) {
            ask_of(flight->questions[entries[i].questions[j]]->batch)->is_swap = true;
        }
    }
}

/* Unequal takes of one bucket are a wave each, so a client that asks many would have the connection to itself for as
 * many statements. Such batches are swapped: a read and a write, whatever they ask. */
static void swap_long_batches(struct flight *flight, const struct plan_waves *plan)
{
    for (size_t i = WAVES_MAX; i < plan->count; i++) {
        const struct plan_wave *wave = &plan->waves[i];
        swap_batches_of(flight, wave->takes, wave->take_count);
        swap_batches_of(flight, wave->reads, wave->read_count);
        swap_batches_of(flight, wave->runs, wave->run_count);
    }
}

/* The read of a round, if there is anything to do. Its write follows when it is heard. */
static void begin_swaps(struct flight *flight)
{
    struct step read = {.kind = READ_MANY};
    bool begins = swaps_begin(&flight->swaps, &read.rows);
    flight->step_count = flight->over_count = 0;
    if (begins) {
        flight->steps[flight->step_count++] = read;
    } else if (flight->swaps.tries == SWAP_TRIES_MAX) {
        port_store_spoke(flight->batches.first->port); // others were quicker
    }
}

/* All groups in a statement, or each in one of its own. */
static void write_swaps(struct flight *flight, uint32_t group_count)
{
    uint32_t each = flight->is_careful ? 1 : group_count;
    flight->step_count = flight->over_count = 0;
    for (uint32_t group = 0; group < group_count; group += each) {
        flight->steps[flight->step_count++] =
            (struct step){.kind = SWAP, .rows = swaps_write(&flight->swaps, group, each)};
    }
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
    flight->is_careful = batches->first->is_retry;
    for (struct batch *batch; (batch = batch_list_take(batches)) != NULL;) {
        assert(batch->now_ns == flight->reading);
        batch_list_add(&flight->batches, batch);
    }
    struct plan_waves plan = plan_batches(flight, plan_memory);
    if (plan.count > WAVES_MAX) {
        swap_long_batches(flight, &plan);
        plan = plan_batches(flight, plan_memory);
    }
    for (size_t i = 0; i < plan.count; i++) {
        add_wave(flight, &plan.waves[i]);
    }
    if (flight->step_count == 0) {
        begin_swaps(flight);
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

/* What has gone to swap is settled there. */
static void settle_step(struct flight *flight, const struct step *step, bool has_succeeded)
{
    for (uint32_t i = 0; i < step->entry_count; i++) {
        for (uint32_t j = 0; j < step->entries[i].count; j++) {
            struct question *question = flight->questions[step->entries[i].questions[j]];
            if (!question->is_swap) {
                settle_question(flight, question, has_succeeded);
            }
        }
    }
}

static void settle_swaps(struct flight *flight)
{
    for (size_t i = 0; i < flight->swaps.run_count; i++) {
        struct swap_run *run = &flight->swaps.runs[i];
        bool is_over = run->state == SWAP_DONE || run->state == SWAP_FAILED;
        if (is_over && !run->is_told) {
            run->is_told = true;
            for (uint32_t j = 0; j < run->count; j++) { // behind the last one its batch may be gone
                settle_question(flight, &run->questions[j], run->state == SWAP_DONE);
            }
        }
    }
}

/* ---- answers ---- */

/* A displaced bucket says nothing by its moment: swap finds out. The questions of a run lie together, sorted or not. */
static bool answer_run(struct flight *flight, const struct step *step)
{
    const struct plan_entry *run = step->entries;
    struct question *questions[WEIR_TOGETHER_MAX];
    struct question *first = flight->questions[run->questions[0]];
    struct statement_row rows[WEIR_TOGETHER_MAX];
    bool is_displaced = false;
    for (uint32_t i = 0; i < run->count; i++) {
        struct statement_row row;
        if (!statement_row(flight->pq, flight->result, step->kind, (int)i, &row)
            || row.index >= run->count) {
            return false;
        }
        questions[i] = flight->questions[run->questions[i]];
        first = questions[i] < first ? questions[i] : first;
        is_displaced = is_displaced || swap_is_displaced(row.moment.ns);
        rows[row.index] = row;
    }
    if (is_displaced) {
        swaps_add(&flight->swaps, first);
    } else {
        question_answer_run(questions, rows, run->count);
    }
    return true;
}

static bool answer_entries(struct flight *flight, const struct step *step)
{
    for (uint32_t i = 0; i < step->entry_count; i++) {
        struct statement_row row;
        if (!statement_row(flight->pq, flight->result, step->kind, (int)i, &row)
            || row.index >= step->entry_count || row.took > step->entries[row.index].count) {
            return false;
        }
        const struct plan_entry *entry = &step->entries[row.index];
        for (uint32_t place = 0; place < entry->count; place++) {
            struct question *question = flight->questions[entry->questions[place]];
            if (place >= row.took && swap_is_displaced(row.moment.ns)) {
                swaps_add(&flight->swaps, question);
            } else {
                question_answer(question, place, &row);
            }
        }
    }
    return true;
}

/* The rows of buckets and blocks. Their reading is one. */
static bool see_rows(struct flight *flight, const struct step *step)
{
    for (size_t i = 0; i < step->rows.count; i++) {
        struct statement_row row;
        if (!statement_row(flight->pq, flight->result, step->kind, (int)i, &row)
            || row.index >= step->rows.count) {
            return false;
        }
        swaps_see(&flight->swaps, row.index, (struct swap_row){row.moment.ns, row.moment.rest});
        flight->read_ns = row.at_ns;
    }
    return true;
}

/* Which groups were written. */
static bool note_groups(struct flight *flight)
{
    for (int i = 0; i < flight->pq->ntuples(flight->result); i++) {
        struct statement_row row;
        if (!statement_row(flight->pq, flight->result, SWAP, i, &row) || row.index > UINT32_MAX
            || !swaps_note(&flight->swaps, (uint32_t)row.index,
                           row.took != 0 ? SWAP_WRITTEN : SWAP_CHANGED)) {
            return false;
        }
    }
    return true;
}

/* False: that is no answer to this statement. */
static bool answer_step(struct flight *flight, const struct step *step)
{
    if (step->kind == SWAP) {
        return note_groups(flight);
    }
    if (flight->pq->ntuples(flight->result) != (int)step_row_count(step)) {
        return false;
    }
    if (flight->port != NULL) {
        port_probe_answered(flight->port);
        return true;
    }
    return step->rows.names != NULL ? see_rows(flight, step)
           : step->is_run           ? answer_run(flight, step)
                                    : answer_entries(flight, step);
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
    talk_copy_message(message, sizeof message, text != NULL ? text : "an answer without rows");
    (void)fail(error, WEIR_E_SYSTEM, 0, "%s (%s)%s", message, state != NULL ? state : "no SQLSTATE",
               schema_is_missing(flight->pq, flight->result) ? "; weir store init makes the schema"
               : talk_is_pooled(flight->pq, flight->result)  ? TALK_POOLED
                                                             : "");
}

/* An error of libpq's own: the connection is gone. */
static bool is_of_connection(const struct libpq *pq, const PGresult *result)
{
    return pq->resultStatus(result) == PGRES_FATAL_ERROR
           && pq->resultErrorField(result, PG_DIAG_SQLSTATE) == NULL;
}

/* ---- hearing ---- */

/* The statement of a swap has failed: nothing was written. */
static void fail_swap(struct flight *flight, const struct step *step)
{
    if (step->kind == READ_MANY) {
        swaps_give_up(&flight->swaps);
    }
    for (size_t i = 0; step->kind == SWAP && i < step->rows.count; i++) {
        (void)swaps_note(&flight->swaps, step->rows.groups[i], SWAP_BROKEN);
    }
}

/* All that was sent is through. A round of swaps goes on: from the read to the write, and from there to the next read. */
static enum flight_state go_on(struct flight *flight)
{
    const struct step *last = &flight->steps[flight->step_count - 1];
    bool was_read = last->kind == READ_MANY && last->rows.names != NULL;
    if (flight->port != NULL) {
        return FLIGHT_OVER;
    }
    if (was_read) {
        uint32_t group_count = swaps_decide(&flight->swaps, flight->read_ns, weir_clock_now_ns());
        write_swaps(flight, group_count);
    } else {
        swaps_end(&flight->swaps);
        flight->step_count = 0;
    }
    if (flight->step_count == 0) {
        begin_swaps(flight);
    }
    settle_swaps(flight);
    return flight->step_count == 0 ? FLIGHT_OVER : FLIGHT_READY;
}

/* The statement is through: what was answered stands. */
static enum flight_state end_step(struct flight *flight, struct weir_error *error)
{
    const struct step *step = &flight->steps[flight->over_count++];
    bool has_rows = flight->pq->resultStatus(flight->result) == PGRES_TUPLES_OK;
    bool has_answered = has_rows && answer_step(flight, step);
    bool may_go_on = flight->port == NULL && !has_rows && goes_on(flight->pq, flight->result);
    bool is_good = has_answered || may_go_on; // why a probe has failed is to be said
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
    if (step->rows.names != NULL && !has_answered) {
        fail_swap(flight, step);
    } else if (step->rows.names == NULL && flight->port == NULL) {
        settle_step(flight, step, has_answered);
    }
    flight->pq->clear(flight->result);
    flight->result = NULL;
    return !is_good                                   ? FLIGHT_BROKEN
           : flight->over_count == flight->step_count ? go_on(flight)
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
            talk_copy_message(error->message, sizeof error->message, pq->errorMessage(connection));
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

bool flight_swaps(const struct flight *flight)
{
    return flight->swaps.run_count > 0;
}

/* ---- the end ---- */

void flight_end(struct flight *flight, enum fate fate)
{
    swaps_end(&flight->swaps);
    swaps_give_up(&flight->swaps);
    settle_swaps(flight);
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
    if (flight != NULL) {
        swaps_free(&flight->swaps);
    }
    free(flight);
}
