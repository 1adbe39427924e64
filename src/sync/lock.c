/* SPDX-License-Identifier: MIT */
#include "sync/lock.h"

#include "platform/futex.h"

void lock_await(struct lock *lock)
{
    const struct futex_wait wait = {&lock->word, LOCK_AWAITED};
    while (__atomic_exchange_n(&lock->word, LOCK_AWAITED, __ATOMIC_ACQUIRE) != LOCK_OPEN) {
        (void)futex_wait_any(&wait, 1, UINT64_MAX); // not at all if it is open by now
    }
}

void lock_wake(struct lock *lock)
{
    futex_wake(&lock->word);
}
