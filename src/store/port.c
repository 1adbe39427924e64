/* SPDX-License-Identifier: MIT
 *
 * A port's batches, from port_decide() to port_forget(). What has to be done about the link and the breaker is in
 * port_link.c. All that calls the link, apart from port_flush() and port_close(), is done in take_turn(), which the
 * loop's timer calls. */
#include "store/port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/random.h"
#include "store/port_state.h"

void port_wake(struct port *port, uint64_t at_ns)
{
    if (at_ns < port->wakes_at_ns) {
        port->wakes_at_ns = at_ns;
        loop_set_timer(port->loop, &port->timer, at_ns);
    }
}

/* ---- letting go ---- */

void port_let_go(struct batch *batch)
{
    struct port *port = batch->port;
    batch->state = BATCH_OUT;
    port->stats.pending--;
    port->stats.pending_bytes -= batch->bytes;
    if (batch->is_forgotten) {
        free(batch);
    }
}

void port_forget(struct batch *batch)
{
    struct port *port = batch->port;
    batch->is_forgotten = true;
    if (batch->state == BATCH_OUT) {
        free(batch);
        return;
    }
    port->stats.forgotten += !batch->is_over;
    if (batch->state == BATCH_GATHERED) {
        batch_list_remove(&port->gathered, batch);
        batch_list_remove(&port->waiting, batch);
        port_let_go(batch);
    }
}

/* ---- the end of a batch ---- */

/* One round trip that takes too long is one failure, however many batches were in it, or were sent while it lasted. */
static void note_failure(struct port *port, const struct batch *batch, enum fate fate)
{
    bool is_of_this_round = batch->round == port->round;
    bool is_not_wanted = batch->is_forgotten && fate == FATE_NOT_ASKED;
    if (!is_of_this_round || is_not_wanted) {
        return;
    }
    port->round++;
    port->failure_count++;
    if (port->failure_count >= port->config.failures_max) {
        char why[96];
        (void)snprintf(why, sizeof why, "no answer within %llu ms, %u times in a row",
                       (unsigned long long)(port->config.deadline_ns / 1000000),
                       port->failure_count);
        port_go_down(port, why);
    }
}

/* It waits no longer, and the asker is told. The link may still have it. */
static void end(struct batch *batch, enum fate fate)
{
    struct port *port = batch->port;
    bool is_awaited = !batch->is_forgotten;
    batch_list_remove(&port->waiting, batch);
    if (is_awaited) {
        batch->fate = fate;
        port->stats.decided += fate == FATE_DECIDED;
        port->stats.not_asked += fate == FATE_NOT_ASKED;
        port->stats.unknown += fate == FATE_UNKNOWN;
    }
    if (batch->state == BATCH_SENT) {
        batch->is_over = true;
        batch_list_add(&port->over, batch);
    } else {
        port_let_go(batch);
    }
    if (is_awaited) {
        batch->done(batch); // which may free it
    }
}

static bool may_ask_again(const struct batch *batch)
{
    const struct port *port = batch->port;
    return !batch->is_retry && !batch->is_forgotten && !port->stats.is_down && !port->is_closing
           && loop_now_ns(port->loop) < batch->deadline_ns;
}

void port_store_spoke(struct port *port)
{
    port->round++;
    port->failure_count = 0;
}

/* Looks at the fate of a batch that the link is through with; `counts` as for port_settle_heard(). */
static void settle(struct batch *batch, bool counts)
{
    struct port *port = batch->port;
    enum fate fate = batch->fate;
    bool is_decided = fate == FATE_DECIDED;
    port->stats.late += is_decided && batch->is_forgotten;
    if (fate == FATE_NOT_ASKED && may_ask_again(batch)) {
        port->stats.retried++;
        batch->is_retry = true;
        batch->state = BATCH_GATHERED;
        batch->round = port->round;
        batch_list_add(&port->gathered, batch);
        return;
    }
    if (is_decided) {
        port_store_spoke(port);
    } else if (counts) {
        note_failure(port, batch, fate);
    }
    end(batch, fate);
}

void port_settle_heard(struct port *port, bool counts)
{
    for (struct batch *batch; (batch = batch_list_take(&port->heard)) != NULL;) {
        settle(batch, counts);
    }
}

void port_answered(struct batch *batch, enum fate fate)
{
    struct port *port = batch->port;
    assert(batch->state == BATCH_SENT);
    if (batch->is_over) { // the asker knows its fate already, and may look at it
        port->stats.late += fate == FATE_DECIDED;
        batch_list_remove(&port->over, batch);
        port_let_go(batch);
        return;
    }
    batch->state = BATCH_HEARD;
    batch->fate = fate;
    if (port->is_in_link) {
        batch_list_add(&port->heard, batch);
        port_wake(port, 0);
    } else {
        settle(batch, true);
    }
}

void port_refuse_gathered(struct port *port)
{
    for (struct batch *batch; (batch = batch_list_take(&port->gathered)) != NULL;) {
        batch->state = BATCH_HEARD;
        end(batch, FATE_NOT_ASKED);
    }
}

/* ---- deadlines ---- */

static bool is_due(const struct batch *batch, uint64_t now_ns)
{
    return batch != NULL && batch->deadline_ns <= now_ns;
}

static void hear(struct port *port)
{
    if (port->link_state == LINK_UP) {
        port->is_in_link = true;
        port->ops->link_hear(port->link);
        port->is_in_link = false;
        port_settle_heard(port, true);
    }
}

static void expire(struct batch *batch)
{
    struct port *port = batch->port;
    enum fate fate = FATE_NOT_ASKED;
    bool counts = true;
    if (batch->state == BATCH_GATHERED) {
        batch_list_remove(&port->gathered, batch);
        batch->state = BATCH_HEARD;
        counts = port->link_state != LINK_UP; // otherwise it is this thread that was late
    } else if (port->ops->link_take_back(port->link, batch)) {
        batch->state = BATCH_HEARD;
    } else {
        fate = FATE_UNKNOWN;
    }
    if (counts) {
        note_failure(port, batch, fate);
    }
    end(batch, fate);
}

static void expire_all(struct port *port, uint64_t now_ns)
{
    if (is_due(port->waiting.first, now_ns)) {
        hear(port);
    }
    while (is_due(port->waiting.first, now_ns)) {
        expire(port->waiting.first);
    }
}

/* ---- turns ---- */

static void take_turn(void *owner)
{
    struct port *port = owner;
    uint64_t now_ns = loop_now_ns(port->loop);
    port->wakes_at_ns = UINT64_MAX;
    port_settle_heard(port, true);
    expire_all(port, now_ns);
    uint64_t next_ns = port_tend_link(port, now_ns);
    if (port->waiting.first != NULL && port->waiting.first->deadline_ns < next_ns) {
        next_ns = port->waiting.first->deadline_ns;
    }
    if (next_ns != UINT64_MAX) {
        port_wake(port, next_ns);
    }
}

/* Its deadline passed between gathering and now: while a link is up that is this thread's fault, not the store's. So it
 * is asked all the same, with the time that a batch has; but what is asked again keeps its deadline. */
static bool is_wanted(struct batch *batch, uint64_t now_ns)
{
    struct port *port = batch->port;
    if (is_due(batch, now_ns) && !batch->is_retry) {
        batch_list_remove(&port->waiting, batch);
        batch->deadline_ns = now_ns + port->config.deadline_ns;
        batch_list_add(&port->waiting, batch);
        port_wake(port, batch->deadline_ns);
    }
    return !is_due(batch, now_ns);
}

void port_flush(struct port *port)
{
    if (port->link_state != LINK_UP || port->stats.is_down || port->gathered.first == NULL) {
        return;
    }
    uint64_t now_ns = loop_now_ns(port->loop);
    struct batch_list asked = {.order = BATCH_BY_PLACE}, kept = {.order = BATCH_BY_PLACE};
    for (struct batch *batch; (batch = batch_list_take(&port->gathered)) != NULL;) {
        if (is_wanted(batch, now_ns)) {
            batch->state = BATCH_SENT;
            batch->round = port->round;
            batch_list_add(&asked, batch);
        } else { // better surely not asked
            batch_list_add(&kept, batch);
        }
    }
    port->gathered = kept;
    if (asked.first != NULL) {
        port->is_in_link = true;
        port->ops->link_send(port->link, &asked);
        port->is_in_link = false;
        assert(asked.first == NULL);
    }
}

/* ---- asking ---- */

/* A multiple of what every type is aligned to. */
static size_t aligned(size_t bytes)
{
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

static size_t count_details(const struct asking *asking)
{
    size_t count = 0;
    for (size_t i = 0; i < asking->count; i++) {
        count += asking->requests[i].detail != NULL;
    }
    return count;
}

/* NULL: there is no room for it. */
static struct batch *make_batch(struct port *port, const struct asking *asking)
{
    size_t detail_count = count_details(asking);
    size_t answer_bytes =
        aligned(sizeof(struct batch) + asking->count * sizeof(struct weir_decision)
                + detail_count * sizeof(struct weir_detail));
    size_t ask_bytes = aligned(port->ops->ask_bytes(port->store, asking->requests, asking->count));
    size_t bytes = answer_bytes + ask_bytes + asking->own_bytes;
    bool has_room = port->stats.pending < port->config.batch_count_max
                    && bytes <= port->config.bytes_max - port->stats.pending_bytes;
    struct batch *batch = has_room ? malloc(bytes) : NULL;
    if (batch == NULL) {
        return NULL;
    }
    *batch = (struct batch){.port = port,
                            .asker = asking->asker,
                            .done = asking->done,
                            .ask = (char *)batch + answer_bytes,
                            .own = (char *)batch + answer_bytes + ask_bytes,
                            .deadline_ns = loop_now_ns(port->loop) + port->config.deadline_ns,
                            .now_ns = asking->now_ns,
                            .round = port->round,
                            .bytes = bytes,
                            .count = (uint32_t)asking->count,
                            .state = BATCH_GATHERED};
    memset(batch_details(batch), 0, detail_count * sizeof(struct weir_detail));
    return batch;
}

struct batch *port_decide(struct port *port, const struct asking *asking)
{
    assert(asking->count > 0 && asking->count <= UINT32_MAX);
    if (port->stats.is_down || port->is_closing) {
        port->stats.refused_down++;
        return NULL;
    }
    struct batch *batch = make_batch(port, asking);
    if (batch == NULL) {
        port->stats.refused_room++;
        return NULL;
    }
    port->ops->copy(port->store, batch, asking->requests);
    port->stats.asked++;
    port->stats.pending++;
    port->stats.pending_bytes += batch->bytes;
    batch_list_add(&port->waiting, batch);
    batch_list_add(&port->gathered, batch);
    port_wake(port, batch->deadline_ns);
    return batch;
}

/* ---- opening and closing ---- */

void port_stats(const struct port *port, struct port_stats *stats)
{
    *stats = port->stats;
}

static struct port_config complete(const struct port_config *given, const struct store *store)
{
    struct port_config config = given != NULL ? *given : (struct port_config){0};
    uint64_t of_store_ns = store->deadline_ns != 0 ? store->deadline_ns : PORT_DEADLINE_NS;
    config.deadline_ns = config.deadline_ns != 0 ? config.deadline_ns : of_store_ns;
    config.batch_count_max =
        config.batch_count_max != 0 ? config.batch_count_max : PORT_BATCHES_MAX;
    config.bytes_max = config.bytes_max != 0 ? config.bytes_max : PORT_BYTES_MAX;
    config.failures_max = config.failures_max != 0 ? config.failures_max : PORT_FAILURES_MAX;
    uint64_t probe_every_ns =
        2 * of_store_ns > PORT_PROBE_EVERY_NS ? 2 * of_store_ns : PORT_PROBE_EVERY_NS;
    config.probe_every_ns = config.probe_every_ns != 0 ? config.probe_every_ns : probe_every_ns;
    config.linger_ns = config.linger_ns != 0 ? config.linger_ns : PORT_LINGER_NS;
    return config;
}

struct port *port_open(struct store *store, const struct remote_ops *ops, struct loop *loop,
                       const struct port_config *config)
{
    struct port *port = malloc(sizeof *port);
    if (port == NULL) {
        return NULL;
    }
    *port = (struct port){.store = store,
                          .ops = ops,
                          .loop = loop,
                          .config = complete(config, store),
                          .timer = {.due = take_turn, .owner = port},
                          .wakes_at_ns = UINT64_MAX,
                          .waiting = {.order = BATCH_BY_DEADLINE},
                          .over = {.order = BATCH_BY_DEADLINE},
                          .gathered = {.order = BATCH_BY_PLACE},
                          .heard = {.order = BATCH_BY_PLACE}};
    port->random = port->config.seed;
    if (port->random == 0 && !random_fill(&port->random, sizeof port->random)) {
        free(port);
        return NULL;
    }
    port->random |= 1; // for the generator, which zero would stop
    port_wake(port, 0);
    return port;
}

void port_close(struct port *port)
{
    if (port == NULL) {
        return;
    }
    assert(!port->is_in_link);
    port->is_closing = true;
    port_settle_heard(port, false);
    if (port->link_state != LINK_NONE) {
        port_drop_link(port);
    }
    port_refuse_gathered(port);
    assert(port->waiting.first == NULL && port->over.first == NULL && port->stats.pending == 0);
    loop_clear_timer(port->loop, &port->timer);
    free(port);
}
