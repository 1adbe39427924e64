/* SPDX-License-Identifier: MIT
 *
 * Where to listen, as a person writes it: "127.0.0.1:6390", "[::1]:6390", "localhost:0", ":6390"
 * (every interface), "unix:/run/weir/weir.sock". And networks, "10.0.0.0/8". */
#ifndef WEIR_SERVER_ADDRESS_H
#define WEIR_SERVER_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "protocol/engine.h"

enum {
    ADDRESS_HOST_BYTES_MAX = 253 + 1, // a name of RFC 1035, and a NUL
    ADDRESS_TEXT_BYTES_MAX = 128      // any socket address in words
};

/*   is_unix  then `path`, else `host` (empty: every interface) and `port` (0: a free one) */
struct address {
    bool is_unix;
    uint16_t port;
    char host[ADDRESS_HOST_BYTES_MAX];
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
};

/* Returns NULL, or what is wrong with the text: a static string. Thread-safe. */
const char *address_parse(struct address *address, const char *text);

/* A socket address as the kernel knows it. */
struct socket_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
        struct sockaddr_storage storage;
    };
    socklen_t length;
};

enum { ADDRESS_RESOLVED_COUNT_MAX = 8 };

/* Looks a TCP address up: names through the system's resolver, which may block; numbers directly.
 * Fills at most ADDRESS_RESOLVED_COUNT_MAX, returns how many; 0 and *why (static) if none. */
size_t address_resolve(const struct address *address, struct socket_address *resolved,
                       const char **why);

/* Who can reach it? Only processes of this machine: 127.0.0.0/8, ::1, unix sockets. */
bool address_is_local(const struct socket_address *address);

/* "127.0.0.1:6390", "[::1]:6390", "unix:/path". Cut to fit. */
void address_print(const struct socket_address *address, char *text, size_t size);

/* The address's 16 bytes, IPv4 mapped into IPv6. False for unix sockets. */
bool address_bytes(const struct socket_address *address, uint8_t bytes[16]);

/* "10.0.0.0/8", "2001:db8::/32", or one address. Returns NULL, or what is wrong. */
const char *address_parse_cidr(struct cidr *cidr, const char *text);

#endif
