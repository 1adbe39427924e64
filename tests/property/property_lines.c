/* SPDX-License-Identifier: MIT
 *
 * Random arrivals, waits, cancels, plain takes, fills, refunds and resets, on a clock that steps, stalls
 * and is read late, against a line as one would draw it on paper: a list of people, each with its own
 * times as exact rationals, walked from one event to the next. The same answers at the same instants.
 *
 *     WEIR_SEED=N         repeats one walk; its seed is printed where one fails
 *     SOAK_MINUTES=N      for so long, instead of a few seconds */
#include "../support/lines_world.h"

#include <stdlib.h>
#include <time.h>

enum { STEPS = 60, WAITING_ALL = 12 };

#define MS UINT64_C(1000000)

__extension__ typedef __int128 int128;

/* ---- the line on paper ---- */

/* One who stands there. Moments and spans in D-ths of a nanosecond.
 *   begin  of a queue: where its own time begins. It ends a span later */
struct place {
    int number; // of the person
    int128 begin, span;
    uint64_t deadline_ns;
};

/*   charged  of a stepped limit: since `began`, in millionths. Its spans are millionths too */
struct paper {
    bool is_queue, is_first_now, is_stepped;
    int128 denominator, scale, full;
    int128 moment;
    int128 step, period_ns, capacity;
    int128 charged, began_ns;
    int count;
    struct place places[PEOPLE_MAX];
    bool has_expired; // somebody has, lately
};

/* What the paper says of each person. */
struct told {
    bool is_told;
    enum weir_verdict verdict;
    uint64_t at_ns;
    uint64_t retry_ns;
    bool is_enough; // the retry is enough, and need not be minimal
};

static struct told
    told[PEOPLE_MAX]; // of the walk that counts, and not of one that only looks ahead

static int128 ceil_ns(const struct paper *paper, int128 parts)
{
    return (parts + paper->denominator - 1) / paper->denominator;
}

static int128 parts_of(const struct paper *paper, uint64_t now_ns)
{
    return (int128)now_ns * paper->denominator;
}

static int128 later_of(int128 a, int128 b)
{
    return a > b ? a : b;
}

/* Of a stepped limit: what is left of what was charged, after so many whole periods. */
static int128 stepped_level(const struct paper *paper, uint64_t now_ns)
{
    int128 age_ns = (int128)now_ns - paper->began_ns;
    int128 ended = age_ns >= 0 ? age_ns / paper->period_ns
                               : -((-age_ns + paper->period_ns - 1) / paper->period_ns);
    return later_of(0, paper->charged - ended * paper->step);
}

static int128 div_ceil(int128 a, int128 b)
{
    return a > 0 ? (a + b - 1) / b : 0;
}

static bool fits(const struct paper *paper, int128 span, uint64_t now_ns)
{
    int128 now = parts_of(paper, now_ns);
    return paper->is_stepped ? stepped_level(paper, now_ns) + span <= paper->capacity
                             : later_of(paper->moment, now) + span <= now + paper->full;
}

static void charge(struct paper *paper, int128 span, uint64_t now_ns)
{
    if (!paper->is_stepped) {
        paper->moment = later_of(paper->moment, parts_of(paper, now_ns)) + span;
        return;
    }
    if (stepped_level(paper, now_ns) == 0) {
        paper->charged = 0;
        paper->began_ns = now_ns;
    }
    paper->charged += span;
}

/* The earliest reading at which a take of a bucket fits; it may have been long ago. */
static int128 due_of(const struct paper *paper, int128 span)
{
    if (paper->is_stepped) {
        int128 periods = div_ceil(paper->charged + span - paper->capacity, paper->step);
        return paper->began_ns + periods * paper->period_ns;
    }
    return ceil_ns(paper, paper->moment + span - paper->full);
}

/* How long until it is empty. */
static int128 empty_after(const struct paper *paper, uint64_t now_ns)
{
    if (!paper->is_stepped) {
        return later_of(0, ceil_ns(paper, paper->moment - parts_of(paper, now_ns)));
    }
    int128 periods = div_ceil(paper->charged, paper->step);
    return later_of(0, paper->began_ns + periods * paper->period_ns - now_ns);
}

static int128 egress_of(const struct paper *paper, const struct place *place)
{
    return paper->is_first_now ? place->begin : place->begin + place->span;
}

static void strike(struct paper *paper, int i)
{
    paper->count--;
    memmove(&paper->places[i], &paper->places[i + 1],
            (size_t)(paper->count - i) * sizeof paper->places[0]);
}

static void tell(struct told *all, int number, enum weir_verdict verdict, uint64_t at_ns)
{
    if (all != NULL) {
        assert_false(all[number].is_told);
        all[number] = (struct told){.is_told = true, .verdict = verdict, .at_ns = at_ns};
    }
}

static void expire_place(struct paper *paper, int i, uint64_t now_ns, struct told *all);

/* Serves all whose time has come. */
static void settle(struct paper *paper, uint64_t now_ns, struct told *all)
{
    while (paper->count > 0) {
        struct place *first = &paper->places[0];
        int128 now = parts_of(paper, now_ns);
        if (!paper->is_queue && fits(paper, first->span, now_ns)) {
            charge(paper, first->span, now_ns);
        } else if (!paper->is_queue && now_ns >= first->deadline_ns) {
            expire_place(paper, 0, now_ns, all);
            continue;
        } else if (!paper->is_queue || egress_of(paper, first) > now) {
            return;
        } else if (now_ns - (uint64_t)ceil_ns(paper, egress_of(paper, first)) > WEIR_JITTER_NS) {
            int128 late = now - egress_of(paper, first);
            paper->moment += late;
            for (int i = 0; i < paper->count; i++) {
                paper->places[i].begin += late;
            }
        }
        tell(all, first->number, WEIR_ALLOWED, now_ns);
        strike(paper, 0);
    }
}

/* Takes somebody out; those behind move up. */
static void take_out(struct paper *paper, int i, uint64_t now_ns)
{
    int128 span = paper->places[i].span;
    int128 now = parts_of(paper, now_ns);
    strike(paper, i);
    if (!paper->is_queue) {
        return;
    }
    for (int j = i; j < paper->count; j++) {
        paper->places[j].begin -= span;
    }
    int128 later = 0;
    if (i == 0 && paper->count > 0) { // the next one goes now at the earliest
        later = later_of(0, now - egress_of(paper, &paper->places[0]));
    }
    for (int j = 0; j < paper->count; j++) {
        paper->places[j].begin += later;
    }
    paper->moment = later_of(paper->moment - span + later, now);
}

/* The next instant at which something happens by itself. */
static uint64_t next_event(const struct paper *paper)
{
    int128 next = INT64_MAX;
    for (int i = 0; i < paper->count; i++) {
        next = paper->places[i].deadline_ns < next ? (int128)paper->places[i].deadline_ns : next;
    }
    if (paper->count > 0) {
        const struct place *first = &paper->places[0];
        int128 due_ns =
            paper->is_queue ? ceil_ns(paper, egress_of(paper, first)) : due_of(paper, first->span);
        next = due_ns < next ? due_ns : next;
    }
    return (uint64_t)next;
}

/* Serves, and sends away whose deadline is here, in the order of the deadlines. */
static void look(struct paper *paper, uint64_t now_ns, struct told *all)
{
    settle(paper, now_ns, all);
    for (;;) {
        int first = -1;
        for (int i = 0; i < paper->count; i++) {
            uint64_t deadline_ns = paper->places[i].deadline_ns;
            bool is_due = deadline_ns <= now_ns;
            if (is_due && (first < 0 || deadline_ns < paper->places[first].deadline_ns)) {
                first = i;
            }
        }
        if (first < 0) {
            return;
        }
        expire_place(paper, first, now_ns, all);
        settle(paper, now_ns, all);
    }
}

static void advance(struct paper *paper, uint64_t now_ns, uint64_t then_ns, struct told *all)
{
    uint64_t next_ns;
    while ((next_ns = next_event(paper)) <= then_ns) {
        now_ns = next_ns > now_ns ? next_ns : now_ns;
        look(paper, now_ns, all);
    }
}

/* After which time somebody who does not wait would pass: found by waiting for it. */
static uint64_t pass_after(const struct paper *paper, int128 span, uint64_t now_ns, bool *is_enough)
{
    struct paper ahead = *paper;
    uint64_t then_ns = now_ns;
    ahead.has_expired = false;
    settle(&ahead, now_ns, NULL);
    while (ahead.count > 0) {
        uint64_t next_ns = next_event(&ahead);
        then_ns = next_ns > then_ns ? next_ns : then_ns;
        look(&ahead, then_ns, NULL);
    }
    int128 fits_ns = due_of(&ahead, span);
    then_ns = fits_ns > then_ns ? (uint64_t)fits_ns : then_ns;
    *is_enough = ahead.has_expired;
    return then_ns - now_ns;
}

static void expire_place(struct paper *paper, int i, uint64_t now_ns, struct told *all)
{
    struct place place = paper->places[i];
    take_out(paper, i, now_ns);
    paper->has_expired = true;
    if (all != NULL) {
        bool is_enough;
        uint64_t retry_ns = pass_after(paper, place.span, now_ns, &is_enough);
        tell(all, place.number, WEIR_LIMITED, now_ns);
        all[place.number].retry_ns = retry_ns > 0 ? retry_ns : 1;
        all[place.number].is_enough = is_enough;
    }
}

static bool take_on_paper(struct paper *paper, int128 span, uint64_t now_ns, struct told *all)
{
    settle(paper, now_ns, all);
    bool passes = paper->count == 0 && fits(paper, span, now_ns);
    if (passes) {
        charge(paper, span, now_ns);
    }
    return passes;
}

enum joined { REFUSED, SERVED, STANDS, NEVER };

/* When a take fits into a bucket, behind all who wait for it: each at a reading, as soon as it fits. */
static int128 due_behind(const struct paper *paper, int128 span)
{
    struct paper ahead = *paper;
    int128 at_ns = 0;
    for (int i = 0; i < paper->count; i++) {
        at_ns = later_of(at_ns, due_of(&ahead, paper->places[i].span));
        charge(&ahead, paper->places[i].span, (uint64_t)at_ns);
    }
    return later_of(at_ns, due_of(&ahead, span));
}

static enum joined join_bucket(struct paper *paper, struct place place, bool has_place,
                               uint64_t now_ns)
{
    if (paper->count == 0 && fits(paper, place.span, now_ns)) {
        charge(paper, place.span, now_ns);
        return SERVED;
    }
    if (!has_place || due_behind(paper, place.span) > (int128)place.deadline_ns) {
        return REFUSED;
    }
    paper->places[paper->count++] = place;
    return STANDS;
}

static enum joined join_queue(struct paper *paper, struct place place, bool has_place,
                              uint64_t now_ns)
{
    int128 now = parts_of(paper, now_ns);
    int128 own = paper->is_first_now ? 0 : place.span;
    place.begin = later_of(paper->moment, now);
    if (now + own > parts_of(paper, place.deadline_ns)) {
        return NEVER; // not even with nobody there
    }
    int128 due_ns = ceil_ns(paper, egress_of(paper, &place));
    int128 latest_ns = has_place ? (int128)place.deadline_ns : (int128)now_ns;
    if (place.begin + place.span > now + paper->full || due_ns > latest_ns) {
        return REFUSED;
    }
    paper->moment = place.begin + place.span;
    if (due_ns <= (int128)now_ns) {
        return SERVED;
    }
    paper->places[paper->count++] = place;
    return STANDS;
}

static enum joined join_on_paper(struct paper *paper, struct place place, int waiting,
                                 uint64_t now_ns, struct told *all)
{
    settle(paper, now_ns, all);
    bool has_place = paper->count < waiting;
    return (paper->is_queue ? join_queue : join_bucket)(paper, place, has_place, now_ns);
}

static void fill_on_paper(struct paper *paper, int128 span, uint64_t now_ns)
{
    int128 now = parts_of(paper, now_ns);
    settle(paper, now_ns, told);
    int128 start = later_of(paper->moment, now);
    int128 room = paper->is_stepped ? paper->capacity - stepped_level(paper, now_ns) : 0;
    if (span > 0 && room > 0) {
        charge(paper, span < room ? span : room, now_ns);
    } else if (span > 0 && !paper->is_stepped && start < now + paper->full) {
        int128 latest = now + paper->full;
        paper->moment = start + span < latest ? start + span : latest;
    }
    settle(paper, now_ns, told);
}

/* All of it: a reset. The places in a queue are nobody else's to give back. */
static void refund_on_paper(struct paper *paper, int128 span, uint64_t now_ns)
{
    int128 now = parts_of(paper, now_ns);
    settle(paper, now_ns, told);
    int128 level = paper->is_stepped ? stepped_level(paper, now_ns) : 0;
    if (level > 0 && span >= level) {
        paper->charged = 0;
        paper->began_ns = now_ns;
    } else if (level > 0) {
        paper->charged -= span;
    } else if (span > 0 && paper->moment > now && !(paper->is_queue && paper->count > 0)) {
        paper->moment = later_of(paper->moment - span, now);
    }
    settle(paper, now_ns, told);
}

static void leave_on_paper(struct paper *paper, int number, uint64_t now_ns)
{
    if (paper->count > 0 && paper->places[0].number != number) {
        settle(paper, now_ns, told); // whoever is due goes first
    }
    for (int i = 0; i < paper->count; i++) {
        if (paper->places[i].number == number) {
            take_out(paper, i, now_ns);
            settle(paper, now_ns, told);
            return;
        }
    }
}

/* ---- a walk ---- */

struct walk {
    struct people people;
    struct weir_rule rule;
    struct paper paper;
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

static void show_paper(const struct paper *paper, uint64_t now_ns)
{
    print_error("%s%s, full in %lld ns, %lld-ths; at %llu, empty %+lld ns, %d wait\n",
                paper->is_queue     ? "queue"
                : paper->is_stepped ? "stepped"
                                    : "bucket",
                paper->is_first_now ? " first=now" : "", (long long)ceil_ns(paper, paper->full),
                (long long)paper->denominator, (unsigned long long)now_ns,
                (long long)ceil_ns(paper, paper->moment - parts_of(paper, now_ns)), paper->count);
    for (int i = 0; i < paper->count; i++) {
        const struct place *place = &paper->places[i];
        print_error("  %d: begins %+lld, lasts %lld, deadline %+lld\n", place->number,
                    (long long)ceil_ns(paper, place->begin - parts_of(paper, now_ns)),
                    (long long)ceil_ns(paper, place->span),
                    (long long)(place->deadline_ns - now_ns));
    }
}

static void require_at(const struct paper *paper, uint64_t now_ns, bool holds, const char *what)
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

static void walk_open(struct walk *walk)
{
    struct weir_limit limit;
    struct weir_limit_config config = {
        .kind = (enum weir_kind)random_below(3),
        .count_micro = (1 + random_below(7)) * (random_below(2) == 0 ? WEIR_UNIT : 70001),
        .period_ns = (1 + random_below(40)) * MS + random_below(3),
        .capacity_micro = (2 + random_below(10)) * (WEIR_UNIT / 2),
        .first = (enum weir_first)random_below(2),
        .waiting = random_below(4) == 0 ? (uint32_t)(1 + random_below(3)) : WAITING_ALL,
    };
    config.first = config.kind == WEIR_KIND_QUEUE ? config.first : WEIR_FIRST_INTERVAL;
    struct weir_error error;
    if (weir_limit_init(&limit, &config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    people_open(&walk->people, WEIR_MEMORY_BYTES_MIN, 0);
    weir_rule_init(&walk->rule, walk->people.limiter, &limit);
    walk->people.now_ns = 1000 * MS + random_below(MS);
    walk->waiting = (int)config.waiting;
    bool is_stepped = config.kind == WEIR_KIND_STEPPED;
    walk->paper = (struct paper){
        .is_stepped = is_stepped,
        .step = (int128)config.count_micro,
        .period_ns = (int128)config.period_ns,
        .capacity = (int128)config.capacity_micro,
        .is_queue = config.kind == WEIR_KIND_QUEUE,
        .is_first_now = config.first == WEIR_FIRST_NOW,
        .denominator = is_stepped ? 1 : (int128)limit.denominator,
        .scale = is_stepped ? 1 : (int128)limit.scale,
        .full = (int128)limit.full_ns * (int128)limit.denominator + (int128)limit.full_rest,
    };
    memset(told, 0, sizeof told);
}

/* All whom the paper calls answered are, and so; all others stand. */
static void compare(const struct walk *walk)
{
    for (int i = 0; i < walk->people.count; i++) {
        const struct person *person = &walk->people.list[i];
        require(walk, person->stands == !told[i].is_told, "who stands there");
        if (person->stands || told[i].verdict != person->decision.verdict) {
            require(walk, person->stands, "the verdict");
            continue;
        }
        require(walk, person->answered_ns == told[i].at_ns, "the instant");
        if (person->decision.verdict == WEIR_LIMITED && told[i].retry_ns != 0) {
            uint64_t retry_ns = (uint64_t)person->decision.retry_after_ns;
            require(walk, retry_ns >= told[i].retry_ns, "a retry is enough");
            require(walk, retry_ns == told[i].retry_ns || told[i].is_enough, "and minimal");
        }
    }
    uint64_t now_ns = walk->people.now_ns;
    int128 level_ns = empty_after(&walk->paper, now_ns);
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
    switch (random_below(8)) {
    case 0: return capacity;
    case 1: return 1 + random_below(capacity);
    case 2: return capacity - random_below(capacity / 3);
    case 3: return WEIR_UNIT / 3;
    default: return WEIR_UNIT < capacity ? WEIR_UNIT : capacity;
    }
}

static int128 span_of(const struct walk *walk, uint64_t cost_micro)
{
    return (int128)cost_micro * walk->paper.scale;
}

/* A wait that is enough to the nanosecond, or lacks one, or any. */
static uint64_t random_wait(const struct walk *walk, uint64_t cost_micro, uint64_t now_ns)
{
    struct paper ahead = walk->paper;
    int128 span = span_of(walk, cost_micro);
    if (random_below(2) == 0) {
        return 1 + random_below(random_below(2) == 0 ? 400 * MS : 40 * MS);
    }
    settle(&ahead, now_ns, NULL);
    int128 due_ns = due_behind(&ahead, span);
    if (ahead.is_queue) {
        struct place place = {.span = span,
                              .begin = later_of(ahead.moment, parts_of(&ahead, now_ns))};
        due_ns = ceil_ns(&ahead, egress_of(&ahead, &place));
    }
    int128 wait_ns = due_ns - (int128)now_ns;
    wait_ns -= (int128)random_below(2);
    return wait_ns < 1 ? 1 : (uint64_t)wait_ns;
}

/* After retry_after the same call, alone, is let in; a nanosecond earlier it is not. */
static void check_retry(const struct walk *walk, const struct paper *before, struct place place,
                        uint64_t wait_ns, uint64_t now_ns, uint64_t retry_ns)
{
    struct paper then = *before;
    uint64_t then_ns = now_ns + retry_ns;
    then.has_expired = false;
    advance(&then, now_ns, then_ns, NULL);
    bool is_enough = then.has_expired;
    place.deadline_ns = then_ns + wait_ns;
    require(walk, join_on_paper(&then, place, walk->waiting, then_ns, NULL) != REFUSED,
            "after the retry it is let in");
    struct paper early = *before;
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
    enum joined joined = join_on_paper(&walk->paper, place, walk->waiting, now_ns, told);
    require(walk, person->stands == (joined == STANDS), "who is let in");
    if (joined == STANDS) {
        return;
    }
    static const enum weir_verdict VERDICTS[] = {
        [REFUSED] = WEIR_LIMITED, [SERVED] = WEIR_ALLOWED, [NEVER] = WEIR_NEVER};
    tell(told, number, VERDICTS[joined], now_ns);
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
    settle(&walk->paper, now_ns, told);
    struct paper before = walk->paper;
    bool passes = take_on_paper(&walk->paper, span, now_ns, told);
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
    leave_on_paper(&walk->paper, number, now_ns);
    if (person_leave_at(&walk->people.list[number], now_ns)) {
        told[number].is_told = true; // it gave its place back
        walk->people.list[number].decision.verdict = told[number].verdict = WEIR_FAILED;
        walk->people.list[number].answered_ns = told[number].at_ns = now_ns;
    }
}

static void do_change(struct walk *walk, uint64_t now_ns)
{
    uint64_t cost_micro = random_cost(walk);
    uint64_t choice = random_below(5);
    if (choice < 3) {
        (void)people_ask_at(&walk->people, &walk->rule, "key", WEIR_FILL, cost_micro, now_ns);
        fill_on_paper(&walk->paper, span_of(walk, cost_micro), now_ns);
    } else if (choice < 4) {
        (void)people_ask_at(&walk->people, &walk->rule, "key", WEIR_REFUND, cost_micro, now_ns);
        refund_on_paper(&walk->paper, span_of(walk, cost_micro), now_ns);
    } else {
        (void)people_ask_at(&walk->people, &walk->rule, "key", WEIR_RESET, 0, now_ns);
        refund_on_paper(&walk->paper, (int128)1 << 100, now_ns); // more than anybody holds
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
        look(&walk->paper, then_ns, told);
    } else {
        people_advance(&walk->people, then_ns);
        advance(&walk->paper, now_ns, then_ns, told);
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
    advance(&walk->paper, walk->people.now_ns, then_ns, told);
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
    const char *one = getenv("WEIR_SEED");
    const char *minutes = getenv("SOAK_MINUTES");
    if (one != NULL) {
        walk_once(strtoull(one, NULL, 10));
        return;
    }
    uint64_t first = minutes != NULL ? (uint64_t)time(NULL) << 24 : 1;
    time_t end = time(NULL) + (minutes != NULL ? (time_t)atol(minutes) * 60 : 0);
    uint64_t its_seed = first;
    for (; its_seed < first + 4000 || time(NULL) < end; its_seed++) {
        walk_once(its_seed);
    }
    print_message("seeds %llu to %llu: %llu comparisons; %llu served, %llu expired, %llu refused\n",
                  (unsigned long long)first, (unsigned long long)its_seed - 1,
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
