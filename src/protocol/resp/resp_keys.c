/* SPDX-License-Identifier: MIT
 *
 * Redis' commands about keys. weir stores no keys, so most of them find nothing; DEL, EXISTS, TTL,
 * PTTL, TYPE and GET address the buckets of CL.THROTTLE, as those of redis-cell's users do. */
#include <string.h>

#include "protocol/resp/resp_session.h"

/* Asks at once about a CL.THROTTLE bucket, which is known by its key alone. The numbers of the limit
 * do not matter to what these commands say: under one unit per nanosecond a level is a time. */
static struct weir_detail ask_now(struct resp_call *call, enum weir_operation operation,
                                  struct bytes key, struct weir_decision *decision)
{
    struct weir_rule rule;
    struct weir_detail detail = {.existed = false};
    *decision = (struct weir_decision){.verdict = WEIR_ALLOWED};
    struct weir_limit limit;
    if (key.length < 1 || key.length > WEIR_KEY_BYTES_MAX
        || weir_limit_from_text(&limit, "1/ns", NULL) != WEIR_OK) {
        return detail; // such a key never had a bucket
    }
    weir_rule_init_named(&rule, call->service->limiter, &limit, "throttle", 8);
    struct weir_request request = {
        .rule = &rule,
        .key = key.at,
        .key_len = key.length,
        .operation = operation,
        .detail = &detail,
    };
    weir_limiter_decide_at(call->service->limiter, &request, decision, 1, call->service->now_ns);
    return detail;
}

/* Writes how long a bucket lives yet, in units of so many nanoseconds, rounded up; -2 if it does not. */
static void write_time_to_live(struct resp_call *call, int64_t unit_ns)
{
    struct weir_decision decision;
    struct weir_detail detail = ask_now(call, WEIR_SHOW, resp_arg(call, 1), &decision);
    int64_t ns = decision.reset_after_ns;
    resp_write_integer(call->output, detail.existed ? ns / unit_ns + (ns % unit_ns != 0) : -2);
}

static void handle_ttl(struct resp_call *call)
{
    write_time_to_live(call, 1000000000);
}

static void handle_pttl(struct resp_call *call)
{
    write_time_to_live(call, 1000000);
}

/* How many of the keys have a live bucket, before the operation. */
static void write_count(struct resp_call *call, enum weir_operation operation)
{
    int64_t count = 0;
    for (size_t i = 1; i < call->command->arg_count; i++) {
        struct weir_decision decision;
        count += ask_now(call, operation, resp_arg(call, i), &decision).existed;
    }
    resp_write_integer(call->output, count);
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
    struct weir_decision decision;
    struct weir_detail detail = ask_now(call, WEIR_SHOW, resp_arg(call, 1), &decision);
    if (!detail.existed) {
        resp_write_null(call->output, call->session->version);
        return;
    }
    char digits[RESP_INTEGER_BYTES_MAX];
    char *end = resp_put_digits(digits, detail.empty_at_ns);
    resp_write_bulk(call->output, (struct bytes){digits, (size_t)(end - digits)});
}

static void handle_type(struct resp_call *call)
{
    struct weir_decision decision;
    bool existed = ask_now(call, WEIR_SHOW, resp_arg(call, 1), &decision).existed;
    resp_write_simple(call->output, existed ? "string" : "none");
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
