/* SPDX-License-Identifier: MIT
 *
 * All buckets of a table at once, while others use it: for people who look after a store. */
#include "core/bucket_math.h"
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

/* Any window: what it holds is there until the moment in its state. */
static const struct weir_rule ANY_WINDOW = {.limit = {.kind = WEIR_KIND_WINDOW,
                                                      .denominator = BUCKET_REST_MASK + 1,
                                                      .full_ns = WEIR_SPAN_NS_MAX,
                                                      .grain_micro = WEIR_UNIT}};

/* A key's reset needs no more than its hash, which is its tag; and of the limit only whether there is
 * a remainder, or a log, so any will do. Who is locked out is let in. */
uint64_t table_reset_all(struct table *table, const struct weir_rule *any, uint64_t now_ns)
{
    uint64_t live_count = 0;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        const struct table_line *line = &table->lines[i];
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            struct weir_bucket state;
            struct weir_detail detail = {.existed = false};
            uint64_t tag = look_into(line, slot, &state);
            struct weir_request request = {.rule =
                                               (state.word & BUCKET_LOG) != 0 ? &ANY_WINDOW : any,
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
