/* SPDX-License-Identifier: MIT
 *
 * Rejection-inversion (W. Hörmann, G. Derflinger, 1996): a point under the smooth curve x^-skew is
 * drawn by inverting its integral, and rounded to a rank; the few points that belong to no bar of
 * the histogram are drawn again. Constant time and memory, for any count and skew. */
#include "cli/bench/zipf.h"

#include <math.h>

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double curve(double x, double skew)
{
    return exp(-skew * log(x));
}

/* The integral of the curve from 1 to x: (x^(1-skew) - 1) / (1-skew), or log x at skew 1. */
static double area(double x, double skew)
{
    double exponent = 1.0 - skew;
    double log_x = log(x);
    return fabs(exponent) < 1e-9 ? log_x : expm1(exponent * log_x) / exponent;
}

static double area_inverse(double a, double skew)
{
    double exponent = 1.0 - skew;
    if (fabs(exponent) < 1e-9) {
        return exp(a);
    }
    double inner = a * exponent;
    return exp(log1p(inner < -1.0 ? -1.0 : inner) / exponent); // below -1 only by rounding
}

void zipf_init(struct zipf *zipf, uint64_t count, double skew)
{
    *zipf = (struct zipf){.count = count, .skew = skew};
    zipf->area_first = area(1.5, skew) - 1.0; // the bar of rank 1 has area 1
    zipf->area_end = area((double)count + 0.5, skew);
    zipf->shortcut = 2.0 - area_inverse(area(2.5, skew) - curve(2.0, skew), skew);
}

uint64_t zipf_next(const struct zipf *zipf, uint64_t *random_state)
{
    if (zipf->skew <= 0.0) { // the high half of a product: a fair share of 0 .. count - 1
        return (random_next(random_state) >> 32) * zipf->count >> 32;
    }
    for (;;) {
        double uniform = (double)(random_next(random_state) >> 11) * 0x1p-53;
        double a = zipf->area_end + uniform * (zipf->area_first - zipf->area_end);
        double x = area_inverse(a, zipf->skew);
        double rank = floor(x + 0.5);
        rank = rank < 1.0 ? 1.0 : rank > (double)zipf->count ? (double)zipf->count : rank;
        if (rank - x <= zipf->shortcut
            || a >= area(rank + 0.5, zipf->skew) - curve(rank, zipf->skew)) {
            return (uint64_t)rank - 1;
        }
    }
}
