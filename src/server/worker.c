/* SPDX-License-Identifier: MIT */
#include "server/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/time_units.h"
#include "server/connection.h"
#include "server/door.h"
#include "server/service.h"
#include "weir/clock.h"

enum {
    RENEW_COUNT = 8,        // connections that are handled at one reading of the clock
    TURN_SAMPLE_COUNT = 16, // of so many turns one is measured
    ACCEPT_COUNT = 64,      // accepted in one turn from one socket
    LINGER_MS = 1000,
    EXEC_TIMEOUT_FACTOR = 6, // a transaction has so many times --header-timeout from MULTI to EXEC
    PAUSE_MS = 100           // without accepting, when the system has no more room
};

/* ---- clocks ---- */

static void renew_wall(struct worker *worker)
{
    struct timespec wall = {0};
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &wall);
    worker->service.wall_s = wall.tv_sec;
    worker->wall_until_ns = worker->now_ns + NS_PER_S - (uint64_t)wall.tv_nsec;
}

/* On the test clock everything that an engine sees is told by it: dates begin in 1970. */
static void renew_service(struct worker *worker)
{
    if (worker->server->options.test_clock) {
        worker->service.now_ns = test_clock_now_ns(&worker->server->test_clock);
        worker->service.wall_s = (int64_t)(worker->service.now_ns / NS_PER_S);
        return;
    }
    worker->service.now_ns =
        worker->server->is_stored ? weir_limiter_now_ns(worker->server->limiter) : worker->now_ns;
    if (worker->now_ns >= worker->wall_until_ns) {
        renew_wall(worker);
    }
}

static void read_clock(struct worker *worker)
{
    worker->now_ns = weir_clock_now_ns();
    worker->renew_countdown = RENEW_COUNT;
    renew_service(worker);
}

void worker_renew_clock(struct worker *worker)
{
    uint64_t before_ns = worker->now_ns;
    read_clock(worker);
    histogram_record(worker->clock_ages, worker->now_ns - before_ns);
}

/* ---- accepting ---- */

static void pause_accepting(struct worker *worker)
{
    struct server *server = worker->server;
    for (size_t i = 0; i < server->listener_count; i++) {
        poller_remove(&worker->poller, listener_fd(&server->listeners[i], worker->index));
    }
    worker->paused_until_ns = worker->now_ns + PAUSE_MS * NS_PER_MS;
}

static bool watch_listeners(struct worker *worker)
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

bool worker_pass_on(struct worker *worker, const struct arrival *arrival)
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

/* At a socket that all workers share, the kernel wakes the same one again and again. So whoever
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

/* Takes in what others have accepted for this worker. */
static void take_handovers(struct worker *worker)
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

static void accept_some(struct worker *worker, struct listener *listener, unsigned count_max)
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

/* ---- the end ---- */

static void begin_draining(struct worker *worker)
{
    enum { LAST_ACCEPT_COUNT = 4096 }; // the backlog
    struct server *server = worker->server;
    worker->is_draining = true;
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        poller_remove(&worker->poller, listener_fd(listener, worker->index));
        if (!listener->is_adopted) { // who has connected already is answered
            accept_some(worker, listener, LAST_ACCEPT_COUNT);
        }
        listener_stop(listener, worker->index);
    }
    worker->paused_until_ns = 0;
    connection_drain_all(worker);
}

/* Leaves, unless somebody has given it a connection that it has not taken in yet: what lies in there was sent
 * before the end, and is answered. */
static bool leave(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->handover_mutex);
    worker->has_left = worker->handover_count == 0;
    (void)pthread_mutex_unlock(&worker->handover_mutex);
    return worker->has_left;
}

static bool is_done(struct worker *worker)
{
    return worker->is_draining
           && (worker->now_ns >= worker->server->drain_until_ns
               || (!connection_any(worker) && leave(worker)));
}

/* ---- the turn ---- */

static void handle_event(struct worker *worker, struct source *source, bool is_hangup)
{
    uint64_t ignored;
    switch (source->kind) {
    case SOURCE_CONNECTION:
        if (worker->renew_countdown-- == 0) {
            worker_renew_clock(worker);
        }
        connection_run(worker, (struct connection *)(void *)source, is_hangup);
        break;
    case SOURCE_LISTENER:
        accept_some(worker, (struct listener *)(void *)source, ACCEPT_COUNT);
        break;
    case SOURCE_WAKE:
        if (read(worker->wake_fd, &ignored, sizeof ignored) < 0) {
            assert(errno == EAGAIN);
        }
        take_handovers(worker);
        worker_follow(worker);
        if (pool_was_asked(worker)) {
            connection_make_room(worker);
        }
        break;
    case SOURCE_TIMER: waiting_run(worker); break;
    }
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How long the next wait may be, in milliseconds: rounded up, so that it is never early. */
static int wait_ms(const struct worker *worker, bool is_again, uint64_t expiry_ns)
{
    uint64_t left_ns = expiry_ns;
    if (worker->paused_until_ns > 0) {
        uint64_t pause_ns = worker->paused_until_ns - min(worker->now_ns, worker->paused_until_ns);
        left_ns = min(left_ns, pause_ns);
    }
    if (worker->is_draining) {
        uint64_t until_ns = worker->server->drain_until_ns;
        left_ns = min(left_ns, until_ns - min(worker->now_ns, until_ns));
    }
    if (is_again) {
        return 0;
    }
    if (left_ns == UINT64_MAX) {
        return -1;
    }
    return (int)min((left_ns + NS_PER_MS - 1) / NS_PER_MS, 60 * 60 * 1000);
}

static void resume_accepting(struct worker *worker)
{
    if (worker->paused_until_ns > 0 && worker->now_ns >= worker->paused_until_ns) {
        worker->paused_until_ns = 0;
        if (!watch_listeners(worker)) {
            pause_accepting(worker); // no memory: later
        }
    }
}

/* One turn; returns how long the next wait may be. */
static int turn(struct worker *worker, int timeout_ms)
{
    size_t count = poller_wait(&worker->poller, timeout_ms);
    read_clock(worker);
    uint64_t started_ns = worker->now_ns;
    for (size_t i = 0; i < count; i++) {
        handle_event(worker, poller_source(&worker->poller, i),
                     poller_is_hangup(&worker->poller, i));
    }
    connection_run_again(worker, started_ns + AGAIN_NS);
    if (!worker->is_draining && server_is_draining(worker->server)) {
        begin_draining(worker);
    }
    resume_accepting(worker);
    uint64_t expiry_ns = connection_expire(worker);
    if (worker->server->options.test_clock) {
        waiting_run(worker); // its timer is never set
    }
    waiting_deliver(worker);
    uint64_t turns = worker->stats.turns;
    counter_add(&worker->stats.turns, 1);
    if (turns % TURN_SAMPLE_COUNT == 0) {
        histogram_record(worker->turns, weir_clock_now_ns() - started_ns);
    }
    return wait_ms(worker, worker->again_first != NULL, expiry_ns);
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    for (int timeout_ms = -1; !is_done(worker);) {
        timeout_ms = turn(worker, timeout_ms);
    }
    connection_close_all(worker);
    uint64_t one = 1;
    if (write(worker->server->ended_fd, &one, sizeof one) < 0) {
        assert(errno == EAGAIN);
    }
    return NULL;
}

/* ---- setting up ---- */

static bool open_scratch(struct worker *worker)
{
    for (size_t i = 0; i < worker->server->listener_count; i++) {
        const struct engine_ops *engine = worker->server->listeners[i].engine;
        void **scratch = &worker->service.scratch[engine->protocol];
        if (*scratch == NULL && engine->scratch_bytes > 0) {
            *scratch = calloc(1, engine->scratch_bytes);
            if (*scratch == NULL) {
                return false;
            }
        }
    }
    return true;
}

static uint64_t exec_timeout_ns(uint64_t header_timeout_ns)
{
    return header_timeout_ns < UINT64_MAX / EXEC_TIMEOUT_FACTOR
               ? header_timeout_ns * EXEC_TIMEOUT_FACTOR
               : UINT64_MAX;
}

bool worker_open(struct worker *worker, struct server *server, size_t index)
{
    const struct options *options = &server->options;
    memset(worker, 0, sizeof *worker);
    worker->server = server;
    worker->index = index;
    worker->wake_source.kind = SOURCE_WAKE;
    worker->wake_fd = worker->spare_fd = worker->poller.fd = worker->agenda.timer_fd = -1;
    worker->timeouts_ns[WAIT_RESP_IDLE] = options->idle_timeout_ns[PROTOCOL_RESP];
    worker->timeouts_ns[WAIT_HTTP_IDLE] = options->idle_timeout_ns[PROTOCOL_HTTP];
    worker->timeouts_ns[WAIT_STRANGER] = options->header_timeout_ns;
    worker->timeouts_ns[WAIT_EXEC] = exec_timeout_ns(options->header_timeout_ns);
    worker->timeouts_ns[WAIT_REQUEST] = options->header_timeout_ns;
    worker->timeouts_ns[WAIT_WRITE] = options->write_timeout_ns;
    worker->timeouts_ns[WAIT_LINGER] = LINGER_MS * NS_PER_MS;
    buffer_init(&worker->output, options->output_bytes_max);

    struct service *service = &worker->service;
    service->ops = options->test_clock ? &SERVICE_OPS_TEST_CLOCK : &SERVICE_OPS;
    service->config = &options->service;
    service->limiter = server->limiter;
    service->counters = &worker->counters;
    service->rules = rule_cache_open(server->limiter);
    editions_follow(worker);

    worker->input = malloc(GATHER_BYTES + READ_BYTES);
    worker->turns = calloc(1, sizeof *worker->turns);
    worker->clock_ages = calloc(1, sizeof *worker->clock_ages);
    worker->handovers = calloc(HANDOVER_COUNT_MAX, sizeof *worker->handovers);
    (void)pthread_mutex_init(&worker->handover_mutex, NULL);
    worker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    worker->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    read_clock(worker);
    return service->rules != NULL && worker->input != NULL && worker->turns != NULL
           && worker->clock_ages != NULL && worker->handovers != NULL && worker->wake_fd >= 0
           && open_scratch(worker) && agenda_open(&worker->agenda, worker->service.now_ns)
           && poller_open(&worker->poller)
           && poller_add_timer(&worker->poller, worker->agenda.timer_fd,
                               &worker->agenda.timer_source)
           && poller_add_wake(&worker->poller, worker->wake_fd, &worker->wake_source)
           && watch_listeners(worker);
}

bool worker_start(struct worker *worker)
{
    int error = pthread_create(&worker->thread, NULL, run, worker);
    if (error != 0) {
        errno = error;
        return false;
    }
    char name[16]; // of the thread, in top and gdb
    (void)snprintf(name, sizeof name, "weir-%zu", worker->index % 1000);
    (void)pthread_setname_np(worker->thread, name);
    return true;
}

void worker_wake(struct worker *worker)
{
    uint64_t one = 1;
    if (write(worker->wake_fd, &one, sizeof one) < 0) {
        assert(errno == EAGAIN); // it is awake already
    }
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void worker_close(struct worker *worker)
{
    for (size_t i = 0; i < PROTOCOL_COUNT; i++) {
        free(worker->service.scratch[i]);
    }
    if (worker->service.rules != NULL) {
        rule_cache_close(worker->service.rules);
    }
    editions_leave(worker);
    agenda_close(&worker->agenda);
    buffer_fini(&worker->output);
    free(worker->input);
    free(worker->turns);
    free(worker->clock_ages);
    for (size_t i = 0; i < worker->handover_count; i++) {
        close_fd(worker->handovers[i].fd); // came when its time was up
    }
    free(worker->handovers);
    (void)pthread_mutex_destroy(&worker->handover_mutex);
    close_fd(worker->wake_fd);
    close_fd(worker->spare_fd);
    close_fd(worker->poller.fd);
}
