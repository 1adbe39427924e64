/* SPDX-License-Identifier: MIT
 *
 * What one operation may come to. Each key is a bucket of the pure core, never forgotten, and the end of its
 * latest block. An operation that takes effect must answer exactly what these give then, with five liberties
 * that README.md in this folder defends:
 *
 *   lag      an operation whose reading is older than another one's may see a fuller bucket: one
 *            that is empty no earlier than some reading of an operation that began before it answered
 *   giving   refund and reset may also act at such a later reading, and so give back less
 *   full     where there are more keys than slots, a take or fill may be answered by on_full, and
 *            charges nothing; a block may be answered so too, and a refusal then blocks nobody
 *   dropped  under on_full=evict a live bucket may be empty since a reading: as often as the table counts
 *   over     a block may be over at an older reading, because some operation's reading has come to its end;
 *            and one that begins at an older reading may end later, at such a reading
 *
 * A take under several limits takes effect at one instant for all of its keys; each of them has these
 * liberties of its own. Where it meets somebody who stands in line, only that it is refused is followed. */
#include <assert.h>
#include <string.h>

#include "core/kinds.h"
#include "explore.h"

/* ---- one key ---- */

/* While somebody stands in line, his bucket is marked, here as in the table. A take is then refused, and so
 * is who would join; retry_after is not followed. */
static uint64_t act_in_line(struct weir_bucket *bucket, const struct operation *operation,
                            uint64_t now_ns)
{
    const struct weir_limit *limit = &model_rule.limit;
    bool stands = (bucket->word & BUCKET_LINE) != 0;
    bool joins = operation->kind == LINE_JOIN;
    struct weir_decision decision = weir_bucket_show(bucket, limit, now_ns, NULL);
    if (operation->kind > LINE_JOIN && !stands) {
        decision = (struct weir_decision){.verdict = WEIR_NEVER};
    } else if (operation->kind == LINE_LEAVE) {
        bucket->word &= ~BUCKET_LINE;
    } else if (operation->kind == LINE_SERVE || (joins && !stands)) {
        decision = weir_bucket_take(bucket, limit, operation->cost * WEIR_UNIT, now_ns);
        bool waits = decision.verdict == WEIR_LIMITED;
        bucket->word = waits ? bucket->word | BUCKET_LINE : bucket->word & ~BUCKET_LINE;
    } else {
        decision.verdict = WEIR_LIMITED;
    }
    decision.retry_after_ns = decision.verdict == WEIR_LIMITED ? 1 : decision.retry_after_ns;
    return digest_answer(operation, &decision, NULL);
}

static bool is_of_line(const struct operation *operation, struct weir_bucket bucket)
{
    bool is_take = operation->kind == WEIR_TAKE || operation->kind == WEIR_CAN_TAKE;
    return operation->kind >= LINE_JOIN || (is_take && (bucket.word & BUCKET_LINE) != 0);
}

static bool is_blocked(const struct known *known, uint64_t now_ns)
{
    return (known->bucket.word & BUCKET_BLOCKED) != 0 && known->block_ns > now_ns;
}

/* Whether a block is the answer to it; none of them costs nothing, or too much for ever. */
static bool heeds_block(const struct operation *operation)
{
    return operation->kind == WEIR_TAKE || operation->kind == WEIR_CAN_TAKE
           || operation->kind == WEIR_FILL || operation->kind == WEIR_SHOW;
}

static void raise_block(struct known *known, uint64_t ends_ns)
{
    known->block_ns = known->block_ns > ends_ns ? known->block_ns : ends_ns;
    known->bucket.word |= BUCKET_BLOCKED;
}

/* Blocks, or lets in. */
static uint64_t act_on_block(struct known *known, const struct operation *operation)
{
    uint64_t now_ns = operation->now_ns;
    const struct weir_detail detail = {.existed = is_blocked(known, now_ns)};
    struct weir_decision decision =
        weir_bucket_show(&known->bucket, &model_rule.limit, now_ns, NULL);
    if (operation->kind == WEIR_BLOCK) {
        raise_block(known, now_ns + operation->cost);
        decision.verdict = WEIR_BLOCKED;
        decision.retry_after_ns = (int64_t)(known->block_ns - now_ns);
    } else if ((known->bucket.word & BUCKET_BLOCKED) != 0) {
        known->block_ns = known->block_ns < now_ns ? known->block_ns : now_ns;
        known->bucket.word &= ~BUCKET_BLOCKED;
    }
    return digest_answer(operation, &decision, &detail);
}

/* What a blocked key answers: how it stands, and until when. */
static uint64_t refuse_blocked(const struct known *known, const struct operation *operation)
{
    const struct weir_limit *limit = &model_rule.limit;
    uint64_t now_ns = operation->now_ns;
    struct weir_bucket bucket = known->bucket;
    struct weir_detail detail = {0};
    struct weir_amount nothing;
    struct weir_decision decision = weir_bucket_show(&bucket, limit, now_ns, &detail.amount);
    detail.existed = decision.reset_after_ns > 0;
    if (operation->kind == WEIR_FILL) {
        (void)weir_bucket_fill(&bucket, limit, 0, now_ns, &nothing, &detail.full);
        detail.amount.numerator_low = operation->cost * WEIR_UNIT; // all of it spills
    }
    decision.verdict = WEIR_BLOCKED;
    decision.retry_after_ns = (int64_t)(known->block_ns - now_ns);
    return digest_answer(operation, &decision, &detail);
}

/* A refusal locks its key out where the limit says so, and is told to come back after that; and so does a fill
 * that fills up. */
static void lock_out(struct known *known, const struct operation *operation,
                     struct weir_decision *decision, const struct weir_detail *detail)
{
    const struct weir_limit *limit = &model_rule.limit;
    bool is_refused = operation->kind == WEIR_TAKE && decision->verdict == WEIR_LIMITED;
    bool is_full = operation->kind == WEIR_FILL && detail->full;
    if (limit->block_ns != 0 && (is_refused || is_full)) {
        struct span moment = bucket_moment(known->bucket, limit);
        raise_block(known, kind_block_ends_ns(limit, moment, operation->now_ns));
        int64_t blocked_ns = (int64_t)(known->block_ns - operation->now_ns);
        if (is_refused && decision->retry_after_ns < blocked_ns) {
            decision->retry_after_ns = blocked_ns;
        }
    }
}

/* What the core makes of an operation, which is answered as of `told_ns`.
 *   has_room  for a block that it leads to */
static uint64_t act(struct known *known, const struct operation *operation, uint64_t now_ns,
                    uint64_t told_ns, bool has_room)
{
    const struct weir_limit *limit = &model_rule.limit;
    struct weir_bucket *bucket = &known->bucket;
    uint64_t cost_micro = operation->cost * WEIR_UNIT;
    if (operation->kind >= MOVE_ALL) {
        struct weir_decision nothing = {.verdict = WEIR_ALLOWED};
        return digest_answer(operation, &nothing, NULL);
    }
    if (operation->kind == WEIR_BLOCK || operation->kind == WEIR_UNBLOCK) {
        return act_on_block(known, operation);
    }
    if (heeds_block(operation) && is_blocked(known, operation->now_ns)) {
        return refuse_blocked(known, operation);
    }
    if (is_of_line(operation, *bucket)) {
        return act_in_line(bucket, operation, now_ns);
    }
    struct weir_detail detail = {0};
    struct weir_decision decision = weir_bucket_show(bucket, limit, now_ns, &detail.amount);
    detail.existed = decision.reset_after_ns > 0;
    switch (operation->kind) {
    case WEIR_TAKE: decision = weir_bucket_take(bucket, limit, cost_micro, now_ns); break;
    case WEIR_CAN_TAKE: decision = weir_bucket_can_take(bucket, limit, cost_micro, now_ns); break;
    case WEIR_FILL:
        decision =
            weir_bucket_fill(bucket, limit, cost_micro, now_ns, &detail.amount, &detail.full);
        break;
    case WEIR_REFUND: decision = weir_bucket_refund(bucket, limit, cost_micro, now_ns); break;
    case WEIR_RESET:
        decision = weir_bucket_refund(bucket, limit, WEIR_COST_MAX, now_ns); // all of it
        break;
    case WEIR_SHOW: break;
    }
    if (has_room) {
        lock_out(known, operation, &decision, &detail);
    }
    if (told_ns != now_ns) {
        decision = weir_bucket_show(bucket, limit, told_ns, NULL);
    }
    return digest_answer(operation, &decision, &detail);
}

/* ---- all ways ---- */

/* The keys of an operation that live in the same stripe as this one, and behind them those that it may block. */
static uint64_t neighbours(const struct operation *operation, int key)
{
    bool blocks = operation->kind == WEIR_BLOCK || model_rule.limit.block_ns != 0;
    uint64_t keys = 0;
    for (int i = 0; i <= operation->more_count; i++) {
        bool is_near = hash_of_key(key_of(operation, i)) >> 63 == hash_of_key(key) >> 63;
        uint64_t slots = blocks ? UINT64_C(1) | UINT64_C(1) << KEYS : 1;
        keys |= is_near ? slots << key_of(operation, i) : 0;
    }
    return keys;
}

static bool may_be_full(const struct operation *operation, int key)
{
    int slots = (int)(script->line_count / script->stripe_count) * TABLE_LINE_SLOTS;
    uint64_t keys = 0;
    for (int i = 0; i < script->setup_count; i++) {
        keys |= neighbours(&script->setup[i], key);
    }
    for (int i = 0; i < script->thread_count * script->operation_count; i++) {
        keys |= neighbours(
            &script->operations[i / script->operation_count][i % script->operation_count], key);
    }
    return __builtin_popcountll(keys) > slots
           && (operation->kind == WEIR_TAKE || operation->kind == WEIR_FILL
               || operation->kind == WEIR_BLOCK || operation->kind == LINE_JOIN);
}

static uint64_t answer_when_full(const struct operation *operation)
{
    struct weir_decision decision = {
        .verdict = WEIR_FAILED, .retry_after_ns = -1, .reset_after_ns = -1};
    return digest_answer(operation, &decision, NULL);
}

static void add_choice(struct choices *choices, struct choice choice)
{
    for (int i = 0; i < choices->count; i++) {
        const struct choice *other = &choices->at[i];
        bool is_weaker = other->late_ns == 0 || other->late_ns == choice.late_ns;
        if (is_weaker && other->answer == choice.answer
            && other->dropped_count <= choice.dropped_count
            && memcmp(other->keys, choice.keys, sizeof choice.keys) == 0) {
            return;
        }
    }
    assert(choices->count < CHOICES_MAX);
    choices->at[choices->count++] = choice;
}

static uint64_t later_of(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* As it looks to who has forgotten it until `since_ns`. */
static struct weir_bucket forgotten_until(struct weir_bucket bucket, uint64_t since_ns)
{
    uint64_t flags = bucket.word & (BUCKET_LINE | BUCKET_BLOCKED);
    return bucket.empty_at_ns < since_ns ? (struct weir_bucket){since_ns, flags} : bucket;
}

/* Who only looked leaves the bucket alone, whatever he saw; flags may have changed. */
static struct weir_bucket left_alone(struct weir_bucket bucket, struct weir_bucket seen,
                                     struct weir_bucket after)
{
    const uint64_t flags = BUCKET_LINE | BUCKET_BLOCKED;
    bool is_same =
        seen.empty_at_ns == after.empty_at_ns && (seen.word & ~flags) == (after.word & ~flags);
    bucket.word = (bucket.word & ~flags) | (after.word & flags);
    return is_same ? bucket : after;
}

/* How a key is seen by an operation. */
struct view {
    struct known known;
    uint64_t late_ns;
    bool has_room; // for a block
    uint64_t dropped_count;
};

/* The operation at `now_ns`, on a bucket that is empty no earlier than `since_ns`, answered as of
 * `told_ns`. */
static void add_acting(struct choices *choices, const struct view *view,
                       const struct operation *operation, uint64_t now_ns, uint64_t since_ns,
                       uint64_t told_ns)
{
    bool is_late = now_ns > operation->now_ns || since_ns > now_ns;
    struct known after = view->known;
    after.bucket = forgotten_until(after.bucket, since_ns);
    const struct weir_bucket seen = after.bucket;
    uint64_t answer = act(&after, operation, now_ns, told_ns, view->has_room);
    after.bucket = left_alone(view->known.bucket, seen, after.bucket);
    uint64_t late_ns = is_late ? later_of(since_ns, now_ns) : 0;
    add_choice(
        choices,
        (struct choice){{after}, answer, later_of(late_ns, view->late_ns), view->dropped_count});
}

/* `is_early`: other operations may begin before this one answers. */
static void choose_seen(struct choices *choices, const struct view *view,
                        const struct operation *operation, bool is_early)
{
    uint64_t readings[READINGS_MAX];
    int count = model_readings(readings, !is_early);
    bool moves_back = operation->kind == WEIR_REFUND || operation->kind == WEIR_RESET;
    add_acting(choices, view, operation, operation->now_ns, 0, operation->now_ns);
    for (int i = 0; i < count; i++) {
        if (readings[i] <= operation->now_ns) {
            continue;
        }
        add_acting(choices, view, operation, operation->now_ns, readings[i], operation->now_ns);
        for (int j = 0; j < count && moves_back; j++) {
            add_acting(choices, view, operation, readings[i], readings[j], readings[i]);
        }
        if (moves_back // the keeper answers by its own reading
            && (view->known.bucket.word & BUCKET_LINE) != 0) {
            add_acting(choices, view, operation, readings[i], 0, operation->now_ns);
        }
    }
}

/* A block that was over by some reading: nobody need find it any longer, and then one that is raised at an
 * older reading may begin where its slot was given away. Every way to see it so; returns how many. */
static int views_of(struct view *views, const struct known *known, uint64_t now_ns, bool raises,
                    bool is_early)
{
    uint64_t readings[READINGS_MAX];
    int reading_count = model_readings(readings, !is_early);
    int count = 0;
    views[count++] = (struct view){*known, 0, true, 0};
    for (int i = 0; i < reading_count; i++) {
        if (readings[i] <= now_ns || readings[i] < known->block_ns) {
            continue;
        }
        struct view over = {*known, readings[i], true, 0};
        over.known.bucket.word &= ~BUCKET_BLOCKED;
        if ((known->bucket.word & BUCKET_BLOCKED) != 0) {
            views[count++] = over;
        }
        if (raises) {
            over.known.block_ns = readings[i];
            views[count++] = over;
        }
    }
    return count;
}

enum { VIEWS_MAX = 3 * READINGS_MAX + 1 };

/* The earliest reading at which another key could drop a bucket of this one. */
static uint64_t earliest_drop_ns(int key)
{
    uint64_t earliest_ns = UINT64_MAX;
    for (int i = 0; i < script->thread_count * script->operation_count; i++) {
        const struct operation *operation =
            &script->operations[i / script->operation_count][i % script->operation_count];
        bool may_drop = operation->key != key && operation->now_ns < earliest_ns;
        earliest_ns = may_drop ? operation->now_ns : earliest_ns;
    }
    return earliest_ns;
}

/* And a live bucket that was dropped, at some reading. */
static int views_of_dropped(struct view *views, const struct known *known, int key, bool is_early)
{
    uint64_t earliest_ns = earliest_drop_ns(key);
    uint64_t readings[READINGS_MAX];
    int reading_count = model_readings(readings, !is_early);
    int count = 0;
    for (int i = 0; i < reading_count && model_evicts(); i++) {
        if (readings[i] >= earliest_ns && known->bucket.empty_at_ns >= readings[i]
            && (known->bucket.word & BUCKET_FLAGS) == 0) {
            views[count] = (struct view){*known, readings[i], true, 1};
            views[count++].known.bucket = (struct weir_bucket){readings[i], 0};
        }
    }
    return count;
}

static bool may_block(const struct operation *operation)
{
    return operation->kind == WEIR_BLOCK
           || (model_rule.limit.block_ns != 0
               && (operation->kind == WEIR_TAKE || operation->kind == WEIR_FILL));
}

static void choose(struct choices *choices, const struct known *known,
                   const struct operation *operation, bool is_early)
{
    struct view views[VIEWS_MAX];
    bool is_full = may_be_full(operation, operation->key);
    int count = views_of(views, known, operation->now_ns, may_block(operation), is_early);
    count += views_of_dropped(views + count, known, operation->key, is_early);
    choices->count = 0;
    for (int i = 0; i < count; i++) {
        choose_seen(choices, &views[i], operation, is_early);
        if (is_full && may_block(operation)) {
            views[i].has_room = false;
            choose_seen(choices, &views[i], operation, is_early);
        }
    }
    if (is_full) {
        add_choice(choices, (struct choice){{*known}, answer_when_full(operation), 0, 0});
    }
}

/* ---- several keys ---- */

/* The keys one after the other, each with its liberties, and then all or nothing. Of those that are blocked
 * together with others the scripts leave room for the blocks.
 *   keys     what is known of them
 *   views    how the first of them are seen
 *   is_full  one of them finds no room */
struct together {
    const struct operation *operation;
    struct known keys[TOGETHER_MAX], views[TOGETHER_MAX];
    bool is_full[TOGETHER_MAX];
    uint64_t late_ns;
};

/* What one of them says; *after is what its bucket comes to if all agree. */
static struct weir_decision ask_one(const struct together *together, int i, struct known *after)
{
    const struct operation *operation = together->operation;
    const struct weir_limit *limit = &model_rule.limit;
    uint64_t now_ns = operation->now_ns;
    *after = together->views[i];
    if (is_blocked(after, now_ns)) {
        struct weir_decision blocked = weir_bucket_show(&after->bucket, limit, now_ns, NULL);
        blocked.verdict = WEIR_BLOCKED;
        blocked.retry_after_ns = (int64_t)(after->block_ns - now_ns);
        return blocked;
    }
    if (together->is_full[i]) {
        return (struct weir_decision){
            .verdict = WEIR_FAILED, .retry_after_ns = -1, .reset_after_ns = -1};
    }
    return weir_bucket_take(&after->bucket, limit, cost_of(operation, i) * WEIR_UNIT, now_ns);
}

/* Whether no other verdict is among them. */
static bool are_limited(const struct weir_decision *decisions, int count)
{
    for (int i = 0; i < count; i++) {
        if (decisions[i].verdict != WEIR_ALLOWED && decisions[i].verdict != WEIR_LIMITED) {
            return false;
        }
    }
    return true;
}

static void act_together(struct choices *choices, const struct together *together)
{
    const struct operation *operation = together->operation;
    const struct weir_limit *limit = &model_rule.limit;
    int count = operation->more_count + 1;
    struct weir_decision decisions[TOGETHER_MAX];
    struct choice choice = {.late_ns = together->late_ns};
    bool agree = true;
    for (int i = 0; i < count; i++) {
        decisions[i] = ask_one(together, i, &choice.keys[i]);
        agree = agree && decisions[i].verdict == WEIR_ALLOWED;
    }
    bool locks = operation->kind == WEIR_TAKE && are_limited(decisions, count);
    for (int i = 0; i < count; i++) {
        struct known known = together->views[i];
        if (!agree && decisions[i].verdict == WEIR_ALLOWED) {
            decisions[i] = weir_bucket_show(&known.bucket, limit, operation->now_ns, NULL);
        }
        if (locks) {
            lock_out(&known, operation, &decisions[i], &(struct weir_detail){.full = false});
        }
        const struct weir_bucket seen = together->views[i].bucket;
        if (agree && operation->kind == WEIR_TAKE) {
            known = choice.keys[i];
        }
        known.bucket = left_alone(together->keys[i].bucket, seen, known.bucket);
        choice.keys[i] = known;
    }
    choice.answer = digest_together(operation, decisions);
    add_choice(choices, choice);
}

static void choose_together(struct choices *choices, struct together *together, int i,
                            bool is_early)
{
    const struct operation *operation = together->operation;
    if (i > operation->more_count) {
        act_together(choices, together);
        return;
    }
    uint64_t late_ns = together->late_ns;
    uint64_t readings[READINGS_MAX];
    struct view views[VIEWS_MAX];
    int count = model_readings(readings, !is_early);
    int view_count =
        views_of(views, &together->keys[i], operation->now_ns, may_block(operation), is_early);
    for (int j = 0; j < view_count; j++) {
        together->views[i] = views[j].known;
        together->late_ns = later_of(late_ns, views[j].late_ns);
        choose_together(choices, together, i + 1, is_early);
    }
    together->views[i] = together->keys[i];
    together->late_ns = late_ns;
    if (may_be_full(operation, key_of(operation, i))) {
        together->is_full[i] = true;
        choose_together(choices, together, i + 1, is_early);
        together->is_full[i] = false;
    }
    for (int j = 0; j < count; j++) {
        if (readings[j] > operation->now_ns && readings[j] > together->keys[i].bucket.empty_at_ns) {
            together->views[i].bucket = forgotten_until(together->keys[i].bucket, readings[j]);
            together->late_ns = later_of(late_ns, readings[j]);
            choose_together(choices, together, i + 1, is_early);
        }
    }
    together->late_ns = late_ns;
}

void acts_choose(struct choices *choices, const struct guess *guess,
                 const struct operation *operation, bool is_early)
{
    if (operation->more_count == 0) {
        choose(choices, &guess->keys[operation->key], operation, is_early);
        return;
    }
    struct together together = {.operation = operation};
    bool is_behind = false;
    choices->count = 0;
    for (int i = 0; i <= operation->more_count; i++) {
        together.keys[i] = guess->keys[key_of(operation, i)];
        is_behind = is_behind || (together.keys[i].bucket.word & BUCKET_LINE) != 0;
    }
    if (is_behind) {
        struct choice choice = {.answer = DIGEST_BEHIND_A_LINE};
        memcpy(choice.keys, together.keys, sizeof choice.keys);
        add_choice(choices, choice);
    } else {
        choose_together(choices, &together, 0, is_early);
    }
}
