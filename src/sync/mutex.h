/* SPDX-License-Identifier: MIT
 *
 * A lock for the threads of one process. All zeroes is open, so that a fresh mapping needs no set-up
 * (glibc and musl both define PTHREAD_MUTEX_INITIALIZER as zeroes). */
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
