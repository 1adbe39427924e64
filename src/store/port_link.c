/* SPDX-License-Identifier: MIT
 *
 * A port's link, and its breaker.
 *
 * What a link reports is only noted: it may stand in the middle of its own work. take_turn() acts on it.
 *
 *     breaker  link          what a turn does
 *     closed   none          opens it. Fails at once: the breaker opens
 *     closed   opening       waits for it, for PORT_PATIENCE probe_every_ns. Then the breaker opens
 *     closed   up            nothing. port_flush() sends
 *     closed   lost          closes it. It was up for probe_every_ns: next turn; otherwise the breaker opens
 *     open     none          opens it, at each instant to try
 *     open     opening       closes it, if it has been opening for that long
 *     open     up            asks a probe, at once and at each instant to try. Closes it, if the last one has been out
 *                            for that long
 *     open     lost          closes it
 *
 * When the breaker opens, a link that is up is closed: what it may hold back is of no use any more. */
#include <stdio.h>
#include <string.h>

#include "store/port_state.h"

/* ---- what the link tells ---- */

static void note_failed_attempt(struct port *port, const char *why)
{
    if (!port->stats.is_down) {
        port_go_down(port, why);
    } else if (strncmp(port->why.message, why, sizeof port->why.message - 1) != 0) {
        (void)snprintf(port->why.message, sizeof port->why.message, "%s", why);
        port->has_told_why = false;
    } else if (!port->has_told_why) {
        port->has_told_why = port->tells_why = true;
    }
}

void port_link_up(struct port *port)
{
    assert(port->link_state == LINK_OPENING);
    port->link_state = LINK_UP;
    port->since_ns = loop_now_ns(port->loop);
    port->is_new = true;
    port_wake(port, 0); // there may be a probe to ask
}

void port_link_down(struct port *port, const char *why)
{
    bool was_good = port->link_state == LINK_UP
                    && loop_now_ns(port->loop) - port->since_ns >= port->config.probe_every_ns;
    assert(port->link_state == LINK_OPENING || port->link_state == LINK_UP);
    port->link_state = LINK_LOST;
    if (!was_good || port->stats.is_down) {
        note_failed_attempt(port, why);
    }
    port_wake(port, 0);
}

void port_probe_answered(struct port *port)
{
    bool is_in_time = loop_now_ns(port->loop) - port->since_ns <= port->config.deadline_ns;
    if (port->is_probed && is_in_time) {
        port->stats.is_down = false;
        port->failure_count = 0;
        port_wake(port, 0); // somebody is to be told
    }
    port->is_probed = false;
}

/* ---- the breaker ---- */

/* From half to three halves of the time between two tries: ports that went down at one instant do not try at one. */
static uint64_t next_pause_ns(struct port *port)
{
    port->random ^= port->random << 13; // xorshift64, G. Marsaglia, 2003
    port->random ^= port->random >> 7;
    port->random ^= port->random << 17;
    uint64_t every_ns = port->config.probe_every_ns;
    return every_ns / 2 + (port->random >> 16) % (every_ns + 1);
}

void port_go_down(struct port *port, const char *why)
{
    if (port->stats.is_down || port->is_closing) {
        return;
    }
    port->stats.is_down = true;
    port->stats.opened++;
    port->gives_up = port->link_state == LINK_UP;
    port->try_at_ns = loop_now_ns(port->loop) + next_pause_ns(port);
    (void)snprintf(port->why.message, sizeof port->why.message, "%s", why);
    port->tells_why = port->has_told_why = false;
    port_wake(port, 0); // what has gathered is to be answered, and the link closed
}

static void tell(struct port *port, enum port_event event, const char *why)
{
    if (port->config.told != NULL) {
        port->config.told(port->config.context, event, why);
    }
}

static void tell_news(struct port *port)
{
    bool is_down = port->stats.is_down;
    if (port->tells_down != is_down) {
        port->tells_down = is_down;
        tell(port, is_down ? PORT_WENT_DOWN : PORT_CAME_BACK,
             is_down ? port->why.message : "it has answered a probe");
    }
    if (is_down && port->tells_why) {
        tell(port, PORT_STAYS_DOWN, port->why.message);
    }
    port->tells_why = false;
}

/* ---- the link ---- */

static void open_link(struct port *port, uint64_t now_ns)
{
    struct weir_error why = {0};
    port->link_state = LINK_OPENING;
    port->since_ns = now_ns;
    port->is_probed = false;
    port->is_in_link = true;
    port->link = port->ops->link_open(port->store, port, port->loop, &why);
    port->is_in_link = false;
    if (port->link == NULL) {
        port->link_state = LINK_NONE;
        note_failed_attempt(port, why.message);
    }
}

/* Of each batch that the link has: whether it is surely not asked. */
static void note_fates(struct port *port)
{
    struct batch *batch = port->waiting.first;
    for (; batch != NULL; batch = batch_list_next(&port->waiting, batch)) {
        if (batch->state == BATCH_SENT) {
            bool is_ours = port->ops->link_take_back(port->link, batch);
            batch->fate = is_ours ? FATE_NOT_ASKED : FATE_UNKNOWN;
        }
    }
}

void port_drop_link(struct port *port)
{
    if (port->link_state != LINK_OPENING) {
        note_fates(port);
    }
    port->ops->link_close(port->link);
    port->link = NULL;
    port->link_state = LINK_NONE;
    port->is_probed = false;
    struct batch *batch = port->waiting.first;
    for (; batch != NULL; batch = batch_list_next(&port->waiting, batch)) {
        if (batch->state == BATCH_SENT) {
            batch->state = BATCH_HEARD;
            batch_list_add(&port->heard, batch);
        }
    }
    while ((batch = batch_list_take(&port->over)) != NULL) {
        port_let_go(batch);
    }
    port_settle_heard(port, false); // whether the next connection comes up says more
}

/* ---- a turn ---- */

static uint64_t patience_ns(const struct port *port)
{
    return PORT_PATIENCE * port->config.probe_every_ns;
}

static void ask_probe(struct port *port, uint64_t now_ns)
{
    port->is_new = false;
    port->is_probed = true;
    port->since_ns = now_ns;
    port->is_in_link = true;
    port->ops->link_probe(port->link);
    port->is_in_link = false;
}

/* While the breaker is open. */
static void try_again(struct port *port, uint64_t now_ns)
{
    bool waits = port->link_state == LINK_OPENING || port->is_probed;
    port->try_at_ns = now_ns + next_pause_ns(port);
    if (waits && now_ns - port->since_ns >= patience_ns(port)) {
        port_drop_link(port);
    }
    if (port->link_state == LINK_NONE) {
        open_link(port, now_ns);
    } else if (port->link_state == LINK_UP && !port->is_probed) {
        ask_probe(port, now_ns);
    }
}

static void tend_while_down(struct port *port, uint64_t now_ns)
{
    if (port->link_state == LINK_UP && port->gives_up) {
        port_drop_link(port);
    }
    port->gives_up = false;
    port_refuse_gathered(port);
    if (port->link_state == LINK_UP && port->is_new) {
        ask_probe(port, now_ns);
    }
    if (now_ns >= port->try_at_ns) {
        try_again(port, now_ns);
    }
}

static void tend_while_up(struct port *port, uint64_t now_ns)
{
    if (port->link_state == LINK_NONE) {
        open_link(port, now_ns);
    }
    if (port->link_state == LINK_OPENING && now_ns - port->since_ns >= patience_ns(port)) {
        port_go_down(port, "it takes too long to connect");
    }
}

/* Of a batch that the link has had for too long. */
static uint64_t linger_end_ns(const struct port *port)
{
    const struct batch *first = port->over.first;
    return first != NULL ? first->deadline_ns + port->config.linger_ns : UINT64_MAX;
}

uint64_t port_tend_link(struct port *port, uint64_t now_ns)
{
    if (port->link_state == LINK_LOST || linger_end_ns(port) <= now_ns) {
        port_drop_link(port);
    }
    if (!port->stats.is_down) {
        tend_while_up(port, now_ns);
    }
    if (port->stats.is_down) {
        tend_while_down(port, now_ns);
    }
    tell_news(port);
    uint64_t next_ns = linger_end_ns(port);
    if (port->stats.is_down && port->try_at_ns < next_ns) {
        next_ns = port->try_at_ns;
    }
    if (port->link_state == LINK_OPENING && !port->stats.is_down
        && port->since_ns + patience_ns(port) < next_ns) {
        next_ns = port->since_ns + patience_ns(port);
    }
    return next_ns;
}
