/* SPDX-License-Identifier: MIT
 *
 * How pictures are shown: on the terminal, and as SVG. */
#ifndef WEIR_CLI_SIMULATE_SHOW_H
#define WEIR_CLI_SIMULATE_SHOW_H

#include <stdio.h>

#include "cli/simulate/picture.h"

/* One lane's picture in characters, to standard output. */
void plot_print(const struct simulate *simulate, const struct picture *picture,
                struct picture_range range);

/* A file with pictures below one another: its beginning, each of them, and its end. */
struct svg {
    FILE *file;
    const struct simulate *simulate;
    struct picture_range range;
    size_t panel_count; // so far
};
void svg_begin(const struct svg *svg, size_t panels);
void svg_panel(struct svg *svg, const struct picture *picture);
void svg_end(const struct svg *svg);

#endif
