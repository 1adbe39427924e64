/* SPDX-License-Identifier: MIT
 *
 * The clock that weir's own stores in memory live by: CLOCK_BOOTTIME in nanoseconds, which neither
 * steps nor stops while a laptop sleeps, read through the processor's time-stamp counter where the
 * kernel itself trusts that counter. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Within a thread a reading never runs backwards; between threads, and from the kernel's own clock,
 * it is off by at most this. (The processor may read its counter while an earlier load is still under
 * way. A program that loads what another thread has read, and reads the clock to compare, puts a fence
 * such as lfence between the two.) */
#define WEIR_CLOCK_ERROR_NS_MAX 2000

/* Nanoseconds since the machine started. Thread-safe. Never blocks, never allocates; at most once
 * a millisecond per thread it reads the kernel's clock. */
uint64_t weir_clock_now_ns(void);

#ifdef __cplusplus
}
#endif

#endif
