/* SPDX-License-Identifier: MIT
 *
 * The course of a level over time, as lines and marks: what a terminal and an SVG draw. Here numbers
 * are doubles; nothing is decided by them. */
#ifndef WEIR_CLI_SIMULATE_PICTURE_H
#define WEIR_CLI_SIMULATE_PICTURE_H

#include "cli/simulate/axis.h"
#include "cli/simulate/simulate.h"

enum { PICTURE_SAMPLES = 256, PICTURE_POINTS_MAX = 9 * (KEPT_COUNT_MAX + PICTURE_SAMPLES) };

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

/* What a picture is of: how many came; or the level of one key under one limit.
 *   watched  whose level; NULL: of the only key that there is */
struct scene {
    const struct lane *lane;
    bool shows_level;
    const struct watched *watched;
    size_t limit; // of the lane's list
};

struct picture {
    struct scene scene;
    const struct course *course; // what it is of
    double capacity;
    double top; // of everything drawn: at least the capacity
    size_t point_count, mark_count;
    struct picture_point points[PICTURE_POINTS_MAX];
    struct picture_mark marks[2 * KEPT_COUNT_MAX];
};

/* From zero where a recording counts from there; until the last bucket is empty where that is soon. */
struct picture_range picture_range(const struct simulate *simulate);

enum { SCENE_COUNT_MAX = 1 + LIMIT_LIST_COUNT_MAX };

/* What is drawn of a lane: how many came, where there are several keys or limits; and under each limit the level of
 * the only key, or of the one that the lane watches. Returns how many scenes that is. */
size_t picture_scenes(const struct simulate *simulate, const struct lane *lane,
                      struct scene scenes[SCENE_COUNT_MAX]);

/* Draws one of them. False if there is no memory to ask libweir once more. About 500 KiB: not on a stack. */
bool picture_draw(struct picture *picture, const struct simulate *simulate,
                  const struct scene *scene, struct picture_range range);

/* What of a picture's arrivals was refused is by its own limit only, for others refused as well. */
static inline bool scene_is_of_list(const struct scene *scene)
{
    return scene->shows_level && lane_is_list(scene->lane);
}

/* The same in so many columns: the highest level and the sum of the marks in each. */
struct picture_column {
    double level;
    double admitted, refused, full, leaving;
};
void picture_columns(const struct picture *picture, struct picture_column *columns, size_t count);

/* How many came at most, for the axis: so many in so many seconds; of a recording of one instant, which has no rate,
 * how many came at all. Returns `text`. */
const char *picture_top_text(const struct simulate *simulate, double count, double seconds,
                             char text[AXIS_RATE_MAX]);

/* How long a bar of those who came is, in seconds. */
double picture_bar_s(const struct picture *picture, struct picture_range range);

#endif
