/* SPDX-License-Identifier: MIT
 *
 * The HTTP engine: any bytes, in one read and in many, are answered the same, by well-formed
 * replies; and with a store that answers later as with one that decides at once. The first byte chooses
 * the configuration, the second the size of the reads. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../support/http1_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void configure(struct world *world, uint8_t choice)
{
    require(http1_world_open(world, WEIR_MEMORY_BYTES_MIN));
    world->config.headers = (enum header_preset)(choice % 5);
    world->config.retry_after_date = (choice & 8) != 0;
    world->config.disclose_keys = (choice & 16) != 0;
    world->config.refused_status = (choice & 32) != 0 ? 403 : 429;
    world->config.trusted_proxies[0] = (struct cidr){.prefix_bits = choice >> 6 == 1 ? 0 : 128};
    world->config.trusted_proxy_count = 1;
    world->config.http_hosts[0] = "a"; // as the corpus says
    world->config.http_host_count = 1;
    world->peer.has_address = choice >> 6 != 3;
    world_connect(world);
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

/* Interim replies depend on how the bytes arrive: they are cut out. */
static size_t drop_continues(char *text, size_t length)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char *at;
    while (length > 0 && (at = memmem(text, length, interim, sizeof interim - 1)) != NULL) {
        size_t rest = length - (size_t)(at - text) - (sizeof interim - 1);
        memmove(at, at + sizeof interim - 1, rest);
        length -= sizeof interim - 1;
    }
    return length;
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
    require(later.output.length == parts.output.length);
    require(parts.output.length == 0
            || memcmp(later.output.at, parts.output.at, parts.output.length) == 0);
    size_t whole_length = drop_continues(whole.output.at, whole.output.length);
    size_t parts_length = drop_continues(parts.output.at, parts.output.length);
    require(whole_length == parts_length);
    if (whole_length > 0) {
        require(memcmp(whole.output.at, parts.output.at, whole_length) == 0);
        require(whole_length > 12 && memcmp(whole.output.at, "HTTP/1.1 ", 9) == 0);
    }
    world_close(&whole);
    world_close(&parts);
    world_close(&later);
    return 0;
}
