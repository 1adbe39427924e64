/* SPDX-License-Identifier: MIT */
#include "server/waiting.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "core/bucket_math.h"
#include "core/time_units.h"
#include "limiter/limiter_state.h"
#include "server/connection.h"
#include "server/editions.h"
#include "server/worker.h"
#include "weir/clock.h"

static struct lines *lines_of(const struct worker *worker)
{
    return worker->server->limiter->lines;
}

static void lock(struct worker *worker)
{
    lines_lock(lines_of(worker));
}

static void unlock(struct worker *worker)
{
    lines_unlock(lines_of(worker));
}

static struct waiting *waiting_of(struct waiter *waiter)
{
    return (struct waiting *)(void *)waiter;
}

static struct waiting *waiting_of_timer(struct wheel_entry *timer)
{
    return (struct waiting *)(void *)((char *)timer - offsetof(struct waiting, timer));
}

/* ---- time ---- */

static uint64_t clock_now_ns(const struct worker *worker)
{
    struct server *server = worker->server;
    return server->options.test_clock ? test_clock_now_ns(&server->test_clock)
                                      : weir_limiter_now_ns(server->limiter);
}

/* The kernel's time of an instant of the store's, or now if that is past. A file's clock goes on from boot to
 * boot, the kernel's does not. */
static uint64_t kernel_time_ns(const struct worker *worker, uint64_t due_ns)
{
    if (!worker->server->is_stored) {
        return due_ns; // they are one
    }
    uint64_t now_ns = weir_limiter_now_ns(worker->server->limiter);
    return weir_clock_now_ns() + (due_ns > now_ns ? due_ns - now_ns : 0);
}

/* Sees to it that the worker wakes at `due_ns`. A timer that is earlier already does that. */
static void set_timer(struct worker *worker, uint64_t due_ns)
{
    struct agenda *agenda = &worker->agenda;
    if (due_ns >= agenda->timer_ns) {
        return;
    }
    if (worker->server->options.test_clock) { // which whoever moves it looks after
        if (due_ns <= clock_now_ns(worker)) {
            worker_wake(worker);
        }
        return;
    }
    uint64_t then_ns = kernel_time_ns(worker, due_ns);
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(then_ns / NS_PER_S),
                                           .tv_nsec = (long)(then_ns % NS_PER_S)}};
    if (timerfd_settime(agenda->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0) {
        agenda->timer_ns = due_ns;
    } else {
        assert(false); // nothing about it can be wrong
    }
}

static void schedule(struct waiter *waiter, uint64_t due_ns)
{
    struct waiting *waiting = waiting_of(waiter);
    struct wheel *wheel = &waiting->worker->agenda.wheel;
    if (wheel_holds(&waiting->timer)) {
        wheel_remove(wheel, &waiting->timer);
    }
    wheel_add(wheel, &waiting->timer, due_ns);
    set_timer(waiting->worker, due_ns);
}

/* Calls all of a worker's waiters whose time has come. Under the lock; any thread. */
static void call_due(struct worker *worker, uint64_t now_ns)
{
    struct wheel_entry *timer;
    while ((timer = wheel_take_due(&worker->agenda.wheel, now_ns)) != NULL) {
        lines_call(lines_of(worker), &waiting_of_timer(timer)->waiter, now_ns);
    }
}

void waiting_run(struct worker *worker)
{
    lock(worker);
    worker->agenda.timer_ns = UINT64_MAX;
    call_due(worker, clock_now_ns(worker));
    set_timer(worker, wheel_next_ns(&worker->agenda.wheel));
    unlock(worker);
}

/* ---- the test clock ---- */

static void call_all(struct server *server, uint64_t now_ns)
{
    for (size_t i = 0; i < server->worker_count; i++) {
        call_due(server->workers[i], now_ns);
    }
}

static uint64_t next_of_all(struct server *server)
{
    uint64_t next_ns = UINT64_MAX;
    for (size_t i = 0; i < server->worker_count; i++) {
        uint64_t its_ns = wheel_next_ns(&server->workers[i]->agenda.wheel);
        next_ns = its_ns < next_ns ? its_ns : next_ns;
    }
    return next_ns;
}

bool waiting_advance_clock(struct worker *worker, uint64_t by_ns)
{
    struct server *server = worker->server;
    struct test_clock *clock = &server->test_clock;
    lock(worker);
    uint64_t before_ns = test_clock_now_ns(clock);
    bool is_possible = by_ns <= WEIR_NOW_NS_MAX - before_ns;
    uint64_t then_ns = is_possible ? before_ns + by_ns : before_ns;
    for (uint64_t next_ns; (next_ns = next_of_all(server)) <= then_ns;) {
        (void)test_clock_set(clock, next_ns); // false: it is there already
        call_all(server, next_ns);
    }
    (void)test_clock_set(clock, then_ns);
    unlock(worker);
    return is_possible;
}

bool waiting_set_clock(struct worker *worker, uint64_t then_ns)
{
    struct server *server = worker->server;
    lock(worker);
    bool is_moved = test_clock_set(&server->test_clock, then_ns);
    if (is_moved) {
        call_all(server, then_ns);
    }
    unlock(worker);
    return is_moved;
}

/* ---- answers ---- */

static void answer(struct waiter *waiter, const struct weir_decision *decisions)
{
    struct waiting *waiting = waiting_of(waiter);
    struct worker *worker = waiting->worker;
    struct agenda *agenda = &worker->agenda;
    if (wheel_holds(&waiting->timer)) {
        wheel_remove(&agenda->wheel, &waiting->timer);
    }
    memcpy(waiting->decisions, decisions, waiting->count * sizeof *decisions);
    waiting->next_answered = NULL;
    *(agenda->answered_last != NULL ? &agenda->answered_last->next_answered
                                    : &agenda->answered_first) = waiting;
    agenda->answered_last = waiting;
    atomic_store_explicit(&agenda->has_answered, true, memory_order_relaxed);
    if (!pthread_equal(pthread_self(), worker->thread)) {
        worker_wake(worker);
    }
}

static struct waiting *take_answered(struct worker *worker)
{
    struct agenda *agenda = &worker->agenda;
    lock(worker);
    struct waiting *first = agenda->answered_first;
    agenda->answered_first = agenda->answered_last = NULL;
    atomic_store_explicit(&agenda->has_answered, false, memory_order_relaxed);
    unlock(worker);
    return first;
}

static void waiting_close(struct waiting *waiting)
{
    editions_drop(waiting->worker, waiting->edition);
    free(waiting);
}

/* Whether all limits let it in that may refuse. */
static bool was_let_in(const struct waiting *waiting)
{
    bool was_let_in = true;
    for (uint32_t i = 0; i < waiting->count; i++) {
        bool is_shadow = (waiting->shadows >> i & 1) != 0;
        was_let_in &= is_shadow || waiting->decisions[i].verdict == WEIR_ALLOWED;
    }
    return was_let_in;
}

static void bring(struct worker *worker, struct waiting *waiting)
{
    struct connection *connection = waiting->connection;
    if (connection != NULL) { // it has not ended meanwhile
        if (was_let_in(waiting)) {
            histogram_record(worker->agenda.waits, worker->service.now_ns - waiting->joined_ns);
        }
        connection->waiting = NULL;
        connection_resume(worker, connection, waiting->edition, waiting->decisions);
    }
    waiting_close(waiting);
}

void waiting_deliver(struct worker *worker)
{
    /* Relaxed: whoever sets it elsewhere wakes this thread afterwards. */
    while (atomic_load_explicit(&worker->agenda.has_answered, memory_order_relaxed)) {
        struct waiting *waiting = take_answered(worker);
        worker_renew_clock(worker);
        while (waiting != NULL) {
            struct waiting *next = waiting->next_answered;
            worker->service.failure = NULL;
            bring(worker, waiting);
            waiting = next;
        }
    }
}

/* ---- a connection's wait ---- */

static const struct waiter_ops OPS = {.schedule = schedule, .answer = answer};

static const char STOPPING[] = "the server is stopping";

bool waiting_begin(struct worker *worker, struct connection *connection,
                   const struct weir_request *requests, size_t count, uint64_t wait_ns,
                   struct weir_decision *decisions)
{
    struct waiting *waiting =
        worker->is_draining ? NULL : malloc(sizeof *waiting + count * sizeof *decisions);
    if (waiting == NULL) {
        lines_answer_failed(requests, count, decisions);
        worker->service.failure = worker->is_draining ? STOPPING : "there is no memory to wait in";
        return false;
    }
    assert(connection->waiting == NULL);
    worker->service.failure = NULL;
    *waiting = (struct waiting){.waiter.ops = &OPS,
                                .worker = worker,
                                .connection = connection,
                                .edition = editions_hold(worker),
                                .joined_ns = worker->service.now_ns,
                                .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        waiting->shadows |= (uint32_t)requests[i].shadow << i;
    }
    lines_answer_failed(requests, count, waiting->decisions);
    if (!lines_join(lines_of(worker), &waiting->waiter, requests, count, wait_ns,
                    worker->service.now_ns, decisions)) {
        waiting_close(waiting);
        return false;
    }
    connection->waiting = waiting;
    return true;
}

/* Takes the connection out of its line. False if it has its answer already. */
static bool withdraw(struct worker *worker, struct waiting *waiting)
{
    bool stood = lines_leave(lines_of(worker), &waiting->waiter, clock_now_ns(worker));
    if (stood) {
        lock(worker);
        if (wheel_holds(&waiting->timer)) {
            wheel_remove(&worker->agenda.wheel, &waiting->timer);
        }
        unlock(worker);
    }
    return stood;
}

void waiting_end(struct worker *worker, struct connection *connection)
{
    struct waiting *waiting = connection->waiting;
    connection->waiting = NULL;
    waiting->connection = NULL;
    if (withdraw(worker, waiting)) {
        waiting_close(waiting);
    } // otherwise it is on the list of the answered, and freed there
}

void waiting_fail(struct worker *worker, struct connection *connection)
{
    struct waiting *waiting = connection->waiting;
    if (withdraw(worker, waiting)) {
        worker->service.failure = STOPPING;
        bring(worker, waiting);
    }
}

/* ---- setting up ---- */

bool agenda_open(struct agenda *agenda, uint64_t now_ns)
{
    agenda->timer_source.kind = SOURCE_TIMER;
    agenda->timer_ns = UINT64_MAX;
    agenda->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    agenda->waits = calloc(1, sizeof *agenda->waits);
    wheel_init(&agenda->wheel, now_ns);
    return agenda->timer_fd >= 0 && agenda->waits != NULL;
}

void agenda_close(struct agenda *agenda)
{
    while (agenda->answered_first != NULL) { // answered when this worker had ended
        struct waiting *waiting = agenda->answered_first;
        agenda->answered_first = waiting->next_answered;
        waiting_close(waiting);
    }
    if (agenda->timer_fd >= 0) {
        (void)close(agenda->timer_fd);
    }
    free(agenda->waits);
}
