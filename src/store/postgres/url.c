/* SPDX-License-Identifier: MIT */
#include "store/postgres/url.h"

#include <stdio.h>
#include <string.h>

#include "core/bytes.h"
#include "core/fail.h"

#define FORM "postgres://USER@HOST:PORT/DATABASE?OPTION=VALUE"

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* ---- the parts ---- */

/* Where they begin; an end is a pointer behind the last byte.
 *   user      behind "//"; has_user: there is an @
 *   user_end  the colon before the password, or else `at`
 *   at        the @, or else `user`
 *   options   the ?, or the end */
struct parts {
    const char *user, *user_end, *at, *options, *end;
};

static const char *find(const char *from, const char *end, const char *set)
{
    while (from < end && !is_one_of(*from, set)) {
        from++;
    }
    return from;
}

/* "host:5432,other", "[::1]:5432", or nothing. */
static bool are_hosts(const char *at, const char *end)
{
    while (at < end) {
        const char *host_end = find(at, end, ",");
        const char *port = *at == '[' ? find(at, host_end, "]") : at;
        for (port = find(port, host_end, ":"); port < host_end; port++) {
            if (*port != ':' && !(*port >= '0' && *port <= '9')) {
                return false;
            }
        }
        at = host_end < end ? host_end + 1 : end;
    }
    return true;
}

/* "name=value&name=value" */
static bool are_options(const char *at, const char *end)
{
    while (at < end) {
        const char *option_end = find(at, end, "&");
        const char *name_end = at;
        while (name_end < option_end
               && (is_one_of(*name_end, "_") || (*name_end >= 'a' && *name_end <= 'z'))) {
            name_end++;
        }
        if (name_end == at || name_end == option_end || *name_end != '='
            || find(name_end + 1, option_end, "=") != option_end) {
            return false;
        }
        at = option_end < end ? option_end + 1 : end;
    }
    return true;
}

/* "%41" is a byte. */
static bool are_escapes(const char *at, const char *end)
{
    static const char DIGITS[] = "0123456789abcdefABCDEF";
    for (at = find(at, end, "%"); at < end; at = find(at + 1, end, "%")) {
        if (!is_one_of(at[1], DIGITS) || !is_one_of(at[2], DIGITS)
            || (at[1] == '0' && at[2] == '0')) {
            return false;
        }
    }
    return true;
}

static bool find_parts(struct parts *parts, const char *text)
{
    bool is_short = strncmp(text, "postgres://", 11) == 0;
    if (!is_short && strncmp(text, "postgresql://", 13) != 0) {
        return false;
    }
    parts->end = text + strlen(text);
    parts->user = text + (is_short ? 11 : 13);
    parts->options = find(parts->user, parts->end, "?");
    const char *path = find(parts->user, parts->options, "/");
    const char *at = find(parts->user, path, "@");
    const char *host = at < path ? at + 1 : parts->user;
    parts->at = at < path ? at : parts->user;
    parts->user_end = find(parts->user, parts->at, ":");
    const char *options = parts->options < parts->end ? parts->options + 1 : parts->end;
    return find(host, parts->options, "@") == parts->options && are_hosts(host, path)
           && are_options(options, parts->end) && are_escapes(parts->user, parts->end);
}

/* ---- putting them together ---- */

/* A text that grows; too long a one is cut. */
struct writer {
    char *text;
    size_t size, length;
};

static void put(struct writer *writer, const char *from, const char *end)
{
    size_t room = writer->size - 1 - writer->length;
    size_t length = (size_t)(end - from) < room ? (size_t)(end - from) : room;
    memcpy(writer->text + writer->length, from, length);
    writer->length += length;
    writer->text[writer->length] = '\0';
}

static bool is_named(const char *option, const char *end, const char *name)
{
    size_t length = strlen(name);
    return (size_t)(end - option) > length && memcmp(option, name, length) == 0
           && option[length] == '=';
}

static bool is_own(const char *option, const char *end)
{
    return is_named(option, end, "prepare") || is_named(option, end, "deadline");
}

static bool is_secret(const char *option, const char *end)
{
    return is_named(option, end, "password") || is_named(option, end, "sslpassword");
}

/* All options but some. */
static void put_options(struct writer *writer, const struct parts *parts,
                        bool (*is_left_out)(const char *option, const char *end))
{
    char between = '?';
    for (const char *at = parts->options; at < parts->end;) {
        const char *option = at + 1;
        at = find(option, parts->end, "&");
        if (option < at && !is_left_out(option, at)) {
            put(writer, &between, &between + 1);
            put(writer, option, at);
            between = '&';
        }
    }
}

void postgres_url_show(const char *text, char *shown, size_t size)
{
    struct parts parts;
    if (!find_parts(&parts, text)) {
        (void)snprintf(shown, size, "postgres://...");
        return;
    }
    struct writer writer = {.text = shown, .size = size};
    put(&writer, text, parts.user_end);
    put(&writer, parts.at, parts.options);
    put_options(&writer, &parts, is_secret);
}

/* ---- reading ---- */

/* These return NULL, or what is wrong. */

static const char *read_prepare(struct postgres_url *url, struct bytes said)
{
    bool is_on = said.length == 10 && memcmp(said.at, "prepare=on", 10) == 0;
    bool is_off = said.length == 11 && memcmp(said.at, "prepare=off", 11) == 0;
    url->prepares = is_on;
    return is_on || is_off ? NULL : "prepare is on or off";
}

static const char *read_deadline(struct postgres_url *url, struct bytes said)
{
    static const char WRONG[] = "deadline is 1ms to 1000ms";
    const char *at = said.at + strlen("deadline="), *end = said.at + said.length;
    unsigned ms = 0;
    while (at < end && *at >= '0' && *at <= '9' && ms <= POSTGRES_DEADLINE_MS_MAX) {
        ms = ms * 10 + (unsigned)(*at++ - '0');
    }
    url->deadline_ms = ms;
    bool has_unit = end - at == 2 && memcmp(at, "ms", 2) == 0;
    return has_unit && ms > 0 && ms <= POSTGRES_DEADLINE_MS_MAX ? NULL : WRONG;
}

static enum weir_status read_own(struct postgres_url *url, const struct parts *parts,
                                 const char *text, struct weir_error *error)
{
    for (const char *at = parts->options; at < parts->end;) {
        const char *option = at + 1;
        at = find(option, parts->end, "&");
        struct bytes said = {option, (size_t)(at - option)};
        if (!is_own(option, at)) {
            continue;
        }
        const char *wrong =
            is_named(option, at, "prepare") ? read_prepare(url, said) : read_deadline(url, said);
        if (wrong != NULL) {
            return fail(error, WEIR_E_SYNTAX, (size_t)(option - text), "%s", wrong);
        }
    }
    return WEIR_OK;
}

enum weir_status postgres_url_parse(struct postgres_url *url, const char *text,
                                    struct weir_error *error)
{
    struct parts parts;
    if (strlen(text) >= POSTGRES_URL_MAX) {
        return fail(error, WEIR_E_SYNTAX, 0, "a URL of PostgreSQL has less than %d bytes",
                    POSTGRES_URL_MAX);
    }
    if (!find_parts(&parts, text)) {
        return fail(error, WEIR_E_SYNTAX, 0,
                    "a store in PostgreSQL is " FORM "; in a password, @ / ? : %% are written "
                    "%%40 %%2F %%3F %%3A %%25");
    }
    *url = (struct postgres_url){.prepares = true};
    struct writer writer = {.text = url->libpq, .size = sizeof url->libpq};
    put(&writer, text, parts.options);
    put_options(&writer, &parts, is_own);
    postgres_url_show(text, url->shown, sizeof url->shown);
    return read_own(url, &parts, text, error);
}
