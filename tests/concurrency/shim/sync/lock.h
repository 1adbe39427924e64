/* SPDX-License-Identifier: MIT
 *
 * Stands in for src/sync/lock.h when the explorer compiles the table. */
#ifndef WEIR_SYNC_LOCK_H
#define WEIR_SYNC_LOCK_H

#include "platform/membership.h"
#include "sync/mutex.h"

struct lock {
    struct mutex mutex;
};

static inline bool lock_acquire(struct lock *lock, const struct membership *members)
{
    (void)members;
    return mutex_lock(&lock->mutex);
}

static inline void lock_release(struct lock *lock)
{
    mutex_unlock(&lock->mutex);
}

#endif
