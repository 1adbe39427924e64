/* SPDX-License-Identifier: MIT
 *
 * Standing in line as a thread: it sleeps until it is answered, or until it is its turn to look.
 *
 * pthread_cancel() ends a wait only while the thread sleeps on its condition variable, where it holds no
 * lock but that of the lines and nothing is half done. Everywhere else it is forbidden. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "limiter/limiter_state.h"
#include "sync/cancel.h"

struct sleeper {
    struct waiter waiter; // first: it leads back here
    struct lines *lines;
    int cancel_state; // of the caller
    pthread_cond_t changed;
    uint64_t due_ns;
    bool is_answered;
    struct weir_decision *decisions; // where they go: one, or as many as it asks for together
    size_t count;
};

static struct sleeper *sleeper_of(struct waiter *waiter)
{
    return (struct sleeper *)(void *)waiter;
}

static void wake_earlier(struct waiter *waiter, uint64_t due_ns)
{
    struct sleeper *sleeper = sleeper_of(waiter);
    bool is_earlier = due_ns < sleeper->due_ns;
    sleeper->due_ns = due_ns;
    if (is_earlier) {
        (void)pthread_cond_signal(&sleeper->changed);
    }
}

static void note_answer(struct waiter *waiter, const struct weir_decision *decisions)
{
    struct sleeper *sleeper = sleeper_of(waiter);
    memcpy(sleeper->decisions, decisions, sleeper->count * sizeof *decisions);
    sleeper->is_answered = true;
    (void)pthread_cond_signal(&sleeper->changed);
}

/* The thread was cancelled, and its sleep ended with the lock of the lines held. An answer that came in the
 * same instant counts: the thread is then cancelled as if just after its wait. */
static void leave_cancelled(void *argument)
{
    struct sleeper *sleeper = argument;
    lines_unlock(sleeper->lines);
    (void)lines_leave(sleeper->lines, &sleeper->waiter, lines_now_ns(sleeper->lines));
    (void)pthread_cond_destroy(&sleeper->changed);
}

/* Condition variables know CLOCK_MONOTONIC, which stands still while the machine is suspended; then
 * the sleep takes longer, and lines_call() finds out by how much. */
static void sleep_until(struct sleeper *sleeper, uint64_t now_ns)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t then_ns =
        (uint64_t)until.tv_sec * 1000000000 + (uint64_t)until.tv_nsec + (sleeper->due_ns - now_ns);
    until.tv_sec = (time_t)(then_ns / 1000000000);
    until.tv_nsec = (long)(then_ns % 1000000000);
    int error;
    pthread_cleanup_push(leave_cancelled, sleeper);
    cancel_allow(sleeper->cancel_state);
    error = pthread_cond_timedwait(&sleeper->changed, lines_mutex(sleeper->lines), &until);
    (void)cancel_forbid();
    pthread_cleanup_pop(0);
    assert(error == 0 || error == ETIMEDOUT);
    (void)error;
}

static void sleep_until_answered(struct sleeper *sleeper)
{
    struct lines *lines = sleeper->lines;
    lines_lock(lines);
    while (!sleeper->is_answered) {
        uint64_t now_ns = lines_now_ns(lines);
        if (now_ns < sleeper->due_ns) {
            sleep_until(sleeper, now_ns);
        } else {
            lines_call(lines, &sleeper->waiter, now_ns);
        }
    }
    lines_unlock(lines);
}

/* Stands in line, and sleeps until it is answered. */
static void acquire(struct weir_limiter *limiter, const struct weir_request *requests,
                    struct weir_decision *decisions, size_t count, uint64_t timeout_ns)
{
    static const struct waiter_ops OPS = {.schedule = wake_earlier, .answer = note_answer};
    struct sleeper sleeper = {.waiter.ops = &OPS,
                              .lines = limiter->lines,
                              .cancel_state = cancel_forbid(),
                              .due_ns = UINT64_MAX,
                              .decisions = decisions,
                              .count = count};
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&sleeper.changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (lines_join(limiter->lines, &sleeper.waiter, requests, count, timeout_ns,
                   weir_limiter_now_ns(limiter), decisions)) {
        sleep_until_answered(&sleeper);
    }
    (void)pthread_cond_destroy(&sleeper.changed);
    cancel_allow(sleeper.cancel_state);
}

void weir_limiter_acquire_all(struct weir_limiter *limiter, const struct weir_request *requests,
                              struct weir_decision *decisions, size_t count, uint64_t timeout_ns)
{
    bool is_shadow = count == 1 && requests->shadow; // of several the lines know it themselves
    if (timeout_ns == 0 || count == 0 || is_shadow) {
        weir_limiter_decide(limiter, requests, decisions, count);
    } else if (limiter->lines != NULL && count <= WEIR_TOGETHER_MAX) {
        acquire(limiter, requests, decisions, count, timeout_ns);
    } else {
        lines_answer_failed(requests, count, decisions);
    }
}

struct weir_decision weir_limiter_acquire(struct weir_limiter *limiter,
                                          const struct weir_rule *rule, const void *key,
                                          size_t key_len, uint64_t cost_micro, uint64_t timeout_ns)
{
    struct weir_request request = {
        .rule = rule, .key = key, .key_len = key_len, .cost_micro = cost_micro};
    struct weir_decision decision;
    weir_limiter_acquire_all(limiter, &request, &decision, 1, timeout_ns);
    return decision;
}
