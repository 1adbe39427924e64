/* SPDX-License-Identifier: MIT
 *
 * A take that stands in line. The batch that it came in is needed for others meanwhile, so all that its
 * answer will say is kept beside the session: small, because thousands may stand there. */
#include <stdlib.h>
#include <string.h>

#include "core/bucket_math.h"
#include "protocol/http1/http1_batch.h"

struct http1_wait {
    uint64_t cost_micro;
    uint32_t limit_len, key_len; // the key only where answers may say it
    uint8_t answer;              // enum http1_answer
    bool is_head, close, keep_alive;
    char text[]; // the limit, then the key
};

static struct http1_wait *keep(const struct http1_task *task, const struct json_pair *pair,
                               const struct service_config *config)
{
    size_t key_len = config->disclose_keys ? pair->key.length : 0;
    struct http1_wait *wait = malloc(sizeof *wait + pair->limit.length + key_len);
    if (wait != NULL) {
        *wait = (struct http1_wait){
            .cost_micro = task->cost_micro,
            .limit_len = (uint32_t)pair->limit.length,
            .key_len = (uint32_t)key_len,
            .answer = (uint8_t)task->answer,
            .is_head = task->is_head,
            .close = task->close,
            .keep_alive = task->keep_alive,
        };
        memcpy(wait->text, pair->limit.at, pair->limit.length);
        memcpy(wait->text + pair->limit.length, pair->key.at, key_len);
    }
    return wait;
}

bool http1_wait_begin(struct http1_session *session, struct http1_batch *batch,
                      struct service *service)
{
    const struct http1_task *task = &batch->tasks[batch->task_count - 1];
    const struct weir_request *request = &batch->requests[task->question];
    struct weir_decision *decision = &batch->decisions[task->question];
    session->wait = keep(task, &batch->pairs[task->question], service->config);
    if (session->wait == NULL) {
        batch->failure = "there is no memory to wait in";
        bucket_answer_failed(decision, &request->rule->limit);
        return false;
    }
    if (service->ops->wait(service, request, 1, task->wait_ns, decision)) {
        return true;
    }
    batch->failure = service->failure;
    http1_wait_release(session);
    return false;
}

/* Makes a batch of one task again, as it was. */
struct http1_task *http1_wait_answer(struct http1_session *session, struct http1_batch *batch,
                                     struct service *service, const struct weir_decision *decision)
{
    const struct http1_wait *wait = session->wait;
    struct http1_task *task = &batch->tasks[0];
    task->answer = (enum http1_answer)wait->answer;
    task->is_head = wait->is_head;
    task->close = wait->close;
    task->keep_alive = wait->keep_alive;
    task->allow = NULL;
    task->cost_micro = wait->cost_micro;
    task->operation = WEIR_TAKE;
    task->question = 0;
    task->limit_count = 1;
    task->is_together = false;
    batch->pairs[0] = (struct json_pair){
        .key = {wait->text + wait->limit_len, wait->key_len},
        .limit = {wait->text, wait->limit_len},
    };
    batch->decisions[0] = *decision;
    batch->failure = service->failure;
    struct weir_error error;
    if (rule_cache_text(service->rules, &batch->rules[0], wait->text, wait->limit_len, &error)
        != WEIR_OK) { // it was a limit when it came
        (void)http1_task_fail(task, 500, "the limit, byte %zu: %s", error.offset, error.message);
    }
    return task;
}

size_t http1_wait_held_bytes(const struct http1_session *session)
{
    const struct http1_wait *wait = session->wait;
    return wait != NULL ? sizeof *wait + wait->limit_len + wait->key_len : 0;
}

void http1_wait_release(struct http1_session *session)
{
    free(session->wait);
    session->wait = NULL;
}
