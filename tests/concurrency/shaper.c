/* SPDX-License-Identifier: MIT
 *
 * One shaper, many threads, for each overflow policy: some submit, one cancels now and then, one pops by
 * a clock of its own that only the instants of the line move. Every item must come out exactly once,
 * each sender's in the order in which it sent them, and no two closer than the interval. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/weir.h"

enum { SENDER_COUNT = 4, SEND_COUNT = 5000 };

#define INTERVAL_NS UINT64_C(1000000)

/* How an item ended. */
enum end { IN_LINE = 0, RELEASED, CANCELLED, DROPPED, REFUSED };

static struct weir_shaper *shaper;
static atomic_uchar ends[SENDER_COUNT][SEND_COUNT];
static _Atomic uint64_t tickets[SENDER_COUNT]; // each sender's latest
static _Atomic uint64_t now_ns;
static atomic_int senders_left;

static void check(bool holds, const char *what)
{
    if (!holds) {
        printf("%s\n", what);
        exit(1);
    }
}

/* An item is its own record. */
static void end_item(void *item, enum end end)
{
    check(atomic_exchange((atomic_uchar *)item, (unsigned char)end) == IN_LINE,
          "an item came out twice");
}

static void note_dropped(void *context, void *item, uint64_t ticket)
{
    (void)context;
    (void)ticket;
    end_item(item, DROPPED);
}

static void *send_items(void *argument)
{
    size_t sender = (size_t)(uintptr_t)argument;
    for (size_t i = 0; i < SEND_COUNT; i++) {
        struct weir_submitted submitted =
            weir_shaper_submit(shaper, &ends[sender][i], WEIR_UNIT, now_ns);
        if (submitted.ticket != 0) {
            tickets[sender] = submitted.ticket;
        } else {
            check(submitted.decision.verdict == WEIR_LIMITED, "not let in, and not limited");
            end_item(&ends[sender][i], REFUSED);
            sched_yield();
        }
    }
    senders_left--;
    return NULL;
}

static void *cancel_items(void *argument)
{
    (void)argument;
    for (size_t i = 0; senders_left > 0; i++) {
        void *item;
        uint64_t ticket = tickets[i % SENDER_COUNT];
        (void)weir_shaper_swap(shaper, ticket, ticket);
        if (i % 64 == 0 && weir_shaper_cancel(shaper, ticket, now_ns, &item)) {
            end_item(item, CANCELLED);
        }
        sched_yield();
    }
    return NULL;
}

/* What is cancelled lets others move up, not closer. */
static void pop_items(void)
{
    uint64_t last_ns = 0;
    const void *last_items[SENDER_COUNT] = {NULL};
    for (;;) {
        struct weir_released released;
        bool is_last = senders_left == 0;
        uint64_t next_ns = weir_shaper_next_ns(shaper);
        if (next_ns == UINT64_MAX) {
            if (is_last) {
                return;
            }
            sched_yield();
            continue;
        }
        if (next_ns > now_ns) {
            now_ns = next_ns;
        }
        if (weir_shaper_pop(shaper, now_ns, &released)) {
            size_t sender =
                (size_t)((const atomic_uchar *)released.item - &ends[0][0]) / SEND_COUNT;
            end_item(released.item, RELEASED);
            check(last_ns == 0 || now_ns >= last_ns + INTERVAL_NS, "two came out too close");
            check((const char *)released.item > (const char *)last_items[sender],
                  "a sender was overtaken by itself");
            last_ns = now_ns;
            last_items[sender] = released.item;
        }
    }
}

static void run(enum weir_overflow overflow, bool cancels)
{
    struct weir_limit limit;
    struct weir_shaper_config config = {.overflow = overflow, .dropped = note_dropped};
    pthread_t senders[SENDER_COUNT], canceller;
    memset(ends, 0, sizeof ends);
    now_ns = 1;
    senders_left = SENDER_COUNT;
    check(weir_limit_from_text(&limit, "queue 1000/s capacity=20", NULL) == WEIR_OK
              && weir_shaper_open(&shaper, &limit, &config, NULL) == WEIR_OK,
          "no shaper");
    for (size_t i = 0; i < SENDER_COUNT; i++) {
        tickets[i] = 0;
        check(pthread_create(&senders[i], NULL, send_items, (void *)(uintptr_t)i) == 0, "thread");
    }
    check(!cancels || pthread_create(&canceller, NULL, cancel_items, NULL) == 0, "thread");
    pop_items();
    for (size_t i = 0; i < SENDER_COUNT; i++) {
        pthread_join(senders[i], NULL);
    }
    if (cancels) {
        pthread_join(canceller, NULL);
    }
    weir_shaper_close(shaper);
    uint64_t counts[REFUSED + 1] = {0};
    for (size_t i = 0; i < (size_t)SENDER_COUNT * SEND_COUNT; i++) {
        counts[ends[i / SEND_COUNT][i % SEND_COUNT]]++;
    }
    check(counts[IN_LINE] == 0, "an item was lost");
    check(overflow != WEIR_OVERFLOW_BLOCK || counts[REFUSED] + counts[DROPPED] == 0,
          "refused or dropped, where it should have waited");
    check(overflow != WEIR_OVERFLOW_REFUSE || counts[DROPPED] == 0, "dropped, not refused");
    // Dropping refuses too, at a reading so old that even what is out already fills the line.
    printf("policy %d: %llu released, %llu cancelled, %llu dropped, %llu refused\n", (int)overflow,
           (unsigned long long)counts[RELEASED], (unsigned long long)counts[CANCELLED],
           (unsigned long long)counts[DROPPED], (unsigned long long)counts[REFUSED]);
}

int main(void)
{
    run(WEIR_OVERFLOW_BLOCK, false);
    run(WEIR_OVERFLOW_BLOCK, true);
    run(WEIR_OVERFLOW_REFUSE, true);
    run(WEIR_OVERFLOW_DROP_OLDEST, true);
    return 0;
}
