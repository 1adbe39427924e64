/* SPDX-License-Identifier: MIT
 *
 * What protocols have to know of several limits that are decided together, before anything is. */
#ifndef WEIR_LIMITER_TOGETHER_H
#define WEIR_LIMITER_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/limiter.h"

/* True if two of the requests are about one bucket, the same limit and the same key: the later of
 * them and the earlier. In the order of the requests, the first such pair. */
bool together_find_twice(const struct weir_request *requests, size_t count, size_t *later,
                         size_t *earlier);

#endif
