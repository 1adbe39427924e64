/* SPDX-License-Identifier: MIT */
#include "sync/lock.h"

#include "platform/futex.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "LOCK_AWAITED lies in the first half");

/* The kernel compares 32 bits: the half with LOCK_AWAITED, in which ids differ too. Where two are alike there, a
 * thread sleeps in vain until it looks again. */
static uint32_t *half_of(struct lock *lock)
{
    return (uint32_t *)(void *)&lock->word;
}

/* Sleeps while the word is `seen`; each time twice as long. Threads of one process do not die one by one. */
static void sleep_on(struct lock *lock, const struct membership *members, uint64_t seen,
                     uint64_t *look_ns)
{
    bool has_others = members->fd >= 0;
    futex_wait(half_of(lock), (uint32_t)seen, has_others ? *look_ns : FUTEX_FOR_EVER);
    *look_ns = *look_ns < LOCK_LOOK_NS_MAX / 2 ? *look_ns * 2 : LOCK_LOOK_NS_MAX;
}

static bool swap(struct lock *lock, uint64_t seen, uint64_t next)
{
    return __atomic_compare_exchange_n(&lock->word, &seen, next, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

bool lock_await(struct lock *lock, const struct membership *members)
{
    uint64_t mine = members->id | LOCK_AWAITED; // others may sleep
    uint64_t look_ns = LOCK_LOOK_NS_MIN;
    for (;;) {
        uint64_t seen = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
        uint64_t holder = seen & ~LOCK_AWAITED;
        if (holder == LOCK_OPEN) {
            if (swap(lock, seen, mine)) {
                return false;
            }
        } else if (seen == holder) {
            (void)swap(lock, seen, seen | LOCK_AWAITED);
        } else {
            sleep_on(lock, members, seen, &look_ns);
            if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == seen
                && !membership_is_alive(members, holder) && swap(lock, seen, mine)) {
                return true;
            }
        }
    }
}

void lock_wake(struct lock *lock)
{
    futex_wake(half_of(lock));
}
