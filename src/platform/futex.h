/* SPDX-License-Identifier: MIT
 *
 * Sleeping on a word that threads or processes share, until somebody changes it. */
#ifndef WEIR_PLATFORM_FUTEX_H
#define WEIR_PLATFORM_FUTEX_H

#include <stdint.h>

#define FUTEX_FOR_EVER UINT64_MAX

/* Sleeps until the word differs from `value` or is woken, until `timeout_ns` have passed, or for no reason. Not a
 * point of cancellation. */
void futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns);

/* Wakes one thread that sleeps on this word. */
void futex_wake(uint32_t *word);

#endif
