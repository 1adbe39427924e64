/* SPDX-License-Identifier: MIT */
#include "platform/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Headers older than Linux 5.16 do not know of it; the number is the same on all processors. */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

struct waitv {
    uint64_t value;
    uint64_t at;
    uint32_t flags;
    uint32_t reserved;
};

enum { WAITV_WORD_32 = 2 }; // FUTEX_32

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

static long wait_for_one(const struct futex_wait *wait, uint64_t timeout_ns)
{
    struct timespec timeout = timespec_of(timeout_ns);
    return syscall(SYS_futex, wait->word, FUTEX_WAIT, wait->value,
                   timeout_ns != UINT64_MAX ? &timeout : NULL, NULL, 0);
}

static long wait_for_several(const struct futex_wait *waits, size_t count, uint64_t timeout_ns)
{
    struct waitv words[FUTEX_WAITS_MAX];
    for (size_t i = 0; i < count; i++) {
        words[i] = (struct waitv){waits[i].value, (uintptr_t)waits[i].word, WAITV_WORD_32, 0};
    }
    struct timespec until = {0, 0};
    if (timeout_ns != UINT64_MAX) {
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until =
            timespec_of((uint64_t)until.tv_sec * 1000000000 + (uint64_t)until.tv_nsec + timeout_ns);
    }
    return syscall(SYS_futex_waitv, words, count, 0, timeout_ns != UINT64_MAX ? &until : NULL,
                   CLOCK_MONOTONIC);
}

bool futex_wait_any(const struct futex_wait *waits, size_t count, uint64_t timeout_ns)
{
    if (count == 1) {
        (void)wait_for_one(waits, timeout_ns);
        return true;
    }
    if (wait_for_several(waits, count, timeout_ns) >= 0 || errno == EAGAIN || errno == EINTR
        || errno == ETIMEDOUT) {
        return true;
    }
    return false; // ENOSYS, or EPERM from a filter of system calls
}

void futex_wake(uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool futex_can_watch(void)
{
#ifdef __GLIBC__
    return true;
#else
    return false;
#endif
}

/* The word of a robust mutex is for the kernel, so its form is fixed: the thread's number, whether somebody
 * sleeps on it, whether its holder died. Who wants to be woken has to say so in it. */
bool futex_watch(pthread_mutex_t *mutex, struct futex_wait *wait)
{
#ifdef __GLIBC__
    uint32_t *word = (uint32_t *)(void *)&mutex->__data.__lock;
    uint32_t value = __atomic_load_n(word, __ATOMIC_RELAXED);
    do {
        if ((value & FUTEX_TID_MASK) == 0 || (value & FUTEX_OWNER_DIED) != 0) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(word, &value, value | FUTEX_WAITERS, false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *wait = (struct futex_wait){word, value | FUTEX_WAITERS};
    return true;
#else
    (void)mutex;
    (void)wait;
    return false;
#endif
}
