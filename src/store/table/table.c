/* SPDX-License-Identifier: MIT
 *
 * The table as a store: decisions in batches, and the short way of a take from a bucket that is there.
 * Everything else is in the other chapters; inside.h lists them. */
#include "store/table/table.h"

#include <assert.h>
#include <stdlib.h>

#include "core/kinds.h"
#include "core/operation.h"
#include "core/undecided.h"
#include "platform/siphash.h"
#include "store/table/displaced.h"
#include "store/table/home.h"
#include "store/table/inside.h"
#include "sync/atomic.h"
#include "sync/backoff.h"

/* What is known of a request on its way through a batch. */
struct step {
    uint64_t hash;
    uint64_t home;
    struct table_line *line; // where the key probably lives
};

/* A usual take from the bucket that was found. False if it changed meanwhile, or has to do more. */
ALWAYS_INLINE bool take_found(const struct found *found, const struct weir_limit *limit,
                              uint64_t span_ns, uint64_t now_ns, struct weir_decision *decision)
{
    struct outcome outcome = usual_take(found->seen, limit, span_ns, now_ns);
    struct weir_bucket next = bucket_with_moment(found->seen, outcome.moment);
    if (outcome.verdict == WEIR_ALLOWED && !cas_bucket(found->state, found->seen, next)) {
        back_off_for(BACKOFF_TURNS_FIRST);
        return false;
    }
    if (outcome.verdict == WEIR_LIMITED && __builtin_expect(limit->block_ns != 0, 0)) {
        return false; // it locks its key out
    }
    usual_answer(decision, limit, span_ns, outcome, now_ns);
    return true;
}

/* The same of one unit, from a queue whose refusals block nobody. False if it changed meanwhile. */
__attribute__((noinline)) static bool take_from_queue(const struct weir_limit *limit,
                                                      struct weir_bucket *state,
                                                      struct weir_bucket seen, uint64_t now_ns,
                                                      struct weir_decision *decision)
{
    struct outcome outcome = usual_take(seen, limit, limit->unit_ns, now_ns);
    struct weir_bucket next = bucket_with_moment(seen, outcome.moment);
    if (outcome.verdict == WEIR_ALLOWED && !cas_bucket(state, seen, next)) {
        back_off_for(BACKOFF_TURNS_FIRST);
        return false;
    }
    usual_queue_answer(decision, limit, outcome, now_ns);
    return true;
}

/* Any other take from the bucket that was found, unless there is more to it: its flags, a refusal that blocks, or
 * a limit of zeroes. By itself, so that what it needs costs the usual take nothing. False if the bucket changed
 * meanwhile. */
__attribute__((noinline, flatten)) static bool
take_otherwise(struct table *table, const struct weir_limit *limit, uint64_t cost_micro,
               struct weir_bucket *state, struct weir_bucket seen, uint64_t now_ns,
               struct weir_decision *decision)
{
    if ((seen.word & BUCKET_FLAGS) != 0 || limit->block_ns != 0 || kind_has_log(limit)
        || !limit_is_compiled(limit)) {
        return false;
    }
    struct charge charge = charge_of(limit, cost_micro);
    if (limit->kind == WEIR_KIND_FIXED && fixed_opens(bucket_moment(seen, limit), now_ns)) {
        charge.utc_offset_ns = table_utc_offset_ns(table, now_ns);
    }
    struct outcome outcome = kind_take(seen, limit, &charge, now_ns);
    struct weir_bucket next = bucket_with_moment(seen, outcome.moment);
    bool is_charged = outcome.verdict == WEIR_ALLOWED && cost_micro != 0;
    if (is_charged && !cas_bucket(state, seen, next)) { // up: takes lower nothing
        back_off_for(BACKOFF_TURNS_FIRST);
        return false;
    }
    kind_answer_take(decision, limit, &charge, outcome, now_ns);
    return true;
}

/* A take from a bucket that is where the step says, and best of all a usual one. False: it is not there, or there
 * is more to it. */
ALWAYS_INLINE bool take_step(struct table *table, const struct weir_limit *limit,
                             uint64_t cost_micro, const struct step *step, uint64_t now_ns,
                             struct weir_decision *decision)
{
    uint64_t span_ns = usual_span_ns(limit, cost_micro);
    struct found found;
    if (!__builtin_expect(table_look(step->line, step->hash, &found), 1)) {
        return false;
    }
    if (__builtin_expect(bucket_is_usual(found.seen), 1)) {
        if (__builtin_expect(span_ns != 0, 1)) {
            return take_found(&found, limit, span_ns, now_ns, decision);
        }
        if (queue_is_usual(limit, cost_micro)) {
            return take_from_queue(limit, found.state, found.seen, now_ns, decision);
        }
    }
    return take_otherwise(table, limit, cost_micro, found.state, found.seen, now_ns, decision);
}

/* Decides, hoping for such a take. */
ALWAYS_INLINE void decide_step(struct table *table, const struct weir_request *request,
                               const struct step *step, uint64_t now_ns,
                               struct weir_decision *decision)
{
    if (!__builtin_expect(request->operation == WEIR_TAKE, 1)
        || !take_step(table, &request->rule->limit, request->cost_micro, step, now_ns, decision)) {
        table_decide_anywhere(table, request, step->hash, step->home, now_ns, decision);
    }
}

/* A hash is a tag, and 0 is the tag of a slot that was never used. */
static uint64_t tag_of(uint64_t hash)
{
    return hash + (hash == 0);
}

static void fetch(const void *line)
{
    __builtin_prefetch(line, 0, 3); // for reading: a refusal must not take the line from others
}

/* Where the key's home is. */
static inline void start_step(const struct table *table, struct step *step, uint64_t hash)
{
    step->hash = tag_of(hash);
    step->home = table_home_of(table, step->hash);
    step->line = &table->lines[step->home];
}

/* Guesses where the key lives, at home or where a hint says, and sends for that line. Free of
 * branches; whoever uses the guess looks properly. */
static inline void guess_step(const struct table *table, struct step *step)
{
    uint64_t distance = displaced_distance(load_relaxed(&step->line->displaced), step->hash);
    for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
        bool is_here = load_relaxed(&step->line->tags[i]) == step->hash;
        distance &= (uint64_t)is_here - 1;
    }
    step->line = probe_line(table, step->home, distance);
    fetch(step->line);
}

_Static_assert(TABLE_BATCH == 2 * TABLE_GROUP, "a batch is two groups");

enum { RUNS_AHEAD = 8 }; // requests whose stripes are sent for before one is locked

static inline void start_steps(const struct table *table, const struct weir_request *requests,
                               struct step *steps, size_t count)
{
    struct siphash_input inputs[TABLE_GROUP];
    uint64_t hashes[TABLE_GROUP];
    assert(count > 0);
    for (size_t i = 0; i < count; i++) {
        const struct weir_request *request = &requests[i];
        inputs[i] = (struct siphash_input){request->rule->hash_key, request->key, request->key_len};
    }
    siphash13_many(inputs, hashes, count);
    for (size_t i = 0; i < count; i++) {
        start_step(table, &steps[i], hashes[i]);
    }
}

/* Sends for the stripes that runs will lock, of the requests up to `end`. */
static inline void fetch_stripes(const struct table *table, const struct weir_request *requests,
                                 const struct step *steps, size_t *fetched, size_t end)
{
    for (; *fetched < end; ++*fetched) {
        if (requests[*fetched].and_next) {
            __builtin_prefetch(table_stripe_of(table, steps[*fetched].hash), 1, 3);
        }
    }
}

/* Requests that are decided together. */
__attribute__((noinline)) static void decide_run(struct table *table,
                                                 const struct weir_request *requests,
                                                 const struct step *steps, uint64_t now_ns,
                                                 struct weir_decision *decisions, size_t count)
{
    uint64_t hashes[WEIR_TOGETHER_MAX];
    struct found found[WEIR_TOGETHER_MAX];
    bool is_usual = true;
    if (count > WEIR_TOGETHER_MAX) {
        answer_nonsense(requests, decisions, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        hashes[i] = steps[i].hash;
        is_usual = is_usual && requests[i].operation == WEIR_TAKE
                   && (table_look(steps[i].line, hashes[i], &found[i])
                       || table_find(table, hashes[i], steps[i].home, &found[i]))
                   && bucket_is_usual(found[i].seen);
    }
    if (is_usual && table_take_together(table, requests, hashes, found, decisions, count, now_ns)) {
        return;
    }
    table_decide_together(table, requests, hashes, decisions, count, now_ns);
}

/* Up to TABLE_BATCH requests. Waiting for memory is most of the price of a decision, so it is paid
 * for all of them at once: the lines are sent for before the first is looked at, and a displaced
 * bucket's own line is sent for TABLE_GROUP requests before it is decided on. No more than
 * TABLE_GROUP home lines are on their way at once: processors drop prefetches beyond some twenty,
 * without a word, and whoever needs the line then waits for it. */
static void decide_batch(struct table *table, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count, uint64_t *now_ns)
{
    struct step steps[TABLE_BATCH];
    assert(count > 0 && count <= TABLE_BATCH);
    size_t ahead = count < TABLE_GROUP ? count : TABLE_GROUP;
    start_steps(table, requests, steps, ahead);
    for (size_t i = 0; i < ahead; i++) {
        fetch(steps[i].line);
    }
    if (count > ahead) { // meanwhile
        start_steps(table, requests + ahead, steps + ahead, count - ahead);
    }
    if (*now_ns == STORE_NOW) {
        *now_ns = store_clock_now_ns(&table->clock);
    }
    for (size_t i = 0; i < ahead; i++) {
        guess_step(table, &steps[i]);
        if (i + ahead < count) {
            fetch(steps[i + ahead].line);
        }
    }
    for (size_t i = 0, first = 0, fetched = 0; i < count; i++) {
        if (i + ahead < count) {
            guess_step(table, &steps[i + ahead]);
        }
        if (__builtin_expect(requests[i].and_next && i + 1 < count, 0)) {
            size_t end = i + RUNS_AHEAD < count ? i + RUNS_AHEAD : count;
            fetch_stripes(table, requests, steps, &fetched, end);
            continue; // decided with the last of its run
        }
        if (__builtin_expect(i == first, 1)) {
            decide_step(table, &requests[i], &steps[i], *now_ns, &decisions[i]);
        } else {
            decide_run(table, requests + first, steps + first, *now_ns, decisions + first,
                       i + 1 - first);
        }
        first = i + 1;
    }
}

static void decide_one(struct table *table, const struct weir_request *request,
                       struct weir_decision *decision, uint64_t now_ns)
{
    struct step step;
    start_step(table, &step, siphash13(request->rule->hash_key, request->key, request->key_len));
    fetch(step.line);
    now_ns = now_ns == STORE_NOW ? store_clock_now_ns(&table->clock) : now_ns;
    guess_step(table, &step);
    decide_step(table, request, &step, now_ns, decision);
}

/* How many of the next requests make a batch: what is decided together is not divided. */
static size_t batch_of(const struct weir_request *requests, size_t count)
{
    if (count <= TABLE_BATCH) {
        return count;
    }
    size_t some = TABLE_BATCH;
    while (some > 0 && requests[some - 1].and_next) {
        some--;
    }
    return some > 0 ? some : run_length(requests, count);
}

/* Whether this process may use the memory: not a child that inherited what is its parent's alone. Acquire: a thread
 * that finds the guard ours finds the member that another thread has made of this child (table_own()). Not one of
 * the explorer's steps: nobody forks there. */
static inline bool is_for_us(struct table *root)
{
    uint64_t guard = __atomic_load_n(root->guard, __ATOMIC_ACQUIRE);
    return __builtin_expect(guard == GUARD_OURS, 1) || !table_is_inherited(root)
           || (root->members.fd >= 0 && table_join_again(root));
}

static void table_decide(struct store *store, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    if (__builtin_expect(!is_for_us((struct table *)store), 0)) {
        table_answer_undecided(table_current(store), requests, decisions, count, now_ns);
        return;
    }
    struct table *table = table_current(store);
    if (count == 1) {
        decide_one(table, requests, decisions, now_ns);
        return;
    }
    for (size_t at = 0; at < count;) {
        size_t some = batch_of(requests + at, count - at);
        if (some <= TABLE_BATCH) {
            decide_batch(table, requests + at, decisions + at, some, &now_ns);
        } else { // one run, and too long
            answer_nonsense(requests + at, decisions + at, some);
        }
        at += some;
    }
}

/* One take that no short way answers. Its key is known by the hash now. */
__attribute__((noinline, cold)) static void
take_anywhere(struct table *table, const struct weir_rule *rule, uint64_t cost_micro, uint64_t hash,
              uint64_t now_ns, struct weir_decision *decision)
{
    const struct weir_request request = {
        .rule = rule, .cost_micro = cost_micro, .operation = WEIR_TAKE};
    table_decide_anywhere(table, &request, hash, table_home_of(table, hash), now_ns, decision);
}

/* One take in a process that may not use the buckets. */
__attribute__((noinline, cold)) static void take_undecided(struct table *table,
                                                           const struct weir_rule *rule,
                                                           uint64_t cost_micro,
                                                           struct weir_decision *decision)
{
    const struct weir_request request = {
        .rule = rule, .cost_micro = cost_micro, .operation = WEIR_TAKE};
    table_answer_undecided(table, &request, decision, 1, STORE_NOW);
}

/* decide() of one take, as short as it can be: while a processor waits for the line it works ahead, as far as the
 * next call's prefetch if little enough lies between. So there is no request here, and what was found stays in
 * registers. tests/processes/call_steps.c counts the instructions.
 *
 * The line behind the home is sent for as well: of the keys that are displaced most are there. Where reading the
 * counter waits for all that came before it, as on some Intel, the guess is too late for another whole miss. */
NO_CANARY static struct weir_decision table_take(struct store *store, const struct weir_rule *rule,
                                                 const void *key, size_t key_len,
                                                 uint64_t cost_micro)
{
    struct weir_decision decision;
    struct step step;
    if (__builtin_expect(!is_for_us((struct table *)store), 0)) {
        take_undecided(table_current(store), rule, cost_micro, &decision);
        return decision;
    }
    struct table *table = table_current(store);
    start_step(table, &step, siphash13(rule->hash_key, key, key_len));
    fetch(step.line);
    fetch(step.line + 1);
    uint64_t now_ns = store_clock_now_ns(&table->clock);
    guess_step(table, &step);
    if (!__builtin_expect(take_step(table, &rule->limit, cost_micro, &step, now_ns, &decision),
                          1)) {
        take_anywhere(table, rule, cost_micro, step.hash, now_ns, &decision);
    }
    return decision;
}

static uint64_t table_blocked_until_ns(const struct store *store, uint64_t id)
{
    return table_block_ends_ns(table_current(store), id);
}

static uint64_t table_id(const struct store *store, const struct weir_request *request)
{
    (void)store;
    return tag_of(siphash13(request->rule->hash_key, request->key, request->key_len));
}

static uint64_t events_bytes(const struct table *table)
{
    return table->events.header != NULL ? (table->events.chunk_count + 1) * CHUNK_BYTES : 0;
}

/* Of all but the events. */
static uint64_t table_bytes(const struct table *table)
{
    bool is_one_mapping = table->events_mapping.at == NULL;
    uint64_t bytes = table->mapping.bytes;
    return is_one_mapping && bytes != 0 ? bytes - events_bytes(table) : bytes;
}

static void table_stats(const struct store *store, struct weir_limiter_stats *stats)
{
    const struct table *table = table_current(store);
    *stats = (struct weir_limiter_stats){
        .memory_bytes = table_bytes(table),
        .slot_count = table->stripe_count * table->stripe_lines * TABLE_LINE_SLOTS,
        .events_bytes = events_bytes(table),
        .events_used_bytes = event_pool_used_count(&table->events) * CHUNK_BYTES,
        .events_full_count = event_pool_full_count(&table->events),
    };
    for (uint64_t i = 0; i < table->stripe_count; i++) { // relaxed: statistics
        stats->used_count += load_relaxed(&table->stripes[i].used_count);
        stats->reused_count += load_relaxed(&table->stripes[i].reused_count);
        stats->full_count += load_relaxed(&table->stripes[i].full_count);
        stats->evicted_count += load_relaxed(&table->stripes[i].evicted_count);
    }
}

static void close_one(struct table *table)
{
    table_leave(table);
    mapping_close(&table->mapping);
    mapping_close(&table->events_mapping);
}

static void table_close(struct store *store)
{
    struct table *root = (struct table *)store;
    close_one(root);
    for (struct table *table = root->next; table != NULL;) { // those that it led to
        struct table *next = table->next;
        close_one(table);
        free(table);
        table = next;
    }
    mapping_close(&root->guard_page);
    free(root->origin);
    free(root);
}

static uint64_t table_now_ns(const struct store *store)
{
    return store_clock_now_ns(&table_current(store)->clock);
}

static enum weir_status table_status(struct store *store)
{
    struct table *root = (struct table *)store;
    if (load_relaxed(&root->is_lost) != 0) { // relaxed: nothing follows from it
        return WEIR_E_FILE;
    }
    bool is_private = root->members.fd < 0;
    return is_for_us(root) ? WEIR_OK : is_private ? WEIR_E_FORKED : WEIR_E_SYSTEM;
}

static const struct waiting_area *table_waiting_area(const struct store *store)
{
    return &((const struct table *)store)->waiting;
}

static const struct line_ops TABLE_LINES = {
    .id = table_id,
    .decide_in_line = table_decide_in_line,
    .decide_run_in_line = table_decide_together_in_line,
    .move_line = table_move_line,
    .blocked_until_ns = table_blocked_until_ns,
    .visit_drain = table_visit_drain,
    .utc_offset_ns = table_seen_utc_offset_ns,
    .waiting_area = table_waiting_area,
    .waits_elsewhere = table_waits_elsewhere,
    .follow_waiting = table_follow_waiting,
};

static const struct upkeep_ops TABLE_UPKEEP = {
    .census = table_census,
    .look_at_name = table_look_at_name,
    .regain_name = table_regain_name,
    .describe = table_describe,
    .reset_all = table_reset_all,
};

static const struct store_ops TABLE_OPS = {
    .decide = table_decide,
    .take = table_take,
    .now_ns = table_now_ns,
    .status = table_status,
    .stats = table_stats,
    .close = table_close,
    .lines = &TABLE_LINES,
    .upkeep = &TABLE_UPKEEP,
};

void table_init(struct table *table, struct table_line *lines, struct stripe *stripes,
                uint64_t stripe_count, uint64_t stripe_lines)
{
    static uint64_t nobodys_child = GUARD_OURS; // never changes
    assert(stripe_count > 0);
    assert(stripe_lines > 0 && (stripe_lines & (stripe_lines - 1)) == 0);
    *table = (struct table){
        .store = {.ops = &TABLE_OPS},
        .root = table,
        .current = table,
        .waits_in = table,
        .lines = lines,
        .stripes = stripes,
        .stripe_count = stripe_count,
        .stripe_lines = stripe_lines,
        .guard = &nobodys_child,
        .members = MEMBERSHIP_OF_ONE,
    };
}
