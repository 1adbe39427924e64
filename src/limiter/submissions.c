/* SPDX-License-Identifier: MIT */
#include "limiter/submissions.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "limiter/limiter_state.h"
#include "store/attendant.h"
#include "sync/cancel.h"

/* What a submission's `opaque` holds. */
struct submitted {
    struct attendant_ask ask; // first
    struct submissions *submissions;
};
_Static_assert(sizeof(struct submitted) <= sizeof(((struct weir_submission *)0)->opaque),
               "opaque has room for it");

static struct submitted *submitted_of(struct weir_submission *submission)
{
    return (struct submitted *)(void *)submission->opaque;
}

static struct weir_submission *submission_of(struct submitted *submitted)
{
    char *opaque = (char *)submitted;
    return (struct weir_submission *)(void *)(opaque - offsetof(struct weir_submission, opaque));
}

/* ---- in a child of fork() ---- */

/* A child has its parent's mutex, maybe locked by a thread that it does not have, and its parent's counter. So it
 * begins anew, when it first calls. The descriptor stays open: the program may have closed it in the child, with all
 * others, and its number may be somebody else's. While one thread does it `owner` is -pid, which is no other child's. */
static void begin_here(struct submissions *submissions)
{
    pid_t here = getpid();
    for (;;) {
        pid_t seen = __atomic_load_n(&submissions->owner, __ATOMIC_ACQUIRE);
        if (seen == here) {
            return;
        }
        if (seen == -here) {
            (void)sched_yield(); // another thread of this process does it
        } else if (__atomic_compare_exchange_n(&submissions->owner, &seen, -here, false,
                                               __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            submissions->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
            submissions->fd = -1;
            submissions->first = submissions->last = NULL;
            __atomic_store_n(&submissions->owner, here, __ATOMIC_RELEASE);
        }
    }
}

/* ---- the flag ---- */

/* Neither of the two can fail: the counter is 0 or 1. */
static void raise_flag(int fd)
{
    if (fd < 0) {
        return;
    }
    const uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    assert(written == (ssize_t)sizeof one);
    (void)written;
}

static void lower_flag(int fd)
{
    if (fd < 0) {
        return;
    }
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    assert(got == (ssize_t)sizeof count);
    (void)got;
}

/* ---- answers ---- */

/* Its answers are there. */
static void complete(struct attendant_ask *ask)
{
    struct submitted *submitted = (struct submitted *)(void *)ask;
    struct submissions *submissions = submitted->submissions;
    (void)pthread_mutex_lock(&submissions->mutex);
    ask->next = NULL;
    if (submissions->first == NULL) {
        submissions->first = submitted;
        raise_flag(submissions->fd);
    } else {
        submissions->last->ask.next = ask;
    }
    submissions->last = submitted;
    (void)pthread_mutex_unlock(&submissions->mutex);
}

int weir_limiter_poll_fd(struct weir_limiter *limiter)
{
    struct submissions *submissions = &limiter->submissions;
    begin_here(submissions);
    (void)pthread_mutex_lock(&submissions->mutex);
    if (submissions->fd < 0) {
        submissions->fd = eventfd(submissions->first != NULL, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    int fd = submissions->fd;
    (void)pthread_mutex_unlock(&submissions->mutex);
    return fd;
}

void weir_limiter_submit(struct weir_limiter *limiter, struct weir_submission *submission)
{
    struct store *store = limiter->store;
    struct submitted *submitted = submitted_of(submission);
    begin_here(&limiter->submissions);
    *submitted = (struct submitted){.ask = {.requests = submission->requests,
                                            .decisions = submission->decisions,
                                            .count = submission->count,
                                            .now_ns = STORE_NOW,
                                            .done = complete},
                                    .submissions = &limiter->submissions};
    int before = cancel_forbid();
    if (store->attendant != NULL && submission->count > 0) {
        attendant_ask(store->attendant, &submitted->ask);
    } else {
        store->ops->decide(store, submission->requests, submission->decisions, submission->count,
                           STORE_NOW);
        complete(&submitted->ask);
    }
    cancel_allow(before);
}

struct weir_submission *weir_limiter_collect(struct weir_limiter *limiter)
{
    struct submissions *submissions = &limiter->submissions;
    begin_here(submissions);
    int before = cancel_forbid();
    (void)pthread_mutex_lock(&submissions->mutex);
    struct submitted *first = submissions->first;
    if (first != NULL) {
        submissions->first = (struct submitted *)(void *)first->ask.next;
        if (submissions->first == NULL) {
            lower_flag(submissions->fd);
        }
    }
    (void)pthread_mutex_unlock(&submissions->mutex);
    cancel_allow(before);
    return first != NULL ? submission_of(first) : NULL;
}

void submissions_open(struct submissions *submissions)
{
    *submissions = (struct submissions){.owner = getpid(), .fd = -1};
    (void)pthread_mutex_init(&submissions->mutex, NULL);
}

void submissions_close(struct submissions *submissions)
{
    begin_here(submissions);
    if (submissions->fd >= 0) {
        (void)close(submissions->fd);
    }
    (void)pthread_mutex_destroy(&submissions->mutex);
}
