/* SPDX-License-Identifier: MIT
 *
 * Instants as recordings write them: a count of seconds (or ms, us, ns), RFC 3339, or the date of an
 * access log. All become whole nanoseconds since 1970, or since whenever a recording counts from. */
#ifndef WEIR_CLI_SIMULATE_INSTANT_H
#define WEIR_CLI_SIMULATE_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

/* "12.5", "1500ms", "2026-11-21T10:24:48.5+01:00". A plain number counts 10^`unit_power` ns: 9 for
 * seconds. Finer than a nanosecond is refused, unless it is zeroes; so is what is later than
 * WEIR_NOW_NS_MAX. Returns NULL, or why it is none. Pure. */
const char *instant_parse(uint64_t *at_ns, struct bytes text, unsigned unit_power);

/* What it says of a text that is not written as a time; of one that is, it says what else is wrong. */
extern const char INSTANT_NONE[];

/* "10/Oct/2000:13:55:36 -0700", without its brackets. Likewise. */
const char *instant_parse_log(uint64_t *at_ns, struct bytes text);

/* The power of ten of a unit of time: s 9, ms 6, us 3, ns 0. False for any other word. */
bool instant_unit(unsigned *power, struct bytes name);

/* RFC 3339 in UTC, to the second: "2026-11-21T10:24:48Z". Returns `text`. */
enum { INSTANT_TEXT_MAX = 32 };
const char *instant_print(uint64_t at_ns, char text[INSTANT_TEXT_MAX]);

#endif
