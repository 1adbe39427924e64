/* SPDX-License-Identifier: MIT
 *
 * From what a request says to what is decided: keys and limits as text become questions of the
 * batch, several of them where a take is under several limits; and once those are decided, one
 * answer. */
#include <assert.h>
#include <stdio.h>

#include "core/bucket_math.h"
#include "limiter/together.h"
#include "protocol/http1/http1_batch.h"

/* Compiles the limits of the i-th pair to the task's next questions. */
static bool add_pair(struct http1_batch *batch, struct service *service, struct http1_task *task,
                     const struct json_pair *pair, size_t i)
{
    size_t first = task->question + task->limit_count;
    size_t count;
    struct weir_error error;
    assert(first + LIMIT_LIST_COUNT_MAX <= HTTP1_RULE_ROOM);
    if (rule_cache_list(service->rules, &batch->rules[first], &count, pair->limit.at,
                        pair->limit.length, &error)
        != WEIR_OK) {
        char where[48] = "the limit";
        if (task->is_together) {
            (void)snprintf(where, sizeof where, "limits[%zu]: \"limit\"", i);
        }
        return http1_task_fail(task, 400, "%s, byte %zu: %s", where, error.offset, error.message);
    }
    if (count > LIMIT_LIST_COUNT_MAX - (size_t)task->limit_count) {
        return http1_task_fail(task, 400, "limits[%zu]: that is more than %d limits together", i,
                               (int)LIMIT_LIST_COUNT_MAX);
    }
    struct limit_list list = {.count = 1, .spans = {{0, pair->limit.length}}};
    if (count > 1) { // it was one that could be split
        (void)!limit_list_split(&list, pair->limit.at, pair->limit.length, NULL);
    }
    for (size_t limit = 0; limit < count; limit++) {
        const struct limit_span *span = &list.spans[limit];
        batch->pairs[first + limit] = (struct json_pair){
            .key = pair->key,
            .limit = {pair->limit.at + span->at, span->length},
        };
    }
    task->limit_count = (uint8_t)(task->limit_count + count);
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
        .detail = has_detail ? &batch->details[i] : NULL,
    };
}

void http1_ask(struct http1_batch *batch, struct service *service, struct http1_task *task,
               const struct json_pair *pairs, size_t pair_count)
{
    task->question = (uint32_t)batch->question_count;
    task->limit_count = 0;
    for (size_t i = 0; i < pair_count; i++) {
        if (!add_pair(batch, service, task, &pairs[i], i)) {
            return;
        }
    }
    const char *why_not =
        task->wait_ns > 0 ? service->ops->why_no_wait(service, task->limit_count) : NULL;
    if (why_not != NULL) {
        http1_task_fail(task, 501, "wait_ms: %s", why_not);
        return;
    }
    for (size_t i = 0; i < task->limit_count; i++) {
        fill_request(batch, task, task->question + i);
    }
    task->is_together = task->is_together || task->limit_count > 1;
    if (!check_cost(batch, task) || (task->is_together && !check_several(batch, task))) {
        return;
    }
    batch->question_count += task->limit_count;
    batch->last_waits = task->wait_ns > 0;
}

void http1_conclude(const struct http1_batch *batch, struct http1_task *task)
{
    const struct weir_decision *decisions = &batch->decisions[task->question];
    task->decision = decisions[0];
    task->binding = decisions[0].verdict == WEIR_ALLOWED ? -1 : 0;
    if (task->limit_count > 1) {
        task->decision = weir_decision_of_all(decisions, task->limit_count, &task->binding);
    }
}
