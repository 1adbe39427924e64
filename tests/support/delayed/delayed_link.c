/* SPDX-License-Identifier: MIT */
#include "delayed_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX

enum place { AT_QUEUE, AT_THERE, AT_BACK, AT_LOST };

/* What the link keeps of a batch: its requests, which point to the rules and keys behind them.
 *   at_ns          when it comes to where it is going; NEVER: it is lost
 *   part           how many questions are decided at a time, or somewhat more
 *   decided_count  how many are */
struct ask {
    enum place place;
    uint64_t at_ns;
    size_t part, decided_count;
    struct weir_request requests[];
};

/*   is_up      port_link_up() was called
 *   breaks     the connection is to be lost at the next event
 *   up_at_ns, probe_at_ns  when it will be up, when a probe will be answered; NEVER */
struct link {
    struct delayed_store *delayed;
    struct link *next;
    struct port *port;
    struct loop *loop;
    struct loop_timer timer;
    struct batch_list queued, written; // written: in the order in which they come
    size_t written_count;
    uint64_t up_at_ns, probe_at_ns;
    bool is_up, is_lost, breaks;
};

static uint64_t below(struct delayed_store *delayed, uint64_t limit)
{
    delayed->random ^= delayed->random << 13; // xorshift64, G. Marsaglia, 2003
    delayed->random ^= delayed->random >> 7;
    delayed->random ^= delayed->random << 17;
    return (delayed->random >> 16) % limit;
}

static bool happens(struct delayed_store *delayed, unsigned chance)
{
    return chance > 0 && below(delayed, 1000) < chance;
}

/* ---- what it keeps ---- */

static size_t ask_bytes(const struct store *store, const struct weir_request *requests,
                        size_t count)
{
    size_t bytes =
        sizeof(struct ask) + count * (sizeof(struct weir_request) + sizeof(struct weir_rule));
    (void)store;
    for (size_t i = 0; i < count; i++) {
        bytes += requests[i].key_len;
    }
    return bytes;
}

static void copy(const struct store *store, struct batch *batch,
                 const struct weir_request *requests)
{
    struct ask *ask = batch->ask;
    struct weir_rule *rules = (struct weir_rule *)(ask->requests + batch->count);
    char *keys = (char *)(rules + batch->count);
    struct weir_detail *details = batch_details(batch);
    (void)store;
    *ask = (struct ask){.place = AT_QUEUE};
    for (size_t i = 0; i < batch->count; i++) {
        struct weir_request *kept = &ask->requests[i];
        *kept = requests[i];
        rules[i] = *requests[i].rule;
        kept->rule = &rules[i];
        if (kept->key_len > 0) {
            kept->key = memcpy(keys, requests[i].key, kept->key_len);
        }
        keys += kept->key_len;
        kept->detail = kept->detail != NULL ? details++ : NULL;
    }
}

/* ---- the way of a batch ---- */

/* A way that begins at `from_ns`: whatever this thread does meanwhile. */
static uint64_t way_end_ns(struct delayed_store *delayed, uint64_t from_ns, uint64_t ns_max)
{
    return from_ns + delayed->plan.way_ns + below(delayed, ns_max + 1);
}

static uint64_t at_ns_of(const struct batch *batch)
{
    return ((const struct ask *)batch->ask)->at_ns;
}

/* Behind those that come as soon, or sooner. */
static void place_written(struct link *link, struct batch *batch)
{
    struct batch_list *list = &link->written;
    struct batch *before = list->last;
    while (before != NULL && at_ns_of(before) > at_ns_of(batch)) {
        before = before->neighbours[list->order].previous;
    }
    batch_list_add_behind(list, before, batch);
}

/* It begins another way where the last one ends. */
static void go_on(struct link *link, struct batch *batch, enum place place)
{
    struct delayed_store *delayed = link->delayed;
    uint64_t ns_max = place == AT_THERE ? delayed->plan.there_ns : delayed->plan.back_ns;
    struct ask *ask = batch->ask;
    ask->place = place;
    ask->at_ns = place == AT_LOST ? NEVER : way_end_ns(delayed, ask->at_ns, ns_max);
    batch_list_remove(&link->written, batch);
    place_written(link, batch);
}

static void start(struct link *link, struct batch *batch)
{
    struct delayed_store *delayed = link->delayed;
    struct ask *ask = batch->ask;
    unsigned parts =
        delayed->plan.parts > 1 ? (unsigned)below(delayed, delayed->plan.parts) + 1 : 1;
    ask->part = (batch->count + parts - 1) / parts;
    ask->at_ns = loop_now_ns(link->loop);
    batch_list_add(&link->written, batch);
    link->written_count++;
    delayed->sent++;
    go_on(link, batch, AT_THERE);
}

/* Writes what has room, and is still wanted. */
static void start_queued(struct link *link)
{
    const struct delayed_plan *plan = &link->delayed->plan;
    struct batch *next;
    for (struct batch *batch = link->queued.first; batch != NULL; batch = next) {
        next = batch_list_next(&link->queued, batch);
        bool has_room = plan->written_max == 0 || link->written_count < plan->written_max;
        bool is_dropped = batch->is_forgotten || happens(link->delayed, plan->refused_sending);
        bool is_in_time = loop_now_ns(link->loop) < batch->deadline_ns;
        if (is_dropped || (has_room && is_in_time)) {
            batch_list_remove(&link->queued, batch);
        }
        if (is_dropped) {
            port_answered(batch, FATE_NOT_ASKED);
        } else if (has_room && is_in_time) {
            start(link, batch);
        }
    }
}

static void report(struct link *link, struct batch *batch, enum fate fate)
{
    const struct ask *ask = batch->ask;
    link->delayed->unheard += fate != FATE_DECIDED && ask->decided_count > 0;
    batch_list_remove(&link->written, batch);
    link->written_count--;
    port_answered(batch, fate);
}

/* The next part, as far as a run goes. */
static void charge(struct delayed_store *delayed, struct batch *batch)
{
    struct ask *ask = batch->ask;
    size_t first = ask->decided_count;
    size_t end = first;
    do {
        while (end + 1 < batch->count && ask->requests[end].and_next) {
            end++;
        }
        end++;
    } while (end < batch->count && end - first < ask->part);
    delayed->inner->ops->decide(delayed->inner, ask->requests + first, batch->decisions + first,
                                end - first, batch->now_ns);
    ask->decided_count = end;
    if (delayed->charged != NULL) {
        delayed->charged(delayed->context, batch, first, end - first);
    }
}

static void arrive_there(struct link *link, struct batch *batch)
{
    struct delayed_store *delayed = link->delayed;
    const struct delayed_plan *plan = &delayed->plan;
    struct ask *ask = batch->ask;
    if (ask->decided_count == 0 && happens(delayed, plan->not_asked)) {
        report(link, batch, FATE_NOT_ASKED);
    } else if (ask->decided_count == 0 && happens(delayed, plan->held)) {
        port_store_spoke(link->port);
        report(link, batch, FATE_NOT_ASKED);
    } else if (happens(delayed, plan->lost_there)) {
        go_on(link, batch, AT_LOST);
    } else if (happens(delayed, plan->unknown_there)) {
        report(link, batch, FATE_UNKNOWN);
    } else {
        charge(delayed, batch);
        go_on(link, batch, ask->decided_count == batch->count ? AT_BACK : AT_THERE);
    }
}

static void arrive_back(struct link *link, struct batch *batch)
{
    struct delayed_store *delayed = link->delayed;
    if (happens(delayed, delayed->plan.lost_back)) {
        go_on(link, batch, AT_LOST);
    } else {
        bool is_unknown = happens(delayed, delayed->plan.unknown_back);
        report(link, batch, is_unknown ? FATE_UNKNOWN : FATE_DECIDED);
    }
}

/* ---- events ---- */

/* NULL: none is on its way. */
static struct batch *earliest(const struct link *link)
{
    struct batch *first = link->written.first;
    return first != NULL && at_ns_of(first) != NEVER ? first : NULL;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void set_timer(struct link *link)
{
    const struct batch *first = earliest(link);
    uint64_t at_ns = first != NULL ? at_ns_of(first) : NEVER;
    at_ns = least(at_ns, least(link->up_at_ns, link->probe_at_ns));
    if (at_ns != NEVER && !link->is_lost && !link->delayed->plan.is_silent) {
        loop_set_timer(link->loop, &link->timer, at_ns);
    }
}

static void lose(struct link *link, const char *why)
{
    link->is_lost = true;
    loop_clear_timer(link->loop, &link->timer);
    port_link_down(link->port, why);
}

static void connect_link(struct link *link)
{
    link->up_at_ns = NEVER;
    if (link->delayed->plan.refuses) {
        lose(link, "connection refused");
    } else {
        link->is_up = true;
        port_link_up(link->port);
    }
}

static void answer_probe(struct link *link)
{
    link->probe_at_ns = NEVER;
    port_probe_answered(link->port);
}

/* All that has come by now. */
static void look(void *owner)
{
    struct link *link = owner;
    uint64_t now_ns = loop_now_ns(link->loop);
    if (link->is_lost || link->delayed->plan.is_silent) {
        return;
    }
    if (link->breaks || happens(link->delayed, link->delayed->plan.breaks)) {
        lose(link, "connection reset");
        return;
    }
    if (link->up_at_ns <= now_ns) {
        connect_link(link);
    }
    if (link->probe_at_ns <= now_ns) {
        answer_probe(link);
    }
    struct batch *batch = earliest(link);
    while (batch != NULL && at_ns_of(batch) <= now_ns) {
        if (((struct ask *)batch->ask)->place == AT_THERE) {
            arrive_there(link, batch);
        } else {
            arrive_back(link, batch);
        }
        batch = earliest(link);
    }
    start_queued(link);
    set_timer(link);
}

/* ---- as remote_ops ---- */

static struct link *link_open(struct store *store, struct port *port, struct loop *loop,
                              struct weir_error *error)
{
    struct delayed_store *delayed = (struct delayed_store *)store;
    if (delayed->plan.refuses && delayed->plan.fails_at_once) {
        (void)snprintf(error->message, sizeof error->message, "no such socket");
        return NULL;
    }
    struct link *link = malloc(sizeof *link);
    if (link == NULL) {
        (void)snprintf(error->message, sizeof error->message, "no memory");
        return NULL;
    }
    *link = (struct link){.delayed = delayed,
                          .next = delayed->first_link,
                          .port = port,
                          .loop = loop,
                          .timer = {.due = look, .owner = link},
                          .queued = {.order = BATCH_BY_PLACE},
                          .written = {.order = BATCH_BY_PLACE},
                          .up_at_ns = loop_now_ns(loop) + delayed->plan.connect_ns,
                          .probe_at_ns = NEVER};
    delayed->first_link = link;
    delayed->links++;
    set_timer(link);
    return link;
}

static void link_send(struct link *link, struct batch_list *asked)
{
    for (struct batch *batch; (batch = batch_list_take(asked)) != NULL;) {
        batch_list_add(&link->queued, batch);
        ((struct ask *)batch->ask)->place = AT_QUEUE;
    }
    start_queued(link);
    set_timer(link);
}

static bool link_take_back(struct link *link, struct batch *batch)
{
    const struct ask *ask = batch->ask;
    if (ask->place != AT_QUEUE) {
        return false;
    }
    batch_list_remove(&link->queued, batch);
    link->delayed->taken_back++;
    return true;
}

static void link_hear(struct link *link)
{
    look(link);
}

static void link_probe(struct link *link)
{
    struct delayed_store *delayed = link->delayed;
    delayed->probes++;
    link->probe_at_ns = way_end_ns(delayed, loop_now_ns(link->loop), delayed->plan.there_ns);
    link->probe_at_ns = way_end_ns(delayed, link->probe_at_ns, delayed->plan.back_ns);
    set_timer(link);
}

/* Of what was on its way there, the store reads some all the same. */
static void link_close(struct link *link)
{
    struct delayed_store *delayed = link->delayed;
    for (struct batch *batch = link->written.first; batch != NULL;
         batch = batch_list_next(&link->written, batch)) {
        struct ask *ask = batch->ask;
        while (ask->place == AT_THERE && ask->decided_count < batch->count
               && below(delayed, 2) == 0) {
            charge(delayed, batch);
        }
        delayed->unheard += ask->decided_count > 0;
    }
    struct link **place = &delayed->first_link;
    while (*place != link) {
        place = &(*place)->next;
    }
    *place = link->next;
    loop_clear_timer(link->loop, &link->timer);
    free(link);
}

const struct remote_ops delayed_ops = {
    .ask_bytes = ask_bytes,
    .copy = copy,
    .link_open = link_open,
    .link_send = link_send,
    .link_take_back = link_take_back,
    .link_hear = link_hear,
    .link_probe = link_probe,
    .link_close = link_close,
};

void delayed_init(struct delayed_store *delayed, struct store *inner, uint64_t seed)
{
    *delayed = (struct delayed_store){.inner = inner, .random = seed * 2 + 1};
}

void delayed_look(struct delayed_store *delayed)
{
    for (struct link *link = delayed->first_link; link != NULL; link = link->next) {
        if (!link->is_lost) {
            loop_set_timer(link->loop, &link->timer, 0);
        }
    }
}

void delayed_break(struct delayed_store *delayed)
{
    for (struct link *link = delayed->first_link; link != NULL; link = link->next) {
        link->breaks |= link->is_up;
    }
    delayed_look(delayed);
}
