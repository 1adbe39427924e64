/* SPDX-License-Identifier: MIT
 *
 * Which boot of the machine this is, and how this process sees the clock that began with it. */
#ifndef WEIR_PLATFORM_BOOT_H
#define WEIR_PLATFORM_BOOT_H

#include <stdbool.h>
#include <stdint.h>

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

/* 122 random bits that the kernel draws when it starts. False, with errno, where /proc is hidden. */
bool boot_read_id(uint64_t id[2]);

/* What to add to this process's CLOCK_BOOTTIME to get the machine's, modulo 2^64: not 0 in a time
 * namespace (time_namespaces(7)). */
uint64_t boot_namespace_bias_ns(void);

#endif
