/* SPDX-License-Identifier: MIT
 *
 * Who the client is, when proxies stand in between.
 *
 * Every proxy appends the address that it saw to X-Forwarded-For, so the line is believable from the
 * right, as far as our own proxies reach: the first address from the right that is not a trusted
 * proxy's is the client's. What stands further left the client may have written himself. Without a
 * trusted proxy at the other end of the connection the line is not looked at.
 *
 * A peer on a unix socket has no address, and could only get there by the socket's permissions: it
 * is trusted.
 *
 * An IPv6 client owns a /64 and could take another address for every request, so the /64 is the
 * key. */
#include <arpa/inet.h>
#include <string.h>

#include "protocol/http1/http1_batch.h"
#include "protocol/http1/http1_text.h"

static const uint8_t MAPPED_PREFIX[12] = {[10] = 0xff, [11] = 0xff};

static bool is_ipv4(const uint8_t address[16])
{
    return memcmp(address, MAPPED_PREFIX, sizeof MAPPED_PREFIX) == 0;
}

static bool is_in(const uint8_t address[16], const struct cidr *cidr)
{
    size_t bytes = cidr->prefix_bits / 8;
    unsigned bits = cidr->prefix_bits % 8;
    return memcmp(address, cidr->address, bytes) == 0
           && (bits == 0 || (address[bytes] ^ cidr->address[bytes]) >> (8 - bits) == 0);
}

static bool is_trusted(const struct service_config *config, const uint8_t address[16])
{
    for (size_t i = 0; i < config->trusted_proxy_count; i++) {
        if (is_in(address, &config->trusted_proxies[i])) {
            return true;
        }
    }
    return false;
}

/* ---- Text to address ---- */

/* "a", "[a]" or either with ":port": the address alone. */
static struct bytes strip_port(struct bytes text)
{
    if (text.length > 0 && text.at[0] == '[') {
        const char *end = memchr(text.at, ']', text.length);
        return (struct bytes){text.at + 1, end != NULL ? (size_t)(end - text.at) - 1 : 0};
    }
    const char *colon = memchr(text.at, ':', text.length);
    if (colon != NULL && memchr(text.at, '.', (size_t)(colon - text.at)) != NULL) {
        text.length = (size_t)(colon - text.at);
    }
    return text;
}

bool http1_read_address(struct bytes text, uint8_t address[16])
{
    char bare[INET6_ADDRSTRLEN];
    text = strip_port(text);
    if (text.length == 0 || text.length >= sizeof bare) {
        return false;
    }
    memcpy(bare, text.at, text.length);
    bare[text.length] = '\0';
    memcpy(address, MAPPED_PREFIX, sizeof MAPPED_PREFIX);
    return inet_pton(AF_INET, bare, address + 12) == 1 || inet_pton(AF_INET6, bare, address) == 1;
}

/* ---- X-Forwarded-For, from the right ---- */

struct chain {
    struct bytes lines[HTTP1_FIELD_COUNT_MAX];
    size_t line_count; // lines that are left; the last one is cut from its end
};

static void read_chain(struct chain *chain, const struct http1_incoming *incoming)
{
    struct bytes fields = http1_slice_bytes(incoming->base, incoming->request->fields);
    struct bytes name;
    struct bytes value;
    chain->line_count = 0;
    for (size_t at = 0; http1_field_next(fields, &at, &name, &value);) {
        if (http1_is_word(name, "x-forwarded-for")) {
            chain->lines[chain->line_count++] = value;
        }
    }
}

/* Trims blanks, and empty elements with their commas, off the end. */
static void trim_end(struct bytes *line)
{
    while (line->length > 0 && strchr(" \t,", line->at[line->length - 1]) != NULL) {
        line->length--;
    }
}

/* Takes the rightmost element off the chain; false when there is none left. */
static bool chain_pop(struct chain *chain, struct bytes *element)
{
    while (chain->line_count > 0) {
        struct bytes *line = &chain->lines[chain->line_count - 1];
        trim_end(line);
        if (line->length == 0) {
            chain->line_count--;
            continue;
        }
        size_t start = line->length;
        while (start > 0 && strchr(" \t,", line->at[start - 1]) == NULL) {
            start--;
        }
        *element = (struct bytes){line->at + start, line->length - start};
        line->length = start;
        return true;
    }
    return false;
}

/* Walks to the left while the address is a trusted proxy's, or none was found; not at all if the
 * peer is a client. False if an element is no address. */
static bool follow_chain(const struct service_config *config, const struct http1_incoming *incoming,
                         uint8_t address[16], bool *found)
{
    struct chain chain;
    struct bytes element;
    read_chain(&chain, incoming);
    while (!*found || is_trusted(config, address)) {
        if (!chain_pop(&chain, &element)) {
            return true; // all of them are ours: the leftmost has to do
        }
        if (!http1_read_address(element, address)) {
            return false;
        }
        *found = true;
    }
    return true;
}

/* ---- Address to key ---- */

static char *put_hex16(char *at, unsigned value)
{
    int shift = 12;
    while (shift > 0 && value >> shift == 0) {
        shift -= 4;
    }
    for (; shift >= 0; shift -= 4) {
        *at++ = "0123456789abcdef"[value >> shift & 15];
    }
    return at;
}

/* The first 64 bits as RFC 5952 writes them: the longest run of zeroes is the one at the end. */
static char *put_ipv6_network(char *at, const uint8_t address[16])
{
    int groups = 4;
    while (groups > 0 && address[2 * groups - 2] == 0 && address[2 * groups - 1] == 0) {
        groups--;
    }
    for (int i = 0; i < groups; i++) {
        at = put_hex16(at, (unsigned)address[2 * i] << 8 | address[2 * i + 1]);
        *at++ = ':';
    }
    at = put_literal(at, ":");
    at = groups == 0 ? put_literal(at, ":") : at;
    return put_literal(at, "/64");
}

static char *put_ipv4(char *at, const uint8_t address[4])
{
    for (int i = 0; i < 4; i++) {
        at = put_u64(at, address[i]);
        *at++ = '.';
    }
    return at - 1;
}

size_t http1_client_address(const struct service_config *config, struct http1_task *task,
                            const struct http1_incoming *incoming, char *text)
{
    const struct http1_session *session = incoming->session;
    uint8_t address[16];
    memcpy(address, session->address, sizeof address);
    bool found = session->has_address && !is_trusted(config, address);
    if (http1_has(incoming->request, HTTP1_X_FORWARDED_FOR)
        && !follow_chain(config, incoming, address, &found)) {
        http1_task_fail(task, 400, "X-Forwarded-For, from the right: an element is no address");
        return 0;
    }
    if (!found) {
        http1_task_fail(
            task, 400,
            "by=address from a trusted proxy or over a unix socket needs the address in "
            "X-Forwarded-For");
        return 0;
    }
    char *end = is_ipv4(address) ? put_ipv4(text, address + 12) : put_ipv6_network(text, address);
    return (size_t)(end - text);
}
