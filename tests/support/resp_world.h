/* SPDX-License-Identifier: MIT
 *
 * The world of a RESP engine, with a test clock. */
#ifndef WEIR_TESTS_RESP_WORLD_H
#define WEIR_TESTS_RESP_WORLD_H

#include "world.h"

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

static inline bool resp_world_open(struct world *world, uint64_t memory_bytes)
{
    static const struct service_ops ops = {.write_info = resp_world_info,
                                           .test_clock_set = resp_world_set,
                                           .test_clock_advance = resp_world_advance};
    if (!world_open(world, &RESP_ENGINE, &ops, memory_bytes)) {
        return false;
    }
    world->config.redis_version = "7.2.4";
    world->peer = (struct peer){.id = 7, .name = "127.0.0.1:4711", .local_name = "127.0.0.1:6390"};
    world_connect(world);
    return true;
}

#endif
