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
 * seeds.h says how to repeat one walk, and how to walk for longer. */
#include "../support/lines_world.h"

#include "../support/lines_view.h"
#include "seeds.h"

#ifdef LINES_SHARED
enum { WALKS = 1000 }; // each begins with new memory that processes share
#else
enum { WALKS = 5000 };
#endif
enum { LIMITS = 4, STEPS = 60, EVENTS_MAX = PEOPLE_MAX + STEPS };

#define MS UINT64_C(1000000)

static const char *const KEYS[LIMITS] = {"a", "b", "c", "d"};

/* A bucket, or the events of a window. */
struct paper {
    struct weir_bucket bucket;
    struct event {
        uint64_t at_ns, cost;
    } events[EVENTS_MAX];
    size_t count;
};

/* What is checked beside the real thing.
 *   papers  of each limit, as those who were let in have charged it; unused where there are queues */
struct walk {
    struct people people;
    struct weir_rule rules[LIMITS];
    struct paper papers[LIMITS];
    bool has_queues;
    unsigned wants[PEOPLE_MAX];   // the limits of each person, as bits
    unsigned shadows[PEOPLE_MAX]; // those of them that are only tried
    int first_limit[PEOPLE_MAX];  // and the order in which it asks for them begins here
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
    struct lines_place places[PEOPLE_MAX];
};

static struct view view_of(struct walk *walk, int limit)
{
    const struct weir_limiter *limiter = walk->people.limiter;
    struct weir_request request = request_of(&walk->rules[limit], KEYS[limit], WEIR_TAKE, 0);
    uint64_t id = limiter->store->ops->lines->id(limiter->store, &request);
    struct view view;
    view.count = lines_view(limiter->lines, id, view.places, PEOPLE_MAX);
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
        if (is_of(view->places[i].waiter, person)) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- on paper ---- */

/* What counts in a window; and how long it does. */
static uint64_t level_of(const struct paper *paper, const struct weir_limit *limit, uint64_t now_ns,
                         uint64_t *left_after_ns)
{
    uint64_t level = 0;
    *left_after_ns = 0;
    for (size_t i = 0; i < paper->count; i++) {
        uint64_t leaves_at_ns = paper->events[i].at_ns + limit->full_ns;
        if (leaves_at_ns > now_ns) {
            level += paper->events[i].cost;
            *left_after_ns = leaves_at_ns - now_ns;
        }
    }
    return level;
}

/* What somebody does to one bucket. Of a take: false, if it does not fit. */
static bool write_on_paper(struct paper *paper, const struct weir_limit *limit,
                           enum weir_operation operation, uint64_t cost_micro, uint64_t now_ns)
{
    uint64_t unused_ns;
    uint64_t cost = cost_micro / WEIR_UNIT;
    if (limit->kind == WEIR_KIND_WINDOW) {
        uint64_t room = limit->capacity - level_of(paper, limit, now_ns, &unused_ns);
        cost = operation == WEIR_FILL && cost > room ? room : cost;
        if (operation == WEIR_RESET) {
            paper->count = 0;
        } else if (operation != WEIR_REFUND && cost > 0 && cost <= room) { // which takes none
            paper->events[paper->count++] = (struct event){now_ns, cost};
        }
        return cost <= room;
    }
    if (operation == WEIR_TAKE) {
        return weir_bucket_take(&paper->bucket, limit, cost_micro, now_ns).verdict == WEIR_ALLOWED;
    }
    if (operation == WEIR_FILL) {
        (void)weir_bucket_fill(&paper->bucket, limit, cost_micro, now_ns, NULL, NULL);
    } else { // reset is all of a refund
        cost_micro = operation == WEIR_RESET ? WEIR_COST_MAX : cost_micro;
        (void)weir_bucket_refund(&paper->bucket, limit, cost_micro, now_ns);
    }
    return true;
}

static int64_t reset_after_ns(const struct paper *paper, const struct weir_limit *limit,
                              uint64_t now_ns)
{
    uint64_t left_after_ns;
    if (limit->kind == WEIR_KIND_WINDOW) {
        (void)level_of(paper, limit, now_ns, &left_after_ns);
        return (int64_t)left_after_ns;
    }
    return weir_bucket_show(&paper->bucket, limit, now_ns, NULL).reset_after_ns;
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
        CHECK(place < 0 || (walk->shadows[person - walk->people.list] >> i & 1) == 0);
        if (place >= 0) {
            struct weir_decision seen = look(walk, i, WEIR_SHOW, 0);
            uint64_t held_ns = (uint64_t)seen.reset_after_ns;
            uint64_t cost = cost_micro / WEIR_UNIT;
            is_refused |= place > 0 || is_a_queue(walk, i);
            is_refused |= limit->kind == WEIR_KIND_WINDOW
                              ? cost > seen.remaining
                              : held_ns + cost * limit->unit_ns > limit->full_ns;
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
            CHECK(view.places[j - 1].turn < view.places[j].turn);
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
        CHECK(told.reset_after_ns
              == reset_after_ns(&walk->papers[i], &walk->rules[i].limit, walk->people.now_ns));
    }
}

/* The limit of its next decision, behind the one of the last. */
static int next_limit(const struct walk *walk, int who, int *step)
{
    int limit;
    do {
        limit = (walk->first_limit[who] + (*step)++) % LIMITS;
    } while ((walk->wants[who] >> limit & 1) == 0);
    return limit;
}

/* It was let in by all that may refuse. Those that are only tried have charged it, or said no. */
static bool is_let_in(const struct walk *walk, int who)
{
    const struct person *person = &walk->people.list[who];
    size_t count = person->count > 0 ? person->count : 1;
    bool is_let_in = true;
    int step = 0;
    for (size_t i = 0; i < count; i++) {
        int limit = next_limit(walk, who, &step);
        enum weir_verdict verdict =
            person->count > 0 ? person->decisions[i].verdict : person->decision.verdict;
        is_let_in &= verdict == WEIR_ALLOWED || (walk->shadows[who] >> limit & 1) != 0;
    }
    return is_let_in;
}

/* It was let in at this instant. */
static void charge_on_paper(struct walk *walk, int who)
{
    const struct person *person = &walk->people.list[who];
    size_t count = person->count > 0 ? person->count : 1;
    int step = 0;
    for (size_t i = 0; i < count && !walk->has_queues; i++) {
        int limit = next_limit(walk, who, &step);
        if (person->count == 0 || person->decisions[i].verdict == WEIR_ALLOWED) {
            CHECK(write_on_paper(&walk->papers[limit], &walk->rules[limit].limit, WEIR_TAKE,
                                 walk->costs[who], walk->people.reading_ns));
        } else {
            bool may_fit_later = person->decisions[i].verdict == WEIR_LIMITED; // a shadow
            CHECK((person->decisions[i].retry_after_ns > 0) == may_fit_later);
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
            if (is_let_in(walk, next)) {
                walk->people.reading_ns = walk->people.list[next].answered_ns;
                charge_on_paper(walk, next);
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
    static const char *const BUCKETS[] = {
        "1/10ms capacity=1",      "2/20ms capacity=3",           "1/7ms capacity=2",
        "5/25ms capacity=5",      "1/30ms capacity=4 waiting=3", "window 2/20ms",
        "window 3/35ms waiting=3"};
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
    bool is_alone = (wants & (wants - 1)) == 0; // a shadow alone waits for nothing
    walk->first_limit[i] = (int)below(walk, LIMITS);
    for (int j = 0; j < LIMITS; j++) {
        int limit = (j + walk->first_limit[i]) % LIMITS;
        if ((wants >> limit & 1) != 0) {
            bool is_shadow = !is_alone && below(walk, 6) == 0;
            walk->shadows[i] |= (unsigned)is_shadow << limit;
            requests[count] =
                request_of(&walk->rules[limit], KEYS[limit], WEIR_TAKE, walk->costs[i]);
            requests[count++].shadow = is_shadow;
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
    struct paper *paper = &walk->papers[limit];
    if (operation != WEIR_TAKE) { // before those are heard who go because of it
        (void)write_on_paper(paper, rule, operation, cost_micro, now_ns);
    }
    struct weir_decision decision = look(walk, limit, operation, cost_micro);
    if (operation == WEIR_TAKE && decision.verdict == WEIR_ALLOWED) {
        CHECK(view_of(walk, limit).count == 0); // nobody overtakes
        CHECK(write_on_paper(paper, rule, WEIR_TAKE, cost_micro, now_ns) || walk->has_queues);
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
    (void)walk_seeds(WALKS, run_walk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};
    return cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
