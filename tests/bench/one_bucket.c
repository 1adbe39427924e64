/* SPDX-License-Identifier: MIT
 *
 * One bucket, in process (rows 1, 2 and 3): beside the bare loop of clock, load and
 * compare-and-swap, and beside what everybody writes: a mutex around two doubles. */
#include <pthread.h>

#include "bench.h"
#include "weir/weir.h"

enum { LOOP_COUNT = 4 * 1000 * 1000, HOT_COUNT = 2 * 1000 * 1000 };

/* Alone on its lines: false sharing would be measured instead. */
struct alone {
    _Alignas(128) struct weir_shared_bucket shared;
    _Alignas(128) struct weir_bucket raw;
    char fill[112];
};

struct naive {
    _Alignas(128) pthread_mutex_t mutex;
    double level, last_s, rate, capacity;
};

static struct alone bucket;
static struct naive naive;
static struct weir_limit wide, narrow;

static double ns_per(uint64_t start_ns, uint64_t end_ns, uint64_t count)
{
    return (double)(end_ns - start_ns) / (double)count;
}

/* The floor: what any exact 16-byte state costs at least. */
static double run_raw(bool with_clock)
{
    uint64_t start = cpu_ns();
    _Alignas(16) static word16 word;
    for (uint64_t i = 0; i < LOOP_COUNT; i++) {
        uint64_t now = with_clock ? weir_clock_now_ns() : i;
        word16 old = *(volatile word16 *)&word;
        __sync_bool_compare_and_swap(&word, old, old + now);
    }
    return ns_per(start, cpu_ns(), LOOP_COUNT);
}

static double run_take(const struct weir_limit *limit, bool with_clock)
{
    uint64_t fixed = weir_clock_now_ns();
    uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < LOOP_COUNT; i++) {
        uint64_t now = with_clock ? weir_clock_now_ns() : fixed + i;
        struct weir_decision decision =
            weir_shared_bucket_take(&bucket.shared, limit, WEIR_UNIT, now);
        keep(decision.remaining + (uint64_t)decision.verdict + (uint64_t)decision.reset_after_ns);
    }
    return ns_per(start, cpu_ns(), LOOP_COUNT);
}

static bool naive_take(struct naive *self, double cost)
{
    bool allowed = false;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double now_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    pthread_mutex_lock(&self->mutex);
    double level = self->level - (now_s - self->last_s) * self->rate;
    level = level < 0 ? 0 : level;
    if (level + cost <= self->capacity) {
        level += cost;
        allowed = true;
    }
    self->level = level;
    self->last_s = now_s;
    pthread_mutex_unlock(&self->mutex);
    return allowed;
}

struct hot_job {
    const struct weir_limit *limit; // NULL: the mutex
    pthread_barrier_t *start;
    uint64_t start_ns, end_ns;
};

static void *run_hot_thread(void *argument)
{
    struct hot_job *job = argument;
    pthread_barrier_wait(job->start);
    job->start_ns = monotonic_ns();
    for (uint64_t i = 0; i < HOT_COUNT; i++) {
        if (job->limit == NULL) {
            keep(naive_take(&naive, 1));
        } else {
            keep((uint64_t)weir_shared_bucket_take(&bucket.shared, job->limit, WEIR_UNIT,
                                                   weir_clock_now_ns())
                     .verdict);
        }
    }
    job->end_ns = monotonic_ns();
    return NULL;
}

/* Nanoseconds per operation of the process: wall time, from the first start to the last end, over the
 * operations of both threads. */
static double run_hot(const struct weir_limit *limit)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    struct hot_job jobs[2] = {{.limit = limit, .start = &start}, {.limit = limit, .start = &start}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, run_hot_thread, &jobs[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&start);
    uint64_t first = jobs[0].start_ns < jobs[1].start_ns ? jobs[0].start_ns : jobs[1].start_ns;
    uint64_t last = jobs[0].end_ns > jobs[1].end_ns ? jobs[0].end_ns : jobs[1].end_ns;
    return ns_per(first, last, 2 * HOT_COUNT);
}

static void empty_bucket(void)
{
    memset(&bucket.shared, 0, sizeof bucket.shared);
}

static void set_naive(double capacity, double rate)
{
    naive.level = capacity < 1 ? capacity : 0;
    naive.capacity = capacity;
    naive.rate = rate;
}

int main(void)
{
    if (weir_limit_from_text(&wide, "1000000000/s capacity=1000000000", NULL) != WEIR_OK
        || weir_limit_from_text(&narrow, "1/d capacity=1", NULL) != WEIR_OK) {
        return 1;
    }
    pthread_mutex_init(&naive.mutex, NULL);
    while (next_round()) {
        print_figure("raw_clock", run_raw(true));
        empty_bucket();
        print_figure("take_clock", run_take(&wide, true));
        print_figure("raw", run_raw(false));
        empty_bucket();
        print_figure("take_allowed", run_take(&wide, false));
        empty_bucket();
        print_figure("take_denied", run_take(&narrow, false));
        set_naive(1e9, 1e9);
        print_figure("hot_mutex", run_hot(NULL));
        empty_bucket();
        print_figure("hot_allowed", run_hot(&wide));
        set_naive(0.5, 0);
        print_figure("hot_mutex_denied", run_hot(NULL));
        empty_bucket();
        print_figure("hot_denied", run_hot(&narrow));
        print_figure("end", 0);
    }
    return 0;
}
