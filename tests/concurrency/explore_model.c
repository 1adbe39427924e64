/* SPDX-License-Identifier: MIT
 *
 * What is right. Each key is a bucket of the pure core, never forgotten. The operations must take
 * effect one after the other, each at some instant between its first step and its answer, and each
 * must answer exactly what the core answers then (linearizability), with three liberties that
 * README.md in this folder defends:
 *
 *   lag      an operation whose reading is older than another one's may see a fuller bucket: one
 *            that is empty no earlier than some reading of an operation that began before it answered
 *   giving   refund and reset may also act at such a later reading, and so give back less
 *   full     where there are more keys than slots, a take or fill may be answered by on_full, and
 *            charges nothing
 *
 * A take under several limits takes effect at one instant for all of its keys; each of them has these
 * liberties of its own. Where it meets somebody who stands in line, only that it is refused is followed.
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
    if (operation->kind == WEIR_RESET || operation->kind == WEIR_SHOW) {
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

/* Somebody in line refused it. */
static const uint64_t BEHIND_A_LINE = 7;

uint64_t digest_together(const struct operation *operation, const struct weir_decision *decisions)
{
    uint64_t digest = 1;
    for (int i = 0; i <= operation->more_count; i++) {
        if (decisions[i].verdict == WEIR_LIMITED && decisions[i].retry_after_ns == 1) {
            return BEHIND_A_LINE; // as explore_lines.c refuses
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

enum { READINGS_MAX = SETUP_MAX + THREADS_MAX * OPERATIONS_MAX + 1, CHOICES_MAX = 256 };

static int add_reading(uint64_t readings[READINGS_MAX], int count, uint64_t now_ns)
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
static int readings_of(uint64_t readings[READINGS_MAX], bool only_begun)
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

static bool is_begun_reading(uint64_t reading_ns)
{
    uint64_t readings[READINGS_MAX];
    int count = readings_of(readings, true);
    return add_reading(readings, count, reading_ns) == count;
}

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
    return operation->kind > WEIR_RESET || (is_take && (bucket.word & BUCKET_LINE) != 0);
}

/* What the core makes of an operation, which is answered as of `told_ns`. */
static uint64_t act(struct weir_bucket *bucket, const struct operation *operation, uint64_t now_ns,
                    uint64_t told_ns)
{
    const struct weir_limit *limit = &model_rule.limit;
    uint64_t cost_micro = operation->cost * WEIR_UNIT;
    if (operation->kind >= MOVE_ALL) {
        struct weir_decision nothing = {.verdict = WEIR_ALLOWED};
        return digest_answer(operation, &nothing, NULL);
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
    if (told_ns != now_ns) {
        decision = weir_bucket_show(bucket, limit, told_ns, NULL);
    }
    return digest_answer(operation, &decision, &detail);
}

/* The keys of an operation that live in the same stripe as this one. */
static uint64_t neighbours(const struct operation *operation, int key)
{
    uint64_t keys = 0;
    for (int i = 0; i <= operation->more_count; i++) {
        bool is_near = hash_of_key(key_of(operation, i)) >> 63 == hash_of_key(key) >> 63;
        keys |= (uint64_t)is_near << key_of(operation, i);
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
               || operation->kind == LINE_JOIN);
}

static uint64_t answer_when_full(const struct operation *operation)
{
    struct weir_decision decision = {
        .verdict = WEIR_FAILED, .retry_after_ns = -1, .reset_after_ns = -1};
    return digest_answer(operation, &decision, NULL);
}

/* One way in which an operation may take effect: on the bucket of its key, or on those of its keys.
 *   late_ns  the latest reading of another operation that it ran into; 0: none */
struct choice {
    struct weir_bucket buckets[TOGETHER_MAX];
    uint64_t answer;
    uint64_t late_ns;
};

struct choices {
    int count;
    struct choice at[CHOICES_MAX];
};

static void add_choice(struct choices *choices, struct choice choice)
{
    for (int i = 0; i < choices->count; i++) {
        const struct choice *known = &choices->at[i];
        bool is_weaker = known->late_ns == 0 || known->late_ns == choice.late_ns;
        if (is_weaker && known->answer == choice.answer
            && memcmp(known->buckets, choice.buckets, sizeof choice.buckets) == 0) {
            return;
        }
    }
    assert(choices->count < CHOICES_MAX);
    choices->at[choices->count++] = choice;
}

static bool same_bucket(struct weir_bucket a, struct weir_bucket b)
{
    return a.empty_at_ns == b.empty_at_ns && a.word == b.word;
}

/* The operation at `now_ns`, on a bucket that is empty no earlier than `since_ns`, answered as of
 * `told_ns`. */
static void add_acting(struct choices *choices, struct weir_bucket bucket,
                       const struct operation *operation, uint64_t now_ns, uint64_t since_ns,
                       uint64_t told_ns)
{
    bool is_late = now_ns > operation->now_ns || since_ns > now_ns;
    struct weir_bucket before = bucket.empty_at_ns < since_ns
                                    ? (struct weir_bucket){since_ns, bucket.word & BUCKET_LINE}
                                    : bucket;
    struct weir_bucket after = before;
    uint64_t answer = act(&after, operation, now_ns, told_ns);
    struct choice choice = {
        .buckets = {same_bucket(before, after) ? bucket : after}, // who only looked leaves it alone
        .answer = answer,
        .late_ns = !is_late            ? 0
                   : since_ns > now_ns ? since_ns
                                       : now_ns,
    };
    add_choice(choices, choice);
}

/* `is_early`: other operations may begin before this one answers. */
static void choose(struct choices *choices, struct weir_bucket bucket,
                   const struct operation *operation, bool is_early)
{
    uint64_t readings[READINGS_MAX];
    int count = readings_of(readings, !is_early);
    bool moves_back = operation->kind == WEIR_REFUND || operation->kind == WEIR_RESET;
    choices->count = 0;
    add_acting(choices, bucket, operation, operation->now_ns, 0, operation->now_ns);
    for (int i = 0; i < count; i++) {
        if (readings[i] <= operation->now_ns) {
            continue;
        }
        add_acting(choices, bucket, operation, operation->now_ns, readings[i], operation->now_ns);
        for (int j = 0; j < count && moves_back; j++) {
            add_acting(choices, bucket, operation, readings[i], readings[j], readings[i]);
        }
        if (moves_back
            && (bucket.word & BUCKET_LINE) != 0) { // the keeper answers by its own reading
            add_acting(choices, bucket, operation, readings[i], 0, operation->now_ns);
        }
    }
    if (may_be_full(operation, operation->key)) {
        add_choice(choices, (struct choice){{bucket}, answer_when_full(operation), 0});
    }
}

/* Several limits: the keys one after the other, each with its liberties, and then all or nothing.
 *   befores  how the buckets of the first keys are seen
 *   is_full  one of them finds no room */
struct together {
    const struct operation *operation;
    struct weir_bucket buckets[TOGETHER_MAX], befores[TOGETHER_MAX];
    bool is_full[TOGETHER_MAX];
    uint64_t late_ns;
};

static void act_together(struct choices *choices, const struct together *together)
{
    const struct operation *operation = together->operation;
    const struct weir_limit *limit = &model_rule.limit;
    struct weir_decision decisions[TOGETHER_MAX];
    struct choice choice = {.late_ns = together->late_ns};
    bool agree = true;
    for (int i = 0; i <= operation->more_count; i++) {
        choice.buckets[i] = together->befores[i];
        decisions[i] = weir_bucket_take(&choice.buckets[i], limit,
                                        cost_of(operation, i) * WEIR_UNIT, operation->now_ns);
        if (together->is_full[i]) {
            decisions[i] = (struct weir_decision){
                .verdict = WEIR_FAILED, .retry_after_ns = -1, .reset_after_ns = -1};
        }
        agree = agree && decisions[i].verdict == WEIR_ALLOWED;
    }
    for (int i = 0; i <= operation->more_count; i++) {
        if (!agree && decisions[i].verdict == WEIR_ALLOWED) {
            decisions[i] = weir_bucket_show(&together->befores[i], limit, operation->now_ns, NULL);
        }
        if (!agree || operation->kind == WEIR_CAN_TAKE
            || same_bucket(together->befores[i], choice.buckets[i])) {
            choice.buckets[i] = together->buckets[i]; // who only looked leaves it alone
        }
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
    struct weir_bucket bucket = together->buckets[i];
    uint64_t late_ns = together->late_ns;
    uint64_t readings[READINGS_MAX];
    int count = readings_of(readings, !is_early);
    together->befores[i] = bucket;
    choose_together(choices, together, i + 1, is_early);
    if (may_be_full(operation, key_of(operation, i))) {
        together->is_full[i] = true;
        choose_together(choices, together, i + 1, is_early);
        together->is_full[i] = false;
    }
    for (int j = 0; j < count; j++) {
        if (readings[j] > operation->now_ns && readings[j] > bucket.empty_at_ns) {
            together->befores[i] = (struct weir_bucket){readings[j], 0};
            together->late_ns = readings[j] > late_ns ? readings[j] : late_ns;
            choose_together(choices, together, i + 1, is_early);
        }
    }
    together->late_ns = late_ns;
}

/* All ways in which an operation may take effect after what a guess holds. */
static void choose_any(struct choices *choices, const struct guess *guess,
                       const struct operation *operation, bool is_early)
{
    if (operation->more_count == 0) {
        choose(choices, guess->buckets[operation->key], operation, is_early);
        return;
    }
    struct together together = {.operation = operation};
    bool is_behind = false;
    choices->count = 0;
    for (int i = 0; i <= operation->more_count; i++) {
        together.buckets[i] = guess->buckets[key_of(operation, i)];
        is_behind = is_behind || (together.buckets[i].word & BUCKET_LINE) != 0;
    }
    if (is_behind) {
        struct choice choice = {.answer = BEHIND_A_LINE};
        memcpy(choice.buckets, together.buckets, sizeof choice.buckets);
        add_choice(choices, choice);
    } else {
        choose_together(choices, &together, 0, is_early);
    }
}

/* What a guess becomes. */
static void adopt(struct guess *guess, const struct operation *operation,
                  const struct choice *choice)
{
    for (int i = 0; i <= operation->more_count; i++) {
        guess->buckets[key_of(operation, i)] = choice->buckets[i];
    }
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
    struct choices choices;
    choose_any(&choices, guess, operation, false);
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
        struct choices choices;
        choose_any(&choices, guess, operation, true);
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

void model_respond(int thread, uint64_t answer)
{
    static struct guesses next;
    next.count = 0;
    for (int i = 0; i < world.guess_count; i++) {
        struct guess guess = world.guesses[i];
        if ((guess.is_early >> thread & 1) == 0) {
            respond_after(&next, &guess, thread, answer);
        } else if (guess.answers[thread] == answer
                   && (guess.late_ns[thread] == 0 || is_begun_reading(guess.late_ns[thread]))) {
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
    world.guess_count = next.count;
    memcpy(world.guesses, next.at, (size_t)next.count * sizeof next.at[0]);
}

/* Where the table has the key; NULL if nowhere. */
static const struct weir_bucket *state_of_key(int key)
{
    const struct line *lines = move_is_done() ? world.shared.later.lines : world.shared.lines;
    for (int i = 0; i < SLOTS_MAX; i++) {
        const struct line *line = &lines[i / TABLE_LINE_SLOTS];
        if (line->tags[i % TABLE_LINE_SLOTS] == hash_of_key(key)) {
            return &line->states[i % TABLE_LINE_SLOTS];
        }
    }
    return NULL;
}

/* A bucket that was made but not charged, because its maker then found no room in it, is empty since
 * some reading; one that was forgotten had drained by the latest reading of a reuse. */
static bool agrees(const struct guess *guess, int key)
{
    struct span expected = bucket_moment(guess->buckets[key], &model_rule.limit);
    if ((guess->buckets[key].word & BUCKET_LINE) / BUCKET_LINE != world.shared.standing[key]) {
        return false;
    }
    const struct weir_bucket *state = state_of_key(key);
    if (state == NULL) {
        const struct stripe *stripe = table_stripe_of(&table, hash_of_key(key));
        uint64_t reused_at_ns = move_is_done() ? world.shared.later.stripe.reused_at_ns
                                               : stripe->reused_at_ns & ~STRIPE_MOVED;
        return !span_less((struct span){reused_at_ns, 0}, expected);
    }
    struct span moment = bucket_moment(*state, &model_rule.limit);
    if (moment.ns == expected.ns && moment.rest == expected.rest) {
        return true;
    }
    return is_begun_reading(moment.ns) && moment.rest == 0 && span_less(expected, moment);
}

void model_finish(void)
{
    for (int i = 0; i < world.guess_count; i++) {
        bool is_good = true;
        for (int key = 0; key < KEYS; key++) {
            is_good = is_good && agrees(&world.guesses[i], key);
        }
        if (is_good) {
            return;
        }
    }
    explore_violation("a charge lost, or made twice, or made to another key");
}

void model_start(void)
{
    struct weir_error error;
    const char *text = script->is_whole ? "1/10ns capacity=2" : "3/10ns capacity=6";
    if (weir_limit_from_text(&model_rule.limit, text, &error) != WEIR_OK) {
        explore_violation(error.message);
    }
    world.guess_count = 1;
    memset(world.guesses, 0, sizeof world.guesses[0]);
}
