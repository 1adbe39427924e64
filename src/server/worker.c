/* SPDX-License-Identifier: MIT */
#include "server/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/time_units.h"
#include "server/arrivals.h"
#include "server/connection.h"
#include "server/service.h"
#include "weir/clock.h"

enum {
    TURN_SAMPLE_COUNT = 16, // of so many turns one is measured
    ACCEPT_COUNT = 64,      // accepted in one turn from one socket
    LINGER_MS = 1000,
    EXEC_TIMEOUT_FACTOR = 6 // a transaction has so many times --header-timeout from MULTI to EXEC
};

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
            arrivals_accept(worker, listener, LAST_ACCEPT_COUNT);
        }
        listener_stop(listener, worker->index);
    }
    worker->paused_until_ns = 0;
    connection_drain_all(worker);
}

static bool is_done(struct worker *worker)
{
    return worker->is_draining
           && (worker->now_ns >= worker->server->drain_until_ns
               || (!connection_any(worker) && arrivals_leave(worker)));
}

/* ---- the turn ---- */

static void handle_event(struct worker *worker, size_t index)
{
    struct source *source = poller_source(&worker->poller, index);
    uint64_t ignored;
    switch (source->kind) {
    case SOURCE_CONNECTION:
        if (worker->renew_countdown-- == 0) {
            worker_renew_clock(worker);
        }
        connection_run(worker, (struct connection *)(void *)source,
                       poller_is_hangup(&worker->poller, index));
        break;
    case SOURCE_LISTENER:
        arrivals_accept(worker, (struct listener *)(void *)source, ACCEPT_COUNT);
        break;
    case SOURCE_WAKE:
        if (read(worker->wake_fd, &ignored, sizeof ignored) < 0) {
            assert(errno == EAGAIN);
        }
        arrivals_take(worker);
        worker_follow(worker);
        if (pool_was_asked(worker)) {
            connection_make_room(worker);
        }
        break;
    case SOURCE_TIMER: waiting_run(worker); break;
    case SOURCE_STORE: worker_loop_call(source, poller_store_events(&worker->poller, index)); break;
    }
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How long the next wait may be, in milliseconds: rounded up, so that it is never early. */
static int wait_ms(const struct worker *worker, bool is_again, uint64_t expiry_ns)
{
    uint64_t left_ns = min(expiry_ns, asking_next_ns(worker));
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

/* One turn; returns how long the next wait may be. */
static int turn(struct worker *worker, int timeout_ms)
{
    size_t count = poller_wait(&worker->poller, timeout_ms);
    worker_read_clock(worker);
    uint64_t started_ns = worker->now_ns;
    for (size_t i = 0; i < count; i++) {
        handle_event(worker, i);
    }
    connection_run_again(worker, started_ns + AGAIN_NS);
    if (!worker->is_draining && server_is_draining(worker->server)) {
        begin_draining(worker);
    }
    arrivals_resume(worker);
    asking_bring(worker); // before the expiry: it lets idle times begin
    uint64_t expiry_ns = connection_expire(worker);
    if (worker->server->options.test_clock) {
        waiting_run(worker); // its timer is never set
    }
    waiting_deliver(worker);
    asking_send(worker);
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
    for (int timeout_ms = 0; !is_done(worker);) { // a port begins to connect in the first one
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
    worker->read_bytes = READ_BYTES;
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
    worker_read_clock(worker);
    return service->rules != NULL && worker->input != NULL && worker->turns != NULL
           && worker->clock_ages != NULL && worker->handovers != NULL && worker->wake_fd >= 0
           && open_scratch(worker) && agenda_open(&worker->agenda, worker->service.now_ns)
           && poller_open(&worker->poller)
           && poller_add_timer(&worker->poller, worker->agenda.timer_fd,
                               &worker->agenda.timer_source)
           && poller_add_wake(&worker->poller, worker->wake_fd, &worker->wake_source)
           && asking_open(worker) && arrivals_watch(worker);
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
    asking_close(worker);
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
