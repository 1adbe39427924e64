/* SPDX-License-Identifier: MIT */
#include "sync/atomic.h"

#ifdef WEIR_ARM_ASM
#include <sys/auxv.h>

#ifndef HWCAP_USCAT
#define HWCAP_USCAT (1UL << 25) // Linux 4.20: an aligned LDP of 16 bytes is atomic
#endif

bool atomic_has_lse2;

__attribute__((constructor)) static void ask_processor(void)
{
    atomic_has_lse2 = (getauxval(AT_HWCAP) & HWCAP_USCAT) != 0;
}
#else
typedef int atomic_nothing_to_ask; // ISO C wants a declaration
#endif
