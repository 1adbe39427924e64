/* SPDX-License-Identifier: MIT */
#include "limiter/submissions.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "limiter/limiter_state.h"
#include "store/attendant.h"
#include "sync/cancel.h"

/* What a submission's `opaque` holds. */
struct submitted {
    struct attendant_ask ask; // first
    struct weir_submission *submission;
    struct submissions *submissions;
};
_Static_assert(sizeof(struct submitted) <= sizeof(((struct weir_submission *)0)->opaque),
               "opaque has room for it");

static struct submitted *submitted_of(struct weir_submission *submission)
{
    return (struct submitted *)(void *)submission->opaque;
}

/* Neither of the two can fail: the counter is 0 or 1. */
static void raise_flag(int fd)
{
    const uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    assert(written == (ssize_t)sizeof one);
    (void)written;
}

static void lower_flag(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    assert(got == (ssize_t)sizeof count);
    (void)got;
}

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
    (void)pthread_mutex_lock(&submissions->mutex);
    if (submissions->fd < 0) {
        submissions->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    int fd = submissions->fd;
    (void)pthread_mutex_unlock(&submissions->mutex);
    return fd;
}

void weir_limiter_submit(struct weir_limiter *limiter, struct weir_submission *submission)
{
    struct store *store = limiter->store;
    struct submitted *submitted = submitted_of(submission);
    assert(limiter->submissions.fd >= 0);
    *submitted = (struct submitted){.ask = {.requests = submission->requests,
                                            .decisions = submission->decisions,
                                            .count = submission->count,
                                            .now_ns = STORE_NOW,
                                            .done = complete},
                                    .submission = submission,
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
    return first != NULL ? first->submission : NULL;
}

void submissions_open(struct submissions *submissions)
{
    *submissions = (struct submissions){.fd = -1};
    (void)pthread_mutex_init(&submissions->mutex, NULL);
}

void submissions_close(struct submissions *submissions)
{
    if (submissions->fd >= 0) {
        (void)close(submissions->fd);
    }
    (void)pthread_mutex_destroy(&submissions->mutex);
}
