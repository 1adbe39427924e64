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
 * Without the lock a tag that is not the thread's own reads as 0: the table only asks whether it is
 * its own, and states that differ in nothing else are then equal. */
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

/* Each key's home is the line of its number; keys 0 and 2 have equal owner bits. */
uint64_t hash_of_key(int key)
{
    static const uint64_t OWNERS[KEYS] = {5, 6, 5};
    uint64_t number = (uint64_t)key;
    return (number + 1) << 32 | OWNERS[key] << 16 | (number & 1);
}

/* Of either table: nobody holds two of these locks. */
static bool holds_lock(void)
{
    return world.shared.stripe.mutex.holder == (uint64_t)running + 1
           || world.shared.later.stripe.mutex.holder == (uint64_t)running + 1;
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
static const struct line *line_of(int i)
{
    return i < LINES_MAX ? &world.shared.lines[i] : &world.shared.later.lines[i - LINES_MAX];
}

/* Words that are written under the lock only: all but states and lowered_from_ns. */
static bool is_guarded(const void *at)
{
    for (int i = 0; i < 2 * LINES_MAX; i++) {
        const struct line *line = line_of(i);
        if (is_within(at, line->tags, sizeof line->tags) || at == &line->displaced) {
            return true;
        }
    }
    return is_within(at, &world.shared.stripe, sizeof world.shared.stripe)
           || is_within(at, &world.shared.later.stripe, sizeof world.shared.later.stripe);
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
    return at == &stripe->used_count || at == &stripe->reused_count || at == &stripe->full_count;
}

static bool is_statistic(const void *at)
{
    return is_statistic_of(at, &world.shared.stripe)
           || is_statistic_of(at, &world.shared.later.stripe);
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
    if (reach(&seen, (holds_lock() && is_guarded(word)) || is_of_lines(word) || is_private(word))) {
        if (is_of_lines(word) && !holds_lines()) {
            explore_violation("a look at a line without its lock");
        }
        uint64_t own =
            hash_of_key(script->operations[running][world.fibers[running].done_count].key);
        bool is_foreign = !holds_lock() && !is_private(word) && is_tag(word) && *word != own;
        seen->low = is_foreign ? 0 : *word;
        note(seen);
    }
    return seen->low;
}

/* The same, when a slot's tag changes. */
static void check_publish(const uint64_t *tag)
{
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct line *line = &world.shared.lines[i / TABLE_LINE_SLOTS];
        struct ghost *ghost = &world.shared.ghosts[i];
        uint64_t since_ns = line->states[i % TABLE_LINE_SLOTS].empty_at_ns;
        if (tag != &line->tags[i % TABLE_LINE_SLOTS]) {
            continue;
        }
        if (*tag != 0 && since_ns <= ghost->highest_ns) {
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
              (holds_lock() && is_statistic(word)) || is_of_lines(word) || is_private(word))) {
        if (is_of_lines(word) && !holds_lines()) {
            explore_violation("a change of a line without its lock");
        }
        if (is_guarded(word) && !holds_lock() && !is_private(word)) {
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
        seen->low = *word;
        seen->high = *word == *expected;
        *word = seen->high != 0 ? next : *word;
        note(seen);
    }
    *expected = seen->low;
    return seen->high != 0;
}

/* The invariants that the contract of table.c rests on, when a state changes. */
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
    if (((before.word ^ after.word) & BUCKET_LINE) != 0 && !holds_lines()) {
        explore_violation("a mark changed by somebody who keeps no lines");
    }
    if (holds_lock()) {
        return; // on its way to another key: see check_publish()
    }
    if (((before.word ^ after.word) & BUCKET_OWNER_MASK) != 0) {
        explore_violation("a slot given away without the lock");
    }
    if (after.empty_at_ns < ghost->given_at_ns) {
        explore_violation("a bucket moved back to before it was given its slot");
    }
    if (after.empty_at_ns > ghost->highest_ns) {
        ghost->highest_ns = after.empty_at_ns;
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

static void check_quiet(const struct line lines[LINES_MAX])
{
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct line *line = &lines[i / TABLE_LINE_SLOTS];
        uint64_t tag = line->tags[i % TABLE_LINE_SLOTS];
        uint64_t owner = line->states[i % TABLE_LINE_SLOTS].word & BUCKET_OWNER_MASK;
        if (tag != 0 && owner != table_owner_of(tag)) {
            explore_violation("a slot whose owner bits are not its tag's");
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
    if (move_is_done() && world.shared.later.stripe.mutex.holder == 0) {
        check_quiet(world.shared.later.lines);
    }
}
