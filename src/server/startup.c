/* SPDX-License-Identifier: MIT */
#include "server/startup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "protocol/resp/resp_parse.h"
#include "server/editions.h"
#include "server/stores.h"
#include "server/systemd.h"
#include "weir/version.h"

_Static_assert((int)PASSWORD_BYTES_MAX <= (int)RESP_STRANGER_BULK_BYTES_MAX,
               "every password can be said over RESP");

static const struct {
    const struct engine_ops *engine;
    const char *option, *variable, *default_address;
} PROTOCOL[PROTOCOL_COUNT] = {
    [PROTOCOL_RESP] = {&RESP_ENGINE, "--resp", "WEIR_RESP", "127.0.0.1:6390"},
    [PROTOCOL_HTTP] = {&HTTP1_ENGINE, "--http", "WEIR_HTTP", "127.0.0.1:8390"}};

static void complain_about(const char *name, enum protocol protocol, enum listener_result result)
{
    if (result == LISTENER_BUSY) {
        (void)fprintf(stderr,
                      "weir serve: %s is in use: another program listens there.\n"
                      "Choose another address with %s ADDR or %s=ADDR (port 0 takes a free one),\n"
                      "or switch it off with %s off.\n",
                      name, PROTOCOL[protocol].option, PROTOCOL[protocol].variable,
                      PROTOCOL[protocol].option);
    } else {
        const char *why = errno == EEXIST ? "something that is no socket has this name, and stays"
                                          : strerror(errno);
        (void)fprintf(stderr, "weir serve: cannot listen at %s (%s): %s\n", name,
                      PROTOCOL[protocol].option, why);
    }
}

/* Whoever can reach the port can spend everybody's limits: beyond this machine only with a
 * password. */
static bool is_permitted(const struct server *server, const struct socket_address *address,
                         const char *name, enum protocol protocol)
{
    if (address_is_local(address) || server->password.text != NULL) {
        return true;
    }
    (void)fprintf(stderr,
                  "weir serve: %s can be reached from other machines, and there is no password.\n"
                  "Give one with --password-file FILE, or listen on this machine only: %s %s\n",
                  name, PROTOCOL[protocol].option, PROTOCOL[protocol].default_address);
    return false;
}

static struct listener *next_listener(struct server *server, enum protocol protocol)
{
    if (server->listener_count == LISTENER_COUNT_MAX) {
        (void)fprintf(stderr, "weir serve: more than %d addresses\n", LISTENER_COUNT_MAX);
        return NULL;
    }
    struct listener *listener = &server->listeners[server->listener_count];
    *listener = (struct listener){.source = {SOURCE_LISTENER}, .engine = PROTOCOL[protocol].engine};
    return listener;
}

static int open_tcp(struct server *server, enum protocol protocol,
                    const struct socket_address *address)
{
    char name[ADDRESS_TEXT_BYTES_MAX];
    address_print(address, name, sizeof name);
    if (!is_permitted(server, address, name, protocol)) {
        return EXIT_USAGE;
    }
    struct listener *listener = next_listener(server, protocol);
    if (listener == NULL) {
        return EXIT_FAILED;
    }
    enum listener_result result = listener_open_tcp(listener, address, server->worker_count);
    if (result != LISTENER_OPEN) {
        complain_about(name, protocol, result);
        return EXIT_FAILED;
    }
    server->listener_count++;
    return EXIT_DONE;
}

static int open_unix(struct server *server, enum protocol protocol, const char *path)
{
    struct listener *listener = next_listener(server, protocol);
    if (listener == NULL) {
        return EXIT_FAILED;
    }
    enum listener_result result = listener_open_unix(listener, path, server->options.unix_mode);
    if (result != LISTENER_OPEN) {
        complain_about(path, protocol, result);
        return EXIT_FAILED;
    }
    server->listener_count++;
    return EXIT_DONE;
}

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

/* A name may stand for several addresses: localhost is ::1 and 127.0.0.1. Where the system has no
 * IPv6, the others are enough. */
static int open_resolved(struct server *server, enum protocol protocol,
                         const struct address *address)
{
    struct socket_address resolved[ADDRESS_RESOLVED_COUNT_MAX];
    const char *why = "";
    size_t count = address_resolve(address, resolved, &why);
    if (count == 0) {
        (void)fprintf(stderr, "weir serve: %s: cannot find the address of '%s': %s\n",
                      PROTOCOL[protocol].option, address->host, why);
        return EXIT_FAILED;
    }
    if (address->host[0] == '\0' && !has_ipv6()) { // every interface, then, is IPv4 alone
        resolved[0].length = sizeof resolved[0].v4;
        resolved[0].v4 =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(address->port)};
    }
    for (size_t i = 0; i < count; i++) {
        if (count > 1 && resolved[i].any.sa_family == AF_INET6 && !has_ipv6()) {
            continue;
        }
        int result = open_tcp(server, protocol, &resolved[i]);
        if (result != EXIT_DONE) {
            return result;
        }
    }
    return EXIT_DONE;
}

/* A socket of the service manager is named "resp" or "http"; without names the first is RESP and
 * the second HTTP. */
static int adopt(struct server *server, const struct systemd_sockets *sockets, size_t index,
                 bool *adopted)
{
    bool is_http = strncmp(sockets->names[index], "http", 4) == 0;
    bool is_resp = strncmp(sockets->names[index], "resp", 4) == 0;
    enum protocol protocol = is_http || (!is_resp && index == 1) ? PROTOCOL_HTTP : PROTOCOL_RESP;
    int fd = SYSTEMD_FD_FIRST + (int)index;
    struct listener *listener = next_listener(server, protocol);
    if (listener == NULL) {
        return EXIT_FAILED;
    }
    if (listener_adopt(listener, fd) != LISTENER_OPEN) {
        (void)fprintf(stderr, "weir serve: the socket handed over as fd %d does not listen\n", fd);
        return EXIT_FAILED;
    }
    server->listener_count++;
    adopted[protocol] = true;
    return is_permitted(server, &listener->address, listener->name, protocol) ? EXIT_DONE
                                                                              : EXIT_USAGE;
}

static int read_password(struct server *server)
{
    const char *path = server->options.password_file;
    const char *why = "";
    if (path == NULL) {
        return EXIT_DONE;
    }
    if (!password_read(&server->password, path, &why)) {
        (void)fprintf(stderr, "weir serve: no password from %s: %s\n", path, why);
        return EXIT_FAILED;
    }
    if (server->password.is_world_readable) {
        LOG(&server->log, LOG_WARN, "password_file", log_text("file", path),
            log_text("why", "every user of this machine can read it: chmod 0600"));
    }
    server->options.service.password = server->password.text;
    server->options.service.password_len = server->password.length;
    return EXIT_DONE;
}

int startup_open_listeners(struct server *server)
{
    int result = read_password(server);
    struct systemd_sockets sockets;
    bool adopted[PROTOCOL_COUNT] = {false};
    systemd_take_sockets(&sockets);
    for (size_t i = 0; i < sockets.count && result == EXIT_DONE; i++) {
        result = adopt(server, &sockets, i, adopted);
    }
    for (size_t i = 0; i < server->options.listen_count && result == EXIT_DONE; i++) {
        const struct listen_option *one = &server->options.listen[i];
        if (sockets.count > 0 && !server->options.listen_chosen[one->protocol]) {
            continue; // handed-over sockets stand in for the defaults
        }
        result = one->address.is_unix ? open_unix(server, one->protocol, one->address.path)
                                      : open_resolved(server, one->protocol, &one->address);
    }
    if (result == EXIT_DONE && server->listener_count == 0) {
        (void)fprintf(stderr, "weir serve: both --resp and --http are off: nothing to serve\n");
        result = EXIT_USAGE;
    }
    return result;
}

void startup_client_address(const struct server *server, enum protocol protocol, char *text,
                            size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct listener *listener = &server->listeners[i];
        struct socket_address address = listener->address;
        if (listener->engine->protocol != protocol || address.any.sa_family == AF_UNIX) {
            continue;
        }
        uint8_t bytes[16];
        static const uint8_t nothing[16] = {0};
        (void)address_bytes(&address, bytes);
        if (address.any.sa_family == AF_INET && address.v4.sin_addr.s_addr == INADDR_ANY) {
            address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        } else if (address.any.sa_family == AF_INET6 && memcmp(bytes, nothing, 16) == 0) {
            address.v6.sin6_addr = in6addr_loopback;
        }
        address_print(&address, text, size);
        return;
    }
}

/* The first unix socket of a protocol; "" without one. */
static const char *unix_address(const struct server *server, enum protocol protocol)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct listener *listener = &server->listeners[i];
        if (listener->engine->protocol == protocol && listener->address.any.sa_family == AF_UNIX) {
            return listener->name;
        }
    }
    return "";
}

/* The line to paste into another terminal; "" where nobody listens for RESP. */
static void write_example(const struct server *server, char *text, size_t size)
{
    char address[ADDRESS_TEXT_BYTES_MAX];
    startup_client_address(server, PROTOCOL_RESP, address, sizeof address);
    if (address[0] == '\0') {
        (void)snprintf(address, sizeof address, "%s", unix_address(server, PROTOCOL_RESP));
    }
    if (address[0] == '\0') {
        text[0] = '\0';
        return;
    }
    (void)snprintf(text, size, "%s take alice 10/s --server %s", program_invocation_name, address);
}

void startup_show_store(const struct server *server, char shown[STORE_SHOWN_MAX])
{
    const char *url = server->options.store != NULL ? server->options.store : "memory:";
    store_url_show(url, STORE_DRIVERS, shown, STORE_SHOWN_MAX);
}

/* "memory:, 256 MiB; all buckets are forgotten at exit". A database has no size of ours. */
static void print_store(const struct server *server)
{
    struct weir_limiter_stats stats;
    char url[STORE_SHOWN_MAX];
    weir_limiter_stats(server->limiter, &stats);
    startup_show_store(server, url);
    (void)fprintf(stderr, "  store  %s", url);
    if (stats.memory_bytes > 0) {
        (void)fprintf(stderr, ", %" PRIu64 " MiB", stats.memory_bytes >> 20);
    }
    (void)fprintf(stderr, "%s\n", server->is_stored ? "" : "; all buckets are forgotten at exit");
}

static void print_banner(const struct server *server, const char *example)
{
    (void)fprintf(stderr, "\nweir %s\n\n", WEIR_VERSION);
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct listener *listener = &server->listeners[i];
        (void)fprintf(stderr, "  %-6s %s\n",
                      listener->engine->protocol == PROTOCOL_RESP ? "RESP" : "HTTP",
                      listener->name);
    }
    print_store(server);
    if (editions_path(server)[0] != '\0') {
        (void)fprintf(stderr, "  names  %s\n", editions_path(server));
    }
    if (server->options.test_clock) {
        (void)fprintf(stderr, "  time   stands at 0 until WEIR.CLOCK moves it\n");
    }
    if (example[0] != '\0') {
        (void)fprintf(stderr, "\nTry it in another terminal:\n\n  %s\n", example);
    }
    (void)fprintf(stderr, "\nCtrl-C ends it.\n\n");
}

void startup_announce(struct server *server)
{
    char example[1024];
    write_example(server, example, sizeof example);
    if (!server->options.quiet && !server->log.json && isatty(STDERR_FILENO) == 1) {
        print_banner(server, example);
        return;
    }
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct listener *listener = &server->listeners[i];
        LOG(&server->log, LOG_INFO, "listening", log_text("protocol", listener->engine->name),
            log_text("address", listener->name));
    }
    struct weir_limiter_stats stats;
    char url[STORE_SHOWN_MAX];
    weir_limiter_stats(server->limiter, &stats);
    startup_show_store(server, url);
    LOG(&server->log, LOG_INFO, "store", log_text("url", url),
        log_number("bytes", stats.memory_bytes),
        log_text("note", server->is_stored ? "buckets stay when this process ends"
                                           : "all buckets are forgotten at exit"));
    if (editions_path(server)[0] != '\0') {
        LOG(&server->log, LOG_INFO, "configuration", log_text("file", editions_path(server)));
    }
    LOG(&server->log, LOG_INFO, "ready", log_text("version", WEIR_VERSION),
        log_number("pid", (uint64_t)getpid()), log_number("threads", server->worker_count),
        log_number("max_connections", server->connections_max),
        log_text("clock", server->options.test_clock ? "test" : "boot"),
        log_text("password", server->password.text != NULL ? "yes" : "no"),
        log_text("try", example));
}
