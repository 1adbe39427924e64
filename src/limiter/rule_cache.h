/* SPDX-License-Identifier: MIT
 *
 * The inline limits that a worker has compiled lately, by their text; short lists of them are kept
 * whole, so that they are found as fast as one. Bounded: a set-associative cache of RULE_CACHE_COUNT
 * rules and LIST_CACHE_COUNT lists, so a client that sends a new limit with every request costs a
 * compilation each and no memory. One per worker: single owner. */
#ifndef WEIR_LIMITER_RULE_CACHE_H
#define WEIR_LIMITER_RULE_CACHE_H

#include "limiter/limit_list.h"
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

/* The same for one limit or a list of them (limit_list.h), that one take of a key obeys together:
 * copies 1 .. LIMIT_LIST_COUNT_MAX rules to rules[], for which there must be room, in the order of
 * the text. Statuses of weir_limit_parse() and limit_list_split(); WEIR_E_SYNTAX also where two
 * limits are the same bucket. After a failure rules[] and *count are unspecified. */
WEIR_MUST_USE enum weir_status rule_cache_list(struct rule_cache *cache, struct weir_rule *rules,
                                               size_t *count, const char *text, size_t length,
                                               struct weir_error *error);

/* The rule of CL.THROTTLE and its like: `count` units per `period_ns` nanoseconds, room for `capacity`
 * units; the bucket is known by its key alone. All three 1 or more, in whole units and nanoseconds.
 * Statuses of weir_limit_init(). */
WEIR_MUST_USE enum weir_status rule_cache_throttle(struct rule_cache *cache, struct weir_rule *rule,
                                                   uint64_t capacity, uint64_t count,
                                                   uint64_t period_ns, struct weir_error *error);

#endif
