/* SPDX-License-Identifier: MIT
 *
 * The usual run: several takes that are all usual ones (core/bucket_math.h), of buckets that are there, with
 * no flag set, and all are allowed. Then what together.c does for any run comes to this: lock, mark all but
 * the last, swap the last, write the others. Whatever else it may be, and whenever somebody was faster,
 * nothing has happened, and together.c begins anew. */
#include <assert.h>

#include "store/table/inside.h"
#include "sync/atomic.h"

struct usual {
    uint64_t span_ns;
    struct weir_bucket next;
};

/* What each of them would come to. False: not all are usual and allowed. */
static bool plan(const struct weir_request *requests, const struct found *found,
                 struct usual *usual, size_t count, uint64_t now_ns)
{
    for (size_t i = 0; i < count; i++) {
        const struct weir_limit *limit = &requests[i].rule->limit;
        uint64_t span_ns = usual_span_ns(limit, requests[i].cost_micro);
        struct outcome outcome = usual_take(found[i].seen, limit, span_ns, now_ns);
        if (span_ns == 0 || outcome.verdict != WEIR_ALLOWED) {
            return false;
        }
        usual[i] = (struct usual){span_ns, bucket_with_moment(found[i].seen, outcome.moment)};
    }
    return true;
}

static struct weir_bucket with_mark(struct weir_bucket bucket)
{
    bucket.word |= BUCKET_MARKED;
    return bucket;
}

/* Under the locks of all but the last. The same bucket twice is marked once, and then another's. */
static bool charge_all(const struct found *found, const struct usual *usual, size_t count)
{
    size_t last = count - 1;
    size_t marked = 0;
    while (marked < last
           && cas_bucket(found[marked].state, found[marked].seen, with_mark(found[marked].seen))) {
        marked++;
    }
    bool done = marked == last && cas_bucket(found[last].state, found[last].seen, usual[last].next);
    for (size_t i = 0; i < marked; i++) {
        store_bucket(found[i].state, with_mark(found[i].seen), // whoever else comes here waits
                     done ? usual[i].next : found[i].seen);
    }
    return done;
}

bool table_take_together(struct table *table, const struct weir_request *requests,
                         const uint64_t *hashes, const struct found *found,
                         struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    struct usual usual[WEIR_TOGETHER_MAX];
    struct stripes stripes;
    assert(count > 1 && count <= WEIR_TOGETHER_MAX);
    if (!plan(requests, found, usual, count, now_ns)) {
        return false;
    }
    stripes.count = 0; // and no more: to zero all of it would take longer than what follows
    for (size_t i = 0; i + 1 < count; i++) {
        stripes_add(&stripes, table_stripe_of(table, hashes[i]));
    }
    stripes_lock(table, &stripes);
    bool done = charge_all(found, usual, count);
    stripes_unlock(&stripes);
    for (size_t i = 0; i < count && done; i++) {
        const struct outcome outcome = {WEIR_ALLOWED, {usual[i].next.empty_at_ns, 0}};
        usual_answer(&decisions[i], &requests[i].rule->limit, usual[i].span_ns, outcome, now_ns);
    }
    return done;
}
