/* SPDX-License-Identifier: MIT
 *
 * What the table takes for shared memory. A thread is run by calling its operation from the start:
 * accesses that it has already made give what they gave (they are replayed, and touch nothing), the
 * next one is made and written down, and at the one after it the thread leaves by longjmp(). So no
 * stacks are kept: a thread's state is the list of what it saw.
 *
 * Some accesses are glued to the one before, because they commute with everything that other
 * threads may do (R. Lipton's movers): releasing the lock; and, while holding it, statistics and
 * reads of words that are only written under it. That they are is checked at every write.
 *
 * Without the lock a tag that is not one of the operation's own reads as 0: the table only asks whether
 * it is, and states that differ in nothing else are then equal. */
#include <assert.h>

#include "core/bucket_math.h"
#include "explore.h"
#include "sync/atomic.h"

jmp_buf memory_stop;

static int replayed_count;
static bool has_stepped;

void memory_start(void)
{
    replayed_count = 0;
    has_stepped = false;
}

bool memory_has_stepped(void)
{
    return has_stepped;
}

/* Each key's home is the line of its number, in two stripes the stripe; keys 0 and 2 have equal owner
 * bits, but where live buckets are dropped: there the price of equal bits is known (slots.c). */
uint64_t hash_of_key(int key)
{
    static const uint64_t OWNERS[2][KEYS] = {{5, 6, 5}, {5, 6, 7}};
    uint64_t number = (uint64_t)key;
    uint64_t stripe = script->stripe_count > 1 ? number & 1 : 0;
    return stripe << 63 | (number + 1) << 32 | OWNERS[model_evicts()][key] << 16 | (number & 1);
}

bool holds_stripe(int thread)
{
    bool holds = world.shared.later.stripe.lock.mutex.holder == (uint64_t)thread + 1;
    for (int i = 0; i < STRIPES_MAX; i++) {
        holds = holds || world.shared.stripes[i].lock.mutex.holder == (uint64_t)thread + 1;
    }
    return holds;
}

/* Stripes are counted through: those of the table, then that of the table to which buckets go. */
enum { LATER_STRIPE = STRIPES_MAX };

static const struct stripe *stripe_at(int i)
{
    return i < STRIPES_MAX ? &world.shared.stripes[i] : &world.shared.later.stripe;
}

static int stripe_of_line(int line)
{
    if (line >= LINES_MAX) {
        return LATER_STRIPE;
    }
    return script->stripe_count > 1 ? line : 0;
}

/* Whether it is held by whom this step belongs to: the lock of this stripe. */
static bool holds_lock(int stripe)
{
    return stripe_at(stripe)->lock.mutex.holder == (uint64_t)running + 1;
}

static bool holds_lines(void)
{
    return world.shared.lines_mutex.holder == (uint64_t)running + 1;
}

static bool is_within(const void *at, const void *start, size_t size)
{
    return (uintptr_t)at >= (uintptr_t)start && (uintptr_t)at < (uintptr_t)start + size;
}

/* The i-th line of both tables. */
static const struct table_line *line_of(int i)
{
    return i < LINES_MAX ? &world.shared.lines[i] : &world.shared.later.lines[i - LINES_MAX];
}

/* Words that are written under the lock of a stripe only, all but states: which one's; -1 for all others. */
static int guard_of(const void *at)
{
    for (int i = 0; i < 2 * LINES_MAX; i++) {
        const struct table_line *line = line_of(i);
        if (is_within(at, line->tags, sizeof line->tags) || at == &line->displaced
            || at == &line->lowered_from_ns) {
            return stripe_of_line(i);
        }
    }
    for (int i = 0; i <= LATER_STRIPE; i++) {
        if (is_within(at, stripe_at(i), sizeof *stripe_at(i))) {
            return i;
        }
    }
    return -1;
}

/* Whether it is one of them, and its lock is held. */
static bool is_guarded(const void *at)
{
    int stripe = guard_of(at);
    return stripe >= 0 && holds_lock(stripe);
}

/* The table that nobody but the mover looks at yet, so that what it does there commutes with everything. */
static bool is_private(const void *at)
{
    const struct later *later = &world.shared.later;
    bool is_later = is_within(at, later->lines, sizeof later->lines)
                    || is_within(at, &later->stripe, sizeof later->stripe);
    return is_later && move_is_ours(running);
}

/* Read and written by whoever keeps the lines only, so never a step of its own. */
static bool is_of_lines(const void *at)
{
    return is_within(at, world.shared.standing, sizeof world.shared.standing);
}

static bool is_statistic_of(const void *at, const struct stripe *stripe)
{
    return at == &stripe->used_count || at == &stripe->reused_count || at == &stripe->full_count
           || at == &stripe->evicted_count;
}

static bool is_statistic(const void *at)
{
    bool is_one = false;
    for (int i = 0; i <= LATER_STRIPE; i++) {
        is_one = is_one || is_statistic_of(at, stripe_at(i));
    }
    return is_one;
}

/* Whether a tag is of a key that the thread's operation asks for, or of its block. */
static bool is_own(uint64_t tag)
{
    const struct operation *operation =
        &script->operations[running][world.fibers[running].done_count];
    bool own = false;
    for (int i = 0; i <= operation->more_count; i++) {
        uint64_t hash = hash_of_key(key_of(operation, i));
        own = own || tag == hash || tag == table_block_of(hash);
    }
    return own;
}

/* Comes to an access. True: make it now, and write down in *seen what it gave. False: it was made
 * before, and gave *seen. Does not return if it is for a later step. */
static bool reach(struct observation **seen, bool is_glued)
{
    struct fiber *fiber = &world.fibers[running];
    if (replayed_count < fiber->seen_count) {
        *seen = &fiber->seen[replayed_count++];
        return false;
    }
    if (has_stepped && !is_glued) {
        longjmp(memory_stop, 1);
    }
    if (fiber->seen_count == STEPS_MAX) {
        explore_violation("an operation that does not end");
    }
    has_stepped = true;
    *seen = &fiber->seen[fiber->seen_count++];
    **seen = (struct observation){0, 0};
    replayed_count++;
    return true;
}

static void note(const struct observation *seen)
{
    struct fiber *fiber = &world.fibers[running];
    fiber->seen_digest = digest_mix(digest_mix(fiber->seen_digest, seen->low), seen->high);
}

static bool is_tag(const void *at)
{
    for (int i = 0; i < 2 * LINES_MAX; i++) {
        if (is_within(at, line_of(i)->tags, sizeof line_of(i)->tags)) {
            return true;
        }
    }
    return false;
}

static uint64_t load(const uint64_t *word)
{
    struct observation *seen;
    if (reach(&seen, is_guarded(word) || is_of_lines(word) || is_private(word))) {
        if (is_of_lines(word) && !holds_lines()) {
            explore_violation("a look at a line without its lock");
        }
        bool is_foreign = !is_guarded(word) && !is_private(word) && is_tag(word) && !is_own(*word);
        seen->low = is_foreign ? 0 : *word;
        note(seen);
    }
    return seen->low;
}

/* The same, when a slot's tag changes. */
static void check_publish(const uint64_t *tag)
{
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct table_line *line = &world.shared.lines[i / TABLE_LINE_SLOTS];
        struct ghost *ghost = &world.shared.ghosts[i];
        uint64_t since_ns = line->states[i % TABLE_LINE_SLOTS].empty_at_ns;
        if (tag != &line->tags[i % TABLE_LINE_SLOTS]) {
            continue;
        }
        if (*tag != 0 && since_ns <= ghost->highest_ns && !model_evicts()) {
            explore_violation("a slot reused at a moment that its former bucket had");
        }
        ghost->given_at_ns = *tag != 0 ? since_ns : 0;
        ghost->highest_ns = since_ns;
    }
}

static void store(uint64_t *word, uint64_t value)
{
    struct observation *seen;
    if (reach(&seen,
              (is_guarded(word) && is_statistic(word)) || is_of_lines(word) || is_private(word))) {
        if (is_of_lines(word) && !holds_lines()) {
            explore_violation("a change of a line without its lock");
        }
        if (guard_of(word) >= 0 && !is_guarded(word) && !is_private(word)) {
            explore_violation("a write without the lock");
        }
        check_publish(word);
        *word = value;
        note(seen);
    }
}

uint64_t load_acquire(const uint64_t *word)
{
    return load(word);
}

uint64_t load_relaxed(const uint64_t *word)
{
    return load(word);
}

void store_release(uint64_t *word, uint64_t value)
{
    store(word, value);
}

void store_relaxed(uint64_t *word, uint64_t value)
{
    store(word, value);
}

bool cas_word(uint64_t *word, uint64_t *expected, uint64_t next)
{
    struct observation *seen;
    if (reach(&seen, false)) {
        if (guard_of(word) >= 0 && !is_guarded(word)) {
            explore_violation("a write without the lock");
        }
        seen->low = *word;
        seen->high = *word == *expected;
        *word = seen->high != 0 ? next : *word;
        note(seen);
    }
    *expected = seen->low;
    return seen->high != 0;
}

/* The invariants that the contract of slots.c rests on, when a state changes. */
static void check_swap(const struct weir_bucket *state, struct weir_bucket before,
                       struct weir_bucket after)
{
    int slot = 0;
    if (is_within(state, world.shared.later.lines, sizeof world.shared.later.lines)) {
        return; // nothing is reused there but what the first table has shown to be right
    }
    while (&world.shared.lines[slot / TABLE_LINE_SLOTS].states[slot % TABLE_LINE_SLOTS] != state) {
        slot++;
        assert(slot < SLOTS_MAX);
    }
    struct ghost *ghost = &world.shared.ghosts[slot];
    bool holds = holds_lock(stripe_of_line(slot / TABLE_LINE_SLOTS));
    uint64_t tag = world.shared.lines[slot / TABLE_LINE_SLOTS].tags[slot % TABLE_LINE_SLOTS];
    bool is_its_tags = tag != 0 && (before.word & BUCKET_OWNER_MASK) == table_owner_of(tag)
                       && (after.word & BUCKET_OWNER_MASK) == table_owner_of(tag);
    if (((before.word ^ after.word) & BUCKET_LINE) != 0 && !holds_lines()) {
        explore_violation("a mark changed by somebody who keeps no lines");
    }
    if (((before.word ^ after.word) & BUCKET_BLOCKED) != 0 && !holds) {
        explore_violation("the flag of a block changed without the lock");
    }
    if (((before.word | after.word) & BUCKET_MARKED) != 0 && !holds) {
        explore_violation("a state changed that ought to stand still");
    }
    bool is_same_owner = ((before.word ^ after.word) & BUCKET_OWNER_MASK) == 0;
    if (!is_its_tags && !holds && !(model_evicts() && is_same_owner)) {
        explore_violation("a slot given away without the lock");
    }
    if (!is_its_tags) {
        return; // on its way to another key: see check_publish()
    }
    if (after.empty_at_ns < ghost->given_at_ns) {
        explore_violation("a bucket moved back to before it was given its slot");
    }
    if (after.empty_at_ns > ghost->highest_ns) {
        ghost->highest_ns = after.empty_at_ns;
    }
    if (((before.word | after.word) & BUCKET_IS_BLOCK) != 0) {
        if (!holds) {
            explore_violation("a block changed without the lock");
        }
        ghost->highest_ns = after.empty_at_ns; // so nobody else remembers a higher one
    }
}

bool cas_bucket(struct weir_bucket *bucket, struct weir_bucket expected, struct weir_bucket next)
{
    struct observation *seen;
    if (reach(&seen, false)) {
        seen->low = bucket->empty_at_ns == expected.empty_at_ns && bucket->word == expected.word;
        if (seen->low != 0) {
            check_swap(bucket, expected, next);
            *bucket = next;
        }
        note(seen);
    }
    return seen->low != 0;
}

struct weir_bucket load_bucket(const struct weir_bucket *bucket)
{
    struct observation *seen;
    if (reach(&seen, false)) {
        *seen = (struct observation){bucket->empty_at_ns, bucket->word};
        note(seen);
    }
    return (struct weir_bucket){seen->low, seen->high};
}

bool mutex_lock(struct mutex *mutex)
{
    struct observation *seen;
    struct fiber *fiber = &world.fibers[running];
    if (replayed_count == fiber->seen_count && mutex->holder != 0) {
        longjmp(memory_stop, 1); // not now
    }
    if (reach(&seen, false)) {
        mutex->holder = (uint64_t)running + 1;
        note(seen);
    }
    return false;
}

void mutex_unlock(struct mutex *mutex)
{
    struct observation *seen;
    if (reach(&seen, true)) {
        if (mutex->holder != (uint64_t)running + 1) {
            explore_violation("a lock released by another thread");
        }
        mutex->holder = 0;
        note(seen);
    }
}

static void check_quiet(const struct table_line lines[LINES_MAX])
{
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct table_line *line = &lines[i / TABLE_LINE_SLOTS];
        uint64_t tag = line->tags[i % TABLE_LINE_SLOTS];
        uint64_t word = line->states[i % TABLE_LINE_SLOTS].word;
        if (tag != 0 && (word & BUCKET_OWNER_MASK) != table_owner_of(tag)) {
            explore_violation("a slot whose owner bits are not its tag's");
        }
        if ((word & BUCKET_MARKED) != 0) {
            explore_violation("a mark that somebody left behind");
        }
        for (int j = 0; j < i && tag != 0; j++) {
            if (lines[j / TABLE_LINE_SLOTS].tags[j % TABLE_LINE_SLOTS] == tag) {
                explore_violation("a key in two slots");
            }
        }
    }
}

void memory_check_quiet(void)
{
    check_quiet(world.shared.lines);
    if (move_is_done() && world.shared.later.stripe.lock.mutex.holder == 0) {
        check_quiet(world.shared.later.lines);
    }
}
