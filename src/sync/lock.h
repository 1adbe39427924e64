/* SPDX-License-Identifier: MIT
 *
 * A lock that is a word, for the threads of one process or for the members that share a file
 * (platform/membership.h). To lock and to unlock it while nobody else wants it takes two instructions and no call.
 * All zeroes is an open lock, so that a fresh mapping needs no set-up, and there is no pointer in it.
 *
 * The word names the member that holds the lock. A thread that waits longer than LOCK_LOOK_NS_MIN asks whether that
 * member is alive. If it is dead, the thread takes the lock as its heir, and has to look after what is half done.
 * For an id is never used again, a word that names a dead member does so until an heir has come, and of several
 * heirs one swap succeeds.
 *
 *     word    0 open; else the id of a member (even), and LOCK_AWAITED if a thread may be asleep
 *
 * The protocol is that of U. Drepper, "Futexes Are Tricky", 2011, chapter 5: a thread that has to sleep says so in
 * the word, and takes the lock so that the word goes on saying it. So the thread that unlocks knows that it has to
 * wake one. A thread that was woken and is killed before it runs wakes nobody; but in memory that processes share
 * every sleeper looks again after LOCK_LOOK_NS_MAX.
 *
 *  Shared word  Written by                    Order    Pairs with
 *  word         lock_acquire(), lock_await()  acquire  the release in lock_release(); and of an heir: with
 *                                                      nothing. Its member is dead, and what it wrote before is
 *                                                      seen, for the kernel locked the file's bytes in between
 *  Price: a member that is stopped while it holds a lock holds up all who want it, until it goes on. */
#ifndef WEIR_SYNC_LOCK_H
#define WEIR_SYNC_LOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "platform/membership.h"

#define LOCK_OPEN    UINT64_C(0)
#define LOCK_AWAITED UINT64_C(1)

/* How long a thread sleeps before it asks whether the holder is alive: at first, and at most. What a lock protects
 * takes microseconds. */
#define LOCK_LOOK_NS_MIN UINT64_C(1000000)
#define LOCK_LOOK_NS_MAX UINT64_C(50000000)

struct lock {
    uint64_t word;
};

/* Sleeps until the lock is ours: true if its last holder died with it. And wakes one that sleeps. */
bool lock_await(struct lock *lock, const struct membership *members);
void lock_wake(struct lock *lock);

/* True if the last holder died with it: repair what it protects before relying on it. A thread that dies before
 * that is done leaves the same duty to the next. `members` says who locks, and must have joined. */
static inline bool lock_acquire(struct lock *lock, const struct membership *members)
{
    uint64_t seen = LOCK_OPEN;
    assert(members->id != LOCK_OPEN); // it has joined
    if (__atomic_compare_exchange_n(&lock->word, &seen, members->id, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
        return false;
    }
    return lock_await(lock, members);
}

static inline void lock_release(struct lock *lock)
{
    if ((__atomic_exchange_n(&lock->word, LOCK_OPEN, __ATOMIC_RELEASE) & LOCK_AWAITED) != 0) {
        lock_wake(lock);
    }
}

#endif
