/* SPDX-License-Identifier: MIT
 *
 * The world of an HTTP engine. */
#ifndef WEIR_TESTS_HTTP1_WORLD_H
#define WEIR_TESTS_HTTP1_WORLD_H

#include "world.h"

static inline void http1_world_metrics(struct service *service, struct buffer *output)
{
    (void)service;
    buffer_append_text(output, "weir_up 1\n");
}

static inline const char *http1_world_sickness(struct service *service)
{
    return world_of(service)->is_healthy ? NULL : "draining\n";
}

/* The wall clock stands at 1994-11-06 08:49:37. */
static inline bool http1_world_open(struct world *world, uint64_t memory_bytes)
{
    static const struct service_ops ops = {.write_metrics = http1_world_metrics,
                                           .sickness = http1_world_sickness};
    bool is_open = world_open(world, &HTTP1_ENGINE, &ops, memory_bytes);
    world->service.wall_s = 784111777;
    return is_open;
}

#endif
