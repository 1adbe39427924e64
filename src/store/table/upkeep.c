/* SPDX-License-Identifier: MIT
 *
 * All buckets of a table at once, or enough of them to know how full it is, while others use it: for people
 * who look after a store. */
#include <assert.h>

#include "core/bucket_math.h"
#include "store/table/file_header.h"
#include "store/table/inside.h"
#include "sync/atomic.h"

static bool is_live(struct weir_bucket bucket, uint64_t now_ns)
{
    uint64_t rest = (bucket.word & BUCKET_LOG) == 0 ? bucket.word & BUCKET_REST_MASK : 0;
    return bucket.empty_at_ns > now_ns || (bucket.empty_at_ns == now_ns && rest != 0);
}

/* A slot's tag and state; no tag if it is nobody's now. */
static uint64_t look_into(const struct table_line *line, int slot, struct weir_bucket *state)
{
    uint64_t tag = load_relaxed(&line->tags[slot]);
    *state = load_bucket(&line->states[slot]);
    return tag != 0 && (state->word & BUCKET_OWNER_MASK) == table_owner_of(tag) ? tag : 0;
}

uint64_t table_live_count(const struct table *table, uint64_t now_ns)
{
    uint64_t live_count = 0;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        const struct table_line *line = &table->lines[i];
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            struct weir_bucket state;
            bool is_bucket =
                look_into(line, slot, &state) != 0 && (state.word & BUCKET_IS_BLOCK) == 0;
            live_count += is_bucket && is_live(state, now_ns);
        }
    }
    return live_count;
}

/* Adds up one stripe. A slot that was never used is free; no memory of a stripe without any other is touched. */
static void count_stripe(const struct table *table, uint64_t index, struct store_census *census,
                         uint64_t now_ns)
{
    uint64_t slot_count = table->stripe_lines * TABLE_LINE_SLOTS;
    uint64_t taken_count = 0;
    bool is_used = load_relaxed(&table->stripes[index].used_count) != 0; // relaxed: a statistic
    for (uint64_t at = 0; is_used && at < table->stripe_lines; at++) {
        const struct table_line *line = &table->lines[index * table->stripe_lines + at];
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            struct weir_bucket state;
            uint64_t tag = look_into(line, slot, &state);
            bool is_full = tag != 0 && is_live(state, now_ns);
            census->live_count += is_full && (state.word & BUCKET_IS_BLOCK) == 0;
            taken_count += is_full || (tag != 0 && table_is_kept(table, state, tag, now_ns));
        }
    }
    census->slot_count += slot_count;
    census->free_count += slot_count - taken_count;
}

void table_census(const struct store *store, struct store_census *census, uint64_t now_ns)
{
    const struct table *table = table_current(store);
    uint64_t stripe_slots = table->stripe_lines * TABLE_LINE_SLOTS;
    uint64_t counted = CENSUS_SLOTS > stripe_slots ? CENSUS_SLOTS / stripe_slots : 1;
    counted = counted < table->stripe_count ? counted : table->stripe_count;
    *census = (struct store_census){0};
    for (uint64_t i = 0; i < counted; i++) {
        count_stripe(table, i * table->stripe_count / counted, census, now_ns);
    }
    census->slot_count = table->stripe_count * stripe_slots;
    census->live_count = census->live_count * table->stripe_count / counted;
    census->free_count = census->free_count * table->stripe_count / counted;
}

/* Any window: what it holds is there until the moment in its state. */
static const struct weir_rule ANY_WINDOW = {.limit = {.kind = WEIR_KIND_WINDOW,
                                                      .denominator = BUCKET_REST_MASK + 1,
                                                      .full_ns = WEIR_SPAN_NS_MAX,
                                                      .grain_micro = WEIR_UNIT}};

/* Of memory nobody knows when it was made. */
void table_describe(const struct store *store, struct store_description *description,
                    uint64_t now_ns)
{
    const struct table *table = table_current(store);
    bool is_file = ((const struct table *)store)->origin != NULL;
    const struct file_header *header = is_file ? table->mapping.at : NULL;
    *description = (struct store_description){
        .format = is_file ? header->stamp.format : 0,
        .made_wall_s = is_file ? header->stamp.made_wall_s : 0,
        .live_count = table_live_count(table, now_ns),
    };
}

/* A key's reset needs no more than its hash, which is its tag; and of the limit only whether there is
 * a remainder, or a log, so any will do. Who is locked out is let in. */
uint64_t table_reset_all(struct store *store, uint64_t now_ns)
{
    struct table *table = table_current(store);
    struct weir_rule any = {.hash_key = {0}};
    uint64_t live_count = 0;
    enum weir_status status = weir_limit_from_text(&any.limit, "1/s", NULL);
    assert(status == WEIR_OK);
    (void)status;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        const struct table_line *line = &table->lines[i];
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            struct weir_bucket state;
            struct weir_detail detail = {.existed = false};
            uint64_t tag = look_into(line, slot, &state);
            struct weir_request request = {.rule =
                                               (state.word & BUCKET_LOG) != 0 ? &ANY_WINDOW : &any,
                                           .operation = WEIR_RESET,
                                           .detail = &detail};
            if (tag != 0 && (state.word & BUCKET_IS_BLOCK) != 0) {
                request.operation = WEIR_UNBLOCK;
                (void)table_decide_hash(table, &request, table_block_of(tag), now_ns);
            } else if (tag != 0) {
                (void)table_decide_hash(table, &request, tag, now_ns);
                live_count += detail.existed;
            }
        }
    }
    return live_count;
}
