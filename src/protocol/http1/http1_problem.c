/* SPDX-License-Identifier: MIT
 *
 * Bodies: decisions as JSON, and problem details for what went wrong (RFC 9457). */
#include <stdarg.h>
#include <stdio.h>

#include "core/bucket_math.h"
#include "protocol/http1/http1_batch.h"
#include "protocol/http1/http1_text.h"
#include "protocol/json/json_text.h"
#include "protocol/promise_text.h"

enum { SHOWN_KEY_BYTES_MAX = 128 }; // of a disclosed key; a longer one is cut

/* The types of draft-ietf-httpapi-ratelimit-headers-11, section on problem types. */
static const char TYPE_QUOTA_EXCEEDED[] =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
static const char TYPE_REDUCED_CAPACITY[] =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
static const char TYPE_ABNORMAL_USAGE[] =
    "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";
static const char TYPE_NONE[] = "about:blank"; // the title is then the status phrase

/* ---- A decision ---- */

static char *put_number(char *at, const char *name, int64_t value)
{
    at = put_literal(at, ",\"");
    at = put_text(at, name);
    at = put_literal(at, "\":");
    return put_i64(at, value);
}

/* "verdict":"allowed","capacity":10,...  */
static char *put_decision(char *at, const struct weir_decision *decision)
{
    int64_t retry_ns = decision->retry_after_ns;
    at = put_literal(at, "\"verdict\":\"");
    at = put_text(at, weir_verdict_word(decision->verdict));
    *at++ = '"';
    at = put_number(at, "capacity", (int64_t)decision->capacity);
    at = put_number(at, "remaining", (int64_t)decision->remaining);
    at = put_number(at, "retry_after_ns", retry_ns);
    at = put_number(at, "retry_after_ms",
                    retry_ns < 0 ? -1 : (int64_t)div_ceil((uint64_t)retry_ns, NS_PER_MS));
    at = put_number(at, "reset_after_ns", decision->reset_after_ns);
    return put_number(at, "delay_ns", decision->delay_ns);
}

/* ,"shadow":"limited","shadow_retry_after_ns":3000000000: what limits in shadow mode would have said, where they would
 * have refused; under several limits which of them, too. */
static char *put_shadow(char *at, const struct http1_task *task)
{
    if (task->shadow.verdict == WEIR_ALLOWED) {
        return at;
    }
    at = put_literal(at, ",\"shadow\":\"");
    at = put_text(at, weir_verdict_word(task->shadow.verdict));
    *at++ = '"';
    at = put_number(at, "shadow_retry_after_ns", task->shadow.retry_after_ns);
    return task->is_together ? put_number(at, "shadow_binding", task->shadow.binding) : at;
}

/* ,"binding":0,"limits":[{"limit":"10/s","capacity":10,...},...]. A limit needs no escapes. */
static char *put_limits(char *at, const struct http1_batch *batch, const struct http1_task *task)
{
    at = put_number(at, "binding", task->binding);
    at = put_literal(at, ",\"limits\":[");
    for (size_t i = 0; i < task->limit_count; i++) {
        const struct weir_decision *decision = &batch->decisions[task->question + i];
        at = i > 0 ? put_literal(at, ",") : at;
        const struct bytes *name = &batch->pairs[task->question + i].limit;
        at = put_literal(at, "{\"limit\":\"");
        at = put_bytes(at, name->at, name->length);
        at = put_literal(at, "\"");
        at = put_number(at, "capacity", (int64_t)decision->capacity);
        at = put_number(at, "remaining", (int64_t)decision->remaining);
        at = put_number(at, "reset_after_ns", decision->reset_after_ns);
        *at++ = '}';
    }
    return put_literal(at, "]");
}

static char *put_amount(char *at, const char *name, const struct weir_amount *amount)
{
    at = put_literal(at, ",\"");
    at = put_text(at, name);
    at = put_literal(at, "\":\"");
    at += weir_amount_print(amount, at);
    *at++ = '"';
    return at;
}

static char *put_flag(char *at, const char *name, bool flag)
{
    *at++ = '"';
    at = put_text(at, name);
    return put_text(at, flag ? "\":true" : "\":false");
}

/* What some operations say beside the decision. */
static char *put_more(char *at, enum weir_operation operation, const struct weir_detail *detail)
{
    if (operation == WEIR_FILL) {
        at = put_amount(at, "spill", &detail->amount);
        *at++ = ',';
        at = put_flag(at, "full", detail->full);
    } else if (operation == WEIR_SHOW) {
        at = put_amount(at, "level", &detail->amount);
        at = put_literal(at, ",\"waiting\":");
        at = put_u64(at, detail->waiting);
    }
    return at;
}

char *http1_put_decision_json(const struct http1_batch *batch, const struct http1_task *task,
                              char *at)
{
    const struct weir_detail *detail = &batch->details[task->question];
    *at++ = '{';
    if (task->operation == WEIR_RESET || task->operation == WEIR_UNBLOCK) {
        at = put_flag(at, task->operation == WEIR_RESET ? "existed" : "was_blocked",
                      detail->existed);
    } else {
        at = put_decision(at, &task->decision);
        at = task->is_together ? put_limits(at, batch, task) : at;
        at = put_shadow(at, task);
    }
    at = put_more(at, task->operation, detail);
    return put_literal(at, "}\n");
}

/* ---- Problems ---- */

bool http1_task_fail(struct http1_task *task, unsigned status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(task->detail, sizeof task->detail, format, args);
    va_end(args);
    task->answer = HTTP1_ANSWER_PROBLEM;
    task->status = status;
    task->reason = NULL;
    task->why = NULL;
    return false;
}

static char *begin_problem(char *at, const char *type, const char *title, unsigned status)
{
    at = put_literal(at, "{\"type\":\"");
    at = put_text(at, type);
    at = put_literal(at, "\",\"title\":\"");
    at = put_text(at, title);
    at = put_literal(at, "\",\"status\":");
    at = put_u64(at, status);
    return put_literal(at, ",\"detail\":\"");
}

char *http1_put_problem(const struct http1_task *task, char *at)
{
    at = begin_problem(at, TYPE_NONE, http1_phrase(task->status), task->status);
    at = json_put_escaped(at, (struct bytes){task->detail, strlen(task->detail)});
    return put_literal(at, "\"}\n");
}

static char *put_key(char *at, struct bytes key)
{
    size_t length = key.length < SHOWN_KEY_BYTES_MAX ? key.length : SHOWN_KEY_BYTES_MAX;
    at = json_put_escaped(at, (struct bytes){key.at, length});
    return length < key.length ? put_literal(at, "...") : at;
}

/* The sentence that says what was refused, and the key where it may be said: of the limit that decided. */
static char *put_detail(char *at, const struct http1_batch *batch,
                        const struct service_config *config, const struct http1_task *task)
{
    const struct json_pair *pair = http1_binding_pair(batch, task);
    const struct weir_limit *limit = &batch->rules[pair - batch->pairs].limit;
    struct bytes name = pair->limit;
    const struct bytes *numbers = &batch->parts[pair - batch->pairs].words;
    struct bytes words = {numbers->at, numbers->length};
    switch (task->decision.verdict) {
    case WEIR_NEVER:
        if (task->cost_micro <= limit->capacity_micro) {
            at = put_literal(at, "the wait is shorter than what an empty line of ");
            at = put_bytes(at, name.at, name.length);
            at = put_literal(at, " takes");
            break;
        }
        at = put_literal(at, "a cost of ");
        at = put_decimal(at, task->cost_micro, WEIR_UNIT);
        at = put_literal(at, " is more than ");
        at = put_bytes(at, name.at, name.length);
        at = put_literal(at, " ever holds");
        break;
    case WEIR_FAILED:
        at = put_literal(at, "no decision about ");
        at = put_bytes(at, name.at, name.length);
        at = put_literal(at, ": ");
        at = put_text(at, batch->failure != NULL          ? batch->failure
                          : task->operation == WEIR_BLOCK ? kind_full_text(WEIR_KIND_BUCKET)
                                                          : kind_full_text(limit->kind));
        break;
    case WEIR_BLOCKED:
        at = put_bytes(at, name.at, name.length);
        at = put_literal(at, " is blocked");
        break;
    case WEIR_ALLOWED:
    case WEIR_LIMITED:
        at = put_bytes(at, name.at, name.length);
        at = put_literal(at, " is limited to ");
        at = promise_put_text(at, words, limit);
        break;
    }
    if (config->disclose_keys) {
        at = put_literal(at, " for ");
        at = put_key(at, pair->key);
    }
    return at;
}

/* The names of all that refused, each a JSON string. */
static char *put_violated(char *at, const struct http1_batch *batch, const struct http1_task *task)
{
    const char *separator = "";
    at = put_literal(at, "\",\"violated-policies\":[");
    for (size_t i = task->question; i < task->question + task->limit_count; i++) {
        if (batch->decisions[i].verdict != WEIR_ALLOWED) {
            struct bytes name = batch->pairs[i].limit;
            at = put_text(at, separator);
            *at++ = '"';
            at = put_bytes(at, name.at, name.length);
            *at++ = '"';
            separator = ",";
        }
    }
    return put_literal(at, "],");
}

char *http1_put_refusal(const struct http1_batch *batch, const struct service_config *config,
                        const struct http1_task *task, unsigned status, char *at)
{
    const struct weir_decision *decision = &task->decision;
    if (decision->verdict == WEIR_LIMITED) {
        at = begin_problem(at, TYPE_QUOTA_EXCEEDED, "Quota exceeded", status);
    } else if (decision->verdict == WEIR_BLOCKED) {
        at = begin_problem(at, TYPE_ABNORMAL_USAGE, "Abnormal usage detected", status);
    } else if (decision->verdict == WEIR_FAILED) {
        at = begin_problem(at, TYPE_REDUCED_CAPACITY, "Temporarily reduced capacity", status);
    } else {
        at = begin_problem(at, TYPE_NONE, http1_phrase(status), status);
    }
    at = put_detail(at, batch, config, task);
    at = put_violated(at, batch, task);
    if (config->disclose_keys) {
        at = put_literal(at, "\"key\":\"");
        at = put_key(at, http1_binding_pair(batch, task)->key);
        at = put_literal(at, "\",");
    }
    at = put_decision(at, decision);
    at = task->is_together ? put_limits(at, batch, task) : at;
    at = put_shadow(at, task);
    if (decision->verdict == WEIR_BLOCKED) { // a fill that is blocked spills
        at = put_more(at, task->operation, &batch->details[task->question]);
    }
    return put_literal(at, "}\n");
}
