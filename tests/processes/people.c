/* SPDX-License-Identifier: MIT */
#include "people.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKED_S = 60 };

struct people people;
static uint64_t *answer_count;

void people_init(void)
{
    answer_count = world_share(sizeof *answer_count);
    people.people = world_share(PEOPLE_MAX * sizeof *people.people);
}

static struct weir_limiter *open_limiter(const char *store, uint64_t memory_bytes)
{
    struct weir_limiter_config config = {.store = store, .memory_bytes = memory_bytes};
    struct weir_limiter *limiter;
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
    return limiter;
}

void people_open(const char *store, uint64_t memory_bytes)
{
    people.limiter = open_limiter(store, memory_bytes);
}

static void bind_rule(struct weir_rule *rule, const char *limit)
{
    struct weir_error error;
    if (weir_rule_from_text(rule, people.limiter, limit, &error) != WEIR_OK) {
        give_up("%s: %s", limit, error.message);
    }
}

static void bind_rules(void)
{
    bind_rule(&people.rule, people.limit);
    bind_rule(&people.other_rule, people.other);
}

void people_begin_two(const char *name, const char *limit, const char *other)
{
    people.limit = limit;
    people.other = other;
    bind_rules();
    memset(people.people, 0, PEOPLE_MAX * sizeof *people.people);
    *answer_count = 0;
    people.count = 0;
    (void)snprintf(people.key, sizeof people.key, "%s", name);
    printf("%s, %s\n", name, limit);
    (void)fflush(stdout);
    (void)alarm(BLOCKED_S);
    people_reset_other();
}

void people_begin(const char *name, const char *limit)
{
    people_begin_two(name, limit, limit);
}

static struct weir_request request_of(enum people_limits which, uint64_t cost)
{
    const char *key = which == ONE ? people.key : PEOPLE_OTHER_KEY;
    return (struct weir_request){.rule = which == ONE ? &people.rule : &people.other_rule,
                                 .key = key,
                                 .key_len = strlen(key),
                                 .cost_micro = cost * WEIR_UNIT};
}

void people_reset_other(void)
{
    struct weir_request reset = request_of(OTHER, 0);
    struct weir_decision decision;
    reset.operation = WEIR_RESET;
    weir_limiter_decide(people.limiter, &reset, &decision, 1);
}

void people_fill_both(uint64_t cost, uint64_t other_cost)
{
    struct weir_request requests[] = {request_of(ONE, cost), request_of(OTHER, other_cost)};
    struct weir_decision decisions[2];
    weir_limiter_decide(people.limiter, requests, decisions, 2);
    if (decisions[0].verdict != WEIR_ALLOWED || decisions[1].verdict != WEIR_ALLOWED) {
        give_up("%s: the buckets are not empty", people.key);
    }
}

struct room *people_room(void)
{
    (void)lines_valid(people.limiter->lines); // goes there
    return people.limiter->lines->shared->room;
}

uint64_t people_now(void)
{
    return weir_limiter_now_ns(people.limiter);
}

struct weir_decision people_take(uint64_t cost)
{
    return weir_limiter_take(people.limiter, &people.rule, people.key, strlen(people.key),
                             cost * WEIR_UNIT);
}

void people_fill_up(uint64_t cost)
{
    if (people_take(cost).verdict != WEIR_ALLOWED) {
        give_up("%s: the bucket is not empty", people.key);
    }
}

static void wait_in_line(struct person *person, enum people_limits limits, uint64_t cost,
                         uint64_t timeout_ns)
{
    struct weir_request requests[] = {request_of(ONE, cost), request_of(OTHER, cost)};
    struct weir_decision decisions[2];
    struct rusage usage;
    size_t count = limits == BOTH ? 2 : 1;
    requests[0].and_next = count > 1;
    weir_limiter_acquire_all(people.limiter, &requests[limits == OTHER], decisions, count,
                             timeout_ns);
    struct weir_decision decision = weir_decision_of_all(decisions, count, NULL);
    person->place = __atomic_fetch_add(answer_count, 1, __ATOMIC_SEQ_CST);
    person->answered_ns = people_now();
    person->decision = decision;
    (void)getrusage(RUSAGE_SELF, &usage);
    person->switches = usage.ru_nvcsw;
    __atomic_store_n(&person->has_answer, true, __ATOMIC_SEQ_CST);
}

struct person *people_join_under(enum people_limits limits, const char *store, uint64_t cost,
                                 uint64_t timeout_ns)
{
    struct person *person = &people.people[people.count++];
    const struct room *room = people_room();
    uint64_t turns = __atomic_load_n(&room->turns, __ATOMIC_SEQ_CST);
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG,
                    SIGKILL); // who waits for the test's output waits for its end only
        if (store != NULL) {
            people_open(store, 0);
            bind_rules();
        }
        wait_in_line(person, limits, cost, timeout_ns);
        _exit(0);
    }
    person->pid = pid;
    while (__atomic_load_n(&room->turns, __ATOMIC_SEQ_CST) == turns && !person->has_answer) {
        (void)sched_yield();
    }
    (void)people_room(); // it has left it
    return person;
}

struct person *people_join_at(const char *store, uint64_t cost, uint64_t timeout_ns)
{
    return people_join_under(ONE, store, cost, timeout_ns);
}

struct person *people_join(uint64_t cost, uint64_t timeout_ns)
{
    return people_join_at(NULL, cost, timeout_ns);
}

/* Whether the room can be entered, which another process finds out; if not, it goes on trying. */
static bool can_enter(pid_t *prober)
{
    uint64_t since_ns = people_now();
    *prober = fork();
    if (*prober == 0) {
        (void)weir_limiter_status(people.limiter, NULL); // joins
        (void)people_room();
        _exit(0);
    }
    while (people_now() < since_ns + S) {
        if (waitpid(*prober, NULL, WNOHANG) != 0) {
            return true;
        }
        (void)sched_yield();
    }
    return false;
}

void people_stop(struct person *person)
{
    pid_t prober;
    (void)kill(person->pid, SIGSTOP);
    (void)waitpid(person->pid, NULL, WUNTRACED);
    while (!can_enter(&prober)) {
        (void)kill(person->pid, SIGCONT);
        (void)waitpid(prober, NULL, 0);
        (void)kill(person->pid, SIGSTOP);
        (void)waitpid(person->pid, NULL, WUNTRACED);
    }
}

void people_end(struct person *person)
{
    (void)kill(person->pid, SIGKILL);
    (void)waitpid(person->pid, NULL, 0);
    person->pid = 0;
}

long people_looks(const struct person *person, uint64_t since_ns)
{
    return (long)((person->answered_ns - since_ns) / (50 * MS));
}

enum weir_verdict people_answer(struct person *person)
{
    int status = 0;
    (void)waitpid(person->pid, &status, 0);
    if (!person->has_answer) {
        give_up("%s: %d of %d ended without an answer, status %d", people.key,
                (int)(person - people.people), people.count, status);
    }
    return (enum weir_verdict)person->decision.verdict;
}

void people_must_be_let(struct person *person)
{
    enum weir_verdict verdict = people_answer(person);
    if (verdict != WEIR_ALLOWED) {
        give_up("%s: %s", people.key, weir_verdict_word(verdict));
    }
}

void people_must_be_served_in_order(void)
{
    for (int i = 0; i < people.count; i++) {
        people_must_be_let(&people.people[i]);
        if (people.people[i].place != (uint64_t)i) {
            give_up("%s: the one at %d was answered at %" PRIu64, people.key, i,
                    people.people[i].place);
        }
    }
}

void people_must_be_about(const struct person *person, uint64_t since_ns, uint64_t least_ms,
                          uint64_t most_ms)
{
    uint64_t after_ns = person->answered_ns - since_ns;
    if (after_ns < least_ms * MS || after_ns > most_ms * MS) {
        give_up("%s: answered after %" PRIu64 " us, and not after %" PRIu64 " to %" PRIu64 " ms",
                people.key, after_ns / 1000, least_ms, most_ms);
    }
}

void people_must_be_gone(void)
{
    const struct room *room = people_room();
    if (room->waiting_count != 0 || room->line_count != 0) {
        give_up("%s: %u still wait in %u lines", people.key, room->waiting_count, room->line_count);
    }
    if (!lines_valid(people.limiter->lines)) {
        give_up("%s: a place is lost", people.key);
    }
}
