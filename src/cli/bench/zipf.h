/* SPDX-License-Identifier: MIT
 *
 * Random numbers for a load: which key the next request is about. */
#ifndef WEIR_CLI_BENCH_ZIPF_H
#define WEIR_CLI_BENCH_ZIPF_H

#include <stdint.h>

/* splitmix64 (G. Steele, D. Lea, C. Flood, 2014). Any state is a good seed. */
uint64_t random_next(uint64_t *state);

/* Key k of 1 .. count is asked for with a probability proportional to 1 / k^skew; skew 0 is
 * uniform. */
struct zipf {
    uint64_t count;
    double skew;
    double area_first, area_end; // of the curve's integral, where ranks 1 and count end
    double shortcut;
};

void zipf_init(struct zipf *zipf, uint64_t count, double skew);

/* 0 .. count - 1, the most popular first. */
uint64_t zipf_next(const struct zipf *zipf, uint64_t *random_state);

#endif
