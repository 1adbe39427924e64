/* SPDX-License-Identifier: MIT
 *
 * Stands in for src/sync/mutex.h when the explorer compiles the table (explore_memory.c). */
#ifndef WEIR_SYNC_MUTEX_H
#define WEIR_SYNC_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

struct mutex {
    uint64_t holder; // 0: open; otherwise the thread, from 1
};

/* Always false: in these walks nobody dies (tests/processes/ kills at every instruction). */
bool mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);

#endif
