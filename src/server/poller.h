/* SPDX-License-Identifier: MIT
 *
 * Waiting for sockets: everything that knows of epoll, so that another way (io_uring) can replace
 * it here.
 *
 * Connections are edge-triggered and registered once: no system call per request is spent on
 * interest, and a socket that was read empty is not looked at again by epoll_wait (a level-
 * triggered one is, every time: 50-100 ns). The price: whoever leaves something unread has to come
 * back by himself; see "again" in worker.h. A socket that is full waits for writability instead of
 * readability, so that a client that does not take its answers cannot send more requests.
 * Listeners are level-triggered: not every waiting connection has to be accepted at once. */
#ifndef WEIR_SERVER_POLLER_H
#define WEIR_SERVER_POLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>

/* What an event is about: the first member of listeners, connections, wake-ups, and sockets of a store. */
enum source_kind { SOURCE_WAKE, SOURCE_TIMER, SOURCE_LISTENER, SOURCE_CONNECTION, SOURCE_STORE };

struct source {
    enum source_kind kind;
};

enum { POLLER_EVENT_COUNT_MAX = 128 }; // taken at once; bounds how long a turn can be

struct poller {
    int fd;
    struct epoll_event events[POLLER_EVENT_COUNT_MAX];
};

/* Single owner, all of these; false with errno if the system refuses. */
bool poller_open(struct poller *poller);

bool poller_add_wake(struct poller *poller, int fd, struct source *source);
bool poller_add_timer(struct poller *poller, int fd, struct source *source); // need not be read
bool poller_add_listener(struct poller *poller, int fd, struct source *source, bool is_shared);
bool poller_add_connection(struct poller *poller, int fd, struct source *source);
void poller_remove(struct poller *poller, int fd);

/* An fd of a store, level-triggered: `events` are those of platform/loop.h. */
bool poller_add_store(struct poller *poller, int fd, unsigned events, struct source *source);
bool poller_change_store(struct poller *poller, int fd, unsigned events, struct source *source);
unsigned poller_store_events(const struct poller *poller, size_t index);

/* From now on this connection waits to be writable, or to be readable again. What is so already is
 * reported by the next poller_wait(). */
bool poller_await_writable(struct poller *poller, int fd, struct source *source);
bool poller_await_readable(struct poller *poller, int fd, struct source *source);

/* Waits for at most `timeout_ms` (-1: for ever) and returns how many events there are. */
size_t poller_wait(struct poller *poller, int timeout_ms);

static inline struct source *poller_source(const struct poller *poller, size_t index)
{
    return poller->events[index].data.ptr;
}

/* The other end has closed, or the connection has failed: a read would say so. */
static inline bool poller_is_hangup(const struct poller *poller, size_t index)
{
    return (poller->events[index].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
}

#endif
