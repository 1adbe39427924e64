/* SPDX-License-Identifier: MIT */
#include "server/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/pool.h"

/* After this much a worker's output buffer is given back to the allocator. */
enum { OUTPUT_BYTES_KEPT = 1 << 20 };

/* ---- what it holds ---- */

void stream_release_input(struct worker *worker, struct connection *connection)
{
    pool_count(worker, connection, connection->input_capacity, 0);
    free(connection->input);
    connection->input = NULL;
    connection->input_len = connection->input_capacity = 0;
    connection->is_unread = false;
}

void stream_release_output(struct worker *worker, struct connection *connection)
{
    pool_count(worker, connection, connection->output_len, 0);
    free(connection->output);
    connection->output = NULL;
    connection->output_at = connection->output_len = 0;
}

void stream_count_held(struct worker *worker, struct connection *connection, bool is_closed)
{
    const struct engine_ops *engine = connection->engine;
    size_t held_bytes =
        is_closed || engine->held_bytes == NULL ? 0 : engine->held_bytes(connection->session);
    if (held_bytes != connection->held_bytes) {
        pool_count(worker, connection, connection->held_bytes, held_bytes);
        connection->held_bytes = held_bytes;
    }
}

/* ---- sending ---- */

/* Keeps what the socket did not take, behind what it had not taken before. */
static bool keep_output(struct worker *worker, struct connection *connection, size_t sent)
{
    struct buffer *output = &worker->output;
    size_t rest = output->length - sent;
    size_t before = connection->output_len;
    char *copy = realloc(connection->output, before + rest);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy + before, output->at + sent, rest);
    pool_count(worker, connection, before, before + rest);
    connection->output = copy;
    connection->output_len = before + rest;
    return before > 0 // it is awaited already
           || poller_await_writable(&worker->poller, connection->fd, &connection->source);
}

bool stream_send(struct worker *worker, struct connection *connection)
{
    struct buffer *output = &worker->output;
    if (output->length == 0) {
        return true;
    }
    if (connection->output != NULL) { // while it waited, the socket was full
        return keep_output(worker, connection, 0);
    }
    ssize_t sent = send(connection->fd, output->at, output->length, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        return false;
    }
    size_t taken = sent > 0 ? (size_t)sent : 0;
    counter_add(&worker->stats.sent_bytes, taken);
    return taken == output->length || keep_output(worker, connection, taken);
}

void stream_reset_output(struct worker *worker)
{
    if (worker->output.capacity > OUTPUT_BYTES_KEPT || worker->output.failed) {
        buffer_fini(&worker->output);
    }
    worker->output.length = 0;
}

enum stream_result stream_send_waiting(struct worker *worker, struct connection *connection)
{
    size_t rest = connection->output_len - connection->output_at;
    ssize_t sent =
        send(connection->fd, connection->output + connection->output_at, rest, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        return STREAM_FAILED;
    }
    size_t taken = sent > 0 ? (size_t)sent : 0;
    counter_add(&worker->stats.sent_bytes, taken);
    connection->output_at += taken;
    if (taken < rest) {
        return STREAM_NOTHING;
    }
    stream_release_output(worker, connection);
    bool done = poller_await_readable(&worker->poller, connection->fd, &connection->source);
    return done ? STREAM_DONE : STREAM_FAILED;
}

/* ---- receiving ---- */

static bool grow_input(struct worker *worker, struct connection *connection, size_t needed)
{
    if (needed <= connection->input_capacity) {
        return true;
    }
    size_t capacity = connection->input_capacity > 0 ? connection->input_capacity : 64;
    while (capacity < needed) {
        capacity *= 2;
    }
    char *input = realloc(connection->input, capacity);
    if (input == NULL) {
        return false;
    }
    pool_count(worker, connection, connection->input_capacity, capacity);
    connection->input = input;
    connection->input_capacity = capacity;
    return true;
}

enum stream_result stream_receive(struct worker *worker, struct connection *connection,
                                  struct bytes *input, bool *is_more)
{
    size_t before = connection->input_len;
    size_t room = worker->read_bytes;
    char *at = worker->input;
    if (before <= GATHER_BYTES) {
        memcpy(at, connection->input != NULL ? connection->input : at, before);
    } else {
        if (!grow_input(worker, connection, before + GATHER_BYTES)) {
            return STREAM_FAILED;
        }
        at = connection->input;
        room = connection->input_capacity - before;
    }
    ssize_t count = recv(connection->fd, at + before, room, 0);
    if (count <= 0) {
        return count == 0 ? STREAM_END : errno == EAGAIN ? STREAM_NOTHING : STREAM_FAILED;
    }
    counter_add(&worker->stats.received_bytes, (uint64_t)count);
    connection->active_ns = worker->now_ns;
    *is_more = *is_more || (size_t)count == room;
    *input = (struct bytes){at, before + (size_t)count};
    return STREAM_DONE;
}

bool stream_keep_input(struct worker *worker, struct connection *connection, struct bytes rest)
{
    if (rest.length == 0) {
        if (connection->input != NULL) {
            stream_release_input(worker, connection);
        }
        return true;
    }
    bool is_own =
        rest.at >= connection->input && rest.at < connection->input + connection->input_capacity;
    if (!is_own && !grow_input(worker, connection, rest.length)) {
        return false;
    }
    memmove(connection->input, rest.at, rest.length);
    connection->input_len = rest.length;
    return true;
}
