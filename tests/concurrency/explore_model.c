/* SPDX-License-Identifier: MIT
 *
 * What is right. The operations must take effect one after the other, each at some instant between its
 * first step and its answer, and each must answer exactly what it may come to then (linearizability);
 * explore_acts.c says what that is.
 *
 * All histories that explain the answers so far are kept as guesses. They are extended only when an
 * operation answers: then those that wait may take effect before it (G. Lowe, "Testing for
 * linearizability", 2017). No guess left: no serial order explains what happened. */
#include <assert.h>
#include <string.h>

#include "core/bucket_math.h"
#include "explore.h"

struct weir_rule model_rule;

uint64_t digest_answer(const struct operation *operation, const struct weir_decision *decision,
                       const struct weir_detail *detail)
{
    uint64_t digest = digest_mix((uint64_t)decision->verdict + 1, decision->remaining);
    digest = digest_mix(digest, (uint64_t)decision->retry_after_ns);
    digest = digest_mix(digest, (uint64_t)decision->reset_after_ns);
    if (decision->verdict == WEIR_FAILED) {
        return digest;
    }
    if (operation->kind == WEIR_FILL || operation->kind == WEIR_SHOW) {
        digest = digest_mix(digest, detail->amount.numerator_low);
    }
    if (operation->kind == WEIR_RESET || operation->kind == WEIR_SHOW
        || operation->kind == WEIR_BLOCK || operation->kind == WEIR_UNBLOCK) {
        digest = digest_mix(digest, detail->existed);
    }
    return digest_mix(digest, operation->kind == WEIR_FILL && detail->full);
}

int key_of(const struct operation *operation, int i)
{
    return i == 0 ? operation->key : operation->more[i - 1].key;
}

uint64_t cost_of(const struct operation *operation, int i)
{
    return i == 0 ? operation->cost : operation->more[i - 1].cost;
}

uint64_t digest_together(const struct operation *operation, const struct weir_decision *decisions)
{
    uint64_t digest = 1;
    for (int i = 0; i <= operation->more_count; i++) {
        if (decisions[i].verdict == WEIR_LIMITED && decisions[i].retry_after_ns == 1) {
            return DIGEST_BEHIND_A_LINE; // as explore_lines.c refuses
        }
        digest = digest_mix(digest, digest_answer(operation, &decisions[i], NULL));
    }
    return digest;
}

static const struct operation *present_operation(int thread)
{
    return &script->operations[thread][world.fibers[thread].done_count];
}

static bool has_begun(int thread, int i)
{
    const struct fiber *fiber = &world.fibers[thread];
    return i < fiber->done_count || (i == fiber->done_count && fiber->seen_count > 0);
}

uint64_t model_begun(void)
{
    uint64_t begun = 1;
    for (int thread = 0; thread < THREADS_MAX; thread++) {
        const struct fiber *fiber = &world.fibers[thread];
        begun = begun << 8 | (uint64_t)(fiber->done_count + (fiber->seen_count > 0));
    }
    return begun;
}

static int add_reading(uint64_t *readings, int count, uint64_t now_ns)
{
    for (int i = 0; i < count; i++) {
        if (readings[i] == now_ns) {
            return count;
        }
    }
    readings[count] = now_ns;
    return count + 1;
}

/* All readings, or those of operations that have begun. */
int model_readings(uint64_t *readings, bool only_begun)
{
    int count = 0;
    for (int i = 0; i < script->setup_count; i++) {
        count = add_reading(readings, count, script->setup[i].now_ns);
    }
    for (int thread = 0; thread < script->thread_count; thread++) {
        for (int i = 0; i < script->operation_count; i++) {
            if (!only_begun || has_begun(thread, i)) {
                count = add_reading(readings, count, script->operations[thread][i].now_ns);
            }
        }
    }
    return count;
}

bool model_is_begun(uint64_t reading_ns)
{
    uint64_t readings[READINGS_MAX];
    int count = model_readings(readings, true);
    return add_reading(readings, count, reading_ns) == count;
}

/* What a guess becomes. */
static void adopt(struct guess *guess, const struct operation *operation,
                  const struct choice *choice)
{
    for (int i = 0; i <= operation->more_count; i++) {
        guess->keys[key_of(operation, i)] = choice->keys[i];
    }
    guess->dropped_count += choice->dropped_count;
}

/* Guesses under construction. */
struct guesses {
    int count;
    struct guess at[GUESSES_MAX];
};

static bool same_guess(const struct guess *a, const struct guess *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void add_guess(struct guesses *guesses, const struct guess *guess)
{
    for (int i = 0; i < guesses->count; i++) {
        if (same_guess(&guesses->at[i], guess)) {
            return;
        }
    }
    if (guesses->count == GUESSES_MAX) {
        explore_violation("too many histories to follow: raise GUESSES_MAX");
    }
    guesses->at[guesses->count++] = *guess;
}

/* Lets the thread's operation take effect now, in every way; keeps those that answer `answer`. */
static void respond_now(struct guesses *next, const struct guess *guess, int thread,
                        uint64_t answer)
{
    const struct operation *operation = present_operation(thread);
    struct chosen choices = memo_choose(guess, operation, false);
    for (int i = 0; i < choices.count; i++) {
        if (choices.at[i].answer == answer) {
            struct guess after = *guess;
            adopt(&after, operation, &choices.at[i]);
            add_guess(next, &after);
        }
    }
}

/* Whether what one thread does can matter to the other: if they ask for one key, or for keys that somebody
 * asks for together. */
static bool matters(int thread, int other)
{
    bool may = present_operation(other)->key == present_operation(thread)->key;
    for (int i = 0; i < script->thread_count * script->operation_count; i++) {
        const struct operation *operation =
            &script->operations[i / script->operation_count][i % script->operation_count];
        may = may || operation->more_count > 0;
    }
    return may;
}

/* The thread's operation answers: as itself, or after others that have begun took effect. */
static void respond_after(struct guesses *next, const struct guess *guess, int thread,
                          uint64_t answer)
{
    respond_now(next, guess, thread, answer);
    for (int other = 0; other < script->thread_count; other++) {
        const struct fiber *fiber = &world.fibers[other];
        if (other == thread || fiber->seen_count == 0 || (guess->is_early >> other & 1) != 0) {
            continue;
        }
        const struct operation *operation = present_operation(other);
        if (!matters(thread, other)) {
            continue;
        }
        struct chosen choices = memo_choose(guess, operation, true);
        for (int i = 0; i < choices.count; i++) {
            struct guess after = *guess;
            adopt(&after, operation, &choices.at[i]);
            after.answers[other] = choices.at[i].answer;
            after.late_ns[other] = choices.at[i].late_ns;
            after.is_early |= UINT64_C(1) << other;
            respond_after(next, &after, thread, answer);
        }
    }
}

/* In one order, so that equal sets are equal worlds. */
static void sort_guesses(struct guesses *guesses)
{
    for (int i = 1; i < guesses->count; i++) {
        for (int j = i;
             j > 0 && memcmp(&guesses->at[j - 1], &guesses->at[j], sizeof(struct guess)) > 0; j--) {
            struct guess swap = guesses->at[j];
            guesses->at[j] = guesses->at[j - 1];
            guesses->at[j - 1] = swap;
        }
    }
}

static void set_guesses(const struct guess *guesses, int count)
{
    size_t size = (size_t)count * sizeof *guesses;
    world.guess_count = count;
    memcpy(world.guesses, guesses, size);
    world.guesses_digest = digest_words((struct digest){(uint64_t)count, 1}, guesses, size);
}

void model_respond(int thread, uint64_t answer)
{
    static struct guesses next;
    next.count = 0;
    memo_tidy();
    for (int i = 0; i < world.guess_count; i++) {
        struct guess guess = world.guesses[i];
        if ((guess.is_early >> thread & 1) == 0) {
            respond_after(&next, &guess, thread, answer);
        } else if (guess.answers[thread] == answer
                   && (guess.late_ns[thread] == 0 || model_is_begun(guess.late_ns[thread]))) {
            guess.is_early &= ~(UINT64_C(1) << thread);
            guess.answers[thread] = 0;
            guess.late_ns[thread] = 0;
            add_guess(&next, &guess);
        }
    }
    if (next.count == 0) {
        explore_violation("an answer that no serial order explains");
    }
    sort_guesses(&next);
    set_guesses(next.at, next.count);
}

/* Where the table has the key, or the block of one; NULL if nowhere. */
static const struct weir_bucket *state_of_tag(uint64_t tag)
{
    const struct table_line *lines = move_is_done() ? world.shared.later.lines : world.shared.lines;
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct table_line *line = &lines[i / TABLE_LINE_SLOTS];
        if (line->tags[i % TABLE_LINE_SLOTS] == tag) {
            return &line->states[i % TABLE_LINE_SLOTS];
        }
    }
    return NULL;
}

/* Until when a key is locked out, for those who have the latest reading; 0: it is not. */
static uint64_t running_ns(uint64_t word, uint64_t ends_ns)
{
    uint64_t readings[READINGS_MAX];
    int count = model_readings(readings, true);
    uint64_t latest_ns = 0;
    for (int i = 0; i < count; i++) {
        latest_ns = readings[i] > latest_ns ? readings[i] : latest_ns;
    }
    return (word & BUCKET_BLOCKED) != 0 && ends_ns > latest_ns ? ends_ns : 0;
}

static bool agrees_on_block(const struct guess *guess, int key)
{
    const struct known *known = &guess->keys[key];
    const struct weir_bucket *state = state_of_tag(hash_of_key(key));
    const struct weir_bucket *entry = state_of_tag(table_block_of(hash_of_key(key)));
    bool has_block = state != NULL && entry != NULL && (entry->word & BUCKET_IS_BLOCK) != 0;
    return running_ns(known->bucket.word, known->block_ns)
           == (has_block ? running_ns(state->word, entry->empty_at_ns) : 0);
}

/* A bucket that was made but not charged, because its maker then found no room in it, is empty since
 * some reading; one that was forgotten had drained by the latest reading of a reuse. Or it was dropped, of
 * which nobody has taken note yet. */
static bool agrees(const struct guess *guess, int key, uint64_t *dropped_count)
{
    struct weir_bucket bucket = guess->keys[key].bucket;
    struct span expected = bucket_moment(bucket, &model_rule.limit);
    if ((bucket.word & BUCKET_LINE) / BUCKET_LINE != world.shared.standing[key]) {
        return false;
    }
    const struct weir_bucket *state = state_of_tag(hash_of_key(key));
    if (state == NULL) {
        const struct stripe *stripe = table_stripe_of(&table, hash_of_key(key));
        uint64_t reused_at_ns = move_is_done() ? world.shared.later.stripe.reused_at_ns
                                               : stripe->reused_at_ns & ~STRIPE_MOVED;
        bool is_dropped = span_less((struct span){reused_at_ns, 0}, expected);
        *dropped_count += is_dropped;
        return !is_dropped || model_evicts();
    }
    struct span moment = bucket_moment(*state, &model_rule.limit);
    if (moment.ns == expected.ns && moment.rest == expected.rest) {
        return true;
    }
    bool is_dropped = span_less(moment, expected);
    *dropped_count += is_dropped;
    return model_is_begun(moment.ns) && moment.rest == 0 && (!is_dropped || model_evicts());
}

static uint64_t evicted_count(void)
{
    uint64_t count = 0;
    for (int i = 0; i < STRIPES_MAX; i++) {
        count += world.shared.stripes[i].evicted_count;
    }
    return count;
}

void model_finish(void)
{
    for (int i = 0; i < world.guess_count; i++) {
        bool is_good = true;
        uint64_t dropped_count = world.guesses[i].dropped_count;
        for (int key = 0; key < KEYS; key++) {
            is_good = is_good && agrees(&world.guesses[i], key, &dropped_count)
                      && agrees_on_block(&world.guesses[i], key);
        }
        is_good = is_good && dropped_count <= evicted_count();
        if (is_good) {
            return;
        }
    }
    explore_violation("a charge or a block lost, or made twice, or made to another key");
}

void model_start(void)
{
    struct weir_error error;
    if (weir_limit_from_text(&model_rule.limit, script->limit, &error) != WEIR_OK) {
        explore_violation(error.message);
    }
    set_guesses(&(struct guess){.is_early = 0}, 1);
}
