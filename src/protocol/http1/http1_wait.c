/* SPDX-License-Identifier: MIT
 *
 * A take that stands in line. The batch that it came in is needed for others meanwhile, so all that its
 * answer will say is kept beside the session: small, because thousands may stand there. */
#include <stdlib.h>
#include <string.h>

#include "core/bucket_math.h"
#include "protocol/http1/http1_batch.h"

/* One of the limits, and its key only where answers may say that. The server keeps the configuration
 * meanwhile, in which names and their numbers are. */
struct kept_pair {
    const struct named_limit *named; // NULL: it is written out
    const struct named_rule *numbers;
    uint32_t limit_len, key_len;
};

/* Behind it come the texts, of each pair the limit and then the key. */
struct http1_wait {
    uint64_t cost_micro;
    uint32_t text_len;
    uint8_t answer; // enum http1_answer
    uint8_t limit_count;
    bool is_together, is_head, close, keep_alive;
    struct kept_pair pairs[];
};

static char *text_of(struct http1_wait *wait)
{
    return (char *)&wait->pairs[wait->limit_count];
}

static size_t kept_key_len(const struct json_pair *pair, const struct service_config *config)
{
    return config->disclose_keys ? pair->key.length : 0;
}

static struct http1_wait *make(const struct http1_task *task, const struct json_pair *pairs,
                               const struct service_config *config)
{
    size_t text_len = 0;
    for (size_t i = 0; i < task->limit_count; i++) {
        text_len += pairs[i].limit.length + kept_key_len(&pairs[i], config);
    }
    struct http1_wait *wait =
        malloc(sizeof *wait + task->limit_count * sizeof wait->pairs[0] + text_len);
    if (wait != NULL) {
        *wait = (struct http1_wait){
            .cost_micro = task->cost_micro,
            .text_len = (uint32_t)text_len,
            .answer = (uint8_t)task->answer,
            .limit_count = task->limit_count,
            .is_together = task->is_together,
            .is_head = task->is_head,
            .close = task->close,
            .keep_alive = task->keep_alive,
        };
    }
    return wait;
}

static struct http1_wait *keep(const struct http1_task *task, const struct json_pair *pairs,
                               const struct asked_part *parts, const struct service_config *config)
{
    struct http1_wait *wait = make(task, pairs, config);
    char *at = wait != NULL ? text_of(wait) : NULL;
    for (size_t i = 0; wait != NULL && i < task->limit_count; i++) {
        struct bytes limit = pairs[i].limit;
        size_t key_len = kept_key_len(&pairs[i], config);
        wait->pairs[i] = (struct kept_pair){.named = parts[i].named,
                                            .limit_len = (uint32_t)limit.length,
                                            .key_len = (uint32_t)key_len};
        if (parts[i].named != NULL) {
            wait->pairs[i].numbers =
                named_limit_rule(parts[i].named, pairs[i].key.at, pairs[i].key.length);
        }
        memcpy(at, limit.at, limit.length);
        memcpy(at + limit.length, pairs[i].key.at, key_len);
        at += limit.length + key_len;
    }
    return wait;
}

bool http1_wait_begin(struct http1_session *session, struct http1_batch *batch,
                      struct service *service)
{
    const struct http1_task *task = &batch->tasks[batch->task_count - 1];
    const struct weir_request *requests = &batch->requests[task->question];
    struct weir_decision *decisions = &batch->decisions[task->question];
    session->wait =
        keep(task, &batch->pairs[task->question], &batch->parts[task->question], service->config);
    if (session->wait == NULL) {
        batch->failure = "there is no memory to wait in";
        for (size_t i = 0; i < task->limit_count; i++) {
            bucket_answer_failed(&decisions[i], &requests[i].rule->limit);
        }
        return false;
    }
    if (service->ops->wait(service, requests, task->limit_count, task->wait_ns, decisions)) {
        return true;
    }
    batch->failure = service->failure;
    http1_wait_release(session);
    return false;
}

/* The rule of a limit: that of its name, or made again. */
static bool find_rule(struct http1_batch *batch, struct service *service,
                      const struct kept_pair *kept, struct bytes limit, size_t i,
                      struct weir_error *error)
{
    batch->parts[i].named = kept->named;
    if (kept->named != NULL) {
        batch->parts[i].words = kept->numbers->words;
        batch->rules[i] = kept->numbers->rule;
        return true;
    }
    batch->parts[i].words = limit;
    return rule_cache_text(service->rules, &batch->rules[i], limit.at, limit.length, error)
           == WEIR_OK;
}

/* The pairs and their rules again. */
static void unfold(struct http1_wait *wait, struct http1_batch *batch, struct service *service,
                   struct http1_task *task)
{
    char *at = text_of(wait);
    for (size_t i = 0; i < wait->limit_count; i++) {
        struct kept_pair kept = wait->pairs[i];
        struct weir_error error;
        batch->pairs[i] = (struct json_pair){.key = {at + kept.limit_len, kept.key_len},
                                             .limit = {at, kept.limit_len}};
        if (!find_rule(batch, service, &kept, (struct bytes){at, kept.limit_len}, i,
                       &error)) { // it was a limit when it came
            (void)http1_task_fail(task, 500, "the limit, byte %zu: %s", error.offset,
                                  error.message);
        }
        at += kept.limit_len + kept.key_len;
    }
}

/* Makes a batch of one task again, as it was. */
struct http1_task *http1_wait_answer(struct http1_session *session, struct http1_batch *batch,
                                     struct service *service, const struct weir_decision *decisions)
{
    struct http1_wait *wait = session->wait;
    struct http1_task *task = &batch->tasks[0];
    task->answer = (enum http1_answer)wait->answer;
    task->is_head = wait->is_head;
    task->close = wait->close;
    task->keep_alive = wait->keep_alive;
    task->allow = NULL;
    task->cost_micro = wait->cost_micro;
    task->operation = WEIR_TAKE;
    task->question = 0;
    task->limit_count = wait->limit_count;
    task->is_together = wait->is_together;
    memcpy(batch->decisions, decisions, wait->limit_count * sizeof *decisions);
    batch->failure = service->failure;
    unfold(wait, batch, service, task);
    return task;
}

size_t http1_wait_held_bytes(const struct http1_session *session)
{
    const struct http1_wait *wait = session->wait;
    return wait != NULL ? sizeof *wait + wait->limit_count * sizeof wait->pairs[0] + wait->text_len
                        : 0;
}

void http1_wait_release(struct http1_session *session)
{
    free(session->wait);
    session->wait = NULL;
}
