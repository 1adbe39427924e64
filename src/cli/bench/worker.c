/* SPDX-License-Identifier: MIT
 *
 * The loop of one worker: send what is due, wait for answers or for the next due instant, read.
 *
 * Connections with room for another request stand in a ring. What is due goes to the first of them,
 * as much as it has room for; where none has room it waits, and its latency counts all the same
 * from when it was due. */
#include "cli/bench/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/duration.h"

enum { EVENT_COUNT = 256, INPUT_BYTES = 256 * 1024, ROUND_MAX = 4096 };

/* How long a worker sleeps at most, so that it sees `stop`. */
#define NAP_NS (100 * NS_PER_MS)

struct connection {
    int fd; // -1: broken
    bool in_ring;
    bool dirty;          // has something to flush, and stands in the list of those
    bool waits_to_write; // its socket is full
    uint32_t in_flight;
    uint32_t oldest;  // index of the oldest request in flight
    uint64_t *due_ns; // a ring of `pipeline`: when each was due
    struct buffer output;
    size_t output_sent;
    struct bytes rest; // the beginning of a reply, ours to free
};

/* What the thread has while it runs. */
struct loop {
    struct worker *worker;
    struct plan *plan;
    int epoll_fd;
    struct schedule schedule;
    uint64_t next_index; // of the request that is due next, over all workers
    uint64_t random;
    struct connection **ring; // those with room
    uint64_t ring_head, ring_count;
    struct connection **dirty;
    uint64_t dirty_count;
    uint64_t in_flight;
    char *input;
};

/* Relaxed: statistics with one writer. */
static void count(uint64_t *counter, uint64_t amount)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + amount,
                     __ATOMIC_RELAXED);
}

static void ring_push(struct loop *loop, struct connection *connection)
{
    uint64_t capacity = loop->worker->connection_count;
    if (!connection->in_ring) {
        assert(loop->ring_count < capacity);
        loop->ring[(loop->ring_head + loop->ring_count) % capacity] = connection;
        loop->ring_count++;
        connection->in_ring = true;
    }
}

/* The first connection with room, or NULL; broken ones drop out. */
static struct connection *ring_pop(struct loop *loop)
{
    while (loop->ring_count > 0) {
        struct connection *connection = loop->ring[loop->ring_head];
        loop->ring_head = (loop->ring_head + 1) % loop->worker->connection_count;
        loop->ring_count--;
        connection->in_ring = false;
        if (connection->fd >= 0) {
            return connection;
        }
    }
    return NULL;
}

static void keep_error(struct worker *worker, struct bytes text)
{
    if (worker->error[0] == '\0') {
        (void)snprintf(worker->error, sizeof worker->error, "%.*s", (int)text.length, text.at);
        for (char *c = worker->error; *c != '\0'; c++) { // a stranger's: no codes, always UTF-8
            *c = *c >= ' ' && *c <= '~' ? *c : '?';
        }
    }
}

static void break_connection(struct loop *loop, struct connection *connection, const char *why)
{
    struct tally *tally = &loop->worker->tally;
    keep_error(loop->worker, (struct bytes){why, strlen(why)});
    count(&tally->lost, connection->in_flight);
    count(&tally->broken, 1);
    loop->in_flight -= connection->in_flight;
    connection->in_flight = 0;
    (void)close(connection->fd);
    connection->fd = -1;
}

/* Tells epoll what to wait for. */
static void watch(struct loop *loop, struct connection *connection, bool writable)
{
    struct epoll_event event = {.events = EPOLLIN | (writable ? (uint32_t)EPOLLOUT : 0),
                                .data = {.ptr = connection}};
    if (connection->waits_to_write != writable
        && epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event) == 0) {
        connection->waits_to_write = writable;
    }
}

static void flush(struct loop *loop, struct connection *connection)
{
    struct buffer *output = &connection->output;
    connection->dirty = false;
    while (connection->fd >= 0 && connection->output_sent < output->length) {
        ssize_t sent = send(connection->fd, output->at + connection->output_sent,
                            output->length - connection->output_sent, MSG_NOSIGNAL);
        if (sent >= 0) {
            connection->output_sent += (size_t)sent;
        } else if (errno == EAGAIN) {
            watch(loop, connection, true);
            return;
        } else if (errno != EINTR) {
            break_connection(loop, connection, strerror(errno));
            return;
        }
    }
    connection->output_sent = 0;
    output->length = 0;
    if (connection->fd >= 0) {
        watch(loop, connection, false);
    }
}

static void flush_dirty(struct loop *loop)
{
    for (uint64_t i = 0; i < loop->dirty_count; i++) {
        flush(loop, loop->dirty[i]);
    }
    loop->dirty_count = 0;
}

/* Puts one request into a connection's output. */
static void issue(struct loop *loop, struct connection *connection, uint64_t due_ns,
                  uint64_t now_ns)
{
    struct worker *worker = loop->worker;
    uint64_t slot = (connection->oldest + connection->in_flight) % loop->plan->pipeline;
    connection->due_ns[slot] = due_ns;
    connection->in_flight++;
    loop->in_flight++;
    load_append(loop->plan->load, zipf_next(&loop->plan->keys, &loop->random), &connection->output);
    count(&worker->tally.sent, 1);
    histogram_record(&worker->late, now_ns - due_ns);
    if (!connection->dirty) {
        connection->dirty = true;
        loop->dirty[loop->dirty_count++] = connection;
    }
}

/* When the next request is due; UINT64_MAX if there is none left. */
static uint64_t next_due_ns(const struct loop *loop, uint64_t now_ns)
{
    if (loop->next_index >= loop->plan->request_count_max) {
        return UINT64_MAX;
    }
    uint64_t due_ns =
        loop->plan->rate != NULL ? loop->plan->start_ns + span_ceil_ns(loop->schedule.due) : now_ns;
    return due_ns < loop->plan->end_ns ? due_ns : UINT64_MAX;
}

static void advance(struct loop *loop)
{
    loop->next_index += loop->plan->worker_count;
    if (loop->plan->rate != NULL) {
        schedule_advance(&loop->schedule);
    }
}

/* Sends what is due, as far as there is room. */
static void issue_due(struct loop *loop, uint64_t now_ns)
{
    struct connection *connection = NULL;
    unsigned turns = 0;
    for (uint64_t due_ns; turns < ROUND_MAX && (due_ns = next_due_ns(loop, now_ns)) <= now_ns;
         turns++) {
        if (connection == NULL && (connection = ring_pop(loop)) == NULL) {
            break;
        }
        issue(loop, connection, due_ns, now_ns);
        advance(loop);
        if (connection->in_flight == loop->plan->pipeline) {
            connection = NULL;
        }
    }
    if (connection != NULL) {
        ring_push(loop, connection);
    }
    flush_dirty(loop);
}

/* Counts every whole reply in `input`; returns how many bytes they were, or -1. */
static ssize_t read_replies(struct loop *loop, struct connection *connection, struct bytes input,
                            uint64_t now_ns)
{
    struct worker *worker = loop->worker;
    size_t at = 0;
    for (;;) {
        enum load_verdict verdict;
        struct bytes text;
        size_t used;
        struct bytes left = {input.at + at, input.length - at};
        enum load_result result = load_read(loop->plan->load, left, &verdict, &text, &used);
        if (result == LOAD_MORE) {
            return (ssize_t)at;
        }
        if (result == LOAD_BAD || connection->in_flight == 0) {
            return -1;
        }
        if (verdict == LOAD_FAILED) {
            keep_error(worker, text);
        }
        count(&worker->tally.verdicts[verdict], 1);
        histogram_record(&worker->latency, now_ns - connection->due_ns[connection->oldest]);
        connection->oldest = (connection->oldest + 1) % (uint32_t)loop->plan->pipeline;
        connection->in_flight--;
        loop->in_flight--;
        at += used;
    }
}

/* Keeps the beginning of a reply until the rest of it comes. */
static bool keep_rest(struct connection *connection, struct bytes rest)
{
    char *copy = NULL;
    if (rest.length > 0) {
        copy = malloc(rest.length);
        if (copy == NULL) {
            return false;
        }
        memcpy(copy, rest.at, rest.length);
    }
    free((void *)(uintptr_t)connection->rest.at);
    connection->rest = (struct bytes){copy, rest.length};
    return true;
}

static void receive(struct loop *loop, struct connection *connection)
{
    size_t length = connection->rest.length; // at most one reply: far less than INPUT_BYTES
    if (length > 0) {
        memcpy(loop->input, connection->rest.at, length);
    }
    ssize_t received = recv(connection->fd, loop->input + length, INPUT_BYTES - length, 0);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (received <= 0) {
        break_connection(loop, connection,
                         received < 0 ? strerror(errno) : "the server closed a connection");
        return;
    }
    struct bytes input = {loop->input, length + (size_t)received};
    ssize_t used = read_replies(loop, connection, input, monotonic_now_ns());
    if (used < 0) {
        break_connection(loop, connection, "the server sent something that is no reply");
        return;
    }
    struct bytes rest = {input.at + used, input.length - (size_t)used};
    if (rest.length > LOAD_REPLY_BYTES_MAX || !keep_rest(connection, rest)) {
        break_connection(loop, connection, "a reply without an end");
        return;
    }
    if (connection->in_flight < loop->plan->pipeline) {
        ring_push(loop, connection);
    }
}

/* Sleeps until something happens or `until_ns`. */
static void wait_for_events(struct loop *loop, uint64_t now_ns, uint64_t until_ns)
{
    struct epoll_event events[EVENT_COUNT];
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    left_ns = left_ns < NAP_NS ? left_ns : NAP_NS;
    struct timespec left = {0, (long)left_ns};
    int event_count = epoll_pwait2(loop->epoll_fd, events, EVENT_COUNT, &left, NULL);
    for (int i = 0; i < event_count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (connection->fd >= 0 && (events[i].events & EPOLLOUT) != 0) {
            flush(loop, connection);
        }
        if (connection->fd >= 0 && (events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
            receive(loop, connection);
        }
    }
}

static bool is_stopped(const struct plan *plan)
{
    return __atomic_load_n(&plan->stop, __ATOMIC_RELAXED);
}

/* Until everything is sent, or the time is over. */
static void run_load(struct loop *loop)
{
    while (!is_stopped(loop->plan) && loop->worker->tally.broken < loop->worker->connection_count) {
        uint64_t now_ns = monotonic_now_ns();
        if (now_ns >= loop->plan->end_ns) {
            return;
        }
        issue_due(loop, now_ns);
        uint64_t due_ns = next_due_ns(loop, now_ns);
        if (due_ns == UINT64_MAX) {
            return;
        }
        /* Without room, only an answer helps. */
        wait_for_events(loop, now_ns, loop->ring_count > 0 ? due_ns : loop->plan->end_ns);
    }
}

/* Requests without an answer have waited until now, at least: left out, they would flatter. */
static void count_pending(struct loop *loop, uint64_t now_ns)
{
    struct worker *worker = loop->worker;
    for (uint64_t i = 0; i < worker->connection_count; i++) {
        const struct connection *connection = &worker->connections[i];
        for (uint64_t j = 0; j < connection->in_flight; j++) {
            uint64_t slot = (connection->oldest + j) % loop->plan->pipeline;
            histogram_record(&worker->latency, now_ns - connection->due_ns[slot]);
        }
    }
    count(&worker->tally.pending, loop->in_flight);
}

/* Waits for the answers that are still on their way, after an interrupt too. */
static void run_drain(struct loop *loop)
{
    uint64_t now_ns = monotonic_now_ns();
    uint64_t until_ns = now_ns + loop->plan->drain_ns;
    while (loop->in_flight > 0 && now_ns < until_ns) {
        wait_for_events(loop, now_ns, until_ns);
        now_ns = monotonic_now_ns();
    }
    count_pending(loop, now_ns);
}

/* What was due and never got onto a connection: it too waited until now, at least. */
static void count_unsent(struct loop *loop)
{
    struct plan *plan = loop->plan;
    struct worker *worker = loop->worker;
    uint64_t now_ns = monotonic_now_ns();
    if (plan->rate == NULL) {
        return;
    }
    for (uint64_t due_ns; (due_ns = next_due_ns(loop, now_ns)) <= now_ns; advance(loop)) {
        histogram_record(&worker->latency, now_ns - due_ns);
        count(&worker->tally.unsent, 1);
    }
}

static bool loop_init(struct loop *loop, struct worker *worker)
{
    uint64_t connections = worker->connection_count;
    *loop = (struct loop){
        .worker = worker,
        .plan = worker->plan,
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .next_index = worker->index,
        .random = worker->plan->seed + worker->index,
        .ring = calloc(connections, sizeof *loop->ring),
        .dirty = calloc(connections, sizeof *loop->dirty),
        .input = malloc(INPUT_BYTES),
    };
    if (loop->epoll_fd < 0 || loop->ring == NULL || loop->dirty == NULL || loop->input == NULL) {
        return false;
    }
    if (loop->plan->rate != NULL) {
        schedule_init(&loop->schedule, loop->plan->rate, worker->index, loop->plan->worker_count);
    }
    for (uint64_t i = 0; i < connections; i++) {
        struct connection *connection = &worker->connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = connection}};
        if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0) {
            return false;
        }
        ring_push(loop, connection);
    }
    return true;
}

static void loop_fini(struct loop *loop)
{
    if (loop->epoll_fd >= 0) {
        (void)close(loop->epoll_fd);
    }
    free(loop->ring);
    free(loop->dirty);
    free(loop->input);
}

void *worker_run(void *argument)
{
    struct worker *worker = argument;
    struct loop loop;
    (void)prctl(PR_SET_TIMERSLACK, 1UL); // wake up when it is due, not 50 us later
    worker->failed = !loop_init(&loop, worker);
    if (!worker->failed) {
        run_load(&loop);
        count_unsent(&loop);
        run_drain(&loop);
    }
    loop_fini(&loop);
    (void)eventfd_write(worker->plan->done_fd, 1); // it cannot be full
    return NULL;
}

bool worker_init(struct worker *worker, struct plan *plan, uint64_t index, const int *fds,
                 uint64_t fd_count)
{
    *worker = (struct worker){.plan = plan, .index = index};
    worker->connections = calloc(fd_count, sizeof *worker->connections);
    if (worker->connections == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < fd_count; i++) {
        struct connection *connection = &worker->connections[i];
        connection->fd = fds[i];
        connection->due_ns = calloc(plan->pipeline, sizeof *connection->due_ns);
        buffer_init(&connection->output, (size_t)plan->pipeline * LOAD_REQUEST_BYTES_MAX);
        worker->connection_count++;
        if (connection->due_ns == NULL) {
            return false;
        }
    }
    return true;
}

void worker_fini(struct worker *worker)
{
    for (uint64_t i = 0; i < worker->connection_count; i++) {
        struct connection *connection = &worker->connections[i];
        if (connection->fd >= 0) {
            (void)close(connection->fd);
        }
        free(connection->due_ns);
        free((void *)(uintptr_t)connection->rest.at);
        buffer_fini(&connection->output);
    }
    free(worker->connections);
    worker->connections = NULL;
    worker->connection_count = 0;
}
