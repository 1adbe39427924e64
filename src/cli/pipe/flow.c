/* SPDX-License-Identifier: MIT
 *
 * The stream itself: reads, waits until the next item is due, writes, and again. One thread, one
 * poll(): whatever it waits for, it sees the time to show how far it is, and a reader that went
 * away.
 *
 * The clock is CLOCK_BOOTTIME as weir_clock_now_ns() reads it, and every wait ends at an absolute
 * instant of it, so that nothing adds up. Input that comes while an item waits to leave stays where it
 * is: it was there before the item left, and that is all that the schedule needs to know. Only where
 * we had to wait for input is the instant of its coming read from the clock.
 *
 * Into a pipe an item has left when its reader has taken it. One that is taken late moves the schedule,
 * and until then the next one does not leave. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cli/pipe/meter.h"
#include "cli/pipe/outlet.h"
#include "cli/pipe/pipe.h"
#include "cli/pipe/share.h"
#include "cli/pipe/source.h"
#include "weir/clock.h"

enum { SOURCE_BYTES = 64 * 1024, SHARED_SOURCE_BYTES = 1024 * 1024 };

/* By bytes: what leaves at once is what the rate lets pass in so long; and what a reader may leave in
 * the pipe. */
#define PIECE_NS  NS_PER_MS
#define UNREAD_NS (10 * NS_PER_MS)

struct flow {
    struct pipe *pipe;
    struct source source;
    struct pacer pacer;
    struct meter meter;
    struct share share;
    struct outlet outlet;
    bool is_untaken; // what was written last, as far as we have seen
    int timer_fd;
    uint64_t arrived_ns; // of the front item, if we had to wait for it
};

static int fail_system(const struct flow *flow, const char *what)
{
    complain(flow->pipe->question.command, "%s: %s", what, strerror(errno));
    return CLI_FAILED;
}

/* Nobody reads what we write: ends as any filter does, unless that was asked to be survived. */
static int fail_reader_gone(const struct flow *flow)
{
    (void)raise(SIGPIPE);
    errno = EPIPE;
    return fail_system(flow, "standard output");
}

/* Waits until `fd` is ready for `events` or the clock reads `until_ns`; -1 and UINT64_MAX: for
 * nothing of that. CLI_DONE, or complains. */
static int wait_for(struct flow *flow, int fd, short events, uint64_t until_ns)
{
    for (;;) {
        uint64_t now_ns = weir_clock_now_ns();
        if (now_ns >= flow->meter.next_ns) {
            meter_show(&flow->meter, now_ns);
        }
        if (now_ns >= until_ns) {
            return CLI_DONE;
        }
        uint64_t wake_ns = until_ns < flow->meter.next_ns ? until_ns : flow->meter.next_ns;
        struct itimerspec timer = {.it_value = {0, 0}}; // disarmed
        if (wake_ns != UINT64_MAX) {
            timer.it_value =
                (struct timespec){(time_t)(wake_ns / NS_PER_S), (long)(wake_ns % NS_PER_S)};
        }
        if (timerfd_settime(flow->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL) != 0) {
            return fail_system(flow, "timer");
        }
        struct pollfd polled[] = {
            {.fd = STDOUT_FILENO, .events = flow->is_untaken ? POLLOUT : 0}, // errors come unasked
            {.fd = flow->timer_fd, .events = POLLIN},
            {.fd = fd, .events = events},
        };
        if (poll(polled, 3, -1) < 0 && errno != EINTR) {
            return fail_system(flow, "poll");
        }
        if ((polled[0].revents & (POLLERR | POLLHUP)) != 0) {
            return fail_reader_gone(flow);
        }
        if ((polled[0].revents & POLLOUT) != 0) {
            flow->is_untaken = false;
            pacer_held(&flow->pacer, weir_clock_now_ns());
        }
        if (polled[2].revents != 0) {
            return CLI_DONE;
        }
    }
}

static bool is_ready(int fd, short events)
{
    struct pollfd polled = {.fd = fd, .events = events};
    return poll(&polled, 1, 0) > 0;
}

/* Reads more, and waits for it if there is none now. */
static int read_more(struct flow *flow)
{
    bool waits = !is_ready(STDIN_FILENO, POLLIN);
    int code = waits ? wait_for(flow, STDIN_FILENO, POLLIN, UINT64_MAX) : CLI_DONE;
    if (code != CLI_DONE) {
        return code;
    }
    if (!source_read(&flow->source)) {
        return fail_system(flow, "standard input");
    }
    if (waits) {
        flow->arrived_ns = weir_clock_now_ns();
    }
    return CLI_DONE;
}

/* Writes the first `count` bytes, and forgets them. */
static int write_front(struct flow *flow, size_t count)
{
    const char *at = source_front(&flow->source);
    for (size_t written = 0; written < count;) {
        int code = wait_for(flow, STDOUT_FILENO, POLLOUT, UINT64_MAX);
        if (code != CLI_DONE) {
            return code;
        }
        ssize_t some = write(STDOUT_FILENO, at + written, count - written);
        if (some < 0 && errno == EPIPE) {
            return fail_reader_gone(flow);
        }
        if (some < 0 && errno != EAGAIN && errno != EINTR) {
            return fail_system(flow, "standard output");
        }
        written += some > 0 ? (size_t)some : 0;
    }
    source_consume(&flow->source, count);
    pacer_held(&flow->pacer, weir_clock_now_ns());
    flow->is_untaken = outlet_is_narrow(&flow->outlet);
    return CLI_DONE;
}

static bool is_shared(const struct flow *flow)
{
    return flow->pipe->question.key != NULL;
}

/* The end of the item at `from`, as far as it may leave; 0 if there is none. */
static size_t item_end(struct flow *flow, size_t from)
{
    size_t end = source_item_end(&flow->source, from);
    if (!is_shared(flow)) {
        return end;
    }
    size_t granted = flow->share.granted_bytes;
    return from >= granted ? 0 : end < granted ? end : granted;
}

/* When the item between these offsets is due, and what it costs. */
static uint64_t due_of(const struct flow *flow, size_t from, size_t end, uint64_t *cost_micro)
{
    const struct pipe *pipe = flow->pipe;
    *cost_micro = pipe->item_cost_micro * (pipe->by_bytes ? end - from : 1);
    return pacer_due_ns(&flow->pacer, *cost_micro, flow->arrived_ns);
}

/* Waits until the item is due, and the last one was taken; which may move what is due. */
static int wait_until_due(struct flow *flow, size_t end, uint64_t *cost_micro)
{
    int code = CLI_DONE;
    while (code == CLI_DONE) {
        uint64_t due_ns = due_of(flow, 0, end, cost_micro);
        code = wait_for(flow, -1, 0, due_ns);
        if (code == CLI_DONE && flow->is_untaken) {
            code = wait_for(flow, STDOUT_FILENO, POLLOUT, UINT64_MAX);
        }
        if (due_of(flow, 0, end, cost_micro) == due_ns) {
            break;
        }
    }
    return code;
}

/* Waits until the front item is due; then it leaves, and with it those behind it that are due too: at
 * most what is due within WEIR_JITTER_NS, for what is later than that moves the schedule. */
static int release(struct flow *flow)
{
    uint64_t cost_micro;
    size_t count = 0; // of bytes that leave
    size_t end = item_end(flow, 0);
    int code = wait_until_due(flow, end, &cost_micro);
    if (code != CLI_DONE) {
        return code;
    }
    uint64_t now_ns = weir_clock_now_ns();
    do {
        pacer_leave(&flow->pacer, cost_micro, flow->arrived_ns, now_ns);
        flow->meter.count += flow->pipe->by_bytes ? end - count : 1;
        count = end;
        end = item_end(flow, count);
    } while (end != 0 && due_of(flow, count, end, &cost_micro) <= now_ns);
    if (is_shared(flow)) {
        flow->share.granted_bytes -= count;
    }
    return write_front(flow, count);
}

/* Sees to it that the front item is granted, and asks for the next ones meanwhile. */
static int take_share(struct flow *flow)
{
    struct share *share = &flow->share;
    bool has_room = source_length(&flow->source) < flow->source.size / 2 && !flow->source.ended;
    int code = CLI_DONE;
    if (has_room && is_ready(STDIN_FILENO, POLLIN) && !source_read(&flow->source)) {
        return fail_system(flow, "standard input");
    }
    code = share_ask(share, &flow->source, weir_clock_now_ns());
    while (code == CLI_DONE && share->granted_bytes == 0) {
        bool is_asked = share->ask_again_ns == UINT64_MAX; // otherwise the line was full
        code = wait_for(flow, is_asked ? share->client.fd : -1, POLLIN, share->ask_again_ns);
        if (code == CLI_DONE && is_asked) {
            flow->arrived_ns = weir_clock_now_ns();
            code = share_receive(share, flow->arrived_ns);
        } else if (code == CLI_DONE) {
            code = share_ask(share, &flow->source, weir_clock_now_ns());
        }
    }
    return code;
}

/* One step; *done at the end of the input. */
static int step(struct flow *flow, bool *done)
{
    struct source *source = &flow->source;
    size_t rest = source_rest(source);
    if (rest > 0) {
        return write_front(flow, rest); // of a line that has paid
    }
    bool has_item = !source->inside && source_item_end(source, 0) != 0;
    if (has_item) {
        int code = is_shared(flow) ? take_share(flow) : CLI_DONE;
        return code == CLI_DONE ? release(flow) : code;
    }
    *done = source->ended;
    return *done ? CLI_DONE : read_more(flow);
}

static int run_all(struct flow *flow)
{
    bool done = false;
    int code = CLI_DONE;
    while (code == CLI_DONE && !done) {
        code = step(flow, &done);
    }
    meter_end(&flow->meter, weir_clock_now_ns());
    return code;
}

/* How many bytes the rate lets pass in so long, as far as they are read at once. */
static size_t bytes_in(const struct weir_limit_config *config, uint64_t span_ns)
{
    uint128 bytes = (uint128)config->count_micro * span_ns / config->period_ns / WEIR_UNIT;
    return bytes < SOURCE_BYTES ? (size_t)bytes : SOURCE_BYTES;
}

/* The most bytes that leave at once: what the rate lets pass in PIECE_NS, and what the line holds. */
static size_t piece_of(const struct weir_limit_config *config)
{
    uint64_t capacity = config->capacity_micro / WEIR_UNIT;
    size_t bytes = bytes_in(config, PIECE_NS);
    size_t piece = bytes < capacity ? bytes : (size_t)capacity;
    return piece > 0 ? piece : 1;
}

static int flow_init(struct flow *flow, struct pipe *pipe)
{
    *flow = (struct flow){.pipe = pipe, .share = {.client = {.fd = -1}}};
    size_t source_size = is_shared(flow) ? SHARED_SOURCE_BYTES : SOURCE_BYTES;
    flow->source.fd = STDIN_FILENO;
    flow->source.by_bytes = pipe->by_bytes;
    flow->source.separator = pipe->null_separated ? '\0' : '\n';
    flow->source.piece_bytes = piece_of(&pipe->question.config);
    flow->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (flow->timer_fd < 0) {
        return fail_system(flow, "timer");
    }
    if (!source_init(&flow->source, source_size)) {
        return fail_system(flow, "buffer");
    }
    if (is_shared(flow)) {
        int code = share_open(&flow->share, pipe, source_size);
        if (code != CLI_DONE) {
            return code;
        }
    }
    bool shows =
        pipe->progress || (!pipe->quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO));
    uint64_t now_ns = weir_clock_now_ns();
    pacer_init(&flow->pacer, &pipe->limit, now_ns);
    if (is_shared(flow)) { // the server has made the first of each grant wait
        flow->pacer.limit.first = WEIR_FIRST_NOW;
    }
    outlet_narrow(&flow->outlet, STDOUT_FILENO,
                  pipe->by_bytes ? bytes_in(&pipe->question.config, UNREAD_NS) : 0);
    meter_start(&flow->meter, shows, pipe->by_bytes, now_ns);
    return CLI_DONE;
}

static void flow_fini(struct flow *flow)
{
    outlet_restore(&flow->outlet);
    share_close(&flow->share);
    source_fini(&flow->source);
    if (flow->timer_fd >= 0) {
        (void)close(flow->timer_fd);
    }
}

int flow_run(struct pipe *pipe)
{
    struct flow flow;
    int code = flow_init(&flow, pipe);
    if (code == CLI_DONE) {
        code = run_all(&flow);
    }
    flow_fini(&flow);
    return code;
}
