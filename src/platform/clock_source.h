/* SPDX-License-Identifier: MIT
 *
 * What weir_clock_now_ns() reads on this machine, for people. */
#ifndef WEIR_PLATFORM_CLOCK_SOURCE_H
#define WEIR_PLATFORM_CLOCK_SOURCE_H

/* A static string. Reads a file of the kernel. */
const char *clock_source(void);

#endif
