/* SPDX-License-Identifier: MIT
 *
 * What the tests here share: a table in a file that is gone when they end, and what must be true of it
 * once its stripes have been locked again. */
#ifndef WEIR_TESTS_PROCESSES_WORLD_H
#define WEIR_TESTS_PROCESSES_WORLD_H

#include <stdint.h>

#include "sharing.h"
#include "store/table/places.h"

/* Opens a new file for a clock of the caller's, and removes its name. */
struct table *world_open(uint64_t bytes);

/* In a child that uses the table by itself: joins as a member of its own, as the store does. */
void world_join(struct table *table);

struct weir_rule world_rule(const char *limit);

uint64_t world_random(uint64_t *state);

/* Locks every stripe once, as an insertion does, so that the heirs of the dead do their duty. */
void world_lock_all(struct table *table);

/* Ends the test if a slot is not its tag's or still marked, if a key has two slots, or a counter is wrong. */
void world_check(const struct table *table);

#endif
