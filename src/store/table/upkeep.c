/* SPDX-License-Identifier: MIT
 *
 * All buckets of a table at once, while others use it: for people who look after a store. */
#include "core/bucket_math.h"
#include "store/table/table.h"
#include "sync/atomic.h"

static bool is_live(struct weir_bucket bucket, uint64_t tag, uint64_t now_ns)
{
    bool is_its_own = tag != 0 && (bucket.word & BUCKET_OWNER_MASK) == table_owner_of(tag);
    bool is_filled = bucket.empty_at_ns > now_ns
                     || (bucket.empty_at_ns == now_ns && (bucket.word & BUCKET_REST_MASK) != 0);
    return is_its_own && is_filled;
}

uint64_t table_live_count(const struct table *table, uint64_t now_ns)
{
    uint64_t live_count = 0;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        const struct line *line = &table->lines[i];
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            uint64_t tag = load_relaxed(&line->tags[slot]);
            live_count += tag != 0 && is_live(load_bucket(&line->states[slot]), tag, now_ns);
        }
    }
    return live_count;
}

/* A key's reset needs no more than its hash, which is its tag; and of the limit only whether there is
 * a remainder, so any will do. */
uint64_t table_reset_all(struct table *table, const struct weir_rule *any, uint64_t now_ns)
{
    uint64_t live_count = 0;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        const struct line *line = &table->lines[i];
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            uint64_t tag = load_relaxed(&line->tags[slot]);
            struct weir_detail detail;
            struct weir_request request = {.rule = any, .operation = WEIR_RESET, .detail = &detail};
            if (tag != 0) {
                (void)table_decide_hash(table, &request, tag, now_ns);
                live_count += detail.existed;
            }
        }
    }
    return live_count;
}
