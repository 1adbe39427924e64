/* SPDX-License-Identifier: MIT
 *
 * Everything that the RESP engine needs around it, without a socket: for tests, fuzz targets and
 * measurements.
 *
 *     struct resp_world world;
 *     resp_world_open(&world, WEIR_MEMORY_BYTES_MIN);
 *     enum engine_state state = resp_world_feed(&world, "PING\r\n", 6);
 *     ... world.output ...
 *     resp_world_close(&world); */
#ifndef WEIR_TESTS_RESP_WORLD_H
#define WEIR_TESTS_RESP_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "limiter/rule_cache.h"
#include "protocol/engine.h"
#include "world_wait.h"

struct resp_world {
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
};

static inline void resp_world_info(struct service *service, struct buffer *output,
                                   const char *section)
{
    (void)service;
    buffer_printf(output, "# %s\r\nweir:1\r\n", section == NULL ? "all" : section);
}

static inline bool resp_world_set(struct service *service, uint64_t now_ns)
{
    bool is_forwards = now_ns >= service->now_ns && now_ns <= WEIR_NOW_NS_MAX;
    service->now_ns = is_forwards ? now_ns : service->now_ns;
    return is_forwards;
}

static inline bool resp_world_advance(struct service *service, uint64_t by_ns)
{
    bool fits = by_ns <= WEIR_NOW_NS_MAX - service->now_ns;
    service->now_ns += fits ? by_ns : 0;
    return fits;
}

static inline bool resp_world_wait(struct service *service, const struct weir_request *request,
                                   uint64_t wait_ns, struct weir_decision *decision)
{
    struct resp_world *world =
        (struct resp_world *)(void *)((char *)service - offsetof(struct resp_world, service));
    return world_wait_begin(&world->wait, service, request, wait_ns, decision);
}

static inline const char *resp_world_why_no_wait(struct service *service)
{
    return ((struct resp_world *)(void *)((char *)service - offsetof(struct resp_world, service)))
        ->wait.why_not;
}

/* A new connection, from world->peer, instead of the old. */
static inline void resp_world_connect(struct resp_world *world)
{
    RESP_ENGINE.close(world->session);
    memset(world->session, 0, RESP_ENGINE.session_bytes);
    RESP_ENGINE.open(world->session, &world->peer);
    world->input.length = 0;
    world->output.length = 0;
}

/* The test clock stands at 0; no password. */
static inline bool resp_world_open(struct resp_world *world, uint64_t memory_bytes)
{
    const struct weir_limiter_config config = {.memory_bytes = memory_bytes, .seed = {1, 2}};
    *world = (struct resp_world){
        .config = {.redis_version = "7.2.4"},
        .ops = {.write_info = resp_world_info,
                .wait = resp_world_wait,
                .why_no_wait = resp_world_why_no_wait,
                .test_clock_set = resp_world_set,
                .test_clock_advance = resp_world_advance},
        .peer = {.id = 7, .name = "127.0.0.1:4711", .local_name = "127.0.0.1:6390"},
    };
    if (weir_limiter_open(&world->limiter, &config, NULL) != WEIR_OK) {
        return false;
    }
    world->rules = rule_cache_open(world->limiter);
    world->session = calloc(1, RESP_ENGINE.session_bytes);
    world->service = (struct service){.ops = &world->ops,
                                      .config = &world->config,
                                      .limiter = world->limiter,
                                      .rules = world->rules,
                                      .counters = &world->counters};
    world->service.scratch[PROTOCOL_RESP] = calloc(1, RESP_ENGINE.scratch_bytes);
    buffer_init(&world->input, (size_t)2 * ENGINE_INPUT_BYTES_MAX);
    buffer_init(&world->output, (size_t)64 << 20);
    if (world->rules == NULL || world->session == NULL
        || world->service.scratch[PROTOCOL_RESP] == NULL) {
        return false;
    }
    resp_world_connect(world);
    return true;
}

static inline void resp_world_close(struct resp_world *world)
{
    RESP_ENGINE.close(world->session);
    buffer_fini(&world->input);
    buffer_fini(&world->output);
    free(world->service.scratch[PROTOCOL_RESP]);
    free(world->session);
    rule_cache_close(world->rules);
    weir_limiter_close(world->limiter);
}

/* Sends bytes, as a server would: what is left over is kept, and fed again as long as the engine
 * stops only because there is plenty to send, or because a take has waited. Replies gather in
 * world->output. */
static inline enum engine_state resp_world_feed(struct resp_world *world, const void *bytes,
                                                size_t length)
{
    buffer_append(&world->input, bytes, length);
    return world_feed(&RESP_ENGINE, world->session, &world->service, &world->wait, &world->input,
                      &world->output);
}

#endif
