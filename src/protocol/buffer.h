/* SPDX-License-Identifier: MIT
 *
 * A growing run of bytes: what a connection still has to send. Bounded: an append that would pass
 * `capacity_max`, or finds no memory, sets `failed`, which sticks; test it once, at the end. */
#ifndef WEIR_PROTOCOL_BUFFER_H
#define WEIR_PROTOCOL_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    char *at;
    size_t length;
    size_t capacity;
    size_t capacity_max;
    bool failed;
};

void buffer_init(struct buffer *buffer, size_t capacity_max);
void buffer_fini(struct buffer *buffer);

/* Makes room for `count` more bytes and returns where they go, or NULL once failed. The caller then
 * writes at most that many and adds what it wrote to `length`. */
char *buffer_reserve(struct buffer *buffer, size_t count);

void buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_append_text(struct buffer *buffer, const char *text);
__attribute__((format(printf, 2, 3))) void buffer_printf(struct buffer *buffer, const char *format,
                                                         ...);

/* Forgets the first `count` bytes. */
void buffer_consume(struct buffer *buffer, size_t count);

#endif
