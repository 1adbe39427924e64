/* SPDX-License-Identifier: MIT
 *
 * What a limit promises, as exact numbers. With N units per P nanoseconds, room for C:
 *
 *     the level after a window of T is at most C, the level before it at least 0, and at most
 *     T*N/P leaks in between; so whatever was admitted in the window, its two ends included, is
 *
 *         admitted <= C + T * N/P
 *
 * and someone who fills an empty bucket and then takes every drip gets exactly that. A stepped limit drains
 * at most ceil(T/P) times in between, each time N, or all that is there, so of it
 *
 *         admitted <= C + min(C, N) * ceil(T/P).
 *
 * Of a fixed and of a sliding limit at most N pass in one of its windows of P, and a window of T meets at most
 * k = ceil(T/P) + 1 of those (months have no one length: then as many as the calendar lets it meet). So
 *
 *         admitted <= k * N               fixed
 *         admitted <= k * (N - 1)         sliding, N > 2, T > 0
 *         admitted <= k + 1               sliding, N = 2, T > P; up to P: 2
 *         admitted <= floor(T/2P) + 1     sliding, N = 1
 *
 * for of a sliding limit N pass only in a window before which nothing is left. Beside the smallest rest of the
 * former one the N-th does not fit before that has faded, which is at the end; and a window that follows an idle
 * one has paid for its N with that. The first of the k can be such a window only if T begins where it begins,
 * with its first charge. Then T ends where the last of them begins, at the latest: there all of the one before
 * counts, so both together admit N, and the k together 2 * N + (k - 3) * (N - 1), or N if they are two. Of N = 1
 * each is followed by a window in which it fades.
 *
 * Kind window promises without the end of T, as people say "25 in any 5 s": what comes exactly P after an
 * event is the first of the next. So at most N pass in any P of which the end is not a part, and
 *
 *         admitted <= N * ceil(T/P). */
#ifndef WEIR_CLI_PROMISE_H
#define WEIR_CLI_PROMISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/decision.h"
#include "weir/limit.h"

/* What fits at one instant when nobody has come before: the capacity, and with first=now one unit more,
 * which does not wait. */
uint64_t promise_held_micro(const struct weir_limit_config *config);

/* Units per second in the long run: what somebody gets who always takes as soon as he may. Of a sliding limit that
 * is less than its count per period: N - 1, and one in two periods if N is 1. A stepped limit drains no more in a
 * period than its capacity. */
struct weir_amount promise_rate_per_s(const struct weir_limit_config *config);

/* What a stepped limit drains at most at the end of a period, in millionths: its count, or all that it holds. */
uint64_t promise_step_micro(const struct weir_limit_config *config);

/* The period; of months, the longest that so many can be. */
uint64_t promise_period_ns(const struct weir_limit_config *config);

/* Nanoseconds that `cost_micro` takes to drain from a bucket that was filled at once: of one unit, the
 * interval between drips; of the capacity, the time from full to empty. */
struct weir_amount promise_drain_ns(const struct weir_limit_config *config, uint64_t cost_micro);

/* How long a refused take of this cost waits at most, if nobody else comes: until that much has drained, and until
 * the block has ended that the refusal begins. */
struct weir_amount promise_wait_ns(const struct weir_limit_config *config, uint64_t cost_micro);

/* True if the windows of promise_bound() include their end; their beginning is always in them. */
bool promise_includes_end(const struct weir_limit_config *config);

/* Units that are admitted at most in any window of `window_ns`, at most WEIR_SPAN_NS_MAX. */
struct weir_amount promise_bound(const struct weir_limit_config *config, uint64_t window_ns);

/* What is left in a full bucket of a limit that drains by whole periods (stepped, fixed, window) so long after
 * its period began, in millionths. */
uint64_t promise_left_micro(const struct weir_limit_config *config, uint64_t after_ns);

/* Units that leave a queue at most in such a window, one at a time: never closer than their interval. */
struct weir_amount promise_leaving(const struct weir_limit_config *config, uint64_t window_ns);

/* What the events of a window take of memory at most, in bytes: eight for each unit; two more for one that comes
 * longer after the one before than seven bytes can say, of which a long period holds some hundreds; and a chunk at
 * each end of the log. See docs/design/window.md. */
enum { EVENT_BYTES = 8, EVENT_GAP_BYTES = 2, EVENT_CHUNK_BYTES = 256, EVENT_GAP_NS_LOG2 = 52 };
uint64_t promise_events_bytes(const struct weir_limit_config *config);

uint64_t amount_floor(const struct weir_amount *amount);
uint64_t amount_ceil(const struct weir_amount *amount);

/* For people: "30.5", and to the nearest millionth where it has more places than that: "about
 * 3.333333". Returns the length. */
enum { ABOUT_TEXT_MAX = WEIR_AMOUNT_TEXT_MAX + 8 };
int amount_print_about(const struct weir_amount *amount, char text[ABOUT_TEXT_MAX]);

/* Reads what weir_amount_print() writes: "3", "2.55", "10/3". False for anything else, and for
 * what does not fit 128 bits. */
bool amount_parse(struct weir_amount *amount, const char *text, size_t length);

#endif
