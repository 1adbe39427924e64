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
 * N at most ceil(T/P) times in between, so of it
 *
 *         admitted <= C + N * ceil(T/P).
 *
 * Of a fixed and of a sliding limit at most N pass in one of its windows of P, and a window of T meets at most
 * k = ceil(T/P) + 1 of those (months have no one length: then as many as the calendar lets it meet). So
 *
 *         admitted <= k * N               fixed
 *         admitted <= k * N - 1           sliding, k > 1: beside what is left of N, not all of N fits
 *
 * and of kind window, where at most N pass in any P, the end of which is the beginning of another,
 *
 *         admitted <= N * (floor(T/P) + 1). */
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

/* Units per second in the long run. */
struct weir_amount promise_rate_per_s(const struct weir_limit_config *config);

/* The period; of months, the longest that so many can be. */
uint64_t promise_period_ns(const struct weir_limit_config *config);

/* Nanoseconds that `cost_micro` takes to drain from a bucket that was filled at once: of one unit, the
 * interval between drips; of the capacity, the time from full to empty. A refused take of this cost waits
 * at most so long. */
struct weir_amount promise_drain_ns(const struct weir_limit_config *config, uint64_t cost_micro);

/* Units that are admitted at most in any window of `window_ns`, at most WEIR_SPAN_NS_MAX. */
struct weir_amount promise_bound(const struct weir_limit_config *config, uint64_t window_ns);

/* What is left in a full bucket of a limit that drains by whole periods (stepped, fixed, window) so long after
 * its period began, in millionths. */
uint64_t promise_left_micro(const struct weir_limit_config *config, uint64_t after_ns);

/* Units that leave a queue at most in such a window, one at a time: never closer than their interval. */
struct weir_amount promise_leaving(const struct weir_limit_config *config, uint64_t window_ns);

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
