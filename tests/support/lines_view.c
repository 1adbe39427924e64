/* SPDX-License-Identifier: MIT */
#include "lines_view.h"

#include <assert.h>

#include "limiter/shared_lines/shared_room.h"

static size_t view_shared(const struct shared_lines *shared, uint64_t id,
                          struct lines_place *places, size_t most)
{
    uint32_t place = room_find(shared, id);
    const struct shared_line *line = place != 0 ? shared_line_at(shared, place) : NULL;
    size_t count = 0;
    assert(line == NULL || line->first != 0); // an empty one is closed
    for (uint32_t at = line != NULL ? line->first : 0; at != 0; at = ticket_at(shared, at)->next) {
        assert(ticket_at(shared, at)->line == place && count < most);
        places[count++] =
            (struct lines_place){shared->own[at - 1].waiter, ticket_at(shared, at)->turn};
    }
    assert(line == NULL || line->count == count);
    return count;
}

size_t lines_view(const struct lines *lines, uint64_t id, struct lines_place *places, size_t most)
{
    if (lines->shared != NULL) {
        return view_shared(lines->shared, id, places, most);
    }
    const struct line *line = line_find(lines, id);
    size_t count = 0;
    assert(line == NULL || line->first != NULL); // an empty one is closed
    for (const struct waiter *at = line != NULL ? line->first : NULL; at != NULL; at = at->next) {
        assert(at->line == line && count < most);
        places[count++] = (struct lines_place){at, at->turn};
    }
    assert(line == NULL || line->count == count);
    return count;
}
