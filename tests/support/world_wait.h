/* SPDX-License-Identifier: MIT
 *
 * Waiting in line, for worlds without a server: a take that would wait does so until the world lets it go,
 * at once unless `holds`. It then is allowed, and charges nothing. */
#ifndef WEIR_TESTS_WORLD_WAIT_H
#define WEIR_TESTS_WORLD_WAIT_H

#include "protocol/engine.h"

struct world_wait {
    const char *why_not; // nobody can wait; or NULL
    bool holds;
    bool is_waiting;
    uint64_t wait_ns; // what was asked for last
    struct weir_decision decision;
};

static inline bool world_wait_begin(struct world_wait *wait, struct service *service,
                                    const struct weir_request *request, uint64_t wait_ns,
                                    struct weir_decision *decision)
{
    weir_limiter_decide_at(service->limiter, request, decision, 1, service->now_ns);
    wait->wait_ns = wait_ns;
    if (decision->verdict != WEIR_LIMITED || (uint64_t)decision->retry_after_ns > wait_ns) {
        return false;
    }
    wait->decision = *decision;
    wait->decision.verdict = WEIR_ALLOWED;
    wait->decision.retry_after_ns = -1;
    wait->is_waiting = true;
    return true;
}

/* Feeds an engine all of `input`, as a server would, and lets those go who wait. What it answers is
 * appended to `output`, what it has used is taken from `input`. */
static inline enum engine_state world_feed(const struct engine_ops *engine, void *session,
                                           struct service *service, struct world_wait *wait,
                                           struct buffer *input, struct buffer *output)
{
    enum engine_state state;
    bool is_more;
    do {
        struct buffer replies;
        size_t used;
        buffer_init(&replies, (size_t)16 << 20);
        state = engine->feed(session, service, (struct bytes){input->at, input->length}, &replies,
                             &used);
        is_more = state == ENGINE_OPEN && replies.length >= ENGINE_OUTPUT_BYTES_PLENTY;
        buffer_consume(input, used);
        if (state == ENGINE_WAITING && !wait->holds) {
            wait->is_waiting = false;
            state = engine->resume(session, service, &wait->decision, &replies);
            is_more = state == ENGINE_OPEN;
        }
        buffer_append(output, replies.at, replies.length);
        buffer_fini(&replies);
    } while (is_more);
    return state;
}

#endif
