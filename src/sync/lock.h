/* SPDX-License-Identifier: MIT
 *
 * A lock on the way of a take. In memory that the threads of one process share it is a word: to lock and to
 * unlock it when nobody else wants it are two instructions, and no call. In memory that processes share it is a
 * robust mutex (mutex.h), because they die. All zeroes is an open lock of the first kind, so that a fresh
 * mapping needs no set-up.
 *
 * The word is that of U. Drepper, "Futexes Are Tricky", 2011, chapter 5: whoever has to sleep says so in it, and
 * then it is never just held again until it was open, so that who unlocks it knows whom to wake. */
#ifndef WEIR_SYNC_LOCK_H
#define WEIR_SYNC_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "sync/mutex.h"

enum { LOCK_OPEN, LOCK_HELD, LOCK_AWAITED };

struct lock {
    uint32_t word;
    uint32_t is_shared;
    struct mutex mutex; // of the second kind
};

/* Makes an open lock of the second kind, whatever was there before. */
static inline void lock_init_shared(struct lock *lock)
{
    lock->is_shared = 1;
    mutex_init_shared(&lock->mutex);
}

/* Sleeps until it is ours; and wakes one of those who do. */
void lock_await(struct lock *lock);
void lock_wake(struct lock *lock);

/* As mutex_lock(): true if the last holder died with it. */
static inline bool lock_acquire(struct lock *lock)
{
    if (__builtin_expect(lock->is_shared != 0, 0)) {
        return mutex_lock(&lock->mutex);
    }
    uint32_t seen = LOCK_OPEN;
    if (!__atomic_compare_exchange_n(&lock->word, &seen, LOCK_HELD, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
        lock_await(lock);
    }
    return false;
}

static inline void lock_release(struct lock *lock)
{
    if (__builtin_expect(lock->is_shared != 0, 0)) {
        mutex_unlock(&lock->mutex);
    } else if (__atomic_exchange_n(&lock->word, LOCK_OPEN, __ATOMIC_RELEASE) == LOCK_AWAITED) {
        lock_wake(lock);
    }
}

#endif
