/* SPDX-License-Identifier: MIT
 *
 * What must hold for every trace of operations on a bucket: all short traces of small numbers, and
 * random ones of all numbers. Each operation is compared with the slow bucket, and at each state the
 * promises of docs/design/exact-arithmetic.md are asked one by one.
 *
 *     WEIR_SEED=N         repeats a random run; the seed of each run is printed
 *     SOAK_MINUTES=N      random traces for so long, instead of a few seconds; short ones are longer */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slow_bucket.h"
#include "weir/bucket.h"

enum operation { TAKE, FILL, REFUND, OPERATION_COUNT };

static const char *const OPERATION_NAMES[] = {"take", "fill", "refund"};

struct step {
    enum operation operation;
    uint64_t cost_micro;
    int64_t now_ns;
    int128 charged;
};

enum { TRACE_MAX = 64 };

/* One trace: both buckets, and how they came here. */
struct trace {
    struct weir_limit_config config;
    struct weir_limit limit;
    struct slow_limit slow_limit;
    struct weir_bucket bucket;
    struct slow_bucket slow;
    struct step steps[TRACE_MAX];
    size_t count;
    bool is_pure; // takes and fills under one limit only, so that the bound holds
};

static uint64_t seed; // of the random run; 0 in an exhaustive one
static uint64_t checked;
static uint64_t long_waits; // beyond 2^53 ns, where a double would round

static void show_trace(const struct trace *trace)
{
    print_error("seed %llu, last limit %llu millionths per %llu ns, capacity %llu millionths\n",
                (unsigned long long)seed, (unsigned long long)trace->config.count_micro,
                (unsigned long long)trace->config.period_ns,
                (unsigned long long)trace->config.capacity_micro);
    for (size_t i = 0; i < trace->count; i++) {
        const struct step *step = &trace->steps[i];
        print_error("  at %lldns %s %llu millionths\n", (long long)step->now_ns,
                    OPERATION_NAMES[step->operation], (unsigned long long)step->cost_micro);
    }
}

static void require(const struct trace *trace, bool holds, const char *promise)
{
    checked++;
    if (!holds) {
        show_trace(trace);
        fail_msg("does not hold: %s", promise);
    }
}

static void trace_start(struct trace *trace, const struct weir_limit_config *config)
{
    struct weir_error error;
    *trace = (struct trace){.config = *config, .is_pure = true};
    if (weir_limit_init(&trace->limit, config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    trace->slow_limit = slow_limit_of(config);
}

static bool is_same_state(struct weir_bucket a, struct weir_bucket b)
{
    return a.empty_at_ns == b.empty_at_ns && a.word == b.word;
}

static bool is_same_decision(struct weir_decision a, struct weir_decision b)
{
    return a.verdict == b.verdict && a.capacity == b.capacity && a.remaining == b.remaining
           && a.retry_after_ns == b.retry_after_ns && a.reset_after_ns == b.reset_after_ns
           && a.delay_ns == b.delay_ns;
}

static int128 amount_parts(struct weir_amount amount, const struct slow_limit *limit)
{
    int128 numerator = (int128)amount.numerator_high << 64 | amount.numerator_low;
    int128 denominator = (int128)amount.denominator_high << 64 | amount.denominator_low;
    /* Millionths times scale, where the denominator is scale * 10^6 or 1. */
    return denominator == 1 ? numerator * (int128)WEIR_UNIT * limit->scale
                            : numerator * (limit->scale * (int128)WEIR_UNIT / denominator);
}

/* The promises about a state, asked at one instant. */

static void check_reads_change_nothing(const struct trace *trace, uint64_t now_ns)
{
    struct weir_bucket copy = trace->bucket;
    struct weir_amount spill;
    bool full;
    struct weir_decision read = weir_bucket_take(&copy, &trace->limit, 0, now_ns);
    require(trace, read.verdict == WEIR_ALLOWED, "a cost of zero is allowed");
    require(trace, is_same_decision(read, weir_bucket_show(&copy, &trace->limit, now_ns, NULL)),
            "show answers as a cost of zero");
    require(
        trace,
        is_same_decision(read, weir_bucket_fill(&copy, &trace->limit, 0, now_ns, &spill, &full)),
        "fill of zero answers likewise");
    require(trace, is_same_decision(read, weir_bucket_refund(&copy, &trace->limit, 0, now_ns)),
            "refund of zero answers likewise");
    require(trace, is_same_state(copy, trace->bucket), "a read changes nothing");
}

static void check_reset_is_minimal(const struct trace *trace, uint64_t now_ns)
{
    struct weir_decision read = weir_bucket_show(&trace->bucket, &trace->limit, now_ns, NULL);
    uint64_t reset_ns = (uint64_t)read.reset_after_ns;
    if (now_ns + reset_ns > WEIR_NOW_NS_MAX) {
        return; // no reading of a clock is so late
    }
    struct weir_amount level;
    (void)weir_bucket_show(&trace->bucket, &trace->limit, now_ns + reset_ns, &level);
    require(trace, level.numerator_low == 0 && level.numerator_high == 0,
            "after reset_after the bucket is empty");
    if (reset_ns > 0) {
        (void)weir_bucket_show(&trace->bucket, &trace->limit, now_ns + reset_ns - 1, &level);
        require(trace, level.numerator_low != 0 || level.numerator_high != 0,
                "a nanosecond earlier it is not");
    }
}

/* can_take answers as take; and the wait it names is enough, and not a nanosecond too long. */
static void check_take(const struct trace *trace, uint64_t cost_micro, uint64_t now_ns)
{
    struct weir_bucket copy = trace->bucket;
    struct weir_decision question =
        weir_bucket_can_take(&trace->bucket, &trace->limit, cost_micro, now_ns);
    struct weir_decision taken = weir_bucket_take(&copy, &trace->limit, cost_micro, now_ns);
    require(trace, is_same_decision(question, taken), "can_take answers as take");
    if (taken.verdict != WEIR_ALLOWED) {
        require(trace, is_same_state(copy, trace->bucket), "a refusal changes nothing");
    }
    if (taken.verdict != WEIR_LIMITED) {
        return;
    }
    uint64_t then_ns = now_ns + (uint64_t)taken.retry_after_ns;
    if (then_ns > WEIR_NOW_NS_MAX) {
        return;
    }
    long_waits += taken.retry_after_ns > INT64_C(1) << 53;
    require(trace,
            weir_bucket_can_take(&copy, &trace->limit, cost_micro, then_ns).verdict == WEIR_ALLOWED,
            "after retry_after the take passes");
    struct weir_decision early =
        weir_bucket_can_take(&copy, &trace->limit, cost_micro, then_ns - 1);
    require(trace, early.verdict == WEIR_LIMITED && early.retry_after_ns == 1,
            "a nanosecond earlier it does not, and says: one nanosecond");
}

static void check_fill_is_take(const struct trace *trace, uint64_t cost_micro, uint64_t now_ns)
{
    struct weir_bucket taken = trace->bucket;
    struct weir_bucket filled = trace->bucket;
    struct weir_decision take = weir_bucket_take(&taken, &trace->limit, cost_micro, now_ns);
    struct weir_decision fill =
        weir_bucket_fill(&filled, &trace->limit, cost_micro, now_ns, NULL, NULL);
    if (take.verdict == WEIR_ALLOWED) {
        require(trace, is_same_decision(take, fill) && is_same_state(taken, filled),
                "a fill that fits is a take");
    }
    require(trace, filled.empty_at_ns >= trace->bucket.empty_at_ns, "a fill never goes back");
}

static void check_refund_undoes(const struct trace *trace, uint64_t cost_micro, uint64_t now_ns)
{
    struct weir_bucket copy = trace->bucket;
    int64_t level_ns = weir_bucket_show(&copy, &trace->limit, now_ns, NULL).reset_after_ns;
    struct weir_decision before = weir_bucket_take(&copy, &trace->limit, 0, now_ns);
    if (weir_bucket_take(&copy, &trace->limit, cost_micro, now_ns).verdict != WEIR_ALLOWED) {
        return;
    }
    struct weir_decision after = weir_bucket_refund(&copy, &trace->limit, cost_micro, now_ns);
    require(trace, is_same_decision(before, after), "a refund of a take answers as before");
    bool has_own_rest = (trace->bucket.word & ((UINT64_C(1) << 40) - 1)) < trace->limit.denominator;
    if (level_ns > 0 && has_own_rest) {
        require(trace, is_same_state(copy, trace->bucket), "a refund of a take undoes it");
    }
}

static void check_late_mints_nothing(const struct trace *trace, uint64_t cost_micro,
                                     uint64_t now_ns, uint64_t late_ns)
{
    if (late_ns > now_ns) {
        return;
    }
    struct weir_decision now =
        weir_bucket_can_take(&trace->bucket, &trace->limit, cost_micro, now_ns);
    struct weir_decision late =
        weir_bucket_can_take(&trace->bucket, &trace->limit, cost_micro, now_ns - late_ns);
    require(trace, late.verdict != WEIR_ALLOWED || now.verdict == WEIR_ALLOWED,
            "what a late reading allows, the present one does");
    require(trace, cost_micro != 0 || late.remaining <= now.remaining,
            "a late reading sees no more room");
    if (late.verdict == WEIR_LIMITED && now.verdict == WEIR_LIMITED) {
        require(trace, late.retry_after_ns == now.retry_after_ns + (int64_t)late_ns,
                "both name the same instant");
    }
}

/* For every two steps: what was admitted from the one to the other is at most C + T * N / P. */
static void check_bound(const struct trace *trace)
{
    if (!trace->is_pure) {
        return;
    }
    int128 admitted = 0;
    const struct step *last = &trace->steps[trace->count - 1];
    if (last->charged == 0) {
        return;
    }
    for (size_t i = trace->count; i-- > 0;) {
        const struct step *first = &trace->steps[i];
        admitted += first->charged;
        if (first->charged > 0) {
            int128 window_ns = (int128)last->now_ns - first->now_ns;
            require(trace,
                    admitted <= trace->slow_limit.capacity + window_ns * trace->slow_limit.drain,
                    "admitted <= C + T * N / P");
        }
    }
}

static void check_promises(const struct trace *trace, uint64_t cost_micro, uint64_t now_ns)
{
    require(trace, weir_bucket_valid(&trace->bucket), "the state is valid");
    check_reads_change_nothing(trace, now_ns);
    check_reset_is_minimal(trace, now_ns);
    check_take(trace, cost_micro, now_ns);
    check_fill_is_take(trace, cost_micro, now_ns);
    check_refund_undoes(trace, cost_micro, now_ns);
}

/* Does one step with both buckets, and compares. */

static struct slow_answer slow_step(struct trace *trace, const struct step *step)
{
    const struct slow_limit *limit = &trace->slow_limit;
    switch (step->operation) {
    case TAKE: return slow_take(&trace->slow, limit, step->cost_micro, step->now_ns);
    case FILL: return slow_fill(&trace->slow, limit, step->cost_micro, step->now_ns);
    case REFUND:
    case OPERATION_COUNT: break;
    }
    return slow_refund(&trace->slow, limit, step->cost_micro, step->now_ns);
}

static struct weir_decision fast_step(struct trace *trace, const struct step *step,
                                      struct weir_amount *spill, bool *full)
{
    const struct weir_limit *limit = &trace->limit;
    uint64_t now_ns = (uint64_t)step->now_ns;
    switch (step->operation) {
    case TAKE: return weir_bucket_take(&trace->bucket, limit, step->cost_micro, now_ns);
    case FILL:
        return weir_bucket_fill(&trace->bucket, limit, step->cost_micro, now_ns, spill, full);
    case REFUND:
    case OPERATION_COUNT: break;
    }
    return weir_bucket_refund(&trace->bucket, limit, step->cost_micro, now_ns);
}

static void compare_state(const struct trace *trace)
{
    const struct slow_bucket *slow = &trace->slow;
    if (slow->drain == 0) {
        require(trace, is_same_state(trace->bucket, (struct weir_bucket){0, 0}), "still untouched");
        return;
    }
    int128 empty_at_ns = slow->at_ns + slow->level / slow->drain;
    require(trace, (int128)trace->bucket.empty_at_ns == empty_at_ns, "the moment is exact");
    require(trace, (int128)trace->bucket.word == slow->level % slow->drain,
            "its remainder is exact");
}

static void trace_step(struct trace *trace, enum operation operation, uint64_t cost_micro,
                       int64_t now_ns)
{
    struct step *step = &trace->steps[trace->count++];
    struct weir_bucket shared_before = trace->bucket;
    struct weir_amount spill = {.denominator_low = 1};
    bool full = false;
    *step = (struct step){operation, cost_micro, now_ns, 0};
    struct slow_answer slow = slow_step(trace, step);
    struct weir_decision fast = fast_step(trace, step, &spill, &full);
    step->charged = slow.charged;
    trace->is_pure = trace->is_pure && operation != REFUND;
    require(trace, fast.verdict == slow.verdict, "the verdict");
    require(trace, fast.capacity == trace->config.capacity_micro / WEIR_UNIT, "the capacity");
    require(trace, (int128)fast.remaining == slow.remaining, "remaining = floor(C - level)");
    require(trace, fast.retry_after_ns == slow.retry_after_ns, "retry_after");
    require(trace, fast.reset_after_ns == slow.reset_after_ns, "reset_after");
    require(trace, fast.delay_ns == 0, "no delay");
    compare_state(trace);
    if (operation == FILL) {
        int128 spilled = (int128)cost_micro * trace->slow_limit.scale - slow.charged;
        require(trace, amount_parts(spill, &trace->slow_limit) == spilled, "the spill");
        require(trace, full == slow.full, "full is exact");
    }
    if (operation == TAKE) {
        struct weir_shared_bucket shared = {shared_before};
        require(trace,
                is_same_decision(fast, weir_shared_bucket_take(&shared, &trace->limit, cost_micro,
                                                               (uint64_t)now_ns)),
                "a shared bucket answers likewise");
        require(trace, is_same_state(shared.bucket, trace->bucket), "and goes to the same state");
    }
    struct weir_amount level;
    (void)weir_bucket_show(&trace->bucket, &trace->limit, (uint64_t)now_ns, &level);
    require(trace, amount_parts(level, &trace->slow_limit) == slow.level, "the level");
    check_bound(trace);
}

/* All traces of `length` more steps: every operation, half units, readings that go back and forth. */
static void try_all(const struct trace *so_far, size_t length, unsigned late_max)
{
    static const struct {
        enum operation operation;
        uint64_t halves;
    } CHOICES[] = {{TAKE, 1}, {TAKE, 2}, {TAKE, 3},   {TAKE, 5},
                   {FILL, 1}, {FILL, 4}, {REFUND, 1}, {REFUND, 3}};
    int64_t last_ns = so_far->count > 0 ? so_far->steps[so_far->count - 1].now_ns : 20;
    for (int64_t now_ns = last_ns - late_max; now_ns <= last_ns + 3; now_ns++) {
        for (size_t i = 0; i < sizeof CHOICES / sizeof CHOICES[0]; i++) {
            struct trace trace = *so_far;
            uint64_t cost_micro = CHOICES[i].halves * (WEIR_UNIT / 2);
            trace_step(&trace, CHOICES[i].operation, cost_micro, now_ns);
            if (length > 1) {
                try_all(&trace, length - 1, late_max);
                continue;
            }
            check_promises(&trace, cost_micro, (uint64_t)now_ns);
            check_promises(&trace, WEIR_UNIT, (uint64_t)now_ns + 1);
            check_late_mints_nothing(&trace, cost_micro, (uint64_t)now_ns, 1);
            check_late_mints_nothing(&trace, 0, (uint64_t)now_ns, 1);
        }
    }
}

static void for_each_small_limit(size_t length, unsigned late_max)
{
    seed = 0;
    for (uint64_t i = 0; i < 4 * 4 * 3; i++) {
        static const uint64_t CAPACITIES[] = {1, 2, 5}; // halves
        const struct weir_limit_config config = {
            .count_micro = (1 + i % 4) * WEIR_UNIT, // 1 .. 4 units in 1 .. 4 ns
            .period_ns = 1 + i / 4 % 4,
            .capacity_micro = CAPACITIES[i / 16] * (WEIR_UNIT / 2),
        };
        struct trace trace;
        trace_start(&trace, &config);
        try_all(&trace, length, late_max);
    }
}

static time_t soak_seconds(void)
{
    const char *minutes = getenv("SOAK_MINUTES");
    return minutes != NULL ? (time_t)atol(minutes) * 60 : 0;
}

/* Where only one in EVERY is walked they are shorter: what overflows does so in the random ones. */
static void run_all_short(unsigned late_max)
{
    size_t length = EVERY > 1 ? 2 : 3;
    checked = 0;
    for_each_small_limit(soak_seconds() > 0 ? 4 : length, late_max);
    print_message("%llu promises held\n", (unsigned long long)checked);
}

static void test_all_short_traces(void **state)
{
    (void)state;
    run_all_short(0);
}

static void test_all_short_traces_with_late_readings(void **state)
{
    (void)state;
    run_all_short(2);
}

/* Random traces. */

static uint64_t random_state;

/* xorshift64*, S. Vigna, 2014. */
static uint64_t random_word(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

static uint64_t random_below(uint64_t count)
{
    return random_word() % count;
}

/* 1 .. max: all magnitudes alike, with the ends and round numbers often. */
static uint64_t random_magnitude(uint64_t max)
{
    static const uint64_t ROUND[] = {1, 10, 1000, 1000000, 1000000000, UINT64_C(60000000000)};
    uint64_t value = (random_word() >> random_below(64)) + 1;
    switch (random_below(8)) {
    case 0: value = 1; break;
    case 1: value = max - random_below(3); break;
    case 2:
    case 3: value = ROUND[random_below(6)] * (1 + random_below(20)); break;
    default: break;
    }
    return value >= 1 && value <= max ? value : 1 + value % max;
}

/* A random config that can be compiled. */
static struct weir_limit_config random_config(void)
{
    for (;;) {
        struct weir_limit unused;
        const struct weir_limit_config config = {
            .count_micro = random_magnitude(WEIR_MICRO_MAX),
            .period_ns = random_magnitude(WEIR_SPAN_NS_MAX),
            .capacity_micro = random_magnitude(WEIR_MICRO_MAX),
        };
        if (weir_limit_init(&unused, &config, NULL) == WEIR_OK) {
            return config;
        }
    }
}

static uint64_t random_cost(const struct trace *trace)
{
    uint64_t capacity = trace->config.capacity_micro;
    switch (random_below(8)) {
    case 0: return 0;
    case 1: return WEIR_UNIT;
    case 2: return capacity;
    case 3: return capacity / (1 + random_below(5)) + random_below(2);
    case 4: return random_magnitude(WEIR_COST_MAX);
    default: return random_magnitude(capacity);
    }
}

/* Where it hurts: at once, a nanosecond before and after something happens, much later, earlier. */
static int64_t random_now(const struct trace *trace, int64_t last_ns, bool may_be_late)
{
    uint64_t now_ns = (uint64_t)last_ns;
    struct weir_decision read = weir_bucket_show(&trace->bucket, &trace->limit, now_ns, NULL);
    uint64_t reset_ns = (uint64_t)read.reset_after_ns;
    switch (random_below(may_be_late ? 8 : 7)) {
    case 0: break;
    case 1: now_ns += 1; break;
    case 2: now_ns += reset_ns; break;
    case 3: now_ns += reset_ns > 0 ? reset_ns - 1 : 0; break;
    case 4: now_ns += random_below(2 * trace->limit.full_ns + 2); break;
    case 5: now_ns += random_below(trace->limit.full_ns / 16 + 2); break;
    case 6: {
        struct weir_decision take =
            weir_bucket_can_take(&trace->bucket, &trace->limit, random_cost(trace), now_ns);
        now_ns += take.retry_after_ns > 0 ? (uint64_t)take.retry_after_ns - random_below(2) : 0;
        break;
    }
    default: {
        uint64_t back_ns = random_magnitude(trace->limit.full_ns + 1);
        now_ns -= back_ns < now_ns ? back_ns : now_ns;
        break;
    }
    }
    return (int64_t)(now_ns < WEIR_NOW_NS_MAX ? now_ns : WEIR_NOW_NS_MAX);
}

/* Other numbers for the same bucket. The slow bucket remembers which it was written under. */
static void trace_change(struct trace *trace)
{
    struct weir_limit_config config = trace->config;
    switch (random_below(3)) {
    case 0: config.capacity_micro = random_magnitude(2 * config.capacity_micro + 1); break;
    case 1: config.count_micro = 1 + random_below(13) * WEIR_UNIT; break;
    default: config = random_config(); break;
    }
    struct weir_limit limit;
    if (config.capacity_micro <= WEIR_MICRO_MAX
        && weir_limit_init(&limit, &config, NULL) == WEIR_OK) {
        trace->config = config;
        trace->limit = limit;
        trace->slow_limit = slow_limit_of(&config);
        trace->is_pure = false;
    }
}

static void random_trace(bool may_be_late, bool may_change)
{
    struct trace trace;
    struct weir_limit_config config = random_config();
    trace_start(&trace, &config);
    int64_t now_ns = (int64_t)(random_below(4) == 0 ? random_below(WEIR_NOW_NS_MAX)
                                                    : random_below(UINT64_C(1) << 50));
    bool may_refund = random_below(2) == 0;
    for (size_t i = 0; i < TRACE_MAX; i++) {
        now_ns = random_now(&trace, now_ns, may_be_late);
        enum operation operation = (enum operation)random_below(may_refund ? 3 : 2);
        trace_step(&trace, operation, random_cost(&trace), now_ns);
        check_promises(&trace, random_cost(&trace), (uint64_t)now_ns);
        check_late_mints_nothing(&trace, random_cost(&trace), (uint64_t)now_ns,
                                 random_magnitude(trace.limit.full_ns + 1));
        if (may_change && random_below(8) == 0) {
            trace_change(&trace);
        }
    }
}

enum { RANDOM_TRACES = 20000 / EVERY };

static void run_random(bool may_be_late, bool may_change)
{
    const char *given = getenv("WEIR_SEED");
    time_t started = time(NULL);
    time_t until = started + soak_seconds() / 3;
    uint64_t first_seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)started * 1000003;
    uint64_t traces = 0;
    checked = 0;
    long_waits = 0;
    print_message("first seed %llu\n", (unsigned long long)first_seed);
    do {
        for (int i = 0; i < RANDOM_TRACES; i++, traces++) {
            seed = first_seed + traces;
            random_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
            (void)random_word();
            random_trace(may_be_late, may_change);
        }
    } while (time(NULL) < until);
    print_message("%llu traces of %d operations, %llu promises held, %llu waits beyond 2^53 ns\n",
                  (unsigned long long)traces, TRACE_MAX, (unsigned long long)checked,
                  (unsigned long long)long_waits);
    assert_true(long_waits > traces / 10);
}

static void test_random_traces(void **state)
{
    (void)state;
    run_random(false, false);
}

static void test_random_traces_with_late_readings(void **state)
{
    (void)state;
    run_random(true, false);
}

static void test_random_traces_under_changing_numbers(void **state)
{
    (void)state;
    run_random(true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_short_traces),
        cmocka_unit_test(test_all_short_traces_with_late_readings),
        cmocka_unit_test(test_random_traces),
        cmocka_unit_test(test_random_traces_with_late_readings),
        cmocka_unit_test(test_random_traces_under_changing_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
