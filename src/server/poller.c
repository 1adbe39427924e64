/* SPDX-License-Identifier: MIT */
#include "server/poller.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include "platform/loop.h"

static const uint32_t READABLE = EPOLLIN | EPOLLRDHUP | EPOLLET;
static const uint32_t WRITABLE = EPOLLOUT | EPOLLET;

bool poller_open(struct poller *poller)
{
    poller->fd = epoll_create1(EPOLL_CLOEXEC);
    return poller->fd >= 0;
}

static bool control(struct poller *poller, int operation, int fd, uint32_t events,
                    struct source *source)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(poller->fd, operation, fd, &event) == 0;
}

bool poller_add_wake(struct poller *poller, int fd, struct source *source)
{
    return control(poller, EPOLL_CTL_ADD, fd, EPOLLIN, source);
}

/* Edge-triggered: every time that it fires is an event, whether it is read or not. */
bool poller_add_timer(struct poller *poller, int fd, struct source *source)
{
    return control(poller, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, source);
}

bool poller_add_listener(struct poller *poller, int fd, struct source *source, bool is_shared)
{
    uint32_t events = EPOLLIN | (is_shared ? EPOLLEXCLUSIVE : 0); // wake one worker, not all
    return control(poller, EPOLL_CTL_ADD, fd, events, source);
}

bool poller_add_connection(struct poller *poller, int fd, struct source *source)
{
    return control(poller, EPOLL_CTL_ADD, fd, READABLE, source);
}

static uint32_t epoll_events(unsigned events)
{
    return ((events & LOOP_READ) != 0 ? EPOLLIN : 0U)
           | ((events & LOOP_WRITE) != 0 ? EPOLLOUT : 0U);
}

bool poller_add_store(struct poller *poller, int fd, unsigned events, struct source *source)
{
    return control(poller, EPOLL_CTL_ADD, fd, epoll_events(events), source);
}

bool poller_change_store(struct poller *poller, int fd, unsigned events, struct source *source)
{
    return control(poller, EPOLL_CTL_MOD, fd, epoll_events(events), source);
}

/* A read or a write says what is wrong with a socket that hangs up. */
unsigned poller_store_events(const struct poller *poller, size_t index)
{
    uint32_t events = poller->events[index].events;
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        return LOOP_READ | LOOP_WRITE;
    }
    return ((events & EPOLLIN) != 0 ? LOOP_READ : 0U)
           | ((events & EPOLLOUT) != 0 ? LOOP_WRITE : 0U);
}

void poller_remove(struct poller *poller, int fd)
{
    (void)control(poller, EPOLL_CTL_DEL, fd, 0, NULL);
}

bool poller_await_writable(struct poller *poller, int fd, struct source *source)
{
    return control(poller, EPOLL_CTL_MOD, fd, WRITABLE, source);
}

bool poller_await_readable(struct poller *poller, int fd, struct source *source)
{
    return control(poller, EPOLL_CTL_MOD, fd, READABLE, source);
}

size_t poller_wait(struct poller *poller, int timeout_ms)
{
    int count = epoll_wait(poller->fd, poller->events, POLLER_EVENT_COUNT_MAX, timeout_ms);
    if (count < 0) {
        assert(errno == EINTR); // anything else is a mistake of ours
        return 0;
    }
    return (size_t)count;
}
