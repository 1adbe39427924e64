/* SPDX-License-Identifier: MIT
 *
 * MULTI, EXEC and DISCARD, in which many clients wrap a pipeline unless they are told not to. What
 * comes behind MULTI is kept as the bytes that it came in, answered +QUEUED, and run by EXEC, whose
 * answer is one array. Questions among it are decided in batches, all at one reading of the clock, also where EXEC
 * has to pause.
 *
 *     MULTI    +OK       session->transaction is open
 *     PING     +QUEUED   kept
 *     EXEC     *1 +PONG  run, then released; DISCARD, RESET and the end of the connection release too
 *
 * It saves round trips and keeps nobody else out: other connections decide in between. Nothing is
 * kept to be watched, so WATCH is always content. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/resp/resp_session.h"

struct resp_transaction {
    struct buffer kept; // the commands, as they came
    size_t count;
    size_t done;     // bytes of `kept` that EXEC has run
    uint64_t now_ns; // the reading of the clock for all of them
    bool is_spoilt;  // a command was refused: EXEC will be, too
    bool is_running; // EXEC has begun to answer
    bool closes;     // one of them has ended the connection; EXEC answers all
};

/* A transaction of questions never waits in the middle for its answers to be sent; unless hundreds of them are
 * under many limits each. */
enum { PAUSE_BYTES = 1024 * 1024 };
_Static_assert(ENGINE_OUTPUT_BYTES_PLENTY + RESP_TRANSACTION_COUNT_MAX * RESP_ANSWER_BYTES_MAX
                   < PAUSE_BYTES,
               "the answers to questions of one limit never pause EXEC");
_Static_assert(RESP_TRANSACTION_COUNT_MAX == 1024 && RESP_TRANSACTION_BYTES_MAX == 131072,
               "as the error in resp_transaction_queue() says");

static struct resp_transaction *open_transaction(void)
{
    struct resp_transaction *transaction = calloc(1, sizeof *transaction);
    if (transaction != NULL) {
        buffer_init(&transaction->kept, RESP_TRANSACTION_BYTES_MAX);
    }
    return transaction;
}

void resp_transaction_release(struct resp_session *session)
{
    if (session->transaction != NULL) {
        buffer_fini(&session->transaction->kept);
        free(session->transaction);
        session->transaction = NULL;
    }
}

size_t resp_transaction_bytes(const struct resp_session *session)
{
    const struct resp_transaction *transaction = session->transaction;
    return transaction != NULL ? sizeof *transaction + transaction->kept.capacity : 0;
}

bool resp_transaction_is_running(const struct resp_session *session)
{
    return session->transaction != NULL && session->transaction->is_running;
}

void resp_transaction_spoil(struct resp_session *session)
{
    if (session->transaction != NULL) {
        session->transaction->is_spoilt = true;
        buffer_fini(&session->transaction->kept); // it will not run
    }
}

static bool is_one_of(const struct resp_handler *handler, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(handler->name, *names) == 0) {
            return true;
        }
    }
    return false;
}

bool resp_transaction_takes(const struct resp_session *session, const struct resp_handler *handler)
{
    static const char *const AT_ONCE[] = {"multi", "exec",  "discard", "watch",
                                          "quit",  "reset", NULL};
    return session->transaction != NULL && !session->transaction->is_running
           && !is_one_of(handler, AT_ONCE);
}

/* False, and an error is written, where there is no such subcommand. Redis looks before it queues. */
static bool check_subcommand(struct resp_call *call, const struct resp_handler *handler)
{
    static const char *const WITH_SUBCOMMANDS[] = {"acl",     "client", "command", "config",
                                                   "latency", "memory", "slowlog", NULL};
    if (call->command->arg_count < 2 || !is_one_of(handler, WITH_SUBCOMMANDS)) {
        return true;
    }
    call->only_checks = true;
    handler->handle(call);
    call->only_checks = false;
    return !call->has_failed;
}

static bool keep(struct resp_transaction *transaction, struct bytes raw)
{
    if (transaction->count == RESP_TRANSACTION_COUNT_MAX) {
        return false;
    }
    buffer_append(&transaction->kept, raw.at, raw.length);
    transaction->count += !transaction->kept.failed;
    return !transaction->kept.failed;
}

void resp_transaction_queue(struct resp_call *call, const struct resp_handler *handler)
{
    struct resp_transaction *transaction = call->session->transaction;
    assert(transaction != NULL && !transaction->is_running && call->batch->count == 0);
    if (!check_subcommand(call, handler)) {
        resp_transaction_spoil(call->session);
    } else if (resp_is_wait(call->command)) {
        resp_fail(call, "ERR WAIT cannot be inside a transaction: EXEC answers at once");
        resp_transaction_spoil(call->session);
    } else if (transaction->is_spoilt || keep(transaction, call->raw)) {
        resp_write_simple(call->output, "QUEUED");
    } else {
        resp_fail(call, "ERR a transaction holds at most 1024 commands and 131072 bytes");
        resp_transaction_spoil(call->session);
    }
}

static void handle_multi(struct resp_call *call)
{
    struct resp_session *session = call->session;
    if (session->transaction != NULL) {
        resp_fail(call, "ERR MULTI calls can not be nested");
        return;
    }
    session->transaction = open_transaction();
    if (session->transaction == NULL) {
        resp_fail(call, "ERR out of memory");
    } else {
        session->transaction_number += session->transaction_number < UINT32_MAX ? 1 : 2; // never 0
        resp_write_simple(call->output, "OK");
    }
}

static void handle_discard(struct resp_call *call)
{
    if (call->session->transaction == NULL) {
        resp_fail(call, "ERR DISCARD without MULTI");
    } else {
        resp_transaction_release(call->session);
        resp_write_simple(call->output, "OK");
    }
}

/* Whether the rest is for another turn: there is plenty to send, or it has taken long. */
static bool has_to_pause(struct resp_call *call)
{
    struct pace *pace = &call->session->pace;
    if (call->service->answers_left > 0) {
        return false;
    }
    return resp_is_spent(call) || call->output->length >= PAUSE_BYTES || pace->is_late
           || (pace_is_due(pace) && pace_look(pace, call->service));
}

/* Runs what was kept, from where it stopped, one command at least. All of it was counted when it was queued. False: a
 * batch is PENDING, and it has stopped in front of that. */
static bool run_some(struct resp_call *call, struct resp_transaction *transaction)
{
    const struct buffer *kept = &transaction->kept;
    const size_t exec_at = call->at;
    bool goes_on = true;
    call->at = transaction->done;
    while (goes_on && call->at < kept->length) {
        struct bytes rest = {kept->at + call->at, kept->length - call->at};
        struct resp_progress progress = {.searched = 0};
        enum resp_result result = resp_parse(rest, false, &call->batch->command, &progress);
        assert(result == RESP_DONE && progress.used > 0); // as when it came
        (void)result;
        resp_call_command(call);
        transaction->closes = transaction->closes || call->outcome == RESP_CLOSES;
        call->at += call->outcome == RESP_AGAIN ? 0 : progress.used;
        goes_on =
            (call->outcome == RESP_CALLED || call->outcome == RESP_CLOSES) && !has_to_pause(call);
    }
    bool is_answered =
        call->outcome != RESP_ASKS && resp_flush(call); // its questions point into `kept`
    transaction->done = is_answered ? call->at : call->began;
    call->at = exec_at;
    call->began = exec_at;
    return is_answered;
}

/* The same, at the reading of the clock with which it began: a later one is for what comes behind. If it has to pause
 * EXEC is not done with, and comes again. */
static void run_kept(struct resp_call *call, struct resp_transaction *transaction)
{
    struct service *service = call->service;
    uint64_t now_ns = service->now_ns;
    if (!transaction->is_running) {
        transaction->is_running = true;
        transaction->now_ns = now_ns;
        resp_count(call);
        resp_write_array(call->output, transaction->count);
    }
    service->now_ns = transaction->now_ns;
    bool is_answered = run_some(call, transaction);
    transaction->now_ns = service->now_ns; // WEIR.CLOCK may have moved it
    service->now_ns = now_ns > service->now_ns ? now_ns : service->now_ns;
    if (transaction->done < transaction->kept.length) {
        call->outcome = is_answered ? RESP_AGAIN : RESP_ASKS;
    } else {
        call->outcome = transaction->closes ? RESP_CLOSES : RESP_CALLED;
        resp_transaction_release(call->session);
    }
}

static void handle_exec(struct resp_call *call)
{
    struct resp_transaction *transaction = call->session->transaction;
    if (call->command->arg_count != 1) {
        resp_transaction_release(call->session);
        resp_fail(call, "EXECABORT Transaction discarded because of: wrong number of arguments for "
                        "'exec' command");
    } else if (transaction == NULL) {
        resp_fail(call, "ERR EXEC without MULTI");
    } else if (transaction->is_spoilt) {
        resp_transaction_release(call->session);
        resp_fail(call, "EXECABORT Transaction discarded because of previous errors.");
    } else {
        run_kept(call, transaction);
    }
}

static void handle_watch(struct resp_call *call)
{
    if (call->session->transaction != NULL) {
        resp_fail(call, "ERR WATCH inside MULTI is not allowed");
    } else {
        resp_write_simple(call->output, "OK");
    }
}

static void handle_unwatch(struct resp_call *call)
{
    resp_write_simple(call->output, "OK");
}

const struct resp_handler RESP_TRANSACTION_HANDLERS[] = {
    {"multi", 1, false, handle_multi},
    {"exec", -1, false, handle_exec}, // counts its arguments itself: too many end the transaction
    {"discard", 1, false, handle_discard},
    {"watch", -2, false, handle_watch},
    {"unwatch", 1, false, handle_unwatch},
    {NULL, 0, false, NULL},
};
