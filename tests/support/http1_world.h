/* SPDX-License-Identifier: MIT
 *
 * Everything that the HTTP engine needs around it, without a socket: for tests and fuzz targets.
 *
 *     struct http1_world world;
 *     http1_world_open(&world, WEIR_MEMORY_BYTES_MIN);
 *     enum engine_state state = http1_world_feed(&world, "GET / HTTP/1.1\r\n", 16);
 *     ... world.output ...
 *     http1_world_close(&world); */
#ifndef WEIR_TESTS_HTTP1_WORLD_H
#define WEIR_TESTS_HTTP1_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "limiter/rule_cache.h"
#include "protocol/engine.h"
#include "world_wait.h"

struct http1_world {
    struct weir_limiter *limiter;
    struct rule_cache *rules;
    struct counters counters;
    struct service_config config;
    struct service service;
    struct peer peer;
    void *session;
    struct buffer input; // what the engine has not used yet, as a server keeps it
    struct buffer output;
    struct world_wait wait;
    bool is_healthy;
};

static inline struct http1_world *http1_world_of(struct service *service)
{
    return (struct http1_world *)(void *)((char *)service - offsetof(struct http1_world, service));
}

static inline void http1_world_metrics(struct service *service, struct buffer *output)
{
    (void)service;
    buffer_append_text(output, "weir_up 1\n");
}

static inline const char *http1_world_why_no_wait(struct service *service)
{
    return http1_world_of(service)->wait.why_not;
}

static inline bool http1_world_is_healthy(struct service *service)
{
    return http1_world_of(service)->is_healthy;
}

static inline bool http1_world_wait(struct service *service, const struct weir_request *request,
                                    uint64_t wait_ns, struct weir_decision *decision)
{
    struct http1_world *world =
        (struct http1_world *)(void *)((char *)service - offsetof(struct http1_world, service));
    return world_wait_begin(&world->wait, service, request, wait_ns, decision);
}

/* A new connection, from world->peer. */
static inline void http1_world_connect(struct http1_world *world)
{
    HTTP1_ENGINE.close(world->session);
    memset(world->session, 0, HTTP1_ENGINE.session_bytes);
    HTTP1_ENGINE.open(world->session, &world->peer);
    world->input.length = 0;
}

/* The clock stands at 0, and the wall clock at 1994-11-06 08:49:37. */
static inline bool http1_world_open(struct http1_world *world, uint64_t memory_bytes)
{
    static const struct service_ops ops = {.write_metrics = http1_world_metrics,
                                           .is_healthy = http1_world_is_healthy,
                                           .why_no_wait = http1_world_why_no_wait,
                                           .wait = http1_world_wait};
    const struct weir_limiter_config config = {.memory_bytes = memory_bytes, .seed = {1, 2}};
    *world = (struct http1_world){.is_healthy = true};
    if (weir_limiter_open(&world->limiter, &config, NULL) != WEIR_OK) {
        return false;
    }
    world->rules = rule_cache_open(world->limiter);
    world->session = calloc(1, HTTP1_ENGINE.session_bytes);
    world->service = (struct service){.ops = &ops,
                                      .config = &world->config,
                                      .limiter = world->limiter,
                                      .rules = world->rules,
                                      .counters = &world->counters,
                                      .wall_s = 784111777};
    world->service.scratch[PROTOCOL_HTTP] = calloc(1, HTTP1_ENGINE.scratch_bytes);
    buffer_init(&world->input, (size_t)2 * ENGINE_INPUT_BYTES_MAX);
    buffer_init(&world->output, (size_t)64 << 20);
    if (world->rules == NULL || world->session == NULL
        || world->service.scratch[PROTOCOL_HTTP] == NULL) {
        return false;
    }
    http1_world_connect(world);
    return true;
}

static inline void http1_world_close(struct http1_world *world)
{
    HTTP1_ENGINE.close(world->session);
    buffer_fini(&world->input);
    buffer_fini(&world->output);
    free(world->service.scratch[PROTOCOL_HTTP]);
    free(world->session);
    rule_cache_close(world->rules);
    weir_limiter_close(world->limiter);
}

/* Sends bytes, as a server would: what is left over is kept, and fed again as long as the engine
 * stops only because there is plenty to send, or because a take has waited. Replies gather in
 * world->output. */
static inline enum engine_state http1_world_feed(struct http1_world *world, const void *bytes,
                                                 size_t length)
{
    buffer_append(&world->input, bytes, length);
    return world_feed(&HTTP1_ENGINE, world->session, &world->service, &world->wait, &world->input,
                      &world->output);
}

#endif
