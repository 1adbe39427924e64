/* SPDX-License-Identifier: MIT
 *
 * Round instants for the axis of time. */
#ifndef WEIR_CLI_SIMULATE_AXIS_H
#define WEIR_CLI_SIMULATE_AXIS_H

#include <stdint.h>

#include "cli/duration.h"

/* The smallest round step of time, such as 200 ms or 15 min, that fits at most `count_max` times into
 * a range. Pure. */
uint64_t axis_step(uint64_t range_ns, unsigned count_max);

/* "1.5 s": an instant on the axis. Returns `text`, or "0". */
const char *axis_text(uint64_t ns, char text[DURATION_TEXT_MAX]);

/* "2080/s", "1.5M/s": how many come, to three digits. Returns `text`. */
enum { AXIS_RATE_MAX = 32 };
const char *axis_rate(double per_s, char text[AXIS_RATE_MAX]);

#endif
