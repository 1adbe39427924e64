/* SPDX-License-Identifier: MIT
 *
 * What the parts of the RESP engine share: a connection's state, a worker's working memory, and one
 * call of a command. */
#ifndef WEIR_PROTOCOL_RESP_RESP_SESSION_H
#define WEIR_PROTOCOL_RESP_RESP_SESSION_H

#include "limiter/limit_list.h"
#include "limiter/names/asked.h"
#include "protocol/counting.h"
#include "protocol/engine.h"
#include "protocol/pace.h"
#include "protocol/resp/resp_parse.h"
#include "protocol/resp/resp_write.h"

enum {
    RESP_BATCH_COUNT_MAX = 64, // from so many decisions on a batch is full
    /* The last question may bring as many decisions as there may be limits in one; and while it is
     * read, nearly twice as many limits. */
    RESP_BATCH_ROOM = RESP_BATCH_COUNT_MAX - 1 + LIMIT_LIST_COUNT_MAX,
    RESP_RULE_ROOM = RESP_BATCH_ROOM + LIMIT_LIST_COUNT_MAX,

    RESP_NAME_BYTES_MAX = 63,    // CLIENT SETNAME
    RESP_LIBRARY_BYTES_MAX = 31, // CLIENT SETINFO
    RESP_FAIL_BYTES_MAX = 512,   // an error; a longer one is cut
    RESP_AUTH_FAILURES_MAX = 8,  // wrong passwords in a row, then the connection ends
    RESP_DATABASE_COUNT = 16,    // SELECT: as Redis has unless told otherwise; all are the same

    RESP_TRANSACTION_COUNT_MAX = 1024, // commands between MULTI and EXEC
    RESP_TRANSACTION_BYTES_MAX = 128 * 1024,

    /* The longest answer to a question: WEIR.FILL as a map, an amount among its values; or a take under several
     * limits as one, with what limits in shadow mode would have said. */
    RESP_ANSWER_BYTES_MAX = 320 + 10 * RESP_INTEGER_BYTES_MAX + WEIR_AMOUNT_TEXT_MAX,
};

/* Of several limits there is room for as many answers: one is more than enough for what is said of
 * each limit, and for what is said of all together. */
_Static_assert(RESP_ANSWER_BYTES_MAX >= 3 * (96 + 4 * RESP_INTEGER_BYTES_MAX),
               "a take under several limits has room for its answer");

_Static_assert((int)PACE_STEP_WORK <= (int)RESP_BATCH_COUNT_MAX,
               "a step ends before a batch is full");

struct resp_transaction;

/* One connection. */
struct resp_session {
    uint64_t id;
    struct pace pace;
    size_t need;                 // input to wait for before parsing again; 0: any
    size_t searched;             // resp_progress
    uint8_t version;             // 2 or 3
    uint8_t wait_count;          // limits of the take that stands in line
    bool wait_is_together;       // and whether its answer lists them,
    bool wait_asks_shadow;       // and says what shadows would have answered
    bool is_authenticated;       // has said the password, if one is wanted
    uint8_t auth_failures;       // wrong passwords since the last right one
    uint16_t stranger_bytes;     // of its commands since the last one that it was let in by
    uint16_t keys_done;          // of the DEL at the front of the input, which asks several times,
    uint16_t keys_found;         // and how many of them there were
    bool keys_failed;            // one of them at least could not be asked about
    uint32_t transaction_number; // counts those that were opened, and is not 0 then
    struct resp_transaction *transaction; // since MULTI; NULL: none
    const struct named_limit *
        *waits_for; // while a take stands in line: of each limit; NULL: no names
    char name[RESP_NAME_BYTES_MAX + 1];
    char library_name[RESP_LIBRARY_BYTES_MAX + 1];
    char library_version[RESP_LIBRARY_BYTES_MAX + 1];
    char peer_name[64];
    char local_name[64];
};

/* True until the client has said the password, and again after RESET. Never where none is wanted. */
static inline bool resp_is_stranger(const struct resp_session *session,
                                    const struct service *service)
{
    return service->config->password != NULL && !session->is_authenticated;
}

/* How the answer to a question is written. */
enum resp_answer {
    RESP_ANSWER_THROTTLE, // five integers, in seconds
    RESP_ANSWER_GCRA,     // the same, and an error that does not name redis-cell
    RESP_ANSWER_DECISION, // six values
    RESP_ANSWER_FILL,     // and spill, full
    RESP_ANSWER_SHOW,     // and level, waiting
    RESP_ANSWER_EXISTED,  // 1 if there was something to reset or unblock, else 0
    RESP_ANSWER_BLOCK,    // 1
    RESP_ANSWER_TOGETHER, // six values, the binding limit, and three for each limit
};

/* What is known of a question beside the requests themselves. */
struct resp_question {
    enum resp_answer answer;
    uint8_t version;
    uint8_t count;    // of its requests: 1, or more under several limits
    bool asks_shadow; // wants to hear what limits in shadow mode would have said
    bool is_beyond;   // CL.THROTTLE or its like asked for more than any cost can say: it never fits
};

/* What all limits of a question together decided, and which of them; -1: none. */
struct resp_whole {
    struct weir_decision decision;
    int binding;
};

/* The limit of CL.THROTTLE and its like. */
struct resp_throttle_numbers {
    int64_t max_burst, count, period_ns;
};

/* A worker's working memory. Questions gather here until the batch is full, another command comes
 * or the input ends. A question stands where its first request does. */
struct resp_batch {
    size_t count;            // requests
    const char *undecided;   // why on_error has answered them; NULL: they were decided
    size_t rule_count;       // questions in a row under one text share their rules
    size_t limit_count;      // how many of them are the last text's
    struct bytes limit_text; // what these last rules were made from: this,
    struct resp_throttle_numbers throttle; // or, where that has no bytes, these
    struct weir_request requests[RESP_BATCH_ROOM];
    struct weir_decision decisions[RESP_BATCH_ROOM];
    struct weir_detail details[RESP_BATCH_ROOM];
    struct resp_question questions[RESP_BATCH_ROOM];
    struct resp_whole wholes[RESP_BATCH_ROOM];        // of those that list their limits
    struct shadow_refusal shadows[RESP_BATCH_ROOM];   // of those, and of those with a name
    const struct named_limit *named[RESP_BATCH_ROOM]; // beside each request; NULL: written out
    struct weir_rule rules[RESP_RULE_ROOM];
    struct asked_part parts[RESP_RULE_ROOM]; // beside each rule; `named` at least
    bool has_chain;                          // among the last text's
    size_t keys_used;
    char keys[2 * CHAIN_KEYS_BYTES_MAX]; // of chains
    struct resp_command command;
};

/* How the call of a command has ended. */
enum resp_outcome {
    RESP_CALLED, // it is answered, or a question in the batch
    RESP_BEHIND, // it has done nothing: the batch goes first. resp_call_command() sees to that
    RESP_AGAIN,  // the rest of it is for another feed, in which it is called again
    RESP_ASKS,   // a batch is PENDING: go back to where that began
    RESP_PAUSES, // as RESP_CALLED, and what follows is for another feed
    RESP_WAITS,  // the answer comes by resume()
    RESP_CLOSES, // it is answered, and the connection ends
};

/* One command of one connection. */
struct resp_call {
    struct resp_session *session;
    struct service *service;
    struct resp_batch *batch;
    const struct resp_command *command;
    const struct resp_handler *const *tables; // all that this server has; the last is NULL
    struct buffer *output;
    struct bytes raw; // what the command was parsed from
    size_t at;        // where it begins in the input,
    size_t began;     // and where the first of its batch does
    size_t gathered;  // commands in the batch that count as requests when they are answered
    size_t counts;    // what this one will count: 1; or 0, because it has been counted
    bool only_checks; // a handler with subcommands looks for one, and does not call it
    bool has_failed;  // set by resp_fail()
    bool has_answers; // feed() began with some: it ends where none is left
    enum resp_outcome outcome;
};

struct resp_handler {
    const char *name;      // lower case
    int arity;             // arguments, the name included; negative: at least so many
    bool is_for_strangers; // allowed before the password
    void (*handle)(struct resp_call *call);
};

/* The commands that ask for a decision. Each adds a question to the batch, or fails, see resp_fail(). */
void resp_throttle(struct resp_call *call);
void resp_probe(struct resp_call *call);
void resp_gcra(struct resp_call *call);
void resp_take(struct resp_call *call);
void resp_take_all(struct resp_call *call);
void resp_can_take(struct resp_call *call);
void resp_fill(struct resp_call *call);
void resp_refund(struct resp_call *call);
void resp_show(struct resp_call *call);
void resp_reset_bucket(struct resp_call *call);
void resp_block(struct resp_call *call);
void resp_unblock(struct resp_call *call);

/* False, and the command has failed, unless these bytes can be a key. */
bool resp_check_key(struct resp_call *call, struct bytes key);

/* Reads every VAR, a name and a value, from argument `first` on. False, and the command has failed, if there
 * are too many or a name is there twice. */
bool resp_read_variables(struct resp_call *call, size_t first, struct variables *variables);

/* Writes the answer to the take for which this connection stood in line: one decision per limit. */
void resp_answer_wait(struct resp_session *session, struct service *service,
                      const struct weir_decision *decisions, struct buffer *output);

/* Forgets for which names it stood there. */
void resp_forget_wait(struct resp_session *session);

/* How many arguments an option behind the limit has, its own word included: SHADOW, VAR name value, COST c. */
size_t resp_option_words(struct bytes word);

/* True if the command is a take that would wait. */
bool resp_is_wait(const struct resp_command *command);

/* Decides what has gathered, writes the answers and counts their commands, and empties the batch. Never called by a
 * handler: a command that is no question ends as RESP_BEHIND while there are any. False: the batch is PENDING, and
 * forgotten: RESP_ASKS. */
bool resp_flush(struct resp_call *call);

/* The other commands, by subject: NULL-terminated tables. */
extern const struct resp_handler RESP_CONNECTION_HANDLERS[];
extern const struct resp_handler RESP_KEY_HANDLERS[];
extern const struct resp_handler RESP_SERVER_HANDLERS[];
extern const struct resp_handler RESP_TRANSACTION_HANDLERS[];
extern const struct resp_handler RESP_NAME_HANDLERS[];
extern const struct resp_handler RESP_CLOCK_HANDLERS[]; // with --test-clock only

/* The handler by its name, in any case, of one table; NULL if there is none. */
const struct resp_handler *resp_find_in(const struct resp_handler *table, struct bytes name);

/* Whether it may have so many arguments. */
bool resp_fits_arity(const struct resp_handler *handler, size_t arg_count);

/* The handler of a command, wherever it is; NULL if there is none. */
const struct resp_handler *resp_find_handler(const struct resp_call *call, struct bytes name);

/* Checks the command, then calls its handler or keeps it for EXEC; the batch goes first where it has to.
 * call->outcome is not RESP_BEHIND. */
void resp_call_command(struct resp_call *call);

/* Between MULTI and EXEC: whether a command is kept, to be run later, rather than called. */
bool resp_transaction_takes(const struct resp_session *session, const struct resp_handler *handler);

/* Keeps the command and answers +QUEUED, or an error that spoils the transaction. */
void resp_transaction_queue(struct resp_call *call, const struct resp_handler *handler);

/* A command was refused: EXEC will be, too. Does nothing outside of a transaction. */
void resp_transaction_spoil(struct resp_session *session);

bool resp_transaction_is_running(const struct resp_session *session);
void resp_transaction_release(struct resp_session *session);

/* The memory that it holds. */
size_t resp_transaction_bytes(const struct resp_session *session);

/* Finds and calls a subcommand: the second argument. */
void resp_handle_subcommand(struct resp_call *call, const char *name,
                            const struct resp_handler *table);

/* True if the bytes are this word, which is written in lower case, in any case. */
bool resp_word_is(struct bytes bytes, const char *word);

/* Reads a decimal 64-bit integer: an optional sign, then digits, nothing else. */
bool resp_read_integer(struct bytes bytes, int64_t *value);

/* An error reply that also counts. While there are questions in the batch it writes nothing and counts nothing, but
 * is RESP_BEHIND: their answers go first. A handler changes nothing before it fails. */
__attribute__((format(printf, 2, 3))) void resp_fail(struct resp_call *call, const char *format,
                                                     ...);
void resp_fail_arity(struct resp_call *call, const char *name);

/* Has the first requests of the batch decided. False: they are PENDING, RESP_ASKS. */
static inline bool resp_decide(struct resp_call *call, size_t count)
{
    struct resp_batch *batch = call->batch;
    if (service_decide(call->service, batch->requests, batch->decisions, count) == DECIDED) {
        batch->undecided = call->service->undecided;
        return true;
    }
    call->outcome = RESP_ASKS;
    return false;
}

/* Whether all answers that there were are used: what follows may be under another configuration. */
static inline bool resp_is_spent(const struct resp_call *call)
{
    return call->has_answers && call->service->answers_left == 0;
}

/* Counts the command before it is answered: of EXEC, and where the answer says how many there have been. */
static inline void resp_count(struct resp_call *call)
{
    counter_add(&call->service->counters->requests[PROTOCOL_RESP], call->counts);
    call->counts = 0;
}

static inline struct bytes resp_arg(const struct resp_call *call, size_t i)
{
    return call->command->args[i];
}

#endif
