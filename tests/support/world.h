/* SPDX-License-Identifier: MIT
 *
 * Everything that an engine needs around it, without a socket: for tests, fuzz targets and
 * measurements. http1_world.h and resp_world.h open one for their protocol.
 *
 *     struct world world;
 *     http1_world_open(&world, WEIR_MEMORY_BYTES_MIN);
 *     enum engine_state state = world_feed(&world, "GET / HTTP/1.1\r\n", 16);
 *     ... world.output ...
 *     world_close(&world);
 *
 * A take that would wait does so until the world lets it go, at once unless `wait.holds`. It then is
 * allowed, and charges nothing.
 *
 * After world_answer_later() the store is one that answers later, and the input that an engine has been fed is gone
 * when feed() has returned. Compiled with WORLD_ANSWERS_LATER each world begins so. */
#ifndef WEIR_TESTS_WORLD_H
#define WEIR_TESTS_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "late_store.h"
#include "limiter/rule_cache.h"
#include "protocol/engine.h"
#include "protocol/pace.h"

struct world_wait {
    bool holds;
    bool is_waiting;
    uint64_t wait_ns; // what was asked for last
    struct weir_decision decisions[WEIR_TOGETHER_MAX];
};

struct world {
    const struct engine_ops *engine;
    struct weir_limiter *limiter;
    struct rule_cache *rules;
    struct counters counters;
    struct service_config config;
    struct service_ops ops;
    struct service service;
    struct peer peer;
    void *session;
    struct buffer input; // what the engine has not used yet, as a server keeps it
    struct buffer output;
    struct world_wait wait;
    bool is_healthy;
    uint64_t worked_ns; // how long a feed seems to have lasted; more by this after each look
    uint64_t look_ns;
    struct late_store *late; // NULL: the table decides at once
};

static inline struct world *world_of(struct service *service)
{
    return (struct world *)(void *)((char *)service - offsetof(struct world, service));
}

static inline bool world_wait(struct service *service, const struct weir_request *requests,
                              size_t count, uint64_t wait_ns, struct weir_decision *decisions)
{
    struct world_wait *wait = &world_of(service)->wait;
    weir_limiter_decide_at(service->limiter, requests, decisions, count, service->now_ns);
    struct weir_decision all = weir_decision_of_all(decisions, count, NULL);
    wait->wait_ns = wait_ns;
    if (all.verdict != WEIR_LIMITED || (uint64_t)all.retry_after_ns > wait_ns) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        wait->decisions[i] = decisions[i];
        wait->decisions[i].verdict = WEIR_ALLOWED;
        wait->decisions[i].retry_after_ns = -1;
    }
    wait->is_waiting = true;
    return true;
}

static inline uint64_t world_worked_ns(struct service *service)
{
    struct world *world = world_of(service);
    return world->worked_ns += world->look_ns;
}

static inline enum progress world_decide(struct service *service,
                                         const struct weir_request *requests,
                                         struct weir_decision *decisions, size_t count)
{
    return late_decide(world_of(service)->late, service, requests, decisions, count);
}

/* Of 100 batches so many are PENDING at first, which ones the seed says. */
static inline void world_answer_later(struct world *world, unsigned percent, uint64_t seed)
{
    world->late = world->late != NULL ? world->late : calloc(1, sizeof *world->late);
    world->late->percent = percent;
    world->late->random = seed * 2 + 1;
    world->service.asks_later = true;
}

/* For tests of when an engine pauses: answers make pauses, too. */
static inline void world_answer_at_once(struct world *world)
{
    world->service.asks_later = false;
}

/* A new connection, from world->peer, instead of the old. */
static inline void world_connect(struct world *world)
{
    world->engine->close(world->session);
    memset(world->session, 0, world->engine->session_bytes);
    world->engine->open(world->session, &world->peer);
    world->input.length = 0;
    world->output.length = 0;
}

/* The clock stands at 0; no password. `ops` is what this protocol asks for beside waits. */
static inline bool world_open(struct world *world, const struct engine_ops *engine,
                              const struct service_ops *ops, uint64_t memory_bytes)
{
    const struct weir_limiter_config config = {.memory_bytes = memory_bytes, .seed = {1, 2}};
    *world = (struct world){.engine = engine, .ops = *ops, .is_healthy = true};
    world->ops.wait = world_wait;
    world->ops.worked_ns = world_worked_ns;
    world->ops.decide = world_decide;
    if (weir_limiter_open(&world->limiter, &config, NULL) != WEIR_OK) {
        return false;
    }
    world->rules = rule_cache_open(world->limiter);
    world->session = calloc(1, engine->session_bytes);
    world->service = (struct service){.ops = &world->ops,
                                      .config = &world->config,
                                      .limiter = world->limiter,
                                      .rules = world->rules,
                                      .counters = &world->counters};
    world->service.scratch[engine->protocol] = calloc(1, engine->scratch_bytes);
    buffer_init(&world->input, (size_t)2 * ENGINE_INPUT_BYTES_MAX);
    buffer_init(&world->output, (size_t)64 << 20);
    if (world->rules == NULL || world->session == NULL
        || world->service.scratch[engine->protocol] == NULL) {
        return false;
    }
    world_connect(world);
#ifdef WORLD_ANSWERS_LATER
    world_answer_later(world, WORLD_ANSWERS_LATER, 1);
#endif
    return true;
}

static inline void world_close(struct world *world)
{
    if (world->late != NULL) {
        if (world->late->is_wrong) {
            abort(); // the engine has not asked again what it had asked
        }
        free(world->late);
    }
    world->engine->close(world->session);
    buffer_fini(&world->input);
    buffer_fini(&world->output);
    free(world->service.scratch[world->engine->protocol]);
    free(world->session);
    rule_cache_close(world->rules);
    weir_limiter_close(world->limiter);
}

/* Feeds what there is from memory of its own, which is overwritten afterwards. */
static inline enum engine_state world_feed_copy(struct world *world, struct buffer *replies,
                                                size_t *used)
{
    char *copy = malloc(world->input.length);
    if (copy == NULL && world->input.length > 0) {
        abort();
    }
    if (world->input.length > 0) {
        memcpy(copy, world->input.at, world->input.length);
    }
    enum engine_state state = world->engine->feed(
        world->session, &world->service, (struct bytes){copy, world->input.length}, replies, used);
    if (world->input.length > 0) {
        memset(copy, '!', world->input.length);
    }
    free(copy);
    return state;
}

/* The same, and sees what an engine does that was fed with answers: it asks for nothing else, and stops. */
static inline enum engine_state world_feed_answers(struct world *world, struct buffer *replies,
                                                   size_t *used)
{
    bool has_answers = world->service.answers_left > 0;
    enum engine_state state = world_feed_copy(world, replies, used);
    bool goes_on = state == ENGINE_ASKING || (state == ENGINE_OPEN && *used < world->input.length);
    late_check(world->late, &world->service, state == ENGINE_ASKING);
    world->late->is_wrong = world->late->is_wrong || (has_answers && goes_on);
    return state;
}

/* The same as long as the store answers later. */
static inline enum engine_state world_feed_and_wait(struct world *world, struct buffer *replies,
                                                    size_t *used)
{
    enum engine_state state;
    while ((state = world_feed_answers(world, replies, used)) == ENGINE_ASKING) {
        buffer_consume(&world->input, *used);
        if (world->late->meanwhile != NULL) {
            world->late->meanwhile(world);
        }
        late_answer(world->late, &world->service);
    }
    return state;
}

/* Sends bytes, as a server would: what is left over is kept, and fed again as long as the engine
 * only pauses, or because a take has waited. Replies gather in world->output. */
static inline enum engine_state world_feed(struct world *world, const void *bytes, size_t length)
{
    enum engine_state state;
    bool is_more;
    buffer_append(&world->input, bytes, length);
    do {
        struct buffer replies;
        size_t used;
        buffer_init(&replies, (size_t)16 << 20);
        world->worked_ns = 0;
        state = world->service.asks_later
                    ? world_feed_and_wait(world, &replies, &used)
                    : world->engine->feed(world->session, &world->service,
                                          (struct bytes){world->input.at, world->input.length},
                                          &replies, &used);
        is_more = state == ENGINE_PAUSED;
        buffer_consume(&world->input, used);
        if (state == ENGINE_WAITING && !world->wait.holds) {
            world->wait.is_waiting = false;
            state = world->engine->resume(world->session, &world->service, world->wait.decisions,
                                          &replies);
            is_more = state == ENGINE_OPEN;
        }
        buffer_append(&world->output, replies.at, replies.length);
        buffer_fini(&replies);
    } while (is_more);
    return state;
}

#endif
