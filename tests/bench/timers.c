/* SPDX-License-Identifier: MIT
 *
 * Row 30: to fire what is due next and to schedule it again, with 100,000 queued: the library's shaper,
 * and the server's wheel, beside a 4-ary heap. Twice for wheel and heap: where everybody waits ten
 * seconds, as in a queue ("queue_"), and where everybody waits from one second to ten, by chance
 * ("mixed_").
 *
 * Whoever waits may leave, so an entry has to be found in what it lies in. The wheel's know their
 * neighbours. The heap's are told their place whenever they move; it is otherwise the plainest there is: pairs
 * of an instant and an index side by side, firing and scheduling in one sift from the root. Beside it
 * ("plain_"), the same without the places, which nothing can leave early. */
#include "bench.h"
#include "server/wheel.h"
#include "weir/weir.h"

enum { QUEUED_COUNT = 100 * 1000, STEP_COUNT = 1000 * 1000 };

#define S UINT64_C(1000000000)

static uint64_t random_state = 88172645463325252;

static uint64_t wait_ns(bool mixed)
{
    return mixed ? S + random_below(&random_state, 9 * S) : 10 * S;
}

/* When each is due for the first time: evenly, or by chance. */
static uint64_t first_due_ns(bool mixed, size_t index)
{
    return mixed ? S + wait_ns(true) : S + index * (10 * S / QUEUED_COUNT);
}

static double ns_per_step(uint64_t start_ns)
{
    return (double)(cpu_ns() - start_ns) / STEP_COUNT;
}

/* As in a waiter: other fields beside it. */
struct waiter {
    struct wheel_entry timer;
    uint64_t place; // in the heap
    char rest[96];
};

static struct waiter waiters[QUEUED_COUNT];

static double run_wheel(bool mixed)
{
    static struct wheel wheel;
    wheel_init(&wheel, S);
    memset(waiters, 0, sizeof waiters);
    for (size_t i = 0; i < QUEUED_COUNT; i++) {
        wheel_add(&wheel, &waiters[i].timer, first_due_ns(mixed, i));
    }
    uint64_t start_ns = cpu_ns();
    for (size_t i = 0; i < STEP_COUNT; i++) {
        struct wheel_entry *entry = wheel_take_due(&wheel, UINT64_MAX - 1);
        wheel_add(&wheel, entry, entry->due_ns + wait_ns(mixed));
    }
    return ns_per_step(start_ns);
}

struct pair {
    uint64_t due_ns;
    uint64_t index;
};

static struct pair heap[QUEUED_COUNT];

static size_t least_child(size_t first)
{
    size_t end = first + 4 < QUEUED_COUNT ? first + 4 : QUEUED_COUNT;
    size_t least = first;
    for (size_t child = first + 1; child < end; child++) {
        least = heap[child].due_ns < heap[least].due_ns ? child : least;
    }
    return least;
}

static inline __attribute__((always_inline)) void put(size_t at, struct pair pair, bool tells)
{
    heap[at] = pair;
    if (tells) {
        waiters[pair.index].place = at;
    }
}

static inline __attribute__((always_inline)) void sift_down(size_t at, struct pair pair, bool tells)
{
    size_t first;
    while ((first = 4 * at + 1) < QUEUED_COUNT) {
        size_t least = least_child(first);
        if (pair.due_ns <= heap[least].due_ns) {
            break;
        }
        put(at, heap[least], tells);
        at = least;
    }
    put(at, pair, tells);
}

static inline __attribute__((always_inline)) double run_heap(bool mixed, bool tells)
{
    for (size_t i = 0; i < QUEUED_COUNT; i++) {
        heap[i] = (struct pair){first_due_ns(mixed, i), i};
    }
    for (size_t at = QUEUED_COUNT; at-- > 0;) {
        sift_down(at, heap[at], tells);
    }
    uint64_t start_ns = cpu_ns();
    for (size_t i = 0; i < STEP_COUNT; i++) {
        struct pair pair = heap[0];
        pair.due_ns += wait_ns(mixed);
        waiters[pair.index].timer.due_ns = pair.due_ns;
        sift_down(0, pair, tells);
    }
    return ns_per_step(start_ns);
}

/* A line has an order of its own: whoever is let in, stands last. */
static double run_shaper(void)
{
    struct weir_limit limit;
    struct weir_shaper *shaper;
    if (weir_limit_from_text(&limit, "queue 10000/s capacity=100000", NULL) != WEIR_OK
        || weir_shaper_open(&shaper, &limit, NULL, NULL) != WEIR_OK) {
        exit(1);
    }
    for (size_t i = 0; i < QUEUED_COUNT; i++) {
        keep(weir_shaper_submit(shaper, &waiters[i], WEIR_UNIT, S).ticket);
    }
    uint64_t start_ns = cpu_ns();
    for (size_t i = 0; i < STEP_COUNT; i++) {
        struct weir_released released;
        uint64_t now_ns = weir_shaper_next_ns(shaper);
        if (!weir_shaper_pop(shaper, now_ns, &released)
            || weir_shaper_submit(shaper, released.item, WEIR_UNIT, now_ns).ticket == 0) {
            exit(1);
        }
    }
    double figure = ns_per_step(start_ns);
    weir_shaper_close(shaper);
    return figure;
}

int main(void)
{
    while (next_round()) {
        print_figure("queue_wheel", run_wheel(false));
        print_figure("queue_heap", run_heap(false, true));
        print_figure("plain_heap", run_heap(false, false));
        print_figure("shaper", run_shaper());
        print_figure("mixed_wheel", run_wheel(true));
        print_figure("mixed_heap", run_heap(true, true));
        print_figure("end", 0);
    }
    return 0;
}
