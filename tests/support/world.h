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
 * allowed, and charges nothing. */
#ifndef WEIR_TESTS_WORLD_H
#define WEIR_TESTS_WORLD_H

#include <stdlib.h>
#include <string.h>

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
    return true;
}

static inline void world_close(struct world *world)
{
    world->engine->close(world->session);
    buffer_fini(&world->input);
    buffer_fini(&world->output);
    free(world->service.scratch[world->engine->protocol]);
    free(world->session);
    rule_cache_close(world->rules);
    weir_limiter_close(world->limiter);
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
        state = world->engine->feed(world->session, &world->service,
                                    (struct bytes){world->input.at, world->input.length}, &replies,
                                    &used);
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
