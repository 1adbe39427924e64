/* SPDX-License-Identifier: MIT
 *
 * A budget: every customer may spend 1000 per 30 days, which drips back at 1000/30 a day.
 *
 * Costs are not 1 here but money, in millionths of a unit: exact to the sixth place. The instants
 * are given, by the _at() twins of the calls, so that a month passes in no time. */
#include <inttypes.h>
#include <stdio.h>

#include "weir/weir.h"

#define SECOND UINT64_C(1000000000) /* nanoseconds */

struct shop {
    struct weir_limiter *limiter;
    struct weir_rule budget;
};

static void spend_at(struct shop *shop, uint64_t now_s, uint64_t cost_micro)
{
    static const char CUSTOMER[] = "spend:customer-4711";
    struct weir_decision decision = weir_limiter_take_at(
        shop->limiter, &shop->budget, CUSTOMER, sizeof CUSTOMER - 1, cost_micro, now_s * SECOND);
    printf("%7" PRIu64 " s  spend %4" PRIu64 ".%02" PRIu64 "  %s", now_s, cost_micro / WEIR_UNIT,
           cost_micro % WEIR_UNIT / (WEIR_UNIT / 100), weir_verdict_word(decision.verdict));
    if (decision.verdict == WEIR_LIMITED) {
        printf(", possible in %" PRId64 " s", decision.retry_after_ns / (int64_t)SECOND);
    }
    if (decision.verdict != WEIR_NEVER) {
        printf(", %" PRIu64 " left", decision.remaining);
    }
    printf("\n");
}

int main(void)
{
    struct shop shop;
    struct weir_error error;
    if (weir_limiter_open(&shop.limiter, NULL, &error) != WEIR_OK
        || weir_rule_from_text(&shop.budget, shop.limiter, "1000/30d", &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    spend_at(&shop, 0, 30 * WEIR_UNIT);
    spend_at(&shop, 0, 990 * WEIR_UNIT);  /* 30 + 990 > 1000: refused, and that costs nothing */
    spend_at(&shop, 0, 1001 * WEIR_UNIT); /* more than a whole budget: never */
    spend_at(&shop, 51839, 990 * WEIR_UNIT);
    spend_at(&shop, 51840, 990 * WEIR_UNIT); /* 20 of the 30 have dripped back, to the second */
    spend_at(&shop, 51840 + 86400, 33 * WEIR_UNIT + 330000);
    spend_at(&shop, 40 * 86400, 12 * WEIR_UNIT + 500000); /* empty again for days */
    weir_limiter_close(shop.limiter);
    return 0;
}
