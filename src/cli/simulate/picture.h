/* SPDX-License-Identifier: MIT
 *
 * The course of a level over time, as lines and marks: what a terminal and an SVG draw. Here numbers
 * are doubles; nothing is decided by them. */
#ifndef WEIR_CLI_SIMULATE_PICTURE_H
#define WEIR_CLI_SIMULATE_PICTURE_H

#include "cli/simulate/simulate.h"

enum { PICTURE_SAMPLES = 256, PICTURE_POINTS_MAX = 4 * KEPT_COUNT_MAX + 2 * PICTURE_SAMPLES };

/* Which stretch of time is drawn, the same for all limits. */
struct picture_range {
    uint64_t from_ns, to_ns;
};

struct picture_point {
    double at; // 0 .. 1 of the range
    double level;
};

/* Arrivals, and what leaves a queue, at one place or over a width. Counts are doubles: a mark may lie
 * in two columns. */
struct picture_mark {
    double at, width;
    double admitted, refused, full, leaving;
};

/* Of one key, a picture shows the level; of several, how many came. */
struct picture {
    bool shows_level;
    double capacity;
    double top; // of everything drawn: at least the capacity
    size_t point_count, mark_count;
    struct picture_point points[PICTURE_POINTS_MAX];
    struct picture_mark marks[2 * KEPT_COUNT_MAX];
};

/* From zero where a recording counts from there; until the last bucket is empty where that is soon. */
struct picture_range picture_range(const struct simulate *simulate);

/* Draws one lane. False if there is no memory to ask libweir once more. About 330 KiB: not on a stack. */
bool picture_draw(struct picture *picture, const struct simulate *simulate, const struct lane *lane,
                  struct picture_range range);

/* The same in so many columns: the highest level and the sum of the marks in each. */
struct picture_column {
    double level;
    double admitted, refused, full, leaving;
};
void picture_columns(const struct picture *picture, struct picture_column *columns, size_t count);

/* How long a bar of those who came is, in seconds. */
double picture_bar_s(const struct picture *picture, struct picture_range range);

#endif
