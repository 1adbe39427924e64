/* SPDX-License-Identifier: MIT
 *
 * The units of time, in nanoseconds. */
#ifndef WEIR_CORE_TIME_UNITS_H
#define WEIR_CORE_TIME_UNITS_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct time_unit {
    const char *name;
    uint64_t ns;
};

/* From the longest to the shortest: w d h min s ms us ns. */
enum { TIME_UNIT_COUNT = 8 };
extern const struct time_unit TIME_UNITS[TIME_UNIT_COUNT];

#endif
