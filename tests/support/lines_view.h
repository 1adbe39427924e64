/* SPDX-License-Identifier: MIT
 *
 * Who stands in a line, for tests that look at all of it. A file of its own because the table calls its
 * cache lines lines too. */
#ifndef WEIR_TESTS_LINES_VIEW_H
#define WEIR_TESTS_LINES_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "limiter/lines/lines.h"

/* One who stands there: a waiter, or a part of one; where processes share the lines, one of ours.
 *   turn  its place in the order of arrival */
struct lines_place {
    const struct waiter *waiter;
    uint64_t turn;
};

/* Writes down who stands in the line of this bucket, from the head on: at most `most`. Returns how
 * many; 0 if there is no line. */
size_t lines_view(const struct lines *lines, uint64_t id, struct lines_place *places, size_t most);

#endif
