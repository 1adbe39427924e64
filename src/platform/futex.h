/* SPDX-License-Identifier: MIT
 *
 * Sleeping on words that processes share, until somebody changes one of them, or dies.
 *
 *     struct futex_wait waits[2] = {{&calls, seen}};
 *     size_t count = 1 + futex_watch(&its_mutex, &waits[1]);
 *     futex_wait_any(waits, count, UINT64_MAX);
 *
 * The kernel itself tells that the holder of a robust mutex has died: it marks the mutex's word, and wakes
 * one of those who sleep on it. So nobody has to look from time to time, and no pid is compared, which
 * would mean something else in another container. */
#ifndef WEIR_PLATFORM_FUTEX_H
#define WEIR_PLATFORM_FUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A word that says something else once there is a reason to wake up. */
struct futex_wait {
    uint32_t *word;
    uint32_t value;
};

enum { FUTEX_WAITS_MAX = 128 }; // as the kernel has it

/* Sleeps until one of the words differs from its value or is woken, until `timeout_ns` have passed, or for
 * no reason. UINT64_MAX is for ever. False if only the first word was listened to: Linux before 5.16
 * cannot sleep on several. */
bool futex_wait_any(const struct futex_wait *waits, size_t count, uint64_t timeout_ns);

/* Wakes one who sleeps on this word. */
void futex_wake(uint32_t *word);

/* What to sleep on until the holder of a robust mutex of another process unlocks it, or dies. False if
 * nobody holds it, or where it is not known in which word the C library keeps that. */
bool futex_watch(pthread_mutex_t *mutex, struct futex_wait *wait);

/* Whether futex_watch() knows. */
bool futex_can_watch(void);

#endif
