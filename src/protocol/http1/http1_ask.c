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

static bool fail_key(struct http1_task *task, size_t i)
{
    char where[32] = "";
    if (task->is_together) {
        (void)snprintf(where, sizeof where, "limits[%zu]: ", i);
    }
    return http1_task_fail(task, 400, "%s\"key\" is missing", where);
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
    if (task->operation != WEIR_TAKE && task->operation != WEIR_CAN_TAKE
        && asked_for_chain(service->names, pair->limit.at, pair->limit.length)) {
        return http1_task_fail(
            task, 400, "a chain cannot be used here: only a take or a can_take is under one");
    }
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

static void note_written(struct http1_batch *batch, size_t i, struct bytes key, struct bytes text)
{
    batch->pairs[i] = (struct json_pair){.key = key, .limit = text};
    batch->parts[i].named = NULL;
    batch->parts[i].words = text;
}

static bool add_written(struct http1_batch *batch, struct service *service, struct http1_task *task,
                        const struct json_pair *pair, size_t pair_index)
{
    size_t first = task->question + task->limit_count;
    size_t count;
    struct weir_error error;
    if (rule_cache_list(service->rules, &batch->rules[first], &count, pair->limit.at,
                        pair->limit.length, &error)
        != WEIR_OK) {
        return fail_limit(task, &error, pair_index);
    }
    task->limit_count = (uint8_t)(task->limit_count + count);
    if (count == 1) { // nearly always: all of the text
        note_written(batch, first, pair->key, pair->limit);
        return true;
    }
    struct limit_list list;
    (void)!limit_list_split(&list, pair->limit.at, pair->limit.length, NULL); // it could be split
    for (size_t i = 0; i < count; i++) {
        const struct limit_span *span = &list.spans[i];
        note_written(batch, first + i, pair->key,
                     (struct bytes){pair->limit.at + span->at, span->length});
    }
    return true;
}

/* Finds the limits of the i-th pair, as the task's next questions. */
static bool add_pair(struct http1_batch *batch, struct service *service, struct http1_task *task,
                     const struct json_pair *pair, const struct variables *variables, size_t i)
{
    bool by_name = asked_by_name(service->names, pair->limit.at, pair->limit.length);
    assert(task->question + task->limit_count + LIMIT_LIST_COUNT_MAX <= HTTP1_RULE_ROOM);
    if (!by_name && pair->key.length == 0) {
        return fail_key(task, i);
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

static bool check_refund(const struct http1_batch *batch, struct http1_task *task)
{
    return task->operation != WEIR_REFUND
           || kind_takes_refund(batch->rules[task->question].limit.kind)
           || http1_task_fail(task, 400, LIMIT_TAKES_NO_REFUND);
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
    task->is_together = task->is_together || task->has_chain || task->limit_count > 1;
    for (size_t i = 0; i < task->limit_count; i++) {
        fill_request(batch, task, task->question + i);
    }
    if (!check_cost(batch, task) || (task->is_together && !check_several(batch, task))
        || !check_refund(batch, task)) {
        return;
    }
    batch->question_count += task->limit_count;
    batch->last_waits = task->wait_ns > 0;
}

void http1_conclude(struct service *service, struct http1_batch *batch, struct http1_task *task)
{
    struct weir_decision *decisions = &batch->decisions[task->question];
    const struct asked_part *parts = &batch->parts[task->question];
    bool is_decision = task->operation <= WEIR_SHOW;
    if (task->limit_count > 1) { // a take or a can_take
        const struct named_limit *named[LIMIT_LIST_COUNT_MAX];
        for (size_t i = 0; i < task->limit_count; i++) {
            named[i] = parts[i].named;
        }
        task->decision = count_together(service, PROTOCOL_HTTP, task->operation, named, decisions,
                                        task->limit_count, &task->binding, &task->shadow);
        return;
    }
    task->shadow = NO_SHADOW_REFUSAL;
    if (is_decision) {
        task->shadow =
            count_alone(service, PROTOCOL_HTTP, task->operation, parts->named, decisions);
    }
    task->decision = decisions[0];
    task->binding = is_decision && decisions[0].verdict != WEIR_ALLOWED ? 0 : -1;
}
