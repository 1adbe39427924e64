/* SPDX-License-Identifier: MIT
 *
 * From what a request says to what is decided: keys and limits as text become questions of the
 * batch, several of them where a take is under several limits; and once those are decided, one
 * answer. */
#include <assert.h>
#include <stdio.h>

#include "core/bucket_math.h"
#include "limiter/together.h"
#include "protocol/counting.h"
#include "protocol/http1/http1_batch.h"

/* What is wrong with the limit of the i-th pair. */
static bool fail_limit(struct http1_task *task, const struct weir_error *error, size_t i)
{
    char where[48] = "the limit";
    if (task->is_together) {
        (void)snprintf(where, sizeof where, "limits[%zu]: \"limit\"", i);
    }
    return http1_task_fail(task, 400, "%s, byte %zu: %s", where, error->offset, error->message);
}

/* The same as add_pair() where names are meant. */
static bool add_named(struct http1_batch *batch, struct service *service, struct http1_task *task,
                      const struct json_pair *pair, const struct variables *variables, size_t i)
{
    size_t first = task->question + task->limit_count;
    struct asked asked;
    struct weir_error error;
    const struct asking asking = {
        .names = service->names,
        .cache = service->rules,
        .key = {pair->key.at, pair->key.length},
        .variables = variables,
        .room = batch->room + batch->room_used,
        .room_bytes = sizeof batch->room - batch->room_used,
    };
    if (asked_read(&asking, pair->limit.at, pair->limit.length, &batch->rules[first],
                   &batch->parts[first], &asked, &error)
        != WEIR_OK) {
        return fail_limit(task, &error, i);
    }
    for (size_t limit = first; limit < first + asked.count; limit++) {
        const struct asked_part *part = &batch->parts[limit];
        batch->pairs[limit] = (struct json_pair){.key = {part->key.at, part->key.length},
                                                 .limit = {part->said.at, part->said.length}};
    }
    batch->room_used += asked.used;
    task->limit_count = (uint8_t)(task->limit_count + asked.count);
    task->has_chain = task->has_chain || asked.has_chain;
    return true;
}

static bool add_written(struct http1_batch *batch, struct service *service, struct http1_task *task,
                        const struct json_pair *pair, size_t i)
{
    size_t first = task->question + task->limit_count;
    size_t count;
    struct weir_error error;
    if (rule_cache_list(service->rules, &batch->rules[first], &count, pair->limit.at,
                        pair->limit.length, &error)
        != WEIR_OK) {
        return fail_limit(task, &error, i);
    }
    struct limit_list list = {.count = 1, .spans = {{0, pair->limit.length}}};
    if (count > 1) { // it was one that could be split
        (void)!limit_list_split(&list, pair->limit.at, pair->limit.length, NULL);
    }
    for (size_t limit = 0; limit < count; limit++) {
        const struct limit_span *span = &list.spans[limit];
        struct bytes text = {pair->limit.at + span->at, span->length};
        batch->pairs[first + limit] = (struct json_pair){.key = pair->key, .limit = text};
        batch->parts[first + limit].named = NULL;
        batch->parts[first + limit].words = (struct text){text.at, text.length};
    }
    task->limit_count = (uint8_t)(task->limit_count + count);
    return true;
}

/* Finds the limits of the i-th pair, as the task's next questions. */
static bool add_pair(struct http1_batch *batch, struct service *service, struct http1_task *task,
                     const struct json_pair *pair, const struct variables *variables, size_t i)
{
    bool by_name = asked_by_name(service->names, pair->limit.at, pair->limit.length);
    assert(task->question + task->limit_count + LIMIT_LIST_COUNT_MAX <= HTTP1_RULE_ROOM);
    if (!by_name && pair->key.length == 0) {
        return http1_task_fail(task, 400, "the key is missing");
    }
    if (!(by_name ? add_named(batch, service, task, pair, variables, i)
                  : add_written(batch, service, task, pair, i))) {
        return false;
    }
    if (task->limit_count > LIMIT_LIST_COUNT_MAX) {
        return http1_task_fail(task, 400, "limits[%zu]: that is more than %d limits together", i,
                               (int)LIMIT_LIST_COUNT_MAX);
    }
    return true;
}

/* Whether several limits make sense here. */
static bool check_several(const struct http1_batch *batch, struct http1_task *task)
{
    size_t later;
    size_t earlier;
    if (task->operation != WEIR_TAKE && task->operation != WEIR_CAN_TAKE) {
        return http1_task_fail(task, 400,
                               "several limits: only a take or a can_take is under a list");
    }
    if (together_find_twice(&batch->requests[task->question], task->limit_count, &later,
                            &earlier)) {
        return http1_task_fail(task, 400, "limit %zu is limit %zu again, the same bucket twice",
                               later + 1, earlier + 1);
    }
    return true;
}

/* Whether each of the limits can count such a cost. */
static bool check_cost(const struct http1_batch *batch, struct http1_task *task)
{
    for (size_t i = 0; i < task->limit_count; i++) {
        char which[32] = "";
        if (limit_counts(&batch->rules[task->question + i].limit, task->cost_micro)) {
            continue;
        }
        if (task->limit_count > 1) {
            (void)snprintf(which, sizeof which, "limit %zu: ", i + 1);
        }
        return http1_task_fail(task, 400, "the cost: %s" LIMIT_COUNTS_WHOLE, which);
    }
    return true;
}

/* Whether each of the limits takes part in this. */
static bool check_kinds(const struct http1_batch *batch, struct http1_task *task)
{
    bool is_refund = task->operation == WEIR_REFUND;
    for (size_t i = 0; i < task->limit_count; i++) {
        char which[32] = "";
        const char *objection = limit_objection(&batch->rules[task->question + i].limit, is_refund,
                                                task->limit_count > 1);
        if (objection == NULL) {
            continue;
        }
        if (task->limit_count > 1) {
            (void)snprintf(which, sizeof which, "limit %zu: ", i + 1);
        }
        return http1_task_fail(task, 400, "%s%s", which, objection);
    }
    return true;
}

static bool is_shadow(const struct http1_batch *batch, size_t i)
{
    return batch->parts[i].named != NULL && batch->parts[i].named->is_shadow;
}

static void fill_request(struct http1_batch *batch, const struct http1_task *task, size_t i)
{
    bool has_detail = task->operation > WEIR_CAN_TAKE;
    batch->requests[i] = (struct weir_request){
        .rule = &batch->rules[i],
        .key = batch->pairs[i].key.at,
        .key_len = batch->pairs[i].key.length,
        .cost_micro = task->cost_micro,
        .operation = task->operation,
        .block_ns = task->block_ns,
        .and_next = i + 1 < task->question + task->limit_count,
        .shadow = is_shadow(batch, i),
        .detail = has_detail ? &batch->details[i] : NULL,
    };
}

void http1_ask(struct http1_batch *batch, struct service *service, struct http1_task *task,
               const struct json_pair *pairs, size_t pair_count, const struct variables *variables)
{
    task->question = (uint32_t)batch->question_count;
    task->limit_count = 0;
    for (size_t i = 0; i < pair_count; i++) {
        if (!add_pair(batch, service, task, &pairs[i], variables, i)) {
            return;
        }
    }
    if (task->limit_count == 1 && !task->has_chain && is_shadow(batch, task->question)) {
        task->wait_ns = 0; // a shadow holds nobody up
    }
    const char *why_not =
        task->wait_ns > 0 ? service->ops->why_no_wait(service, task->limit_count) : NULL;
    if (why_not != NULL) {
        http1_task_fail(task, 501, "wait_ms: %s", why_not);
        return;
    }
    task->is_together = task->is_together || task->has_chain || task->limit_count > 1;
    for (size_t i = 0; i < task->limit_count; i++) {
        fill_request(batch, task, task->question + i);
    }
    if (!check_cost(batch, task) || !check_kinds(batch, task)
        || (task->is_together && !check_several(batch, task))) {
        return;
    }
    batch->question_count += task->limit_count;
    batch->last_waits = task->wait_ns > 0;
}

void http1_conclude(struct service *service, struct http1_batch *batch, struct http1_task *task)
{
    struct weir_decision *decisions = &batch->decisions[task->question];
    const struct named_limit *named[LIMIT_LIST_COUNT_MAX];
    int binding;
    for (size_t i = 0; i < task->limit_count; i++) {
        named[i] = batch->parts[task->question + i].named;
    }
    task->decision = decisions[0];
    task->binding = -1;
    if (task->operation > WEIR_SHOW) { // no decision
        return;
    }
    task->decision = count_together(service, PROTOCOL_HTTP, task->operation, named, decisions,
                                    task->limit_count, &binding);
    task->binding = task->decision.verdict == WEIR_ALLOWED ? -1 : binding;
}
