/* SPDX-License-Identifier: MIT
 *
 * Threads that ask a store which answers later, and sleep until it has: what the attendant answers them, when the store
 * does not, and how it begins and ends. */
#include "../support/wired_limiter.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "sync/atomic.h"

enum { THREADS = 8, TAKES = 1000, TRIES = 50 };

/* ---- answers ---- */

enum { QUESTIONS = 24, ROUNDS = 3000 };

static uint64_t random_word(void)
{
    static uint64_t word = 88172645463325252;
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    return word >> 16;
}

static struct weir_request random_request(const struct weir_rule *rules, size_t rule_count,
                                          struct weir_detail *detail)
{
    static const char KEYS[] = "abcdef";
    bool is_take = random_word() % 2 == 0;
    return (struct weir_request){
        .rule = &rules[random_word() % rule_count],
        .key = &KEYS[random_word() % (sizeof KEYS - 1)],
        .key_len = random_word() % 8 != 0,
        .cost_micro = random_word() % 4 * WEIR_UNIT,
        .operation = is_take ? WEIR_TAKE : (enum weir_operation)(random_word() % 8),
        .and_next = random_word() % 3 == 0,
        .shadow = random_word() % 6 == 0,
        .detail = random_word() % 2 == 0 ? detail : NULL,
        .block_ns = random_word() % 1000000000,
    };
}

static void assert_same_decision(const struct weir_decision *a, const struct weir_decision *b)
{
    assert_int_equal(a->verdict, b->verdict);
    assert_int_equal(a->capacity, b->capacity);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
}

static void assert_same_detail(const struct weir_detail *a, const struct weir_detail *b)
{
    assert_memory_equal(&a->amount, &b->amount, sizeof a->amount);
    assert_int_equal(a->empty_at_ns, b->empty_at_ns);
    assert_int_equal(a->full, b->full);
    assert_int_equal(a->existed, b->existed);
    assert_int_equal(a->waiting, b->waiting);
}

/* False: the machine stopped this program for 20 ms, so the store did not answer, and what comes later differs. */
static bool decided_alike(const struct weir_decision *late, const struct weir_decision *at_once,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (late[i].verdict == WEIR_FAILED && at_once[i].verdict != WEIR_FAILED) {
            return false;
        }
        assert_same_decision(&late[i], &at_once[i]);
    }
    return true;
}

static void try_often(bool (*try)(void))
{
    for (int i = 0; !try(); i++) {
        assert_true(i < TRIES);
    }
}

static bool ask_at_random(void)
{
    struct weir_limiter *late = open_with(DRIVERS, true), *at_once = open_with(NULL, true);
    const char *texts[] = {"5/s",        "3/2s block=500ms", "sliding 4/s",
                           "window 6/s", "fixed 9/s",        "5/s capacity=9 on_full=allow",
                           "queue 4/s"};
    struct weir_rule rules[sizeof texts / sizeof texts[0]];
    struct weir_request requests[2][QUESTIONS];
    struct weir_detail details[2][QUESTIONS];
    struct weir_decision decisions[2][QUESTIONS];
    uint64_t now_ns = 1000000000;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(weir_rule_from_text(&rules[i], late, texts[i], NULL), WEIR_OK);
    }
    set_wire(PARTS, 3);
    for (struct weir_decision first = {.verdict = WEIR_FAILED}; first.verdict == WEIR_FAILED;) {
        first = weir_limiter_take_at(late, &rules[0], "z", 1, 0, now_ns);
    }
    bool is_alike = true;
    for (int round = 0; is_alike && round < ROUNDS; round++) {
        size_t count = random_word() % QUESTIONS + 1;
        now_ns += random_word() % 300000000;
        memset(details, 0, sizeof details);
        for (size_t i = 0; i < count; i++) {
            requests[0][i] = random_request(rules, sizeof rules / sizeof rules[0], &details[0][i]);
            requests[1][i] = requests[0][i];
            requests[1][i].detail = requests[0][i].detail != NULL ? &details[1][i] : NULL;
        }
        weir_limiter_decide_at(late, requests[0], decisions[0], count, now_ns);
        weir_limiter_decide_at(at_once, requests[1], decisions[1], count, now_ns);
        is_alike = decided_alike(decisions[0], decisions[1], count);
        for (size_t i = 0; is_alike && i < count; i++) {
            assert_same_detail(&details[0][i], &details[1][i]);
        }
    }
    weir_limiter_close(late);
    weir_limiter_close(at_once);
    return is_alike;
}

/* The same questions to both, at the same readings. */
static void answers_are_the_tables(void **state)
{
    (void)state;
    try_often(ask_at_random);
}

static void nothing_is_answered_at_once(void **state)
{
    (void)state;
    weir_limiter_decide(limiter, NULL, NULL, 0);
    assert_int_equal(atomic_load(&list_count), 0);
}

enum { MANY = 6000, KEY_BYTES = 10000 };

/* Takes in runs of three, and then a look at each of their buckets. */
static struct weir_request *make_many(const struct weir_rule rules[2], char *keys, size_t key_len,
                                      struct weir_detail *details)
{
    struct weir_request *requests = calloc(MANY, sizeof *requests);
    assert_non_null(requests);
    for (int i = 0; i < MANY; i++) {
        char *key = keys + (size_t)i * KEY_BYTES;
        (void)snprintf(key, 5, "%4d", i % 500);
        requests[i] = (struct weir_request){.rule = &rules[i % 3 == 1],
                                            .key = key,
                                            .key_len = key_len,
                                            .cost_micro = WEIR_UNIT,
                                            .operation = i < MANY / 2 ? WEIR_TAKE : WEIR_SHOW,
                                            .and_next = i < MANY / 2 && i % 3 != 2,
                                            .detail = i < MANY / 2 ? NULL : &details[i]};
    }
    return requests;
}

static bool ask_many(size_t key_len)
{
    struct weir_limiter *late = open_with(DRIVERS, true), *at_once = open_with(NULL, true);
    struct weir_rule rules[2];
    assert_int_equal(weir_rule_from_text(&rules[0], late, "3/s", NULL), WEIR_OK);
    assert_int_equal(weir_rule_from_text(&rules[1], late, "4/s", NULL), WEIR_OK);
    char *keys = calloc(MANY, KEY_BYTES);
    struct weir_decision *decisions = calloc((size_t)2 * MANY, sizeof *decisions);
    struct weir_detail *details = calloc(MANY, sizeof *details);
    assert_true(keys != NULL && decisions != NULL && details != NULL);
    struct weir_request *requests = make_many(rules, keys, key_len, details);
    while (weir_limiter_take_at(late, &rules[0], "z", 1, 0, 1).verdict == WEIR_FAILED) {
    }
    unsigned before = sent_count();
    weir_limiter_decide_at(at_once, requests, decisions + MANY, MANY, 1);
    memset(details, 0, MANY * sizeof *details);
    weir_limiter_decide_at(late, requests, decisions, MANY, 1);
    bool is_alike = decided_alike(decisions, decisions + MANY, MANY);
    assert_true(!is_alike || sent_count() - before > MANY / 1024);
    for (size_t i = 0; is_alike && i < MANY; i++) {
        assert_int_equal(details[i].existed, i >= MANY / 2);
    }
    free(requests);
    free(details);
    free(decisions);
    free(keys);
    weir_limiter_close(late);
    weir_limiter_close(at_once);
    return is_alike;
}

static bool ask_many_questions(void)
{
    return ask_many(4);
}

/* 60 MB of them, and a port has room for 16. */
static bool ask_many_bytes(void)
{
    return ask_many(KEY_BYTES);
}

static void call_of_any_length_is_decided(void **state)
{
    (void)state;
    try_often(ask_many_questions);
    try_often(ask_many_bytes);
}

/* A run cannot be asked in two batches; nor a key. */
static void run_that_has_no_room_is_answered_by_on_error(void **state)
{
    (void)state;
    enum { BYTES = 20 << 20 };
    char *key = calloc(1, BYTES);
    wait_for_answers();
    assert_int_equal(weir_limiter_take(limiter, &refusing, key, BYTES, 0).verdict, WEIR_FAILED);
    assert_int_equal(weir_limiter_take(limiter, &allowing, key, BYTES, 0).verdict, WEIR_ALLOWED);
    wait_for_answers();
    free(key);
}

/* ---- threads ---- */

/*   allowed, failed  what it was told */
struct taker {
    pthread_t thread;
    int allowed, failed;
};

static void *take_often(void *context)
{
    struct taker *taker = context;
    for (int i = 0; i < TAKES; i++) {
        enum weir_verdict verdict = take(&refusing, "all").verdict;
        taker->allowed += verdict == WEIR_ALLOWED;
        taker->failed += verdict == WEIR_FAILED;
    }
    return NULL;
}

static void what_threads_take_is_charged_once(void **state)
{
    (void)state;
    struct taker takers[THREADS] = {{.allowed = 0}};
    uint64_t allowed = 0, failed = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_often, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(takers[i].thread, NULL), 0);
        allowed += (uint64_t)takers[i].allowed;
        failed += (uint64_t)takers[i].failed;
    }
    assert_int_equal(allowed + failed, THREADS * TAKES);
    assert_true(allowed > 0);
    assert_in_range(level_of("all"), allowed, allowed + failed);
    printf("%u batches in %u lists\n", sent_count(), atomic_load(&list_count));
}

static atomic_int takers_left;

static void *take_often_and_say_so(void *taker)
{
    (void)take_often(taker);
    atomic_fetch_sub(&takers_left, 1);
    return NULL;
}

static void change_wire_at_random(void)
{
    static const enum word CHANCES[] = {NOT_ASKED, REFUSED_SENDING, LOST_THERE, UNKNOWN_THERE,
                                        LOST_BACK, UNKNOWN_BACK,    BREAKS};
    for (size_t i = 0; i < sizeof CHANCES / sizeof CHANCES[0]; i++) {
        set_wire(CHANCES[i], random_word() % 4 == 0 ? 50 : 0);
    }
    set_wire(THERE_NS, random_word() % 2 * 100000);
    set_wire(BACK_NS, random_word() % 2 * 100000);
    set_wire(IS_SILENT, random_word() % 8 == 0);
    set_wire(REFUSES, random_word() % 8 == 0);
}

/* At least what was allowed is charged, and at most what went out: each once. */
static void nothing_is_charged_twice_whatever_the_wire_does(void **state)
{
    (void)state;
    struct taker takers[THREADS] = {{.allowed = 0}};
    uint64_t allowed = 0;
    wait_for_answers();
    atomic_store(&takers_left, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_often_and_say_so, &takers[i]),
                         0);
    }
    while (atomic_load(&takers_left) > 0) {
        change_wire_at_random();
        (void)take(&refusing, "alice"); // takes as long as the wire does
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(takers[i].thread, NULL), 0);
        assert_int_equal(takers[i].allowed + takers[i].failed, TAKES);
        allowed += (uint64_t)takers[i].allowed;
    }
    mend_wire();
    wait_for_answers();
    assert_in_range(level_of("all"), allowed, THREADS * TAKES);
}

/* ---- when the store does not answer ---- */

static void on_error_answers_while_the_store_is_silent(void **state)
{
    (void)state;
    wait_for_answers();
    set_wire(IS_SILENT, 1);
    wait_for_outage();
    unsigned before = sent_count();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(take(&refusing, "alice").verdict, WEIR_FAILED);
        struct weir_decision decision = take(&allowing, "alice");
        assert_int_equal(decision.verdict, WEIR_ALLOWED);
        assert_int_equal(decision.remaining, 100000 - 1);
        assert_false(weir_limiter_unblock(limiter, &allowing, "alice", 5));
    }
    assert_int_equal(sent_count(), before);
    set_wire(IS_SILENT, 0);
    wait_for_answers();
    assert_int_equal(take(&allowing, "alice").remaining, 100000 - 1); // none of them was charged
}

/* At the first question already. */
static void on_error_answers_while_nobody_can_connect(void **state)
{
    (void)state;
    for (uint64_t fails = 0; fails < 2; fails++) {
        weir_limiter_close(limiter);
        set_wire(REFUSES, 1);
        set_wire(FAILS, fails);
        limiter = open_with(DRIVERS, false);
        assert_int_equal(take(&refusing, "alice").verdict, WEIR_FAILED);
        assert_int_equal(take(&allowing, "alice").verdict, WEIR_ALLOWED);
        assert_int_equal(sent_count(), 0);
        set_wire(REFUSES, 0);
        wait_for_answers();
        assert_int_equal(level_of("alice"), 0);
        atomic_store(&list_count, 0);
    }
}

/* A charge whose answer was lost stays, and is not made once more. */
static void unknown_is_never_asked_again(void **state)
{
    (void)state;
    set_wire(UNKNOWN_BACK, 1000); // before the first connection
    assert_int_equal(take(&refusing, "alice").verdict, WEIR_FAILED);
    assert_int_equal(take(&allowing, "alice").verdict, WEIR_ALLOWED);
    unsigned sent = sent_count();
    assert_true(sent <= 2);
    set_wire(UNKNOWN_BACK, 0);
    assert_int_equal(level_of("alice"), sent);
}

/* ---- without descriptors, memory for a stack, or lines ---- */

static void without_a_descriptor_on_error_answers(void **state)
{
    (void)state;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum weir_verdict refused = take(&refusing, "alice").verdict;
    enum weir_verdict allowed = take(&allowing, "alice").verdict;
    int fd = weir_limiter_poll_fd(limiter);
    int error = errno;
    struct weir_submission submission = {.count = 0};
    weir_limiter_submit(limiter, &submission);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(refused, WEIR_FAILED);
    assert_int_equal(allowed, WEIR_ALLOWED);
    assert_int_equal(fd, -1);
    assert_int_equal(error, EMFILE);
    wait_for_answers();
    struct pollfd polled = {.fd = weir_limiter_poll_fd(limiter), .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 0), 1); // what was answered before there was a descriptor
    assert_ptr_equal(weir_limiter_collect(limiter), &submission);
    assert_int_equal(poll(&polled, 1, 0), 0);
}

/* As a sandbox does, when the attendant has its descriptors. */
static void descriptors_may_be_forbidden_later(void **state)
{
    (void)state;
    struct rlimit before, none;
    wait_for_answers();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    wait_for_answers();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    wait_for_answers();
}

#if !defined(WEIR_TSAN) // which ends the program if there is no thread
static void without_a_thread_on_error_answers(void **state)
{
    (void)state;
    pthread_attr_t before, large;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&large), 0);
    assert_int_equal(pthread_attr_setstacksize(&large, SIZE_MAX / 8), 0);
    assert_int_equal(pthread_setattr_default_np(&large), 0);
    assert_int_equal(take(&refusing, "alice").verdict, WEIR_FAILED);
    assert_int_equal(take(&allowing, "alice").verdict, WEIR_ALLOWED);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    (void)pthread_attr_destroy(&large);
    (void)pthread_attr_destroy(&before);
    wait_for_answers();
}
#endif

static void store_may_have_no_lines(void **state)
{
    (void)state;
    weir_limiter_close(limiter);
    has_no_lines = true;
    limiter = open_with(DRIVERS, false);
    has_no_lines = false;
    wait_for_answers();
    struct weir_decision decision =
        weir_limiter_acquire(limiter, &refusing, "alice", 5, WEIR_UNIT, 1000000000);
    assert_int_equal(decision.verdict, WEIR_FAILED);
}

static void thread_waits_in_line_for_a_store_that_answers_later(void **state)
{
    (void)state;
    struct weir_rule rule = rule_of("50/s capacity=1");
    wait_for_answers();
    set_wire(WAY_NS, 1000000);
    uint64_t begin_ns = weir_clock_now_ns();
    for (int i = 0; i < 6; i++) {
        struct weir_decision decision =
            weir_limiter_acquire(limiter, &rule, "alice", 5, WEIR_UNIT, UINT64_C(60000000000));
        assert_int_equal(decision.verdict, WEIR_ALLOWED);
    }
    assert_true(weir_clock_now_ns() - begin_ns >= 5 * UINT64_C(20000000));
    assert_int_not_equal(weir_limiter_acquire(limiter, &rule, "alice", 5, WEIR_UNIT, 0).verdict,
                         WEIR_ALLOWED);
}

/* ---- signals and cancellation ---- */

static atomic_int signal_count;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signal_count, 1);
}

/* A signal that all threads of the program block stays pending: the attendant is none who takes it. */
static void signals_are_the_programs(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = count_signal};
    sigset_t usual, blocked, pending;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    wait_for_answers();
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, &usual), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    wait_for_answers(); // the attendant has run meanwhile
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGUSR1), 1);
    assert_int_equal(atomic_load(&signal_count), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &usual, NULL), 0);
    assert_int_equal(atomic_load(&signal_count), 1);
}

static void *take_cancellably(void *unused)
{
    int before;
    (void)unused;
    (void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    (void)take(&refusing, "alice");
    pthread_testcancel();
    return NULL;
}

/* Whatever it allows: the attendant has an address in its stack until it is answered. */
static void cancelled_thread_stays_until_it_is_answered(void **state)
{
    (void)state;
    pthread_t thread;
    struct timespec until;
    wait_for_answers();
    (void)pthread_mutex_lock(&gate);
    assert_int_equal(pthread_create(&thread, NULL, take_cancellably, NULL), 0);
    while (atomic_load(&at_gate) == 0) {
    }
    assert_int_equal(pthread_cancel(thread), 0);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += until.tv_nsec / 950000000;
    until.tv_nsec = (until.tv_nsec + 50000000) % 1000000000;
    int ended = pthread_timedjoin_np(thread, NULL, &until);
    (void)pthread_mutex_unlock(&gate);
    assert_int_equal(ended, ETIMEDOUT);
    assert_int_equal(pthread_join(thread, NULL), 0);
    wait_for_answers();
}

/* The first question, with which the attendant starts, is no point of cancellation either. */
static void *take_cancelled(void *reached)
{
    (void)pthread_cancel(pthread_self());
    (void)take(&refusing, "alice");
    *(bool *)reached = true;
    pthread_testcancel();
    return NULL;
}

static void take_is_no_point_of_cancellation(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *result;
        bool reached = false;
        assert_int_equal(pthread_create(&thread, NULL, take_cancelled, &reached), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_true(reached);
        assert_ptr_equal(result, PTHREAD_CANCELED);
    }
}
/* ---- the end ---- */

static void nobody_asked(void **state)
{
    (void)state;
}

static void limiter_closes_while_the_store_is_silent(void **state)
{
    (void)state;
    wait_for_answers();
    set_wire(IS_SILENT, 1);
    wait_for_outage();
}
static void many_begin_and_end(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        struct weir_limiter *one = open_with(DRIVERS, false);
        (void)weir_limiter_take(one, &refusing, "alice", 5, WEIR_UNIT);
        weir_limiter_close(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OVER_A_WIRE(answers_are_the_tables),
        OVER_A_WIRE(nothing_is_answered_at_once),
        OVER_A_WIRE(call_of_any_length_is_decided),
        OVER_A_WIRE(run_that_has_no_room_is_answered_by_on_error),
        OVER_A_WIRE(what_threads_take_is_charged_once),
        OVER_A_WIRE(nothing_is_charged_twice_whatever_the_wire_does),
        OVER_A_WIRE(on_error_answers_while_the_store_is_silent),
        OVER_A_WIRE(on_error_answers_while_nobody_can_connect),
        OVER_A_WIRE(unknown_is_never_asked_again),
        OVER_A_WIRE(without_a_descriptor_on_error_answers),
        OVER_A_WIRE(descriptors_may_be_forbidden_later),
#if !defined(WEIR_TSAN)
        OVER_A_WIRE(without_a_thread_on_error_answers),
#endif
        OVER_A_WIRE(store_may_have_no_lines),
        OVER_A_WIRE(thread_waits_in_line_for_a_store_that_answers_later),
        OVER_A_WIRE(signals_are_the_programs),
        OVER_A_WIRE(cancelled_thread_stays_until_it_is_answered),
        OVER_A_WIRE(take_is_no_point_of_cancellation),
        OVER_A_WIRE(nobody_asked),
        OVER_A_WIRE(limiter_closes_while_the_store_is_silent),
        OVER_A_WIRE(many_begin_and_end),
    };
    return cmocka_run_group_tests(tests, lay_wire, NULL);
}
