/* SPDX-License-Identifier: MIT
 *
 * Random arrivals, waits, cancels, plain takes, fills, refunds and resets, on a clock that steps, stalls
 * and is read late, against a line as one would draw it on paper: a list of people, each with its own
 * times as exact rationals, walked from one event to the next (line_on_paper.h). The same answers at the same
 * instants, whatever the kind of the limit.
 *
 * seeds.h says how to repeat one walk, and how to walk for longer. */
#include "../support/lines_world.h"

#include "line_on_paper.h"
#include "seeds.h"

enum { STEPS = 60, WALKS = 4000, WAITING_ALL = 12 };

#define MS UINT64_C(1000000)

/* ---- a walk ---- */

struct walk {
    struct people people;
    struct weir_rule rule;
    struct line_on_paper paper;
    struct told told[PEOPLE_MAX];
    int waiting;
};

static uint64_t seed;
static uint64_t random_state;
static uint64_t compared_count, served_count, expired_count, refused_count;

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

static void show_paper(const struct line_on_paper *paper, uint64_t now_ns)
{
    static const char *const KINDS[] = {"bucket", "queue", "stepped", "fixed", "sliding", "window"};
    print_error("%s%s, %lld-ths; at %llu, empty %+lld ns, %d wait\n", KINDS[paper->bucket.kind],
                paper->is_first_now ? " first=now" : "", (long long)paper->bucket.denominator,
                (unsigned long long)now_ns, (long long)paper_empty_after(&paper->bucket, now_ns),
                paper->count);
    for (int i = 0; i < paper->count; i++) {
        const struct place *place = &paper->places[i];
        print_error("  %d: lasts %lld, deadline %+lld\n", place->number,
                    (long long)ceil_ns(&paper->bucket, place->span),
                    (long long)(place->deadline_ns - now_ns));
    }
}

static void require_at(const struct line_on_paper *paper, uint64_t now_ns, bool holds,
                       const char *what)
{
    compared_count++;
    if (!holds) {
        show_paper(paper, now_ns);
        fail_msg("seed %llu: %s", (unsigned long long)seed, what);
    }
}

static void require(const struct walk *walk, bool holds, const char *what)
{
    require_at(&walk->paper, walk->people.now_ns, holds, what);
}

/* Kinds that count hold what they count in a period; those that count whole units have a few of them. */
static struct weir_limit_config random_config(void)
{
    struct weir_limit_config config = {
        .kind = (enum weir_kind)random_below(6),
        .count_micro = (1 + random_below(7)) * (random_below(2) == 0 ? WEIR_UNIT : 70001),
        .period_ns = (1 + random_below(40)) * MS + random_below(3),
        .capacity_micro = (2 + random_below(10)) * (WEIR_UNIT / 2),
        .first = (enum weir_first)random_below(2),
        .waiting = random_below(4) == 0 ? (uint32_t)(1 + random_below(3)) : WAITING_ALL,
    };
    if (config.kind == WEIR_KIND_SLIDING || config.kind == WEIR_KIND_WINDOW) {
        config.count_micro = (1 + random_below(9)) * WEIR_UNIT;
    }
    if (config.kind >= WEIR_KIND_FIXED) {
        config.capacity_micro = config.count_micro;
    }
    config.first = config.kind == WEIR_KIND_QUEUE ? config.first : WEIR_FIRST_INTERVAL;
    return config;
}

static void walk_open(struct walk *walk)
{
    struct weir_limit limit;
    struct weir_limit_config config = random_config();
    struct weir_error error;
    if (weir_limit_init(&limit, &config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    people_open(&walk->people, WEIR_MEMORY_BYTES_MIN, 0);
    weir_rule_init(&walk->rule, walk->people.limiter, &limit);
    walk->people.now_ns = 1000 * MS + random_below(MS);
    walk->waiting = (int)config.waiting;
    walk->paper = (struct line_on_paper){
        .bucket = bucket_on_paper(&config, &limit),
        .is_queue = config.kind == WEIR_KIND_QUEUE,
        .is_first_now = config.first == WEIR_FIRST_NOW,
    };
    memset(walk->told, 0, sizeof walk->told);
}

/* All whom the paper calls answered are, and so; all others stand. */
static void compare(const struct walk *walk)
{
    for (int i = 0; i < walk->people.count; i++) {
        const struct person *person = &walk->people.list[i];
        require(walk, person->stands == !walk->told[i].is_told, "who stands there");
        if (person->stands || walk->told[i].verdict != person->decision.verdict) {
            require(walk, person->stands, "the verdict");
            continue;
        }
        require(walk, person->answered_ns == walk->told[i].at_ns, "the instant");
        if (person->decision.verdict == WEIR_LIMITED && walk->told[i].retry_ns != 0) {
            uint64_t retry_ns = (uint64_t)person->decision.retry_after_ns;
            require(walk, retry_ns >= walk->told[i].retry_ns, "a retry is enough");
            require(walk, retry_ns == walk->told[i].retry_ns || walk->told[i].is_enough,
                    "and minimal");
        }
    }
    uint64_t now_ns = walk->people.now_ns;
    int128 level_ns = paper_empty_after(&walk->paper.bucket, now_ns);
    struct weir_decision shown = people_ask_at((struct people *)(uintptr_t)&walk->people,
                                               &walk->rule, "key", WEIR_SHOW, 0, now_ns);
    require(walk, shown.reset_after_ns == (int64_t)level_ns, "the bucket's moment");
    require(walk, count_marks(&walk->people) == (walk->paper.count > 0), "the mark");
    require(walk, people_stats(&walk->people).waiting_count == (uint64_t)walk->paper.count,
            "how many");
}

static uint64_t random_cost(const struct walk *walk)
{
    uint64_t capacity = walk->rule.limit.capacity_micro;
    uint64_t grain = walk->rule.limit.grain_micro;
    uint64_t cost = WEIR_UNIT < capacity ? WEIR_UNIT : capacity;
    switch (random_below(8)) {
    case 0: cost = capacity; break;
    case 1: cost = 1 + random_below(capacity); break;
    case 2: cost = capacity - random_below(capacity / 3); break;
    case 3: cost = capacity / 3 + 1; break;
    default: break;
    }
    return (cost + grain - 1) / grain * grain;
}

static int128 span_of(const struct walk *walk, uint64_t cost_micro)
{
    return (int128)cost_micro * walk->paper.bucket.scale;
}

/* A wait that is enough to the nanosecond, or lacks one, or any. */
static uint64_t random_wait(const struct walk *walk, uint64_t cost_micro, uint64_t now_ns)
{
    struct line_on_paper ahead = walk->paper;
    int128 span = span_of(walk, cost_micro);
    if (random_below(2) == 0) {
        return 1 + random_below(random_below(2) == 0 ? 400 * MS : 40 * MS);
    }
    settle(&ahead, now_ns, NULL);
    int128 due_ns = due_behind(&ahead, span);
    if (ahead.is_queue) {
        struct place place = {
            .span = span, .begin = later_of(ahead.bucket.moment, parts_of(&ahead.bucket, now_ns))};
        due_ns = egress_ns(&ahead, &place);
    }
    int128 wait_ns = due_ns - (int128)now_ns;
    wait_ns -= (int128)random_below(2);
    return wait_ns < 1 ? 1 : (uint64_t)wait_ns;
}

/* After retry_after the same call, alone, is let in; a nanosecond earlier it is not. */
static void check_retry(const struct walk *walk, const struct line_on_paper *before,
                        struct place place, uint64_t wait_ns, uint64_t now_ns, uint64_t retry_ns)
{
    struct line_on_paper then = *before;
    uint64_t then_ns = now_ns + retry_ns;
    then.has_expired = false;
    advance(&then, now_ns, then_ns, NULL);
    bool is_enough = then.has_expired;
    place.deadline_ns = then_ns + wait_ns;
    require(walk, join_on_paper(&then, place, walk->waiting, then_ns, NULL) != REFUSED,
            "after the retry it is let in");
    struct line_on_paper early = *before;
    advance(&early, now_ns, then_ns - 1, NULL);
    place.deadline_ns--;
    require(walk,
            is_enough || join_on_paper(&early, place, walk->waiting, then_ns - 1, NULL) == REFUSED,
            "a nanosecond earlier it is not");
}

static void do_join(struct walk *walk, uint64_t now_ns)
{
    uint64_t cost_micro = random_cost(walk);
    uint64_t wait_ns = random_wait(walk, cost_micro, now_ns);
    int number = walk->people.count;
    struct place place = {
        .number = number, .span = span_of(walk, cost_micro), .deadline_ns = now_ns + wait_ns};
    const struct person *person =
        people_join_at(&walk->people, &walk->rule, "key", cost_micro, wait_ns, now_ns);
    enum joined joined = join_on_paper(&walk->paper, place, walk->waiting, now_ns, walk->told);
    require(walk, person->stands == (joined == STANDS), "who is let in");
    if (joined == STANDS) {
        return;
    }
    static const enum weir_verdict VERDICTS[] = {
        [REFUSED] = WEIR_LIMITED, [SERVED] = WEIR_ALLOWED, [NEVER] = WEIR_NEVER};
    tell(walk->told, number, VERDICTS[joined], now_ns);
    if (joined == REFUSED) {
        refused_count++;
        require(walk, person->decision.verdict == WEIR_LIMITED, "who is not");
        check_retry(walk, &walk->paper, place, wait_ns, now_ns,
                    (uint64_t)person->decision.retry_after_ns);
    }
}

static void do_take(struct walk *walk, uint64_t now_ns)
{
    uint64_t cost_micro = random_cost(walk);
    bool is_question = random_below(4) == 0;
    struct weir_decision decision =
        people_ask_at(&walk->people, &walk->rule, "key", is_question ? WEIR_CAN_TAKE : WEIR_TAKE,
                      cost_micro, now_ns);
    int128 span = span_of(walk, cost_micro);
    settle(&walk->paper, now_ns, walk->told);
    struct line_on_paper before = walk->paper;
    bool passes = take_on_paper(&walk->paper, span, now_ns, walk->told);
    require(walk, decision.verdict == (passes ? WEIR_ALLOWED : WEIR_LIMITED), "a plain take");
    if (!passes) {
        bool is_enough;
        uint64_t retry_ns = pass_after(&walk->paper, span, now_ns, &is_enough);
        require(walk, (uint64_t)decision.retry_after_ns >= retry_ns, "its retry is enough");
        require(walk, (uint64_t)decision.retry_after_ns == retry_ns || is_enough, "and minimal");
    }
    if (is_question) {
        walk->paper = before;
    }
}

static void do_leave(struct walk *walk, uint64_t now_ns)
{
    if (walk->paper.count == 0) {
        return;
    }
    int number = walk->paper.places[random_below((uint64_t)walk->paper.count)].number;
    leave_on_paper(&walk->paper, number, now_ns, walk->told);
    if (person_leave_at(&walk->people.list[number], now_ns)) {
        walk->told[number].is_told = true; // it gave its place back
        walk->people.list[number].decision.verdict = walk->told[number].verdict = WEIR_FAILED;
        walk->people.list[number].answered_ns = walk->told[number].at_ns = now_ns;
    }
}

static void do_change(struct walk *walk, uint64_t now_ns)
{
    uint64_t cost_micro = random_cost(walk);
    int128 span = span_of(walk, cost_micro);
    uint64_t choice = random_below(5);
    bool can_refund = walk->paper.bucket.kind != WEIR_KIND_WINDOW;
    if (choice < 3) {
        (void)people_ask_at(&walk->people, &walk->rule, "key", WEIR_FILL, cost_micro, now_ns);
        fill_on_paper(&walk->paper, span, now_ns, walk->told);
    } else if (choice < 4 && can_refund) {
        (void)people_ask_at(&walk->people, &walk->rule, "key", WEIR_REFUND, cost_micro, now_ns);
        refund_on_paper(&walk->paper, span, now_ns, walk->told);
    } else {
        (void)people_ask_at(&walk->people, &walk->rule, "key", WEIR_RESET, 0, now_ns);
        reset_on_paper(&walk->paper, now_ns, walk->told);
    }
}

static void do_time(struct walk *walk)
{
    uint64_t now_ns = walk->people.now_ns;
    uint64_t then_ns = now_ns;
    uint64_t next_ns = next_event(&walk->paper);
    switch (random_below(5)) {
    case 0: then_ns += random_below(MS); break;
    case 1: then_ns += random_below(20 * MS); break;
    case 2: then_ns += random_below(100 * MS); break;
    case 3: then_ns = walk->paper.count > 0 && next_ns > now_ns ? next_ns : now_ns; break;
    default: then_ns = walk->paper.count > 0 && next_ns > now_ns + 1 ? next_ns - 1 : now_ns; break;
    }
    if (random_below(4) == 0) {
        then_ns += random_below(4) == 0 ? 0 : random_below(2) == 0 ? WEIR_JITTER_NS : 1;
        people_stall(&walk->people, then_ns);
        look(&walk->paper, then_ns, walk->told);
    } else {
        people_advance(&walk->people, then_ns);
        advance(&walk->paper, now_ns, then_ns, walk->told);
    }
}

static void do_step(struct walk *walk)
{
    uint64_t now_ns = walk->people.now_ns;
    if (random_below(8) == 0) { // a reading of another thread, older than the last one
        now_ns -= random_below(2 * MS);
    }
    switch (random_below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: do_join(walk, now_ns); break;
    case 5:
    case 6: do_take(walk, now_ns); break;
    case 7:
    case 8: do_leave(walk, now_ns); break;
    case 9: do_change(walk, now_ns); break;
    default: do_time(walk); break;
    }
    compare(walk);
}

/* Whoever is left goes one by one; so does the mark. */
static void walk_close(struct walk *walk)
{
    uint64_t then_ns = walk->people.now_ns + 1000 * 1000 * MS;
    advance(&walk->paper, walk->people.now_ns, then_ns, walk->told);
    people_advance(&walk->people, then_ns);
    compare(walk);
    struct lines_stats stats = people_stats(&walk->people);
    served_count += stats.served_count;
    expired_count += stats.expired_count;
    require(walk, stats.joined_count == stats.served_count + stats.expired_count + stats.left_count,
            "nobody is lost, or counted twice");
    people_close(&walk->people);
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

static void test_lines_are_as_on_paper(void **state)
{
    (void)state;
    if (!walk_seeds(WALKS, walk_once)) {
        return;
    }
    print_message("%llu comparisons; %llu served, %llu expired, %llu refused\n",
                  (unsigned long long)compared_count, (unsigned long long)served_count,
                  (unsigned long long)expired_count, (unsigned long long)refused_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_as_on_paper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
