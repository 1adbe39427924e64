/* SPDX-License-Identifier: MIT
 *
 * Limits by their names, and what a store answers to a question about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vector_run.h"

/* Two limits with the same buckets print the same, apart from policy. */
static void identify(struct known_limit *known, const struct weir_limit_config *config)
{
    struct weir_limit_config plain = *config;
    plain.on_full = WEIR_ON_FULL_REFUSE;
    plain.on_error = WEIR_ON_ERROR_REFUSE;
    plain.waiting = WEIR_WAITING;
    plain.block_ns = 0;
    if (known->is_named) {
        (void)snprintf(known->identity, sizeof known->identity, "named %s", known->name);
    } else if (weir_limit_print(&plain, known->identity, sizeof known->identity) != WEIR_OK) {
        abort();
    }
}

void compile(struct run *run, struct known_limit *known, const struct weir_limit_config *config)
{
    struct weir_error error;
    if (weir_limit_init(&known->limit, config, &error) != WEIR_OK) {
        bad_vector(run, "%s", error.message);
    }
    identify(known, config);
    if (run->store != STORE_TABLE) {
        return;
    }
    if (known->is_named) {
        weir_rule_init_named(&known->rule, run->limiter, &known->limit, known->name,
                             strlen(known->name));
    } else {
        weir_rule_init(&known->rule, run->limiter, &known->limit);
    }
}

struct known_limit *find_limit(struct run *run, const char *name)
{
    for (size_t i = 0; i < run->limit_count; i++) {
        if (strcmp(run->limits[i].name, name) == 0) {
            return &run->limits[i];
        }
    }
    return NULL;
}

void define_limit(struct run *run, char *line)
{
    char *word = strtok(line, " ");
    char *name = strtok(NULL, " ");
    char *text = strtok(NULL, "");
    if (name == NULL || text == NULL) {
        bad_vector(run, "limit NAME TEXT");
    }
    struct known_limit *known = find_limit(run, name);
    if (known == NULL && run->limit_count == LIMITS_MAX) {
        bad_vector(run, "more than %d limits", LIMITS_MAX);
    }
    known = known != NULL ? known : &run->limits[run->limit_count++];
    *known = (struct known_limit){.is_named = strcmp(word, "named") == 0,
                                  .is_shadow = strcmp(word, "shadow") == 0};
    (void)snprintf(known->name, sizeof known->name, "%s", name);
    struct weir_limit_config config;
    struct weir_error error;
    if (weir_limit_parse(&config, text, strlen(text), &error) != WEIR_OK) {
        bad_vector(run, "'%s': %s", text, error.message);
    }
    compile(run, known, &config);
    run->used = known;
}

static struct weir_shared_bucket *bucket_of(struct run *run, const struct known_limit *limit,
                                            const char *key)
{
    char name[NAME_MAX_BYTES * 2];
    (void)snprintf(name, sizeof name, "%s %s", limit->identity, key);
    for (size_t i = 0; i < run->bucket_count; i++) {
        if (strcmp(run->buckets[i].name, name) == 0) {
            return &run->buckets[i].shared;
        }
    }
    if (run->bucket_count == BUCKETS_MAX || strlen(name) >= NAME_MAX_BYTES) {
        bad_vector(run, "more than %d buckets", BUCKETS_MAX);
    }
    struct known_bucket *made = &run->buckets[run->bucket_count++];
    *made = (struct known_bucket){.name = ""};
    memcpy(made->name, name, strlen(name) + 1);
    return &made->shared;
}

static struct result ask_bucket(struct run *run, const struct question *question, uint64_t now_ns)
{
    const struct known_limit *known = question->known;
    uint64_t cost_micro = question->cost_micro;
    struct weir_shared_bucket *shared = bucket_of(run, known, question->key);
    struct weir_bucket *bucket = &shared->bucket;
    const struct weir_limit *limit = &known->limit;
    struct result result = {0};
    switch (question->operation) {
    case WEIR_TAKE:
        result.decision = run->store == STORE_SHARED
                              ? weir_shared_bucket_take(shared, limit, cost_micro, now_ns)
                              : weir_bucket_take(bucket, limit, cost_micro, now_ns);
        break;
    case WEIR_CAN_TAKE:
        result.decision = weir_bucket_can_take(bucket, limit, cost_micro, now_ns);
        break;
    case WEIR_FILL:
        result.decision = weir_bucket_fill(bucket, limit, cost_micro, now_ns, &result.detail.amount,
                                           &result.detail.full);
        break;
    case WEIR_REFUND:
        result.decision = weir_bucket_refund(bucket, limit, cost_micro, now_ns);
        break;
    case WEIR_SHOW:
        result.decision = weir_bucket_show(bucket, limit, now_ns, &result.detail.amount);
        result.detail.existed = result.decision.reset_after_ns > 0;
        break;
    case WEIR_RESET: // what a store does: giving back more than any bucket holds
        result.detail.existed = weir_bucket_show(bucket, limit, now_ns, NULL).reset_after_ns > 0;
        result.decision =
            weir_bucket_refund(bucket, limit, UINT64_MAX - UINT64_MAX % WEIR_UNIT, now_ns);
        break;
    case WEIR_BLOCK: // blocks are a store's
    case WEIR_UNBLOCK: bad_vector(run, "a bucket alone cannot be blocked"); break;
    }
    if (!weir_bucket_valid(bucket)) {
        bad_vector(run, "the bucket's state is not valid");
    }
    return result;
}

/* A request of the limiter; `name` is room for its key, and `result` for what is said beside the decision. */
static struct weir_request request_of(const struct run *run, const struct question *question,
                                      char name[NAME_MAX_BYTES], struct result *result)
{
    size_t key_len =
        (size_t)snprintf(name, NAME_MAX_BYTES, "%u %s", run->case_count, question->key);
    return (struct weir_request){.rule = &question->known->rule,
                                 .key = name,
                                 .key_len = key_len,
                                 .cost_micro = question->cost_micro,
                                 .operation = question->operation,
                                 .detail = &result->detail,
                                 .block_ns = question->block_ns};
}

void ask_all(struct run *run, const struct question *questions, struct result *results,
             size_t count, uint64_t now_ns)
{
    struct weir_request requests[WEIR_TOGETHER_MAX];
    struct weir_decision decisions[WEIR_TOGETHER_MAX];
    char names[WEIR_TOGETHER_MAX][NAME_MAX_BYTES];
    if (run->store != STORE_TABLE || count == 0 || count > WEIR_TOGETHER_MAX) {
        bad_vector(run, "1 to %d limits together, of a limiter", WEIR_TOGETHER_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        requests[i] = request_of(run, &questions[i], names[i], &results[i]);
        requests[i].and_next = i + 1 < count;
        requests[i].shadow = questions[i].known->is_shadow;
    }
    weir_limiter_decide_at(run->limiter, requests, decisions, count, now_ns);
    for (size_t i = 0; i < count; i++) {
        results[i].decision = decisions[i];
    }
}

struct result ask(struct run *run, const struct question *question, uint64_t now_ns)
{
    if (run->store != STORE_TABLE) {
        return ask_bucket(run, question, now_ns);
    }
    struct result result;
    char name[NAME_MAX_BYTES];
    struct weir_request request = request_of(run, question, name, &result);
    weir_limiter_decide_at(run->limiter, &request, &result.decision, 1, now_ns);
    return result;
}
