/* SPDX-License-Identifier: MIT
 *
 * Numbers as a person writes them in an option or a URL: "256M", "10s", "4". */
#ifndef WEIR_CORE_QUANTITY_H
#define WEIR_CORE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

/* Whole decimal digits, `min` .. `max`. Thread-safe, as all of these; on failure *value is as it
 * was. */
bool quantity_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* Digits and one of K M G T (powers of 1024; "KiB" and "k" too), or bare bytes. */
bool quantity_parse_bytes(const char *text, uint64_t *bytes);

/* "500ms", "1.5s", "2min": a decimal number and one of ns us ms s min h d w, a whole number of
 * nanoseconds, at most 100 years; a zero needs no unit. Statuses of weir_limit_parse(). */
WEIR_MUST_USE enum weir_status quantity_parse_duration(uint64_t *ns, const char *text,
                                                       struct weir_error *error);

/* Octal digits, at most 0777. */
bool quantity_parse_mode(const char *text, unsigned *mode);

#endif
