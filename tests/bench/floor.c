/* SPDX-License-Identifier: MIT
 *
 * A server that parses nothing: the price of the sockets alone. One epoll thread; for every
 * REQUEST_BYTES that arrive it answers the same REPLY_FILE, one write per read.
 *
 *     bench_floor PORT|/unix/path REQUEST_BYTES REPLY_FILE */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

enum { FD_MAX = 4096, READ_BYTES = 64 * 1024, REPLY_MAX = 4096, EVENTS = 256 };

static size_t request_bytes, reply_bytes;
static size_t pending_bytes[FD_MAX]; // what of a request each connection has sent so far
static char output[READ_BYTES * 64];

static int listen_at(const char *address)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in internet = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)atoi(address))};
    bool is_unix = address[0] == '/';
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    snprintf(local.sun_path, sizeof local.sun_path, "%s", address);
    int failed = is_unix ? bind(fd, (struct sockaddr *)&local, sizeof local)
                         : bind(fd, (struct sockaddr *)&internet, sizeof internet);
    if (failed || listen(fd, 512) != 0) {
        perror(address);
        exit(1);
    }
    return fd;
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void accept_one(int epoll, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    if (fd >= FD_MAX) {
        close(fd);
        return;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pending_bytes[fd] = 0;
    watch(epoll, fd);
}

static void answer(int fd)
{
    static char input[READ_BYTES];
    ssize_t got = read(fd, input, sizeof input);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) {
            close(fd);
        }
        return;
    }
    size_t bytes = pending_bytes[fd] + (size_t)got;
    size_t count = bytes / request_bytes;
    pending_bytes[fd] = bytes % request_bytes;
    if (count > 0 && write(fd, output, count * reply_bytes) < 0) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: bench_floor PORT|PATH REQUEST_BYTES REPLY_FILE\n");
        return 2;
    }
    char reply[REPLY_MAX];
    FILE *file = fopen(argv[3], "rb");
    request_bytes = strtoull(argv[2], NULL, 10);
    if (file == NULL || request_bytes == 0) {
        return 2;
    }
    reply_bytes = fread(reply, 1, sizeof reply, file);
    fclose(file);
    for (size_t at = 0; at + reply_bytes <= sizeof output; at += reply_bytes) {
        memcpy(output + at, reply, reply_bytes);
    }
    int epoll = epoll_create1(0);
    int listener = listen_at(argv[1]);
    watch(epoll, listener);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener) {
                accept_one(epoll, listener);
            } else {
                answer(events[i].data.fd);
            }
        }
    }
}
