/* SPDX-License-Identifier: MIT
 *
 * What to do when somebody else's compare-and-swap came first: leave the word alone for a moment. Who
 * tries again at once takes the cache line away from a thread that could have made a dozen changes
 * before it is missed; with two threads at one word, half of all swaps fail and each waits for the
 * line (T. E. Anderson, "The performance of spin lock alternatives", 1990).
 *
 *     unsigned turns = 0;
 *     do {
 *         back_off(&turns); // the first time, nothing
 *         ...
 *     } while (!cas_...); */
#ifndef WEIR_SYNC_BACKOFF_H
#define WEIR_SYNC_BACKOFF_H

/* How many pauses: about 1 us at first, and 4 at most (a pause is 20 to 50 ns on x86-64). */
enum { BACKOFF_TURNS_FIRST = 64, BACKOFF_TURNS_MAX = 256 };

static inline void back_off_for(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        __asm__ volatile("isb" : : : "memory"); // aarch64: its `yield` does not wait
#endif
    }
}

static inline void back_off(unsigned *turns)
{
    back_off_for(*turns);
    unsigned next = *turns == 0 ? BACKOFF_TURNS_FIRST : *turns * 2;
    *turns = next < BACKOFF_TURNS_MAX ? next : BACKOFF_TURNS_MAX;
}

#endif
