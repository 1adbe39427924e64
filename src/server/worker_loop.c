/* SPDX-License-Identifier: MIT */
#include "server/worker_loop.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

static struct worker_loop *worker_loop_of(struct loop *loop)
{
    return (struct worker_loop *)(void *)loop;
}

/* A watch finds its source by its slot: the address. 0: it watches nothing. */
static struct store_source *source_of(const struct loop_watch *watch)
{
    return (struct store_source *)(uintptr_t)watch->slot;
}

static struct store_source *take_source(struct worker_loop *loop)
{
    struct store_source *source = loop->spare;
    if (source == NULL) {
        return malloc(sizeof *source);
    }
    loop->spare = source->next;
    return source;
}

static void give_source(struct store_source **list, struct store_source *source)
{
    source->watch = NULL;
    source->next = *list;
    *list = source;
}

static void unwatch(struct loop *lent, struct loop_watch *watch)
{
    struct worker_loop *loop = worker_loop_of(lent);
    if (watch->slot != 0) {
        poller_remove(loop->poller, watch->fd);
        give_source(&loop->left, source_of(watch));
        watch->slot = 0;
    }
}

static bool watch_fd(struct loop *lent, struct loop_watch *watch, int fd, unsigned events)
{
    struct worker_loop *loop = worker_loop_of(lent);
    assert(events != 0);
    if (watch->slot != 0 && watch->fd == fd) {
        watch->events = events;
        return poller_change_store(loop->poller, fd, events, &source_of(watch)->source);
    }
    struct store_source *source = take_source(loop);
    if (source == NULL) {
        return false;
    }
    *source = (struct store_source){.source.kind = SOURCE_STORE, .watch = watch};
    if (!poller_add_store(loop->poller, fd, events, &source->source)) {
        give_source(&loop->spare, source);
        return false;
    }
    unwatch(lent, watch); // another fd
    watch->fd = fd;
    watch->events = events;
    watch->slot = (size_t)(uintptr_t)source;
    return true;
}

static void set_timer(struct loop *lent, struct loop_timer *timer, uint64_t at_ns)
{
    loop_timers_set(&worker_loop_of(lent)->timers, timer, at_ns);
}

static void clear_timer(struct loop *lent, struct loop_timer *timer)
{
    (void)lent;
    loop_timers_clear(timer);
}

static uint64_t now_ns(const struct loop *lent)
{
    return *((const struct worker_loop *)(const void *)lent)->now_ns;
}

static const struct loop_ops OPS = {
    .watch = watch_fd,
    .unwatch = unwatch,
    .set_timer = set_timer,
    .clear_timer = clear_timer,
    .now_ns = now_ns,
};

void worker_loop_open(struct worker_loop *loop, struct poller *poller, const uint64_t *clock_ns)
{
    *loop = (struct worker_loop){.loop.ops = &OPS, .poller = poller, .now_ns = clock_ns};
}

static void free_sources(struct store_source *source)
{
    while (source != NULL) {
        struct store_source *next = source->next;
        free(source);
        source = next;
    }
}

void worker_loop_close(struct worker_loop *loop)
{
    free_sources(loop->left);
    free_sources(loop->spare);
}

void worker_loop_call(struct source *source, unsigned events)
{
    struct loop_watch *watch = ((struct store_source *)(void *)source)->watch;
    if (watch != NULL) { // nobody has given it up in this pass
        watch->ready(watch->owner, events);
    }
}

void worker_loop_finish(struct worker_loop *loop)
{
    loop_timers_run(&loop->timers, *loop->now_ns);
    while (loop->left != NULL) {
        struct store_source *source = loop->left;
        loop->left = source->next;
        give_source(&loop->spare, source);
    }
}
