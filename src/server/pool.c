/* SPDX-License-Identifier: MIT */
#include "server/pool.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "server/connection.h"
#include "server/worker.h"

/* ---- lists ---- */

/* The class of what it keeps, which is more than nothing. */
static int class_of(size_t bytes)
{
    assert(bytes > 0);
    return 63 - __builtin_clzll(bytes);
}

static void show_class(struct pool *pool, enum pool_share share, int class)
{
    uint64_t bit = UINT64_C(1) << class;
    /* Relaxed, both: only this worker writes it, and others take it for a hint. */
    uint64_t classes = atomic_load_explicit(&pool->classes[share], memory_order_relaxed);
    classes = pool->lists[share][class].first != NULL ? classes | bit : classes & ~bit;
    atomic_store_explicit(&pool->classes[share], classes, memory_order_relaxed);
}

static void leave_list(struct pool *pool, struct connection *connection, int class)
{
    struct pool_list *list = &pool->lists[connection->share][class];
    *(connection->kept_previous != NULL ? &connection->kept_previous->kept_next : &list->first) =
        connection->kept_next;
    *(connection->kept_next != NULL ? &connection->kept_next->kept_previous : &list->last) =
        connection->kept_previous;
    show_class(pool, (enum pool_share)connection->share, class);
}

static void join_list(struct pool *pool, struct connection *connection, int class)
{
    struct pool_list *list = &pool->lists[connection->share][class];
    connection->kept_next = NULL;
    connection->kept_previous = list->last;
    *(list->last != NULL ? &list->last->kept_next : &list->first) = connection;
    list->last = connection;
    show_class(pool, (enum pool_share)connection->share, class);
}

/* ---- counting ---- */

/* Relaxed, all of them: bounds, see state.h. Adding wraps round to a subtraction. Returns the new sum. */
static uint64_t add(_Atomic uint64_t *sum, uint64_t bytes)
{
    return atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed) + bytes;
}

static uint64_t load(const _Atomic uint64_t *sum)
{
    return atomic_load_explicit(sum, memory_order_relaxed);
}

/* A flood begins, or is over: then the main thread is told. */
static void watch_level(struct server *server, uint64_t bytes)
{
    uint64_t max = server->options.buffers_bytes_max;
    /* Relaxed: the worker that swaps it tells, once a flood. */
    bool is_swollen = atomic_load_explicit(&server->is_swollen, memory_order_relaxed);
    if (!is_swollen && bytes > max / POOL_SWOLLEN_PART) {
        atomic_store_explicit(&server->is_swollen, true, memory_order_relaxed);
    } else if (is_swollen && bytes < max / POOL_EBBED_PART
               && atomic_exchange_explicit(&server->is_swollen, false, memory_order_relaxed)) {
        uint64_t one = 1;
        if (write(server->ebb_fd, &one, sizeof one) < 0) {
            assert(errno == EAGAIN);
        }
    }
}

void pool_count(struct worker *worker, struct connection *connection, size_t before, size_t after)
{
    size_t kept = connection->kept_bytes;
    size_t keeps = kept + after - before;
    assert(kept + after >= before);
    watch_level(worker->server, add(&worker->server->buffers_bytes, (uint64_t)after - before));
    if (connection->share == POOL_STRANGERS) {
        (void)add(&worker->server->strangers_bytes, (uint64_t)after - before);
    }
    connection->kept_bytes = keeps;
    if (kept > 0 && keeps > 0 && class_of(kept) == class_of(keeps)) {
        return;
    }
    if (kept > 0) {
        leave_list(&worker->pool, connection, class_of(kept));
    }
    if (keeps > 0) {
        join_list(&worker->pool, connection, class_of(keeps));
    }
}

void pool_set_share(struct worker *worker, struct connection *connection, enum pool_share share)
{
    if (connection->share == share) {
        return;
    }
    size_t kept = connection->kept_bytes;
    pool_count(worker, connection, kept, 0);
    connection->share = (uint8_t)share;
    pool_count(worker, connection, 0, kept);
}

/* ---- pressure ---- */

uint64_t pool_strangers_max(const struct server *server)
{
    uint64_t max = server->options.buffers_bytes_max;
    uint64_t part = max / POOL_STRANGERS_PART;
    return part >= POOL_STRANGERS_MIN ? part : max < POOL_STRANGERS_MIN ? max : POOL_STRANGERS_MIN;
}

static bool strangers_press(const struct server *server)
{
    return load(&server->strangers_bytes) > pool_strangers_max(server);
}

bool pool_is_pressed(const struct server *server)
{
    uint64_t max = server->options.buffers_bytes_max;
    return strangers_press(server)
           || load(&server->buffers_bytes) > max - max / POOL_STRANGERS_PART;
}

/* Nobody is asked any more: whatever this worker has goes. */
static bool is_full(const struct server *server)
{
    return load(&server->buffers_bytes) > server->options.buffers_bytes_max
           || load(&server->strangers_bytes) > 2 * pool_strangers_max(server);
}

/* The greatest class in which the worker has a connection that may be chosen; -1: none. */
static int top_class(const struct worker *worker, bool strangers_only)
{
    const struct pool *pool = &worker->pool;
    uint64_t classes = load(&pool->classes[POOL_STRANGERS]);
    if (!strangers_only) {
        classes |= load(&pool->classes[POOL_FRIENDS]);
    }
    return classes > 0 ? 63 - __builtin_clzll(classes) : -1;
}

static void ask(struct worker *other)
{
    /* Relaxed: the wake-up is what tells; this only keeps it from being told twice. */
    if (!atomic_exchange_explicit(&other->pool.is_asked, true, memory_order_relaxed)) {
        worker_wake(other);
    }
}

bool pool_was_asked(struct worker *worker)
{
    return atomic_exchange_explicit(&worker->pool.is_asked, false, memory_order_relaxed);
}

/* The worker that has a greater one than this class; NULL: none. */
static struct worker *find_greater(const struct server *server, int class, bool strangers_only)
{
    struct worker *found = NULL;
    for (size_t i = 0; i < server->worker_count; i++) {
        int other = top_class(server->workers[i], strangers_only);
        if (other > class) {
            found = server->workers[i];
            class = other;
        }
    }
    return found;
}

struct connection *pool_choose(struct worker *worker)
{
    struct server *server = worker->server;
    if (!pool_is_pressed(server)) {
        return NULL;
    }
    bool strangers_only = strangers_press(server);
    int class = top_class(worker, strangers_only);
    struct worker *other = find_greater(server, class, strangers_only);
    if (other != NULL) {
        ask(other);
    }
    if (class < 0 || (other != NULL && !is_full(server))) {
        return NULL;
    }
    struct connection *stranger = worker->pool.lists[POOL_STRANGERS][class].first;
    return stranger != NULL ? stranger : worker->pool.lists[POOL_FRIENDS][class].first;
}
