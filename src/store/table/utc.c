/* SPDX-License-Identifier: MIT
 *
 * UTC beside the store's clock, for limits that go by the calendar.
 *
 *  Shared word     Written by                                 Order    Pairs with
 *  utc_renewed_ns  whoever first finds it a second old        full     itself: one of them looks up UTC
 *  utc_offset_ns   the same, afterwards                       relaxed  nothing: it is all there is to see
 *  Price of the races: who sees the former offset opens a window by it, and whoever is there keeps to that. */
#include "store/table/inside.h"
#include "sync/atomic.h"

#define UTC_RENEW_NS UINT64_C(1000000000)

int64_t table_utc_offset_ns(struct table *table, uint64_t now_ns)
{
    struct table *root = table->root; // whose store everybody holds
    uint64_t *offset = &root->utc_offset_ns;
    uint64_t renewed_ns = load_relaxed(&root->utc_renewed_ns); // relaxed: to see if it is due
    if (root->follows_wall && now_ns > renewed_ns + UTC_RENEW_NS
        && cas_word(&root->utc_renewed_ns, &renewed_ns, now_ns)) {
        struct utc_reading reading = store_clock_read_utc(&table->clock);
        store_relaxed(offset, utc_settle(load_relaxed(offset), reading));
    }
    return (int64_t)load_relaxed(offset);
}

uint64_t table_seen_utc_offset_ns(const struct store *store)
{
    return load_relaxed(&((const struct table *)store)->utc_offset_ns);
}

void table_follow_wall(struct store *store)
{
    struct table *table = (struct table *)store;
    table->utc_offset_ns = store_clock_read_utc(&table->clock).offset_ns;
    table->utc_renewed_ns = store_clock_now_ns(&table->clock);
    table->follows_wall = true;
}
