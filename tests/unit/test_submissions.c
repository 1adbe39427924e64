/* SPDX-License-Identifier: MIT
 *
 * Questions whose answers are collected later, for event loops: over a store that answers later, over one that does
 * not, and in children of fork(). */
#include "../support/wired_limiter.h"

#include <poll.h>
#include <sys/wait.h>

#include "sync/atomic.h"

enum { THREADS = 8, TAKES = 1000 };

/* ---- submissions ---- */

/* One question of its own. */
struct asked {
    struct weir_submission submission; // first
    struct weir_request request;
    struct weir_decision decision;
};

static void submit(struct asked *asked, const struct weir_rule *rule, void *user)
{
    asked->request =
        (struct weir_request){.rule = rule, .key = "alice", .key_len = 5, .cost_micro = WEIR_UNIT};
    asked->submission = (struct weir_submission){
        .requests = &asked->request, .decisions = &asked->decision, .count = 1, .user = user};
    weir_limiter_submit(limiter, &asked->submission);
}

static bool is_readable(int timeout_ms)
{
    struct pollfd polled = {.fd = weir_limiter_poll_fd(limiter), .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

static struct asked *collect(void)
{
    while (true) {
        struct weir_submission *submission = weir_limiter_collect(limiter);
        if (submission != NULL) {
            return (struct asked *)(void *)submission;
        }
        assert_true(is_readable(-1));
    }
}

static void flag_is_up_while_an_answer_waits(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    struct asked asked[COUNT];
    for (int local = 0; local < 2; local++) {
        if (local) {
            weir_limiter_close(limiter);
            limiter = open_with(NULL, false);
        }
        wait_for_answers();
        assert_false(is_readable(0));
        assert_null(weir_limiter_collect(limiter));
        (void)pthread_mutex_lock(&gate);
        for (int i = 0; i < COUNT; i++) {
            submit(&asked[i], &refusing, &asked[i]);
            assert_int_equal(is_readable(0), local);
            assert_true(local || weir_limiter_collect(limiter) == NULL);
        }
        (void)pthread_mutex_unlock(&gate);
        for (int i = 0; i < COUNT; i++) {
            assert_true(is_readable(-1));
            assert_ptr_equal(collect(), &asked[i]);
            assert_ptr_equal(asked[i].submission.user, &asked[i]);
        }
        assert_false(is_readable(0));
        assert_null(weir_limiter_collect(limiter));
    }
}

static void no_questions_are_collected_too(void **state)
{
    (void)state;
    struct weir_submission submission = {.count = 0};
    weir_limiter_submit(limiter, &submission);
    assert_true(is_readable(0));
    assert_ptr_equal(weir_limiter_collect(limiter), &submission);
    assert_false(is_readable(0));
}

/* One goes out, and all that is asked while it is on its way goes out together. */
static void what_is_asked_meanwhile_goes_out_together(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    struct asked asked[COUNT];
    wait_for_answers();
    unsigned before = atomic_load(&list_count);
    (void)pthread_mutex_lock(&gate);
    submit(&asked[0], &refusing, NULL);
    while (atomic_load(&at_gate) == 0) {
    }
    for (int i = 1; i < COUNT; i++) {
        submit(&asked[i], &refusing, NULL);
    }
    (void)pthread_mutex_unlock(&gate);
    for (int i = 0; i < COUNT; i++) {
        (void)collect();
    }
    assert_int_equal(atomic_load(&lists[before]), 1);
    assert_int_equal(atomic_load(&lists[before + 1]), COUNT - 1);
}

static void silent_store_is_answered_for(void **state)
{
    (void)state;
    struct asked asked[2];
    wait_for_answers();
    set_wire(IS_SILENT, 1);
    wait_for_outage();
    submit(&asked[0], &refusing, NULL);
    submit(&asked[1], &allowing, NULL);
    (void)collect();
    (void)collect();
    assert_int_equal(asked[0].decision.verdict, WEIR_FAILED);
    assert_int_equal(asked[1].decision.verdict, WEIR_ALLOWED);
}

static atomic_int submitters_left;

/* Its submissions may be gone as soon as they are answered. */
static void *submit_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < TAKES; i++) {
        struct asked *asked = malloc(sizeof *asked);
        if (asked == NULL) {
            abort();
        }
        submit(asked, &refusing, NULL);
    }
    atomic_fetch_sub(&submitters_left, 1);
    return NULL;
}

static void submissions_of_many_threads_are_collected_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t allowed = 0, failed = 0;
    wait_for_answers();
    atomic_store(&submitters_left, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, submit_often, NULL), 0);
    }
    for (int i = 0; i < THREADS * TAKES; i++) {
        struct asked *asked = collect();
        allowed += asked->decision.verdict == WEIR_ALLOWED;
        failed += asked->decision.verdict == WEIR_FAILED;
        free(asked);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_null(weir_limiter_collect(limiter));
    assert_false(is_readable(0));
    assert_int_equal(allowed + failed, THREADS * TAKES);
    assert_in_range(level_of("alice"), allowed, allowed + failed);
}
/* They are answered, and never collected. */
static void submissions_may_be_left(void **state)
{
    enum { COUNT = 50 };
    struct asked asked[COUNT];
    wait_for_answers();
    (void)pthread_mutex_lock(&gate);
    for (int i = 0; i < COUNT; i++) {
        submit(&asked[i], &refusing, NULL);
        asked[i].decision.verdict = WEIR_NEVER;
    }
    set_wire(WAY_NS, UINT64_C(1000000000));
    (void)pthread_mutex_unlock(&gate);
    weir_limiter_close(limiter);
    for (int i = 0; i < COUNT; i++) {
        assert_true(asked[i].decision.verdict != WEIR_NEVER);
    }
    assert_int_equal(open_limiter(state), 0);
}
/* ---- children ---- */

static bool hears_why(void)
{
    struct weir_error error;
    return weir_limiter_status(limiter, &error) == WEIR_E_FORKED
           && strstr(error.message, "open it after fork()") != NULL;
}

/* What a child sees that uses what its parent has opened; 0: what it should. */
static int use_inherited(bool is_shared)
{
    enum weir_verdict expected = is_shared ? WEIR_ALLOWED : WEIR_FAILED;
    struct asked asked;
    (void)alarm(30); // of its own: a fork has none
    if (weir_limiter_collect(limiter) != NULL) {
        return 1; // its parent's
    }
    if (take(&refusing, "alice").verdict != expected
        || take(&allowing, "alice").verdict != WEIR_ALLOWED) {
        return 2;
    }
    if (!is_shared && !hears_why()) {
        return 3;
    }
    submit(&asked, &refusing, NULL);
    if (!is_readable(0) || weir_limiter_collect(limiter) != &asked.submission || is_readable(0)) {
        return 4;
    }
    submit(&asked, &refusing, NULL);
    weir_limiter_close(limiter);
    return asked.decision.verdict == expected ? 0 : 5;
}

static int status_of_child(bool is_shared)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        _exit(use_inherited(is_shared));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static atomic_bool is_over;

static void *submit_and_collect(void *unused)
{
    struct asked asked;
    (void)unused;
    while (!atomic_load(&is_over)) {
        submit(&asked, &refusing, NULL);
        while (weir_limiter_collect(limiter) == NULL) {
        }
    }
    return NULL;
}

/* In its parent another thread locks whatever there is, all the time. */
static void child_is_answered_by_on_error(void **state)
{
    (void)state;
    pthread_t thread;
    wait_for_answers();
    assert_false(is_readable(0));
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, submit_and_collect, NULL), 0);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(status_of_child(false), 0);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(weir_limiter_status(limiter, NULL), WEIR_OK);
    wait_for_answers();
    assert_false(is_readable(0));
}

/* Before anything is asked, the child may not either: what it opened is its parent's. */
static void child_of_one_that_asked_nothing(void **state)
{
    (void)state;
    assert_int_equal(status_of_child(false), 0);
    wait_for_answers();
}

#if !defined(WEIR_TSAN) // whose 16-byte swaps are atomic within one process only
/* Memory that it may use: only the descriptor and what is to be collected are each one's own. */
static void child_collects_its_own(void **state)
{
    (void)state;
    struct asked asked;
    const struct weir_limiter_config config = {.memory_bytes = 4 << 20,
                                               .store = "memory:?shared=yes"};
    weir_limiter_close(limiter);
    enum weir_status status = weir_limiter_open(&limiter, &config, NULL);
    if (status == WEIR_E_SYSTEM) { // qemu-user cannot
        skip();
    }
    assert_int_equal(status, WEIR_OK);
    refusing = rule_of("100000/100d");
    allowing = rule_of("100000/100d on_error=allow");
    submit(&asked, &refusing, NULL);
    assert_true(is_readable(0));
    assert_int_equal(status_of_child(true), 0);
    assert_true(is_readable(0));
    assert_ptr_equal(weir_limiter_collect(limiter), &asked.submission);
    assert_false(is_readable(0));
    assert_int_equal(level_of("alice"), 5);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        OVER_A_WIRE(flag_is_up_while_an_answer_waits),
        OVER_A_WIRE(no_questions_are_collected_too),
        OVER_A_WIRE(what_is_asked_meanwhile_goes_out_together),
        OVER_A_WIRE(silent_store_is_answered_for),
        OVER_A_WIRE(submissions_of_many_threads_are_collected_once),
        OVER_A_WIRE(submissions_may_be_left),
        OVER_A_WIRE(child_is_answered_by_on_error),
        OVER_A_WIRE(child_of_one_that_asked_nothing),
#if !defined(WEIR_TSAN)
        OVER_A_WIRE(child_collects_its_own),
#endif
    };
    return cmocka_run_group_tests(tests, lay_wire, NULL);
}
