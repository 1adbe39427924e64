/* SPDX-License-Identifier: MIT
 *
 * Mail, smoothed: twelve letters come at once, and the provider takes 50 per second. Ten may wait; the
 * others are refused here, before anybody has tried to send them. One is thought better of while it
 * waits, and those behind it move up.
 *
 * One thread, and no timer of the shaper's: the loop sleeps until the next letter is due. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "weir/weir.h"

#define NS_PER_S 1000000000

enum { LETTER_COUNT = 12 };

struct letter {
    int number;
    uint64_t ticket;
};

static void sleep_until(uint64_t due_ns)
{
    uint64_t now_ns = weir_clock_now_ns();
    while (now_ns < due_ns) {
        int64_t ns = (int64_t)(due_ns - now_ns);
        struct timespec left = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL);
        now_ns = weir_clock_now_ns();
    }
}

/* Returns how many have been sent. */
static int send_all(struct weir_shaper *shaper)
{
    int sent_count = 0;
    uint64_t next_ns;
    while ((next_ns = weir_shaper_next_ns(shaper)) != UINT64_MAX) {
        struct weir_released released;
        sleep_until(next_ns);
        while (weir_shaper_pop(shaper, weir_clock_now_ns(), &released)) {
            const struct letter *letter = released.item;
            printf("letter %d is sent\n", letter->number);
            sent_count++;
        }
    }
    return sent_count;
}

int main(void)
{
    struct weir_limit limit;
    struct weir_shaper *shaper;
    struct weir_error error;
    if (weir_limit_from_text(&limit, "queue 50/s capacity=10", &error) != WEIR_OK
        || weir_shaper_open(&shaper, &limit, NULL, &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    struct letter letters[LETTER_COUNT];
    uint64_t start_ns = weir_clock_now_ns();
    for (int i = 0; i < LETTER_COUNT; i++) {
        letters[i].number = i + 1;
        struct weir_submitted submitted =
            weir_shaper_submit(shaper, &letters[i], WEIR_UNIT, start_ns);
        letters[i].ticket = submitted.ticket;
        if (submitted.decision.verdict != WEIR_ALLOWED) {
            printf("letter %d is refused: room in %lld ms\n", letters[i].number,
                   (long long)(submitted.decision.retry_after_ns / 1000000));
        }
    }
    if (weir_shaper_cancel(shaper, letters[3].ticket, start_ns, NULL)) {
        printf("letter 4 is not sent after all\n");
    }
    int sent_count = send_all(shaper);
    int64_t took_ns = (int64_t)(weir_clock_now_ns() - start_ns);
    int64_t least_ns = sent_count * INT64_C(20000000);
    printf("%d letters, never faster than 50 per second: %s\n", sent_count,
           took_ns >= least_ns ? "yes" : "no");
    weir_shaper_close(shaper);
    return took_ns >= least_ns ? 0 : 1;
}
