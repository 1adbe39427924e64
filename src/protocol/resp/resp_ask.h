/* SPDX-License-Identifier: MIT
 *
 * How a command adds its question to the batch: it puts the rules of its limit behind those that count, and then
 * asks about a key under the last of them. Inline, because it is done for every take. */
#ifndef WEIR_PROTOCOL_RESP_RESP_ASK_H
#define WEIR_PROTOCOL_RESP_RESP_ASK_H

#include <assert.h>

#include "protocol/resp/resp_session.h"

/* Where the rules of the next limit go. They count once rule_count is raised. */
static inline struct weir_rule *resp_next_rule(struct resp_batch *batch)
{
    assert(batch->count < RESP_BATCH_COUNT_MAX);
    assert(batch->rule_count + LIMIT_LIST_COUNT_MAX <= RESP_RULE_ROOM);
    return &batch->rules[batch->rule_count];
}

static inline const struct weir_rule *resp_last_rule(const struct resp_batch *batch)
{
    return &batch->rules[batch->rule_count - 1];
}

/* The limit of the last rule; NULL if it was written out. */
static inline const struct named_limit *resp_last_name(const struct resp_batch *batch)
{
    return batch->parts[batch->rule_count - 1].named;
}

/* Adds a question about a key, under the last rule. */
static inline void resp_ask(struct resp_call *call, enum weir_operation operation, struct bytes key,
                            uint64_t cost_micro, enum resp_answer answer)
{
    struct resp_batch *batch = call->batch;
    size_t i = batch->count++;
    batch->questions[i] =
        (struct resp_question){.answer = answer, .version = call->session->version, .count = 1};
    batch->named[i] = resp_last_name(batch);
    batch->requests[i] = (struct weir_request){
        .rule = resp_last_rule(batch),
        .key = key.at,
        .key_len = key.length,
        .cost_micro = cost_micro,
        .operation = operation,
        .shadow = batch->named[i] != NULL && batch->named[i]->is_shadow,
        .detail = operation == WEIR_TAKE ? NULL : &batch->details[i],
    };
    pace_add(&call->session->pace, &resp_last_rule(batch)->limit);
}

#endif
