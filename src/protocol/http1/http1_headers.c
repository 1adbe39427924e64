/* SPDX-License-Identifier: MIT
 *
 * The header fields that tell a client where it stands.
 *
 * draft-ietf-httpapi-ratelimit-headers-11, for a bucket of B units that drains one in T seconds:
 *
 *     RateLimit-Policy: "NAME";q=Q;w=W    W = B * T in whole seconds, up; Q = W / T, to the nearest
 *                                         (and weir-burst=B where Q is not B); where a period is
 *                                         counted in (fixed, sliding, window), W is that, and Q = B
 *     RateLimit: "NAME";r=R;t=S           R units are there now, and for the next S seconds no more
 *                                         than these: until the bucket is empty, or, after a
 *                                         refusal, until this request would pass
 *
 * Both are lists: under several limits each has its item, in the order of the request. Where one of
 * them refuses, the others have no `t`: it could be later than Retry-After, which it should not.
 *
 * Where a limit in shadow mode would have refused:
 *
 *     Weir-Shadow: limited;limit="NAME";t=S     the verdict, the limit, and when it would have passed
 *
 * A structured field's Integer has at most 15 digits: RFC 9651, section 3.3.1. */
#include <assert.h>
#include <time.h>

#include "core/kinds.h"
#include "protocol/http1/http1_batch.h"
#include "protocol/http1/http1_text.h"

#define FIELD_INTEGER_MAX UINT64_C(999999999999999)

/* ---- Dates: RFC 9110, section 5.6.7 ---- */

static char *put_two_digits(char *at, int value)
{
    *at++ = (char)('0' + value / 10 % 10);
    *at++ = (char)('0' + value % 10);
    return at;
}

/* HTTP1_DATE_BYTES of text. */
static char *put_http_date(char *at, int64_t wall_s)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    static const int64_t last_s = 253402300799; // the end of the year 9999
    time_t when = (time_t)(wall_s < 0 ? 0 : wall_s > last_s ? last_s : wall_s);
    struct tm tm = {0};
    (void)gmtime_r(&when, &tm);
    at = put_bytes(at, days + 3 * tm.tm_wday, 3);
    at = put_literal(at, ", ");
    at = put_two_digits(at, tm.tm_mday);
    *at++ = ' ';
    at = put_bytes(at, months + 3 * tm.tm_mon, 3);
    *at++ = ' ';
    at = put_two_digits(at, (tm.tm_year + 1900) / 100);
    at = put_two_digits(at, tm.tm_year + 1900);
    *at++ = ' ';
    at = put_two_digits(at, tm.tm_hour);
    *at++ = ':';
    at = put_two_digits(at, tm.tm_min);
    *at++ = ':';
    at = put_two_digits(at, tm.tm_sec);
    return put_literal(at, " GMT");
}

char *http1_put_date(struct http1_batch *batch, const struct service *service, char *at)
{
    if (batch->date[0] == '\0' || batch->date_s != service->wall_s) {
        (void)put_http_date(batch->date, service->wall_s);
        batch->date_s = service->wall_s;
    }
    at = put_literal(at, "Date: ");
    at = put_bytes(at, batch->date, HTTP1_DATE_BYTES);
    return put_literal(at, "\r\n");
}

/* ---- RateLimit-Policy ---- */

static uint64_t at_most(uint128 value, uint64_t max)
{
    return value < max ? (uint64_t)value : max;
}

/* A String of RFC 9651: what a limit's text may contain needs no escapes. */
static char *put_policy_name(char *at, struct bytes text)
{
    *at++ = '"';
    at = put_bytes(at, text.at, text.length);
    *at++ = '"';
    return at;
}

/* What drains in so many seconds, to the nearest unit. */
static uint64_t drained_in(const struct weir_limit *limit, uint64_t window_s)
{
    /* In a nanosecond drain denominator / scale millionths of a unit. */
    uint128 divisor = (uint128)limit->scale * WEIR_UNIT;
    uint128 drained = (uint128)window_s * NS_PER_S * limit->denominator;
    return at_most((drained + divisor / 2) / divisor, FIELD_INTEGER_MAX);
}

static char *put_policy_item(char *at, struct bytes text, const struct weir_limit *limit)
{
    uint64_t period_ns = kind_period_ns(limit);
    bool drains = period_ns == 0;
    uint64_t window_s = div_ceil(drains ? kind_drain_ns(limit) : period_ns, NS_PER_S);
    uint64_t quota = drains ? drained_in(limit, window_s) : limit->capacity;
    at = put_policy_name(at, text);
    at = put_literal(at, ";q=");
    at = put_u64(at, quota);
    at = put_literal(at, ";w=");
    at = put_u64(at, window_s);
    if (quota != limit->capacity) {
        at = put_literal(at, ";weir-burst=");
        at = put_u64(at, at_most(limit->capacity, FIELD_INTEGER_MAX));
    }
    return at;
}

/* The item, from the cache where it can be: a name has other numbers for other keys. Two limits that are kept in one
 * place, or one that is written in two ways, cost an item written anew. */
static char *put_policy(struct http1_batch *batch, char *at, struct bytes text, bool is_named,
                        const struct weir_rule *rule)
{
    if (text.length > HTTP1_POLICY_TEXT_MAX || is_named) {
        return put_policy_item(at, text, &rule->limit);
    }
    struct http1_policy *policy = &batch->policies[rule->hash_key[0] % HTTP1_POLICY_COUNT];
    if (policy->text_len != text.length || memcmp(policy->text, text.at, text.length) != 0) {
        policy->text_len = text.length;
        memcpy(policy->text, text.at, text.length);
        policy->item_len =
            (size_t)(put_policy_item(policy->item, text, &rule->limit) - policy->item);
        assert(policy->item_len <= HTTP1_POLICY_ITEM_MAX);
    }
    return put_bytes(at, policy->item, policy->item_len);
}

/* ---- The presets ---- */

/* Refused, and not for ever. */
static bool may_retry(const struct weir_decision *decision)
{
    return decision->verdict == WEIR_LIMITED || decision->verdict == WEIR_BLOCKED;
}

static char *put_available(char *at, struct bytes name, const struct weir_decision *own,
                           const struct weir_decision *whole)
{
    at = put_policy_name(at, name);
    at = put_literal(at, ";r=");
    at = put_u64(at, at_most(own->remaining, FIELD_INTEGER_MAX));
    int64_t window_ns = may_retry(own)     ? own->retry_after_ns
                        : may_retry(whole) ? -1
                                           : own->reset_after_ns;
    if (window_ns > 0) {
        at = put_literal(at, ";t=");
        at = put_u64(at, wait_seconds(window_ns));
    }
    return at;
}

static char *put_draft(struct http1_batch *batch, const struct http1_task *task, char *at)
{
    const struct json_pair *pairs = &batch->pairs[task->question];
    at = put_literal(at, "RateLimit-Policy: ");
    for (size_t i = 0; i < task->limit_count; i++) {
        at = i > 0 ? put_literal(at, ", ") : at;
        at = put_policy(batch, at, pairs[i].limit, batch->parts[task->question + i].named != NULL,
                        &batch->rules[task->question + i]);
    }
    at = put_literal(at, "\r\nRateLimit: ");
    for (size_t i = 0; i < task->limit_count; i++) {
        at = i > 0 ? put_literal(at, ", ") : at;
        at = put_available(at, pairs[i].limit, &batch->decisions[task->question + i],
                           &task->decision);
    }
    return put_literal(at, "\r\n");
}

static char *put_x_ratelimit(const struct weir_decision *decision, char *at)
{
    at = put_literal(at, "X-RateLimit-Limit: ");
    at = put_u64(at, decision->capacity);
    at = put_literal(at, "\r\nX-RateLimit-Remaining: ");
    at = put_u64(at, decision->remaining);
    at = put_literal(at, "\r\nX-RateLimit-Reset: ");
    at = put_u64(at, div_ceil((uint64_t)decision->reset_after_ns, NS_PER_S));
    return put_literal(at, "\r\n");
}

static char *put_used(const struct weir_decision *decision, char *at)
{
    at = put_literal(at, "X-Shopify-Shop-Api-Call-Limit: ");
    at = put_u64(at, decision->capacity - decision->remaining);
    *at++ = '/';
    at = put_u64(at, decision->capacity);
    return put_literal(at, "\r\n");
}

static char *put_rate_limited_for(const struct weir_decision *decision, char *at)
{
    if (!may_retry(decision)) {
        return at;
    }
    at = put_literal(at, "X-Rate-Limited-For: ");
    at = put_decimal(at, (uint64_t)decision->retry_after_ns, NS_PER_S);
    return put_literal(at, "\r\n");
}

/* ---- The whole ---- */

/* RFC 9110, section 10.2.3. */
static char *put_retry_after(const struct service *service, const struct weir_decision *decision,
                             char *at)
{
    uint64_t seconds = wait_seconds(decision->retry_after_ns);
    at = put_literal(at, "Retry-After: ");
    at = service->config->retry_after_date ? put_http_date(at, service->wall_s + (int64_t)seconds)
                                           : put_u64(at, seconds);
    return put_literal(at, "\r\n");
}

/* It has its room in the share of the limit that it names: a name is short. */
static char *put_shadow(const struct http1_batch *batch, const struct http1_task *task, char *at)
{
    const struct shadow_refusal *shadow = &task->shadow;
    if (shadow->verdict == WEIR_ALLOWED) {
        return at;
    }
    at = put_literal(at, "Weir-Shadow: ");
    at = put_text(at, weir_verdict_word(shadow->verdict));
    at = put_literal(at, ";limit=");
    at = put_policy_name(at, batch->pairs[task->question + (uint32_t)shadow->binding].limit);
    if (shadow->retry_after_ns > 0) {
        at = put_literal(at, ";t=");
        at = put_u64(at, wait_seconds(shadow->retry_after_ns));
    }
    return put_literal(at, "\r\n");
}

char *http1_put_decision_headers(struct http1_batch *batch, const struct service *service,
                                 const struct http1_task *task, char *at)
{
    const struct weir_decision *decision = &task->decision;
    if (may_retry(decision) && task->operation < WEIR_SHOW) {
        at = put_retry_after(service, decision, at);
    }
    if (decision->verdict != WEIR_FAILED && task->operation <= WEIR_SHOW) {
        switch (service->config->headers) {
        case HEADERS_DRAFT: at = put_draft(batch, task, at); break;
        case HEADERS_X_RATELIMIT: at = put_x_ratelimit(decision, at); break;
        case HEADERS_USED: at = put_used(decision, at); break;
        case HEADERS_RATE_LIMITED: at = put_rate_limited_for(decision, at); break;
        case HEADERS_NONE: break;
        }
    }
    at = put_shadow(batch, task, at);
    return put_literal(at, HTTP1_FIELDS_OF_ALL);
}
