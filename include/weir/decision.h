/* SPDX-License-Identifier: MIT
 *
 * The answer to every question that weir is asked.
 *
 *     struct weir_decision decision = weir_bucket_take(&bucket, &limit, WEIR_UNIT, now_ns);
 *     if (decision.verdict == WEIR_LIMITED) {
 *         sleep_ns(decision.retry_after_ns);
 *     }
 *
 * | verdict | retry_after_ns      | reset_after_ns  | delay_ns | remaining       |
 * |---------|---------------------|-----------------|----------|-----------------|
 * | allowed | -1                  | after this take | to go    | after this take |
 * | limited | minimal, sufficient | as it is        | 0        | as it is        |
 * | never   | -1                  | as it is        | 0        | as it is        |
 * | blocked | until the block ends| as it is        | 0        | as it is        |
 * | error   | -1                  | -1              | 0        | 0               |
 *
 * An error is no decision, and charges nothing. It says that
 *   - this key has no bucket, and the table is full of live ones; or this is a window, and the memory for
 *     events is full: not under on_full=allow, unless the key was to be blocked; and under
 *     on_full=evict only if no bucket of another key may be dropped
 *   - the question makes no sense: a refund under a window, since what it let through has passed; an
 *     operation that does not exist; requests that are decided together, but are more than
 *     WEIR_TOGETHER_MAX, neither all takes nor all can_takes, or two about one bucket
 *   - it was asked of a struct weir_bucket (weir_bucket_take() and its like), but the limit is a window,
 *     which keeps more than that holds
 *   - the limit, or the rule, is all zeroes: what a failed weir_limit_from_text(), or weir_rule_from_text(), leaves
 *   - there is no memory to wait in, or who waits is sent away: a shaper shuts down
 *   - the store is out of reach, and the limit does not say on_error=allow, or this is no take, can_take or fill:
 *     weir_limiter_status() says why */
#ifndef WEIR_DECISION_H
#define WEIR_DECISION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of the wire. X(name, value, word). */
#define WEIR_VERDICT_MAP(X)                                                                        \
    X(WEIR_ALLOWED, 0, "allowed") /* it may pass, and the cost is charged */                       \
    X(WEIR_LIMITED, 1, "limited") /* not now; retry_after_ns says when */                          \
    X(WEIR_NEVER, 2, "never")     /* the cost exceeds the capacity: no wait helps */               \
    X(WEIR_BLOCKED, 3, "blocked") /* the key is locked out; retry_after_ns says until when */      \
    X(WEIR_FAILED, 4, "error")    /* no decision, and nothing charged: see above */

enum weir_verdict {
#define WEIR_VERDICT_ENTRY(name, value, word) name = value,
    WEIR_VERDICT_MAP(WEIR_VERDICT_ENTRY)
#undef WEIR_VERDICT_ENTRY
};

/*   capacity        what the bucket holds, in whole units, rounded down
 *   remaining       floor of capacity - level, in whole units, 0 .. capacity
 *   retry_after_ns  the smallest wait after which this same take, alone, is allowed, where its refusal
 *                   blocks (block=) the end of that too; blocked: after which it is no longer; -1: none
 *   reset_after_ns  the smallest wait after which the bucket is empty; -1: not known
 *   delay_ns        how long an admitted take has to wait before it may go: 0 but for kind
 *                   `queue` */
struct weir_decision {
    enum weir_verdict verdict;
    uint64_t capacity;
    uint64_t remaining;
    int64_t retry_after_ns;
    int64_t reset_after_ns;
    int64_t delay_ns;
};

/* The one answer to a take under several limits, from the decisions that weir_limiter_decide() gave to
 * each: never before blocked before error before limited before allowed. A decision does not know whether
 * its limit is only being tried (shadow): where one may be, weir_decision_of_run() (limiter.h) is the one
 * to call, for here its refusal counts like any other.
 *   binding  which limit decided: the first with that verdict, and among those that say after which time
 *            the one that says the longest; -1 if all allow. May be NULL
 * capacity, remaining and reset_after_ns are those of the binding limit, or if all allow of the one
 * with the least remaining; retry_after_ns and delay_ns are the longest of all, where there are any.
 * `count` is at least 1. Thread-safe. */
struct weir_decision weir_decision_of_all(const struct weir_decision *decisions, size_t count,
                                          int *binding);

/* An exact amount of cost in units: a fraction of two 128-bit integers, denominator > 0, not
 * necessarily in lowest terms. weir_amount_print() makes it readable. */
struct weir_amount {
    uint64_t numerator_high, numerator_low;
    uint64_t denominator_high, denominator_low;
};

/* Room for any amount, its NUL included. */
#define WEIR_AMOUNT_TEXT_MAX 96

/* Digits after the point beyond which an amount is printed as a fraction. */
#define WEIR_AMOUNT_DECIMALS_MAX 18

/* Writes the amount exactly: "3", "2.55", or in lowest terms "10/3" where no decimal of at most
 * WEIR_AMOUNT_DECIMALS_MAX places is exact. Returns the length without the NUL. Thread-safe. */
int weir_amount_print(const struct weir_amount *amount, char text[WEIR_AMOUNT_TEXT_MAX]);

/* "allowed", "limited", "never", "blocked", "error"; "unknown" for a value that is none. Thread-safe. */
const char *weir_verdict_word(enum weir_verdict verdict);

#ifdef __cplusplus
}
#endif

#endif
