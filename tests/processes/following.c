/* SPDX-License-Identifier: MIT
 *
 * Processes that wait in the lines of a file while it gets another size: in order, each in the mapping with
 * which it began; stopped and killed meanwhile; and beside those who know the new file only.
 *
 *     following [soak]
 *
 * Then processes wait, again and again, while those who resize are killed wherever they happen to be:
 * everybody must be let in, as often as the limit says. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hampered.h"
#include "people.h"
#include "store/table/resize.h"

enum {
    WORKERS = 4,
    LANDED = 25, // kills while nobody could be served
    LANDED_SOAK = 1000,
    LATE_MS = 7000, // the dead who are not noticed hold others up for more than ten seconds
    BLOCKED_S = 120
};

/* What those who wait again and again tell. */
struct worker {
    pid_t pid;
    volatile uint64_t served_count;
};

struct books {
    volatile int phase; // of who resizes now
    volatile uint64_t resized_count;
    volatile bool is_over;
    struct worker workers[WORKERS];
};

static char folder[48];
static char path[128];
static char url[160];
static struct books *books;

static bool note_phase(void *context, enum resize_phase phase, uint64_t done, uint64_t total)
{
    (void)context, (void)done, (void)total;
    books->phase = (int)phase + 1;
    return true;
}

static enum weir_status resize(uint64_t bytes, struct resize_report *report,
                               struct weir_error *error)
{
    struct room_mover mover;
    room_mover_init(&mover);
    struct resize_config config = {
        .path = path, .bytes = bytes, .lines = &mover.lines, .watch = note_phase};
    return resize_file(&config, report, error);
}

/* At most so many stand in line: on a busy machine somebody may have been served before. */
static void must_resize(uint64_t bytes, uint64_t waiting_count)
{
    struct weir_error error = {.message = ""};
    struct resize_report report;
    if (resize(bytes, &report, &error) != WEIR_OK) {
        give_up("%s: %s", people.key, error.message);
    }
    if (report.waiting_count > waiting_count) {
        give_up("%s: %" PRIu64 " came along, and not %" PRIu64 " at most", people.key,
                report.waiting_count, waiting_count);
    }
}

/* A file of its own for each scenario. */
static void begin(const char *name, const char *limit, uint64_t bytes)
{
    people_open(url, bytes);
    people_begin(name, limit);
}

static bool has_tickets(const struct shared_lines *shared)
{
    bool any = false;
    for (uint32_t place = 1; place <= shared->place_count; place++) {
        any = any || ticket_at(shared, place)->state != TICKET_FREE;
    }
    return any;
}

/* Who died before he came to the new room is noticed after a while, and then nothing is left of him. */
static void finish(void)
{
    struct shared_lines *shared = people.limiter->lines->shared;
    people_must_be_gone();
    bool any = true;
    while (any) { // that it never ends is what alarm() is for
        lines_lock(people.limiter->lines);
        uint64_t now_ns = room_enter(shared, people_now());
        room_bury_all(shared, now_ns);
        any = has_tickets(shared);
        room_leave(shared, now_ns);
        lines_unlock(people.limiter->lines);
    }
    people_must_be_gone();
    weir_limiter_close(people.limiter);
    must_hold_store_only(folder, people.key);
    (void)unlink(path);
}

/* ---- scenarios ---- */

static void in_order(const char *limit)
{
    begin("in order", limit, 1 << 20);
    people_fill_up(1);
    uint64_t since_ns = people_now();
    for (int i = 0; i < 4; i++) {
        (void)people_join(1, 30 * S);
    }
    must_resize(2 << 20, 4);
    struct person *fresh = people_join_at(url, 1, 30 * S);
    struct person *old = people_join(1, 30 * S);
    must_resize(1 << 19, 6); // now they are of three files
    (void)people_join(1, 30 * S);
    people_must_be_served_in_order();
    people_must_be_about(fresh, since_ns, 990, LATE_MS);
    people_must_be_about(old, since_ns, 1190, LATE_MS);
    finish();
}

/* The process in which several wait, and its own threads, come as one. */
static void nobody_overtakes(void)
{
    begin("nobody overtakes", "1/s capacity=10", 1 << 20);
    people_fill_up(9);
    struct person *head = people_join(10, 30 * S);
    must_resize(2 << 20, 1);
    if (people_take(1).verdict != WEIR_LIMITED) {
        give_up("%s: overtaken", people.key);
    }
    struct person *next = people_join_at(url, 1, 30 * S);
    people_end(head);
    people_must_be_let(next);
    finish();
}

/* Until all of them have come to the new room. */
static void wait_for_arrival(void)
{
    struct shared_lines *shared = people.limiter->lines->shared;
    bool is_expected = true;
    while (is_expected) { // that it never ends is what alarm() is for
        is_expected = false;
        (void)people_room();
        for (uint32_t place = 1; place <= shared->place_count; place++) {
            const struct standing *standing = standing_at(shared, place);
            is_expected = is_expected || __atomic_load_n(&standing->is_expected, __ATOMIC_SEQ_CST);
        }
        (void)sched_yield();
    }
}

static bool comes_when_called(void)
{
    begin("called", "1/s capacity=10", 1 << 20);
    people_fill_up(10);
    struct person *person = people_join(10, 30 * S); // who has nothing to look at for 10 s
    must_resize(2 << 20, 1);
    wait_for_arrival();
    bool has_come = people_room()->waiting_count == 1;
    people_end(person);
    (void)people_take(1); // finds that its line is nobody's any longer
    finish();
    return has_come;
}

/* Whoever waits is told of the new room at once, before his place there is given up: that he comes too late may
 * happen on a busy machine, but not again and again. */
static void called(void)
{
    enum { TRIES = 5 };
    int tries = 1;
    while (!comes_when_called()) {
        if (tries++ == TRIES) {
            give_up("called: nobody came");
        }
    }
}

/* The kernel tells of a death in the new room as it did in the old one. */
static void dead_afterwards(void)
{
    begin("dead afterwards", "1/s capacity=10", 1 << 20);
    people_fill_up(10);
    struct person *head = people_join(10, 30 * S);
    struct person *next = people_join(1, 30 * S);
    must_resize(2 << 20, 2);
    wait_for_arrival();
    uint64_t since_ns = people_now();
    people_end(head);
    people_must_be_let(next);
    people_must_be_about(next, since_ns, 0, LATE_MS);
    finish();
}

/* Who is stopped while all others go is passed over where they are; when it goes on it joins behind them. */
static void stopped_meanwhile(const char *limit)
{
    begin("stopped meanwhile", limit, 1 << 20);
    people_fill_up(1);
    struct person *stopped = people_join(1, 30 * S);
    people_stop(stopped);
    struct person *next = people_join(1, 30 * S);
    must_resize(2 << 20, 2);
    must_resize(1 << 20, 2);
    struct person *last = people_join(1, 30 * S);
    people_must_be_let(next);
    people_must_be_let(last);
    (void)kill(stopped->pid, SIGCONT);
    people_must_be_let(stopped);
    if (stopped->place != 2) {
        give_up("%s: it did not go to the back", people.key);
    }
    finish();
}

/* Longer than it is expected: its place has been given to somebody else. */
static void stopped_for_long(const char *limit)
{
    begin("stopped for long", limit, 1 << 20);
    people_fill_up(1);
    struct person *stopped = people_join(1, 30 * S);
    people_stop(stopped);
    must_resize(2 << 20, 1);
    must_resize(1 << 20, 1);
    uint64_t since_ns = people_now();
    while (people_now() < since_ns + ARRIVAL_NS) {
        (void)sched_yield();
    }
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    (void)kill(stopped->pid, SIGCONT);
    for (int i = 0; i < people.count; i++) {
        people_must_be_let(&people.people[i]);
        if (people.people[i].place != (uint64_t)(i + people.count - 1) % (uint64_t)people.count) {
            give_up("%s: the one at %d was answered at %" PRIu64, people.key, i,
                    people.people[i].place);
        }
    }
    finish();
}

/* Takes under two limits keep all of their places. */
static void together(void)
{
    people_open(url, 1 << 20);
    people_begin_two("together", "5/s capacity=1", "4/s capacity=1");
    people_fill_both(1, 1);
    struct person *first = people_join_under(BOTH, NULL, 1, 30 * S);
    struct person *one = people_join_under(ONE, NULL, 1, 30 * S);
    struct person *other = people_join_under(OTHER, NULL, 1, 30 * S);
    struct person *last = people_join_under(BOTH, NULL, 1, 30 * S);
    must_resize(2 << 20, 4);
    for (int i = 0; i < people.count; i++) {
        people_must_be_let(&people.people[i]);
    }
    if (first->place != 0 || last->place < one->place || last->place < other->place) {
        give_up("%s: not in order", people.key);
    }
    finish();
}

/* Its places are gone: it takes others, and stands behind all. */
static void together_too_late(void)
{
    people_open(url, 1 << 20);
    people_begin_two("together, too late", "5/s capacity=1", "4/s capacity=1");
    people_fill_both(1, 1);
    struct person *both = people_join_under(BOTH, NULL, 1, 30 * S);
    people_stop(both);
    must_resize(2 << 20, 1);
    uint64_t since_ns = people_now();
    while (people_now() < since_ns + ARRIVAL_NS) {
        (void)sched_yield();
    }
    people_fill_both(1, 1);
    struct person *one = people_join_under(ONE, NULL, 1, 30 * S);
    struct person *other = people_join_under(OTHER, NULL, 1, 30 * S);
    (void)kill(both->pid, SIGCONT);
    people_must_be_let(one);
    people_must_be_let(other);
    people_must_be_let(both);
    if (both->place != 2) {
        give_up("%s: it did not go to the back", people.key);
    }
    finish();
}

/* It never comes: whoever stands behind it is served, and its place is found again. */
static void dead_meanwhile(const char *limit)
{
    begin("dead meanwhile", limit, 1 << 20);
    people_fill_up(10);
    struct person *dead = people_join(10, 30 * S);
    struct person *next = people_join(1, 30 * S);
    people_stop(dead);
    must_resize(2 << 20, 2);
    uint64_t since_ns = people_now();
    people_end(dead);
    people_must_be_let(next);
    people_must_be_about(next, since_ns, 0, LATE_MS);
    finish();
}

static void too_many(void)
{
    enum { COUNT = 12 };
    begin("too many", "4/s capacity=1", 1 << 20); // so that all of them are stopped before one goes
    people_fill_up(1);
    struct person *head = people_join(1, 30 * S);
    people_stop(head); // so that nobody goes
    for (int i = 1; i < COUNT; i++) {
        struct person *person = people_join(1, 30 * S);
        people_stop(person);
    }
    struct weir_error error = {.message = ""};
    struct resize_report report;
    enum weir_status status = resize(65536, &report, &error);
    if (status != WEIR_E_RANGE
        || strstr(error.message, "more stand in line than have a place") == NULL
        || strstr(error.message, "nothing has changed") == NULL) {
        give_up("%s: %s", people.key, error.message);
    }
    for (int i = 0; i < COUNT; i++) {
        (void)kill(people.people[i].pid, SIGCONT);
    }
    for (int i = 0; i < COUNT; i++) {
        people_must_be_let(&people.people[i]);
    }
    finish();
}

/* Takes of this process, which follows no more than the others, each by its own way. */
static void must_answer_by_on_error(enum weir_verdict verdict)
{
    struct weir_decision decision = people_take(1);
    uint64_t remaining =
        verdict == WEIR_ALLOWED ? decision.capacity - 1 : 0; // as of an empty bucket
    struct weir_decision decisions[2];
    struct weir_request requests[2] = {
        {.rule = &people.rule, .key = "a", .key_len = 1, .cost_micro = WEIR_UNIT, .and_next = true},
        {.rule = &people.other_rule, .key = "b", .key_len = 1, .cost_micro = WEIR_UNIT}};
    if (decision.verdict != verdict || decision.remaining != remaining) {
        give_up("%s: a take is answered %s", people.key, weir_verdict_word(decision.verdict));
    }
    weir_limiter_decide(people.limiter, requests, decisions, 2);
    if (decisions[0].verdict != verdict) {
        give_up("%s: of a run it is answered %s", people.key,
                weir_verdict_word(decisions[0].verdict));
    }
    if (decisions[1].verdict == WEIR_ALLOWED && decisions[0].remaining != remaining) {
        give_up("%s: together %" PRIu64 " remain", people.key, decisions[0].remaining);
    }
    decision = weir_limiter_block(people.limiter, &people.rule, "a", 1, S);
    if (decision.verdict != WEIR_FAILED) {
        give_up("%s: it says that it has blocked", people.key);
    }
    decision = weir_limiter_refund(people.limiter, &people.rule, "a", 1, WEIR_UNIT);
    if (decision.verdict != WEIR_FAILED) {
        give_up("%s: it says that it has given back", people.key);
    }
}

/* Somebody waits, is told, and so is who comes later. */
static void must_be_answered(struct person *person, enum weir_verdict verdict, const char *when)
{
    enum weir_verdict said = people_answer(person);
    if (said != verdict || person->decision.delay_ns != 0) {
        give_up("%s: %s it is answered %s, delay %" PRId64, people.key, when,
                weir_verdict_word(said), person->decision.delay_ns);
    }
}

/* One that has not looked at the file since it went, and would wait. */
static void must_answer_unaware(struct weir_limiter *unaware, enum weir_verdict verdict)
{
    struct weir_rule rule;
    if (weir_rule_from_text(&rule, unaware, people.limit, NULL) != WEIR_OK) {
        give_up("%s: no rule", people.key);
    }
    struct weir_decision decision =
        weir_limiter_acquire(unaware, &rule, people.key, strlen(people.key), WEIR_UNIT, 30 * S);
    uint64_t remaining = verdict == WEIR_ALLOWED ? decision.capacity - 1 : 0;
    if (decision.verdict != verdict || decision.remaining != remaining || decision.delay_ns != 0) {
        give_up("%s: unaware it is answered %s, %" PRIu64 " remain", people.key,
                weir_verdict_word(decision.verdict), decision.remaining);
    }
}

/* One more, whose own limit says otherwise. Its bucket and its line are the same. */
static struct person *join_otherwise(uint64_t cost)
{
    people.rule.limit.on_error ^= WEIR_ON_ERROR_REFUSE ^ WEIR_ON_ERROR_ALLOW;
    struct person *person = people_join(cost, 30 * S);
    people.rule.limit.on_error ^= WEIR_ON_ERROR_REFUSE ^ WEIR_ON_ERROR_ALLOW;
    return person;
}

/* The file is where they cannot open it: on_error answers, until it is back. */
static void out_of_reach(const char *name, enum people_limits limits, const char *limit,
                         const char *other, enum weir_verdict verdict)
{
    char away[sizeof folder + 8];
    people_open(url, 1 << 20);
    people_begin_two(name, limit, other);
    people_fill_up(10);
    struct weir_limiter *unaware;
    if (weir_limiter_open(&unaware, &(struct weir_limiter_config){.store = url}, NULL) != WEIR_OK) {
        give_up("%s: it does not open", people.key);
    }
    struct person *person = people_join_under(limits, NULL, 10, 30 * S);
    struct person *other_person = limits == ONE ? join_otherwise(10) : NULL;
    (void)snprintf(away, sizeof away, "%s.away", folder);
    char here[sizeof path];
    memcpy(here, path, sizeof here);
    if (rename(folder, away) != 0) {
        give_up("%s: %s", people.key, strerror(errno));
    }
    (void)snprintf(path, sizeof path, "%s/store", away);
    must_resize(2 << 20, 2);
    must_be_answered(person, verdict, "waiting");
    if (other_person != NULL) {
        must_be_answered(other_person, verdict == WEIR_FAILED ? WEIR_ALLOWED : WEIR_FAILED,
                         "waiting otherwise");
    }
    memcpy(path, here, sizeof here);
    if (limits == ONE) {
        must_answer_unaware(unaware, verdict);
    }
    must_be_answered(people_join_under(limits, NULL, 10, 30 * S), verdict, "later");
    if (limits == ONE) {
        must_answer_by_on_error(verdict);
    }
    if (rename(away, folder) != 0) {
        give_up("%s: %s", people.key, strerror(errno));
    }
    weir_limiter_close(unaware);
    people_must_be_let(people_join_under(limits, NULL, 1, 30 * S));
    finish();
}

static void out_of_reach_as_on_error_says(void)
{
    static const char REFUSES[] = "1/s capacity=10";
    static const char ALLOWS[] = "1/s capacity=10 on_error=allow";
    out_of_reach("out of reach", ONE, REFUSES, ALLOWS, WEIR_FAILED);
    out_of_reach("out of reach for a window", ONE, "window 10/5s", ALLOWS, WEIR_FAILED);
    out_of_reach("allowed on_full only", ONE, "1/s capacity=10 on_full=allow", ALLOWS, WEIR_FAILED);
    out_of_reach("let pass", ONE, ALLOWS, ALLOWS, WEIR_ALLOWED);
    out_of_reach("let pass beside one that refuses", ONE, ALLOWS, REFUSES, WEIR_ALLOWED);
    out_of_reach("let pass a window", ONE, "window 10/5s on_error=allow", ALLOWS, WEIR_ALLOWED);
    out_of_reach("let pass a queue", ONE, "queue 6/s capacity=40 on_error=allow", ALLOWS,
                 WEIR_ALLOWED);
    out_of_reach("out of reach together", BOTH, ALLOWS, "2/s capacity=10", WEIR_FAILED);
    out_of_reach("let pass together", BOTH, ALLOWS, "2/s capacity=10 on_error=allow", WEIR_ALLOWED);
}

/* ---- a process of which many wait ---- */

enum { THREADS = 6, TURNS = 6 };

static void *wait_in_turns(void *context)
{
    const char *key = context;
    for (int i = 0; i < TURNS; i++) {
        struct weir_decision decision =
            weir_limiter_acquire(people.limiter, &people.rule, key, strlen(key), WEIR_UNIT, 60 * S);
        if (decision.verdict != WEIR_ALLOWED) {
            give_up("%s: %s", key, weir_verdict_word(decision.verdict));
        }
        __atomic_fetch_add(&books->workers[0].served_count, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* In two lines. Whichever thread comes to the new room first, its attendant does before it. */
static void run_threads(void)
{
    static char keys[2][8] = {"one", "other"};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, wait_in_turns, keys[i % 2]) != 0) {
            give_up("no thread");
        }
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    weir_limiter_close(people.limiter);
    exit(0);
}

static void several_threads(void)
{
    begin("several threads", "50/s capacity=1", 1 << 20);
    books->workers[0].served_count = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_threads();
    }
    for (int i = 1; i < THREADS * TURNS / 4; i++) {
        while (__atomic_load_n(&books->workers[0].served_count, __ATOMIC_SEQ_CST)
               < 4U * (unsigned)i) {
            (void)sched_yield();
        }
        struct weir_error error = {.message = ""};
        struct resize_report report;
        if (resize(i % 2 == 0 ? 1 << 19 : 1 << 20, &report, &error) != WEIR_OK) {
            give_up("%s: %s", people.key, error.message);
        }
    }
    int status;
    (void)waitpid(pid, &status, 0);
    if (status != 0) {
        give_up("%s: it ended with %d", people.key, status);
    }
    finish();
    books->workers[0].served_count = 0;
}

/* ---- a mover that dies ---- */

static void resize_on_the_way(struct line_mover *lines)
{
    struct resize_config config = {.path = path, .bytes = 2 << 20, .lines = lines};
    struct resize_report report;
    struct weir_error error = {.message = ""};
    (void)resize_file(&config, &report, &error);
}

/* Before the step that counts all is as it was, and afterwards all is done. */
static void mover_dies_at(enum point point)
{
    char name[32];
    (void)snprintf(name, sizeof name, "a mover dies at %d", (int)point);
    begin(name, "4/s capacity=1", 1 << 20); // who does not run for an interval is passed over
    people_fill_up(1);
    for (int i = 0; i < 3; i++) {
        (void)people_join(1, 30 * S);
    }
    hampered_kill(point, resize_on_the_way);
    if (point != AFTER_CARRY && has_nameless_files(folder)) {
        must_hold_store_only(folder, people.key); // even if nobody comes after it
    }
    (void)people_join_at(url, 1, 30 * S);
    (void)people_join(1, 30 * S);
    people_must_be_served_in_order();
    struct weir_limiter_stats stats;
    weir_limiter_stats(people.limiter, &stats);
    if ((stats.memory_bytes == 2 << 20) != (point >= BEFORE_LEAVE)) {
        give_up("%s: it has %" PRIu64 " bytes", people.key, (uint64_t)stats.memory_bytes);
    }
    must_hold_store_only(folder, people.key);
    must_resize(1 << 19, 0);
    finish();
}

/* ---- again and again ---- */

static void wait_again_and_again(struct worker *worker)
{
    while (!books->is_over) {
        struct weir_decision decision = weir_limiter_acquire(
            people.limiter, &people.rule, people.key, strlen(people.key), WEIR_UNIT, 60 * S);
        if (decision.verdict != WEIR_ALLOWED) {
            give_up("%s: %s", people.key, weir_verdict_word(decision.verdict));
        }
        worker->served_count++;
    }
    exit(0);
}

/* Resizes until it is killed. */
static pid_t start_resizer(uint64_t random)
{
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    while (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct weir_error error = {.message = ""};
        struct resize_report report;
        random = random * UINT64_C(6364136223846793005) + 1;
        if (resize(UINT64_C(65536) << (random >> 32) % 5, &report, &error) != WEIR_OK) {
            give_up("%s", error.message);
        }
        books->phase = 0;
        __atomic_fetch_add(&books->resized_count, 1, __ATOMIC_RELAXED);
    }
    return pid;
}

static bool kill_resizer(uint64_t random)
{
    books->phase = 0;
    pid_t pid = start_resizer(random);
    uint64_t turns = random % 4;
    uint64_t from = books->resized_count;
    while (books->resized_count - from < turns || books->phase != RESIZE_MOVING + 1) {
        (void)sched_yield(); // that it never comes so far is what alarm() is for
    }
    (void)kill(pid, SIGKILL);
    int status;
    (void)waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        give_up("%s: who resized ended by itself", people.key);
    }
    return books->phase == RESIZE_MOVING + 1;
}

/* All that were let in so far. */
static uint64_t served(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < WORKERS; i++) {
        sum += books->workers[i].served_count;
    }
    return sum;
}

static void again_and_again(uint64_t goal)
{
    enum { RATE = 500 };
    begin("again and again", "500/s capacity=1", 1 << 20);
    uint64_t since_ns = people_now();
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &books->workers[i];
        pid_t pid = fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            wait_again_and_again(worker);
        }
        worker->pid = pid; // here only: the books are shared
    }
    uint64_t landed_count = 0;
    uint64_t kill_count = 0;
    for (; landed_count < goal && kill_count < 20 * goal; kill_count++) {
        (void)alarm(BLOCKED_S);
        uint64_t from = served();
        landed_count += kill_resizer(kill_count * 2654435761);
        while (served() == from) { // they go on
            (void)sched_yield();
        }
    }
    books->is_over = true;
    for (int i = 0; i < WORKERS; i++) {
        int status;
        (void)waitpid(books->workers[i].pid, &status, 0);
        if (status != 0) {
            give_up("%s: a worker ended with %d", people.key, status);
        }
    }
    uint64_t most = (people_now() - since_ns) * RATE / S + 1;
    if (served() > most || landed_count < goal) {
        give_up("%s: %" PRIu64 " were let in where %" PRIu64 " may; %" PRIu64 " kills landed",
                people.key, served(), most, landed_count);
    }
    printf("    %" PRIu64 " let in, %" PRIu64 " resizes done, %" PRIu64 " killed, %" PRIu64
           " of them while buckets moved\n",
           served(), books->resized_count, kill_count, landed_count);
    finish();
}

static void run_all(bool is_soak)
{
    several_threads();
#if defined(__SANITIZE_THREAD__)
    return; // it does not understand that other processes change what it sees
#endif
    for (int point = 0; point < POINT_COUNT; point++) {
        mover_dies_at((enum point)point);
    }
    together();
    together_too_late();
    in_order("5/s capacity=1");
    in_order("queue 5/s capacity=50 first=interval");
    in_order("window 1/200ms");
    nobody_overtakes();
    called();
    dead_afterwards();
    stopped_meanwhile("2/s capacity=1");
    stopped_meanwhile("queue 2/s capacity=10 first=now");
    stopped_for_long("5/s capacity=1");
    stopped_for_long("queue 5/s capacity=10 first=now");
    dead_meanwhile("1/s capacity=10");
    too_many();
    out_of_reach_as_on_error_says();
    again_and_again(is_soak ? LANDED_SOAK : LANDED);
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    (void)snprintf(folder, sizeof folder, "%s/weir-following-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL) {
        give_up("no folder: %s", strerror(errno));
    }
    (void)snprintf(path, sizeof path, "%s/store", folder);
    (void)snprintf(url, sizeof url, "file:%s", path);
    books = world_share(sizeof *books);
    people_init();
    run_all(is_soak);
    (void)rmdir(folder);
    return 0;
}
