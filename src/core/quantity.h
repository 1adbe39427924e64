/* SPDX-License-Identifier: MIT
 *
 * Numbers as a person writes them in an option or a URL: "256M", "10s", "4". */
#ifndef WEIR_CORE_QUANTITY_H
#define WEIR_CORE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* Whole decimal digits, `min` .. `max`. Thread-safe, as all of these; on failure *value is as it
 * was. */
bool quantity_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* Digits and one of K M G T (powers of 1024; "KiB" and "k" too), or bare bytes. */
bool quantity_parse_bytes(const char *text, uint64_t *bytes);

/* Digits and one of ns us ms s min h d; or a bare 0. At most QUANTITY_DURATION_NS_MAX. */
bool quantity_parse_duration(const char *text, uint64_t *duration_ns);

#define QUANTITY_DURATION_NS_MAX (UINT64_C(366) * 86400 * 1000000000)

/* Octal digits, at most 0777. */
bool quantity_parse_mode(const char *text, unsigned *mode);

#endif
