/* SPDX-License-Identifier: MIT
 *
 * Redis' commands about keys. weir stores no keys, so most of them find nothing; DEL, EXISTS, TTL,
 * PTTL, TYPE and GET address the buckets of CL.THROTTLE, as those of redis-cell's users do. */
#include <assert.h>
#include <string.h>

#include "protocol/resp/resp_session.h"

/* The rule of all CL.THROTTLE buckets, which are known by their key alone. The numbers of the limit do not matter to
 * what these commands say: under one unit per nanosecond a level is a time. */
static const struct weir_rule *throttle_rule(struct resp_call *call)
{
    struct weir_rule *rule = &call->batch->rules[0];
    struct weir_limit limit;
    enum weir_status status = weir_limit_from_text(&limit, "1/ns", NULL);
    assert(status == WEIR_OK);
    (void)status;
    weir_rule_init_named(rule, call->service->limiter, &limit, "throttle", 8);
    return rule;
}

/* Adds requests about the command's keys from session->keys_done on, as many as a batch holds. Says how many. */
static size_t gather_keys(struct resp_call *call, enum weir_operation operation, size_t *next_arg)
{
    struct resp_batch *batch = call->batch;
    const struct weir_rule *rule = throttle_rule(call);
    size_t left = call->service->answers_left;
    size_t most = left > 0 && left < RESP_BATCH_COUNT_MAX ? left : RESP_BATCH_COUNT_MAX;
    size_t count = 0;
    size_t i = 1 + call->session->keys_done;
    for (; i < call->command->arg_count && count < most; i++) {
        struct bytes key = resp_arg(call, i);
        if (key.length < 1 || key.length > WEIR_KEY_BYTES_MAX) {
            continue; // such a key never had a bucket
        }
        batch->requests[count] = (struct weir_request){
            .rule = rule,
            .key = key.at,
            .key_len = key.length,
            .operation = operation,
            .detail = &batch->details[count],
        };
        count++;
    }
    *next_arg = i;
    return count;
}

static void forget_keys(struct resp_session *session)
{
    session->keys_done = 0;
    session->keys_found = 0;
    session->keys_failed = false;
}

/* Asks about all keys of the command, a batch at a time; what is found out is kept in the session. False: the rest is
 * for another feed; or a key was not decided, and that is the answer. */
static bool ask(struct resp_call *call, enum weir_operation operation)
{
    struct resp_session *session = call->session;
    struct resp_batch *batch = call->batch;
    assert(batch->count == 0);
    while (1u + session->keys_done < call->command->arg_count && !resp_is_spent(call)) {
        size_t next_arg;
        size_t count = gather_keys(call, operation, &next_arg);
        if (!resp_decide(call, count)) {
            break;
        }
        for (size_t i = 0; i < count; i++) {
            session->keys_found = (uint16_t)(session->keys_found + batch->details[i].existed);
            session->keys_failed =
                session->keys_failed || batch->decisions[i].verdict == WEIR_FAILED;
        }
        session->keys_done = (uint16_t)(next_arg - 1);
    }
    if (call->outcome == RESP_CALLED && 1u + session->keys_done < call->command->arg_count) {
        call->outcome = RESP_AGAIN;
    }
    if (call->outcome == RESP_CALLED && session->keys_failed) {
        forget_keys(session);
        resp_fail(call, "ERR no decision: %s",
                  batch->undecided != NULL ? batch->undecided : "the store is out of reach");
        return false;
    }
    return call->outcome == RESP_CALLED;
}

/* All were asked about: how many had a live bucket, before the operation. */
static int64_t take_count(struct resp_call *call)
{
    int64_t count = call->session->keys_found;
    forget_keys(call->session);
    return count;
}

/* Shows the bucket of a single key. False: see ask(). */
static bool show(struct resp_call *call, bool *existed)
{
    bool is_asked = ask(call, WEIR_SHOW);
    *existed = is_asked && take_count(call) > 0;
    return is_asked;
}

/* Writes how long a bucket lives yet, in units of so many nanoseconds, rounded up; -2 if it does not. */
static void write_time_to_live(struct resp_call *call, int64_t unit_ns)
{
    bool existed;
    if (show(call, &existed)) {
        int64_t ns = existed ? call->batch->decisions[0].reset_after_ns : 0;
        resp_write_integer(call->output, existed ? ns / unit_ns + (ns % unit_ns != 0) : -2);
    }
}

static void handle_ttl(struct resp_call *call)
{
    write_time_to_live(call, 1000000000);
}

static void handle_pttl(struct resp_call *call)
{
    write_time_to_live(call, 1000000);
}

static void write_count(struct resp_call *call, enum weir_operation operation)
{
    if (ask(call, operation)) {
        resp_write_integer(call->output, take_count(call));
    }
}

static void handle_exists(struct resp_call *call)
{
    write_count(call, WEIR_SHOW);
}

static void handle_del(struct resp_call *call)
{
    write_count(call, WEIR_RESET);
}

static void handle_get(struct resp_call *call)
{
    bool existed;
    if (!show(call, &existed)) {
        return;
    }
    if (!existed) {
        resp_write_null(call->output, call->session->version);
        return;
    }
    char digits[RESP_INTEGER_BYTES_MAX];
    char *end = resp_put_digits(digits, call->batch->details[0].empty_at_ns);
    resp_write_bulk(call->output, (struct bytes){digits, (size_t)(end - digits)});
}

static void handle_type(struct resp_call *call)
{
    bool existed;
    if (show(call, &existed)) {
        resp_write_simple(call->output, existed ? "string" : "none");
    }
}

static void handle_scan(struct resp_call *call)
{
    int64_t cursor;
    if (!resp_read_integer(resp_arg(call, 1), &cursor) || cursor < 0) {
        resp_fail(call, "ERR invalid cursor");
        return;
    }
    resp_write_array(call->output, 2);
    resp_write_bulk_text(call->output, "0");
    resp_write_array(call->output, 0);
}

static void handle_keys(struct resp_call *call)
{
    resp_write_array(call->output, 0);
}

static void handle_dbsize(struct resp_call *call)
{
    resp_write_integer(call->output, 0);
}

const struct resp_handler RESP_KEY_HANDLERS[] = {
    {"del", -2, false, handle_del},
    {"unlink", -2, false, handle_del},
    {"exists", -2, false, handle_exists},
    {"get", 2, false, handle_get},
    {"ttl", 2, false, handle_ttl},
    {"pttl", 2, false, handle_pttl},
    {"type", 2, false, handle_type},
    {"scan", -2, false, handle_scan},
    {"keys", 2, false, handle_keys},
    {"dbsize", 1, false, handle_dbsize},
    {NULL, 0, false, NULL},
};
