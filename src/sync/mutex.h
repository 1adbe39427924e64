/* SPDX-License-Identifier: MIT
 *
 * A lock for the threads of one process, or of all processes that map it. All zeroes is an open lock
 * of the first kind, so that a fresh mapping needs no set-up (glibc and musl both define
 * PTHREAD_MUTEX_INITIALIZER as zeroes).
 *
 * One of the second kind is robust: when its holder dies the kernel opens it, and whoever comes next
 * is told that what it protects may be half done. On the way of a take lock.h has a cheaper one, where nobody
 * else's process comes in.
 *
 * Who waits for a lock looks from time to time whether it is open. For an unlocking wakes one of those who
 * wait. If that one is killed before it runs, and meanwhile somebody else has come and locked, then neither
 * the kernel nor that one's unlocking wakes the rest: nobody has told them that there are any. */
#ifndef WEIR_SYNC_MUTEX_H
#define WEIR_SYNC_MUTEX_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#define MUTEX_LOOK_NS 50000000

struct mutex {
    pthread_mutex_t mutex;
};

/* Makes an open lock of the second kind, whatever was there before. */
static inline void mutex_init_shared(struct mutex *mutex)
{
    pthread_mutexattr_t kind;
    int error = pthread_mutexattr_init(&kind);
    error = error != 0 ? error : pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    error = error != 0 ? error : pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    error = error != 0 ? error : pthread_mutex_init(&mutex->mutex, &kind);
    assert(error == 0); // glibc and musl cannot fail here
    (void)pthread_mutexattr_destroy(&kind);
}

/* Sleeps until it can be locked. As pthread_mutex_lock(). */
static inline int mutex_wait(struct mutex *mutex)
{
    int error;
    do {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until); // the only clock that every C library has here
        until.tv_nsec += MUTEX_LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        error = pthread_mutex_timedlock(&mutex->mutex, &until);
    } while (error == ETIMEDOUT);
    return error;
}

/* True if the last holder died with it: repair what it protects before relying on it. Who dies before
 * that is done leaves the same duty to the next. */
static inline bool mutex_lock(struct mutex *mutex)
{
    int error = pthread_mutex_trylock(&mutex->mutex);
    if (error == EBUSY) {
        error = mutex_wait(mutex);
    }
    bool is_heir = error == EOWNERDEAD;
    if (is_heir) {
        error = pthread_mutex_consistent(&mutex->mutex);
    }
    assert(error == 0);
    return is_heir;
}

/* Takes a lock unless somebody holds it who is alive; whoever died with it left nothing to repair. */
static inline bool mutex_try_lock(struct mutex *mutex)
{
    int error = pthread_mutex_trylock(&mutex->mutex);
    if (error == EOWNERDEAD) {
        error = pthread_mutex_consistent(&mutex->mutex);
    }
    assert(error == 0 || error == EBUSY);
    return error == 0;
}

static inline void mutex_unlock(struct mutex *mutex)
{
    int error = pthread_mutex_unlock(&mutex->mutex);
    assert(error == 0);
    (void)error;
}

#endif
