/* SPDX-License-Identifier: MIT */
#include "cli/reply.h"

#include <string.h>

/* The line that starts at `at`, without its CR LF. */
static enum reply_result read_line(struct bytes input, size_t at, struct bytes *line)
{
    size_t left = input.length - at;
    const char *end = left > 0 ? memchr(input.at + at, '\n', left) : NULL;
    if (end == NULL) {
        return left > REPLY_LINE_BYTES_MAX ? REPLY_BAD : REPLY_MORE;
    }
    size_t length = (size_t)(end - input.at) - at;
    if (length == 0 || length > REPLY_LINE_BYTES_MAX || end[-1] != '\r') {
        return REPLY_BAD;
    }
    *line = (struct bytes){input.at + at, length - 1};
    return REPLY_DONE;
}

/* [-]digits, within 64 bits. */
static bool read_number(struct bytes text, int64_t *number)
{
    bool negative = text.length > 0 && text.at[0] == '-';
    uint64_t value = 0;
    if (text.length == negative || text.length > 19U + negative) {
        return false;
    }
    for (size_t i = negative; i < text.length; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.at[i] - '0'); // at most 19 digits: no overflow
    }
    if (value > INT64_MAX) {
        return false;
    }
    *number = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* One value at *at, which moves behind it. */
static enum reply_result read_item(struct bytes input, size_t *at, struct reply_item *item)
{
    struct bytes line;
    enum reply_result result = read_line(input, *at, &line);
    if (result != REPLY_DONE) {
        return result;
    }
    if (line.length == 0) {
        return REPLY_BAD;
    }
    *item = (struct reply_item){.type = line.at[0], .text = {line.at + 1, line.length - 1}};
    *at += line.length + 2;
    if (item->type == '+' || item->type == '-') {
        return REPLY_DONE;
    }
    if (!read_number(item->text, &item->number)) {
        return REPLY_BAD;
    }
    if (item->type == ':' || item->type == '*') {
        return REPLY_DONE;
    }
    if (item->type != '$' || item->number < 0 || item->number > REPLY_BULK_BYTES_MAX) {
        return REPLY_BAD;
    }
    size_t length = (size_t)item->number;
    if (input.length - *at < length + 2) {
        return REPLY_MORE;
    }
    item->text = (struct bytes){input.at + *at, length};
    *at += length + 2;
    return memcmp(item->text.at + length, "\r\n", 2) == 0 ? REPLY_DONE : REPLY_BAD;
}

/* How many values an array says to have. */
static bool is_count(int64_t number)
{
    return number >= 1 && number <= REPLY_ITEM_COUNT_MAX;
}

/* The values of an array of `count`, and of those within it, one after the other. */
static enum reply_result read_array(struct bytes input, size_t *at, size_t count,
                                    struct reply *reply)
{
    size_t inner = 0; // how many of an inner array are still to come
    reply->count = count;
    for (size_t i = 0; i < reply->count; i++) {
        struct reply_item *item = &reply->items[i];
        enum reply_result result = read_item(input, at, item);
        if (result != REPLY_DONE) {
            return result;
        }
        if (item->type != '*') {
            inner -= inner > 0;
            continue;
        }
        if (inner > 0 || !is_count(item->number)
            || (size_t)item->number > REPLY_ITEM_COUNT_MAX - reply->count) {
            return REPLY_BAD;
        }
        inner = (size_t)item->number;
        reply->count += inner;
    }
    return REPLY_DONE;
}

enum reply_result reply_parse(struct bytes input, struct reply *reply, size_t *used)
{
    size_t at = 0;
    enum reply_result result = read_item(input, &at, &reply->items[0]);
    if (result != REPLY_DONE) {
        return result;
    }
    reply->is_array = reply->items[0].type == '*';
    reply->count = 1;
    if (reply->is_array) {
        int64_t count = reply->items[0].number;
        result = is_count(count) ? read_array(input, &at, (size_t)count, reply) : REPLY_BAD;
    }
    *used = at;
    return result;
}

bool reply_is_error(const struct reply *reply, const char *prefix)
{
    struct bytes text = reply->items[0].text;
    size_t length = strlen(prefix);
    return !reply->is_array && reply->items[0].type == '-' && text.length >= length
           && memcmp(text.at, prefix, length) == 0;
}
