/* SPDX-License-Identifier: MIT */
#include "server/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/quantity.h"

static const uint8_t V4_MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static const char *parse_unix(struct address *address, const char *path)
{
    size_t length = strlen(path);
    if (length == 0) {
        return "the path of the unix socket is missing: unix:/path";
    }
    if (length >= sizeof address->path) {
        return "the path of a unix socket has at most 107 bytes";
    }
    memcpy(address->path, path, length + 1);
    address->is_unix = true;
    return NULL;
}

static const char *parse_host(struct address *address, const char *host, size_t length)
{
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
        if (length == 0) {
            return "there is no address between [ and ]";
        }
    } else if (memchr(host, ':', length) != NULL) {
        return "an IPv6 address stands in brackets: [::1]:6390";
    }
    if (length >= sizeof address->host) {
        return "the host name is longer than 253 bytes";
    }
    memcpy(address->host, host, length);
    address->host[length] = '\0';
    return NULL;
}

const char *address_parse(struct address *address, const char *text)
{
    *address = (struct address){0};
    if (strncmp(text, "unix:", 5) == 0) {
        return parse_unix(address, text + 5);
    }
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return "no port: write HOST:PORT, [IPV6]:PORT, :PORT or unix:/PATH";
    }
    uint64_t port;
    if (!quantity_parse_count(colon + 1, 0, UINT16_MAX, &port)) {
        return "the port is a number from 0 to 65535";
    }
    address->port = (uint16_t)port;
    return parse_host(address, text, (size_t)(colon - text));
}

static size_t resolve_host(const struct address *address, int flags,
                           struct socket_address *resolved, const char **why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | flags};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(address->host, NULL, &hints, &list);
    if (error != 0) {
        *why = gai_strerror(error);
        return 0;
    }
    size_t count = 0;
    for (struct addrinfo *at = list; at != NULL && count < ADDRESS_RESOLVED_COUNT_MAX;
         at = at->ai_next) {
        if (at->ai_family != AF_INET && at->ai_family != AF_INET6) {
            continue;
        }
        struct socket_address *one = &resolved[count++];
        *one = (struct socket_address){.length = at->ai_addrlen};
        memcpy(&one->storage, at->ai_addr, at->ai_addrlen);
        if (at->ai_family == AF_INET) {
            one->v4.sin_port = htons(address->port);
        } else {
            one->v6.sin6_port = htons(address->port);
        }
    }
    freeaddrinfo(list);
    *why = "it has no IPv4 or IPv6 address";
    return count;
}

size_t address_resolve(const struct address *address, struct socket_address *resolved,
                       const char **why)
{
    assert(!address->is_unix);
    if (address->host[0] == '\0') {
        resolved[0] = (struct socket_address){.length = sizeof resolved[0].v6};
        resolved[0].v6 = (struct sockaddr_in6){
            .sin6_family = AF_INET6, .sin6_port = htons(address->port), .sin6_addr = in6addr_any};
        return 1;
    }
    /* Numbers first: the resolver for names loads half a dozen libraries. */
    size_t count = resolve_host(address, AI_NUMERICHOST, resolved, why);
    return count > 0 ? count : resolve_host(address, 0, resolved, why);
}

bool address_bytes(const struct socket_address *address, uint8_t bytes[16])
{
    if (address->any.sa_family == AF_INET) {
        memcpy(bytes, V4_MAPPED, sizeof V4_MAPPED);
        memcpy(bytes + sizeof V4_MAPPED, &address->v4.sin_addr, 4);
        return true;
    }
    if (address->any.sa_family == AF_INET6) {
        memcpy(bytes, &address->v6.sin6_addr, 16);
        return true;
    }
    return false;
}

bool address_is_local(const struct socket_address *address)
{
    uint8_t bytes[16];
    if (!address_bytes(address, bytes)) {
        return address->any.sa_family == AF_UNIX;
    }
    if (memcmp(bytes, V4_MAPPED, sizeof V4_MAPPED) == 0) {
        return bytes[sizeof V4_MAPPED] == 127;
    }
    return memcmp(bytes, &in6addr_loopback, 16) == 0;
}

void address_print(const struct socket_address *address, char *text, size_t size)
{
    char number[INET6_ADDRSTRLEN];
    if (address->any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &address->v4.sin_addr, number, sizeof number);
        (void)snprintf(text, size, "%s:%u", number, ntohs(address->v4.sin_port));
    } else if (address->any.sa_family == AF_INET6) {
        bool mapped = memcmp(&address->v6.sin6_addr, V4_MAPPED, sizeof V4_MAPPED) == 0;
        if (mapped) { // a client of a listener on every interface
            (void)inet_ntop(AF_INET, address->v6.sin6_addr.s6_addr + 12, number, sizeof number);
        } else {
            (void)inet_ntop(AF_INET6, &address->v6.sin6_addr, number, sizeof number);
        }
        (void)snprintf(text, size, mapped ? "%s:%u" : "[%s]:%u", number,
                       ntohs(address->v6.sin6_port));
    } else {
        bool named = address->length > offsetof(struct sockaddr_un, sun_path);
        (void)snprintf(text, size, named ? "unix:%s" : "unix%s",
                       named ? address->local.sun_path : "");
    }
}

const char *address_parse_cidr(struct cidr *cidr, const char *text)
{
    char host[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof host) {
        return "not an address";
    }
    memcpy(host, text, length);
    host[length] = '\0';

    *cidr = (struct cidr){0};
    uint64_t bits_max = 128;
    if (inet_pton(AF_INET, host, cidr->address + sizeof V4_MAPPED) == 1) {
        memcpy(cidr->address, V4_MAPPED, sizeof V4_MAPPED);
        bits_max = 32;
    } else if (inet_pton(AF_INET6, host, cidr->address) != 1) {
        return "not an address: write 10.0.0.0/8 or 2001:db8::/32";
    }
    uint64_t bits = bits_max;
    if (slash != NULL && !quantity_parse_count(slash + 1, 0, bits_max, &bits)) {
        return "the prefix is a number of bits, at most 32 for IPv4 and 128 for IPv6";
    }
    cidr->prefix_bits = (unsigned)(bits + (128 - bits_max));
    return NULL;
}
