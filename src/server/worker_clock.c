/* SPDX-License-Identifier: MIT
 *
 * A worker's clocks, and its alarm. What the chapters below a turn need of a worker is here, so that they do not call
 * the turn that calls them. */
#include <assert.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "core/time_units.h"
#include "server/worker.h"
#include "weir/clock.h"

enum { RENEW_COUNT = 8 }; // connections that are handled at one reading of the clock

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

void worker_read_clock(struct worker *worker)
{
    worker->now_ns = weir_clock_now_ns();
    worker->renew_countdown = RENEW_COUNT;
    renew_service(worker);
}

void worker_renew_clock(struct worker *worker)
{
    uint64_t before_ns = worker->now_ns;
    worker_read_clock(worker);
    histogram_record(worker->clock_ages, worker->now_ns - before_ns);
}

void worker_wake(struct worker *worker)
{
    uint64_t one = 1;
    if (write(worker->wake_fd, &one, sizeof one) < 0) {
        assert(errno == EAGAIN); // it is awake already
    }
}
