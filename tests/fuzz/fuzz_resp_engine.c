/* SPDX-License-Identifier: MIT
 *
 * The RESP engine: any bytes, in one read and in many, are answered the same, by well-formed replies; and with a
 * store that answers later as with one that decides at once. The first byte chooses the configuration, the
 * second the size of the reads. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../support/resp_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void configure(struct world *world, uint8_t choice)
{
    require(resp_world_open(world, WEIR_MEMORY_BYTES_MIN));
    if ((choice & 1) != 0) {
        world->config.password = "secret";
        world->config.password_len = 6;
    }
    if ((choice & 2) != 0) {
        world->ops.test_clock_set = NULL;
    }
    world->service.now_ns = (choice & 4) != 0 ? WEIR_NOW_NS_MAX : 1000000000;
}

/* Sends all of it in reads of `step` bytes, as long as the connection is open. */
static void run(struct world *world, const uint8_t *data, size_t size, size_t step)
{
    enum engine_state state = ENGINE_OPEN;
    for (size_t at = 0; at < size && state == ENGINE_OPEN; at += step) {
        size_t length = size - at < step ? size - at : step;
        state = world_feed(world, data + at, length);
    }
}

/* One line, without its end; the reader moves behind it. */
static struct bytes read_line(struct bytes *rest)
{
    const char *end = memmem(rest->at, rest->length, "\r\n", 2);
    require(end != NULL);
    struct bytes line = {rest->at, (size_t)(end - rest->at)};
    require(line.length > 0 && memchr(line.at, '\n', line.length) == NULL);
    rest->length -= line.length + 2;
    rest->at = end + 2;
    return line;
}

static long read_count(struct bytes line)
{
    char digits[24];
    char *end;
    require(line.length >= 2 && line.length <= sizeof digits);
    memcpy(digits, line.at + 1, line.length - 1);
    digits[line.length - 1] = '\0';
    long count = strtol(digits, &end, 10);
    require(*end == '\0');
    return count;
}

/* Replies have few levels: COMMAND's are arrays of arrays of arrays, in one of EXEC at most. */
static void check_reply(struct bytes *rest, unsigned depth)
{
    struct bytes line = read_line(rest);
    long count = line.at[0] == '+' || line.at[0] == '-' || line.at[0] == '_' ? 0 : read_count(line);
    require(depth < 5);
    switch (line.at[0]) {
    case '+':
    case '-':
    case ':': break;
    case '_': require(line.length == 1); break;
    case '$':
    case '=':
        if (count >= 0) {
            require(rest->length >= (size_t)count + 2 && memcmp(rest->at + count, "\r\n", 2) == 0);
            rest->at += count + 2;
            rest->length -= (size_t)count + 2;
        } else {
            require(count == -1);
        }
        break;
    case '*':
    case '%':
        require(count >= -1);
        for (long i = 0; i < (line.at[0] == '%' ? 2 * count : count); i++) {
            check_reply(rest, depth + 1);
        }
        break;
    default: abort();
    }
}

/* TIME is the one answer that depends on when it is given. */
static bool asks_the_time(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 4 <= size; i++) {
        if (strncasecmp((const char *)data + i, "time", 4) == 0) {
            return true;
        }
    }
    return false;
}

/* In parts the same is answered; only that the end is bad may not be known yet, because more would
 * have to come before the engine looks again. */
static void compare(const struct buffer *whole, const struct buffer *parts)
{
    static const char BAD[] = "-ERR Protocol error: ";
    require(parts->length <= whole->length);
    require(parts->length == 0 || memcmp(whole->at, parts->at, parts->length) == 0);
    size_t more = whole->length - parts->length;
    require(more == 0
            || (more > sizeof BAD && memcmp(whole->at + parts->length, BAD, sizeof BAD - 1) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 64 * 1024) {
        return 0;
    }
    struct world whole;
    struct world parts;
    struct world later;
    configure(&whole, data[0]);
    configure(&parts, data[0]);
    configure(&later, data[0]);
    world_answer_later(&later, 100, data[1]);
    run(&whole, data + 2, size - 2, size);
    run(&parts, data + 2, size - 2, (size_t)data[1] + 1);
    run(&later, data + 2, size - 2, (size_t)data[1] + 1);
    require(!whole.output.failed && !parts.output.failed);
    if (!asks_the_time(data + 2, size - 2)) {
        compare(&whole.output, &parts.output);
        require(later.output.length == parts.output.length);
        require(parts.output.length == 0
                || memcmp(later.output.at, parts.output.at, parts.output.length) == 0);
    }
    struct bytes rest = {whole.output.at, whole.output.length};
    while (rest.length > 0) {
        check_reply(&rest, 0);
    }
    world_close(&whole);
    world_close(&parts);
    world_close(&later);
    return 0;
}
