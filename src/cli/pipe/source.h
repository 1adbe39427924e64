/* SPDX-License-Identifier: MIT
 *
 * What a pipe reads, cut into items: lines, each with the separator that ends it, or pieces of so
 * many bytes. Bounded: a line longer than the buffer is one item all the same, of which the
 * beginning is handed out first, and the rest as it comes.
 *
 * Offsets count from the front: the first byte that was not consumed. */
#ifndef WEIR_CLI_PIPE_SOURCE_H
#define WEIR_CLI_PIPE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

struct source {
    int fd;
    bool by_bytes;
    char separator;     // of lines
    size_t piece_bytes; // at most, by bytes
    char *at;
    size_t size;
    size_t begin, end; // of what was read and not consumed
    bool ended;        // there will be no more
    bool inside;       // the front is in the middle of a line
    size_t last_from;  // the last line, of which there is no end yet, begins here ..
    size_t searched;   // .. and has none before this
};

/* False if there is no memory. The caller fills fd, by_bytes, separator and piece_bytes. */
bool source_init(struct source *source, size_t size);
void source_fini(struct source *source);

static inline const char *source_front(const struct source *source)
{
    return source->at + source->begin;
}

static inline size_t source_length(const struct source *source)
{
    return source->end - source->begin;
}

/* The rest of a line whose beginning was consumed before, as far as it is here. */
size_t source_rest(const struct source *source);

/* Where the item that begins at `from` ends, or 0 if that has not come yet. The front must not be
 * inside a line. */
size_t source_item_end(struct source *source, size_t from);

/* Forgets the first `count` bytes. */
void source_consume(struct source *source, size_t count);

/* Reads what is there, once: false with errno if that fails; EAGAIN and EINTR are no failure, and
 * read nothing. There must be room. */
bool source_read(struct source *source);

#endif
