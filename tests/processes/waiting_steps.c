/* SPDX-License-Identifier: MIT
 *
 * Kills a process after the instructions by which it changes the lines of a shared store, and looks from another
 * one: whoever else waits must be served, at most one cost later than if the dead had lived, every place must
 * be found again, and no bucket may stay marked.
 *
 *     waiting_steps [soak]
 *
 * The child stops itself, is led through the operation step by step (ptrace), and killed. Which steps change
 * the room is found out in a run that is not killed. An ordinary test kills after every third of these (or ninth,
 * where there are many steps); a soak after all of them, and after every seventh step. */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/limiter_state.h"
#include "limiter/shared_lines/shared_room.h"
#include "sharing.h"

enum { STEPS_MAX = 400000, STEPS_MANY = 10000, WAITERS = 2, BLOCKED_S = 120 };

#define T0   UINT64_C(1000000000000000)
#define S    UINT64_C(1000000000)
#define LONG (3600 * S)

/* One who waits, in the parent or in a child. */
struct one {
    struct waiter waiter; // first: it leads back here
    uint64_t due_ns;
    bool stands;
    struct weir_decision decision, decisions[2];
};

static struct weir_limiter *limiter;
static struct weir_rule rule, more_rule; // the second for takes under both
static struct one ours[WAITERS];         // the parent's
static struct one its, its_first;        // the child's
static uint64_t served_at_ns[WAITERS];
static volatile bool *is_done;

static struct shared_lines *shared(void)
{
    return limiter->lines->shared;
}

static void note_due(struct waiter *waiter, uint64_t due_ns)
{
    ((struct one *)(void *)waiter)->due_ns = due_ns;
}

static void note_answer(struct waiter *waiter, const struct weir_decision *decision)
{
    struct one *one = (struct one *)(void *)waiter;
    one->stands = false;
    one->decision = *decision;
}

static void join_line(struct one *one, const char *key, uint64_t cost, uint64_t now_ns)
{
    static const struct waiter_ops OPS = {.schedule = note_due, .answer = note_answer};
    struct weir_request request = {
        .rule = &rule, .key = key, .key_len = strlen(key), .cost_micro = cost * WEIR_UNIT};
    *one = (struct one){.waiter.ops = &OPS, .due_ns = UINT64_MAX, .stands = true};
    if (!lines_join(limiter->lines, &one->waiter, &request, 1, LONG, now_ns, &one->decision)) {
        one->stands = false;
    }
}

/* Under both limits, one unit each. */
static void join_both(struct one *one, uint64_t now_ns)
{
    static const struct waiter_ops OPS = {.schedule = note_due, .answer = note_answer};
    const struct weir_request requests[2] = {
        {.rule = &rule, .key = "key", .key_len = 3, .cost_micro = WEIR_UNIT, .and_next = true},
        {.rule = &more_rule, .key = "more", .key_len = 4, .cost_micro = WEIR_UNIT},
    };
    *one = (struct one){.waiter.ops = &OPS, .due_ns = UINT64_MAX, .stands = true};
    if (!lines_join(limiter->lines, &one->waiter, requests, 2, LONG, now_ns, one->decisions)) {
        one->stands = false;
    }
}

static void call(struct one *one, uint64_t now_ns)
{
    lines_lock(limiter->lines);
    lines_call(limiter->lines, &one->waiter, now_ns);
    lines_unlock(limiter->lines);
}

static struct weir_decision ask_about(const struct weir_rule *about, const char *key,
                                      enum weir_operation operation, uint64_t cost, uint64_t now_ns)
{
    struct weir_request request = {.rule = about,
                                   .key = key,
                                   .key_len = strlen(key),
                                   .cost_micro = cost * WEIR_UNIT,
                                   .operation = operation};
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, now_ns);
    return decision;
}

static struct weir_decision ask(enum weir_operation operation, uint64_t cost, uint64_t now_ns)
{
    return ask_about(&rule, "key", operation, cost, now_ns);
}

/* ---- scenarios: what the parent does, then the child, and then the child under the knife ---- */

static void fill(void)
{
    (void)ask(WEIR_FILL, 10, T0);
}

static void fill_both(void)
{
    (void)ask(WEIR_FILL, 10, T0);
    (void)ask_about(&more_rule, "more", WEIR_FILL, 10, T0);
}

static void fill_one(void)
{
    (void)ask(WEIR_FILL, 1, T0);
}

static void nothing(void)
{
}

static void ours_first(void)
{
    join_line(&ours[0], "key", 1, T0);
}

static void its_own_first(void)
{
    join_line(&its, "key", 1, T0);
}

static void its_own_both(void)
{
    join_both(&its, T0);
}

static void ours_both_first(void)
{
    join_both(&ours[0], T0);
}

static void ours_both_behind(void)
{
    join_both(&ours[1], T0);
}

static void ours_behind(void)
{
    join_line(&ours[1], "key", 1, T0);
}

static void ours_behind_and_more(void)
{
    ours_behind();
    (void)ask(WEIR_FILL, 2, T0);
}

static void it_joins(void)
{
    join_line(&its, "key", 1, T0);
}

static void it_is_called(void)
{
    call(&its, T0 + S);
}

static void it_joins_both(void)
{
    join_both(&its, T0);
}

/* It goes from the first, and stands in the second until its egress. */
static void its_own_in_queue(void)
{
    join_both(&its, T0);
    call(&its, T0 + S);
}

static void it_is_called_again(void)
{
    call(&its, T0 + 2 * S);
}

static void it_leaves(void)
{
    (void)lines_leave(limiter->lines, &its.waiter, T0 + S / 2);
}

/* What was filled in behind, and the one before. */
static void it_refunds(void)
{
    (void)ask(WEIR_REFUND, 3, T0);
}

static const struct scenario {
    const char *name, *limit, *more; // NULL: the same
    void (*fill)(void);
    void (*before)(void); // in the parent
    void (*child)(void);
    void (*behind)(void); // in the parent
    void (*operation)(void);
} SCENARIOS[] = {
    {"joins an empty line", "1/s capacity=10", NULL, fill, nothing, nothing, nothing, it_joins},
    {"joins behind another", "1/s capacity=10", NULL, fill, ours_first, nothing, nothing, it_joins},
    {"joins a queue", "queue 1/s capacity=10", NULL, nothing, ours_first, nothing, nothing,
     it_joins},
    {"takes its turn", "1/s capacity=10", NULL, fill, nothing, its_own_first, ours_behind,
     it_is_called},
    {"takes the last turn", "1/s capacity=10", NULL, fill, nothing, its_own_first, nothing,
     it_is_called},
    {"goes from a queue", "queue 1/s capacity=10", NULL, nothing, nothing, its_own_first,
     ours_behind, it_is_called},
    {"leaves the head", "1/s capacity=10", NULL, fill, nothing, its_own_first, ours_behind,
     it_leaves},
    {"takes a turn at a window", "window 10/1s", NULL, fill, nothing, its_own_first, ours_behind,
     it_is_called},
    {"leaves a queue's middle", "queue 1/s capacity=10", NULL, nothing, ours_first, its_own_first,
     ours_behind, it_leaves},
    {"refunds beside a queue", "queue 1/s capacity=10", NULL, fill_one, ours_first, nothing,
     ours_behind_and_more, it_refunds},
    {"joins two lines", "1/s capacity=10", NULL, fill_both, ours_both_first, nothing, nothing,
     it_joins_both},
    {"takes a turn at both", "1/s capacity=10", NULL, fill_both, nothing, its_own_both,
     ours_both_behind, it_is_called},
    {"goes on to a queue", "1/s capacity=10", "queue 1/s capacity=10", fill, nothing, its_own_both,
     ours_both_behind, it_is_called},
    {"goes from its queue", "1/s capacity=10", "queue 1/s capacity=10", fill, nothing,
     its_own_in_queue, ours_behind, it_is_called_again},
    {"leaves two lines", "1/s capacity=10", NULL, fill_both, ours_first, its_own_both,
     ours_both_behind, it_leaves},
};

/* ---- led step by step ---- */

/* A child that has waited once, in a line of its own, so that its attendant is there; then it does its part
 * of the scenario, and stands before the operation. */
static pid_t start_child(const struct scenario *scenario)
{
    *is_done = false;
    pid_t child = fork();
    if (child < 0) {
        give_up("no process");
    }
    if (child == 0) {
        join_line(&its_first, "another", 1, T0);
        scenario->child();
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(77);
        }
        (void)raise(SIGSTOP); // once the child's part is done
        (void)raise(SIGSTOP); // once the parent's is
        scenario->operation();
        *is_done = true;
        (void)raise(SIGSTOP);
        _exit(0);
    }
    int status;
    (void)waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("skipped: ptrace is forbidden here\n");
        exit(77);
    }
    return child;
}

static void go_to_next_stop(pid_t child)
{
    int status;
    (void)ptrace(PTRACE_CONT, child, NULL, NULL);
    (void)waitpid(child, &status, 0);
}

static void step(pid_t child)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) {
        give_up("no step");
    }
    (void)waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
        give_up("the child ended by itself");
    }
}

static pid_t begin(const struct scenario *scenario)
{
    struct weir_limiter_config config = {.memory_bytes = 1 << 18,
                                         .store = "memory:?shared=yes",
                                         .seed = {1, 2},
                                         .caller_clock = true};
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, scenario->limit, &error) != WEIR_OK
        || weir_rule_from_text(&more_rule, limiter,
                               scenario->more != NULL ? scenario->more : scenario->limit, &error)
               != WEIR_OK) {
        give_up("%s", error.message);
    }
    memset(ours, 0, sizeof ours);
    memset(served_at_ns, 0, sizeof served_at_ns);
    (void)ask(WEIR_FILL, 10, T0 - LONG); // the buckets have their slots
    (void)ask_about(&more_rule, "more", WEIR_FILL, 10, T0 - LONG);
    (void)alarm(BLOCKED_S);
    struct weir_request other = {.rule = &rule,
                                 .key = "another",
                                 .key_len = 7,
                                 .cost_micro = 10 * WEIR_UNIT,
                                 .operation = WEIR_FILL};
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &other, &decision, 1, T0);
    scenario->fill();
    scenario->before();
    pid_t child = start_child(scenario);
    scenario->behind();
    go_to_next_stop(child);
    return child;
}

/* ---- what must be true ---- */

static void require(const struct scenario *scenario, int at, bool holds, const char *what)
{
    if (!holds) {
        give_up("%s, killed after step %d: %s", scenario->name, at, what);
    }
}

/* Time goes on for those who are left, as their timers say. */
static void let_time_pass(uint64_t until_ns)
{
    for (;;) {
        struct one *next = NULL;
        for (int i = 0; i < WAITERS; i++) {
            bool is_due = ours[i].stands && ours[i].due_ns <= until_ns;
            if (is_due && (next == NULL || ours[i].due_ns < next->due_ns)) {
                next = &ours[i];
            }
        }
        if (next == NULL) {
            return;
        }
        uint64_t now_ns = next->due_ns > T0 ? next->due_ns : T0;
        next->due_ns = UINT64_MAX;
        call(next, now_ns);
        if (!next->stands) {
            served_at_ns[next - ours] = now_ns;
        }
    }
}

static void go_on(const struct scenario *scenario, int at)
{
    lines_lock(limiter->lines); // whoever comes now is the heir, if there is something to inherit
    uint64_t now_ns = room_enter(shared(), T0);
    room_bury_all(shared(), now_ns);
    room_leave(shared(), now_ns);
    lines_unlock(limiter->lines);
    let_time_pass(T0 + 5 * S);
    for (int i = 0; i < WAITERS; i++) {
        if (ours[i].waiter.ops == NULL) {
            continue;
        }
        require(scenario, at, !ours[i].stands && ours[i].decision.verdict == WEIR_ALLOWED,
                "the others are served");
        /* One of ours stands before the child, the other one behind. */
        require(scenario, at, served_at_ns[i] <= T0 + (uint64_t)(i + 2) * S, "and not too late");
    }
    bool is_queue = rule.limit.kind == WEIR_KIND_QUEUE;
    bool are_both = ours[0].waiter.ops != NULL && ours[1].waiter.ops != NULL;
    require(scenario, at, !is_queue || !are_both || served_at_ns[1] >= served_at_ns[0] + S,
            "and not too soon");
    require(scenario, at, shared()->room->waiting_count == 0, "nobody stands there");
    require(scenario, at, shared()->room->line_count == 0, "there is no line");
    require(scenario, at, lines_valid(limiter->lines), "no place is lost");
    struct weir_decision later = ask(WEIR_TAKE, 1, T0 + 20 * S);
    require(scenario, at, later.verdict == WEIR_ALLOWED && later.remaining == 9,
            "the bucket has drained, and lets others in");
    later = ask_about(&more_rule, "more", WEIR_TAKE, 1, T0 + 20 * S);
    require(scenario, at, later.verdict == WEIR_ALLOWED && later.remaining == 9,
            "and so has the other one");
}

static void finish(pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

/* ---- the runs ---- */

static size_t room_bytes(void)
{
    return limiter->store->ops->lines->waiting_area(limiter->store)->bytes;
}

/* Runs to the end once: which steps change the room. */
static int explore(const struct scenario *scenario, bool *changes)
{
    pid_t child = begin(scenario);
    char *last = malloc(room_bytes());
    int count = 0;
    if (last == NULL) {
        give_up("no memory");
    }
    memcpy(last, shared()->room, room_bytes());
    while (!*is_done && count < STEPS_MAX) {
        step(child);
        changes[count] = memcmp(last, shared()->room, room_bytes()) != 0;
        if (changes[count]) {
            memcpy(last, shared()->room, room_bytes());
        }
        count++;
    }
    free(last);
    finish(child);
    go_on(scenario, count);
    weir_limiter_close(limiter);
    return count;
}

static void run(const struct scenario *scenario, bool is_soak)
{
    static bool changes[STEPS_MAX];
    int change_count = 0;
    int kill_count = 0;
    int step_count = explore(scenario, changes);
    for (int at = 0; at < step_count; at++) {
        change_count += changes[at];
        int every = step_count < STEPS_MANY ? 3 : 9; // to get there takes its time
        bool is_chosen =
            is_soak ? changes[at] || at % 7 == 0 : changes[at] && change_count % every == 0;
        if (!is_chosen) {
            continue;
        }
        pid_t child = begin(scenario);
        for (int i = 0; i <= at && !*is_done; i++) {
            step(child);
        }
        finish(child);
        go_on(scenario, at);
        weir_limiter_close(limiter);
        kill_count++;
    }
    printf("%-26s %5d steps, %3d change the room: killed after %d\n", scenario->name, step_count,
           change_count, kill_count);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
#if !defined(__x86_64__)
    printf("skipped: single steps break load-exclusive pairs\n");
    return 77;
#endif
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    is_done = world_share(sizeof *is_done);
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof SCENARIOS[0]; i++) {
        run(&SCENARIOS[i], is_soak);
    }
    return 0;
}
