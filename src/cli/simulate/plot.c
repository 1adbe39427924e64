/* SPDX-License-Identifier: MIT
 *
 * A picture in characters: the level as a filled shape, and under it a row that says what happened to
 * those who came. A terminal that can shows eighths of a character; anything else gets ASCII, always
 * as wide. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/simulate/axis.h"
#include "cli/simulate/show.h"

enum {
    ROWS = 8,
    LABEL_WIDTH = 10, // of the numbers on the left, and a space
    WIDTH = 80,
    WIDTH_MAX = 240,
    WIDTH_MIN = 40,
    TICKS_MAX = 5
};

/* What a cell of the shape is filled with, from empty to full. */
struct brush {
    unsigned steps; // in one character
    const char *fill[9];
    const char *line, *corner;
};

static const struct brush ASCII = {2, {" ", ".", "#"}, "|", "+"};
static const struct brush BLOCKS = {8, {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, "│", "└"};

static bool terminal_is_utf8(void)
{
    static const char *const NAMES[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const char *value = getenv(NAMES[i]);
        if (value != NULL && value[0] != '\0') { // the first that is set decides
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

static size_t terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0
        || size.ws_col == 0) {
        return WIDTH;
    }
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col > WIDTH_MAX ? WIDTH_MAX : size.ws_col;
}

/* The number at the left of a row: the top and the bottom have one. */
static void print_label(const struct picture *picture, unsigned row, const struct brush *brush)
{
    if (row == ROWS - 1) {
        (void)printf("%*.9g %s", LABEL_WIDTH - 1, picture->top, brush->line);
    } else {
        (void)printf("%*s%s", LABEL_WIDTH, "", brush->line);
    }
}

static void print_level(const struct picture *picture, const struct picture_column *columns,
                        size_t count, const struct brush *brush)
{
    for (unsigned row = ROWS; row-- > 0;) {
        print_label(picture, row, brush);
        size_t used = count; // no spaces at the end of a line
        double below = picture->top * row / ROWS;
        while (used > 0 && columns[used - 1].level <= below) {
            used--;
        }
        for (size_t i = 0; i < used; i++) {
            double part = (columns[i].level - below) / picture->top * ROWS;
            double steps = ceil(part * brush->steps - 1e-6); // whatever there is, is seen
            (void)fputs(brush->fill[(unsigned)fmin(fmax(steps, 0), brush->steps)], stdout);
        }
        (void)putchar('\n');
    }
    (void)printf("%*s%s\n", LABEL_WIDTH, "0 ", brush->corner);
}

/* How many came: admitted below, refused on top of them. */
static void print_traffic(const struct simulate *simulate, const struct picture_column *columns,
                          size_t count, double per_column_s, const struct colours *colours)
{
    char rate[AXIS_RATE_MAX];
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double all = columns[i].admitted + columns[i].refused;
        most = all > most ? all : most;
    }
    for (unsigned row = ROWS; row-- > 0;) {
        if (row == ROWS - 1) {
            (void)printf("%*s |", LABEL_WIDTH - 1,
                         picture_top_text(simulate, most, per_column_s, rate));
        } else {
            (void)printf("%*s|", LABEL_WIDTH, "");
        }
        size_t spaces = 0; // none at the end of a line
        for (size_t i = 0; i < count; i++) {
            double admitted = columns[i].admitted / most * ROWS;
            double all = admitted + columns[i].refused / most * ROWS;
            double height = row == 0 ? 0 : row + 0.5; // whatever came is seen in the lowest row
            bool is_admitted = admitted > height;
            if (!is_admitted && all <= height) {
                spaces++;
                continue;
            }
            (void)printf("%*s%s%c%s", (int)spaces, "", is_admitted ? colours->good : colours->bad,
                         is_admitted ? '#' : 'x', colours->plain);
            spaces = 0;
        }
        (void)putchar('\n');
    }
    (void)printf("%*s+\n", LABEL_WIDTH, "0 ");
}

struct sign {
    char c;
    const char *colour;
};

static struct sign sign_of(const struct picture_column *column, const struct colours *colours)
{
    if (column->full > 0) {
        return (struct sign){'!', colours->bad};
    }
    if (column->refused > 0) {
        return (struct sign){column->admitted > 0 ? '%' : 'x', colours->bad};
    }
    return column->admitted > 0 ? (struct sign){'+', colours->good} : (struct sign){' ', ""};
}

static void print_arrivals(const struct picture_column *columns, size_t count,
                           const struct colours *colours)
{
    (void)printf("%*s ", LABEL_WIDTH, "");
    size_t used = count;
    while (used > 0 && sign_of(&columns[used - 1], colours).c == ' ') {
        used--;
    }
    for (size_t i = 0; i < used; i++) {
        struct sign sign = sign_of(&columns[i], colours);
        (void)printf("%s%c%s", sign.colour, sign.c, sign.colour[0] != '\0' ? colours->plain : "");
    }
    (void)putchar('\n');
}

/* When those go who stand in line. */
static bool print_leaving(const struct picture_column *columns, size_t count)
{
    size_t used = count;
    while (used > 0 && columns[used - 1].leaving == 0) {
        used--;
    }
    if (used == 0) {
        return false;
    }
    (void)printf("%*s ", LABEL_WIDTH, "");
    for (size_t i = 0; i < used; i++) {
        (void)putchar(columns[i].leaving > 0 ? '>' : ' ');
    }
    (void)putchar('\n');
    return true;
}

static void print_times(struct picture_range range, size_t count)
{
    char line[WIDTH_MAX + DURATION_TEXT_MAX + 1];
    uint64_t range_ns = range.to_ns - range.from_ns;
    uint64_t step_ns = axis_step(range_ns, TICKS_MAX);
    size_t end = 0;
    memset(line, ' ', sizeof line);
    for (uint64_t ns = 0; ns <= range_ns; ns += step_ns) {
        char text[DURATION_TEXT_MAX];
        const char *label = axis_text(ns, text);
        size_t at = (size_t)((double)ns / (double)range_ns * (double)count);
        size_t length = strlen(label);
        at = at + length <= count ? at : count - length; // the last one ends with the line
        if (at >= end) {
            memcpy(line + at, label, length);
            end = at + length + 1;
        }
    }
    (void)printf("%*s %.*s\n", LABEL_WIDTH, "", end > 0 ? (int)end - 1 : 0, line);
}

static void print_legend(const struct simulate *simulate, const struct picture *picture,
                         const struct picture_column *columns, size_t count, bool has_leaving)
{
    const struct colours colours = {"", "", "", "", ""};
    bool has_full = false;
    bool has_both = false;
    bool has_refused = false;
    for (size_t i = 0; i < count; i++) {
        char sign = sign_of(&columns[i], &colours).c;
        has_both |= sign == '%';
        has_refused |= sign == 'x';
        has_full |= sign == '!';
    }
    const char *missed = lane_missed_words(simulate, picture->scene.lane)->word;
    const char *by = scene_is_of_list(&picture->scene) ? " by it" : "";
    (void)printf("%*s ", LABEL_WIDTH, "");
    (void)printf("+ %s", simulate->fill ? "filled" : "admitted");
    if (has_refused) {
        (void)printf("  x %s%s", missed, by);
    }
    if (has_both) {
        (void)printf("  %% some %s%s", missed, by);
    }
    if (has_full) {
        (void)printf("  ! full");
    }
    (void)printf(has_leaving ? "  > leaves the line\n" : "\n");
}

void plot_print(const struct simulate *simulate, const struct picture *picture,
                struct picture_range range)
{
    struct picture_column columns[WIDTH_MAX];
    struct colours colours = colours_of_output();
    const struct brush *brush = isatty(STDOUT_FILENO) && terminal_is_utf8() ? &BLOCKS : &ASCII;
    size_t count = terminal_width() - LABEL_WIDTH - 2;
    picture_columns(picture, columns, count);
    if (!picture->scene.shows_level) {
        double range_s = (double)(range.to_ns - range.from_ns) / (double)NS_PER_S;
        print_traffic(simulate, columns, count, range_s / (double)count, &colours);
        print_times(range, count);
        (void)printf("%*s # %s  x %s\n", LABEL_WIDTH, "", simulate->fill ? "filled" : "admitted",
                     lane_missed_words(simulate, picture->scene.lane)->word);
        return;
    }
    print_level(picture, columns, count, brush);
    print_arrivals(columns, count, &colours);
    bool has_leaving = print_leaving(columns, count);
    print_times(range, count);
    print_legend(simulate, picture, columns, count, has_leaving);
}
