/* SPDX-License-Identifier: MIT
 *
 * Random takes, fills and resets of windows, at readings that lag now and then, in a pool for events that others
 * have nearly filled, some of them under numbers that change. After every step:
 *
 *   never more than N in any P      of what was let through, at the instants that the answers give it
 *   and no fewer                    who is refused would have made it more
 *   a retry is enough, and minimal  asked at that instant, and a nanosecond before
 *   can_take foretells take         all of it
 *   who finds no room for an event  has charged nothing, and there was none
 *
 * and what a log takes of memory is at most what `weir explain` says.
 *
 * seeds.h says how to repeat one walk, and how to walk for longer. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "cli/promise.h"
#include "seeds.h"
#include "weir/limiter.h"

enum {
    KEYS = 6,
    STEPS = 250,
    WALKS = 2500,
    FEW = WALKS / EVERY,
    NUMBERS = 3,
    CHUNK_BYTES = 256,
    OTHERS_MAX = 15
};

#define MS  UINT64_C(1000000)
#define S   UINT64_C(1000000000)
#define DAY (86400 * S)

/* What was let through, and under which period. */
struct event {
    uint64_t at_ns, cost, period_ns;
};

struct history {
    struct event events[STEPS + 1];
    size_t count;
    uint64_t last_ns;
};

struct walk {
    struct weir_limiter *limiter;
    struct weir_rule rules[NUMBERS]; // of one name: its numbers, one after another
    struct weir_rule other;
    size_t numbers;
    bool changes, may_lag;
    struct history histories[KEYS];
    uint64_t now_ns;
};

static uint64_t seed, random_state;
static uint64_t allowed_count, limited_count, full_count, uncounted_count;

static uint64_t below(uint64_t limit)
{
    random_state ^= random_state << 13; // xorshift64, G. Marsaglia, 2003
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % limit;
}

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("WEIR_SEED=%llu: not so: %s", (unsigned long long)seed, #condition);          \
        }                                                                                          \
    } while (0)

/* ---- asking ---- */

static const struct weir_limit *limit_of(const struct walk *walk)
{
    return &walk->rules[walk->numbers].limit;
}

static struct weir_decision ask(struct walk *walk, const struct weir_rule *rule,
                                enum weir_operation operation, uint64_t key, uint64_t cost,
                                uint64_t now_ns, struct weir_detail *detail)
{
    const struct weir_request request = {.rule = rule,
                                         .key = &key,
                                         .key_len = sizeof key,
                                         .cost_micro = cost * WEIR_UNIT,
                                         .operation = operation,
                                         .detail = detail};
    struct weir_decision decision;
    weir_limiter_decide_at(walk->limiter, &request, &decision, 1, now_ns);
    return decision;
}

static struct weir_decision ask_key(struct walk *walk, enum weir_operation operation, uint64_t key,
                                    uint64_t cost, uint64_t now_ns)
{
    return ask(walk, &walk->rules[walk->numbers], operation, key, cost, now_ns, NULL);
}

static bool pool_is_full(const struct walk *walk)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(walk->limiter, &stats);
    return stats.events_used_bytes + CHUNK_BYTES > stats.events_bytes - CHUNK_BYTES;
}

static bool is_same(struct weir_decision a, struct weir_decision b)
{
    return a.verdict == b.verdict && a.capacity == b.capacity && a.remaining == b.remaining
           && a.retry_after_ns == b.retry_after_ns && a.reset_after_ns == b.reset_after_ns
           && a.delay_ns == b.delay_ns;
}

/* ---- what must hold ---- */

/* What still counts at an instant. `at_least`: no event of it can have been forgotten. Otherwise all that can be
 * remembered: a longer period brings back what has left. */
static uint64_t counted(const struct walk *walk, uint64_t key, uint64_t now_ns, bool at_least)
{
    const struct history *history = &walk->histories[key];
    uint64_t sum = 0;
    uint64_t period_ns = limit_of(walk)->full_ns;
    for (size_t i = history->count; i > 0; i--) {
        const struct event *event = &history->events[i - 1];
        bool takes = at_least ? event->period_ns < period_ns : event->period_ns > period_ns;
        period_ns = takes ? event->period_ns : period_ns;
        sum += event->at_ns + period_ns > now_ns ? event->cost : 0;
    }
    return sum;
}

/* It was let through: says so in the history. Its instant follows from when it leaves. */
static void note(struct walk *walk, uint64_t key, uint64_t cost, uint64_t now_ns,
                 struct weir_decision decision)
{
    struct history *history = &walk->histories[key];
    uint64_t period_ns = limit_of(walk)->full_ns;
    uint64_t at_ns = now_ns + (uint64_t)decision.reset_after_ns - period_ns;
    REQUIRE(at_ns >= now_ns && at_ns >= history->last_ns);
    REQUIRE(walk->may_lag || at_ns == now_ns);
    REQUIRE(counted(walk, key, at_ns, true) + cost <= limit_of(walk)->capacity);
    history->events[history->count++] = (struct event){at_ns, cost, period_ns};
    history->last_ns = at_ns;
    allowed_count++;
}

static void check_refusal(struct walk *walk, uint64_t key, uint64_t cost, uint64_t now_ns,
                          struct weir_decision decision)
{
    uint64_t last_ns = walk->histories[key].last_ns;
    uint64_t at_ns = now_ns > last_ns ? now_ns : last_ns;
    uint64_t retry_ns = (uint64_t)decision.retry_after_ns;
    REQUIRE(counted(walk, key, at_ns, false) + cost > limit_of(walk)->capacity);
    REQUIRE(decision.retry_after_ns > 0);
    REQUIRE(ask_key(walk, WEIR_CAN_TAKE, key, cost, now_ns + retry_ns).verdict == WEIR_ALLOWED);
    REQUIRE(ask_key(walk, WEIR_CAN_TAKE, key, cost, now_ns + retry_ns - 1).verdict == WEIR_LIMITED);
    limited_count++;
}

/* Of a take that was let through or failed: whether it counts. If not there is no room for an event. */
static bool is_counted(struct walk *walk, uint64_t key, uint64_t now_ns,
                       struct weir_decision before, struct weir_decision decision)
{
    struct weir_decision after = ask_key(walk, WEIR_SHOW, key, 0, now_ns);
    bool counts = decision.verdict == WEIR_ALLOWED && after.remaining == decision.remaining;
    if (!counts) {
        bool allows = limit_of(walk)->on_full == WEIR_ON_FULL_ALLOW;
        REQUIRE(decision.verdict == (allows ? WEIR_ALLOWED : WEIR_FAILED));
        REQUIRE(is_same(before, after) && pool_is_full(walk));
        full_count += !allows;
        uncounted_count += allows;
    }
    return counts;
}

static void do_take(struct walk *walk, uint64_t key, uint64_t cost, uint64_t now_ns)
{
    struct weir_decision before = ask_key(walk, WEIR_SHOW, key, 0, now_ns);
    struct weir_decision foretold = ask_key(walk, WEIR_CAN_TAKE, key, cost, now_ns);
    struct weir_decision decision = ask_key(walk, WEIR_TAKE, key, cost, now_ns);
    REQUIRE(is_same(foretold, decision) || decision.verdict == WEIR_FAILED);
    switch (decision.verdict) {
    case WEIR_ALLOWED:
    case WEIR_FAILED:
        REQUIRE(foretold.verdict == WEIR_ALLOWED);
        if (is_counted(walk, key, now_ns, before, decision)) {
            note(walk, key, cost, now_ns, decision);
        }
        break;
    case WEIR_LIMITED: check_refusal(walk, key, cost, now_ns, decision); break;
    case WEIR_NEVER: REQUIRE(cost > limit_of(walk)->capacity); break;
    case WEIR_BLOCKED: REQUIRE(decision.verdict != WEIR_BLOCKED);
    }
}

static void do_fill(struct walk *walk, uint64_t key, uint64_t cost, uint64_t now_ns)
{
    struct weir_detail detail;
    struct weir_decision before = ask_key(walk, WEIR_SHOW, key, 0, now_ns);
    struct weir_decision decision =
        ask(walk, &walk->rules[walk->numbers], WEIR_FILL, key, cost, now_ns, &detail);
    uint64_t fits = cost < before.remaining ? cost : before.remaining;
    if (fits > 0 && is_counted(walk, key, now_ns, before, decision)) {
        REQUIRE(detail.amount.numerator_low == cost - fits);
        REQUIRE(detail.full == (decision.remaining == 0));
        note(walk, key, fits, now_ns, decision);
    }
}

static void do_reset(struct walk *walk, uint64_t key, uint64_t now_ns)
{
    (void)ask_key(walk, WEIR_RESET, key, 0, now_ns);
    REQUIRE(ask_key(walk, WEIR_SHOW, key, 0, now_ns).remaining == limit_of(walk)->capacity);
    walk->histories[key].count = 0; // a reset goes back in time, too
    walk->histories[key].last_ns = 0;
}

/* ---- a walk ---- */

static void limit_open(struct weir_limit *limit, uint64_t count, uint64_t period_ns, bool allows)
{
    const struct weir_limit_config config = {
        .kind = WEIR_KIND_WINDOW,
        .count_micro = count * WEIR_UNIT,
        .period_ns = period_ns,
        .capacity_micro = count * WEIR_UNIT,
        .on_full = allows ? WEIR_ON_FULL_ALLOW : WEIR_ON_FULL_REFUSE,
        .waiting = WEIR_WAITING,
    };
    struct weir_error error;
    if (weir_limit_init(limit, &config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
}

static uint64_t random_period(void)
{
    static const uint64_t PERIODS_NS[] = {1, 60, 5000, MS, 40 * MS, 10 * S, DAY, 100 * DAY};
    uint64_t period_ns = PERIODS_NS[below(sizeof PERIODS_NS / sizeof PERIODS_NS[0])];
    return period_ns - below(period_ns / 3 + 1);
}

static struct weir_limiter *open_limiter(uint64_t events_bytes)
{
    const struct weir_limiter_config config = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                               .events_bytes = events_bytes,
                                               .seed = {1, seed},
                                               .caller_clock = true};
    struct weir_limiter *limiter;
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return limiter;
}

/* Others hold some chunks, and let them go in the course of the walk, or not. */
static void crowd(struct walk *walk)
{
    for (uint64_t i = OTHERS_MAX - below(OTHERS_MAX / 2); i > 0; i--) {
        uint64_t now_ns = walk->now_ns - below(walk->other.limit.full_ns / 2 + 1);
        (void)ask(walk, &walk->other, WEIR_TAKE, KEYS + i, 1, now_ns, NULL);
    }
}

static void walk_open(struct walk *walk)
{
    static const uint64_t COUNTS[] = {1, 2, 7, 40, 300, WEIR_WINDOW_COUNT_MAX};
    uint64_t period_ns = random_period();
    bool allows = below(4) == 0;
    memset(walk, 0, sizeof *walk);
    walk->limiter = open_limiter(WEIR_EVENTS_BYTES_MIN);
    walk->changes = below(3) == 0;
    walk->may_lag = below(3) == 0;
    walk->now_ns = 1000 * DAY;
    for (int i = 0; i < NUMBERS; i++) {
        struct weir_limit limit;
        uint64_t times = walk->changes ? 1 + below(3) : 1;
        limit_open(&limit, COUNTS[below(sizeof COUNTS / sizeof COUNTS[0])], period_ns * times,
                   allows);
        weir_rule_init_named(&walk->rules[i], walk->limiter, &limit, "name", 4);
    }
    struct weir_limit other;
    limit_open(&other, 1, period_ns + below(period_ns), false);
    weir_rule_init(&walk->other, walk->limiter, &other);
    crowd(walk);
}

static uint64_t random_cost(const struct walk *walk)
{
    uint64_t capacity = limit_of(walk)->capacity;
    switch (below(8)) {
    case 0: return 1 + below(capacity);
    case 1: return capacity + below(2);
    case 2: return 1 + below(capacity < 5 ? capacity : 5);
    default: return 1;
    }
}

static void do_time(struct walk *walk)
{
    uint64_t period_ns = limit_of(walk)->full_ns;
    switch (below(8)) {
    case 0: walk->now_ns += period_ns; break;
    case 1: walk->now_ns += period_ns / 2 + below(2); break;
    case 2:
    case 3: walk->now_ns += below(period_ns / 40 + 2); break;
    default: break;
    }
}

static void do_step(struct walk *walk)
{
    uint64_t key = below(KEYS) * below(2); // one of them often
    uint64_t now_ns = walk->now_ns;
    if (walk->may_lag && below(8) == 0) {
        now_ns -= below(limit_of(walk)->full_ns + 1);
    }
    switch (below(40)) {
    case 0: do_reset(walk, key, now_ns); break;
    case 1:
    case 2:
    case 3: do_fill(walk, key, random_cost(walk), now_ns); break;
    case 4:
    case 5: crowd(walk); break;
    case 6: walk->numbers = walk->changes ? below(NUMBERS) : 0; break;
    default: do_take(walk, key, random_cost(walk), now_ns); break;
    }
    do_time(walk);
}

/* When all has left everybody finds room again: one event each. */
static void walk_close(struct walk *walk)
{
    walk->now_ns += 1000 * DAY;
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t capacity = limit_of(walk)->capacity;
        REQUIRE(ask_key(walk, WEIR_SHOW, key, 0, walk->now_ns).reset_after_ns == 0);
        REQUIRE(ask_key(walk, WEIR_TAKE, key, capacity, walk->now_ns).verdict == WEIR_ALLOWED);
        REQUIRE(ask_key(walk, WEIR_TAKE, key, 1, walk->now_ns).verdict == WEIR_LIMITED);
    }
    weir_limiter_close(walk->limiter);
}

static void walk_once(uint64_t its_seed)
{
    static struct walk walk;
    seed = its_seed;
    random_state = its_seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    walk_open(&walk);
    for (int i = 0; i < STEPS; i++) {
        do_step(&walk);
    }
    walk_close(&walk);
}

static void test_windows_keep_their_word(void **state)
{
    (void)state;
    if (!walk_seeds(WALKS, walk_once)) {
        return;
    }
    print_message("%llu let through, %llu refused, %llu found no room, %llu passed uncounted\n",
                  (unsigned long long)allowed_count, (unsigned long long)limited_count,
                  (unsigned long long)full_count, (unsigned long long)uncounted_count);
    assert_true(allowed_count > FEW && limited_count > FEW && full_count > FEW
                && uncounted_count > FEW);
}

/* ---- memory ---- */

/* A gap that needs so many bytes, or the same cost: the shortest, which are the most in a period. */
static uint64_t gap_of(unsigned bytes)
{
    return bytes == 1 ? 0 : UINT64_C(1) << (8 * (bytes - 1) - 4);
}

/* Events that are as long as can be for what they cost, of one length or of many, as many as the limit lets
 * through in its period, and twice over. */
static void fill_log(struct walk *walk, const struct weir_limit_config *config, unsigned bytes)
{
    static const uint64_t COSTS[] = {1, 1, 1, 2, 34, 8194};
    uint64_t sort = below(3); // of cost 1, of any, or of the one that is two bytes
    for (uint64_t let_through = 0; let_through < 2 * walk->other.limit.capacity;) {
        uint64_t cost = sort == 0 ? 1 : sort == 1 ? COSTS[below(6)] : 2;
        walk->now_ns += gap_of(bytes > 0 ? bytes : 1 + (unsigned)below(8));
        (void)ask(walk, &walk->other, WEIR_TAKE, 1, cost, walk->now_ns, NULL);
        let_through += cost;
        struct weir_limiter_stats stats;
        if (below(64) == 0) {
            weir_limiter_stats(walk->limiter, &stats);
            REQUIRE(stats.events_used_bytes <= promise_events_bytes(config));
        }
        if (walk->now_ns > WEIR_NOW_NS_MAX - gap_of(8)) {
            return;
        }
    }
}

/* Eight bytes an event, plus a constant. */
static void test_a_log_takes_what_explain_says(void **state)
{
    (void)state;
    static const uint64_t PERIODS_NS[] = {5000, S, DAY, 100 * DAY, 36525 * DAY};
    static struct walk walk;
    for (seed = 1; seed <= 450; seed++) {
        uint64_t count = 50 + below(4000);
        const struct weir_limit_config config = {.kind = WEIR_KIND_WINDOW,
                                                 .count_micro = count * WEIR_UNIT,
                                                 .period_ns = PERIODS_NS[seed % 5]};
        random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
        walk = (struct walk){.limiter = open_limiter(1 << 20), .now_ns = 0};
        struct weir_limit limit;
        limit_open(&limit, count, config.period_ns, false);
        weir_rule_init(&walk.other, walk.limiter, &limit);
        fill_log(&walk, &config, (unsigned)seed % 9);
        weir_limiter_close(walk.limiter);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_keep_their_word),
        cmocka_unit_test(test_a_log_takes_what_explain_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
