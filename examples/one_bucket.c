/* SPDX-License-Identifier: MIT
 *
 * One bucket, in your own memory: sixteen bytes and a limit.
 *
 * The limit lets 2 per second pass and holds 3, so three may come at once. Time is an argument, so
 * this program says what happens at which instant; a real one passes weir_clock_now_ns(). */
#include <inttypes.h>
#include <stdio.h>

#include "weir/weir.h"

#define MS UINT64_C(1000000) /* nanoseconds */

static void take_at(struct weir_bucket *bucket, const struct weir_limit *limit, uint64_t now_ns)
{
    struct weir_decision decision = weir_bucket_take(bucket, limit, WEIR_UNIT, now_ns);
    printf("%5" PRIu64 " ms  %s", now_ns / MS, weir_verdict_word(decision.verdict));
    if (decision.verdict == WEIR_LIMITED) {
        printf(", try again in %" PRId64 " ms\n", decision.retry_after_ns / (int64_t)MS);
    } else {
        printf(", %" PRIu64 " of %" PRIu64 " remain\n", decision.remaining, decision.capacity);
    }
}

int main(void)
{
    struct weir_limit limit;
    struct weir_error error;
    if (weir_limit_from_text(&limit, "2/s capacity=3", &error) != WEIR_OK) {
        fprintf(stderr, "at byte %zu: %s\n", error.offset, error.message);
        return 1;
    }
    struct weir_bucket bucket = {0}; /* all zeroes: new and empty */
    take_at(&bucket, &limit, 0 * MS);
    take_at(&bucket, &limit, 0 * MS);
    take_at(&bucket, &limit, 0 * MS);
    take_at(&bucket, &limit, 0 * MS);    /* the fourth does not fit .. */
    take_at(&bucket, &limit, 499 * MS);  /* .. nor one millisecond too early, and asking is free */
    take_at(&bucket, &limit, 500 * MS);  /* a refusal says exactly when to come back */
    take_at(&bucket, &limit, 9000 * MS); /* idle time fills nothing up beyond the capacity */
    return 0;
}
