/* SPDX-License-Identifier: MIT
 *
 * A picture as SVG: one panel per limit under one another, legible on light and dark grounds, the
 * same bytes for the same arrivals. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/simulate/axis.h"
#include "cli/simulate/show.h"

enum {
    WIDTH = 760,
    LEFT = 76, // room for the names of the rows
    PLOT_WIDTH = 660,
    RIGHT = LEFT + PLOT_WIDTH,
    TITLE_Y = 22,
    TOP = 34,
    BOTTOM = TOP + 150,
    ROW_HEIGHT = 14,
    ROW_COUNT = 3,
    ROWS_TOP = BOTTOM + 8,
    ROWS_BOTTOM = ROWS_TOP + ROW_COUNT * ROW_HEIGHT,
    PANEL_HEIGHT = ROWS_BOTTOM + 30,
    MARK_HEIGHT_MIN = 3,
    KEY_SHOWN_MAX = 40,
    LIMITS_SHOWN_MAX = 60,
    TICKS_MAX = 8
};

static const char STYLE[] =
    "<style>\n"
    "text{font:12px system-ui,sans-serif;fill:#24292f}\n"
    ".title{font-weight:600;font-size:14px}.end{text-anchor:end}.middle{text-anchor:middle}\n"
    ".small{font-size:11px;fill:#57606a}\n"
    ".paper{fill:#fff}.axis{stroke:#8c959f;fill:none}.grid{stroke:#d8dee4;fill:none}\n"
    ".capacity{stroke:#bc4c00;stroke-dasharray:6 4;fill:none}\n"
    ".area{fill:#0969da;fill-opacity:.18}.level{stroke:#0969da;stroke-width:1.5;fill:none}\n"
    ".admitted{fill:#1a7f37}.refused{fill:#cf222e}.leaves{fill:#8250df}\n"
    ".full{fill:#cf222e;stroke:#fff}\n"
    "@media(prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.small{fill:#9198a1}.paper{fill:#0d1117}\n"
    ".axis{stroke:#6e7681}.grid{stroke:#30363d}.capacity{stroke:#f0883e}\n"
    ".area{fill:#4493f8;fill-opacity:.25}.level{stroke:#4493f8}\n"
    ".admitted{fill:#3fb950}.refused{fill:#f85149}.leaves{fill:#ab7df8}\n"
    ".full{fill:#f85149;stroke:#0d1117}}\n"
    "</style>\n";

void svg_begin(const struct svg *svg, size_t panels)
{
    size_t height = panels * PANEL_HEIGHT;
    (void)fprintf(svg->file,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %zu\" width=\"%d\""
                  " height=\"%zu\">\n%s<rect class=\"paper\" width=\"%d\" height=\"%zu\"/>\n",
                  WIDTH, height, WIDTH, height, STYLE, WIDTH, height);
}

void svg_end(const struct svg *svg)
{
    (void)fputs("</svg>\n", svg->file);
}

/* A tenth of a pixel is fine enough, and makes short texts. */
static double tenth(double value)
{
    return round(value * 10) / 10;
}

static double x_of(double at)
{
    return tenth(LEFT + at * PLOT_WIDTH);
}

/* `part` of the full height. */
static double y_of(double part)
{
    return tenth(BOTTOM - part * (BOTTOM - TOP));
}

/* ", 3 refused" in the colour of its marks. */
static void print_count(FILE *file, const char *class, uint64_t count, const char *word)
{
    (void)fprintf(file, ", <tspan class=\"%s\">%" PRIu64 " %s</tspan>", class, count, word);
}

/* A key is strangers' text; a long one is cut, for there is room for so much beside the counts. */
static void print_cut(FILE *file, const char *text, size_t shown_max)
{
    size_t shown = 0; // characters: what follows the first byte of one is 10xxxxxx
    for (; text[0] != '\0'; text++) {
        shown += ((unsigned char)text[0] & 0xc0) != 0x80;
        if (shown > shown_max) {
            (void)fputs("...", file);
            return;
        }
        switch (text[0]) {
        case '<': (void)fputs("&lt;", file); break;
        case '>': (void)fputs("&gt;", file); break;
        case '&': (void)fputs("&amp;", file); break;
        default: (void)fputc(text[0], file); break;
        }
    }
}

/* The limits, or whose level it is, and under which of them. */
static void print_name(FILE *file, const struct scene *scene)
{
    const struct watched *watched = scene->watched;
    (void)fprintf(file, "<text class=\"title\" x=\"%d\" y=\"%d\">", LEFT, TITLE_Y);
    if (watched != NULL) {
        (void)fputs("level of ", file);
        print_cut(file, watched->key.text, KEY_SHOWN_MAX);
        (void)fputs(scene_is_of_list(scene) ? "" : watched->why, file);
    }
    if (scene_is_of_list(scene)) {
        (void)fputs(watched != NULL ? " under " : "level under ", file);
        print_cut(file, scene->lane->tried[scene->limit].text, KEY_SHOWN_MAX);
    } else if (watched == NULL) {
        print_cut(file, scene->lane->text, LIMITS_SHOWN_MAX);
    }
    (void)fputs("</text>\n", file);
}

/* Those who were turned away, by what happened to them. */
static void print_turned_away(FILE *file, const struct tally *tally)
{
    static const char *const WORDS[VERDICT_COUNT] = {
        [WEIR_NEVER] = "never", [WEIR_BLOCKED] = "blocked", [WEIR_FAILED] = "no room"};
    for (int i = WEIR_NEVER; i <= WEIR_FAILED; i++) {
        if (tally->of[i].count > 0) {
            print_count(file, "refused", tally->of[i].count, WORDS[i]);
        }
    }
}

/* By one limit of a list. */
static void print_by_it(FILE *file, const struct simulate *simulate, const struct picture *picture)
{
    const uint64_t *by = picture->course->tally.by[picture->scene.limit];
    (void)fprintf(file, ", <tspan class=\"refused\">%" PRIu64 " %s by it</tspan>",
                  by[WEIR_LIMITED] + by[WEIR_NEVER] + by[WEIR_BLOCKED] + by[WEIR_FAILED],
                  lane_missed_words(simulate, picture->scene.lane)->word);
}

/* What came of it, in the words of the report and the colours of the marks: the legend. */
static void print_counts(FILE *file, const struct simulate *simulate, const struct picture *picture)
{
    const struct tally *tally = &picture->course->tally;
    (void)fprintf(file,
                  "<text class=\"small end\" x=\"%d\" y=\"%d\">"
                  "<tspan class=\"admitted\">%" PRIu64 " %s</tspan>",
                  RIGHT, TITLE_Y, tally->of[WEIR_ALLOWED].count,
                  simulate->fill ? "filled" : "admitted");
    if (tally->unchecked > 0) {
        (void)fprintf(file, ", %" PRIu64 " unchecked", tally->unchecked);
    }
    if (scene_is_of_list(&picture->scene)) {
        print_by_it(file, simulate, picture);
    } else if (simulate->fill) {
        if (tally->spilled > 0) {
            print_count(file, "refused", tally->spilled, "spilled");
        }
        (void)fprintf(file, ", %" PRIu64 " full", tally->full);
        print_turned_away(file, tally);
    } else {
        print_count(file, "refused", tally->of[WEIR_LIMITED].count, "refused");
        print_turned_away(file, tally);
    }
    (void)fputs("</text>\n", file);
}

static void print_axes(FILE *file, struct picture_range range)
{
    uint64_t range_ns = range.to_ns - range.from_ns;
    uint64_t step_ns = axis_step(range_ns, TICKS_MAX);
    for (uint64_t ns = 0; ns <= range_ns; ns += step_ns) {
        char text[DURATION_TEXT_MAX];
        double x = x_of((double)ns / (double)range_ns);
        (void)fprintf(file,
                      "<path class=\"grid\" d=\"M%g %dV%d\"/>\n"
                      "<text class=\"small middle\" x=\"%g\" y=\"%d\">%s</text>\n",
                      x, TOP, ROWS_BOTTOM, x, ROWS_BOTTOM + 16, axis_text(ns, text));
    }
    (void)fprintf(file,
                  "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n"
                  "<text class=\"end\" x=\"%d\" y=\"%d\">0</text>\n",
                  LEFT, TOP, BOTTOM, RIGHT, LEFT - 8, BOTTOM + 4);
}

/* ---- The level ---- */

static void print_capacity(FILE *file, const struct picture *picture)
{
    double y = y_of(picture->capacity / picture->top);
    (void)fprintf(file,
                  "<path class=\"capacity\" d=\"M%d %gH%d\"/>\n"
                  "<text class=\"end\" x=\"%d\" y=\"%g\">%.9g</text>\n",
                  LEFT, y, RIGHT, LEFT - 8, y + 4, picture->capacity);
}

static void print_points(FILE *file, const struct picture *picture, char first)
{
    for (size_t i = 0; i < picture->point_count; i++) {
        const struct picture_point *point = &picture->points[i];
        (void)fprintf(file, "%c%g %g", i == 0 ? first : 'L', x_of(point->at),
                      y_of(point->level / picture->top));
    }
}

static void print_level(FILE *file, const struct picture *picture)
{
    double begin = x_of(picture->points[0].at);
    double end = x_of(picture->points[picture->point_count - 1].at);
    (void)fprintf(file, "<path class=\"area\" d=\"M%g %d", begin, BOTTOM);
    print_points(file, picture, 'L');
    (void)fprintf(file, "L%g %dz\"/>\n<path class=\"level\" d=\"", end, BOTTOM);
    print_points(file, picture, 'M');
    (void)fputs("\"/>\n", file);
}

static double number_of(const struct picture_column *column, size_t row)
{
    return row == 0 ? column->admitted : row == 1 ? column->refused : column->leaving;
}

/* One row of marks, each as high as it counts beside the largest of all rows. */
static void print_row(FILE *file, const struct picture_column *columns, size_t row,
                      const char *name, const char *class, double largest)
{
    bool begun = false;
    int y = ROWS_TOP + ((int)row + 1) * ROW_HEIGHT - 2;
    for (int i = 0; i < PLOT_WIDTH; i++) {
        double number = number_of(&columns[i], row);
        if (number <= 0) {
            continue;
        }
        int height = (int)((ROW_HEIGHT - 4) * number / largest);
        height = height < MARK_HEIGHT_MIN ? MARK_HEIGHT_MIN : height;
        if (!begun) {
            (void)fprintf(file,
                          "<text class=\"small end\" x=\"%d\" y=\"%d\">%s</text>\n"
                          "<path class=\"%s\" d=\"",
                          LEFT - 8, y - 1, name, class);
            begun = true;
        }
        (void)fprintf(file, "M%d %dv-%dh1.5v%dz", LEFT + i, y, height, height);
    }
    if (begun) {
        (void)fputs("\"/>\n", file);
    }
}

static void print_marks(FILE *file, const struct simulate *simulate, const struct picture *picture)
{
    const char *const names[ROW_COUNT] = {
        simulate->fill ? "filled" : "admitted",
        lane_missed_words(simulate, picture->scene.lane)->label,
        "leaves",
    };
    static const char *const CLASSES[ROW_COUNT] = {"admitted", "refused", "leaves"};
    struct picture_column columns[PLOT_WIDTH];
    double largest = 0;
    picture_columns(picture, columns, PLOT_WIDTH);
    for (size_t i = 0; i < (size_t)PLOT_WIDTH * ROW_COUNT; i++) {
        largest = fmax(largest, number_of(&columns[i / ROW_COUNT], i % ROW_COUNT));
    }
    for (size_t row = 0; row < ROW_COUNT; row++) {
        print_row(file, columns, row, names[row], CLASSES[row], largest);
    }
    for (int i = 0; i < PLOT_WIDTH; i++) {
        if (columns[i].full > 0) {
            (void)fprintf(file, "<circle class=\"full\" cx=\"%d\" cy=\"%g\" r=\"4\"/>\n", LEFT + i,
                          y_of(picture->capacity / picture->top));
        }
    }
}

/* ---- How many came ---- */

/* A bar for each stretch of time: admitted below, refused on top of them. */
static void print_bars(FILE *file, const struct picture *picture, bool refused, double most)
{
    (void)fprintf(file, "<path class=\"%s\" d=\"", refused ? "refused" : "admitted");
    for (size_t i = 0; i < picture->mark_count; i++) {
        const struct picture_mark *mark = &picture->marks[i];
        double from = refused ? mark->admitted : 0;
        double to = from + (refused ? mark->refused : mark->admitted);
        if (to > from) {
            (void)fprintf(file, "M%g %gV%gH%gV%gz", x_of(mark->at), y_of(from / most),
                          y_of(to / most), x_of(mark->at + mark->width), y_of(from / most));
        }
    }
    (void)fputs("\"/>\n", file);
}

static void print_traffic(FILE *file, const struct simulate *simulate,
                          const struct picture *picture, struct picture_range range)
{
    char rate[AXIS_RATE_MAX];
    double most = 1;
    for (size_t i = 0; i < picture->mark_count; i++) {
        most = fmax(most, picture->marks[i].admitted + picture->marks[i].refused);
    }
    print_bars(file, picture, false, most);
    print_bars(file, picture, true, most);
    (void)fprintf(file, "<text class=\"end\" x=\"%d\" y=\"%d\">%s</text>\n", LEFT - 8, TOP + 4,
                  picture_top_text(simulate, most, picture_bar_s(picture, range), rate));
}

void svg_panel(struct svg *svg, const struct picture *picture)
{
    FILE *file = svg->file;
    (void)fprintf(file, "<g transform=\"translate(0 %zu)\">\n", svg->panel_count++ * PANEL_HEIGHT);
    print_name(file, &picture->scene);
    print_counts(file, svg->simulate, picture);
    print_axes(file, svg->range);
    if (picture->scene.shows_level) {
        print_capacity(file, picture);
        print_level(file, picture);
        print_marks(file, svg->simulate, picture);
    } else {
        print_traffic(file, svg->simulate, picture, svg->range);
    }
    (void)fputs("</g>\n", file);
}
