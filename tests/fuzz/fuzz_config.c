/* SPDX-License-Identifier: MIT
 *
 * Configurations: whatever is read can be looked up, and what is not is explained, at a place that is
 * in the file. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void require_limits(const struct names *names)
{
    for (size_t i = 0; i < names_limit_count(names); i++) {
        const struct named_limit *limit = names_limit(names, i);
        require(limit->index == i);
        require(names_find(names, limit->name, strlen(limit->name)).limit == limit);
        for (size_t k = 0; k < limit->override_count; k++) {
            struct bytes key = limit->overrides[k].key;
            const struct named_rule *rule = named_limit_rule(limit, key.at, key.length);
            require(memchr(key.at, '*', key.length) != NULL
                    || rule == &limit->overrides[k].numbers);
        }
    }
}

static void require_chains(const struct names *names)
{
    static char room[CHAIN_KEYS_BYTES_MAX];
    static const struct bytes KEY = {"key", 3};
    for (size_t i = 0; i < names_chain_count(names); i++) {
        const struct named_chain *chain = names_chain(names, i);
        const struct variables none = {0};
        struct bytes keys[CHAIN_LINK_COUNT_MAX];
        struct weir_error error;
        size_t used = 0;
        require(chain->link_count >= 1 && chain->link_count <= CHAIN_LINK_COUNT_MAX);
        require(names_find(names, chain->name, strlen(chain->name)).chain == chain);
        if (chain_fill_in(chain, KEY, &none, room, sizeof room, &used, keys, &error) != WEIR_OK) {
            require(error.message[0] != '\0');
        }
        require(used <= sizeof room);
    }
}

static void require_routes(const struct names *names)
{
    for (size_t i = 0; i < names_route_count(names); i++) {
        const struct route *route = names_route_at(names, i);
        struct bytes path;
        char *room = malloc(route->path.length);
        require(room != NULL && route_path(route->path, room, &path));
        require(path.length == route->path.length);
        require(memcmp(path.at, route->path.at, path.length) == 0);
        const struct route *found = names_route(names, (struct bytes){"GET", 3}, path);
        require(found == NULL || found <= route || (route->methods & 1) == 0);
        free(room);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_error error;
    char *text = malloc(size + 1); // of its own, so that a sanitizer sees the end
    require(text != NULL);
    memcpy(text, data, size);
    struct names *names = config_parse(text, size, &error);
    free(text);
    if (names == NULL) {
        require(error.message[0] != '\0');
        require(error.line <= size + 2);
        return 0;
    }
    require_limits(names);
    require_chains(names);
    require_routes(names);
    names_close(names);
    return 0;
}
