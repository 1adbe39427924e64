/* SPDX-License-Identifier: MIT
 *
 * The inline limits that a worker has compiled lately, by their text. Bounded: a set-associative
 * cache of RULE_CACHE_COUNT rules, so a client that sends a new limit with every request costs a
 * compilation each and no memory. One per worker: single owner. */
#ifndef WEIR_LIMITER_RULE_CACHE_H
#define WEIR_LIMITER_RULE_CACHE_H

#include "weir/limiter.h"

struct rule_cache;

/* NULL if there is no memory. The limiter must outlive the cache. */
struct rule_cache *rule_cache_open(const struct weir_limiter *limiter);
void rule_cache_close(struct rule_cache *cache);

/* Finds or compiles the limit with this text and copies the rule to *rule, which then needs the
 * cache no longer. Statuses of weir_limit_parse(). */
WEIR_MUST_USE enum weir_status rule_cache_text(struct rule_cache *cache, struct weir_rule *rule,
                                               const char *text, size_t length,
                                               struct weir_error *error);

/* The rule of CL.THROTTLE: `count` units per `period_s` seconds, room for `capacity` units; the
 * bucket is known by its key alone. All three 1 or more, in whole units and seconds.
 * Statuses of weir_limit_init(). */
WEIR_MUST_USE enum weir_status rule_cache_throttle(struct rule_cache *cache, struct weir_rule *rule,
                                                   uint64_t capacity, uint64_t count,
                                                   uint64_t period_s, struct weir_error *error);

#endif
