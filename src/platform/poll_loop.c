/* SPDX-License-Identifier: MIT */
#include "platform/poll_loop.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "weir/clock.h"

enum { BLIND_NS = 1000000 };

static struct poll_loop *of(struct loop *loop)
{
    return (struct poll_loop *)loop;
}

/* ---- fds ---- */

static bool is_watched(const struct poll_loop *poll_loop, const struct loop_watch *watch)
{
    return poll_loop->watches[watch->slot] == watch;
}

/* POLL_LOOP_FDS_MAX if there is none. */
static size_t find_free_slot(const struct poll_loop *poll_loop)
{
    size_t slot = 0;
    while (slot < poll_loop->slot_count && poll_loop->watches[slot] != NULL) {
        slot++;
    }
    return slot;
}

static bool watch(struct loop *loop, struct loop_watch *watch, int fd, unsigned events)
{
    struct poll_loop *poll_loop = of(loop);
    assert(fd >= 0 && events != 0);
    if (!is_watched(poll_loop, watch)) {
        size_t slot = find_free_slot(poll_loop);
        if (slot == POLL_LOOP_FDS_MAX) {
            return false;
        }
        poll_loop->slot_count += slot == poll_loop->slot_count;
        poll_loop->watches[slot] = watch;
        poll_loop->polled[slot] = (struct pollfd){.fd = fd};
        watch->slot = slot;
        watch->fd = fd;
    }
    assert(watch->fd == fd);
    watch->events = events;
    poll_loop->polled[watch->slot].events = (short)(((events & LOOP_READ) != 0 ? POLLIN : 0)
                                                    | ((events & LOOP_WRITE) != 0 ? POLLOUT : 0));
    return true;
}

static void unwatch(struct loop *loop, struct loop_watch *watch)
{
    struct poll_loop *poll_loop = of(loop);
    if (!is_watched(poll_loop, watch)) {
        return;
    }
    poll_loop->watches[watch->slot] = NULL;
    poll_loop->polled[watch->slot] = (struct pollfd){.fd = -1};
    while (poll_loop->slot_count > 0 && poll_loop->watches[poll_loop->slot_count - 1] == NULL) {
        poll_loop->slot_count--;
    }
}

/* Which of the events that it waits for are so. Whatever is wrong with an fd, a read or a write of it says so. */
static unsigned events_of(const struct loop_watch *watch, short happened)
{
    unsigned events =
        ((happened & POLLIN) != 0 ? LOOP_READ : 0u) | ((happened & POLLOUT) != 0 ? LOOP_WRITE : 0u);
    bool is_broken = (happened & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    return is_broken ? watch->events : events & watch->events;
}

/* A callback may unwatch any of them, also its own, and watch others: a slot that changes hands has no events. */
static void call_ready(struct poll_loop *poll_loop)
{
    for (size_t slot = 0; slot < poll_loop->slot_count; slot++) {
        struct loop_watch *watch = poll_loop->watches[slot];
        unsigned events = watch != NULL ? events_of(watch, poll_loop->polled[slot].revents) : 0;
        if (events != 0) {
            watch->ready(watch->owner, events);
        }
    }
}

/* ---- timers ---- */

static void set_timer(struct loop *loop, struct loop_timer *timer, uint64_t at_ns)
{
    loop_timers_set(&of(loop)->timers, timer, at_ns);
}

static void clear_timer(struct loop *loop, struct loop_timer *timer)
{
    (void)loop;
    loop_timers_clear(timer);
}

static uint64_t now_ns(const struct loop *loop)
{
    (void)loop;
    return weir_clock_now_ns();
}

/* ---- being woken ---- */

static void hear_wake(void *owner, unsigned events)
{
    struct poll_loop *poll_loop = owner;
    (void)events;
    uint64_t count;
    (void)!read(poll_loop->wake.fd, &count, sizeof count); // how often does not matter
}

/* By its number: write() is a point of cancellation, and those who wake us are callers of the library. It fails only
 * if the count is full: then the loop is about to wake up. */
void poll_loop_wake(struct poll_loop *loop)
{
    int before = errno;
    uint64_t one = 1;
    (void)syscall(SYS_write, loop->wake.fd, &one, sizeof one);
    errno = before;
}

/* ---- passes ---- */

/* poll() refuses more fds than RLIMIT_NOFILE allows, open or not: this program has lowered it since, to 0 maybe, as
 * sandboxes do. Then nothing is seen on them, timers go on, and a wake is noticed after a millisecond. */
static void sleep_blind(uint64_t ns)
{
    struct timespec a_while = {0, ns < BLIND_NS ? (long)ns : BLIND_NS};
    (void)nanosleep(&a_while, NULL);
}

void poll_loop_pass(struct poll_loop *loop, uint64_t timeout_ns)
{
    uint64_t next_ns = loop_timers_next_ns(&loop->timers);
    uint64_t before_ns = next_ns != UINT64_MAX ? weir_clock_now_ns() : 0;
    uint64_t left_ns = next_ns > before_ns ? next_ns - before_ns : 0;
    uint64_t sleep_ns = left_ns < timeout_ns ? left_ns : timeout_ns;
    struct timespec timeout = {(time_t)(sleep_ns / 1000000000), (long)(sleep_ns % 1000000000)};
    int count = ppoll(loop->polled, (nfds_t)loop->slot_count,
                      sleep_ns != UINT64_MAX ? &timeout : NULL, NULL);
    assert(count >= 0 || errno == EINTR || errno == ENOMEM
           || errno == EINVAL); // the next pass knows more
    if (count > 0) {
        call_ready(loop);
    } else if (count < 0 && errno == EINVAL) {
        sleep_blind(sleep_ns);
    }
    if (loop->timers.first != NULL) {
        loop_timers_run(&loop->timers, weir_clock_now_ns());
    }
}

bool poll_loop_open(struct poll_loop *loop)
{
    static const struct loop_ops ops = {watch, unwatch, set_timer, clear_timer, now_ns};
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    *loop = (struct poll_loop){.loop = {&ops}, .wake = {.ready = hear_wake, .owner = loop}};
    return watch(&loop->loop, &loop->wake, fd, LOOP_READ);
}

void poll_loop_close(struct poll_loop *loop)
{
    int fd = loop->wake.fd;
    unwatch(&loop->loop, &loop->wake);
    assert(loop->slot_count == 0 && loop->timers.first == NULL);
    (void)close(fd);
}
