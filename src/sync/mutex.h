/* SPDX-License-Identifier: MIT
 *
 * A lock for the threads of one process that also wait for conditions under it. All zeroes is an open one (glibc
 * and musl both define PTHREAD_MUTEX_INITIALIZER as zeroes). Memory that processes share has lock.h. */
#ifndef WEIR_SYNC_MUTEX_H
#define WEIR_SYNC_MUTEX_H

#include <assert.h>
#include <pthread.h>

struct mutex {
    pthread_mutex_t mutex;
};

static inline void mutex_lock(struct mutex *mutex)
{
    int error = pthread_mutex_lock(&mutex->mutex);
    assert(error == 0);
    (void)error;
}

static inline void mutex_unlock(struct mutex *mutex)
{
    int error = pthread_mutex_unlock(&mutex->mutex);
    assert(error == 0);
    (void)error;
}

#endif
