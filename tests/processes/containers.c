/* SPDX-License-Identifier: MIT
 *
 * Containers: PID namespaces in which the first process of each is number 1, and one file. Numbers say nothing
 * there of which process is alive. When one is killed, the others keep their locks, and get those of the dead one.
 *
 *     containers [soak] */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drill.h"
#include "people.h"
#include "steps.h"
#include "world.h"

enum {
    KILLS = 400,
    KILLS_SOAK = 4000,
    KEYS = 256,            // that stay, of the storm
    ROOMY = 5000,          // the capacity of each
    LIFETIME_MAX = 400,    // takes of the one that is killed, before it is killed
    OPENING_SPINS = 50000, // of ours, while it opens the file
    STEADY_SHARE = 64      // of how many takes of the other one charges a key that stays
};

#define ROOMY_LIMIT "5000/1000d" // one unit drains in some hours
#define NO_KEY      UINT64_MAX

/* ---- in and out ---- */

static int own_fd = -1; // the namespace of the test

/* Whatever is started from now on is number 1 of a new container. */
static void next_in_container(void)
{
    if (setns(own_fd, CLONE_NEWPID) != 0 || unshare(CLONE_NEWPID) != 0) {
        give_up("no container");
    }
}

/* Whatever is started from now on is beside us again. */
static void next_beside_us(void)
{
    if (setns(own_fd, CLONE_NEWPID) != 0) {
        give_up("no way back");
    }
}

static void try_containers(void)
{
    _exit(unshare(CLONE_NEWPID) == 0 ? 0 : 1);
}

/* ---- a held lock ---- */

/* The kernel once gave a lock to an heir when one died that had the holder's number, and waited for it. */
static void same_numbers(void)
{
    char same[DRILL_KEY_MAX];
    drill_begin("number 1 holds a lock, and number 1 of another container waits, and is killed");
    next_in_container();
    drill_hold("held", NULL);
    drill_key(DRILL_SAME_LINE, same);
    next_in_container();
    struct taker *killed = drill_start_taker(same, NULL);
    next_in_container();
    struct taker *waits = drill_start_taker(same, NULL);
    next_beside_us();
    drill_must_wait(killed);
    drill_kill(killed);
    drill_must_wait(waits);
    drill_let_go();
    drill_must_be(drill_answer(waits), DRILL_CAPACITY, "the one that waited");
    drill_must_be(drill_count("held"), DRILL_CAPACITY - 1, "beside the holder");
    drill_end();
}

/* ---- a storm ---- */

/* What a worker tells, before and after each take of a key that stays. */
struct worker {
    pid_t pid;
    volatile uint64_t key;         // that is being charged
    volatile uint64_t heard[KEYS]; // how many units were allowed
    volatile uint64_t operation_count;
};

struct books {
    volatile bool is_over;
    volatile uint64_t kill_count;
    struct worker steady, victim;
};

static struct books *books;
static struct weir_rule stays, passes;
static uint64_t doubtful[KEYS]; // charges of the killed, perhaps
static int ready_fds[2];        // where the one that is to be killed says that it may be

static void bind_rules(void)
{
    struct weir_error error;
    if (weir_rule_from_text(&stays, drill.limiter, ROOMY_LIMIT, &error) != WEIR_OK
        || weir_rule_from_text(&passes, drill.limiter, "1000000/s", &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
}

static bool take_of(uint64_t key)
{
    struct weir_decision decision =
        weir_limiter_take(drill.limiter, &stays, (const char *)&key, sizeof key, WEIR_UNIT);
    if (decision.verdict != WEIR_ALLOWED && decision.verdict != WEIR_LIMITED) {
        give_up("a take was answered %s", weir_verdict_word((enum weir_verdict)decision.verdict));
    }
    return decision.verdict == WEIR_ALLOWED;
}

static void charge(struct worker *worker, uint64_t key)
{
    worker->key = key;
    worker->heard[key] += take_of(key);
    worker->key = NO_KEY;
}

/* A new key, whose bucket is drained at once. */
static void pass(uint64_t number, uint64_t i)
{
    uint64_t key[] = {number, i};
    (void)weir_limiter_take(drill.limiter, &passes, (const char *)key, sizeof key, WEIR_UNIT);
}

static void go_on(uint64_t number)
{
    struct worker *worker = &books->steady;
    for (uint64_t i = 0; !books->is_over; i++) {
        if (i % STEADY_SHARE == 0) {
            charge(worker, books->kill_count % KEYS);
        }
        pass(number, i);
        worker->operation_count++;
    }
    drill_close();
    _exit(0);
}

static void say_ready(void)
{
    if (write(ready_fds[1], "", 1) != 1) {
        _exit(1);
    }
}

/* Until it is killed; it has said before that it may be. */
static void live(uint64_t number, uint64_t lifetime)
{
    for (uint64_t i = 0;; i++) {
        if (i + 1 == lifetime) {
            say_ready();
        }
        charge(&books->victim, books->kill_count % KEYS);
        pass(number, i);
    }
}

/* One that is to live for no take is killed while it opens the file. UINT64_MAX: it is not killed. */
static void start(struct worker *worker, uint64_t lifetime)
{
    static uint64_t number;
    number++;
    worker->key = NO_KEY;
    next_in_container();
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid > 0) {
        worker->pid = pid;
        return;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (lifetime == 0) {
        say_ready();
    }
    drill_open();
    bind_rules();
    if (worker == &books->steady) {
        go_on(number);
    }
    live(number, lifetime);
}

static void kill_one(struct worker *worker, uint64_t spins)
{
    char ready;
    int status;
    if (read(ready_fds[0], &ready, 1) != 1) { // that it never comes is what alarm() is for
        give_up("no answer");
    }
    for (volatile uint64_t i = 0; i < spins; i++) {
    }
    (void)kill(worker->pid, SIGKILL);
    (void)waitpid(worker->pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        give_up("a worker ended by itself with status %d", status);
    }
    if (worker->key != NO_KEY) { // charged or not, nobody heard of it
        doubtful[worker->key]++;
    }
    books->kill_count++;
}

/* That it has come further since it was last asked. */
static void must_go_on(const struct worker *worker)
{
    static uint64_t before;
    int status;
    while (worker->operation_count == before) {
        if (waitpid(worker->pid, &status, WNOHANG) != 0) {
            give_up("the one that went on ended with status %d", status);
        }
        (void)sched_yield();
    }
    before = worker->operation_count;
}

static void close_books(void)
{
    uint64_t sum = 0;
    uint64_t lost = 0;
    uint64_t doubt = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t heard = books->steady.heard[key] + books->victim.heard[key];
        uint64_t rest = 0;
        while (take_of(key)) {
            rest++;
        }
        if (heard + rest > ROOMY || heard + rest + doubtful[key] < ROOMY) {
            give_up("key %" PRIu64 ": %" PRIu64 " were let through and %" PRIu64
                    " were left, of %d; perhaps %" PRIu64 " more were charged",
                    key, heard, rest, ROOMY, doubtful[key]);
        }
        sum += heard;
        lost += ROOMY - heard - rest;
        doubt += doubtful[key];
    }
    printf("    %" PRIu64 " killed; %" PRIu64 " charges answered; of %" PRIu64
           " that were not, %" PRIu64 " were made\n",
           books->kill_count, sum, doubt, lost);
}

static void storm(uint64_t kills)
{
    uint64_t random = 88172645463325252;
    int status;
    books = world_share(sizeof *books);
    drill_begin("a container is killed again and again, and another goes on");
    if (pipe2(ready_fds, O_CLOEXEC) != 0) {
        give_up("no pipe");
    }
    bind_rules();
    start(&books->steady, UINT64_MAX);
    while (books->kill_count < kills) {
        bool is_early = books->kill_count % 4 == 0;
        (void)alarm(DRILL_BLOCKED_S);
        start(&books->victim, is_early ? 0 : 1 + world_random(&random) % LIFETIME_MAX);
        kill_one(&books->victim, is_early ? world_random(&random) % OPENING_SPINS : 0);
        must_go_on(&books->steady);
    }
    books->is_over = true;
    next_beside_us();
    if (waitpid(books->steady.pid, &status, 0) != books->steady.pid || status != 0) {
        give_up("the one that went on ended with status %d", status);
    }
    close_books();
    drill_end();
}

/* ---- a line ---- */

/* The head would need ten seconds; once it is dead, the next one needs a quarter of one. */
static void dead_in_line(void)
{
    drill_begin("one dies in line, and one of another container stands behind it");
    people_init();
    people_open(drill.url, 0);
    people_begin("dead in line", "4/s capacity=40");
    people_fill_up(40);
    uint64_t since_ns = people_now();
    next_in_container();
    struct person *head = people_join_at(drill.url, 40, 60 * S);
    next_in_container();
    struct person *next = people_join_at(drill.url, 1, 60 * S);
    next_beside_us();
    people_end(head);
    people_must_be_let(next);
    people_must_be_about(next, since_ns, 200, 9000);
    people_must_be_gone();
    weir_limiter_close(people.limiter);
    drill_end();
}

int main(int argc, char **argv)
{
    bool is_soak = argc > 1 && strcmp(argv[1], "soak") == 0;
    own_fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (own_fd < 0 || !drill_may(try_containers)) {
        drill_skip("containers", "a namespace of our own needs root");
        return drill_exit_code();
    }
    if (steps_are_possible()) {
        same_numbers();
    } else {
        drill_skip("a held lock", "no single steps here");
    }
    dead_in_line();
    storm(is_soak ? KILLS_SOAK : KILLS);
    return drill_exit_code();
}
