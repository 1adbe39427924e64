/* SPDX-License-Identifier: MIT
 *
 * Recordings: whatever their lines are, each is an arrival within its line and its ranges, or says why
 * it is none. The first line is the key that is asked for, and what follows the recording. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/simulate/arrival.h"
#include "weir/limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next line, in memory of exactly its size: a step too far is seen. */
static char *next_line(struct bytes *rest, struct bytes *line)
{
    const char *newline = rest->length > 0 ? memchr(rest->at, '\n', rest->length) : NULL;
    size_t length = newline != NULL ? (size_t)(newline - rest->at) : rest->length;
    char *copy = malloc(length + 1);
    assert(copy != NULL);
    char *exact = copy + 1; // at the end of its block; a byte before it belongs to nobody either
    memcpy(exact, rest->at, length);
    *line = (struct bytes){exact, length};
    size_t used = length + (newline != NULL);
    *rest = (struct bytes){rest->at + used, rest->length - used};
    return copy;
}

static void read_one(const struct arrival_reader *reader, struct bytes line)
{
    struct arrival arrival;
    if (arrival_read(reader, line, &arrival) != NULL) {
        return;
    }
    assert(arrival.at_ns <= WEIR_NOW_NS_MAX);
    assert(arrival.cost_micro <= WEIR_COST_MAX);
    assert(arrival.key.at >= line.at
           && arrival.key.at + arrival.key.length <= line.at + line.length);
    if (arrival.key_is_doubled) {
        size_t length = arrival.key.length;
        char *room = malloc(length);
        assert(room != NULL);
        arrival_undouble(&arrival, room);
        assert(arrival.key.length < length && !arrival.key_is_doubled);
        free(room);
    }
}

static void read_all(enum arrival_format format, const char *key, struct bytes rest)
{
    struct arrival_reader reader = {.format = format, .key = key, .unit_power = 9};
    bool begun = false;
    while (rest.length > 0) {
        struct bytes line;
        char *copy = next_line(&rest, &line);
        if (!arrival_is_blank(line)) {
            const char *why;
            enum arrival_begin begin = begun ? BEGIN_ARRIVAL : arrival_begin(&reader, line, &why);
            begun = begin != BEGIN_UNKNOWN;
            if (begin == BEGIN_NEVER) {
                assert(why != NULL);
                rest.length = 0;
            } else if (begin == BEGIN_ARRIVAL) {
                read_one(&reader, line);
            }
        }
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes rest = {(const char *)data, size};
    struct bytes first;
    char *copy = next_line(&rest, &first);
    char key[32] = "";
    memcpy(key, first.at, first.length < sizeof key ? first.length : sizeof key - 1);
    for (int format = FORMAT_DETECT; format <= FORMAT_COMBINED; format++) {
        read_all((enum arrival_format)format, key[0] != '\0' ? key : NULL, rest);
    }
    free(copy);
    return 0;
}
