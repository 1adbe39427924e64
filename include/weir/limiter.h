/* SPDX-License-Identifier: MIT
 *
 * A limiter: many buckets by key, in bounded memory, shared by all threads of a process.
 *
 *     struct weir_limiter *limiter;
 *     struct weir_rule rule;
 *     struct weir_error error;
 *     if (weir_limiter_open(&limiter, NULL, &error) == WEIR_OK
 *         && weir_rule_from_text(&rule, limiter, "10/s", &error) == WEIR_OK) {
 *         struct weir_decision decision =
 *             weir_limiter_take(limiter, &rule, "login:alice", 11, WEIR_UNIT);
 *     }
 *
 * The limiter never stores a key, only a keyed hash of it. A bucket is known by the limit (kind,
 * rate in lowest terms, capacity) and the key: "10/s" and "600/min capacity=10" share their
 * buckets. So put what you protect into the key: "login:alice". */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/decision.h"
#include "weir/limit.h"
#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_KEY_BYTES_MAX    65535                 /* a key, over the wire: 1 .. this many */
#define WEIR_MEMORY_BYTES_MIN UINT64_C(65536)       /* the smallest table */
#define WEIR_MEMORY_BYTES_MAX (UINT64_C(1) << 44)   /* the largest, 16 TiB */
#define WEIR_MEMORY_BYTES     (UINT64_C(256) << 20) /* unless said */

struct weir_limiter;

/* All zeroes is a good configuration.
 *   memory_bytes  what the buckets may use, everything included; 0 means WEIR_MEMORY_BYTES. Rounded
 *                 down to whole stripes. An idle limiter is small; from 64 MiB on the memory comes in
 *                 huge pages of 2 MiB where the kernel has them, so that about a thousand keys touch
 *                 most of it.
 *   seed          of the keyed hash; all zeroes means one from the operating system. Give one only
 *                 for tests: whoever knows it can make keys collide. */
struct weir_limiter_config {
    uint64_t memory_bytes;
    uint64_t seed[2];
};

/* Opens a limiter over private memory. `config` may be NULL.
 *   WEIR_OK          *limiter is yours; weir_limiter_close() releases it
 *   WEIR_E_RANGE     memory_bytes is outside WEIR_MEMORY_BYTES_MIN .. _MAX
 *   WEIR_E_NO_MEMORY the mapping was refused
 *   WEIR_E_SYSTEM    no random seed
 * On failure *limiter is NULL. `error` may be NULL. Thread-safe. */
WEIR_MUST_USE enum weir_status weir_limiter_open(struct weir_limiter **limiter,
                                                 const struct weir_limiter_config *config,
                                                 struct weir_error *error);

/* Releases everything; no other call may be running. NULL is fine. */
void weir_limiter_close(struct weir_limiter *limiter);

/* A limit as one limiter knows it: compiled, with the hash key that keeps its buckets apart from
 * those of every other limit. Plain: copy it, share it between threads, forget it. Good for that
 * limiter only. */
struct weir_rule {
    struct weir_limit limit;
    uint64_t hash_key[2];
};

/* Binds a limit to a limiter. Never fails. Thread-safe. */
void weir_rule_init(struct weir_rule *rule, const struct weir_limiter *limiter,
                    const struct weir_limit *limit);

/* As weir_rule_init(), but the bucket's identity is (`name`, key) instead of (numbers, key): it
 * keeps its time until empty when the numbers change. `name` is any bytes, for example "throttle". */
void weir_rule_init_named(struct weir_rule *rule, const struct weir_limiter *limiter,
                          const struct weir_limit *limit, const void *name, size_t name_len);

/* weir_limit_from_text() and weir_rule_init() in one; statuses of the former. */
WEIR_MUST_USE enum weir_status weir_rule_from_text(struct weir_rule *rule,
                                                   const struct weir_limiter *limiter,
                                                   const char *text, struct weir_error *error);

enum weir_operation { WEIR_TAKE = 0, WEIR_CAN_TAKE, WEIR_FILL, WEIR_REFUND, WEIR_SHOW, WEIR_RESET };

/* What some operations say beyond the decision.
 *   amount       fill: the spill; show: the level; otherwise 0
 *   full         fill: whether the bucket is full at this instant
 *   existed      reset: whether there was a live bucket (a level above zero); show: the same
 *   empty_at_ns  show: the store's moment at which the bucket is empty, rounded up; 0 if not live */
struct weir_detail {
    struct weir_amount amount;
    uint64_t empty_at_ns;
    bool full;
    bool existed;
};

/* One question. The limiter only reads it, and only during the call.
 *   key         any bytes, 0 or more: the empty key is a key like any other
 *   cost_micro  millionths of a unit; above WEIR_COST_MAX it exceeds every capacity. Show and reset do
 *               not look at it
 *   detail      filled if not NULL */
struct weir_request {
    const struct weir_rule *rule;
    const void *key;
    size_t key_len;
    uint64_t cost_micro;
    enum weir_operation operation;
    struct weir_detail *detail;
};

/* Decides `count` requests in order, as if one by one, all at one reading of the clock: the fast
 * way, because the memory of all of them is fetched at once (32 or more are best).
 * Thread-safe: each decision is linearizable. Never allocates; a take of a bucket that exists never
 * locks and makes no system call, a new bucket locks one stripe of the table for an instant. */
void weir_limiter_decide(struct weir_limiter *limiter, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count);

/* The same at `now_ns` of the caller's own clock. One limiter lives by one clock: do not mix. */
void weir_limiter_decide_at(struct weir_limiter *limiter, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t now_ns);

/* The single calls: weir_limiter_decide() of one request. */
struct weir_decision weir_limiter_take(struct weir_limiter *limiter, const struct weir_rule *rule,
                                       const void *key, size_t key_len, uint64_t cost_micro);
struct weir_decision weir_limiter_can_take(struct weir_limiter *limiter,
                                           const struct weir_rule *rule, const void *key,
                                           size_t key_len, uint64_t cost_micro);
struct weir_decision weir_limiter_refund(struct weir_limiter *limiter, const struct weir_rule *rule,
                                         const void *key, size_t key_len, uint64_t cost_micro);
struct weir_decision weir_limiter_take_at(struct weir_limiter *limiter,
                                          const struct weir_rule *rule, const void *key,
                                          size_t key_len, uint64_t cost_micro, uint64_t now_ns);

/* What has happened in the table so far. */
struct weir_limiter_stats {
    uint64_t memory_bytes; /* mapped, everything included */
    uint64_t slot_count;   /* buckets that fit at most */
    uint64_t used_count;   /* slots that have ever held a bucket */
    uint64_t reused_count; /* buckets that were forgotten, empty, for another one */
    uint64_t full_count;   /* requests that found no slot and were answered by on_full */
};

/* Thread-safe; the counters are read one by one, while others change them. */
void weir_limiter_stats(const struct weir_limiter *limiter, struct weir_limiter_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
