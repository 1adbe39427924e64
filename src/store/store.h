/* SPDX-License-Identifier: MIT
 *
 * A store is where buckets live: a small table of functions, one folder per implementation, each
 * ending in one constant `struct store_ops`.
 *
 * What an implementer may assume: rules are bound to this store's limiter; decide() is called from any
 * thread, from many at once, and close() when no other call runs. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "core/bucket_math.h"
#include "store/line_ops.h"
#include "store/upkeep.h"
#include "weir/limiter.h"

struct attendant;
struct remote_ops;

struct store_ops {
    /* Answers requests in order, all at one instant: `now_ns`, or STORE_NOW for the store's own clock,
     * read once the memory of the first requests is on its way. Never blocks for longer than another
     * thread needs to insert a bucket. */
    void (*decide)(struct store *store, const struct weir_request *requests,
                   struct weir_decision *decisions, size_t count, uint64_t now_ns);
    /* decide() of one take, at the store's own clock. */
    struct weir_decision (*take)(struct store *store, const struct weir_rule *rule, const void *key,
                                 size_t key_len, uint64_t cost_micro);
    /* The store's clock. */
    uint64_t (*now_ns)(const struct store *store);
    /* WEIR_OK, or why nothing can be decided in this process, and on_error answers (core/undecided.h). */
    enum weir_status (*status)(struct store *store);
    void (*stats)(const struct store *store, struct weir_limiter_stats *stats);
    void (*close)(struct store *store);

    const struct remote_ops *remote; // store/remote.h; NULL: it decides at once
    const struct line_ops *lines;    // NULL: nobody can wait
    const struct upkeep_ops *upkeep; // NULL: not offered
};

/* Beyond every reading. */
#define STORE_NOW UINT64_MAX

/* First member of every store. */
struct store {
    const struct store_ops *ops;
    struct line_keeper *keeper;  // NULL: nobody can wait here
    struct attendant *attendant; // store/attendant.h; NULL: it decides at once
    uint64_t deadline_ns;        // what its ports give a batch; 0: PORT_DEADLINE_NS
};

#endif
