/* SPDX-License-Identifier: MIT */
#include "store/table/table_url.h"

#include <string.h>

#include "core/fail.h"
#include "core/quantity.h"
#include "weir/limiter.h"

enum { VALUE_MAX = 32 };

/* A text on its way through the parser. */
struct reader {
    const char *text;
    const char *at;
    struct weir_error *error;
};

static size_t offset_of(const struct reader *reader, const char *at)
{
    return (size_t)(at - reader->text);
}

static int hex_digit(char c)
{
    static const char DIGITS[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = c != '\0' ? strchr(DIGITS, c) : NULL;
    return found != NULL ? (int)(found - DIGITS) % 16 : -1;
}

/* A path up to `?`, in which %XX is a byte. */
static enum weir_status read_path(struct reader *reader, char path[STORE_PATH_MAX])
{
    const char *start = reader->at;
    size_t length = 0;
    if (start[0] == '/' && start[1] == '/') {
        if (start[2] != '/') {
            return fail(reader->error, WEIR_E_SYNTAX, offset_of(reader, start),
                        "a file is on this host: file:/path");
        }
        reader->at += 2; // file:///path, as other programs write it
    }
    if (*reader->at != '/') {
        return fail(reader->error, WEIR_E_SYNTAX, offset_of(reader, start),
                    "the path of a file starts with /: file:/path");
    }
    for (; *reader->at != '\0' && *reader->at != '?'; length++) {
        if (length == STORE_PATH_MAX - 1) {
            return fail(reader->error, WEIR_E_RANGE, offset_of(reader, reader->at),
                        "a path has at most %d bytes", STORE_PATH_MAX - 1);
        }
        path[length] = *reader->at++;
        if (path[length] == '%') {
            int high = hex_digit(reader->at[0]);
            int low = high >= 0 ? hex_digit(reader->at[1]) : -1;
            if (low < 0 || (high | low) == 0) {
                return fail(reader->error, WEIR_E_SYNTAX, offset_of(reader, reader->at - 1),
                            "%% and two digits from 01 to ff are a byte; %%25 is the character");
            }
            path[length] = (char)(high << 4 | low);
            reader->at += 2;
        }
    }
    path[length] = '\0';
    return WEIR_OK;
}

/* What each option may be; NULL, or what is wrong with the value. */

static const char *set_size(struct store_url *url, const char *value)
{
    uint64_t bytes;
    if (!quantity_parse_bytes(value, &bytes)) {
        return "a size is a number and K, M, G or T: size=64M";
    }
    url->bytes = bytes;
    return bytes < WEIR_MEMORY_BYTES_MIN || bytes > WEIR_MEMORY_BYTES_MAX ? "a size is 64K to 16T"
                                                                          : NULL;
}

static const char *set_events(struct store_url *url, const char *value)
{
    uint64_t bytes;
    if (!quantity_parse_bytes(value, &bytes)) {
        return "a size is a number and K, M, G or T: events=16M";
    }
    url->events_bytes = bytes;
    return bytes < WEIR_EVENTS_BYTES_MIN || bytes > WEIR_EVENTS_BYTES_MAX
               ? "the size for events is 4K to 1T"
               : NULL;
}

static const char *set_mode(struct store_url *url, const char *value)
{
    unsigned mode;
    if (!quantity_parse_mode(value, &mode) || (mode & ~0660U) != 0 || (mode & 0600) != 0600) {
        return "a mode is 0600, for one user, or 0660, for a group";
    }
    url->mode = mode;
    return NULL;
}

static const char *set_flush(struct store_url *url, const char *value)
{
    return quantity_parse_duration(&url->flush_every_ns, value, NULL) == WEIR_OK
               ? NULL
               : "a duration, for example flush=10s";
}

static const char *set_shared(struct store_url *url, const char *value)
{
    url->is_shared = strcmp(value, "yes") == 0;
    return url->is_shared || strcmp(value, "no") == 0 ? NULL : "shared is yes or no";
}

static const struct option_of_url {
    const char *name;
    bool kinds[2]; // by enum store_kind
    const char *(*set)(struct store_url *url, const char *value);
} OPTIONS[] = {
    {"size", {[STORE_MEMORY] = true, [STORE_FILE] = true}, set_size},
    {"events", {[STORE_MEMORY] = true, [STORE_FILE] = true}, set_events},
    {"shared", {[STORE_MEMORY] = true}, set_shared},
    {"mode", {[STORE_FILE] = true}, set_mode},
    {"flush", {[STORE_FILE] = true}, set_flush},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

/* One name=value, up to `&`. */
static enum weir_status read_option(struct reader *reader, struct store_url *url, unsigned *seen)
{
    const char *start = reader->at;
    size_t length = strcspn(start, "&");
    const char *equals = memchr(start, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - start) : length;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_of_url *option = &OPTIONS[i];
        if (equals == NULL || !option->kinds[url->kind] || strlen(option->name) != name_length
            || memcmp(option->name, start, name_length) != 0) {
            continue;
        }
        char value[VALUE_MAX] = "";
        size_t value_length = length - name_length - 1;
        memcpy(value, equals + 1, value_length < VALUE_MAX ? value_length : 0);
        const char *why = (*seen & 1U << i) != 0 ? "an option is given once" : NULL;
        why = why != NULL ? why : option->set(url, value);
        if (why != NULL) {
            return fail(reader->error, WEIR_E_SYNTAX, offset_of(reader, start), "%s", why);
        }
        *seen |= 1U << i;
        reader->at += length;
        return WEIR_OK;
    }
    return fail(reader->error, WEIR_E_SYNTAX, offset_of(reader, start), "the options are %s",
                url->kind == STORE_FILE ? "size=64M, events=16M, mode=0660 and flush=10s"
                                        : "size=64M, events=16M and shared=yes");
}

static enum weir_status read_options(struct reader *reader, struct store_url *url)
{
    unsigned seen = 0;
    enum weir_status status = WEIR_OK;
    if (*reader->at == '\0') {
        return WEIR_OK;
    }
    if (*reader->at != '?') {
        return fail(reader->error, WEIR_E_SYNTAX, offset_of(reader, reader->at),
                    "options begin with ?: memory:?shared=yes");
    }
    do {
        reader->at++;
        status = read_option(reader, url, &seen);
    } while (status == WEIR_OK && *reader->at == '&');
    return status;
}

enum weir_status store_url_parse(struct store_url *url, const char *text, struct weir_error *error)
{
    struct reader reader = {.text = text, .error = error};
    enum weir_status status = WEIR_OK;
    *url = (struct store_url){.mode = 0600};
    url->kind = strncmp(text, "file:", 5) == 0 ? STORE_FILE : STORE_MEMORY;
    reader.at = strchr(text, ':') + 1;
    if (url->kind == STORE_FILE) {
        status = read_path(&reader, url->path);
    }
    return status == WEIR_OK ? read_options(&reader, url) : status;
}
