/* SPDX-License-Identifier: MIT
 *
 * What web pages may ask of a server that has no password.
 *
 * A browser on this machine reaches a server on loopback, and so does every page that the browser
 * shows. The page of another site cannot read the answer, but its POST or its <img> is counted all
 * the same. Three rules of browsers (the Fetch standard, and Fetch Metadata) tell such a request
 * from one that a program sends:
 *
 *   1. The browser itself writes Host, Origin and Sec-Fetch-Site. No script can change them.
 *   2. Beyond a short "safelist", a script may send a header field to another site only if that
 *      site permits it in answer to a preflight. This server permits nothing.
 *   3. An attacker can point a name at 127.0.0.1 (DNS rebinding). To the browser this server is
 *      then the page's own site, and rule 2 does not apply. But Host has the attacker's name.
 *
 * So Host has to be a name of this server, whatever the request asks for. A POST may not come from
 * a page of another site. And /v1/check charges by any method, but it is for proxies. They pass on
 * the header fields of their own client's request, where Origin and Sec-Fetch-Site are about the
 * site that the proxy guards. By rule 2 a field that proxies add shows that no page sent it.
 *
 * With a password there is nothing to look at: no page knows the password. Nor does a browser open
 * a unix socket. */
#include <string.h>
#include <strings.h>

#include "protocol/http1/http1_batch.h"

enum { SHOWN_BYTES_MAX = 100 }; // of a field, in an answer

static int shown(struct bytes text)
{
    return text.length < SHOWN_BYTES_MAX ? (int)text.length : SHOWN_BYTES_MAX;
}

/* Host names have no upper and lower case: RFC 9110, section 4.2.3. */
static bool is_same_name(struct bytes a, struct bytes b)
{
    return a.length == b.length && strncasecmp(a.at, b.at, a.length) == 0;
}

/* ---- Host ---- */

/* A name that --http-host has. */
static bool is_chosen_name(const struct service_config *config, struct bytes name)
{
    for (size_t i = 0; i < config->http_host_count; i++) {
        const char *chosen = config->http_hosts[i];
        if (is_same_name(name, (struct bytes){chosen, strlen(chosen)})) {
            return true;
        }
    }
    return false;
}

static struct bytes name_of(struct bytes authority)
{
    const char *colon = memchr(authority.at, ':', authority.length);
    return (struct bytes){authority.at,
                          colon != NULL ? (size_t)(colon - authority.at) : authority.length};
}

/* "localhost", "app.localhost", and the same with the dot of a complete name. Nobody can register a name below
 * .localhost, and Chromium and Firefox take them all for loopback without a look at the DNS: RFC 6761, section 6.3;
 * W3C, Secure Contexts, section 3.1. So no page of an attacker has such a name that could be rebound. A browser that
 * does ask the DNS can be deceived only by the resolver of its own network. */
static bool is_localhost(struct bytes name)
{
    static const char DOMAIN[] = ".localhost";
    size_t domain_len = sizeof DOMAIN - 1;
    name.length -= name.length > 0 && name.at[name.length - 1] == '.';
    if (name.length <= domain_len) {
        return http1_is_word(name, DOMAIN + 1);
    }
    return http1_is_word((struct bytes){name.at + name.length - domain_len, domain_len}, DOMAIN);
}

/* An address needs no look at the DNS, so it cannot be rebound. Without a Host no browser asks. */
static bool is_own_host(const struct service_config *config, struct bytes authority)
{
    uint8_t address[16];
    struct bytes name = name_of(authority);
    return authority.length == 0 || is_localhost(name) || is_chosen_name(config, name)
           || http1_read_address(authority, address);
}

/* ---- Pages of other sites ---- */

/* Origin = scheme "://" host [":" port]: RFC 6454, section 7. Both leave the usual port out. Behind
 * a proxy that changes Host, the page has a name that was chosen. "null" is nobody's. */
static bool is_own_origin(const struct service_config *config, struct bytes origin,
                          struct bytes authority)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(schemes[i]);
        if (origin.length > length && memcmp(origin.at, schemes[i], length) == 0) {
            struct bytes rest = {origin.at + length, origin.length - length};
            return is_same_name(rest, authority) || is_chosen_name(config, rest);
        }
    }
    return false;
}

/* The field that tells of another site, or HTTP1_FIELD_COUNT. Programs send neither. */
static enum http1_field find_other_site(const struct service_config *config,
                                        const struct http1_incoming *incoming,
                                        struct bytes authority)
{
    const struct http1_request *request = incoming->request;
    struct bytes origin = http1_slice_bytes(incoming->base, request->field[HTTP1_ORIGIN]);
    struct bytes site = http1_slice_bytes(incoming->base, request->field[HTTP1_SEC_FETCH_SITE]);
    if (http1_has(request, HTTP1_ORIGIN)
        && ((request->repeated >> HTTP1_ORIGIN & 1) != 0
            || !is_own_origin(config, origin, authority))) {
        return HTTP1_ORIGIN;
    }
    if (http1_has(request, HTTP1_SEC_FETCH_SITE)
        && ((request->repeated >> HTTP1_SEC_FETCH_SITE & 1) != 0
            || http1_is_word(site, "cross-site") || http1_is_word(site, "same-site"))) {
        return HTTP1_SEC_FETCH_SITE;
    }
    return HTTP1_FIELD_COUNT;
}

static bool starts_with(struct bytes name, const char *lower)
{
    size_t length = strlen(lower);
    return name.length >= length && http1_is_word((struct bytes){name.at, length}, lower);
}

/* Whether a proxy has put something into this request. Browsers do not speak HTTP/1.0. */
static bool is_from_proxy(const struct http1_incoming *incoming)
{
    struct bytes fields = http1_slice_bytes(incoming->base, incoming->request->fields);
    struct bytes name;
    struct bytes value;
    bool found = incoming->request->is_http10;
    for (size_t at = 0; !found && http1_field_next(fields, &at, &name, &value);) {
        found = starts_with(name, "x-forwarded-") || starts_with(name, "x-original-")
                || starts_with(name, "x-weir-") || http1_is_word(name, "x-real-ip")
                || http1_is_word(name, "forwarded") || http1_is_word(name, "via");
    }
    return found;
}

/* ---- The whole ---- */

static bool fail_host(struct http1_task *task, struct bytes authority)
{
    struct bytes name = name_of(authority);
    http1_task_fail(task, 421,
                    "Host '%.*s' is not this server's: if it should be, start the server"
                    " with --http-host %.*s",
                    shown(authority), authority.at, shown(name), name.at);
    task->reason = "foreign_host";
    task->why =
        "Host is not this server's: if it should be, start the server with --http-host NAME";
    return false;
}

#define PAGE_ASKS    "a web page of another site asks"
#define CHECK_REMEDY "a proxy that hands such a field on has to set X-Forwarded-For as well"
#define POST_REMEDY                                                                                \
    "without a password only this server's own may, under its Host or a name of --http-host"

static bool fail_page(struct http1_task *task, enum http1_field field, struct bytes value,
                      bool is_check)
{
    http1_task_fail(task, 403, PAGE_ASKS " (%s: %.*s): %s",
                    field == HTTP1_ORIGIN ? "Origin" : "Sec-Fetch-Site", shown(value), value.at,
                    is_check ? CHECK_REMEDY : POST_REMEDY);
    task->reason = "foreign_page";
    task->why = is_check ? PAGE_ASKS ": " CHECK_REMEDY : PAGE_ASKS ": " POST_REMEDY " NAME";
    return false;
}

bool http1_browser_admit(const struct service_config *config, struct http1_task *task,
                         const struct http1_incoming *incoming, struct bytes authority,
                         bool is_check)
{
    if (!incoming->session->has_address) {
        return true;
    }
    if (!is_own_host(config, authority)) {
        return fail_host(task, authority);
    }
    if (!is_check && incoming->request->method != HTTP1_POST) {
        return true;
    }
    enum http1_field field = find_other_site(config, incoming, authority);
    if (field == HTTP1_FIELD_COUNT || (is_check && is_from_proxy(incoming))) {
        return true;
    }
    return fail_page(task, field,
                     http1_slice_bytes(incoming->base, incoming->request->field[field]), is_check);
}
