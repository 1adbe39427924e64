/* SPDX-License-Identifier: MIT
 *
 * Rows 26 and 27: a shaper that a loop of timerfd and epoll empties, sleeping until each instant.
 * A line of input says for how many seconds each rate runs. The figures:
 *
 *   error_RATE     how far the time between the first release and the last is from what so many
 *                  intervals are, in millionths of it
 *   late_RATE      how often the line had to go on from a later instant, because this process was not
 *                  run for more than WEIR_JITTER_NS: such a round measures the machine
 *   late_p99, bare_p99   how late at 1000/s, microseconds, beside a loop that only counts milliseconds;
 *                  in turn, a quarter of a second each */
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"
#include "weir/weir.h"

#define S UINT64_C(1000000000)

enum { SLICE_ITEMS = 250, SAMPLES_MAX = 20000 };

/* How a server sleeps. */
struct sleeper {
    int timer_fd, epoll_fd;
};

static void open_sleeper(struct sleeper *sleeper)
{
    struct epoll_event event = {.events = EPOLLIN};
    sleeper->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    sleeper->epoll_fd = epoll_create1(0);
    if (sleeper->timer_fd < 0 || sleeper->epoll_fd < 0
        || epoll_ctl(sleeper->epoll_fd, EPOLL_CTL_ADD, sleeper->timer_fd, &event) != 0) {
        perror("timerfd and epoll");
        exit(1);
    }
}

static void close_sleeper(struct sleeper *sleeper)
{
    close(sleeper->timer_fd);
    close(sleeper->epoll_fd);
}

/* Returns the reading at which it woke. */
static uint64_t sleep_until(struct sleeper *sleeper, uint64_t due_ns)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(due_ns / S), .tv_nsec = (long)(due_ns % S)}};
    struct epoll_event event;
    uint64_t expirations;
    timerfd_settime(sleeper->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    while (epoll_wait(sleeper->epoll_fd, &event, 1, -1) != 1) {
    }
    keep((uint64_t)read(sleeper->timer_fd, &expirations, sizeof expirations));
    return monotonic_ns();
}

static struct weir_shaper *open_shaper(uint64_t rate)
{
    char text[64];
    struct weir_limit limit;
    struct weir_shaper *shaper;
    snprintf(text, sizeof text, "queue %llu/s capacity=100 first=now", (unsigned long long)rate);
    if (weir_limit_from_text(&limit, text, NULL) != WEIR_OK
        || weir_shaper_open(&shaper, &limit, NULL, NULL) != WEIR_OK) {
        exit(1);
    }
    return shaper;
}

/* Releases `count` items, the line never empty; notes how late each is if `late_ns` is not NULL. Returns
 * the time between the first and the last. */
static uint64_t run_shaper(struct weir_shaper *shaper, size_t count, uint64_t *late_ns)
{
    struct sleeper sleeper;
    open_sleeper(&sleeper);
    uint64_t first_ns = 0, now_ns = monotonic_ns();
    for (size_t i = 0; i < 50; i++) {
        keep(weir_shaper_submit(shaper, NULL, WEIR_UNIT, now_ns).ticket);
    }
    for (size_t popped = 0; popped < count;) {
        struct weir_released released;
        now_ns = sleep_until(&sleeper, weir_shaper_next_ns(shaper));
        while (popped < count && weir_shaper_pop(shaper, now_ns, &released)) {
            first_ns = popped == 0 ? now_ns : first_ns;
            if (late_ns != NULL) {
                late_ns[popped] = now_ns - released.egress_ns;
            }
            popped++;
            keep(weir_shaper_submit(shaper, NULL, WEIR_UNIT, now_ns).ticket);
        }
    }
    close_sleeper(&sleeper);
    return now_ns - first_ns;
}

static void run_bare(size_t count, uint64_t *late_ns)
{
    struct sleeper sleeper;
    open_sleeper(&sleeper);
    uint64_t due_ns = monotonic_ns();
    for (size_t i = 0; i < count; i++) {
        due_ns += 1000000;
        uint64_t now_ns = sleep_until(&sleeper, due_ns);
        late_ns[i] = now_ns - due_ns;
    }
    close_sleeper(&sleeper);
}

static void print_rate(uint64_t rate, double seconds)
{
    char name[32];
    size_t count = (size_t)(seconds * (double)rate) + 1;
    struct weir_shaper *shaper = open_shaper(rate);
    struct weir_shaper_stats stats;
    double took_ns = (double)run_shaper(shaper, count, NULL);
    double ideal_ns = (double)(count - 1) * 1e9 / (double)rate;
    weir_shaper_read_stats(shaper, &stats);
    weir_shaper_close(shaper);
    double error = took_ns > ideal_ns ? took_ns - ideal_ns : ideal_ns - took_ns;
    snprintf(name, sizeof name, "error_%llu", (unsigned long long)rate);
    print_figure(name, error / ideal_ns * 1e6);
    snprintf(name, sizeof name, "late_%llu", (unsigned long long)rate);
    print_figure(name, (double)stats.late_count);
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;
    return one < two ? -1 : one > two;
}

static double p99_us(uint64_t *late_ns, size_t count)
{
    qsort(late_ns, count, sizeof *late_ns, compare_ns);
    return (double)late_ns[count * 99 / 100] / 1000;
}

static void print_lateness(double seconds)
{
    static uint64_t shaped_ns[SAMPLES_MAX], bare_ns[SAMPLES_MAX];
    size_t slices = (size_t)(seconds * 2);
    slices = slices < 2                           ? 2
             : slices < SAMPLES_MAX / SLICE_ITEMS ? slices
                                                  : SAMPLES_MAX / SLICE_ITEMS;
    for (size_t slice = 0; slice < slices; slice++) {
        struct weir_shaper *shaper = open_shaper(1000);
        run_shaper(shaper, SLICE_ITEMS, shaped_ns + slice * SLICE_ITEMS);
        weir_shaper_close(shaper);
        run_bare(SLICE_ITEMS, bare_ns + slice * SLICE_ITEMS);
    }
    print_figure("late_p99", p99_us(shaped_ns, slices * SLICE_ITEMS));
    print_figure("bare_p99", p99_us(bare_ns, slices * SLICE_ITEMS));
}

int main(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        double seconds = strtod(line, NULL);
        seconds = seconds > 0 ? seconds : 10;
        print_rate(5, seconds);
        print_rate(100, seconds);
        print_rate(1000, seconds);
        print_rate(10000, seconds);
        print_lateness(seconds);
        print_figure("end", 0);
    }
    return 0;
}
