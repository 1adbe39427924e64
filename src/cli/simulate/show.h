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

/* The beginning of an SVG with `panels` pictures, each of them, and its end. */
void svg_begin(FILE *file, size_t panels);
void svg_panel(FILE *file, size_t panel, const struct simulate *simulate, const struct lane *lane,
               const struct picture *picture, struct picture_range range);
void svg_end(FILE *file);

#endif
