/* SPDX-License-Identifier: MIT
 *
 * The front door: rules know which buckets are theirs, the store does the rest. */
#include "weir/limiter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bucket_math.h"
#include "core/decision.h"
#include "core/fail.h"
#include "limiter/identity.h"
#include "limiter/limiter_state.h"
#include "platform/random.h"
#include "store/attendant.h"
#include "store/driver.h"
#include "store/remote.h"
#include "sync/cancel.h"

void weir_limiter_close(struct weir_limiter *limiter)
{
    if (limiter != NULL) {
        int before = cancel_forbid(); // it waits for the attendant of shared lines
        attendant_close(limiter->store->attendant);
        submissions_close(&limiter->submissions);
        lines_close(limiter->lines);
        limiter->store->ops->close(limiter->store);
        free(limiter);
        cancel_allow(before);
    }
}

static enum weir_status check_bytes(const struct weir_limiter_config *config,
                                    struct weir_error *error)
{
    uint64_t bytes = config->memory_bytes;
    uint64_t events_bytes = config->events_bytes;
    if (bytes != 0 && (bytes < WEIR_MEMORY_BYTES_MIN || bytes > WEIR_MEMORY_BYTES_MAX)) {
        return fail(error, WEIR_E_RANGE, 0, "the memory must be 64 KiB to 16 TiB");
    }
    if (events_bytes != 0
        && (events_bytes < WEIR_EVENTS_BYTES_MIN || events_bytes > WEIR_EVENTS_BYTES_MAX)) {
        return fail(error, WEIR_E_RANGE, 0, "the memory for events must be 4 KiB to 1 TiB");
    }
    return WEIR_OK;
}

static enum weir_status open_store(struct weir_limiter *limiter,
                                   const struct weir_store_driver *driver, const char *url,
                                   const struct weir_limiter_config *config,
                                   struct weir_error *error)
{
    struct store_settings settings = {
        .memory_bytes = config->memory_bytes,
        .events_bytes = config->events_bytes,
        .is_caller_clock = config->caller_clock,
        .seed = {config->seed[0], config->seed[1]},
    };
    if (settings.seed[0] == 0 && settings.seed[1] == 0
        && !random_fill(settings.seed, sizeof settings.seed)) {
        return fail(error, WEIR_E_SYSTEM, 0, "no random seed: %s", strerror(errno));
    }
    enum weir_status status = driver->open(&limiter->store, url, &settings, error);
    if (status == WEIR_OK && limiter->store->ops->remote != NULL) {
        limiter->store->attendant = attendant_open(limiter->store);
        if (limiter->store->attendant == NULL) {
            limiter->store->ops->close(limiter->store);
            return fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a limiter");
        }
    }
    if (status == WEIR_OK) {
        const struct remote_ops *remote = limiter->store->ops->remote;
        limiter->identity = (struct identity_source){
            .seed = {settings.seed[0], settings.seed[1]},
            .is_of_all_hosts = remote != NULL && remote->is_of_all_hosts,
        };
    }
    return status;
}

static struct lines *open_lines(struct store *store, const struct weir_limiter_config *config)
{
    uint64_t waiting_max = config->waiting_max != 0 ? config->waiting_max : WEIR_WAITING_ALL;
    const struct line_ops *ops = store->ops->lines;
    bool is_private = ops == NULL || ops->waiting_area(store)->room == NULL;
    return is_private ? lines_open(store, waiting_max)
                      : lines_open_shared(store, waiting_max, config->caller_clock);
}

static enum weir_status open_limiter(struct weir_limiter **limiter,
                                     const struct weir_limiter_config *config,
                                     struct weir_error *error)
{
    char path[STORE_PATH_MAX];
    const char *url = config->store != NULL ? config->store : "memory:";
    const struct weir_store_driver *driver = store_driver_find(url, config->drivers, error);
    enum weir_status status = driver != NULL ? driver->read(url, path, error) : WEIR_E_SYNTAX;
    status = status == WEIR_OK ? check_bytes(config, error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    struct weir_limiter *made = malloc(sizeof *made);
    if (made == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a limiter");
    }
    status = open_store(made, driver, url, config, error);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    submissions_open(&made->submissions);
    made->lines = open_lines(made->store, config);
    if (made->lines == NULL) {
        weir_limiter_close(made);
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a limiter");
    }
    *limiter = made;
    return WEIR_OK;
}

enum weir_status weir_limiter_open(struct weir_limiter **limiter,
                                   const struct weir_limiter_config *config,
                                   struct weir_error *error)
{
    static const struct weir_limiter_config USUAL = {0};
    *limiter = NULL;
    int before = cancel_forbid(); // what is open by then would be lost
    enum weir_status status = open_limiter(limiter, config != NULL ? config : &USUAL, error);
    cancel_allow(before);
    return status;
}

enum weir_status weir_limiter_status(const struct weir_limiter *limiter, struct weir_error *error)
{
    const struct attendant *attendant = limiter->store->attendant;
    enum weir_status status = limiter->store->ops->status(limiter->store);
    if (attendant != NULL && attendant_is_inherited(attendant)) {
        return fail(error, WEIR_E_FORKED, 0,
                    "the connections to this store are those of the process that opened it, and "
                    "this is its child: open it after fork()");
    }
    if (status == WEIR_E_FORKED) {
        return fail(error, status, 0,
                    "these buckets are private to the process that opened them, and this is its "
                    "child: open memory:?shared=yes before fork(), or file:/path");
    }
    if (status == WEIR_E_SYSTEM) {
        return fail(
            error, status, 0,
            "this process came out of fork(), and may not open the buckets that it has inherited: "
            "open them before it gives up its rights");
    }
    if (status == WEIR_E_FILE) {
        return fail(error, status, 0,
                    "the buckets have moved to another file, which cannot be opened from "
                    "here: is its folder mounted, and may it be read?");
    }
    return status;
}

uint64_t weir_limiter_now_ns(const struct weir_limiter *limiter)
{
    return limiter->store->ops->now_ns(limiter->store);
}

void weir_rule_init(struct weir_rule *rule, const struct weir_limiter *limiter,
                    const struct weir_limit *limit)
{
    rule->limit = *limit;
    identity_of_numbers(rule->hash_key, &limiter->identity, limit);
}

void weir_rule_init_named(struct weir_rule *rule, const struct weir_limiter *limiter,
                          const struct weir_limit *limit, const void *name, size_t name_len)
{
    rule->limit = *limit;
    identity_of_name(rule->hash_key, &limiter->identity, (enum weir_kind)limit->kind, name,
                     name_len);
}

enum weir_status weir_rule_from_text(struct weir_rule *rule, const struct weir_limiter *limiter,
                                     const char *text, struct weir_error *error)
{
    struct weir_limit limit;
    enum weir_status status = weir_limit_from_text(&limit, text, error);
    if (status == WEIR_OK) {
        weir_rule_init(rule, limiter, &limit);
    } else {
        *rule = (struct weir_rule){.hash_key = {0}};
    }
    return status;
}

void weir_limiter_decide(struct weir_limiter *limiter, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count)
{
    limiter->store->ops->decide(limiter->store, requests, decisions, count, STORE_NOW);
}

void weir_limiter_decide_at(struct weir_limiter *limiter, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    limiter->store->ops->decide(limiter->store, requests, decisions, count, clamp_now(now_ns));
}

/* What it comes to where its limit is only being tried. */
static struct weir_decision passed(struct weir_decision decision)
{
    decision.verdict = WEIR_ALLOWED;
    decision.retry_after_ns = -1;
    decision.delay_ns = 0;
    return decision;
}

struct weir_decision weir_decision_of_run(const struct weir_request *requests,
                                          const struct weir_decision *decisions, size_t count,
                                          int *binding)
{
    assert(count > 0 && count <= WEIR_TOGETHER_MAX);
    bool is_heard[WEIR_TOGETHER_MAX];
    struct weir_decision tried[WEIR_TOGETHER_MAX];
    bool is_any_heard = false;
    for (size_t i = 0; i < count; i++) {
        is_heard[i] = !requests[i].shadow;
        is_any_heard |= is_heard[i];
    }
    if (is_any_heard) {
        return decision_of_heard(decisions, is_heard, count, binding);
    }
    for (size_t i = 0; i < count; i++) {
        tried[i] = passed(decisions[i]);
    }
    return weir_decision_of_all(tried, count, binding);
}

static struct weir_decision decide_single(struct weir_limiter *limiter,
                                          enum weir_operation operation,
                                          const struct weir_rule *rule, const void *key,
                                          size_t key_len, uint64_t cost_micro, uint64_t now_ns)
{
    struct weir_request request = {
        .rule = rule,
        .key = key,
        .key_len = key_len,
        .cost_micro = cost_micro,
        .operation = operation,
    };
    struct weir_decision decision;
    limiter->store->ops->decide(limiter->store, &request, &decision, 1, now_ns);
    return decision;
}

NO_CANARY struct weir_decision weir_limiter_take(struct weir_limiter *limiter,
                                                 const struct weir_rule *rule, const void *key,
                                                 size_t key_len, uint64_t cost_micro)
{
    return limiter->store->ops->take(limiter->store, rule, key, key_len, cost_micro);
}

struct weir_decision weir_limiter_can_take(struct weir_limiter *limiter,
                                           const struct weir_rule *rule, const void *key,
                                           size_t key_len, uint64_t cost_micro)
{
    return decide_single(limiter, WEIR_CAN_TAKE, rule, key, key_len, cost_micro, STORE_NOW);
}

struct weir_decision weir_limiter_refund(struct weir_limiter *limiter, const struct weir_rule *rule,
                                         const void *key, size_t key_len, uint64_t cost_micro)
{
    return decide_single(limiter, WEIR_REFUND, rule, key, key_len, cost_micro, STORE_NOW);
}

struct weir_decision weir_limiter_take_at(struct weir_limiter *limiter,
                                          const struct weir_rule *rule, const void *key,
                                          size_t key_len, uint64_t cost_micro, uint64_t now_ns)
{
    return decide_single(limiter, WEIR_TAKE, rule, key, key_len, cost_micro, clamp_now(now_ns));
}

struct weir_decision weir_limiter_block(struct weir_limiter *limiter, const struct weir_rule *rule,
                                        const void *key, size_t key_len, uint64_t block_ns)
{
    struct weir_request request = {.rule = rule,
                                   .key = key,
                                   .key_len = key_len,
                                   .operation = WEIR_BLOCK,
                                   .block_ns = block_ns};
    struct weir_decision decision;
    limiter->store->ops->decide(limiter->store, &request, &decision, 1, STORE_NOW);
    return decision;
}

bool weir_limiter_unblock(struct weir_limiter *limiter, const struct weir_rule *rule,
                          const void *key, size_t key_len)
{
    struct weir_detail detail;
    struct weir_request request = {
        .rule = rule, .key = key, .key_len = key_len, .operation = WEIR_UNBLOCK, .detail = &detail};
    struct weir_decision decision;
    limiter->store->ops->decide(limiter->store, &request, &decision, 1, STORE_NOW);
    return detail.existed;
}

void weir_limiter_stats(const struct weir_limiter *limiter, struct weir_limiter_stats *stats)
{
    limiter->store->ops->stats(limiter->store, stats);
}
