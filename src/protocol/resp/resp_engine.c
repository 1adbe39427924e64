/* SPDX-License-Identifier: MIT
 *
 * RESP as an engine: reads every command of a read, lets questions gather in a batch, and answers
 * in order. A command that is no question is answered at once, when the batch before it has been. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "protocol/resp/resp_session.h"

/* A command is refused before it could need more input than the server keeps. */
_Static_assert((int)RESP_COMMAND_BYTES_MAX < ENGINE_INPUT_BYTES_MAX,
               "a command fits the server's buffer");
_Static_assert((int)RESP_INLINE_BYTES_MAX < (int)ENGINE_INPUT_BYTES_MAX, "and so does a line");
_Static_assert(RESP_STRANGER_BYTES_MAX * 2 <= UINT16_MAX, "session->stranger_bytes holds it");
_Static_assert(RESP_BULK_BYTES_MAX >= WEIR_KEY_BYTES_MAX, "every key can be said");

static const struct resp_handler QUESTION_HANDLERS[] = {
    {"cl.throttle", -1, false, resp_throttle}, // counts its arguments itself
    {"weir.take", -3, false, resp_take},
    {"cl.probe", -1, false, resp_probe}, // likewise
    {"gcra", -5, false, resp_gcra},
    {"weir.takeall", -2, false, resp_take_all},
    {"weir.cantake", -3, false, resp_can_take},
    {"weir.peek", -3, false, resp_can_take}, // the word that people look for
    {"weir.fill", -3, false, resp_fill},
    {"weir.refund", -3, false, resp_refund},
    {"weir.show", 3, false, resp_show},
    {"weir.reset", 3, false, resp_reset_bucket},
    {"weir.block", 4, false, resp_block},
    {"weir.unblock", 3, false, resp_unblock},
    {NULL, 0, false, NULL},
};

static const struct resp_handler *const *tables_of(const struct service *service)
{
    static const struct resp_handler *const TABLES[] = {
        RESP_CLOCK_HANDLERS, QUESTION_HANDLERS,    RESP_CONNECTION_HANDLERS,  RESP_KEY_HANDLERS,
        RESP_NAME_HANDLERS,  RESP_SERVER_HANDLERS, RESP_TRANSACTION_HANDLERS, NULL,
    };
    return service->ops->test_clock_set != NULL ? TABLES : TABLES + 1;
}

/* The two commands that come by the million, as nearly everybody writes them. */
static const struct resp_handler *find_question(struct bytes name)
{
    if (name.length == 11
        && (memcmp(name.at, "CL.THROTTLE", 11) == 0 || memcmp(name.at, "cl.throttle", 11) == 0)) {
        return &QUESTION_HANDLERS[0];
    }
    if (name.length == 9
        && (memcmp(name.at, "WEIR.TAKE", 9) == 0 || memcmp(name.at, "weir.take", 9) == 0)) {
        return &QUESTION_HANDLERS[1];
    }
    return NULL;
}

/* Redis repeats what it did not understand: the name, and arguments up to 128 bytes in all. */
static void fail_unknown(struct resp_call *call)
{
    enum { SHOWN_BYTES_MAX = 128 };
    struct bytes name = resp_arg(call, 0);
    char args[SHOWN_BYTES_MAX + 8] = "";
    size_t length = 0;
    for (size_t i = 1; i < call->command->arg_count && length < SHOWN_BYTES_MAX; i++) {
        struct bytes arg = resp_arg(call, i);
        size_t room = SHOWN_BYTES_MAX - length;
        int written = snprintf(args + length, sizeof args - length, "'%.*s' ",
                               (int)(arg.length < room ? arg.length : room), arg.at);
        length +=
            (size_t)written < sizeof args - length ? (size_t)written : sizeof args - length - 1;
    }
    resp_fail(call, "ERR unknown command '%.*s', with args beginning with: %s",
              (int)(name.length < SHOWN_BYTES_MAX ? name.length : SHOWN_BYTES_MAX), name.at, args);
}

static bool is_question(const struct resp_handler *handler)
{
    size_t count = sizeof QUESTION_HANDLERS / sizeof QUESTION_HANDLERS[0];
    return handler >= QUESTION_HANDLERS && handler < QUESTION_HANDLERS + count;
}

/* True if the client speaks HTTP: a web browser, or a server that was made to ask for an address of somebody's choice.
 * Its request line is no command, but what follows may be. Redis knows POST and Host: only (cross protocol
 * scripting), and then runs what lies behind a GET in the same packet. */
static bool is_http(const struct resp_command *command, const struct resp_handler *handler)
{
    struct bytes first = command->args[0];
    struct bytes last = command->args[command->arg_count - 1];
    bool is_request_line = command->is_inline && command->arg_count > 1 && last.length == 8
                           && memcmp(last.at, "HTTP/1.", 7) == 0;
    return is_request_line
           || (handler == NULL && (resp_word_is(first, "post") || resp_word_is(first, "host:")));
}

/* False, and the command has failed, where it is refused before anybody looks at what it asks. */
static bool check_command(struct resp_call *call, const struct resp_handler *handler)
{
    if (handler == NULL) {
        fail_unknown(call);
    } else if (!resp_fits_arity(handler, call->command->arg_count)) {
        resp_fail_arity(call, handler->name);
    } else if (resp_is_stranger(call->session, call->service) && !handler->is_for_strangers) {
        resp_fail(call, "NOAUTH Authentication required.");
    } else {
        return true;
    }
    if (call->outcome != RESP_BEHIND) {
        call->session->pace.work += PACE_OTHER;
        resp_transaction_spoil(call->session);
    }
    return false;
}

static void call_handler(struct resp_call *call, const struct resp_handler *handler)
{
    if (is_question(handler)) {
        handler->handle(call);
    } else if (call->batch->count > 0) {
        call->outcome = RESP_BEHIND;
    } else {
        call->session->pace.work += PACE_OTHER;
        handler->handle(call);
    }
}

static void try_command(struct resp_call *call)
{
    struct bytes name = resp_arg(call, 0);
    const struct resp_handler *handler = find_question(name);
    call->has_failed = false;
    call->outcome = RESP_CALLED;
    if (handler == NULL) {
        handler = resp_find_handler(call, name);
    }
    if (is_http(call->command, handler)) {
        call->outcome = call->batch->count > 0 ? RESP_BEHIND : RESP_CLOSES;
    } else if (!check_command(call, handler)) {
        return;
    } else if (call->session->transaction != NULL
               && resp_transaction_takes(call->session, handler)) {
        resp_transaction_queue(call, handler);
    } else {
        call_handler(call, handler);
    }
}

/* Whether the batch ends here. An inline command's arguments live in the memory that the next one overwrites. */
static bool is_full(const struct resp_call *call)
{
    return call->command->is_inline || call->batch->keys_used > CHAIN_KEYS_BYTES_MAX
           || pace_ends_batch(&call->session->pace, call->service, call->batch->count);
}

void resp_call_command(struct resp_call *call)
{
    if (call->batch->count == 0) {
        call->began = call->at;
    }
    try_command(call);
    if (call->outcome == RESP_BEHIND) {
        if (!resp_flush(call)) {
            return;
        }
        if (resp_is_spent(call)) {
            call->outcome = RESP_AGAIN;
            return;
        }
        call->began = call->at;
        try_command(call);
        assert(call->outcome != RESP_BEHIND);
    }
    if (call->outcome == RESP_AGAIN || call->outcome == RESP_ASKS) {
        return;
    }
    call->gathered += call->counts;
    if ((call->batch->count == 0 || is_full(call)) && resp_flush(call) && resp_is_spent(call)
        && call->outcome == RESP_CALLED) {
        call->outcome = RESP_PAUSES;
    }
}

static void session_open(void *memory, const struct peer *peer)
{
    struct resp_session *session = memory;
    *session = (struct resp_session){.id = peer->id, .version = 2};
    memcpy(session->peer_name, peer->name, sizeof session->peer_name);
    memcpy(session->local_name, peer->local_name, sizeof session->local_name);
}

static bool session_is_stranger(const void *memory, const struct service *service)
{
    return resp_is_stranger(memory, service);
}

static uint32_t session_transaction(const void *memory)
{
    const struct resp_session *session = memory;
    return session->transaction != NULL ? session->transaction_number : 0;
}

static size_t session_bytes(const void *memory)
{
    return resp_transaction_bytes(memory);
}

static void session_close(void *memory)
{
    resp_forget_wait(memory);
    resp_transaction_release(memory);
}

/* Handles the command that was parsed. */
static enum engine_state run(struct resp_call *call)
{
    static const enum engine_state STATES[] = {
        [RESP_CALLED] = ENGINE_OPEN,   [RESP_AGAIN] = ENGINE_PAUSED,  [RESP_ASKS] = ENGINE_ASKING,
        [RESP_PAUSES] = ENGINE_PAUSED, [RESP_WAITS] = ENGINE_WAITING, [RESP_CLOSES] = ENGINE_CLOSE,
    };
    if (call->command->arg_count == 0) {
        return ENGINE_OPEN;
    }
    /* Nearly always there is no transaction, and then no call to ask about it. */
    bool is_again = // an EXEC that was counted already
        call->session->transaction != NULL && resp_transaction_is_running(call->session);
    call->counts = !is_again;
    resp_call_command(call);
    return STATES[call->outcome];
}

/* The same. What a client sends before the password is bounded in all: it cannot keep the server busy with
 * commands that are refused. */
static enum engine_state run_bounded(struct resp_call *call)
{
    struct resp_session *session = call->session;
    enum engine_state state = run(call);
    if (!resp_is_stranger(session, call->service)) {
        session->stranger_bytes = 0;
        return state;
    }
    size_t bytes = session->stranger_bytes + call->raw.length;
    session->stranger_bytes = (uint16_t)bytes;
    if (state == ENGINE_OPEN && bytes > RESP_STRANGER_BYTES_MAX) {
        assert(call->batch->count == 0); // a stranger asks nothing
        resp_fail(call, "ERR Protocol error: more than %d bytes before the password",
                  RESP_STRANGER_BYTES_MAX);
        return ENGINE_CLOSE;
    }
    return state;
}

/* Whether the next command is for another turn. */
static bool has_to_pause(struct resp_call *call)
{
    struct pace *pace = &call->session->pace;
    bool is_plenty = call->output->length >= ENGINE_OUTPUT_BYTES_PLENTY;
    if (!is_plenty && !pace->is_late && !pace_is_due(pace)) {
        return false; // nearly always
    }
    return call->service->answers_left == 0
           && (is_plenty || pace->is_late || pace_look(pace, call->service));
}

/* What comes behind the batch can never become a command. */
static enum engine_state refuse(struct resp_call *call, const char *error)
{
    if (!resp_flush(call)) {
        return ENGINE_ASKING;
    }
    if (resp_is_spent(call)) {
        return ENGINE_PAUSED;
    }
    resp_fail(call, "ERR %s", error);
    return ENGINE_CLOSE;
}

static enum engine_state session_feed(void *memory, struct service *service, struct bytes input,
                                      struct buffer *output, size_t *used)
{
    struct resp_session *session = memory;
    struct resp_batch *batch = service->scratch[PROTOCOL_RESP];
    struct resp_call call = {.session = session,
                             .service = service,
                             .batch = batch,
                             .command = &batch->command,
                             .tables = tables_of(service),
                             .output = output,
                             .has_answers = service->answers_left > 0};
    struct resp_progress progress = {.searched = session->searched};
    enum engine_state state = ENGINE_OPEN;
    assert(batch->count == 0);
    pace_begin(&session->pace);
    while (state == ENGINE_OPEN && input.length - call.at >= session->need
           && call.at < input.length) {
        if (has_to_pause(&call)) {
            state = ENGINE_PAUSED;
            break;
        }
        struct bytes rest = {input.at + call.at, input.length - call.at};
        enum resp_result result =
            resp_parse(rest, resp_is_stranger(session, service), &batch->command, &progress);
        session->need = 0;
        if (result == RESP_MORE) {
            session->need = progress.need;
        } else if (result == RESP_BAD) {
            state = refuse(&call, progress.error);
            call.at = state == ENGINE_CLOSE ? input.length : call.at;
        } else {
            call.raw = (struct bytes){rest.at, progress.used};
            state = run_bounded(&call);
            call.at += call.outcome == RESP_AGAIN ? 0 : progress.used;
        }
    }
    session->searched = progress.searched;
    if (state == ENGINE_ASKING || !resp_flush(&call)) {
        state = ENGINE_ASKING;
        session->need = 0;
        session->searched = 0;
    } else if (state == ENGINE_PAUSED && call.at == input.length) {
        state = ENGINE_OPEN;
    }
    *used = state == ENGINE_ASKING ? call.began : call.at;
    return state;
}

static enum engine_state session_resume(void *memory, struct service *service,
                                        const struct weir_decision *decisions,
                                        struct buffer *output)
{
    resp_answer_wait(memory, service, decisions, output);
    return ENGINE_OPEN;
}

const struct engine_ops RESP_ENGINE = {
    .name = "resp",
    .protocol = PROTOCOL_RESP,
    .session_bytes = sizeof(struct resp_session),
    .scratch_bytes = sizeof(struct resp_batch),
    .open = session_open,
    .feed = session_feed,
    .resume = session_resume,
    .is_stranger = session_is_stranger,
    .transaction = session_transaction,
    .held_bytes = session_bytes,
    .close = session_close,
};
