/* SPDX-License-Identifier: MIT
 *
 * Lines, and threads that stand in them, leave them, keep their time, and take beside them: from buckets
 * that drain and pass to other keys meanwhile. What a callback notes, it notes under the lock of the lines,
 * so the order of arrivals and answers is known exactly:
 *
 *   - who is served came before all who are served after him
 *   - a take that does not wait never passes while somebody stands there
 *   - what was admitted from any instant to any other is at most C + T * N / P
 *   - two egresses of a queue are never closer than an interval less the jitter, unless somebody
 *     refunds or resets it between two lines
 *   - everybody is answered once, and when nobody waits any longer no bucket is marked
 *
 * And weir_limiter_acquire(), with threads that sleep.
 *
 *     lines [soak]     a soak takes SOAK_MINUTES */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "limiter/limiter_state.h"
#include "store/table/table.h"
#include "weir/clock.h"

enum {
    THREADS = 4,
    KEYS = 24,
    PLACES = 6,
    TURNS = 30000 / EVERY,
    COLD_KEYS = 40000,
    ENTRIES = THREADS * TURNS * 4
};

#define LATE_NS_MAX UINT64_C(200000)
#define NO_TICKET   UINT64_MAX

struct round {
    const char *name, *limit;
    bool gives_back; // so that no bound holds
};

/* What is known of a key. Under the lock of the lines, but for the atomics.
 *   opened   odd while somebody stands there
 *   leaving  how many are about to have left */
struct line_log {
    uint64_t arrived, served; // tickets
    uint64_t count;
    uint64_t opened, leaving; // atomic
    uint64_t egress_ns;
};

struct entry {
    uint64_t now_ns;
    uint32_t key, cost;
};

struct place {
    struct waiter waiter; // first: it leads back here
    uint64_t ticket;
    uint64_t due_ns;
    uint32_t key, cost;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    struct place places[PLACES];
    uint64_t joined, left;
};

static const struct round *round_now;
static struct weir_limiter *limiter;
static struct weir_rule rule;
static struct line_log logs[KEYS];
static struct entry entries[ENTRIES];
static size_t entry_count; // atomic
static uint64_t clock_ns;  // atomic
static _Thread_local uint64_t reading_ns;

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: does not hold: %s\n", round_now->name, what);
        abort();
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; // xorshift64, G. Marsaglia, 2003
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void add(uint64_t *word, uint64_t value)
{
    (void)__atomic_add_fetch(word, value, __ATOMIC_SEQ_CST);
}

static void admit(uint32_t key, uint32_t cost)
{
    size_t at = __atomic_fetch_add(&entry_count, 1, __ATOMIC_RELAXED);
    require(at < ENTRIES, "room for the log");
    entries[at] = (struct entry){reading_ns, key, cost};
}

/* ---- what the lines say ---- */

static struct place *place_of(struct waiter *waiter)
{
    return (struct place *)(void *)waiter;
}

static void close_place(struct place *place)
{
    struct line_log *line = &logs[place->key];
    place->ticket = NO_TICKET;
    place->due_ns = UINT64_MAX;
    if (--line->count == 0) {
        add(&line->opened, 1);
    }
}

/* The first time is the arrival. */
static void note_due(struct waiter *waiter, uint64_t due_ns)
{
    struct place *place = place_of(waiter);
    struct line_log *line = &logs[place->key];
    place->due_ns = due_ns;
    if (place->ticket == NO_TICKET) {
        place->ticket = line->arrived++;
        if (line->count++ == 0) {
            add(&line->opened, 1);
        }
    }
}

static void note_answer(struct waiter *waiter, const struct weir_decision *decision)
{
    struct place *place = place_of(waiter);
    struct line_log *line = &logs[place->key];
    require(place->ticket != NO_TICKET, "nobody is answered twice");
    if (decision->verdict == WEIR_ALLOWED) {
        require(place->ticket >= line->served, "first come, first served");
        line->served = place->ticket + 1;
        admit(place->key, place->cost);
        if (rule.limit.kind == WEIR_KIND_QUEUE && !round_now->gives_back) {
            uint64_t gap_ns = rule.limit.unit_ns - WEIR_JITTER_NS;
            require(line->egress_ns == 0 || reading_ns >= line->egress_ns + gap_ns,
                    "no two egresses are close");
            line->egress_ns = reading_ns;
        }
    } else {
        require(decision->verdict == WEIR_LIMITED, "allowed, or limited");
    }
    close_place(place);
}

/* ---- what a thread does ---- */

static uint64_t read_late(uint64_t *random)
{
    uint64_t now_ns =
        __atomic_add_fetch(&clock_ns, next_random(random) % 1000000, __ATOMIC_RELAXED);
    return now_ns - next_random(random) % LATE_NS_MAX;
}

static struct weir_request request_for(const uint32_t *key, enum weir_operation operation,
                                       uint32_t cost)
{
    return (struct weir_request){.rule = &rule,
                                 .key = key,
                                 .key_len = sizeof *key,
                                 .cost_micro = cost * WEIR_UNIT,
                                 .operation = operation};
}

/* One that is free: all of them are this thread's, but others answer them. */
static struct place *free_place(struct worker *worker)
{
    struct place *found = NULL;
    lines_lock(limiter->lines);
    for (int i = 0; i < PLACES; i++) {
        found = worker->places[i].ticket == NO_TICKET ? &worker->places[i] : found;
    }
    lines_unlock(limiter->lines);
    return found;
}

static void join(struct worker *worker)
{
    static const struct waiter_ops OPS = {.schedule = note_due, .answer = note_answer};
    struct place *place = free_place(worker);
    if (place == NULL) {
        return;
    }
    place->waiter.ops = &OPS;
    place->key = (uint32_t)(next_random(&worker->random) % KEYS);
    place->key = next_random(&worker->random) % 2 == 0 ? place->key : 0;
    place->cost = 1 + (uint32_t)(next_random(&worker->random) % 2);
    struct weir_request request = request_for(&place->key, WEIR_TAKE, place->cost);
    struct weir_decision decision;
    uint64_t wait_ns = 1 + next_random(&worker->random) % 300000000;
    if (lines_join(limiter->lines, &place->waiter, &request, 1, wait_ns, reading_ns, &decision)) {
        worker->joined++;
    } else if (decision.verdict == WEIR_ALLOWED) {
        admit(place->key, place->cost);
    }
}

static void leave(struct worker *worker)
{
    struct place *place = &worker->places[next_random(&worker->random) % PLACES];
    struct line_log *line = &logs[place->key];
    add(&line->leaving, 1);
    if (lines_leave(limiter->lines, &place->waiter, reading_ns)) {
        lines_lock(limiter->lines);
        close_place(place);
        lines_unlock(limiter->lines);
        worker->left++;
    }
    add(&line->leaving, UINT64_MAX);
}

static void keep_time(struct worker *worker)
{
    lines_lock(limiter->lines);
    for (int i = 0; i < PLACES; i++) {
        struct place *place = &worker->places[i];
        if (place->ticket != NO_TICKET && place->due_ns <= reading_ns) {
            lines_call(limiter->lines, &place->waiter, reading_ns);
        }
    }
    lines_unlock(limiter->lines);
}

/* Whoever is about to serve the last one holds the lock, and the mark is gone a little earlier than the log
 * says: so the log is read again under the lock. */
static void take_beside(struct worker *worker)
{
    uint32_t key = (uint32_t)(next_random(&worker->random) % KEYS);
    key = next_random(&worker->random) % 2 == 0 ? key : 0;
    struct line_log *line = &logs[key];
    bool is_leaving = load(&line->leaving) != 0;
    uint64_t before = load(&line->opened);
    struct weir_request request = request_for(&key, WEIR_TAKE, 1);
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, reading_ns);
    lines_lock(limiter->lines);
    uint64_t after = load(&line->opened);
    lines_unlock(limiter->lines);
    is_leaving = is_leaving || load(&line->leaving) != 0;
    if (decision.verdict == WEIR_ALLOWED) {
        require(is_leaving || before != after || before % 2 == 0, "nobody overtakes");
        admit(key, 1);
    }
}

static void change_beside(struct worker *worker, enum weir_operation operation)
{
    uint32_t key = (uint32_t)(next_random(&worker->random) % KEYS);
    struct weir_request request = request_for(&key, operation, 1);
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, reading_ns);
}

/* So many other keys that slots are reused all the time. */
static void take_elsewhere(struct worker *worker)
{
    uint32_t key = KEYS + (uint32_t)(next_random(&worker->random) % COLD_KEYS);
    struct weir_request request = request_for(&key, WEIR_TAKE, 1);
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, reading_ns);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < TURNS; i++) {
        reading_ns = read_late(&worker->random);
        keep_time(worker);
        switch (next_random(&worker->random) % 16) {
        case 0:
        case 1:
        case 2:
        case 3: join(worker); break;
        case 4: leave(worker); break;
        case 5: change_beside(worker, WEIR_FILL); break;
        case 6: change_beside(worker, round_now->gives_back ? WEIR_REFUND : WEIR_CAN_TAKE); break;
        case 7: change_beside(worker, round_now->gives_back ? WEIR_RESET : WEIR_SHOW); break;
        case 8:
        case 9:
        case 10:
        case 11: take_beside(worker); break;
        default: take_elsewhere(worker); break;
        }
    }
    return NULL;
}

/* ---- the books ---- */

__extension__ typedef __int128 wide;

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return left->now_ns < right->now_ns ? -1 : left->now_ns > right->now_ns;
}

/* From any entry of a key to any other: at most C + T * N / P. In denominator-ths of a nanosecond. */
static void check_bound(void)
{
    wide unit = (wide)rule.limit.scale * (wide)WEIR_UNIT;
    wide rate = (wide)rule.limit.denominator;
    wide room = (wide)rule.limit.full_ns * rate + (wide)rule.limit.full_rest;
    wide charged = 0;
    wide lowest = 0;
    qsort(entries, entry_count, sizeof entries[0], compare_entries);
    for (size_t i = 0; i < entry_count; i++) {
        bool is_first = i == 0 || entries[i].key != entries[i - 1].key;
        charged = is_first ? 0 : charged;
        wide drained = (wide)entries[i].now_ns * rate;
        lowest = is_first || charged - drained < lowest ? charged - drained : lowest;
        charged += (wide)entries[i].cost * unit;
        require(charged - drained - lowest <= room, "admitted <= C + T * N / P");
    }
}

static void check_marks(void)
{
    const struct table *table = (const struct table *)limiter->store;
    for (uint64_t i = 0; i < table->stripe_count * table->stripe_lines; i++) {
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            require((table->lines[i].states[slot].word & BUCKET_LINE) == 0, "no mark is left");
        }
    }
}

/* The same lines in memory that processes share, where all have a place. */
#ifdef LINES_SHARED
#define ROUND_CONFIG .memory_bytes = 1 << 18, .store = "memory:?shared=yes"
#else
#define ROUND_CONFIG .memory_bytes = 1 << 16
#endif

static void open_round(const struct round *round, uint64_t seed)
{
    struct weir_limiter_config config = {ROUND_CONFIG, .seed = {1, seed}};
    struct weir_error error;
    round_now = round;
    require(weir_limiter_open(&limiter, &config, &error) == WEIR_OK, "a limiter");
    require(weir_rule_from_text(&rule, limiter, round->limit, &error) == WEIR_OK, "a limit");
    memset(logs, 0, sizeof logs);
    entry_count = 0;
    clock_ns = UINT64_C(1000000000);
}

static void run_round(const struct round *round, uint64_t seed)
{
    static struct worker workers[THREADS];
    open_round(round, seed);
    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){.random = UINT64_C(0x9e3779b97f4a7c15) * (seed * 16 + (uint64_t)i + 1)};
        for (int j = 0; j < PLACES; j++) {
            workers[i].places[j].ticket = NO_TICKET;
        }
        require(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "a thread");
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    uint64_t left = 0;
    uint64_t joined = 0;
    reading_ns = clock_ns;
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < 1000; j++) {
            leave(&workers[i]);
        }
        left += workers[i].left;
        joined += workers[i].joined;
    }
    struct lines_stats stats;
    struct weir_limiter_stats table;
    lines_read_stats(limiter->lines, &stats);
    weir_limiter_stats(limiter, &table);
    require(stats.waiting_count == 0 && stats.line_count == 0, "nobody waits");
    require(stats.joined_count == joined && stats.left_count == left, "the books");
    require(joined == stats.served_count + stats.expired_count + left,
            "everybody is answered once");
    require(stats.served_count > 100 && table.reused_count > 100, "something happened");
    check_marks();
    if (!round->gives_back && rule.limit.kind == WEIR_KIND_BUCKET) {
        check_bound();
    }
    printf("%s, seed %" PRIu64 ": %" PRIu64 " waited, %" PRIu64 " were served, %" PRIu64
           " expired, %" PRIu64 " left; %" PRIu64 " slots reused\n",
           round->name, seed, joined, stats.served_count, stats.expired_count, left,
           table.reused_count);
    weir_limiter_close(limiter);
}

/* ---- threads that sleep ---- */

struct sleeper {
    pthread_t thread;
    uint64_t timeout_ns, slept_ns;
    struct weir_decision decision;
    uint64_t is_back; // atomic
};

static void *acquire(void *argument)
{
    struct sleeper *sleeper = argument;
    uint64_t before_ns = weir_limiter_now_ns(limiter);
    sleeper->decision =
        weir_limiter_acquire(limiter, &rule, "key", 3, WEIR_UNIT, sleeper->timeout_ns);
    sleeper->slept_ns = weir_limiter_now_ns(limiter) - before_ns;
    add(&sleeper->is_back, 1);
    return NULL;
}

static void wait_for_line(uint64_t count)
{
    struct lines_stats stats;
    do {
        (void)sched_yield();
        lines_read_stats(limiter->lines, &stats);
    } while (stats.waiting_count != count);
}

static void start_sleeper(struct sleeper *sleeper, uint64_t timeout_ns)
{
    *sleeper = (struct sleeper){.timeout_ns = timeout_ns};
    require(pthread_create(&sleeper->thread, NULL, acquire, sleeper) == 0, "a thread");
}

/* One after the other into a line that only a refund moves. */
static void test_acquire_is_fifo(void)
{
    static const struct round ROUND = {"acquire, first come", "1/h capacity=1", true};
    struct sleeper sleepers[8];
    open_round(&ROUND, 1);
    (void)weir_limiter_take(limiter, &rule, "key", 3, WEIR_UNIT);
    for (uint64_t i = 0; i < 8; i++) {
        start_sleeper(&sleepers[i], WEIR_SPAN_NS_MAX);
        wait_for_line(i + 1);
    }
    for (int i = 0; i < 8; i++) {
        struct weir_decision take = weir_limiter_take(limiter, &rule, "key", 3, WEIR_UNIT);
        require(take.verdict == WEIR_LIMITED, "nobody overtakes");
        (void)weir_limiter_refund(limiter, &rule, "key", 3, WEIR_UNIT);
        (void)pthread_join(sleepers[i].thread, NULL);
        require(sleepers[i].decision.verdict == WEIR_ALLOWED, "it is its turn");
        for (int j = i + 1; j < 8; j++) {
            require(load(&sleepers[j].is_back) == 0, "and nobody else's");
        }
    }
    check_marks();
    weir_limiter_close(limiter);
}

static void cancel_sleeper(struct sleeper *sleeper)
{
    void *result;
    (void)pthread_cancel(sleeper->thread);
    (void)pthread_join(sleeper->thread, &result);
    require(result == PTHREAD_CANCELED, "it was cancelled");
    require(load(&sleeper->is_back) == 0, "while it waited");
}

/* Wherever it stands; and nobody else notices, but that they move up. */
static void test_a_cancelled_thread_gives_its_place_back(void)
{
    static const struct round ROUND = {"acquire, cancelled", "1/h capacity=1", true};
    struct sleeper sleepers[5];
    struct lines_stats stats;
    open_round(&ROUND, 1);
    (void)weir_limiter_take(limiter, &rule, "key", 3, WEIR_UNIT);
    for (uint64_t i = 0; i < 5; i++) {
        start_sleeper(&sleepers[i], WEIR_SPAN_NS_MAX);
        wait_for_line(i + 1);
    }
    cancel_sleeper(&sleepers[4]); // the last, the first, one in the middle
    cancel_sleeper(&sleepers[0]);
    cancel_sleeper(&sleepers[2]);
    lines_read_stats(limiter->lines, &stats);
    require(stats.waiting_count == 2 && stats.left_count == 3, "their places are free");
    for (int i = 1; i < 5; i += 2) {
        require(load(&sleepers[3].is_back) == 0, "one after the other");
        (void)weir_limiter_refund(limiter, &rule, "key", 3, WEIR_UNIT);
        (void)pthread_join(sleepers[i].thread, NULL);
        require(sleepers[i].decision.verdict == WEIR_ALLOWED, "it is its turn");
    }
    check_marks();
    weir_limiter_close(limiter);
}

/* Under two limits, with the request there before it joins: it acts when the thread sleeps. */
static void *acquire_cancelled(void *argument)
{
    struct weir_rule *other = argument;
    struct weir_request requests[] = {
        {.rule = &rule, .key = "key", .key_len = 3, .cost_micro = WEIR_UNIT, .and_next = true},
        {.rule = other, .key = "key", .key_len = 3, .cost_micro = WEIR_UNIT}};
    struct weir_decision decisions[2];
    (void)pthread_cancel(pthread_self());
    weir_limiter_acquire_all(limiter, requests, decisions, 2, WEIR_SPAN_NS_MAX);
    return NULL;
}

static void test_a_cancelled_thread_leaves_all_of_its_lines(void)
{
    static const struct round ROUND = {"acquire, cancelled in two", "1/h capacity=1", true};
    struct weir_rule other;
    pthread_t thread;
    void *result;
    struct lines_stats stats;
    open_round(&ROUND, 1);
    require(weir_rule_from_text(&other, limiter, "1/h capacity=2", NULL) == WEIR_OK, "a rule");
    (void)weir_limiter_take(limiter, &rule, "key", 3, WEIR_UNIT);
    (void)weir_limiter_take(limiter, &other, "key", 3, 2 * WEIR_UNIT);
    require(pthread_create(&thread, NULL, acquire_cancelled, &other) == 0, "a thread");
    (void)pthread_join(thread, &result);
    require(result == PTHREAD_CANCELED, "it was cancelled");
    lines_read_stats(limiter->lines, &stats);
    require(stats.waiting_count == 0 && stats.left_count == 1, "its places are free");
    check_marks();
    weir_limiter_close(limiter);
}

static void test_acquire_does_not_wait_in_vain(void)
{
    static const struct round ROUND = {"acquire, in vain", "1/h capacity=1", true};
    const uint64_t minute_ns = UINT64_C(60000000000);
    open_round(&ROUND, 1);
    (void)weir_limiter_take(limiter, &rule, "key", 3, WEIR_UNIT);
    struct weir_decision late =
        weir_limiter_acquire(limiter, &rule, "key", 3, WEIR_UNIT, minute_ns);
    struct weir_decision never =
        weir_limiter_acquire(limiter, &rule, "key", 3, 2 * WEIR_UNIT, minute_ns);
    struct weir_decision read = weir_limiter_acquire(limiter, &rule, "key", 3, 0, minute_ns);
    require(late.verdict == WEIR_LIMITED, "refused at once");
    require(never.verdict == WEIR_NEVER, "never");
    require(read.verdict == WEIR_ALLOWED, "a cost of nothing waits for nobody");
    check_marks();
    weir_limiter_close(limiter);
}

/* Unless this thread is stopped for so long that the bucket drains. */
static void test_acquire_gives_up_at_its_deadline(void)
{
    static const struct round ROUND = {"acquire, deadline", "1/20ms capacity=1", true};
    struct sleeper sleeper;
    open_round(&ROUND, 1);
    (void)weir_limiter_take(limiter, &rule, "key", 3, WEIR_UNIT);
    start_sleeper(&sleeper, UINT64_C(40000000));
    struct weir_request fill = {
        .rule = &rule, .key = "key", .key_len = 3, .cost_micro = WEIR_UNIT, .operation = WEIR_FILL};
    while (load(&sleeper.is_back) == 0) { // to the brim, all the time
        struct weir_decision decision;
        weir_limiter_decide(limiter, &fill, &decision, 1);
    }
    (void)pthread_join(sleeper.thread, NULL);
    require(sleeper.decision.verdict == WEIR_ALLOWED || sleeper.slept_ns >= 40000000,
            "not before its deadline");
    require(sleeper.decision.retry_after_ns != 0, "and told when");
    check_marks();
    weir_limiter_close(limiter);
}

/* Real threads, the real clock: as many as the rate lets, all together. */
static void *acquire_often(void *argument)
{
    uint64_t *admitted = argument;
    uint64_t end_ns = weir_limiter_now_ns(limiter) + UINT64_C(500000000);
    for (uint64_t i = 0; weir_limiter_now_ns(limiter) < end_ns; i++) {
        struct weir_decision decision =
            i % 4 == 0
                ? weir_limiter_take(limiter, &rule, "key", 3, WEIR_UNIT)
                : weir_limiter_acquire(limiter, &rule, "key", 3, WEIR_UNIT, 1 + i % 7 * 1000000);
        add(admitted, decision.verdict == WEIR_ALLOWED);
    }
    return NULL;
}

static void test_acquire_admits_no_more_than_the_rate(void)
{
    static const struct round ROUND = {"acquire, the rate", "3/ms capacity=2", false};
    pthread_t threads[8];
    uint64_t admitted = 0;
    open_round(&ROUND, 1);
    uint64_t begin_ns = weir_limiter_now_ns(limiter);
    for (int i = 0; i < 8; i++) {
        require(pthread_create(&threads[i], NULL, acquire_often, &admitted) == 0, "a thread");
    }
    for (int i = 0; i < 8; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    uint64_t span_ns = weir_limiter_now_ns(limiter) - begin_ns;
    require(admitted <= 2 + span_ns * 3 / 1000000, "admitted <= C + T * N / P");
    require(admitted > 100, "something happened");
    check_marks();
    printf("%s: %" PRIu64 " in %" PRIu64 " ms\n", ROUND.name, admitted, span_ns / 1000000);
    weir_limiter_close(limiter);
}

int main(int argc, char **argv)
{
    static const struct round ROUNDS[] = {
        {"a bucket", "1/10ms capacity=3", false},
        {"thirds, all of the bucket", "3/40ms capacity=2", false},
        {"a bucket that is given back to", "1/10ms capacity=3", true},
        {"a queue", "queue 1/20ms capacity=6", false},
        {"a queue whose first goes now", "queue 1/20ms capacity=6 first=now", false},
        {"a queue that is given back to", "queue 1/20ms capacity=6 first=now", true},
    };
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    const char *minutes = getenv("SOAK_MINUTES");
    time_t end = time(NULL) + (is_soak ? (minutes != NULL ? atol(minutes) : 1) * 60 : 0);
    uint64_t seed = is_soak ? (uint64_t)end : 1;
    do {
        for (size_t i = 0; i < sizeof ROUNDS / sizeof ROUNDS[0]; i++) {
            run_round(&ROUNDS[i], seed++);
        }
        test_acquire_is_fifo();
        test_a_cancelled_thread_gives_its_place_back();
        test_a_cancelled_thread_leaves_all_of_its_lines();
        test_acquire_does_not_wait_in_vain();
        test_acquire_gives_up_at_its_deadline();
        test_acquire_admits_no_more_than_the_rate();
    } while (time(NULL) < end);
    return 0;
}
