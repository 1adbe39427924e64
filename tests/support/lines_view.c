/* SPDX-License-Identifier: MIT */
#include "lines_view.h"

#include <assert.h>

#include "limiter/line.h"

size_t lines_view(const struct lines *lines, uint64_t id, const struct waiter **waiters,
                  size_t most)
{
    const struct line *line = line_find(lines, id);
    size_t count = 0;
    assert(line == NULL || line->first != NULL); // an empty one is closed
    for (const struct waiter *at = line != NULL ? line->first : NULL; at != NULL; at = at->next) {
        assert(at->line == line && count < most);
        waiters[count++] = at;
    }
    assert(line == NULL || line->count == count);
    return count;
}
