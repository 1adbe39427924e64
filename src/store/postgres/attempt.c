/* SPDX-License-Identifier: MIT */
#include "store/postgres/attempt.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/fail.h"
#include "platform/thread.h"

/* Until it is over, `connection` and `error` are the thread's; then the owner's. Who comes last frees it: the owner, or
 * the thread of one that was abandoned.
 *   is_over, is_abandoned  under the mutex */
struct attempt {
    const struct libpq *pq;
    struct postgres_url url;
    int fd;
    bool is_over, is_abandoned;
    PGconn *connection;
    struct weir_error error;
};

/* Of all attempts of the process: it is held for a few instructions, and a write to an eventfd. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned abandoned_count;

static void discard(struct attempt *attempt)
{
    if (attempt->connection != NULL) {
        attempt->pq->finish(attempt->connection);
    }
    (void)close(attempt->fd);
    memset(&attempt->url, 0, sizeof attempt->url); // the password
    free(attempt);
}

static void *connect_and_tell(void *context)
{
    struct attempt *attempt = context;
    uint64_t one = 1;
    (void)session_open(&attempt->connection, attempt->pq, &attempt->url, false, &attempt->error);
    (void)pthread_mutex_lock(&mutex);
    bool is_abandoned = attempt->is_abandoned;
    attempt->is_over = true;
    if (is_abandoned) {
        abandoned_count--;
    } else {
        (void)!write(attempt->fd, &one, sizeof one); // a counter that is 0 takes it
    }
    (void)pthread_mutex_unlock(&mutex);
    if (is_abandoned) {
        discard(attempt);
    }
    return NULL;
}

static bool are_too_many(void)
{
    (void)pthread_mutex_lock(&mutex);
    bool are_too_many = abandoned_count >= ATTEMPTS_ABANDONED_MAX;
    (void)pthread_mutex_unlock(&mutex);
    return are_too_many;
}

struct attempt *attempt_start(const struct libpq *pq, const struct postgres_url *url,
                              struct weir_error *error)
{
    if (are_too_many()) {
        (void)fail(error, WEIR_E_SYSTEM, 0, "%d attempts to connect have not ended yet",
                   ATTEMPTS_ABANDONED_MAX);
        return NULL;
    }
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (attempt == NULL) {
        (void)fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a connection");
        return NULL;
    }
    attempt->pq = pq;
    attempt->url = *url;
    attempt->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_t thread;
    if (attempt->fd < 0 || !thread_start(&thread, connect_and_tell, attempt)) {
        (void)fail(error, WEIR_E_SYSTEM, 0, "no thread to connect in: %s", strerror(errno));
        discard(attempt);
        return NULL;
    }
    (void)pthread_detach(thread);
    return attempt;
}

int attempt_fd(const struct attempt *attempt)
{
    return attempt->fd;
}

PGconn *attempt_finish(struct attempt *attempt, struct weir_error *error)
{
    (void)pthread_mutex_lock(&mutex); // it may hold it still
    bool is_over = attempt->is_over;
    (void)pthread_mutex_unlock(&mutex);
    assert(is_over);
    PGconn *connection = attempt->connection;
    attempt->connection = NULL;
    *error = attempt->error;
    discard(attempt);
    return connection;
}

void attempt_abandon(struct attempt *attempt)
{
    (void)pthread_mutex_lock(&mutex);
    bool is_over = attempt->is_over;
    attempt->is_abandoned = true;
    abandoned_count += !is_over;
    (void)pthread_mutex_unlock(&mutex);
    if (is_over) {
        discard(attempt);
    }
}
