/* SPDX-License-Identifier: MIT */
#include "cli/pipe/source.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool source_init(struct source *source, size_t size)
{
    source->at = malloc(size);
    source->size = size;
    return source->at != NULL;
}

void source_fini(struct source *source)
{
    free(source->at);
    source->at = NULL;
}

static const char *find_separator(const struct source *source, size_t from)
{
    return memchr(source_front(source) + from, source->separator, source_length(source) - from);
}

size_t source_rest(const struct source *source)
{
    if (!source->inside || source_length(source) == 0) {
        return 0;
    }
    const char *separator = find_separator(source, 0);
    return separator != NULL ? (size_t)(separator - source_front(source)) + 1
                             : source_length(source);
}

size_t source_item_end(struct source *source, size_t from)
{
    size_t length = source_length(source);
    assert(!source->inside);
    assert(from <= length);
    if (from == length) {
        return 0;
    }
    if (source->by_bytes) {
        return length - from < source->piece_bytes ? length : from + source->piece_bytes;
    }
    /* A line that comes byte by byte must not cost a square: look only at what is new. */
    const char *separator =
        find_separator(source, from == source->last_from ? source->searched : from);
    if (separator != NULL) {
        return (size_t)(separator - source_front(source)) + 1;
    }
    source->last_from = from;
    source->searched = length;
    bool is_longer = from == 0 && length == source->size;
    return source->ended || is_longer ? length : 0;
}

static size_t minus(size_t offset, size_t count)
{
    return offset > count ? offset - count : 0;
}

void source_consume(struct source *source, size_t count)
{
    assert(count > 0 && count <= source_length(source));
    source->begin += count;
    source->inside = !source->by_bytes && source->at[source->begin - 1] != source->separator;
    source->searched = source->last_from < count ? 0 : minus(source->searched, count);
    source->last_from = minus(source->last_from, count);
}

bool source_read(struct source *source)
{
    assert(source_length(source) < source->size);
    if (source->begin > 0 && source->end > source->size / 2) {
        memmove(source->at, source_front(source), source_length(source));
        source->end = source_length(source);
        source->begin = 0;
    }
    ssize_t count = read(source->fd, source->at + source->end, source->size - source->end);
    if (count < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    source->ended = count == 0;
    source->end += (size_t)count;
    return true;
}
