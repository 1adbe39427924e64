/* SPDX-License-Identifier: MIT */
#include "server/arrivals.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/time_units.h"
#include "server/connection.h"
#include "server/door.h"

enum { PAUSE_MS = 100 }; // without accepting, when the system has no more room

/* ---- accepting ---- */

static void pause_accepting(struct worker *worker)
{
    struct server *server = worker->server;
    for (size_t i = 0; i < server->listener_count; i++) {
        poller_remove(&worker->poller, listener_fd(&server->listeners[i], worker->index));
    }
    worker->paused_until_ns = worker->now_ns + PAUSE_MS * NS_PER_MS;
}

bool arrivals_watch(struct worker *worker)
{
    struct server *server = worker->server;
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        if (!poller_add_listener(&worker->poller, listener_fd(listener, worker->index),
                                 &listener->source, listener->is_shared)) {
            return false;
        }
    }
    return true;
}

/* There is no fd left: take the next connection with the one that is kept for this, and turn it
 * away, instead of letting it hang and epoll spin. */
static bool shed_one(struct worker *worker, struct listener *listener)
{
    if (worker->spare_fd < 0) {
        return false;
    }
    (void)close(worker->spare_fd);
    int fd =
        accept4(listener_fd(listener, worker->index), NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        door_reject(worker, listener->engine, fd, REJECT_FILES);
    }
    worker->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

/* What to do after accept() failed. True to go on accepting. */
static bool handle_accept_error(struct worker *worker, struct listener *listener, int error)
{
    if (error == EAGAIN || error == EINVAL) { // nobody there; EINVAL: no longer listening
        return false;
    }
    counter_add(&worker->stats.accept_errors, 1);
    if ((error == EMFILE || error == ENFILE) && shed_one(worker, listener)) {
        return true;
    }
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        uint64_t skipped = 0;
        if (log_gate_pass(&worker->server->accept_gate, worker->now_ns, &skipped)) {
            LOG(&worker->server->log, LOG_ERROR, "accept_failed", log_text("why", strerror(error)),
                log_number("pause_ms", PAUSE_MS), log_number("skipped", skipped));
        }
        pause_accepting(worker);
        return false;
    }
    return true; // that connection failed before it was accepted; the next may be well
}

/* Gives an arrival to another worker. False if as many as `count_max` wait for that one, or it has left. */
static bool hand_over(struct worker *to, const struct arrival *arrival, size_t count_max)
{
    (void)pthread_mutex_lock(&to->handover_mutex);
    bool has_room = !to->has_left && to->handover_count < count_max;
    if (has_room) {
        to->handovers[to->handover_count++] = *arrival;
    }
    (void)pthread_mutex_unlock(&to->handover_mutex);
    if (has_room) {
        worker_wake(to);
    }
    return has_room;
}

/* ---- strangers of other workers ---- */

/* The worker so many steps round the ring. */
static struct worker *worker_behind(const struct worker *worker, size_t steps)
{
    const struct server *server = worker->server;
    return server->workers[(worker->index + steps) % server->worker_count];
}

static bool has_strangers(const struct worker *worker)
{
    /* Relaxed: a hint. A worker that has none left passes the arrival on. */
    return __atomic_load_n(&worker->stranger_count, __ATOMIC_RELAXED) > 0;
}

bool arrivals_pass_on(struct worker *worker, const struct arrival *arrival)
{
    for (size_t steps = 1; steps <= arrival->untried_count; steps++) {
        struct worker *other = worker_behind(worker, steps);
        struct arrival passed = *arrival;
        passed.untried_count -= steps;
        if (has_strangers(other) && hand_over(other, &passed, PASSED_COUNT_MAX)) {
            return true;
        }
    }
    return false;
}

/* True while strangers have to end, of whatever worker, for connections that come. */
static bool strangers_give_way(const struct worker *worker)
{
    bool any = false;
    if (door_is_crowded(worker->server)) {
        for (size_t steps = 0; steps < worker->server->worker_count; steps++) {
            any = any || has_strangers(worker_behind(worker, steps));
        }
    }
    return any;
}

/* True if a worker has half of its room for what is passed on. The other half is for what others pass on until this
 * one has accepted. */
static bool has_room(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->handover_mutex);
    bool has = !worker->has_left && worker->handover_count < PASSED_COUNT_MAX / 2;
    (void)pthread_mutex_unlock(&worker->handover_mutex);
    return has;
}

/* True while a connection that this worker accepts would have to be passed on, and no worker that has strangers has
 * room for it. Such a connection stays in the kernel's queue until one has: at most a turn of that worker. */
static bool must_wait(struct worker *worker)
{
    if (has_strangers(worker) || worker->is_draining || !strangers_give_way(worker)) {
        return false;
    }
    for (size_t steps = 1; steps < worker->server->worker_count; steps++) {
        struct worker *other = worker_behind(worker, steps);
        if (has_strangers(other) && has_room(other)) {
            return false;
        }
    }
    return true;
}

/* ---- arrivals ---- */

/* At a socket that all workers share, the kernel wakes the same one again and again. So the worker that
 * accepts there deals the connections out in turn. While strangers give way each comes for one that ends, which
 * must be of this worker if it has any. */
static void place(struct worker *worker, const struct arrival *arrival)
{
    struct server *server = worker->server;
    if (arrival->listener->is_shared && !server_is_draining(server)
        && !strangers_give_way(worker)) {
        /* Relaxed: whose turn it is, see state.h. */
        uint64_t turn = atomic_fetch_add_explicit(&server->next_worker, 1, memory_order_relaxed);
        struct worker *other = server->workers[turn % server->worker_count];
        if (other != worker && hand_over(other, arrival, HANDOVER_COUNT_MAX)) {
            return;
        }
    }
    door_admit(worker, arrival);
}

void arrivals_take(struct worker *worker)
{
    for (;;) {
        (void)pthread_mutex_lock(&worker->handover_mutex);
        bool any = worker->handover_count > 0;
        struct arrival one = {0};
        if (any) {
            one = worker->handovers[--worker->handover_count];
        }
        (void)pthread_mutex_unlock(&worker->handover_mutex);
        if (!any) {
            return;
        }
        door_admit(worker, &one);
        if (worker->is_draining) {
            connection_drain_all(worker);
        }
    }
}

void arrivals_accept(struct worker *worker, struct listener *listener, unsigned count_max)
{
    for (unsigned i = 0; i < count_max && !must_wait(worker); i++) {
        struct arrival arrival = {.listener = listener,
                                  .untried_count = worker->server->worker_count - 1,
                                  .from = {.length = sizeof arrival.from.storage}};
        arrival.fd = accept4(listener_fd(listener, worker->index), &arrival.from.any,
                             &arrival.from.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (arrival.fd >= 0) {
            place(worker, &arrival);
        } else if (!handle_accept_error(worker, listener, errno)) {
            return;
        }
    }
}

void arrivals_resume(struct worker *worker)
{
    if (worker->paused_until_ns > 0 && worker->now_ns >= worker->paused_until_ns) {
        worker->paused_until_ns = 0;
        if (!arrivals_watch(worker)) {
            pause_accepting(worker); // no memory: later
        }
    }
}

/* ---- the end ---- */

bool arrivals_leave(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->handover_mutex);
    worker->has_left = worker->handover_count == 0;
    (void)pthread_mutex_unlock(&worker->handover_mutex);
    return worker->has_left;
}
