/* SPDX-License-Identifier: MIT
 *
 * Routes: which requests of a proxy's clients a limit is for. The first that matches counts. */
#include <assert.h>
#include <stdio.h>

#include "core/bucket_math.h"
#include "core/fail.h"
#include "limiter/names/names.h"
#include "limiter/names/names_state.h"

/* RFC 9110, section 9, and RFC 5789. */
static const char *const METHODS[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                      "CONNECT", "OPTIONS", "TRACE", "PATCH"};
enum { METHOD_COUNT = sizeof METHODS / sizeof METHODS[0] };

unsigned method_bit(struct bytes method)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++) {
        if (text_equals(method, (struct bytes){METHODS[i], strlen(METHODS[i])})) {
            return 1u << i;
        }
    }
    return 0;
}

const char *method_name(unsigned index)
{
    return index < METHOD_COUNT ? METHODS[index] : NULL;
}

/* ---- paths ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next byte of a path, decoded; how many bytes it was written with is added to *at. */
static char next_byte(struct bytes target, size_t *at)
{
    const char *here = target.at + *at;
    if (*here == '%' && target.length - *at > 2 && hex_digit(here[1]) >= 0
        && hex_digit(here[2]) >= 0) {
        *at += 3;
        return (char)(hex_digit(here[1]) << 4 | hex_digit(here[2]));
    }
    *at += 1;
    return *here;
}

/* A segment has ended: "." goes, and ".." takes the one before with it. `length` bytes of the path are
 * there, the last of them a slash or of the segment; what is returned ends behind a slash, or with the
 * segment. */
static size_t end_segment(const char *path, size_t length)
{
    size_t start = length;
    while (path[start - 1] != '/') {
        start--;
    }
    size_t segment = length - start;
    if (segment == 1 && path[start] == '.') {
        return start;
    }
    if (segment == 2 && path[start] == '.' && path[start + 1] == '.') {
        size_t before = start - 1;
        while (before > 0 && path[before - 1] != '/') {
            before--;
        }
        return before > 0 ? before : 1;
    }
    return length;
}

bool route_path(struct bytes target, char *room, struct bytes *path)
{
    size_t length = 0;
    size_t at = 0;
    if (target.length == 0 || target.at[0] != '/') {
        return false;
    }
    while (at < target.length && target.at[at] != '?' && target.at[at] != '#') {
        char c = next_byte(target, &at);
        if (c == '/' && length > 0) {
            length = end_segment(room, length);
            if (room[length - 1] == '/') {
                continue; // one slash is as good as two
            }
        }
        room[length++] = c;
    }
    *path = (struct bytes){room, end_segment(room, length)};
    return true;
}

/* A prefix in whole segments: "/api" is one of "/api" and "/api/users", not of "/apix". */
static bool covers(struct bytes prefix, struct bytes path)
{
    if (path.length < prefix.length || memcmp(path.at, prefix.at, prefix.length) != 0) {
        return false;
    }
    return path.length == prefix.length || prefix.at[prefix.length - 1] == '/'
           || path.at[prefix.length] == '/';
}

const struct route *names_route(const struct names *names, struct bytes method, struct bytes path)
{
    unsigned bit = names->route_count > 0 ? method_bit(method) : 0;
    for (size_t i = 0; i < names->route_count; i++) {
        const struct route *route = &names->routes[i];
        if ((route->methods == 0 || (route->methods & bit) != 0) && covers(route->path, path)) {
            return route;
        }
    }
    return NULL;
}

/* ---- adding ---- */

static enum weir_status check_path(struct bytes path, struct weir_error *error)
{
    char room[NAMES_PATH_BYTES_MAX];
    struct bytes normal;
    if (path.length == 0 || path.length > NAMES_PATH_BYTES_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "a path has 1 to %d bytes", NAMES_PATH_BYTES_MAX);
    }
    if (!route_path(path, room, &normal)) {
        return fail(error, WEIR_E_SYNTAX, 0, "a path begins with /");
    }
    if (!text_equals(normal, path)) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "paths are compared without %%XX, ?, //, . and ..: write it as %.*s",
                    text_shown(normal), normal.at);
    }
    return WEIR_OK;
}

/* True if the routes before leave nothing for this one. */
static bool is_covered(const struct names *names, unsigned methods, struct bytes path)
{
    unsigned taken = 0;
    for (size_t i = 0; i < names->route_count; i++) {
        const struct route *before = &names->routes[i];
        if (covers(before->path, path)) {
            if (before->methods == 0) {
                return true;
            }
            taken |= before->methods;
        }
    }
    return methods != 0 && (methods & ~taken) == 0;
}

static bool limit_and_overrides_count(const struct named_limit *limit, uint64_t cost_micro)
{
    bool counts = limit_counts(&limit->usual.rule.limit, cost_micro);
    for (size_t i = 0; counts && i < limit->override_count; i++) {
        counts = limit_counts(&limit->overrides[i].numbers.rule.limit, cost_micro);
    }
    return counts;
}

bool name_counts(struct name_found target, uint64_t cost_micro)
{
    bool counts = target.limit == NULL || limit_and_overrides_count(target.limit, cost_micro);
    for (size_t i = 0; target.chain != NULL && counts && i < target.chain->link_count; i++) {
        counts = limit_and_overrides_count(target.chain->links[i].limit, cost_micro);
    }
    return counts;
}

static struct too_small limit_never_holds(const struct named_limit *limit, uint64_t cost_micro)
{
    if (cost_micro > limit->usual.rule.limit.capacity_micro) {
        return (struct too_small){.limit = limit};
    }
    for (size_t i = 0; i < limit->override_count; i++) {
        const struct override *override = &limit->overrides[i];
        if (cost_micro > override->numbers.rule.limit.capacity_micro) {
            return (struct too_small){limit, override->key};
        }
    }
    return (struct too_small){.limit = NULL};
}

struct too_small name_never_holds(struct name_found target, uint64_t cost_micro)
{
    struct too_small never = {.limit = NULL};
    if (target.limit != NULL) {
        return limit_never_holds(target.limit, cost_micro);
    }
    for (size_t i = 0; never.limit == NULL && i < target.chain->link_count; i++) {
        never = limit_never_holds(target.chain->links[i].limit, cost_micro);
    }
    return never;
}

enum weir_status names_add_route(struct names *names, unsigned methods, struct bytes path,
                                 struct name_found target, uint64_t cost_micro,
                                 struct weir_error *error)
{
    assert((target.limit != NULL) != (target.chain != NULL) && cost_micro <= WEIR_COST_MAX);
    enum weir_status status = check_path(path, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (names->route_count == NAMES_ROUTE_COUNT_MAX) {
        return fail(error, WEIR_E_RANGE, 0, "there are more than %d routes", NAMES_ROUTE_COUNT_MAX);
    }
    if (is_covered(names, methods, path)) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "no request comes here: the routes before it take them all");
    }
    struct route route = {methods, names_keep(names, path), target, cost_micro};
    if (route.path.at == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory");
    }
    names->routes[names->route_count++] = route;
    return WEIR_OK;
}
