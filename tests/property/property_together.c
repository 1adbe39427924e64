/* SPDX-License-Identifier: MIT
 *
 * Random takes under several limits that wait, beside those under one, plain takes, cancels, fills, refunds
 * and resets, on a clock that steps and stalls. After every step:
 *
 *   nobody overtakes        lines are in the order of arrival; who does not wait is refused beside them
 *   nobody is charged in    the buckets hold what those who were let in have charged, all of it
 *   part, or twice
 *   nobody waits in vain    who is the first wherever it stands is refused there, at this instant
 *   nothing is left behind  marks, lines and places are as many as those who wait
 *
 *     WEIR_SEED=N         repeats one walk; its seed is printed where one fails
 *     SOAK_MINUTES=N      for so long, instead of a few seconds */
#include "../support/lines_world.h"

#include <stdlib.h>
#include <time.h>

#include "../support/lines_view.h"

enum { LIMITS = 4, STEPS = 60, WALKS = 5000 };

#define MS UINT64_C(1000000)

static const char *const KEYS[LIMITS] = {"a", "b", "c", "d"};

/* What is checked beside the real thing.
 *   paper  the bucket of each limit, as those who were let in have charged it; unused for queues */
struct walk {
    struct people people;
    struct weir_rule rules[LIMITS];
    struct weir_bucket paper[LIMITS];
    bool has_queues;
    unsigned wants[PEOPLE_MAX]; // the limits of each person, as bits
    uint64_t costs[PEOPLE_MAX];
    bool was_standing[PEOPLE_MAX];
    uint64_t seed, random;
};

static struct walk *current; // for the message of a failure

static uint64_t below(struct walk *walk, uint64_t limit)
{
    walk->random ^= walk->random << 13; // xorshift64, G. Marsaglia, 2003
    walk->random ^= walk->random >> 7;
    walk->random ^= walk->random << 17;
    return (walk->random >> 16) % limit;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("WEIR_SEED=%llu: not so at %llu ns: %s", (unsigned long long)current->seed,   \
                     (unsigned long long)current->people.now_ns, #condition);                      \
        }                                                                                          \
    } while (0)

/* ---- looking at the lines ---- */

/* Who stands in the line of a limit, from the head on. */
struct view {
    size_t count;
    const struct waiter *waiters[PEOPLE_MAX];
};

static struct view view_of(struct walk *walk, int limit)
{
    const struct weir_limiter *limiter = walk->people.limiter;
    struct weir_request request = request_of(&walk->rules[limit], KEYS[limit], WEIR_TAKE, 0);
    uint64_t id = limiter->store->ops->id(limiter->store, &request);
    struct view view;
    view.count = lines_view(limiter->lines, id, view.waiters, PEOPLE_MAX);
    return view;
}

static bool is_of(const struct waiter *waiter, const struct person *person)
{
    return waiter == &person->waiter
           || (waiter->together != NULL && waiter->together == person->waiter.together);
}

/* Its place in this line; -1 if it does not stand there. */
static int place_of(const struct view *view, const struct person *person)
{
    for (size_t i = 0; i < view->count; i++) {
        if (is_of(view->waiters[i], person)) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- what must hold ---- */

static bool is_a_queue(const struct walk *walk, int limit)
{
    return walk->rules[limit].limit.kind == WEIR_KIND_QUEUE;
}

static struct weir_decision look(struct walk *walk, int limit, enum weir_operation operation,
                                 uint64_t cost_micro)
{
    return people_ask_at(&walk->people, &walk->rules[limit], KEYS[limit], operation, cost_micro,
                         walk->people.now_ns);
}

/* The first wherever it stands is refused in one of these lines, at this instant. Others wait for those
 * before them, or for a queue. */
static void check_that_it_waits_for_something(struct walk *walk, const struct person *person,
                                              uint64_t cost_micro)
{
    bool is_refused = false;
    for (int i = 0; i < LIMITS; i++) {
        struct view view = view_of(walk, i);
        int place = place_of(&view, person);
        const struct weir_limit *limit = &walk->rules[i].limit;
        if (place >= 0) {
            uint64_t held_ns = (uint64_t)look(walk, i, WEIR_SHOW, 0).reset_after_ns;
            uint64_t cost_ns = cost_micro / WEIR_UNIT * limit->unit_ns;
            is_refused |= place > 0 || is_a_queue(walk, i) || held_ns + cost_ns > limit->full_ns;
        }
    }
    CHECK(is_refused);
}

/* Lines, marks and places are as many as those who wait, each in the order of arrival. */
static void check_lines(struct walk *walk)
{
    uint64_t line_count = 0, waiting_count = 0;
    for (int i = 0; i < LIMITS; i++) {
        struct view view = view_of(walk, i);
        line_count += view.count > 0;
        for (size_t j = 1; j < view.count && !is_a_queue(walk, i); j++) {
            CHECK(view.waiters[j - 1]->turn < view.waiters[j]->turn);
        }
    }
    for (int i = 0; i < walk->people.count; i++) {
        const struct person *person = &walk->people.list[i];
        waiting_count += person->stands;
        if (person->stands) {
            CHECK(person->due_ns > walk->people.now_ns);
            check_that_it_waits_for_something(walk, person, walk->costs[i]);
        }
    }
    CHECK((uint64_t)count_marks(&walk->people) == line_count);
    CHECK(people_stats(&walk->people).line_count == line_count);
    CHECK(people_stats(&walk->people).waiting_count == waiting_count);
}

/* The buckets are as on paper. What is charged while it waits for a queue, the paper does not know. */
static void check_levels(struct walk *walk)
{
    for (int i = 0; i < LIMITS && !walk->has_queues; i++) {
        struct weir_decision told = look(walk, i, WEIR_SHOW, 0);
        struct weir_decision paper =
            weir_bucket_show(&walk->paper[i], &walk->rules[i].limit, walk->people.now_ns, NULL);
        CHECK(told.reset_after_ns == paper.reset_after_ns);
    }
}

/* It was let in at this instant. */
static void charge_on_paper(struct walk *walk, unsigned wants, uint64_t cost_micro)
{
    for (int i = 0; i < LIMITS && !walk->has_queues; i++) {
        if ((wants >> i & 1) != 0) {
            struct weir_decision decision = weir_bucket_take(&walk->paper[i], &walk->rules[i].limit,
                                                             cost_micro, walk->people.reading_ns);
            CHECK(decision.verdict == WEIR_ALLOWED);
        }
    }
}

/* Who was let in or sent away since the last look, in the order of their answers. */
static void hear_answers(struct walk *walk)
{
    for (int heard = 1; heard != 0;) {
        heard = 0;
        int next = -1;
        for (int i = 0; i < walk->people.count; i++) {
            const struct person *person = &walk->people.list[i];
            bool is_new = walk->was_standing[i] && !person->stands;
            if (is_new
                && (next < 0 || person->answer_number < walk->people.list[next].answer_number)) {
                next = i;
            }
        }
        if (next >= 0) {
            const struct person *person = &walk->people.list[next];
            bool is_allowed = person->decision.verdict == WEIR_ALLOWED;
            for (size_t i = 1; i < person->count; i++) {
                is_allowed = is_allowed && person->decisions[i].verdict == WEIR_ALLOWED;
            }
            if (is_allowed) {
                walk->people.reading_ns = person->answered_ns;
                charge_on_paper(walk, walk->wants[next], walk->costs[next]);
            }
            walk->was_standing[next] = false;
            heard = 1;
        }
    }
}

static void settle(struct walk *walk)
{
    hear_answers(walk);
    check_lines(walk);
    check_levels(walk);
}

/* ---- a walk ---- */

static void open_walk(struct walk *walk)
{
    static const char *const BUCKETS[] = {"1/10ms capacity=1", "2/20ms capacity=3",
                                          "1/7ms capacity=2", "5/25ms capacity=5",
                                          "1/30ms capacity=4 waiting=3"};
    static const char *const QUEUES[] = {"queue 1/10ms capacity=3",
                                         "queue 1/15ms capacity=4 first=now"};
    struct weir_error error;
    people_open(&walk->people, WEIR_MEMORY_BYTES_MIN, 12);
    walk->people.now_ns = 1000 * MS;
    for (int i = 0; i < LIMITS; i++) {
        const char *text = walk->has_queues && i >= LIMITS / 2
                               ? QUEUES[below(walk, 2)]
                               : BUCKETS[below(walk, sizeof BUCKETS / sizeof BUCKETS[0])];
        CHECK(weir_rule_from_text(&walk->rules[i], walk->people.limiter, text, &error) == WEIR_OK);
    }
}

static void advance(struct walk *walk)
{
    uint64_t then_ns = walk->people.now_ns + below(walk, 15) * MS;
    if (below(walk, 8) == 0) {
        people_stall(&walk->people, then_ns);
        settle(walk);
        return;
    }
    while (walk->people.now_ns < then_ns) { // and look after each instant
        struct person *next = next_due(&walk->people, then_ns);
        uint64_t at_ns =
            next != NULL && next->due_ns > walk->people.now_ns ? next->due_ns : walk->people.now_ns;
        people_advance(&walk->people, next != NULL ? at_ns : then_ns);
        settle(walk);
    }
}

static void arrive(struct walk *walk)
{
    struct weir_request requests[LIMITS];
    size_t count = 0;
    int i = walk->people.count;
    unsigned wants = (unsigned)below(walk, (1 << LIMITS) - 1) + 1;
    if (i == PEOPLE_MAX) {
        return;
    }
    walk->wants[i] = wants;
    walk->costs[i] = below(walk, 12) == 0 ? 0 : (1 + below(walk, 2)) * WEIR_UNIT;
    int order = (int)below(walk, LIMITS);
    for (int j = 0; j < LIMITS; j++) {
        int limit = (j + order) % LIMITS;
        if ((wants >> limit & 1) != 0) {
            requests[count++] =
                request_of(&walk->rules[limit], KEYS[limit], WEIR_TAKE, walk->costs[i]);
        }
    }
    for (size_t j = 0; j + 1 < count; j++) {
        requests[j].and_next = true;
    }
    uint64_t wait_ns = (1 + below(walk, 120)) * MS;
    if (count == 1) {
        (void)people_join_at(&walk->people, requests[0].rule, requests[0].key, walk->costs[i],
                             wait_ns, walk->people.now_ns);
    } else {
        (void)people_join_together_at(&walk->people, requests, count, wait_ns, walk->people.now_ns);
    }
    hear_answers(walk);           // whoever was due went first
    walk->was_standing[i] = true; // even if it was answered at once
    hear_answers(walk);
    people_advance(&walk->people, walk->people.now_ns);
}

static void leave(struct walk *walk)
{
    if (walk->people.count == 0) {
        return;
    }
    int i = (int)below(walk, (uint64_t)walk->people.count);
    struct person *person = &walk->people.list[i];
    if (person->stands && person_leave_at(person, walk->people.now_ns)) {
        walk->was_standing[i] = false;
    }
    people_advance(&walk->people, walk->people.now_ns); // whoever is next looks at once
}

/* Somebody who does not wait changes a bucket, and the paper. */
static void meddle(struct walk *walk)
{
    static const enum weir_operation OPERATIONS[] = {WEIR_TAKE, WEIR_TAKE, WEIR_FILL, WEIR_REFUND,
                                                     WEIR_RESET};
    int limit = (int)below(walk, LIMITS);
    enum weir_operation operation = OPERATIONS[below(walk, 5)];
    uint64_t cost_micro = (1 + below(walk, 2)) * WEIR_UNIT;
    struct weir_limit *rule = &walk->rules[limit].limit;
    uint64_t now_ns = walk->people.now_ns;
    struct weir_bucket *paper = &walk->paper[limit];
    if (operation == WEIR_FILL) { // before those are heard who go because of it
        (void)weir_bucket_fill(paper, rule, cost_micro, now_ns, NULL, NULL);
    } else if (operation != WEIR_TAKE) {
        uint64_t back_micro = operation == WEIR_RESET ? WEIR_COST_MAX : cost_micro;
        (void)weir_bucket_refund(paper, rule, back_micro, now_ns);
    }
    struct weir_decision decision = look(walk, limit, operation, cost_micro);
    if (operation == WEIR_TAKE && decision.verdict == WEIR_ALLOWED) {
        CHECK(view_of(walk, limit).count == 0); // nobody overtakes
        (void)weir_bucket_take(paper, rule, cost_micro, now_ns);
    }
    people_advance(&walk->people, now_ns);
}

static void run_walk(uint64_t seed)
{
    static struct walk walk;
    walk = (struct walk){.seed = seed, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    current = &walk;
    walk.has_queues = below(&walk, 3) == 0;
    open_walk(&walk);
    for (int step = 0; step < STEPS; step++) {
        switch (below(&walk, 6)) {
        case 0: advance(&walk); break;
        case 1: leave(&walk); break;
        case 2: meddle(&walk); break;
        default: arrive(&walk); break;
        }
        settle(&walk);
    }
    people_advance(&walk.people, walk.people.now_ns + 1000 * MS);
    hear_answers(&walk);
    for (int i = 0; i < walk.people.count; i++) {
        CHECK(!walk.people.list[i].stands);
    }
    people_close(&walk.people);
}

static void test_walks(void **state)
{
    (void)state;
    const char *seed = getenv("WEIR_SEED");
    const char *minutes = getenv("SOAK_MINUTES");
    if (seed != NULL) {
        run_walk(strtoull(seed, NULL, 10));
        return;
    }
    time_t end = time(NULL) + (minutes != NULL ? 60 * strtol(minutes, NULL, 10) : 0);
    uint64_t walks = 0;
    for (uint64_t next = 1; walks < WALKS || time(NULL) < end; next++) {
        run_walk(next);
        walks++;
    }
    print_message("%llu walks\n", (unsigned long long)walks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};
    return cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
