/* SPDX-License-Identifier: MIT */
#include "protocol/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_CAPACITY_MIN = 512 };

void buffer_init(struct buffer *buffer, size_t capacity_max)
{
    *buffer = (struct buffer){.capacity_max = capacity_max};
}

void buffer_fini(struct buffer *buffer)
{
    free(buffer->at);
    *buffer = (struct buffer){.capacity_max = buffer->capacity_max};
}

char *buffer_reserve(struct buffer *buffer, size_t count)
{
    if (buffer->failed || count > buffer->capacity_max - buffer->length) {
        buffer->failed = true;
        return NULL;
    }
    size_t needed = buffer->length + count;
    if (needed > buffer->capacity) {
        size_t capacity = buffer->capacity > 0 ? buffer->capacity : BUFFER_CAPACITY_MIN;
        while (capacity < needed) {
            capacity *= 2;
        }
        char *at = realloc(buffer->at, capacity);
        if (at == NULL) {
            buffer->failed = true;
            return NULL;
        }
        buffer->at = at;
        buffer->capacity = capacity;
    }
    return buffer->at + buffer->length;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t count)
{
    if (count == 0) { // perhaps to an empty buffer, which has no memory yet
        return;
    }
    char *at = buffer_reserve(buffer, count);
    if (at != NULL) {
        memcpy(at, bytes, count);
        buffer->length += count;
    }
}

void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(length >= 0);
    char *at = buffer_reserve(buffer, (size_t)length + 1);
    if (at == NULL) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(at, (size_t)length + 1, format, args);
    va_end(args);
    buffer->length += (size_t)length;
}

void buffer_consume(struct buffer *buffer, size_t count)
{
    assert(count <= buffer->length);
    if (count > 0 && count < buffer->length) {
        memmove(buffer->at, buffer->at + count, buffer->length - count);
    }
    buffer->length -= count;
}
