/* SPDX-License-Identifier: MIT */
#include "cli/simulate/input.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(INPUT_LINE_BYTES_MAX + 2 < INPUT_BYTES, "a whole line always fits");

bool input_open(struct input *input, const char *path)
{
    bool is_standard = path == NULL || strcmp(path, "-") == 0;
    struct stat status;
    *input = (struct input){.fd = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC),
                            .bytes_left = UINT64_MAX};
    if (input->fd < 0) {
        return false;
    }
    input->buffer = malloc(INPUT_BYTES);
    if (input->buffer == NULL) {
        input_close(input);
        errno = ENOMEM;
        return false;
    }
    if (fstat(input->fd, &status) == 0 && S_ISREG(status.st_mode)) {
        off_t origin = lseek(input->fd, 0, SEEK_CUR);
        input->bytes_at_most = (uint64_t)status.st_size;
        input->is_file = origin >= 0;
        input->origin = input->is_file ? (uint64_t)origin : 0;
    }
    return true;
}

bool input_again(struct input *input)
{
    if (!input->is_file || lseek(input->fd, (off_t)input->origin, SEEK_SET) < 0) {
        return false;
    }
    *input = (struct input){
        .fd = input->fd,
        .buffer = input->buffer,
        .bytes_left = input->bytes_read,
        .bytes_at_most = input->bytes_read,
        .is_file = true,
        .origin = input->origin,
    };
    return true;
}

void input_close(struct input *input)
{
    free(input->buffer);
    input->buffer = NULL;
    if (input->fd > STDIN_FILENO) {
        (void)close(input->fd);
    }
    input->fd = -1;
}

/* The next `length` bytes are a line, its end not among them. */
static enum input_status finish_line(struct input *input, size_t length, size_t end_length,
                                     struct bytes *line)
{
    bool is_rest = input->skipping;
    *line = (struct bytes){input->buffer + input->begin, length};
    input->begin += length + end_length;
    input->skipping = false;
    if (is_rest) {
        return INPUT_LONG;
    }
    input->line_number++;
    if (length > 0 && line->at[length - 1] == '\r') {
        line->length--;
    }
    return length > INPUT_LINE_BYTES_MAX ? INPUT_LONG : INPUT_LINE;
}

enum input_status input_next(struct input *input, struct bytes *line)
{
    size_t left = input->end - input->begin;
    const char *start = input->buffer + input->begin;
    const char *newline = left > 0 ? memchr(start, '\n', left) : NULL;
    if (newline != NULL) {
        return finish_line(input, (size_t)(newline - start), 1, line);
    }
    if (left > INPUT_LINE_BYTES_MAX) { // never look at these bytes again
        input->line_number += !input->skipping;
        input->skipping = true;
        input->begin = input->end;
        left = 0;
    }
    if (!input->ended) {
        return INPUT_DRY;
    }
    return left > 0 || input->skipping ? finish_line(input, left, 0, line) : INPUT_END;
}

void input_refill(struct input *input)
{
    size_t left = input->end - input->begin;
    assert(left <= INPUT_LINE_BYTES_MAX);
    memmove(input->buffer, input->buffer + input->begin, left);
    input->begin = 0;
    input->end = left;
    size_t room = INPUT_BYTES - left;
    room = room < input->bytes_left ? room : (size_t)input->bytes_left;
    ssize_t count = read(input->fd, input->buffer + left, room);
    if (count <= 0) {
        input->ended = true;
        input->failed = count < 0 && errno != EINTR ? errno : 0;
        return;
    }
    input->end += (size_t)count;
    input->bytes_read += (uint64_t)count;
    input->bytes_left -= (uint64_t)count;
}
