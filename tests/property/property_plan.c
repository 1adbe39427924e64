/* SPDX-License-Identifier: MIT
 *
 * What plan.h promises, of all short lists of questions and of random ones. Each plan is executed on exact buckets,
 * wave by wave and entry by entry, as a store would: a folded entry by one division, its answers by
 * plan_moment_after(). Beside it the same questions are asked one by one, by wave and in a wave by index. Then:
 *
 *   the answers are equal          to the D-th of a nanosecond, and so are the buckets afterwards
 *   that is an order of batches    along a batch waves never go back
 *   every question is answered     by one entry, or in one run
 *   names are sorted               and no name is twice in a wave, but for runs
 *   only equals fold               in the order in which they came
 *   nobody waits in vain           only while another holds one of its names
 *
 * Each statement has a reading of its own. seeds.h says how to repeat one list, and how to go on for longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/arith.h"
#include "seeds.h"
#include "store/plan.h"
#include "weir/limit.h"

__extension__ typedef __int128 int128;

enum { WALKS = 1000000, COUNT_MAX = 160, NAMES_MAX = 12, NUMBERS_MAX = 3, SHORT_MAX = 5 };

/*   rest  may belong to a limit with another denominator */
struct bucket {
    uint64_t ns, rest;
};

/*   moment  after it, in D-ths of a nanosecond */
struct answer {
    bool fits;
    int128 moment;
};

/* A list of questions, and what is found out about it.
 *   numbers   of the takes of each name, the first numbers_count of them
 *   name, wave, reading_ns, answer_count, answers   of each question; the reading is that of its statement
 *   before, planned, one_by_one   the bucket of each name, and what becomes of it */
struct walk {
    uint64_t seed, random;
    struct plan_question numbers[NAMES_MAX][NUMBERS_MAX];
    size_t name_count, numbers_count;
    struct plan_question questions[COUNT_MAX];
    size_t name[COUNT_MAX];
    size_t count;
    struct plan_waves plan;
    size_t wave[COUNT_MAX];
    uint64_t reading_ns[COUNT_MAX];
    size_t answer_count[COUNT_MAX];
    struct bucket before[NAMES_MAX];
    struct bucket planned[NAMES_MAX], one_by_one[NAMES_MAX];
    struct answer answers[COUNT_MAX];
    uint64_t now_ns, step_ns;
};

static struct walk *current;
static uint64_t folded, waves, runs_in, refused,
    carried; // of all lists: so that it is known what they were about

static void show_list(void)
{
    for (size_t i = 0; i < current->count; i++) {
        const struct plan_question *question = &current->questions[i];
        print_error("  %zu: batch %u, name %zu, %s %llu + %llu / %llu%s, wave %zu\n", i,
                    question->batch, current->name[i], question->is_read ? "read" : "take",
                    (unsigned long long)question->span.ns, (unsigned long long)question->span.rest,
                    (unsigned long long)question->denominator,
                    question->and_next ? ", and next" : "", current->wave[i]);
    }
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            show_list();                                                                           \
            fail_msg("WEIR_SEED=%llu: not so: %s", (unsigned long long)current->seed, #condition); \
        }                                                                                          \
    } while (0)

static uint64_t random_word(void)
{
    current->random ^= current->random << 13; // xorshift64, G. Marsaglia, 2003
    current->random ^= current->random >> 7;
    current->random ^= current->random << 17;
    return current->random * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t below(uint64_t limit)
{
    return (random_word() >> 20) % limit;
}

static bool chance(uint64_t one_in)
{
    return below(one_in) == 0;
}

/* ---- exact buckets ---- */

static int128 parts_of(uint64_t ns, uint64_t rest, uint64_t denominator)
{
    return (int128)ns * denominator + (rest < denominator ? rest : denominator);
}

static int128 moment_of(const struct bucket *bucket, const struct plan_question *question)
{
    return parts_of(bucket->ns, bucket->rest, question->denominator);
}

static int128 span_of(const struct plan_question *question)
{
    return parts_of(question->span.ns, question->span.rest, question->denominator);
}

/* How far from the moment, or from the reading if that is later, to the latest moment. */
static int128 room_in(const struct bucket *bucket, const struct plan_question *question,
                      uint64_t now_ns)
{
    int128 moment = moment_of(bucket, question);
    int128 now = parts_of(now_ns, 0, question->denominator);
    int128 full = parts_of(question->full.ns, question->full.rest, question->denominator);
    return now + full - (moment > now ? moment : now);
}

static void charge(struct bucket *bucket, const struct plan_question *question, uint64_t now_ns,
                   uint64_t times)
{
    int128 moment = moment_of(bucket, question);
    int128 now = parts_of(now_ns, 0, question->denominator);
    int128 after = (moment > now ? moment : now) + (int128)times * span_of(question);
    bucket->ns = (uint64_t)(after / question->denominator);
    bucket->rest = (uint64_t)(after % question->denominator);
}

/* ---- one by one ---- */

static bool is_of_run(size_t i)
{
    const struct plan_question *questions = current->questions;
    return questions[i].and_next || (i > 0 && questions[i - 1].and_next);
}

static size_t end_of_run(size_t first)
{
    while (current->questions[first].and_next) {
        first++;
    }
    return first + 1;
}

static bool fits(size_t i)
{
    const struct plan_question *question = &current->questions[i];
    const struct bucket *bucket = &current->one_by_one[current->name[i]];
    return question->is_read
           || room_in(bucket, question, current->reading_ns[i]) >= span_of(question);
}

static void ask_one(size_t first)
{
    size_t end = end_of_run(first);
    bool all_fit = true;
    for (size_t i = first; i < end; i++) {
        bool this_fits = fits(i);
        CHECK(current->answers[i].fits == this_fits);
        all_fit = all_fit && this_fits;
        refused += !this_fits;
    }
    for (size_t i = first; i < end; i++) {
        const struct plan_question *question = &current->questions[i];
        struct bucket *bucket = &current->one_by_one[current->name[i]];
        if (all_fit && !question->is_read) {
            charge(bucket, question, current->reading_ns[i], 1);
        }
        CHECK(current->answers[i].moment == moment_of(bucket, question));
    }
}

static void ask_one_by_one(void)
{
    memcpy(current->one_by_one, current->before, sizeof current->before);
    for (size_t wave = 0; wave < current->plan.count; wave++) {
        for (size_t i = 0; i < current->count; i++) {
            bool is_first = i == 0 || !current->questions[i - 1].and_next;
            if (current->wave[i] == wave && is_first) {
                ask_one(i);
            }
        }
    }
    CHECK(memcmp(current->one_by_one, current->planned, sizeof current->planned) == 0);
}

/* ---- by the plan ---- */

/* Readings may go back. */
static uint64_t next_reading(void)
{
    current->now_ns += chance(3) ? 0 : below(current->step_ns);
    return chance(4) ? current->now_ns - below(current->step_ns) : current->now_ns;
}

static void answer(size_t i, bool this_fits, uint32_t place, uint32_t took, uint64_t now_ns)
{
    const struct plan_question *question = &current->questions[i];
    const struct bucket *bucket = &current->planned[current->name[i]];
    struct span last = {bucket->ns, bucket->rest};
    struct span moment = plan_moment_after(question, place, took, last);
    CHECK(moment.rest < question->denominator);
    carried += place + 1 < took && question->span.rest > 0;
    current->answers[i] =
        (struct answer){this_fits, parts_of(moment.ns, moment.rest, question->denominator)};
    current->reading_ns[i] = now_ns;
}

static void execute_takes(const struct plan_entry *entry, uint64_t now_ns)
{
    size_t first = entry->questions[0];
    const struct plan_question *question = &current->questions[first];
    struct bucket *bucket = &current->planned[current->name[first]];
    int128 room = room_in(bucket, question, now_ns);
    int128 fit = room < 0 ? 0 : room / span_of(question);
    uint32_t took = fit < entry->count ? (uint32_t)fit : entry->count;
    CHECK(took <= plan_fit_empty(question, entry->count));
    if (took > 0) {
        charge(bucket, question, now_ns, took);
    }
    for (uint32_t place = 0; place < entry->count; place++) {
        answer(entry->questions[place], place < took, place, took, now_ns);
    }
    folded += entry->count - 1;
}

static void execute_reads(const struct plan_entry *entry, uint64_t now_ns)
{
    for (uint32_t place = 0; place < entry->count; place++) {
        answer(entry->questions[place], true, 0, 0, now_ns);
    }
}

static void execute_run(const struct plan_entry *run, uint64_t now_ns)
{
    bool each_fits[COUNT_MAX];
    bool all_fit = true;
    for (uint32_t i = 0; i < run->count; i++) {
        const struct plan_question *question = &current->questions[run->questions[i]];
        const struct bucket *bucket = &current->planned[current->name[run->questions[i]]];
        each_fits[i] = question->is_read || room_in(bucket, question, now_ns) >= span_of(question);
        all_fit = all_fit && each_fits[i];
    }
    for (uint32_t i = 0; i < run->count; i++) {
        size_t at = run->questions[i];
        if (all_fit && !current->questions[at].is_read) {
            charge(&current->planned[current->name[at]], &current->questions[at], now_ns, 1);
        }
        answer(at, each_fits[i], 0, 0, now_ns);
    }
    runs_in += all_fit;
}

static void execute_plan(void)
{
    memcpy(current->planned, current->before, sizeof current->before);
    for (size_t i = 0; i < current->plan.count; i++) {
        const struct plan_wave *wave = &current->plan.waves[i];
        uint64_t now_ns = next_reading();
        for (uint32_t j = 0; j < wave->take_count; j++) {
            execute_takes(&wave->takes[j], now_ns);
        }
        now_ns = next_reading();
        for (uint32_t j = 0; j < wave->read_count; j++) {
            execute_reads(&wave->reads[j], now_ns);
        }
        for (uint32_t j = 0; j < wave->run_count; j++) {
            execute_run(&wave->runs[j], next_reading());
        }
    }
}

/* ---- the form of the plan ---- */

static bool is_equal(const struct plan_question *a, const struct plan_question *b)
{
    return a->is_read == b->is_read
           && (a->is_read
               || (a->denominator == b->denominator && a->span.ns == b->span.ns
                   && a->span.rest == b->span.rest && a->full.ns == b->full.ns
                   && a->full.rest == b->full.rest));
}

static bool is_name_before(size_t a, size_t b)
{
    return memcmp(current->questions[a].name, current->questions[b].name, BUCKET_NAME_BYTES) < 0;
}

/* What holds a name in a wave: nothing, runs, or the entry whose first question is that one. */
enum { FREE = COUNT_MAX, RUNS };

static size_t holders[COUNT_MAX][NAMES_MAX];

static void hold(size_t wave, size_t question, size_t holder)
{
    size_t *held = &holders[wave][current->name[question]];
    CHECK(*held == FREE || (*held == RUNS && holder == RUNS));
    *held = holder;
}

static void note(size_t wave, size_t question)
{
    CHECK(question < current->count);
    current->answer_count[question]++;
    current->wave[question] = wave;
}

static void check_entries(size_t wave, const struct plan_entry *entries, uint32_t count,
                          bool are_reads)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct plan_entry *entry = &entries[i];
        CHECK(entry->count > 0);
        size_t first = entry->questions[0];
        for (uint32_t j = 0; j < entry->count; j++) {
            size_t at = entry->questions[j];
            note(wave, at);
            CHECK(current->questions[at].is_read == are_reads && !is_of_run(at));
            CHECK(current->name[at] == current->name[first]);
            CHECK(is_equal(&current->questions[at], &current->questions[first]));
            CHECK(j == 0 || entry->questions[j - 1] < at);
        }
        CHECK(i == 0 || is_name_before(entries[i - 1].questions[0], first));
        hold(wave, first, first);
    }
}

static void check_runs(size_t wave, const struct plan_entry *runs, uint32_t count)
{
    size_t former = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct plan_entry *run = &runs[i];
        size_t first = current->count;
        for (uint32_t j = 0; j < run->count; j++) {
            size_t at = run->questions[j];
            note(wave, at);
            hold(wave, at, RUNS);
            CHECK(j == 0 || is_name_before(run->questions[j - 1], at));
            first = at < first ? at : first;
        }
        CHECK(first == 0 || !current->questions[first - 1].and_next);
        CHECK(end_of_run(first) - first == run->count); // no name is twice, so no question is
        for (uint32_t j = 0; j < run->count; j++) {
            CHECK(run->questions[j] - first < run->count);
        }
        CHECK(i == 0 || former < first);
        former = first;
    }
}

static void check_form(void)
{
    memset(current->answer_count, 0, sizeof current->answer_count);
    CHECK(current->plan.count <= current->count);
    for (size_t i = 0; i < current->plan.count; i++) {
        const struct plan_wave *wave = &current->plan.waves[i];
        for (size_t name = 0; name < NAMES_MAX; name++) {
            holders[i][name] = FREE;
        }
        CHECK(wave->take_count + wave->read_count + wave->run_count > 0);
        check_entries(i, wave->takes, wave->take_count, false);
        check_entries(i, wave->reads, wave->read_count, true);
        check_runs(i, wave->runs, wave->run_count);
    }
    for (size_t i = 0; i < current->count; i++) {
        CHECK(current->answer_count[i] == 1);
    }
    waves += current->plan.count;
}

static bool is_hindered(size_t first, size_t wave)
{
    for (size_t i = first; i < end_of_run(first); i++) {
        size_t holder = holders[wave][current->name[i]];
        if (holder == FREE) {
            continue;
        }
        bool may_join = is_of_run(i) ? holder == RUNS
                        : holder == RUNS
                            ? false
                            : is_equal(&current->questions[i], &current->questions[holder]);
        if (!may_join) {
            return true;
        }
    }
    return false;
}

static void check_waits(void)
{
    for (size_t i = 0; i < current->count; i = end_of_run(i)) {
        const struct plan_question *question = &current->questions[i];
        size_t wave = 0;
        if (i > 0 && question[-1].batch == question->batch) {
            wave = current->wave[i - 1];
        }
        CHECK(wave <= current->wave[i]);
        for (; wave < current->wave[i]; wave++) {
            CHECK(is_hindered(i, wave));
        }
    }
}

/* Of just the size that is asked for, so that sanitizers watch its ends; and not empty. */
static void check_list(void)
{
    size_t bytes = plan_bytes(current->count);
    void *memory = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(memory);
    memset(memory, (int)current->seed, bytes);
    memset(current->wave, 0, sizeof current->wave);
    current->plan = plan_make(current->questions, current->count, memory);
    check_form();
    check_waits();
    execute_plan();
    ask_one_by_one();
    free(memory);
}

/* ---- random lists ---- */

static uint64_t some_denominator(void)
{
    static const uint64_t SOME[] = {1, 1, 2, 3, 7, 1000000, WEIR_DENOMINATOR_MAX};
    size_t i = below(sizeof SOME / sizeof SOME[0] + 1);
    return i < sizeof SOME / sizeof SOME[0] ? SOME[i] : 1 + below(WEIR_DENOMINATOR_MAX);
}

/* One byte, any of them, tells the names of a list apart. So in half of the lists all names begin alike. */
static void draw_name(uint8_t name[BUCKET_NAME_BYTES], size_t number)
{
    static const uint8_t ENDS[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    memset(name, 0x80, BUCKET_NAME_BYTES);
    if (chance(2)) {
        name[below(8)] = ENDS[below(sizeof ENDS)];
    }
    name[8 + below(8)] = ENDS[below(sizeof ENDS)];
    name[current->seed % BUCKET_NAME_BYTES] = (uint8_t)(7 + number * 97);
}

/* Some numbers of takes of a name. About `capacity` of them fit. */
static struct plan_question draw_numbers(uint64_t denominator)
{
    bool is_large = chance(8);
    uint64_t capacity = 1 + below(8);
    struct plan_question take = {.denominator = denominator};
    take.span.ns = is_large ? below(WEIR_SPAN_NS_MAX / 16) : below(3000);
    take.span.rest = chance(3) ? denominator - 1 : below(denominator);
    if (take.span.ns == 0 && take.span.rest == 0) {
        take.span.ns = 1;
    }
    uint128 full = (uint128)take.span.rest * capacity + below(denominator);
    take.full.ns = take.span.ns * capacity + (uint64_t)(full / denominator);
    take.full.rest = (uint64_t)(full % denominator);
    return take;
}

static void draw_names(void)
{
    current->name_count = 1 + below(chance(3) ? 2 : NAMES_MAX);
    current->numbers_count = 1 + below(NUMBERS_MAX);
    for (size_t i = 0; i < current->name_count; i++) {
        uint64_t denominator = some_denominator();
        uint8_t name[BUCKET_NAME_BYTES];
        draw_name(name, i);
        for (size_t j = 0; j < NUMBERS_MAX; j++) {
            denominator = chance(8) ? some_denominator() : denominator;
            struct plan_question *take = &current->numbers[i][j];
            *take = draw_numbers(denominator);
            if (j > 0 && chance(2)) { // but for one number the same
                struct plan_question former = take[-1];
                former.full.ns += chance(2);
                former.span.ns -= former.span.ns > 1 && chance(2);
                *take = former;
            }
            memcpy(take->name, name, sizeof name);
        }
        current->before[i] = (struct bucket){0, 0};
        if (chance(2)) {
            current->before[i].ns = current->now_ns + below(6000) - 2000;
            current->before[i].rest = below(chance(4) ? WEIR_DENOMINATOR_MAX : denominator);
        }
    }
}

/* No name twice in a run: so it ends where its names would recur. */
static bool is_in_run_before(size_t name)
{
    for (size_t i = current->count; i > 0 && current->questions[i - 1].and_next; i--) {
        if (current->name[i - 1] == name) {
            return true;
        }
    }
    return false;
}

static void draw_questions(void)
{
    size_t count = chance(200) ? COUNT_MAX : below(chance(4) ? 40 : 14);
    uint64_t batch_length = 1 + below(8);
    uint64_t reads_one_in = 1 + below(6);
    uint64_t runs_one_in = 2 + below(6);
    uint32_t batch = 0;
    for (; current->count < count; current->count++) {
        struct plan_question *question = &current->questions[current->count];
        size_t name = below(current->name_count);
        if (is_in_run_before(name)) {
            question[-1].and_next = false;
        }
        bool goes_on = current->count > 0 && question[-1].and_next;
        batch += !goes_on && chance(batch_length) ? 1 : 0;
        *question = current->numbers[name][below(current->numbers_count)];
        question->is_read = chance(reads_one_in) && chance(2);
        question->batch = batch;
        question->and_next = chance(runs_one_in);
        current->name[current->count] = name;
    }
    if (count > 0) {
        current->questions[count - 1].and_next = false;
    }
}

static void check_random(uint64_t seed)
{
    static struct walk walk;
    current = &walk;
    walk.seed = seed;
    walk.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    walk.count = 0;
    walk.now_ns = (UINT64_C(1) << (14 + seed % 48)) + 5000;
    walk.step_ns = 2000;
    draw_names();
    draw_questions();
    check_list();
}

static void random_lists(void **state)
{
    (void)state;
    folded = waves = runs_in = refused = carried = 0;
    if (walk_seeds(WALKS, check_random)) {
        assert_true(folded > 0 && waves > 0 && runs_in > 0 && refused > 0 && carried > 0);
    }
    print_message(
        "folded %llu, waves %llu, runs let in %llu, refused %llu, moments in D-ths %llu\n",
        (unsigned long long)folded, (unsigned long long)waves, (unsigned long long)runs_in,
        (unsigned long long)refused, (unsigned long long)carried);
}

/* ---- all short lists ---- */

static uint64_t short_lists;

/* Adds a question in every way there is: two names; a take of two costs, or a read; alone, in the batch of the one
 * before it, or in its run. */
static void try_all(size_t length)
{
    current->now_ns = 100000;
    check_list();
    short_lists++;
    if (length == 0) {
        return;
    }
    size_t at = current->count;
    struct plan_question *question = &current->questions[at];
    for (size_t choice = 0; choice < 18; choice++) {
        size_t name = choice % 2;
        size_t what = choice / 2 % 3;
        size_t follows = choice / 6;
        if (at == 0 && follows > 0) {
            return;
        }
        if (at > 0) {
            question[-1].and_next = follows == 2;
        }
        if (is_in_run_before(name)) {
            continue;
        }
        *question = current->numbers[name][what % 2];
        question->is_read = what == 2;
        question->batch = at == 0 ? 0 : question[-1].batch + (follows == 0);
        current->name[at] = name;
        current->count++;
        try_all(length - 1);
        current->count--;
    }
    if (at > 0) {
        question[-1].and_next = false;
    }
}

static void all_short_lists(void **state)
{
    (void)state;
    static struct walk walk = {.random = 1, .name_count = 2, .step_ns = 150};
    current = &walk;
    for (size_t name = 0; name < 2; name++) {
        for (size_t i = 0; i < 2; i++) {
            walk.numbers[name][i] = (struct plan_question){
                .span = {100 * (i + 1), 1}, .full = {300, 0}, .denominator = 3};
            walk.numbers[name][i].name[0] = (uint8_t)(2 - name);
        }
    }
    try_all(getenv("SOAK_MINUTES") != NULL ? SHORT_MAX + 1 : SHORT_MAX);
    print_message("%llu short lists\n", (unsigned long long)short_lists);
}

/* ---- what is computed for an entry ---- */

static void check_numbers(uint64_t seed)
{
    static struct walk walk;
    current = &walk;
    walk.seed = seed;
    walk.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    walk.count = 0;
    struct plan_question take = draw_numbers(some_denominator());
    int128 full = parts_of(take.full.ns, take.full.rest, take.denominator);
    uint32_t count = 1 + (uint32_t)below(chance(4) ? PLAN_QUESTIONS_MAX : 10);
    uint32_t fit = plan_fit_empty(&take, count);
    CHECK(fit >= 1 && fit <= count && fit * span_of(&take) <= full);
    CHECK(fit == count || (fit + 1) * span_of(&take) > full);

    struct span last = {take.full.ns + below(UINT64_C(1) << 61), below(take.denominator)};
    uint32_t place = (uint32_t)below(fit);
    struct span moment = plan_moment_after(&take, place, fit, last);
    CHECK(moment.rest < take.denominator);
    CHECK(parts_of(moment.ns, moment.rest, take.denominator) + (fit - 1 - place) * span_of(&take)
          == parts_of(last.ns, last.rest, take.denominator));
}

static void numbers_of_entries(void **state)
{
    (void)state;
    (void)walk_seeds(WALKS, check_numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_short_lists),
        cmocka_unit_test(random_lists),
        cmocka_unit_test(numbers_of_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
