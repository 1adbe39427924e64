/* SPDX-License-Identifier: MIT */
#include "cli/client.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/duration.h"

enum { RECEIVE_BYTES = 4096 };

#define TICK_FIRST_NS (300 * NS_PER_MS) // what is over sooner needs no words

uint64_t monotonic_now_ns(void)
{
    struct timespec now;
    int status = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(status == 0);
    (void)status;
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Keeps the sentence for the caller, and passes the status on. */
static enum client_status problem(struct client *client, enum client_status status,
                                  const char *sentence)
{
    (void)snprintf(client->problem, sizeof client->problem, "%s", sentence);
    return status;
}

/* Waits until the socket is ready for `events`, or the deadline. */
static enum client_status wait_for(struct client *client, short events)
{
    struct pollfd ready = {.fd = client->fd, .events = events};
    for (;;) {
        uint64_t now_ns = monotonic_now_ns();
        if (now_ns >= client->tick_ns) {
            client->tick_ns = now_ns + NS_PER_S;
            client->on_tick(client->tick_context);
        }
        bool ticks_first = client->tick_ns < client->deadline_ns;
        uint64_t until_ns = ticks_first ? client->tick_ns : client->deadline_ns;
        uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
        struct timespec left = {(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
        int count = ppoll(&ready, 1, &left, NULL);
        if (count > 0) {
            return CLIENT_OK;
        }
        if (count == 0 && !ticks_first) {
            return problem(client, CLIENT_TIMEOUT, "no answer in time");
        }
        if (count < 0 && errno != EINTR) {
            return problem(client, CLIENT_BROKEN, strerror(errno));
        }
    }
}

/* A refused connection is one thing; a refused socket another. */
static enum client_status connect_to(struct client *client, const struct socket_address *address)
{
    client->fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->fd < 0) {
        return problem(client, CLIENT_BROKEN, strerror(errno));
    }
    int error = 0;
    if (connect(client->fd, &address->any, address->length) != 0) {
        error = errno;
    }
    if (error == EINPROGRESS) {
        socklen_t length = sizeof error;
        enum client_status status = wait_for(client, POLLOUT);
        if (status != CLIENT_OK) {
            return status;
        }
        if (getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
            error = errno;
        }
    }
    if (error != 0) {
        bool nobody = error == ECONNREFUSED || error == ENOENT || error == EHOSTUNREACH
                      || error == ENETUNREACH;
        return problem(client, nobody ? CLIENT_NO_SERVER : CLIENT_BROKEN, strerror(error));
    }
    if (address->any.sa_family != AF_UNIX) {
        int yes = 1; // only for speed: whether it works does not matter
        (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    return CLIENT_OK;
}

enum client_status client_open(struct client *client, const struct socket_address *resolved,
                               size_t count, uint64_t timeout_ns)
{
    enum client_status status = CLIENT_NO_SERVER;
    *client = (struct client){.fd = -1, .tick_ns = UINT64_MAX};
    client_set_timeout(client, timeout_ns);
    buffer_init(&client->input, CLIENT_INPUT_BYTES_MAX);
    for (size_t i = 0; i < count && status != CLIENT_OK; i++) {
        if (client->fd >= 0) {
            (void)close(client->fd);
        }
        status = connect_to(client, &resolved[i]);
    }
    return status;
}

void client_open_fd(struct client *client, int fd)
{
    *client = (struct client){.fd = fd, .tick_ns = UINT64_MAX};
    buffer_init(&client->input, CLIENT_INPUT_BYTES_MAX);
}

void client_close(struct client *client)
{
    if (client->fd >= 0) {
        (void)close(client->fd);
    }
    buffer_fini(&client->input);
    client->fd = -1;
}

void client_set_timeout(struct client *client, uint64_t timeout_ns)
{
    client->deadline_ns = monotonic_now_ns() + timeout_ns;
}

void client_tick(struct client *client, void (*on_tick)(void *context), void *context)
{
    client->on_tick = on_tick;
    client->tick_context = context;
    client->tick_ns = monotonic_now_ns() + TICK_FIRST_NS;
}

void client_keep_alive(struct client *client)
{
    const int yes = 1;
    const int idle_s = 60;
    const int interval_s = 15;
    const int count = 4;
    /* On a unix socket none of it means anything, and none of it is needed. */
    (void)setsockopt(client->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

enum client_status client_send(struct client *client, struct bytes request)
{
    while (request.length > 0) {
        ssize_t sent = send(client->fd, request.at, request.length, MSG_NOSIGNAL);
        if (sent >= 0) {
            request.at += sent;
            request.length -= (size_t)sent;
            continue;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN) {
            return problem(client, CLIENT_BROKEN, "it closed the connection");
        }
        enum client_status status = wait_for(client, POLLOUT);
        if (status != CLIENT_OK) {
            return status;
        }
    }
    return CLIENT_OK;
}

/* Reads what is there, once. */
static enum client_status receive_some(struct client *client)
{
    char *at = buffer_reserve(&client->input, RECEIVE_BYTES);
    if (at == NULL) {
        return problem(client, CLIENT_BROKEN, "its reply has no end");
    }
    for (;;) {
        ssize_t count = recv(client->fd, at, RECEIVE_BYTES, 0);
        if (count > 0) {
            client->input.length += (size_t)count;
            return CLIENT_OK;
        }
        if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            return problem(client, CLIENT_BROKEN,
                           count == 0 ? "it closed the connection without an answer"
                                      : strerror(errno));
        }
        enum client_status status = wait_for(client, POLLIN);
        if (status != CLIENT_OK) {
            return status;
        }
    }
}

enum client_status client_expect(struct client *client)
{
    return client->input.length > client->used ? CLIENT_OK : wait_for(client, POLLIN);
}

enum client_status client_receive(struct client *client, struct reply *reply)
{
    buffer_consume(&client->input, client->used);
    client->used = 0;
    for (;;) {
        struct bytes input = {client->input.at, client->input.length};
        switch (reply_parse(input, reply, &client->used)) {
        case REPLY_DONE: return CLIENT_OK;
        case REPLY_BAD: return problem(client, CLIENT_BROKEN, "it does not speak RESP");
        case REPLY_MORE: break;
        }
        enum client_status status = receive_some(client);
        if (status != CLIENT_OK) {
            return status;
        }
    }
}
