/* SPDX-License-Identifier: MIT
 *
 * Lengths of time as people read them; core/quantity.h reads how they write them. */
#ifndef WEIR_CLI_DURATION_H
#define WEIR_CLI_DURATION_H

#include <stddef.h>
#include <stdint.h>

#include "core/time_units.h"
#include "weir/decision.h"

enum { DURATION_TEXT_MAX = WEIR_AMOUNT_TEXT_MAX + 8 };

/* For people, rounded up to about three digits, so that whoever waits that long has waited long
 * enough: "78 ms", "1.26 s", "14 h 24 min", "0 s". Returns `text`. */
const char *duration_print_up(uint64_t ns, char text[DURATION_TEXT_MAX]);

/* The same, but to the nearest; for what was measured. */
const char *duration_print_near(uint64_t ns, char text[DURATION_TEXT_MAX]);

/* Exactly, in the largest unit that it fills: "10 ms", "100/3 ms", "14.4 h". Returns `text`. */
const char *duration_print_exact(const struct weir_amount *ns, char text[DURATION_TEXT_MAX]);

#endif
